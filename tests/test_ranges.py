"""The magnitudes of the numbers, op by op, against the limits of their type."""

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.diagnosing import ranges


def log1pexp(x):
    e = tf.exp(x)
    return tf.math.log(1.0 + e)


@tf.custom_gradient
def documented(x):
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


def row_of(trace, op):
    return next(row for row in ranges.rows(trace) if row["op"] == op)


@pytest.mark.parametrize(
    ("dtype", "limit"), [("float16", 11.09), ("float32", 88.72), ("float64", 709.78)]
)
def test_exp_stays_finite_up_to_its_limit_and_not_above(dtype, limit):
    found = ranges.exp_limit("Exp", dtype)
    assert round(found, 2) == limit
    below, above = np.array([found * 0.999, found * 1.001], dtype)
    assert np.isfinite(tf.exp(below))
    assert np.isinf(tf.exp(above))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_limits_are_those_of_numpy(dtype):
    known, numpy = ranges.limits(dtype), np.finfo(dtype)
    assert (known.largest, known.smallest) == (float(numpy.max), float(numpy.smallest_normal))


def test_bfloat16_has_the_reach_of_float32():
    known = ranges.limits("bfloat16")
    assert known.largest == float(tf.bfloat16.max)
    assert known.smallest == ranges.limits("float32").smallest


@pytest.mark.parametrize("x", [88.0, 88.7])
def test_log1pexp_is_seen_coming(x):
    row = row_of(cgviz.trace(log1pexp, x), "e")
    assert row["input"] == np.float32(x)
    assert row["input"] < row["limit"] < 88.73
    assert row["headroom"] < 3
    assert row["special"] == ""
    assert row["gradient_max"] == 0.0


def test_past_the_limit_the_row_says_infinite():
    row = row_of(cgviz.trace(log1pexp, 100.0), "e")
    assert (row["max"], row["special"]) == (None, "∞")
    assert row["input"] > row["limit"]


def test_the_body_of_a_custom_gradient_has_rows_of_its_own():
    table = ranges.rows(cgviz.trace(documented, 88.0))
    assert [(row["op"], row["inside"]) for row in table] == [
        ("x", ""),
        ("e", "documented"),
        ("AddV2", "documented"),
        ("Log", "documented"),
        ("documented", ""),
    ]
    assert table[-1]["gradient_max"] == 1.0
    assert table[1]["gradient_max"] is None  # bypassed: no gradient went through the body


def test_magnitudes_leave_out_zeros_and_what_is_not_finite():
    trace = cgviz.trace(lambda x: x * 2.0, [0.0, -3.0, 0.25, np.nan])
    row = row_of(trace, "x")
    assert (row["max"], row["min"], row["special"]) == (3.0, 0.25, "NaN")
    assert (row["gradient_max"], row["gradient_min"], row["gradient_special"]) == (2.0, 2.0, "")


def test_a_trace_without_a_backward_pass_shows_the_values_alone():
    with cgviz.record() as trace:
        tf.exp(tf.constant(2.0))
    assert row_of(trace, "Exp")["gradient_max"] is None


def test_a_trace_of_nothing_has_no_rows():
    with cgviz.record() as trace:
        pass
    assert ranges.rows(trace) == []


def test_integers_have_no_row():
    trace = cgviz.trace(lambda x, i: tf.gather(x, i), [1.0, 2.0], np.array([0, 1]))
    assert "i" not in [row["op"] for row in ranges.rows(trace)]


def test_another_pass_can_be_asked_for():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    first, second = (ranges.rows(trace, which)[0]["gradient_max"] for which in (0, 1))
    assert (first, second) == (12.0, 12.0)
    with pytest.raises(ValueError, match="which"):
        ranges.rows(trace, 5)
