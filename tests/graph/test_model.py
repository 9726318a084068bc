"""The records: they hold by reference, read as NumPy, and add up what flows."""

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape

import cgviz
from cgviz.graph import Op, Source, Step, Value, as_numpy, model


def fork():
    """y = a * a at a = 3, by hand: two uses of a, 3 and 3 come back."""
    tape = Tape()
    a = tape.start("a", 3.0)
    y = tape.op("y", "Mul", [a, a], 9.0, back=[3.0, 3.0])
    return tape.trace(y, [a]).passes[0], a, y


def test_a_value_is_held_by_reference_and_read_when_asked():
    tensor = tf.constant([1.0, 2.0])
    value = Value(1, (2,), "float32", tensor)
    assert value.reference is tensor
    np.testing.assert_array_equal(value.numpy(), [1.0, 2.0])


@pytest.mark.parametrize(
    ("shape", "size"), [((), 1), ((0,), 0), ((3, 0, 2), 0), ((2, 3), 6), ((2**20, 2**20), 2**40)]
)
def test_the_size_is_the_number_of_entries(shape, size):
    assert Value(1, shape, "float32", None).size == size


@pytest.mark.parametrize(
    "dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.int32, tf.bool]
)
def test_a_value_is_differentiable_where_tensorflow_says_its_dtype_is(dtype):
    assert Value(1, (), dtype.name, None).differentiable == (dtype.is_floating or dtype.is_complex)


def test_none_is_read_as_none_and_an_array_as_itself():
    array = np.zeros(2)
    assert as_numpy(None) is None
    assert as_numpy(array) is array
    assert as_numpy(3).shape == ()


def test_a_place_without_its_line_still_has_a_number():
    assert str(Source("a.py", 3, "y = x")) == "line 3: y = x"
    assert str(Source("a.py", 3, "")) == "line 3"


def test_each_use_of_a_value_contributes_and_their_sum_reaches_it():
    backward, a, _ = fork()
    assert [(position, g.item()) for _, position, g in backward.contributions(a)] == [
        (0, 3),
        (1, 3),
    ]
    assert backward.upstream(a).item() == 6.0


def test_the_target_is_reached_by_its_seed():
    backward, _, y = fork()
    assert backward.contributions(y) == []
    assert backward.upstream(y).item() == backward.seeds[0].item() == 1.0


def test_a_use_that_hands_nothing_back_is_no_contribution():
    tape = Tape()
    a, b = tape.start("a", 3.0), tape.start("b", 2.0)
    y = tape.op("y", "Mul", [a, b], 6.0, back=[2.0, None])
    backward = tape.trace(y, [a]).passes[0]
    assert backward.steps[0].flows == (True, False)
    assert backward.contributions(b) == []
    assert backward.upstream(b) is None


def test_nan_and_infinity_are_added_as_ieee_says():
    tape = Tape()
    a = tape.start("a", 0.0)
    y = tape.op("y", "Mul", [a, a], 0.0, back=[np.inf, -np.inf])
    backward = tape.trace(y, [a]).passes[0]
    assert np.isnan(backward.upstream(a))


def test_seeds_are_ones_of_the_targets_shape_and_dtype_unless_given():
    ones = cgviz.trace(lambda x: x * x, tf.constant([1.0, 2.0], tf.float64)).passes[0].seeds[0]
    assert ones.dtype == np.float64
    np.testing.assert_array_equal(ones, [1.0, 1.0])
    given = cgviz.trace(lambda x: x * x, [1.0, 2.0], upstream=[5.0, 7.0]).passes[0].seeds[0]
    np.testing.assert_array_equal(given, [5.0, 7.0])


def test_a_step_runs_its_rule_again_as_the_tape_would():
    x, u = tf.constant([1.0, -2.0, 0.0]), tf.constant([10.0, 100.0, -1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x)
    again = cgviz.trace(tf.tanh, x).steps[0].vjp([u.numpy()])
    np.testing.assert_array_equal(again[0], tape.gradient(y, x, output_gradients=u))


def test_a_step_without_its_rule_says_that_it_came_from_a_file():
    step = Step(Op("y", "op", "Mul", (), ()), [], [])
    with pytest.raises(RuntimeError, match=r"`y` cannot run again.*Trace the function again"):
        step.vjp([])


def test_a_rule_that_fails_the_second_time_names_itself_and_the_reason():
    def pull(upstream):
        raise ValueError("once only")

    step = Step(Op("y", "custom", "once", (), ()), [], [], pull)
    with pytest.raises(RuntimeError, match="rule of `y` again, and it failed this time: once only"):
        step.vjp([])


def test_of_stacked_statistics_only_the_shape_is_known():
    found = model.stacked([model.statistics(np.array([3.0, 1.0])), np.array([0.0, 4.0])])
    assert (found.shape, found.norm) == ((2, 2), None)
