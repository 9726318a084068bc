"""What f's rules claim against finite differences of f.

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
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from ..graph import Array, dtypes
from ..graph.dtypes import Dtype
from .differences import Slope, slope
from .flattened import Flattened

MANY = 128  # inputs up to which each is moved by itself, and outputs that are pulled one by one
BLOCKS = 16  # in which more are moved: in float64, sums of a thousand hide nothing that matters
FEWEST = 4  # however slow f is: so that one error does not vanish among all derivatives
SECONDS = 3.0  # that differences may take, and pulls, by the time that the first one takes
FEW = 40  # inputs that are looked at one by one also where that takes longer, for the hints
SLOW = 0.1  # seconds of a run from which that would take a minute, and the second order more
LADDER = 20  # runs that a slope takes, as a rule
MOST_CELLS = 4_000_000  # entries that are held at once: some hundred megabytes
SMALL = 5_000  # entries of a Jacobian that is kept whole, for the hints
SMALL_BESIDE = 1e-5  # of the largest slope beside it: what is less need not be right to the digit
MOST_LOCATED = 4  # sums whose wrong entry is searched for, until one is found: log2(n) slopes each

Result = TypeVar("Result")


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


class Comparison:
    """What the rules of a function claim at its point, held against its slopes.

    Args:
        f: The function.
        dtype: The precision of its values, and from which error on a claim is told.
        most: The most inputs that are moved, and outputs that are pulled, by themselves.
        shortest: The shortest step, as a part of each input.

    Attributes:
        mismatches: The entries that are claimed wrong, the worst first.
        bends: Where f has a kink or jumps: output, input or -1, and what it does.
        judged: How many entries, or sums of them, were judged.
        off: How many of these are claimed wrong; of sums only one is searched for its entry.
        unsure: How many were not, as the differences are too uncertain there.
        doubt: The largest part of itself by which a slope that was judged may be off.
        summed: The number of entries in the longest sum.
        blind: One entry that is off by this part of the mean one goes unseen.
        claimed: The whole Jacobian as it is claimed, where it is small.
        true: What the slopes say it is; NaN where f jumps.
    """

    claimed: Array | None = None
    true: Array | None = None

    def __init__(self, f: Flattened, dtype: Dtype, most: int = MANY, shortest: float = 0.0) -> None:
        self.f, self.dtype, self.shortest = f, dtype, shortest
        self.mismatches: list[Mismatch] = []
        self.bends: list[tuple[int, int, str]] = []
        self.judged, self.unsure, self.summed, self.blind, self.doubt = 0, 0, 1, 0.0, 0.0
        with np.errstate(all="ignore"):
            quick = SLOW if f.x.size <= FEW else SECONDS / LADDER / min(f.x.size, MANY)
            self.middle, seconds = timed(lambda: f.forward(f.x), quick)
            if f.x.size and self.middle.size:
                self._compare(seconds, most)
        self.mismatches.sort(key=lambda each: -each.size)

    def _compare(self, seconds: float, most: int) -> None:
        """Compare claims and slopes: entries, or sums of them, all times their weights."""
        n, m = self.f.x.size, self.middle.size
        few = n if n <= FEW and seconds < SLOW else FEWEST
        columns = _blocks(self.f.sizes, _affordable(LADDER * seconds, most, few), m)
        directions = columns * self.f.scale
        each = zip(*map(self._slope, directions), strict=True)
        slopes = Slope(*(np.stack(part, axis=1) for part in each))
        rows, claims, wobbles = self._claims(directions, most)
        alone = len(columns) == n
        for bent, words in ((slopes.kink, "has a kink"), (slopes.jump, "jumps")):
            self.bends += [(i, j if alone else -1, words) for i, j in np.argwhere(bent).tolist()]
        if alone and rows is None:
            self._note(slopes, claims, self._outside(slopes, claims, wobbles, claims))
            return
        self.summed = -(-n // len(columns)) * -(-m // len(claims))
        sums = slopes if rows is None else slopes.summed(rows)
        # The size of the entries in each sum: with random signs, the root of the sum of their
        # squares.
        sizes = np.fmax(np.abs(claims), sums.reach)
        sizes = np.sqrt(np.mean(sizes**2, axis=1, keepdims=True))
        for row, column in self._outside(sums, claims, wobbles, sizes)[:MOST_LOCATED]:
            upstream = np.eye(1, m, row)[0] if rows is None else rows[row]
            if self._locate(upstream, directions[column]):
                break

    def _outside(
        self, slopes: Slope, claims: Array, wobbles: Array, sizes: Array
    ) -> list[list[int]]:
        """Judge each claim, and tell which are off by more than errors explain, the worst first.

        Args:
            slopes: What is true.
            claims: What is claimed, of the same shape.
            wobbles: How far rounding moves the claims.
            sizes: Of what a claim is the sum of.
        """
        reach = slopes.reach
        terms = np.fmax(np.fmax(np.abs(claims), reach), np.abs(sizes))
        give = self.dtype.told * terms + 5 * slopes.error + 10 * wobbles
        if self.summed > 1 or self.dtype.coarse:
            parts = (give / terms)[np.isfinite(give / terms)]
            self.blind = np.sqrt(self.summed) * np.median(parts) if parts.size else np.inf
        # The last bits of the largest number beside it are nobody's mistake.
        beside = np.max(np.where(np.isfinite(reach), reach, 0.0), axis=0)
        give = give + SMALL_BESIDE * self.dtype.told * beside
        known = np.isfinite(claims + give) & np.isfinite(slopes.low) & np.isfinite(slopes.high)
        gap = np.fmax(slopes.low - claims, claims - slopes.high) - give
        enough = np.fmax(0.3 * terms, self.dtype.wrong * np.fmax(beside, largest(self.middle)))
        enough = enough + self.dtype.eps  # all may be 0
        judged = known & ((gap > 0) | (give <= enough))
        self.doubt = float(np.max((slopes.error / np.fmax(terms, enough))[judged], initial=0.0))
        self.judged = int(np.sum(judged))
        self.unsure = claims.size - self.judged
        outside = np.argwhere(known & (gap > 0)).tolist()
        self.off = len(outside)
        return sorted(outside, key=lambda at: -gap[*at])

    def _note(self, slopes: Slope, claims: Array, outside: list[list[int]]) -> None:
        """Keep single entries: those that are claimed wrong, and of a small Jacobian all."""
        claims, low, high, error, true = (
            part / self.f.scale
            for part in (claims, slopes.low, slopes.high, slopes.error, slopes.value)
        )
        beside = [largest(column) for column in slopes.reach.T] / self.f.scale
        for i, j in sorted(outside):
            yours, least, most, off = (float(part[i, j]) for part in (claims, low, high, error))
            self.mismatches.append(Mismatch(i, j, yours, least, most, off, float(beside[j])))
        if claims.size <= SMALL:
            self.claimed, self.true = claims, np.where(slopes.jump, np.nan, true)

    def _slope(self, direction: Array, shortest: float = 0.0) -> Slope:
        """The slope along a direction that is already scaled."""
        f, eps, shortest = self.f, self.dtype.eps, shortest or self.shortest
        return slope(lambda t: f.forward(f.x + t * direction), self.middle, eps, shortest)

    def far_off(self, part: float, shortest: float) -> bool:
        """Whether the worst claim is off by more than this part over longer steps, too."""
        worst, scale = self.mismatches[0], self.f.scale
        true = self._slope(np.eye(1, scale.size, worst.input)[0] * scale, shortest)
        yours, at = worst.yours * scale[worst.input], worst.output
        gap = max(true.low[at] - yours, yours - true.high[at])
        return bool(gap > part * true.reach[at] + 10 * true.error[at])

    def _claims(self, directions: Array, most: int) -> tuple[Array | None, Array, Array]:
        """What is claimed of each direction.

        Returns:
            The weights of the sums of outputs, or None where each output is by itself; the claims,
            one row for each of these and one column for each direction; and how far rounding moves
            them.
        """
        f, size = self.f, self.middle.size
        if 2 * len(directions) < size:  # a push costs two pulls
            pushed = self._pushed(directions)
            if pushed is not None:
                return None, *pushed
        first, seconds = timed(lambda: f.claim(np.eye(1, size)[0], f.x), SECONDS / 4 / size)
        rows = _blocks([size], _affordable(4 * seconds, most), f.x.size)
        known = [first] if len(rows) == size else []
        found = [self._moving(partial(f.claim, row), *known[i:]) for i, row in enumerate(rows)]
        claims = np.stack([directions @ claim for claim, _ in found])
        wobbles = np.stack([np.abs(directions) @ moved for _, moved in found])
        return None if len(rows) == size else rows, claims, wobbles

    def _pushed(self, directions: Array) -> tuple[Array, Array] | None:
        """The claims by pushing; None where the rules cannot be differentiated by upstream."""
        try:
            found = [self._moving(partial(self.f.push, each)) for each in directions]
        except Exception:  # an op of a rule that has no gradient
            return None
        claims, wobbles = np.stack(found, axis=-1)
        upstream = np.random.default_rng(7).uniform(-1.5, 1.5, self.middle.size)
        expected = directions @ self.f.claim(upstream, self.f.x)
        give = self.dtype.told * (np.abs(upstream) @ np.abs(claims) + largest(expected))
        wrong = apart(upstream @ claims, expected, give)  # as of a rule of a rule that is wrong
        return None if wrong.size else (claims, wobbles)

    def _moving(self, run: Callable[[Array], Array], *known: Array) -> tuple[Array, Array]:
        """What is claimed at the point, and how far rounding moves it: in float64 nothing.

        What rounding the inputs alone can do to a gradient is nobody's mistake: near a singular
        matrix it is much.
        """
        x, eps = self.f.x, self.dtype.eps
        here = known[0] if known else run(x)
        return here, wobble(run, here, x, eps) if eps > dtypes.FLOAT64.eps else np.zeros_like(here)

    def _locate(self, u: Array, direction: Array) -> bool:
        """Note the entry where upstream u and this direction disagree: halve, keep the worse."""
        claim, x = self.f.claim, self.f.x

        def gap(upstream: Array, heading: Array) -> float:
            truth = self._slope(heading)
            claimed = float(claim(upstream, x) @ heading)
            value = float(upstream @ np.nan_to_num(truth.value))
            low, high = float(upstream @ truth.low), float(upstream @ truth.high)
            return max(abs(claimed - value) - abs(high - low), 0.0)

        j = _halved(np.flatnonzero(direction), lambda part: gap(u, _only(direction, part)))
        heading = _only(direction, j)
        i = _halved(np.flatnonzero(u), lambda part: gap(_only(u, part), heading))
        truth, by = self._slope(heading), float(heading[j])
        low, high = sorted((float(truth.low[i] / by), float(truth.high[i] / by)))
        yours = float(claim(np.eye(1, u.size, i)[0], x)[j])
        error, beside = float(truth.error[i] / abs(by)), largest(truth.value) / abs(by)
        mismatch = Mismatch(i, j, yours, low, high, error, beside)
        # Else roundings add up, and no entry by itself is off.
        off = mismatch.size > self.dtype.told * max(abs(low), abs(high)) + 5 * error
        if off:
            self.mismatches.append(mismatch)
        return off


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


def _only(vector: Array, entries: Array | int) -> Array:
    """A vector with all but some entries set to 0."""
    kept = np.zeros_like(vector)
    kept[entries] = vector[entries]
    return kept


def _halved(entries: Array, gap: Callable[[Array], float]) -> int:
    """The entry that is left when the half with the larger gap is kept, again and again."""
    while entries.size > 1:
        first, second = np.array_split(entries, 2)
        entries = first if gap(first) >= gap(second) else second
    return int(entries[0])


# --- vectors -------------------------------------------------------------------------------------


def timed(run: Callable[[], Result], quick: float) -> tuple[Result, float]:
    """What a run returns, and its seconds: the fewest of some, for a busy machine adds to them.

    Below `quick` nothing depends on how few they are.
    """
    seconds = np.inf
    for _ in range(3):
        start = time.monotonic()
        result = run()
        seconds = min(seconds, time.monotonic() - start)
        if seconds < quick:
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


def wobble(run: Callable[[Array], Array], here: Array, x: Array, eps: float) -> Array:
    """By how much a claim moves from what it is here, at x, when the last bits of x do."""
    random = np.random.default_rng(3)
    there = [run(x * (1 + 2 * eps * random.choice([-1.0, 1.0], x.size))) for _ in range(2)]
    return np.asarray(np.fmax(*(np.abs(each - here) for each in there)))
