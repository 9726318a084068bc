"""The events of a recording find their place, their names and what they stand for."""

import dis

import keras
import numpy as np
import pytest
import tensorflow as tf
from programs import square

import cgviz
from cgviz.recording.builder import Builder
from cgviz.recording.events import Body, CallEvent, Hub, OpEvent, PassEvent


def event(type_, inputs, where=None, line=None, watched=0):
    """An op as a recording notes it; `line` is a code object and an instruction of it."""
    made = OpEvent(type_, inputs, (tf.constant(0.0),), (), where, "", None)
    made.code, made.lasti = line or (None, 0)
    made.watched = watched
    return made


def call(type_, inputs, body, outputs):
    made = CallEvent(type_, inputs, outputs, (), body.outer, "", None, rule=len)
    made.body = body
    return made


def assigning(text):
    """The code of a line, and the place of its first call in it."""
    code = compile(text, "<nowhere>", "exec")
    return code, next(i.offset for i in dis.get_instructions(code) if "CALL" in i.opname)


# --- from handmade events --------------------------------------------------------------------


def test_every_op_has_a_name_of_its_own():
    x = tf.constant(1.0)
    events = [event("Mul", [x]), event("Mul_1", [x]), event("Mul", [x]), event("x", [x])]
    ops = Builder(events, Hub(), None, [(x, "x")]).ops[None]
    assert [op.name for op in ops] == ["x", "Mul", "Mul_1", "Mul_2", "x_1"]


def test_what_nobody_made_is_an_input_where_a_tape_follows_it_and_else_a_constant():
    x, c = tf.constant(1.0), tf.constant(2.0)
    first = event("Mul", [x, c, x], watched=0b101)
    second = event("Add", [first.outputs[0], c], watched=0b1)
    ops = Builder([first, second], Hub(), None).ops[None]
    assert [(op.kind, op.name) for op in ops] == [
        ("input", "input"),
        ("constant", "constant"),
        ("op", "Mul"),
        ("op", "Add"),
    ]
    x_, c_, mul, add = ops
    assert mul.inputs == (x_.outputs[0], c_.outputs[0], x_.outputs[0])
    assert add.inputs == (mul.outputs[0], c_.outputs[0])
    assert (mul.watched, mul.recorded) == ((True, False, True), True)


def test_a_source_of_a_pass_is_an_input_also_where_no_tape_follows_it():
    x, c = tf.constant(1.0), tf.constant(2.0)
    events = [event("Mul", [x, c]), PassEvent(None, [], None, [x], quiet=True)]
    ops = Builder(events, Hub(), None).ops[None]
    assert [op.kind for op in ops] == ["input", "constant", "op"]


@pytest.mark.parametrize(
    ("types", "named"),
    [
        (["Mul"], [0]),
        (["Mul", "Sum", "Sqrt"], [2]),
        (["Sin", "Sin", "Sin"], [0, 1, 2]),
        (["Mul", "Sum", "Mul", "Sum"], [1, 3]),
        (["Mul", "Sum", "Mul"], [2]),
        (["Mul", "ReadVariableOp", "Mul"], [0, 2]),
    ],
)
def test_of_the_ops_that_one_line_runs_the_last_of_each_round_has_its_name(types, named):
    x, v, line = tf.constant(1.0), tf.Variable(1.0), assigning("y = f(x)")
    events = [event(t, [v.handle if t == "ReadVariableOp" else x], line=line) for t in types]
    found = Builder(events, Hub(), None).last_of_call
    assert [i for i, each in enumerate(events) if id(each) in found] == named


def test_the_ops_of_a_body_are_inside_its_custom_op():
    x, body = tf.constant(1.0), Body(None)
    inner = event("Mul", [x], where=body, watched=1)
    whole = call("square", [x], body, inner.outputs)
    after = event("Sin", inner.outputs)
    ops = Builder([inner, whole, after], Hub(), None, [(x, "x")]).ops[None]
    assert [op.type for op in ops] == ["Input", "square", "Sin"]
    assert [op.name for op in ops[1].body] == ["Mul"]
    assert ops[2].inputs == ops[1].outputs


def test_captured_is_what_a_body_takes_from_a_tape_past_its_arguments():
    x, n, c, body = tf.constant(1.0), tf.constant(2), tf.constant(3.0), Body(None)
    k = event("Exp", [x], watched=1)
    inside = event("Mul", [x, *k.outputs, n, c], where=body, watched=0b101)
    more = event("Sin", inside.outputs, where=body, watched=1)
    whole = call("scaled", [x], body, more.outputs)
    ops = Builder([k, inside, more, whole], Hub(), None, [(x, "x"), (n, "n")]).ops[None]
    assert ops[-1].captured == ops[-2].outputs
    assert [(op.type, op.name) for op in ops[-2:]] == [("Exp", "Exp"), ("scaled", "scaled")]


@pytest.mark.parametrize("flat", [True, False])
def test_the_ops_of_a_body_without_a_rule_stand_among_the_others(flat):
    x, body = tf.constant(1.0), Body(None)
    body.flat = flat  # called by keyword; otherwise the function raised and no call was noted
    events = [event("Mul", [x], where=body)]
    if flat:
        events.append(call("square", [x], body, events[0].outputs))
    ops = Builder(events, Hub(), None, [(x, "x")]).ops[None]
    assert [op.type for op in ops][:2] == ["Input", "Mul"]


def test_an_event_that_another_stands_for_is_left_out():
    x, hub = tf.constant(1.0), Hub()
    hidden, shown = event("Mul", [x]), event("Sin", [x])
    hub.absorbed.add(id(hidden))
    builder = Builder([hidden, shown], hub, None, [(x, "x")])
    assert [op.type for op in builder.ops[None]] == ["Input", "Sin"]


def test_a_pass_inside_a_rule_or_a_body_is_not_one_of_the_recording():
    body, events = Body(None), []
    events.append(PassEvent(body, [], None, [], quiet=True))
    events.append(call("f", [], body, ()))
    events.append(PassEvent(None, [], None, [], quiet=True))
    assert Builder(events, Hub(), None).top_passes() == [events[2]]


# --- in a trace ------------------------------------------------------------------------------


def test_a_variable_made_inside_a_recording_is_a_variable_of_it():
    with cgviz.record() as trace:
        v = tf.Variable(3.0, name="v")
        with tf.GradientTape() as tape:
            y = v * v
        tape.gradient(y, v)
    assert [(op.name, op.kind) for op in trace.ops] == [("v", "variable"), ("y", "op")]
    assert trace.variables == {"v": 6.0}


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
    assert [op.name for op in trace.ops if op.kind == "input"] == ["x"]
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


def test_what_an_outer_recording_saw_comes_first_also_what_a_pass_of_it_ran():
    x = tf.constant(3.0)
    with cgviz.record():
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                a = tf.sin(x)
                y = tf.exp(a)
            g = first.gradient(y, x)
        with cgviz.record() as inner:
            tf.cos(x)
            second.gradient(g, x)
    ops = list(inner.ops)
    assert {step.op for step in inner.steps} <= {*ops}
    types = [op.type for op in ops if op.kind == "op"]
    assert types[:2] == ["Sin", "Exp"]
    assert types[-1] == "Cos"
    made = {op.outputs[0].key: place for place, op in enumerate(ops)}
    assert all(made[v.key] < place for place, op in enumerate(ops) for v in op.inputs)


def test_a_variable_that_is_only_assigned_is_a_variable_without_a_gradient():
    x, w = tf.constant(3.0), tf.Variable(2.0, name="w")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            w.assign(x)
            y = x * x
        tape.gradient(y, [x, w])
    assert {op.name: op.kind for op in trace.ops} == {"x": "input", "y": "op", "w": "variable"}
    assert trace.variables == {"w": None}


def test_an_op_knows_the_scopes_that_it_ran_in():
    def f(x):
        with tf.name_scope("block"), tf.name_scope("layer"):
            y = tf.sin(x)
        return tf.exp(y)

    ops = cgviz.trace(f, 1.0).ops
    assert [op.scope for op in ops] == ["", "block/layer", ""]
