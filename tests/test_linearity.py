"""A rule is linear in upstream and knows its variables; what is not so is told how."""

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking.linearity import _linear


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda u: [0 * u + 3.0], "ignored"),
        (lambda u: [u + 1.0], "upstream 0 gives"),
        (lambda u: [abs(u)], "negative"),
        (lambda u: [np.clip(u, -1, 1)], "256 times the upstream"),
        (lambda u: [u * abs(u)], "256 times the upstream"),
        (lambda u: [u * np.max(np.abs(u)) / (np.sum(np.abs(u)) or 1)], "sum of two upstreams"),
    ],
)
def test_a_rule_that_is_not_linear_is_told_how(rule, words):
    _, said = _linear(lambda u: [tf.constant(g) for g in rule(u)], 3, 256.0, 1e-4)
    assert words in said


def test_a_linear_rule_is_linear():
    matrix = np.random.default_rng(0).normal(size=(3, 4))
    assert _linear(lambda u: [tf.constant(u @ matrix), None], 3, 256.0, 1e-4) is None
    assert _linear(lambda u: [None], 3, 256.0, 1e-4) is None
    assert _linear(lambda u: [], 0, 256.0, 1e-4) is None


def test_clipping_is_an_error_unless_it_is_a_surrogate():
    clip = tf.custom_gradient(lambda x: (x + 0.0, lambda dy: tf.clip_by_norm(dy, 0.5)))
    assert cgviz.check(clip, [1.0, 2.0]).findings[0].rule == "upstream"
    assert cgviz.check(clip, [1.0, 2.0], surrogate=True).ok


def test_an_ignored_upstream_is_an_error_even_of_a_surrogate():
    f = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: tf.ones_like(x)))
    assert not cgviz.check(f, [1.2, 2.2], surrogate=True).ok


def test_variables_are_shuffled():
    w, b, c = (tf.Variable(float(i), name=n) for i, n in enumerate("wbc", 1))

    def make(by_position):
        @tf.custom_gradient
        def f(x):
            def grad(dy, variables=None):
                known = {w.ref(): dy * x, b.ref(): dy, c.ref(): 2.0 * dy}
                listed = [known[v.ref()] for v in variables]
                return dy * w, list(known.values()) if by_position else listed

            return w * x + b + 2.0 * c, grad

        return f

    assert cgviz.check(make(False), 3.0).ok
    for _ in range(4):  # TensorFlow lists them in the order of a set
        report = cgviz.check(make(True), 3.0, order=2)
        (found,) = report.findings
        assert found.rule == "variables"
        assert "handed over as b, w, c, it" in found.message
        skipped = [row.rule for row in report.rows if row.state == "skip"]
        assert skipped == ["second order", "graph"]
