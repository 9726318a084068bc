"""Tensors become `Value`s: held by reference, read as NumPy, one `Value` per tensor.

The reads of a variable are one value for as long as nobody assigns to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Value
from . import tf_hooks


class Dense:
    """A tensor by reference that NumPy cannot read as it is: sparse slices, handles, variants."""

    def __init__(self, tensor: Any, shape: Sequence[int] | None = None) -> None:
        self._tensor = tensor
        self._shape = shape

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers, dense; for what has none, its dtype as one string."""
        if isinstance(self._tensor, tf.IndexedSlices):
            with tf_hooks.aside():
                return np.asarray(dense(self._tensor, self._shape).numpy())
        return np.asarray(str(self._tensor.dtype.name), dtype=object)


def dense(tensor: Any, shape: Sequence[int] | None) -> Any:
    """A gradient as a tensor; slices of which nobody said of what shape are taken from `shape`."""
    if isinstance(tensor, tf.IndexedSlices) and tensor.dense_shape is None and shape is not None:
        tensor = tf.IndexedSlices(
            tensor.values, tensor.indices, tf.constant(tuple(shape), tf.int64)
        )
    return tf.convert_to_tensor(tensor)


def reference(tensor: Any, shape: Sequence[int] | None = None) -> Any:
    """What a record holds for a tensor: the tensor itself wherever NumPy can read it.

    `shape` is that of what a gradient belongs to, for sparse ones that do not know their own.
    """
    if tensor is None or (
        hasattr(tensor, "numpy") and tensor.dtype not in (tf.resource, tf.variant)
    ):
        return tensor
    return Dense(tensor, shape)


def variable_name(variable: Any) -> str:
    """TensorFlow's name of a variable, without the output number; Keras names are paths."""
    return str(variable.name).removesuffix(":0")


class Variable:
    """A variable being read: one `Value` per version, a new one after each assignment."""

    def __init__(self, name: str, place: int) -> None:
        self.name = name
        self.place = place  # where its op goes among the ops
        self.versions: list[Value] = []
        self.stale = True


class Values:
    """The values of one recording, by the identity of their tensor."""

    def __init__(self, known: dict[int, Value] | None = None) -> None:
        self._known = {} if known is None else known
        self.variables: dict[int, Variable] = {}  # by id of their handle

    def beside(self) -> Values:
        """More values of the same recording: the same tensors known, no variable read yet."""
        return Values(self._known)

    def __contains__(self, tensor: Any) -> bool:
        return id(tensor) in self._known

    def of(self, tensor: Any) -> Value:
        """The one `Value` of a tensor."""
        found = self._known.get(id(tensor))
        if found is None:
            shape, dtype = tuple(tensor.shape), tensor.dtype.name
            found = Value(len(self._known), shape, dtype, reference(tensor))
            self._known[id(tensor)] = found
        return found

    def read(self, variable: Variable, handle: Any, tensor: Any) -> Value:
        """The `Value` of a variable as it is now; `tensor` is what reading it returned."""
        if variable.stale:
            variable.versions.append(self.of(tensor))
            variable.stale = False
            self._known.setdefault(id(handle), variable.versions[0])
        self._known[id(tensor)] = variable.versions[-1]
        return variable.versions[-1]
