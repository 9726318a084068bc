"""Finite differences are right to within the error that they state, or state a large one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import bench_mistakes
from hypothesis import given
from hypothesis import strategies as st

from cgviz.checking.comparison import Comparison
from cgviz.checking.differences import extrapolate, slope
from cgviz.graph import dtypes


def at(f, x, dtype=np.float64, scale=None):
    """The slope of f at x, steps being fractions of x's size."""
    size = scale or 2.0 ** np.round(np.log2(abs(x) if abs(x) > 1e-30 else 1.0))

    def along(t):
        with np.errstate(all="ignore"):
            return np.atleast_1d(np.asarray(f(dtype(x + size * t)), np.float64))

    found = slope(along, along(0.0), float(np.finfo(dtype).eps))
    return found.value[0] / size, found.error[0] / size, found


SMOOTH = [
    (np.exp, 1.0, np.exp(1.0)),
    (np.sin, 1e4, np.cos(1e4)),
    (np.log, 1e-8, 1e8),
    (np.log, 1e-4, 1e4),
    (lambda x: 1 / x, 1e-3, -1e6),
    (np.arctanh, 0.999, 1 / (1 - 0.999**2)),
    (np.square, 0.0, 0.0),
    (np.tanh, 20.0, 0.0),
    (lambda x: x + 1, 1e-8, 1.0),
    (lambda x: np.sin(1e4 * x), 0.0, 1e4),
    (lambda x: np.sin(100 * x), 1e4, 100 * np.cos(1e6)),
    (lambda x: 0 * x + 3, 1.0, 0.0),
    (np.round, 1.6, 0.0),
    (np.sign, 3.0, 0.0),
]


@pytest.mark.parametrize(("f", "x", "true"), SMOOTH)
def test_a_slope_is_right_to_six_digits(f, x, true):
    value, error, found = at(f, x)
    assert abs(value - true) <= 1e-6 * abs(true) + 1e-9
    assert abs(value - true) <= 5 * error + 1e-12 * abs(true)
    assert not found.kink[0]


@pytest.mark.parametrize(("f", "x", "true"), [s for s in SMOOTH if abs(s[1]) < 1e4])
def test_in_float32_the_stated_error_covers_the_true_one(f, x, true):
    value, error, _ = at(f, x, np.float32)
    assert abs(value - true) <= 5 * error + 1e-3 * abs(true)


@given(x=st.floats(-5, 5), a=st.floats(-3, 3), b=st.floats(0.1, 20))
def test_the_stated_error_covers_the_true_one_on_random_waves(x, a, b):
    value, error, _ = at(lambda x: a * np.sin(b * x) + x * x, x)
    true = a * b * np.cos(b * x) + 2 * x
    assert abs(value - true) <= 5 * error + 1e-6 * (abs(a * b) + abs(x)) + 1e-9


@pytest.mark.parametrize(
    ("f", "x", "true"),
    [
        (lambda x: np.float32(1e8) + 16 * np.abs(1 - np.float32(0.5) / x), 1.0, 8.0),
        (lambda x: np.float32(1.7) - np.float32(1e-7) * np.log(np.clip(x, 1e-7, 1.0)), 0.2, -5e-7),
        (lambda x: np.minimum(x, np.float32(0.99995)), 0.9997, 1.0),
        (lambda x: np.float32(0.1) - np.log(1 - np.clip(x, 1e-7, 1 - 1e-7)) / 8, 1e-4, 0.1250125),
    ],
    ids=["lost beside 1e8", "clipped far away", "clipped near by", "clipped at 0"],
)
def test_in_float32_what_f_does_farther_away_is_not_taken_for_its_slope(f, x, true):
    value, error, _ = at(f, x, np.float32)
    assert abs(value - true) <= 5 * error + 1e-3 * abs(true)


@pytest.mark.parametrize("x", [0.0, 1e-12])
def test_a_kink_is_seen_with_both_its_sides(x):
    found = at(lambda t: np.maximum(t, 0), x, scale=1.0)[2]
    assert found.kink[0]
    assert (found.low[0], found.high[0]) == pytest.approx((0.0, 1.0), abs=1e-2)


@pytest.mark.parametrize(("f", "x"), [(np.sign, 0.0), (np.round, 0.5), (np.floor, 2.0)])
def test_a_jump_has_no_slope(f, x):
    found = at(f, x)[2]
    assert found.jump[0]
    assert np.isinf(found.error[0])


@pytest.mark.parametrize("f", [np.sqrt, np.cbrt, lambda x: np.sqrt(np.abs(x))])
def test_an_infinite_slope_is_not_taken_for_a_number(f):
    value, error, _ = at(f, 0.0)
    assert error > max(0.3 * abs(value), 1e-3)


def test_at_the_edge_of_its_domain_the_other_side_is_used():
    value, error, _ = at(lambda x: np.where(x > 1, np.nan, x**2), 1.0)
    assert value == pytest.approx(2.0, abs=1e-6)
    assert error < 1e-3


def test_no_number_anywhere_is_no_slope():
    found = at(lambda x: np.nan * x, 1.0)[2]
    assert np.isinf(found.error[0])


def test_every_entry_is_judged_by_itself():
    def along(t):
        return np.array([np.exp(t), abs(t), np.sign(t), 7.0])

    found = slope(along, along(0.0), 2e-16)
    assert found.value[[0, 3]] == pytest.approx([1.0, 0.0], abs=1e-9)
    assert found.kink.tolist() == [False, True, False, False]
    assert found.jump.tolist() == [False, False, True, False]


def test_extrapolation_removes_the_first_terms_of_the_error():
    h = 0.5 * 0.25 ** np.arange(5)[:, None]
    value, error = extrapolate(np.sin(h) / h, 1e-17 / h, (2, 4, 6, 8))
    assert abs(value[0] - 1) < 1e-12
    assert error[0] < 1e-8


# --- claims against slopes ---------------------------------------------------------------------

random = np.random.default_rng(0)


@dataclass
class Plain:
    """A function of one vector, with the derivative that is claimed of it."""

    x: np.ndarray
    forward: Callable
    claim: Callable

    @property
    def scale(self):
        return np.ones(self.x.size)

    @property
    def sizes(self):
        return [self.x.size]

    @property
    def leaves(self):
        return [SimpleNamespace(span=slice(0, self.x.size))]

    def push(self, direction, x):
        raise NotImplementedError


def linear(true, claimed=None, told=1e-6):
    """The map x -> true · x, claiming another matrix, compared."""
    claimed = true if claimed is None else claimed
    x = np.linspace(1, 2, true.shape[1])
    plain = Plain(x, lambda x: true @ x, lambda u, x: u @ claimed)
    return Comparison(plain, replace(dtypes.FLOAT64, told=told))


class Apart(Plain):
    """The same, each number being an input of its own."""

    @property
    def sizes(self):
        return [1] * self.x.size


def test_of_a_slow_function_of_single_numbers_the_wrong_one_is_named_with_its_own_slope():
    true = np.arange(1.0, 13.0).reshape(2, 6)
    claimed = true.copy()
    claimed[1, 4] += 0.5
    plain = Apart(np.ones(6), lambda x: true @ x, lambda u, x: u @ claimed)
    (found,) = Comparison(plain, dtypes.FLOAT64, most=4).mismatches
    assert (found.output, found.input) == (1, 4)
    assert (found.yours, found.low) == pytest.approx((11.5, 11.0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 40), (200, 3), (3, 300), (150, 150)])
def test_a_right_claim_has_no_mismatch(shape):
    found = linear(random.normal(size=shape))
    assert not found.mismatches
    assert found.judged == shape[0] * shape[1] or found.judged >= 16 * min(16, *shape)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (200, 3), (3, 300), (150, 150)])
def test_one_wrong_entry_is_located(shape):
    true = random.normal(size=shape)
    claimed = true.copy()
    claimed[-1, -1] += 0.5
    worst = linear(true, claimed).mismatches[0]
    assert (worst.output, worst.input) == (shape[0] - 1, shape[1] - 1)
    assert worst.yours == pytest.approx(claimed[-1, -1])
    assert worst.low == pytest.approx(true[-1, -1])


def test_what_differs_less_than_is_told_is_right():
    true = random.normal(size=(3, 3))
    assert not linear(true, true * (1 + 1e-7)).mismatches
    assert linear(true, true * (1 + 1e-5)).mismatches


def test_how_far_off_a_claim_is_is_known():
    true = np.array([[2.0]])
    for off in (0.00005, 0.01):
        assert linear(true, true * (1 + off)).mismatches[0].part == pytest.approx(off)


@pytest.mark.parametrize("off", [1e-8, 5e-7, 1e-4])
def test_a_small_derivative_beside_a_large_one_is_told_and_wrong_from_1e_9_of_the_large_one(off):
    true = np.array([[1e3], [1e-3]])
    claimed = true + np.array([[0.0], [off]])
    (found,) = linear(true, claimed, dtypes.FLOAT64.told).mismatches
    assert (found.part > dtypes.FLOAT64.wrong) == (off > 1e-9 * 1e3)


def test_at_a_kink_every_slope_between_the_sides_is_right():
    def kinked(slope):
        plain = Plain(np.zeros(1), lambda x: np.maximum(x, 0), lambda u, x: u * slope)
        return Comparison(plain, dtypes.FLOAT64)

    assert not any(kinked(s).mismatches for s in (0.0, 0.3, 1.0))
    assert kinked(1.5).mismatches
    assert kinked(0.3).bends == [(0, 0, "has a kink")]


def test_nothing_to_compare_is_nothing_wrong():
    empty = Plain(np.zeros(0), lambda x: x, lambda u, x: u)
    assert Comparison(empty, dtypes.FLOAT64).judged == 0


def test_two_entries_that_are_exchanged_are_found_where_both_are_in_one_sum(capsys):
    bench_mistakes.main(1, 2054)
    assert "1 spoiled: 0 missed" in capsys.readouterr().out
