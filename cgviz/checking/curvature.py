"""The second order: what the rules claim, differentiated in its turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import style
from . import raised
from .case import Case
from .causes import digits, more, true
from .comparison import Comparison, compare
from .twice import Upstream, growing, in_a_graph, pull_twice

_RULE = (
    "The rule is differentiated in its turn: write it with tf functions of the input, no NumPy "
    "and no stop_gradient. A rule that is itself a custom gradient must be one of x."
)
_INNER = (
    "A rule of the rule answers only for the arguments it is given: hand it the input beside "
    "upstream, and return a gradient for both."
)
_UNSTABLE = (
    "Differentiating the rule makes another expression, which can overflow where the rule itself "
    "does not: write the rule with functions that are stable in their turn, such as tf.sigmoid."
)


def second(case: Case) -> None:
    """The derivative of what the rules claim is found by differentiating the rules."""
    if case.ledger.has("variables"):
        case.ledger.skipped("second order", "not judged: see variables")
        return
    try:
        upstream, found = _alone(case)
        if not found.mismatches and found.judged and case.steps:
            wide = growing(upstream.seed, case.judged)
            company = compare(case.second_order(wide), columns=4)
            if company.mismatches:
                upstream, found = wide, company
        _finite(case, upstream)
    except Exception as error:
        case.ledger.broken(
            "second order",
            "raises",
            f"the second derivative raised {raised.first_line(error)}",
            raised.explain(error, True)[1],
            warning=case.order < 2,
        )
        return
    if found.mismatches:
        _wrong(case, upstream, found)
    elif found.judged or not case.judged.x.size:
        case.ledger.passed("second order", "agrees with differences of the first derivative")
    else:
        case.ledger.skipped("second order", "the first derivative jumps or is not finite here")


def _alone(case: Case) -> tuple[Upstream, Comparison]:
    """The comparison for an upstream that does not depend on the inputs."""
    size = case.judged.y.size
    ones = Upstream(np.ones(size))
    if size == 1:
        return ones, compare(case.second_order(ones), columns=4)
    # Of a softmax, ones would ask for the derivative of a constant.
    upstream = Upstream(np.random.default_rng(9).uniform(0.5, 1.5, size))
    found = compare(case.second_order(upstream), columns=4)
    if found.mismatches:
        plain = compare(case.second_order(ones), columns=4)
        if plain.mismatches:
            return ones, plain
    return upstream, found


def _wrong(case: Case, upstream: Upstream, found: Comparison) -> None:
    wrong = found.mismatches[0]
    into = case.places()[1]
    one, other = into(wrong.output), into(wrong.input)
    numbers = f"yours {digits(wrong.yours)}, true {true(wrong)}{more(len(found.mismatches))}."
    left = _left(upstream)
    if upstream.growth is None:
        by = f"d {one}²" if one == other else f"d {one} d {other}"
        message, hint = f"d² {left} / {by}: {numbers}", _RULE
    else:
        which = into(0) if upstream.growth.size == 1 else "a sum of the inputs"
        message = (
            f"right alone, and wrong where upstream depends on the input: with upstream = {which}, "
            f"d (upstream · d {left} / d {one}) / d {other}: {numbers}"
        )
        hint = _INNER
    case.ledger.broken("second order", "wrong", message, hint, warning=case.order < 2)


def _left(upstream: Upstream) -> str:
    if upstream.seed.size == 1:
        return "out"
    return "sum(out)" if (upstream.seed == 1).all() else "a sum of out"


def _finite(case: Case, upstream: Upstream) -> None:
    """A finite gradient has a finite second derivative, in f's own dtype too.

    Where f itself is infinite already that is no news, unless the second order was asked for.
    """
    subject = case.subject
    if case.order < 2 and case.ledger.has("finite forward"):
        return
    if upstream.seed.size != subject.y.size or not subject.x.size:
        return
    first = subject.pull(lambda targets: subject.split(upstream.seed, targets)).vector
    direction = np.random.default_rng(19).uniform(0.5, 1.5, subject.x.size)
    plain = Upstream(upstream.seed)
    mine = pull_twice(subject, plain, direction).vector
    wrong = np.flatnonzero(np.isfinite(first) & ~np.isfinite(mine))
    if not np.isfinite(first).all() or not wrong.size:
        return
    i = int(wrong[0])
    words = f"differentiated twice, f gives {style.number(mine[i])} for {case.places()[1](i)}"
    if case.judged is not subject:
        wide = pull_twice(case.judged, plain, direction).vector[i]
        if np.isfinite(wide):
            words += ", and a finite number in float64"
    case.ledger.broken(
        "second order",
        "not finite",
        f"{words}{more(wrong.size)}; its gradient is finite there.",
        _UNSTABLE,
        warning=case.order < 2,
    )


def graph(case: Case) -> None:
    """The second derivative is the same with both tapes inside a `tf.function`."""
    if case.order < 2 or not case.steps or case.ledger.rows["second order"].state != "pass":
        return
    subject = case.subject  # a graph makes float32 of Python numbers, and so judges this dtype
    upstream = growing(np.ones(subject.y.size), subject)
    direction = np.random.default_rng(19).uniform(0.5, 1.5, subject.x.size) * subject.scale
    try:
        eager = pull_twice(subject, upstream, direction).vector
        found = in_a_graph(subject, upstream, direction)
    except Exception as error:
        message = f"inside a tf.function, the second derivative raised {raised.first_line(error)}"
        case.ledger.broken("second order", "raises", message, raised.explain(error, True)[1])
        return
    size = np.max(np.abs(eager[np.isfinite(eager)]), initial=0.0)
    apart = _apart(eager, found, 0.02 * size)
    if apart.size:
        i = int(apart[0])
        case.ledger.broken(
            "second order",
            "differs in a graph",
            f"the second derivative for {case.places()[1](i)} is {style.number(found[i])} inside a "
            f"tf.function, and {style.number(eager[i])} in eager mode.",
            _RULE,
        )


def _apart(one: Any, other: Any, give: float) -> Any:
    """Where two vectors differ; nothing is said of what is not finite in both."""
    with np.errstate(all="ignore"):
        known = np.isfinite(one) & np.isfinite(other)
        return np.flatnonzero(known & (np.abs(one - other) > give))
