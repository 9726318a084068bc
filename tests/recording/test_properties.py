"""On random programs, a trace and TensorFlow's own tape agree to the last bit.

An opened `tf.function` is held against `tf.config.run_functions_eagerly(True)`: the graph that a
closed one runs is optimised, and its last bit may differ from the same ops run one by one.
"""

from contextlib import contextmanager

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import edges_sum_to_upstream, same
from programs import square

import cgviz

VARIABLE = tf.Variable([0.5, -1.5], name="weights")


@tf.custom_gradient
def halves(x):
    """Two outputs and a rule that is not the derivative."""

    def grad(da, db):
        return 3.0 * da - db

    return (x * 0.5, tf.sin(x)), grad


@tf.custom_gradient
def weighted(x):
    """A rule that returns a gradient for a variable."""

    def grad(dy, variables=None):
        return dy * VARIABLE, [dy * x]

    return x * VARIABLE, grad


@tf.function
def composed(x, y):
    return tf.tanh(x) + square(y) * x


ONE = {
    "sin": tf.sin,
    "square": square,
    "halves": lambda a: halves(a)[0] * 2.0 + halves(a)[1],
    "one half": lambda a: halves(a)[1],
    "weighted": weighted,
    "by variable": lambda a: VARIABLE * a,
    "reshape": lambda a: tf.reshape(tf.reshape(a, [2, 1]), [2]),
    "stop": lambda a: tf.stop_gradient(a) * a,
    "round": lambda a: tf.round(a) + a,
    "relu": tf.nn.relu,
    "sum": lambda a: tf.reduce_sum(a) * a,
    "gather": lambda a: tf.gather(a, [1, 0]),
    "recompute": tf.recompute_grad(lambda a: tf.cos(a) * a),
    "unused": lambda a: (tf.exp(a), a * 1.5)[1],
}
TWO = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sub": lambda a, b: a - 2.0 * b,
    "div": lambda a, b: a / (1.0 + b * b),
    "max": tf.maximum,
    "where": lambda a, b: tf.where(a > b, a, b * 0.5),
    "composed": composed,
    "matmul": lambda a, b: tf.linalg.matvec(a[:, None] * b[None, :], a),
}
instruction = st.one_of(
    st.tuples(st.sampled_from(sorted(ONE)), st.integers(0, 30)),
    st.tuples(st.sampled_from(sorted(TWO)), st.integers(0, 30), st.integers(0, 30)),
)
numbers = st.lists(st.floats(-2, 2, width=32, allow_subnormal=False), min_size=2, max_size=2).map(
    np.float32
)
programs = st.lists(instruction, min_size=1, max_size=12)


def run(program, x, y):
    """A random straight-line program: each instruction reads values made before it."""
    values = [x, y]
    for name, *picks in program:
        picked = [values[i % len(values)] for i in picks]
        values.append(tf.clip_by_value((ONE.get(name) or TWO[name])(*picked), -50.0, 50.0))
    return values[-1]


@contextmanager
def functions(opened):
    """Run every `tf.function` op by op, or as TensorFlow does."""
    tf.config.run_functions_eagerly(opened)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@settings(max_examples=60)
@given(programs, numbers, numbers, numbers, st.booleans())
def test_a_trace_and_the_tape_agree_on_random_programs(program, x, y, upstream, opened):
    x, y = tf.constant(x), tf.constant(y)
    with functions(opened), tf.GradientTape() as tape:
        tape.watch([x, y])
        value = run(program, x, y)
    theirs = tape.gradient(value, [x, y, VARIABLE], output_gradients=tf.constant(upstream))
    trace = cgviz.trace(
        lambda x, y: run(program, x, y), x, y, upstream=upstream, open_functions=opened
    )
    same(trace.value, value)
    same(trace.gradients[0], theirs[0])
    same(trace.gradients[1], theirs[1])
    same(trace.variables.get("weights"), theirs[2])
    edges_sum_to_upstream(trace)


@settings(max_examples=30)
@given(programs, numbers, numbers, st.booleans())
def test_code_with_tapes_of_its_own_is_unchanged_inside_record(program, x, y, opened):
    x, y = tf.constant(x), tf.constant(y)

    def theirs():
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([x, y])
                value = run(program, x, y)
            first = tape.gradient(value, [x, y, VARIABLE])
            again = tape.gradient(value, [y])
        return [value, *first, *again, outer.gradient([g for g in first if g is not None], [x])[0]]

    with functions(opened):
        try:
            plain = theirs()
        except (AttributeError, NotImplementedError) as error:
            # TensorFlow itself cannot do this: sparse gradients as targets, recompute_grad twice.
            with pytest.raises(type(error)), cgviz.record(open_functions=opened):
                theirs()
            return
    with cgviz.record(open_functions=opened) as trace:
        recorded = theirs()
    for ours, expected in zip(recorded, plain, strict=True):
        same(None if ours is None else tf.convert_to_tensor(ours).numpy(), expected)
    assert len(trace.passes) == 3
    edges_sum_to_upstream(trace)
    for each, sources in zip(trace.passes, (3, 1, 1), strict=True):
        assert len(each.gradients) == sources
