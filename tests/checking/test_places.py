"""A gradient that is right in eager mode may fail elsewhere, and the report says where."""

import ast
import inspect
import linecache
import re

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking import checker
from cgviz.checking.checker import reload


def state(report, rule):
    return next(row.state for row in report.rows if row.rule == rule)


def test_another_answer_in_a_graph_is_an_error():
    report = cgviz.check(lambda x: x * (2.0 if tf.executing_eagerly() else 3.0), 1.0)
    (found,) = [f for f in report.findings if f.level == "error"]
    assert (found.rule, found.message) == ("graph", "out is 3 there, and 2 in eager mode.")


THIRD = tf.constant(1 / 3)
CANCELS = {  # a graph multiplies the two constants, and is off by other last bits
    "entries": lambda x: x * THIRD * 3.0 - x,
    "a sum": lambda x: tf.reduce_sum(x * THIRD * 3.0 - x),
}


@pytest.mark.parametrize("name", CANCELS)
def test_what_rounding_leaves_where_all_cancels_is_no_difference(name):
    x = np.random.RandomState(0).normal(size=(5, 3)).astype(np.float32)
    assert state(cgviz.check(CANCELS[name], x), "graph") == "pass"


ELSEWHERE = {  # an f that is another in a graph, where numbers are small, cancel, jump or are large
    "small": lambda x, k: 1e-6 * k * x,
    "cancels": lambda x, k: x * THIRD * 3.0 - x + 1e-4 * k,
    "a root": lambda x, k: tf.sqrt((x * THIRD * 3.0 - x) ** 2 + 1e-8 * k),
    "beside 1": lambda x, k: (1.0 + 1e-5 * k * x) - 1.0,
    "jumps": lambda x, k: k * tf.floor(x),
    "beside a mask": lambda x, k: k * x * tf.nn.softmax([1.0, -1e9])[0],
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_rounding_excuses_no_other_value_in_a_graph(name):
    f = ELSEWHERE[name]
    report = cgviz.check(lambda x: f(x, 1.0 if tf.executing_eagerly() else 2.0), tf.constant([3.0]))
    assert state(report, "graph") == "fail"


def test_another_gradient_in_a_graph_is_seen_beside_a_large_one_for_another_input():
    @tf.custom_gradient
    def affine(x, b):
        def grad(dy):
            return dy * 2e5, dy if tf.executing_eagerly() else -7.0 * dy

        return 2e5 * x + b, grad

    (found,) = cgviz.check(affine, 0.01, 1.0).findings
    assert found.message == "the gradient for b is −7 there, and 1 in eager mode."


def test_random_numbers_that_a_graph_would_draw_only_once_are_an_error_there():
    report = cgviz.check(lambda x: x * np.random.uniform(0.5, 1.5, 5).astype("f"), tf.ones(5))
    (found,) = report.findings
    assert (found.rule, "once, while it is traced" in found.message) == ("graph", True)
    assert state(cgviz.check(lambda x: tf.nn.dropout(x, 0.5), tf.ones(5)), "graph") == "pass"


def test_a_rule_in_one_branch_of_a_condition_runs_in_a_graph():
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * dy * x))

    def f(x):
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: square(x), lambda: x)

    assert state(cgviz.check(f, [1.0, 2.0]), "graph") == "pass"


def test_a_python_number_that_a_graph_makes_a_float32_tensor_is_told():
    scale = tf.custom_gradient(lambda x, a: (x * a, lambda dy: (dy * a, None)))
    (found,) = cgviz.check(lambda x: scale(x, 0.3), np.float64([1.0, 2.0])).findings
    assert (found.rule, "close over it" in found.hint) == ("graph", True)
    assert cgviz.check(lambda x: scale(x, tf.constant(0.3, x.dtype)), np.float64([1.0])).ok


def in_a_graph(x, then):
    return x if tf.executing_eagerly() else then(x)


@tf.custom_gradient
def numpy_in_the_rule(x):
    def grad(dy):
        return in_a_graph(dy, lambda dy: dy.numpy())

    return tf.identity(x), grad


@pytest.mark.parametrize(
    ("f", "line", "hint"),
    [
        (lambda x: in_a_graph(x, lambda x: x @ x), "x @ x", ""),  # run as a copy
        (lambda x: in_a_graph(x, lambda x: x * float(f"{x:.2f}")), "{x:.2f}", ""),
        (numpy_in_the_rule, "dy.numpy()", "tf.numpy_function"),
    ],
    ids=["f", "its text", "rule"],
)
def test_what_a_graph_raises_is_told_with_its_line_and_no_hint_that_does_not_fit(f, line, hint):
    (found,) = cgviz.check(f, [1.0, 2.0]).findings
    number, text = re.search(r" \(line (\d+): `(.*)`\)\.\Z", found.message).groups()
    assert line in text
    assert linecache.getline(__file__, int(number)).strip().startswith(text.rstrip("…"))
    assert hint in found.hint
    assert not re.search("state, prints|norm of a 0|Python number", found.hint)


def test_a_shape_that_a_graph_does_not_take_for_that_of_slices_is_told():
    table, ids = tf.Variable(tf.ones([4, 2]), name="table"), tf.constant([0, 2, 2])

    @tf.custom_gradient
    def looked_up(scale):
        rows = tf.gather(table.read_value(), ids)

        def grad(dy, variables=None):
            slices = tf.IndexedSlices(dy * scale, ids, table.shape)
            return tf.reduce_sum(dy * rows, 0), [slices]

        return rows * scale, grad

    (found,) = cgviz.check(looked_up, [1.0, 2.0]).findings
    assert (found.rule, "dense_shape=tf.shape(x)" in found.hint) == ("graph", True)


@pytest.mark.parametrize(
    ("where", "level"), [("xla", "error"), (["xla"], "error"), (("graph", "xla"), "warning")]
)
def test_what_xla_cannot_compile_is_an_error_only_if_no_other_place_was_asked_for(where, level):
    def f(x):
        return tf.ensure_shape(tf.numpy_function(lambda x: x, [x], tf.float32), []) * 0.0 + x

    report = cgviz.check(f, 1.0, where=where)
    assert [(found.rule, found.level) for found in report.findings] == [("xla", level)]


def test_only_the_places_that_were_asked_for_are_judged():
    report = cgviz.check(tf.sin, 1.0, where="graph")
    assert state(report, "graph") == "pass"
    assert not {"xla", "saved"} & {row.rule for row in report.rows}
    assert 'not run: where=("xla", "saved")' in report.notes


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


@pytest.mark.usefixtures("forks")
def test_a_saved_model_keeps_a_number_that_only_the_rule_reads():
    gain = tf.Variable(0.5, trainable=False, name="gain")

    @tf.custom_gradient
    def quarters(y):
        return tf.round(4.0 * y) / 4.0, lambda upstream: upstream * gain

    report = cgviz.check(quarters, 0.3, surrogate=True, where="saved")
    assert state(report, "saved") == "pass", report


@pytest.mark.usefixtures("forks")
def test_a_saved_model_starts_from_the_state_that_f_started_from():
    count = tf.Variable(1.0, trainable=False, name="count")

    def annealed(x):
        count.assign_add(1.0)
        return x * x / count

    report = cgviz.check(annealed, 3.0, where="saved")
    assert state(report, "saved") == "pass", report


@tf.custom_gradient
def rounded(x):
    return tf.round(x), lambda upstream: upstream


class Rounded(tf.Module):
    """Straight through, whose rule is a file's only if it is saved with it."""

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def __call__(self, x):
        return rounded(x)


def test_a_model_that_was_loaded_is_not_called_right_in_the_process_that_has_its_rules(tmp_path):
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(Rounded(), str(tmp_path), options=options)
    loaded = tf.saved_model.load(str(tmp_path))
    for f in (loaded, loaded.__call__):
        report = cgviz.check(f, [1.2, 2.3], surrogate=True, where="saved")
        assert state(report, "saved") == "skip", report
    assert "check it in a fresh process" in str(report)


# --- what runs in that process -----------------------------------------------------------------


def found(folder, f, leaves, upstream):
    """What `reload` finds for f, saved in `folder`: values, then gradients."""
    module = tf.Module()
    module.leaves = [
        leaf if isinstance(leaf, tf.Variable) else tf.Variable(leaf) for leaf in leaves
    ]
    module.upstream = [tf.Variable(u) for u in upstream]
    signature = [tf.TensorSpec(t.shape, t.dtype) for t in leaves]
    module.call = tf.function(f, input_signature=signature)
    tf.saved_model.save(module, str(folder / "model"))
    reload(str(folder))
    with np.load(folder / "found.npz") as arrays:
        return [arrays[name].tolist() for name in arrays.files]


def test_each_value_takes_its_upstream_and_each_input_gets_its_gradient(tmp_path):
    w = tf.Variable(3.0, name="w")

    def f(x, z, scale):
        return [z * (2 + 1j), w * x, tf.reduce_sum(x)]

    x, z = tf.constant([1.0, 2.0]), tf.constant(1 + 1j, tf.complex64)
    upstream = [tf.constant(1 + 7j, tf.complex64), [10.0, 20.0], 5.0]
    assert found(tmp_path, f, [x, z, w], upstream) == [
        *(1 + 3j, [3.0, 6.0], 3.0),
        [35.0, 65.0],  # x: 3 * [10, 20] + 5
        9 + 13j,  # z: 1 + 7i times the conjugate of 2 + i
        50.0,  # w: 10 * 1 + 20 * 2
    ]


def test_rows_that_were_looked_up_and_what_is_not_used_have_a_gradient_of_their_shape(tmp_path):
    table, unread = tf.constant([[1.0], [2.0], [3.0]]), tf.Variable([1.0, 1.0])

    def f(table, unused):
        return [tf.gather(table, [1, 1])]

    half = tf.constant([[1.0], [2.0]])
    assert found(tmp_path, f, [table, unread], [half]) == [
        [[2.0], [2.0]],
        [[0.0], [3.0], [0.0]],
        [0.0, 0.0],
    ]


def test_a_type_that_numpy_cannot_save_is_kept(tmp_path):
    x, u = tf.constant([1.5], tf.bfloat16), tf.constant([2.0], tf.bfloat16)
    assert found(tmp_path, lambda x: [3 * x], [x], [u]) == [[4.5], [6.0]]


def test_it_imports_nothing_that_could_help_the_model_along():
    source = inspect.getsource(reload)
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"os", "numpy", "tensorflow"}
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert not names & set(vars(checker)) - {"np", "tf"}, "it runs from its own text"


def test_rounding_of_one_output_excuses_no_other_value_of_another_in_a_graph():
    def f(x):
        return tf.sin(1e4 * x), x if tf.executing_eagerly() else 1.01 * x

    assert not cgviz.check(f, tf.constant([1.0])).ok
