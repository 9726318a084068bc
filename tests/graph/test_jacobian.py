"""Local Jacobians, against TensorFlow's own `tape.jacobian` without any recording."""

import re
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.graph import Op, Step, Value
from cgviz.graph.jacobian import LargeJacobian, local_jacobians, times, tolerance


def truth(f, *args):
    """The Jacobian of f by each argument, as TensorFlow alone computes it."""
    tensors = [tf.constant(a) for a in args]
    with tf.GradientTape(persistent=True) as tape:
        for t in tensors:
            tape.watch(t)
        y = f(*tensors)
    return [tape.jacobian(y, t).numpy() for t in tensors]


def only_step(f, *args):
    (step,) = cgviz.trace(f, *args).steps
    return step


def made_by_hand(rule, outputs, inputs, upstream=None):
    """A step whose rule is a plain function of NumPy arrays."""
    values = [Value(k, np.shape(a), np.asarray(a).dtype.name, a) for k, a in enumerate(inputs)]
    results = [
        Value(9 + k, np.shape(a), np.asarray(a).dtype.name, a) for k, a in enumerate(outputs)
    ]
    op = Op("f", "custom", "f", tuple(values), tuple(results))
    upstream = [np.ones_like(a) for a in outputs] if upstream is None else upstream
    return Step(op, upstream, rule(upstream), rule)


@tf.custom_gradient
def clipped(x):
    return tf.identity(x), lambda upstream: tf.clip_by_value(upstream, -0.5, 0.5)


CASES = {
    "elementwise": (tf.sin, [0.5, -1.0, 2.0]),
    "a scalar": (tf.square, 3.0),
    "a sum over an axis": (lambda x: tf.reduce_sum(x, 1), [[1.0, 2.0], [3.0, 4.0]]),
    "softmax": (tf.nn.softmax, [0.1, 0.2, 0.7]),
    "a transpose": (tf.transpose, [[1.0, 2.0, 3.0]]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_local_jacobian_is_tensorflows(name):
    f, x = CASES[name]
    ((local, *_),) = only_step(f, x).local
    (expected,) = truth(f, np.float32(x))
    assert local.shape == expected.shape
    np.testing.assert_allclose(local, expected, rtol=1e-6)


def test_an_op_of_two_inputs_has_one_jacobian_by_each():
    a, b = np.random.default_rng(0).normal(size=(2, 2, 2)).astype("f")
    ((by_a, by_b),) = only_step(tf.matmul, a, b).local
    for local, expected in zip((by_a, by_b), truth(tf.matmul, a, b), strict=True):
        assert local.shape == (2, 2, 2, 2)
        np.testing.assert_allclose(local, expected, rtol=1e-6)


def test_an_op_of_two_outputs_has_a_row_for_each():
    @tf.custom_gradient
    def both(x, y):
        def grad(u, v):
            return u * y, u * x + v * 2 * y

        return (x * y, y * y), grad

    step = cgviz.trace(lambda x, y: tf.add(*both(x, y)), 2.0, 3.0).steps[1]
    assert step.local == ((3.0, 2.0), (0.0, 6.0))


def test_the_local_of_a_scalar_is_a_number():
    ((local,),) = only_step(tf.square, 3.0).local
    assert local.shape == ()
    assert float(local) == 6.0


def test_a_float64_jacobian_keeps_its_digits():
    ((local,),) = only_step(tf.exp, np.float64(0.1)).local
    assert local.dtype == np.float64
    assert float(local) == float(tf.exp(np.float64(0.1)))


def test_a_bfloat16_step_has_a_jacobian():
    ((local,),) = only_step(tf.square, tf.constant([1.5, 2.0], tf.bfloat16)).local
    np.testing.assert_array_equal(local.astype("f"), np.diag([3.0, 4.0]))


def test_infinity_and_nan_stay_in_the_jacobian():
    ((local,),) = only_step(tf.sqrt, 0.0).local
    assert np.isposinf(local)
    ((local,),) = only_step(tf.math.log, np.nan).local
    assert np.isnan(local)


def test_beside_an_infinite_slope_the_local_of_an_op_by_entries_is_zero():
    ((local,),) = only_step(tf.math.log, [0.0, 0.5]).local
    np.testing.assert_array_equal(local, [[np.inf, 0.0], [0.0, 2.0]])


def test_an_empty_tensor_has_an_empty_jacobian():
    ((local,),) = only_step(tf.sin, np.zeros((0,), "f")).local
    assert local.shape == (0, 0)


def test_an_integer_input_has_none():
    step = cgviz.trace(lambda x: tf.gather(x, tf.constant([1, 0])), [1.0, 2.0]).steps[0]
    assert step.local[0][0].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert step.local[0][1:] == (None, None)


def test_an_output_without_upstream_and_one_of_integers_have_none():
    def rule(upstream):
        return [upstream[0] * 2]

    outputs = [np.float32(1), np.int32(3), np.float32(1)]
    step = made_by_hand(rule, outputs, [np.float32(1)], [np.float32(1), np.int32(1), None])
    assert local_jacobians(step) == ((2.0,), (None,), (None,))


def test_the_other_upstreams_are_zeros_and_none_stays_none():
    seen = []

    def rule(upstream):
        seen.append(upstream)
        return [upstream[0]]

    one = np.float32(1)
    arrived = [np.float32(7), np.float32(8), None]
    step = made_by_hand(rule, [one, one, one], [one], arrived)
    seen.clear()
    local_jacobians(step)
    assert [each for each in seen if tuple(each) != tuple(arrived)] == [[1, 0, None], [0, 1, None]]


def test_a_rule_runs_once_as_in_its_pass_and_once_per_entry_of_its_output():
    runs = []

    def rule(upstream):
        runs.append(upstream)
        return [upstream[0] * 2]

    step = made_by_hand(rule, [np.ones(5)], [np.ones(5)])
    runs.clear()
    np.testing.assert_array_equal(step.local[0][0], 2 * np.eye(5))
    assert len(runs) == 6
    assert step.local is step.local


def test_a_rule_that_returns_something_else_now_has_no_local():
    scale = 0.1

    @tf.custom_gradient
    def reverse(x):
        return tf.identity(x), lambda upstream: -scale * upstream

    @tf.custom_gradient
    def shaken(x):
        return tf.identity(x), lambda upstream: upstream * tf.random.uniform(x.shape)

    changed = cgviz.trace(lambda x: 2.0 * reverse(x), 3.0)
    scale = 0.5
    for each in (changed, cgviz.trace(shaken, [1.0, 2.0])):
        with pytest.raises(RuntimeError, match="returned something else when it ran again"):
            _ = each.steps[-1].local
        assert "linear" not in str(each.chain_rule())
        assert "≠" not in each.plot(local=True).cgviz_alt


def test_a_rule_that_returns_a_gradient_for_a_constant_has_its_local():
    """The tape drops what it returns for an input that nothing follows, such as labels."""

    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda upstream: (upstream * y, upstream * x)

    trace = cgviz.trace(lambda x: product(x, tf.constant(3.0)), 2.0, upstream=5.0)
    assert trace.steps[0].local == ((3.0, None),)
    assert "5 · 3" in str(trace.chain_rule())


def test_a_rule_for_the_real_and_the_imaginary_part_has_no_complex_number_as_its_local():
    trace = cgviz.trace(lambda r, i: tf.abs(tf.complex(r, i) ** 2), 1.0, 2.0)
    with pytest.raises(RuntimeError, match="the real and the imaginary part"):
        _ = trace.steps[-1].local
    assert "linear" not in str(trace.chain_rule())
    assert "≠" not in trace.plot(local=True).cgviz_alt
    product = cgviz.trace(lambda z: tf.math.real(z * z), tf.constant(1.0 + 2.0j))
    assert product.steps[-1].local[0][0] == np.conj(1.0 + 2.0j)


def test_what_a_rule_prints_is_not_printed_again(capsys):
    @tf.custom_gradient
    def loud(x):
        def grad(upstream):
            print("the rule runs")
            return upstream * 2

        return x * 2, grad

    trace = cgviz.trace(loud, 1.0)
    assert capsys.readouterr().out.count("the rule runs") == 1
    assert trace.steps[0].local == ((2.0,),)
    trace.diagnose()
    trace.view()
    assert capsys.readouterr().out == ""


def test_what_tensorflow_warns_of_in_a_rule_is_not_told_again(monkeypatch):
    logged = []
    monkeypatch.setattr(tf.get_logger(), "callHandlers", logged.append)
    trace = cgviz.trace(lambda x: tf.abs(tf.cast(x, tf.complex64)), 1.0)
    assert len(logged) == 1  # of a cast to a real dtype
    trace.steps[-1].vjp([np.complex64(1.0)])
    trace.diagnose()
    assert len(logged) == 1
    tf.cast(tf.constant(1j), tf.float32)
    assert len(logged) == 2


def test_what_others_print_while_a_rule_runs_again_is_printed(capsys):
    stdout = sys.stdout
    inside, beyond = threading.Barrier(3, timeout=60), threading.Barrier(2, timeout=60)

    def rule(upstream):
        print("the rule runs")
        inside.wait()
        if threading.current_thread() is last:
            beyond.wait()
            print("the rule still runs")
        return upstream

    step = made_by_hand(list, [np.ones(1)], [np.ones(1)])
    step.pull = rule
    first, last = (threading.Thread(target=step.vjp, args=([np.ones(1)],)) for _ in range(2))
    first.start()
    last.start()
    inside.wait()
    print("outside")
    first.join()
    beyond.wait()
    last.join()
    assert sys.stdout is stdout
    assert capsys.readouterr().out == "outside\n"


# --- rules that are not linear -----------------------------------------------------------------


def linear(step):
    return all(product.is_linear for product in step.products)


def test_a_rule_that_clips_claims_its_jacobian_at_unit_upstream():
    step = cgviz.trace(clipped, 1.0, upstream=3.0).steps[0]
    assert step.local == ((0.5,),)
    assert step.downstream == (0.5,)


@pytest.mark.parametrize("upstream", [0.1, 3.0])
def test_a_rule_that_clips_is_not_linear(upstream):
    assert not linear(cgviz.trace(clipped, 1.0, upstream=upstream).steps[0])


@pytest.mark.parametrize("name", CASES)
def test_the_rules_of_tensorflow_are_linear(name):
    f, x = CASES[name]
    assert linear(only_step(f, x))


def test_nothing_is_asked_of_a_large_jacobian():
    assert linear(only_step(clipped, np.ones(300, "f")))


def test_a_rule_whose_slope_overflows_is_not_called_nonlinear():
    assert linear(only_step(tf.exp, np.float16(12.0)))
    both = [np.float16(np.nan), np.float16(1.0)]
    cast = cgviz.trace(lambda x: tf.cast(x, "float16"), [1.0, 2.0], upstream=both).steps[0]
    assert linear(cast)


def test_what_a_dtype_cannot_hold_agrees_with_no_product_and_is_not_blamed_on_the_rule():
    for factor, returned in ((1e30, np.inf), (1e-30, 0.0)):
        step = cgviz.trace(lambda x, by=factor: x * by, 1.0, upstream=factor).steps[0]
        assert step.downstream[0] == returned
        assert step.products[0].agrees is False
        assert linear(step)


def test_a_rule_that_returns_0_in_place_of_a_product_is_not_linear():
    blocked = tf.custom_gradient(lambda x: (x * 1.0, lambda u: tf.where(u > 2.0, 0.0, u)))
    assert not linear(cgviz.trace(blocked, 1.0, upstream=5.0).steps[0])


def test_a_step_says_once_why_its_locals_are_not_known():
    step = made_by_hand(lambda u: [u[0]], [np.float32(1)], [np.float32(1)])
    (product,) = Step(step.op, step.upstream, step.downstream).products
    assert "cannot run again" in product.missing
    assert (product.terms, product.total, product.agrees) == ((), None, None)
    assert product.returned == 1.0


def test_a_rule_with_an_infinite_slope_is_linear():
    assert linear(only_step(tf.sqrt, 0.0))


@pytest.mark.parametrize(
    ("f", "x", "upstream"),
    [
        (tf.negative, [0.0, 0.5], [np.nan, -0.5]),  # 0 · NaN is left out
        (lambda x: x * [0.0, 2.0], [1.0, 1.0], [np.nan, 1.0]),  # and here it is not
        (lambda x: tf.where([False, True], x, 0.0), [1.0, 1.0], [np.inf, 1.0]),
        (tf.math.log, [0.0, 0.5], [1.0, 1.0]),
        (tf.math.log, [0.0, 0.5], [0.0, 1.0]),
        (tf.sqrt, [0.0, 4.0], [0.0, 1.0]),  # TensorFlow's rule leaves 0 · ∞ out
        (tf.reduce_sum, [0.0, 0.5], np.nan),
    ],
)
def test_a_rule_agrees_with_its_local_whether_or_not_it_multiplies_by_zeros(f, x, upstream):
    step = cgviz.trace(f, x, upstream=np.float32(upstream)).steps[0]
    assert [p.agrees for p in step.products if p.terms] == [True]


def test_a_wrong_number_beside_nan_does_not_agree():
    (product,) = cgviz.trace(tf.negative, [0.0, 0.5], upstream=[np.nan, -0.5]).steps[0].products
    assert not replace(product, returned=np.float32([np.nan, 0.7])).agrees
    assert not replace(product, returned=np.float32([0.0, 0.5])).agrees


# --- large tensors -----------------------------------------------------------------------------


def test_a_large_jacobian_is_a_summary_that_says_so():
    x = np.linspace(-1, 1, 300, dtype="f")
    large = only_step(tf.sin, x).local[0][0]
    assert isinstance(large, LargeJacobian)
    assert large.shape == (300, 300)
    assert large.size == 90_000
    assert repr(large) == "<LargeJacobian, a summary: shape (300, 300), 90,000 numbers>"


def test_what_a_large_jacobian_multiplies_to_is_asked_of_the_step():
    w = np.random.default_rng(1).normal(size=(3, 300)).astype("f")
    steps = cgviz.trace(lambda x: tf.linalg.matvec(w, x, transpose_a=True), [1.0, 2.0, 3.0]).steps
    step = next(s for s in steps if s.op.type == "MatMul")
    j, large = next((j, x) for j, x in enumerate(step.local[0]) if isinstance(x, LargeJacobian))
    upstream = np.random.default_rng(2).normal(size=step.op.outputs[0].shape).astype("f")
    assert large.shape == upstream.shape + step.op.inputs[j].shape
    np.testing.assert_allclose(
        step.vjp([upstream])[j].reshape(-1), (w @ upstream.reshape(-1)), rtol=1e-4
    )


def test_a_jacobian_whose_rule_is_gone_says_what_it_knows():
    step = made_by_hand(lambda u: [u[0]], [np.ones(300)], [np.ones(300)])
    gone = Step(step.op, step.upstream, step.downstream)
    large = gone.local[0][0]
    assert "90,000 numbers" in repr(large)
    with pytest.raises(RuntimeError, match="cannot run again"):
        gone.vjp([np.ones(300)])


def test_a_rule_that_fails_the_second_time_is_one_clear_error():
    def rule(upstream):
        if rule.ran:
            raise ValueError("{{function_node f}} once only.\nTraceback (most recent call last)")
        rule.ran = True
        return [upstream[0]]

    rule.ran = False
    step = made_by_hand(rule, [np.float32(1)], [np.float32(1)])
    with pytest.raises(RuntimeError, match=r"again, and it failed this time: once only\. A rule"):
        _ = step.local


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AssertionError(), "AssertionError"),
        (ValueError("\nsecond"), "second"),
        (ValueError("bad {{x}} of {{y}} z"), "bad {{x}} of {{y}} z"),
    ],
)
def test_whatever_a_rule_raises_the_second_time_there_is_a_reason(error, words):
    def rule(upstream):
        if rule.ran:
            raise error
        rule.ran = True
        return [upstream[0]]

    rule.ran = False
    step = made_by_hand(rule, [np.float32(1)], [np.float32(1)])
    with pytest.raises(RuntimeError, match=re.escape(f"this time: {words}. A rule")):
        _ = step.local


# --- arithmetic --------------------------------------------------------------------------------


def test_times_is_a_row_vector_times_a_matrix():
    random = np.random.default_rng(4)
    upstream, local = random.normal(size=(2, 3)), random.normal(size=(2, 3, 4))
    expected = upstream.reshape(1, -1) @ local.reshape(6, 4)
    np.testing.assert_allclose(times(upstream, local), expected[0], rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
def test_the_tolerance_is_above_the_rounding_of_the_dtype(dtype):
    eps = 0.0 if dtype == "int32" else np.finfo(dtype).eps
    assert eps <= tolerance(dtype) < 0.1
