"""The range of numbers in words: labels, notes, and a text for who does not see the picture."""

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape

import cgviz
from cgviz.diagnosing import ranges
from cgviz.diagnosing.range_words import NEAR, describe, label, note


def row(**known):
    """A row of which only this is known."""
    return dict.fromkeys(ranges.COLUMNS) | {"special": "", "gradient_special": ""} | known


@pytest.mark.parametrize(
    ("op", "type_", "inside", "words"),
    [
        ("x", "Input", "", "x"),
        ("w", "Variable", "", "w"),
        ("Exp", "Exp", "", "exp"),
        ("Exp_12", "Exp", "", "exp"),
        ("e", "Exp", "", "e: exp"),
        ("Exp_x", "Exp", "", "Exp_x: exp"),
        ("e", "Exp", "documented", "documented / e: exp"),
        ("Square", "Square", "", "square"),
        ("y", "AddV2", "", "y: add"),
        ("MatMul_1", "MatMul", "layer", "layer / matmul"),
        ("documented", "documented", "", "documented"),
        ("documented_1", "documented", "", "documented"),
    ],
)
def test_a_label_tells_the_learners_name_and_what_the_op_does(op, type_, inside, words):
    assert label(row(op=op, type=type_, inside=inside)) == words


LIMIT = ranges.exp_limit("Exp", "float32")


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, ""),
        ({"input": 1.0, "limit": LIMIT}, "input 1 of at most 88.72"),
        ({"input": NEAR * LIMIT, "limit": LIMIT}, "input 79.85 of at most 88.72"),
        ({"input": 80.0, "limit": LIMIT}, "! input 80 of at most 88.72"),
        ({"input": 100.0, "limit": LIMIT, "special": "∞"}, "▲ input 100 of at most 88.72"),
        ({"input": np.inf, "limit": LIMIT, "special": "∞"}, "▲ input ∞ of at most 88.72"),
        ({"limit": LIMIT, "special": "NaN"}, "▲ NaN"),
        ({"special": "∞", "headroom": 2.0}, "▲ ∞"),
        ({"headroom": 99.0}, "! 99 times from overflow"),
        ({"headroom": 1.0}, "! 1 times from overflow"),
        ({"headroom": 100.0}, ""),
    ],
)
def test_a_note_says_what_to_see_coming(known, words):
    assert note(row(**known)) == words


SPANS = {
    "none": [],
    "all 0": [0.0, 0.0],
    "all NaN": [np.nan],
    "all ∞": [-np.inf],
    "2": [-2.0, 0.0],
    "from 0.5 to 2": [0.5, -2.0],
    "2, and ∞": [2.0, np.inf],
    "0, and NaN": [0.0, np.nan],
    "from 1e−30 to 1e30, and NaN": [1e-30, 1e30, np.nan, np.inf],
}


@pytest.mark.parametrize("span", SPANS)
def test_the_span_of_values_and_gradients_is_a_sentence(span):
    tape = Tape()
    x = tape.start("x", SPANS[span])
    y = tape.op("y", "Sin", [x], np.zeros_like(SPANS[span]), back=[SPANS[span]])
    text = describe(tape.trace(y, [x])).split("\n")[1]
    gradients = "" if span == "none" else f"; gradients {span}"
    assert text.split("; ▲")[0].rstrip(".") == f"x (float32): values {span}{gradients}"


def test_the_whole_is_told_op_by_op():
    def log1pexp(x):
        e = tf.exp(x)
        return tf.math.log(1.0 + e)

    assert describe(cgviz.trace(log1pexp, [0.0, 88.0])).split("\n") == [
        "Magnitudes of log1pexp, op by op, against the limits of their types.",
        "x (float32): values 88; gradients 0.5.",
        "e: exp (float32): values from 1 to 1.652e38; gradients 0.5; ! input 88 of at most 88.72.",
        "add (float32): values from 2 to 1.652e38; gradients 0.5; ! 2.1 times from overflow.",
        "log (float32): values from 0.6931 to 88; gradients 1.",
    ]


def test_another_pass_has_other_words():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    first, second = (describe(trace, which=which).split("\n")[-1] for which in (0, 1))
    assert "gradients" in first
    assert first != second
    with pytest.raises(ValueError, match="which"):
        describe(trace, which=7)
