"""The rules that finite differences judge: value, what nothing flows to, and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import style
from ..graph import Array
from ..recording import api
from . import causes
from .case import Case, eps_of, upstream
from .causes import digits, more, place
from .comparison import Comparison, Mismatch, compare
from .subject import Leaf, Pulled


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
            causes.explain(case, found, leaf, wrong, base)
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
            f"{place(case, wrong[0], not case.linear)}{more(len(wrong))}.",
            "An iteration that stops early, a series cut short or a constant with few digits "
            "gives such a difference.",
            warning=True,
        )


def _count(found: Comparison) -> str:
    if not found.whole:
        return f"{found.judged} random directions agree"
    return "the derivative agrees" if found.judged == 1 else f"{found.judged} derivatives agree"


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
            f"the gradient for {into} is {digits(mine[i])}, and {digits(wide[i])} in "
            f"float64{more(wrong.size)}.",
            _lost(case),
            warning=True,
        )
    else:
        case.ledger.passed("precision", "as accurate as the inputs allow")


def _lost(case: Case) -> str:
    """Why digits are lost in the dtype given: too small for it, or nearly equal and subtracted."""
    names = {leaf.source.dtype for leaf in case.subject.leaves}
    dtype = min(names, key=lambda each: float(each.max))
    least = float(np.finfo(dtype.real_dtype.as_numpy_dtype).tiny)
    small = [n for n in _magnitudes(case) if 0 < n < least]
    if not small:
        return (
            "Digits cancel inside the rule: write it so that nearly equal numbers are not "
            "subtracted, or compute it in float64 and cast back."
        )
    return (
        f"On the way stands {digits(max(small))}, and below {digits(least)} {dtype.name} has no "
        "digits left: write the rule so that no large number is divided by another, or compute "
        "it in float64 and cast back."
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


def _pulled(subject: Any, upstream: Array, x: Array | None = None) -> Array:
    seeds: Callable[[Sequence[Any]], list[Any]] = lambda t: subject.split(upstream, t)  # noqa: E731
    return np.asarray(subject.pull(seeds, x).vector)
