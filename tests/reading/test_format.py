"""How arrays and counts are written."""

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz import style
from cgviz.reading import format


def test_where_there_is_no_room_an_array_is_summed_up():
    array = format.written(np.array([1.0, 2.0, 3.0]), 16, ", ", "x")
    assert array.at(9) == "x = [1, 2, 3]"
    assert array.at(8) == "x = [3] L2 norm 3.742"


def test_a_large_array_is_summed_up_once(monkeypatch):
    calls = []
    found = style.statistics
    monkeypatch.setattr(style, "statistics", lambda a: calls.append(a) or found(a))
    repr(cgviz.trace(tf.sin, np.ones(50, "f")).table())
    assert len(calls) == 3  # its input, its upstream, its downstream


@pytest.mark.parametrize(("given", "cut"), [("abc", "abc"), ("abcd", "abcd"), ("abcde", "abc…")])
def test_words_are_cut_to_a_width(given, cut):
    assert format.clipped(given, 4) == cut
