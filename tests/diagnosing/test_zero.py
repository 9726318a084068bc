"""A gradient that is zero is followed to where zero began, and the reason has its numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape
from troubles import found, only

import cgviz
from cgviz.diagnosing import numbers
from cgviz.diagnosing.pass_graph import PassGraph
from cgviz.graph import Op, Step


def began(tape, target, *sources):
    """(what was blamed, whose gradient it is) of each finding."""
    trace = tape.trace(target, sources)
    return [(f.name, f.sources) for f in numbers.zero(PassGraph(trace, trace.passes[0]))]


def test_a_zero_upstream_is_named_as_such():
    assert (
        "upstream that the backward pass started with"
        in only(cgviz.trace(tf.sin, 1.0, upstream=0.0)).message
    )


def test_one_zero_upstream_of_two_leaves_the_other_alone():
    trace = cgviz.trace(lambda x, y: (tf.sin(x), tf.cos(y)), 1.0, 1.0, upstream=(0.0, 1.0))
    finding = only(trace)
    assert finding.sources == ("x",)
    assert "started with at `Sin` is 0" in finding.message


@pytest.mark.parametrize("rows", [1, 3])
def test_a_normalisation_over_one_entry_is_named(rows):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model, x = keras.Sequential(layers), tf.constant([[1.0, -2.0, 0.5], [2, 0, 1], [1, 1, 1]])
    model.build((None, 3))
    loss = lambda x: tf.reduce_mean((model(x, training=True) - 1.0) ** 2)  # noqa: E731
    found = [each.message for each in cgviz.trace(loss, x[:rows]).diagnose()]
    assert any("minus its mean over a single entry is always 0" in each for each in found) == (
        rows == 1
    )


def test_a_loop_of_steps_has_one_finding_about_a_normalisation_over_one_entry():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.BatchNormalization()])
    x = tf.constant([[1.0, -2.0, 0.5]])
    model(x)
    with cgviz.record() as trace:
        for _ in range(5):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - 1.0) ** 2)
            (kernel, *_), (g, *_) = model.weights, tape.gradient(loss, model.weights[:1])
            kernel.assign_sub(0.01 * g)
    assert "single entry" in only(trace).message


def test_a_sum_that_cancels_is_not_taken_for_a_normalisation_over_one_entry():
    finding = only(cgviz.trace(lambda x: tf.reduce_mean(x) - tf.reduce_sum(x - 3.0), [3.0]))
    assert "add up to 0" in finding.message


@pytest.mark.parametrize("layer", ["LayerNormalization", "BatchNormalization"])
def test_a_sum_of_normalised_values_is_said_never_to_change_and_not_to_vanish(layer):
    layer, x = getattr(keras.layers, layer)(), tf.random.stateless_normal((4, 8), (1, 2))
    layer.build(x.shape)
    report = cgviz.trace(lambda x: tf.reduce_sum(layer(2.0 * x, training=True)), x).diagnose()
    assert report.ok
    (note,) = (each for each in report.remarks if "x" in each.sources)
    assert "its mean subtracted" in note.message
    assert "A sum of normalised values never changes" in note.hint


def test_at_equal_eigenvalues_the_eigenvectors_are_not_called_flat():
    vectors = lambda a: tf.linalg.eigh(a)[1][0, 0]  # noqa: E731
    finding = only(cgviz.trace(vectors, tf.eye(3)))
    assert "have no derivative, and TensorFlow returns 0 in its place" in finding.message
    apart = only(cgviz.trace(vectors, tf.linalg.diag([1.0, 2.0, 3.0])))
    assert "no derivative" not in apart.message


def test_a_layer_is_not_said_to_have_weights_that_start_at_0_where_its_input_is_0():
    finding = only(cgviz.trace(lambda w: tf.matmul([[0.0, 0.0]], w), [[1.0], [2.0]]))
    assert "The other factor is 0" in finding.message
    assert "learn nothing" not in finding.hint


@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_a_softmax_over_one_entry_is_named_though_its_gradients_are_not_quite_0(classes, scale):
    draw = np.random.default_rng(7)
    x = tf.constant(draw.normal(size=(64, 3)) * scale, tf.float32)
    w = tf.Variable(draw.normal(size=(3, classes)) / scale, dtype=tf.float32, name="w")

    def loss(shift):
        return tf.reduce_mean(
            (tf.nn.softmax(x @ w + shift) - tf.cast(x[:, :1] > 0, tf.float32)) ** 2
        )

    found = [each.message for each in cgviz.trace(loss, np.zeros(classes, "f")).diagnose()]
    assert any("A softmax over one entry is always 1" in each for each in found) == (classes == 1)


def test_a_softmax_over_one_entry_is_named_where_its_gradient_is_0():
    finding = only(cgviz.trace(lambda z: tf.reduce_mean(tf.nn.softmax(z) ** 2), [[0.3], [0.2]]))
    assert "A softmax over one entry is always 1" in finding.message
    assert "Use a sigmoid" in finding.hint


def test_a_cross_entropy_over_one_entry_with_labels_of_0_and_1_is_not_said_to_be_flat():
    w, labels = tf.Variable([[1.0], [2.0]]), [[1.0], [0.0], [1.0]]
    x = tf.constant([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]])
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, x @ w))
        with tape.stop_recording():
            assert abs(tape.gradient(loss, w)[0, 0]) > 0.9
    assert not trace.diagnose()


def test_a_branch_that_dies_at_a_softmax_over_one_entry_is_a_warning_though_another_learns():
    w, v = tf.Variable([[1.0], [2.0]], name="w"), tf.Variable([[0.5], [1.0]], name="v")
    x = tf.constant([[1.0, 2.0], [3.0, -1.0]])
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.nn.softmax(tf.tanh(x @ w)) * (x @ v) - 1.0) ** 2)
        with tape.stop_recording():
            tape.gradient(loss, [w, v])
    finding = only(trace)
    assert (finding.level, finding.sources) == ("warning", ("w",))
    assert "A softmax over one entry" in finding.message


def test_ways_that_cancel_are_named():
    finding = only(cgviz.trace(lambda x: x - x, 2.0))
    assert "add up to 0" in finding.message


def test_a_bias_that_a_difference_of_scores_cancels_is_a_note_where_the_weights_learn():
    w, c = tf.Variable([[1.0], [2.0]], name="w"), tf.Variable(0.5, name="c")

    def ranked(better, worse):
        return tf.reduce_mean(tf.nn.softplus((worse @ w + c) - (better @ w + c)))

    report = cgviz.trace(ranked, tf.constant([[1.0, 2.0]]), tf.constant([[2.0, -1.0]])).diagnose()
    assert report.ok
    assert "the uses of `c` return add up to 0" in str((*report, *report.remarks))


def test_a_source_that_nothing_came_back_to_is_not_said_to_cancel():
    w, u, v = (tf.Variable(2.0, name=name) for name in "wuv")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            y = w * tf.stop_gradient(v)
        tape.gradient(y, [w, u, v], unconnected_gradients="zero")
    finding = only(trace)
    assert (finding.what, finding.sources) == ("zero", ("u", "v"))
    assert "exactly 0: no path that a tape followed leads from there" in finding.message
    assert "leave it out" in finding.hint


def test_what_cancels_at_a_minimum_is_said_to_be_perhaps_a_minimum():
    finding = only(cgviz.trace(lambda m: tf.reduce_mean(([1.0, 3.0] - m) ** 2), 2.0))
    assert "add up to 0" in finding.message
    assert "a minimum" in finding.hint


def test_ways_that_cancel_further_on_are_named_where_they_meet():
    def f(x):
        middle = 3.0 * x
        return tf.sin(middle) - tf.sin(middle)

    finding = only(cgviz.trace(f, 2.0))
    assert finding.op is None
    assert "the uses of `middle` return add up to 0" in finding.message


def test_a_target_that_cancels_its_own_upstream_is_named():
    with cgviz.record() as trace, tf.GradientTape() as tape:
        x = tf.constant(2.0)
        tape.watch(x)
        tape.gradient([x, -x], x)
    assert "add up to 0" in only(trace).message


def test_zero_is_followed_past_ops_that_only_hand_it_on():
    assert found(cgviz.trace(lambda x: tf.sign(tf.sin(x) * 3.0) * 2.0, 1.0)) == [("zero", "Sign")]


def test_each_of_two_ways_that_die_has_a_finding():
    trace = cgviz.trace(lambda x: tf.sign(x) + tf.nn.relu(-x), 1.0)
    assert sorted(found(trace)) == [("zero", "Relu"), ("zero", "Sign")]


def test_one_way_that_dies_beside_one_that_lives_is_healthy():
    assert found(cgviz.trace(lambda x: tf.sign(x) + tf.sin(x), 1.0)) == []


def test_sources_behind_one_op_share_a_finding():
    finding = only(cgviz.trace(lambda x, y: tf.sign(x * y), 1.0, 2.0))
    assert finding.sources == ("x", "y")
    assert "the gradient of `x` and `y` is exactly 0" in finding.message


def test_two_factors_that_are_both_zero_share_a_finding():
    finding = only(cgviz.trace(lambda x, y: x * y, 0.0, 0.0))
    assert finding.sources == ("x", "y")
    assert "The other factor is 0" in finding.message


def test_a_source_that_an_op_uses_twice_is_named_once():
    assert only(cgviz.trace(lambda x: x * x, 0.0)).sources == ("x",)


def test_one_op_can_be_zero_for_two_reasons():
    trace = cgviz.trace(lambda x, y: tf.reduce_sum(x * y), [1.0, -1.0], 0.0)
    assert [each.sources for each in trace.diagnose()] == [("x",), ("y",)]


def test_a_variable_read_twice_is_one_source():
    v = tf.Variable(2.0, name="v")
    with cgviz.record() as trace, tf.GradientTape() as tape:
        tape.gradient(v * 3.0 - v * 3.0, v)
    finding = only(trace)
    assert finding.sources == ("v",)
    assert "the uses of `v` return add up to 0" in finding.message


def test_a_single_zero_among_others_is_no_finding():
    assert found(cgviz.trace(lambda x: x * [0.0, 1.0], [1.0, 1.0])) == []
    assert found(cgviz.trace(lambda x: x * [0.0, 1e-30], [1.0, 1.0])) == []


def test_an_empty_gradient_is_not_zero():
    tape = Tape()
    x = tape.start("x", np.zeros((0, 3)))
    y = tape.op("y", "Sign", [x], np.zeros((0, 3)), back=[np.zeros((0, 3))])
    assert began(tape, y, x) == []


def test_a_second_order_that_is_zero_is_right():
    trace = cgviz.trace(tf.nn.relu, 2.0, order=2)
    assert not np.any(trace.passes[1].gradients[0])
    assert trace.diagnose(1).ok


def test_a_diamond_that_dies_at_its_far_end_is_named_once():
    tape = Tape()
    x = tape.start("x", 1.0)
    a = tape.op("a", "Sin", [x], 0.8, back=[0.0], upstream=0.0)
    b = tape.op("b", "Cos", [x], 0.5, back=[0.0], upstream=0.0)
    joint = tape.op("joint", "AddV2", [a, b], 1.3, back=[0.0, 0.0], upstream=0.0)
    y = tape.op("y", "f", [joint], 1.0, kind="custom", back=[0.0])
    assert began(tape, y, x, a) == [("y", ("x", "a"))]


@tf.custom_gradient
def returns_zero(x):
    return x * x, lambda dy: 0.0 * dy


line = np.linspace(-1, 1, 11, dtype="float32")
left, right = tf.constant([1.0, 0.0]), tf.constant([0.0, 1.0])
ZERO = {
    "relu": (tf.nn.relu, [[-1.0, -3.0]], "Relu", "nowhere above 0: [−1, −3]"),
    "relu at 0": (tf.nn.relu, [0.0], "Relu", "nowhere above 0: 0"),
    "relu6": (
        tf.nn.relu6,
        [[-1.0, 9.0]],
        "Relu6",
        "It returned 0 for the upstream [1, 1] at the input [−1, 9]",
    ),
    "abs at 0": (
        tf.abs,
        [[0.0, 0.0]],
        "Abs",
        "It returned 0 for the upstream [1, 1] at the input [0, 0]",
    ),
    "sign": (tf.sign, [2.0], "Sign", "0 for every input"),
    "clip above": (
        lambda x: tf.clip_by_value(x, 0.0, 1.0),
        [2.0],
        "Minimum",
        "It returned 0 for the upstream 1 at the input 2",
    ),
    "maximum": (
        lambda x: tf.maximum(x, 5.0),
        [2.0],
        "Maximum",
        "It returned 0 for the upstream 1 at the input 2",
    ),
    "minimum": (
        lambda x: tf.minimum(x, 1.0),
        [2.0],
        "Minimum",
        "It returned 0 for the upstream 1 at the input 2",
    ),
    "the second of equals": (
        lambda x: tf.maximum(2.0, x),
        [2.0],
        "Maximum",
        "It returned 0 for the upstream 1 at the input 2",
    ),
    "where": (
        lambda x: tf.where(x > 0.0, x, 3.0),
        [-1.0],
        "SelectV2",
        "It returned 0 for the upstream 1 at the input −1",
    ),
    "where, the other way": (
        lambda x: tf.where(x > 0.0, 3.0, x),
        [1.0],
        "SelectV2",
        "It returned 0 for the upstream 1 at the input 1",
    ),
    "sigmoid": (tf.sigmoid, [40.0], "Sigmoid", "for the upstream 1 at the input 40"),
    "tanh": (tf.tanh, [20.0], "Tanh", "for the upstream 1 at the input 20"),
    "softmax": (
        lambda x: tf.nn.softmax(x)[0],
        [[1000.0, 0.0]],
        "Softmax",
        "at the input [1000, 0]",
    ),
    "exp": (tf.exp, [-200.0], "Exp", "for the upstream 1 at the input −200"),
    "zero weight": (lambda x: x * 0.0, [2.0], "Mul", "other factor is 0"),
    "zero weights": (lambda x: x @ tf.zeros((2, 1)), [[[1.0, 2.0]]], "MatMul", "factor is 0"),
    "square at 0": (tf.square, [0.0], "Square", "It returned 0 for the upstream 1 at the input 0"),
    "log of a huge number": (
        lambda x: tf.math.log(1.0 + tf.exp(x)),
        [88.5],
        "Log",
        "It returned 0 for the upstream 1 at the input 2.723e38",
    ),
    "float64": (tf.exp, [np.float64(-800.0)], "Exp", "at the input −800"),
    "a rule": (
        returns_zero,
        [2.0],
        "returns_zero",
        "It returned 0 for the upstream 1 at the input 2",
    ),
}
NOT_FLAT = {
    "underflow": (
        lambda x: x * 1e-30 * 1e-20,
        [2.0],
        "Mul",
        "Its product with the upstream 1e−20 is below",
    ),
    "underflow in float16": (
        lambda x: x * np.float16(1e-4) * np.float16(1e-4),
        [np.float16(1.0)],
        "Mul",
        "is below 5.96e−8: that is 0 in float16",
    ),
    "a line through a parabola": (
        lambda w: tf.reduce_mean((w * line - line**2) ** 2),
        [0.0],
        "Mul",
        "products with the upstream 11 numbers from −0.1818 to 0 add up to 0",
    ),
    "a sum of a softmax": (
        lambda x: tf.reduce_sum(tf.nn.softmax(x)),
        [[0.0, 0.0]],
        "Softmax",
        "add up to 0",
    ),
    "equal and opposite": (
        lambda x: x * [1.0, -1.0],
        [2.0],
        "Mul",
        "[1, 1] add up to 0",
    ),
    "three that cancel": (
        lambda x: x @ tf.constant([[1.0, -2.0, 1.0]]),
        [[[2.0]]],
        "MatMul",
        "add up to 0",
    ),
    "a mask on the living half of a relu": (
        lambda x: tf.nn.relu(x) * left,
        [[-1.0, 2.0]],
        "Relu",
        "It returned 0 for the upstream [1, 0] at the input [−1, 2]",
    ),
    "a mask on a maximum": (
        lambda x: tf.maximum(x, 2.0) * right,
        [[2.0, 1.0]],
        "Maximum",
        "It returned 0 for the upstream [0, 1] at the input [2, 1]",
    ),
    "a mask on a where": (
        lambda x: tf.where(x > 0.0, x, 0.0) * left,
        [[-1.0, 2.0]],
        "SelectV2",
        "It returned 0 for the upstream [1, 0] at the input [−1, 2]",
    ),
    "a mask on a softmax": (
        lambda x: tf.nn.softmax(x) * [left, 0.0 * right],
        [[[1000.0, 0.0], [5.0, 5.0]]],
        "Softmax",
        "It returned 0 for the upstream",
    ),
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


def test_a_rule_that_returns_0_is_told_to_look_at_its_own_factor():
    assert (
        only(cgviz.trace(returns_zero, 2.0)).hint == "Look at what its rule multiplies upstream by."
    )
    assert "rule" not in only(cgviz.trace(tf.square, 0.0)).hint


@tf.custom_gradient
def softmax_by_hand(z):
    """A right rule; what it returns for equal upstreams is 0, or a few last bits."""
    p = tf.nn.softmax(z)
    return p, lambda dy: p * (dy - tf.reduce_sum(dy * p, -1, keepdims=True))


@pytest.mark.parametrize("z", [[[1.0, 2.0, 3.0]], [[1.3, 0.2, -0.7, 2.0]]], ids=["0", "bits"])
def test_a_right_rule_whose_outputs_add_up_to_1_is_not_blamed_for_the_0_of_their_sum(z):
    trace = cgviz.trace(softmax_by_hand, z)
    assert np.abs(trace.gradients[0]).max() < 1e-6
    finding = only(trace)
    assert finding.level == "warning"
    assert "0 is right where the outputs always add up to the same number" in finding.hint
    assert "multiplies" not in finding.hint


def test_a_rule_that_is_0_for_one_upstream_only_is_told_apart_from_one_that_is_always_0():
    mean_lost = tf.custom_gradient(lambda x: (x * 1.0, lambda dy: dy - tf.reduce_mean(dy)))
    finding = only(cgviz.trace(mean_lost, [1.0, 2.0]))
    assert "0 for the upstream [1, 1] at the input [1, 2], and not for others." in finding.message
    assert "`cgviz.check` tells whether the rule is right" in finding.hint
    assert not cgviz.check(mean_lost, [1.0, 2.0]).ok


def test_without_rules_no_reason_is_made_up(tmp_path):
    path = tmp_path / "trace.json"
    cgviz.trace(lambda x: x * [1.0, -1.0], 2.0).save(path)
    assert "returned 0 for the upstream [1, 1]" in only(cgviz.load(path)).message


def test_without_rules_no_branch_is_said_to_win(tmp_path):
    cgviz.trace(lambda x: tf.clip_by_value(x, -1.0, 1.0), 2.0).save(tmp_path / "trace.json")
    assert "returned 0 for the upstream 1" in only(cgviz.load(tmp_path / "trace.json")).message


def test_a_mean_over_nothing_is_told_once():
    def f(x):
        return tf.reduce_mean(tf.boolean_mask(x**2, [False, False]))

    assert found(cgviz.trace(f, [1.0, 2.0])) == [("nan", "Mean")]


def test_a_sum_over_nothing_has_an_upstream_without_numbers():
    trace = cgviz.trace(lambda x: tf.reduce_sum(tf.boolean_mask(x, [False, False])), [1.0, 2.0])
    assert "It returned 0 for the upstream float64 [0] empty" in only(trace).message


def test_an_empty_upstream_is_not_the_one_that_is_told():
    tape = Tape()
    x = tape.start("x", 1.0)
    y = tape.op("y", "f", [x], 1.0, kind="custom")
    given = [np.zeros((0,)), np.zeros(1), np.array([1.0, 0.0])]
    trace = tape.trace(y, [x])
    step = Step(Op("y", "custom", "f", (x,), (y, y, y)), given, [np.zeros(())])
    origin = numbers.Number(x, np.zeros(()), step)
    case = numbers.GradientCase(PassGraph(trace, trace.passes[0]), origin, zero=True)
    assert case.cause.words(case)[0].startswith("It returned 0 for the upstream [1, 0] at")


def test_a_dead_unit_is_found_also_where_a_gradient_penalty_belongs_to_the_loss():
    x, w, v = tf.constant([0.5, 0.7]), tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0], name="v")
    with cgviz.record() as trace, tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(w * x * x) + tf.reduce_sum(tf.nn.relu(v - 100.0))
        slope = inner.gradient(y, x)
        loss = y + tf.reduce_sum(slope * slope)
        with tape.stop_recording():
            tape.gradient(loss, [v, w])
    (finding,) = trace.diagnose(len(trace.passes) - 1)
    assert finding.sources == ("v",)
    assert "it became 0 at Relu" in finding.message


def test_second_derivatives_of_straight_lines_are_rightly_zero_beside_a_variable_that_learns():
    """The bias before a ReLU changes no slope, so a penalty on slopes sends it nothing."""
    x, w, b = tf.constant([[0.5, 0.7]]), tf.Variable([[1.0], [2.0]]), tf.Variable([0.5])
    with cgviz.record() as trace, tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.nn.relu(x @ w + b)
        penalty = tf.reduce_sum(inner.gradient(y, x) ** 2)
        with tape.stop_recording():
            to_w, to_b = tape.gradient(penalty, [w, b], unconnected_gradients="none")
    assert to_w is not None
    assert to_b is None or not to_b.numpy().any()
    assert not [each for each in trace.diagnose(len(trace.passes) - 1) if each.what == "zero"]
