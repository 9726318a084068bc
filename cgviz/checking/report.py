"""What `check` found: a table of rules, and for each broken one where, why and what to do.

Rule      a record in the registry: what a gradient must keep
Row       one line of the table: a rule and how it fared
Results   what the rules write into while they run
Sweep     a derivative over a range, and its picture
Report    the outcome, as text, as a page and as a picture
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from .. import style
from ..findings import Finding, Outcome
from ..graph import Array
from ..reading.format import html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = {"pass": "✓", "fail": "✗", "warn": "!", "skip": "–"}
WORDS = {"pass": "passed", "fail": "failed", "warn": "warning", "skip": "not judged"}


@dataclass(frozen=True)
class Rule:
    """What a right gradient keeps: one line of the report.

    `level` is that of its findings, "error" or "warning", where they do not say otherwise;
    `judge` writes into the results of the case it is given, and is None for a rule that another
    one's function judges along with its own.
    """

    name: str
    lesson: str
    judge: Callable[[Any], None] | None = None
    level: str = "error"


@dataclass(frozen=True)
class Row:
    """One line of the table: a rule, how it fared ("pass", "fail", "warn", "skip"), and why."""

    rule: str
    state: str
    reason: str


class Results:
    """What the rules write into while they run; `rows` is by the name of the rule."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self.rows: dict[str, Row] = {}
        self.findings: list[Finding] = []

    def passed(self, rule: str, reason: str) -> None:
        """The rule is kept."""
        self.rows.setdefault(rule, Row(rule, "pass", reason))

    def skipped(self, rule: str, reason: str) -> None:
        """The rule could not be judged, or does not apply."""
        self.rows.setdefault(rule, Row(rule, "skip", reason))

    def broken(
        self, rule: str, reason: str, message: str, hint: str, *, level: str = "", lesson: str = ""
    ) -> None:
        """The rule is broken: a row, and a finding; level and lesson are the rule's by default."""
        known = self.rules[rule]
        level = level or known.level
        state = "warn" if level == "warning" else "fail"
        old = self.rows.get(rule)
        if old is None or old.state in ("pass", "skip") or (old.state, state) == ("warn", "fail"):
            self.rows[rule] = Row(rule, state, reason)
        self.findings.append(Finding(rule, message, hint, lesson or known.lesson, level=level))

    def has(self, rule: str) -> bool:
        """Whether this rule has a finding of level "error"."""
        return any(f.rule == rule and f.level == "error" for f in self.findings)


@dataclass(frozen=True)
class Sweep:
    """The derivative of the outputs' sum by one entry, as that runs from left to right."""

    output: str
    name: str  # of the entry
    at: Array
    here: float  # the point that was checked
    lines: dict[str, Array]  # finite differences, autodiff of the body, custom rule

    def plot(self, ax: Axes | None) -> Axes:
        """Draw three lines that differ in dash as well as in colour."""
        from ..drawing.figure import new_axes, speak

        ax = new_axes(ax, 6.4, 3.6)
        tones = style.LIGHT
        looks: tuple[dict[str, Any], ...] = (
            {"color": tones.text, "lw": 4, "alpha": 0.25},
            {"color": tones.forward, "lw": 1.8},
            {"color": tones.backward, "lw": 2.2, "ls": "--"},
        )
        for (label, values), look in zip(self.lines.items(), looks, strict=True):
            ax.plot(self.at, values, label=label, **look)
        ax.axvline(self.here, color=tones.muted, lw=1.2, ls=":", label="the point checked")
        ax.set_xlabel(self.name)
        ax.set_ylabel(f"d {self.output} / d {self.name}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        return speak(ax, self.alt)

    @property
    def alt(self) -> str:
        """The picture in sentences: what it shows, and the three lines at both ends."""
        number = style.number
        ends = [f"{k} {number(y[0])} and {number(y[-1])}" for k, y in self.lines.items()]
        return (
            f"The derivative d sum(out) / d {self.name}, as {self.name} runs from "
            f"{number(self.at[0])} to {number(self.at[-1])}. At the two ends: "
            f"{', '.join(ends[::-1])}."
        )


class Report(Outcome):
    """The outcome of `cgviz.check`.

    `.ok` is whether there is no error; `.findings` is everything that is wrong, errors first, each
    with `.rule .level .message .hint .lesson`; `.rows` is the table. A report never raises by
    itself: `.assert_ok()` does.
    """

    def __init__(
        self,
        title: str,
        results: Results,
        places: Sequence[Row] = (),
        notes: Sequence[str] = (),
        sweep: Callable[[], Sweep] | None = None,
    ) -> None:
        order = list(results.rules)
        found = sorted(results.findings, key=lambda f: (f.level != "error", order.index(f.rule)))
        super().__init__(title, found, notes)
        self.rows = tuple(sorted(results.rows.values(), key=lambda row: order.index(row.rule)))
        self.places = tuple(places)
        self._sweep = sweep
        errors = sum(f.level == "error" for f in self.findings)
        counts = ((errors, "error"), (len(self.findings) - errors, "warning"))
        words = ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counts if n)
        outcome = "✓ right" if self.ok else "✗ wrong"
        self.headline = f"check of {title}: {outcome}{f' ({words})' if words else ''}"

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
        if self._sweep is None:
            raise ValueError("there is nothing to draw: f has no derivative to sweep over")
        return self._sweep().plot(ax)

    def head(self) -> list[str]:
        """The headline with the places, and the table."""
        places = "  ".join(f"{p.rule} {MARKS[p.state]}" for p in self.places)
        width = max((len(row.rule) for row in self.rows), default=0)
        rows = [f"{MARKS[r.state]} {r.rule.ljust(width)}  {r.reason}" for r in self.rows]
        return [f"{self.headline}\n{places}".rstrip(), "\n".join(rows)]

    def page(self) -> str:
        """The headline, the places and the table as HTML."""
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
        table = html_table("The rules, and how each fared", ["outcome", "rule", "why"], [], rows)
        return f"{EXTRA}\n{super().page()}<p>{badges}</p>\n{table}"


EXTRA = """<style>
.cgviz-report .cgviz-badge { border: 1px solid var(--jp-border-color1, #a8a8a8);
  border-radius: 1em; padding: 0.05em 0.7em; }
.cgviz-report table.cgviz-rows td.cgviz-reason { white-space: normal; max-width: 60em; }
.cgviz-report .cgviz-fail { color: var(--cgviz-wrong, light-dark(#A34700, #FF9A57)); }
.cgviz-report .cgviz-mark { font-weight: 700; }
</style>"""


def _mark(state: str) -> str:
    return (
        f'<span class="cgviz-mark cgviz-{state}" role="img" aria-label="{WORDS[state]}">'
        f"{MARKS[state]}</span>"
    )
