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
