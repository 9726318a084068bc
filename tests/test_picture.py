"""A scene in its place: every text has its room, and a gradient's own ops stand apart."""

from dataclasses import replace

import pytest
import tensorflow as tf

import cgviz
from cgviz.drawing import picture, scene


def shown(f, *args, which=None, **kwargs):
    return scene.make(cgviz.trace(f, *args, **kwargs), which)


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


def test_the_ops_of_a_gradient_stand_behind_what_it_differentiates():
    here = shown(lambda x, w: tf.tanh(w * x) * x, 0.5, 2.0, order=2, which=1)
    placed = picture.arranged(here, None)
    along = 1 if placed.layout.direction == "down" else 0
    floors = [node.floor for node in here.nodes]
    places = [centre[along] for centre in placed.layout.centres]
    last = max(p for p, f in zip(places, floors, strict=False) if f == 0)
    assert all(p > last for p, f in zip(places, floors, strict=False) if f == 1)


def test_what_keeps_floors_apart_is_not_drawn():
    here = shown(lambda x: x * x * x, 2.0, order=2, which=1)
    placed = picture.arranged(here, None)
    assert len(placed.layout.centres) == len(placed.sizes) == len(placed.kinds)
    assert len(placed.layout.routes) == len(placed.layout.labels) == len(placed.links)
