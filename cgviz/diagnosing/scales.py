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

from collections.abc import Callable

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Step, Value
from ..graph.jacobian import wide
from ..lessons import DEBUGGING
from .survey import Survey, at, is_bad, is_zero, names

FALL, RISE, SEVERAL, INSENSITIVE = 1e-6, 1e6, 1e3, 1e-6

Factor = tuple[float, Step]  # what a step multiplied the size by
Group = tuple[float, int, Op]  # the product of the factors of a line, how many, its last op
Change = tuple[float, Value, list[Group]]  # by how much a gradient changed, and most of all where


def find(survey: Survey) -> list[Finding]:
    """Explain gradients that vanish or explode on their way.

    Args:
        survey: The pass; passes over a backward pass are left alone.

    Returns:
        At most one finding for vanishing and one for exploding, with all the sources.
    """
    if not survey.first_order:
        return []
    seeds = [s for s in survey.pass_.seeds if s is not None and s.size]
    if not seeds or any(is_bad(s) for s in seeds) or all(is_zero(s) for s in seeds):
        return []
    fell: list[Change] = []
    rose: list[Change] = []
    for value, gradient in zip(survey.pass_.sources, survey.pass_.gradients, strict=True):
        if gradient is None or not gradient.size or is_zero(gradient) or is_bad(gradient):
            continue
        ratio = norm([gradient]) / norm(seeds)
        if ratio < FALL:
            factors = way(survey, value, norm)
            where = [group for group in _groups(factors) if group[0] < 1]
            if where and (_several(factors, ratio) or _insensitive(survey, value, gradient)):
                fell.append((ratio, value, where))
        ratio = typical([gradient]) / typical(seeds)
        if ratio > RISE:
            factors = way(survey, value, typical)
            where = [group for group in _groups(factors)[::-1] if group[0] > 1]
            if where and _several(factors, ratio):
                rose.append((ratio, value, where))
    found = [_vanishing(survey, fell)] if fell else []
    return found + ([_exploding(survey, rose)] if rose else [])


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


def way(survey: Survey, value: Value, size: Callable[[list[Array]], float]) -> list[Factor]:
    """The steps on the way of the largest contributions to the target, each with its factor."""
    found: list[Factor] = []
    seen: set[int] = set()
    here: Value | None = value
    while here is not None and here.key not in seen:
        seen.add(here.key)
        parts = survey.contributions(here)
        if not parts:
            break
        step, _, gradient = max(parts, key=lambda part: norm([part[2]]))
        upstream = [u for u in step.upstream if u is not None]
        before, after = size(upstream), size([gradient])
        if before > 0:
            found.append((after / before, step))
        pairs = zip(step.op.outputs, step.upstream, strict=True)
        outputs = [(norm([u]), v) for v, u in pairs if u is not None]
        here = max(outputs, key=lambda pair: pair[0])[1] if outputs else None
    return found


def _several(factors: list[Factor], ratio: float) -> bool:
    """Whether the change is of several steps: without the greatest it is still large."""
    changes = [factor for factor, _ in factors]
    if ratio < 1:
        return ratio / min(changes) < 1 / SEVERAL
    return ratio / max(changes) > SEVERAL


def _insensitive(survey: Survey, value: Value, gradient: Array) -> bool:
    """Whether the targets hardly depend on a source, whatever the units."""
    x = norm([value.numpy()])
    with np.errstate(over="ignore", invalid="ignore"):
        y = sum(
            np.sum(np.abs(wide(t.numpy()) * wide(s)))
            for t, s in zip(survey.pass_.targets, survey.pass_.seeds, strict=True)
            if s is not None
        )
        return x > 0 and 0 < y < np.inf and bool(norm([gradient]) * x / y < INSENSITIVE)


def _groups(factors: list[Factor]) -> list[Group]:
    """The factors of each line taken together, the smallest product first."""
    found: dict[object, Group] = {}
    for factor, step in factors:
        source = step.op.source
        key = (step.op.type, source.file, source.line) if source else step.op
        total, count, _ = found.get(key, (1.0, 0, step.op))
        found[key] = (total * factor, count + 1, step.op)
    return sorted(found.values(), key=lambda group: group[0])


# --- words -------------------------------------------------------------------------------------


def _vanishing(survey: Survey, found: list[Change]) -> Finding:
    worst = min(found, key=lambda each: each[0])
    hint = (
        "Keep each factor near 1: activations that do not saturate, weights scaled to their "
        "fan-in, skip connections, normalisation."
    )
    return _finding(survey, "vanishing", [v for _, v, _ in found], worst, hint)


def _exploding(survey: Survey, found: list[Change]) -> Finding:
    worst = max(found, key=lambda each: each[0])
    hint = (
        "Keep each factor near 1: smaller weights, normalisation, tf.clip_by_global_norm on the "
        "gradients."
    )
    return _finding(survey, "exploding", [v for _, v, _ in found], worst, hint)


def _finding(survey: Survey, what: str, values: list[Value], worst: Change, hint: str) -> Finding:
    ratio, value, where = worst
    verb = "vanishes" if what == "vanishing" else "explodes"
    measure = "its L2 norm" if what == "vanishing" else "its typical entry"
    sense = "fell" if what == "vanishing" else "rose"
    steps = ", ".join(
        f"{at(op)} {f'{count} times, in all' if count > 1 else 'once,'} × {style.number(total, 2)}"
        for total, count, op in where[:3]
    )
    message = (
        f"the gradient {verb} on its way to {names(survey.name(v) for v in values)}: at "
        f"{survey.name(value)} {measure} is {style.number(ratio, 2)} times that of the upstream at "
        f"the target. It {sense} most at {steps}."
    )
    sources = tuple(survey.name(v).strip("`") for v in values)
    return Finding(what, message, hint, DEBUGGING, where[0][2], sources, survey.pass_.index)
