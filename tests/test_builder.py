"""The events of a recording find their place, their names and what they stand for."""

import keras
import numpy as np
import tensorflow as tf
from programs import square

import cgviz


def test_names_are_the_learners_own():
    def f(x):
        y = x**2
        z: tf.Tensor = tf.sin(y) * y
        z *= 2.0
        return tf.exp(z)

    names = [op.name for op in cgviz.trace(f, 1.0).ops if op.kind != "constant"]
    assert names == ["x", "y", "Sin", "z", "z_1", "Exp"]


def test_the_name_of_a_line_belongs_to_the_last_of_its_ops():
    model = keras.Sequential([keras.layers.Dense(2, "relu"), keras.layers.Dense(1)])

    def f(x):
        for _ in range(2):
            x = tf.sin(x)
        logits = model(x)
        y = tf.norm(logits)
        return y

    trace = cgviz.trace(f, tf.ones((1, 3)))
    names = [op.name for op in trace.ops if op.kind == "op"]
    assert names[:2] == ["x_1", "x_2"]
    assert names.count("logits") == 1
    assert names[-1] == "y"
    assert not any(name.startswith(("logits_", "y_")) for name in names)


def test_a_custom_op_is_one_node_with_its_body_and_the_line_of_its_rule():
    trace = cgviz.trace(square, 3.0)
    op = trace.steps[0].op
    assert (op.kind, op.type, [b.type for b in op.body]) == ("custom", "square", ["Mul"])
    assert op.rule.text == "def grad(upstream):"
    assert [o.kind for o in trace.ops] == ["input", "custom"]


def test_custom_ops_nest_and_keep_their_bodies():
    @tf.custom_gradient
    def outer(x):
        return square(x) + 1.0, lambda dy: 5.0 * dy

    trace = cgviz.trace(outer, 3.0)
    assert [s.op.type for s in trace.steps] == ["outer"]
    assert [b.type for b in trace.steps[0].op.body if b.kind != "constant"] == ["square", "AddV2"]
    assert trace.gradients[0] == 5.0


def test_variables_are_reported_by_name_also_when_c_reads_them():
    w = tf.Variable(2.0, name="w")
    v = tf.Variable(5.0, name="w")
    trace = cgviz.trace(lambda x: w * x * w + v * 2.0, 3.0)
    assert trace.variables == {"w": 12.0, "w_1": 2.0}
    kinds = {op.name: op.kind for op in trace.ops}
    assert (kinds["w"], kinds["w_1"]) == ("variable", "variable")
    assert "input_1" not in kinds


def test_stop_recording_leaves_ops_off_the_tape():
    x = tf.constant(2.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                a = x * 3.0
            y = x * a
        gradient = tape.gradient(y, x)
    assert gradient == 6.0
    assert {op.name: op.recorded for op in trace.ops if op.kind == "op"} == {"a": False, "y": True}


def test_a_rule_called_by_keyword_is_dropped_and_the_trace_shows_the_body():
    trace = cgviz.trace(lambda x: square(x=x), 3.0)
    assert trace.gradients[0] == 6.0
    assert [(s.op.type, s.op.name) for s in trace.steps] == [("Identity", "square"), ("Mul", "Mul")]
    assert [s.op.rule_dropped for s in trace.steps] == [True, False]
    assert trace.steps[0].op.rule.text == "def grad(upstream):"


def test_a_tensor_captured_by_closure_is_known_to_get_no_gradient():
    def f(x, k):
        @tf.custom_gradient
        def scaled(x):
            return x * k, lambda dy: dy * k

        return scaled(x)

    trace = cgviz.trace(f, 2.0, 5.0)
    op = trace.steps[0].op
    assert trace.gradients == (5.0, None)
    assert [trace.producer(v)[0].name for v in op.captured] == ["k"]


def test_the_rule_of_a_custom_op_names_the_variables_it_was_handed():
    w = tf.Variable([1.0, 1.0], name="weights")

    @tf.custom_gradient
    def line(x):
        def grad(dy, variables=None):
            return dy * w[1], [tf.stack([tf.reduce_sum(dy), tf.reduce_sum(dy * x)])]

        return w[1] * x + w[0], grad

    trace = cgviz.trace(line, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(trace.value, [2, 3, 4])
    np.testing.assert_array_equal(trace.variables["weights"], [3, 6])
    assert trace.steps[0].op.rule_variables == ("weights",)
    assert len(trace.steps[0].op.inputs) == 2


def rows(trace):
    return [(s.op.name, s.upstream[0].tolist(), s.downstream[0].tolist()) for s in trace.steps]


def test_ops_made_before_an_inner_recording_are_known_to_it():
    x = tf.constant(3.0)
    with cgviz.record():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        with cgviz.record() as inner:
            tape.gradient(y, x)
    assert rows(inner) == [("y", 1.0, 3.0)]
