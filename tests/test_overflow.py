"""The first op that made NaN or infinity in the forward pass is named, with its numbers."""

import numpy as np
import pytest
import tensorflow as tf
from troubles import found, only

import cgviz


@tf.custom_gradient
def documented(x):
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


def test_the_documented_log1pexp_overflows_in_its_body_though_the_gradient_is_fine():
    trace = cgviz.trace(documented, 100.0)
    assert trace.gradients[0] == 1.0
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("inf", "Exp")
    assert "`x` = 100" in finding.message
    assert "88.72" in finding.message


BAD = {
    "log of a negative number": (
        tf.math.log,
        [-1.0, 1.0],
        [("nan", "Log")],
        "argument above 0",
    ),
    "division by 0": (lambda x: x / 0.0, [1.0], [("inf", "RealDiv")], "by 0"),
    "infinity minus infinity": (
        lambda x: tf.exp(x) - tf.exp(x),
        [100.0],
        [("nan", "Sub"), ("inf", "Exp")],
        "∞ − ∞",
    ),
    "float16 overflow": (
        lambda x: tf.cast(x, tf.float16) * 2.0,
        [1e5],
        [("inf", "Cast")],
        "65504",
    ),
    "a sum that overflows": (lambda x: x * 1e30, [1e30], [("inf", "Mul")], "largest float32"),
    "NaN handed in": (lambda x: x * 2.0, [np.nan, 1.0], [("nan", "Input")], "itself holds NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_first_op_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BAD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


def test_nan_everywhere_is_one_finding_per_place():
    trace = cgviz.trace(lambda x, y: x * y, [np.nan] * 3, [np.nan] * 3)
    assert {f.name for f in trace.diagnose() if f.op.kind == "input"} == {"x", "y"}


def test_a_forward_pass_alone_is_looked_at_too():
    with cgviz.record() as trace:
        tf.exp(tf.constant(100.0)) * 2.0
    assert found(trace) == [("inf", "Exp")]
