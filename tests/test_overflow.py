"""The first op that made NaN or infinity in the forward pass is named, with its numbers."""

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape
from programs import documented
from troubles import found, only

import cgviz
from cgviz.diagnosing import overflow


def test_the_documented_log1pexp_overflows_in_its_body_though_the_gradient_is_fine():
    trace = cgviz.trace(documented, 100.0)
    assert trace.gradients[0] == 1.0
    finding = only(trace)
    assert (finding.what, finding.op.type) == ("inf", "Exp")
    assert "`x` = 100" in finding.message
    assert "88.72" in finding.message


BAD = {
    "log of a negative number": (
        tf.math.log,
        [-1.0, 1.0],
        [("nan", "Log")],
        "argument above 0",
    ),
    "log1p": (tf.math.log1p, [-1.0], [("inf", "Log1p")], "argument above −1"),
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
        [("nan", "Sub"), ("inf", "Exp")],
        "∞ − ∞",
    ),
    "0 times infinity in a matrix product": (
        lambda x: [[0.0, 1.0]] @ tf.exp(x),
        [[100.0], [1.0]],
        [("nan", "MatMul"), ("inf", "Exp")],
        "0 × ∞",
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
    "cosh of a negative number": (tf.cosh, [-100.0], [("inf", "Cosh")], "Beyond ±89.42"),
    "exp of a negative number": (lambda x: 1.0 / tf.exp(x), [-200.0], [("inf", "RealDiv")], "by 0"),
    "a square root": (tf.sqrt, [4.0, -1.0], [("nan", "Sqrt")], "not defined"),
    "a pole at 1": (tf.atanh, [1.0], [("inf", "Atanh")], "not defined"),
    "a power of 0": (lambda x: x**-1.0, [0.0], [("inf", "Pow")], "not defined"),
    "a power that overflows": (lambda x: x**40.0, [-1e10], [("inf", "Pow")], "largest float32"),
    "the mean of an empty batch": (
        tf.reduce_mean,
        np.zeros((0, 3), np.float32),
        [("nan", "Mean")],
        "no numbers",
    ),
    "NaN handed in": (lambda x: x * 2.0, [np.nan, 1.0], [("nan", "Input")], "itself holds NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_first_op_that_is_not_finite_is_named_with_its_inputs(name):
    f, x, expected, message = BAD[name]
    diagnosis = cgviz.trace(f, x).diagnose()
    assert [(f.what, f.op.type) for f in diagnosis][: len(expected)] == expected
    assert any(message in finding.message for finding in diagnosis)


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
    return [(f.what, f.name) for f in overflow.find(tape.ops, ends, lambda v: "`v`")]


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
    assert blamed(tape, y) == [("nan", "y"), ("inf", "a"), ("inf", "b")]


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
    (finding,) = overflow.find(tape.ops, [y], lambda v: "`v`")
    assert finding.message == ("the first NaN of the forward pass is made at Betainc at entry [1].")
