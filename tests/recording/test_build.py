"""Events find their place, their names and what they belong to; passes and values are made."""

import contextlib
import dis

import keras
import numpy as np
import pytest
import tensorflow as tf
from oracle import same
from programs import square

import cgviz
from cgviz import moons
from cgviz.graph import Op, Value, as_numpy
from cgviz.graph.names import own_name, value_name
from cgviz.recording import build
from cgviz.recording.build import Builder, pull, reference, variable_name
from cgviz.recording.events import Body, CallEvent, OpEvent, PassEvent, ThreadRecorder
from cgviz.recording.source import NOWHERE


def event(type_, inputs, where=None, line=None, watched=()):
    """An op as a recording notes it; `line` is a code object and an instruction of it."""
    made = OpEvent(type_, inputs, (tf.constant(0.0),), (), where)
    made.place = (*line, None, 0) if line else NOWHERE
    made.watched = watched or (False,) * len(inputs)
    return made


def call(type_, inputs, body, outputs):
    made = CallEvent(type_, inputs, outputs, (), body.outer, rule=len)
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
    ops = Builder(events, ThreadRecorder(), None, [(x, "x")]).ops[None]
    assert [op.name for op in ops] == ["x", "Mul", "Mul_1", "Mul_2", "x_1"]


def test_what_nobody_made_is_an_input_where_a_tape_follows_it_and_else_a_constant():
    x, c = tf.constant(1.0), tf.constant(2.0)
    first = event("Mul", [x, c, x], watched=(True, False, True))
    second = event("Add", [first.outputs[0], c], watched=(True, False))
    ops = Builder([first, second], ThreadRecorder(), None).ops[None]
    assert [(op.kind, op.name) for op in ops] == [
        ("input", "input"),
        ("constant", "constant"),
        ("op", "Mul"),
        ("op", "Add"),
    ]
    x_, c_, mul, add = ops
    assert mul.inputs == (x_.outputs[0], c_.outputs[0], x_.outputs[0])
    assert add.inputs == (mul.outputs[0], c_.outputs[0])
    assert mul.watched == (True, False, True)


def test_a_source_of_a_pass_is_an_input_also_where_no_tape_follows_it():
    x, c = tf.constant(1.0), tf.constant(2.0)
    events = [event("Mul", [x, c]), PassEvent(None, [], None, [x])]
    ops = Builder(events, ThreadRecorder(), None).ops[None]
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
    found = Builder(events, ThreadRecorder(), None).last_of_call
    assert [i for i, each in enumerate(events) if id(each) in found] == named


def test_the_ops_of_a_body_are_inside_its_custom_op():
    x, body = tf.constant(1.0), Body(None)
    inner = event("Mul", [x], where=body, watched=(True,))
    whole = call("square", [x], body, inner.outputs)
    after = event("Sin", inner.outputs)
    ops = Builder([inner, whole, after], ThreadRecorder(), None, [(x, "x")]).ops[None]
    assert [op.type for op in ops] == ["Input", "square", "Sin"]
    assert [op.name for op in ops[1].body] == ["Mul"]
    assert ops[2].inputs == ops[1].outputs


def test_captured_is_what_a_body_takes_from_a_tape_past_its_arguments():
    x, n, c, body = tf.constant(1.0), tf.constant(2), tf.constant(3.0), Body(None)
    k = event("Exp", [x], watched=(True,))
    inside = event("Mul", [x, *k.outputs, n, c], where=body, watched=(True, False, True, False))
    more = event("Sin", inside.outputs, where=body, watched=(True,))
    whole = call("scaled", [x], body, more.outputs)
    ops = Builder([k, inside, more, whole], ThreadRecorder(), None, [(x, "x"), (n, "n")]).ops[None]
    assert ops[-1].captured == ops[-2].outputs
    assert [(op.type, op.name) for op in ops[-2:]] == [("Exp", "Exp"), ("scaled", "scaled")]


@pytest.mark.parametrize("dropped", [True, False])
def test_the_ops_of_a_body_without_a_rule_are_among_the_others(dropped):
    x, body = tf.constant(1.0), Body(None)
    events = [event("Mul", [x], where=body)]
    if dropped:  # called by keyword; otherwise the function raised and no call was noted
        events.append(event("Identity", events[0].outputs, watched=(True,)))
        events.append(call("square", [], body, events[1].outputs))
    ops = Builder(events, ThreadRecorder(), None, [(x, "x")]).ops[None]
    assert [op.type for op in ops][:2] == ["Input", "Mul"]


def test_an_event_that_another_replaces_is_left_out():
    x = tf.constant(1.0)
    hidden = event("Mul", [x])
    shown = CallEvent("square", [x], hidden.outputs, rule=len)
    builder = Builder([hidden, shown], ThreadRecorder(), None, [(x, "x")])
    assert [op.type for op in builder.ops[None]] == ["Input", "square"]


def test_a_pass_inside_a_rule_or_a_body_is_not_one_of_the_recording():
    body, events = Body(None), []
    events.append(PassEvent(body, [], None, []))
    events.append(call("f", [], body, ()))
    events.append(PassEvent(None, [], None, []))
    assert Builder(events, ThreadRecorder(), None).top_passes() == [events[2]]


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


def test_of_several_names_each_is_that_of_an_output_and_no_op_has_those_of_others():
    @tf.custom_gradient
    def both(x):
        return (x * 2.0, x * 3.0), lambda to_double, to_triple: 2.0 * to_double + 3.0 * to_triple

    def f(x):
        mean, variance = tf.nn.moments(x, axes=[0])  # its last op makes the variance alone
        for _ in range(2):
            mean, rest = both(mean)
        return mean + rest + variance

    trace = cgviz.trace(f, [1.0, 2.0, -3.0])
    named = [op.name for op in trace.ops if own_name(op) and op.kind != "constant"]
    assert named == ["x", "mean, rest", "mean_1, rest_1"]
    last = next(op for op in trace.ops if op.name == named[-1])
    assert [value_name(trace, value) for value in last.outputs] == ["mean_1", "rest_1"]


def test_a_line_whose_call_runs_functions_of_the_learners_between_its_ops_names_the_last():
    def activation(x):
        return tf.tanh(x) * x

    network, (points, labels) = moons.Network(activation), moons.data()
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = moons.cross_entropy(network, points, labels)
        tape.gradient(loss, network.variables)
    named = [op for op in trace.ops if op.name.startswith("loss")]
    assert named == [trace.producer(trace.passes[0].targets[0])[0]]


def test_a_line_of_a_function_that_is_called_in_two_places_has_its_name_in_both():
    def root(x, n):
        r = tf.norm(x, ord=n)
        return r

    def f(x):
        y = root(x, 2) * x
        return root(y, 1)

    found = [op for op in cgviz.trace(f, [3.0, 4.0]).ops if op.name.startswith("r")]
    assert [(op.name, op.outputs[0].numpy().item()) for op in found] == [("r", 5.0), ("r_1", 35.0)]


def test_a_line_that_two_functions_of_one_line_reach_has_its_name_in_both():
    def root(x, n):
        r = tf.norm(x, ord=n)
        return r

    def two(x):
        return root(x, 2)

    def one(x):
        return root(x, 1)

    found = cgviz.trace(lambda x: two(x) * one(x), [3.0, 4.0]).ops
    named = [(op.name, op.outputs[0].numpy().item()) for op in found if op.name.startswith("r")]
    assert named == [("r", 5.0), ("r_1", 7.0)]


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


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize(
    "read",
    [
        lambda x, w: tf.maximum(0, w),
        lambda x, w: tf.multiply(2.0, w),
        lambda x, w: tf.pow(2.0, w),
        lambda x, w: tf.where(x > 5.0, 0.0, w),
        lambda x, w: tf.cast(tf.greater(1, w), x.dtype),
    ],
)
def test_a_number_before_a_variable_has_the_dtype_of_the_variable(read, dtype):
    w, x = tf.Variable(0.5, dtype=dtype, name="w"), tf.constant(3.0, dtype)
    with tf.GradientTape() as tape:
        y = read(x, w) * w
    plain = tape.gradient(y, w)
    trace = cgviz.trace(lambda x: read(x, w) * w, x)
    same(trace.variables["w"], plain.numpy())


@pytest.mark.parametrize(
    "refused",
    [
        lambda w: tf.concat([[1.0], w], 0),
        lambda w: tf.concat([[1], w], 0),
        lambda w: tf.where([True, False], 0, w),
    ],
)
def test_what_tensorflow_refuses_is_refused_in_a_recording_too(refused):
    w = tf.Variable([1.0, 2.0], dtype=tf.float64)
    with pytest.raises(ValueError, match="Incompatible type conversion"):
        refused(w)
    with cgviz.record():
        tf.maximum(0, w)  # one that is read, before
        with pytest.raises(ValueError, match="Incompatible type conversion"):
            refused(w)


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
    found = {op.name: any(op.watched) for op in trace.ops if op.kind == "op"}
    assert found == {"a": False, "y": True}


def test_a_rule_called_by_keyword_is_dropped_and_the_trace_shows_the_body():
    trace = cgviz.trace(lambda x: square(x=x), 3.0)
    assert trace.gradients[0] == 6.0
    assert [(s.op.type, s.op.name) for s in trace.steps] == [("Identity", "square"), ("Mul", "Mul")]
    assert [s.op.rule_dropped for s in trace.steps] == [True, False]
    assert trace.steps[0].op.rule.text == "def grad(upstream):"


def test_a_variable_in_many_closures_is_compared_once_for_each_of_its_reads(monkeypatch):
    v = tf.Variable(2.0, name="v")

    def scale(x):
        @tf.custom_gradient
        def scaled(x):
            return v * x, lambda upstream, variables=None: (upstream * v, [None])

        for _ in range(20):
            x = scaled(x)
        return x

    compared = []
    inner = build.readable
    monkeypatch.setattr(build, "readable", lambda t: (compared.append(t), inner(t))[1])
    rules = [op.rule for op in cgviz.trace(scale, 1.0).ops if op.kind == "custom"]
    assert [float(rule.closure["v"]) for rule in rules] == [2.0] * 20
    assert len(compared) < 2 * 20  # not for each closure all reads again


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


def test_a_variable_read_twice_is_captured_once():
    w = tf.Variable(2.0, name="w")

    def f(x):
        a, b = tf.convert_to_tensor(w), tf.convert_to_tensor(w)

        @tf.custom_gradient
        def scaled(x):
            return x * a + b, lambda dy: dy * a

        return scaled(x)

    (op,) = (op for op in cgviz.trace(f, 2.0).ops if op.kind == "custom")
    assert len(op.captured) == 1


def test_a_variable_that_is_gathered_from_is_given_to_the_rule_and_not_captured():
    w = tf.Variable([1.0, 2.0], name="w")

    @tf.custom_gradient
    def row(i):
        return tf.gather(w, [1]) * i, lambda dy, variables=None: (None, [dy * [0.0, 1.0]])

    (op,) = (op for op in cgviz.trace(row, 2.0).ops if op.kind == "custom")
    assert op.captured == ()


def test_a_variable_given_by_keyword_is_captured_and_one_given_by_position_is_not():
    w = tf.Variable(3.0, name="w")

    @tf.custom_gradient
    def scaled(x, scale):
        return x * scale, lambda dy: (dy * scale, dy * x)

    @tf.custom_gradient
    def times(x, scale=None):
        return x * scale, lambda dy: dy * scale

    for f, names in ((lambda x: times(x, scale=w), ["w"]), (lambda x: scaled(x, w), [])):
        trace = cgviz.trace(f, 2.0)
        (op,) = (op for op in trace.ops if op.kind == "custom")
        assert [trace.producer(v)[0].name for v in op.captured] == names


def test_a_closed_function_has_the_numbers_that_a_variable_holds_when_it_runs():
    w = tf.Variable(2.0, name="w")
    times = tf.function(lambda x: x * w)
    with cgviz.record(open_functions=False) as trace:
        with tf.GradientTape() as tape:
            y = times(tf.constant(3.0))
            w.assign(5.0)
            z = times(tf.constant(4.0))
        tape.gradient([y, z], w)
    first, second = (trace.pass_(None).step_of[op] for op in trace.ops if op.name in "yz")
    assert [step.op.inputs[1].numpy() for step in (first, second)] == [2.0, 5.0]
    assert [step.local[0][1] for step in (first, second)] == [3.0, 4.0]


def test_a_variable_that_is_only_assigned_is_not_read():
    w = tf.Variable(1.0, name="w")
    with cgviz.record() as trace:
        w.assign(2.0)
        w.assign_add(1.0)
        with tf.GradientTape() as tape:
            y = w * 2.0
        tape.gradient(y, w)
    (variable,) = (op for op in trace.ops if op.kind == "variable")
    assert [value.numpy() for value in variable.outputs] == [3.0]


def test_what_a_closed_function_assigns_is_a_new_version_and_what_it_only_reads_is_none():
    w = tf.Variable(2.0, name="w")
    times = tf.function(lambda x: x * w)
    stepped = tf.function(lambda x: w.assign_sub(x) * x)
    with cgviz.record(open_functions=False) as trace:
        for run in (times, times, stepped, times):
            with tf.GradientTape() as tape:
                y = run(tf.constant(0.5))
            tape.gradient(y, w)
    (variable,) = (op for op in trace.ops if op.kind == "variable")
    assert [value.numpy() for value in variable.outputs] == [2.0, 1.5]


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


# --- passes ------------------------------------------------------------------------------------


def test_what_a_rule_hands_to_an_input_no_tape_follows_does_not_flow():
    trace = cgviz.trace(lambda x: x * tf.constant(5.0), 2.0)
    assert trace.steps[0].downstream == (5.0, None)

    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda dy: (dy * y, dy * x)

    trace = cgviz.trace(lambda x: product(x, tf.constant(5.0)), 2.0)
    assert trace.steps[0].downstream == (5.0, None)


def test_the_second_pass_runs_over_the_ops_of_the_first():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 1.0, order=2)
    ran = {op.name for op in trace.passes[0].ops}
    seen = {s.op.name for s in trace.passes[1].steps}
    assert ran & seen
    assert {op.name for op in trace.ops} & seen


def test_keys_and_names_are_unique_also_among_the_ops_of_a_rule():
    trace = cgviz.trace(lambda x: square(tf.sin(x) * x) * x, 1.0)
    ops = [*trace.ops, *trace.passes[0].ops]
    made = [v.key for op in ops for v in op.outputs]
    assert len(set(made)) == len(made)
    assert len({op.name for op in ops}) == len(ops)
    assert trace.producer(trace.passes[0].ops[0].outputs[0])[0] is trace.passes[0].ops[0]


def test_a_persistent_tape_gives_several_passes():
    x = tf.constant(2.0)
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = y * x
        dy = tape.gradient(y, x)
        dz = tape.gradient(z, [x, y], output_gradients=tf.constant(10.0))
    assert [p.index for p in trace.passes] == [0, 1]
    same(trace.passes[0].gradients[0], dy)
    same(trace.passes[1].gradients[0], dz[0])
    same(trace.passes[1].gradients[1], dz[1])
    assert trace.passes[1].seeds[0] == 10.0
    assert trace.value == 4.0
    assert [o.name for o in trace.ops] == ["x", "y", "z"]


def test_recompute_grad_is_one_custom_op_whose_inner_tape_is_no_pass():
    trace = cgviz.trace(tf.recompute_grad(lambda x: tf.sin(x) * x), 2.0)
    assert len(trace.passes) == 1
    assert [s.op.kind for s in trace.steps] == ["custom"]


def test_local_of_a_rule_that_can_run_once_only_is_a_clear_error():
    @tf.custom_gradient
    def once(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return y, lambda dy: dy * tape.gradient(y, x)

    trace = cgviz.trace(once, 3.0)
    assert trace.gradients[0] == 6.0
    with pytest.raises(RuntimeError, match="runs the backward rule of `once` again"):
        _ = trace.steps[0].local


def test_a_pass_keeps_the_ops_of_custom_rules_and_of_all_rules_where_a_tape_saw_them():
    def ran(order):
        ops = cgviz.trace(lambda x: square(tf.sin(x)) * x, 2.0, order=order).passes[0].ops
        return [op.type for op in ops if op.kind == "op"]

    assert ran(order=1) == ["Mul", "Mul"]  # 2 * x * upstream, in the rule of `square`
    assert set(ran(order=2)) > {"Mul", "Cos"}


def test_unconnected_sources_and_targets_named_twice_are_as_the_tape_has_them():
    x, w = tf.constant(2.0), tf.constant(5.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.sin(x)
        gradients = tape.gradient(
            [y, y],
            [x, w],
            output_gradients=[tf.constant(2.0), tf.constant(3.0)],
            unconnected_gradients="zero",
        )
    (only,) = trace.passes
    for ours, theirs in zip(only.gradients, gradients, strict=True):
        same(ours, theirs)
    assert only.seeds == (2.0, 3.0)
    assert only.upstream(only.targets[0]) == 5.0
    assert only.upstream(only.sources[1]) == 0.0


@pytest.mark.parametrize("around", [contextlib.nullcontext, cgviz.record])
def test_a_pass_over_ops_that_a_recording_has_not_seen_says_so(around):
    x = tf.constant(3.0)
    with around():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        with cgviz.record() as trace:
            tape.gradient(y, x)
            tape.gradient(y, tf.constant(1.0))
    late, unrelated = trace.passes
    assert (late.gradients, late.steps) == ((6.0,), ())
    assert "before the recording began" in late.note
    assert (unrelated.gradients, unrelated.note) == ((None,), "")


def test_a_pass_whose_rule_raised_says_so_and_keeps_the_steps_before():
    @tf.custom_gradient
    def broken(x):
        def grad(dy):
            raise ValueError("mine")

        return x * 1.0, grad

    x = tf.constant(2.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(broken(x))
        with pytest.raises(ValueError, match="mine"):
            tape.gradient(y, x)
    (only,) = trace.passes
    assert [step.op.type for step in only.steps] == ["Sin"]
    assert only.gradients == (None,)
    assert "ended with an error" in only.note


def test_a_rule_that_is_registered_after_a_trace_is_known_to_the_next():
    def without_a_rule():
        with cgviz.record() as trace:
            tf.raw_ops.KmeansPlusPlusInitialization(
                points=[[1.0]], num_to_sample=1, seed=0, num_retries_per_sample=1
            )
        return trace.ops[-1].rule_missing

    assert without_a_rule()
    tf.RegisterGradient("KmeansPlusPlusInitialization")(lambda op, upstream: [None] * 4)
    assert not without_a_rule()


def test_a_rule_of_an_op_without_attributes_has_its_step_where_tensorflow_keeps_some_tensors():
    def f(x):
        dtype, raw = tf.float32, tf.raw_ops
        scalars = tf.constant([], tf.int32)
        held = raw.TensorListReserve(element_shape=scalars, num_elements=1, element_dtype=dtype)
        held = raw.TensorListSetItem(input_handle=held, index=0, item=x)
        held = raw.TensorListResize(input_handle=held, size=2)
        return raw.TensorListGetItem(
            input_handle=held, index=0, element_shape=scalars, element_dtype=dtype
        )

    trace = cgviz.trace(f, 2.0)
    assert "TensorListResize" in [step.op.type for step in trace.steps]
    assert trace.gradients == (1.0,)


# --- the rule once more ----------------------------------------------------------------------


@pytest.mark.parametrize("upstream", [[3.0, None], [None, 5.0], [3.0, 5.0], [0.0, float("nan")]])
def test_a_rule_runs_again_with_another_upstream_as_the_tape_would(upstream):
    trace = cgviz.trace(lambda x: tf.unstack(x)[0] * 2.0, [1.0, 7.0])
    step = next(step for step in trace.steps if step.op.type == "Unpack")
    expected = np.float32([0.0 if u is None else u for u in upstream])
    same(step.vjp(upstream)[0], tf.constant(expected))


def test_none_stays_none_where_the_tape_gave_none_and_is_zeros_elsewhere():
    got, a, b = [], tf.ones((2, 0)), tf.constant(1.0, tf.float64)
    event = CallEvent("two", (), (a, b), (), rule=lambda *u: got.extend(u))
    outputs = Value(1, (2, 0), "float32", a), Value(2, (), "float64", b)
    op = Op("two", "custom", "two", (Value(0, (), "float32", None),), outputs)
    pull(op, event, [a, None])([np.ones((2, 0)), None])
    pull(op, event, [a, b])([None, None])
    same(got[0].numpy(), a)
    assert got[1] is None
    same(got[2].numpy(), tf.zeros_like(a))
    same(got[3].numpy(), tf.zeros_like(b))


def test_running_a_rule_again_is_seen_by_no_recording_and_keeps_its_type():
    step = cgviz.trace(lambda x: x * x, tf.constant(2.0, tf.bfloat16)).steps[0]
    with cgviz.record() as trace:
        downstream = step.vjp([np.float64(3.0)])
    assert [(d.dtype.name, float(d)) for d in downstream] == [("bfloat16", 6.0)] * 2
    assert (trace.ops, trace.passes) == ((), ())


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
    builder, x = Builder([], ThreadRecorder(), None), tf.zeros((0, 2), tf.float64)
    first, again = builder.value(x), builder.value(x)
    other = builder.value(tf.zeros((0, 2), tf.float64))
    assert first is again
    assert first.key != other.key
    assert (first.shape, first.dtype, first.size) == ((0, 2), "float64", 0)


# --- values in a trace -------------------------------------------------------------------


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
        y += w
        w.assign(5.0)
        return y + w * x

    trace = cgviz.trace(f, 3.0)
    assert trace.value == 23.0
    assert trace.variables == {"w": 7.0}
    w_op = next(op for op in trace.ops if op.kind == "variable")
    assert [float(v.numpy()) for v in w_op.outputs] == [2.0, 5.0]
    assert [float(trace.passes[0].upstream(v)) for v in w_op.outputs] == [4.0, 3.0]


def test_a_function_that_returns_its_input_has_no_forward_op_to_miss():
    assert cgviz.trace(lambda x: x, 3.0).notes == ()
