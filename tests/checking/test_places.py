"""A gradient that is right in eager mode may fail elsewhere, and the report says where."""

import ast
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking import _reload


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


# --- a SavedModel in another process ----------------------------------------------------------


def test_a_saved_model_keeps_variables_structures_and_every_type():
    w = tf.Variable(2.0, name="w")

    def f(pair, half, label):
        x, z = pair
        return {"a": w * x, "b": tf.abs(z), "c": half * 2, "d": label}

    pair = (np.float32([1.0, 2.0]), np.complex64([1 + 2j]))
    half, label = tf.constant([0.5], tf.bfloat16), tf.constant("kept")
    report = cgviz.check(f, pair, half, label, where="saved")
    assert state(report, "saved") == "pass", report


# --- the script of that process ---------------------------------------------------------------


def found(folder, f, given, upstream, kept=()):
    """What `_reload` finds for f, saved in `folder`."""
    module = tf.Module()
    module.kept = list(kept)
    module.given = [tf.Variable(t, trainable=False) for t in given]
    signature = [tf.TensorSpec(t.shape, t.dtype) for t in given]
    module.call = tf.function(f, input_signature=signature)
    tf.saved_model.save(module, str(folder / "model"))
    np.save(folder / "upstream.npy", np.float64(upstream))
    _reload.main(folder)
    with np.load(folder / "found.npz") as arrays:
        return {name: arrays[name].tolist() for name in arrays.files}


@pytest.mark.parametrize(
    ("tensor", "numbers"),
    [
        (tf.constant(2.0), [2.0]),
        (tf.zeros((0, 3)), []),
        (tf.constant([[1.0], [2.0]], tf.bfloat16), [1.0, 2.0]),
        (tf.constant([[1 + 2j, 3 - 4j]]), [1.0, 3.0, 2.0, -4.0]),
        (tf.IndexedSlices(tf.constant([1.0, 2.0]), [1, 1], [3]), [0.0, 3.0, 0.0]),
        (tf.Variable([5.0]), [5.0]),
    ],
)
def test_a_tensor_is_a_vector_of_real_numbers(tensor, numbers):
    vector = _reload.vector(tensor)
    assert (vector.dtype, vector.tolist()) == (np.float64, numbers)


def test_value_and_gradients_take_their_parts_of_the_upstream_in_order(tmp_path):
    w = tf.Variable(3.0, name="w")

    def f(x, z):
        return [z * (2 + 1j), w * x, tf.reduce_sum(x)]

    x, z = tf.constant([1.0, 2.0]), tf.constant(1 + 1j, tf.complex64)
    assert found(tmp_path, f, [x, z], [1.0, 7.0, 10.0, 20.0, 5.0], [w]) == {
        "y": [1.0, 3.0, 3.0, 6.0, 3.0],
        "x0": [35.0, 65.0],  # 3 * [10, 20] + 5
        "x1": [9.0, 13.0],  # (1 + 7i) times the conjugate of 2 + i
        "v0": [50.0],  # 10 * 1 + 20 * 2
    }


def test_what_has_no_gradient_is_left_out(tmp_path):
    unread = tf.Variable(1.0)

    def f(x, index, label, other):
        return [label, tf.gather(x, index), index]

    given = [tf.constant([1.0, 2.0]), tf.constant(1), tf.constant("a"), tf.zeros((0,))]
    arrays = found(tmp_path, f, given, [4.0], [unread])
    assert arrays == {"y": [2.0], "x0": [0.0, 4.0]}


def test_a_value_without_floats_is_an_empty_vector(tmp_path):
    assert found(tmp_path, lambda index: [index], [tf.constant(1)], []) == {"y": []}


def test_it_imports_nothing_that_could_help_the_model_along():
    tree = ast.parse(Path(_reload.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"os", "sys", "pathlib", "numpy", "tensorflow"}
