"""What watching a training costs, on an 8-layer 512x512 network: time watched / plain, in pairs.

python tests/benchmarks/bench_watch.py [pairs]
"""

import statistics
import sys
import time

import tensorflow as tf

import cgviz

STEPS = 10


def network():
    """A function that takes one step of gradient descent."""
    tf.random.set_seed(0)
    weights = [tf.Variable(tf.random.normal((512, 512), stddev=0.06)) for _ in range(8)]
    x, y = tf.random.normal((512, 512)), tf.random.normal((512, 512))

    def step():
        with tf.GradientTape() as tape:
            h = x
            for w in weights:
                h = tf.nn.relu(h @ w)
            loss = tf.reduce_mean((h - y) ** 2)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.1 * g)

    return step


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main(pairs):
    step = network()
    step()
    for every in (1, 10):
        ratios = []
        for _ in range(pairs):
            plain = seconds(lambda: [step() for _ in range(STEPS)])
            ratios.append(seconds(lambda every=every: cgviz.watch(step, STEPS, every)) / plain)
        low, high = min(ratios), max(ratios)
        print(
            f"every={every}: {statistics.median(ratios):.2f} times plain ({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
