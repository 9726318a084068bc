"""A function becomes a map of real vectors, and its variables go along."""

import numpy as np
import pytest
import tensorflow as tf

from cgviz.checking.flattened import (
    Flattened,
    Upstream,
    entry_name,
    gradient_at,
    growing,
    output_name,
    pull_twice,
    pull_twice_in_a_graph,
    to_tensor,
    to_vector,
)


def flattened(f, *given, variables=()):
    names = {id(t): f"x{i}" for i, t in enumerate(tf.nest.flatten(given))}
    return Flattened(f, given, names, variables)


def test_one_input_is_called_in_and_several_by_their_names():
    one = flattened(tf.sin, tf.constant([1.0, 2.0]))
    assert one.input_name(1) == "in[1]"
    two = flattened(tf.multiply, tf.constant([1.0, 2.0]), tf.constant(3.0))
    assert [two.input_name(i) for i in range(3)] == ["x0[0]", "x0[1]", "x1"]


def test_outputs_are_named_by_their_place():
    assert output_name(1, [tf.zeros(3)]) == "out[1]"
    assert output_name(4, [tf.zeros(3), tf.zeros(2)]) == "out[1][1]"


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
    assert wide.wide
    assert not s.wide


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
    assert entry_name("w", (2, 3), 5) == "w[1, 2]"
    assert entry_name("x", (), 0) == "x"
    assert entry_name("z", (), 1, True) == "imag z"


# --- the second order -------------------------------------------------------------------------


def in_doubles(f, *given):
    return flattened(f, *[tf.constant(x, tf.float64) for x in given])


def test_a_product_has_ones_beside_the_diagonal():
    s = in_doubles(lambda x, y: x * y, [1.0, 2.0], [3.0, 4.0])
    upstream = Upstream(np.ones(2))
    np.testing.assert_array_equal(gradient_at(s, upstream, s.x), [3, 4, 1, 2])
    found = pull_twice(s, upstream, np.eye(4)[0])
    np.testing.assert_array_equal(found, [0, 0, 1, 0])


def test_an_upstream_that_is_x_is_differentiated_too():
    s = in_doubles(lambda x: x**3, 2.0)
    upstream = growing(np.ones(1), s)
    assert gradient_at(s, upstream, s.x) == [24.0]  # x · 3x²
    assert pull_twice(s, upstream, np.ones(1)) == [36.0]  # 9x²
    assert pull_twice_in_a_graph(s, upstream, np.ones(1)) == [36.0]


def test_an_upstream_grows_with_each_input_and_part_of_a_complex_number():
    s = Flattened(tf.abs, [tf.constant([3 + 4j], tf.complex128)], {})
    upstream = growing(np.ones(1), s)
    assert upstream.growth.all()
    claimed = np.stack([pull_twice(s, upstream, unit) for unit in np.eye(2)])
    ahead, behind = (
        np.stack([gradient_at(s, upstream, s.x + h) for h in sign * np.eye(2)])
        for sign in (1e-4, -1e-4)
    )
    moved = (ahead - behind) / 2e-4
    np.testing.assert_allclose(claimed, moved.T, rtol=1e-6)
