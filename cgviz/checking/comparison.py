"""What f's rules claim against finite differences of f: entry by entry wherever that is possible.

A difference along a direction is a sum of columns of the Jacobian, a pull a sum of rows. Where
columns that share no row are summed, each entry is seen by itself, and likewise with rows: that is
so of a small Jacobian, one by one, and of a large sparse one, in groups (see `sparsity`). The
columns of a large dense one are summed in random blocks, rows with random weights. Where a sum
disagrees, halves of it find the entry in about log2(n) more tries. So every entry is looked at,
and the cost does not grow faster than f's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from ..graph import Array
from .differences import Slope, join, slope
from .sparsity import Group, each_alone, groups

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
    """The outcome: what disagrees, what could not be judged, and where f has kinks."""

    mismatches: list[Mismatch] = field(default_factory=list)
    kinks: list[tuple[int, int]] = field(default_factory=list)  # output and input, or -1
    jumps: list[tuple[int, int]] = field(default_factory=list)
    judged: int = 0  # entries
    sums: int = 0  # sums of entries, where these could not be told apart
    unjudged: int = 0
    summed: int = 1  # entries in the longest sum
    blind: float = 0.0  # one entry that is off by this part of the mean one goes unseen
    sparse: bool = False  # whether entries were left out that are 0
    claimed: Array | None = None  # the whole Jacobian, where it is small
    true: Array | None = None


def compare(
    problem: Map, *, summed: bool = False, columns: int = MOST_COLUMNS, rows: int = MOST_ROWS
) -> Comparison:
    """Compare what `problem.pull` claims with differences of `problem.forward`.

    Args:
        problem: The map, at its point.
        summed: Compare the gradient of the sum of the outputs only: all that a rule has which is
            not linear in its upstream.
        columns: The most inputs, or groups of them, that are looked at by themselves.
        rows: The most outputs, or groups of them, that are pulled by themselves.

    Returns:
        A `Comparison`, with the worst mismatch first.
    """
    if summed:
        problem = _sum_of(problem)
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
        problem = replace(problem, pull=_remembered(problem.pull, MOST_CELLS // n))
        if n * m <= SMALL:
            found.claimed, found.true = np.zeros((2, m, n))
        start = 0
        for shape in problem.inputs or [(n,)]:
            part = np.arange(start, start + int(np.prod(shape, dtype=np.int64)))
            start += part.size
            share = columns if n <= columns else max(columns // len(problem.inputs or [0]), 1)
            if part.size:
                truth = _truth(problem, middle, part, shape, share)
                _compare(problem, middle, part, truth, rows, found)
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


def _affordable(seconds: float, most: int, fewest: int = FEWEST) -> int:
    """How many runs of so many seconds each there is time for."""
    return int(np.clip(SECONDS / (seconds + 1e-9), min(fewest, most), most))


def _remembered(pull: Callable[[Array], Array], most: int) -> Callable[[Array], Array]:
    """The pull, which answers at once for an upstream that it knows: each part of x asks again."""
    known: dict[bytes, Array] = {}

    def remembered(upstream: Array) -> Array:
        key = upstream.tobytes()
        if key not in known:
            if len(known) >= most:
                known.clear()
            known[key] = pull(upstream)
        return known[key]

    return remembered


def _sum_of(problem: Map) -> Map:
    ones = np.ones(problem.forward(problem.x).size)
    pull, wobble = problem.pull, problem.wobble
    return replace(
        problem,
        forward=lambda x: np.array([problem.forward(x).sum()]),
        pull=lambda u: pull(ones * u[0]),
        wobble=None if wobble is None else lambda u: wobble(ones * u[0]),
        outputs=[()],
    )


# --- the two Jacobians -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claims:
    """The entries of some columns of the claimed Jacobian."""

    row: Array
    column: Array
    value: Array
    wobble: Array


@dataclass(frozen=True)
class _Truth:
    """Differences of f: each for a row and a key, which is a column or a block of columns."""

    exact: bool  # a key is a column
    key_of: Array  # of each column, or -1 for those of other parts of x
    step: Array  # by which each column is multiplied; 0 for those of other parts
    row: Array
    key: Array
    slopes: Slope

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return int(self.key_of.max()) + 1


def _claims(problem: Map, size: int, part: Array, most: int) -> _Claims | None:
    """The claimed columns of a part, where their rows can be told apart by a few pulls."""
    random = np.random.default_rng(7)

    def touched(mask: Array) -> Array:
        upstream = np.where(mask, random.uniform(0.5, 1.5, size), 0.0)
        return problem.pull(upstream)[part] != 0

    rows: list[Group] | None
    if size <= most:
        rows = each_alone(size, part.size)
    elif size > most * part.size or not problem.outputs:
        rows = None  # more entries in a column than pulls
    else:
        rows = groups(problem.outputs, touched, most)
    if rows is None or len(rows) * part.size > MOST_CELLS:
        return None
    found = []
    for group in rows:
        upstream = np.zeros(size)
        upstream[group.columns] = 1.0
        pulled = problem.pull(upstream)[part]
        wobble = np.zeros(part.size) if problem.wobble is None else problem.wobble(upstream)[part]
        known = group.touching >= 0
        if pulled[~known].any():
            return None  # what was seen before does not hold for this upstream
        found.append((group.touching[known], part[known], pulled[known], wobble[known]))
    return _Claims(*map(np.concatenate, zip(*found, strict=True)))


def _truth(problem: Map, middle: Array, part: Array, shape: Sequence[int], most: int) -> _Truth:
    """Differences of f: of each column that can be told apart, or of random blocks of columns."""
    n, m = problem.x.size, middle.size
    random = np.random.default_rng(8)
    moves = problem.scale * random.uniform(*PROBE, n) * random.choice([-1.0, 1.0], n)

    def touched(mask: Array) -> Array:
        x = problem.x.copy()
        x[part[mask]] += moves[part[mask]]
        moved = problem.forward(x)
        return (moved != middle) & ~(np.isnan(moved) & np.isnan(middle))

    columns: list[Group] | None
    if part.size <= most:
        columns = each_alone(part.size, m)
    elif part.size > most * m or not problem.inputs:
        columns = None  # more entries in a row than differences
    else:
        columns = groups([shape], touched, most)
    key_of, step = np.full(n, -1), np.zeros(n)
    if columns is not None and len(columns) * m <= MOST_CELLS:
        key_of[part], step[part] = np.arange(part.size), problem.scale[part]
        found = [_along(problem, middle, _only(step, part[g.columns])) for g in columns]
        known = [group.touching >= 0 for group in columns]
        if not any(truth.value[~k].any() for truth, k in zip(found, known, strict=True)):
            row = np.concatenate([np.flatnonzero(k) for k in known])
            key = np.concatenate([g.touching[k] for g, k in zip(columns, known, strict=True)])
            slopes = [truth.at(k) for truth, k in zip(found, known, strict=True)]
            return _Truth(True, key_of, step, row, key, join(slopes))
    count = min(most, part.size)
    key_of[part] = random.permutation(part.size) * count // part.size
    step[part] = problem.scale[part] * random.choice([-1.0, 1.0], part.size)
    found = [_along(problem, middle, np.where(key_of == b, step, 0.0)) for b in range(count)]
    row, key = np.tile(np.arange(m), count), np.repeat(np.arange(count), m)
    return _Truth(False, key_of, step, row, key, join(found))


def _along(problem: Map, middle: Array, direction: Array) -> Slope:
    """The slope of the map along a direction that is already scaled."""
    return slope(lambda t: problem.forward(problem.x + t * direction), middle, problem.eps)


# --- comparing them ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cells:
    """What is compared: entries of the two Jacobians, or sums of entries, all times their step."""

    claimed: Array
    low: Array
    high: Array
    error: Array
    wobble: Array
    terms: Array  # the sum of the sizes of the entries

    def give(self, problem: Map) -> Array:
        """By how much a claim may differ and be right."""
        return np.asarray(problem.told * self.terms + 5 * self.error + 10 * self.wobble)

    def judge(self, problem: Map, beside: Array, natural: float) -> tuple[Array, Array]:
        """Which are claimed wrong, and of which nothing can be said.

        `beside` is the largest entry beside each: its last bits are nobody's mistake; `natural`
        is the size of f's values.
        """
        give = self.give(problem) + 1e-5 * problem.wrong * beside
        judged = np.isfinite(self.claimed + give) & np.isfinite(self.low) & np.isfinite(self.high)
        inside = (self.low - give <= self.claimed) & (self.claimed <= self.high + give)
        enough = np.fmax(
            0.3 * np.fmax(self.terms, np.abs(self.claimed)),
            problem.wrong * np.fmax(beside, natural),
        )
        return judged & ~inside, ~judged | (inside & (give > enough))

    def worst(self, outside: Array) -> int:
        """The one that is off the most."""
        gap = np.fmax(self.low - self.claimed, self.claimed - self.high)
        return int(np.argmax(np.where(outside, gap, -np.inf)))

    def blind(self, problem: Map, count: int) -> float:
        """By what part of the mean entry one of them may be off without being seen."""
        parts = count * self.give(problem) / self.terms
        return float(np.median(parts[np.isfinite(parts)])) if np.isfinite(parts).any() else np.inf


def _compare(
    problem: Map, middle: Array, part: Array, truth: _Truth, rows: int, found: Comparison
) -> None:
    """Compare the columns of one part of x."""
    for pairs, which in ((found.kinks, truth.slopes.kink), (found.jumps, truth.slopes.jump)):
        inputs = part[truth.key] if truth.exact else np.full(truth.key.size, -1)
        pairs += zip(truth.row[which].tolist(), inputs[which].tolist(), strict=True)
    claims = _claims(problem, middle.size, part, rows)
    if claims is None:
        _compare_sums(problem, middle, truth, rows, found)
        return
    keys = truth.keys
    claimed_keys = truth.key_of[claims.column]
    numbers, which = np.unique(
        np.concatenate([truth.row * keys + truth.key, claims.row * keys + claimed_keys]),
        return_inverse=True,
    )
    at, of = which[: truth.row.size], which[truth.row.size :]
    row, key = np.divmod(numbers, keys)
    low, high = np.zeros((2, row.size))
    low[at], high[at] = truth.slopes.low, truth.slopes.high
    # What did not move when its inputs did is flat, or its last bit is too large to tell.
    error = problem.eps * np.abs(middle[row]) / PROBE[0]
    error[at] = truth.slopes.error
    reach = np.fmax(np.abs(low), np.abs(high))
    weight = truth.step[claims.column]
    sizes, wobble = (
        np.bincount(of, np.abs(each * weight), row.size) for each in (claims.value, claims.wobble)
    )
    claimed = np.bincount(of, claims.value * weight, row.size)
    terms = reach if truth.exact else np.fmax(sizes, reach)
    cells = _Cells(claimed, low, high, error, wobble, terms)
    beside = np.zeros(keys)
    np.fmax.at(beside, key, np.where(np.isfinite(reach), reach, 0.0))
    outside, vague = cells.judge(problem, beside[key], _largest(middle))
    found.unjudged += int(vague.sum())
    if not truth.exact:
        found.claimed = found.true = None
        found.sums += row.size - int(vague.sum())
        found.summed = max(found.summed, -(-part.size // keys))
        found.blind = max(found.blind, cells.blind(problem, -(-part.size // keys)))
        if outside.any():
            worst = cells.worst(outside)
            upstream = np.eye(1, middle.size, row[worst])[0]
            direction = np.where(truth.key_of == key[worst], truth.step, 0.0)
            _locate(problem, middle, upstream, direction, found)
        return
    found.judged += row.size - int(vague.sum())
    found.sparse |= row.size < part.size * middle.size
    column = part[key]
    size = truth.step[column]
    for i in np.flatnonzero(outside):
        yours, least, most, off = (float(e[i] / size[i]) for e in (claimed, low, high, error))
        entry = int(row[i]), int(column[i])
        found.mismatches.append(Mismatch(*entry, yours, least, most, off, problem.wrong))
    if found.claimed is not None and found.true is not None:
        found.claimed[row, column] = claimed / size
        found.true[row[at], column[at]] = truth.slopes.value / size[at]


def _compare_sums(problem: Map, middle: Array, truth: _Truth, rows: int, found: Comparison) -> None:
    """Compare sums over blocks of outputs, with random signs, of each column or block."""
    found.claimed = found.true = None
    random = np.random.default_rng(7)
    m, keys = middle.size, truth.keys
    own = truth.key_of >= 0
    blocks = min(rows, max(MOST_CELLS // keys, 1), m)
    block_of = random.permutation(m) * blocks // m
    signs = random.choice([-1.0, 1.0], m)
    order = np.argsort(block_of[truth.row], kind="stable")
    ends = np.searchsorted(block_of[truth.row][order], np.arange(1, blocks))
    count = -(-m // blocks) * (1 if truth.exact else -(-int(own.sum()) // keys))
    found.summed = max(found.summed, count)
    for block, cells_of in enumerate(np.split(order, ends)):
        u = np.where(block_of == block, signs, 0.0)
        pulled = problem.pull(u)
        moved = np.zeros(own.size) if problem.wobble is None else problem.wobble(u)
        slopes, key, weight = truth.slopes.at(cells_of), truth.key[cells_of], u[truth.row[cells_of]]
        bounds = np.sort([weight * slopes.low, weight * slopes.high], axis=0)
        reach = np.fmax(np.abs(slopes.low), np.abs(slopes.high))
        cells = _Cells(
            np.bincount(truth.key_of[own], (pulled * truth.step)[own], keys),
            np.bincount(key, bounds[0], keys),
            np.bincount(key, bounds[1], keys),
            np.bincount(key, slopes.error, keys),
            np.bincount(truth.key_of[own], np.abs(moved * truth.step)[own], keys),
            np.bincount(key, reach, keys),
        )
        outside, vague = cells.judge(problem, np.zeros(keys), _largest(middle))
        found.unjudged += int(vague.sum())
        found.sums += keys - int(vague.sum())
        found.blind = max(found.blind, cells.blind(problem, count))
        if outside.any() and len(found.mismatches) < MOST_LOCATED:
            direction = np.where(truth.key_of == cells.worst(outside), truth.step, 0.0)
            _locate(problem, middle, u, direction, found)


MOST_LOCATED = 1  # entries that are searched for: each takes log2(n) differences


def _largest(vector: Array) -> float:
    return float(np.max(np.abs(vector[np.isfinite(vector)]), initial=0.0))


def _locate(problem: Map, middle: Array, u: Array, direction: Array, found: Comparison) -> None:
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
    size = heading[j]
    low, high = sorted((float(truth.low[i] / size), float(truth.high[i] / size)))
    yours = float(problem.pull(np.eye(1, u.size, i)[0])[j])
    mismatch = Mismatch(i, j, yours, low, high, float(truth.error[i] / abs(size)), problem.wrong)
    if mismatch.size > problem.told * max(abs(low), abs(high)) + 5 * mismatch.error:
        found.mismatches.append(mismatch)
    else:  # roundings that add up: no entry by itself is off
        found.unjudged += 1


def _halve(entries: Array, gap: Callable[[Array], float]) -> Array:
    while entries.size > 1:
        first, second = np.array_split(entries, 2)
        entries = first if gap(first) >= gap(second) else second
    return entries


def _only(vector: Array, entries: Array) -> Array:
    kept = np.zeros_like(vector)
    kept[entries] = vector[entries]
    return kept
