"""What f's rules claim against finite differences: entry by entry, or along random directions.

A small Jacobian is compared whole: a pull for each row, a ladder of differences for each column.
Of a large one, random directions v and upstreams u are tried: u · J · v is one number from a pull
and one from a difference, and a single wrong entry changes it. Where one disagrees, halves of u
and v find the entry in about log2(n) more tries. So the cost never grows faster than f's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..graph import Array
from .differences import Slope, slope

MOST_COLUMNS = 40
MOST_ROWS = 128
DIRECTIONS = 4
UPSTREAMS = 4
MOST_LOCATED = 1  # places that are searched for, each in some log2(n) ladders


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
    kinks: list[tuple[int, int]] = field(default_factory=list)
    jumps: list[tuple[int, int]] = field(default_factory=list)
    judged: int = 0
    unjudged: int = 0
    whole: bool = True
    claimed: Array | None = None
    true: Array | None = None
    worst: float = 0.0


def compare(problem: Map, *, summed: bool = False, columns: int = MOST_COLUMNS) -> Comparison:
    """Compare what `problem.pull` claims with differences of `problem.forward`.

    Args:
        problem: The map, at its point.
        summed: Compare the gradient of the sum of the outputs only: all that a rule has which is
            not linear in its upstream.
        columns: The most inputs for which the whole Jacobian is compared.

    Returns:
        A `Comparison`, with the worst mismatch first.
    """
    if summed:
        problem = _sum_of(problem)
    with np.errstate(all="ignore"):
        middle = problem.forward(problem.x)
        n, m = problem.x.size, middle.size
        if n == 0 or m == 0:
            return Comparison()
        if n <= columns and m <= MOST_ROWS:
            found = _whole(problem, middle)
        else:
            found = _sampled(problem, middle)
    found.mismatches.sort(key=lambda each: -each.size)
    return found


def _sum_of(problem: Map) -> Map:
    ones = np.ones(problem.forward(problem.x).size)
    wobble = problem.wobble
    return Map(
        problem.x,
        problem.scale,
        lambda x: np.array([problem.forward(x).sum()]),
        lambda u: problem.pull(ones * u[0]),
        problem.eps,
        problem.told,
        problem.wrong,
        None if wobble is None else lambda u: wobble(ones * u[0]),
    )


def along(problem: Map, middle: Array, direction: Array) -> Slope:
    """The slope of the map along a direction that is already scaled."""
    return slope(lambda t: problem.forward(problem.x + t * direction), middle, problem.eps)


def _whole(problem: Map, middle: Array) -> Comparison:
    n, m = problem.x.size, middle.size
    claimed = np.stack([problem.pull(unit) for unit in np.eye(m)])
    wobble = np.zeros((m, n))
    if problem.wobble is not None:
        wobble = np.stack([problem.wobble(unit) for unit in np.eye(m)])
    found = Comparison(claimed=claimed, true=np.zeros((m, n)))
    assert found.true is not None
    for j in range(n):
        size = problem.scale[j]
        truth = along(problem, middle, size * np.eye(n)[j])
        found.true[:, j] = truth.value / size
        natural = np.max(np.abs(middle[np.isfinite(middle)]), initial=0.0) / size
        column = claimed[:, j]
        _judge_column(found, j, column, truth, size, wobble[:, j], problem, natural)
    return found


def _judge_column(
    found: Comparison,
    j: int,
    claimed: Array,
    truth: Slope,
    size: float,
    wobble: Array,
    problem: Map,
    natural: float,
) -> None:
    """Note what is wrong in one column of the Jacobian."""
    low, high, error = truth.low / size, truth.high / size, truth.error / size
    known = np.isfinite(low) & np.isfinite(high)
    largest = np.max(np.abs(np.where(known, high, 0.0)), initial=0.0)
    reach = np.fmax(np.abs(low), np.abs(high))
    give = problem.told * reach + 1e-5 * problem.wrong * largest + 5 * error + 10 * wobble
    for i in range(claimed.size):
        if truth.jump[i]:
            found.jumps.append((i, j))
        if truth.kink[i]:
            found.kinks.append((i, j))
        if not np.isfinite(claimed[i]) or not known[i] or not np.isfinite(give[i]):
            found.unjudged += 1
        elif low[i] - give[i] <= claimed[i] <= high[i] + give[i]:
            enough = max(
                0.3 * reach[i],
                0.3 * abs(claimed[i]),
                problem.wrong * largest,
                problem.wrong * natural,
            )
            vague = give[i] > enough
            found.unjudged += bool(vague)
            found.judged += not vague
        else:
            found.judged += 1
            found.mismatches.append(
                Mismatch(
                    i,
                    j,
                    float(claimed[i]),
                    float(low[i]),
                    float(high[i]),
                    float(error[i]),
                    problem.wrong,
                )
            )


def _sampled(problem: Map, middle: Array) -> Comparison:
    """Compare u · J · v for random upstreams u and directions v, always the same ones."""
    random = np.random.default_rng(7)
    n, m = problem.x.size, middle.size
    upstreams = [np.ones(m), *random.normal(size=(UPSTREAMS - 1, m))]
    pulls = [(u, problem.pull(u)) for u in upstreams]
    wobbles = [np.zeros(n) if problem.wobble is None else problem.wobble(u) for u in upstreams]
    found = Comparison(whole=False)
    for signs in random.choice([-1.0, 1.0], size=(DIRECTIONS, n)):
        direction = signs * problem.scale
        truth = along(problem, middle, direction)
        if truth.kink.any():
            found.kinks.append((int(np.argmax(truth.kink)), -1))
        if truth.jump.any():
            found.jumps.append((int(np.argmax(truth.jump)), -1))
        for (u, pulled), wobble in zip(pulls, wobbles, strict=True):
            give = 10 * float(wobble @ np.abs(direction))
            natural = float(np.abs(u) @ np.abs(np.nan_to_num(middle)))
            mine = float(pulled @ direction)
            verdict = _differs(u, mine, truth, problem.wrong, give, natural)
            if verdict is None:
                found.unjudged += 1
                continue
            found.judged += 1
            if verdict and len(found.mismatches) < MOST_LOCATED:
                found.mismatches.append(_locate(problem, middle, u, direction))
    return found


def _differs(
    u: Array, claimed: float, truth: Slope, slack: float, give: float, natural: float
) -> bool | None:
    """Whether the claimed u · J · v lies outside what the difference allows; None: cannot tell."""
    if not np.isfinite(claimed) or not np.isfinite(truth.value).all():
        return None
    terms = float(np.abs(u) @ np.fmax(np.abs(truth.low), np.abs(truth.high)))
    give += slack * terms + 5 * float(np.abs(u) @ truth.error)
    enough = max(0.3 * terms, 0.3 * abs(claimed), slack * natural)
    if not np.isfinite(give):
        return None
    low = float(np.sum(np.where(u > 0, u * truth.low, u * truth.high)))
    high = float(np.sum(np.where(u > 0, u * truth.high, u * truth.low)))
    outside = not low - give <= claimed <= high + give
    return None if not outside and give > enough else outside


def _locate(problem: Map, middle: Array, u: Array, direction: Array) -> Mismatch:
    """The entry where upstream u and this direction disagree: halve, keep the worse half."""

    def gap(upstream: Array, heading: Array) -> float:
        truth = along(problem, middle, heading)
        claimed = float(problem.pull(upstream) @ heading)
        value = float(upstream @ np.nan_to_num(truth.value))
        low, high = float(upstream @ truth.low), float(upstream @ truth.high)
        return max(abs(claimed - value) - abs(high - low), 0.0)

    inputs = _halve(np.flatnonzero(direction), lambda part: gap(u, _only(direction, part)))
    heading = _only(direction, inputs)
    outputs = _halve(np.flatnonzero(u), lambda part: gap(_only(u, part), heading))
    i, j = int(outputs[0]), int(inputs[0])
    truth = along(problem, middle, heading)
    size = heading[j]
    low, high = sorted((float(truth.low[i] / size), float(truth.high[i] / size)))
    yours = float(problem.pull(np.eye(1, u.size, i)[0])[j])
    return Mismatch(i, j, yours, low, high, float(truth.error[i] / abs(size)), problem.wrong)


def _halve(places: Array, gap: Callable[[Array], float]) -> Array:
    while places.size > 1:
        first, second = np.array_split(places, 2)
        places = first if gap(first) >= gap(second) else second
    return places


def _only(vector: Array, places: Array) -> Array:
    kept = np.zeros_like(vector)
    kept[places] = vector[places]
    return kept
