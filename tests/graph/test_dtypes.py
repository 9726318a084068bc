"""The largest inputs and the limits of floating-point types, against NumPy and TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from cgviz.graph.dtypes import BOTH_SIDES, exp_limit, limits


@pytest.mark.parametrize("type_", ["Exp", "Expm1", "Sinh", "Cosh"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_ops_like_exp_stay_finite_up_to_their_limit_and_not_above(type_, dtype):
    limit = exp_limit(type_, dtype)
    near = 0.02 if dtype == "bfloat16" else 0.001  # of three digits
    below, above = (tf.cast(limit * (1 + side), dtype) for side in (-near, near))
    assert np.isfinite(float(tf.cast(getattr(tf.raw_ops, type_)(x=below), "float64")))
    assert np.isinf(float(tf.cast(getattr(tf.raw_ops, type_)(x=above), "float64")))
    mirrored = float(tf.cast(getattr(tf.raw_ops, type_)(x=-above), "float64"))
    assert np.isinf(mirrored) == (type_ in BOTH_SIDES)


def test_other_ops_and_types_have_no_limit():
    assert exp_limit("Mul", "float32") is None
    assert exp_limit("Exp", "int32") is None
    assert exp_limit("Exp", "complex64") == exp_limit("Exp", "float32")
    assert [limits(dtype) for dtype in ("int32", "bool", "resource")] == [None] * 3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_limits_are_those_of_numpy(dtype):
    known, numpy = limits(dtype), np.finfo(dtype)
    assert (known.largest, known.smallest) == (float(numpy.max), float(numpy.smallest_normal))


def test_bfloat16_has_the_reach_of_float32():
    known = limits("bfloat16")
    assert known.largest == float(tf.bfloat16.max)
    assert known.smallest == limits("float32").smallest
