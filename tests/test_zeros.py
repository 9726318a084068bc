"""A gradient that is zero is followed to where zero began."""

import numpy as np
import tensorflow as tf
from handmade import Tape
from troubles import found, only

import cgviz
from cgviz.diagnosing import zeros
from cgviz.diagnosing.survey import Survey


def began(tape, target, *sources):
    """(what was blamed, whose gradient it is) of each finding."""
    trace = tape.trace(target, sources)
    return [(f.name, f.sources) for f in zeros.find(Survey(trace, trace.passes[0]))]


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


def test_ways_that_cancel_are_named():
    finding = only(cgviz.trace(lambda x: x - x, 2.0))
    assert "adds up to 0" in finding.message


def test_ways_that_cancel_further_on_are_named_where_they_meet():
    def f(x):
        middle = 3.0 * x
        return tf.sin(middle) - tf.sin(middle)

    finding = only(cgviz.trace(f, 2.0))
    assert finding.op is None
    assert "the ways through `middle` hand back adds up to 0" in finding.message


def test_a_target_that_cancels_its_own_upstream_is_named():
    with cgviz.record() as trace, tf.GradientTape() as tape:
        x = tf.constant(2.0)
        tape.watch(x)
        tape.gradient([x, -x], x)
    assert "adds up to 0" in only(trace).message


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
    assert "the gradients of `x` and `y` are exactly 0" in finding.message


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
    assert "the ways through `v` hand back adds up to 0" in finding.message


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
