"""What is written in a picture."""

import handmade
import numpy as np
import pytest

import cgviz
from cgviz.drawing import cards
from cgviz.graph.selection import select


def test_the_sum_of_a_fan_out_is_visible():
    shown = select(handmade.square_plus_sine())
    assert cards.cards(shown)[0].gradient == "dy/dx = 3 + 3 − 0.99 = 5.01"


def test_each_edge_has_its_value_and_its_contribution():
    shown = select(handmade.square_plus_sine())
    written = [(label.forward, label.backward) for label in cards.labels(shown)]
    assert sorted(written) == sorted(
        [("3", "3"), ("3", "3"), ("3", "−0.99"), ("9", "1"), ("0.1411", "1")]
    )


def test_steps_reveal_the_numbers_one_by_one():
    shown = select(handmade.square_plus_sine())
    seen = [
        (sum(bool(label.backward) for label in cards.labels(shown, k)), cards.cards(shown, k)[0])
        for k in range(4)
    ]
    assert [count for count, _ in seen] == [0, 2, 4, 5]
    assert [card.gradient for _, card in seen] == [
        "",
        "",
        "3 + 3 + …",
        "dy/dx = 3 + 3 − 0.99 = 5.01",
    ]


def test_nan_and_infinity_have_a_symbol_and_a_word():
    assert cards.short(np.array(np.nan)) == "⚠ NaN"
    assert cards.short(np.array(np.inf)) == "▲ ∞"
    assert cards.short(np.array(-np.inf)) == "▼ −∞"
    assert cards.short(np.array([1.0, np.nan])) == "⚠ [1, NaN]"
    assert cards.short(np.array(0.0)) == "0"
    assert cards.short(None) == "∅ None"


def test_an_array_stays_narrow():
    assert cards.short(np.array([0.09003057, 0.24472848])) == "[0.09003, 0.2447]"
    assert cards.short(np.array([0.09003057, 0.24472848, 0.66524094])) == "[0.09, 0.245, 0.665]"
    assert cards.short(np.eye(2)) == "[[1, 0],\n [0, 1]]"
    for shape in ((3, 100), (7,), (2, 2, 2), (0, 4), (1000, 1000)):
        text = cards.short(np.full(shape, 1.2345678e-7))
        assert max(map(len, text.split("\n"))) <= cards.WIDEST


def test_a_value_used_often_is_written_once():
    def f(x):
        return x * x + x * x * x

    shown = select(cgviz.trace(f, 2.0))
    written = [
        label.forward
        for e, label in zip(shown.edges, cards.labels(shown), strict=True)
        if e.source == 0
    ]
    assert set(written) == {""}
    assert cards.cards(shown)[0].head == "x = 2"


def test_a_source_without_a_gradient_shows_none_and_its_value():
    def f(x, y):
        z = x * 2.0
        return z

    shown = select(cgviz.trace(f, 2.0, 3.0))
    card = next(c for c, n in zip(cards.cards(shown), shown.nodes, strict=True) if n.label == "y")
    assert "3" in card.head + card.name
    assert card.gradient.endswith("= ∅ None")


def test_a_blocked_edge_says_why():
    def f(x):
        import tensorflow as tf

        return tf.stop_gradient(x) + x

    labels = cards.labels(select(cgviz.trace(f, 2.0)))
    assert [label.backward for label in labels if label.blocked] == ["⊘ stop_gradient"]


def test_the_description_lists_every_edge_and_gradient():
    text = cards.describe(select(handmade.square_plus_sine()))
    assert "4 nodes, 5 edges, 3 backward steps" in text
    assert text.count("x (input) to a (×): value 3, gradient 3 flows back.") == 2
    assert "Target y (+): value 9.141, upstream 1." in text
    assert "Gradient of x (input): 5.01." in text


@pytest.mark.parametrize(
    ("long", "short"),
    [("sequential/d1/kernel", "d1/kernel"), ("x", "x"), ("a" * 30, "a" * 23 + "…")],
)
def test_a_long_name_is_cut(long, short):
    assert cards.short_name(long) == short
