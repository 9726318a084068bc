"""`trace.diagnose()`: where a gradient went wrong, and why.

`QUESTIONS` is what is asked of each backward pass; each answers with findings, all read off the
numbers of the trace. What a question can answer is the table of causes in its module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..findings import Finding, Outcome
from ..graph import Trace
from . import none, numbers, scale
from .pass_graph import PassGraph, listed

QUESTIONS: tuple[Callable[[PassGraph], list[Finding]], ...] = (
    none.find,
    numbers.not_finite,
    numbers.zero,
    scale.find,
)


class Diagnosis(Outcome, Sequence[Finding]):
    """What `trace.diagnose()` found: a sequence of findings, empty where all is well."""

    def __init__(
        self, title: str, findings: Iterable[Finding], healthy: str, notes: Iterable[str] = ()
    ) -> None:
        super().__init__(title, findings, notes)
        count = len(self)
        said = f"{count} finding{'s' * (count != 1)}" if count else healthy
        self.headline = f"diagnosis of {title}: {said}"

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: Any) -> Any:
        return self.findings[index]


def diagnose(trace: Trace, which: int | None = None) -> Diagnosis:
    """What `trace.diagnose` does."""
    chosen = trace.passes if which is None else (trace.pass_(which),)
    graphs = [PassGraph(trace, each) for each in chosen]
    found: list[tuple[int, Finding]] = []  # each with the training step that it is of
    for graph in graphs:
        ends = graph.pass_.targets if graph.first_order else ()
        found += [(graph.training_step, each) for each in numbers.forward(trace, ends)]
    if graphs:
        found += [(0, each) for each in none.dropped(graphs[0])]
    else:
        every = [v for op in trace.ops for v in op.outputs]
        found += [(0, each) for each in numbers.forward(trace, every)]
    for graph in graphs:
        found += [(graph.training_step, each) for ask in QUESTIONS for each in ask(graph)]
    first = _first_in_time(found, scale.diverging(graphs))
    findings = _unique([each for each in first if each.level != "note"])
    told = [f"{each.message} {each.hint}" for each in first if each.level == "note"]
    remarks = [text[0].upper() + text[1:] for text in dict.fromkeys(told)]
    notes = [*_integers(trace, graphs), *remarks, *trace.notes]
    return Diagnosis(trace.title, findings, _healthy(trace, graphs), notes)


def _first_in_time(found: list[tuple[int, Finding]], diverges: Finding | None) -> list[Finding]:
    """The findings without what follows from those of an earlier training step.

    Args:
        found: Each with the training step that it is of.
        diverges: Why the numbers of a training went out of bounds, if they did.
    """
    bad = [step for step, each in found if each.what in ("nan", "inf", "exploding")]
    last = min(bad, default=math.inf)
    told = []
    if diverges is not None and last > 0:
        told, last = [diverges], 0
    return told + [each for step, each in found if each.what == "none" or step <= last]


def _unique(found: list[Finding]) -> list[Finding]:
    """Each trouble once, also where several passes or rounds of a loop have it."""
    kept: dict[object, Finding] = {}
    for each in found:
        line = each.source and (each.source.file, each.source.line)
        where = (each.op and each.op.type, line) if line else each.op or each.message
        sources = tuple(re.sub(r"_\d+$", "", name) for name in each.sources)  # `w_1` is a later `w`
        kept.setdefault((each.what, where, sources), each)
    once = {(each.what, each.message): each for each in reversed(kept.values())}
    return list(reversed(once.values()))


def _healthy(trace: Trace, graphs: list[PassGraph]) -> str:
    """What is said where nothing was found."""
    if not graphs:
        why = "" if trace.notes else ": call `tape.gradient` inside the recording"
        return f"no backward pass, so no gradient{why}."
    if not any(graph.pass_.sources for graph in graphs):
        return "no gradient was asked for: `sources` was empty."
    return "healthy. No gradient is None, zero, NaN, infinite, vanishing or exploding."


def _integers(trace: Trace, graphs: list[PassGraph]) -> list[str]:
    """A remark where integers are among the arguments of `trace`."""
    if not graphs or trace.asked:
        return []
    whole = [graphs[0].name(v) for v in graphs[0].pass_.sources if not v.differentiable]
    return [f"{listed(whole)} got no gradient: integers have none."] if whole else []
