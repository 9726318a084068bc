"""The op that made a gradient zero is asked why, and answers with its numbers."""

import numpy as np
import pytest
import tensorflow as tf
from troubles import only

import cgviz


@tf.custom_gradient
def returns_zero(x):
    return x * x, lambda dy: 0.0 * dy


ZERO = {
    "relu": (tf.nn.relu, [[-1.0, -3.0]], "Relu", "nowhere above 0: [−1, −3]"),
    "relu6": (tf.nn.relu6, [[-1.0, 9.0]], "Relu6", "between 0 and 6"),
    "sign": (tf.sign, [2.0], "Sign", "0 everywhere"),
    "clip above": (lambda x: tf.clip_by_value(x, 0.0, 1.0), [2.0], "Minimum", "clipped"),
    "maximum": (lambda x: tf.maximum(x, 5.0), [2.0], "Maximum", "2 against 5"),
    "minimum": (lambda x: tf.minimum(x, 1.0), [2.0], "Minimum", "smaller everywhere"),
    "where": (lambda x: tf.where(x > 0.0, x, 3.0), [-1.0], "SelectV2", "other branch"),
    "sigmoid": (tf.sigmoid, [40.0], "Sigmoid", "saturated: at 40 it gives 1"),
    "tanh": (tf.tanh, [20.0], "Tanh", "saturated"),
    "exp": (tf.exp, [-200.0], "Exp", "too small for float32"),
    "zero weight": (lambda x: x * 0.0, [2.0], "Mul", "other factor is 0"),
    "square at 0": (tf.square, [0.0], "Square", "derivative is 0"),
    "log of a huge number": (lambda x: tf.math.log(1.0 + tf.exp(x)), [88.5], "Log", "3.672e−39"),
    "underflow": (lambda x: x * 1e-30 * 1e-20, [2.0], "Mul", "the product is below"),
    "a rule": (returns_zero, [2.0], "returns_zero", "rule returned 0"),
    "a sum of a softmax": (
        lambda x: tf.reduce_sum(tf.nn.softmax(x)),
        [[0.0, 0.0]],
        "Softmax",
        "add up to 1",
    ),
}


@pytest.mark.parametrize("name", ZERO)
def test_the_op_that_made_a_gradient_zero_is_named(name):
    f, args, op, message = ZERO[name]
    trace = cgviz.trace(f, *args)
    assert not np.any(trace.gradients[0])
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("zero", op)
    assert message in finding.message
    step = trace.passes[0].step_of[finding.op]
    assert any(np.any(u) for u in step.upstream if u is not None)  # verified: it made it
    assert any(g is not None and not np.any(g) for g in step.downstream)
