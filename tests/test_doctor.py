"""A diagnosis names the line where a gradient went wrong, and is silent where all is well."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.diagnosing import doctor, scales


def found(trace, which=None):
    """(what, op type) of each finding."""
    return [(f.what, f.op.type if f.op else "") for f in trace.diagnose(which)]


def only(trace, which=None):
    """The one finding of a diagnosis."""
    (finding,) = trace.diagnose(which)
    assert finding.hint
    assert finding.lesson[:2].isdigit()
    return finding


X = tf.constant(2.0)


# --- healthy programs --------------------------------------------------------------------------


@tf.custom_gradient
def stable_log1pexp(x):
    return tf.nn.softplus(x), lambda dy: dy * tf.sigmoid(x)


@tf.custom_gradient
def reversal(x):
    return tf.identity(x), lambda dy: -dy


@tf.custom_gradient
def cube(x):
    @tf.custom_gradient
    def slope(x):
        return 3.0 * x**2, lambda ddy: ddy * 6.0 * x

    return x**3, lambda dy: dy * slope(x)


def straight_through(x):
    return x + tf.stop_gradient(tf.round(x) - x)


def attention(q, k):
    mask = tf.linalg.band_part(tf.ones((3, 3)), -1, 0)
    scores = tf.where(mask > 0.0, q @ tf.transpose(k), -np.inf)
    return tf.reduce_sum(tf.nn.softmax(scores)[:, 0])


def safe_where(x):
    safe = tf.where(x > 0.0, x, 1.0)
    return tf.where(x > 0.0, tf.math.log(safe), 0.0)


def unrolled(x):
    h = tf.zeros((1, 4))
    w = tf.ones((4, 4)) * 0.2
    for _ in range(10):
        h = tf.tanh(x + h @ w)
    return tf.reduce_sum(h)


def mean_of_many(x):
    return tf.reduce_mean(tf.square(x))


random = np.random.default_rng(0)
HEALTHY = {
    "a polynomial": (lambda x: x**3 - 2.0 * x, 1.5),
    "a sine of a product": (lambda x, y: tf.sin(x * y), 1.0, 2.0),
    "relu, partly on": (tf.nn.relu, [-1.0, 2.0]),
    "clip, partly inside": (lambda x: tf.clip_by_value(x, 0.0, 1.0), [-1.0, 0.5, 3.0]),
    "softmax cross-entropy": (
        lambda z: tf.nn.sparse_softmax_cross_entropy_with_logits([1], z[None]),
        [1.0, 2.0, 0.5],
    ),
    "a stable rule at 100": (stable_log1pexp, [100.0, -50.0, 0.0]),
    "gradient reversal": (reversal, [1.0, 2.0]),
    "straight-through": (straight_through, [0.4, 1.7]),
    "a nested rule": (cube, 2.0),
    "double where": (safe_where, [0.0, 1.0]),
    "a mask of minus infinity": (
        attention,
        random.normal(size=(3, 4)).astype(np.float32),
        random.normal(size=(3, 4)).astype(np.float32),
    ),
    "an unrolled recurrence": (unrolled, [[0.1, 0.2, 0.3, 0.4]]),
    "a mean over a million": (mean_of_many, np.ones((1000, 1000), np.float32)),
    "small units": (lambda x: 1e-8 * x, 3.0),
    "large units": (lambda x: x * x, 1e7),
    "a large exponent": (tf.exp, 20.0),
    "near a minimum": (lambda w: (w - 3.0) ** 2, 3.0001),
    "an inverse": (lambda m: tf.reduce_sum(tf.linalg.inv(m)), [[2.0, 0.5], [0.1, 1.0]]),
    "float64": (tf.exp, np.float64(700.0)),
    "float16": (lambda x: x * x, np.float16(3.0)),
    "bfloat16": (lambda x: x * x, tf.constant(3.0, tf.bfloat16)),
    "complex": (lambda z: tf.math.real(z * tf.math.conj(z)), np.complex64(1 + 2j)),
    "an integer index": (lambda x, i: tf.gather(x, i) * 2.0, 3.0 * np.ones(3), np.array([0, 1, 2])),
    "an empty tensor": (lambda x: tf.reduce_sum(x), np.zeros((0, 3), np.float32)),
    "a tuple": (lambda pair: pair[0] * pair[1], (2.0, 3.0)),
    "two outputs, one unused": (lambda x: tf.unstack(x)[0] + 0.0 * tf.reduce_sum(x), [1.0, 2.0]),
    "fan-out": (lambda x: tf.sin(x) + x * x, 1.0),
    "a tf.function": (tf.function(lambda x: tf.tanh(x) * x), 0.5),
    "a deep ReLU network": (
        lambda x: x @ tf.eye(4) @ tf.eye(4) @ tf.eye(4) @ tf.eye(4),
        np.ones((2, 4), np.float32),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_has_no_finding_and_says_so_in_one_line(name):
    f, *args = HEALTHY[name]
    diagnosis = cgviz.trace(f, *args).diagnose()
    assert list(diagnosis) == []
    assert diagnosis.ok
    assert "healthy" in repr(diagnosis)
    assert "\n" not in repr(diagnosis)


def test_keras_training_is_healthy():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    )
    x = random.normal(size=(16, 3)).astype(np.float32)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - 1.0))
        tape.gradient(loss, model.trainable_variables)
    assert trace.diagnose().ok


def test_the_second_order_of_a_nested_rule_is_healthy():
    assert cgviz.trace(cube, 2.0, order=2).diagnose().ok
    assert cgviz.trace(tf.nn.relu, 2.0, order=1).diagnose().ok


def test_an_integer_argument_is_a_remark_and_no_finding():
    diagnosis = cgviz.trace(lambda x, i: tf.gather(x, i), [1.0, 2.0], np.array([0])).diagnose()
    assert diagnosis.ok
    assert "`i` is int64" in repr(diagnosis)


# --- None --------------------------------------------------------------------------------------


def recorded(body):
    """The trace of a body that opens its own tape."""
    with cgviz.record() as trace:
        body()
    return trace


def not_watched():
    with tf.GradientTape() as tape:
        y = X * X
    tape.gradient(y, X)


def outside():
    z = X * 3.0
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = z * z
    tape.gradient(y, X)


def stopped():
    with tf.GradientTape() as tape:
        tape.watch(X)
        with tape.stop_recording():
            z = tf.sin(X)
        y = z * X
    tape.gradient(y, z)


def stopped_on_the_way():
    with tf.GradientTape() as tape:
        tape.watch(X)
        a = tf.cos(X)
        with tape.stop_recording():
            b = tf.sin(a)
        y = b * 2.0
    tape.gradient(y, X)


def forgotten():
    with tf.GradientTape() as tape:
        tape.watch(X)
        a = tf.cos(X)
        tape.reset()
        y = X * a
    tape.gradient(y, X)


def watched_integer():
    n = tf.constant(2)
    with tf.GradientTape() as tape:
        tape.watch(n)
        y = tf.cast(n, tf.float32) * 2.0
    tape.gradient(y, n)


def not_trainable():
    w = tf.Variable(3.0, trainable=False, name="w")
    with tf.GradientTape() as tape:
        y = w * X
    tape.gradient(y, w)


def reassigned():
    v = tf.Variable(3.0, name="v")
    v = v - 0.1
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)


def other_tape():
    with tf.GradientTape() as one:
        one.watch(X)
        z = tf.sin(X)
    with tf.GradientTape() as two:
        two.watch(z)
        y = z * z
    two.gradient(y, X)


def only_assigned():
    v = tf.Variable(3.0, name="v")
    with tf.GradientTape() as tape:
        tape.watch(X)
        v.assign_add(1.0)
        y = X * 3.0
    tape.gradient(y, v)


def through_an_assignment():
    w = tf.Variable(3.0, name="w")
    with tf.GradientTape() as tape:
        tape.watch(X)
        w.assign(X * X)
        y = w * 2.0
    tape.gradient(y, X)


def target_made_before():
    one.gradient(y_before, X)


with tf.GradientTape() as one:
    y_before = X * X

NONE = {
    "not watched": (not_watched, "Mul", "y = X * X", "tape.watch(X)"),
    "outside the tape": (outside, "Mul", "z = X * 3.0", "into the block"),
    "tape stopped": (stopped_on_the_way, "Sin", "b = tf.sin(a)", "stop_recording"),
    "tape reset": (
        forgotten,
        "Mul",
        "no tape followed it when",
        "After `tape.reset()` watch again",
    ),
    "integer": (watched_integer, "", "int32", "2."),
    "not trainable": (not_trainable, "Mul", "y = w * X", "trainable=True"),
    "reassigned": (reassigned, "Mul", "v = v - 0.1", "v.assign_sub"),
    "only assigned": (only_assigned, "", "no op that ran reads this variable", "leave it out"),
    "assigned": (through_an_assignment, "Mul", "does not flow through an assignment", "result"),
    "another tape": (other_tape, "", "", ""),
    "made before the recording": (target_made_before, "", "did not see", "record"),
}


@pytest.mark.parametrize("name", NONE)
def test_none_is_explained_with_the_learners_own_line(name):
    body, op, message, hint = NONE[name]
    finding = recorded(body).diagnose()[0]
    assert finding.what == "none"
    assert message in finding.message
    assert hint in finding.hint
    if op:
        assert finding.op.type == op


@tf.custom_gradient
def keeps_none(x, k):
    return x * k, lambda dy: (dy, None)


def by_closure(x):
    s = x * 2.0

    @tf.custom_gradient
    def f(a):
        return a * s, lambda dy: dy

    return f(x)


@tf.custom_gradient
def rounded(x):
    return tf.round(x), lambda dy: dy


@tf.custom_gradient
def numpy_rule(x):
    number = x.numpy()
    return x * x, lambda dy: dy * 2.0 * number


def through_numpy(x):
    y = tf.sin(x).numpy()
    return tf.constant(y) * 2.0


def never_returned(x):
    tf.sin(x)
    return tf.constant(3.0) * 2.0


CUT = {
    "round": (lambda x: tf.round(x) * 3.0, "Round", "flat between its steps"),
    "floor": (lambda x: tf.floor(x), "Floor", "no gradient for Floor"),
    "argmax": (lambda x: tf.cast(tf.argmax([x, 1.0]), tf.float32) * 2.0, "ArgMax", "int64"),
    "cast": (lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), "Cast", "int32"),
    "comparison": (lambda x: tf.where(x > 1.0, 2.0, 3.0), "Greater", "True and False"),
    "stop_gradient": (lambda x: tf.stop_gradient(x * 2.0) * 3.0, "StopGradient", "no gradient"),
    "NumPy": (through_numpy, "Mul", "left TensorFlow"),
    "dead end": (never_returned, "Sin", "never reaches the target"),
}


@pytest.mark.parametrize("name", CUT)
def test_the_op_that_cuts_the_path_is_named(name):
    f, op, message = CUT[name]
    trace = cgviz.trace(f, 2.6)
    assert trace.gradients == (None,)
    finding = only(trace)
    assert (finding.what, finding.op.type, finding.sources) == ("none", op, ("x",))
    assert message in finding.message
    assert finding.source.text in finding.message or len(finding.source.text) > 70
    assert finding.name == finding.op.name


def test_a_rule_that_returns_none_is_named_with_its_line():
    finding = only(cgviz.trace(keeps_none, 2.0, 3.0))
    assert finding.sources == ("k",)
    assert "returned None for its input `k`" in finding.message
    assert "(dy, None)" in finding.message


def test_an_unused_argument_is_named():
    finding = only(cgviz.trace(lambda x, y: x * 2.0, 2.0, 3.0))
    assert finding.sources == ("y",)
    assert "no TensorFlow op that ran uses it" in finding.message
    assert "unconnected_gradients" in finding.hint


def test_a_captured_tensor_is_named_though_the_gradient_is_not_none():
    trace = cgviz.trace(by_closure, 3.0)
    assert trace.gradients[0] == 1.0  # and it should be 12
    finding = only(trace)
    assert "`s` is used inside the custom gradient `f`" in finding.message


def test_a_keyword_call_that_dropped_the_rule_is_named():
    what = [f.message for f in cgviz.trace(lambda x: rounded(x=x), 2.6).diagnose()]
    assert any("did not use its custom rule" in message for message in what)
    assert any("no gradient for Round" in message for message in what)
    assert cgviz.trace(lambda x: rounded(x), 2.6).diagnose().ok


def test_numpy_in_a_rule_kills_the_second_order_and_is_named():
    trace = cgviz.trace(numpy_rule, 3.7, order=2)
    finding = only(trace)
    assert (finding.what, finding.which) == ("none", 1)
    assert "left TensorFlow" in finding.message
    assert trace.diagnose(0).ok


def test_a_linear_function_has_no_second_derivative_and_the_way_to_zero_is_told():
    finding = only(cgviz.trace(lambda x: 3.0 * x, 2.0, order=2))
    assert "does not depend" in finding.message
    assert "unconnected_gradients='zero'" in finding.hint


def test_sources_cut_at_one_place_share_a_finding():
    finding = only(cgviz.trace(lambda a, b, c: tf.round(a * b * c), 1.0, 2.0, 3.0))
    assert finding.sources == ("a", "b", "c")
    assert "`a`, `b` and `c` got None" in finding.message


def test_a_path_through_a_shape_alone_is_not_blamed_on_integers():
    trace = cgviz.trace(lambda x: tf.reshape(tf.stop_gradient(x), tf.shape(x)), [1.0, 2.0])
    assert found(trace) == [("none", "StopGradient")]


def test_numpy_that_computes_by_itself_is_remarked_on():
    def f(x):
        return tf.constant(np.sin(x.numpy())) * 2.0

    assert "NumPy is called there" in only(cgviz.trace(f, 2.6)).message


def test_equal_numbers_without_numpy_are_no_proof():
    trace = cgviz.trace(lambda x: (tf.sin(x), tf.constant(2.6) * 2.0)[1], 2.6)
    assert "left TensorFlow" not in only(trace).message


# --- zero --------------------------------------------------------------------------------------


@tf.custom_gradient
def returns_zero(x):
    return x * x, lambda dy: 0.0 * dy


ZERO = {
    "relu": (tf.nn.relu, [[-1.0, -3.0]], "Relu", "nowhere above 0: [−1, −3]"),
    "relu6": (tf.nn.relu6, [[-1.0, 9.0]], "Relu6", "between 0 and 6"),
    "sign": (tf.sign, [2.0], "Sign", "0 everywhere"),
    "clip above": (lambda x: tf.clip_by_value(x, 0.0, 1.0), [2.0], "Minimum", "clipped"),
    "maximum": (lambda x: tf.maximum(x, 5.0), [2.0], "Maximum", "2 against 5"),
    "minimum": (lambda x: tf.minimum(x, 1.0), [2.0], "Minimum", "smaller everywhere"),
    "where": (lambda x: tf.where(x > 0.0, x, 3.0), [-1.0], "SelectV2", "other branch"),
    "sigmoid": (tf.sigmoid, [40.0], "Sigmoid", "saturated: at 40 it gives 1"),
    "tanh": (tf.tanh, [20.0], "Tanh", "saturated"),
    "exp": (tf.exp, [-200.0], "Exp", "too small for float32"),
    "zero weight": (lambda x: x * 0.0, [2.0], "Mul", "other factor is 0"),
    "square at 0": (tf.square, [0.0], "Square", "derivative is 0"),
    "log of a huge number": (lambda x: tf.math.log(1.0 + tf.exp(x)), [88.5], "Log", "3.672e−39"),
    "underflow": (lambda x: x * 1e-30 * 1e-20, [2.0], "Mul", "the product is below"),
    "a rule": (returns_zero, [2.0], "returns_zero", "rule returned 0"),
    "a sum of a softmax": (
        lambda x: tf.reduce_sum(tf.nn.softmax(x)),
        [[0.0, 0.0]],
        "Softmax",
        "add up to 1",
    ),
}


@pytest.mark.parametrize("name", ZERO)
def test_the_op_that_made_a_gradient_zero_is_named(name):
    f, args, op, message = ZERO[name]
    trace = cgviz.trace(f, *args)
    assert not np.any(trace.gradients[0])
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("zero", op)
    assert message in finding.message
    step = trace.passes[0].step_of[finding.op]
    assert any(np.any(u) for u in step.upstream if u is not None)  # verified: it made it
    assert any(g is not None and not np.any(g) for g in step.downstream)


def test_a_zero_upstream_is_named_as_such():
    assert (
        "upstream that the backward pass started with"
        in only(cgviz.trace(tf.sin, 1.0, upstream=0.0)).message
    )


def test_ways_that_cancel_are_named():
    finding = only(cgviz.trace(lambda x: x - x, 2.0))
    assert "adds up to 0" in finding.message


def test_zero_is_followed_past_ops_that_only_hand_it_on():
    assert found(cgviz.trace(lambda x: tf.sign(tf.sin(x) * 3.0) * 2.0, 1.0)) == [("zero", "Sign")]


# --- NaN and infinity --------------------------------------------------------------------------


@tf.custom_gradient
def documented(x):
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


@tf.custom_gradient
def makes_nan(x):
    return x * 1.0, lambda dy: dy * (x - x) / (x - x)


def test_the_documented_log1pexp_overflows_in_its_body_though_the_gradient_is_fine():
    trace = cgviz.trace(documented, 100.0)
    assert trace.gradients[0] == 1.0
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("inf", "Exp")
    assert "`x` = 100" in finding.message
    assert "88.72" in finding.message


def test_the_naive_log1pexp_is_right_then_zero_then_nan():
    def naive(x):
        return tf.math.log(1.0 + tf.exp(x))

    assert found(cgviz.trace(naive, 80.0)) == []
    assert found(cgviz.trace(naive, 88.0)) == [("zero", "Log")]
    assert found(cgviz.trace(naive, 88.7)) == [("zero", "Log")]
    assert found(cgviz.trace(naive, 100.0)) == [("inf", "Exp"), ("nan", "Exp")]


BAD = {
    "log of 0 in the branch not taken": (
        lambda x: tf.where(x > 0.0, tf.math.log(x), 0.0),
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
    "sqrt at 0": (tf.sqrt, [0.0, 1.0], [("inf", "Sqrt")], "1/(2√x) is infinite at 0"),
    "a norm at 0": (tf.norm, [0.0, 0.0], [("inf", "Sqrt")], "infinite at 0"),
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
    "a rule that makes NaN": (makes_nan, [2.0], [("nan", "makes_nan")], "rule itself"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_first_op_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BAD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


def test_an_entry_is_told_where_there_are_several():
    finding = only(cgviz.trace(tf.sqrt, [[1.0, 4.0], [0.0, 9.0]]))
    assert "entry [1, 0] from `x` = 0 and upstream 1" in finding.message


def test_an_infinite_upstream_is_named_as_such():
    finding = only(cgviz.trace(tf.sin, 1.0, upstream=np.inf))
    assert (finding.what, finding.op) == ("inf", None)


def test_nan_everywhere_is_one_finding_per_place():
    trace = cgviz.trace(lambda x, y: x * y, [np.nan] * 3, [np.nan] * 3)
    assert {f.name for f in trace.diagnose() if f.op.kind == "input"} == {"x", "y"}


def test_a_forward_pass_alone_is_looked_at_too():
    with cgviz.record() as trace:
        tf.exp(tf.constant(100.0)) * 2.0
    assert found(trace) == [("inf", "Exp")]


# --- vanishing and exploding -------------------------------------------------------------------


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


def test_a_nearly_saturated_op_vanishes_alone_and_a_small_unit_does_not():
    assert found(cgviz.trace(lambda x: tf.sigmoid(x), -20.0)) == []  # its value is as small
    assert found(cgviz.trace(lambda x: 1.0 + tf.sigmoid(x), -20.0)) == [("vanishing", "Sigmoid")]
    assert found(cgviz.trace(lambda x: 1e-9 * x, 1.0)) == []


def test_the_thresholds_hold_on_both_sides():
    fall = repeated(lambda x: 0.1 * x, 5)
    assert found(cgviz.trace(fall, 1.0)) == []
    assert found(cgviz.trace(repeated(lambda x: 0.1 * x, 7), 1.0)) == [("vanishing", "Mul")]
    assert found(cgviz.trace(repeated(lambda x: 10.0 * x, 5), 1.0)) == []
    assert found(cgviz.trace(repeated(lambda x: 10.0 * x, 7), 1.0)) == [("exploding", "Mul")]
    assert (scales.FALL, scales.RISE) == (1e-6, 1e6)


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


# --- the diagnosis itself ----------------------------------------------------------------------


def test_no_pass_and_no_sources_are_said_plainly():
    with cgviz.record() as trace:
        pass
    assert "no backward pass" in repr(trace.diagnose())
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = X * X
        tape.gradient(y, [])
    assert "no gradient was asked for" in repr(trace.diagnose())


def test_a_wrong_pass_is_a_clear_error():
    with pytest.raises(ValueError, match="which"):
        cgviz.trace(tf.sin, 1.0).diagnose(3)


def test_one_pass_of_several_can_be_asked_for():
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(X)
            y, z = tf.sin(X), tf.round(X)
        tape.gradient(y, X)
        tape.gradient(z, X)
    assert trace.diagnose(0).ok
    assert found(trace, 1) == [("none", "Round")]
    assert found(trace) == [("none", "Round")]


def test_a_diagnosis_is_a_sequence_with_text_and_a_page():
    diagnosis = cgviz.trace(lambda x: tf.round(x) * 1.0, 2.6).diagnose()
    assert len(diagnosis) == 1
    assert diagnosis[0] is next(iter(diagnosis))
    assert diagnosis[:1] == (diagnosis[0],)
    assert repr(diagnosis).startswith("diagnosis of f: 1 finding\n\n∅ None: `x` got None")
    page = diagnosis._repr_html_()
    assert "cgviz-sheet" in page
    assert "<ol" in page
    assert 'aria-hidden="true">∅</span> None' in page
    assert "<code>x</code> got None" in page


def test_the_page_escapes_the_learners_code():
    page = cgviz.trace(lambda x: tf.round(x) * tf.cast(x < 3.0, tf.float32), 2.6).diagnose()
    html = page._repr_html_()
    assert "x &lt; 3.0" in html
    assert "x < 3.0" not in html


def test_the_page_of_a_healthy_trace_is_one_line():
    html = cgviz.trace(tf.sin, 1.0).diagnose()._repr_html_()
    assert "healthy" in html
    assert "<ol" not in html


def test_diagnosing_runs_no_rule_of_the_learners_and_changes_nothing():
    calls = []

    @tf.custom_gradient
    def counted(x):
        def grad(dy):
            calls.append(1)
            return 2.0 * x * dy

        return x * x, grad

    trace = cgviz.trace(counted, 3.0)
    assert doctor.diagnose(trace).ok
    assert len(calls) == 1


def test_a_trace_read_from_a_file_is_diagnosed_too(tmp_path):
    path = tmp_path / "trace.json"
    cgviz.trace(lambda x: tf.round(x) * tf.exp(x), 100.0).save(path)
    assert ("inf", "Exp") in found(cgviz.load(path))


def test_a_function_called_recording_is_no_recording():
    def recording(x, n):
        return x * tf.cast(n, tf.float32)

    found = cgviz.trace(recording, 2.0, tf.constant(3)).diagnose()
    assert not found.findings
    assert "n is int32, and gets no gradient" in str(found).replace("`", "")
