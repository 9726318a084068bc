"""What a recording notes is plain, small and holds no more than it must."""

import sys
import weakref

import pytest

from cgviz.recording.events import Body, CallEvent, Hub, OpEvent, PassEvent, RuleEvent


def op(inputs=(), frame=None):
    return OpEvent("Mul", inputs, (), (), None, "", frame)


@pytest.mark.parametrize("count", [1, 3, 200])
def test_an_op_follows_the_inputs_whose_bit_is_set(count):
    event = op(range(count))
    assert not any(event.follows(i) for i in range(count))
    event.watched = 1 << count - 1 | 1
    assert [i for i in range(count) if event.follows(i)] == sorted({0, count - 1})


def test_an_event_remembers_where_the_code_stood_and_keeps_nothing_of_its_run():
    class Big:
        pass

    def run():
        local = Big()
        return op(frame=sys._getframe()), weakref.ref(local)

    event, local = run()
    assert event.code is run.__code__
    assert event.lasti > 0
    assert local() is None
    assert (op().code, op().lasti) == (None, 0)


def test_a_pass_tells_its_notes_as_steps_in_the_order_they_ran():
    event = PassEvent(None, [], None, [], quiet=True)
    assert list(event.steps()) == []
    first, last = op(), op()
    event.noted += (last, ["u"], ["d", None])
    event.noted += (first, [None], [])
    assert list(event.steps()) == [(last, ["u"], ["d", None]), (first, [None], [])]
    event.noted.append(first)
    with pytest.raises(ValueError, match="shorter"):
        list(event.steps())


def test_the_garbage_collector_finds_no_dict_in_an_event():
    call = CallEvent("square", (), (), (), None, "", None, rule=len)
    passed = PassEvent(None, [], None, [], quiet=True)
    for event in (Body(None), op(), call, passed, RuleEvent(passed, call)):
        assert not hasattr(event, "__dict__"), event


def test_a_hub_tells_variables_apart_after_their_handles_are_gone():
    hub = Hub()
    hub.know("w", object())
    hub.know("v", object())
    assert sorted(hub.variables.values()) == ["v", "w"]
    assert not any(id(new) in hub.variables for new in [object() for _ in range(1000)])


def test_a_hub_keeps_the_first_variable_of_a_handle():
    hub, handle = Hub(), object()
    hub.know("w", handle)
    hub.know("copy of w", handle)
    assert hub.variables == {id(handle): "w"}
    assert hub.handles == [handle]
