"""What a wrong claim means: what excuses it, or which mistake explains it.

A tie or an iteration that stops early can excuse it. If not, it is reported under the rule that
explains it best: `captured`, `variables`, `none` or, if only the numbers are wrong, `value`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array
from ..graph.trace import with_bodies
from ..lessons import CHAIN, INPUTS, KINKS, VARIABLES
from . import rules
from .case import Case, Row
from .comparison import FEWEST, NOTHING, SECONDS, Comparison, Mismatch, affordable, only, timed
from .flattened import TINY, Leaf, Pulled, largest, leaf_at, ops_of

# Rows beside a tie. Right rules for the best of several experts needed up to 128: one in 130 lies
# in the thinnest sector. A rule that is wrong in a third of the sectors passes the first 32, half
# of them at random, once in 650 times.
SIDES = (32, 64, 128, 256)
# Of how far the rows vary. Right rules for singular values came to 0.04 with 32 rows, others
# nearer; half of the right row among n equal numbers is 0.5 / √n away.
MEAN = 0.05
# Of the largest claim: the most by which an early stop explains a difference. Right rules of fixed
# points, roots and eigenvalues, iterated to a tolerance of 1e-3, were off by up to 0.017.
SMALL_PART = 0.03
# Of a claim's error. One more step of an iteration takes 1 - q of it, if the error falls to q of
# itself in each step: of fixed points and roots, 0.25 to 1.2 was measured, and for rules that are
# spoiled by ten times that error, up to 0.03. So it is enough for a q of 0.95.
JUMP = 0.05

# --- excuses -----------------------------------------------------------------------------------


def tied(found: Comparison, wrong: Sequence[Mismatch], whole: bool = True) -> bool | None:
    """Whether f has no derivative here, as at a tie of three, and these claims are as good as any.

    A gradient that is valid at a kink is a mean of gradients beside it. So the rules must be right
    beside the point, and each row with a wrong claim a mean of rows that they claim there.

    Args:
        found: The comparison.
        wrong: The wrong claims.
        whole: Whether the right entries of such a row must fit the same mean. A second derivative
            of TensorFlow's own ops need not: `tf.reduce_max` shares it among the equal numbers.

    Returns:
        None if it may be so, and to find out takes too long.
    """
    outputs = {each.output for each in wrong}
    most = SIDES[-1] * len(outputs)
    _, seconds = timed(lambda: found.row(wrong[0].output), SECONDS / most)
    # The runs of f take about as long again. Each wrong claim of the first row is asked twice, or
    # a mistake could hide behind many ties.
    asked = 2 * sum(each.output == wrong[0].output for each in wrong)
    budget = iter(range(max(affordable(seconds, most), asked)))
    known = True
    for output in outputs:
        if (mean := _is_mean(found, output, wrong, whole, budget)) is False:
            return False
        known &= mean is not None
    if not known:
        return None
    if found.summed == 1:
        return True
    # Of sums only one wrong entry is known: the others must be right beside the tie.
    f, random = found.f, np.random.default_rng(2)
    side = random.choice([-1.0, 1.0], f.x.size) * 2.0 ** random.uniform(-8.0, 0.0, f.x.size)
    for move in (2.0**-10 * f.scale * side, -(2.0**-10) * f.scale * side):
        beside = Comparison(replace(f, x=f.x + move), found.dtype)
        if beside.mismatches or not beside.judged:
            return False
    return True


def _is_mean(
    found: Comparison, output: int, wrong: Sequence[Mismatch], whole: bool, budget: Iterator[int]
) -> bool | None:
    """Whether the row of an output is a mean of rows beside it, in which the rules are right.

    They are right if what they claim there for each wrong entry, in turn, is f's own slope. It is
    None if the budget, one item for each row beside it but the first few, ends before that is told.
    """
    wrong = [each for each in wrong if each.output == output]
    asked = [each.input for each in wrong]
    # Judged by itself: a kink along one input, where any slope between the two is right.
    free = [j for i, j, what in found.bends if (i, what) == (output, "has a kink")]
    f, claim, random = found.f, found.row(output) * found.f.scale, np.random.default_rng(2)
    unit = np.eye(1, found.middle.size, output)[0]
    near, step = (found.dtype.eps**power for power in (1 / 5, 1 / 2))  # few steps meet a kink
    kept = np.full(claim.size, whole and found.summed == 1)
    kept[free] = False
    rows: list[Array] = []
    sides: dict[float, Array] = {}  # where they are, by their distance from the claim
    for count in range(1, SIDES[-1] + 1 if claim.any() else 0):
        if count > FEWEST and next(budget, None) is None:
            return None
        side = random.choice([-1.0, 1.0], claim.size)
        side *= 2.0 ** random.uniform(-8.0 * random.random(), 0.0, claim.size)
        if rows and count % 2:  # f may be as it claims in a thin sector: search near the best row
            side = sides[min(sides)] + side * 2.0 ** -random.integers(0, 5)
        x, one = f.x + near * f.scale * side, wrong[count // 2 % len(wrong)]
        run, move = f.pull(unit, x), step * only(f.scale, one.input)
        row, here = run.vector * f.scale, run.value[output]
        behind, ahead = (f.forward(x + t * move)[output] for t in (-1, 1))
        yours, true = 2 * step * row[one.input], ahead - behind
        # Room for the rounding of three values of f, but never so much as to hide the mistake.
        give = found.dtype.wrong * max(abs(yours), abs(true)) + 30 * found.dtype.eps * abs(here)
        give = min(give, 0.1 * one.size * f.scale[one.input] * step)
        if abs(yours - true) <= give:
            rows.append(row)
            sides[float(np.linalg.norm(row - claim))] = side
        elif abs(ahead - 2 * here + behind) <= give:
            return False  # f has no kink there
        enough = count in SIDES and 2 * len(rows) >= count >= 2 * len(wrong)
        if enough and _distance(np.stack(rows), claim, asked, kept, found.dtype.wrong, near) < MEAN:
            return True
    return False


def _distance(
    rows: Array, claim: Array, wrong: Sequence[int], kept: Array, least: float, near: float
) -> float:
    """How far a claim is from the nearest mean of rows, in parts of how far each entry varies.

    The nearest one is found by steps towards one row after another (M. Frank and P. Wolfe, "An
    algorithm for quadratic programming", 1956). A right entry that no row bounds is left out: it
    differs from all of them where other numbers stay equal as its own input moves.
    """
    low, high = rows.min(axis=0), rows.max(axis=0)
    asked = kept & (low <= claim) & (claim <= high)
    asked &= high - low > 10 * near * np.abs(rows).max(axis=0)  # else it is smooth, and right
    asked[[*wrong]] = True
    unit = (high - low + least * np.abs(rows).max(axis=0) + TINY)[asked]
    rows, claim = rows[:, asked] / unit, claim[asked] / unit
    mean = rows[0]
    for _ in range(300):
        gap = claim - mean
        way = rows[np.argmax(rows @ gap)] - mean
        if gap @ way <= 0:
            break
        mean = mean + min(gap @ way / (way @ way), 1.0) * way
    return float(np.linalg.norm(claim - mean))


def stops_early(found: Comparison, wrong: Sequence[Mismatch]) -> bool:
    """Whether f is an iteration that stops early, which explains why these claims are off.

    An iteration that runs until its steps are small has a derivative of its own, which differs
    from that of its limit by more than the tolerance. Two things tell it from a wrong rule. No
    claim is off by more than `SMALL_PART` of the largest one for the same output and leaf.
    And where f begins to run the same types of op another number of times, the worst claim for
    each input or variable jumps nearer to the true one, or away from it.

    It misses a rule that is off by hardly more than the iteration; and it calls a right one wrong
    if its loop is not in TensorFlow, or if it stops earlier still.
    """
    f, random, step = found.f, np.random.default_rng(5), found.dtype.eps ** (1 / 3)
    row = cache(found.row)
    worst: dict[Leaf, Mismatch] = {}
    for each in wrong:  # the worst first
        leaf = leaf_at(f.leaves, each.input)
        worst.setdefault(leaf, each)
        if each.size > SMALL_PART * largest(row(each.output)[leaf.span]):
            return False

    def ran(x: Array) -> Counter[str]:
        return Counter(op.type for op in ops_of(partial(f.forward, x)))

    def off(x: Array, wrong: Mismatch) -> float:
        moved = step * only(f.scale, wrong.input)
        ahead, behind = (f.forward(at)[wrong.output] for at in (x + moved, x - moved))
        return float(ahead - behind - 2 * found.row(wrong.output, x) @ moved)

    here, usual = f.x, ran(f.x)
    around = f.x + f.scale * random.uniform(-0.125, 0.125, (3, f.x.size))
    points = ((x, ran(x)) for x in (*around, 0.5 * around[0], 0.25 * around[0]))
    there = next((x for x, ops in points if ops != usual and set(ops) == set(usual)), here)
    if there is here:
        return False
    for _ in range(8):  # so near to each other that a wrong rule is off by the same
        middle = (here + there) / 2
        here, there = (middle, there) if ran(middle) == usual else (here, middle)
    pairs = [np.array([off(x, each) for x in (here, there)]) for each in worst.values()]
    return all(np.ptp(pair) > JUMP * largest(pair) for pair in pairs)


# --- why a derivative is wrong -----------------------------------------------------------------

_ON_PURPOSE = "If on purpose, say so with surrogate=True."
_FLAT = (
    "The true derivative is 0 here: where a clip, a relu or a round is flat, a rule needs a mask. "
    "If it replaces a 0 on purpose, as a straight-through estimator does, say so with "
    "surrogate=True."
)
_LEAK = (
    "This output does not change with this input, but does with others: a sum over the wrong axis, "
    "or without a mask, mixes rows or groups."
)
_NO_LABELS = " If it gets none on purpose, as labels do, close over it: lambda x: f(x, labels)."
_NOT_TRAINED = (
    " If it gets none on purpose, as one that moving averages train, make it with trainable=False."
)
_GENERAL = (
    "Work the rule out by hand for this entry. Look for the output in place of the input or the "
    "other way round, a missing transpose or conjugate (upstream · tf.math.conj(local)), and a sum "
    "over the wrong axis."
)
_NO_RULE = (
    "Does tf.stop_gradient hide a part of f, or is a rule wrong, perhaps one that was registered "
    f"or loaded? {_ON_PURPOSE}"
)
_SYMMETRIC = (
    " A gradient for symmetric matrices, such as that of tf.linalg.logdet, is right for "
    "lambda a: f((a + tf.linalg.matrix_transpose(a)) / 2)."
)


def explain(case: Case, found: Comparison, leaf: Leaf, wrong: Sequence[Mismatch]) -> None:
    """Note what is wrong with one leaf under the rule that explains it best."""
    results = case.results
    numbers = f"{entry(case, wrong[0])}{rules.more(len(wrong))}"
    if found.summed > 1:  # of sums, the search ends with the first wrong entry
        numbers += "; others may be wrong, too"
    if results.has("keywords") or (leaf.variable and results.has("variables")):
        return
    reached = case.reached(leaf)
    captured = any(v.key in reached for op in case.custom for v in op.captured)
    nothing = case.eager.gradients[case.judged.leaves.index(leaf)] is None
    if captured or nothing:
        why = cause_of_none(case, leaf)
        refused = why and why.op and why.op.kind == "custom"
        rule = "captured" if captured else "variables" if refused and leaf.variable else "none"
        message, hint = (why.message, why.hint) if why else (f"nothing flows to {leaf.name}.", "")
        if refused and not captured:
            hint += _NO_LABELS if rule == "none" else _NOT_TRAINED
        if nothing and rule != "none":
            results.rows["none"] = Row("none", "fail", f"nothing flows to {leaf.name}: see {rule}")
        reason = f"{'nothing' if nothing else 'not all'} flows to {leaf.name}"
        results.broken(rule, reason, f"{message} {numbers}.", hint)
    else:
        hint = _pattern(found, case, leaf, wrong)
        lesson = VARIABLES if leaf.variable else INPUTS if len(case.judged.leaves) > 1 else CHAIN
        lesson = KINKS if hint == _FLAT else lesson
        message = f"{numbers}{case.guilty(leaf)}."
        results.broken("value", f"wrong for {leaf.name}", message, hint, lesson=lesson)


def cause_of_none(case: Case, leaf: Leaf) -> Finding | None:
    """The finding of `diagnose` about a gradient that is None: the leaf's, or else the first."""
    found = [each for each in case.diagnosis if each.what == "none"]
    return next((each for each in found if leaf.name in each.sources), next(iter(found), None))


def _pattern(found: Comparison, case: Case, leaf: Leaf, wrong: Sequence[Mismatch]) -> str:
    """What the wrong numbers look like, as a hint."""
    # Of sums one wrong entry is known: f is flat there if no output moves with that input.
    still = found.summed == 1 or wrong[0].beside <= NOTHING * abs(wrong[0].yours)
    if still and all(each.flat for each in wrong):
        rows = [found.true[each.output, leaf.span] for each in wrong if found.true.size]
        return _LEAK if rows and all(row.any() for row in rows) else _FLAT
    general = _GENERAL if case.guilty(leaf) else _NO_RULE
    matrix = np.asarray(leaf.source)
    square = matrix.ndim > 1 and matrix.shape[-1] == matrix.shape[-2]
    give = 30 * case.given.eps * largest(matrix)  # a product such as a @ a is rounded
    if square and give and largest(matrix - matrix.swapaxes(-1, -2)) <= give:
        general += _SYMMETRIC
    mine, right = found.claimed[:, leaf.span], found.true[:, leaf.span]
    for other in case.judged.leaves:
        yours, theirs = found.claimed[:, other.span], found.true[:, other.span]
        alike = other is not leaf and theirs.shape == mine.shape and theirs.any()
        if alike and _close(mine, theirs) and _close(yours, right):
            return f"This is the gradient of `{other.name}`: are the two swapped in the `return`?"
    factor, digits = found.factors[leaf.span.start], 2 if case.dtype.coarse else 3
    everywhere = " everywhere" if not right.size or (right != 0).sum() > 1 else ""
    if factor and style.number(factor, digits) != "1":
        why = _ON_PURPOSE if case.guilty(leaf) else general
        sizes = {n for op in case.trace.ops for v in op.outputs for n in (*v.shape, v.size)} - {2}
        mean = "A mean where a sum is meant? " if round(1 / factor, 2) in sizes else ""
        ask = "A wrong sign? " if factor < 0 else mean
        return f"Yours is {style.number(factor, digits)} times the true one{everywhere}. {ask}{why}"
    if _close(mine, right):  # except for small numbers beside large ones; or nothing is known
        return general
    moved = _close(np.sort(mine, axis=None), np.sort(right, axis=None))
    if moved and not leaf.source.dtype.is_complex:  # else it may be the conjugate
        swapped = "the upstreams of two outputs swapped, " if len(case.targets) > 1 else ""
        values = [v for op in with_bodies(case.trace.ops) for v in op.outputs]
        turned = any(v.dtype.startswith("complex") for v in values)
        square = any(len({*v.shape}) < len(v.shape) for v in values)  # else the shape would tell
        return (
            "The numbers are right, but in the wrong places: a transpose missing or one too many, "
            f"{'a conjugate missing, ' * turned}{'a sum over the wrong axis, ' * square}"
            f"{swapped}or parts stacked in another order?"
        )
    return general


def _close(one: Array, other: Array) -> bool:
    return bool(np.all(np.abs(one - other) <= 1e-2 * largest(other)))


# --- numbers in words --------------------------------------------------------------------------


def entry(case: Case, wrong: Mismatch) -> str:
    """One wrong entry in words: `d out[1] / d in[2]: yours 6, true 0`."""
    left = case.output_name(wrong.output) if case.linear else case.sum_name
    return f"d {left} / d {case.input_name(wrong.input)}: {in_words(case, wrong, case.eager)}"


def in_words(case: Case, wrong: Mismatch, run: Pulled) -> str:
    """The claim and the true slope with the digits that are certain; at a kink, both slopes.

    With fewer than two such digits the slope has its error beside it: `true 0.05 ± 0.04`. `run`
    tells a 0 from a None.
    """
    leaves = case.judged.leaves
    nothing = run.gradients[leaves.index(leaf_at(leaves, wrong.input))] is None
    yours = "None" if nothing else style.number(wrong.yours)
    if wrong.flat:
        return f"yours {yours}, true 0"
    if wrong.high - wrong.low <= 2 * wrong.error and wrong.error > 0.01 * wrong.reach:
        half = wrong.error + (wrong.high - wrong.low) / 2
        digits = -int(np.floor(np.log10(half)))
        middle, most = (wrong.low + wrong.high) / 2, np.ceil(half * 10.0**digits) / 10.0**digits
        return f"yours {yours}, true {style.number(round(middle, digits))} ± {style.number(most)}"
    low, high = (certain(number, wrong.error) for number in (wrong.low, wrong.high))
    if yours == low == high:
        yours, low = (f"{n:.7g}".replace("-", style.MINUS) for n in (wrong.yours, wrong.low))
        return f"yours {yours}, true {low}"
    return f"yours {yours}, true {low if low == high else f'between {low} and {high}'}"


def certain(number: float, error: float) -> str:
    """A number with the digits that its error leaves certain."""
    if abs(number) <= 10 * error:
        return style.number(0.0)
    digits = int(np.clip(np.floor(-np.log10(error / abs(number))), 1, 4)) if error else 4
    return style.number(float(f"{number:.{digits}g}"))
