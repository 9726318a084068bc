"""The op that made a gradient zero is asked why, and answers with its numbers."""

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape
from troubles import only

import cgviz
from cgviz.diagnosing.zero_reasons import reason
from cgviz.graph import Step


@tf.custom_gradient
def returns_zero(x):
    return x * x, lambda dy: 0.0 * dy


def clip(x):
    return tf.raw_ops.ClipByValue(t=x, clip_value_min=0.0, clip_value_max=1.0)


left, right = tf.constant([1.0, 0.0]), tf.constant([0.0, 1.0])
ZERO = {
    "relu": (tf.nn.relu, [[-1.0, -3.0]], "Relu", "nowhere above 0: [−1, −3]"),
    "relu at 0": (tf.nn.relu, [0.0], "Relu", "nowhere above 0: 0"),
    "relu6": (tf.nn.relu6, [[-1.0, 9.0]], "Relu6", "between 0 and 6"),
    "abs at 0": (tf.abs, [[0.0, 0.0]], "Abs", "jumps from −1 to 1"),
    "sign": (tf.sign, [2.0], "Sign", "0 everywhere"),
    "clip above": (lambda x: tf.clip_by_value(x, 0.0, 1.0), [2.0], "Minimum", "clipped"),
    "clip in one op": (clip, [[-2.0, 3.0]], "ClipByValue", "[−2, 3] is nowhere between 0 and 1"),
    "maximum": (lambda x: tf.maximum(x, 5.0), [2.0], "Maximum", "2 against 5"),
    "minimum": (lambda x: tf.minimum(x, 1.0), [2.0], "Minimum", "other branch wins everywhere"),
    "the second of equals": (lambda x: tf.maximum(2.0, x), [2.0], "Maximum", "2 against 2"),
    "where": (lambda x: tf.where(x > 0.0, x, 3.0), [-1.0], "SelectV2", "other branch"),
    "where, the other way": (
        lambda x: tf.where(x > 0.0, 3.0, x),
        [1.0],
        "SelectV2",
        "other branch",
    ),
    "sigmoid": (tf.sigmoid, [40.0], "Sigmoid", "saturated: at 40 it gives 1"),
    "tanh": (tf.tanh, [20.0], "Tanh", "saturated"),
    "softmax": (
        lambda x: tf.nn.softmax(x)[0],
        [[1000.0, 0.0]],
        "Softmax",
        "saturated: at [1000, 0] it gives [1, 0]",
    ),
    "exp": (tf.exp, [-200.0], "Exp", "too small for float32"),
    "zero weight": (lambda x: x * 0.0, [2.0], "Mul", "other factor is 0"),
    "zero weights": (lambda x: x @ tf.zeros((2, 1)), [[[1.0, 2.0]]], "MatMul", "factor is 0"),
    "square at 0": (tf.square, [0.0], "Square", "derivative is 0"),
    "log of a huge number": (lambda x: tf.math.log(1.0 + tf.exp(x)), [88.5], "Log", "3.672e−39"),
    "a huge divisor": (lambda x: 1.0 / x, [1e20], "RealDiv", "−a/b² is 1e−40, below 1.175e−38"),
    "divided by a huge number": (lambda x: x / 2e38, [1.0], "RealDiv", "1/b is 5e−39"),
    "reciprocal": (tf.math.reciprocal, [1e20], "Reciprocal", "−1/x² is 1e−40"),
    "float64": (tf.exp, [np.float64(-800.0)], "Exp", "too small for float64"),
    "a rule": (returns_zero, [2.0], "returns_zero", "rule returned 0"),
}
NOT_FLAT = {
    "underflow": (lambda x: x * 1e-30 * 1e-20, [2.0], "Mul", "the product is below"),
    "underflow in float16": (
        lambda x: x * np.float16(1e-4) * np.float16(1e-4),
        [np.float16(1.0)],
        "Mul",
        "below 6.104e−5, the smallest normal float16",
    ),
    "a sum of a softmax": (
        lambda x: tf.reduce_sum(tf.nn.softmax(x)),
        [[0.0, 0.0]],
        "Softmax",
        "add up to 1",
    ),
    "equal and opposite": (lambda x: x * [1.0, -1.0], [2.0], "Mul", "upstream [1, 1] adds up to 0"),
    "three that cancel": (
        lambda x: x @ tf.constant([[1.0, -2.0, 1.0]]),
        [[[2.0]]],
        "MatMul",
        "adds up to 0",
    ),
    "a mask on the living half of a relu": (
        lambda x: tf.nn.relu(x) * left,
        [[-1.0, 2.0]],
        "Relu",
        "The upstream [1, 0] is 0 wherever its derivative is not",
    ),
    "on relu6": (lambda x: tf.nn.relu6(x) * left, [[9.0, 2.0]], "Relu6", "is 0 wherever"),
    "on abs": (lambda x: tf.abs(x) * left, [[0.0, 2.0]], "Abs", "is 0 wherever"),
    "on a maximum": (lambda x: tf.maximum(x, 0.0) * left, [[-1.0, 2.0]], "Maximum", "wherever"),
    "on the first of equals": (
        lambda x: tf.maximum(x, 2.0) * right,
        [[2.0, 1.0]],
        "Maximum",
        "is 0 wherever",
    ),
    "on a clip": (lambda x: clip(x) * left, [[-1.0, 0.5]], "ClipByValue", "is 0 wherever"),
    "on a where": (lambda x: tf.where(x > 0.0, x, 0.0) * left, [[-1.0, 2.0]], "SelectV2", "is 0"),
    "on an exp": (lambda x: tf.exp(x) * left, [[-200.0, 2.0]], "Exp", "is 0 wherever"),
    "on a tanh": (lambda x: tf.tanh(x) * left, [[20.0, 0.0]], "Tanh", "is 0 wherever"),
    "on a softmax": (
        lambda x: tf.nn.softmax(x) * [left, 0.0 * right],
        [[[1000.0, 0.0], [5.0, 5.0]]],
        "Softmax",
        "is 0 wherever",
    ),
    "on a huge number": (lambda x: tf.math.log(x) * left, [[2e38, 2.0]], "Log", "is 0 wherever"),
}


def blamed(name):
    """The finding of a program of the tables, and the step it is about."""
    f, args, op, message = (ZERO | NOT_FLAT)[name]
    trace = cgviz.trace(f, *args)
    assert not np.any(trace.gradients[0])
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("zero", op)
    assert message in finding.message
    return trace.passes[0].step_of[finding.op]


@pytest.mark.parametrize("name", ZERO | NOT_FLAT)
def test_the_op_that_made_a_gradient_zero_is_named(name):
    step = blamed(name)
    assert any(np.any(u) for u in step.upstream if u is not None)  # verified: it made it
    assert any(g is not None and not np.any(g) for g in step.downstream)


@pytest.mark.parametrize("name", ZERO | NOT_FLAT)
def test_a_derivative_is_said_to_be_zero_only_where_the_jacobian_is(name):
    step = blamed(name)
    j = next(j for j, g in enumerate(step.downstream) if g is not None and not np.any(g))
    assert np.any(step.local[0][j]) == (name in NOT_FLAT)


def test_without_rules_no_reason_is_made_up(tmp_path):
    path = tmp_path / "trace.json"
    cgviz.trace(lambda x: x * [1.0, -1.0], 2.0).save(path)
    finding = only(cgviz.load(path))
    assert "handed back 0 for the upstream [1, 1]" in finding.message
    assert "Trace the function again" in finding.hint


def test_an_empty_upstream_is_not_the_one_that_is_told():
    tape = Tape()
    tape.op("y", "f", [tape.start("x", 1.0)], 1.0, kind="custom")
    step = Step(tape.ops[-1], [np.zeros(0), np.zeros(1), np.array([1.0, 0.0])], [np.zeros(())])
    assert reason(step, 0)[0] == "Its rule returned 0 for the upstream [1, 0]."
