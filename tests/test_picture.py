"""A selection in its place: every text has its room, and a gradient's own ops stand apart."""

from dataclasses import replace

import pytest
import tensorflow as tf

import cgviz
from cgviz.drawing import picture
from cgviz.graph.selection import select


def shown(f, *args, which=None, **kwargs):
    return select(cgviz.trace(f, *args, **kwargs), which)


def test_a_roomy_picture_holds_longer_numbers_and_the_same_words():
    here = shown(lambda x: tf.sin(x) * x, 2.0)
    tight, roomy = picture.arranged(here, None), picture.arranged(here, None, roomy=True)
    assert roomy.labels == tight.labels
    assert roomy.layout.width > tight.layout.width


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("7", "−0.0008"),
        ("[1, −2.5]", "[−0.0008, −0.0008]"),
        ("gradient = 3 + 4 = 7", "gradient = −0.0008 + −0.0008 = −0.0008"),
        ("1.2e−12", "−0.0008"),
        ("y_1", "y_1"),
    ],
)
def test_only_numbers_are_made_longer(text, wide):
    label = picture.Label(text, "")
    assert picture._roomy(label) == replace(label, forward=wide)


def test_the_ops_of_a_gradient_stand_on_a_floor_above_what_it_differentiates():
    here = shown(lambda x, w: tf.tanh(w * x) * x, 0.5, 2.0, order=2, which=1)
    placed = picture.arranged(here, None)
    levels = [y for _, y in placed.layout.centres]
    floors = [node.level for node in here.nodes]
    ground = min(y for y, floor in zip(levels, floors, strict=False) if floor == 0)
    assert all(y < ground for y, floor in zip(levels, floors, strict=False) if floor == 1)
    (_, high), (low, _) = placed.layout.storeys
    assert high < low


def test_a_gradient_flows_the_other_way_than_its_function():
    here = shown(lambda x: tf.sin(tf.cos(x)), 0.5, order=2, which=1)
    placed = picture.arranged(here, None)
    across = [x for x, _ in placed.layout.centres]
    inner = [e for e in here.edges if here.nodes[e.source].level == here.nodes[e.target].level]
    assert {here.nodes[e.source].level for e in inner} == {0, 1}
    for edge in inner:
        upper = here.nodes[edge.source].level == 1
        assert (across[edge.source] > across[edge.target]) == upper


def test_floors_have_titles():
    here = shown(lambda x: x * x * x, 2.0, order=2, which=1)
    found = picture.storeys(picture.arranged(here, None))
    assert [title for _, title, _, _ in found] == [
        "backward pass 0: the ops of the gradient",
        "forward pass",
    ]


def test_a_folded_corner_less_route_is_the_same_route():
    route = [(0.0, 0.0), (0.0, 5.0), (0.0, 9.0), (4.0, 12.0), (4.0, 20.0)]
    assert picture._straightened(route) == [(0.0, 0.0), (0.0, 9.0), (4.0, 12.0), (4.0, 20.0)]
