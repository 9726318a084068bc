"""check() judges whether a gradient is right, here and wherever it will be used, and reports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import style
from ..findings import Outcome, Progress
from ..graph import Array
from ..reading.format import counted, html_table, stylesheet
from ..recording import arguments, tf_hooks
from . import derivatives, places, rules
from .case import Case, Results, Row, examine
from .differences import slope
from .flattened import Flattened, copies, kept, largest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULES = (*rules.RULES, *derivatives.RULES, *places.RULES)
"""The rules that every check judges, in the order in which they run and stand in the table."""

EVERY_RULE = (*RULES, *places.PLACES.values(), derivatives.SURROGATE)
"""All lines that the table may have, in order."""


def check(
    f: Callable[..., Any],
    *args: Any,
    order: int = 1,
    surrogate: bool = False,
    where: Sequence[str] | str = ("eager", "graph"),
) -> Report:
    """Judge whether the gradient of f is right at these arguments, wherever it will be used.

    The gradient that f's rules claim, upstream · df/dx, is compared with finite differences of f,
    (f(x+h) - f(x-h)) / 2h extrapolated to h = 0, in float64 if f runs in it. The rules are also run
    with other upstreams, and at inputs nearby, and f is differentiated twice, run in a graph, and
    so on. f may contain custom gradients at any depth, or none. An f that gives another value each
    time, with every seed fixed, is not judged, and not ok. Where a slope is infinite nothing can be
    judged: a warning names the entry, and if it is so for all, the headline says "not judged here".
    If it says "right at this point only", the gradient is wrong beside the point.

    Args:
        f: A function of tensors that returns a tensor, or a nested structure of tensors.
        *args: As in `cgviz.trace`: floats, lists of floats, arrays, tensors, variables, or tuples
            and dicts of these. All numbers must be finite.
        order: 2 makes a wrong second derivative an error, unless `surrogate` is set; with 1 it is
            a warning.
        surrogate: Whether the rule differs from the true derivative on purpose (straight-through,
            clipping, reversal). If so, the report shows the bias, which is no error, and no second
            derivative is judged.
        where: Some of "eager", "graph", "xla" and "saved". What fails under "xla" is a warning,
            unless no other is named. "saved" saves f and loads it in a fresh process, which takes
            some seconds. To check a model that was loaded from a file, call `check` in a fresh
            process, without "saved": the process that saved the model may have rules that the file
            lacks.

    Returns:
        A `Report`: `.ok`, `.findings`, `.assert_ok()`, `.plot()`.

    Raises:
        TypeError: f is not callable, or an argument is not made of numbers.
        ValueError: No arguments, integers where floats are meant, a number that is not finite, or
            an `order` or `where` that does not exist.
        RuntimeError: Called while a graph is being built.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> @tf.custom_gradient
        ... def square(x):
        ...     return x * x, lambda dy: 2.0 * x
        >>> report = cgviz.check(square, 3.0)
        >>> report.ok, [finding.rule for finding in report.findings]
        (False, ['upstream'])
    """
    given, named = arguments.convert(f, args, "cgviz.check")
    arguments.check_order(order)
    if order > 2:
        raise ValueError(
            f"cgviz.check judges first and second derivatives, and `order` is {order}: for a third "
            "one, check with order=2 a function that returns the first"
        )
    wanted = [where] if isinstance(where, str) else list(where)
    known = ("eager", *places.PLACES)
    if unknown := [name for name in wanted if name not in known]:
        listed = ", ".join(map(repr, known))
        raise ValueError(f"`where` holds {unknown[0]!r}, and there are only {listed}")
    title = arguments.title(f)
    progress = Progress(f"check of {title}")
    flat = Flattened(f, given, {id(t): name for t, name in named}, on_run=progress.run)
    for leaf in flat.leaves:
        if not np.isfinite(flat.x[leaf.span]).all():
            raise ValueError(
                f"cgviz.check: `{leaf.name}` holds NaN or infinity, and a derivative is judged at "
                "finite numbers. Check at a nearby point."
            )
    results = Results(EVERY_RULE)
    if {*wanted} == {"xla"}:  # f is to run there: no warning
        results.rules["xla"] = replace(places.PLACES["xla"], level="error")
    variables = copies(leaf.source for leaf in flat.leaves if leaf.variable)
    try:
        with kept(variables):
            try:
                case = examine(flat, results, order, bool(surrogate), variables)
            except Exception as error:
                rules.raised(results, error)
                eager = Row("eager", "fail", "raises")
                return Report(title, results, [eager] if "eager" in wanted else [], [], None)
            chosen = [rule for name, rule in places.PLACES.items() if name in wanted]
            usual = RULES if case.deterministic else (*rules.RULES, *places.RULES)
            for rule in (*usual, *chosen) if case.targets else rules.RULES[:1]:
                progress.doing = rule.name
                if rule.judge is not None:
                    rule.judge(case)
    finally:
        progress.close()
    rows = {"eager": Row("eager", "pass", "runs here")} | results.rows
    visited = [rows[name] for name in known if name in wanted and name in rows]
    notes = ["f draws random numbers: every run here used the same seed."] * case.flat.seeded
    missing = [f'"{name}"' for name in places.PLACES if name not in wanted]
    if missing:
        notes.append(f"not run: where=({', '.join(missing)}{',' if len(missing) == 1 else ''})")
    plot = partial(_plot, case) if case.targets and case.judged.x.size else None
    return Report(title, results, visited, notes, plot)


# --- the report --------------------------------------------------------------------------------

MARKS = {"pass": "✓", "fail": "✗", "warn": "!", "skip": "–"}
WORDS = {"pass": "passed", "fail": "failed", "warn": "warning", "skip": "not judged"}


class Report(Outcome):
    """The outcome of `cgviz.check`.

    `.ok` is whether there is no error; `.findings` is everything that is wrong, errors first, each
    with `.rule .level .message .hint .lesson`; `.rows` is the table, one row per test, and
    `.places` has the row of each place that was asked for. `.judged` is False where nothing is
    called wrong only because finite differences are too uncertain everywhere, as at a jump or at
    an infinite slope, because f raises at every other input, or because to judge a tie of many
    numbers takes too long. A report never raises by itself: `.assert_ok()` does.
    """

    def __init__(
        self,
        title: str,
        results: Results,
        places: Sequence[Row],
        notes: Sequence[str],
        plot: Callable[[Axes | None], Axes] | None,
    ) -> None:
        order = list(results.rules)
        found = sorted(results.findings, key=lambda f: (f.level != "error", order.index(f.rule)))
        super().__init__(title, found, notes)
        self.rows = tuple(sorted(results.rows.values(), key=lambda row: order.index(row.rule)))
        self.places = tuple(places)
        self._plot = plot
        errors = sum(f.level == "error" for f in self.findings)
        counts = ((errors, "error"), (len(self.findings) - errors, "warning"))
        words = ", ".join(counted(n, word) for n, word in counts if n)
        surrogate = "surrogate" in results.rows
        unknown = results.row("value").reason.startswith(derivatives.NOT_JUDGED)
        self.judged = surrogate or not unknown
        right = "✓ right as a surrogate" if surrogate else "✓ right"
        if results.row("second order").reason == derivatives.HERE:
            right = f"✓ {derivatives.HERE}"
        right = right if self.judged else "– not judged here"
        wrong = {each.rule for each in self.findings if each.level == "error"}
        outcome = "✗ not judged" if wrong == {"mutation"} else "✗ wrong" if wrong else right
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
            ValueError: f raised or has no derivative, so there is nothing to draw.
        """
        if self._plot is None:
            raise ValueError("there is nothing to draw: f raised, or has no derivative")
        return self._plot(ax)

    def head(self) -> list[str]:
        """The headline and the table."""
        width = max((len(row.rule) for row in self.rows), default=0)
        rows = [f"{MARKS[r.state]} {r.rule.ljust(width)}  {r.reason}" for r in self.rows]
        return [self.headline, "\n".join(rows)]

    def page(self) -> str:
        """The headline and the table as HTML."""
        rows = "".join(
            f'<tr class="cgviz-first"><td>{_mark(row.state)}</td>'
            f'<th scope="row">{escape(row.rule)}</th>'
            f'<td class="cgviz-reason">{escape(row.reason)}</td></tr>\n'
            for row in self.rows
        )
        table = html_table("The rules, and how each fared", ["outcome", "rule", "why"], [], rows)
        return f"{EXTRA}\n{super().page()}{table}"


EXTRA = stylesheet(__file__, "report.css")


def _mark(state: str) -> str:
    classes = f"cgviz-mark cgviz-{state}"
    return f'<span class="{classes}" role="img" aria-label="{WORDS[state]}">{MARKS[state]}</span>'


# --- its picture -------------------------------------------------------------------------------

POINTS = 121  # a point in every second pixel of the picture, and one at 0


def _plot(case: Case, ax: Axes | None) -> Axes:
    """Draw the derivative of the outputs' sum with respect to the first entry of the first input.

    The entry sweeps a range around 0 that contains all numbers of that input. The lines differ in
    dash as well as in colour.
    """
    from ..drawing.figure import new_axes, speak

    judged = case.judged
    leaf = judged.leaves[0]
    here, name = float(judged.x[0]), leaf.entry(0)
    half = max(2.0 * largest(judged.x[leaf.span]), 1.0)
    scale = 2.0 ** np.round(np.log2(half / 8))
    unit = np.eye(1, judged.x.size)[0]
    at = np.linspace(-half, half, POINTS)
    points = [judged.x + (t - here) * unit for t in at]

    def moved(t: float) -> Array:
        return np.array([case.ones @ judged.forward(x + t * scale * unit) for x in points])

    def claimed() -> Array:
        return np.array([judged.pull(None, x).vector[0] for x in points])

    with kept(copies(variable for variable, _ in case.variables.values())):
        true = slope(moved, moved(0.0), case.dtype.eps)
        custom = claimed()
        with tf_hooks.rules_ignored():
            body = claimed()
        vague = true.error > 0.05 * np.abs(true.value) + 1e-3
        differences = np.where(vague | true.jump | true.kink, np.nan, true.value / scale)
    ax = new_axes(ax, 6.4, 3.6)
    tones = style.LIGHT
    ax.plot(at, differences, label="finite differences", color=tones.text, lw=4, alpha=0.25)
    ax.plot(at, body, label="autodiff of the body", color=tones.forward, lw=1.8)
    ax.plot(at, custom, label="custom rule", color=tones.backward, lw=2.2, ls="--")
    ax.axvline(here, color=tones.muted, lw=1.2, ls=":", label="the point checked")
    derivative = f"d {case.sum_name} / d {name}"
    ax.set(xlabel=name, ylabel="slope" if judged.x.size == case.y.size == 1 else derivative)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    number = style.number
    found = {"custom rule": custom, "autodiff of the body": body, "finite differences": differences}
    ends = (f"{line} {number(y[0])} and {number(y[-1])}" for line, y in found.items())
    said = f"The derivative {derivative}, as {name} runs from {number(-half)} to {number(half)}."
    return speak(ax, f"{said} At the two ends: {', '.join(ends)}.")
