"""`trace.diagnose()`: where a gradient went wrong, and why.

`QUESTIONS` is what is asked of each backward pass; each answers with findings, all read off the
numbers of the trace. What a question can answer is the table of causes in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

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
    by_op = {(f.what, f.op or f.message, f.sources): f for f in reversed(found)}
    by_message = {(f.what, f.message): f for f in by_op.values()}
    return [f for f in found if by_message.get((f.what, f.message)) is f]


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
