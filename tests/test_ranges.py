"""The magnitudes of the numbers, op by op, against the limits of their type."""

import numpy as np
import pytest
import tensorflow as tf
from programs import documented, log1pexp

import cgviz
from cgviz.diagnosing import ranges


def row_of(trace, op):
    return next(row for row in ranges.rows(trace) if row["op"] == op)


@pytest.mark.parametrize("type_", ["Exp", "Expm1", "Sinh", "Cosh"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_ops_like_exp_stay_finite_up_to_their_limit_and_not_above(type_, dtype):
    limit = ranges.exp_limit(type_, dtype)
    near = 0.02 if dtype == "bfloat16" else 0.001  # of three digits
    below, above = (tf.cast(limit * (1 + side), dtype) for side in (-near, near))
    assert np.isfinite(float(tf.cast(getattr(tf.raw_ops, type_)(x=below), "float64")))
    assert np.isinf(float(tf.cast(getattr(tf.raw_ops, type_)(x=above), "float64")))
    mirrored = float(tf.cast(getattr(tf.raw_ops, type_)(x=-above), "float64"))
    assert np.isinf(mirrored) == (type_ in ranges.BOTH_SIDES)


def test_other_ops_and_types_have_no_limit():
    assert ranges.exp_limit("Mul", "float32") is None
    assert ranges.exp_limit("Exp", "int32") is None
    assert ranges.exp_limit("Exp", "complex64") == ranges.exp_limit("Exp", "float32")
    assert [ranges.limits(dtype) for dtype in ("int32", "bool", "resource")] == [None] * 3


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


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ([], (None, None, "")),
        ([np.zeros((0, 3))], (None, None, "")),
        ([np.zeros(3)], (0.0, None, "")),
        ([np.array(-7)], (7.0, 7.0, "")),
        ([np.array([0.0, -np.inf])], (0.0, None, "∞")),
        ([np.array([np.inf, np.nan])], (None, None, "NaN")),
        ([np.array([3 + 4j, 0])], (5.0, 5.0, "")),
        ([np.float16([6e-8, -65504])], (65504.0, float(np.float16(6e-8)), "")),
        ([np.array([5e-324, 1e308])], (1e308, 5e-324, "")),
        ([np.array([1.0, 2.0]), np.array([[np.inf]]), np.array(-8.0)], (8.0, 1.0, "∞")),
    ],
)
def test_magnitudes_of_awkward_arrays(arrays, expected):
    assert ranges.magnitudes(arrays) == expected


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((0, 3), np.float32),
        np.full(3, np.nan, np.float32),
        np.array([1 + 2j, 3], np.complex64),
        tf.constant([1.0, 2.0], tf.bfloat16),
    ],
    ids=["empty", "NaN", "complex", "bfloat16"],
)
def test_a_row_has_every_column_whatever_the_numbers(x):
    for row in ranges.rows(cgviz.trace(lambda x: tf.exp(x) * x, x)):
        assert tuple(row) == ranges.COLUMNS


def test_the_largest_input_is_one_of_its_numbers_and_for_cosh_its_size():
    def largest(f, x):
        return ranges.rows(cgviz.trace(f, x))[-1]["input"]

    assert largest(tf.exp, [-200.0, 3.0]) == 3.0
    assert largest(tf.cosh, [-200.0, 3.0]) == 200.0
    assert largest(tf.exp, [np.nan, 3.0]) == 3.0
    assert largest(tf.exp, [np.nan]) is None
    assert largest(tf.exp, np.float32([])) is None
    assert largest(tf.exp, np.complex64([2 - 50j])) == 2.0
    assert largest(tf.sin, [3.0]) is None


def test_headroom_is_how_many_times_larger_a_value_could_be():
    rows = [ranges.rows(cgviz.trace(tf.identity, x))[0] for x in (np.float16(2), 0.0, np.inf)]
    assert [row["headroom"] for row in rows] == [32752.0, None, None]


def test_the_gradient_of_a_fan_out_is_the_sum_that_reached_it():
    row = row_of(cgviz.trace(lambda x: x * 3.0 - x * 10.0, 2.0), "x")
    assert (row["gradient_max"], row["gradient_min"]) == (7.0, 7.0)


def test_several_outputs_share_a_row():
    def f(x):
        a, b = tf.unstack(x)
        return a + 5.0 * b

    trace = cgviz.trace(f, [0.5, -8.0])
    (row,) = (row for row in ranges.rows(trace) if row["type"] == "Unpack")
    assert (row["max"], row["min"]) == (8.0, 0.5)
    assert (row["gradient_max"], row["gradient_min"]) == (5.0, 1.0)
