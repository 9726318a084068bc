"""How arrays and counts are written."""

import numpy as np
import pytest

from cgviz.reading import format


def test_where_there_is_no_room_an_array_is_summed_up():
    array = np.array([1.0, 2.0, 3.0])
    assert format.written(array, 16, width=9) == "[1, 2, 3]"
    assert format.written(array, 16, width=8) == "[3] L2 norm 3.742"


@pytest.mark.parametrize(("given", "cut"), [("abc", "abc"), ("abcd", "abcd"), ("abcde", "abc…")])
def test_words_are_cut_to_a_width(given, cut):
    assert format.clipped(given, 4) == cut
