"""Vanishing and exploding gradients: the ops where the gradient fell or rose most.

The size of a gradient is compared with that of the upstream the pass started with. A gradient is
vanishing when its L2 norm is below a millionth of that, exploding when its typical entry (root
mean square) is above a million of it. The two measures differ so that a mean over many entries is
no fall and a sum over many entries no rise.

Units alone must raise no alarm: `1e-8 * x` has a small gradient and nothing is wrong. So one of
these must hold too:

- it comes of several ops: without the one that changed the size most, it still changed by 1,000;
- or, when it fell, the value hardly depends on the source: changing the source by a percent
  changes the value by less than a hundred-millionth (their relative sensitivity is below 1e-6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Step, Value
from ..graph.jacobian import wide
from ..lessons import DEBUGGING
from .pass_graph import PassGraph, at, is_bad, is_zero, listed, walk

# float32 has 7 digits: a step this much smaller than usual is lost in a weight, and one this much
# larger leaves nothing of the weight.
FALL, RISE = 1e-6, 1e6
SEVERAL = 1e3  # another unit, as grams for kilograms, is one factor of as much
INSENSITIVE = 1e-6  # a percent of it is below the rounding of float32, 6e-8
Factor = tuple[float, Step]  # what a step multiplied the size by


@dataclass(frozen=True)
class Change:
    """By how much the gradient of a value changed on its way, and where most of all."""

    ratio: float
    value: Value
    lines: list[tuple[float, int, Op]]  # per line: its factors multiplied, how many, its last op


@dataclass(frozen=True)
class Kind:
    """One of the two, with its measure and its words."""

    what: str
    size: Callable[[list[Array]], float]
    sign: int  # of log(ratio)
    verb: str
    measure: str
    sense: str
    hint: str


def find(graph: PassGraph) -> list[Finding]:
    """Explain gradients that vanish or explode on their way.

    Args:
        graph: The pass; passes over a backward pass are left alone.

    Returns:
        At most one finding for vanishing and one for exploding, with all the sources.
    """
    if not graph.first_order:
        return []
    seeds = [s for s in graph.seeds.values() if s is not None and s.size]
    if not seeds or any(is_bad(s) for s in seeds) or all(is_zero(s) for s in seeds):
        return []
    sources = [
        (v, g)
        for v, g in graph.gradients
        if g is not None and g.size and not is_zero(g) and not is_bad(g)
    ]
    found = []
    for kind in KINDS:
        changes = [c for v, g in sources if (c := _change(graph, kind, v, g, seeds))]
        if changes:
            found.append(_finding(graph, kind, changes))
    return found


def _change(
    graph: PassGraph, kind: Kind, value: Value, gradient: Array, seeds: list[Array]
) -> Change | None:
    ratio = kind.size([gradient]) / kind.size(seeds)
    if not (ratio < FALL if kind.sign < 0 else ratio > RISE):
        return None
    factors = path(graph, value, kind.size)
    largest = max((f for f, _ in factors), key=lambda f: f**kind.sign, default=1.0)
    several = (ratio / largest) ** kind.sign > SEVERAL
    if not several and (kind.sign > 0 or not _insensitive(graph, value, gradient)):
        return None
    lines = [line for line in _by_line(factors) if line[0] ** kind.sign > 1]
    lines.sort(key=lambda line: -(line[0] ** kind.sign))
    return Change(ratio, value, lines) if lines else None


def norm(arrays: list[Array]) -> float:
    """The L2 norm of all entries."""
    sizes = [np.abs(wide(a)) for a in arrays if a.size]
    largest = max((float(a.max()) for a in sizes), default=0.0)
    if largest == 0:
        return 0.0
    # Divided by the largest first: the square of a large float64 overflows.
    return largest * float(np.sqrt(sum(np.sum((a / largest) ** 2) for a in sizes)))


def typical(arrays: list[Array]) -> float:
    """The root mean square of all entries."""
    count = sum(a.size for a in arrays)
    return norm(arrays) / float(np.sqrt(count)) if count else 0.0


def path(graph: PassGraph, value: Value, size: Callable[[list[Array]], float]) -> list[Factor]:
    """The steps from a value to the target along the largest contributions, with their factors."""
    found: list[Factor] = []

    def onward(here: Value) -> Iterator[Value]:
        parts = graph.contributions(here)
        if not parts:
            return
        step, _, gradient = max(parts, key=lambda part: norm([part[2]]))
        pairs = zip(step.op.outputs, step.upstream, strict=True)
        arrived = [(v, u) for v, u in pairs if u is not None]
        before = size([u for _, u in arrived])
        if before > 0:
            found.append((size([gradient]) / before, step))
        if arrived:
            yield max(arrived, key=lambda pair: norm([pair[1]]))[0]

    for _ in walk([value], onward):
        pass
    return found


def _insensitive(graph: PassGraph, value: Value, gradient: Array) -> bool:
    """Whether the targets hardly depend on a source, whatever the units."""
    x = norm([value.numpy()])
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = [(t, graph.seeds[t.key]) for t in graph.pass_.targets]
        y = sum(np.sum(np.abs(wide(t.numpy()) * wide(s))) for t, s in pairs if s is not None)
        return x > 0 and 0 < y < np.inf and bool(norm([gradient]) * x / y < INSENSITIVE)


def _by_line(factors: list[Factor]) -> list[tuple[float, int, Op]]:
    """The factors of each line and op type multiplied, how many they are, and the last op."""
    found: dict[object, tuple[float, int, Op]] = {}
    for factor, step in factors:
        source = step.op.source
        key = (step.op.type, source.file, source.line) if source else step.op
        total, count, _ = found.get(key, (1.0, 0, step.op))
        found[key] = (total * factor, count + 1, step.op)
    return list(found.values())


def _finding(graph: PassGraph, kind: Kind, changes: list[Change]) -> Finding:
    worst = max(changes, key=lambda change: change.ratio**kind.sign)
    steps = ", ".join(
        f"{at(op)} {f'{count} times, in all' if count > 1 else 'once,'} × {style.number(total, 2)}"
        for total, count, op in worst.lines[:3]
    )
    values = [change.value for change in changes]
    message = (
        f"the gradient {kind.verb} on its way to {listed(graph.name(v) for v in values)}: at "
        f"{graph.name(worst.value)} {kind.measure} is {style.number(worst.ratio, 2)} times that of "
        f"the upstream at the target. It {kind.sense} most at {steps}."
    )
    return graph.finding(kind.what, (message, kind.hint, DEBUGGING), worst.lines[0][2], values)


KINDS = (
    Kind(
        "vanishing",
        norm,
        -1,
        "vanishes",
        "its L2 norm",
        "fell",
        "Keep each factor near 1: activations that do not saturate, weights scaled to their "
        "fan-in, skip connections, normalisation.",
    ),
    Kind(
        "exploding",
        typical,
        1,
        "explodes",
        "its typical entry",
        "rose",
        "Keep each factor near 1: smaller weights, normalisation, tf.clip_by_global_norm on the "
        "gradients.",
    ),
)
