"""Gradients whose size changes by powers of ten on their way, or whose shape is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

from .. import style
from ..findings import Finding
from ..graph import Array, Step, Value, ratio, total, wide_norm
from ..graph.jacobian import tolerance
from ..hinting.hints import WRONG_SHAPE
from ..lessons import INPUTS
from .numbers import GradientCase, Number, cancels, is_bad, is_ordinary, is_zero, parts_of, single
from .pass_graph import Cause, PassGraph, at, listed

# The size of a gradient is compared with that of the upstream that the pass started with. A
# gradient is vanishing if its L2 norm is below a millionth of that, and exploding if its typical
# entry (root mean square) is above a million times that. The two measures differ so that a mean
# over many entries does not count as a fall, nor a sum over many entries as a rise. float32 has 7
# digits: a step this much smaller than usual is lost in a weight, and one this much larger leaves
# nothing of the weight.
DECADES = 6
# Units alone must raise no alarm: `1e-8 * x` has a small gradient and nothing is wrong. So the
# change must exceed this many decades even without the op that changed the size most; the factor
# from kilograms to grams is as large.
SEVERAL = 3
ALIKE = 0.1  # of contributions this close to the largest, the one on the longest path tells most
Size = Callable[[Sequence[Array]], float]


class Factor(NamedTuple):
    """By how much a step multiplied the size of the gradient that it returned to one input."""

    size: float
    step: Step
    position: int
    output: Value  # of the step's op, from which the largest part of its upstream came


Change = tuple[float, Value, list[Factor]]  # by how much, of which gradient, at which steps


VANISHING = Cause("vanishing").says(
    "the gradient vanishes on its way to {who}: at {worst} its L2 norm is {ratio} times that of "
    "the upstream at the target. It fell most at {lines}.",
    "Keep each factor near 1: other activations, scaled weights, skip connections, normalisation.",
)
EXPLODING = Cause("exploding").says(
    "the gradient explodes on its way to {who}: at {worst} its typical entry is {ratio} times that "
    "of the upstream at the target. It rose most at {lines}.",
    "Keep each factor near 1: smaller weights, normalisation, tf.clip_by_global_norm.",
)
SHAPE = Cause("shape", INPUTS).says(
    "{who} has the shape {a}, but its gradient has {b}, by the rule of {rule}.", WRONG_SHAPE
)


def scale(graph: PassGraph) -> list[Finding]:
    """Explain gradients that vanish or explode on their way.

    A gradient that is mathematically 0 is small too, because the terms of its sum cancel except
    for rounding. It is reported as zero, and only as a note if other sources learn: one example is
    the bias of the keys under a softmax.

    Args:
        graph: The pass; one that differentiates a backward pass is skipped.

    Returns:
        At most one finding for vanishing and one for exploding, with all the sources; and one for
        each op or value at which gradients cancel, at the level of its cause.
    """
    seeds = [s for s in graph.seeds.values() if s is not None and s.size]
    if not graph.first_order or any(map(is_bad, seeds)) or all(map(is_zero, seeds)):
        return []
    ordinary = [(v, g) for v, g in graph.gradients if g is not None and is_ordinary(g)]
    alone = any(single(step.op) for step in graph.pass_.steps)
    judged = cache(partial(cancelled, graph))  # paths to many sources have most steps in common
    zeros: dict[Number, list[Value]] = {}
    found = []
    for cause, size, sign in ((VANISHING, wide_norm, -1), (EXPLODING, typical, 1)):
        onward = cache(partial(largest, graph, size))
        changes: list[Change] = []
        for value, gradient in ordinary:
            times = ratio(size([gradient]), size(seeds))
            large = sign * decades(times) > DECADES
            if not (large or (alone and sign < 0)):
                continue
            factors = path(onward, value)
            most = max((sign * decades(each.size) for each in factors), default=0.0)
            began = filter(None, (judged(each, large) for each in factors))
            if sign < 0 and (number := next(began, None)):
                zeros.setdefault(number, []).append(value)
            elif large and most > 0 and sign * decades(times) - most > SEVERAL:
                changes.append((times, value, factors))
        found += [_changed(graph, cause, changes)] if changes else []
    small = [*chain(*zeros.values())]
    return found + [GradientCase(graph, n, True).finding(v, small) for n, v in zeros.items()]


def shapes(graph: PassGraph) -> list[Finding]:
    """Find gradients that a custom rule returned in another shape than their input has."""
    found = []
    for op, step in graph.pass_.step_of.items():
        for value, given in zip(op.inputs, step.downstream, strict=True):
            if op.kind == "custom" and given is not None and given.shape != value.shape:
                a, b = (style.shape(each) or "[]" for each in (value, given))
                known = {"who": graph.name(value), "a": a, "b": b, "rule": at(op, True)}
                found.append(graph.finding(SHAPE, known, op, [value], line=op.rule))
    return found


def cancelled(graph: PassGraph, factor: Factor, large: bool) -> Number | None:
    """What is 0 but for rounding at the input of a step: what its uses or it alone returned.

    Without `large`, only what a softmax over one entry returned is looked at.
    """
    step, j = factor.step, factor.position
    returned: Any = step.downstream[j]
    own = Number(step.op.inputs[j], returned, step, j)
    if single(step.op) and factor.size < tolerance(factor.output.dtype):
        return own
    uses = [part.array for part in parts_of(graph, replace(own, step=None))] if large else []
    if uses and wide_norm([total(uses)]) < tolerance(uses[0].dtype) * wide_norm(uses):
        return Number(own.value, total(uses))
    return own if large and cancels(step, j) else None


def decades(times: float) -> float:
    """How many powers of ten a ratio is; −∞ for 0."""
    return math.log10(times) if times else -math.inf


def typical(arrays: Sequence[Array]) -> float:
    """The root mean square of all entries."""
    count = sum(a.size for a in arrays)
    return wide_norm(arrays) / math.sqrt(count) if count else 0.0


def path(onward: Callable[[Value], Factor | None], value: Value) -> list[Factor]:
    """The steps from a value to the target along the largest contributions.

    Args:
        onward: `largest`, bound to a graph and a size.
        value: The value that the path begins at.
    """
    found = []
    while factor := onward(value):
        found.append(factor)
        value = factor.output
    return found


def largest(graph: PassGraph, size: Size, here: Value) -> Factor | None:
    """What the step did that returned the largest contribution to a value; None at a target."""
    parts = graph.contributions(here)
    sizes = [wide_norm([part[2]]) for part in parts]
    alike = [part for part, each in zip(parts, sizes, strict=True) if each >= ALIKE * max(sizes)]
    if not alike:
        return None
    step, j, gradient = alike[-1]  # the first iteration of a loop: the last on the way back
    pairs = zip(step.op.outputs, step.upstream, strict=True)
    arrived = [(v, u) for v, u in pairs if u is not None]
    before = size([u for _, u in arrived])
    output = max(arrived, key=lambda pair: wide_norm([pair[1]]))[0]
    return Factor(size([gradient]) / before, step, j, output) if before else None


def _changed(graph: PassGraph, cause: Cause, changes: list[Change]) -> Finding:
    """The finding about the worst change, with up to three lines that caused most of it."""
    times, worst, factors = max(changes, key=lambda change: abs(decades(change[0])))
    values = [value for _, value, _ in changes]
    by_line: dict[object, list[Factor]] = {}
    for factor in factors:
        op = factor.step.op
        by_line.setdefault((op.type, str(op.source or op.name)), []).append(factor)
    fell = times < 1
    totals = [(math.prod(each.size for each in row), row) for row in by_line.values()]
    totals.sort(key=lambda pair: pair[0], reverse=not fell)
    lines = []
    for product, row in totals[:3]:
        if (product < 1) == fell:
            often = f"{len(row)} times, in all" if len(row) > 1 else "once,"
            lines.append(f"{at(row[0].step.op)} {often} × {style.number(product, 2)}")
    known = {"who": listed(map(graph.name, values)), "worst": graph.name(worst)}
    known |= {"ratio": style.number(times, 2), "lines": ", ".join(lines)}
    return graph.finding(cause, known, totals[0][1][0].step.op, values)
