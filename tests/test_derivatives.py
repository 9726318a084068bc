"""What finite differences show is explained by the rule that causes it."""

import numpy as np
import tensorflow as tf

import cgviz


def test_three_right_digits_are_a_warning_only():
    f = tf.custom_gradient(lambda x: (np.pi * x, lambda dy: 3.1411 * dy))
    report = cgviz.check(f, 2.0)
    assert report.ok
    found = next(f for f in report.findings if f.rule == "precision")
    assert "yours 3.141, true 3.142" in found.message


def precision(f, *args):
    return next(each for each in cgviz.check(f, *args).findings if each.rule == "precision")


def test_digits_that_cancel_are_told_from_numbers_that_are_too_small():
    assert "Digits cancel" in precision(lambda x: (1.0 - tf.cos(x)) / x**2, 1e-3).hint
    small = precision(lambda x: tf.math.log(1.0 + tf.exp(x)), 88.0)
    assert "yours" not in small.message
    assert small.hint.startswith(
        "On the way stands 6.055e−39, and below 1.175e−38 float32 has no digits left"
    )
