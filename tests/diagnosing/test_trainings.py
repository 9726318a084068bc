"""Small trainings that go wrong: each is found once, at the op and the line that is to blame.

The line to blame is marked with `# here`.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from troubles import curvature, only, recorded

import cgviz

random = np.random.default_rng(0)
INPUTS = tf.constant(random.normal(size=(8, 3)), tf.float32)
TARGETS = tf.constant(random.normal(size=(8, 1)), tf.float32)


def weights(*shape, scale=0.5, name="w"):
    return tf.Variable(scale * random.normal(size=shape), dtype=tf.float32, name=name)


def inner_gradient_outside():
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
    slope = inner.gradient(y, x)  # here
    outer.gradient(slope, x)


def gradient_penalty_outside():
    w = weights(3, 1)
    with tf.GradientTape() as inner:
        inner.watch(INPUTS)
        score = tf.reduce_sum(tf.tanh(INPUTS @ w))
    slope = inner.gradient(score, INPUTS)  # here
    with tf.GradientTape() as outer:
        penalty = tf.reduce_sum(slope**2)
    outer.gradient(penalty, w)


def differentiated_before_it_is_watched():
    w, t = weights(1, 1), tf.constant([[0.1], [0.5]])
    with tf.GradientTape() as outer:
        u = tf.tanh(t @ w)  # here
        with tf.GradientTape() as inner:
            inner.watch(t)
            tf.reduce_sum(tf.sin(t))
        inner.gradient(u, t)
    outer.gradient(u, w)


def numbers_taken_out():
    w = weights(3, 1)
    with tf.GradientTape() as tape:
        h = tf.tanh(INPUTS @ w)
        n = h.numpy()  # here
        loss = tf.reduce_mean(tf.constant(n) * 2.0)
    tape.gradient(loss, w)


def numpy_in_a_py_function():
    w = weights(3, 1)
    with tf.GradientTape() as tape:
        y = tf.py_function(lambda t: np.tanh(t.numpy()), [w], tf.float32)  # here
        loss = tf.reduce_mean(y)
    tape.gradient(loss, w)


def rounded_output():
    w = weights(3, 1)
    with tf.GradientTape() as tape:
        y = tf.round(INPUTS @ w)  # here
        loss = tf.reduce_mean(tf.square(y - TARGETS))
    tape.gradient(loss, w)


def accuracy_as_a_loss():
    w = weights(3, 2)
    with tf.GradientTape() as tape:
        chosen = tf.argmax(INPUTS @ w, 1)  # here
        loss = tf.reduce_mean(tf.cast(chosen, tf.float32))
    tape.gradient(loss, w)


def frozen_by_stop_gradient():
    w, v = weights(3, 4), weights(4, 1, name="v")
    with tf.GradientTape() as tape:
        h = tf.stop_gradient(tf.tanh(INPUTS @ w))  # here
        loss = tf.reduce_mean(tf.square(h @ v - TARGETS))
    tape.gradient(loss, [w, v])


def forward_pass_outside_the_tape():
    w = weights(3, 1)
    y = INPUTS @ w  # here
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - TARGETS))
    tape.gradient(loss, w)


def variable_replaced_by_a_tensor():
    w = weights(3, 1)
    for _ in range(3):
        with tf.GradientTape() as tape:
            y = INPUTS @ w  # here
            loss = tf.reduce_mean(tf.square(y - TARGETS))
        gradient = tape.gradient(loss, w)
        w = w - 0.1 * (0.0 if gradient is None else gradient)


def not_trainable():
    w = tf.Variable(np.ones((3, 1), np.float32), trainable=False, name="w")
    with tf.GradientTape() as tape:
        y = INPUTS @ w  # here
        loss = tf.reduce_mean(y)
    tape.gradient(loss, w)


def rule_that_forgets_an_input():
    @tf.custom_gradient
    def scaled(x, k):
        return x * k, lambda upstream: (upstream * k, None)

    k = tf.Variable(2.0, name="k")
    with tf.GradientTape() as tape:
        y = scaled(INPUTS, tf.identity(k))  # here
        loss = tf.reduce_mean(y)
    tape.gradient(loss, k)


def dead_relu():
    w, b = weights(3, 4), tf.Variable(-100.0 * np.ones(4, np.float32), name="b")
    for _ in range(3):
        with tf.GradientTape() as tape:
            h = tf.nn.relu(INPUTS @ w + b)  # here
            loss = tf.reduce_mean(h)
        for variable, gradient in zip([w, b], tape.gradient(loss, [w, b]), strict=True):
            variable.assign_sub(0.1 * gradient)


def all_weights_zero():
    w, v = tf.Variable(np.zeros((3, 4), np.float32), name="w"), tf.Variable(np.zeros((4, 1)))
    v = tf.Variable(np.zeros((4, 1), np.float32), name="v")
    with tf.GradientTape() as tape:
        h = INPUTS @ w
        y = h @ v  # here
        loss = tf.reduce_mean(y)
    tape.gradient(loss, [w, v])


def sum_of_a_softmax():
    w = weights(3, 4)
    with tf.GradientTape() as tape:
        p = tf.nn.softmax(INPUTS @ w)  # here
        loss = tf.reduce_sum(p)
    tape.gradient(loss, w)


def log_of_zero():
    w = tf.Variable(np.zeros((3, 1), np.float32), name="w")
    with tf.GradientTape() as tape:
        p = tf.nn.relu(INPUTS @ w)
        loss = -tf.reduce_mean(tf.math.log(p))  # here
    tape.gradient(loss, w)


def one_bad_batch():
    w = weights(3, 1)
    for batch in (INPUTS, 0.5 * INPUTS, tf.constant([[np.nan, 0.0, 1.0]], tf.float32), INPUTS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(batch @ w))
        w.assign_sub(0.1 * tape.gradient(loss, w))


def norm_at_zero():
    w = tf.Variable(np.zeros(3, np.float32), name="w")
    with tf.GradientTape() as tape:
        loss = tf.norm(w)  # here
    tape.gradient(loss, w)


def where_with_a_bad_branch():
    w = tf.Variable([0.0, 1.0, 2.0], name="w")
    with tf.GradientTape() as tape:
        terms = tf.where(w > 0.0, w * tf.math.log(w), 0.0)  # here
        loss = tf.reduce_sum(terms)
    tape.gradient(loss, w)


def twenty_sigmoids():
    layers = [weights(4, 4, name=f"w{i}") for i in range(20)]
    with tf.GradientTape() as tape:
        h = INPUTS @ weights(3, 4)
        for w in layers:
            h = tf.sigmoid(h @ w)  # here
        loss = tf.reduce_mean(h)
    tape.gradient(loss, layers)


def recurrence_that_explodes():
    w = tf.Variable(np.eye(3, dtype=np.float32) * 3.0, name="w")
    with tf.GradientTape() as tape:
        h = INPUTS
        for _ in range(20):
            h = h @ w  # here
        loss = tf.reduce_mean(h)
    tape.gradient(loss, w)


def train(learning_rate, steps=12):
    w, v = weights(3, 4), weights(4, 1, name="v")
    for _ in range(steps):
        with tf.GradientTape() as tape:
            h = tf.nn.relu(INPUTS @ w)
            loss = tf.reduce_mean(tf.square(h @ v - TARGETS))
        for variable, gradient in zip([w, v], tape.gradient(loss, [w, v]), strict=True):
            variable.assign_sub(learning_rate * gradient)


def learning_rate_too_high():
    train(20.0)


def wrong_sign():
    train(-0.5, steps=20)


def optimizer_with_a_high_rate():
    w, optimizer = weights(3, 1), keras.optimizers.SGD(30.0)
    for _ in range(30):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(INPUTS @ w - TARGETS))
        gradients = tape.gradient(loss, [w])
        optimizer.apply_gradients(zip(gradients, [w], strict=True))


def log_of_an_inner_gradient():
    a = tf.Variable(-0.5, name="a")
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(INPUTS)
            z = a * INPUTS
        loss = -tf.reduce_mean(tf.math.log(inner.gradient(z, INPUTS)))  # here
    tape.gradient(loss, a)


def second_derivative_of_a_relu():
    w, b = weights(3, 4), tf.Variable(tf.ones(4), name="b")
    with tf.GradientTape() as tape:
        residual = curvature(lambda x: tf.nn.relu(x @ w + b), INPUTS) + TARGETS
        loss = tf.reduce_mean(residual**2)
    tape.gradient(loss, [w, b])


BROKEN = {  # what goes wrong, at which type of op, for which sources, in which words
    inner_gradient_outside: ("none", "Pow", "x", "inner gradient was taken outside the outer tape"),
    gradient_penalty_outside: ("none", "Sum", "w", "inner gradient was taken outside the outer"),
    differentiated_before_it_is_watched: ("none", "MatMul", "t", "did not watch (or not yet)"),
    numbers_taken_out: ("none", "Tanh", "w", "the numbers of `h` left TensorFlow"),
    numpy_in_a_py_function: ("zero", "EagerPyFunc", "w", "tape inside it follows nothing"),
    rounded_output: ("none", "Round", "w", "flat between its steps"),
    accuracy_as_a_loss: ("none", "ArgMax", "w", "makes int64 numbers"),
    frozen_by_stop_gradient: ("none", "StopGradient", "w", "but no gradient"),
    forward_pass_outside_the_tape: ("none", "MatMul", "w", "outside the `with tf.GradientTape()`"),
    variable_replaced_by_a_tensor: ("none", "MatMul", "w", "it is a plain tensor"),
    not_trainable: ("none", "MatMul", "w", "only variables that are trainable"),
    rule_that_forgets_an_input: ("none", "scaled", "k", "returned None for its input"),
    dead_relu: ("zero", "Relu", "w b", "nowhere above 0"),
    all_weights_zero: ("zero", "MatMul", "w v", "The other factor is 0"),
    sum_of_a_softmax: ("zero", "Softmax", "w", "0 but for rounding"),
    log_of_zero: ("inf", "Log", "", "defined for inputs above 0"),
    log_of_an_inner_gradient: ("nan", "Log", "", "defined for inputs above 0"),
    norm_at_zero: ("inf", "Sqrt", "w", "derivative is infinite"),
    where_with_a_bad_branch: ("nan", "Mul", "w", "tf.where did not take this branch"),
    twenty_sigmoids: ("vanishing", "Sigmoid", "w0", "20 times"),
    recurrence_that_explodes: ("exploding", "MatMul", "w", "explodes"),
}


@pytest.mark.parametrize("training", BROKEN, ids=lambda f: f.__name__)
def test_a_broken_training_has_one_finding_at_its_line(training):
    what, op, sources, words = BROKEN[training]
    finding = only(recorded(training))
    assert finding.what == what
    assert (finding.op.type if finding.op else None) == op
    assert finding.source.text.endswith("# here")
    assert set(sources.split()) <= set(finding.sources)
    assert words in finding.message + finding.hint


def test_a_loss_of_second_derivatives_of_a_relu_is_told_to_teach_nothing():
    found = recorded(second_derivative_of_a_relu).diagnose()
    assert {each.what for each in found} == {"zero"}
    assert {name for each in found for name in each.sources} >= {"w", "b"}
    assert all("second derivative of ReLU and leaky ReLU is 0" in each.message for each in found)
    assert all("tanh, softplus or sin" in each.hint for each in found)


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.leaky_relu, tf.nn.tanh, tf.nn.softplus])
@pytest.mark.parametrize("boundary", [0.0, 1.0])
def test_a_physics_loss_is_told_that_the_second_derivative_of_its_relu_is_0(activation, boundary):
    """With the boundary term every weight has a gradient, but none from the equation."""
    w, v, t = weights(1, 8), weights(8, 1, name="v"), tf.constant(np.linspace(0.1, 1, 8)[:, None])
    t = tf.cast(t, tf.float32)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean((curvature(lambda t: activation(t @ w) @ v, t) + 1.0) ** 2)
        loss += boundary * tf.reduce_mean((activation(t @ w) @ v - 1.0) ** 2)
        with tape.stop_recording():
            tape.gradient(loss, [w, v] if boundary else [w])
    found = trace.diagnose()
    straight = activation in (tf.nn.relu, tf.nn.leaky_relu)
    assert bool(found) == straight
    assert (
        any("derivative of ReLU and leaky ReLU is 0" in each.message for each in found) == straight
    )
    assert found.ok or not boundary


def test_none_is_not_said_to_come_from_a_relu_whose_slope_does_not_matter():
    w, v, c, t = weights(1, 8), weights(8, 1, name="v"), tf.Variable([1.0]), tf.ones((2, 1))
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean((curvature(lambda t: tf.nn.relu(t @ w) ** 2 @ v + c, t) + 1.0) ** 2)
        with tape.stop_recording():
            tape.gradient(loss, [w, v, c])
    assert not [each for each in trace.diagnose() if "ReLU" in each.message + each.hint]


def physics_of_a_relu(**how):
    """The trace of a loss made of the second derivative of a ReLU network alone."""
    w, v, t = weights(1, 8), weights(8, 1, name="v"), tf.ones((2, 1))
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean((curvature(lambda t: tf.nn.relu(t @ w) @ v, t) + 1.0) ** 2)
        with tape.stop_recording():
            tape.gradient(loss, [w, v], **how)
    return trace


def test_no_path_is_told_beside_a_second_derivative_of_a_relu():
    trace = physics_of_a_relu(unconnected_gradients="zero")
    told = [each.message for each in trace.diagnose() if "v" in each.sources]
    assert any("no path that a tape followed" in each for each in told)


def test_a_loop_that_diverges_in_one_recording_is_not_healthy():
    w, x, y = tf.Variable([[1.0], [2.0]], name="w"), tf.constant([[1.0, 5.0], [3.0, 2.0]]), 1.0

    def trained(rate, steps=8):
        with cgviz.record() as trace:
            for _ in range(steps):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((x @ w - y) ** 2)
                w.assign_sub(rate * tape.gradient(loss, w))
        return trace.diagnose()

    assert not trained(0.01)
    report = trained(0.3)
    (finding,) = report
    assert (finding.what, finding.level, finding.sources) == ("exploding", "warning", ("w",))
    assert "times as large as in the first" in finding.message
    assert "cgviz.watch" in finding.hint
    assert "reduce_mean" in finding.source.text
    assert "healthy" not in report.headline


def test_a_bad_batch_or_the_log_of_0_in_a_loop_is_not_said_to_have_grown():
    w, batches = tf.Variable(1.0, name="w"), [1.0, 1.0, np.nan]
    for f in (lambda x: w * x, lambda x: w + tf.math.log(0.0 if np.isnan(x) else 1.0)):
        with cgviz.record() as trace:
            for batch in batches:
                with tf.GradientTape() as tape:
                    loss = f(tf.constant(batch)) ** 2
                w.assign_sub(0.1 * tape.gradient(loss, w))
        (first, *_) = trace.diagnose()
        assert "If the numbers grew" not in first.hint


def test_an_output_layer_that_a_second_derivative_of_a_relu_leaves_out_is_told_why():
    trace = physics_of_a_relu()
    (finding,) = [each for each in trace.diagnose() if each.what == "none"]
    assert finding.sources == ("v",)
    assert "ReLU" not in finding.message  # another source may have None for another reason
    (zero,) = [each for each in trace.diagnose() if each.what == "zero" and "w" in each.sources]
    assert "second derivative of ReLU and leaky ReLU is 0 for every input" in zero.message
    assert "This term teaches the weights nothing" in zero.hint


def test_a_bad_batch_is_told_at_its_own_step_and_no_other():
    (finding,) = recorded(one_bad_batch).diagnose()
    assert finding.what == "nan"
    assert finding.op.kind == "constant"
    assert "itself holds NaN at entry [0, 0]" in finding.message


@pytest.mark.parametrize(
    "training", [learning_rate_too_high, wrong_sign, optimizer_with_a_high_rate]
)
def test_a_training_that_diverges_is_told_to_lower_the_learning_rate(training):
    found = recorded(training).diagnose()
    assert {each.what for each in found} & {"exploding", "inf"}
    assert any("make the learning rate ten times smaller" in each.hint for each in found)


def test_what_a_replica_runs_on_its_own_thread_is_diagnosed():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        w = tf.Variable([0.5, -1.0], name="w")

    def replica():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.round(w))  # here
        tape.gradient(y, w)

    finding = only(recorded(lambda: strategy.run(replica)))
    assert (finding.what, finding.op.type, finding.sources) == ("none", "Round", ("w",))
    assert finding.source.text.endswith("# here")


# --- healthy ones ------------------------------------------------------------------------------


def converging():
    train(0.1, steps=20)


def gradient_ascent_from_near_zero():
    theta = tf.Variable(1e-3, name="theta")
    for _ in range(40):
        with tf.GradientTape() as tape:
            reward = 3.0 - (theta - 2.0) ** 2
        theta.assign_add(0.1 * tape.gradient(reward, theta))


def at_the_minimum_of_a_fit():
    w = tf.Variable(np.linalg.lstsq(INPUTS.numpy(), TARGETS.numpy(), rcond=None)[0], name="w")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(INPUTS @ w - TARGETS))
    tape.gradient(loss, w)


def keras_network():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model(INPUTS)
    optimizer = keras.optimizers.Adam(0.01)
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(INPUTS) - TARGETS))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def bias_before_a_normalisation():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model(INPUTS)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(INPUTS, training=True) - TARGETS))
    tape.gradient(loss, model.trainable_variables)


def attention_with_a_bias_of_keys():
    query, key, value = weights(3, 3), weights(3, 3), weights(3, 3)
    bias = weights(3, scale=1.0, name="key_bias")
    with tf.GradientTape() as tape:
        scores = (INPUTS @ query) @ tf.transpose(INPUTS @ key + bias)
        loss = tf.reduce_mean(tf.square(tf.nn.softmax(scores) @ (INPUTS @ value)))
    tape.gradient(loss, [query, key, value, bias])


def gradient_penalty():
    w = weights(3, 1)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(INPUTS)
            score = tf.reduce_sum(tf.tanh(INPUTS @ w))
        penalty = tf.reduce_sum(inner.gradient(score, INPUTS) ** 2)
    outer.gradient(penalty, w)


def two_networks_in_turns():
    w, v = weights(3, 1), weights(1, 1, name="v")
    for _ in range(3):
        for variable, factor in ((w, 1e-4), (v, 1.0)):  # gradients of very different sizes
            with tf.GradientTape() as tape:
                loss = factor * tf.reduce_mean(tf.square((INPUTS @ w) @ v - TARGETS))
            variable.assign_sub(0.01 * tape.gradient(loss, variable))


def two_losses_on_one_tape():
    w, v = weights(3, 1), weights(1, 1, name="v")
    with tf.GradientTape(persistent=True) as tape:
        h = tf.tanh(INPUTS @ w)
        one, other = tf.reduce_mean(h), tf.reduce_mean(h @ v)
    tape.gradient(one, w)
    tape.gradient(other, [w, v])


HEALTHY = (
    *(converging, keras_network, bias_before_a_normalisation, attention_with_a_bias_of_keys),
    *(gradient_ascent_from_near_zero, gradient_penalty),
    *(two_networks_in_turns, two_losses_on_one_tape),
)


@pytest.mark.parametrize("training", HEALTHY, ids=lambda f: f.__name__)
def test_a_healthy_training_has_no_finding(training):
    diagnosis = recorded(training).diagnose()
    assert diagnosis.ok, diagnosis


def test_a_gradient_that_cancels_is_a_remark_among_others_that_flow():
    (note,) = recorded(attention_with_a_bias_of_keys).diagnose().notes
    assert "The gradient of `key_bias` is 0 but for rounding" in note
    assert "as a softmax is to a shift" in note


def test_a_fit_that_has_converged_is_told_that_it_may_be_at_its_minimum():
    finding = only(recorded(at_the_minimum_of_a_fit))
    assert (finding.what, finding.op.type) == ("zero", "MatMul")
    assert "a minimum" in finding.hint


def test_a_gradient_that_cancels_is_a_finding_where_nothing_else_flows():
    def body():
        b = tf.Variable([0.3, -0.2, 0.9], name="b")
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.softmax(INPUTS + b) * [0.1, 0.1, 0.1])
        tape.gradient(loss, b)

    assert only(recorded(body)).what == "zero"


def frozen_late(rate, steps=40):
    """A training whose variable a moves in its first five steps only; the gradient stays."""
    a, c, at = tf.Variable([1.0, 2.0], name="a"), tf.Variable(1.0, name="c"), iter(range(steps))

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((a - 9.0) ** 2) + (c - 1.5) ** 2
        to_a, to_c = tape.gradient(loss, [a, c])
        a.assign_sub((0.01 if next(at) < 5 else rate) * to_a)
        c.assign_sub(0.01 * to_c)

    return cgviz.watch(step, steps)


def test_a_variable_that_stops_moving_late_is_told_to_be_frozen_since_then():
    (finding,) = frozen_late(0.0).diagnose()
    assert (finding.what, finding.sources) == ("frozen", ("a",))
    assert finding.message.startswith("since step 5, no step moves `a`")


def test_a_variable_that_has_come_to_rest_is_not_called_frozen():
    history = frozen_late(0.2, 80)  # the last steps are lost in rounding
    assert 0 < history.variables["a"].gradient[-1] < 1e-4
    assert not history.diagnose()


def test_a_variable_that_never_moved_is_told_also_when_its_gradient_has_become_small():
    w, b = tf.Variable(0.0, name="w"), tf.Variable(0.0, name="b")

    def step():
        with tf.GradientTape() as tape:
            loss = (w + b - 3.0) ** 2
        to_w, _ = tape.gradient(loss, [w, b])
        w.assign_sub(0.1 * to_w)

    (finding,) = cgviz.watch(step, 40).diagnose()
    assert (finding.what, finding.sources) == ("frozen", ("b",))


def accumulated(losses, asked):
    """A step that adds up the gradients of several tapes, and moves the variables once."""

    def step():
        found = {v.ref(): [] for each in asked for v in each}
        for loss, variables in zip(losses, asked, strict=True):
            with tf.GradientTape() as tape:
                value = loss()
            for v, g in zip(variables, tape.gradient(value, variables), strict=True):
                found[v.ref()] += [] if g is None else [g]
        for v, gradients in found.items():
            v.deref().assign_sub(0.1 * tf.add_n(gradients))

    return step


def test_what_one_of_several_added_gradients_lacks_is_a_warning_and_no_error():
    w, v = tf.Variable(1.0, name="w"), tf.Variable(2.0, name="v")
    dead, other = lambda: tf.nn.relu(-w * v) + 1.0, lambda: (w * v - 1.0) ** 2
    first, second = lambda: (w - 3.0) ** 2, lambda: (v - 3.0) ** 2
    for losses, what in (([dead, other], ["zero"]), ([first, second], ["none", "none"])):
        step = accumulated(losses, [[w, v], [w, v]])
        found = recorded(step).diagnose()
        assert [each.what for each in found] == what
        assert found.ok
        assert "But pass 1 gives `" in found[0].hint
        assert cgviz.watch(step, 4).diagnose().ok


def test_a_variable_that_no_other_pass_of_the_step_gives_a_gradient_stays_an_error():
    w, v = tf.Variable(1.0, name="w"), tf.Variable(2.0, name="v")
    dead, alive = lambda: tf.nn.relu(-w * v) + 1.0, lambda: (w - 3.0) ** 2 + (v - 3.0) ** 2
    in_one_step = accumulated([dead, alive], [[w, v], [v]])
    in_two = [accumulated([loss], [[w, v]]) for loss in (alive, dead)]
    for steps in ([in_one_step], in_two):
        found = recorded(lambda steps=steps: [step() for step in steps]).diagnose()
        assert [(each.what, each.level) for each in found] == [("zero", "error")]


def test_what_another_pass_has_is_no_excuse_unless_the_step_moves_the_variable():
    w = tf.Variable(1.0, name="w")

    def compared():  # the broken loss and the mended one, in one recording
        for loss in (lambda: tf.nn.relu(-w) + 1.0, lambda: tf.nn.leaky_relu(-w) + 1.0):
            with tf.GradientTape() as tape:
                value = loss()
            tape.gradient(value, w)

    def adapted():  # meta-learning whose inner step the outer tape does not see
        with tf.GradientTape() as inner:
            first = (w - 3.0) ** 2
        fast = w - 0.1 * inner.gradient(first, w)
        with tf.GradientTape() as outer:
            second = (fast - 2.0) ** 2
        assert outer.gradient(second, w) is None

    for step, what in ((compared, "zero"), (adapted, "none")):
        assert [(x.what, x.level) for x in recorded(step).diagnose()] == [(what, "error")]


def test_a_path_that_is_cut_stays_an_error_though_weight_decay_moves_the_variable():
    w = tf.Variable(1.5, name="w")
    for data in (lambda: tf.round(w) ** 2, lambda: tf.sign(w) + 0.0 * tf.stop_gradient(w)):
        step = accumulated([data, lambda: 0.1 * w**2], [[w], [w]])
        assert not recorded(step).diagnose().ok
        assert not cgviz.watch(step, 3).diagnose().ok


def test_a_warning_of_one_step_hides_no_error_of_a_later_step():
    w, batches = tf.Variable(1.0, name="w"), iter([-1.0, 1.0, -1.0, -2.0])
    step = accumulated([lambda: tf.nn.relu(next(batches) * w) + 1.0] * 2, [[w], [w]])
    found = recorded(lambda: [step(), step()]).diagnose()
    assert [(x.what, x.level) for x in found] == [("zero", "warning"), ("zero", "error")]


def test_batches_that_are_all_dead_from_some_step_on_are_an_error_of_the_training():
    w, steps = tf.Variable(1.0, name="w"), itertools.count()
    signs = (lambda: -1.0), (lambda: 1.0 if next(steps) < 3 else -1.0)
    losses = [lambda sign=sign: tf.nn.relu(w * sign()) + 1.0 for sign in signs]
    step = accumulated(losses, [[w], [w]])
    (found,) = cgviz.watch(step, 12).diagnose()
    assert (found.what, found.level) == ("zero", "error")
