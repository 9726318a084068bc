"""A gradient that vanishes or explodes is told from one that is only small or large."""

import numpy as np
import tensorflow as tf
from troubles import found, only

import cgviz
from cgviz.diagnosing import scales


def repeated(step, times):
    def f(x):
        for _ in range(times):
            x = step(x)
        return x

    return f


def test_a_chain_of_sigmoids_vanishes_and_its_line_is_named():
    finding = only(cgviz.trace(repeated(tf.sigmoid, 20), 1.0))
    assert (finding.what, finding.op.type) == ("vanishing", "Sigmoid")
    assert "20 times" in finding.message
    assert "9.1e−14" in finding.message


def test_a_product_of_large_factors_explodes():
    finding = only(cgviz.trace(repeated(lambda x: 3.0 * x, 30), 1.0))
    assert (finding.what, finding.op.type) == ("exploding", "Mul")
    assert "2.1e14" in finding.message


def test_a_nearly_saturated_op_vanishes_alone_and_a_small_unit_does_not():
    assert found(cgviz.trace(lambda x: tf.sigmoid(x), -20.0)) == []  # its value is as small
    assert found(cgviz.trace(lambda x: 1.0 + tf.sigmoid(x), -20.0)) == [("vanishing", "Sigmoid")]
    assert found(cgviz.trace(lambda x: 1e-9 * x, 1.0)) == []


def test_the_thresholds_hold_on_both_sides():
    fall = repeated(lambda x: 0.1 * x, 5)
    assert found(cgviz.trace(fall, 1.0)) == []
    assert found(cgviz.trace(repeated(lambda x: 0.1 * x, 7), 1.0)) == [("vanishing", "Mul")]
    assert found(cgviz.trace(repeated(lambda x: 10.0 * x, 5), 1.0)) == []
    assert found(cgviz.trace(repeated(lambda x: 10.0 * x, 7), 1.0)) == [("exploding", "Mul")]
    assert (scales.FALL, scales.RISE) == (1e-6, 1e6)


def test_a_deep_network_of_sigmoids_names_all_layers_in_one_finding():
    rng = np.random.default_rng(0)
    weights = [tf.Variable(0.1 * rng.normal(size=(4, 4)), dtype=tf.float32) for _ in range(12)]

    def network(x):
        for w in weights:
            x = tf.sigmoid(x @ w)
        return tf.reduce_sum(x)

    findings = list(cgviz.trace(network, np.ones((2, 4), np.float32)).diagnose())
    assert [f.what for f in findings] == ["vanishing"]
    assert len(findings[0].sources) > 2
