"""What check() misses, and where it raises a false alarm, in random programs with random mistakes.

    python tests/benchmarks/bench_mistakes.py [PROGRAMS] [FIRST]

Each program is a random function of 6 to 2,000 numbers with a rule of its own, right or spoiled:
at one entry of the Jacobian, in one row or column, everywhere, or with entries exchanged or
shifted. It prints a table, and a line for each mistake that was missed and each false alarm, with
the number of the program; to start at that number, give it as FIRST.

A spoiled entry is larger than a hundredth of the mean nonzero entry of its row, in absolute value:
a wrong sign of a derivative that is nearly 0 does no harm.
"""

from __future__ import annotations

import collections
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf

import cgviz

SIZES = (6, 60, 200, 2000)
ELEMENTWISE = {
    "tanh": tf.tanh,
    "sin": tf.sin,
    "exp": lambda x: tf.exp(0.3 * x),
    "sigmoid": tf.sigmoid,
    "softplus": tf.nn.softplus,
    "square": tf.square,
    "bell": lambda x: 1.0 / (1.0 + x * x),
}


def structures(size: int, random: np.random.Generator) -> dict[str, Callable[[Any], Any]]:
    """Functions that mix the entries of a vector: not at all, in rows, in a band, or all."""
    order = random.permutation(size)
    matrix = random.normal(size=(min(size, 200), size)) / np.sqrt(size)
    kernel = random.normal(size=(3, 1, 1))
    rows = lambda x: tf.reshape(x, (-1, 6 if size == 6 else 10))  # noqa: E731
    return {
        "elementwise": lambda x: x,
        "permuted": lambda x: tf.gather(x, order),
        "softmax of rows": lambda x: tf.nn.softmax(rows(x)),
        "norms of rows": lambda x: tf.norm(rows(x) + 3.0, axis=-1),
        "neighbours": lambda x: x[1:] * x[:-1],
        "convolution": lambda x: tf.nn.conv1d(
            x[None, :, None], tf.cast(kernel, x.dtype), 1, "SAME"
        ),
        "cumulative sum": tf.cumsum,
        "matrix": lambda x: tf.linalg.matvec(tf.cast(matrix, x.dtype), x),
        "sum": tf.reduce_sum,
        "log of a sum": tf.reduce_logsumexp,
    }


def program(number: int) -> tuple[str, Callable[[Any], Any], np.ndarray[Any, Any]]:
    """The name of a random function, the function, and the point at which it is judged."""
    random = np.random.default_rng(number)
    size = int(random.choice(SIZES))
    names = random.choice(list(ELEMENTWISE), size=random.integers(1, 4)).tolist()
    mixing = structures(size, random)
    mix = str(random.choice(list(mixing)))
    dtype = random.choice([np.float32, np.float64])
    x = random.normal(size=size).astype(dtype)

    def f(x: Any) -> Any:
        for name in names:
            x = ELEMENTWISE[name](x)
        return mixing[mix](x)

    return f"{mix} of {', '.join(names)} at {size} {np.dtype(dtype).name}", f, x


def pull(f: Callable[[Any], Any], x: Any, upstream: Any) -> Any:
    """Upstream · df/dx."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, output_gradients=upstream)


# What a wrong derivative is multiplied by: a flipped sign, a forgotten derivative, ten times too
# much, a percent too much, and 3.14 for pi.
FACTORS = {"sign": -1.0, "zero": 0.0, "tenfold": 10.0, "percent": 1.01, "3.14": 3.14 / np.pi}
KINDS = [
    "right",
    *(f"{where}, {what}" for where in ("entry", "row", "column", "all") for what in FACTORS),
    "exchanged",
    "shifted",
]


def spoiled(
    f: Callable[[Any], Any], x: Any, kind: str, random: np.random.Generator
) -> Callable[[Any], Any]:
    """f with a rule of its own, which is wrong in the way that `kind` says."""
    where, _, what = kind.partition(", ")
    shape = f(x).shape
    outputs = int(np.prod(shape))
    i = int(random.integers(outputs))
    row = pull(f, x, tf.reshape(tf.one_hot(i, outputs, dtype=x.dtype), shape)).numpy()
    large = np.flatnonzero(np.abs(row) > 0.01 * np.mean(np.abs(row[row != 0])))
    j = int(random.choice(large))
    other = int(np.argmax(np.abs(row - row[j])))
    extra = FACTORS.get(what, 1.0) - 1.0
    chosen, touching = (tf.one_hot(k, n, dtype=x.dtype) for k, n in ((i, outputs), (j, x.shape[0])))

    @tf.custom_gradient
    def g(x: Any) -> Any:
        def rule(upstream: Any) -> Any:
            chosen_, touching_ = tf.cast(chosen, x.dtype), tf.cast(touching, x.dtype)
            flat = tf.reshape(upstream, [-1])
            if where == "row":
                flat = flat * (1.0 + extra * chosen_)
            found = pull(f, x, tf.reshape(flat, shape))
            if where == "entry":
                found += extra * touching_ * flat[i] * float(row[j])
            if where == "column":
                found *= 1.0 + extra * touching_
            if where == "all":
                found *= 1.0 + extra
            if where == "exchanged":
                order = np.arange(x.shape[0])
                order[[j, other]] = order[[other, j]]
                found = tf.gather(found, order)
            if where == "shifted":
                found = tf.roll(found, 1, 0)
            return found

        return f(x), rule

    return g


def main(programs: int, first: int) -> None:
    """Judge the programs, and print the verdicts."""
    start = time.perf_counter()
    seen: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for number in range(first, first + programs):
        name, f, x = program(number)
        random = np.random.default_rng(-number - 1 + 2**32)
        kind = "right" if number % 3 == 0 else str(random.choice(KINDS[1:]))
        g = spoiled(f, tf.constant(x), kind, random)
        report = cgviz.check(g, x, where="eager")
        rules = {finding.rule for finding in report.findings}
        verdict = "wrong" if not report.ok else "told" if "precision" in rules else "right"
        seen[kind, str(x.size)][verdict] += 1
        if kind == "right" and verdict != "right":
            print(f"FALSE ALARM {number}: {name}: {report.findings[0].message}", flush=True)
        if kind != "right" and verdict == "right":
            print(f"MISSED {number}: {kind}, {name}", flush=True)
    print(f"{'rule':18} {'numbers':>8} {'programs':>9} {'wrong':>7} {'told':>6} {'right':>7}")
    for (kind, size), counted in sorted(seen.items()):
        columns = " ".join(f"{counted[v]:>7}" for v in ("wrong", "told", "right"))
        print(f"{kind:18} {size:>8} {counted.total():>9} {columns}")
    spoiled_ones = {k: c for k, c in seen.items() if k[0] != "right"}
    missed = sum(c["right"] for c in spoiled_ones.values())
    told = sum(c["told"] for c in spoiled_ones.values())
    right = [c for k, c in seen.items() if k[0] == "right"]
    alarms = sum(c["wrong"] for c in right)
    warned = sum(c["told"] for c in right)
    print(
        f"{sum(c.total() for c in spoiled_ones.values())} spoiled: {missed} missed, {told} warned "
        f"of only; {sum(c.total() for c in right)} right: {alarms} false alarms, {warned} warned "
        f"of; {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main(*(int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 60), (2, 0))))
