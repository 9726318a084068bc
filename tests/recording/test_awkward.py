"""Every method works on numbers that are no good, and NumPy warns of nothing (a warning fails)."""

import functools

import matplotlib as mpl
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.graph.names import own_name
from cgviz.graph.selection import select
from cgviz.live import assets
from cgviz.reading.table import rule_lines

mpl.use("Agg")


@tf.custom_gradient
def up(x):
    return x * 1.0, lambda upstream: upstream * np.inf


@tf.custom_gradient
def down(x):
    return x * 1.0, lambda upstream: upstream * -np.inf


def meeting(x):
    """Plus and minus infinity meet, in an open scope and in folded ones."""
    for i in range(16):  # 80 ops: more than are shown unfolded
        with tf.name_scope(f"part{i}"):
            x = up(x) * 1.0 + down(x)
    return x


PROGRAMS = {
    "infinities meet": (meeting, 2.0),
    "a pole": (lambda x: tf.math.log(x) / x - 1 / x, 0.0),
    "infinity minus infinity": (lambda x: tf.exp(x) - tf.exp(2 * x), 1000.0),
    "the root behind where": (lambda x: tf.where(x > 0, tf.sqrt(x), 0.0 * x), [0.0, 1.0]),
    "NaN": (lambda x: x * np.nan + x, 1.0),
    "ties": (tf.reduce_max, [1.0, 1.0]),
    "empty": (lambda x: tf.reduce_sum(x * x) + tf.reduce_max(x), np.zeros((0, 2), np.float32)),
    "huge": (lambda x: x * x * x, [1e30, -1e30]),
    "tiny": (lambda x: x * x * x, 1e-30),
    "float16 overflows": (lambda x: tf.exp(x) * x, tf.constant([12.0, 5.0], tf.float16)),
    "bfloat16": (lambda x: tf.exp(x) * x * 1e30, tf.constant([80.0, 5.0], tf.bfloat16)),
    "float64": (lambda x: tf.exp(x) * x, tf.constant([709.0, 710.0], tf.float64)),
    "complex": (lambda x: tf.abs(x * x), tf.constant([1 + 2j, 0j])),
    "a matrix with infinity": (lambda x: x @ x, [[np.inf, 1.0], [0.0, 1.0]]),
    "an integer beside": (lambda x: x * tf.cast(tf.argmax([x, 0.0]), tf.float32), -0.0),
}


def asked(trace, hide):
    try:
        cgviz.predict(trace, hide=hide)
    except ValueError as error:  # nothing in it has a number that can be asked for
        if "to ask for in this trace" not in str(error):
            raise


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_method_works(name, order, tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "MOST_FOLDS", 0)  # each is laid out, which takes long
    f, x = PROGRAMS[name]
    trace = cgviz.trace(f, x, order=order)
    for which in range(order):
        assert trace.table(which)._repr_html_()
        assert repr(trace.table(which, full=True))
        assert str(trace.chain_rule(which))
        assert trace.chain_rule(which).latex
        assert trace.plot(which=which).cgviz_alt
        assert trace.view(which=which, full=True).words
    assert trace.diagnose()._repr_html_()
    assert trace.view(against=trace).words
    for hide in ("downstream", "local", "gradient"):
        asked(trace, hide)
    for suffix in (".html", ".svg", ".json"):
        trace.save(tmp_path / f"trace{suffix}")
    assert repr(cgviz.load(tmp_path / "trace.json")) == repr(trace)


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (meeting, -1.0, 1.0),
        (lambda x: tf.math.log(x) / x - 1 / x, -1.0, 1.0),
        (lambda x: tf.exp(x) - tf.exp(2 * x), 0.0, 2000.0),
        (lambda x: tf.stack([tf.exp(x), -tf.exp(2 * x)]), 0.0, 2000.0),
        (lambda x: x * x * x, -1e30, 1e30),
    ],
)
def test_sliders_run_through_poles(f, low, high):
    assert cgviz.explore(f, x=(low, high)).words


def test_a_variable_that_assign_add_returned_can_be_the_target():
    one, other = tf.Variable(3.0, name="one"), tf.Variable(0.0, name="other")
    with cgviz.record() as trace, tf.GradientTape() as tape:
        y = other.assign_add(one)  # TensorFlow's guide to autodiff does so
        tape_gave = tape.gradient(y, [one, other])
    assert tape_gave[0] is None
    assert trace.value == 3.0
    assert trace.variables["one"] is None
    assert trace.variables["other"] == tape_gave[1].numpy() == 1.0
    assert trace.passes[0].seeds[0] == 1.0
    assert "an assignment passes no gradient on" in str(trace.diagnose())


def test_a_target_that_only_an_earlier_recording_knew_is_told_and_not_an_error():
    x, y = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y.assign_add(x * x)
    with cgviz.record() as trace:
        assert tape.gradient(y, x) is None
    assert trace.passes[0].seeds == (None,)
    assert "None" in repr(trace)
    assert str(trace.diagnose())


def test_a_variable_that_nothing_read_has_its_shape_and_is_not_watched():
    unread = tf.Variable([1.0, 2.0], name="unread")
    with tf.GradientTape() as outer, cgviz.record() as trace, tf.GradientTape() as tape:
        x = tf.constant(2.0)
        tape.watch(x)
        tape.gradient(x * x, [x, unread])
    (value,) = trace.passes[0].sources[1:]
    assert value.numpy().tolist() == [1.0, 2.0]
    assert outer.watched_variables() == ()


def test_of_two_tapes_each_has_its_own_gradients_and_the_other_ones_inputs_are_not_watched():
    x, w = tf.constant(2.0), tf.constant(3.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(x)
                y = w * x * x
            slope = inner.gradient(y, x)
            assert inner.gradient(y, w) is None
        assert outer.gradient(slope, w).numpy() == 4.0
    inner_pass, _, outer_pass = trace.passes
    assert inner_pass.steps[1].flows == (False, True)
    said = trace.plot(which=0).cgviz_alt
    assert "w (input) to ×: value 3, no gradient: not watched." in said
    assert "x (input) to ×: value 2, gradient 6 flows back." in said
    said = trace.plot(which=2).cgviz_alt
    assert said.count("x (input) to ×: value 2, no gradient: not watched.") == 1
    assert "no gradient for" not in said
    assert "tape not recording" not in said
    skipping = [step for step in outer_pass.steps if step.skipped]
    assert skipping
    assert all(step.downstream[j] is None for step in skipping for j in step.skipped)


def test_an_op_before_a_late_watch_is_not_watched_and_one_outside_the_tape_not_recorded():
    def reasons(late):
        x = tf.constant(3.0)
        with cgviz.record() as trace:
            if not late:
                y = x * x
            with tf.GradientTape() as tape:
                if late:
                    y = x * x
                tape.watch(x)
                z = x * 2.0 + y
            tape.gradient(z, x)
        return {e.reason for e in select(trace).edges} - {""}

    assert reasons(late=True) == {"not watched"}
    assert reasons(late=False) == {"tape not recording"}


def scaling(w, calls):
    """x · w by a custom rule that reads w, and counts its calls."""

    @tf.custom_gradient
    def scale(x):
        def grad(dy, variables=None):
            calls.assign_add(1.0)
            return dy * w, [dy * x]

        return x * w, grad

    return scale


def test_a_local_is_that_of_the_pass_though_training_has_moved_the_variable_since():
    w, calls = tf.Variable(2.0, name="w"), tf.Variable(0.0, trainable=False)
    scale = scaling(w, calls)

    def step():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = scale(x)
        _, gradient = tape.gradient(y, [x, w])
        w.assign_sub(0.5 * gradient)

    with cgviz.record() as trace:
        step()
    assert [local.item() for local in trace.steps[0].local[0]] == [2.0, 3.0]
    assert "dy/dx = ∂y/∂x\n      = 2\n" in str(trace.chain_rule())
    assert (w.numpy(), calls.numpy()) == (0.5, 1.0)
    history = cgviz.watch(step, 2)
    assert [history.trace(n).steps[0].local[0][0].item() for n in (0, 1)] == [0.5, -1.0]
    assert w.numpy() == -2.5


def test_the_code_of_a_rule_has_the_number_of_a_variable_only_where_it_had_one():
    w, calls = tf.Variable(2.0, name="w"), tf.Variable(0.0, trainable=False)
    scale = scaling(w, calls)
    trace = cgviz.trace(scale, 3.0)
    w.assign(100.0)
    shown = [number for _, numbers in rule_lines(trace.steps[0]) for number in numbers]
    assert "w = 2" in shown
    with cgviz.record() as two:
        for _ in range(2):
            x = tf.constant(3.0)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = scale(x)
            tape.gradient(y, x)
            w.assign_add(1.0)
    shown = [number for _, numbers in rule_lines(two.steps[0]) for number in numbers]
    assert not any(number.startswith("w = ") for number in shown)


def test_a_sum_or_a_reduction_has_its_name_once_also_in_a_loop():
    def summed(x):
        loss = sum([x, x * x, x * x * x])
        return loss

    def reduced(x):
        total = sum(x * float(i) for i in range(3))
        y = functools.reduce(tf.multiply, [total, x, x])
        return y

    def looped(x):
        for _ in range(2):
            x = sum([x, x, x])
            z = x * 2.0
        return z

    def own(f):
        return [op.name for op in cgviz.trace(f, 2.0).ops if op.kind == "op" and own_name(op)]

    assert own(summed) == ["loss"]
    assert own(reduced) == ["total", "y"]
    assert own(looped) == ["x_1", "z", "x_2", "z_1"]


def test_a_function_that_runs_again_closed_finds_its_variables_as_they_were():
    """Its rule works in a graph only; the first run, opened, has already added 1."""

    @tf.custom_gradient
    def graph_only(x):
        def grad(upstream):
            y = tf.sin(x)
            return upstream * tf.gradients(y, x)[0]

        return tf.sin(x), grad

    count = tf.Variable(0.0)

    @tf.function
    def step(x):
        count.assign_add(1.0)
        return graph_only(x) * count

    trace = cgviz.trace(step, tf.constant([0.3]))
    assert count.numpy() == 1.0
    np.testing.assert_allclose(trace.value, np.sin([0.3]), rtol=1e-6)
    np.testing.assert_allclose(trace.gradients[0], np.cos([0.3]), rtol=1e-6)
