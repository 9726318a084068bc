"""The range picture shows how near the numbers are to the limits of their type."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape
from programs import documented, log1pexp

import cgviz
from cgviz import style
from cgviz.drawing import range_figure
from cgviz.drawing.range_figure import NEAR, NOTHING, Magnitudes, Row, describe, rows
from cgviz.graph import Op
from cgviz.graph.dtypes import BOTH_SIDES, exp_limit, limits

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def texts(ax):
    return [t.get_text() for t in ax.texts]


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((0, 3), np.float32),
        np.zeros(3, np.float32),
        np.full(3, np.nan, np.float32),
        np.array([1 + 2j, 3], np.complex64),
        np.float16(3.0),
        tf.constant([1.0, 2.0], tf.bfloat16),
        np.float64(1e-300),
    ],
    ids=["empty", "zeros", "NaN", "complex", "float16", "bfloat16", "float64"],
)
def test_awkward_numbers_have_a_picture_and_words(x):
    trace = cgviz.trace(lambda x: x * x, x)
    ax = trace.plot(kind="range")
    ax.figure.canvas.draw()
    assert "Magnitudes" in ax.cgviz_alt
    assert repr(ax.figure) == ax.cgviz_alt  # what a notebook stores beside the picture


def test_a_trace_of_nothing_is_an_empty_picture():
    with cgviz.record() as trace:
        pass
    trace.plot(kind="range").figure.canvas.draw()


def test_the_picture_names_the_input_and_its_limit():
    ax = cgviz.trace(log1pexp, 88.0).plot(kind="range")
    assert "! input 88 of at most 88.72" in texts(ax)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x", "e: exp", "add", "log"]
    assert "input 88 of at most 88.72" in ax.cgviz_alt


def test_infinity_and_zero_have_signs_and_words():
    ax = cgviz.trace(documented, [100.0, 1.0]).plot(kind="range")
    assert any("▲ ∞" in text for text in texts(ax))
    ax = cgviz.trace(log1pexp, 88.0).plot(kind="range")
    assert any("○ 0" in text for text in texts(ax))


def test_the_limits_are_named_and_do_not_cover_each_other():
    for x in (88.0, np.float64(700.0), np.float16(10.0)):
        ax = cgviz.trace(log1pexp, x).plot(kind="range")
        ax.figure.canvas.draw()
        boxes = [
            t.get_window_extent()
            for t in ax.texts
            if "largest" in t.get_text() or "smallest" in t.get_text()
        ]
        assert len(boxes) >= 2
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_forward_and_backward_differ_by_more_than_colour():
    ax = cgviz.trace(lambda x: x * x, [1.0, 3.0]).plot(kind="range")
    bars = {(line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert {("-", "o"), ("--", "v")} <= bars
    words = [t.get_text() for t in ax.get_legend().get_texts()]
    assert words == ["forward: values", "backward: gradients"]


def test_many_ops_are_cut_and_it_says_so():
    def long(x):
        for _ in range(60):
            x = tf.sin(x)
        return x

    ax = cgviz.trace(long, 1.0).plot(kind="range")
    assert len(ax.get_yticks()) == range_figure.MOST_ROWS - 1
    assert "more ops are not shown" in ax.get_xlabel()


def test_a_bar_reaches_from_the_smallest_to_the_largest_magnitude():
    ax = cgviz.trace(lambda x: x * [1e-3, 1e2], [-1.0, 0.1]).plot(kind="range")
    forward = [line.get_xdata() for line in ax.lines if line.get_marker() == "o"]
    backward = [line.get_xdata() for line in ax.lines if line.get_marker() == "v"]
    np.testing.assert_allclose([forward[0], backward[0]], [[-1, 0], [-3, 2]], atol=1e-6)
    np.testing.assert_allclose(forward[1], [-3, 1], atol=1e-6)


@pytest.mark.parametrize("x", [[0.0, 88.0, np.nan], np.float64([0.0, 700.0, np.nan])])
def test_a_sign_stands_beside_the_bar_and_not_on_it(x):
    ax = cgviz.trace(log1pexp, x).plot(kind="range")
    ax.figure.canvas.draw()
    signs = [t.get_window_extent() for t in ax.texts if t.get_text().startswith(" ⚠")]
    ends = [
        ax.transData.transform(line.get_xydata())[:, 0].max()
        for line in ax.lines
        if line.get_marker() in "ov" and len(line.get_xdata())
    ]
    assert signs
    limit = ax.transData.transform((np.log10(np.finfo(np.asarray(x).dtype).max), 0))[0]
    assert max(e for e in ends if e <= limit) < min(sign.x0 for sign in signs)


def test_no_tick_stands_far_beyond_the_largest_float64():
    ax = cgviz.trace(log1pexp, np.float64([0.0, 700.0, np.nan])).plot(kind="range")
    assert ax.get_xlim()[1] > 400
    assert max(ax.get_xticks()) == 300


@pytest.mark.parametrize("x", [88.0, 0.5, np.float64(700.0), np.float16(10.0), np.float64(1e-300)])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_the_ticks_include_1_and_do_not_touch_each_other(x, columns):
    figure, axes = plt.subplots(1, columns, figsize=(9, 4), squeeze=False, layout="constrained")
    ax = cgviz.trace(log1pexp, x).plot(axes[0, 0], kind="range")
    figure.canvas.draw()
    ticks = [t for t in ax.get_xticklabels() if t.get_text()]
    assert "1" in [t.get_text() for t in ticks]
    boxes = [t.get_window_extent() for t in ticks]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize(
    ("given", "palette"), [("default", style.LIGHT), ("dark_background", style.DARK)]
)
def test_it_draws_into_given_axes_with_the_colours_of_their_background(given, palette):
    with plt.style.context(given):
        _, ax = plt.subplots()
        assert cgviz.trace(log1pexp, 2.0).plot(ax, kind="range") is ax
    colours = {line.get_color() for line in ax.lines}
    assert {palette.forward, palette.backward} <= colours


def test_wrong_arguments_are_clear_errors():
    trace = cgviz.trace(tf.sin, 1.0)
    with pytest.raises(TypeError, match="Axes"):
        trace.plot(3, kind="range")
    with pytest.raises(ValueError, match="flow"):
        trace.plot(kind="ranges")
    with pytest.raises(ValueError, match="belong"):
        trace.plot(kind="range", full=True)


def row_of(trace, op):
    return next(row for row in rows(trace) if row.op.name == op)


@pytest.mark.parametrize("type_", ["Exp", "Expm1", "Sinh", "Cosh"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_ops_like_exp_stay_finite_up_to_their_limit_and_not_above(type_, dtype):
    limit = exp_limit(type_, dtype)
    near = 0.02 if dtype == "bfloat16" else 0.001  # of three digits
    below, above = (tf.cast(limit * (1 + side), dtype) for side in (-near, near))
    assert np.isfinite(float(tf.cast(getattr(tf.raw_ops, type_)(x=below), "float64")))
    assert np.isinf(float(tf.cast(getattr(tf.raw_ops, type_)(x=above), "float64")))
    mirrored = float(tf.cast(getattr(tf.raw_ops, type_)(x=-above), "float64"))
    assert np.isinf(mirrored) == (type_ in BOTH_SIDES)


def test_other_ops_and_types_have_no_limit():
    assert exp_limit("Mul", "float32") is None
    assert exp_limit("Exp", "int32") is None
    assert exp_limit("Exp", "complex64") == exp_limit("Exp", "float32")
    assert [limits(dtype) for dtype in ("int32", "bool", "resource")] == [None] * 3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_limits_are_those_of_numpy(dtype):
    known, numpy = limits(dtype), np.finfo(dtype)
    assert (known.largest, known.smallest) == (float(numpy.max), float(numpy.smallest_normal))


def test_bfloat16_has_the_reach_of_float32():
    known = limits("bfloat16")
    assert known.largest == float(tf.bfloat16.max)
    assert known.smallest == limits("float32").smallest


@pytest.mark.parametrize("x", [88.0, 88.7])
def test_log1pexp_is_seen_coming(x):
    row = row_of(cgviz.trace(log1pexp, x), "e")
    assert row.input == np.float32(x)
    assert row.input < row.limit < 88.73
    assert row.headroom < 3
    assert row.values.special == ""
    assert row.gradients.largest == 0.0


def test_past_the_limit_the_row_says_infinite():
    row = row_of(cgviz.trace(log1pexp, 100.0), "e")
    assert (row.values.largest, row.values.special) == (None, "∞")
    assert row.input > row.limit


def test_the_body_of_a_custom_gradient_has_rows_of_its_own():
    table = rows(cgviz.trace(documented, 88.0))
    assert [(row.op.name, row.inside) for row in table] == [
        ("x", ""),
        ("e", "documented"),
        ("AddV2", "documented"),
        ("Log", "documented"),
        ("documented", ""),
    ]
    assert table[-1].gradients.largest == 1.0
    assert table[1].gradients.largest is None  # bypassed: no gradient went through the body


def test_magnitudes_leave_out_zeros_and_what_is_not_finite():
    trace = cgviz.trace(lambda x: x * 2.0, [0.0, -3.0, 0.25, np.nan])
    row = row_of(trace, "x")
    assert (row.values.largest, row.values.smallest, row.values.special) == (3.0, 0.25, "NaN")
    assert (row.gradients.largest, row.gradients.smallest, row.gradients.special) == (2.0, 2.0, "")


def test_a_trace_without_a_backward_pass_shows_the_values_alone():
    with cgviz.record() as trace:
        tf.exp(tf.constant(2.0))
    assert row_of(trace, "Exp").gradients == NOTHING


def test_a_trace_of_nothing_has_no_rows():
    with cgviz.record() as trace:
        pass
    assert rows(trace) == []


def test_integers_have_no_row():
    trace = cgviz.trace(lambda x, i: tf.gather(x, i), [1.0, 2.0], np.array([0, 1]))
    assert "i" not in [row.op.name for row in rows(trace)]


def test_another_pass_can_be_asked_for():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    first, second = (rows(trace, which)[0].gradients.largest for which in (0, 1))
    assert (first, second) == (12.0, 12.0)
    with pytest.raises(ValueError, match="which"):
        rows(trace, 5)


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
    assert Magnitudes.of(arrays) == Magnitudes(*expected)


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
    assert [len(str(row)) > 0 for row in rows(cgviz.trace(lambda x: tf.exp(x) * x, x))] == [
        True
    ] * 3


def test_the_largest_input_is_one_of_its_numbers_and_for_cosh_its_size():
    def largest(f, x):
        return rows(cgviz.trace(f, x))[-1].input

    assert largest(tf.exp, [-200.0, 3.0]) == 3.0
    assert largest(tf.cosh, [-200.0, 3.0]) == 200.0
    assert largest(tf.exp, [np.nan, 3.0]) == 3.0
    assert largest(tf.exp, [np.nan]) is None
    assert largest(tf.exp, np.float32([])) is None
    assert largest(tf.exp, np.complex64([2 - 50j])) == 2.0
    assert largest(tf.sin, [3.0]) is None


def test_headroom_is_how_many_times_larger_a_value_could_be():
    first = [rows(cgviz.trace(tf.identity, x))[0] for x in (np.float16(2), 0.0, np.inf)]
    assert [row.headroom for row in first] == [32752.0, None, None]


def test_the_gradient_of_a_fan_out_is_the_sum_that_reached_it():
    row = row_of(cgviz.trace(lambda x: x * 3.0 - x * 10.0, 2.0), "x")
    assert (row.gradients.largest, row.gradients.smallest) == (7.0, 7.0)


def test_several_outputs_share_a_row():
    def f(x):
        a, b = tf.unstack(x)
        return a + 5.0 * b

    trace = cgviz.trace(f, [0.5, -8.0])
    (row,) = (row for row in rows(trace) if row.op.type == "Unpack")
    assert (row.values.largest, row.values.smallest) == (8.0, 0.5)
    assert (row.gradients.largest, row.gradients.smallest) == (5.0, 1.0)


def row(type_="Exp", name="Exp", kind="op", inside="", **known):
    """A row of which only this is known."""
    values = Magnitudes(known.pop("largest", None), None, known.pop("special", ""))
    return Row(Op(name, kind, type_, (), ()), inside, "float32", values, NOTHING, **known)


@pytest.mark.parametrize(
    ("op", "type_", "inside", "words"),
    [
        ("x", "Input", "", "x"),
        ("w", "Variable", "", "w"),
        ("Exp", "Exp", "", "exp"),
        ("Exp_12", "Exp", "", "exp"),
        ("e", "Exp", "", "e: exp"),
        ("Exp_x", "Exp", "", "Exp_x: exp"),
        ("e", "Exp", "documented", "documented / e: exp"),
        ("Square", "Square", "", "square"),
        ("y", "AddV2", "", "y: add"),
        ("MatMul_1", "MatMul", "layer", "layer / matmul"),
        ("documented", "documented", "", "documented"),
        ("documented_1", "documented", "", "documented"),
    ],
)
def test_a_label_tells_the_learners_name_and_what_the_op_does(op, type_, inside, words):
    kind = type_.lower() if type_ in ("Input", "Variable") else "op"
    assert row(type_, op, kind, inside).label == words


LIMIT, LARGEST = exp_limit("Exp", "float32"), limits("float32").largest


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, ""),
        ({"input": 1.0, "limit": LIMIT}, "input 1 of at most 88.72"),
        ({"input": NEAR * LIMIT, "limit": LIMIT}, "input 79.85 of at most 88.72"),
        ({"input": 80.0, "limit": LIMIT}, "! input 80 of at most 88.72"),
        ({"input": 100.0, "limit": LIMIT, "special": "∞"}, "▲ input 100 of at most 88.72"),
        ({"input": np.inf, "limit": LIMIT, "special": "∞"}, "▲ input ∞ of at most 88.72"),
        ({"limit": LIMIT, "special": "NaN"}, "▲ NaN"),
        ({"special": "∞", "largest": LARGEST / 2.0}, "▲ ∞"),
        ({"largest": LARGEST / 99.0}, "! 99 times from overflow"),
        ({"largest": LARGEST}, "! 1 times from overflow"),
        ({"largest": LARGEST / 100.0}, ""),
    ],
)
def test_a_note_says_what_to_see_coming(known, words):
    assert row(**known).note == words


SPANS = {
    "none": [],
    "all 0": [0.0, 0.0],
    "all NaN": [np.nan],
    "all ∞": [-np.inf],
    "2": [-2.0, 0.0],
    "from 0.5 to 2": [0.5, -2.0],
    "2, and ∞": [2.0, np.inf],
    "0, and NaN": [0.0, np.nan],
    "from 1e−30 to 1e30, and NaN": [1e-30, 1e30, np.nan, np.inf],
}


@pytest.mark.parametrize("span", SPANS)
def test_the_span_of_values_and_gradients_is_a_sentence(span):
    tape = Tape()
    x = tape.start("x", SPANS[span])
    y = tape.op("y", "Sin", [x], np.zeros_like(SPANS[span]), back=[SPANS[span]])
    text = describe(tape.trace(y, [x])).split("\n")[1]
    gradients = "" if span == "none" else f"; gradients {span}"
    assert text.split("; ▲")[0].rstrip(".") == f"x (float32): values {span}{gradients}"


def test_the_whole_is_told_op_by_op():
    def log1pexp(x):
        e = tf.exp(x)
        return tf.math.log(1.0 + e)

    assert describe(cgviz.trace(log1pexp, [0.0, 88.0])).split("\n") == [
        "Magnitudes of log1pexp, op by op, against the limits of their types.",
        "x (float32): values 88; gradients 0.5.",
        "e: exp (float32): values from 1 to 1.652e38; gradients 0.5; ! input 88 of at most 88.72.",
        "add (float32): values from 2 to 1.652e38; gradients 0.5; ! 2.1 times from overflow.",
        "log (float32): values from 0.6931 to 88; gradients 1.",
    ]


def test_another_pass_has_other_words():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    first, second = (describe(trace, which=which).split("\n")[-1] for which in (0, 1))
    assert "gradients" in first
    assert first != second
    with pytest.raises(ValueError, match="which"):
        describe(trace, which=7)
