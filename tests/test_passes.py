"""Each backward pass has its steps, its seeds, its gradients and the ops it ran."""

import pytest
import tensorflow as tf
from oracle import same

import cgviz


def test_what_a_rule_hands_to_an_input_no_tape_follows_does_not_flow():
    trace = cgviz.trace(lambda x: x * tf.constant(5.0), 2.0)
    assert trace.steps[0].downstream == (5.0, None)


def test_the_second_pass_runs_over_the_ops_of_the_first():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 1.0, order=2)
    ran = {op.name for op in trace.passes[0].ops}
    seen = {s.op.name for s in trace.passes[1].steps}
    assert ran & seen
    assert {op.name for op in trace.ops} & seen


def test_keys_are_unique_also_among_the_ops_of_a_pass_that_ran_unseen():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 1.0)
    made = [v.key for op in (*trace.ops, *trace.passes[0].ops) for v in op.outputs]
    assert len(set(made)) == len(made)
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
