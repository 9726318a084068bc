"""Groups of columns of a Jacobian that share no row, found by asking what touches what.

Columns that share no row are compared in one run: their sum has each entry where it was. So an
elementwise function of a million numbers has one group, a softmax of rows of ten has ten, a
convolution with a kernel of three has a few, whatever their size (A. R. Curtis, M. J. D. Powell,
J. K. Reid, "On the estimation of sparse Jacobian matrices", IMA J. Appl. Math. 13 (1974), 117-119).

What touches what is found axis by axis. The indices along an axis are numbered by a Gray code;
for each bit, all entries that have it are moved, then all that have it not. A row that only one
of the two touches depends on entries with that bit, or without; from all bits follows on which
entries it can depend. Neighbours differ in one bit, so a band costs few bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Array

WIDEST = 64  # indices of an axis among which a row may be undecided; above, it is all of them


@dataclass(frozen=True)
class Group:
    """Columns of which no two share a row."""

    columns: Array
    touching: Array  # for each row the one column of the group that may touch it, or -1


def each_alone(columns: int, rows: int) -> list[Group]:
    """Every column a group."""
    return [Group(np.array([j]), np.full(rows, j)) for j in range(columns)]


def groups(
    shapes: Sequence[Sequence[int]], touched: Callable[[Array], Array], most: int
) -> list[Group] | None:
    """Groups of columns that share no row.

    Args:
        shapes: The shapes of the tensors whose entries, laid end to end, are the columns.
        touched: Takes a mask of columns and returns the mask of the rows that they touch.
        most: Groups at most.

    Returns:
        The groups, or None where there would be more than `most`.

    Example:
        >>> import numpy as np
        >>> found = groups([(4,), (4,)], lambda mask: mask[:4] | mask[4:], 8)  # of x * y
        >>> [group.columns.tolist() for group in found]
        [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    starts = np.cumsum([0, *sizes])
    found: list[Group] = []
    for start, shape in zip(starts, shapes, strict=False):
        within = _of_tensor(tuple(shape), int(start), int(starts[-1]), touched, most - len(found))
        if within is None:
            return None
        found += within
    return found


def _of_tensor(
    shape: tuple[int, ...],
    start: int,
    total: int,
    touched: Callable[[Array], Array],
    most: int,
) -> list[Group] | None:
    """The groups of one tensor, whose entries begin at `start` of `total` columns."""
    size = int(np.prod(shape, dtype=np.int64))
    if size == 0:
        return []
    indices = np.indices(shape).reshape(len(shape), size)
    number = np.zeros(size, dtype=np.int64)  # of the group of each entry
    tables = []
    width = 1
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        along = indices[axis]

        def moved(mask: Array) -> Array:
            whole = np.zeros(total, dtype=bool)
            whole[start : start + size] = mask
            return touched(whole)

        table = _of_axis(along, length, moved, most // width)
        if table is None:
            return None
        number = number * table.shape[1] + along % table.shape[1]
        stride = int(np.prod(shape[axis + 1 :], dtype=np.int64))
        tables.append((table, stride))
        width *= table.shape[1]
    if not tables:
        whole = np.zeros(total, dtype=bool)
        whole[start] = True
        return [Group(np.array([start]), np.where(touched(whole), start, -1))]
    return [
        Group(start + np.flatnonzero(number == group), _touching(tables, group, start))
        for group in range(width)
    ]


def _touching(tables: Sequence[tuple[Array, int]], group: int, start: int) -> Array:
    """For each row the column of a group that may touch it, or -1."""
    column = np.full(len(tables[0][0]), start)
    none = np.zeros(len(column), dtype=bool)
    for table, stride in reversed(tables):
        group, residue = divmod(group, table.shape[1])
        none |= table[:, residue] < 0
        column += stride * table[:, residue]
    return np.where(none, -1, column)


def _of_axis(along: Array, length: int, moved: Callable[[Array], Array], most: int) -> Array | None:
    """Which index along an axis may touch a row: one row each, one column per residue, or -1.

    The number of columns is the smallest by which the indices that touch one row differ in their
    residues; None if that is more than `most`.
    """
    gray = along ^ (along >> 1)
    having, lacking = [], []
    for bit in range((length - 1).bit_length()):
        has = (gray >> bit & 1).astype(bool)
        having.append(moved(has))
        lacking.append(moved(~has))
        if length > most and having[0].size and (having[0] & lacking[0]).all() and bit == 3:
            both = np.stack(having) & np.stack(lacking)
            if both.all():  # every row depends on entries all over this axis
                return None
    certain, unsure = np.zeros((2, having[0].size), dtype=np.int64)
    for bit, (one, other) in enumerate(zip(having, lacking, strict=True)):
        certain |= (one & ~other).astype(np.int64) << bit
        unsure |= (one & other).astype(np.int64) << bit
    untouched = ~(having[0] | lacking[0])
    candidates = {
        int(mask): _indices(certain[(unsure == mask) & ~untouched], int(mask), length)
        for mask in np.unique(unsure[~untouched])
    }
    for width in range(1, min(length, most) + 1):
        if all(_distinct(each, width) for each in candidates.values()):
            break
    else:
        return None
    table = np.full((having[0].size, width), -1)
    for mask, each in candidates.items():
        rows = np.flatnonzero((unsure == mask) & ~untouched)
        row, column = np.nonzero(each >= 0)
        index = each[row, column]
        table[rows[row], index % width] = index
    return table


def _indices(certain: Array, unsure: int, length: int) -> Array:
    """The indices whose Gray code has the certain bits, and any of the unsure ones; else -1."""
    bits = [bit for bit in range(length.bit_length()) if unsure >> bit & 1]
    if 2 ** len(bits) > min(WIDEST, length):
        return np.broadcast_to(np.arange(length), (certain.size, length))
    code = certain[:, None]
    for bit in bits:
        code = np.concatenate([code, code | 1 << bit], axis=1)
    index = code.copy()
    for shift in (1, 2, 4, 8, 16, 32):  # the inverse of x ^ (x >> 1)
        index ^= index >> shift
    return np.where(index < length, index, -1)


def _distinct(indices: Array, width: int) -> bool:
    """Whether no two indices of a row have one residue."""
    if indices.shape[1] == 1:
        return True
    known = indices >= 0
    residues = np.sort(np.where(known, indices % width, -1 - np.arange(indices.shape[1])), axis=1)
    return bool((residues[:, 1:] != residues[:, :-1]).all())
