"""The rules that finite differences judge: value, kink, precision, and the second order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .. import style
from ..graph import Array, dtypes
from ..lessons import CHAIN, DEBUGGING, GRAPHS, INPUTS, KINKS, NESTED, STABILITY
from ..recording import api
from . import causes, rules
from .case import Case, wobble
from .causes import digits, entry, more, true
from .comparison import Comparison, Map, Mismatch, compare
from .flattened import (
    Leaf,
    Upstream,
    gradient_at,
    growing,
    pull_twice,
    pull_twice_in_a_graph,
    shapes,
)
from .report import Rule


def value(case: Case) -> None:
    """What the rules claim is the derivative, for each input and variable."""
    results, judged = case.results, case.judged
    assert case.base is not None
    eps = case.dtype.eps
    problem = Map(
        judged.x,
        judged.scale,
        judged.forward,
        lambda u: judged.pull(u).vector,
        eps,
        case.dtype.told,
        case.dtype.wrong,
        None if case.dtype is dtypes.FLOAT64 else lambda u: wobble(judged, u, eps),
        judged.input_shapes,
        shapes(case.targets),
    )
    found = compare(problem, summed=not case.linear)
    by_leaf: dict[Leaf, list[Mismatch]] = {}
    for each in found.mismatches:
        if case.surrogate or not each.slight:
            by_leaf.setdefault(judged.leaf_at(each.input), []).append(each)
    if case.surrogate:
        _bias(case, found)
    else:
        for leaf, wrong in by_leaf.items():
            causes.explain(case, found, leaf, wrong)
        _slight(case, [each for each in found.mismatches if each.slight])
    if found.judged or found.sums:
        where = "float64" if case.dtype is dtypes.FLOAT64 else "the dtype given"
        results.passed("value", _agreement(found, where, case.dtype.wrong))
    elif case.base.vector.size and case.y.size:
        results.skipped("value", "finite differences are too uncertain here")
    else:
        results.passed("value", "nothing to compare: no numbers")
    if not results.has("none") and not results.has("numpy"):
        results.passed("none", "None only where the derivative is 0")
    if any(op.captured for op in case.custom):
        results.passed("captured", "what the rule does not see does not matter")
    elif case.custom:
        results.passed("captured", "nothing is used behind the rule's back")
    _kinks(case, found)


def _slight(case: Case, wrong: Sequence[Mismatch]) -> None:
    """Only the last digits are wrong: the method that f or its rule uses is no better."""
    if wrong:
        case.results.broken(
            "precision",
            "the last digits are wrong",
            f"{entry(case, wrong[0], not case.linear)}{more(len(wrong))}.",
            "An iteration that stops early, a series cut short or a constant with few digits "
            "gives such a difference.",
        )


def _agreement(found: Comparison, where: str, least: float) -> str:
    """What agrees, and what of it could be wrong without being seen."""
    parts = []
    if found.judged:
        count = "the derivative" if found.judged == 1 else f"{found.judged} derivatives"
        parts.append(f"{count}{' (the others are 0)' if found.sparse else ''}")
    if found.sums:
        parts.append(f"{found.sums} sums of {found.summed} derivatives")
    agree = "agrees" if found.judged == 1 and not found.sums else "agree"
    words = f"{' and '.join(parts)} {agree} with finite differences in {where}"
    if found.sums and found.blind > least:
        words += "; one that is wrong by less than "
        if found.blind < 1:
            words += f"{style.number(100 * found.blind, 2)} % of their mean could be missed"
        else:
            words += f"{style.number(found.blind, 2)} times their mean could be missed"
    return words


def _bias(case: Case, found: Comparison) -> None:
    """A surrogate's distance from the true derivative, as numbers."""
    if not found.mismatches:
        case.results.passed("surrogate", "agrees with the true derivative here")
        return
    several = len(found.mismatches)
    shown = "; ".join(
        f"{entry(case, each, not case.linear)}, bias "
        f"{style.number(each.yours - (each.low + each.high) / 2, 3)}"
        for each in found.mismatches[:4]
    )
    rest = f"; and {several - 4} more" if several > 4 else ""
    case.results.skipped("surrogate", f"{shown}{rest}")
    case.results.skipped("value", "a surrogate: see its bias")


def _kinks(case: Case, found: Comparison) -> None:
    wrong = [*found.kinks, *found.jumps]
    if not wrong:
        case.results.passed("kink", "smooth at this point")
        return
    i, j = wrong[0]
    at = f" ({case.input_name(j)})" if j >= 0 else ""
    what = "has a kink" if found.kinks else "jumps"
    case.results.broken(
        "kink",
        what,
        f"{case.output_name(i)} {what} at this very point{at}, so there is no one true "
        "derivative: "
        + ("any slope between the two sides was taken as right." if found.kinks else "not judged."),
        "Check at a point beside it as well.",
    )


# --- precision ---------------------------------------------------------------------------------


def precision(case: Case) -> None:
    """The rule is as accurate in f's own dtype as the inputs allow."""
    if case.judged is case.flat:
        return
    own = [dtypes.limits(leaf.source.dtype.name) or dtypes.BFLOAT16 for leaf in case.flat.leaves]
    eps = max(each.eps for each in own)
    mine = case.flat.pull(case.upstream).vector
    wide = case.judged.pull(case.upstream).vector
    # A percent, some last bits of the largest number, and what rounding f's value does.
    give = 0.01 * np.abs(wide) + 25 * wobble(case.judged, case.upstream, eps)
    give += 30 * eps * np.max(np.abs(wide), initial=0.0)
    largest = np.max(np.abs(case.y[np.isfinite(case.y)]), initial=0.0)
    give += 30 * eps * largest / case.judged.scale
    known = np.isfinite(mine) & np.isfinite(wide)
    wrong = np.flatnonzero(known & (np.abs(mine - wide) > give))
    if not wrong.size:
        case.results.passed("precision", "as accurate as the inputs allow")
        return
    i = int(wrong[0])
    case.results.broken(
        "precision",
        "right in float64 only",
        f"the gradient for {case.input_name(i)} is {digits(mine[i])}, and {digits(wide[i])} in "
        f"float64{more(wrong.size)}.",
        _lost(case, min(own, key=lambda each: each.largest)),
    )


def _lost(case: Case, dtype: dtypes.Dtype) -> str:
    """Why digits are lost in the dtype given: too small for it, or nearly equal and subtracted."""
    small = [n for n in _magnitudes(case) if 0 < n < dtype.smallest]
    if not small:
        return (
            "Digits cancel inside the rule: write it so that nearly equal numbers are not "
            "subtracted, or compute it in float64 and cast back."
        )
    return (
        f"A number on the way is {digits(max(small))}, and below {digits(dtype.smallest)} "
        f"{dtype.name} has no digits left: write the rule so that no large number is divided by "
        "another, or compute it in float64 and cast back."
    )


def _magnitudes(case: Case) -> Iterator[float]:
    """The smallest number but 0 of each gradient and value on the way, in float64."""
    judged = case.judged
    trace = api.trace(case.f, *judged.arguments(judged.x))
    values = [v.numpy() for op in trace.walk() for v in op.outputs if v.differentiable]
    flows = [g for p in trace.passes for s in p.steps for g in (*s.upstream, *s.downstream)]
    for each in [*values, *flows]:
        if each is not None and np.any(each):
            sizes = np.abs(each)
            yield float(np.min(sizes[sizes > 0]))


# --- the second order --------------------------------------------------------------------------

_RULE = (
    "The rule is differentiated in its turn: write it with tf functions of the input, no NumPy "
    "and no stop_gradient. A rule that is itself a custom gradient must be one of x."
)
_INNER = (
    "A rule of the rule answers only for the arguments it is given: give it the input beside "
    "upstream, and return a gradient for both."
)
_UNSTABLE = (
    "Differentiating the rule makes another expression, which can overflow where the rule itself "
    "does not: write the rule with functions that are stable in their turn, such as tf.sigmoid."
)
SLOW = 0.1  # seconds of a gradient, of which the second order takes some hundreds
COLUMNS = 4  # inputs up to which the whole second derivative is compared: each takes gradients


def second_order(case: Case) -> None:
    """The derivative of what the rules claim is found by differentiating the rules."""
    results = case.results
    level = "error" if case.order > 1 else "warning"
    if not case.linear:
        results.skipped("second order", "not judged, for the rule is not linear in upstream")
        return
    if results.has("variables"):
        results.skipped("second order", "not judged: see variables")
        return
    if case.order < 2 and case.seconds > SLOW:
        results.skipped("second order", "not judged, for f is slow: order=2 judges it")
        return
    try:
        upstream, found = _constant_upstream(case)
        if not found.mismatches and (found.judged or found.sums) and case.steps:
            wide = growing(upstream.seed, case.judged)
            growing_found = _compare_second(case, wide)
            if growing_found.mismatches:
                upstream, found = wide, growing_found
        _finite(case, upstream, level)
    except Exception as error:
        message = f"the second derivative raised {rules.first_line(error)}"
        hint = rules.explain(error, True)[1]
        results.broken("second order", "raises", message, hint, level=level)
        return
    if found.mismatches:
        _wrong(case, upstream, found, level)
    elif found.judged or found.sums or not case.judged.x.size:
        results.passed("second order", "agrees with differences of the first derivative")
    else:
        results.skipped("second order", "the first derivative jumps or is not finite here")


def _compare_second(case: Case, upstream: Upstream) -> Comparison:
    """Upstream · df/dx as a map, with the second derivative that the rules claim."""
    judged = case.judged
    problem = Map(
        judged.x,
        judged.scale,
        lambda x: gradient_at(judged, upstream, x),
        lambda w: pull_twice(judged, upstream, w),
        case.dtype.eps,
        10 * case.dtype.wrong,  # a gradient is rounded more often than a value
        10 * case.dtype.wrong,
    )
    return compare(problem, columns=COLUMNS, rows=COLUMNS)


def _constant_upstream(case: Case) -> tuple[Upstream, Comparison]:
    """The comparison for an upstream that does not depend on the inputs."""
    ones = Upstream(np.ones(case.y.size))
    if case.y.size == 1:
        return ones, _compare_second(case, ones)
    # Of a softmax, ones would ask for the derivative of a constant.
    upstream = Upstream(np.random.default_rng(9).uniform(0.5, 1.5, case.y.size))
    found = _compare_second(case, upstream)
    if found.mismatches:
        plain = _compare_second(case, ones)
        # Of a softmax, there are only roundings.
        if plain.mismatches and plain.mismatches[0].size > 1e-3 * found.mismatches[0].size:
            return ones, plain
    return upstream, found


def _wrong(case: Case, upstream: Upstream, found: Comparison, level: str) -> None:
    wrong = found.mismatches[0]
    one, other = case.input_name(wrong.output), case.input_name(wrong.input)
    numbers = f"yours {digits(wrong.yours)}, true {true(wrong)}{more(len(found.mismatches))}."
    left = "out" if upstream.seed.size == 1 else "a sum of out"
    left = "sum(out)" if upstream.seed.size > 1 and (upstream.seed == 1).all() else left
    if upstream.growth is None:
        by = f"d {one}²" if one == other else f"d {one} d {other}"
        message, hint = f"d² {left} / {by}: {numbers}", _RULE
    else:
        which = case.input_name(0) if upstream.growth.size == 1 else "a sum of the inputs"
        message = (
            "Correct for a constant upstream; wrong when the upstream depends on the input. "
            f"With upstream = {which}, d (upstream · d {left} / d {one}) / d {other}: {numbers}"
        )
        hint = _INNER
    case.results.broken("second order", "wrong", message, hint, level=level)


def _finite(case: Case, upstream: Upstream, level: str) -> None:
    """A finite gradient has a finite second derivative, in f's own dtype too.

    Where f itself is infinite already that is no news, unless the second order was asked for.
    """
    flat = case.flat
    if case.order < 2 and case.results.has("finite forward"):
        return
    if upstream.seed.size != case.y.size or not flat.x.size:
        return
    first = flat.pull(upstream.seed).vector
    direction = np.random.default_rng(19).uniform(0.5, 1.5, flat.x.size)
    constant = Upstream(upstream.seed)
    mine = pull_twice(flat, constant, direction)
    wrong = np.flatnonzero(np.isfinite(first) & ~np.isfinite(mine))
    if not np.isfinite(first).all() or not wrong.size:
        return
    i = int(wrong[0])
    words = f"differentiated twice, f gives {style.number(mine[i])} for {case.input_name(i)}"
    if case.judged is not flat and np.isfinite(pull_twice(case.judged, constant, direction)[i]):
        words += ", and a finite number in float64"
    case.results.broken(
        "second order",
        "not finite",
        f"{words}{more(wrong.size)}; its gradient is finite there.",
        _UNSTABLE,
        level=level,
    )


def second_order_in_a_graph(case: Case) -> None:
    """The second derivative is the same with both tapes inside a `tf.function`."""
    row = case.results.rows.get("second order")
    if case.order < 2 or not case.steps or row is None or row.state != "pass":
        return
    flat = case.flat  # a graph makes float32 of Python numbers, and so judges this dtype
    upstream = growing(np.ones(case.y.size), flat)
    direction = np.random.default_rng(19).uniform(0.5, 1.5, flat.x.size) * flat.scale
    try:
        eager = pull_twice(flat, upstream, direction)
        found = pull_twice_in_a_graph(flat, upstream, direction)
    except Exception as error:
        message = f"inside a tf.function, the second derivative raised {rules.first_line(error)}"
        hint = rules.explain(error, True)[1]
        case.results.broken("second order", "raises", message, hint)
        return
    known = np.isfinite(eager) & np.isfinite(found)
    size = np.max(np.abs(eager[known]), initial=0.0)
    apart = np.flatnonzero(known & ~_near(found, eager, 0.02 * size))
    if apart.size:
        i = int(apart[0])
        case.results.broken(
            "second order",
            "differs in a graph",
            f"the second derivative for {case.input_name(i)} is {style.number(found[i])} inside a "
            f"tf.function, and {style.number(eager[i])} in eager mode.",
            _RULE,
        )


def _near(one: Array, other: Array, give: float) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(one - other) <= give)


RULES = (
    Rule("captured", DEBUGGING),
    Rule("numpy", GRAPHS),
    Rule("none", INPUTS),
    Rule("value", CHAIN, value),
    Rule("precision", STABILITY, precision, "warning"),
    Rule("kink", KINKS, level="warning"),
    Rule("second order", NESTED, second_order),
)
SURROGATE = Rule("surrogate", KINKS)  # the last line of the table
