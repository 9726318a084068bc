"""The first op that made NaN or infinity is named, forward and backward, with its numbers."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape
from programs import documented
from troubles import found, only

import cgviz
from cgviz.diagnosing import numbers
from cgviz.graph import Trace


def test_the_documented_log1pexp_overflows_in_its_body_though_the_gradient_is_fine():
    trace = cgviz.trace(documented, 100.0)
    assert trace.gradients[0] == 1.0
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("inf", "Exp")
    assert "`x` = 100" in finding.message
    assert "88.72" in finding.message


@pytest.mark.parametrize(
    ("dtype", "limit"), [("float16", 11.09), ("bfloat16", 88.72), ("float64", 709.78)]
)
def test_the_largest_input_of_exp_is_that_of_its_type(dtype, limit):
    finding = only(cgviz.trace(tf.exp, tf.constant(1000.0, dtype)))
    assert f"Above {limit} it overflows in {dtype}" in finding.message
    near = 0.02 if dtype == "bfloat16" else 0.001  # of three digits
    below, above = (tf.exp(tf.cast(limit * (1 + side), dtype)) for side in (-near, near))
    assert np.isfinite(float(below))
    assert np.isinf(float(above))


BAD = {
    "log of a negative number": (
        tf.math.log,
        [-1.0, 1.0],
        [("nan", "Log")],
        "defined for inputs above 0",
    ),
    "log1p": (tf.math.log1p, [-1.0], [("inf", "Log1p")], "inputs above −1"),
    "division by 0": (lambda x: x / 0.0, [1.0], [("inf", "RealDiv")], "by 0"),
    "division by a column": (
        lambda x: [1.0, 2.0] / x,
        [[3.0], [0.0]],
        [("inf", "RealDiv")],
        "at entry [1, 0] from `constant` = 1 and `x` = 0. It divides by 0",
    ),
    "infinity minus infinity": (
        lambda x: tf.exp(x) - tf.exp(x),
        [100.0],
        [("inf", "Exp")],
        "Above 88.72 it overflows",
    ),
    "0 times infinity in a matrix product": (
        lambda x: [[0.0, 1.0]] @ tf.exp(x),
        [[100.0], [1.0]],
        [("inf", "Exp")],
        "at entry [0, 0] from `x` = 100",
    ),
    "float16 overflow": (
        lambda x: tf.cast(x, tf.float16) * 2.0,
        [1e5],
        [("inf", "Cast")],
        "65504",
    ),
    "a sum that overflows": (lambda x: x * 1e30, [1e30], [("inf", "Mul")], "largest float32"),
    "a product below every number": (lambda x: x * -1e30, [1e30], [("inf", "Mul")], "beyond ±"),
    "float64": (lambda x: x * x, np.float64(1e200), [("inf", "Mul")], "largest float64"),
    "complex": (lambda z: z * z, np.complex64(1e30j), [("inf", "Mul")], "largest float32"),
    "cosh of a negative number": (tf.cosh, [-100.0], [("inf", "Cosh")], "beyond ±3.403e38"),
    "exp of a negative number": (lambda x: 1.0 / tf.exp(x), [-200.0], [("inf", "RealDiv")], "by 0"),
    "a square root": (tf.sqrt, [4.0, -1.0], [("nan", "Sqrt")], "inputs of 0 or more"),
    "a pole at 1": (tf.atanh, [1.0], [("inf", "Atanh")], "between −1 and 1"),
    "a power of 0": (lambda x: x**-1.0, [0.0], [("inf", "Pow")], "from `x` = 0"),
    "a negative power of 0": (lambda x: x**-2.0, [1.0, 0.0], [("inf", "Pow")], "It divides by 0"),
    "0 times the logarithm, with no 0": (
        lambda x: tf.math.xlogy([1.0, 0.0], x),
        [0.0, 0.0],
        [("inf", "Xlogy")],
        "at entry [0] from `constant` = 1 and `x` = 0. The result is infinite, or beyond",
    ),
    "xlog1py": (
        lambda x: tf.math.xlog1py(2.0, x),
        [-1.0],
        [("inf", "Xlog1py")],
        "from `constant` = 2 and `x` = −1. The result is infinite, or beyond",
    ),
    "a pole of lgamma": (
        tf.math.lgamma,
        [2.5, -1.0],
        [("inf", "Lgamma")],
        "at entry [1] from `x` = −1. The result is infinite, or beyond",
    ),
    "a pole of digamma": (tf.math.digamma, [0.0], [("nan", "Digamma")], "made at Digamma"),
    "a power that overflows": (lambda x: x**40.0, [-1e10], [("inf", "Pow")], "largest float32"),
    "NaN handed in": (lambda x: x * 2.0, [np.nan, 1.0], [("nan", "Input")], "itself holds NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_first_op_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BAD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


def test_a_row_that_is_gathered_twice_can_add_up_to_infinity():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="table")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            y = tf.gather(table, [0, 0])
        tape.gradient(y, table, output_gradients=tf.constant([[3e38, 1.0], [3e38, 1.0]]))
    assert only(trace).what == "inf"


def test_a_matrix_product_is_not_blamed_on_two_numbers_of_it():
    trace = cgviz.trace(lambda a: a @ a, [[1e30, 1.0], [1.0, 1.0]])
    assert "`a` =" not in trace.diagnose()[0].message


def test_nan_everywhere_is_one_finding_per_place():
    trace = cgviz.trace(lambda x, y: x * y, [np.nan] * 3, [np.nan] * 3)
    assert {f.name for f in trace.diagnose() if f.op.kind == "input"} == {"x", "y"}


def test_a_forward_pass_alone_is_looked_at_too():
    with cgviz.record() as trace:
        tf.exp(tf.constant(100.0)) * 2.0
    assert found(trace) == [("inf", "Exp")]


# --- traces made by hand -----------------------------------------------------------------------


def blamed(tape, *ends):
    """(what, op) of each finding."""
    return [(f.what, f.name) for f in numbers.forward(run(tape), ends)]


def run(tape):
    """The trace of a forward pass alone."""
    return Trace("f", None, (), {}, tuple(tape.ops), ())


def test_an_infinity_that_does_no_harm_is_left_alone():
    tape = Tape()
    mask = tape.op("mask", "Log", [tape.start("x", 0.0)], -np.inf)
    y = tape.op("y", "Exp", [mask], 0.0)
    assert blamed(tape, y) == []
    assert blamed(tape, mask) == [("inf", "mask")]


def test_integers_and_empty_ends_are_finite():
    tape = Tape()
    assert blamed(tape, tape.start("i", [1, 2], dtype=np.int32), tape.start("e", [])) == []


def test_nan_and_infinity_of_one_op_are_one_finding():
    tape = Tape()
    y = tape.op("y", "Log", [tape.start("x", [0.0, -1.0])], [-np.inf, np.nan])
    assert blamed(tape, y) == [("nan", "y")]


def test_where_two_infinities_meet_the_ops_behind_both_are_named():
    tape = Tape()
    x = tape.start("x", 100.0)
    a, b = (tape.op(name, "Exp", [x], np.inf) for name in "ab")
    y = tape.op("y", "Sub", [a, b], np.nan)
    assert blamed(tape, y) == [("inf", "a"), ("inf", "b")]


def test_an_infinity_that_somebody_gave_is_not_to_blame_for_the_nan_that_is_made_of_it():
    finding = only(cgviz.trace(lambda x: x * tf.constant([-np.inf, 1.0]), [0.0, 1.0]))
    assert (finding.what, finding.op.type) == ("nan", "Mul")
    assert "0 × ∞" in finding.message


def test_a_mask_passed_on_by_a_sum_is_not_to_blame_for_the_nan_that_is_made_of_it():
    mask = np.float32([[0.0, -np.inf], [-np.inf, -np.inf]])  # the second row has nothing left
    trace = cgviz.trace(lambda scores: tf.nn.softmax(scores + mask), tf.zeros((2, 2)))
    (first, *_) = trace.diagnose()
    assert (first.what, first.op.type) == ("nan", "Softmax")
    assert "∞ / ∞" in first.message
    assert "Each row needs a number above −∞" in first.hint
    assert not any(each.op.kind == "constant" for each in trace.diagnose())


def test_a_mean_of_nothing_is_named():
    finding = only(cgviz.trace(lambda x: tf.reduce_mean(tf.boolean_mask(x, x > 9.0)), [1.0, 2.0]))
    assert "The mean of no numbers is NaN" in finding.message


def test_an_infinity_that_no_softmax_met_is_not_told_of_its_rows():
    finding = only(cgviz.trace(lambda x: x * np.inf - np.inf, [1.0]))
    assert "infinity that came in" in finding.hint
    assert "row" not in finding.hint


@pytest.mark.parametrize(
    "f", [tf.sqrt, tf.norm, tf.acos, lambda x: tf.atan2(x, x), lambda x: x**0.5]
)
def test_an_infinite_derivative_is_not_blamed_on_the_size_of_the_loss(f):
    finding = only(cgviz.trace(f, [1.0] if f is tf.acos else [0.0]))
    assert "upstream times" not in finding.message
    assert "Scale the loss" not in finding.hint
    assert "small ε" in finding.hint
    assert "tf.where" in finding.hint


@pytest.mark.parametrize("f", [tf.sqrt, tf.norm])
def test_an_infinite_derivative_in_float16_is_not_blamed_on_the_size_of_the_loss(f):
    finding = only(cgviz.trace(f, np.float16([0.0])))
    assert "Scale the loss" not in finding.hint


def test_a_derivative_beyond_the_dtype_is_not_called_infinite_alone():
    finding = only(cgviz.trace(tf.math.log, np.float16([1e-6, 1.0])))
    assert "infinite, not defined or too large for float16 there" in finding.message


def test_an_upstream_that_is_too_large_is_told_to_scale_the_loss_down():
    finding = only(cgviz.trace(lambda x: x * 1e30 * 1e30, 1e-40))
    assert "too large for float32" in finding.message
    assert "Scale the loss down" in finding.hint


def test_an_infinity_that_an_op_made_is_to_blame_though_a_given_one_comes_with_it():
    tape = Tape()
    mask, x = tape.start("mask", [-np.inf, 0.0], kind="constant"), tape.start("x", [0.0, 100.0])
    grown = tape.op("grown", "Exp", [x], [1.0, np.inf])
    masked = tape.op("masked", "AddV2", [grown, mask], [-np.inf, np.inf])
    y = tape.op("y", "Softmax", [masked], [0.0, np.nan])
    assert ("inf", "grown") in blamed(tape, y)


def test_a_custom_op_is_not_blamed_for_what_it_captured():
    tape = Tape()
    bad = tape.op("bad", "Log", [tape.start("c", -1.0)], np.nan)
    y = tape.op("y", "f", [tape.start("x", 1.0)], np.nan, kind="custom", captured=(bad,))
    assert blamed(tape, y) == [("nan", "bad")]


def test_bodies_within_bodies_are_searched():
    body = Tape()
    x = body.start("x", 0.0)
    body.op("innermost", "Log", [x], -np.inf)
    inner = Tape()
    inner.op("inner", "g", [x], -np.inf, kind="custom", body=tuple(body.ops[1:]))
    outer = Tape()
    y = outer.op("outer", "f", [x], -np.inf, kind="custom", body=tuple(inner.ops))
    assert blamed(outer, y) == [("inf", "innermost")]


def test_what_leads_to_nan_on_several_ways_is_named_once():
    tape = Tape()
    x = tape.start("x", np.nan)
    y = tape.op("y", "Add", [x, x], np.nan)
    z = tape.op("z", "Add", [y, x], np.nan)
    assert blamed(tape, z, y, x) == [("nan", "x")]


def test_an_end_that_no_op_made_is_passed_over():
    assert blamed(Tape(), Tape().value(np.nan)) == []


def test_an_op_that_is_little_known_is_named_without_a_guess():
    tape = Tape()
    y = tape.op("y", "Betainc", [tape.start("x", [2.0, 3.0])], [0.5, np.nan])
    (finding,) = numbers.forward(run(tape), [y])
    assert finding.message == ("the first NaN of the forward pass is made at Betainc at entry [1].")


@tf.custom_gradient
def makes_nan(x):
    return x * 1.0, lambda dy: dy * (x - x) / (x - x)


@tf.custom_gradient
def unit_gradient(x):
    return tf.identity(x), lambda dy: dy / tf.norm(dy)


BACKWARD = {
    "log of 0 in the branch not taken": (
        lambda x: tf.where(x > 0.0, tf.math.log(x), 0.0),
        [0.0, 1.0],
        [("nan", "Log")],
        "tf.where did not take this branch",
    ),
    "the branch not taken, further up": (
        lambda x: tf.where(x > 0.0, 1.0 - 3.0 * tf.math.log(x), 0.0),
        [0.0, 1.0],
        [("nan", "Log")],
        "tf.where did not take this branch",
    ),
    "sin(x)/x at 0": (
        lambda x: tf.where(x == 0.0, 1.0, tf.sin(x) / x),
        [0.0, 1.0],
        [("nan", "RealDiv")],
        "tf.where did not take this branch and sent it the upstream 0. 0 × ∞, 0 × NaN and 0 / 0",
    ),
    "a division, whose rule divides the 0 that it is sent": (
        lambda x: (x + 1.0) / x * [0.0, 1.0],
        [0.0, 1.0],
        [("inf", "RealDiv"), ("nan", "RealDiv")],
        "and upstream 0. The derivative is not finite there: 0 × ∞ and 0 / 0 are NaN",
    ),
    "a factor 0 and no tf.where": (
        lambda x: x**0.5 * [0.0, 1.0],
        [0.0, 1.0],
        [("nan", "Pow")],
        "and upstream 0. The derivative is not finite there: 0 × ∞",
    ),
    "a factor 0 under a tf.where that took the branch": (
        lambda x: tf.where(x >= 0.0, x**0.5 * [0.0, 1.0], 0.0),
        [0.0, 1.0],
        [("nan", "Pow")],
        "The derivative is not finite there: 0 × ∞",
    ),
    "both branches of a tf.where": (
        lambda x: (lambda a: tf.where(a < 1.0, a * a, a - 0.5))(x**0.5 * [0.0, 1.0]),
        [0.0, 1.0],
        [("nan", "Pow")],
        "The derivative is not finite there: 0 × ∞",
    ),
    "a rule that divides 0 by 0": (
        lambda x: tf.nn.relu(unit_gradient(x)),
        [-1.0, -2.0],
        [("nan", "unit_gradient")],
        "and upstream 0. The rule itself made it",
    ),
    "sqrt at 0": (tf.sqrt, [0.0, 1.0], [("inf", "Sqrt")], "Its derivative is infinite, not"),
    "acos at 1": (tf.acos, [1.0, 0.5], [("inf", "Acos")], "infinite, not defined or too"),
    "std of a constant": (
        tf.math.reduce_std,
        [2.0, 2.0],
        [("inf", "Sqrt")],
        "infinite, not defined or too",
    ),
    "a norm at 0": (tf.norm, [0.0, 0.0], [("inf", "Sqrt")], "derivative is infinite, not"),
    "a power below 1": (
        lambda x: x**0.5,
        [4.0, 0.0],
        [("inf", "Pow")],
        "derivative is infinite, not",
    ),
    "an angle at the origin": (
        lambda x: tf.atan2(x, x),
        [0.0],
        [("nan", "Atan2")],
        "infinite, not defined",
    ),
    "float16": (
        lambda x: tf.cast(x * np.float16(300.0), tf.float32) * 300.0,
        np.float16([0.0, 0.1]),
        [("inf", "Mul")],
        "Its derivative is not finite there, or upstream times it is too large for float16",
    ),
    "a rule that makes NaN": (makes_nan, [2.0], [("nan", "makes_nan")], "rule itself"),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_the_first_rule_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BACKWARD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


def test_a_rule_that_was_given_nan_is_not_said_to_have_an_infinite_derivative():
    finding = only(cgviz.trace(lambda x: tf.nn.relu(tf.square(x / x)), 0.0))
    assert (finding.what, finding.op.type) == ("nan", "RealDiv")
    assert "It divides by 0" in finding.message


def test_an_entry_is_told_where_there_are_several():
    finding = only(cgviz.trace(tf.sqrt, [[1.0, 4.0], [0.0, 9.0]]))
    assert "entry [1, 0] from `x` = 0 and upstream 1" in finding.message


def test_of_a_matrix_product_no_single_numbers_are_told():
    large = np.float32([[1e30, 0.0], [0.0, 1e30]])
    finding = only(cgviz.trace(lambda a: a @ large, np.eye(2, dtype=np.float32), upstream=large))
    assert finding.op.type == "MatMul"
    assert (
        "entry [0, 0]. Its derivative is not finite there, or upstream times it" in finding.message
    )


def test_an_infinite_upstream_is_named_as_such():
    finding = only(cgviz.trace(tf.sin, 1.0, upstream=np.inf))
    assert (finding.what, finding.op) == ("inf", None)


def test_finite_ways_whose_sum_is_infinite_are_named():
    def f(x):
        a = 2.0 * x
        return a * 3e38 + a * 3e38

    trace = cgviz.trace(f, 0.1)
    assert np.isinf(trace.gradients[0])
    finding = only(trace)
    assert (finding.what, finding.op) == ("inf", None)
    assert "what the uses of `a` return adds up to more than float32 holds" in finding.message


def test_a_source_that_an_op_uses_twice_is_named_once():
    finding = only(cgviz.trace(lambda x: tf.atan2(x, x), 0.0))
    assert finding.sources == ("x",)


def test_sources_behind_one_rule_share_a_finding_and_healthy_ones_have_none():
    trace = cgviz.trace(lambda x, y, z: tf.sqrt(x - y) + z, 1.0, 1.0, 1.0)
    assert only(trace).sources == ("x", "y")


def test_each_of_two_rules_has_a_finding():
    trace = cgviz.trace(lambda x: tf.sqrt(x) + tf.asin(x + 1.0), 0.0)
    assert sorted(found(trace)) == [("inf", "Asin"), ("inf", "Sqrt")]


def test_the_second_order_is_looked_at_too():
    trace = cgviz.trace(lambda x: x**1.5, 0.0, order=2)
    assert np.isfinite(trace.passes[0].gradients[0])
    assert found(trace, 1) == [("inf", "Pow")]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("array", "index"), [([[INF, 1.0], [NAN, NAN]], (1, 0)), ([1.0, -INF, INF], (1,)), (NAN, ())]
)
def test_a_nan_is_worse_than_an_infinity_before_it(array, index):
    assert numbers.first_bad(np.array(array))[1] == index


def test_a_scalar_has_no_entry_to_name():
    assert numbers.entry(()) == ""
    assert numbers.entry((1, 0)) == " at entry [1, 0]"


def test_integers_have_no_numbers_of_interest():
    tape = Tape()
    assert numbers.numbers(tape.value([1, 2], np.int64)).size == 0
    assert numbers.numbers(tape.value(1 + 2j, np.complex64)).dtype == np.complex128
    assert numbers.numbers(tape.value(65504, np.float16)) * 2 == 131008  # no longer float16


def made(type_, *inputs, like, **how):
    """An op of these inputs, its output, and the trace of it."""
    tape = Tape()
    values = [tape.start(f"x{i}", number) for i, number in enumerate(inputs)]
    output = tape.op("y", type_, values, np.zeros(like), **how)
    return tape.ops[-1], output, run(tape)


def test_an_entry_finds_its_numbers_also_where_they_were_broadcast():
    row, column = np.arange(3.0), np.arange(10.0, 12.0)[:, None]
    op, y, _ = made("Mul", row, column, like=(2, 3))
    for index in np.ndindex(2, 3):
        found = [numbers.number_at(op, numbers.numbers(v), index, y) for v in op.inputs]
        assert found == [np.broadcast_to(a, (2, 3))[index] for a in (row, column)]


def test_numbers_that_are_not_of_one_entry_are_not_told():
    square = np.ones((2, 2))
    op, y, _ = made("MatMul", square, square, like=(2, 2))
    assert numbers.number_at(op, numbers.numbers(op.inputs[0]), (0, 1), y) is None
    op, y, _ = made("Sub", np.ones(3), np.zeros((0,)), like=(0,))
    assert numbers.number_at(op, numbers.numbers(op.inputs[0]), (0,), y) is None
    op, y, _ = made("Sum", np.ones(3), like=())
    assert numbers.number_at(op, numbers.numbers(op.inputs[0]), (), y) is None


def test_a_single_number_belongs_to_every_entry():
    op, y, _ = made("Prelu", np.full((1, 1), 7.0), like=(2, 3))
    assert numbers.number_at(op, numbers.numbers(op.inputs[0]), (1, 2), y) == 7.0


def test_the_inputs_of_an_entry_read_as_words():
    op, _, trace = made("Pow", [0.0, 4.0], -0.5, like=(2,))
    made_at = numbers.made_at(op, (1,), op.outputs[0], trace)
    assert made_at == "made at Pow at entry [1] from `x0` = 4 and `x1` = −0.5"
    assert numbers.made_at(op, (), op.inputs[1], trace) == "made at Pow from `x1` = −0.5"
    tape = Tape()
    y = tape.op("y", "Bincount", [tape.start("i", [1], dtype=np.int32)], [1.0])
    assert numbers.made_at(tape.ops[-1], (0,), y, run(tape)) == "made at Bincount at entry [0]"


def call(type_, x):
    """Run an op with x for all its inputs."""
    raw = getattr(tf.raw_ops, type_)
    tensors = [
        name
        for name, each in inspect.signature(raw).parameters.items()
        if each.default is inspect.Parameter.empty and name != "DstT"
    ]
    given = dict.fromkeys(tensors, tf.cast(x, tf.bool) if type_.startswith("Logical") else x)
    special = {"condition": x > 0.0, "bias": x[0], "inputs": [x, x]}
    given |= {name: special[name] for name in tensors if name in special}
    return raw(**given, **({"DstT": tf.float64} if type_ == "Cast" else {}))


@pytest.mark.parametrize("type_", sorted(numbers.BY_ENTRY))
def test_in_an_op_by_entry_one_entry_does_not_change_another(type_):
    x = np.array([[0.3, -0.2], [0.3, 0.9], [-0.5, 0.1]], np.float32)
    change = np.zeros_like(x)
    change[1, 1] = 1
    one, other = (call(type_, tf.constant(each)) for each in (x, x + change))
    assert one.shape == x.shape
    np.testing.assert_array_equal(one[change == 0], other[change == 0])
