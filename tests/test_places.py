"""A gradient that is right in eager mode may fail elsewhere, and the report says where."""

import tensorflow as tf

import cgviz


def state(report, rule):
    return next(row.state for row in report.rows if row.rule == rule)


def test_another_answer_in_a_graph_is_an_error():
    report = cgviz.check(lambda x: x * (2.0 if tf.executing_eagerly() else 3.0), 1.0)
    (found,) = [f for f in report.findings if f.level == "error"]
    assert (found.rule, found.message) == ("graph", "out is 3 there, and 2 in eager mode.")


def test_a_python_function_cannot_be_compiled():
    def f(x):
        return tf.ensure_shape(tf.numpy_function(lambda x: x, [x], tf.float32), []) * 0.0 + x

    report = cgviz.check(f, 1.0, where="xla")
    assert state(report, "xla") == "warn"


def test_forward_mode_that_ignores_the_rule_is_a_warning():
    leaky = tf.custom_gradient(
        lambda x: (tf.nn.relu(x), lambda dy: dy * tf.where(x > 0.0, 1.0, 0.01))
    )
    report = cgviz.check(leaky, [-1.0, 2.0], where="forward", surrogate=True)
    assert state(report, "forward mode") == "warn"
    assert report.ok
    assert state(cgviz.check(tf.sin, [-1.0, 2.0], where="forward"), "forward mode") == "pass"


def test_numpy_in_a_rule_fails_in_jacobian():
    @tf.custom_gradient
    def f(x):
        return tf.sin(x), lambda dy: tf.constant(dy.numpy()) * tf.cos(x)

    report = cgviz.check(f, [1.0, 2.0], where="eager")
    assert state(report, "vectorised") == "warn"


def test_badges_stand_for_the_places_asked_for():
    report = cgviz.check(tf.sin, 1.0, where="graph")
    assert [(p.rule, p.state) for p in report.places] == [("graph", "pass")]
    assert 'not run: where=("xla", "saved", "forward")' in report.notes
