"""Each backward pass has its steps, its seeds, its gradients and the ops it ran."""

import numpy as np
import pytest
import tensorflow as tf
from oracle import same
from programs import square

import cgviz
from cgviz.graph import Op, Value
from cgviz.recording.events import CallEvent
from cgviz.recording.passes import pull


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


def test_keys_and_names_are_unique_also_among_the_ops_of_a_pass_that_ran_unseen():
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


@pytest.mark.parametrize("point", [0.0, 2.0])
def test_a_pass_ran_the_same_ops_whether_a_tape_saw_it_or_not(point):
    def ran(order):
        ops = cgviz.trace(lambda x: square(tf.sin(x)) * x, point, order=order).passes[0].ops
        return [(op.type, float(op.outputs[0].numpy())) for op in ops if op.kind == "op"]

    *seen, total = ran(order=2)
    assert total[0] == "AddN"  # the tape's own sum, of no rule
    assert ran(order=1) == seen


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


def test_a_pass_over_ops_that_nobody_recorded_says_so():
    x = tf.constant(3.0)
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


# --- the rule once more ----------------------------------------------------------------------


@pytest.mark.parametrize("upstream", [[3.0, None], [None, 5.0], [3.0, 5.0], [0.0, float("nan")]])
def test_a_rule_runs_again_with_another_upstream_as_the_tape_would(upstream):
    trace = cgviz.trace(lambda x: tf.unstack(x)[0] * 2.0, [1.0, 7.0])
    step = next(step for step in trace.steps if step.op.type == "Unpack")
    expected = np.float32([0.0 if u is None else u for u in upstream])
    same(step.vjp(upstream)[0], tf.constant(expected))


def test_none_stays_none_where_the_tape_gave_none_and_is_zeros_elsewhere():
    got, a, b = [], tf.ones((2, 0)), tf.constant(1.0, tf.float64)
    event = CallEvent("two", (), (a, b), (), None, "", None, rule=lambda *u: got.extend(u))
    op = Op("two", "custom", "two", (Value(0, (), "float32", None),), ())
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
