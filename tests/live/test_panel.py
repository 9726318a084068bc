"""The side panel of each node: upstream x local = downstream, with this trace's numbers."""

import json
import re
from math import isfinite, isnan

import golden_programs
import numpy as np
import pytest
import tensorflow as tf
from awkward_rules import RULES

import cgviz
from cgviz.drawing import texts
from cgviz.graph.model import Step
from cgviz.graph.selection import select
from cgviz.live import panel


def panels_of(f, *args, local=True, **kwargs):
    trace = cgviz.trace(f, *args, **kwargs)
    return {each["title"]: each for each in panel.panels(trace, select(trace), local)}


def words(part):
    """The text of an element."""
    return part if isinstance(part, str) else "".join(map(words, part[2:]))


def parts(part, tag):
    """The elements of a tag in an element, such as "td"."""
    if isinstance(part, str):
        return []
    own = [part] if part[0].split(".")[0] == tag else []
    return own + [each for child in part[2:] for each in parts(child, tag)]


def said(panel_):
    """All that a panel says in elements."""
    return [words(each) for each in panel_["about"] + panel_["more"]]


def sums(panel_):
    """What came back to a node as a sum, such as "1 + 2 = 3"."""
    spans = [each for part in panel_["about"] for each in parts(part, "span")]
    gradients = [words(each) for each in spans if "backtext" in each[0]]
    return [text for text in gradients if {"=", "≈"} & {*text.split()}]


def equation(given):
    """The equation of an input in one line."""
    spans = [each for each in parts(given, "span") if {"sign", "big"} & {*each[0].split(".")}]
    return " ".join(map(words, spans))


def why(given):
    """Why what was returned to an input is not the product."""
    return "".join(words(each) for each in parts(given, "p") if each[0] == "p.why")


def table(given):
    """The numbers of a Jacobian that is shown: weights, rows, their names, and sums."""
    head, body, foot = (parts(given, tag)[0] for tag in ("thead", "tbody", "tfoot"))
    rows = [[words(cell) for cell in row[2:]] for row in body[2:]]
    return {
        "columns": [words(cell) for cell in head[2][5:]],
        "rows": [row[2] for row in rows],
        "weights": [row[0] for row in rows],
        "cells": [row[3:] for row in rows],
        "sums": [[words(cell) for cell in row[3:]] for row in foot[2:]],
    }


def test_a_scalar_rule_is_a_product_of_three_numbers():
    (given,) = panels_of(lambda x: tf.square(x), 3.0, upstream=5.0)["x²"]["inputs"]
    assert words(given) == "to x = 3, float32 scalarupstream5·local6=downstream30"
    assert equation(given) == "5 · 6 = 30"
    assert not why(given)


def test_a_small_jacobian_has_upstream_as_the_weights_of_its_rows():
    matrix = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def f(x):
        y = tf.linalg.matmul(matrix, x)
        return y

    given = panels_of(f, tf.ones([3, 1]), upstream=tf.constant([[1.0], [-1.0]]))["y"]["inputs"][0]
    product = table(given)
    assert product["weights"] == ["1", "−1"]
    assert product["cells"] == [["1", "2", "3"], ["4", "5", "6"]]
    assert product["sums"] == [["−3", "−3", "−3"]]
    assert product["rows"] == ["y[0, 0]", "y[1, 0]"]
    assert product["columns"] == ["x[0, 0]", "x[1, 0]", "x[2, 0]"]
    tones = [cell[1]["--cgviz-heat"] for cell in parts(given, "td") if cell[1]]
    assert (len(tones), tones[-1]) == (6, max(tones, key=lambda x: int(x[:-1])))


def test_an_infinite_entry_leaves_the_finite_ones_their_shares_of_the_largest():
    infinite, nan = float("inf"), float("nan")
    matrix = np.array([[infinite, 2.0], [-1.0, nan], [-infinite, 0.0]], np.float32)
    assert panel.heat(matrix) == [[1.0, 1.0], [-0.5, 0.0], [-1.0, 0.0]]
    assert panel.heat(np.array([[infinite, 0.0]])) == [[1.0, 0.0]]


def test_a_constant_that_is_written_in_its_op_is_not_told_of_again():
    (section,) = panels_of(lambda x: 3.0 * x, 2.0)["3 ×"]["inputs"]
    assert "constant" not in words(section)
    assert "None" not in words(section)


def test_a_fan_out_is_a_sum_of_parts():
    x = panels_of(lambda x: tf.sin(x) * x, 2.0)["x"]
    assert sums(x) == ["−0.8323 + 0.9093 = 0.077"]
    assert x["note"] == [[("upstream", "−0.8323 + 0.9093 = 0.077")]]
    assert "gradient −0.8323 + 0.9093 = 0.077" in said(x)


def test_an_op_whose_rule_returns_nothing_says_so_beside_it():
    assert panels_of(tf.round, 2.5)["round"]["note"] == [[("downstream", "returns nothing")]]


def test_a_sum_of_which_terms_are_known_is_said_to_be_incomplete():
    x = panels_of(lambda x: tf.sin(x) * x, 2.0)["x"]
    (_, gradient) = x["about"]
    (told,) = [each for each in parts(gradient, "span") if "since" in each[1]]
    assert told[1]["later"] == "not complete yet"


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
            for i, each in enumerate(panel.panels(trace, shown)):
                written = on_node.get(i, "Σ")
                if "Σ" not in written and "\n" not in written:
                    for line in sums(each):
                        assert line in written, (trace.title, i)
                        compared += 1
    assert compared > 3


def test_what_has_no_name_of_its_own_is_called_as_on_the_picture():
    panels = panels_of(lambda x: tf.sin(x * x) + 3.0 * (x * x), 2.0)
    names = [row[0].split(" = ")[0] for each in panels.values() for row in each["rows"]]
    names += [re.split(" gives | = ", each["ran"])[0] for each in panels.values()]
    assert {"x", "×", "sin", "3 ×", "+"} <= set(names)
    assert not {"Mul", "Sin", "AddV2"} & set(names)


def test_a_sum_without_paths_says_where_its_terms_are_from():
    x = panels_of(lambda x: tf.sin(x * x) + 3.0 * (x * x), 2.0, local=False)["x"]
    (terms,) = (each for part in x["about"] for each in parts(part, "ul"))
    assert all(words(term).endswith(" from × = 4") for term in terms[2:])
    assert len(terms[2:]) == 4


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
    note = {n["title"]: n for n in panel.panels(trace, select(trace))}["scaled (y)"]
    assert note["kind"] == "custom op"
    (body,) = (each for part in note["more"] for each in parts(part, "tbody"))
    rows = [[words(cell) for cell in row[2:]] for row in body[2:]]
    assert sorted(rows) == [["one", "10"], ["other", "20"]]
    (op,) = [op for op in trace.ops if op.kind == "custom"]
    assert [name for name, _ in rows] == list(op.rule_variables)
    assert any("backward rule line " in each for each in said(note))
    assert "".join(map(words, note["more"])).count("def grad") == 1


def test_the_equation_comes_before_where_the_code_is():
    note = panels_of(lambda x: tf.sin(tf.square(x)), 0.5)["x²"]
    assert [each.split()[0] for each in said(note)] == ["value", "upstream", "type"]
    assert "type Square" in words(note["more"][-1]), "which is below the equation"
    assert "your code line" in words(note["more"][-1])


def test_an_op_that_a_custom_rule_ran_is_called_so():
    @tf.custom_gradient
    def cube(x):
        return x**3, lambda upstream: upstream * 3.0 * x**2

    trace = cgviz.trace(lambda x: tf.square(cube(x)), 10.0, order=2)
    kinds = {n["title"]: n["kind"] for n in panel.panels(trace, select(trace, 1))}
    assert kinds["x²"] == kinds["× 3"] == "op that a custom rule ran"
    assert (kinds["× 2"], kinds["cube"]) == ("op", "custom op")


def test_a_rule_that_is_not_linear_says_what_the_product_would_be():
    @tf.custom_gradient
    def clipped(x):
        def grad(upstream):
            return tf.clip_by_value(upstream, -1.0, 1.0)

        return tf.identity(x), grad

    def f(x):
        y = clipped(x)
        return y

    panel = panels_of(f, 1.0, upstream=5.0)["clipped (y)"]
    (given,) = panel["inputs"]
    assert equation(given) == "5 · 1 = 5 ≠ 1"
    assert panel["rows"] == [("x = 1", "5", "1", "≠ 1")]  # nor does the table say 5 · 1 = 1
    assert why(given).endswith("upstream · local is 5: it is not linear in its upstream.")


@pytest.mark.parametrize("upstream", [0.0, 5.0])
def test_a_rule_that_adds_something_to_its_upstream_does_not_ignore_it(upstream):
    @tf.custom_gradient
    def decayed(w):
        return tf.identity(w), lambda upstream: upstream + 0.1 * w

    def f(w):
        y = decayed(w)
        return y

    (given,) = panels_of(f, 2.0, upstream=upstream)["decayed (y)"]["inputs"]
    assert why(given).endswith("it is not linear in its upstream.")


@pytest.mark.parametrize(
    ("upstream", "written"),
    [(8.0, "8 · 4 = 32 ≠ 4"), (0.0, "0 · 4 = 0 ≠ 4"), (3e38, "3e38 · 4 = 1.2e39 ≠ 4")],
)
def test_whatever_its_upstream_a_rule_that_ignores_it_says_so(upstream, written):
    @tf.custom_gradient
    def ignoring(x):
        return x * x, lambda upstream: 2.0 * x

    def f(x):
        y = ignoring(x)
        return y

    (given,) = panels_of(f, 2.0, upstream=upstream)["ignoring (y)"]["inputs"]
    assert equation(given) == written
    assert "it returns this for other upstreams, too, so it ignores its upstream" in why(given)


def test_a_number_that_its_dtype_cannot_hold_is_not_blamed_on_the_rule():
    found = panels_of(lambda x: x * 1e30, 1.0, upstream=1e30).values()
    (given,) = [x for each in found for x in each["inputs"] if why(x)]
    assert why(given) == "The rule returned ⚠ ∞, where upstream · local is 1e60."


def test_a_zero_where_the_product_is_nan_is_not_said_to_be_what_a_dtype_cannot_hold():
    found = panels_of(lambda x: tf.where(x > 0.0, tf.sqrt(x), 0.0), 0.0).values()
    told = [why(given) for each in found for given in each["inputs"] if why(given)]
    assert told == ["The rule returned 0, where upstream · local is ⚠ NaN."]


def test_a_zero_beside_a_local_that_is_nan_is_said_to_be_unequal_also_in_a_matrix():
    guarded = tf.custom_gradient(lambda x: (x, lambda u: tf.math.multiply_no_nan(0.0 / x, u)))
    found = panels_of(guarded, [0.0, 4.0], upstream=[0.0, 1.0]).values()
    told = [why(given) for each in found for given in each["inputs"] if why(given)]
    assert told == ["The rule returned [0, 0], where upstream · local is ⚠ [NaN, 0]."]


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
    product = table(custom["inputs"][0])
    assert product["weights"] == ["5", "2"]
    assert product["cells"] == [["1", "0"], ["0", "3"]]
    assert product["sums"] == [["5", "6"]]
    assert product["rows"] == ["first[0]", "second[0]"]  # `[0]` alone would be two rows of one name
    assert custom["rows"] == [("x = [2, 5]", "[5], [2]", "[[1, 0], [0, 3]]", "[5, 6]")]


def test_no_rule_runs_where_nothing_is_asked():
    note = panels_of(tf.sin, 1.0, local=False)["sin"]
    assert note["asked"] is False
    assert equation(note["inputs"][0]) == "1 · … = 0.5403"


def test_the_paths_to_all_nodes_are_counted_in_one_sweep(monkeypatch):
    def looked_at(count):
        def f(x):
            for _ in range(count):
                x = x + tf.sin(x)
            return x

        trace, seen, flows = cgviz.trace(f, 1.0), [], Step.flows
        with monkeypatch.context() as patch:
            patch.setattr(
                Step, "flows", property(lambda step: seen.append(step) or flows.fget(step))
            )
            panel.panels(trace, select(trace, full=True))
        return len(seen)

    assert looked_at(40) < 5 * looked_at(10)


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

    (given,) = panels_of(f, 2.0)["inner (z)"]["inputs"]
    assert equation(given) == "1 · … = 4"


def test_what_is_no_ordinary_number_has_a_sign():
    note = panels_of(lambda x: tf.sqrt(x) * 0.0, -1.0)["√x"]
    assert note["value"] == "⚠ NaN"


def test_none_says_so():
    given = panels_of(lambda x: x * tf.stop_gradient(x), 2.0)
    none = [words(each[-1]) for each in given["×"]["inputs"] if not equation(each)]
    assert none == ["∅ None: nothing flows back to stop_gradient."]


def test_a_large_jacobian_is_a_shape():
    found = panels_of(lambda x: tf.reduce_sum(x), tf.zeros([20])).values()
    (given,) = [x for each in found for x in each["inputs"]]
    assert equation(given).split(" · ")[1].startswith("[20]")
    assert not parts(given, "table")


def test_it_is_strict_json():
    json.dumps(list(panels_of(lambda x: 1.0 / x, 0.0).values()), allow_nan=False)


# --- what is printed is true ---------------------------------------------------------------------


def read(text):
    """A printed number, and how far it may be off: half of its fourth digit."""
    plain = re.sub("^⚠ ", "", text).replace("−", "-").replace("∞", "inf")
    try:
        x = float(plain)
    except ValueError:
        return None
    return x, abs(x) * 5e-4


def times(one, other):
    (a, da), (b, db) = one, other
    return a * b, abs(a) * db + abs(b) * da + da * db


def plus(*terms):
    return sum(x for x, _ in terms), sum(off for _, off in terms)


def agree(one, other):
    (a, da), (b, db) = one, other
    return a == b or (isnan(a) and isnan(b)) or (isfinite(a - b) and abs(a - b) <= da + db)


def holds(line):
    """Whether each `=` and each `≠` in a line is true; None where it is not of numbers."""
    *sides, last = re.split(" ?[=≠] ", line)
    sums = []
    for side in [*sides, last]:
        terms = [[read(x) for x in term.split(" · ")] for term in side.split(" + ")]
        if None in (x for term in terms for x in term):
            return None
        sums.append(plus(*(times(*x) if len(x) == 2 else x[0] for x in terms)))
    signs = re.findall("[=≠]", line)
    return all(agree(sums[n], sums[n + 1]) == (sign == "=") for n, sign in enumerate(signs))


def by_entry(line):
    """A sum of arrays as a line for each entry; none where not all entries are written out."""
    if not line or "norm" in line:
        return []
    *terms, total = re.split(" [+=] ", line.replace(" − ", " + −"))
    entries = [re.findall(r"[−\d.e∞]+|NaN", each) for each in (*terms, total)]
    assert len({len(each) for each in entries}) == 1, line
    return [f"{' + '.join(each)} = {last}" for *each, last in zip(*entries, strict=True)]


def test_the_judge_of_equations_can_tell_a_false_one():
    assert holds("1 · 2 = 2")
    assert holds("1 · 2 + 1 · 1 = 3")
    assert not holds("1 · 2 = 3")
    assert holds("1 · 2 = 2 ≠ 3")
    assert not holds("1 · 2 = 2 ≠ 2")
    assert holds("1 · [2×2] = 2") is None
    assert by_entry("[1, 2] + [−3, 5] = [−2, 7]") == ["1 + −3 = −2", "2 + 5 = 7"]
    assert by_entry("1 − 3 = −2") == ["1 + −3 = −2"]


def test_every_equation_that_is_printed_is_true():
    judged = 0
    for name, make in (golden_programs.PROGRAMS | RULES).items():
        trace = make()
        for which in range(len(trace.passes)):
            for each in panel.panels(trace, select(trace, which, True)):
                where = name, which, each["title"]
                for given in each["inputs"]:
                    if not parts(given, "table"):
                        if not equation(given):
                            continue
                        true = holds(equation(given))
                        assert true is not False, (*where, equation(given))
                        judged += true is True
                        continue
                    shown = table(given)
                    for *cells, total in zip(*shown["cells"], shown["sums"][0], strict=True):
                        products = map(times, map(read, shown["weights"]), map(read, cells))
                        assert agree(plus(*products), read(total)), (*where, cells, total)
                    totals = [list(map(read, numbers)) for numbers in shown["sums"]]
                    if len(totals) > 1:
                        assert not all(map(agree, *totals)), where
                    judged += 1
                for line in (entry for total in sums(each) for entry in by_entry(total)):
                    assert holds(line), (*where, line)
                    judged += 1
    assert judged > 150


def test_a_number_is_ringed_only_for_a_local_that_is_shown():
    """The local of y in 4 y is the constant 4; that of 4, which is y, belongs to no gradient."""
    by_constant, by_itself = (
        panels_of(lambda y: 4.0 * (y * y), 2.0),
        panels_of(lambda y: y * y, 2.0),
    )
    (times_four,) = (each for title, each in by_constant.items() if title == "4 ×")
    assert times_four["depends"] == [0]
    assert by_itself["×"]["depends"] == [0, 1]


def test_an_equals_sign_is_only_between_numbers_that_are_equal_as_printed():
    """1.333 times 1.701 is 2.267; the gradient, of which these are four digits, is 2.268."""
    cut = 0
    for each in panels_of(lambda x: (x * 1.7014) * 1.3333, 1.0).values():
        for row in each.get("note", []):
            kinds = dict(row)
            if "local" not in kinds:
                continue
            up, local, down = (float(kinds[k]) for k in ("upstream", "local", "downstream"))
            signs = [text for kind, text in row if kind == "times"]
            assert signs[-1] == ("=" if f"{up * local:.4g}" == f"{down:.4g}" else "≈")
            cut += signs[-1] == "≈"
    assert cut == 1


def test_an_equals_sign_is_only_before_the_sum_of_what_is_printed():
    """−0.41728 twice is −0.83454, and of what is printed −0.8346."""
    found = panels_of(lambda x: tf.exp(tf.sin(x * x)), 1.3)
    assert sums(found["x"]) == ["−0.4173 − 0.4173 ≈ −0.8345"]


def test_the_shape_of_a_local_does_not_pass_for_its_numbers():
    """Of a sum of two the local has shape [2]: [1, 1] x [2] = 2 would be a false equation."""
    found = panels_of(lambda x, b: tf.reduce_sum(x * b), 3.0, [1.0, -1.0])
    rows = [row for each in found.values() for row in each.get("note", [])]
    words = [text for row in rows for kind, text in row if kind == "local"]
    assert "local" in words
    assert not any(text.startswith("[") for text in words)


def test_a_sentence_says_which_of_two_ops_of_one_kind_gets_a_gradient():
    said = panels_of(lambda a, b, c: a * b + b * c, 2.0, 3.0, 5.0)["+"]["ruled"]
    assert said == "+ gets upstream 1 and returns 1 to the × that is 6 and 1 to the × that is 15."
    said = panels_of(lambda a, b, c: a * b + (b * c) ** 2, 2.0, 3.0, 5.0)["+"]["ruled"]
    assert said == "+ gets upstream 1 and returns 1 to × and 1 to ^ 2."


def test_an_op_without_a_name_is_not_named_by_its_value():
    panels = panels_of(lambda x: x * x + 3.0 * x, 2.0)
    assert [each["ran"] for each in panels.values()] == [
        "x = 2.",
        "× gives 4.",
        "3 × gives 6.",
        "+ gives 10.",
    ]


def often():
    """A weight at each of whose uses there is a node of its own; its gradient is in one of none."""
    w = tf.Variable(0.9, name="w")

    def f(x):
        for _ in range(8):
            x = tf.sin(x) * w
        return x

    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            y = f(tf.constant(1.0))
        tape.gradient(y, w)
    return trace


@pytest.mark.parametrize("program", [often, *golden_programs.PROGRAMS.values()])
def test_no_gradient_is_told_before_the_backward_pass(program):
    trace = program()
    for each in panel.panels(trace, select(trace)):
        assert each["kind"] == "port" or each["come"] >= texts.SEED, each["title"]


def test_a_custom_op_is_called_by_its_function_wherever_it_is_named():
    @tf.custom_gradient
    def polar(x, y):
        r, angle = tf.sqrt(x * x + y * y), tf.atan2(y, x)
        return (r, angle), lambda dr, da: (dr * x / r, dr * y / r)

    def f(x, y):
        r, angle = polar(x, y)
        return r + angle

    trace = cgviz.trace(f, 3.0, 4.0)
    shown = select(trace, 0)
    (found,) = [p for p in panel.panels(trace, shown) if p["kind"] == "custom op"]
    assert found["title"] == "polar (r, angle)"
    assert found["ran"].startswith("polar (r, angle) gives r = 5, ")
    assert found["ruled"].startswith("polar (r, angle) gets upstream 1, 1 and returns")
    assert "x (input) to r, angle (polar, custom): value 3," in texts.describe(shown)


def test_why_no_gradient_comes_is_said_with_it():
    def f(x, y):
        a = tf.stop_gradient(tf.sin(x))
        return a * x + tf.cast(tf.cast(2.0 * y, tf.int32), tf.float32)

    panels = panels_of(f, 2.0, 1.5)
    for title, why in (("sin", "stop_gradient"), ("a", "stop_gradient"), ("2 ×", "integer")):
        assert f"∅ None: ⊘ {why}" in str(panels[title]["about"]), title
        assert panels[title]["blocked"] == f", no gradient: {why}"
    assert "blocked" not in panels["+"]


def test_the_level_of_an_op_is_set_apart_from_its_name():
    trace = cgviz.trace(lambda x: tf.exp(x) * x, 0.5, order=2)
    said = [p["ran"] for p in panel.panels(trace, select(trace, 1)) if "ran" in p]
    assert any(x.startswith("in the inner backward pass, 1 × gives") for x in said)


def test_an_op_of_two_outputs_is_one_op_of_a_path():
    found = panel.panels(trace := golden_programs.PROGRAMS["two_outputs"](), select(trace))
    told = [
        words(part) for each in found for path in each.get("paths", ()) for part in path["words"]
    ]
    through = [each for each in told if "through" in each]
    assert through
    assert all(each.endswith("through ×, (first, second)") for each in through)
