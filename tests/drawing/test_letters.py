"""Texts as outlines: where they are, how much space they take, and that none is mathematics."""

import itertools

import pytest

from cgviz.drawing.letters import extent, outlined


def test_no_text_takes_no_space():
    assert extent("", 12) == (0.0, 0.0)


def test_space_grows_with_the_size_the_letters_and_the_lines():
    width, height = extent("0.25", 10)
    assert extent("0.25", 20)[0] > 1.8 * width
    assert extent("0.2500", 10)[0] > width
    assert extent("0.25\n0.25", 10) == (width, 2 * height)


@pytest.mark.parametrize(
    "text", ["7", "−0.0008", "[[1, 0.5],\n [0.25, 1]]", "⊘ stop_gradient", "⚠ NaN"]
)
def test_letters_stay_within_their_box_and_their_space(text):
    path, (left, top, right, bottom) = outlined(text, 100, 50, 12)
    drawn = path.get_extents()
    assert left - 0.5 <= drawn.xmin <= drawn.xmax <= right + 0.5
    assert top - 0.5 <= drawn.ymin <= drawn.ymax <= bottom + 0.5
    width, height = extent(text, 12)
    assert right - left <= width
    assert bottom - top <= height


@pytest.mark.parametrize(
    ("anchor", "side"),
    list(itertools.product(("start", "middle", "end"), ("above", "around", "below"))),
)
def test_the_point_is_the_one_that_was_asked_for(anchor, side):
    _, (left, top, right, bottom) = outlined("two\nlines", 10, 20, 12, anchor, side)
    assert {"start": left, "middle": (left + right) / 2, "end": right}[anchor] == pytest.approx(10)
    assert {"below": top, "around": (top + bottom) / 2, "above": bottom}[side] == pytest.approx(20)


def test_y_grows_downwards_as_lines_do():
    one, two = (outlined(text, 0, 0, 12, side="below")[0].get_extents() for text in ("o", "o\no"))
    assert two.ymax > one.ymax
    assert two.ymin == pytest.approx(one.ymin)


def test_the_rows_of_a_matrix_start_below_each_other():
    path, box = outlined("[[1, 0.25],\n [2, 3]]", 0, 0, 12, "end")
    alone, _ = outlined("[[1, 0.25],", box[0], 0, 12, "start")
    assert path.get_extents().xmin == pytest.approx(alone.get_extents().xmin)


def test_bold_is_wider():
    plain, bold = (outlined("3", 0, 0, 12, bold=b)[1] for b in (False, True))
    assert bold[2] - bold[0] > plain[2] - plain[0]


def test_a_dollar_is_a_dollar():
    assert len(outlined(r"$\frac{$", 0, 0, 12)[0].vertices) > 8 * 4
