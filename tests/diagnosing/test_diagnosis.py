"""A diagnosis names the line where a gradient went wrong, and is silent where all is well."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from troubles import X, found

import cgviz
from cgviz.diagnosing import diagnosis as diagnosing

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
def test_a_healthy_program_has_no_finding_and_says_so(name):
    f, *args = HEALTHY[name]
    diagnosis = cgviz.trace(f, *args).diagnose()
    assert list(diagnosis) == []
    assert diagnosis.ok
    assert "healthy" in diagnosis.headline


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


def test_integer_arguments_are_a_remark_and_no_finding():
    def f(x, i, j):
        return tf.gather(tf.gather(x, i), j)

    diagnosis = cgviz.trace(f, [1.0, 2.0], np.array([0, 1]), np.int32([0])).diagnose()
    assert diagnosis.ok
    assert diagnosis.notes == ("`i` and `j` got no gradient: integers have none.",)


def test_the_naive_log1pexp_is_right_then_zero_then_nan():
    def naive(x):
        return tf.math.log(1.0 + tf.exp(x))

    assert found(cgviz.trace(naive, 80.0)) == []
    assert found(cgviz.trace(naive, 88.0)) == [("zero", "Log")]
    assert found(cgviz.trace(naive, 88.7)) == [("zero", "Log")]
    assert found(cgviz.trace(naive, 100.0)) == [("inf", "Exp"), ("nan", "Exp")]


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


def test_a_pass_whose_numbers_are_not_finite_is_never_called_healthy():
    trace = cgviz.trace(lambda x: x**0.5, 0.0, order=2)
    assert not np.isfinite(trace.passes[1].gradients[0])
    assert "healthy" not in trace.diagnose(1).headline
    assert not trace.diagnose().ok


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


def test_the_same_trouble_in_two_passes_is_told_once_and_another_source_by_itself():
    with cgviz.record() as trace:
        x, z = tf.constant(2.6), tf.constant(3.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, z])
            y = tf.round(x * z)
        tape.gradient(y, x)
        tape.gradient(y, x)
        tape.gradient(y, z)
    assert [(each.name, each.sources) for each in trace.diagnose()] == [
        ("y", ("x",)),
        ("y", ("z",)),
    ]


def test_two_variables_are_two_however_they_are_numbered():
    first, second = (tf.Variable(1.5, trainable=False, name=f"w_{i}") for i in (1, 2))
    with cgviz.record() as trace:
        for _ in range(2):
            with tf.GradientTape() as tape:
                h = X
                for w in (first, second):
                    h = h * w
            tape.gradient(h, [first, second])
    assert [each.sources for each in trace.diagnose()] == [("w_1",), ("w_2",)]


def test_two_tensors_whose_own_names_end_in_a_number_are_two():
    def f(x_1, x_2):
        return sum(tf.round(x) for x in (x_1, x_2))

    assert [each.sources for each in cgviz.trace(f, 1.0, 2.0).diagnose()] == [("x_1",), ("x_2",)]


def test_a_tensor_made_anew_in_each_step_is_told_once():
    w = tf.Variable(2.0, name="w")
    with cgviz.record() as trace:
        for _ in range(3):
            x = tf.constant(1.5)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = w * tf.round(x)
            tape.gradient(y, [w, x])
            w.assign_sub(0.1)
    assert [each.sources for each in trace.diagnose()] == [("x",)]


def test_one_op_can_lose_two_gradients_for_two_reasons():
    with cgviz.record() as trace:
        x, w = tf.constant(2.0), tf.constant(3.0)

        @tf.custom_gradient
        def f(x):
            return x * w, lambda upstream: None

        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = f(x)
        tape.gradient(y, [x, w])
    assert [each.sources for each in trace.diagnose()] == [("x",), ("w",)]


def test_diagnosing_runs_no_rule_of_the_learners_and_changes_nothing():
    calls = []

    @tf.custom_gradient
    def counted(x):
        def grad(dy):
            calls.append(1)
            return 2.0 * x * dy

        return x * x, grad

    trace = cgviz.trace(counted, 3.0)
    assert diagnosing.diagnose(trace).ok
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
    assert "`n` got no gradient" in str(found)


def test_two_variables_that_hold_nan_are_told_each_by_its_name():
    w_1, w_2 = (tf.Variable([np.nan], name=name) for name in ("w_1", "w_2"))
    with cgviz.record() as trace, tf.GradientTape() as tape:
        y = tf.reduce_sum(w_1 * w_2)
        tape.gradient(y, [w_1, w_2])
    told = str(trace.diagnose())
    assert "`w_1`" in told
    assert "`w_2`" in told
