"""A trace in a terminal: title, value, gradients and table."""

import re
import sys
import types

import numpy as np
import pytest
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


# --- layers --------------------------------------------------------------------------------------


def network(blocked=False):
    """Two layers in scopes and a loss, and what the tape says of them."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(8, 3)), tf.float32)
    w = tf.Variable(rng.normal(size=(3, 4)), dtype=tf.float32, name="w")
    b = tf.Variable(np.zeros(4), dtype=tf.float32, name="b")
    v = tf.Variable(rng.normal(size=(4, 1)), dtype=tf.float32, name="v")
    with cgviz.record() as trace:
        with tf.GradientTape(persistent=True) as tape:
            with tf.name_scope("net/hidden"):
                hidden = tf.nn.relu(x @ w + b)
            hidden = tf.stop_gradient(hidden) if blocked else hidden
            with tf.name_scope("net/out"):
                out = hidden @ v
            loss = tf.reduce_mean(tf.square(out))
        gradients = tape.gradient(loss, [w, b, v])
    by_hand = [] if blocked else tape.gradient(loss, [hidden, out])
    return trace, {"w": w, "b": b, "v": v}, (hidden, out), gradients, by_hand


def norm(tensor):
    return np.sqrt(np.sum(np.square(tensor.numpy().astype(np.float64))))


def by_layer(summary):
    return {row["layer"]: row for row in summary}


def test_norms_are_those_computed_by_hand_to_the_last_bit():
    trace, variables, outputs, gradients, by_hand = network()
    rows = by_layer(trace.summary())
    assert set(rows) == {"hidden", "out", "Square", "loss"}
    for name, value, gradient in zip(("hidden", "out"), outputs, by_hand, strict=True):
        assert rows[name]["value"] == norm(value)
        assert rows[name]["gradient"] == norm(gradient)
    found = {each["variable"]: each for row in rows.values() for each in row["variables"]}
    assert set(found) == {"w", "b", "v"}
    for (name, variable), gradient in zip(variables.items(), gradients, strict=True):
        assert found[name]["value"] == norm(variable)
        assert found[name]["gradient"] == norm(gradient)


def test_a_layer_counts_its_parameters_and_zeros():
    trace, _, (hidden, _), _, _ = network()
    row = by_layer(trace.summary())["hidden"]
    assert row["parameters"] == 16
    assert row["shape"] == (8, 4)
    assert row["zeros"] == np.mean(hidden.numpy() == 0)
    assert 0 < row["zeros"] < 1


def test_integers_have_a_norm_and_norms_are_called_so():
    def f(x):
        places = tf.cast(x, tf.int32) - 1
        return tf.reduce_sum(tf.gather(x, places) * tf.cast(places, tf.float32))

    summary = cgviz.trace(f, [3.0, 1.0, 2.0]).summary()
    assert by_layer(summary)["places"]["value"] == np.sqrt(5)
    assert re.search("value norm .*gradient norm ", repr(summary))
    assert ">gradient norm</th>" in summary._repr_html_()


def test_a_layer_whose_variables_got_no_gradient_comes_first():
    trace, *_ = network(blocked=True)
    summary = trace.summary()
    assert summary[0]["layer"] == "hidden"
    assert {each["variable"]: each["gradient"] for each in summary[0]["variables"]} == {
        "w": None,
        "b": None,
    }
    assert re.search(r"∅\s+hidden .* None$", repr(summary), flags=re.M)


def test_nan_comes_before_infinity_and_both_before_zero():
    def f(x, y, z):
        with tf.name_scope("dead"):
            a = tf.nn.relu(-x) * tf.nn.relu(-x)
        with tf.name_scope("pole"):
            b = 1.0 / y
        with tf.name_scope("root"):
            c = tf.sqrt(z)
        return tf.stack([a, b, c])

    order = [row["layer"] for row in cgviz.trace(f, 1.0, 0.0, -1.0).summary()]
    assert order.index("root") < order.index("pole") < order.index("dead")


def test_a_vanished_gradient_comes_before_the_usual_ones():
    def f(x):
        for name, scale in (("a", 1.0), ("b", 1.0), ("c", 1.0), ("steep", 1e6)):
            with tf.name_scope(name):
                x = x * scale
        return x

    summary = cgviz.trace(f, 1.0).summary()
    assert summary[0]["layer"] == "steep"  # 1 arrives there, and a million at the others
    bars = {line.split()[0]: line.count("█") for line in repr(summary).split("\n")[2:]}
    assert bars["steep"] < bars["a"] == bars["b"] == bars["c"]


def test_updates_have_a_column_only_where_the_recording_assigned():
    w = tf.Variable([3.0, 4.0], name="w")
    still, zero = tf.Variable(2.0, name="still"), tf.Variable(0.0, name="zero")

    def gradient():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(w) * still + zero
        return tape.gradient(y, w)

    with cgviz.record() as trace:
        gradient()
    assert "update" not in repr(trace.summary())
    with cgviz.record() as trace:
        w.assign_sub(0.25 * gradient())
        zero.assign(1.0)
    w.assign([0.0, 0.0])  # what comes after the recording is not in it
    assert "update/weight" in repr(trace.summary())
    rows = trace.summary().rows
    found = {row["variable"]: row["update"] for each in rows for row in each["variables"]}
    assert found == {"w": pytest.approx(0.5 * 2**0.5 / 5.0), "still": 0.0, "zero": None}


def test_all_outputs_of_an_op_count():
    def f(x):
        a, b = tf.split(x, 2)
        return tf.reduce_sum(b * b + 0.0 * a)

    (row,) = [r for r in cgviz.trace(f, [1.0, 2.0, 3.0, 4.0]).summary() if r["layer"] == "a, b"]
    assert (row["gradient"], row["zero_gradient"]) == (10.0, 0.5)  # [0, 0] and [6, 8]
    assert row["value"] == pytest.approx(30**0.5)


def test_an_update_is_that_after_the_pass():
    w = tf.Variable(8.0, name="w")
    with cgviz.record() as trace:
        for _ in range(3):
            with tf.GradientTape() as tape:
                y = w * w
            tape.gradient(y, w)
            w.assign_sub(0.5 * w - 1.0)  # 8, 5, 3.5, 2.75
    for which, update in enumerate((3 / 8, 1.5 / 5, 0.75 / 3.5)):
        (row,) = [v for each in trace.summary(which) for v in each["variables"]]
        assert row["update"] == pytest.approx(update)


def test_the_html_has_a_row_per_layer_and_opens_to_variables():
    trace, *_ = network()
    text = trace.summary()._repr_html_()
    assert text.count("<details>") == 2
    assert text.count('class="cgviz-variable"') == 3
    assert text.count('class="cgviz-bar"') == 4
    assert "<script" not in text


def test_what_a_layer_is_called_is_text():
    trace, *_ = network()
    rows = [dict(row) for row in trace.summary()]
    (layer,) = (row for row in rows if row["layer"] == "out")
    layer["layer"], layer["variables"][0]["variable"] = "<b>&", "<i>"
    text = summary.Summary("t", rows)._repr_html_()
    assert "<b>" not in text
    assert "<i>" not in text
    assert "&lt;b&gt;&amp;" in text


def test_a_trace_without_a_pass_has_a_summary_of_its_values():
    with cgviz.record() as trace:
        tf.square(tf.Variable([3.0, 4.0]))
    assert [(row["layer"], row["gradient"]) for row in trace.summary()] == [("Square", None)]


def test_a_data_frame_has_a_row_for_each_layer_and_variable(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=list))
    trace, *_ = network()
    rows = trace.summary().to_pandas()
    assert sorted((row["layer"], row["variable"]) for row in rows) == [
        *(("Square", ""), ("hidden", ""), ("hidden", "b"), ("hidden", "w")),
        *(("loss", ""), ("out", ""), ("out", "v")),
    ]
    assert list(rows[0]) == summary.COLUMNS.split()


def test_what_is_wrong_with_a_value_does_not_stand_for_the_size_of_the_gradient():
    def f(x):
        return tf.minimum(tf.exp(x), 5.0) * 3.0

    said = str(cgviz.trace(lambda x: tf.exp(x) * 2.0, 100.0).summary()).splitlines()[-2:]
    assert all(row.endswith("█ ∞ in value") for row in said)
    layers = cgviz.trace(f, 100.0).summary()
    assert str(layers).splitlines()[2].endswith("  ∞")  # its gradient is 0
    assert "█ ∞ in value" not in str(layers)


def test_a_variable_assigned_between_two_reads_has_one_gradient_and_each_value_its_own():
    w = tf.Variable(1.0, name="w")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            a = 2.0 * w + 3.0 * w
            w.assign(2.0)
            y = a + 5.0 * w
        assert tape.gradient(y, w).numpy() == 10.0
    assert [row["gradient"] for row in trace.summary() if row["layer"] == "w"] == [10.0]
    panels = trace.view().document["pages"][0]["panels"]
    (about,) = (str(panel["about"]) for panel in panels if panel["title"] == "w")
    assert "'2 + 3 = 5'" in about
    assert "'5'" in about
