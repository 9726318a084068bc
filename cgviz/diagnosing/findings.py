"""What a diagnosis says: findings, in words for a tired student, as text and as a page.

Finding     one trouble: what, at which op, why, how to mend it, which lesson tells more
Diagnosis   all of them, in the order to look at them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import overload

from .. import style
from ..graph import Op, Source

SIGNS = {
    "none": style.NONE,
    "zero": style.ZERO,
    "nan": style.NAN,
    "inf": style.POSITIVE_INFINITY,
    "vanishing": style.Sign("↓", "vanishing"),
    "exploding": style.Sign("↑", "exploding"),
}


@dataclass(frozen=True, eq=False)
class Finding:
    """One trouble with a gradient or a value.

    `what` is "none", "zero", "nan", "inf", "vanishing" or "exploding"; `op` is where it began, or
    None where no op is to blame; `sources` are the names of what it takes the gradient from.
    """

    what: str
    message: str
    hint: str
    lesson: str
    op: Op | None = None
    sources: tuple[str, ...] = ()
    which: int | None = None  # the backward pass, as in `trace.passes`

    @property
    def name(self) -> str:
        """The name of the op where it began, or ""."""
        return "" if self.op is None else self.op.name

    @property
    def source(self) -> Source | None:
        """The learner's own line where it began."""
        return None if self.op is None else self.op.source or self.op.rule

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"{SIGNS[self.what]}: {self.message}",
                f"  how to mend it: {self.hint}",
                f"  lesson: {self.lesson}",
            ]
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
        from ..reading.sheet import STYLE  # one look for all that is read

        cards = "".join(map(_card, self.findings))
        found = f'<ol class="cgviz-findings">\n{cards}</ol>\n' if cards else ""
        notes = "" if self.ok else "".join(f"<p>{escape(note)}</p>\n" for note in self.notes)
        return (
            f'{STYLE}\n{EXTRA}\n<div class="cgviz-sheet cgviz-diagnosis">\n'
            f"<p><strong>{escape(self.headline)}</strong></p>\n{found}{notes}</div>"
        )


EXTRA = """<style>
.cgviz-diagnosis ol.cgviz-findings { list-style: none; margin: 0; padding: 0; }
.cgviz-diagnosis ol.cgviz-findings > li { max-width: 60em; margin: 0.8em 0;
  padding: 0.1em 0 0.1em 0.9em; border-left: 4px solid #D55E00; }
.cgviz-diagnosis .cgviz-what { color: light-dark(#A34700, #FF9A57); font-weight: 700; }
[data-jp-theme-light="true"] .cgviz-diagnosis .cgviz-what { color: #A34700; }
[data-jp-theme-light="false"] .cgviz-diagnosis .cgviz-what { color: #FF9A57; }
.cgviz-diagnosis code { white-space: pre-wrap; background: none; color: inherit; padding: 0;
  font-family: var(--jp-code-font-family, monospace); font-size: 0.95em; }
.cgviz-diagnosis .cgviz-aside { color: var(--jp-content-font-color2, inherit); }
</style>"""


def _card(finding: Finding) -> str:
    sign = SIGNS[finding.what]
    return (
        f'<li><p><span class="cgviz-what"><span aria-hidden="true">{sign.symbol}</span> '
        f"{escape(sign.word)}</span>: {_code(finding.message)}</p>\n"
        f"<p>How to mend it: {_code(finding.hint)}</p>\n"
        f'<p class="cgviz-aside">Lesson: {escape(finding.lesson)}</p></li>\n'
    )


def _code(text: str) -> str:
    """Text with its `code` set as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a lone tick of the learner's own
        return escape(text)
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
