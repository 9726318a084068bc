"""check() judges a gradient: right here, and right wherever it will be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ..findings import Progress
from ..recording import arguments
from . import derivatives, places, rules
from .case import Case, examine
from .flattened import Flattened, kept
from .report import Report, Results, Row, Rule, Sweep

RULES = (*rules.RULES, *derivatives.RULES, *places.RULES)
"""The rules that every check judges, in this order, which is that of the table too."""

EVERY_RULE = (*RULES, *places.PLACES.values(), derivatives.SURROGATE)
"""All lines that the table may have, in their order."""


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
    wanted = [where] if isinstance(where, str) else list(where)
    known = ("eager", *places.PLACES)
    for name in wanted:
        if name not in known:
            listed = ", ".join(map(repr, known))
            raise ValueError(f"`where` holds {name!r}, and there are only {listed}")
    if not tf.executing_eagerly():
        raise RuntimeError("cgviz.check runs f eagerly, and this code is building a graph")
    title = arguments.title(f)
    progress = Progress(f"check of {title}")
    flat = Flattened(f, given, {id(t): name for t, name in named}, on_run=progress.run)
    for leaf in flat.leaves:
        if not np.isfinite(flat.x[leaf.start : leaf.stop]).all():
            raise ValueError(
                f"cgviz.check: `{leaf.name}` holds NaN or infinity, and a derivative is judged at "
                "finite numbers. Check at a point beside it."
            )
    results = Results(EVERY_RULE)
    case = Case(flat, flat, results, order, bool(surrogate))
    try:
        with kept(f, given) as variables:
            case = examine(case, variables)
            judged: tuple[Rule, ...] = rules.RULES[:1]
            if case.base is not None:
                visited = [rule for name, rule in places.PLACES.items() if name in wanted]
                judged = (*RULES, *visited)
            for rule in judged:
                progress.doing = rule.name
                if rule.judge is not None:
                    rule.judge(case)
    finally:
        progress.close()
    eager = Row("eager", "pass" if case.error is None else "fail", "runs here")
    rows = {"eager": eager} | {k: results.rows.get(rule.name) for k, rule in places.PLACES.items()}
    visits = [(name, rows[name]) for name in known if name in wanted]
    badges = [replace(row, rule=name) for name, row in visits if row is not None]
    return Report(title, results, badges, _notes(case, wanted), partial(_sweep, case))


def _notes(case: Case, where: Sequence[str]) -> list[str]:
    notes = []
    if case.flat.seeded:
        notes.append("f draws random numbers: every run here used the same seed.")
    missing = [name for name in places.PLACES if name not in where]
    if missing and case.error is None:
        listed = ", ".join(f'"{name}"' for name in missing)
        notes.append(f"not run: where=({listed}{',' if len(missing) == 1 else ''})")
    return notes


def _sweep(case: Case) -> Sweep:
    if case.error is not None or not case.targets or not case.judged.x.size:
        raise ValueError("there is nothing to draw: f has no derivative to sweep over")
    with kept(case.flat.f, case.flat.given):
        return derivatives.sweep(case)
