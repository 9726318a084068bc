"""Columns that share no row are found by what touches what, in few questions."""

import numpy as np
import pytest

from cgviz.checking.sparsity import groups


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
