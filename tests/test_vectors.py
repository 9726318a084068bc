"""Tensors go to real vectors and back, and their entries have names."""

import numpy as np
import pytest
import tensorflow as tf

from cgviz.checking.vectors import as_tensor, as_vector, entry


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.complex64])
def test_a_tensor_goes_to_a_vector_and_back(dtype):
    tensor = tf.cast(tf.constant([[1.0, 2.0], [3.0, 4.0]]), dtype)
    if dtype.is_complex:
        tensor = tensor * (1 + 2j)
    again = as_tensor(as_vector(tensor), tensor.shape, dtype)
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, tensor)


def test_entries_have_names():
    assert entry("w", (2, 3), 5) == "w[1, 2]"
    assert entry("x", (), 0) == "x"
    assert entry("z", (), 1, True) == "imag z"
