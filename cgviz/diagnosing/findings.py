"""The result of `trace.diagnose()`: its findings, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import overload

from .. import findings
from ..findings import Finding


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
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, place: int | slice) -> Finding | tuple[Finding, ...]:
        """One finding, or some."""
        return self.findings[place]

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
