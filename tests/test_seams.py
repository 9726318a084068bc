"""TensorFlow is exactly as it was when a recording ends, however it ends."""

import contextlib
import gc

import pytest
import tensorflow as tf
from tensorflow.python.eager import context, execute, imperative_grad, record
from tensorflow.python.ops import resource_variable_ops

import cgviz
from cgviz.recording import _seams


def state():
    """Every attribute that a recording replaces, and the callbacks of this thread."""
    function = type(tf.function(lambda: None))
    return [
        *(getattr(owner, name) for owner, name, _ in _seams._replacements()),
        execute.execute,
        record.record_operation,
        imperative_grad.imperative_grad,
        function.__call__,
        dict(vars(resource_variable_ops.BaseResourceVariable)),
        list(context.context().op_callbacks),
        context.context().scope_name,
        gc.get_threshold(),
    ]


@pytest.fixture(autouse=True)
def nothing_stays():
    before = state()
    yield
    assert state() == before
    assert _seams._local.hub is None
    assert _seams._recording_threads == 0


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


@pytest.mark.parametrize("place", _seams._PLACES)
def test_a_release_without_a_seam_is_one_sentence_that_names_it(place, monkeypatch):
    module, name = place.split(".")
    monkeypatch.delattr(getattr(_seams, module), name)
    with pytest.raises(RuntimeError, match=rf"TensorFlow {tf.__version__}: .*{name}. is gone"):
        cgviz.trace(lambda x: x * x, 1.0)


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
