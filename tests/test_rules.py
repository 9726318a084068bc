"""Each rule that single runs judge, on the smallest case that breaks it."""

import numpy as np
import tensorflow as tf

import cgviz


def test_growth_of_the_registry_is_a_warning():
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * x * dy))
    report = cgviz.check(lambda x: tf.function(lambda x: square(x))(x), 3.0)
    assert report.ok
    assert "registry" in [f.rule for f in report.findings]
    once = tf.function(lambda x: square(x))
    assert not cgviz.check(once, 3.0).findings


def test_a_shape_that_was_broadcast_is_named():
    shift = tf.custom_gradient(lambda x, b: (x + b, lambda dy: (dy, dy)))
    report = cgviz.check(lambda x, b: shift(x, b), np.ones((2, 3), np.float32), [1.0, 2.0, 3.0])
    found = next(each for each in report.findings if each.rule == "shape")
    assert "input 1" in found.message
    assert "has the shape [3], and its gradient [2×3]" in found.message


def test_a_value_that_is_infinite_by_nature_is_a_warning():
    report = cgviz.check(lambda x: 1.0 / x, 0.0)
    assert ("finite forward", "warning") in [(f.rule, f.level) for f in report.findings]


def test_a_wrong_shape_for_a_variable_is_said_by_its_name():
    w, b = tf.Variable([1.0, 2.0], name="w"), tf.Variable([3.0, 4.0], name="b")

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            return tf.reduce_sum(dy * w), [tf.stack([dy, dy]) for _ in variables]

        return w * x + b, grad

    found = next(each for each in cgviz.check(f, 3.0).findings if each.rule == "shape")
    assert found.message.startswith("`b` of the rule of `f`")
