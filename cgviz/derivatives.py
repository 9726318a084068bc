"""The rules that finite differences judge: value, what nothing flows to, and the second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import raised, style, words
from .case import Case, eps_of, upstream
from .comparison import Comparison, Mismatch, compare
from .graph import Array, Op, Trace, Value
from .report import CHAIN, INPUTS, VARIABLES
from .rules import guilty
from .subject import Leaf, Pulled

_NUMPY_OPS = ("PyFunc", "EagerPyFunc", "PyFuncStateless", "NumpyFunction")


def value(case: Case, base: Pulled) -> None:
    """What the rules claim is the derivative, for each input and variable."""
    found = compare(case.first_order(), summed=not case.linear)
    where = f"in {'float64' if case.eps < 1e-10 else 'the dtype given'}"
    by_leaf: dict[Leaf, list[Mismatch]] = {}
    for each in found.mismatches:
        if case.surrogate or not each.slight:
            by_leaf.setdefault(case.judged.leaf_at(each.input), []).append(each)
    if case.surrogate:
        _bias(case, found, by_leaf)
    else:
        for leaf, wrong in by_leaf.items():
            _wrong(case, found, leaf, wrong, base)
        _slight(case, [each for each in found.mismatches if each.slight])
    if found.judged:
        case.ledger.passed("value", f"{_count(found)} with finite differences {where}")
    elif base.vector.size and case.subject.y.size:
        case.ledger.skipped("value", "finite differences are too uncertain here")
    else:
        case.ledger.passed("value", "nothing to compare: no numbers")
    if not case.ledger.has("none") and not case.ledger.has("numpy"):
        case.ledger.passed("none", "None only where the derivative is 0")
    if case.custom and any(op.captured for op in case.custom):
        case.ledger.passed("captured", "what the rule does not see does not matter")
    elif case.custom:
        case.ledger.passed("captured", "nothing is used behind the rule's back")
    _kinks(case, found)


def _slight(case: Case, wrong: Sequence[Mismatch]) -> None:
    """Right to three digits: the method that f or its rule uses is no better."""
    if wrong:
        case.ledger.broken(
            "precision",
            "right to three digits",
            f"{place(case, wrong[0], not case.linear)}{_more(len(wrong))}.",
            "An iteration that stops early, a series cut short or a constant with few digits "
            "gives such a difference.",
            warning=True,
        )


def _count(found: Comparison) -> str:
    if not found.whole:
        return f"{found.judged} random directions agree"
    return "the derivative agrees" if found.judged == 1 else f"{found.judged} derivatives agree"


def _wrong(
    case: Case, found: Comparison, leaf: Leaf, wrong: Sequence[Mismatch], base: Pulled
) -> None:
    """Note what is wrong with one leaf under the rule that explains it best."""
    position = case.judged.leaves.index(leaf)
    numbers = place(case, wrong[0], not case.linear) + _more(len(wrong))
    numbers += _summed(found, leaf)
    nothing = base.gradients[position] is None
    dropped = [op for op in case.custom if op.rule_dropped]
    captured = [(op, value) for op in case.custom for value in op.captured]
    if dropped or (leaf.variable and case.ledger.has("variables")):
        return  # found already, by `keywords` or `variables`
    if captured:
        names = sorted({_name(case, value) for _, value in captured})
        case.ledger.broken(
            "captured",
            ", ".join(names),
            f"`{captured[0][0].name}` uses {', '.join(names)} from outside, which gets no "
            f"gradient: {numbers}.",
            "Hand it over as an argument, and return its gradient too.",
        )
    elif nothing:
        _nothing(case, leaf, numbers)
    else:
        case.ledger.broken(
            "value",
            f"wrong for {leaf.name}",
            f"{numbers}, by {guilty(case) if case.steps else 'f'}.",
            _pattern(found, case, leaf),
            lesson=VARIABLES if leaf.variable else INPUTS if len(case.judged.leaves) > 1 else CHAIN,
        )


def _name(case: Case, value: Any) -> str:
    """The name of a captured value."""
    made = case.trace.producer(value) if case.trace else None
    return f"`{made[0].name}`" if made else "a tensor"


def _nothing(case: Case, leaf: Leaf, numbers: str) -> None:
    """Nothing flows to this leaf, and it matters: why."""
    ops = list(case.trace.walk()) if case.trace else []
    refused = [s for s in case.steps if _refuses(s)]
    outside = [op for op in ops if op.type in _NUMPY_OPS and op.rule_missing]
    blocking = _blocking(case, ops)
    if leaf.variable and refused:
        rule, why = "variables", f"{refused[0].where} returns None for `{leaf.name}`"
        hint = "Return a gradient for each variable in `variables`, in their order."
    elif refused:
        rule, why = "none", f"{refused[0].where} returns None for `{leaf.name}`"
        hint = "Return its gradient: one for each argument, in the order of the parameters."
    elif outside or not blocking:
        rule, why = "numpy", f"`{leaf.name}` leaves TensorFlow on its way, so nothing comes back"
        hint = (
            "NumPy and Python numbers cut the path of the gradient. Keep to tf functions, or give "
            "the NumPy part a rule with tf.custom_gradient."
        )
    else:
        rule, why = "none", f"`{blocking[0]}` lets nothing back to `{leaf.name}`"
        hint = "Give it a rule with tf.custom_gradient, or take it off the path."
    case.ledger.broken(rule, f"nothing flows to {leaf.name}", f"{why}: {numbers}.", hint)


def _blocking(case: Case, ops: Sequence[Op]) -> list[str]:
    """The types of ops that give a floating-point input no gradient, the likeliest first."""
    steps = case.trace.steps if case.trace and case.trace.passes else ()
    silent = [
        step.op.type
        for step in steps
        for value, flows in zip(step.op.inputs, step.flows, strict=True)
        if value.differentiable and not flows and case.trace and not _constant(case.trace, value)
    ]
    missing = [
        op.type
        for op in ops
        if (op.rule_missing and op.type not in words.SHAPE_HELPERS) or op.type == "StopGradient"
    ]
    return [*missing, *silent] if "StopGradient" in missing else [*silent, *missing]


def _constant(trace: Trace, value: Value) -> bool:
    made = trace.producer(value)
    return made is None or made[0].kind == "constant"


def _refuses(step: Any) -> bool:
    pairs = zip(step.event.inputs, step.downstream, strict=False)
    return any(g is None and t.dtype.is_floating for t, g in pairs)


def _summed(found: Comparison, leaf: Leaf) -> str:
    """The gradient of the sum of the outputs, where it is short: what `tape.gradient` shows."""
    if found.claimed is None or found.true is None or found.claimed.shape[0] == 1:
        return ""
    mine, right = (a[:, leaf.start : leaf.stop].sum(axis=0) for a in (found.claimed, found.true))
    if not 1 < mine.size <= 4 or not np.isfinite([mine, right]).all() or _close(mine, right):
        return ""
    return f"; of sum(out): yours {style.array(mine)}, true {style.array(right)}"


def place(case: Case, wrong: Mismatch, summed: bool = False) -> str:
    """One wrong entry in words: `d out[1] / d in[2]: yours 6, true 0`."""
    out, into = case.places()
    several = case.judged.y.size > 1
    left = "sum(out)" if summed and several else ("out" if summed else out(wrong.output))
    yours, right = _digits(wrong.yours), true(wrong)
    if yours == right:
        yours, right = (f"{n:.7g}".replace("-", style.MINUS) for n in (wrong.yours, wrong.low))
    return f"d {left} / d {into(wrong.input)}: yours {yours}, true {right}"


def true(wrong: Mismatch) -> str:
    """The true slope with the digits that are sure; at a kink the two sides."""
    low, high = (_sure(v, wrong.error) for v in (wrong.low, wrong.high))
    return low if low == high else f"between {low} and {high}"


def _digits(number: float) -> str:
    return style.number(number, 4)


def _sure(number: float, error: float) -> str:
    if not np.isfinite(number) or abs(number) <= 10 * error:
        return style.number(0.0 if np.isfinite(number) else number)
    with np.errstate(all="ignore"):
        digits = int(np.clip(np.floor(-np.log10(error / abs(number))), 1, 4)) if error else 4
    return style.number(float(f"{number:.{digits}g}"), 4)


def _more(count: int) -> str:
    return "" if count == 1 else f" (and {count - 1} more place{'s' * (count > 2)})"


def _pattern(found: Comparison, case: Case, leaf: Leaf) -> str:
    """What the wrong numbers look like, as a hint."""
    if found.claimed is None or found.true is None:
        return "Work the rule out by hand at this place."
    mine, right = (a[:, leaf.start : leaf.stop] for a in (found.claimed, found.true))
    for other in case.judged.leaves:
        theirs = found.true[:, other.start : other.stop]
        if other is not leaf and theirs.shape == mine.shape and _close(mine, theirs):
            return f"This is the gradient of `{other.name}`: are the two swapped in the `return`?"
    if not mine.any():
        return "Yours is 0 everywhere: does the rule use the input, and not a constant?"
    if right.any():
        factor = float(np.sum(mine * right) / np.sum(right * right))
        if abs(factor) > 1e-3 and _close(mine, factor * right):
            if abs(factor + 1) < 1e-3:
                return "Right but for the sign: a minus is missing, or one too many."
            return f"Yours is {style.number(factor, 3)} times the true one everywhere."
    if mine.shape[0] == mine.shape[1] > 1 and _close(mine, right.T):
        return "This is the Jacobian transposed: a rule returns upstream · J, not J · upstream."
    if _close(np.sort(mine, axis=None), np.sort(right, axis=None)):
        return "The numbers are right, in the wrong order: look at how the parts are stacked."
    if mine.shape[0] == mine.shape[1] and _close(mine, np.eye(len(mine))):
        return "Upstream is handed on as it came: the local derivative is missing."
    return "Work the rule out by hand at this place; does it still use the input, not the output?"


def _close(one: Array, other: Array) -> bool:
    size = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    return bool(np.all(np.abs(one - other) <= 1e-2 * size))


def _bias(case: Case, found: Comparison, by_leaf: dict[Leaf, list[Mismatch]]) -> None:
    """A surrogate's distance from the true derivative, as numbers."""
    if not found.mismatches:
        case.ledger.passed("surrogate", "agrees with the true derivative here")
        return
    several = len(found.mismatches)
    shown = "; ".join(
        f"{place(case, each, not case.linear)}, bias "
        f"{style.number(each.yours - (each.low + each.high) / 2, 3)}"
        for each in found.mismatches[:4]
    )
    rest = f"; and {several - 4} more" if several > 4 else ""
    case.ledger.skipped("surrogate", f"{shown}{rest}")
    case.ledger.skipped("value", "a surrogate: see its bias")


def _kinks(case: Case, found: Comparison) -> None:
    out, into = case.places()
    wrong = [*found.kinks, *found.jumps]
    if not wrong:
        case.ledger.passed("kink", "smooth at this point")
        return
    i, j = wrong[0]
    at = f" ({into(j)})" if j >= 0 else ""
    what = "has a kink" if found.kinks else "jumps"
    case.ledger.broken(
        "kink",
        what,
        f"{out(i)} {what} at this very point{at}, so there is no one true derivative: "
        + ("any slope between the two sides was taken as right." if found.kinks else "not judged."),
        "Check at a point beside it as well.",
        warning=True,
    )


def precision(case: Case) -> None:
    """The rule is as accurate in f's own dtype as the inputs allow."""
    if case.judged is case.subject:
        return
    random = np.random.default_rng(5)
    u = upstream(case)
    mine, wide = _pulled(case.subject, u), _pulled(case.judged, u)
    eps = max(eps_of(leaf.source.dtype) for leaf in case.subject.leaves)
    moved = np.zeros(wide.size)
    for signs in random.choice([-1.0, 1.0], size=(2, wide.size)):
        there = _pulled(case.judged, u, case.judged.x * (1 + eps * signs))
        moved = np.fmax(moved, np.abs(there - wide))
    give = 0.01 * np.abs(wide) + 50 * moved + 30 * eps * np.max(np.abs(wide), initial=0.0)
    largest = np.max(np.abs(case.judged.y[np.isfinite(case.judged.y)]), initial=0.0)
    give = give + 30 * eps * largest / case.judged.scale
    known = np.isfinite(mine) & np.isfinite(wide)
    wrong = np.flatnonzero(known & (np.abs(mine - wide) > give))
    if wrong.size:
        i = int(wrong[0])
        into = case.places()[1](i)
        case.ledger.broken(
            "precision",
            "right in float64 only",
            f"the gradient for {into} is {_digits(mine[i])}, and {_digits(wide[i])} in "
            f"float64{_more(wrong.size)}.",
            "Digits cancel inside the rule: write it so that nearly equal numbers are not "
            "subtracted, or compute it in float64 and cast back.",
            warning=True,
        )
    else:
        case.ledger.passed("precision", "as accurate as the inputs allow")


def _pulled(subject: Any, upstream: Array, x: Array | None = None) -> Array:
    seeds: Callable[[Sequence[Any]], list[Any]] = lambda t: subject.split(upstream, t)  # noqa: E731
    return np.asarray(subject.pull(seeds, x).vector)


def _twice(one: str, other: str) -> str:
    return f"d {one}²" if one == other else f"d {one} d {other}"


def second(case: Case) -> None:
    """The derivative of what the rules claim is found by differentiating the rules."""
    size = case.judged.y.size
    upstream = np.ones(size)
    if size > 1:  # of a softmax, ones would ask for the derivative of a constant
        upstream = np.random.default_rng(9).uniform(0.5, 1.5, size)
    try:
        found = compare(case.second_order(upstream), columns=4)
        if found.mismatches and size > 1:
            plain = compare(case.second_order(np.ones(size)), columns=4)
            upstream = np.ones(size) if plain.mismatches else upstream
            found = plain if plain.mismatches else found
    except Exception as error:
        case.ledger.broken(
            "second order",
            "raises",
            f"the second derivative raised {raised.first_line(error)}",
            raised.explain(error, True)[1],
            warning=case.order < 2,
        )
        return
    if not found.mismatches:
        if found.judged or not case.judged.x.size:
            case.ledger.passed("second order", "agrees with differences of the first derivative")
        else:
            case.ledger.skipped("second order", "the first derivative jumps or is not finite here")
        return
    wrong = found.mismatches[0]
    into = case.places()[1]
    left = "out" if size == 1 else ("sum(out)" if (upstream == 1).all() else "a sum of out")
    case.ledger.broken(
        "second order",
        "wrong",
        f"d² {left} / {_twice(into(wrong.output), into(wrong.input))}: yours "
        f"{_digits(wrong.yours)}, true {true(wrong)}{_more(len(found.mismatches))}.",
        "The rule is differentiated in its turn: write it with tf functions of the input, no "
        "NumPy and no stop_gradient. A rule that is itself a custom gradient must be one of x.",
        warning=case.order < 2,
    )
