"""A function becomes a map of real vectors, and its variables go along."""

import functools
from contextlib import suppress

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking.flattened import (
    Flattened,
    copies,
    first_derivative,
    kept,
    lay,
    leaf_at,
    to_tensor,
    to_vector,
)


def flattened(f, *given, variables=()):
    names = {id(t): f"x{i}" for i, t in enumerate(tf.nest.flatten(given))}
    return Flattened(f, given, names, variables)


def test_value_and_gradient_are_tensorflows():
    s = flattened(lambda x, y: x * y, tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    np.testing.assert_array_equal(s.forward(s.x), [3, 8])
    np.testing.assert_array_equal(s.pull().vector, [3, 4, 1, 2])


def test_integers_are_handed_over_and_not_differentiated():
    s = flattened(tf.gather, tf.constant([1.0, 2.0]), tf.constant([1, 1]))
    assert s.x.size == 2
    np.testing.assert_array_equal(s.pull().vector, [0, 2])


def test_variables_that_f_reads_are_varied_too():
    w = tf.Variable(3.0, name="w")
    s = flattened(lambda x: w * x, tf.constant(2.0), variables=[w])
    assert s.forward(np.array([2.0, 5.0])) == [10]
    assert float(w) == 5.0
    assert s.forward(s.x) == [6]
    assert float(w) == 3.0


def test_widening_makes_doubles_of_arguments_and_leaves_variables():
    w = tf.Variable(3.0, name="w")
    s = flattened(lambda x, v: tf.cast(v, x.dtype) * x, tf.constant(2.0), w)
    wide = s.widened()
    assert all(leaf.source.dtype == tf.float64 for leaf in wide.leaves)
    wide.forward(np.array([2.0, 7.0]))
    assert float(w) == 3.0


def test_steps_are_powers_of_two_of_the_size_of_each_entry():
    s = flattened(tf.sin, tf.constant([0.0, 1e-4, 3.0]))
    assert np.all(np.log2(s.scale) == np.round(np.log2(s.scale)))
    assert s.scale[1] == pytest.approx(1e-4, rel=0.5)
    assert s.scale[0] == 4.0


# --- tensors and vectors ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.complex64])
def test_a_tensor_goes_to_a_vector_and_back(dtype):
    tensor = tf.cast(tf.constant([[1.0, 2.0], [3.0, 4.0]]), dtype)
    if dtype.is_complex:
        tensor = tensor * (1 + 2j)
    again = to_tensor(to_vector(tensor), tensor.shape, dtype)
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, tensor)


def test_entries_have_names():
    w, x, z = tf.zeros((2, 3)), tf.zeros(()), tf.zeros(2, tf.complex64)
    leaves = lay([w, tf.zeros(0), x, z], ["w", "empty", "x", "z"])
    names = [leaf_at(leaves, index).entry(index) for index in (5, 6, 7, 10)]
    assert names == ["w[1, 2]", "x", "real z[0]", "imag z[1]"]


# --- the second order -------------------------------------------------------------------------


def in_doubles(f, *given):
    return flattened(f, *[tf.constant(x, tf.float64) for x in given])


def test_a_product_has_ones_beside_the_diagonal():
    first = first_derivative(in_doubles(lambda x, y: x * y, [1.0, 2.0], [3.0, 4.0]), np.ones(2))
    np.testing.assert_array_equal(first.forward(first.x), [3, 4, 1, 2])
    np.testing.assert_array_equal(first.pull(np.eye(4)[0]).vector, [0, 0, 1, 0])


def test_an_upstream_that_grows_is_differentiated_too():
    s = in_doubles(lambda x: x**3, 2.0)
    first = first_derivative(s, np.ones(1), growing=True)
    assert first.forward(first.x) == [12.0]  # the upstream is 1 here
    slope = (first.forward(s.x + 1e-4) - first.forward(s.x - 1e-4)) / 2e-4
    assert slope > 12.1  # 6x, and 3x² times the growth
    np.testing.assert_allclose(first.pull(np.ones(1)).vector, slope, rtol=1e-6)


def test_an_upstream_grows_with_each_input_and_part_of_a_complex_number():
    s = flattened(tf.abs, tf.constant([3 + 4j], tf.complex128))
    first = first_derivative(s, np.ones(1), growing=True)
    claimed = np.stack([first.pull(unit).vector for unit in np.eye(2)])
    ahead, behind = (
        np.stack([first.forward(s.x + h) for h in sign * np.eye(2)]) for sign in (1e-4, -1e-4)
    )
    np.testing.assert_allclose(claimed, ((ahead - behind) / 2e-4).T, rtol=1e-6)


def test_a_rule_is_pushed_by_differentiating_it():
    s = in_doubles(lambda x, y: x * y, [1.0, 2.0], [3.0, 4.0])
    np.testing.assert_array_equal(s.push(np.array([1.0, 0, 0, 10.0]), s.x), [3, 20])


def test_a_derivative_is_taken_where_the_variables_were():
    w = tf.Variable(np.float64(3.0))
    s = flattened(lambda w: w**3, w)
    s.forward(np.array([5.0]))
    assert first_derivative(s, np.ones(1)).x == [3.0]


# --- what a run may change ---------------------------------------------------------------------

counter = tf.Variable(1.0, name="counter")


def uses_globals(x):
    counter.assign_add(1.0)
    return x


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(2.0, name="w")

    def __call__(self, x):
        self.w.assign_add(1.0)
        return x * self.w

    def method(self, x):
        return self(x)


def closure():
    v = tf.Variable([1.0, 2.0])

    def f(x):
        v.assign(v * 2.0)
        return x

    return f, v


@pytest.mark.parametrize("function", [lambda f: f, functools.partial, tf.function])
def test_a_variable_that_a_run_changes_is_put_back_wherever_it_is_held(function):
    f, v = closure()
    module = Module()
    for n, (g, variable) in enumerate(
        (
            (f, v),
            (uses_globals, counter),
            (module, module.w),
            (module.method, module.w),
            (lambda x: f(x), v),
        )
    ):
        before = variable.numpy().tolist()
        where = () if n % 2 else ("eager", "graph")  # a graph takes long: for every other holder
        report = cgviz.check(function(g), 1.0, where=where)
        assert variable.numpy().tolist() == before, g
        assert f"`{variable.name[:-2]}`" in [x.message for x in report.findings][-1], g


def test_a_variable_that_is_given_and_not_used_is_put_back():
    v = tf.Variable([1.0, 2.0])
    cgviz.check(lambda x, v: x * x, 3.0, v)
    assert v.numpy().tolist() == [1.0, 2.0]


def test_a_variable_that_f_makes_when_it_is_called_first_is_put_back_to_its_first_value():
    made = []

    def f(x):
        if not made:
            made.append(tf.Variable(2.0, name="late"))
        made[0].assign_add(1.0)
        return x * made[0]

    report = cgviz.check(f, 3.0)
    assert float(made[0]) == 2.0
    assert "mutation" in [finding.rule for finding in report.findings]


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_variables_and_streams_are_put_back_on_every_way_out(error):
    f, v = closure()
    before = np.random.get_state()[1].tolist()
    with suppress(ValueError, KeyboardInterrupt), kept(copies([v])):
        f(1.0)
        np.random.random()
        if error:
            raise error
    assert v.numpy().tolist() == [1.0, 2.0]
    assert np.random.get_state()[1].tolist() == before
