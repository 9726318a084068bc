"""The range picture shows how near the numbers are to the limits of their type."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorflow as tf
from programs import documented, log1pexp

import cgviz
from cgviz import style
from cgviz.diagnosing import range_figure

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
    assert {("-", "None"), ("--", "None"), ("None", "o"), ("None", "v")} <= bars
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
    forward = [line.get_xdata() for line in ax.lines if line.get_linestyle() == "-"]
    backward = [line.get_xdata() for line in ax.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose([forward[0], backward[-2]], [[-1, 0], [-3, 2]], atol=1e-6)
    np.testing.assert_allclose(forward[1], [-3, 1], atol=1e-6)


@pytest.mark.parametrize("x", [[0.0, 88.0, np.nan], np.float64([0.0, 700.0, np.nan])])
def test_a_sign_stands_beside_the_bar_and_not_on_it(x):
    ax = cgviz.trace(log1pexp, x).plot(kind="range")
    ax.figure.canvas.draw()
    signs = [t.get_window_extent() for t in ax.texts if t.get_text().startswith(" ⚠")]
    ends = [ax.transData.transform(line.get_xydata())[:, 0].max() for line in ax.lines[:-4]]
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
