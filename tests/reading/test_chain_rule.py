"""The chain rule: its paths, their number and sum, against brute force and TensorFlow's tape."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import thrice

import cgviz
from cgviz.reading.chain_rule import MOST_PATHS


def test_the_rule_of_a_square_of_a_square_of_a_square():
    rule = cgviz.trace(thrice, 2.0).chain_rule()
    (source,) = rule.sources
    (path,) = source.paths
    assert path.locals == (32.0, 8.0, 4.0)
    assert [factor.step.op.name for factor in path.factors] == ["y", "b", "a"]
    assert path.products[-1] == source.total == 1024.0


def test_each_source_has_its_own_sum():
    v = tf.Variable(3.0, name="v")
    rule = cgviz.trace(lambda x: x * x * v, 2.0).chain_rule()
    assert [(s.name, float(s.total), s.count) for s in rule.sources] == [
        ("x", 12.0, 2),
        ("v", 4.0, 1),
    ]


def test_a_source_without_a_gradient_is_named():
    rule = cgviz.trace(lambda x, y: tf.round(x) * y, 2.0, 3.0).chain_rule()
    assert rule.unreached == ("x",)
    assert [source.name for source in rule.sources] == ["y"]


def test_a_recording_with_its_own_tape_has_a_chain_rule():
    x = tf.constant(3.0)
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
    assert str(trace.chain_rule()).startswith("dy/dx = ∂y/∂x|1 + ∂y/∂x|2")


def test_a_trace_without_a_backward_pass_says_so():
    with cgviz.record() as trace:
        tf.square(2.0)
    with pytest.raises(ValueError, match="no backward pass"):
        trace.chain_rule()


def test_a_pass_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="`which` is 3"):
        cgviz.trace(thrice, 2.0).chain_rule(3)


def test_the_rule_of_the_second_pass_is_of_the_second_derivative():
    rule = cgviz.trace(lambda x: x**3, 2.0, order=2).chain_rule(1)
    np.testing.assert_allclose(rule.sources[0].total, 12.0)


# --- paths ----------------------------------------------------------------------------------------


def derivative(f, *args, which=None, **options):
    return cgviz.trace(f, *args, **options).chain_rule(which).sources[0]


def doubled(times):
    def f(x):
        for _ in range(times):
            x = x * x
        return x

    return f


@tf.custom_gradient
def clipped(x):
    return tf.identity(x), lambda upstream: tf.clip_by_value(upstream, -0.5, 0.5)


UNARY = (tf.sin, tf.square, tf.negative, tf.identity)
BINARY = (tf.add, tf.multiply, tf.subtract)
OPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 99), st.integers(0, 99)), max_size=7)


def program(choices):
    """A random function of two scalars, built of the values made so far."""

    def f(x, y):
        made = [x, y, x * y]
        for kind, a, b in choices:
            a, b = made[a % len(made)], made[b % len(made)]
            made.append(UNARY[kind](a) if kind < 4 else BINARY[kind - 4](a, b))
        return made[-1]

    return f


def paths_by_brute_force(step_of, value, source):
    if value.key == source.key:
        return 1
    step = step_of.get(value.key)
    if step is None:
        return 0
    return sum(
        paths_by_brute_force(step_of, v, source)
        for v, flows in zip(step.op.inputs, step.flows, strict=True)
        if flows
    )


@settings(max_examples=40)
@given(choices=OPS)
def test_the_sum_over_the_paths_is_what_the_tape_computes(choices):
    f = program(choices)
    x, y = tf.constant(0.7), tf.constant(-1.3)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        value = f(x, y)
    expected = dict(zip("xy", tape.gradient(value, [x, y]), strict=True))
    rule = cgviz.trace(f, x, y).chain_rule()
    assert len(rule.sources) == sum(g is not None for g in expected.values())
    for found in rule.sources:
        assert found.agrees
        np.testing.assert_allclose(found.total, expected[found.name], rtol=1e-3, atol=1e-5)
        walked = list(found.walk())
        total = sum(p.products[-1] for p in walked)
        np.testing.assert_allclose(total, found.total, rtol=1e-9, atol=1e-12)


@settings(max_examples=40)
@given(choices=OPS)
def test_the_paths_are_counted_as_brute_force_counts_them(choices):
    trace = cgviz.trace(program(choices), 0.7, -1.3)
    step_of = {v.key: s for s in trace.steps for v in s.op.outputs}
    (target,) = trace.passes[0].targets
    for found in trace.chain_rule().sources:
        assert found.count == paths_by_brute_force(step_of, target, found.source)
        assert found.count == len(list(found.walk()))


def test_a_value_used_twice_gives_two_paths():
    found = derivative(lambda x: x * x, 3.0)
    assert [p.locals for p in found.paths] == [(3.0,), (3.0,)]
    assert [p.products[-1] for p in found.paths] == [3.0, 3.0]
    assert [p.factors[0].slot for p in found.paths] == [1, 2]
    assert found.total == 6.0


def test_a_path_names_its_ops_from_the_target_back():
    found = derivative(lambda x: tf.sin(tf.square(x)), 2.0)
    (path,) = found.paths
    assert [factor.step.op.type for factor in path.factors] == ["Sin", "Square"]


def test_exponentially_many_paths_are_counted_and_summed_without_walking():
    found = derivative(doubled(100), 1.0)
    assert found.count == 2**100
    assert len(found.paths) == MOST_PATHS
    assert found.total == pytest.approx(2.0**100)
    assert found.agrees


def test_a_long_chain_is_walked_without_recursion():
    def f(x):
        for _ in range(3000):
            x = tf.negative(x)
        return x

    found = derivative(f, 1.0)
    assert found.count == 1
    assert len(found.paths[0].factors) == 3000
    assert found.total is None  # 3,000 rules would have to run
    assert found.agrees is None


def test_a_function_that_returns_its_argument_has_one_path_without_factors():
    found = derivative(lambda x: x, [1.0, 2.0])
    assert found.count == 1
    assert found.paths[0].factors == ()
    assert found.total.tolist() == [1.0, 1.0]
    assert found.agrees


def test_the_upstream_of_the_target_leads_every_product():
    found = derivative(lambda x: x * x, [1.0, 2.0], upstream=[10.0, 100.0])
    assert [p.products[-1].tolist() for p in found.paths] == [[10.0, 200.0], [10.0, 200.0]]
    assert found.total.tolist() == [20.0, 400.0]


def test_matrices_follow_the_tape():
    w = np.random.default_rng(0).normal(size=(3, 2)).astype("f")
    x = np.random.default_rng(1).normal(size=(1, 3)).astype("f")

    def f(x, w):
        return tf.reduce_sum(tf.tanh(x @ w) ** 2)

    with tf.GradientTape() as tape:
        tensors = tf.constant(x), tf.constant(w)
        tape.watch(tensors)
        expected = tape.gradient(f(*tensors), tensors)
    for found, gradient in zip(cgviz.trace(f, x, w).chain_rule().sources, expected, strict=True):
        np.testing.assert_allclose(found.total, gradient, rtol=1e-4)
        assert found.agrees


def test_two_targets_add_up():
    found = derivative(lambda x: (x * 2.0, tf.square(x)), 3.0)
    assert sorted(float(p.products[-1]) for p in found.paths) == [2.0, 6.0]
    assert found.total == 8.0


def test_an_op_of_two_outputs_has_a_path_through_each():
    def f(x):
        a, b = tf.split(x, 2)
        return tf.reduce_sum(a * b)

    found = derivative(f, [2.0, 5.0])
    assert found.count == 2
    assert found.total.tolist() == [5.0, 2.0]


def test_an_output_that_nothing_uses_has_no_path():
    found = derivative(lambda x: tf.reduce_sum(tf.split(x, 2)[0]), [2.0, 5.0])
    assert found.count == 1
    assert found.total.tolist() == [1.0, 0.0]


def test_every_version_of_a_variable_is_the_variable():
    w = tf.Variable(3.0)

    def f(x):
        y = x * w
        w.assign(5.0)
        return y * w

    found = next(s for s in cgviz.trace(f, 2.0).chain_rule().sources if s.name != "x")
    with tf.GradientTape() as tape:
        w.assign(3.0)
        expected = tape.gradient(f(tf.constant(2.0)), w)
    assert found.total == expected.numpy()
    assert found.count == 2


def test_the_second_pass_goes_through_the_ops_of_the_first():
    found = derivative(lambda x: x**3, 2.0, order=2, which=1)
    assert found.total == 12.0
    assert found.agrees


def test_a_rule_that_is_not_linear_is_found_out():
    found = derivative(lambda x: 3.0 * clipped(x), 2.0)
    assert found.total == 1.5
    assert found.gradient == 0.5
    assert found.agrees is False
    written = repr(cgviz.trace(lambda x: 3.0 * clipped(x), 2.0).chain_rule())
    assert "the rule of `clipped` is not linear in its upstream" in " ".join(written.split())


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_a_number_that_its_dtype_cannot_hold_is_not_blamed_on_a_rule(factor):
    written = repr(cgviz.trace(lambda x: x * factor, 1.0, upstream=factor).chain_rule())
    assert "(the product of the locals would be 1e" in written
    assert "not linear" not in written


def test_a_large_jacobian_leaves_the_sum_open():
    found = derivative(lambda x: tf.reduce_sum(tf.sin(x)), np.ones(300, "f"))
    assert found.total is None
    assert found.agrees is None


def test_an_empty_tensor_has_an_empty_sum():
    found = derivative(lambda x: tf.reduce_sum(x * x), np.zeros((0,), "f"))
    assert found.total.shape == (0,)
    assert found.agrees


@pytest.mark.parametrize("x", [np.nan, np.inf, 0.0, 1e38])
def test_awkward_numbers_agree_with_themselves(x):
    assert derivative(lambda x: tf.exp(x) * tf.sqrt(x), np.float32(x)).agrees


def test_float64_agrees_to_its_last_digits():
    found = derivative(lambda x: tf.sin(x) * tf.exp(x), np.float64(0.3))
    assert found.gradient.dtype == np.float64
    assert found.agrees
