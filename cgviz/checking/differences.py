"""What f's rules claim against finite differences of f, which know how far they can be trusted.

    slope     the derivative along one direction, with its error, kinks and jumps
    compare   the claimed derivatives against slopes

A central difference (f(x+h) - f(x-h)) / 2h is off by a series in h², so two step lengths tell how
to remove the first term, three the second, and how much the result moved tells its error. That is
Richardson's extrapolation with the error estimate of C. J. F. Ridders, "Accurate computation of
F'(x) and F'(x)F''(x)", Advances in Engineering Software 4 (1982), 75-76. No single step length
would do: the best one depends on f, on x and on the dtype, and nothing tells that it was bad.
Steps are powers of two, so that x + h and x - h are exact wherever h is not below their last bit.

A slope along a direction d is J · d, one number for each output. Of up to `MANY` inputs each is
moved by itself, so every entry of the Jacobian J is seen. More inputs are moved in blocks, with
random weights: each entry is part of one sum, and whatever is wrong with it shows there. What the
rules claim for the same sum is found by pulling each output, upstream · J, or, where the outputs
are more than the directions, by pushing each direction: upstream · J is linear in upstream, so
its own derivative by upstream is J (J. Townsend, "A new trick for calculating Jacobian vector
products", 2017).
An elementwise rule of 100,000 numbers is judged in 16 directions. Where a sum disagrees, halves of
it find the entry in about log2(n) more slopes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from ..graph import Array, dtypes
from ..graph.dtypes import Dtype

RATIO = 4.0  # between one step length and the next
FIRST = tuple(2.0**-e for e in range(3, 11, 2))  # enough for smooth functions
CLOSER = tuple(2.0**-e for e in range(11, 15, 2))  # and for most others
SHORTER = tuple(2.0**-e for e in range(15, 31, 2))  # down to where float64 is rounded
LONGER = tuple(2.0**e for e in range(9, -3, -2))  # for what hardly moves
ROUNDING = 4.0  # last bits by which two values of f may differ for no reason but rounding
PLAUSIBLE = 250.0  # so many times that can still be rounding, where f cancels inside

# --- along one direction -----------------------------------------------------------------------


@dataclass(frozen=True)
class Slope:
    """The derivative of each entry of f along one direction, with an estimate of its error."""

    value: Array
    error: Array
    left: Array  # the derivatives from either side, which differ at a kink
    right: Array
    kink: Array  # bool: the two sides differ by more than their errors
    jump: Array  # bool: f itself has a step here, so there is no derivative

    @property
    def low(self) -> Array:
        """The smallest slope that touches f here."""
        return np.where(self.kink, np.fmin(self.left, self.right), self.value)

    @property
    def high(self) -> Array:
        """The largest slope that touches f here."""
        return np.where(self.kink, np.fmax(self.left, self.right), self.value)


def slope(along: Callable[[float], Array], middle: Array, eps: float) -> Slope:
    """The derivative d along(t) / dt at t = 0, entry by entry.

    Formula: D(h) = (along(h) - along(-h)) / 2h at h = 1/8, 1/32, ..., extrapolated to h = 0.

    Args:
        along: A function of a step length that returns a float64 vector. It should vary over
            steps of about 1: scale the direction by the size of the point.
        middle: along(0).
        eps: The relative rounding error of along's values, such as `np.finfo(np.float32).eps`.

    Returns:
        A `Slope`. Its error is infinite where no two steps agree, as at a pole.

    Example:
        >>> import numpy as np
        >>> found = slope(lambda t: np.array([np.exp(t), abs(t)]), np.array([1.0, 0.0]), 2e-16)
        >>> bool(abs(found.value[0] - 1) < 1e-9), found.kink.tolist()
        (True, [False, True])
    """
    values: dict[float, tuple[Array, Array]] = {}  # ahead and behind, by the step
    found = None
    for more in (FIRST, CLOSER, SHORTER, LONGER):
        new = [h for h in more if h >= 64 * eps]  # below, rounding is all that is left
        if not new:
            continue
        values |= {h: (along(h), along(-h)) for h in new}
        found = _read(dict(sorted(values.items(), reverse=True)), middle, eps)
        bent = bool((found.jump | found.kink).any())
        enough = more is SHORTER if bent else _good_enough(found, middle, eps)
        if enough:
            break
    assert found is not None
    return found


def _good_enough(found: Slope, middle: Array, eps: float) -> bool:
    """Whether more step lengths would tell nothing that matters."""
    finite = np.isfinite(found.value)
    if not finite.any():
        return not np.isfinite(middle).any()
    size = np.max(np.abs(found.value[finite]), initial=0.0)
    floor = np.max(np.abs(middle[np.isfinite(middle)]), initial=0.0) * eps
    floor *= 100 if eps > 1e-10 else 1e5
    worst = np.max(found.error[finite], initial=0.0)
    return bool(worst <= 1e-4 * size * (1 if eps > 1e-10 else 1e-3) + floor)


def _read(values: dict[float, tuple[Array, Array]], middle: Array, eps: float) -> Slope:
    h = np.array(list(values))[:, None]
    ahead, behind = (np.stack(side) for side in zip(*values.values(), strict=True))
    with np.errstate(all="ignore"):
        noise = ROUNDING * eps * np.fmax(np.abs(middle), np.fmin(np.abs(ahead), np.abs(behind))) / h
        value, error = extrapolate((ahead - behind) / (2 * h), noise, (2, 4, 6, 8))
        right, right_error = extrapolate((ahead - middle) / h, 2 * noise, (1, 2, 3, 4, 5))
        left, left_error = extrapolate((middle - behind) / h, 2 * noise, (1, 2, 3, 4, 5))
        gap, gap_error = extrapolate((ahead + behind - 2 * middle) / h, 4 * noise, (1, 3, 5, 7))
        one_sided = ~np.isfinite(value)  # the other side lies outside f's domain
        use_right = one_sided & np.isfinite(right)
        value = np.where(use_right, right, np.where(one_sided, left, value))
        error = np.where(use_right, right_error, np.where(one_sided, left_error, error))
        apart = np.abs(gap) > 10 * gap_error + 1e-3 * (np.abs(left) + np.abs(right))
        # The quotient of a smooth function falls with its step, that of a kink stays.
        quotient = np.abs(ahead + behind - 2 * middle) / h + 4 * noise
        apart &= (quotient[len(h) // 2 :] >= 0.5 * np.abs(gap)).all(axis=0)
    reach = np.fmax(np.max(np.abs(ahead - middle), axis=0), np.max(np.abs(behind - middle), axis=0))
    least = np.fmax(100 * noise[-1] * h[-1], 1e-6 * reach)
    step = _steps_away(ahead, middle, least) | _steps_away(behind, middle, least)
    kink = apart & np.isfinite(gap) & np.isfinite(left) & np.isfinite(right) & ~step
    error = np.where(step | ~np.isfinite(error), np.inf, error)
    return Slope(value, error, left, right, kink, step)


def _steps_away(side: Array, middle: Array, least: Array) -> Array:
    """Whether f leaves its value at once: |f(h) - f(0)| stays, however short the step."""
    away = np.abs(side - middle)[-4:]
    with np.errstate(all="ignore"):
        still = away.max(axis=0) - away.min(axis=0) < 0.2 * away[-1]
        return np.asarray(still & np.isfinite(away[-1]) & (away[-1] > least))


def extrapolate(differences: Array, noise: Array, powers: Sequence[int]) -> tuple[Array, Array]:
    """Ridders' tableau: the limit of a quotient as its step goes to 0, and an error estimate.

    Formula: A[k, j] = A[k, j-1] + (A[k, j-1] - A[k-1, j-1]) / (4^p[j] - 1), and of all entries
    the one whose two parents it moved from the least.

    Args:
        differences: One row per step length, each a quarter of the one before.
        noise: What rounding can do to each, of the same shape.
        powers: The powers of the step in the error series, such as 2, 4, 6.

    Returns:
        The limit and its error, each a row; infinite error where there is none.

    Example:
        >>> import numpy as np
        >>> h = np.array([[0.5], [0.125], [0.03125]])
        >>> value, error = extrapolate(np.sin(h) / h, 1e-16 + 0 * h, (2, 4, 6))
        >>> bool(abs(value[0] - 1) <= error[0] < 1e-3)
        True
    """
    best = np.full(differences.shape[1], np.nan)
    least = np.full(differences.shape[1], np.inf)
    column, rounding = differences, noise
    with np.errstate(all="ignore"):
        for power in powers[: len(differences) - 1]:
            better = column[1:] + (column[1:] - column[:-1]) / (RATIO**power - 1)
            moved = np.maximum(np.abs(better - column[1:]), np.abs(better - column[:-1]))
            moved = moved + rounding[1:]
            moved = np.where(np.isnan(moved), np.inf, moved)
            used = len(differences) - len(better)
            for row, limit in enumerate(better):
                error = _strayed(differences[used + row :], noise[used + row :], limit, moved[row])
                take = error < least
                best = np.where(take, limit, best)
                least = np.where(take, error, least)
            column, rounding = better, rounding[1:]
    return best, least


def _strayed(shorter: Array, noise: Array, limit: Array, error: Array) -> Array:
    """The error of a limit, larger if the steps shorter than those used stray from it.

    A quotient of a bounded function is small at long steps, and so is any change of it: a fast
    oscillation looks settled there, and only shorter steps show that it was not.
    """
    stray = np.abs(shorter[1:] - limit)
    allowed = PLAUSIBLE * noise[1:] + 10 * error + np.abs(shorter[0] - limit)
    return np.asarray(
        np.fmax(error, np.max(np.where(stray > allowed, stray, 0.0), axis=0, initial=0.0))
    )


# --- what is compared --------------------------------------------------------------------------

MANY = 128  # inputs up to which each is moved by itself, and outputs that are pulled one by one
BLOCKS = 16  # in which more are moved: in float64, sums of a thousand hide nothing that matters
FEWEST = 4  # however slow f is: so that one error does not vanish among all derivatives
SECONDS = 3.0  # that differences may take, and pulls, by the time that the first one takes
FEW = 40  # inputs that are looked at one by one also where that takes longer, for the hints
SLOW = 0.1  # seconds of a run from which that would take a minute
QUICK = 0.003  # seconds of a run that need not be measured again: everything is affordable
TRIES = 3
LADDER = 20  # runs that a slope takes, as a rule
MOST_CELLS = 4_000_000  # entries that are held at once: some hundred megabytes
SMALL = 5_000  # entries of a Jacobian that is kept whole, for the hints
SMALL_BESIDE = 1e-5  # of the largest slope beside it: what is less need not be right to the digit
MOST_LOCATED = 4  # sums whose wrong entry is searched for, until one is found: log2(n) slopes each

Result = TypeVar("Result")


@dataclass(frozen=True)
class Map:
    """Something from R^n to R^m that can be evaluated, and whose derivative is claimed."""

    x: Array
    scale: Array  # the size of each entry of x: steps are fractions of it
    forward: Callable[[Array], Array]
    pull: Callable[[Array, Array], Array]  # upstream of size m, x -> claimed gradient of size n
    dtype: Dtype  # the precision of forward's values, and from which error on a claim is told
    push: Callable[[Array, Array], Array] | None = None  # direction, x -> claimed slope of size m
    sizes: Sequence[int] = ()  # of the tensors that x was made of: a block is within one


@dataclass(frozen=True)
class Mismatch:
    """One entry of the Jacobian that is claimed wrong."""

    output: int
    input: int
    yours: float
    low: float  # the true slope; at a kink the two sides
    high: float
    error: float
    beside: float = 0.0  # the largest slope of any output for this input

    @property
    def size(self) -> float:
        """How far off the claim is."""
        return max(self.low - self.yours, self.yours - self.high)

    @property
    def part(self) -> float:
        """How far off it is by the size of the true slope, or of what is small beside others."""
        true = max(abs(self.low), abs(self.high), SMALL_BESIDE * self.beside)
        return self.size / true if true else np.inf


@dataclass
class Comparison:
    """The outcome: what disagrees, how much was judged, and where f has kinks."""

    mismatches: list[Mismatch] = field(default_factory=list)
    bends: list[tuple[int, int, str]] = field(default_factory=list)  # output, input or -1, and what
    judged: int = 0  # entries, or sums of them
    summed: int = 1  # entries in the longest sum
    blind: float = 0.0  # one entry that is off by this part of the mean one goes unseen
    claimed: Array | None = None  # the whole Jacobian, where it is small
    true: Array | None = None


def compare(problem: Map, most: int = MANY) -> Comparison:
    """Compare what `problem.pull` claims with slopes of `problem.forward`.

    Args:
        problem: The map, at its point.
        most: The most inputs that are moved, and outputs that are pulled, by themselves.

    Returns:
        A `Comparison`, with the worst mismatch first.
    """
    found = Comparison()
    with np.errstate(all="ignore"):
        middle, seconds = timed(lambda: problem.forward(problem.x))
        n, m = problem.x.size, middle.size
        if not n or not m:
            return found
        few = n if n <= FEW and seconds < SLOW else FEWEST
        columns = _blocks(problem.sizes or [n], _affordable(LADDER * seconds, most, few), m)
        directions = columns * problem.scale
        slopes = [_along(problem, middle, each) for each in directions]
        rows, claims, wobbles = _claims(problem, directions, m, most)
        _judge(problem, middle, columns, slopes, rows, claims, wobbles, found)
    found.mismatches.sort(key=lambda each: -each.size)
    return found


def timed(run: Callable[[], Result]) -> tuple[Result, float]:
    """What a run returns, and its seconds: the fewest of some, for a busy machine adds to them."""
    seconds = np.inf
    for _ in range(TRIES):
        start = time.monotonic()
        result = run()
        seconds = min(seconds, time.monotonic() - start)
        if seconds < QUICK:
            break
    return result, seconds


def largest(array: Array) -> float:
    """The size of the largest finite number; 0 if there is none."""
    return float(np.max(np.abs(array[np.isfinite(array)]), initial=0.0))


def apart(one: Array, other: Array, give: Array | float) -> Array:
    """The indices of the finite numbers of two vectors that differ by more than `give`."""
    with np.errstate(all="ignore"):
        known = np.isfinite(one) & np.isfinite(other)
        return np.flatnonzero(known & (np.abs(one - other) > give))


def wobble(run: Callable[[Array], Array], x: Array, eps: float) -> Array:
    """By how much a claim at x moves when the last bits of x do."""
    random = np.random.default_rng(3)
    here = run(x)
    there = [run(x * (1 + 2 * eps * random.choice([-1.0, 1.0], x.size))) for _ in range(2)]
    return np.asarray(np.fmax(*(np.abs(each - here) for each in there)))


def _affordable(seconds: float, most: int, fewest: int = FEWEST) -> int:
    """How many runs of so many seconds each there is time for."""
    return int(np.clip(SECONDS / (seconds + 1e-9), min(fewest, most), most))


def _blocks(sizes: Sequence[int], most: int, other: int) -> Array:
    """Weights, one row for each block: every entry alone, or random ones in sums.

    Args:
        sizes: Of the tensors that the entries are of.
        most: Entries up to which each is alone.
        other: Numbers that are found for each block.
    """
    total = sum(sizes)
    if total <= most:
        return np.eye(total)
    count = int(np.clip(MOST_CELLS // max(total, other), 1, min(most, BLOCKS)))
    random = np.random.default_rng(8)
    blocks = []
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        for entries in np.array_split(random.permutation(size), -(-count * size // total) or 1):
            blocks.append(np.zeros(total))
            weights = random.choice([-1.0, 1.0], entries.size)
            # Unlike ones, or two entries of a block could be exchanged unseen; 64ths, because
            # x + h stays exact with them.
            weights *= random.integers(32, 65, entries.size) / 64
            blocks[-1][end - size + entries] = weights
    return np.stack(blocks)


def _along(problem: Map, middle: Array, direction: Array) -> Slope:
    """The slope of the map along a direction that is already scaled."""
    return slope(lambda t: problem.forward(problem.x + t * direction), middle, problem.dtype.eps)


def _claims(
    problem: Map, directions: Array, size: int, most: int
) -> tuple[Array | None, Array, Array]:
    """What is claimed of each direction.

    Returns:
        The weights of the sums of outputs, or None where each output is by itself; the claims, one
        row for each of these and one column for each direction; and how far rounding moves them.
    """
    x = problem.x
    if 2 * len(directions) < size:  # a push costs two pulls
        pushed = _pushed(problem, directions, size)
        if pushed is not None:
            return None, *pushed
    _, seconds = timed(lambda: problem.pull(np.ones(size), x))
    rows = _blocks([size], _affordable(4 * seconds, most), x.size)
    found = [_moving(problem, partial(problem.pull, row)) for row in rows]
    claims = np.stack([directions @ claim for claim, _ in found])
    wobbles = np.stack([np.abs(directions) @ moved for _, moved in found])
    return None if len(rows) == size else rows, claims, wobbles


def _pushed(problem: Map, directions: Array, size: int) -> tuple[Array, Array] | None:
    """The claims by pushing; None where the rules cannot be differentiated by upstream."""
    push = problem.push
    if push is None:
        return None
    try:
        found = [_moving(problem, partial(push, each)) for each in directions]
    except Exception:  # an op of a rule that has no gradient
        return None
    claims, wobbles = np.stack(found, axis=-1)
    upstream = np.random.default_rng(7).uniform(-1.5, 1.5, size)
    expected = directions @ problem.pull(upstream, problem.x)
    give = problem.dtype.told * (np.abs(upstream) @ np.abs(claims) + largest(expected))
    if apart(upstream @ claims, expected, give).size:  # a rule of a rule that is wrong
        return None
    return claims, wobbles


def _moving(problem: Map, run: Callable[[Array], Array]) -> tuple[Array, Array]:
    """What is claimed at the point, and how far rounding moves it: in float64 nothing to speak of.

    What rounding the inputs alone can do to a gradient is nobody's mistake: near a singular matrix
    it is much.
    """
    here = run(problem.x)
    if problem.dtype.eps <= dtypes.FLOAT64.eps:
        return here, np.zeros_like(here)
    return here, wobble(run, problem.x, problem.dtype.eps)


# --- comparing them ----------------------------------------------------------------------------


def _judge(
    problem: Map,
    middle: Array,
    columns: Array,
    slopes: Sequence[Slope],
    rows: Array | None,
    claims: Array,
    wobbles: Array,
    found: Comparison,
) -> None:
    """Compare claims and slopes: entries, or sums of them, all times their weights."""
    value, low, high, error = (
        np.stack([getattr(each, name) for each in slopes], axis=1)
        for name in ("value", "low", "high", "error")
    )
    alone = len(columns) == problem.x.size
    for name, words in (("kink", "has a kink"), ("jump", "jumps")):
        at = np.argwhere(np.stack([getattr(each, name) for each in slopes], axis=1))
        found.bends += [(i, j if alone else -1, words) for i, j in at.tolist()]
    exact = alone and rows is None
    if rows is not None:
        ends = np.maximum(rows, 0) @ low + np.minimum(rows, 0) @ high
        low, high = ends, np.maximum(rows, 0) @ high + np.minimum(rows, 0) @ low
        error = np.abs(rows) @ error
    reach = np.fmax(np.abs(low), np.abs(high))
    # The size of the entries in each sum: with random signs, the root of the sum of their squares.
    terms = np.fmax(np.abs(claims), reach)
    if not exact:
        terms = np.fmax(terms, np.sqrt(np.mean(terms**2, axis=1, keepdims=True)))
    give = problem.dtype.told * terms + 5 * error + 10 * wobbles
    parts = give / terms
    # The last bits of the largest number beside it are nobody's mistake.
    beside = np.max(np.where(np.isfinite(reach), reach, 0.0), axis=0)
    give = give + SMALL_BESIDE * problem.dtype.told * beside
    known = np.isfinite(claims + give) & np.isfinite(low) & np.isfinite(high)
    gap = np.fmax(low - claims, claims - high) - give
    enough = np.fmax(0.3 * terms, problem.dtype.wrong * np.fmax(beside, largest(middle)))
    outside = np.argwhere(known & (gap > 0)).tolist()
    found.judged = int(np.sum(known & ((gap > 0) | (give <= enough))))
    if not exact:
        longest = -(-problem.x.size // len(columns)) * -(-middle.size // len(claims))
        parts = parts[np.isfinite(parts)]
        found.summed = longest
        found.blind = np.sqrt(longest) * np.median(parts) if parts.size else np.inf
        outside.sort(key=lambda each: -gap[tuple(each)])
        for row, column in outside[:MOST_LOCATED]:
            upstream = np.eye(1, middle.size, row)[0] if rows is None else rows[row]
            if _locate(problem, middle, upstream, columns[column] * problem.scale, found):
                break
        return
    yours, low, high, error = (each / problem.scale for each in (claims, low, high, error))
    beside = beside / problem.scale
    for i, j in outside:
        claimed, ends = float(yours[i, j]), (float(low[i, j]), float(high[i, j]))
        found.mismatches.append(Mismatch(i, j, claimed, *ends, float(error[i, j]), beside[j]))
    if claims.size <= SMALL:
        found.claimed, found.true = yours, value / problem.scale


def _locate(problem: Map, middle: Array, u: Array, direction: Array, found: Comparison) -> bool:
    """Note the entry where upstream u and this direction disagree: halve, keep the worse half."""

    def gap(upstream: Array, heading: Array) -> float:
        truth = _along(problem, middle, heading)
        claimed = float(problem.pull(upstream, problem.x) @ heading)
        value = float(upstream @ np.nan_to_num(truth.value))
        low, high = float(upstream @ truth.low), float(upstream @ truth.high)
        return max(abs(claimed - value) - abs(high - low), 0.0)

    inputs = _halve(np.flatnonzero(direction), lambda part: gap(u, _only(direction, part)))
    heading = _only(direction, inputs)
    outputs = _halve(np.flatnonzero(u), lambda part: gap(_only(u, part), heading))
    i, j = int(outputs[0]), int(inputs[0])
    truth = _along(problem, middle, heading)
    low, high = sorted((float(truth.low[i] / heading[j]), float(truth.high[i] / heading[j])))
    error = float(truth.error[i] / abs(heading[j]))
    yours = float(problem.pull(np.eye(1, u.size, i)[0], problem.x)[j])
    beside = largest(truth.value) / abs(heading[j])
    mismatch = Mismatch(i, j, yours, low, high, error, beside)
    if mismatch.size > problem.dtype.told * max(abs(low), abs(high)) + 5 * mismatch.error:
        found.mismatches.append(mismatch)
        return True
    return False  # roundings that add up: no entry by itself is off


def _only(vector: Array, entries: Array) -> Array:
    kept = np.zeros_like(vector)
    kept[entries] = vector[entries]
    return kept


def _halve(entries: Array, gap: Callable[[Array], float]) -> Array:
    while entries.size > 1:
        first, second = np.array_split(entries, 2)
        entries = first if gap(first) >= gap(second) else second
    return entries
