"""The picture for the browser: the same places and words as on paper, in paths and strings."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from programs import nested

import cgviz
from cgviz.drawing import cards, picture
from cgviz.graph.selection import select
from cgviz.live import sketch


def twice(x):
    a = x * x
    y = 3.0 * a
    return y


def shown(f, *args, **kwargs):
    return select(cgviz.trace(f, *args, **kwargs))


def placed(f, *args, **kwargs):
    return picture.arranged(shown(f, *args, **kwargs), None)


def test_every_node_and_link_has_a_place_and_a_text():
    here = placed(twice, 2.0)
    lines, texts = sketch.lines(here), sketch.texts(here.selection)
    assert len(lines["nodes"]) == len(here.kinds)
    assert len(lines["links"]) == len(texts["links"]) == len(here.links)
    assert len(texts["nodes"]) == len(here.selection.nodes)
    assert all(0 < n["x"] < lines["width"] and 0 < n["y"] < lines["height"] for n in lines["nodes"])


def test_it_is_strict_json():
    here = placed(lambda x: tf.math.log(x), 0.0)
    json.dumps([sketch.lines(here), sketch.texts(here.selection)], allow_nan=False)


def test_it_says_what_paper_says():
    here = placed(twice, 2.0)
    texts = sketch.texts(here.selection)
    for label, text in zip(here.labels, texts["links"], strict=True):
        assert (label.forward, label.backward) == (text["value"], text["gradient"])


def test_at_every_step_a_node_says_what_paper_says_at_that_step():
    here = placed(lambda x: tf.sin(x) * x + x, 2.0)
    texts = sketch.texts(here.selection)
    for step in range(1, here.selection.steps + 1):
        for card, text in zip(cards.cards(here.selection, step), texts["nodes"], strict=True):
            come = [words for start, words in text["gradient"] if start <= step]
            assert (come[-1] if come else "") == card.gradient


def test_a_sum_grows_step_by_step():
    x = sketch.texts(shown(lambda x: tf.sin(x) * x, 2.0))["nodes"][0]
    assert [words for _, words in x["gradient"]] == [
        "0.9093 + …",
        "gradient = −0.8323 + 0.9093 = 0.077",
    ]


def test_paths_are_lines_and_curves_with_numbers_only():
    lines = sketch.lines(placed(twice, 2.0))
    found = [p for n in lines["nodes"] for p in n["paths"]]
    found += [link[name] for link in lines["links"] for name in ("line", "head", "back")]
    assert all(re.fullmatch(r"[MlcZ0-9. -]+", path) for path in found)


def test_a_link_without_a_gradient_has_no_arrow_back():
    lines = sketch.lines(placed(lambda x: x * tf.stop_gradient(x), 2.0))
    texts = sketch.texts(shown(lambda x: x * tf.stop_gradient(x), 2.0))
    blocked = [i for i, text in enumerate(texts["links"]) if text["blocked"]]
    assert blocked
    assert not any("back" in lines["links"][i] for i in blocked)


def test_only_numbers_change_under_one_signature():
    one, other = (select(cgviz.trace(twice, x)) for x in (2.0, -5.0))
    assert sketch.signature(one) == sketch.signature(other)


def test_another_branch_has_another_signature():
    def f(x):
        return x * x if x > 0 else -x

    one, other = (select(cgviz.trace(f, x)) for x in (2.0, -5.0))
    assert sketch.signature(one) != sketch.signature(other)


def test_the_ops_of_a_gradient_have_a_floor_of_their_own():
    trace = cgviz.trace(lambda x: x * x * x, 2.0, order=2)
    lines = sketch.lines(picture.arranged(select(trace, 1), None))
    assert [floor["floor"] for floor in lines["floors"]] == [1, 0]
    for node in lines["nodes"]:
        (own,) = [f for f in lines["floors"] if f["y"] < node["y"] < f["y"] + f["height"]]
        if node["kind"] != "target":
            assert own["floor"] == node["floor"]


@pytest.mark.parametrize(
    ("array", "power"),
    [(1000.0, 3.0), (np.array([0.0, -0.01]), -2.0), (0.0, None), (np.nan, None), (None, None)],
)
def test_the_size_of_a_gradient_is_a_power_of_ten(array, power):
    assert sketch.magnitude(None if array is None else np.asarray(array)) == power


def test_a_frame_is_around_its_nodes_and_has_its_title_in_it():
    trace = cgviz.trace(nested, 2.0)
    here = select(trace, framed=True, toggled=["custom:square"])
    lines = sketch.lines(picture.arranged(here, None))
    assert [frame["label"] for frame in lines["frames"]] == ["part", "square"]
    for k, frame in enumerate(lines["frames"]):
        right, bottom = frame["x"] + frame["width"], frame["y"] + frame["height"]
        for node in lines["nodes"]:
            if node.get("frame") == k:
                assert frame["x"] < node["x"] < right
                assert frame["y"] < node["y"] < bottom
        for _, x, y in frame["lines"]:
            assert frame["x"] < x < right
            assert frame["y"] < y < bottom
