"""The rules that finite differences or float64 judge: value, kink, precision, second order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from .. import style
from ..graph import Array, dtypes
from ..graph.trace import with_bodies
from ..lessons import CHAIN, DEBUGGING, GRAPHS, INPUTS, KINKS, NESTED, STABILITY
from . import rules
from .case import Case, Row, Rule
from .comparison import Comparison, Mismatch, apart, only, timed
from .differences import VAGUE, Slope, slope
from .flattened import Leaf, first_derivative, largest, leaf_at
from .mismatches import cause_of_none, certain, entry, explain, in_words, stops_early, tied

UNCERTAIN = "finite differences are too uncertain here"
RAISES = "f raises beside this point"
HERE = "right at this point only"
STAIRS = "moves in stairs"  # what f does: see `_compared`
TIED = "has a kink in several inputs at once"  # see `tied`
LONG_TIE = "may have a kink in several inputs at once"  # to find out takes too long
NOT_JUDGED = (UNCERTAIN, RAISES, f"f {LONG_TIE}")  # why no value is judged, and f not called right
EARLY = "f is an iteration that stops early"  # see `stops_early`
LONGER = 2.0**-12  # the shortest step for an f that moves in stairs, such as those of 20 halvings
FEW = 4  # up to so many inputs all second derivatives are compared: each costs many gradients
GRADIENTS = 90  # for each argument or variable, of the second order: 41 to 123 for Keras layers
# Of the mean derivative: if a larger error could be missed, nothing is called right.
MOST_BLIND = 0.5
COARSE = dtypes.FLOAT16.wrong  # the tolerance with which no second order is judged
BESIDE = 2.0**-10  # of the size of an input: near enough to be in the domain, and off the point
ELSEWHERE = 0.875  # of the inputs: far enough for a curve to have another slope
LONG = 4.0  # seconds that a second order which nobody asked for may take, as estimated

# --- the first order ---------------------------------------------------------------------------


def value(case: Case) -> None:
    """The derivative claimed by the rules is right, for each input and variable."""
    results, judged = case.results, case.judged
    try:
        found = _compared(case)
    except Exception as error:
        raised = rules.said(error).rstrip(".")
        message = f"beside this point f raised {raised}, so no derivative was judged."
        hint = "Check at a point beside which f runs."
        results.broken("value", RAISES, message, hint, level="warning")
        return
    slight = [each for each in found.mismatches if each.part <= found.dtype.wrong]
    wrong = [each for each in found.mismatches if each.part > found.dtype.wrong]
    unknown = UNCERTAIN
    with suppress(Exception):  # f may raise there
        if wrong and not case.surrogate:
            if (excused := tied(found, wrong)) is not False:
                what = TIED if excused else LONG_TIE
                found.bends.insert(0, (wrong[0].output, wrong[0].input, what))
                found.mismatches = wrong = slight = []
                if not excused:
                    found.judged, unknown = 0, f"f {LONG_TIE}"
            elif stops_early(found, wrong):
                results.skipped("value", EARLY)
                slight, wrong = found.mismatches, []
    nothing_judged = judged.x.size and case.y.size and not found.judged
    if nothing_judged and not found.bends and not case.surrogate:
        found.bends = [(0, 0, VAGUE)]
    _kinks(case, found)
    by_leaf: dict[Leaf, list[Mismatch]] = {}
    for each in wrong:
        by_leaf.setdefault(leaf_at(judged.leaves, each.input), []).append(each)
    if case.surrogate:  # its gradient may be another one, but None only by tf.stop_gradient
        _bias(case, found)
        pairs = zip(judged.leaves, case.eager.gradients, strict=True)
        nothing = [leaf for leaf, gradient in pairs if gradient is None and leaf in by_leaf]
        whys = [(leaf.name, cause_of_none(case, leaf)) for leaf in nothing]
        if stopped := sorted(x for x, y in whys if y and y.op and y.op.type == "StopGradient"):
            results.skipped("none", f"tf.stop_gradient lets nothing through to {stopped[0]}")
        slight, by_leaf = [], {x: by_leaf[x] for x in nothing if x.name not in stopped}
    for leaf, wrong in by_leaf.items():
        explain(case, found, leaf, wrong)
    slight = [each for each in slight if leaf_at(judged.leaves, each.input) not in by_leaf]
    told = [rule for rule in ("keywords", "variables", "captured", "none") if results.has(rule)]
    if by_leaf and told:  # not passed, although the other derivatives agree
        results.rows.setdefault("value", Row("value", "fail", f"wrong: see {told[0]}"))
    if slight:
        reason, hint = "the last digits are wrong", _FEW_DIGITS
        words = f"{entry(case, slight[0])}{rules.more(len(slight))}."
        if results.row("value").reason == EARLY:
            reason, hint = EARLY, _TIGHTEN
            words = f"{EARLY}, and so has a derivative of its own: {words}"
        results.broken("precision", reason, words, hint)
    if nothing_judged:
        results.skipped("value", _blind(case) or unknown)
    elif not (found.mismatches or case.surrogate or results.row("kink").reason in (STAIRS, TIED)):
        with suppress(Exception):  # f may raise there
            _elsewhere(case)
    agreement = _agreement(case, found)
    if found.dtype.coarse and found.blind > MOST_BLIND and not case.surrogate:
        results.skipped("value", f"{UNCERTAIN}: {agreement}")
    results.passed("value", agreement)
    results.passed("none", "None only where the derivative is 0")
    if case.custom:
        results.passed("captured", "nothing is used behind the rule's back")


def _compared(case: Case) -> Comparison:
    """Compare the rules' claims with the slopes of f, over longer steps if f moves in stairs.

    A search that halves an interval 24 times is smooth in float32; in float64 its result stays the
    same over a short step, or jumps. So if the slopes are uncertain, or a mismatch is large, steps
    that pass over many such stairs are tried. Their slopes replace the others if they are certain,
    without a kink and, unless the others were uncertain, in agreement with the claims.
    """
    judged = case.judged if case.linear else case.judged.summed()
    found = Comparison(judged, case.dtype)
    tolerant = replace(dtypes.FLOAT32, eps=case.dtype.eps)
    rough = found.unsure > 0 or found.doubt > tolerant.wrong
    far = any(each.part > 10 * tolerant.wrong for each in found.mismatches)
    if case.dtype is not dtypes.FLOAT64 or not (rough or far):
        return found
    # Of most wrong claims one longer slope confirms the error, also of one that sums would hide.
    if not rough and found.confirmed(found.mismatches[:1], tolerant.wrong, LONGER):
        return found
    longer = Comparison(judged, tolerant, shortest=LONGER)
    sure = longer.unsure == 0 and longer.doubt <= tolerant.wrong and not longer.bends
    if not sure or (longer.mismatches and not rough):
        return found
    if not longer.mismatches:
        longer.bends = [(each.output, each.input, STAIRS) for each in found.mismatches[:1]]
    return longer


def _elsewhere(case: Case) -> None:
    """Where all inputs are a little smaller, a gradient stays the same only if the true one does.

    Multiples of the inputs keep their zeros, order, symmetry and signs, and shares stay below 1.
    They keep kinks as well: there a gradient may fit each entry, and not all of them together.
    """
    judged, here = case.judged, case.wide.vector
    there = ELSEWHERE * judged.x
    claim = judged.claim(case.upstream, there)
    # A gradient near 0 is the same only if its digits are.
    stays = np.where(np.isclose(claim, here, atol=0.0), np.sign(claim) * judged.scale, 0.0)
    for leaf in (each for each in judged.leaves if stays[each.span].any()):
        direction = only(stays, leaf.span)
        if not _off(case, there, claim, direction):
            continue
        reason, words, hint = (
            f"stale for {leaf.name}",
            f"is right here, but where all inputs and variables are {ELSEWHERE} times as large it "
            "is the same, and the true one is another.",
            "Does the rule use numbers of another run, such as a tensor made from a variable when "
            "a layer was built, or a constant that is right here only?",
        )
        if numbers := _off(case, judged.x, here, direction):
            reason, words, hint = (
                f"wrong for {leaf.name}",
                f"fits each entry that is moved alone, but not all of them together: {numbers}.",
                "Where numbers are equal, they share what one of them would get: their gradients "
                "add up to that.",
            )
        case.results.broken("value", reason, f"the gradient for {leaf.name} {words}", hint)


def _off(case: Case, x: Array, claim: Array, direction: Array) -> str:
    """By what a claim is off along a direction at any point, in words; "" if it is right."""
    yours, true = float(claim @ direction), _along(case, x, direction)
    give = max(0.01, case.dtype.wrong) * yours + 5 * true.error
    if not max(true.low - yours, yours - true.high) > give:  # NaN is told elsewhere
        return ""
    return f"yours {style.number(yours)}, true {certain(true.value[0], true.error[0])}"


def _along(case: Case, x: Array, direction: Array) -> Slope:
    """The slope along a direction, at any point x."""

    def along(t: float) -> Array:
        return np.array([case.upstream @ case.judged.forward(x + t * direction)])

    return slope(along, along(0.0), case.dtype.eps)


def _agreement(case: Case, found: Comparison) -> str:
    """In words, how many derivatives agree, and how large an error could have gone unseen."""
    agree = "the derivative agrees" if found.judged == 1 else f"{found.judged} derivatives agree"
    if found.summed > 1:
        agree = f"{found.judged} sums of {found.summed} derivatives agree"
    words = f"{agree} with finite differences in {case.dtype.name}"
    if found.dtype.wrong > max(1e-3, found.blind):  # in float64 it is too small to matter
        words += f" to {style.number(100 * found.dtype.wrong)}%"
    if found.unsure:
        words += f"; {found.unsure} more are {_blind(case) or 'too uncertain to judge'}"
    if found.blind > found.dtype.wrong:
        part = style.number(100 * found.blind, 2)
        words += f"; errors below {part}% of their mean could be missed"
    return words


def _blind(case: Case) -> str:
    """In words, the rule that is broken where a claim is not finite or has a wrong shape."""
    lost = bool(np.isnan(case.wide.vector).any())
    names = ("dtype",) * lost + ("upstream",) * case.linear  # it may give NaN, and be linear
    broken = filter(case.results.has, ("shape", "finite gradient", "finite forward", *names))
    return next((f"not judged: see {rule}" for rule in broken), "")


def _bias(case: Case, found: Comparison) -> None:
    """A surrogate's distance from the true derivative, as numbers."""
    if not found.mismatches:
        keys = set().union(*map(case.reached, case.judged.leaves))
        stops = [op for op in with_bodies(case.trace.ops) if op.type == "StopGradient"]
        stopped = any(keys & {v.key for v in op.inputs} for op in stops)
        ran = "" if case.steps or stopped else "no custom rule ran: "
        if found.judged and not any(what == "jumps" for *_, what in found.bends):
            case.results.passed("surrogate", f"{ran}agrees with the true derivative here")
        else:
            case.results.skipped("surrogate", "no derivative to compare with here, so no bias")
        return
    leaves, worst_first = case.judged.leaves, found.mismatches
    firsts = {leaf_at(leaves, each.input): each for each in reversed(worst_first)}.values()
    shown = "; ".join(
        f"{entry(case, each)}, bias {style.number(each.yours - (each.low + each.high) / 2, 3)}"
        for each in sorted(worst_first, key=lambda each: each not in firsts)[:4]
    )
    rest = rules.more(max(len(found.mismatches) - 3, 1))
    case.results.skipped("surrogate", f"{shown}{rest}")
    case.results.skipped("value", "a surrogate: see its bias")


def _kinks(case: Case, found: Comparison) -> None:
    if found.dtype.coarse:
        case.results.skipped("kink", f"not judged: {found.dtype.name} has too few digits")
        return
    blind = _blind(case)
    bends = [bend for bend in found.bends if bend[2] != VAGUE or not blind]
    if not bends:
        if found.unsure:
            case.results.skipped("kink", blind or UNCERTAIN)
        case.results.passed("kink", "smooth at this point")
        return
    i, j, what = bends[0]
    at = f" ({case.input_name(j)})" if j >= 0 else ""
    where = "this very point" if found.dtype.eps <= dtypes.FLOAT64.eps else "this point or nearby"
    case.results.broken(
        "kink",
        what,
        f"{case.output_name(i)} {what} at {where}{at}. It has {_BENDS[what]}.",
        "Check at a nearby point as well.",
    )


_BENDS = {
    "has a kink": "two slopes here: any slope between them was taken as right",
    "jumps": "no derivative here, and none was judged",
    VAGUE: "an infinite slope, or one that finite differences cannot find: the gradient there was "
    "not judged",
    STAIRS: "one slope over short steps and another over longer ones, as a search that stops early "
    "or a rounding (if on purpose: surrogate=True) has; the rule claims the second, which was "
    "taken as right",
    TIED: "other slopes along other directions, as where three numbers of which one is picked are "
    "equal; the rule claims one that was taken as right",
    LONG_TIE: "slopes that differ from those claimed. Where numbers are equal the claims may be "
    "right, but to find out takes too long, so none was judged",
}


def precision(case: Case) -> None:
    """The rule is as accurate in f's own dtype as the inputs allow."""
    if case.judged is case.flat:
        return
    eps = max(each.eps for each in case.flat.dtypes)
    mine, wide = case.eager.vector, case.wide.vector
    # One percent, some last bits of the largest number, and the effect of rounding f's value.
    give = 0.01 * np.abs(wide)
    give += 30 * eps * (np.max(np.abs(wide), initial=0.0) + largest(case.y) / case.judged.scale)
    wrong = apart(mine, wide, give)
    if wrong.size:  # `wobble` takes two runs
        wrong = apart(mine, wide, give + 25 * case.wobble(case.judged, case.wide, eps))
    if not wrong.size:
        case.results.passed("precision", "as accurate as rounding of the largest numbers allows")
        return
    i = int(wrong[0])
    case.results.broken(
        "precision",
        "right in float64 only",
        f"{case.gradient_name(i)} is {style.number(mine[i])}, and "
        f"{style.number(wide[i])} in float64{rules.more(wrong.size)}.",
        "Digits cancel inside the rule, or a number on the way is too small or too large for the "
        "dtype: write the rule in another form, or compute it in float64 and cast back.",
    )


_FEW_DIGITS = (
    "An iteration that stops early, a series cut short or a constant with few digits gives such a "
    "difference."
)
_TIGHTEN = (
    "The rule may be the more accurate of the two. Tighten the tolerance of the iteration and "
    "check again: if the rule is right, the difference shrinks."
)

# --- the second order --------------------------------------------------------------------------

_HIDDEN = (
    "Either something hides a part of f or of its rule from the second tape, such as NumPy or "
    "tf.stop_gradient, which is also inside tf.nn.moments; or what the rule calls has no gradient "
    "or a wrong one. A custom gradient that it calls takes all that it uses, the input as well as "
    "upstream, as arguments, and returns a gradient for each."
)


def second_order(case: Case) -> None:
    """Differentiating the rules gives the derivative of the gradient that they claim."""
    results = case.results
    level = "error" if case.order > 1 else "warning"
    reasons = {
        "not judged: the rule is not linear in upstream": not case.linear,
        "not judged: a surrogate, which the second pass applies again": case.surrogate,
        f"not judged: {case.dtype.name} has too few digits": case.dtype.wrong >= COARSE,
        **{f"not judged: f {w}": results.row("kink").reason == w for w in (STAIRS, TIED, LONG_TIE)},
        f"not judged: {EARLY}": results.row("value").reason == EARLY,
    }
    for rule in ("variables", "value", "shape", "dtype"):
        row = results.row(rule)
        reasons[f"not judged: see {rule}"] = row.state == "fail" or row.reason == RAISES
    reason = next((words for words, holds in reasons.items() if holds), "")
    most = LONG / GRADIENTS / len(case.judged.leaves)
    if not reason and case.order < 2 and timed(case.flat.pull, most)[1] > most:
        reason = "not judged: f is slow (order=2 judges it)"
    if reason:
        results.skipped("second order", reason)
        return
    try:
        # A random upstream that grows with the inputs shows every error. If it shows one, ones are
        # tried too, because these are what a user meets.
        found = _second(case, case.upstream, True)
        plain = _second(case, case.ones, False).mismatches if found.mismatches else []
        _finite(case, level)
    except Exception as error:
        message = f"the second derivative raised {rules.first_line(error)}"
        results.broken("second order", "raises", message, rules.explain(error)[1], level=level)
        return
    if found.mismatches:
        _wrong(case, plain or found.mismatches, not plain, level)
        return
    with suppress(Exception):  # f may raise there
        _beside(case, level)
    if found.judged or not case.judged.x.size:
        results.passed("second order", "agrees with differences of the first derivative")
    else:
        why = "jumps, has a kink in several inputs or is not finite here"
        why = LONG_TIE if (0, -1, LONG_TIE) in found.bends else why
        results.skipped("second order", f"the first derivative {why}")


def _second(case: Case, seed: Array, growing: bool) -> Comparison:
    """Compare the second derivative that the rules claim with differences of the first."""
    first = first_derivative(case.judged, seed, growing)
    # The gradient of a variable that f casts is rounded to the variable's own dtype.
    dtype = max(case.dtype, *case.judged.dtypes, key=lambda each: each.eps)
    told = 10 * dtype.wrong  # a gradient is rounded more often than a value
    found = Comparison(first, replace(dtype, told=told, wrong=told), FEW)
    if found.mismatches:
        # Where terms cancel in the rule, as in that of a softmax, their rounding remains. It moves
        # the first derivative in stairs, which short steps do not leave.
        wrong = found.confirmed(found.mismatches, told, dtype.eps ** (1 / 3))
        term = rules.largest_term(lambda: first.pull(np.ones(first.x.size)))
        found.mismatches = [each for each in wrong if each.size > 4 * dtype.eps * term]
    with suppress(Exception):  # f may raise there
        if found.mismatches and (excused := tied(found, found.mismatches, False)) is not False:
            found.mismatches, found.judged = [], 0
            found.bends += [] if excused else [(0, -1, LONG_TIE)]
    return found


def _beside(case: Case, level: str) -> None:
    """A gradient that is right at this point alone has a wrong derivative."""
    judged = case.judged
    # Of random size and sign: along even directions a symmetric matrix stays symmetric.
    random = np.random.default_rng(13)
    uneven = judged.scale * random.uniform(0.5, 1.5, (2, judged.x.size))
    uneven *= random.choice([-1.0, 1.0], uneven.shape)
    for leaf, dtype in zip(judged.leaves, judged.dtypes, strict=True):
        if max(dtype.eps, case.dtype.eps) > dtypes.FLOAT64.eps:
            continue  # with few digits a small move shows only rounding
        move, direction = (only(each, leaf.span) for each in uneven)
        points = judged.x - BESIDE * move, judged.x + BESIDE * move
        before, after = (float(judged.claim(case.upstream, x) @ direction) for x in points)
        left, right = (_along(case, x, direction) for x in points)
        yours, true = after - before, float(right.value[0] - left.value[0])
        error = float(left.error[0] + right.error[0])
        # Far above what a rule that passes may be off; the slopes' errors; the rounding of claims.
        give = 20 * case.dtype.wrong * max(abs(yours), abs(true)) + 5 * error
        give += 1e-4 * BESIDE * max(abs(before), abs(after))
        bent = (left.kink | left.jump | right.kink | right.jump).any()
        if abs(yours - true) > give and not bent:
            one = leaf.size == case.y.size == 1
            by = 2 * BESIDE * float(move @ direction)
            numbers = (
                f": yours {style.number(yours / by)}, true {certain(true / by, error / abs(by))}"
            )
            vague = case.results.row("kink").reason in (VAGUE, "jumps", UNCERTAIN)
            here = "could not be judged in full here, and" if vague else "is right here, but"
            also = "is wrong" if vague else "not"
            case.results.broken(
                "second order",
                f"wrong for {leaf.name}" if vague else HERE,
                f"the gradient for {leaf.name} {here} {also} beside this point, so its own "
                f"derivative is wrong{numbers if one else ''}.",
                "Check at a nearby point: there the wrong entries of the gradient are named.",
                level=level,
            )


def _wrong(case: Case, wrong: Sequence[Mismatch], growing: bool, level: str) -> None:
    """Note the wrong second derivatives, and whether upstream must grow to show them."""
    one, other = case.input_name(wrong[0].output), case.input_name(wrong[0].input)
    run = first_derivative(case.judged, case.ones, growing).pull()
    numbers = f"{in_words(case, wrong[0], run)}{rules.more(len(wrong))}."
    by = f"d {one}²" if one == other else f"d {one} d {other}"
    message = f"d² {case.sum_name} / {by}: {numbers}"
    if growing:
        left = "out" if case.y.size == 1 else "a sum of out"
        message = (
            "Correct for an upstream of ones, but not for every upstream. With one that grows with "
            f"the input, d (upstream · d {left} / d {one}) / d {other}: {numbers}"
        )
    case.results.broken("second order", "wrong", message, _HIDDEN, level=level)


def _finite(case: Case, level: str) -> None:
    """A finite gradient has a finite second derivative, in f's own dtype too."""
    if case.results.has("finite forward") and case.order < 2:
        return  # of the same cause
    first = first_derivative(case.flat, case.ones)
    run = first.pull(np.random.default_rng(19).uniform(0.5, 1.5, first.x.size))
    wrong = np.flatnonzero(~np.isfinite(run.vector))
    if not np.isfinite(run.value).all() or not wrong.size:
        return
    case.results.broken(
        "second order",
        "not finite",
        f"differentiated twice, f gives {style.number(run.vector[wrong[0]])} for "
        f"{case.input_name(int(wrong[0]))}{rules.more(wrong.size)}; its gradient is finite there.",
        f"{rules.UNSTABLE} For a second derivative, trace with order=2.",
        level=level,
    )


RULES = (
    Rule("captured", DEBUGGING),
    Rule("numpy", GRAPHS),  # found only in exceptions
    Rule("none", INPUTS),
    Rule("value", CHAIN, value),
    Rule("precision", STABILITY, precision, "warning"),
    Rule("kink", KINKS, level="warning"),
    Rule("second order", NESTED, second_order),
)
SURROGATE = Rule("surrogate", KINKS)  # the last line of the table
