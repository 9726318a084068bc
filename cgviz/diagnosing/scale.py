"""Vanishing and exploding gradients, on their way through a pass and from step to step.

The size of a gradient is compared with that of the upstream the pass started with. A gradient is
vanishing when its L2 norm is below a millionth of that, exploding when its typical entry (root
mean square) is above a million of it. The two measures differ so that a mean over many entries is
no fall and a sum over many entries no rise.

Units alone must raise no alarm: `1e-8 * x` has a small gradient and nothing is wrong. So the change
must come of several ops: without the one that changed the size most, it is still 1,000.

A gradient that is mathematically 0 is small too, as it comes out of a sum whose terms cancel but
for rounding. It is told as that: of one among others that learn, such as the bias of the keys under
a softmax, as a remark.

A training diverges when each step that is too large makes the next gradient larger. What follows,
exploding gradients, infinity and at last NaN, is told once and by its cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Step, Value, ratio, wide
from ..graph.jacobian import tolerance
from ..lessons import CHAIN, STABILITY
from .pass_graph import (
    Cause,
    PassGraph,
    at,
    is_bad,
    is_zero,
    line,
    listed,
    rerun,
    unlike,
    update,
)

# float32 has 7 digits: a step this much smaller than usual is lost in a weight, and one this much
# larger leaves nothing of the weight.
FALL, RISE = 1e-6, 1e6
SEVERAL = 1e3  # another unit, as grams for kilograms, is one factor of as much
ALIKE = 0.1  # contributions of one order of magnitude: the longest path tells most
GROWN = 1e3  # a training that converges has its largest gradients within 100 times the first
Size = Callable[[list[Array]], float]
Factor = tuple[float, Step, int]  # what a step multiplied the size by, and the input
Onward = Callable[[Value], tuple[Factor, Value] | None]


class Change(NamedTuple):
    """By how much the gradient of a value changed on its way, and at which steps."""

    ratio: float
    value: Value
    factors: list[Factor]


VANISHING = Cause("vanishing").says(
    "the gradient vanishes on its way to {who}: at {worst} its L2 norm is {ratio} times that of "
    "the upstream at the target. It fell most at {lines}.",
    "Keep each factor near 1: activations that do not saturate, weights scaled to their fan-in, "
    "skip connections, normalisation.",
)
EXPLODING = Cause("exploding").says(
    "the gradient explodes on its way to {who}: at {worst} its typical entry is {ratio} times that "
    "of the upstream at the target. It rose most at {lines}.",
    "Keep each factor near 1: smaller weights, normalisation, tf.clip_by_global_norm.",
)
CANCELLED = Cause("zero", CHAIN).says(
    "the gradient of {who} is 0 but for rounding: its terms cancel at {at}.",
    "The function does not change in this direction, as a softmax does not when the same is added "
    "to all its inputs.",
)
DIVERGING = Cause("exploding", STABILITY).says(
    "the training diverges: the gradient of {who} grows from step to step ({sizes}), and {target} "
    "grows with it. Each update goes too far{line}.",
    "Make the learning rate ten times smaller. If it still grows, the update has a wrong sign.",
)


def find(graph: PassGraph) -> list[Finding]:
    """Explain gradients that vanish or explode on their way.

    Args:
        graph: The pass; passes over a backward pass are left alone.

    Returns:
        At most one finding for vanishing and one for exploding, with all the sources; and one for
        each op at which gradients cancel, a note where others learn.
    """
    seeds = [s for s in graph.seeds.values() if s is not None and s.size]
    if not graph.first_order or any(map(is_bad, seeds)) or all(map(is_zero, seeds)):
        return []
    fell, rose, learns = [], [], False
    # Paths to many sources have most of their steps in common.
    judged = cache(cancels)
    by_norm, by_entry = (cache(partial(largest, graph, size)) for size in (norm, typical))
    cancelled: dict[Op, list[Value]] = {}
    for value, gradient in graph.gradients:
        if gradient is None or not gradient.size or is_zero(gradient) or is_bad(gradient):
            continue
        small, large = (ratio(size([gradient]), size(seeds)) for size in (norm, typical))
        learns = learns or small >= FALL
        if small < FALL:
            factors = path(by_norm, value)
            least = min((factor for factor, *_ in factors), default=1.0)
            if op := next((step.op for _, step, j in factors if judged(step, j)), None):
                cancelled.setdefault(op, []).append(value)
            elif least < 1 and ratio(small, least) < 1 / SEVERAL:
                fell.append(Change(small, value, factors))
        if large > RISE:
            factors = path(by_entry, value)
            most = max((factor for factor, *_ in factors), default=1.0)
            if most > 1 and ratio(large, most) > SEVERAL:
                rose.append(Change(large, value, factors))
    found = [_changed(graph, c, each) for c, each in ((VANISHING, fell), (EXPLODING, rose)) if each]
    for op, values in cancelled.items():
        words = CANCELLED.words({"who": listed(map(graph.name, values)), "at": at(op)})
        note = graph.finding(CANCELLED.name, words, op, values)
        found.append(replace(note, level="note") if learns else note)
    return found


def cancels(step: Step, j: int) -> bool:
    """Whether the terms that a step adds up cancel but for rounding.

    Its rule is run again for an upstream without signs, of which no two entries are alike: there
    nothing cancels.
    """
    given = step.downstream[j]
    if step.op.kind != "op" or given is None:
        return False
    terms = rerun(step, j, lambda u: np.abs(u) * unlike(u))
    return terms is not None and norm([given]) < tolerance(given.dtype) * norm([terms])


def norm(arrays: list[Array]) -> float:
    """The L2 norm of all entries."""
    with np.errstate(over="ignore"):
        return math.sqrt(sum(float(np.square(np.abs(wide(a))).sum()) for a in arrays))


def typical(arrays: list[Array]) -> float:
    """The root mean square of all entries."""
    count = sum(a.size for a in arrays)
    return norm(arrays) / math.sqrt(count) if count else 0.0


def path(onward: Onward, value: Value) -> list[Factor]:
    """The steps from a value to the target along the largest contributions.

    Args:
        onward: `largest` of a graph and a size.
        value: Where it begins.

    Returns:
        Each step with the factor by which it multiplied the size, and which input the path takes.
    """
    found = []
    while step := onward(value):
        factor, value = step
        found.append(factor)
    return found


def largest(graph: PassGraph, size: Size, here: Value) -> tuple[Factor, Value] | None:
    """The step that returned the largest contribution to a value, and the output it was made of."""
    parts = graph.contributions(here)
    if not parts:
        return None
    sizes = [norm([part[2]]) for part in parts]
    far = max(i for i, each in enumerate(sizes) if each >= ALIKE * max(sizes))
    step, j, gradient = parts[far]  # the first of a loop's rounds: the last on the way back
    pairs = zip(step.op.outputs, step.upstream, strict=True)
    arrived = [(v, u) for v, u in pairs if u is not None]
    before = size([u for _, u in arrived])
    if before == 0:
        return None
    return (size([gradient]) / before, step, j), max(arrived, key=lambda p: norm([p[1]]))[0]


def _changed(graph: PassGraph, cause: Cause, changes: list[Change]) -> Finding:
    """The worst change in words, with the three lines that made most of it."""
    worst = max(changes, key=lambda change: abs(np.log(change.ratio)))
    values = [change.value for change in changes]
    by_line: dict[object, tuple[float, int, Op]] = {}  # its factors multiplied, how many, the op
    for factor, step, _ in worst.factors:
        source = step.op.source
        key = (step.op.type, source.file, source.line) if source else step.op
        total, count, _ = by_line.get(key, (1.0, 0, step.op))
        by_line[key] = (total * factor, count + 1, step.op)
    fell = worst.ratio < 1
    first, *more = sorted(by_line.values(), key=lambda each: each[0], reverse=not fell)[:3]
    lines = [first, *(each for each in more if (each[0] < 1) == fell)]
    said = (
        f"{at(op)} {f'{count} times, in all' if count > 1 else 'once,'} × {style.number(total, 2)}"
        for total, count, op in lines
    )
    known = {
        "who": listed(map(graph.name, values)),
        "worst": graph.name(worst.value),
        "ratio": style.number(worst.ratio, 2),
        "lines": ", ".join(said),
    }
    return graph.finding(cause.name, cause.words(known), first[2], values)


# --- from step to step -------------------------------------------------------------------------


def diverging(graphs: Sequence[PassGraph]) -> Finding | None:
    """Say that a training diverges.

    Args:
        graphs: The passes of a recording, in execution order.

    Returns:
        A finding where the gradients of some variables, or the variables themselves, become more
        than 1,000 times as large as at first before anything is infinite, and the target grows too.
    """
    steps = list({graph.training_step: graph for graph in reversed(graphs)}.values())[::-1]
    if len(steps) < 2 or not all(graph.first_order and graph.pass_.targets for graph in steps):
        return None
    first, target = steps[0], steps[0].pass_.targets[0]
    grown = {v: sizes for v in first.pass_.sources if (sizes := _growth(steps, v))}
    if not grown or not _size(steps[-1].pass_.targets[0].numpy()) > _size(target.numpy()):
        return None
    sizes = max(grown.values(), key=lambda found: found[-1] / found[0])
    maker = first.maker(target)
    where = update(maker) if maker else None
    known = {
        "who": listed(map(first.name, grown)),
        "sizes": ", ".join(style.number(x, 2) for x in sizes[:4]) + ", ..." * (len(sizes) > 4),
        "target": first.name(target),
        "line": line(where),
    }
    found = first.finding(DIVERGING.name, DIVERGING.words(known), None, grown)
    return replace(found, line=where)


def _growth(steps: Sequence[PassGraph], value: Value) -> list[float]:
    """The sizes of a variable's gradient from step to step; empty where the variable is stable."""
    variable = steps[0].maker(value)
    gradients: list[float] = []
    values: list[float] = []
    for graph in steps:
        for each, gradient in graph.gradients:
            if variable and graph.maker(each) is variable and gradient is not None:
                gradients.append(_size(gradient))
                # Of a variable that only a closed function reads, nothing is known but its handle.
                values.append(_size(each.numpy()) if each.differentiable else 0.0)
        if gradients and not np.isfinite(gradients[-1]):
            break
    largest = max((size for size in gradients if np.isfinite(size)), default=0.0)
    if len(gradients) < 2 or not largest or not gradients[0]:
        return []
    apart = largest > GROWN * gradients[0] or max(values) > GROWN * values[0] > 0
    return gradients if apart else []


def _size(array: Array) -> float:
    """The typical entry; infinite where one is not finite."""
    return float("inf") if is_bad(array) else typical([array])
