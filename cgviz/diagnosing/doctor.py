"""Where a gradient went wrong, and why: the outcome of `trace.diagnose()`.

The looking is done in rooms of their own: `lost` for None, `zeros`, `overflow` and `nonfinite` for
NaN and infinity forward and backward, `scales` for vanishing and exploding. Every finding is read
off the numbers of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..findings import Finding
from ..graph import Trace, Value
from ..graph.names import value_name
from . import lost, nonfinite, overflow, scales, zeros
from .findings import Diagnosis
from .survey import Survey, names


def diagnose(trace: Trace, which: int | None = None) -> Diagnosis:
    """What `trace.diagnose` does."""
    chosen = trace.passes if which is None else (trace.pass_(which),)
    surveys = [Survey(trace, each) for each in chosen]
    found = _forward(trace, surveys)
    if surveys:
        found += lost.dropped(surveys[0])
    for survey in surveys:
        found += lost.find(survey, asked=trace.asked)
        found += nonfinite.find(survey)
        found += zeros.find(survey)
        found += scales.find(survey)
    if surveys:
        healthy = (
            "healthy. No gradient is None, zero, NaN, infinite, vanishing or exploding."
            if any(survey.pass_.sources for survey in surveys)
            else "no gradient was asked for: `sources` was empty."
        )
    else:
        healthy = "no backward pass, so no gradient: call `tape.gradient` inside the recording."
    return Diagnosis(trace.title, _unique(found), healthy, _notes(trace, surveys))


def _forward(trace: Trace, surveys: list[Survey]) -> list[Finding]:
    """NaN and infinity of the forward pass: in the targets, or without any in every op."""
    ends: Iterable[Value] = [t for s in surveys if s.first_order for t in s.pass_.targets]
    if not trace.passes:
        ends = [v for op in trace.ops for v in op.outputs]
    return overflow.find(trace.ops, ends, lambda v: f"`{value_name(trace, v)}`")


def _unique(found: list[Finding]) -> list[Finding]:
    """Each trouble once, also where several passes have it."""
    kept: dict[object, Finding] = {}
    for each in found:
        where = each.message if each.op is None else (each.op, each.sources)
        kept.setdefault((each.what, where), each)
    return list({(each.what, each.message): each for each in reversed(kept.values())}.values())[
        ::-1
    ]


def _notes(trace: Trace, surveys: list[Survey]) -> list[str]:
    """Remarks that are no trouble: integers among the arguments."""
    if not surveys or trace.asked:
        return []
    whole = [v for v in surveys[0].pass_.sources if not v.differentiable]
    if not whole:
        return []
    who = names(surveys[0].name(v) for v in whole)
    if len(whole) == 1:
        return [f"{who} is {whole[0].dtype}, and gets no gradient, as integers do."]
    return [f"{who} are {names(v.dtype for v in whole)}, and get no gradient, as integers do."]
