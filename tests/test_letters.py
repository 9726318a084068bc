"""Words as outlines: where they stand, how much room they take, and that none is mathematics."""

import itertools

import numpy as np
import pytest
from matplotlib.path import Path

from cgviz.drawing import letters
from cgviz.drawing.letters import Words, extent, word


def ink(w):
    return w.path.get_extents()


def test_no_text_takes_no_room():
    assert extent("", 12) == (0.0, 0.0)


def test_room_grows_with_the_size_the_letters_and_the_lines():
    width, height = extent("0.25", 10)
    assert extent("0.25", 20)[0] > 1.8 * width
    assert extent("0.2500", 10)[0] > width
    assert extent("0.25\n0.25", 10) == (width, 2 * height)


@pytest.mark.parametrize(
    "text", ["7", "−0.0008", "[[1, 0.5],\n [0.25, 1]]", "⊘ stop_gradient", "⚠ NaN"]
)
def test_letters_stay_within_their_box_and_their_room(text):
    w = word(100, 50, text, 12, "black")
    left, top, right, bottom = w.box
    assert left - 0.5 <= ink(w).xmin <= ink(w).xmax <= right + 0.5
    assert top - 0.5 <= ink(w).ymin <= ink(w).ymax <= bottom + 0.5
    width, height = extent(text, 12)
    assert right - left <= width
    assert bottom - top <= height


@pytest.mark.parametrize(
    ("across", "down"),
    list(itertools.product(("left", "center", "right"), ("top", "center", "bottom"))),
)
def test_the_point_is_the_side_or_the_middle_that_was_asked_for(across, down):
    left, top, right, bottom = word(10, 20, "two\nlines", 12, "black", across, down).box
    assert {"left": left, "center": (left + right) / 2, "right": right}[across] == pytest.approx(10)
    assert {"top": top, "center": (top + bottom) / 2, "bottom": bottom}[down] == pytest.approx(20)


def test_y_grows_downwards_as_lines_do():
    one, two = (word(0, 0, text, 12, "black", down="top") for text in ("o", "o\no"))
    assert ink(two).ymax > ink(one).ymax
    assert ink(two).ymin == pytest.approx(ink(one).ymin)


def test_the_rows_of_a_matrix_start_below_each_other():
    w = word(0, 0, "[[1, 0.25],\n [2, 3]]", 12, "black", "right")
    alone = word(w.box[0], 0, "[[1, 0.25],", 12, "black", "left")
    assert ink(w).xmin == pytest.approx(ink(alone).xmin)


def test_bold_is_wider():
    plain, bold = (word(0, 0, "3", 12, "black", bold=b).box for b in (False, True))
    assert bold[2] - bold[0] > plain[2] - plain[0]


def test_a_dollar_is_a_dollar():
    assert len(word(0, 0, r"$\frac{$", 12, "black").path.vertices) > 8 * 4


def test_words_of_one_colour_are_one_outline():
    written = [word(0, 0, t, 12, c) for t, c in (("1", "red"), ("2", "blue"), ("3", "red"))]
    drawn = Words(written)
    assert [w.text for w in drawn.words] == ["1", "2", "3"]
    assert len(drawn.get_paths()) == len(drawn.get_facecolors()) == 2
    assert all(isinstance(path, Path) for path in drawn.get_paths())


@pytest.mark.parametrize("bold", [False, True], ids=["normal", "bold"])
def test_a_number_put_together_of_its_digits_is_as_matplotlib_lays_it_out(bold):
    for line in map("".join, itertools.product(sorted(letters.NUMERIC), repeat=2)):
        ours, theirs = letters._outline(line, bold), letters._laid_out(line, bold)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-9, err_msg=line)
