"""A wrong derivative is explained by what it looks like and by what is in its way."""

import re

import pytest
import tensorflow as tf

import cgviz


def hint(rule, *args, forward=tf.sin):
    f = tf.custom_gradient(lambda *x: (forward(*x), lambda dy: rule(dy, *x)))
    found = cgviz.check(lambda *x: f(*x), *args).findings
    return next(each.hint for each in found if each.rule == "value")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda dy, x: -dy * tf.cos(x), "sign"),
        (lambda dy, x: 3.0 * dy * tf.cos(x), "3 times"),
        (lambda dy, x: 0.0 * dy, "0 everywhere"),
        (lambda dy, x: dy, "local derivative is missing"),
        (lambda dy, x: dy * tf.cos(x)[::-1], "wrong order"),
    ],
)
def test_wrong_numbers_are_recognized_by_their_pattern(rule, words):
    assert words in hint(rule, [0.3, 1.1])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda dy, x: 8.0 * dy * tf.cos(x), "Yours is 8 times the true one."),
        (lambda dy, x: 0.0 * dy, "Yours is 0:"),
    ],
)
def test_of_one_number_nothing_is_said_to_hold_everywhere(rule, words):
    assert words in hint(rule, 0.3)


def test_a_factor_of_one_is_no_hint():
    slopes = tf.constant([0.01, 1.0])
    said = hint(lambda dy, x: dy * tf.cast(slopes, dy.dtype), [-1.0, 1.0], forward=tf.nn.relu)
    assert said.startswith("Work the rule out by hand")
    assert hint(lambda dy, x: 1.002 * dy * tf.cos(x), 0.3).startswith("Work the rule out")


def test_a_transposed_jacobian_is_recognized():
    matrix = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    said = hint(
        lambda dy, x: tf.linalg.matvec(matrix, dy),
        [0.3, 1.1],
        forward=lambda x: tf.linalg.matvec(matrix, x),
    )
    assert "transposed" in said


def test_numbers_alike_in_four_digits_are_written_with_more():
    f = tf.custom_gradient(lambda x: (2.0 * x, lambda dy: 2.0003 * dy))
    assert "yours 2.0003, true 2" in cgviz.check(f, 2.0).findings[0].message


def test_stop_gradient_is_named_where_it_blocks():
    report = cgviz.check(lambda x: tf.sin(tf.stop_gradient(x)), 0.5)
    found = next(f for f in report.findings if f.rule == "none")
    assert "`StopGradient`" in found.message


def test_an_op_without_a_gradient_is_named():
    report = cgviz.check(lambda x: tf.math.zeta(x, tf.constant(2.0, x.dtype)), 3.0)
    assert "`Zeta`" in next(f for f in report.findings if f.rule == "none").message


@tf.custom_gradient
def right(x):
    def grad(dy):
        return dy * tf.cos(x)

    return tf.sin(x), grad


@tf.custom_gradient
def doubled(x):
    def grad(dy):
        return 2.0 * dy * tf.cos(x)

    return tf.sin(x), grad


@tf.custom_gradient
def ignoring(x):
    def grad(dy):
        return tf.cos(x)

    return tf.sin(x), grad


@pytest.mark.parametrize("f", [lambda x: right(doubled(x)), lambda x: doubled(x) * right(x)])
def test_of_two_rules_the_wrong_one_is_named(f):
    assert re.search(
        r"by the rule of `doubled` \(line \d+\)", cgviz.check(f, 0.5).findings[0].message
    )


def test_of_two_wrong_rules_none_is_named():
    other = tf.custom_gradient(lambda x: (tf.exp(x), lambda dy: 3.0 * dy * tf.exp(x)))
    found = cgviz.check(lambda x: other(doubled(x)), 0.5).findings[0]
    assert found.message.endswith("by a rule in f.")


def test_of_two_rules_the_one_that_ignores_upstream_is_named():
    found = cgviz.check(lambda x: right(ignoring(x)), 0.5).findings[0]
    assert found.rule == "upstream"
    assert found.message.startswith("the rule of `ignoring` (line")
