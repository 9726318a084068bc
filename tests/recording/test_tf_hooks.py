"""A recording sees what TensorFlow does and changes nothing of it.

When it ends, however it ends, TensorFlow is exactly as it was: every test here is held to that.
"""

import contextlib
import re
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from oracle import tape_gradient
from programs import square
from tensorflow.python.eager import context, execute, imperative_grad, record
from tensorflow.python.ops import resource_variable_ops

import cgviz
from cgviz.recording import tf_hooks


def state():
    """Every attribute that a recording replaces, and the callbacks of this thread."""
    function = type(tf.function(lambda: None))
    return [
        *(getattr(owner, name) for owner, name, _ in tf_hooks._replacements()),
        execute.execute,
        record.record_operation,
        imperative_grad.imperative_grad,
        function.__call__,
        _own(resource_variable_ops.BaseResourceVariable),
        list(context.context().op_callbacks),
        context.context().scope_name,
    ]


def _own(owner):
    """A class's own attributes, but what Python adds when it is first asked for."""
    return {name: x for name, x in vars(owner).items() if name != "__annotations__"}


@pytest.fixture(autouse=True)
def nothing_stays():
    before = state()
    yield
    assert state() == before
    assert tf_hooks._recorder.get() is None
    assert tf_hooks._users == tf_hooks._saved == []


# --- on and off ------------------------------------------------------------------------------


def test_a_trace_leaves_nothing_behind():
    during = []
    cgviz.trace(lambda x: during.append(state()) or x * x, 1.0)
    assert during[0] != state()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_in_f_comes_out_unharmed(error):
    def f(x):
        tf.sin(x)
        raise error("mine")

    with pytest.raises(error, match="mine") as caught:
        cgviz.trace(f, 1.0)
    assert type(caught.value) is error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_rule_comes_out_unharmed(error):
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            raise error("in the rule")

        return x * 2.0, grad

    with pytest.raises(error, match="in the rule"):
        cgviz.trace(f, 1.0)


def test_an_error_in_a_custom_body_does_not_spoil_what_follows():
    @tf.custom_gradient
    def broken(x):
        raise ValueError("in the body")

    def f(x):
        with contextlib.suppress(ValueError):
            broken(x)
        return x * x

    assert cgviz.trace(f, 3.0).gradients[0] == 6.0


def test_a_recording_that_fails_keeps_what_it_saw():
    x = tf.constant(3.0)
    with pytest.raises(ValueError, match="late"), cgviz.record() as trace:  # noqa: PT012
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
        raise ValueError("late")
    assert trace.gradients[0] == 6.0


def test_an_inner_recording_that_fails_leaves_the_outer_one_running():
    with cgviz.record() as outer:
        with pytest.raises(ValueError, match="mine"), cgviz.record():
            raise ValueError("mine")
        cgviz.trace(lambda x: x * x, 3.0)
    assert len(outer.passes) == 1


def test_a_callback_of_somebody_else_stays():
    from tensorflow.python.framework import op_callbacks

    seen = []

    def callback(op_type, *args, **kwargs):
        seen.append(op_type)

    op_callbacks.add_op_callback(callback)
    try:
        cgviz.trace(lambda x: tf.sin(x), 1.0)
        count = len(seen)
        tf.reshape(tf.constant([1.0]), [1, 1])
        assert len(seen) == count + 1
    finally:
        op_callbacks.remove_op_callback(callback)


@pytest.mark.parametrize("place", tf_hooks._NEEDED)
def test_a_release_without_a_hook_is_one_sentence_that_names_it(place, monkeypatch):
    module, name = place.split(".")
    monkeypatch.delattr(getattr(tf_hooks, module), name)
    with pytest.raises(RuntimeError, match=rf"TensorFlow {tf.__version__}: .*{name}. is gone"):
        cgviz.trace(lambda x: x * x, 1.0)


WITHOUT = """
import tensorflow as tf
from tensorflow.python import pywrap_tfe
del pywrap_tfe.{name}
import cgviz
try:
    cgviz.trace(lambda x: x * x, 3.0)
except RuntimeError as error:
    print(error)
"""


def test_a_release_that_cannot_even_be_imported_from_is_the_same_sentence():
    name = "TFE_Py_TapeSetIsEmpty"
    run = [sys.executable, "-c", WITHOUT.format(name=name)]
    said = subprocess.check_output(run, text=True)
    assert re.match(rf"cgviz cannot record with TensorFlow {tf.__version__}: .*{name}.*2\.21", said)


def test_eager_traces_of_custom_gradients_leave_no_registry_entry():
    from tensorflow.python.framework import ops

    @tf.custom_gradient
    def square(x):
        return x * x, lambda dy: 2.0 * x * dy

    before = len(ops._gradient_registry._registry)
    f = tf.function(square)
    for n in range(3):
        cgviz.trace(f, float(n), order=2)
    assert len(ops._gradient_registry._registry) == before


# --- what it sees ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2.0, 3.0])
def test_a_constant_of_the_same_value_is_not_taken_for_the_variable(value):
    w = tf.Variable(2.0, name="w")
    x = tf.constant(value)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * w
            z = y * w
        tape.gradient(z, [x, w])
    assert [op.name for op in trace.ops] == ["w", "x", "y", "z"]
    kinds = [[trace.producer(v)[0].name for v in s.op.inputs] for s in trace.steps]
    assert kinds == [["y", "w"], ["x", "w"]]


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
def test_a_variable_that_only_the_sources_name_is_known_as_it_was(make):
    x, unread = tf.constant(2.0), make([3.0], name="unread")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, {"a": [unread], "b": x})
    unread.assign([7.0])
    op = next(op for op in trace.ops if op.name == "unread")
    assert (op.kind, op.outputs[0].numpy()) == ("variable", [3.0])
    assert trace.variables == {"unread": None}
    assert trace.gradients == (4.0,)


def test_a_tf_function_is_opened_or_kept_one_op():
    @tf.function
    def f(x):
        y = tf.sin(x)
        return y * x

    opened = cgviz.trace(f, 2.0)
    assert [s.op.type for s in opened.steps] == ["Mul", "Sin"]
    closed = cgviz.trace(f, 2.0, open_functions=False)
    assert [(s.op.type, s.op.name) for s in closed.steps] == [("tf.function", "f")]
    assert closed.gradients == opened.gradients


def test_a_tf_function_inside_another_is_opened_too_and_autograph_is_not_missed():
    @tf.function
    def inner(x):
        if tf.reduce_sum(x) > 0:
            return x * x
        return x

    @tf.function
    def outer(x):
        for _ in tf.range(2):
            x = inner(x)
        return x

    trace = cgviz.trace(outer, 2.0)
    assert trace.value == 16.0
    assert trace.gradients[0] == 32.0
    assert [s.op.type for s in trace.steps] == ["Mul", "Mul"]


def test_jacobian_inside_a_recording_is_unharmed():
    x = tf.constant([1.0, 2.0])
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = square(x) * x
        jacobian = tape.jacobian(y, x)
        tape.gradient(y, x)
    np.testing.assert_allclose(jacobian, [[3.0, 0.0], [0.0, 12.0]])
    assert len(trace.passes) == 1


def test_forward_accumulators_beside_a_recording_keep_their_numbers():
    x = tf.constant(2.0)

    def jvp():
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = square(x) * tf.sin(x)
            g = tape.gradient(y, x)
        return acc.jvp(y), acc.jvp(g), g

    plain = jvp()
    with cgviz.record():
        recorded = jvp()
    assert [float(t) for t in plain] == [float(t) for t in recorded]


def test_a_recording_inside_a_recording_sees_its_part_and_hides_nothing():
    with cgviz.record() as outer:
        first = cgviz.trace(square, 2.0)
        with cgviz.record() as inner:
            second = cgviz.trace(square, 3.0)
    assert first.gradients[0] == 4.0
    assert second.gradients[0] == 6.0
    assert len(inner.passes) == 1
    assert [float(p.gradients[0]) for p in outer.passes] == [4.0, 6.0]


def test_two_threads_record_at_once_and_a_third_is_not_recorded():
    traces, started = {}, threading.Barrier(3)

    def work(n):
        started.wait()
        for _ in range(5):
            if n == 2:
                _, (g,) = tape_gradient(lambda x: square(x) * x, tf.constant(float(n)))
                traces[n] = float(g)
            else:
                traces[n] = cgviz.trace(lambda x: square(x) * tf.reshape(x, [1]), float(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert traces[2] == 12.0
    for n in (0, 1):
        assert traces[n].gradients[0] == 3.0 * n**2
        assert len(traces[n].steps) == 3


def test_recording_inside_a_graph_says_where_to_start_instead():
    @tf.function
    def f(x):
        with cgviz.record():
            return x

    with pytest.raises(RuntimeError, match=r"outside of `tf\.function`"):
        f(tf.constant(1.0))
