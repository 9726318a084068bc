"""The gradient that f's rules claim, compared with finite differences of f.

The slope along a direction d is J · d, one number for each output. Up to `MANY` inputs, fewer if f
is slow, are moved one at a time, so every entry of the Jacobian J is seen. More inputs are moved in
blocks with random weights: each entry is part of one sum, and an error in it shows there. The
rules' claim for the same sum is found by pulling each output, upstream · J, or, if there are more
than twice as many outputs as directions, by pushing each direction: upstream · J is linear in
upstream, so its own derivative with respect to upstream is J (J. Townsend, "A new trick for
calculating Jacobian vector products", 2017).
An elementwise rule of 100,000 numbers is judged in 16 directions. If a sum disagrees, halving it
finds the wrong entry in about log2(n) more slopes.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from ..graph import Array, dtypes
from ..graph.dtypes import Dtype
from .differences import VAGUE, Slope, slope
from .flattened import Flattened, largest

MANY = 128  # up to so many inputs are moved one at a time, and so many outputs pulled
BLOCKS = 16  # blocks if there are more: in float64, sums of a thousand hide nothing that matters
FEWEST = 4  # blocks, however slow f is, so that one error does not vanish among all derivatives
SECONDS = 3.0  # for all differences, and again for all pulls, as estimated from the first run
SLOW = 0.1  # seconds of a run from which its exact time does not matter
LADDER = 20  # runs of f that one slope usually takes
MOST_CELLS = 4_000_000  # numbers that all blocks hold at once: some hundred megabytes
SMALL = 5_000  # up to so many entries the whole Jacobian is kept, for the hints
SMALL_BESIDE = 1e-5  # of the largest slope for an input: below it digits need not all be right
NOTHING = 0.01  # of a claim, or of the slopes beside it: a slope below it may be called 0
MOST_LOCATED = 4  # wrong sums to search until one shows its wrong entry: log2(n) slopes each

Result = TypeVar("Result")


@dataclass(frozen=True)
class Mismatch:
    """One entry of the Jacobian for which the rules claim a wrong number."""

    output: int
    input: int
    yours: float
    low: float  # the true slope; at a kink, the lower of the two sides
    high: float  # the true slope; at a kink, the higher of the two sides
    error: float
    beside: float  # the largest slope of any output for this input

    @property
    def size(self) -> float:
        """How far off the claim is."""
        return max(self.low - self.yours, self.yours - self.high)

    @property
    def reach(self) -> float:
        """The size of the true slope; at a kink, that of the steeper side."""
        return max(abs(self.low), abs(self.high))

    @property
    def flat(self) -> bool:
        """Whether the true slope is surely 0, compared with the claim or the slopes beside it."""
        most = min(10 * self.error, NOTHING * max(abs(self.yours), self.beside) - 10 * self.error)
        return self.reach == 0 or self.reach <= most

    @property
    def part(self) -> float:
        """`size` relative to the true slope, or to `SMALL_BESIDE` · `beside` if that is larger."""
        true = max(self.reach, SMALL_BESIDE * self.beside)
        return self.size / true if true else np.inf


class Comparison:
    """What the rules of a function claim at its point, compared with its slopes.

    Args:
        f: The function.
        dtype: The precision of f's values, and the error from which on a claim is reported.
        most: The most inputs that are moved, and outputs that are pulled, one at a time.
        shortest: The shortest step, relative to the size of each input.

    Attributes:
        mismatches: The entries with a wrong claim, the worst first. Of wrong sums, at most one
            where a gradient is claimed, and one where none is.
        bends: Where f has a kink or jumps: the output, the input (-1 if several are moved at once),
            and what f does there.
        judged: How many entries, or sums of them, were judged.
        unsure: How many were not judged, because the differences are too uncertain there.
        doubt: The largest relative error that a judged slope may have.
        summed: The number of entries in the longest sum.
        blind: An entry that is off by less than this fraction of the mean entry may go unseen.
        factors: For each leaf, by its first index, the one factor that turns the true slopes into
            the claims; 0 if there is none.
        claimed: The whole Jacobian as the rules claim it; empty if it is large or judged in sums.
        true: The same Jacobian from the slopes; 0 within their errors. Both are 0 where f jumps.
    """

    def __init__(self, f: Flattened, dtype: Dtype, most: int = MANY, shortest: float = 0.0) -> None:
        self.f, self.dtype, self.shortest = f, dtype, shortest
        self.mismatches: list[Mismatch] = []
        self.bends: list[tuple[int, int, str]] = []
        self.factors: dict[int, float] = {}
        self.claimed = self.true = np.zeros((0, f.x.size))
        self.judged, self.unsure, self.summed, self.blind, self.doubt = 0, 0, 1, 0.0, 0.0
        with np.errstate(all="ignore"):
            self.middle, seconds = timed(lambda: f.forward(f.x), SECONDS / LADDER / (f.x.size + 1))
            if f.x.size and self.middle.size:
                self._compare(seconds, most)
        self.mismatches.sort(key=lambda each: -each.size)

    def _compare(self, seconds: float, most: int) -> None:
        """Compare claims with slopes, both times the weights: single entries, or sums of them."""
        n, m = self.f.x.size, self.middle.size
        # Zeros have blocks of their own: the kink of a ReLU at 0 must not excuse errors elsewhere.
        parts = np.split(np.arange(n), np.cumsum(self.f.sizes))
        parts = [part[kind[part]] for part in parts for kind in (self.f.x != 0, self.f.x == 0)]
        columns = _blocks(parts, affordable(LADDER * seconds, most), m)
        directions = columns * self.f.scale
        each = zip(*map(self._slope, directions), strict=True)
        slopes = Slope(*(np.stack(part, axis=1) for part in each))
        rows, claims, wobbles = self._claims(directions, most)
        alone = len(columns) == n
        vague = np.isinf(slopes.error) & ~slopes.jump  # at a pole and where a slope is infinite
        for bent, words in ((vague, VAGUE), (slopes.kink, "has a kink"), (slopes.jump, "jumps")):
            self.bends += [(i, j if alone else -1, words) for i, j in np.argwhere(bent).tolist()]
        if alone and rows is None:
            outside = self._outside(slopes, claims, wobbles, claims)
            together = self._together(slopes, claims, wobbles, columns)
            self._note(slopes, claims, outside or together)
            return
        self.summed = int(np.count_nonzero(columns, axis=1).max()) * -(-m // len(claims))
        sums = slopes if rows is None else slopes.summed(rows)
        # The size of the entries in each sum: with random signs, the mean square of the sums
        # estimates the sum of the squares of their entries.
        sizes = np.fmax(np.abs(claims), sums.reach)
        sizes = np.sqrt(np.mean(sizes**2, axis=1, keepdims=True))
        outside = self._outside(sums, claims, wobbles, sizes)
        together = self._together(sums, claims, wobbles, columns)
        errors = 5 if outside else 1
        for silent in (True, False):  # a leaf without a gradient must not hide the others' errors
            found = [at for at in outside or together if (not claims[:, at[1]].any()) is silent]
            for row, column in found[:MOST_LOCATED]:
                upstream = np.eye(1, m, row)[0] if rows is None else rows[row]
                if self._locate(upstream, directions[column], errors):
                    break

    def _outside(
        self, slopes: Slope, claims: Array, wobbles: Array, sizes: Array
    ) -> list[list[int]]:
        """Judge each claim; the indices of those off by more than errors explain, the worst first.

        Args:
            slopes: The true slopes.
            claims: The claims, of the same shape.
            wobbles: How far rounding moves the claims.
            sizes: The size of the entries that each claim is a sum of.
        """
        reach = slopes.reach
        terms = np.fmax(np.fmax(np.abs(claims), reach), np.abs(sizes))
        give = self.dtype.told * terms + 5 * slopes.error + 10 * wobbles
        if self.summed > 1 or self.dtype.coarse:
            parts = (give / terms)[np.isfinite(give / terms)]
            self.blind = np.sqrt(self.summed) * np.median(parts) if parts.size else np.inf
        # An error in the last bits of the largest slope for the same input is not the rule's fault.
        beside = np.max(np.where(np.isfinite(reach), reach, 0.0), axis=0)
        give = give + SMALL_BESIDE * self.dtype.told * beside
        known = np.isfinite(claims + give) & np.isfinite(slopes.low) & np.isfinite(slopes.high)
        gap = np.fmax(slopes.low - claims, claims - slopes.high) - give
        enough = np.fmax(0.3 * terms, self.dtype.wrong * np.fmax(beside, largest(self.middle)))
        enough = enough + self.dtype.eps  # the rest of it may be 0
        sure = give <= enough
        if self.dtype.eps > dtypes.FLOAT64.eps and not self.dtype.coarse:
            # Rounding of a large value can hide f's whole slope: then a claim agrees with anything.
            sure &= (give <= terms) | (claims == 0)
        judged = known & ((gap > 0) | sure)
        self.doubt = float(np.max((slopes.error / np.fmax(terms, enough))[judged], initial=0.0))
        self.judged = int(np.sum(judged))
        self.unsure = claims.size - self.judged
        outside = np.argwhere(known & (gap > 0)).tolist()
        return sorted(outside, key=lambda at: -gap[*at])

    def _together(
        self, slopes: Slope, claims: Array, wobbles: Array, columns: Array
    ) -> list[list[int]]:
        """Judge the claims for each leaf together, and note the factor that they have in common.

        In 16 bits rounding may hide a factor in each claim by itself. But it moves some slopes up
        and others down, so together they show it.

        Args:
            slopes: The true slopes.
            claims: The claims, of the same shape.
            wobbles: How far rounding moves the claims.
            columns: The weights of the inputs, one row for each column of the claims.

        Returns:
            The indices of the claims that are off in such a leaf, the worst first.
        """
        found: dict[tuple[int, int], float] = {}
        for leaf in self.f.leaves:
            which = np.flatnonzero(columns[:, leaf.span].any(axis=1))
            whole = slopes.value, slopes.error, slopes.high - slopes.low, claims, wobbles
            parts = [part[:, which] for part in whole]
            known = np.isfinite(sum(parts)) & (parts[2] <= parts[1])  # at a kink no slope is true
            value, error, bent, mine, moved = (np.where(known, part, 0.0) for part in parts)
            self.factors[leaf.span.start] = _factor(mine, value, error)
            if not self.dtype.coarse:
                continue
            off, size = mine - value, np.abs(value)
            give = self.dtype.wrong * size + error + bent + moved
            if abs(np.sum(value * off)) > np.sum(size * give):
                beyond = np.abs(off) - give
                found |= {(i, int(which[j])): beyond[i, j] for i, j in np.argwhere(beyond > 0)}
        return sorted(map(list, found), key=lambda at: -found[at[0], at[1]])

    def _note(self, slopes: Slope, claims: Array, outside: list[list[int]]) -> None:
        """Keep single entries: those with a wrong claim, and all entries of a small Jacobian."""
        for i, j in sorted(outside):
            column = Slope(*(part[:, j] for part in slopes))
            self.mismatches.append(self._mismatch(i, j, claims[i, j] / self.f.scale[j], column))
        if claims.size <= SMALL:
            exists = np.isfinite(slopes.value) & ~slopes.jump
            known = (np.abs(slopes.value) > 10 * slopes.error) | ~np.isfinite(slopes.error)
            self.claimed = np.where(exists, claims, 0.0) / self.f.scale
            self.true = np.where(exists & known, slopes.value, 0.0) / self.f.scale

    def _mismatch(self, i: int, j: int, yours: float, slopes: Slope) -> Mismatch:
        """The entry for output i and input j: what is claimed, and the slopes along that input."""
        by = self.f.scale[j]
        low, high, error = (float(p[i] / by) for p in (slopes.low, slopes.high, slopes.error))
        return Mismatch(i, j, float(yours), low, high, error, largest(slopes.reach) / by)

    def _slope(self, direction: Array, shortest: float = 0.0) -> Slope:
        """The slope along a direction that is already scaled."""
        f, eps, shortest = self.f, self.dtype.eps, shortest or self.shortest
        return slope(lambda t: f.forward(f.x + t * direction), self.middle, eps, shortest)

    def confirmed(self, wrong: Sequence[Mismatch], part: float, shortest: float) -> list[Mismatch]:
        """The claims that are off by more than this part of a slope over longer steps, too."""
        slopes = {j: self._slope(only(self.f.scale, j), shortest) for j in {e.input for e in wrong}}
        again = [self._mismatch(e.output, e.input, e.yours, slopes[e.input]) for e in wrong]
        return [each for each in again if each.size > part * each.reach + 10 * each.error]

    def row(self, output: int, x: Array | None = None) -> Array:
        """The gradient of one output as the rules claim it, at the point or at any other."""
        return self.f.claim(np.eye(1, self.middle.size, output)[0], self.f.x if x is None else x)

    def _claims(self, directions: Array, most: int) -> tuple[Array | None, Array, Array]:
        """What the rules claim for each direction.

        Returns:
            The weights of the sums of outputs, or None if each output is judged by itself; the
            claims, one row for each sum or output and one column for each direction; and how far
            rounding moves each claim.
        """
        f, size = self.f, self.middle.size
        if 2 * len(directions) < size:  # a push costs two pulls
            with suppress(Exception):  # a rule uses an op that has no gradient, or a wrong one
                return None, *self._pushed(directions)
        if (most := min(most, size)) > FEWEST:  # else each is pulled, however slow f is
            seconds = timed(lambda: self.row(0), SECONDS / 4 / size)[1]
            most = affordable(4 * seconds, most)
        rows = _blocks([np.arange(size)], most, f.x.size)
        found = [self._moving(partial(f.claim, row)) for row in rows]
        claims = np.stack([_along(directions, claim) for claim, _ in found])
        wobbles = np.stack([_along(np.abs(directions), moved) for _, moved in found])
        return None if len(rows) == size else rows, claims, wobbles

    def _pushed(self, directions: Array) -> tuple[Array, Array]:
        """The claims found by pushing, and how far rounding moves them.

        Raises:
            ValueError: The rules have a wrong derivative with respect to upstream.
            Exception: They have none.
        """
        found = [self._moving(partial(self.f.push, each)) for each in directions]
        claims, wobbles = np.stack(found, axis=-1)
        upstream = np.random.default_rng(7).uniform(-1.5, 1.5, self.middle.size)
        expected = directions @ self.f.claim(upstream, self.f.x)
        give = self.dtype.told * (np.abs(upstream) @ np.abs(claims) + largest(expected))
        if apart(upstream @ claims, expected, give).size:
            raise ValueError("a push and a pull differ")
        return claims, wobbles

    def _moving(self, run: Callable[[Array], Array]) -> tuple[Array, Array]:
        """What the rules claim at the point, and how far rounding moves it: by 0 in float64.

        A change that rounding the inputs alone can cause is not the rule's fault: near a singular
        matrix it is large.
        """
        x, eps = self.f.x, self.dtype.eps
        here = run(x)
        return here, wobble(run, here, x, eps) if eps > dtypes.FLOAT64.eps else np.zeros_like(here)

    def _locate(self, u: Array, direction: Array, errors: float) -> bool:
        """Find by halving the entry where upstream u and this direction disagree; note it if wrong.

        Args:
            u: The upstream.
            direction: The direction.
            errors: How many errors of the slope the entry must be off by.

        Returns:
            Whether that entry is wrong by itself.
        """

        def gap(upstream: Array, heading: Array) -> float:
            truth = self._slope(heading)
            claimed = float(_along(heading[None], self.f.claim(upstream, self.f.x))[0])
            value, bent = upstream @ np.nan_to_num(truth.value), upstream @ (truth.high - truth.low)
            return max(float(abs(claimed - value) - abs(bent)), 0.0)

        j = _halved(np.flatnonzero(direction), lambda part: gap(u, only(direction, part)))
        heading = only(direction, j)
        i = _halved(np.flatnonzero(u), lambda part: gap(only(u, part), heading))
        found = self._mismatch(i, j, self.row(i)[j], self._slope(only(self.f.scale, j)))
        # If the entry is not off, it is rounding errors that add up in the sum.
        off = found.size > self.dtype.told * found.reach + errors * found.error
        if off:
            self.mismatches.append(found)
        return off


def _factor(mine: Array, right: Array, error: Array) -> float:
    """The one factor that turns all right numbers into mine, within errors; 0 if there is none."""
    size = np.sum(right * right)
    if np.sum(np.abs(right) * error) >= 0.1 * size:
        return 0.0
    factor = float(np.sum(mine * right) / size)
    give = abs(factor) * (1e-2 * np.abs(right) + error) + 1e-6 * np.max(np.abs(right))
    fits = bool(np.all(np.abs(mine - factor * right) <= give))
    return factor if fits and abs(factor) > 1e-3 else 0.0


def affordable(seconds: float, most: int) -> int:
    """How many runs of `seconds` each fit into `SECONDS`: from `FEWEST` up to `most`."""
    return int(np.clip(SECONDS / (seconds + 1e-9), FEWEST, most))


def _blocks(parts: Sequence[Array], most: int, other: int) -> Array:
    """Weights, one row for each block: single entries, or sums of them with random weights.

    Args:
        parts: The indices of all entries, in parts of which no two share a block.
        most: The most blocks; up to so many entries, each is a block by itself.
        other: How many numbers are computed for each block.
    """
    parts = [part for part in parts if part.size]
    total = sum(part.size for part in parts)
    count = int(np.clip(MOST_CELLS // max(total, other), 1, min(most, BLOCKS)))
    shares = [-(-count * part.size // total) for part in parts]
    if total <= most or sum(shares) == total:  # as of many small parts
        return np.eye(total)
    random = np.random.default_rng(8)
    blocks = []
    for part, share in zip(parts, shares, strict=True):
        for entries in np.array_split(random.permutation(part), share):
            blocks.append(np.zeros(total))
            weights = random.choice([-1.0, 1.0], entries.size)
            # Weights of several sizes, or two entries of a block could be swapped unseen; in 64ths,
            # so that x + h stays exact.
            weights *= random.integers(32, 65, entries.size) / 64
            blocks[-1][entries] = weights
    return np.stack(blocks)


def _along(directions: Array, claim: Array) -> Array:
    """What a claim says for each direction: NaN only for those that touch an entry that is NaN."""
    lost = ~np.isfinite(claim)
    found = np.asarray(directions @ np.where(lost, 0.0, claim))
    found[directions[:, lost].any(axis=1)] = np.nan
    return found


def only(vector: Array, entries: Array | int | slice) -> Array:
    """A vector with all but some entries set to 0."""
    kept = np.zeros_like(vector)
    kept[entries] = vector[entries]
    return kept


def _halved(entries: Array, gap: Callable[[Array], float]) -> int:
    """The entry that is left after the half with the larger gap is kept, again and again."""
    while entries.size > 1:
        first, second = np.array_split(entries, 2)
        entries = first if gap(first) >= gap(second) else second
    return int(entries[0])


# --- vectors -------------------------------------------------------------------------------------


def timed(run: Callable[[], Result], quick: float) -> tuple[Result, float]:
    """What a run returns, and its seconds.

    Unless it is below `quick` seconds or slow, so that the exact time does not matter, they are
    those of the fastest of three runs: a busy machine adds some.
    """
    start = timeit.default_timer()
    found = run()
    seconds = timeit.default_timer() - start
    if quick < seconds < SLOW:
        seconds = min(seconds, *timeit.repeat(run, number=1, repeat=2))
    return found, seconds


def apart(one: Array, other: Array, give: Array | float) -> Array:
    """The indices of the finite numbers of two vectors that differ by more than `give`."""
    known = np.isfinite(one) & np.isfinite(other)
    return np.flatnonzero(known & (np.abs(one - other) > give))


def wobble(run: Callable[[Array], Array], here: Array, x: Array, eps: float) -> Array:
    """How far a claim moves from `here`, its value at x, when the last bits of x change."""
    random, moved = np.random.default_rng(3), []
    for _ in range(2):
        with suppress(Exception):  # outside f's domain
            there = run(x * (1 + 2 * eps * random.choice([-1.0, 1.0], x.size)))
            moved.append(np.abs(there - here))
    return np.asarray(np.fmax.reduce(moved) if moved else np.zeros_like(here))
