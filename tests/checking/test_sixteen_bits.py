"""Functions of 16 bits: what is right is never called wrong, and what is far off is."""

import re

import numpy as np
import pytest
import tensorflow as tf

import cgviz

HALVES = ["float16", "bfloat16"]
FUNCTIONS = {
    "tanh": (tf.tanh, lambda x: 1.0 - tf.tanh(x) ** 2),
    "a third": (lambda x: x * 0.3, lambda x: 0.3 * tf.ones_like(x)),
    "relu": (tf.nn.relu, lambda x: tf.cast(x > 0, x.dtype)),
    "exp": (tf.exp, tf.exp),
    "cube": (lambda x: x**3, lambda x: 3 * x * x),
}
POINTS = [[0.7, 0.3], [1.1, -0.4, 2.3], [0.05], [1.0, 2.0, 3.0]]


def ruled(name, factor=1.0):
    """A function with a rule; the true gradient times the factor."""
    value, local = FUNCTIONS[name]
    return tf.custom_gradient(
        lambda x: (value(x), lambda dy: dy * local(x) * tf.cast(factor, x.dtype))
    )


def said(report):
    return [finding.message for finding in report.findings]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_right_rule_is_right_whether_its_input_has_16_bits_or_is_cast(name, dtype):
    rule = ruled(name)
    for point in POINTS:
        assert said(cgviz.check(rule, tf.constant(point, dtype), where=())) == []
        assert said(cgviz.check(lambda x: rule(tf.cast(x, dtype)), point, where=())) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_sign_is_seen_behind_a_cast_to_float16(name):
    rule = ruled(name, -1.0)
    report = cgviz.check(lambda x: rule(tf.cast(x, "float16")), [1.0, 2.0], where=())
    assert {f.rule for f in report.findings} == {"value"}


def test_what_16_bits_cannot_tell_is_not_judged():
    report = cgviz.check(lambda x: tf.tanh(tf.cast(x, "bfloat16")), [0.7, 0.3], order=2, where=())
    states = {row.rule: row for row in report.rows}
    for rule in ("kink", "second order"):
        assert states[rule].state == "skip"
        assert states[rule].reason == "not judged: bfloat16 has too few digits"


def test_how_many_are_too_uncertain_to_judge_is_said():
    rule = ruled("cube")  # only the zeros can be judged one by one
    report = cgviz.check(lambda x: rule(tf.cast(x, "bfloat16")), [1.0, 2.0, 3.0], where=())
    value = next(row for row in report.rows if row.rule == "value")
    assert "6 derivatives agree" in value.reason
    assert "3 more are too uncertain to judge" in value.reason


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_layers_of_mixed_precision_are_right(activation, policy):
    keras = tf.keras
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)
    layer = keras.layers.Dense(3, activation, dtype=policy)
    layer(x)
    assert said(cgviz.check(layer, x, where=())) == []


def test_a_variable_that_is_cast_up_has_its_own_few_digits_in_the_second_derivative():
    v = tf.Variable(3.0, name="v")
    for f in (lambda a: a * tf.cast(v, a.dtype) ** 2, lambda a: tf.sin(a * tf.cast(v, a.dtype))):
        assert said(cgviz.check(f, 2.0, order=2, where=())) == []

    @tf.custom_gradient
    def product(a, b):
        return a * b, lambda dy: (dy * b.numpy(), dy * a)

    wrong = cgviz.check(lambda a: product(a, tf.cast(v, a.dtype)), 2.0, order=2, where=())
    assert [f.rule for f in wrong.findings if f.level == "error"] == ["second order"]


def test_a_variable_or_an_argument_that_is_cast_down_and_up_is_right():
    w = tf.Variable(2.0, name="w")

    def rounded(x, w):
        return tf.tanh(x * tf.cast(tf.cast(w, "bfloat16"), "float32"))

    assert said(cgviz.check(lambda x: rounded(x, w), 0.2, where=())) == []
    assert said(cgviz.check(rounded, 0.2, 2.0, where=())) == []


def test_a_cast_in_the_body_of_a_custom_gradient_makes_its_value_coarse():
    @tf.custom_gradient
    def square(x):
        y = tf.cast(tf.square(tf.cast(x, "float16")), "float32")
        return y, lambda dy: dy * 2.0 * x

    assert said(cgviz.check(square, [0.7, 2.1], where=())) == []


def test_a_variable_of_16_bits_keeps_them_where_the_rest_is_wider():
    h = tf.Variable([1.0, 2.0, 3.0], dtype="bfloat16", name="h")

    @tf.custom_gradient
    def product(x):
        def grad(dy, variables):
            return dy * tf.cast(h, x.dtype), [tf.cast(dy * x, h.dtype)]

        return x * tf.cast(h, x.dtype), grad

    assert said(cgviz.check(product, [0.7, -1.3, 2.1], where=())) == []


@pytest.mark.parametrize("dtype", HALVES)
def test_a_last_bit_is_no_difference_between_a_graph_and_eager_mode(dtype):
    for point in ([-1.296875], [-1.0, -0.7, -1.6, -0.5]):
        x = tf.constant(point, dtype)
        assert said(cgviz.check(lambda x: 0.3 * x**3 - 1.7 * x, x, where="graph")) == []
        assert said(cgviz.check(lambda x: x - tf.reduce_mean(x), x, where="graph")) == []


def test_a_gradient_near_the_largest_number_is_finite():
    assert not cgviz.check(lambda x: 50_000 * x, tf.ones(20, tf.float16), where=()).findings


def test_how_small_an_error_could_be_missed_is_said():
    report = cgviz.check(lambda x: tf.tanh(tf.cast(x, "float16")), [0.7, -1.3], where=())
    value = next(row for row in report.rows if row.rule == "value")
    assert re.search(
        r"in float16; .*errors below \d+% of their mean could be missed",
        value.reason,
    )


@pytest.mark.parametrize(
    ("dtype", "point"), [("float16", [8.0, 0, -1]), ("bfloat16", [6.0, 0, -1])]
)
def test_digits_that_cancel_in_a_rule_do_not_make_it_nonlinear(dtype, point):
    @tf.custom_gradient
    def softmax(z):
        p = tf.nn.softmax(z)
        return p, lambda dy: p * (dy - tf.reduce_sum(dy * p, -1, keepdims=True))

    assert said(cgviz.check(lambda x: softmax(tf.cast(x, dtype)), point, where=())) == []


@pytest.mark.parametrize(
    "rule", [tf.sign, tf.square, lambda u: tf.clip_by_value(u, -0.6, 0.6), lambda u: tf.abs(u) * u]
)
@pytest.mark.parametrize("dtype", HALVES)
def test_a_rule_that_is_not_linear_is_told_in_16_bits(rule, dtype):
    f = tf.custom_gradient(lambda x: (x * 1.0, rule))
    report = cgviz.check(lambda x: f(tf.cast(x, dtype)), [0.7, 2.1], where=())
    assert "upstream" in {finding.rule for finding in report.findings}


def test_the_rounding_of_float16_is_no_difference_between_a_graph_and_eager_mode():
    @tf.custom_gradient
    def normed(x):
        r = tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + tf.cast(1e-3, x.dtype))
        return x * r, lambda dy: dy * r - x * r**3 * tf.reduce_mean(dy * x, -1, keepdims=True)

    def loss(x):
        y = normed(tf.cast(tf.sin(x), "float16"))
        return tf.reduce_sum(tf.square(tf.cast(y, "float32")))

    point = [[0.6685836, -2.1220169, -1.9370648], [2.4206455, 3.0271566, -2.1921499]]
    assert said(cgviz.check(loss, point)) == []


def test_a_rule_that_is_another_in_a_graph_is_told_in_float16():
    def rule(x):
        sign = 1.0 if tf.executing_eagerly() else -1.0
        return x * x, lambda dy: dy * 2.0 * x * sign

    square = tf.custom_gradient(rule)
    report = cgviz.check(lambda x: square(tf.cast(x, "float16")), [1.5, -0.7])
    assert "graph" in {finding.rule for finding in report.findings}


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (0.7, False)])
def test_a_factor_that_rounding_hides_in_each_derivative_is_seen_in_all_together(factor, ok):
    @tf.custom_gradient
    def product(x, w):
        x, w = (tf.cast(each, "bfloat16") for each in (x, w))

        def grad(dy):
            dy = tf.cast(dy, x.dtype)
            return tf.cast(dy @ tf.transpose(w), "float32") * factor, tf.transpose(x) @ dy

        return tf.cast(x @ w, "float32"), lambda dy: [tf.cast(g, "float32") for g in grad(dy)]

    random = np.random.default_rng(2)
    args = (random.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3, 5)))
    report = cgviz.check(product, *args, where=())
    assert report.ok == ok
    for finding in report.findings:
        assert "/ d x[" in finding.message
        assert finding.hint.startswith("Yours is 0.7 times the true one everywhere.")


def test_a_slope_that_rounding_blurs_is_written_with_its_error_and_not_called_0():
    @tf.custom_gradient
    def mish(x):  # its slope is 0.0404 at -1.125
        t = tf.tanh(tf.nn.softplus(x))
        return x * t, lambda dy: dy * (t + x * (1.0 - t * t))  # the sigmoid is missing

    (found,) = cgviz.check(lambda x: mish(tf.cast(x, "float16")), [-1.125], where=()).findings
    true, error = re.search(r"true (\S+) ± (\S+), by", found.message).groups()
    assert abs(float(true) - 0.0404) <= float(error) < 0.1
    assert not found.hint.startswith("The true derivative is 0 here")


def test_a_kink_has_both_its_slopes_named_in_16_bits_too():
    steep = tf.custom_gradient(lambda x: (tf.nn.relu(x), lambda dy: 1.4 * dy))
    (found,) = cgviz.check(lambda x: steep(tf.cast(x, "bfloat16")), [0.0], where=()).findings
    assert "true between 0 and 1, by" in found.message
    assert "times the true one" not in found.hint


def test_a_slope_of_0_is_called_0_in_16_bits_too():
    straight = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy))
    (found,) = cgviz.check(lambda x: straight(tf.cast(x, "float16")), [0.3, 1.7]).findings
    assert "yours 1, true 0, by" in found.message
    assert found.hint.startswith("The true derivative is 0 here")
