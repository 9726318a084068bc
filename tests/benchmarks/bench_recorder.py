"""What recording costs, as ratios against plain TensorFlow and a peer, measured in one run.

Prints medians over interleaved runs. The peer, torchlens, is optional: it needs PyTorch.
"""

from __future__ import annotations

import gc
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks

import cgviz


def seconds(run: Callable[[], Any]) -> float:
    """How long one run takes; what it returns is dropped after the clock has stopped."""
    start = time.perf_counter()
    kept = run()
    elapsed = time.perf_counter() - start
    del kept
    return elapsed


def cleanly(run: Callable[[], Any]) -> float:
    """The same, after collecting the garbage that other runs have left."""
    gc.collect()
    return seconds(run)


def compare(name: str, plain: Callable[[], Any], recorded: Callable[[], Any], runs: int) -> float:
    """Time both in turn and print the ratio of the medians."""
    plain(), recorded()
    pairs = [(seconds(plain), seconds(recorded)) for _ in range(runs)]
    base, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(
        f"{name:32} plain {base * 1e3:9.2f} ms  recorded {ours * 1e3:9.2f} ms  ratio {ratio:5.3f}"
    )
    return base


def chain(x: tf.Tensor, pairs: int) -> tf.Tensor:
    """Sine times x, `pairs` times over: scalars, so that nothing but overhead counts."""
    y = x
    for _ in range(pairs):
        y = tf.sin(y) * x
    return y


def forward_on_tape(pairs: int) -> tf.Tensor:
    """The chain on TensorFlow's own tape, without a gradient."""
    x = tf.constant(0.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        return chain(x, pairs)


def gradient_of_chain(pairs: int) -> tf.Tensor:
    """Forward and backward through the chain on TensorFlow's own tape."""
    x = tf.constant(0.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = chain(x, pairs)
    return tape.gradient(y, x)


def recording(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same run inside `cgviz.record()`, with the trace kept."""

    def recorded() -> Any:
        with cgviz.record() as trace:
            result = run()
        return trace, result

    return recorded


def holding(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same run, with every tensor that it makes kept and nothing recorded.

    This is the least that recording by reference can cost: memory that TensorFlow would have reused
    while it is still in a cache stays occupied, so new tensors are written elsewhere.
    """

    def held() -> Any:
        kept: list[Any] = []

        def keep(op_type: Any, inputs: Any, attrs: Any, outputs: Any, *_: Any) -> None:
            kept.append((inputs, outputs))

        op_callbacks.add_op_callback(keep)
        try:
            return kept, run()
        finally:
            op_callbacks.remove_op_callback(keep)

    return held


def network(batch: int) -> Callable[[], Any]:
    """Forward and backward through eight dense layers of 512 units."""
    weights = [tf.Variable(tf.random.normal((512, 512), stddev=0.05)) for _ in range(8)]
    data = tf.random.normal((batch, 512))

    def run() -> Any:
        with tf.GradientTape() as tape:
            h = data
            for w in weights:
                h = tf.nn.relu(tf.matmul(h, w))
            loss = tf.reduce_mean(h * h)
        return tape.gradient(loss, weights)

    return run


def torchlens_ratio(pairs: int) -> None:
    """How long the peer takes to record the same chain; it records the forward pass only."""
    try:
        import torchlens
    except ImportError:
        print("torchlens is not installed; to compare: pip install torchlens torch")
        return
    x = tf.constant(0.5)

    class Chain(tf.keras.Model):  # type: ignore[misc]
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return chain(x, pairs)

    peer = statistics.median(
        cleanly(lambda: torchlens.trace(Chain(), x, backend="tf")) for _ in range(3)
    )
    print(f"torchlens, chain of {pairs}, forward only: {peer * 1e3:.0f} ms")
    both = lambda: gradient_of_chain(pairs)  # noqa: E731
    for name, run in (
        ("cgviz, forward only", recording(lambda: forward_on_tape(pairs))),
        ("cgviz, forward and backward", recording(both)),
        ("plain TensorFlow, forward and backward", both),  # no recording of both can take less
    ):
        ours = statistics.median(cleanly(run) for _ in range(9))
        print(f"{name}: {ours * 1e3:.0f} ms, {peer / ours:.1f} times faster")


def memory_of_a_big_tensor() -> None:
    """Whether recording a 100 MB tensor copies it."""
    big = tf.ones((25_000_000,))
    with tf.GradientTape() as tape:
        tape.watch(big)
        total = tf.reduce_sum(big)
    del tape, total
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trace = cgviz.trace(tf.reduce_sum, big)
    assert trace.ops[0].outputs[0].reference is big
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory added by tracing a 100 MB tensor: {(after - before) / 1024:.0f} MB")
    print("  (its gradient, 100 MB, is TensorFlow's own and is there without a recording too)")


def memory_of_many_traces() -> None:
    """Resident memory over 2,000 traces in a row."""
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * x * dy))

    def resident() -> float:
        gc.collect()
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096 / 2**20

    sizes = []
    for _ in range(3):
        for _ in range(1000):
            cgviz.trace(square, 3.0, order=2)
        sizes.append(resident())
    print("resident MB after 1000, 2000 and 3000 traces:", *(f"{size:.1f}" for size in sizes))


def import_time() -> None:
    """What `import cgviz` adds to `import tensorflow`."""
    code = (
        "import time, tensorflow; t = time.perf_counter(); import cgviz; "
        "print(time.perf_counter() - t)"
    )
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    print(f"import cgviz after import tensorflow: {statistics.median(runs):.3f} s")


def main() -> None:
    """Run everything and print a line each."""
    per_op = {}
    for pairs, runs in ((10, 200), (100, 60), (1000, 21), (10_000, 5)):
        plain = lambda pairs=pairs: gradient_of_chain(pairs)  # noqa: E731
        compare(f"chain of {pairs} sin-mul pairs", plain, recording(plain), runs)
        ours = statistics.median(seconds(recording(plain)) for _ in range(min(runs, 9)))
        per_op[pairs] = ours / (2 * pairs) * 1e6
    print("recorded microseconds per forward op:", *(f"{n}: {t:.1f} " for n, t in per_op.items()))
    for batch, runs in ((512, 61), (2048, 31)):
        run = network(batch)
        compare(f"8 layers 512x512, batch {batch}", run, recording(run), runs)
        compare("the same, its tensors only held", run, holding(run), runs)
    torchlens_ratio(1000)
    if sys.platform == "linux":
        memory_of_a_big_tensor()
        memory_of_many_traces()
    import_time()


if __name__ == "__main__":
    main()
