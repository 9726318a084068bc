"""The first rule that made NaN or infinity in a backward pass is named, with its numbers."""

import numpy as np
import pytest
import tensorflow as tf
from troubles import found, only

import cgviz
from cgviz.diagnosing import nonfinite


@tf.custom_gradient
def makes_nan(x):
    return x * 1.0, lambda dy: dy * (x - x) / (x - x)


BAD = {
    "log of 0 in the branch not taken": (
        lambda x: tf.where(x > 0.0, tf.math.log(x), 0.0),
        [0.0, 1.0],
        [("nan", "Log")],
        "tf.where did not take this branch",
    ),
    "the branch not taken, further up": (
        lambda x: tf.where(x > 0.0, 1.0 - 3.0 * tf.math.log(x), 0.0),
        [0.0, 1.0],
        [("nan", "Log")],
        "tf.where did not take this branch",
    ),
    "sin(x)/x at 0": (
        lambda x: tf.where(x == 0.0, 1.0, tf.sin(x) / x),
        [0.0, 1.0],
        [("nan", "RealDiv")],
        "tf.where did not take this branch",
    ),
    "a factor 0 and no tf.where": (
        lambda x: x**0.5 * [0.0, 1.0],
        [0.0, 1.0],
        [("nan", "Pow")],
        "and upstream 0. The derivative is infinite there, and 0 × ∞ is NaN",
    ),
    "a factor 0 under a tf.where that took the branch": (
        lambda x: tf.where(x >= 0.0, x**0.5 * [0.0, 1.0], 0.0),
        [0.0, 1.0],
        [("nan", "Pow")],
        "The derivative is infinite there, and 0 × ∞ is NaN",
    ),
    "sqrt at 0": (tf.sqrt, [0.0, 1.0], [("inf", "Sqrt")], "1/(2√x) is infinite at 0"),
    "a norm at 0": (tf.norm, [0.0, 0.0], [("inf", "Sqrt")], "infinite at 0"),
    "a power below 1": (lambda x: x**0.5, [4.0, 0.0], [("inf", "Pow")], "exponent below 1"),
    "an angle at the origin": (lambda x: tf.atan2(x, x), [0.0], [("nan", "Atan2")], "not defined"),
    "float16": (
        lambda x: tf.cast(x * np.float16(300.0), tf.float32) * 300.0,
        np.float16([0.0, 0.1]),
        [("inf", "Mul")],
        "and upstream 300. Upstream times its derivative is too large for float16",
    ),
    "a rule that makes NaN": (makes_nan, [2.0], [("nan", "makes_nan")], "rule itself"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_first_rule_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BAD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


@pytest.mark.parametrize("type_", nonfinite._INFINITE)
def test_a_derivative_said_to_be_infinite_at_a_point_is_infinite_there_only(type_):
    place, points, _ = nonfinite._INFINITE[type_]
    raw = getattr(tf.raw_ops, type_)
    names = ("x", "y")[: 2 if type_ in ("RealDiv", "Pow") else 1]
    for point in points:
        x = tf.constant([point, point + (0.5 if point < 1 or type_ == "Acosh" else -0.5)])
        given = {name: tf.fill((2,), 0.5) for name in names} | {names[place]: x}
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = raw(**given)
        assert list(np.isfinite(tape.gradient(y, x))) == [False, True]


def test_an_entry_is_told_where_there_are_several():
    finding = only(cgviz.trace(tf.sqrt, [[1.0, 4.0], [0.0, 9.0]]))
    assert "entry [1, 0] from `x` = 0 and upstream 1" in finding.message


def test_of_a_matrix_product_no_single_numbers_are_told():
    large = np.float32([[1e30, 0.0], [0.0, 1e30]])
    finding = only(cgviz.trace(lambda a: a @ large, np.eye(2, dtype=np.float32), upstream=large))
    assert finding.op.type == "MatMul"
    assert "entry [0, 0]. Upstream times its derivative is too large" in finding.message


def test_an_infinite_upstream_is_named_as_such():
    finding = only(cgviz.trace(tf.sin, 1.0, upstream=np.inf))
    assert (finding.what, finding.op) == ("inf", None)


def test_finite_ways_whose_sum_is_infinite_are_named():
    def f(x):
        a = 2.0 * x
        return a * 3e38 + a * 3e38

    trace = cgviz.trace(f, 0.1)
    assert np.isinf(trace.gradients[0])
    finding = only(trace)
    assert (finding.what, finding.op) == ("inf", None)
    assert "the sum of what the ways through `a` hand back is too large" in finding.message


def test_a_source_that_an_op_uses_twice_is_named_once():
    finding = cgviz.trace(lambda x: x / x, 0.0).diagnose()[1]
    assert finding.sources == ("x",)


def test_sources_behind_one_rule_share_a_finding_and_healthy_ones_have_none():
    trace = cgviz.trace(lambda x, y, z: tf.sqrt(x - y) + z, 1.0, 1.0, 1.0)
    assert only(trace).sources == ("x", "y")


def test_each_of_two_rules_has_a_finding():
    trace = cgviz.trace(lambda x: tf.sqrt(x) + tf.asin(x + 1.0), 0.0)
    assert sorted(found(trace)) == [("inf", "Asin"), ("inf", "Sqrt")]


def test_the_second_order_is_looked_at_too():
    trace = cgviz.trace(lambda x: x**1.5, 0.0, order=2)
    assert np.isfinite(trace.passes[0].gradients[0])
    assert found(trace, 1) == [("inf", "Pow")]
