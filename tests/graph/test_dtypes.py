"""The limits of floating-point types, against NumPy and TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from cgviz.graph.dtypes import limits


def test_other_types_have_no_limits():
    assert [limits(dtype) for dtype in ("int32", "bool", "resource")] == [None] * 3
    assert limits("complex64") is limits("float32")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_limits_are_those_of_numpy(dtype):
    known, numpy = limits(dtype), np.finfo(dtype)
    assert (known.largest, known.normal) == (float(numpy.max), float(numpy.smallest_normal))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensorflow_makes_0_of_what_is_below_the_smallest(dtype):
    least = limits(dtype).smallest
    kept, lost = (tf.constant(least, dtype) * factor for factor in (1, 0.25))
    assert (float(kept), float(lost)) == (least, 0.0)


def test_bfloat16_has_the_reach_of_float32():
    known = limits("bfloat16")
    assert known.largest == float(tf.bfloat16.max)
    assert known.smallest == limits("float32").smallest
