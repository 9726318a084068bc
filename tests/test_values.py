"""One value per tensor, held by reference; the reads of a variable are one until it changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.graph import as_numpy
from cgviz.recording.values import Values, Variable, reference, variable_name

# --- numbers by reference --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tf.float64, tf.bfloat16, tf.complex64, tf.int8, tf.bool])
def test_what_numpy_can_read_is_held_as_it_is(dtype):
    x = tf.cast([[0, 1, 2]], dtype)
    assert reference(x) is x
    np.testing.assert_array_equal(as_numpy(reference(x)), x.numpy())
    assert reference(None) is None


def test_rows_that_sparse_slices_name_twice_are_added():
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [5.0]]), [2, 0, 2], [3, 1])
    np.testing.assert_array_equal(as_numpy(reference(slices)), [[2.0], [0.0], [6.0]])
    nothing = tf.IndexedSlices(tf.zeros((0, 1)), tf.zeros(0, tf.int32), [2, 1])
    np.testing.assert_array_equal(as_numpy(reference(nothing)), [[0.0], [0.0]])


def test_reading_sparse_slices_is_seen_by_no_recording():
    slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), tf.constant([2]))
    held = reference(slices)
    with cgviz.record() as trace:
        as_numpy(held)
        tf.sin(1.0)
    assert [op.type for op in trace.ops if op.kind == "op"] == ["Sin"]


def test_what_has_no_numbers_is_read_as_its_type():
    words = [
        as_numpy(reference(tensor))
        for tensor in (
            tf.Variable(1.0).handle,
            tf.raw_ops.EmptyTensorList(
                element_shape=[-1], max_num_elements=1, element_dtype=tf.float32
            ),
        )
    ]
    assert [(word.shape, word.item()) for word in words] == [((), "resource"), ((), "variant")]


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        (tf.Variable(1.0, name="w"), "w"),
        (tf.Variable(1.0, name="w:0"), "w:0"),
        (keras.Variable([1.0], name="kernel"), "kernel"),
    ],
)
def test_a_variable_has_tensorflows_name_without_the_output_number(variable, name):
    assert variable_name(variable) == name


# --- one value per tensor --------------------------------------------------------------------


def test_a_tensor_is_one_value_and_an_equal_tensor_another():
    values, x = Values(), tf.zeros((0, 2), tf.float64)
    first, again, other = values.of(x), values.of(x), values.of(tf.zeros((0, 2), tf.float64))
    assert first is again
    assert first.key != other.key
    assert (first.shape, first.dtype, first.size) == ((0, 2), "float64", 0)
    assert x in values
    assert tf.identity(x) not in values


def test_reads_are_one_value_until_the_variable_is_assigned():
    values, variable, w = Values(), Variable("w", 0), tf.Variable(2.0)
    reads = [w.read_value(), w.read_value()]  # held, as a recording does: values go by identity
    before = [values.read(variable, w.handle, tensor) for tensor in reads]
    variable.stale = True
    reads += [w.assign(3.0).read_value(), w.read_value()]
    after = [values.read(variable, w.handle, tensor) for tensor in reads[2:]]
    assert len({*before}) == len({*after}) == 1
    assert variable.versions == [before[0], after[0]]
    assert [float(v.numpy()) for v in variable.versions] == [2.0, 3.0]
    assert [values.of(tensor) for tensor in reads] == before + after
    assert values.of(w.handle) is before[0]


def test_values_beside_others_know_the_same_tensors_and_continue_their_keys():
    values, x, y = Values(), tf.constant(1.0), tf.constant(2.0)
    known = values.of(x)
    beside = values.beside()
    assert beside.of(x) is known
    assert beside.of(y).key != known.key
    assert values.of(y) is beside.of(y)


# --- in a trace ------------------------------------------------------------------------------


def test_sparse_gradients_are_read_dense():
    table = tf.Variable([[1.0], [2.0], [3.0]], name="table")
    trace = cgviz.trace(lambda s: tf.gather(table, [0, 2, 2]) * s, 2.0)
    np.testing.assert_array_equal(trace.variables["table"], [[2.0], [0.0], [4.0]])
    gather = next(s for s in trace.steps if s.op.type == "ResourceGather")
    np.testing.assert_array_equal(gather.downstream[0], [[2.0], [0.0], [4.0]])
    table.assign(table + 100.0)
    np.testing.assert_array_equal(gather.op.inputs[0].numpy(), [[1.0], [2.0], [3.0]])


def test_a_trace_holds_tensors_by_reference():
    x = tf.ones((1000, 1000))
    trace = cgviz.trace(lambda x: x * 2.0, x)
    assert trace.ops[0].outputs[0].reference is x


def test_a_variable_that_is_assigned_is_another_value_afterwards():
    w = tf.Variable(2.0, name="w")

    def f(x):
        y = w * x
        w.assign(5.0)
        return y + w * x

    trace = cgviz.trace(f, 3.0)
    assert trace.value == 21.0
    assert trace.variables == {"w": 6.0}
    w_op = next(op for op in trace.ops if op.kind == "variable")
    assert [float(v.numpy()) for v in w_op.outputs] == [2.0, 5.0]
    assert [float(trace.passes[0].upstream(v)) for v in w_op.outputs] == [3.0, 3.0]
