"""The display list: every text has its space, and what a slider changes is apart from the rest."""

import json
import re
from dataclasses import replace
from itertools import pairwise, permutations
from math import inf

import numpy as np
import pytest
import tensorflow as tf
from programs import nested

import cgviz
from cgviz.drawing import display
from cgviz.graph.selection import select


def twice(x):
    a = x * x
    y = 3.0 * a
    return y


def shown(f, *args, which=None, **kwargs):
    return select(cgviz.trace(f, *args, **kwargs), which)


def roles(found, of, i):
    return [path.role for path in found.paths if (path.of, path.i) == (of, i)]


def test_every_node_and_link_is_in_it_once():
    here = shown(twice, 2.0)
    found = display.make(here)
    assert len(found.nodes) == len(here.nodes) + 1  # and the target
    assert len(found.links) == len(here.edges) + 1
    for i in range(len(found.nodes)):
        assert roles(found, "node", i).count("outline") == 1
    for i in range(len(found.links)):
        assert roles(found, "link", i) == ["forward", "forward-head", "backward", "backward-head"]
    assert all(0 < n.x < found.width and 0 < n.y < found.height for n in found.nodes)


def test_it_is_strict_json():
    json.dumps(display.make(shown(lambda x: tf.math.log(x), 0.0)).document(), allow_nan=False)


def test_paths_have_absolute_commands_and_numbers_only():
    for path in display.make(shown(twice, 2.0)).paths:
        assert re.fullmatch(r"M[MLCZ0-9. -]+", path.d)


def test_a_link_without_a_gradient_has_no_arrow_back():
    found = display.make(shown(lambda x: x * tf.stop_gradient(x), 2.0))
    (blocked,) = [text.i for text in found.texts if text.role == "reason"]
    assert roles(found, "link", blocked) == ["forward", "forward-head"]


def test_only_texts_change_under_one_signature():
    one, other = (shown(twice, x) for x in (2.0, -5.0))
    assert display.signature(one) == display.signature(other)
    places = [display.make(replace(each, moved={})).document() for each in (one, other)]
    assert [len(place["texts"]) for place in places] == [len(places[0]["texts"])] * 2


def test_another_branch_has_another_signature():
    def f(x):
        return x * x if x > 0 else -x

    one, other = (shown(f, x) for x in (2.0, -5.0))
    assert display.signature(one) != display.signature(other)


def test_a_roomy_picture_has_space_for_longer_numbers():
    here = shown(lambda x: tf.sin(x) * x, 2.0)
    tight, roomy = (display.make(each, (inf, inf)) for each in (here, replace(here, moved={})))
    assert [text.versions for text in roomy.texts] == [text.versions for text in tight.texts]
    assert roomy.width > tight.width


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("7", "−0.0001235"),
        ("[1, −2.5]", "[−0.000123, −0.000123]"),
        ("gradient = 3 + 4 = 7", "gradient = −0.0001 + −0.0001 = −0.0001"),
        ("[[1, 2],\n [3, 4]]", "[[−0.000123, −0.000123],\n [−0.000123, −0.000123]]"),
        ("1.2e−12", "−0.0001235"),
        ("y_1", "y_1"),
    ],
)
def test_only_numbers_are_made_longer(text, wide):
    assert display.longer(text) == wide


def test_the_last_moment_before_a_step_is_shown_for_it():
    found = display.make(shown(twice, 2.0))
    found.backward = [1, 4]
    assert [found.moment(step) for step in (-1, 0, 1, 3, 4, 9)] == [-1, 0, 1, 1, 4, 4]


# --- levels of differentiation -------------------------------------------------------------------


def test_the_ops_of_a_gradient_are_above_what_it_differentiates_in_a_band_of_their_own():
    here = shown(lambda x, w: tf.tanh(w * x) * x, 0.5, 2.0, order=2, which=1)
    found = display.make(here)
    tops = {}
    for path in found.paths:
        if path.role == "band":
            numbers = np.reshape([float(x) for x in re.findall(r"-?[\d.]+", path.d)], (-1, 2))
            tops[path.i] = numbers[:, 1].min(), numbers[:, 1].max()
    assert tops[1][1] < tops[0][0]
    for node, own in zip(found.nodes, here.nodes, strict=False):  # after these comes the target
        top, bottom = tops[own.level]
        assert top < node.y < bottom


def test_a_gradient_flows_the_other_way_than_its_function():
    here = shown(lambda x: tf.sin(tf.cos(x)), 0.5, order=2, which=1)
    found = display.make(here)
    inner = [e for e in here.edges if here.nodes[e.source].level == here.nodes[e.target].level]
    assert {here.nodes[e.source].level for e in inner} == {0, 1}
    for edge in inner:
        upper = here.nodes[edge.source].level == 1
        assert (found.nodes[edge.source].x > found.nodes[edge.target].x) == upper


def test_what_a_pass_sent_back_is_called_a_value_and_no_forward_value():
    for order, says in (1, "forward value"), (2, "value"):
        found = display.make(shown(lambda x: x * x * x, 2.0, order=order, which=order - 1))
        assert found.legend[0] == ("forward", says)


def test_bands_have_titles():
    found = display.make(shown(lambda x: x * x * x, 2.0, order=2, which=1))
    assert [text.at(0) for text in found.texts if text.of == "band"] == [
        "forward pass",
        "inner backward pass: the ops of the gradient",
    ]


# --- frames --------------------------------------------------------------------------------------


def test_a_frame_is_around_its_nodes_and_has_its_title_in_it():
    trace = cgviz.trace(nested, 2.0)
    here = select(trace, framed=True, toggled=["custom:square"])
    found = display.make(here)
    assert [frame.label for frame in found.frames] == ["part", "square"]
    for k, frame in enumerate(found.frames):
        pairs = zip(here.nodes, found.nodes, strict=False)
        inside = [(node.x, node.y) for own, node in pairs if own.frame == k]
        of = ("frame", k) if frame.node < 0 else ("node", frame.node)
        inside += [(text.x, text.y) for text in found.texts if (text.of, text.i) == of]
        assert len(inside) > 1
        (outline,) = (
            path for path in found.paths if path.role == "frame" and (path.of, path.i) == of
        )
        corners = np.array(re.findall(r"[-\d.]+", outline.d), float).reshape(-1, 2)
        assert (corners.min(0) < inside).all()
        assert (inside < corners.max(0)).all()


def test_a_custom_op_that_does_not_use_its_argument_opens():
    @tf.custom_gradient
    def attach(x):
        return tf.zeros([]), lambda upstream: upstream * 2.0 * x

    trace = cgviz.trace(lambda x: attach(x) * x, 1.0)
    found = display.make(select(trace, framed=True, toggled=["custom:attach"]))
    assert [frame.label for frame in found.frames] == ["attach"]


def points(path):
    """Points on a line, at most one apart."""
    corners = np.array(re.findall(r"[-\d.]+", path.d), float).reshape(-1, 2)
    pieces = [np.linspace(a, b, int(np.hypot(*(b - a))) + 2) for a, b in pairwise(corners)]
    return np.concatenate(pieces)


def together(one, other, apart=4.0):
    """How far, at most, two lines run nearer to each other than this."""
    near = np.hypot(*(one[:, None] - other[None]).transpose(2, 0, 1)).min(axis=1) < apart
    steps = np.hypot(*np.diff(one, axis=0).T)
    return max(part.sum() for part in np.split(steps, np.flatnonzero(~near[1:])))


@pytest.mark.parametrize("f", [lambda x: tf.sin(x) * x, lambda x: x**3 - 2.0 * x * x])
def test_each_gradient_of_a_second_derivative_can_be_followed(f):
    """None of its arrows runs along another's."""
    found = display.make(shown(f, 0.8, order=2, which=1), (800.0, inf))
    lines = [points(path) for path in found.paths if path.role == "backward"]
    assert max(together(one, other) for one, other in permutations(lines, 2)) < 30
