"""Where a gradient became exactly zero, and which op made it so.

A gradient counts as zero when every entry is. From the source it is followed towards the target as
long as what arrives is zero too; the op where it is not has made it so, or two ways cancel.
"""

from __future__ import annotations

from ..findings import Finding
from ..graph import Value
from ..graph.jacobian import wide
from ..lessons import CHAIN, UPSTREAM
from .survey import Origin, Survey, at, is_zero, names, outputs_with
from .zero_reasons import reason

Said = tuple[str, str, str]


def find(survey: Survey) -> list[Finding]:
    """Explain every gradient of a pass that is exactly zero.

    Args:
        survey: The pass. Passes over a backward pass are left alone: second derivatives of
            piecewise linear functions are zero and right.

    Returns:
        One finding per place where zero began, with all the sources behind it.
    """
    if not survey.first_order:
        return []
    heard: dict[object, Said] = {}  # a reason can cost a run of the rule
    groups: dict[object, tuple[Origin, Said, list[Value]]] = {}
    for value, gradient in zip(survey.pass_.sources, survey.pass_.gradients, strict=True):
        if gradient is not None and is_zero(gradient):
            for origin in origins(survey, value)[:3]:
                place = (origin.step, origin.position) if origin.step else origin.value.key
                if place not in heard:
                    heard[place] = _say(survey, origin)
                said = heard[place]
                values = groups.setdefault((origin.step, said), (origin, said, []))[2]
                if value not in values:  # an op can use it twice
                    values.append(value)
    return [_finding(survey, *each) for each in groups.values()]


def origins(survey: Survey, value: Value) -> list[Origin]:
    """Where the zero that reached `value` began."""
    found, seen, stack = [], {value.key}, [value]
    while stack:
        here = stack.pop()
        seed = survey.seed(here)
        parts = survey.contributions(here)
        if seed is not None and is_zero(seed):
            found.append(Origin(here))
        if not all(is_zero(g) for _, _, g in parts):
            found.append(Origin(here, meets=True))
            continue
        for step, position, _ in parts:
            upstream = step.upstream
            if outputs_with(step, upstream, lambda u: wide(u).any()):
                found.append(Origin(here, step, position))
                continue
            for output in outputs_with(step, upstream, is_zero):
                if output.key not in seen:
                    seen.add(output.key)
                    stack.append(output)
    return found


def _say(survey: Survey, origin: Origin) -> Said:
    """Why, how to mend it, and a lesson."""
    if origin.step is not None:
        because, hint, lesson = reason(origin.step, origin.position)
        return f"it became 0 at {at(origin.step.op)}. {because}", hint, lesson
    name = survey.name(origin.value)
    if origin.meets:
        return (
            f"what the ways through {name} hand back adds up to 0.",
            "The function does not change with it, as the sum of a softmax does not. Look at the "
            "contributions in `trace.table()`.",
            CHAIN,
        )
    return (
        f"the upstream that the backward pass started with at {name} is 0.",
        "Everything downstream is upstream times something. Start with another upstream.",
        UPSTREAM,
    )


def _finding(survey: Survey, origin: Origin, said: Said, values: list[Value]) -> Finding:
    because, hint, lesson = said
    who = names(survey.name(v) for v in values)
    head = f"the gradient of {who} is" if len(values) == 1 else f"the gradients of {who} are"
    op = None if origin.step is None else origin.step.op
    sources = tuple(survey.name(v).strip("`") for v in values)
    message = f"{head} exactly 0: {because}"
    return Finding("zero", message, hint, lesson, op, sources, survey.pass_.index)
