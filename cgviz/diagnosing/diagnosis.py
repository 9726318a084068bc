"""`trace.diagnose()`: where a gradient went wrong, and why.

`QUESTIONS` is what is asked of each backward pass; each answers with findings, all read off the
numbers of the trace. What a question can answer is the table of causes in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import overload

from .. import findings
from ..findings import Finding
from ..graph import Trace, Value
from ..graph.names import value_name
from . import none, not_finite, scale, zero
from .pass_graph import PassGraph, listed

QUESTIONS: tuple[Callable[[PassGraph], list[Finding]], ...] = (
    none.find,
    not_finite.backward,
    zero.find,
    scale.find,
)


class Diagnosis(Sequence[Finding]):
    """What `trace.diagnose()` found: a sequence of findings, empty where all is well.

    `ok` is whether there is none; `notes` are remarks that are no trouble.
    """

    def __init__(
        self, title: str, findings: Sequence[Finding], healthy: str, notes: Sequence[str] = ()
    ) -> None:
        self.title = title
        self.findings = tuple(findings)
        self.notes = tuple(notes)
        self._healthy = healthy

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __len__(self) -> int:
        return len(self.findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        """One finding, or some."""
        return self.findings[index]

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
        return "\n\n".join([self.headline, *map(repr, self.findings), *self.notes])

    def _repr_html_(self) -> str:
        from ..reading.format import STYLE  # one look for all that is read

        notes = "" if self.ok else "".join(f"<p>{escape(note)}</p>\n" for note in self.notes)
        return (
            f'{STYLE}\n<div class="cgviz-sheet cgviz-diagnosis">\n'
            f"<p><strong>{escape(self.headline)}</strong></p>\n"
            f"{findings.html(self.findings)}{notes}</div>"
        )


def diagnose(trace: Trace, which: int | None = None) -> Diagnosis:
    """What `trace.diagnose` does."""
    chosen = trace.passes if which is None else (trace.pass_(which),)
    graphs = [PassGraph(trace, each) for each in chosen]
    found = _forward(trace, graphs)
    if graphs:
        found += none.dropped(graphs[0])
    for graph in graphs:
        for ask in QUESTIONS:
            found += ask(graph)
    return Diagnosis(trace.title, _unique(found), _healthy(graphs), _notes(trace, graphs))


def _forward(trace: Trace, graphs: list[PassGraph]) -> list[Finding]:
    """NaN and infinity of the forward pass: in the targets, or without any in every op."""
    ends: Iterable[Value] = [t for g in graphs if g.first_order for t in g.pass_.targets]
    if not trace.passes:
        ends = [v for op in trace.ops for v in op.outputs]
    return not_finite.forward(trace.ops, ends, lambda v: f"`{value_name(trace, v)}`")


def _unique(found: list[Finding]) -> list[Finding]:
    """Each trouble once, also where several passes have it."""
    kept: dict[object, Finding] = {}
    for each in found:
        where = each.message if each.op is None else (each.op, each.sources)
        kept.setdefault((each.what, where), each)
    once = {(each.what, each.message): each for each in reversed(kept.values())}
    return list(reversed(once.values()))


def _healthy(graphs: list[PassGraph]) -> str:
    """What is said where nothing was found."""
    if not graphs:
        return "no backward pass, so no gradient: call `tape.gradient` inside the recording."
    if not any(graph.pass_.sources for graph in graphs):
        return "no gradient was asked for: `sources` was empty."
    return "healthy. No gradient is None, zero, NaN, infinite, vanishing or exploding."


def _notes(trace: Trace, graphs: list[PassGraph]) -> list[str]:
    """Remarks that are no trouble: integers among the arguments."""
    if not graphs or trace.asked:
        return []
    whole = [v for v in graphs[0].pass_.sources if not v.differentiable]
    if not whole:
        return []
    who = listed(graphs[0].name(v) for v in whole)
    if len(whole) == 1:
        return [f"{who} is {whole[0].dtype}, and gets no gradient, as integers do."]
    return [f"{who} are {listed(v.dtype for v in whole)}, and get no gradient, as integers do."]
