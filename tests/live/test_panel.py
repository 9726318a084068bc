"""The side panel of each node: upstream x local = downstream, with this trace's numbers."""

import json

import golden_programs
import tensorflow as tf

import cgviz
from cgviz import style
from cgviz.drawing import texts
from cgviz.graph.selection import select
from cgviz.live import panel


def panels_of(f, *args, ask=panel.small, **kwargs):
    trace = cgviz.trace(f, *args, **kwargs)
    return {each["title"]: each for each in panel.panels(trace, select(trace), ask)}


def test_a_scalar_rule_is_a_product_of_three_numbers():
    (given,) = panels_of(lambda x: tf.square(x), 3.0, upstream=5.0)["x²"]["inputs"]
    assert given["products"] == [{"upstream": "5", "local": "6"}]
    assert given["downstream"] == "30"
    assert given["other"] == ""


def test_a_small_jacobian_has_upstream_as_the_weights_of_its_rows():
    matrix = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def f(x):
        y = tf.linalg.matmul(matrix, x)
        return y

    (product,) = panels_of(f, tf.ones([3, 1]), upstream=tf.constant([[1.0], [-1.0]]))["y"][
        "inputs"
    ][1]["products"]
    assert product["weights"] == ["1", "−1"]
    assert product["cells"] == [["1", "2", "3"], ["4", "5", "6"]]
    assert product["sum"] == ["−3", "−3", "−3"]
    assert product["rows"] == ["y[0, 0]", "y[1, 0]"]
    assert product["columns"] == ["x[0, 0]", "x[1, 0]", "x[2, 0]"]
    assert product["heat"][1][2] == 1.0


def test_a_fan_out_is_a_sum_of_parts():
    (x,) = panels_of(lambda x: tf.sin(x) * x, 2.0)["x"]["outputs"]
    assert [gradient for _, gradient in x["parts"]] == ["−0.8323", "0.9093"]
    assert x["upstream"] == "0.077"


def test_terms_of_a_sum_are_in_the_order_in_which_the_node_has_them():
    compared = 0
    for make in golden_programs.PROGRAMS.values():
        trace = make()
        for which in range(len(trace.passes)):
            shown = select(trace, which)
            on_node = {
                each.i: each.versions[-1][1]
                for each in texts.written(shown)
                if (each.of, each.role) == ("node", "gradient")
            }
            for i, each in enumerate(panel.panels(trace, shown, panel.small)):
                for output in each["outputs"]:
                    terms = [given for _, given in output.get("parts", [])]
                    said = " + ".join(terms).replace(f"+ {style.MINUS}", f"{style.MINUS} ")
                    written = on_node.get(i, "Σ")
                    if len(terms) > 1 and "Σ" not in written and "\n" not in written:
                        assert f"{said} =" in written, (trace.title, i)
                        compared += 1
    assert compared > 3


def test_what_has_no_name_of_its_own_is_called_as_on_the_picture():
    panels = panels_of(lambda x: tf.sin(x * x) + 3.0 * (x * x), 2.0)
    names = [x["name"] for each in panels.values() for x in each["inputs"] + each["outputs"]]
    assert {"x", "×", "sin", "3 ×", "+"} <= set(names)
    assert not {"Mul", "Sin", "AddV2"} & set(names)
    assert [words for words, _ in panels["x"]["outputs"][0]["parts"]] == ["from × = 4"] * 4


def test_a_custom_op_lists_its_variables_in_the_order_of_tensorflow():
    one, other = tf.Variable(2.0, name="one"), tf.Variable(3.0, name="other")

    @tf.custom_gradient
    def scaled(x):
        def grad(upstream, variables=None):
            values = {"one": 10.0, "other": 20.0}
            named = [upstream * values[v.name.split(":")[0]] for v in variables]
            return upstream * one * other, named

        return x * one * other, grad

    def f(x):
        y = scaled(x)
        return y

    trace = cgviz.trace(f, 1.0)
    note = {n["title"]: n for n in panel.panels(trace, select(trace), panel.small)}["y"]
    assert note["kind"] == "custom op"
    assert sorted(note["variables"]) == [("one", "10"), ("other", "20")]
    (op,) = [op for op in trace.ops if op.kind == "custom"]
    assert [name for name, _ in note["variables"]] == list(op.rule_variables)
    assert dict(note["facts"])["backward rule"].startswith("line ")


def test_a_rule_that_is_not_linear_says_what_the_product_would_be():
    @tf.custom_gradient
    def clipped(x):
        def grad(upstream):
            return tf.clip_by_value(upstream, -1.0, 1.0)

        return tf.identity(x), grad

    def f(x):
        y = clipped(x)
        return y

    (given,) = panels_of(f, 1.0, upstream=5.0)["y"]["inputs"]
    assert (given["downstream"], given["other"]) == ("1", "5")
    assert given["why"].endswith("upstream × local is 5: it is not linear in its upstream.")


def test_a_rule_that_ignores_its_upstream_says_so():
    @tf.custom_gradient
    def ignoring(x):
        return x * x, lambda upstream: 2.0 * x

    def f(x):
        y = ignoring(x)
        return y

    (given,) = panels_of(f, 2.0, upstream=8.0)["y"]["inputs"]
    assert (given["downstream"], given["other"]) == ("4", "32")
    assert "so it ignores its upstream" in given["why"]


def test_a_number_that_its_dtype_cannot_hold_is_not_blamed_on_the_rule():
    found = panels_of(lambda x: x * 1e30, 1.0, upstream=1e30).values()
    (given,) = [x for each in found for x in each["inputs"] if x["flows"] and x["why"]]
    assert given["why"].endswith("which float32 cannot hold.")


def test_the_matrices_of_two_outputs_are_one_sum():
    @tf.custom_gradient
    def halves(x):
        def grad(first, second):
            return tf.concat([first, 3.0 * second], 0)

        return (x[:1], x[1:]), grad

    def f(x):
        first, second = halves(x)
        return first * second

    (custom,) = [p for p in panels_of(f, [2.0, 5.0]).values() if p["kind"] == "custom op"]
    (product,) = custom["inputs"][0]["products"]
    assert product["weights"] == ["5", "2"]
    assert product["cells"] == [["1", "0"], ["0", "3"]]
    assert product["sum"] == ["5", "6"]


def test_no_rule_runs_where_nothing_is_asked():
    note = panels_of(tf.sin, 1.0, ask=lambda step: False)["sin"]
    assert note["asked"] is False
    assert note["inputs"][0]["products"] == []
    assert note["inputs"][0]["downstream"] == "0.5403"


def test_what_cannot_run_again_has_no_local():
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x

        @tf.custom_gradient
        def inner(x):
            return tf.identity(y), lambda upstream: upstream * tape.gradient(y, x)

        z = inner(x)
        return z

    (given,) = panels_of(f, 2.0)["z"]["inputs"]
    assert given["products"] == []
    assert given["downstream"] == "4"


def test_what_is_no_ordinary_number_has_a_sign():
    note = panels_of(lambda x: tf.sqrt(x) * 0.0, -1.0)["√x"]
    assert note["outputs"][0]["value"] == "⚠ NaN"


def test_none_says_so():
    given = panels_of(lambda x: x * tf.stop_gradient(x), 2.0)
    flows = {i["name"]: i["flows"] for i in given["×"]["inputs"]}
    assert set(flows.values()) == {True, False}


def test_a_large_jacobian_is_a_shape():
    (given,) = panels_of(lambda x: tf.sin(x), tf.zeros([20]), ask=lambda step: True)["sin"][
        "inputs"
    ]
    assert given["products"][0]["local"].startswith("[20×20]")
    assert "cells" not in given["products"][0]


def test_it_is_strict_json():
    json.dumps(list(panels_of(lambda x: 1.0 / x, 0.0).values()), allow_nan=False)
