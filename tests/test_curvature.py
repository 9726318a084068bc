"""The second order is judged alone, in company, in a graph, and in f's own number type."""

import gallery
import numpy as np
import tensorflow as tf

import cgviz


def second_order(f, *args, **how):
    report = cgviz.check(f, *args, **how)
    return [(each.level, each.message) for each in report.findings if each.rule == "second order"]


@tf.custom_gradient
def naive(x):
    """x³; the rule of its rule answers for upstream, and takes x from outside."""

    @tf.custom_gradient
    def grad(upstream):
        return upstream * 3.0 * x**2, lambda upstream2: upstream2 * 3.0 * x**2

    return x**3, grad


@tf.custom_gradient
def nested(x):
    """x³; the rule of its rule answers for upstream and for x."""

    @tf.custom_gradient
    def grad(upstream, x):
        def second(upstream2):
            return upstream2 * 3.0 * x**2, upstream2 * upstream * 6.0 * x

        return upstream * 3.0 * x**2, second

    return x**3, lambda upstream: grad(upstream, x)


def test_the_second_order_is_a_warning_unless_it_is_asked_for():
    def wrong(x):
        return tf.custom_gradient(
            lambda x: (tf.sin(x), lambda dy: dy * tf.stop_gradient(tf.cos(x)))
        )(x)

    for order, level in ((1, "warning"), (2, "error")):
        (found,) = cgviz.check(wrong, [0.5, 1.0], order=order).findings
        assert (found.rule, found.level) == ("second order", level)


def test_a_rule_of_a_rule_that_is_wrong_in_company_only_is_caught():
    ((level, message),) = second_order(naive, 3.0, order=2)
    assert level == "error"
    assert message == (
        "right alone, and wrong where upstream depends on the input: with upstream = in, "
        "d (upstream · d out / d in) / d in: yours 27, true 81."
    )
    assert second_order(naive, 3.0)[0][0] == "warning"
    assert "upstream = a sum of the inputs" in second_order(naive, [3.0, 1.0], order=2)[0][1]


def test_a_rule_of_a_rule_that_takes_its_input_is_right():
    assert not cgviz.check(nested, 3.0, order=2).findings
    assert not cgviz.check(nested, [3.0, -1.0], order=2).findings


def test_a_second_derivative_that_is_nan_in_the_dtype_given_is_said():
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.nn.softplus(x), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

    ((level, message),) = second_order(log1pexp, 100.0, order=2)
    assert level == "error"
    assert message == (
        "differentiated twice, f gives NaN for in, and a finite number in float64; "
        "its gradient is finite there."
    )
    assert second_order(log1pexp, 100.0)[0][0] == "warning"
    assert not second_order(log1pexp, 1.0, order=2)


def test_where_the_value_is_infinite_already_the_second_order_is_news_only_if_asked_for():
    f, args = gallery.documented_log1pexp(np.float32)
    assert not second_order(f, *args)
    assert second_order(f, *args, order=2)[0][0] == "error"


def test_a_second_derivative_that_is_nan_in_every_dtype_is_said():
    def f(x):
        return tf.where(x > 0.0, x, 1.0) * tf.where(x > 0.0, tf.sqrt(x) ** 3, 0.0 * x)

    ((level, message),) = second_order(f, np.float64(0.0), order=2)
    assert level == "error"
    assert "f gives" in message


def test_another_second_derivative_in_a_graph_is_caught():
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            cos = tf.cos(x)
            return dy * (cos if tf.executing_eagerly() else tf.stop_gradient(cos))

        return tf.sin(x), grad

    ((level, message),) = second_order(f, 0.5, order=2)
    assert level == "error"
    assert "inside a tf.function" in message
    assert not second_order(f, 0.5, order=2, where="eager")
