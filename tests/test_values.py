"""One value per tensor, held by reference; the reads of a variable are one until it changes."""

import numpy as np
import tensorflow as tf

import cgviz


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
