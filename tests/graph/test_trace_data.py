"""Trace: what a recording answers about itself."""

import pytest
import tensorflow as tf
from handmade import square_plus_sine
from programs import square

import cgviz
from cgviz.graph import Trace


def test_what_it_holds_is_made_once_and_when_it_is_asked_for():
    made = []

    def content():
        made.append(1)
        return Trace("f", 0.0, (), {}, (), ())

    trace = Trace.deferred(content)
    assert not made
    assert trace.title == trace.title == "f"
    assert made == [1]


def test_without_a_backward_pass_there_are_no_steps_and_asking_for_one_says_what_to_do():
    trace = Trace("f", 0.0, (), {}, (), ())
    assert trace.steps == trace.passes == ()
    with pytest.raises(ValueError, match=r"call `tape.gradient` inside the recording"):
        trace.pass_(None)


@pytest.mark.parametrize("which", [2, -3, 10**9])
def test_a_pass_that_does_not_exist_is_named_with_those_that_do(which):
    trace = cgviz.trace(lambda x: x * x, 3.0, order=2)
    with pytest.raises(ValueError, match=f"`which` is {which}, but .* 2 backward passes: 0 to 1"):
        trace.pass_(which)


def test_a_negative_number_counts_passes_from_the_last():
    trace = cgviz.trace(lambda x: x * x, 3.0, order=2)
    assert trace.pass_(-1) is trace.passes[1]
    assert trace.pass_(None) is trace.passes[0]


def test_every_value_leads_to_the_op_that_made_it_also_inside_bodies_and_passes():
    trace = cgviz.trace(lambda x: square(x) * x, 3.0, order=2)
    seen = list(trace.walk())
    for op in seen:
        for value in op.outputs:
            maker = trace.producer(value)
            assert maker is not None
            assert maker[0].outputs[maker[1]].key == value.key


def test_a_value_of_another_trace_was_made_by_nobody_here():
    stranger = square_plus_sine().ops[0].outputs[0]
    assert cgviz.trace(tf.sin, 1.0).producer(stranger) is None


def test_walking_reaches_the_body_of_a_custom_op_after_the_op():
    trace = cgviz.trace(lambda x: square(x) + 1.0, 3.0)
    names = [op.name for op in trace.walk()]
    custom = next(op for op in trace.ops if op.kind == "custom")
    place = names.index(custom.name)
    assert [op.name for op in custom.body] == names[place + 1 : place + 1 + len(custom.body)]
