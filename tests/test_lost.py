"""A gradient that became None is followed to the op where it was cut."""

import numpy as np
import pytest
import tensorflow as tf
from troubles import (
    CUT,
    X,
    forgotten,
    found,
    not_trainable,
    not_watched,
    numpy_rule,
    only,
    only_assigned,
    other_tape,
    outside,
    reassigned,
    recorded,
    stopped_on_the_way,
    through_an_assignment,
    watched_integer,
)

import cgviz


def target_made_before():
    one.gradient(y_before, X)


with tf.GradientTape(persistent=True) as one:
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
