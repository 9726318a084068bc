"""check() judges a gradient: right here, and right wherever it will be used.

checker       check(): the order of things
case          what one recorded run shows of f, and the point it is judged at
rules         what single runs tell: shape, dtype, upstream, variables, finite numbers, state
derivatives   what finite differences tell: value, precision
curvature     what they tell of the second order
places        graph, XLA, SavedModel, forward mode, jacobian
report        the outcome
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ..recording import arguments
from . import curvature, derivatives, linearity, places, rules, state
from .case import Case, first_run, widen
from .progress import Progress
from .report import Ledger, Report
from .subject import Pulled, Subject

STAGES = 8


def check(
    f: Callable[..., Any],
    *args: Any,
    order: int = 1,
    surrogate: bool = False,
    where: Sequence[str] | str = ("eager", "graph"),
) -> Report:
    """Judge whether the gradient of f is right at these arguments, wherever it will be used.

    What f's rules claim, upstream · df/dx, is held against finite differences of f,
    (f(x+h) - f(x-h)) / 2h extrapolated to h = 0, in float64 where f runs in it; then f is run
    with other upstreams, twice differentiated, in a graph, and so on. f may hold custom gradients
    at any depth, or none.

    Args:
        f: A function of tensors that returns a tensor, or a nested structure of tensors.
        *args: As in `cgviz.trace`: floats, lists of floats, arrays, tensors, variables, or tuples
            and dicts of these. All numbers must be finite.
        order: 2 makes a wrong second derivative an error; with 1 it is a warning.
        surrogate: The rule differs from the true derivative on purpose (straight-through,
            clipping, reversal): then the report shows the bias, and it is no error.
        where: Some of "eager", "graph", "xla", "saved" and "forward". "saved" loads a SavedModel
            in a fresh process, which takes some seconds.

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
    wanted = _places(where)
    if not tf.executing_eagerly():
        raise RuntimeError("cgviz.check runs f eagerly, and this code is building a graph")
    names = {id(tensor): name for tensor, name in named}
    subject = Subject(f, given, names)
    _finite(subject)
    case = Case(f, subject, Ledger(), order, bool(surrogate))
    progress = Progress(case.title, STAGES)
    try:
        with state.kept(f, given) as (variables, printed):
            subject.on_run = progress.run
            badges = _judge(case, wanted, variables, progress, printed)
    finally:
        progress.close()
    return Report(case.title, case.ledger, badges, _notes(case, wanted), partial(_plot, case))


def _places(where: Sequence[str] | str) -> list[str]:
    names = [where] if isinstance(where, str) else list(where)
    unknown = [name for name in names if name not in places.NAMES]
    if unknown:
        raise ValueError(
            f"`where` holds {unknown[0]!r}, and there are only {', '.join(map(repr, places.NAMES))}"
        )
    return [name for name in places.NAMES if name in names]


def _finite(subject: Subject) -> None:
    for leaf in subject.leaves:
        if not np.isfinite(subject.x[leaf.start : leaf.stop]).all():
            raise ValueError(
                f"cgviz.check: `{leaf.name}` holds NaN or infinity, and a derivative is judged at "
                "finite numbers. Check at a point beside it."
            )


def _judge(
    case: Case,
    where: Sequence[str],
    variables: dict[int, tuple[Any, Any]],
    progress: Progress,
    printed: Any,
) -> Any:
    """Run the rules in an order in which each may rely on those before it."""
    progress.next("first run")
    first_run(case, variables)
    case.printed = bool(printed.getvalue())
    if case.written:
        case.subject.restless = True
        case.subject.before_run = lambda: _keep(case.subject, variables)
    before = state.fingerprint(case.f)  # what only the first run does, such as building, is past
    _settle(case)
    if not rules.runs(case):
        _forward_only(case)
        return places.visit(case, [w for w in where if w == "eager"])
    case.targets = case.subject.call(case.subject.arguments(case.subject.x))
    if not case.targets:
        case.ledger.broken(
            "none",
            "no floating-point output",
            "f's value holds integers or booleans only, and no gradient comes from these.",
            "Round, argmax and comparisons need a surrogate rule: tf.custom_gradient.",
        )
        return []
    progress.next("gradient")
    base = case.subject.pull()
    after = state.fingerprint(case.f)
    widen(case)
    case.judged.quicken()
    _local_rules(case, base, progress)
    rules.mutation(case, before, after)
    progress.next("jacobian")
    places.vectorised(case)
    progress.next("other places")
    return places.visit(case, where)


def _local_rules(case: Case, base: Pulled, progress: Progress) -> None:
    rules.shapes(case)
    rules.keywords(case)
    linearity.variables(case)
    linearity.upstream(case)
    rules.finite(case, base)
    progress.next("finite differences")
    derivatives.value(case, base)
    derivatives.precision(case)
    progress.next("second derivative")
    if case.linear:
        curvature.second(case)
    else:
        case.ledger.skipped("second order", "not judged, for the rule is not linear in upstream")
    rules.registry(case)


def _keep(subject: Subject, variables: dict[int, tuple[Any, Any]]) -> None:
    """Give f the variables it changes as they were; those being varied are set by the caller."""
    own = {id(leaf.source) for leaf in subject.leaves}
    state.restore({key: pair for key, pair in variables.items() if id(pair[0]) not in own})


def _forward_only(case: Case) -> None:
    """When the backward pass raises, at least say whether the value is finite."""
    if not case.targets:
        return
    y = case.subject.join(case.targets)
    if np.isfinite(y).all():
        case.ledger.passed("finite forward", "every output is finite")
    else:
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        case.ledger.broken(
            "finite forward",
            "not finite",
            f"{case.subject.out_place(i, case.targets)} is not finite at a finite input.",
            "Write the value in a form that does not overflow.",
        )


def _settle(case: Case) -> None:
    """Find out whether f gives the same value twice; if it is random, fix its seeds.

    The first run was recorded, with each `tf.function` opened. What raises only as a graph raises
    here.
    """
    if case.error is not None:
        return
    subject = case.subject

    def twice() -> bool:
        one, other = subject.forward(subject.x), subject.forward(subject.x)
        return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=True))

    try:
        if twice():
            return
    except Exception as error:
        case.error = error
        return
    subject.seeded = True
    case.deterministic = twice()
    subject.seeded = subject.seeded and case.deterministic


def _notes(case: Case, where: Sequence[str]) -> list[str]:
    notes = []
    if case.subject.seeded:
        notes.append("f draws random numbers: every run here used the same seed.")
    if case.error is None:
        missing = [name for name in places.NAMES if name not in where and name != "eager"]
        if missing:
            listed = ", ".join(f'"{name}"' for name in missing)
            notes.append(f"not run: where=({listed}{',' if len(missing) == 1 else ''})")
    return notes


def _plot(case: Case, ax: Any) -> Any:
    from . import sweep

    if case.error is not None or not case.targets or not case.judged.x.size:
        raise ValueError("there is nothing to draw: f has no derivative to sweep over")
    with state.kept(case.f, case.subject.given):
        found = sweep.sweep(case)
    return sweep.plot(found, ax)
