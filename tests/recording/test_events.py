"""What a recording notes is plain, small and holds no more than it must."""

import pytest

from cgviz.recording.events import Body, CallEvent, OpEvent, PassEvent, RuleEvent, ThreadRecorder


def op(inputs=()):
    return OpEvent("Mul", inputs, ())


def test_a_pass_tells_its_notes_as_steps_in_the_order_they_ran():
    event = PassEvent(None, [], None, [])
    assert list(event.steps()) == []
    first, last = op(), op()
    event.noted += (last, ["u"], ["d", None])
    event.noted += (first, [None], [])
    assert list(event.steps()) == [(last, ["u"], ["d", None]), (first, [None], [])]
    event.noted.append(first)
    with pytest.raises(ValueError, match="shorter"):
        list(event.steps())


def test_the_garbage_collector_finds_no_dict_in_an_event():
    call = CallEvent("square", (), (), rule=len)
    passed = PassEvent(None, [], None, [])
    for event in (Body(None), op(), call, passed, RuleEvent(passed, call)):
        assert not hasattr(event, "__dict__"), event


def test_a_recorder_tells_variables_apart_after_their_handles_are_gone():
    recorder = ThreadRecorder()
    recorder.know("w", object())
    recorder.know("v", object())
    assert sorted(recorder.variables.values()) == ["v", "w"]
    assert not any(id(new) in recorder.variables for new in [object() for _ in range(1000)])


def test_a_recorder_keeps_the_first_variable_of_a_handle():
    recorder, handle = ThreadRecorder(), object()
    recorder.know("w", handle)
    recorder.know("copy of w", handle)
    assert recorder.variables == {id(handle): "w"}
    assert recorder.handles == [handle]
