"""The derivative of a function along one direction by finite differences, and its error.

The error of a central difference (f(x+h) - f(x-h)) / 2h is a series in h². Two step lengths are
enough to remove its first term, three to remove the second, and how far the result moves estimates
its error. This is Richardson's extrapolation with the error estimate of C. J. F. Ridders, "Accurate
computation of F'(x) and F'(x)F''(x)", Advances in Engineering Software 4 (1982), 75-76. A single
step length would not do: the best one depends on f, on x and on the dtype, and nothing shows that
the choice was bad.
Steps are powers of two, so that x + h and x - h are exact unless h is below their last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..graph import Array, dtypes

RATIO = 4.0  # between one step length and the next
FIRST = tuple(2.0**-e for e in range(3, 11, 2))  # enough for smooth functions
CLOSER = tuple(2.0**-e for e in range(11, 15, 2))  # enough for most others
SHORTER = tuple(2.0**-e for e in range(15, 31, 2))  # down to where rounding in float64 dominates
SHORT = 2.0**-20  # a settled slope must hold here too: finer stairs are close to those of float32
LONGER = tuple(2.0**e for e in range(9, -3, -2))  # for functions that hardly move
STRAIGHT = 0.1  # relative: over longer steps the slope of a curve soon changes by more than this
# In 16 bits a shorter step changes only the last bits, and a longer one leaves the neighbourhood of
# the point.
COARSE_STEPS = tuple(2.0**-e for e in range(1, 7, 2))
ROUNDING = 4.0  # last bits by which rounding alone may make two values of f differ
VAGUE = "cannot be judged"  # what is said of f where its slope is infinite
PLAUSIBLE = 250.0  # up to so many times that much can still be rounding, if terms cancel inside f


class Slope(NamedTuple):
    """The derivative of each entry of f along one direction, with an estimate of its error."""

    value: Array
    error: Array
    low: Array  # at or near a kink, and always in 16 bits, the lower slope of two; else value
    high: Array  # the same with the higher of the two
    kink: Array  # bool: the slopes of the two sides differ by more than their errors
    jump: Array  # bool: f is discontinuous here, so there is no derivative

    @property
    def reach(self) -> Array:
        """The size of each slope; at a kink, that of the steeper side."""
        return np.fmax(np.abs(self.low), np.abs(self.high))

    def summed(self, rows: Array) -> Slope:
        """`value`, `low`, `high`, `error` for sums of the entries, one for each row of weights."""
        up, down = np.maximum(rows, 0), np.minimum(rows, 0)
        return self._replace(
            value=rows @ self.value,
            low=up @ self.low + down @ self.high,
            high=up @ self.high + down @ self.low,
            error=np.abs(rows) @ self.error,
        )


@np.errstate(all="ignore")
def slope(
    along: Callable[[float], Array], middle: Array, eps: float, shortest: float = 0.0
) -> Slope:
    """The derivative d along(t) / dt at t = 0, entry by entry.

    Formula: D(h) = (along(h) - along(-h)) / 2h at h = 1/8, 1/32, ..., extrapolated to h = 0.

    Args:
        along: A function of a step length that returns a float64 vector. It should vary over
            steps of about 1: scale the direction by the size of the point. Where it raises, it
            counts as NaN, unless it raises everywhere.
        middle: along(0).
        eps: The relative rounding error of along's values, such as `np.finfo(np.float32).eps`.
        shortest: The shortest step to make, for an f that moves in stairs; then long
            steps are left out.

    Returns:
        A `Slope`. Its error is infinite where no two steps agree, such as at a pole.

    Raises:
        Exception: What `along` raises at each step.

    Example:
        >>> import numpy as np
        >>> found = slope(lambda t: np.array([np.exp(t), abs(t)]), np.array([1.0, 0.0]), 2e-16)
        >>> bool(abs(found.value[0] - 1) < 1e-9), found.kink.tolist()
        (True, [False, True])
    """
    raised: list[Exception] = []

    @cache  # `_holds` asks after each ladder for the same two
    def at(t: float) -> Array:
        try:
            return along(t)
        except Exception as error:  # outside f's domain, where other functions give NaN
            raised.append(error)
            return np.full(middle.shape, np.nan)

    values: dict[float, tuple[Array, Array]] = {}  # f ahead and behind, by step
    # What moves in stairs may be a search or an iteration, which may not end far from the point.
    left = [SHORTER, CLOSER, FIRST] if shortest else [LONGER, SHORTER, CLOSER, FIRST]
    shortest = max(shortest, 64 * eps)  # a shorter one shows only rounding
    if eps > dtypes.FLOAT32.eps:
        left, shortest = [COARSE_STEPS], 16 * eps
    while left:
        more = left.pop()
        new = [h for h in more if h >= shortest]
        values |= {h: (at(h), at(-h)) for h in new}
        found = _read(dict(sorted(values.items(), reverse=True)), middle, eps)
        bent = bool((found.jump | found.kink).any())
        enough = more is SHORTER if bent else _good_enough(found, middle, eps)
        still = all(np.array_equal(side, middle) for side in sum(values.values(), ()))
        if (enough or still) and (bent or _holds(found, at, eps, max(SHORT, shortest))):
            del left[0 if enough else 1 :]  # if f stood still, only the last is left
    if raised and not np.isfinite(found.value).any():
        raise raised[-1]
    return found


def _holds(found: Slope, along: Callable[[float], Array], eps: float, h: float) -> bool:
    """Whether the slope also holds over a step as short as `h`.

    Longer steps can miss stairs: a number rounded to a multiple of 1/256 moves by exactly its share
    over 1/8, 1/32, 1/128 and 1/512, because the steps are powers of two, as the stairs are.
    """
    ahead, behind = along(h), along(-h)
    noise = ROUNDING * eps * np.fmax(np.abs(ahead), np.abs(behind)) / h
    off = np.abs((ahead - behind) / (2 * h) - found.value)
    return not (off > PLAUSIBLE * noise + 0.1 * np.abs(found.value)).any()


def _good_enough(found: Slope, middle: Array, eps: float) -> bool:
    """Whether more step lengths would add nothing that matters."""
    finite = np.isfinite(found.value)
    if not finite.any():
        return not np.isfinite(middle).any()
    size = np.max(np.abs(found.value[finite]), initial=0.0)
    floor = np.max(np.abs(middle[np.isfinite(middle)]), initial=0.0) * eps
    floor *= 100 if eps > 1e-10 else 1e5
    worst = np.max(found.error[finite], initial=0.0)
    return bool(worst <= 1e-4 * size * (1 if eps > 1e-10 else 1e-3) + floor)


def _read(values: dict[float, tuple[Array, Array]], middle: Array, eps: float) -> Slope:
    """The slope by the values of f ahead and behind, for each step.

    With as few digits as 16 bits have, a kink cannot be told from a bend or from rounding: anything
    between the slopes of the two sides may be right.
    """
    h = np.array(list(values))[:, None]
    coarse = eps > dtypes.FLOAT32.eps
    longer = 0 if coarse else int(np.sum(h > FIRST[0]))
    limit = partial(extrapolate, longer=longer)
    ahead, behind = (np.stack(side) for side in zip(*values.values(), strict=True))
    quotient = (ahead - behind) / (2 * h)
    size = np.fmax(np.abs(middle), np.fmin(np.abs(ahead), np.abs(behind)))
    noise = ROUNDING * eps * size / h
    if coarse:  # half a last bit of f, and of the step, which a cast inside f rounds as well
        noise = 0.5 * eps * (size + np.abs(quotient)) / h
    # Where a step changes nothing, f may be flat, or its digits may be lost: in log(1 + x) they
    # are lost beside the 1, and that is far more than f's own last bits.
    still = (ahead == middle) & (behind == middle)
    noise = np.where(still.any(axis=0), np.fmax(noise, ROUNDING * eps / h), noise)
    value, error = limit(quotient, noise, (2, 4, 6, 8))
    sides = np.stack([ahead - middle, middle - behind]) / h
    right, right_error = limit(sides[0], 2 * noise, (1, 2, 3, 4, 5))
    left, left_error = limit(sides[1], 2 * noise, (1, 2, 3, 4, 5))
    gap, gap_error = limit((ahead + behind - 2 * middle) / h, 4 * noise, (1, 3, 5, 7))
    known = [np.isfinite(value), np.isfinite(right)]  # one side may lie outside f's domain
    value = np.select(known, [value, right], left)
    error = np.select(known, [error, right_error], left_error)
    error = np.where(still.all(axis=0), noise[0], error)
    # Two infinite slopes of opposite signs, as of sqrt(|x|) at 0, cancel in the quotient.
    error = np.where(np.isinf(right_error) & np.isinf(left_error), np.inf, error)
    apart = np.abs(gap) > 10 * gap_error + 1e-3 * (np.abs(left) + np.abs(right))
    # For a smooth function this bend falls with the step; at a kink it stays.
    bend = np.abs(ahead + behind - 2 * middle) / h
    apart &= ((bend + 4 * noise)[len(h) // 2 :] >= 0.5 * np.abs(gap)).all(axis=0)
    # If it stays over some steps only, a kink is near. In float32 no step that is short enough
    # to leave it out has many digits: anything between the slopes of two sides may be right.
    near = (bend[1:] - 4 * noise[1:] > 0.5 * bend[:-1]).any(axis=0)
    near &= eps > dtypes.FLOAT64.eps
    close = slice(min(longer + 3, len(h) - 1), None)  # longer steps may meet other kinks
    lower = np.fmax.reduce((np.min(sides, axis=0) - 2 * noise)[close])
    upper = np.fmin.reduce((np.max(sides, axis=0) + 2 * noise)[close])
    if coarse:
        no = np.zeros(middle.shape, bool)
        return Slope(value, error, np.fmin(left, right), np.fmax(left, right), no, no)
    reach = np.fmax(np.max(np.abs(ahead - middle), axis=0), np.max(np.abs(behind - middle), axis=0))
    least = np.fmax(100 * noise[-1] * h[-1], 1e-6 * reach)
    step = _steps_away(ahead, middle, least) | _steps_away(behind, middle, least)
    kink = apart & np.isfinite(gap) & np.isfinite(left) & np.isfinite(right) & ~step
    error = np.where(step | ~np.isfinite(error), np.inf, error)
    low = np.select([kink, near], [np.fmin(left, right), np.fmin(value, lower)], value)
    high = np.select([kink, near], [np.fmax(left, right), np.fmax(value, upper)], value)
    return Slope(value, error, low, high, kink, step)


def _steps_away(side: Array, middle: Array, least: Array) -> Array:
    """Whether f leaves its value at once: |f(h) - f(0)| stays, however short the step."""
    away = np.abs(side - middle)[-4:]
    still = away.max(axis=0) - away.min(axis=0) < 0.2 * away[-1]
    return np.asarray(still & np.isfinite(away[-1]) & (away[-1] > least))


def extrapolate(
    differences: Array, noise: Array, powers: Sequence[int], longer: int = 0
) -> tuple[Array, Array]:
    """Ridders' tableau: the limit of a quotient as its step goes to 0, and an error estimate.

    Formula: A[k, j] = A[k, j-1] + (A[k, j-1] - A[k-1, j-1]) / (4^p[j] - 1). The limit is the entry
    that is nearest to the two entries it was computed from.

    Args:
        differences: One row per step length; each step is a quarter of the one before.
        noise: How far rounding can move each difference, of the same shape.
        powers: The powers of the step in the error series, such as 2, 4, 6.
        longer: How many of the first steps leave the neighbourhood of the point. A limit that such
            a step is part of counts only if f is straight: if its quotients agree, at least three,
            and all shorter ones within rounding.

    Returns:
        The limit and its error, each a row; NaN with an infinite error where there is no limit.

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
    for power in powers[: len(differences) - 1]:
        better = column[1:] + (column[1:] - column[:-1]) / (RATIO**power - 1)
        moved = np.maximum(np.abs(better - column[1:]), np.abs(better - column[:-1]))
        moved = moved + rounding[1:]
        moved = np.where(np.isnan(moved), np.inf, moved)
        used = len(differences) - len(better)
        for row, limit in enumerate(better):
            error = _strayed(differences[used + row :], noise[used + row :], limit, moved[row])
            if row < longer:
                off = np.abs(differences[row:] - limit) - STRAIGHT * np.abs(limit)
                straight = (off[: used + 1] < 0).all(axis=0) & (off < noise[row:]).all(axis=0)
                error = np.where(straight & (used > 1), error, np.inf)
            take = error < least
            best = np.where(take, limit, best)
            least = np.where(take, error, least)
        column, rounding = better, rounding[1:]
    # Where the limit is infinite, the quotients move ever farther, up to where they are noise.
    moves = np.diff(differences[longer:], axis=0)
    farther = (moves[1:] / moves[:-1] > 0.7) & (np.abs(moves[1:]) > noise[longer + 2 :])
    lost = noise[longer + 4 :] > 0.1 * np.max(np.abs(moves), axis=0)  # not where it converged
    farther[2:] |= (np.abs(moves[3:]) <= noise[longer + 4 :]) & lost
    infinite = farther.all(axis=0) & (len(farther) > 1)
    infinite &= np.abs(differences[-1] - differences[longer]) > 0.1 * np.abs(differences[-1])
    return best, np.where(infinite, np.inf, least)


def _strayed(shorter: Array, noise: Array, limit: Array, error: Array) -> Array:
    """The error of a limit, larger if quotients at shorter steps than those used stray from it.

    Over long steps the quotients of a bounded function are small, and so are their changes: a fast
    oscillation looks settled there, and only shorter steps show that it is not.
    """
    stray = np.abs(shorter[1:] - limit)
    slack = 10 * error + np.abs(shorter[0] - limit)
    far = stray > PLAUSIBLE * noise[1:] + slack
    # Rounding scatters quotients. If two agree, f itself is different: near the point is a kink.
    alike = np.abs(shorter[2:] - shorter[1:-1]) <= noise[1:-1]
    far[1:] |= alike & (np.fmin(stray[1:], stray[:-1]) > 4 * noise[2:] + slack)
    return np.asarray(np.fmax(error, np.max(np.where(far, stray, 0.0), axis=0, initial=0.0)))
