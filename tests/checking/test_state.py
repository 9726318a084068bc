"""What f can change is found beforehand and put back after."""

import functools
from contextlib import suppress

import numpy as np
import pytest
import tensorflow as tf

from cgviz.checking import state

counter = tf.Variable(1.0, name="counter")
log = []


def uses_globals(x):
    counter.assign_add(1.0)
    log.append(1)
    return x


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(2.0, name="w")

    def __call__(self, x):
        self.w.assign_add(1.0)
        return x * self.w

    def method(self, x):
        return self(x)


def closure():
    v = tf.Variable([1.0, 2.0])

    def f(x):
        v.assign(v * 2.0)
        return x

    return f, v


def found(f, *args):
    with state.kept(f, args) as (variables, _):
        return [variable for variable, _ in variables.values()]


def test_variables_are_found_wherever_code_can_reach_them():
    f, v = closure()
    module = Module()
    decorated = tf.custom_gradient(lambda x: (x * v[0], lambda dy, variables=None: None))
    for g, variable in (
        (f, v),
        (uses_globals, counter),
        (module, module.w),
        (module.method, module.w),
        (functools.partial(f), v),
        (tf.function(f), v),
        (decorated, v),
        (lambda x: f(x), v),
    ):
        assert any(each is variable for each in found(g, 1.0)), g
    assert found(tf.sin, v)[0] is v


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_variables_and_streams_are_put_back_on_every_way_out(error):
    f, v = closure()
    before = np.random.get_state()[1].tolist()
    with suppress(ValueError, KeyboardInterrupt), state.kept(f, ()):
        f(1.0)
        np.random.random()
        if error:
            raise error
    assert v.numpy().tolist() == [1.0, 2.0]
    assert np.random.get_state()[1].tolist() == before


def test_what_is_printed_is_kept(capsys):
    with state.kept(print, ()) as (_, printed):
        print("hello")
    assert printed.getvalue() == "hello\n"
    assert capsys.readouterr().out == ""


def test_a_fingerprint_changes_with_python_state():
    before = state.fingerprint(uses_globals)
    assert state.fingerprint(uses_globals) == before
    log.append(1)
    assert state.fingerprint(uses_globals) != before
