"""What is written in a picture, and at which step."""

from dataclasses import replace

import handmade
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz import suspects
from cgviz.drawing import display, texts
from cgviz.graph.selection import select


def written(shown):
    """By what it belongs to and its role: each text with its versions."""
    return {(text.of, text.i, text.role): text for text in texts.written(shown)}


def last(shown, *of):
    found = written(shown)
    return found[of].at(np.inf) if of in found else ""


def masked(x):
    """Its last step is that of `zeros_like`, to which no gradient flows: it is not shown."""
    return tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(x), tf.zeros_like(x)) * x)


def test_the_sum_of_a_fan_out_is_visible():
    shown = select(handmade.square_plus_sine())
    assert last(shown, "node", 0, "gradient") == "dy/dx = 3 + 3 − 0.99 = 5.01"


@pytest.mark.parametrize(
    ("at", "sum_"),
    [
        (1.3, "gradient = −0.4173 − 0.4173 ≈ −0.8345"),
        (2.0, "gradient = −0.6133 − 0.6133 = −1.227"),
        ([1.3], "gradient = [−0.4173] + [−0.4173] ≈ [−0.8345]"),
        ([0.0, 1.3], "gradient = Σ of 2 = [0, −0.8345]"),
    ],
)
def test_a_sum_says_whether_its_numbers_add_up_as_they_are_printed(at, sum_):
    """−0.41728 twice is −0.83454, and of what is printed −0.8346."""
    shown = select(cgviz.trace(lambda x: tf.exp(tf.sin(x * x)), at))
    assert last(shown, "node", 0, "gradient") == sum_


def test_rules_of_tensorflow_are_not_marked_as_wrong_beside_nan():
    shown = replace(select(cgviz.trace(suspects.entropy, [0.0, 0.5])), local=True)
    said = [words for text in texts.written(shown) for _, words in text.versions]
    assert any("NaN" in words for words in said)
    assert not any("≠" in words for words in said)


def test_each_edge_has_its_value_and_its_contribution():
    shown = select(handmade.square_plus_sine())
    labels = [
        (last(shown, "link", i, "value"), last(shown, "link", i, "gradient"))
        for i in range(len(shown.edges))
    ]
    assert sorted(labels) == sorted(
        [("3", "3"), ("3", "3"), ("3", "−0.99"), ("9", "1"), ("0.1411", "1")]
    )


def test_a_target_has_its_value_and_the_upstream_it_gets():
    shown = select(handmade.square_plus_sine())
    target = len(shown.edges)
    assert last(shown, "link", target, "value") == "9.141"
    assert written(shown)["link", target, "gradient"].versions == ((texts.SEED, "1"),)


def test_steps_reveal_the_gradients_one_by_one():
    shown = select(handmade.square_plus_sine())
    edges = range(len(shown.edges))
    come = [written(shown)["link", i, "gradient"].versions[0][0] for i in edges]
    assert [sum(step <= k for step in come) for k in range(4)] == [0, 2, 4, 5]
    assert written(shown)["node", 0, "gradient"].versions == (
        (2, "3 + 3 + …"),
        (3, "dy/dx = 3 + 3 − 0.99 = 5.01"),
    )


@pytest.mark.parametrize(
    ("f", "at", "ends"),
    [
        (masked, [4.0, 0.0, -1.0], ("link", "reason", "⊘ boolean", "backward step 5 of 5")),
        (lambda x: tf.identity(x), 2.0, ("node", "gradient", "dx/dx = 1", "backward step 1 of 1")),
        (tf.zeros_like, 2.0, ("node", "gradient", "gradient = ∅ None", "backward step 1 of 1")),
    ],
)
def test_all_has_come_at_the_last_moment_though_its_op_is_not_shown(f, at, ends):
    shown = select(cgviz.trace(f, at))
    *_, (moment, name) = display.make(shown).moments()
    found = texts.written(shown)
    assert all(text.at(moment) == text.at(np.inf) for text in found)
    of, role, words, where = ends
    assert words in [text.at(moment) for text in found if (text.of, text.role) == (of, role)]
    assert name == where


def test_what_is_still_to_come_is_where_it_will_be_in_the_sum():
    shown = select(cgviz.trace(lambda x: tf.sin(tf.cos(x)) * 3.0 + x, 0.5))
    first, last_ = (words for _, words in written(shown)["node", 0, "gradient"].versions)
    assert first == "… + 1"
    assert "+ 1 =" in last_.replace("≈", "=")


def test_a_value_is_not_told_before_its_op_has_run():
    shown = select(cgviz.trace(lambda x: tf.sin(tf.cos(x)), 2.0))
    for (of, i, role), text in written(shown).items():
        if of == "link" and role == "value":
            source = shown.edges[i].source if i < len(shown.edges) else len(shown.nodes) - 1
            assert text.versions[0][0] == texts.Moments(shown).of_node(source)


def test_an_op_whose_value_nothing_uses_tells_it_only_when_it_has_run():
    with cgviz.record() as trace:
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            tf.cos(x)
            y = tf.sin(x)
        tape.gradient(y, x)
    shown = select(trace, full=True)
    (alone,) = [i for i, node in enumerate(shown.nodes) if node.symbol == "cos"]
    versions = written(shown)["node", alone, "name"].versions
    assert "0.4161" in versions[-1][1]
    assert "0.4161" not in versions[0][1] or versions[0][0] == texts.Moments(shown).of_node(alone)


def test_nan_and_infinity_have_a_symbol_and_a_word():
    assert texts.short(np.array(np.nan)) == "⚠ NaN"
    assert texts.short(np.array(np.inf)) == "⚠ ∞"
    assert texts.short(np.array(-np.inf)) == "⚠ −∞"
    assert texts.short(np.array([1.0, np.nan])) == "⚠ [1, NaN]"
    assert texts.short(np.array(0.0)) == "0"
    assert texts.short(None) == "∅ None"


def test_an_array_stays_narrow():
    assert texts.short(np.array([0.09003057, 0.24472848])) == "[0.09003, 0.2447]"
    assert texts.short(np.array([0.09003057, 0.24472848, 0.66524094])) == "[0.09, 0.245, 0.665]"
    assert texts.short(np.eye(2)) == "[[1, 0],\n [0, 1]]"
    for shape in ((3, 100), (7,), (2, 2, 2), (0, 4), (1000, 1000)):
        text = texts.short(np.full(shape, 1.2345678e-7))
        assert max(map(len, text.split("\n"))) <= texts.LONGEST


def test_a_value_used_often_is_written_once():
    shown = select(cgviz.trace(lambda x: x * x + x * x * x, 2.0))
    uses = [i for i, edge in enumerate(shown.edges) if edge.source == 0]
    assert not any(("link", i, "value") in written(shown) for i in uses)
    assert last(shown, "node", 0, "title") == "x = 2"


def test_of_an_op_with_several_outputs_the_gradient_is_that_of_those_asked_for():
    x = tf.constant([1.0, 2.0, 3.0])
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            a, b, c = tf.unstack(x)
            y = a * b + c * c
        tape.gradient(y, c)
        tape.gradient(y, [a, c])
    assert "Gradient of a, b, c (unstack): 6." in trace.plot(which=0).cgviz_alt
    assert "Gradient of a, b, c (unstack): 2, 6." in trace.plot(which=1).cgviz_alt
    shown = select(trace, 0)
    (i,) = [i for i, node in enumerate(shown.nodes) if node.asked]
    assert last(shown, "node", i, "gradient") == "dy/dc = 3 + 3 = 6"


def test_complex_factors_are_in_brackets():
    z = tf.constant(1 + 2j, tf.complex64)
    trace = cgviz.trace(lambda z: tf.math.real(z * z * tf.constant(1j, tf.complex64)), z)
    assert "gradient (0−1i) · (1−2i) = −2−1i flows" in trace.plot(local=True).cgviz_alt


def test_a_source_without_a_gradient_shows_none_and_its_value():
    shown = select(cgviz.trace(lambda x, y: x * 2.0, 2.0, 3.0))
    (y,) = [i for i, node in enumerate(shown.nodes) if node.label == "y"]
    assert "3" in last(shown, "node", y, "title") + last(shown, "node", y, "name")
    assert last(shown, "node", y, "gradient").endswith("= ∅ None")


def test_a_blocked_edge_says_why():
    shown = select(cgviz.trace(lambda x: tf.stop_gradient(x) + x, 2.0))
    reasons = [text.at(np.inf) for text in texts.written(shown) if text.role == "reason"]
    assert reasons == ["⊘ stop_gradient"]


def test_the_description_lists_every_edge_and_gradient():
    text = texts.describe(select(handmade.square_plus_sine()))
    assert "4 nodes, 5 edges, 3 backward steps" in text
    assert text.count("x (input) to a (×): value 3, gradient 3 flows back.") == 2
    assert "Target y (+): value 9.141, upstream 1." in text
    assert "Gradient of x (input): 5.01." in text
    assert ", 1 backward step.\n" in texts.describe(select(cgviz.trace(tf.sin, 2.0)))


@pytest.mark.parametrize(
    ("long", "short"),
    [("sequential/d1/kernel", "d1/kernel"), ("x", "x"), ("a" * 30, "a" * 23 + "…")],
)
def test_a_long_name_is_cut(long, short):
    assert texts.short_name(long) == short


def test_a_name_with_an_underscore_makes_no_fraction():
    def f(x):
        to_x = 3.0 * x
        return to_x

    assert last(select(cgviz.trace(f, 2.0)), "node", 0, "gradient") == "gradient = 3"


def test_what_a_custom_rule_ran_says_so():
    @tf.custom_gradient
    def cube(x):
        return x**3, lambda upstream: upstream * 3.0 * x**2

    shown = select(cgviz.trace(lambda x: tf.square(cube(x)), 10.0, order=2), which=1)
    said = {n.symbol: last(shown, "node", i, "kind") for i, n in enumerate(shown.nodes)}
    assert said["cube"] == "custom"
    assert said["x²"] == said["× 3"] == "custom rule"
    assert said["square"] == said["× 2"] == "", "TensorFlow's own"


def test_each_edge_of_a_picture_in_bands_is_told_in_its_band():
    sine = cgviz.trace(tf.sin, 2.0, order=2)
    lines = texts.describe(select(sine, which=1)).splitlines()
    assert lines[1:3] == [
        "Forward pass:",
        "x (input) to sin: value 2, no gradient: nothing arrives.",
    ]
    assert lines[3] == "Inner backward pass:"
    assert lines[4].startswith(
        'x (input) in the band "forward pass" to cos: value 2, gradient −0.9093'
    )
