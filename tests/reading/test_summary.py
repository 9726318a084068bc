"""A trace in a terminal: title, value, gradients and table."""

import re

import tensorflow as tf
from programs import thrice

import cgviz
from cgviz.reading import summary


def test_a_trace_in_a_terminal():
    text = re.sub(r"line \d+", "line 1", repr(cgviz.trace(thrice, 2.0)))
    assert text == (
        "trace of thrice: 3 ops, 1 backward pass\n"
        "value: 256\n"
        "gradients: x 1024\n"
        "\n"
        "step  op  type             input   upstream  local  downstream  source\n"
        "   1  y   square (custom)  b = 16  1         32     32          line 1: y = square(b)\n"
        "   2  b   square (custom)  a = 4   32        8      256         line 1: b = square(a)\n"
        "   3  a   square (custom)  x = 2   256       4      1024        line 1: a = square(x)"
    )


def test_a_trace_without_a_backward_pass_has_a_text():
    with cgviz.record() as trace:
        tf.square(2.0)
    assert "no backward passes" in repr(trace)


def test_both_passes_have_their_gradients_in_the_text():
    text = repr(cgviz.trace(lambda x: x**3, 2.0, order=2))
    assert "gradients of pass 0: x 12\n" in text
    assert "gradients of pass 1: x 12\n" in text


def test_the_title_counts_ops_and_passes():
    assert summary.title(cgviz.trace(tf.square, 2.0, order=2)).endswith(": 1 op, 2 backward passes")


def test_the_facts_are_the_value_and_the_gradients():
    facts = summary.facts(cgviz.trace(lambda x, y: tf.round(x) * y, 2.0, 3.0))
    assert facts == [("value", "6"), ("gradients", "x None, y 2")]


def test_a_nested_value_keeps_its_structure():
    facts = summary.facts(cgviz.trace(lambda x: {"a": x * 2.0, "b": (x, [x])}, 3.0))
    assert facts[0] == ("value", "{a: 6, b: (3, (3))}")


def test_many_gradients_are_counted():
    variables = [tf.Variable(1.0, name=f"v{k}") for k in range(20)]
    facts = summary.facts(cgviz.trace(lambda x: x * tf.add_n([v * 1.0 for v in variables]), 1.0))
    assert facts[1][1].endswith("and 13 more")
