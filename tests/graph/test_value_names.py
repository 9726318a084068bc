"""Values are called by the learner's own names, where there are any."""

import tensorflow as tf
from handmade import square_plus_sine

import cgviz
from cgviz.graph.names import is_folded, value_name


def test_the_outputs_of_one_op_have_the_names_they_were_given():
    def f(x):
        a, b = tf.split(x, 2)
        return tf.reduce_sum(a * b)

    trace = cgviz.trace(f, [1.0, 2.0])
    split = next(op for op in trace.ops if op.type == "Split")
    assert [value_name(trace, v) for v in split.outputs] == ["a", "b"]


def test_outputs_without_names_are_numbered():
    trace = cgviz.trace(lambda x: tf.add(*tf.split(x, 2)), [1.0, 2.0])
    split = next(op for op in trace.ops if op.type == "Split")
    assert [value_name(trace, v) for v in split.outputs] == ["Split[0]", "Split[1]"]


def test_an_identity_without_a_name_is_looked_through():
    trace = cgviz.trace(lambda x: tf.identity(x * 2.0), 3.0)
    identity = next(op for op in trace.ops if op.type == "Identity")
    assert is_folded(identity)
    assert value_name(trace, identity.outputs[0]) == "Mul"


def test_an_identity_that_the_learner_named_stays():
    def f(x):
        same = tf.identity(x)
        return same * 2.0

    trace = cgviz.trace(f, 3.0)
    assert not is_folded(next(op for op in trace.ops if op.type == "Identity"))
    assert "∂same/∂x" in str(trace.chain_rule())


def test_a_variable_is_called_by_its_own_name_whatever_reads_it():
    v = tf.Variable(3.0, name="weight")
    trace = cgviz.trace(lambda x: x * v, 2.0)
    product = next(op for op in trace.ops if op.type == "Mul")
    assert [value_name(trace, each) for each in product.inputs] == ["x", "weight"]


def test_a_value_of_nobody_is_called_by_its_key():
    stranger = square_plus_sine().ops[0].outputs[0]
    assert value_name(cgviz.trace(tf.sin, 1.0), stranger) == f"v{stranger.key}"
