"""A gradient that vanishes or explodes is told from one that is only small or large."""

import math
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape
from troubles import found, only

import cgviz
from cgviz.diagnosing import sizes
from cgviz.diagnosing.pass_graph import PassGraph
from cgviz.graph import norm, wide_norm


@pytest.mark.parametrize(
    ("arrays", "norm", "typical"),
    [
        ([], 0.0, 0.0),
        ([np.zeros((0, 3))], 0.0, 0.0),
        ([np.zeros(4)], 0.0, 0.0),
        ([np.array(-2.0)], 2.0, 2.0),
        ([np.array([3, 4])], 5.0, 5 / math.sqrt(2)),
        ([np.array([3.0]), np.zeros((0,)), np.array([[4.0]])], 5.0, 5 / math.sqrt(2)),
        ([np.array([3 + 4j, 0])], 5.0, 5 / math.sqrt(2)),
        ([np.full(4, 6e4, np.float16)], 12e4, 6e4),  # more than a float16 holds
    ],
)
def test_sizes_are_those_of_the_formula(arrays, norm, typical):
    assert math.isclose(wide_norm(arrays), norm, rel_tol=1e-3)
    assert math.isclose(sizes.typical(arrays), typical, rel_tol=1e-3)


def test_a_small_gradient_is_not_zero_though_its_squares_are_in_float32():
    small = np.full(4, 1e-30, np.float32)
    assert math.isclose(norm(small), 2e-30, rel_tol=1e-3)


def repeated(step, times):
    def f(x):
        for _ in range(times):
            x = step(x)
        return x

    return f


def test_a_chain_of_sigmoids_vanishes_and_its_line_is_named():
    finding = only(cgviz.trace(repeated(tf.sigmoid, 20), 1.0))
    assert (finding.what, finding.op.type) == ("vanishing", "Sigmoid")
    assert "20 times" in finding.message
    assert "9.1e−14" in finding.message


def test_a_product_of_large_factors_explodes():
    finding = only(cgviz.trace(repeated(lambda x: 3.0 * x, 30), 1.0))
    assert (finding.what, finding.op.type) == ("exploding", "Mul")
    assert "2.1e14" in finding.message


def test_a_small_derivative_of_one_op_or_a_small_unit_is_no_trouble():
    assert found(cgviz.trace(lambda x: tf.sigmoid(x), -20.0)) == []  # its value is as small
    assert found(cgviz.trace(lambda x: 1e-9 * x, 1.0)) == []


def test_the_thresholds_hold_on_both_sides():
    fall = repeated(lambda x: 0.1 * x, 5)
    assert found(cgviz.trace(fall, 1.0)) == []
    assert found(cgviz.trace(repeated(lambda x: 0.1 * x, 7), 1.0)) == [("vanishing", "Mul")]
    assert found(cgviz.trace(repeated(lambda x: 10.0 * x, 5), 1.0)) == []
    assert found(cgviz.trace(repeated(lambda x: 10.0 * x, 7), 1.0)) == [("exploding", "Mul")]


def test_a_deep_network_of_sigmoids_names_all_layers_in_one_finding():
    rng = np.random.default_rng(0)
    weights = [tf.Variable(0.1 * rng.normal(size=(4, 4)), dtype=tf.float32) for _ in range(12)]

    def network(x):
        for w in weights:
            x = tf.sigmoid(x @ w)
        return tf.reduce_sum(x)

    findings = list(cgviz.trace(network, np.ones((2, 4), np.float32)).diagnose())
    assert [f.what for f in findings] == ["vanishing"]
    assert len(findings[0].sources) > 2


def test_a_line_that_did_the_opposite_is_not_among_the_worst():
    def rises(x):
        for _ in range(30):
            x = 3.0 * x
        return x / 8.0

    def falls(x):
        for _ in range(30):
            x = 0.3 * x
        return x * 8.0

    up, down = only(cgviz.trace(rises, 1.0)), only(cgviz.trace(falls, 1.0))
    assert (up.what, down.what) == ("exploding", "vanishing")
    assert "8.0" not in up.message + down.message
    assert "`x = 3.0 * x`" in up.message
    assert "`x = 0.3 * x`" in down.message


def test_the_three_worst_lines_are_told_the_worst_first():
    def f(x):
        x = x * 1e-2
        x = x * 1e-3
        x = x * 1e-1
        return x * 1e-4

    message = only(cgviz.trace(f, 1.0)).message
    first, second, third = (message.index(factor) for factor in ("1e-4", "1e-3", "1e-2"))
    assert first < second < third
    assert "1e-1" not in message


def test_a_small_upstream_alone_is_no_fall():
    assert found(cgviz.trace(lambda x: tf.sin(x), 1.0, upstream=1e-20)) == []
    assert found(cgviz.trace(lambda x: tf.sin(x), 1.0, upstream=1e20)) == []


def test_a_source_of_a_target_with_a_small_upstream_beside_a_large_one_is_healthy():
    trace = cgviz.trace(lambda x, z: (x * 1.0, z * 1.0), 1.0, 1e9, upstream=(1e-9, 1.0))
    assert found(trace) == []


def test_a_sum_and_a_mean_over_many_are_neither_rise_nor_fall():
    many = np.ones(2_000_000, np.float32)
    assert found(cgviz.trace(lambda x: tf.reduce_sum(x * many), 1.0)) == []
    assert found(cgviz.trace(lambda x: tf.reduce_mean(x) * 3.0, many)) == []


def test_a_second_order_is_left_alone():
    trace = cgviz.trace(lambda x: x**9 * 1e-9, 0.1, order=2)
    first, second = (sizes.scale(PassGraph(trace, each)) for each in trace.passes)
    assert trace.passes[1].gradients[0] < 1e-14
    assert [each.what for each in first] == ["vanishing"]
    assert second == []


@pytest.mark.parametrize("upstream", [0.0, np.inf, np.nan])
def test_an_upstream_that_is_zero_or_not_finite_has_no_size_to_compare_with(upstream):
    trace = cgviz.trace(repeated(lambda x: 0.1 * x, 8), 1.0, upstream=upstream)
    assert sizes.scale(PassGraph(trace, trace.passes[0])) == []


def test_gradients_that_are_none_zero_or_empty_are_for_others_to_explain():
    trace = cgviz.trace(
        lambda x, y, z: tf.round(x) + tf.sign(y) + tf.reduce_sum(z), 1.0, 1.0, np.float32([])
    )
    assert sizes.scale(PassGraph(trace, trace.passes[0])) == []


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_other_types_vanish_too(dtype):
    trace = cgviz.trace(repeated(lambda x: x * dtype(0.1), 8), dtype(1.0))
    assert found(trace) == [("vanishing", "Mul")]


def test_a_gradient_whose_square_is_below_every_number_vanishes_too():
    trace = cgviz.trace(repeated(lambda x: x * np.float64(1e-90), 3), np.float64(1.0))
    assert found(trace) == [("vanishing", "Mul")]


def test_the_way_of_the_largest_contribution_is_followed():
    tape = Tape()
    x = tape.start("x", 1.0)
    small = tape.op("small", "Mul", [x], 1.0, back=[0.1])
    large = tape.op("large", "Mul", [x], 1.0, back=[-8.0], upstream=2.0)
    y = tape.op("y", "AddV2", [small, large], 1.0, back=[1.0, 2.0])
    trace = tape.trace(y, [x])
    graph = PassGraph(trace, trace.passes[0])
    onward = partial(sizes.largest, graph, wide_norm)
    taken = [(each.step.op.name, each.size) for each in sizes.path(onward, x)]
    assert taken == [("large", 4.0), ("y", 2.0)]
    assert sizes.path(onward, y) == []


@tf.custom_gradient
def quantized(x, scale):
    def grad(dy):
        return dy, dy * (tf.round(x / scale) - x / scale)  # the sum over x's axes is missing

    return scale * tf.round(x / scale), grad


def test_a_gradient_of_another_shape_than_its_input_is_an_error():
    x = tf.constant([[0.3, -1.2, 0.7]])
    report = cgviz.trace(lambda x, s: tf.exp(quantized(x, s * 2.0)), x, 0.2).diagnose()
    (finding,) = report
    assert (report.ok, finding.what, finding.op.type) == (False, "shape", "quantized")
    assert "has the shape [], but its gradient has [1×3], by the rule of" in finding.message
    assert "def grad(dy):" in finding.message
    assert "tf.reduce_sum over the axes" in finding.hint
    assert finding.hint == cgviz.check(quantized, x, 0.2).findings[0].hint


def test_a_training_that_a_gradient_of_another_shape_ends_is_told_its_rule():
    x, scale = tf.constant([0.3, -1.2, 0.7]), tf.Variable(0.2, name="scale")

    def step(rate):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(quantized(x, scale) ** 2)
        gradient = tape.gradient(loss, scale)
        scale.assign_sub(gradient if rate is None else rate * tf.reduce_sum(gradient))

    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        cgviz.watch(lambda: step(None), 3)
    told = "`scale` has the shape [], but its gradient has [3], by the rule of `quantized`"
    assert told in "".join(raised.value.__notes__)
    assert told in str(cgviz.watch(lambda: step(0.0), 3).diagnose())
