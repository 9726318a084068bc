"""A wrong entry of a Jacobian is found, in a small one and in a large one; a right one is not."""

import numpy as np
import pytest

from cgviz.checking.comparison import Map, compare

random = np.random.default_rng(0)


def linear(true, claimed=None, told=1e-6):
    """The map x -> true · x, claiming another matrix."""
    claimed = true if claimed is None else claimed
    n = true.shape[1]
    return Map(
        np.linspace(1, 2, n),
        np.ones(n),
        lambda x: true @ x,
        lambda u: u @ claimed,
        2.0**-52,
        told,
        1e-4,
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 40), (200, 3), (3, 300), (150, 150)])
def test_a_right_claim_has_no_mismatch(shape):
    found = compare(linear(random.normal(size=shape)))
    assert not found.mismatches
    assert found.judged == shape[0] * shape[1] or found.sums >= 128 * min(shape)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (200, 3), (3, 300), (150, 150)])
def test_one_wrong_entry_is_located(shape):
    true = random.normal(size=shape)
    claimed = true.copy()
    claimed[-1, -1] += 0.5
    worst = compare(linear(true, claimed)).mismatches[0]
    assert (worst.output, worst.input) == (shape[0] - 1, shape[1] - 1)
    assert worst.yours == pytest.approx(claimed[-1, -1])
    assert worst.low == pytest.approx(true[-1, -1])


def test_what_differs_less_than_is_told_is_right():
    true = random.normal(size=(3, 3))
    assert not compare(linear(true, true * (1 + 1e-7))).mismatches
    assert compare(linear(true, true * (1 + 1e-5))).mismatches


def test_a_slight_mismatch_has_its_first_digits_right():
    true = np.array([[2.0]])
    assert compare(linear(true, true * 1.00005)).mismatches[0].slight
    assert not compare(linear(true, true * 1.01)).mismatches[0].slight


def test_at_a_kink_every_slope_between_the_sides_is_right():
    def kinked(slope):
        return Map(
            np.zeros(1),
            np.ones(1),
            lambda x: np.maximum(x, 0),
            lambda u: u * slope,
            2.0**-52,
            1e-6,
            1e-4,
        )

    assert not any(compare(kinked(s)).mismatches for s in (0.0, 0.3, 1.0))
    assert compare(kinked(1.5)).mismatches
    assert compare(kinked(0.3)).kinks == [(0, 0)]


def test_nothing_to_compare_is_nothing_wrong():
    empty = Map(np.zeros(0), np.zeros(0), lambda x: x, lambda u: u, 2.0**-52, 1e-6, 1e-4)
    assert compare(empty).judged == 0
