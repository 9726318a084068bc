"""Finite differences are right to within the error that they state, or state a large one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgviz.checking.differences import extrapolate, groups, slope


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


@pytest.mark.parametrize("f", [np.sqrt, np.cbrt])
def test_an_infinite_slope_is_not_taken_for_a_number(f):
    value, error, _ = at(f, 0.0)
    assert error > 0.3 * abs(value)


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


# --- columns that share no row -----------------------------------------------------------------


def band(size, width):
    return sum(np.eye(size, k=k) for k in range(-width, width + 1))


def image(size):
    """What a 3×3 convolution of an image touches."""
    return np.kron(band(size, 1), band(size, 1))


CASES = {
    "elementwise": ([(300,)], np.eye(300), 1),
    "permuted": ([(300,)], np.eye(300)[np.random.default_rng(0).permutation(300)], 1),
    "rows of a matrix": ([(30, 10)], np.kron(np.eye(30), np.ones((10, 10))), 10),
    "columns of a matrix": ([(10, 30)], np.kron(np.ones((10, 10)), np.eye(30)), 10),
    "three neighbours": ([(300,)], band(300, 1), 4),
    "an image": ([(1, 16, 16, 1)], image(16), 16),
    "two inputs": ([(300,), (300,)], np.hstack([np.eye(300), np.eye(300)]), 2),
    "a vector and a number": ([(300,), ()], np.hstack([np.eye(300), np.ones((300, 1))]), 2),
    "nothing touches": ([(8,)], np.zeros((5, 8)), 1),
}


@pytest.mark.parametrize(("shapes", "matrix", "expected"), CASES.values(), ids=CASES)
def test_columns_of_a_group_share_no_row(shapes, matrix, expected):
    asked = []

    def touched(mask):
        asked.append(mask)
        return matrix[:, mask].any(axis=1)

    found = groups(shapes, touched, 64)
    assert len(found) == expected
    assert len(asked) <= 2 * np.log2(matrix.shape[1]) * len(shapes) + 2
    assert sorted(np.concatenate([g.columns for g in found])) == list(range(matrix.shape[1]))
    for group in found:
        for row, column in zip(matrix, group.touching, strict=True):
            assert set(group.columns[row[group.columns] != 0]) <= {column}


@pytest.mark.parametrize("matrix", [np.ones((300, 300)), np.tri(300)])
def test_of_a_dense_matrix_there_are_no_groups(matrix):
    assert groups([(300,)], lambda mask: matrix[:, mask].any(axis=1), 64) is None
