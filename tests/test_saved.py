"""A SavedModel gives in another process what f gives here."""

import numpy as np
import tensorflow as tf

import cgviz


def state(report, rule):
    return next(row.state for row in report.rows if row.rule == rule)


def test_a_saved_model_keeps_variables_structures_and_every_type():
    w = tf.Variable(2.0, name="w")

    def f(pair, half, label):
        x, z = pair
        return {"a": w * x, "b": tf.abs(z), "c": half * 2, "d": label}

    pair = (np.float32([1.0, 2.0]), np.complex64([1 + 2j]))
    half, label = tf.constant([0.5], tf.bfloat16), tf.constant("kept")
    report = cgviz.check(f, pair, half, label, where="saved")
    assert state(report, "saved") == "pass", report
