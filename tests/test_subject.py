"""A function becomes a map of real vectors, and its variables go along."""

import numpy as np
import pytest
import tensorflow as tf

from cgviz.checking.subject import Subject
from cgviz.checking.twice import Upstream, slope


def subject(f, *given, variables=()):
    names = {id(t): f"x{i}" for i, t in enumerate(tf.nest.flatten(given))}
    return Subject(f, given, names, variables)


def test_one_input_is_called_in_and_several_by_their_names():
    one = subject(tf.sin, tf.constant([1.0, 2.0]))
    assert one.in_place(1) == "in[1]"
    two = subject(tf.multiply, tf.constant([1.0, 2.0]), tf.constant(3.0))
    assert [two.in_place(i) for i in range(3)] == ["x0[0]", "x0[1]", "x1"]


def test_outputs_are_named_by_their_place():
    s = subject(tf.sin, tf.constant(1.0))
    assert s.out_place(1, [tf.zeros(3)]) == "out[1]"
    assert s.out_place(4, [tf.zeros(3), tf.zeros(2)]) == "out[1][1]"


def test_value_and_gradient_are_tensorflows():
    s = subject(lambda x, y: x * y, tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    np.testing.assert_array_equal(s.forward(s.x), [3, 8])
    np.testing.assert_array_equal(s.pull().vector, [3, 4, 1, 2])


def test_integers_are_handed_over_and_not_differentiated():
    s = subject(tf.gather, tf.constant([1.0, 2.0]), tf.constant([1, 1]))
    assert s.x.size == 2
    np.testing.assert_array_equal(s.pull().vector, [0, 2])


def test_variables_that_f_reads_are_varied_too():
    w = tf.Variable(3.0, name="w")
    s = subject(lambda x: w * x, tf.constant(2.0), variables=[w])
    assert s.forward(np.array([2.0, 5.0])) == [10]
    assert float(w) == 5.0
    assert s.forward(s.x) == [6]
    assert float(w) == 3.0


def test_widening_makes_doubles_of_arguments_and_leaves_variables():
    w = tf.Variable(3.0, name="w")
    s = subject(lambda x, v: tf.cast(v, x.dtype) * x, tf.constant(2.0), w)
    wide = s.widened()
    assert all(leaf.source.dtype == tf.float64 for leaf in wide.leaves)
    wide.forward(np.array([2.0, 7.0]))
    assert float(w) == 3.0
    assert wide.wide
    assert not s.wide


def test_steps_are_powers_of_two_of_the_size_of_each_entry():
    s = subject(tf.sin, tf.constant([0.0, 1e-4, 3.0]))
    assert np.all(np.log2(s.scale) == np.round(np.log2(s.scale)))
    assert s.scale[1] == pytest.approx(1e-4, rel=0.5)
    assert s.scale[0] == 4.0


def test_a_slow_function_is_run_as_a_graph(monkeypatch):
    monkeypatch.setattr("cgviz.checking.subject.SLOW", 0.0)
    runs = []
    s = subject(lambda x: runs.append(1) or tf.sin(x), tf.constant([1.0, 2.0]))
    s.quicken()
    before = len(runs)
    np.testing.assert_allclose(s.forward(s.x), np.sin([1, 2]), rtol=1e-6)
    np.testing.assert_allclose(slope(s, Upstream(np.ones(2)))(s.x), np.cos([1, 2]), rtol=1e-6)
    assert len(runs) <= before + 2
