"""What `check` found: a table of rules, and for each that is broken where, why and what to do.

Finding   one thing that is wrong: rule, level, message, hint, lesson
Row       one line of the table: a rule and how it fared
Ledger    what the rules write into while they run
Report    the outcome, as text, as a page and as a picture
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from ..lessons import (
    CHAIN,
    DEBUGGING,
    GRAPHS,
    INPUTS,
    KINKS,
    NESTED,
    STABILITY,
    UPSTREAM,
    VARIABLES,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LESSONS = {
    "runs": DEBUGGING,
    "arity": INPUTS,
    "shape": INPUTS,
    "dtype": INPUTS,
    "keywords": INPUTS,
    "variables": VARIABLES,
    "upstream": UPSTREAM,
    "finite forward": STABILITY,
    "finite gradient": STABILITY,
    "captured": DEBUGGING,
    "numpy": GRAPHS,
    "none": INPUTS,
    "value": CHAIN,
    "precision": STABILITY,
    "kink": KINKS,
    "second order": NESTED,
    "mutation": GRAPHS,
    "registry": GRAPHS,
    "vectorised": GRAPHS,
    "graph": GRAPHS,
    "xla": GRAPHS,
    "saved": GRAPHS,
    "forward mode": GRAPHS,
    "surrogate": KINKS,
}
"""The rules in the order of the table, each with the lesson that explains it."""

MARKS = {"pass": "✓", "fail": "✗", "warn": "!", "skip": "–"}
WORDS = {"pass": "passed", "fail": "failed", "warn": "warning", "skip": "not judged"}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where, and what to do about it."""

    rule: str
    level: str  # "error" or "warning"
    message: str
    hint: str
    lesson: str


@dataclass(frozen=True)
class Row:
    """One line of the table: a rule, how it fared ("pass", "fail", "warn", "skip"), and why."""

    rule: str
    state: str
    reason: str


@dataclass
class Ledger:
    """What the rules write into while they run."""

    rows: dict[str, Row] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def passed(self, rule: str, reason: str) -> None:
        """The rule is kept."""
        self.rows.setdefault(rule, Row(rule, "pass", reason))

    def skipped(self, rule: str, reason: str) -> None:
        """The rule could not be judged, or does not apply."""
        self.rows.setdefault(rule, Row(rule, "skip", reason))

    def broken(
        self,
        rule: str,
        reason: str,
        message: str,
        hint: str,
        *,
        warning: bool = False,
        lesson: str = "",
    ) -> None:
        """The rule is broken: one row, and a finding with its place."""
        state = "warn" if warning else "fail"
        old = self.rows.get(rule)
        if old is None or old.state in ("pass", "skip") or (old.state, state) == ("warn", "fail"):
            self.rows[rule] = Row(rule, state, reason)
        level = "warning" if warning else "error"
        self.findings.append(Finding(rule, level, message, hint, lesson or LESSONS[rule]))

    def has(self, rule: str) -> bool:
        """Whether this rule has an error-level finding."""
        return any(f.rule == rule and f.level == "error" for f in self.findings)


class Report:
    """The outcome of `cgviz.check`.

    `.ok` is whether there is no error; `.findings` is everything that is wrong, errors first, each
    with `.rule .level .message .hint .lesson`; `.rows` is the table. A report never raises by
    itself: `.assert_ok()` does.
    """

    def __init__(
        self,
        title: str,
        ledger: Ledger,
        places: Sequence[Row] = (),
        notes: Sequence[str] = (),
        plot: Callable[[Any], Axes] | None = None,
    ) -> None:
        order = list(LESSONS)
        self.title = title
        self.rows = tuple(sorted(ledger.rows.values(), key=lambda row: order.index(row.rule)))
        self.findings = tuple(
            sorted(ledger.findings, key=lambda f: (f.level != "error", order.index(f.rule)))
        )
        self.places = tuple(places)
        self.notes = tuple(notes)
        self._plot = plot

    @property
    def ok(self) -> bool:
        """Whether no error was found; warnings do not count."""
        return not any(f.level == "error" for f in self.findings)

    def assert_ok(self) -> None:
        """Raise an AssertionError with this report as its text, unless it is ok."""
        if not self.ok:
            raise AssertionError(f"\n{self!r}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the derivative over a sweep: custom rule, autodiff of the body, finite differences.

        Args:
            ax: The Matplotlib axes to draw on; None makes a new figure.

        Returns:
            The axes.

        Raises:
            ValueError: f could not be run, so there is nothing to draw.
        """
        if self._plot is None:
            raise ValueError("there is nothing to draw: f has no derivative to sweep over")
        return self._plot(ax)

    @property
    def headline(self) -> str:
        """The outcome in a line."""
        errors = sum(f.level == "error" for f in self.findings)
        warnings = len(self.findings) - errors
        words = [f"{n} {word}{'s' * (n != 1)}" for n, word in _counts(errors, warnings) if n]
        return f"check of {self.title}: {'✓ right' if self.ok else '✗ wrong'}" + (
            f" ({', '.join(words)})" if words else ""
        )

    def __repr__(self) -> str:
        lines = [self.headline]
        if self.places:
            lines.append("  ".join(f"{p.rule} {MARKS[p.state]}" for p in self.places))
        lines.append("")
        width = max((len(row.rule) for row in self.rows), default=0)
        lines += [f"{MARKS[r.state]} {r.rule.ljust(width)}  {r.reason}" for r in self.rows]
        for each in self.findings:
            mark = MARKS["fail" if each.level == "error" else "warn"]
            lines += ["", f"{mark} {each.rule}: {each.message}"]
            lines += [f"  {name}: {text}" for name, text in _asides(each)]
        lines += ["", *self.notes] if self.notes else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ..reading.sheet import STYLE  # one look for all tables

        head = f"<p><strong>{escape(self.headline)}</strong></p>\n"
        badges = "".join(
            f'<span class="cgviz-badge">{escape(p.rule)} {_mark(p.state)}</span> '
            for p in self.places
        )
        rows = "".join(
            f'<tr class="cgviz-first"><td>{_mark(row.state)}</td>'
            f'<th scope="row">{escape(row.rule)}</th>'
            f'<td class="cgviz-reason">{escape(row.reason)}</td></tr>\n'
            for row in self.rows
        )
        return (
            f'{STYLE}\n{EXTRA}\n<div class="cgviz-sheet cgviz-report">\n{head}'
            f"{f'<p>{badges}</p>' if badges else ''}\n"
            '<table class="cgviz-rows">\n<caption>The rules, and how each fared</caption>\n'
            '<thead><tr><th scope="col"></th><th scope="col">rule</th>'
            f'<th scope="col">why</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n'
            f"{''.join(map(_card, self.findings))}"
            f"{''.join(f'<p>{escape(note)}</p>' for note in self.notes)}</div>"
        )


EXTRA = """<style>
.cgviz-report .cgviz-badge { border: 1px solid var(--jp-border-color1, #a8a8a8);
  border-radius: 1em; padding: 0.05em 0.7em; }
.cgviz-report table.cgviz-rows td.cgviz-reason { white-space: normal; max-width: 60em; }
.cgviz-report .cgviz-fail { color: var(--cgviz-wrong, light-dark(#A34700, #FF9A57)); }
.cgviz-report .cgviz-mark { font-weight: 700; }
.cgviz-report .cgviz-finding { border-left: 4px solid var(--jp-border-color0, #8c8c8c);
  margin: 0.8em 0; padding: 0.1em 0 0.1em 0.9em; max-width: 60em; }
.cgviz-report .cgviz-finding.cgviz-error { border-left-color: #D55E00; }
</style>"""


def _mark(state: str) -> str:
    return (
        f'<span class="cgviz-mark cgviz-{state}" role="img" aria-label="{WORDS[state]}">'
        f"{MARKS[state]}</span>"
    )


def _card(finding: Finding) -> str:
    state = "fail" if finding.level == "error" else "warn"
    asides = "".join(f"<p>{escape(name)}: {_words(text)}</p>" for name, text in _asides(finding))
    return (
        f'<div class="cgviz-finding cgviz-{finding.level}"><p>{_mark(state)} '
        f"<strong>{escape(finding.rule)}</strong>: {_words(finding.message)}</p>{asides}</div>\n"
    )


def _words(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _asides(finding: Finding) -> list[tuple[str, str]]:
    return [(n, t) for n, t in (("hint", finding.hint), ("lesson", finding.lesson)) if t]


def _counts(errors: int, warnings: int) -> list[tuple[int, str]]:
    return [(errors, "error"), (warnings, "warning")]
