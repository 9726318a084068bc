"""check() judges whether a gradient is right, here and wherever it will be used, and reports it."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from .. import style
from ..findings import Outcome, Progress
from ..graph import Array, dtypes
from ..hinting import hints
from ..lessons import GRAPHS
from ..reading.format import counted, html_table, stylesheet
from ..recording import arguments, tf_hooks
from . import derivatives, flattened, rules
from .case import Case, Results, Row, Rule, examine
from .comparison import wobble
from .differences import slope
from .flattened import Flattened, Pulled, copies, join, kept, largest_beside, split

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    known = ("eager", *PLACES)
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
        results.rules["xla"] = replace(PLACES["xla"], level="error")
    variables = copies(leaf.source for leaf in flat.leaves if leaf.variable)
    try:
        with kept(variables):
            try:
                case = examine(flat, results, order, bool(surrogate), variables)
            except Exception as error:
                rules.raised(results, error)
                eager = Row("eager", "fail", "raises")
                return Report(title, results, [eager] if "eager" in wanted else [], [], None)
            chosen = [rule for name, rule in PLACES.items() if name in wanted]
            usual = RULES if case.deterministic else (*rules.RULES, *rules.AGAIN)
            for rule in (*usual, *chosen) if case.targets else rules.RULES[:1]:
                progress.doing = rule.name
                if rule.judge is not None:
                    rule.judge(case)
    finally:
        progress.close()
    rows = {"eager": Row("eager", "pass", "runs here")} | results.rows
    visited = [rows[name] for name in known if name in wanted and name in rows]
    notes = ["f draws random numbers: every run here used the same seed."] * case.flat.seeded
    missing = [f'"{name}"' for name in PLACES if name not in wanted]
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
    an infinite slope, because f raises at every other input, or because a tie takes too long to
    judge. A report never raises by itself: `.assert_ok()` does.
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
    half = max(2.0 * flattened.largest(judged.x[leaf.span]), 1.0)
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


# --- in another place --------------------------------------------------------------------------
#
# f runs there with the same upstream, and its value and gradients are compared with eager mode.


def visit(case: Case, rule: str, run: Callable[[Case], Pulled], what: str, hint: str) -> None:
    """Run f in another place, compare it with eager mode, and note the outcome.

    Args:
        case: The check.
        rule: The rule that is judged.
        run: Computes value and gradients there, for `case.upstream`.
        what: The beginning of the message if `run` raises.
        hint: What to do if the numbers differ; for "saved", also if saving raises.
    """
    results = case.results
    if rule == "saved" and tf_hooks.is_loaded(case.flat.f):
        # Saving it again would add the rules of this process, which its file may lack.
        results.skipped(rule, "f comes from a SavedModel: check it in a fresh process instead")
        return
    try:
        found = run(case)
    except Exception as error:
        about, mend = rules.explain(error)
        if results.has(about):
            results.rows[rule] = Row(rule, "fail", f"raises: see {about}")
        else:
            numbers = _NUMBERS if "does not match type" in str(error) else ""
            mend = mend or (hint if rule == "saved" else numbers)
            told = rules.said(error)
            if "indexed_slices.py" in hints.way(error):  # the rule that made them has returned
                sliced = [s for s in case.steps if tf.IndexedSlices in map(type, s.downstream)]
                by = {step.label for step in sliced}
                told = f"{told.rstrip('.')}, by {by.pop()}." if len(by) == 1 else told
            results.broken(rule, "raises", f"{what} raised {told}", mend)
        return
    if case.flat.seeded and not case.draws:
        results.broken(rule, "draws once", *_ONE_DRAW)
    elif case.flat.seeded or not case.deterministic:
        results.passed(rule, "f is random, so its numbers differ there; it runs")
    elif results.has("variables"):  # chance decides which variable gets which gradient
        results.skipped(rule, "runs; not compared: see variables")
    elif message := _difference(case, found):
        results.broken(rule, "differs", message, hint)
    else:
        results.passed(rule, "the same value and gradients as in eager mode")


def _difference(case: Case, found: Pulled) -> str:
    """In words, the first number that differs from eager mode's and is no nearer to float64's."""
    eager, wide, dtype = case.eager, case.wide, case.given
    if found.value.shape != eager.value.shape:
        return f"f returns {found.value.size} numbers there, and {eager.value.size} in eager mode."

    def first(
        name: Callable[[int], str], mine: Array, usual: Array, true: Array, give: Array
    ) -> str:
        near = np.abs(mine - usual) <= dtype.wrong * np.abs(usual) + give
        # A graph may compute log(1 + x) as log1p, nearer to the truth than eager mode: no fault.
        near |= np.abs(mine - true) < np.abs(usual - true)
        # Or what eager mode loses beside a 1, in float64 too.
        near |= (usual == 0) & (np.abs(mine) < dtypes.FLOAT32.eps)
        same = near | (mine == usual) | (np.isnan(mine) & np.isnan(usual))
        if same.all():
            return ""
        i = int(np.argmin(same))
        there, here = style.number(mine[i]), style.number(usual[i])
        return f"{name(i)} is {there} there, and {here} in eager mode."

    # The operations may run in another order: in float32 three digits stay the same.
    part = max(1e-4, 2 * dtype.eps)
    give = part * largest_beside(eager.value)
    values = case.output_name, found.value, eager.value, wide.value
    words = first(*values, give) and first(*values, give + _noise(case))
    moved = part * largest_beside(eager.vector, case.flat.sizes)
    gradients = case.gradient_name, found.vector, eager.vector, wide.vector
    # `case.give` takes two runs.
    return words or (first(*gradients, moved) and first(*gradients, moved + case.give))


def _noise(case: Case) -> Array:
    """How far rounding may move an output where large terms cancel in f, as in x / 3 · 3 - x.

    It is at most some last bits of the largest number on the way, or a jump would excuse anything,
    and what the last bits of the inputs do, or a large number that does not cancel would.
    """
    flat, eps = case.flat, case.given.eps
    sizes = [*map(flattened.vector_size, case.targets)]
    moved = 10 * largest_beside(wobble(flat.forward, case.eager.value, flat.x, eps), sizes)
    return np.minimum(moved, 16 * eps * rules.largest_term(lambda: flat.forward(flat.x)))


def compiled(case: Case, **how: Any) -> Pulled:
    """f and its backward pass under `tf.function`, as in a training loop."""
    flat = case.flat

    def run(*args: Any) -> Any:
        tape, sources, targets = flat.taped(args)
        return targets, tape.gradient(targets, sources, split(case.upstream, case.targets))

    targets, gradients = tf.function(run, **how)(*flat.arguments(flat.x))
    return flat.pulled(gradients, join(targets))


# --- from a SavedModel -------------------------------------------------------------------------

MOST_SECONDS = 300  # for the process, which imports TensorFlow; a graph of thousands of ops is slow


def in_a_fresh_process(case: Case) -> Pulled:
    """f saved as a SavedModel and differentiated in a fresh process, which knows nothing of it."""
    flat = case.flat
    module = tf.Module()
    module.inner = flat.f if isinstance(flat.f, tf.Module) else None
    # All leaves as variables, which a SavedModel keeps whatever their dtype.
    module.leaves = [x.source if x.variable else tf.Variable(x.source) for x in flat.leaves]
    module.touched = [variable for variable, _ in case.variables.values()]  # those of rules, too
    module.upstream = [tf.Variable(u) for u in split(case.upstream, case.targets)]
    signature = [tf.TensorSpec(x.source.shape, x.source.dtype) for x in flat.leaves]
    module.call = tf.function(
        lambda *tensors: flat.outputs(flat.f(*flat.packed(tensors))), input_signature=signature
    )
    flattened.restore(flat.changed)  # the last run of f may have changed them
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, f"{folder}/model")
        # Collecting garbage, and tearing TensorFlow down at exit, would take a third of the time.
        program = f"import gc, os\ngc.disable()\n{inspect.getsource(reload)}\n\n"
        program += f"reload({folder!r})\nos._exit(0)"
        done = subprocess.run(
            [sys.executable, "-I", "-c", program],
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        if done.returncode:
            lines = [line for line in done.stderr.strip().splitlines() if ": " in line]
            raise RuntimeError(lines[-1] if lines else f"the process ended with {done.returncode}")
        with np.load(f"{folder}/found.npz") as arrays:
            found = [arrays[name] for name in arrays.files]
    count = len(case.targets)
    return flat.pulled(found[count:], join(found[:count]))


def reload(folder: str) -> None:
    """Load the model in a folder, differentiate it, and write value and gradients beside it.

    The process that runs it gets only the source of this function, so that nothing from cgviz or
    from the caller can help the model along.
    """
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    module = tf.saved_model.load(f"{folder}/model")
    variables = list(module.leaves)
    with tf.GradientTape() as tape:
        tape.watch(variables)
        # If f itself also reads a leaf, the gradients of both uses are added up.
        targets = module.call(*(each.read_value() for each in variables))
    upstream = [tf.convert_to_tensor(each) for each in module.upstream]
    found = tape.gradient(targets, variables, upstream, unconnected_gradients="zero")
    for i, (gradient, variable) in enumerate(zip(found, variables, strict=True)):
        if isinstance(gradient, tf.IndexedSlices):  # may not know its dense shape
            slices = tf.IndexedSlices(gradient.values, gradient.indices, tf.shape(variable))
            found[i] = tf.convert_to_tensor(slices)
    # NumPy's files cannot hold bfloat16.
    wide = [
        tf.cast(t, tf.complex128 if t.dtype.is_complex else tf.float64) for t in (*targets, *found)
    ]
    np.savez(f"{folder}/found.npz", *wide)


# --- the rules ---------------------------------------------------------------------------------


def _place(name: str, run: Callable[[Case], Pulled], *words: str) -> Rule:
    level = "error" if name in ("graph", "saved") else "warning"
    return Rule(name, GRAPHS, lambda case: visit(case, name, run, *words), level)


_ONE_DRAW = (
    "f draws numbers with Python or NumPy: a graph draws them once, while it is traced.",
    "Draw them with TensorFlow: tf.random.uniform.",
)
_NUMBERS = (
    "A Python number given to a custom gradient becomes a tensor there, of float32 or int32: close "
    "over it instead."
)
_TRACED = (
    "A graph runs the Python code of f once, while it is traced: state, prints and Python "
    f"conditions stay as they were at that moment. {_NUMBERS} If the numbers are mere rounding, as "
    "the norm of a 0 is, check at another point."
)
PLACES = {
    "graph": _place("graph", compiled, "under tf.function, f", _TRACED),
    "xla": _place(
        "xla", partial(compiled, jit_compile=True, autograph=False), "under XLA, f", _TRACED
    ),
    "saved": _place(
        "saved",
        in_a_fresh_process,
        "saved and loaded in a fresh process, f",
        "What a SavedModel holds must be TensorFlow's: no NumPy functions, and custom gradients "
        "saved with tf.saved_model.SaveOptions(experimental_custom_gradients=True).",
    ),
}
"""The rules of the places other than "eager", each judged if `check(where=...)` names it."""

RULES = (*rules.RULES, *derivatives.RULES, *rules.AGAIN)
"""The rules that every check judges, in the order in which they run and stand in the table."""

EVERY_RULE = (*RULES, *PLACES.values(), derivatives.SURROGATE)
"""All lines that the table may have, in order."""
