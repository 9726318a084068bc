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

A gradient that is mathematically 0 is small too, as it comes out of a sum whose terms cancel but
for rounding. It is told as that: of one among others that learn, such as the bias of the keys under
a softmax, as a remark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Step, Value
from ..graph.jacobian import tolerance, wide
from ..lessons import CHAIN, DEBUGGING
from .pass_graph import PassGraph, Words, at, is_bad, is_zero, listed, unlike, walk

# float32 has 7 digits: a step this much smaller than usual is lost in a weight, and one this much
# larger leaves nothing of the weight.
FALL, RISE = 1e-6, 1e6
SEVERAL = 1e3  # another unit, as grams for kilograms, is one factor of as much
INSENSITIVE = 1e-6  # a percent of it is below the rounding of float32, 6e-8
ALIKE = 0.1  # contributions of one order of magnitude: the longest path tells most
Size = Callable[[list[Array]], float]
Factor = tuple[float, Step, int]  # what a step multiplied the size by, and the input


class Change(NamedTuple):
    """By how much the gradient of a value changed on its way, and where most of all."""

    ratio: float
    value: Value
    lines: list[tuple[float, int, Op]]  # per line: its factors multiplied, how many, its last op


def find(graph: PassGraph) -> list[Finding]:
    """Explain gradients that vanish or explode on their way.

    Args:
        graph: The pass; passes over a backward pass are left alone.

    Returns:
        At most one finding for vanishing and one for exploding, with all the sources.
    """
    seeds = [s for s in graph.seeds.values() if s is not None and s.size]
    if not graph.first_order or any(map(is_bad, seeds)) or all(map(is_zero, seeds)):
        return []
    fell, rose, learns = [], [], False
    cancelled: dict[Op, list[Value]] = {}
    for value, gradient in graph.gradients:
        if gradient is None or not gradient.size or is_zero(gradient) or is_bad(gradient):
            continue
        if (ratio := norm([gradient]) / norm(seeds)) < FALL:
            factors = path(graph, value, norm)
            sums = (step.op for _, step, j in factors if cancels(step, j))
            if op := next(sums, None):
                cancelled.setdefault(op, []).append(value)
                continue
            lines = [line for line in _by_line(factors) if line[0] < 1]
            several = lines and ratio / min(each[0] for each in factors) < 1 / SEVERAL
            if several or (lines and _insensitive(graph, value, gradient)):
                fell.append(Change(ratio, value, lines))
        learns = learns or ratio >= FALL
        if (ratio := typical([gradient]) / typical(seeds)) > RISE:
            factors = path(graph, value, typical)
            lines = [line for line in _by_line(factors)[::-1] if line[0] > 1]
            if lines and ratio / max(each[0] for each in factors) > SEVERAL:
                rose.append(Change(ratio, value, lines))
    found = [_vanishing(graph, fell)] if fell else []
    found += [_exploding(graph, rose)] if rose else []
    return found + [_cancelled(graph, op, v, learns) for op, v in cancelled.items()]


def cancels(step: Step, j: int) -> bool:
    """Whether the terms that a step adds up cancel but for rounding.

    Its rule is run again for an upstream without signs, of which no two entries are alike: there
    nothing cancels.
    """
    given = step.downstream[j]
    if step.op.kind != "op" or given is None:
        return False
    try:
        terms = step.vjp([None if u is None else np.abs(u) * unlike(u) for u in step.upstream])[j]
    except RuntimeError:  # as of a trace that was read from a file
        return False
    return terms is not None and norm([given]) < tolerance(given.dtype) * norm([terms])


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


def path(graph: PassGraph, value: Value, size: Size) -> list[Factor]:
    """The steps from a value to the target along the largest contributions.

    Returns:
        Each step with the factor by which it multiplied the size, and which input the path takes.
    """
    found: list[Factor] = []

    def onward(here: Value) -> Iterator[Value]:
        parts = graph.contributions(here)
        if not parts:
            return
        sizes = [norm([part[2]]) for part in parts]
        far = max(i for i, size in enumerate(sizes) if size >= ALIKE * max(sizes))
        step, j, gradient = parts[far]  # the first of a loop's rounds: the last on the way back
        pairs = zip(step.op.outputs, step.upstream, strict=True)
        arrived = [(v, u) for v, u in pairs if u is not None]
        before = size([u for _, u in arrived])
        if before > 0:
            found.append((size([gradient]) / before, step, j))
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
    """The factors of each line and op type multiplied, the smallest first."""
    found: dict[object, tuple[float, int, Op]] = {}
    for factor, step, _ in factors:
        source = step.op.source
        key = (step.op.type, source.file, source.line) if source else step.op
        total, count, _ = found.get(key, (1.0, 0, step.op))
        found[key] = (total * factor, count + 1, step.op)
    return sorted(found.values(), key=lambda line: line[0])


# --- words -------------------------------------------------------------------------------------


def _vanishing(graph: PassGraph, changes: list[Change]) -> Finding:
    worst = min(changes, key=lambda change: change.ratio)
    start = f"the gradient vanishes on its way to {_who(graph, changes)}: at "
    message = f"{start}{graph.name(worst.value)} its L2 norm is {_told(worst, 'fell')}"
    hint = (
        "Keep each factor near 1: activations that do not saturate, weights scaled to their "
        "fan-in, skip connections, normalisation."
    )
    return _finding(graph, "vanishing", (message, hint, DEBUGGING), worst, changes)


def _exploding(graph: PassGraph, changes: list[Change]) -> Finding:
    worst = max(changes, key=lambda change: change.ratio)
    start = f"the gradient explodes on its way to {_who(graph, changes)}: at "
    message = f"{start}{graph.name(worst.value)} its typical entry is {_told(worst, 'rose')}"
    hint = "Keep each factor near 1: smaller weights, normalisation, tf.clip_by_global_norm."
    return _finding(graph, "exploding", (message, hint, DEBUGGING), worst, changes)


def _cancelled(graph: PassGraph, op: Op, values: list[Value], learns: bool) -> Finding:
    who = listed(map(graph.name, values))
    message = f"the gradient of {who} is 0 but for rounding: its terms cancel at {at(op)}."
    hint = (
        "The function does not change in this direction, as a softmax does not when the same is "
        "added to all its inputs."
    )
    found = graph.finding("zero", (message, hint, CHAIN), op, values)
    return replace(found, level="note") if learns else found


def _who(graph: PassGraph, changes: list[Change]) -> str:
    return listed(graph.name(change.value) for change in changes)


def _told(worst: Change, sense: str) -> str:
    """The size of a change, and the three lines that made most of it."""
    steps = ", ".join(
        f"{at(op)} {f'{count} times, in all' if count > 1 else 'once,'} × {style.number(total, 2)}"
        for total, count, op in worst.lines[:3]
    )
    ratio = style.number(worst.ratio, 2)
    return f"{ratio} times that of the upstream at the target. It {sense} most at {steps}."


def _finding(
    graph: PassGraph, what: str, words: Words, worst: Change, changes: list[Change]
) -> Finding:
    return graph.finding(what, words, worst.lines[0][2], [change.value for change in changes])
