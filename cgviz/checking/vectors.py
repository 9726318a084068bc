"""Tensors as vectors of real numbers, and back; the names of their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array


def entry(name: str, shape: Sequence[int], index: int, is_complex: bool = False) -> str:
    """The name of one entry of a tensor.

    >>> entry("w", (2, 3), 4), entry("x", (), 0), entry("z", (2,), 3, True)
    ('w[1, 1]', 'x', 'imag z[1]')
    """
    part = ""
    if is_complex:
        size = int(np.prod(shape, dtype=np.int64))
        part, index = ("real " if index < size else "imag "), index % max(size, 1)
    where = ", ".join(str(i) for i in np.unravel_index(index, shape)) if shape else ""
    return f"{part}{name}[{where}]" if where else f"{part}{name}"


def as_vector(tensor: Any) -> Array:
    """A tensor's numbers as float64; of complex ones all real parts, then all imaginary."""
    array = np.asarray(tf.convert_to_tensor(tensor).numpy()).reshape(-1)
    if array.dtype.kind == "c":
        return np.concatenate([array.real, array.imag]).astype(np.float64)
    return array.astype(np.float64)


def as_vector_size(tensor: Any) -> int:
    """How many real numbers a tensor holds."""
    size = int(np.prod(tuple(tensor.shape), dtype=np.int64))
    return size * (2 if tensor.dtype.is_complex else 1)


def as_tensor(vector: Array, shape: Sequence[int], dtype: Any) -> Any:
    """The opposite of `as_vector`."""
    if dtype.is_complex:
        half = vector.size // 2
        vector = vector[:half] + 1j * vector[half:]
    return tf.constant(vector.reshape(shape).astype(dtype.as_numpy_dtype), dtype)
