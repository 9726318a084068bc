"""One recorded run shows the custom steps, the variables read and written, and the dtypes."""

import numpy as np
import tensorflow as tf

from cgviz.checking.case import Results, examine
from cgviz.checking.checker import EVERY_RULE
from cgviz.checking.flattened import Flattened, copies, kept
from cgviz.graph import dtypes
from cgviz.recording import arguments


def first(f, *args):
    given, named = arguments.convert(f, args)
    flat = Flattened(f, given, {id(t): n for t, n in named})
    variables = copies(leaf.source for leaf in flat.leaves if leaf.variable)
    with kept(variables):
        return examine(flat, Results(EVERY_RULE), 1, False, variables)


@tf.custom_gradient
def square(x):
    return x * x, lambda dy: 2.0 * x * dy


def test_custom_steps_are_found_at_any_depth():
    outer = tf.custom_gradient(lambda x: (square(x) + 0.0, lambda dy: dy))
    made = first(lambda x: tf.sin(outer(square(x))), 2.0)
    assert [step.event.type for step in made.steps] == ["<lambda>", "square"]
    assert "the rule of `square` (line" in made.steps[1].label
    assert len(made.custom) == 3


def test_variables_read_become_leaves_and_those_written_are_named():
    w = tf.Variable(2.0, name="w")
    count = tf.Variable(0.0, trainable=False, name="count")

    def f(x):
        count.assign_add(1.0)
        return w * x

    made = first(f, 3.0)
    assert [leaf.name for leaf in made.flat.leaves] == ["x", "w"]
    assert list(made.written) == ["count"]
    assert float(count) == 0.0


def wide(case):
    """Whether it is judged in float64."""
    return all(each is dtypes.FLOAT64 for each in case.judged.dtypes)


def test_float32_is_judged_in_float64_where_f_allows_it():
    assert wide(first(square, [1.0, 2.0]))
    assert first(square, [1.0, 2.0]).dtype is dtypes.FLOAT64
    stubborn = first(lambda x: x * tf.constant(2.0), 1.0)
    assert not wide(stubborn)
    assert stubborn.dtype is dtypes.FLOAT32


def test_where_f_reads_a_given_variable_itself_it_is_judged_in_the_dtype_of_the_variable():
    w = tf.Variable([1.0, 2.0], name="w")
    assert not wide(first(lambda given: w * w, w))
    assert not wide(first(lambda given: w * given, w))
    assert wide(first(lambda given: given * given, w))
    dense = tf.keras.layers.Dense(1)
    x = tf.ones((2, 2))
    dense(x)
    assert not wide(first(lambda kernel: dense(x), dense.kernel))


def test_a_cast_to_less_inside_f_is_noticed():
    made = first(lambda x: tf.cast(tf.sin(tf.cast(x, tf.float32)), x.dtype), np.float64(1.0))
    assert made.dtype is dtypes.FLOAT32


def test_a_cast_of_a_mask_makes_nothing_coarser():
    def masked(x):
        return tf.sin(x) * tf.cast(tf.cast(x > 0, tf.float32), x.dtype)

    assert first(masked, np.float64(1.0)).dtype is dtypes.FLOAT64


def test_what_rounding_the_inputs_does_is_known():
    made = first(tf.linalg.inv, np.array([[1, 2], [2, 4.001]], np.float32))
    moved = made.wobble(made.flat, made.eager, float(np.finfo(np.float32).eps))
    assert np.max(moved) > 1.0


def test_one_input_is_called_in_and_several_by_their_names():
    assert first(tf.sin, [1.0, 2.0]).input_name(1) == "in[1]"
    made = first(lambda x, y: x * y, [1.0, 2.0], 3.0)
    assert [made.input_name(i) for i in range(3)] == ["x[0]", "x[1]", "y"]


def test_outputs_are_named_by_their_position():
    assert first(tf.sin, [1.0, 2.0]).output_name(1) == "out[1]"
    assert first(lambda x: (x, x[:2]), [1.0, 2.0, 3.0]).output_name(4) == "out[1][1]"
