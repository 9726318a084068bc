"""The chain rule as an object: what it holds and how sources are named."""

import numpy as np
import pytest
import tensorflow as tf
from programs import thrice

import cgviz


def test_the_rule_of_a_square_of_a_square_of_a_square():
    rule = cgviz.trace(thrice, 2.0).chain_rule()
    (path,) = rule.paths
    assert path.locals == (32.0, 8.0, 4.0)
    assert [op.name for op in path.ops] == ["y", "b", "a"]
    assert path.product == 1024.0
    assert rule.total == {"x": 1024.0}


def test_each_source_has_its_own_sum():
    v = tf.Variable(3.0, name="v")
    rule = cgviz.trace(lambda x: x * x * v, 2.0).chain_rule()
    assert {name: float(total) for name, total in rule.total.items()} == {"x": 12.0, "v": 4.0}
    assert [s.name for s in rule.sources] == ["x", "v"]
    assert [p.source for p in rule.paths] == ["x", "x", "v"]


def test_a_source_without_a_gradient_is_named():
    rule = cgviz.trace(lambda x, y: tf.round(x) * y, 2.0, 3.0).chain_rule()
    assert rule.unreached == ("x",)
    assert list(rule.total) == ["y"]


def test_a_recording_with_its_own_tape_has_a_chain_rule():
    x = tf.constant(3.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
    assert str(trace.chain_rule()).startswith("dy/dx = ∂y/∂x|1 + ∂y/∂x|2")


def test_a_trace_without_a_backward_pass_says_so():
    with cgviz.record() as trace:
        tf.square(2.0)
    with pytest.raises(ValueError, match="no backward pass"):
        trace.chain_rule()


def test_a_pass_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="`which` is 3"):
        cgviz.trace(thrice, 2.0).chain_rule(3)


def test_the_rule_of_the_second_pass_is_of_the_second_derivative():
    rule = cgviz.trace(lambda x: x**3, 2.0, order=2).chain_rule(1)
    np.testing.assert_allclose(rule.total["x"], 12.0)
