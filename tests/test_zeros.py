"""A gradient that is zero is followed to where zero began."""

import tensorflow as tf
from troubles import found, only

import cgviz


def test_a_zero_upstream_is_named_as_such():
    assert (
        "upstream that the backward pass started with"
        in only(cgviz.trace(tf.sin, 1.0, upstream=0.0)).message
    )


def test_ways_that_cancel_are_named():
    finding = only(cgviz.trace(lambda x: x - x, 2.0))
    assert "adds up to 0" in finding.message


def test_zero_is_followed_past_ops_that_only_hand_it_on():
    assert found(cgviz.trace(lambda x: tf.sign(tf.sin(x) * 3.0) * 2.0, 1.0)) == [("zero", "Sign")]
