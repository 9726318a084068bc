"""`trace.diagnose()`: where a gradient went wrong, and why.

`QUESTIONS` is what is asked of each backward pass; each answers with findings, all read off the
numbers of the trace. What a question can answer is the table of causes in its module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from html import escape

from .. import findings
from ..findings import Finding
from ..graph import Trace
from . import none, numbers, scale
from .pass_graph import PassGraph, listed

QUESTIONS: tuple[Callable[[PassGraph], list[Finding]], ...] = (
    none.find,
    numbers.not_finite,
    numbers.zero,
    scale.find,
)


class Diagnosis(tuple[Finding, ...]):
    """What `trace.diagnose()` found: a sequence of findings, empty where all is well.

    `ok` is whether there is none; `notes` are remarks that are no trouble.
    """

    title: str
    notes: tuple[str, ...]
    _healthy: str

    def __new__(
        cls, title: str, findings: Iterable[Finding], healthy: str, notes: Iterable[str] = ()
    ) -> Diagnosis:
        """A diagnosis of what is called `title`; `healthy` is said where nothing is found."""
        made = super().__new__(cls, findings)
        made.title, made.notes, made._healthy = title, tuple(notes), healthy
        return made

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings alone, in the order to look at them."""
        return tuple(self)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self

    @property
    def headline(self) -> str:
        """The outcome in a line."""
        if self.ok:
            return " ".join([f"diagnosis of {self.title}: {self._healthy}", *self.notes])
        count = len(self)
        return f"diagnosis of {self.title}: {count} finding{'s' * (count != 1)}"

    def __repr__(self) -> str:
        if self.ok:
            return self.headline
        return "\n\n".join([self.headline, *map(repr, self), *self.notes])

    def _repr_html_(self) -> str:
        from ..reading.format import STYLE  # one look for all that is read

        notes = "" if self.ok else "".join(f"<p>{escape(note)}</p>\n" for note in self.notes)
        return (
            f'{STYLE}\n<div class="cgviz-sheet cgviz-diagnosis">\n'
            f"<p><strong>{escape(self.headline)}</strong></p>\n"
            f"{findings.html(self)}{notes}</div>"
        )


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
    """A remark where integers are among the arguments."""
    if not graphs or trace.asked:
        return []
    whole = [v for v in graphs[0].pass_.sources if not v.differentiable]
    if not whole:
        return []
    who = listed(graphs[0].name(v) for v in whole)
    if len(whole) == 1:
        return [f"{who} is {whole[0].dtype}, and gets no gradient, as integers do."]
    return [f"{who} are {listed(v.dtype for v in whole)}, and get no gradient, as integers do."]
