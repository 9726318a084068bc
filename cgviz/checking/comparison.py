"""What f's rules claim against finite differences of f: entry by entry wherever that is possible.

A difference along a direction is a sum of columns of the Jacobian, a pull a sum of rows. Where
columns that share no row are summed, each entry is seen by itself, and likewise with rows: that is
so of a small Jacobian, one by one, and of a large sparse one, in groups (`differences.groups`).
The columns of a large dense one are summed in random blocks, and so are its rows, with random
signs. Where a sum disagrees, halves of it find the entry in about log2(n) more tries. So every
entry is looked at, and the cost does not grow faster than f's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from ..graph import Array
from .differences import Group, Slope, each_alone, groups, slope

MOST_COLUMNS = 128  # inputs, or groups of them, that are each moved by themselves
MOST_ROWS = 512  # outputs, or groups of them, that are each pulled by themselves: each one run
FEWEST = 4  # however slow f is: so that one error does not vanish among all derivatives
SECONDS = 3.0  # that differences may take, and pulls, by the time that the first one takes
FEW = 40  # inputs that are looked at one by one also where that takes longer, for the hints
SLOW = 0.1  # seconds of a run from which that would take a minute
QUICK = 0.003  # seconds of a run that need not be measured again: everything is affordable
TRIES = 3
LADDER = 20  # runs that a difference takes, as a rule
MOST_CELLS = 4_000_000  # entries that are held at once: some hundred megabytes
SMALL = 5_000  # entries of a Jacobian that is kept whole, for the hints
MOST_LOCATED = 4  # sums whose wrong entry is searched for, until one is found: log2(n) runs each
PROBE = (2.0**-7, 2.0**-6)  # by how much entries are moved to see what they touch

Result = TypeVar("Result")


@dataclass(frozen=True)
class Map:
    """Something from R^n to R^m that can be evaluated, and whose derivative is claimed."""

    x: Array
    scale: Array  # the size of each entry of x: steps are fractions of it
    forward: Callable[[Array], Array]
    pull: Callable[[Array], Array]  # upstream of size m -> claimed gradient of size n
    eps: float  # the rounding error of forward's values
    told: float  # the relative error of a claim that is told
    wrong: float  # and the one from which the claim is wrong, and not slightly off
    wobble: Callable[[Array], Array] | None = None  # upstream -> by how much rounding moves it
    inputs: Sequence[Sequence[int]] = ()  # shapes of the tensors that x was made of
    outputs: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Mismatch:
    """One entry of the Jacobian that is claimed wrong."""

    output: int
    input: int
    yours: float
    low: float  # the true slope; at a kink the two sides
    high: float
    error: float
    wrong: float  # the relative error from which it is not slight

    @property
    def size(self) -> float:
        """How far off the claim is."""
        return max(self.low - self.yours, self.yours - self.high)

    @property
    def slight(self) -> bool:
        """Whether only the last digits are wrong."""
        return self.size <= self.wrong * max(abs(self.low), abs(self.high))


@dataclass
class Comparison:
    """The outcome: what disagrees, how much was judged, and where f has kinks."""

    mismatches: list[Mismatch] = field(default_factory=list)
    kinks: list[tuple[int, int]] = field(default_factory=list)  # output and input, or -1
    jumps: list[tuple[int, int]] = field(default_factory=list)
    judged: int = 0  # entries
    sums: int = 0  # sums of entries, where these could not be told apart
    summed: int = 1  # entries in the longest sum
    blind: float = 0.0  # one entry that is off by this part of the mean one goes unseen
    sparse: bool = False  # whether entries were left out that are 0
    claimed: Array | None = None  # the whole Jacobian, where it is small
    true: Array | None = None


def compare(problem: Map, *, columns: int = MOST_COLUMNS, rows: int = MOST_ROWS) -> Comparison:
    """Compare what `problem.pull` claims with differences of `problem.forward`.

    Args:
        problem: The map, at its point.
        columns: The most inputs, or groups of them, that are looked at by themselves.
        rows: The most outputs, or groups of them, that are pulled by themselves.

    Returns:
        A `Comparison`, with the worst mismatch first.
    """
    found = Comparison()
    with np.errstate(all="ignore"):
        middle, seconds = timed(lambda: problem.forward(problem.x))
        n, m = problem.x.size, middle.size
        if not n or not m:
            return found
        _, pull_seconds = timed(lambda: problem.pull(np.ones(m)))
        few = n if n <= FEW and seconds < SLOW else FEWEST
        columns = _affordable(LADDER * seconds, columns, few)
        rows = _affordable(pull_seconds * (1 if problem.wobble is None else 4), rows)
        # Each part of x asks for the same rows again.
        pull = problem.pull
        known = lru_cache(MOST_CELLS // (n + m))(lambda upstream: pull(np.frombuffer(upstream)))
        problem = replace(problem, pull=lambda upstream: known(upstream.tobytes()))
        if n * m <= SMALL:
            found.claimed, found.true = np.zeros((2, m, n))
        shapes = problem.inputs or [(n,)]
        ends = np.cumsum([np.prod(shape, dtype=np.int64) for shape in shapes])
        share = columns if n <= columns else max(columns // len(shapes), 1)
        for part, shape in zip(np.split(np.arange(n), ends[:-1]), shapes, strict=True):
            if part.size:
                truth = _truth(problem, middle, part, shape, share)
                claims = _claims(problem, m, part, truth.lumps, rows)
                _compare(problem, middle, truth, claims, found)
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


def _affordable(seconds: float, most: int, fewest: int = FEWEST) -> int:
    """How many runs of so many seconds each there is time for."""
    return int(np.clip(SECONDS / (seconds + 1e-9), min(fewest, most), most))


# --- the two Jacobians -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lumps:
    """How the rows, or the columns, of a Jacobian are summed: each into a lump, with a weight."""

    exact: bool  # each is a lump of its own
    of: Array  # the lump of each, or -1 for columns of other parts of x
    weight: Array  # 0 for those

    @property
    def count(self) -> int:
        """How many lumps there are."""
        return int(self.of.max()) + 1

    @property
    def length(self) -> int:
        """How many rows, or columns, are in a lump at most."""
        return -(-int(np.count_nonzero(self.of >= 0)) // self.count)

    def only(self, lump: int) -> Array:
        """The weights in one lump, and 0 elsewhere."""
        return np.where(self.of == lump, self.weight, 0.0)


@dataclass(frozen=True)
class _Side:
    """What was seen of a Jacobian: its columns by differences, or its rows by pulls."""

    lumps: _Lumps  # of that axis
    lump: Array  # for each number that was seen
    other: Array  # its index, or lump, along the other axis
    numbers: Array  # one row for each kind of number


def _look(
    weights: Array,
    labels: Array,
    shapes: Sequence[Sequence[int]],
    touched: Callable[[Array], Array],
    run: Callable[[Array], Array],
    most: int,
    fold: Callable[[Array], Array] = lambda numbers: numbers,
) -> _Side:
    """Look at each line along an axis that can be told apart, or at random blocks of lines.

    Args:
        weights: By which the lines are multiplied; 0 for those that are left out.
        labels: What the other axis is numbered by.
        shapes: Of the tensors that the lines are entries of; without any there are no groups.
        touched: As in `groups`.
        run: Takes weights, and returns numbers for each place along the other axis; those of the
            first kind are 0 where the lines have no entry.
        most: The most runs.
        fold: Sums the numbers of a block, where they would be too many.
    """
    own = np.flatnonzero(weights)
    lumps = np.full(weights.size, -1)
    if own.size <= most:
        lines: list[Group] | None = each_alone(own.size, labels.size)
    elif own.size > most * labels.size or not shapes:  # more entries in a line than runs
        lines = None
    else:
        lines = groups(shapes, touched, most)
    if lines is not None and len(lines) * labels.size <= MOST_CELLS:
        found = [run(_only(weights, own[group.columns])) for group in lines]
        known = [group.touching >= 0 for group in lines]
        pairs = list(zip(found, known, strict=True))
        if not any(numbers[0, ~k].any() for numbers, k in pairs):  # the zeros that were expected
            lumps[own] = np.arange(own.size)
            return _Side(
                _Lumps(True, lumps, weights),
                np.concatenate([g.touching[k] for g, k in zip(lines, known, strict=True)]),
                np.concatenate([labels[k] for k in known]),
                np.concatenate([numbers[:, k] for numbers, k in pairs], axis=1),
            )
    random = np.random.default_rng(8)
    width = fold(np.zeros((1, labels.size))).size
    count = min(most, max(MOST_CELLS // width, 1), own.size)
    lumps[own] = random.permutation(own.size) * count // own.size
    blocks = _Lumps(False, lumps, weights * random.choice([-1.0, 1.0], weights.size))
    found = [fold(run(blocks.only(block))) for block in range(count)]
    lump, other = np.indices((count, width)).reshape(2, -1)
    return _Side(blocks, lump, other, np.concatenate(found, axis=1))


def _truth(problem: Map, middle: Array, part: Array, shape: Sequence[int], most: int) -> _Side:
    """Differences of f with respect to one part of x."""
    moves = problem.scale * np.random.default_rng(8).uniform(*PROBE, problem.x.size)

    def touched(mask: Array) -> Array:
        moved = problem.forward(problem.x + _only(moves, part[mask]))
        return (moved != middle) & ~(np.isnan(moved) & np.isnan(middle))

    def run(direction: Array) -> Array:
        found = _along(problem, middle, direction)
        return np.stack([found.value, found.low, found.high, found.error, found.kink, found.jump])

    rows, shapes = np.arange(middle.size), problem.inputs and [shape]
    return _look(_only(problem.scale, part), rows, shapes, touched, run, most)


def _claims(problem: Map, size: int, part: Array, columns: _Lumps, most: int) -> _Side:
    """Claims about one part of x, times the weights of the columns."""
    random = np.random.default_rng(7)
    lump, weight = columns.of[part], columns.weight[part]

    def touched(mask: Array) -> Array:
        return problem.pull(np.where(mask, random.uniform(0.5, 1.5, size), 0.0))[part] != 0

    def run(upstream: Array) -> Array:
        wobble = 0.0 if problem.wobble is None else problem.wobble(upstream)[part]
        return np.stack([problem.pull(upstream)[part] * weight, wobble * np.abs(weight)])

    def fold(numbers: Array) -> Array:
        return np.stack([np.bincount(lump, each, columns.count) for each in numbers])

    return _look(np.ones(size), lump, problem.outputs, touched, run, most, fold)


def _along(problem: Map, middle: Array, direction: Array) -> Slope:
    """The slope of the map along a direction that is already scaled."""
    return slope(lambda t: problem.forward(problem.x + t * direction), middle, problem.eps)


def _only(vector: Array, entries: Array) -> Array:
    kept = np.zeros_like(vector)
    kept[entries] = vector[entries]
    return kept


# --- comparing them ----------------------------------------------------------------------------


def _compare(problem: Map, middle: Array, truth: _Side, claims: _Side, found: Comparison) -> None:
    """Compare the columns of one part of x: entries, or sums of them, all times their weights."""
    rows, columns = claims.lumps, truth.lumps
    exact = rows.exact and columns.exact
    inputs = np.flatnonzero(columns.of >= 0)  # in order, so that a lump of one is an entry of x
    value, least, most, error, *bent = truth.numbers
    for pairs, which in zip((found.kinks, found.jumps), bent, strict=True):
        at = np.flatnonzero(which)
        j = inputs[truth.lump[at]] if columns.exact else np.full(at.size, -1)
        pairs += zip(truth.other[at].tolist(), j.tolist(), strict=True)

    cells, which = np.unique(
        np.concatenate([rows.of[truth.other], claims.lump]) * columns.count
        + np.concatenate([truth.lump, claims.other]),
        return_inverse=True,
    )
    row, lump = np.divmod(cells, columns.count)
    of_truth, of_claims = np.split(which, [truth.lump.size])

    def total(where: Array, values: Array) -> Array:
        return np.bincount(where, values, cells.size)

    weight = rows.weight[truth.other]
    low, high = (total(of_truth, x) for x in np.sort([weight * least, weight * most], axis=0))
    claimed, wobble = (total(of_claims, numbers) for numbers in claims.numbers)
    # What did not move when its inputs did is flat, or its last bit is too large to tell.
    still = problem.eps * np.bincount(rows.of, np.abs(middle)) / PROBE[0]
    moved = np.bincount(of_truth, minlength=cells.size) > 0
    error = np.where(moved, total(of_truth, error), still[row])
    # The sizes of the entries in each sum, as far as they are known.
    terms = np.fmax(
        total(of_claims, np.abs(claims.numbers[0])),
        total(of_truth, np.fmax(np.abs(least), np.abs(most))),
    )
    give = problem.told * terms + 5 * error + 10 * wobble
    parts = give / terms
    # The last bits of the largest number beside it are nobody's mistake.
    beside = np.zeros(columns.count)
    reach = np.fmax(np.abs(low), np.abs(high))
    np.fmax.at(beside, lump, np.where(np.isfinite(reach), reach, 0.0))
    give = give + 1e-5 * problem.wrong * beside[lump]
    known = np.isfinite(claimed + give) & np.isfinite(low) & np.isfinite(high)
    gap = np.fmax(low - claimed, claimed - high) - give
    enough = np.fmax(0.3 * terms, problem.wrong * np.fmax(beside[lump], largest(middle)))
    outside = np.flatnonzero(known & (gap > 0))
    vague = ~known | ((gap <= 0) & (give > enough))
    judged = cells.size - int(vague.sum())
    if not exact:
        found.claimed = found.true = None
        found.sums += judged
        length = rows.length * columns.length
        found.summed = max(found.summed, length)
        parts = parts[np.isfinite(parts)]
        found.blind = max(found.blind, length * np.median(parts) if parts.size else np.inf)
        for worst in outside[np.argsort(-gap[outside])][:MOST_LOCATED]:
            if _locate(problem, middle, rows.only(row[worst]), columns.only(lump[worst]), found):
                break
        return
    found.judged += judged
    found.sparse |= cells.size < inputs.size * middle.size
    column = inputs[lump]
    step = columns.weight[column]
    yours, low, high, error = (each / step for each in (claimed, low, high, error))
    for i in outside:
        entry = int(row[i]), int(column[i])
        found.mismatches.append(
            Mismatch(*entry, yours[i], low[i], high[i], error[i], problem.wrong)
        )
    if found.claimed is not None and found.true is not None:
        found.claimed[row, column] = yours
        found.true[row, column] = total(of_truth, value) / step


def _locate(problem: Map, middle: Array, u: Array, direction: Array, found: Comparison) -> bool:
    """Note the entry where upstream u and this direction disagree: halve, keep the worse half."""

    def gap(upstream: Array, heading: Array) -> float:
        truth = _along(problem, middle, heading)
        claimed = float(problem.pull(upstream) @ heading)
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
    yours = float(problem.pull(np.eye(1, u.size, i)[0])[j])
    mismatch = Mismatch(i, j, yours, low, high, error, problem.wrong)
    if mismatch.size > problem.told * max(abs(low), abs(high)) + 5 * mismatch.error:
        found.mismatches.append(mismatch)
        return True
    return False  # roundings that add up: no entry by itself is off


def _halve(entries: Array, gap: Callable[[Array], float]) -> Array:
    while entries.size > 1:
        first, second = np.array_split(entries, 2)
        entries = first if gap(first) >= gap(second) else second
    return entries
