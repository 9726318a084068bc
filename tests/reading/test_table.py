"""The backward table: as rows, as text and as HTML."""

import re
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest
import tensorflow as tf
from programs import once, square, thrice

import cgviz
from cgviz.reading.table import HEAD


def counted():
    """A custom square and the list of the upstreams that its rule was run with."""
    runs = []

    @tf.custom_gradient
    def f(x):
        def grad(upstream):
            runs.append(upstream)
            return upstream * 2 * x

        return x * x, grad

    return f, runs


def numbers(table):
    return [(r["input"], r["upstream"], r["local"], r["downstream"]) for r in table]


def test_three_custom_squares_at_two():
    table = cgviz.trace(lambda x: square(square(square(x))), 2.0).table()
    assert numbers(table) == [(16, 1, 32, 32), (4, 32, 8, 256), (2, 256, 4, 1024)]


def test_a_row_is_a_mapping_of_all_columns():
    (row,) = cgviz.trace(square, 3.0).table()
    assert row.get("nothing", 7) == 7
    assert row == {
        "step": 1,
        "op": "square",
        "type": "square",
        "kind": "custom",
        "input": 3.0,
        "upstream": 1.0,
        "local": 6.0,
        "downstream": 6.0,
        "source": row["source"],
    }
    assert repr(row) == repr(dict(row))
    with pytest.raises(TypeError):
        row["upstream"] = 2.0


def test_several_inputs_and_outputs_are_tuples():
    @tf.custom_gradient
    def two(x, y):
        return (x * y, y * y), lambda u, v: (u * y, u * x + v * 2 * y)

    rows = cgviz.trace(lambda x, y: tf.add(*two(x, y)), 2.0, 3.0).table()
    assert rows[1]["input"] == (2.0, 3.0)
    assert rows[1]["upstream"] == (1.0, 1.0)
    assert rows[1]["local"] == ((3.0, 2.0), (0.0, 6.0))
    assert rows[1]["downstream"] == (3.0, 8.0)


def test_what_does_not_flow_is_none():
    (row,) = cgviz.trace(tf.round, 2.0).table()
    assert (row["upstream"], row["local"], row["downstream"]) == (1.0, None, None)


def test_arrays_stay_arrays():
    (row,) = cgviz.trace(square, [1.0, 2.0]).table()
    np.testing.assert_array_equal(row["local"], np.diag([2.0, 4.0]))


def test_no_rule_runs_before_a_local_is_read():
    f, runs = counted()
    table = cgviz.trace(lambda x: f(f(x)), 2.0).table()
    del runs[:]
    for row in table:
        _ = row["upstream"], row["downstream"], row["op"], len(row)
    assert runs == []
    assert table[0]["local"] == 8.0
    assert len(runs) == 2  # as in its pass, and with upstream 1


def test_the_rows_come_in_the_order_the_steps_ran():
    trace = cgviz.trace(lambda x: tf.sin(tf.exp(x)), 0.5)
    assert [r["type"] for r in trace.table()] == [s.op.type for s in trace.steps] == ["Sin", "Exp"]


def test_a_table_can_be_cut():
    table = cgviz.trace(lambda x: square(square(square(x))), 2.0).table()
    assert [r["step"] for r in table[1:]] == [2, 3]
    assert table[-1]["upstream"] == 256
    with pytest.raises(IndexError):
        table[3]


def test_identities_are_folded_unless_all_is_asked_for():
    trace = cgviz.trace(lambda x: tf.identity(x * x), 3.0)
    assert [r["type"] for r in trace.table()] == ["Mul"]
    assert [r["type"] for r in trace.table(full=True)] == ["Identity", "Mul"]
    assert [r["step"] for r in trace.table()] == [2]  # its number in the pass, as in the picture


def test_the_second_pass_has_its_own_table():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    assert len(trace.table(1)) > 1
    with pytest.raises(ValueError, match="`which` is 2"):
        trace.table(2)


def test_a_trace_without_a_backward_pass_has_no_table():
    with cgviz.record() as trace:
        tf.square(2.0)
    with pytest.raises(ValueError, match="no backward pass"):
        trace.table()


def test_a_row_whose_rule_cannot_run_again_says_so_when_its_local_is_read():
    runs = []

    @tf.custom_gradient
    def once(x):
        def grad(upstream):
            if runs:
                raise ValueError("once only")
            runs.append(upstream)
            return upstream

        return x + 0.0, grad

    (row,) = cgviz.trace(once, 1.0).table()
    assert row["downstream"] == 1.0
    with pytest.raises(RuntimeError, match="once only"):
        row["local"]


class Frame(list):
    """Stands for a pandas DataFrame: the rows it was made of."""


def with_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=Frame))


def test_the_tidy_table_has_a_row_for_each_step_and_input(monkeypatch):
    with_pandas(monkeypatch)
    x, y = np.array([3.0, -4.0], "f"), np.array([1.0, 2.0], "f")
    frame = cgviz.trace(lambda x, y: tf.reduce_sum(x * y), x, y).table().to_pandas()
    assert [(r["step"], r["op"], r["input"]) for r in frame] == [
        (1, "Sum", "Mul"),
        (2, "Mul", "x"),
        (2, "Mul", "y"),
    ]
    by_x = frame[1]
    assert (by_x["value_shape"], by_x["value_norm"]) == ((2,), 5.0)
    assert (by_x["value_min"], by_x["value_max"]) == (-4.0, 3.0)
    assert (by_x["upstream_norm"], by_x["downstream_norm"]) == (np.sqrt(2.0), np.sqrt(5.0))
    assert (by_x["downstream_min"], by_x["downstream_max"]) == (1.0, 2.0)


def test_what_does_not_flow_has_no_norm_in_the_tidy_table(monkeypatch):
    with_pandas(monkeypatch)
    (row,) = cgviz.trace(tf.round, 2.0).table().to_pandas()
    assert row["upstream_norm"] == 1.0
    assert row["downstream_norm"] is row["downstream_shape"] is None


def test_without_pandas_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    trace = cgviz.trace(square, 2.0)
    for shown in (trace.table(), trace.summary()):
        with pytest.raises(ImportError, match="`to_pandas` needs pandas, and it is not installed"):
            shown.to_pandas()


# --- which steps ---------------------------------------------------------------------------------


def scaled(x):
    return tf.identity(tf.reshape(x * 3.0, [2]))


def test_all_steps_are_listed_in_full_in_the_order_they_ran():
    trace = cgviz.trace(scaled, [1.0, 2.0])
    table = trace.table(full=True)
    assert [row["step"] for row in table] == [1, 2, 3]
    assert [row.step for row in table] == list(trace.steps)


def test_what_a_picture_folds_away_keeps_its_number():
    trace = cgviz.trace(scaled, [1.0, 2.0])
    table = trace.table()
    assert 0 < len(table) < 3
    for row in table:
        assert trace.steps[row["step"] - 1] is row.step


def test_a_pass_is_chosen_by_its_number():
    trace = cgviz.trace(lambda x: x * x, 3.0, order=2)
    assert trace.table().pass_ is trace.passes[0]
    assert trace.table(1).pass_ is trace.passes[1]
    with pytest.raises(ValueError, match="`which` is 2"):
        trace.table(2)


# --- text ----------------------------------------------------------------------------------------


def cells(f, *args, full=False, **options):
    """The lines of a table: per line its cells, by column."""
    head, *lines = repr(cgviz.trace(f, *args, **options).table(full=full)).split("\n")
    at = [head.index(name) for name in HEAD] + [None]
    return [
        {name: line[a:b].strip() for name, a, b in zip(HEAD, at, at[1:], strict=False)}
        for line in lines
    ]


def numbers_of(line):
    return line["input"], line["local"], line["downstream"]


def test_each_input_has_its_value_its_local_and_its_downstream():
    rows = cells(lambda x, y: x * y, 2.0, 3.0)
    assert list(map(numbers_of, rows)) == [("x = 2", "3", "3"), ("y = 3", "2", "2")]
    assert [row["upstream"] for row in rows] == ["1", ""]


def test_several_outputs_stand_in_one_cell():
    @tf.custom_gradient
    def two(x):
        return (x * 2.0, x * 3.0), lambda u, v: u * 2 + v * 3

    row = cells(lambda x: tf.add(*two(x)), 1.0)[-1]
    assert row["type"] == "two (custom)"
    assert row["upstream"] == "1, 1"
    assert numbers_of(row) == ("x = 1", "2, 3", "5")


def test_constants_are_left_out_unless_all_is_asked_for():
    (row,) = cells(lambda x: 3.0 * x, 2.0)
    assert row["input"] == "x = 2"
    assert len(cells(lambda x: 3.0 * x, 2.0, full=True)) == 2


def test_an_input_that_gets_nothing_is_shown_with_none():
    row = cells(lambda x, y: tf.round(x) * y, 2.0, 3.0)[-1]
    assert numbers_of(row) == ("x = 2", "None", "None")


def test_a_diagonal_jacobian_is_written_by_its_diagonal():
    (row,) = cells(tf.square, [1.0, 2.0, 3.0])
    assert row["local"] == "diag(2, 4, 6)"


def test_a_jacobian_of_zeros_is_no_diagonal():
    (row,) = cells(tf.square, [0.0, 0.0])
    assert row["local"] == "[[0, 0], [0, 0]]"


def test_a_nan_off_the_diagonal_is_seen():
    (row,) = cells(tf.custom_gradient(lambda x: (tf.math.log(x), lambda dy: dy / x)), [0.0, 1.0])
    assert row["local"] == "[[∞, 0], [NaN, 1]]"
    (row,) = cells(tf.math.log, [0.0, 1.0])  # of which it is known that it works by entries
    assert row["local"] == "diag(∞, 1)"


def test_the_jacobian_of_a_matrix_has_a_row_per_entry_of_the_output():
    w = np.array([[1.0, 2.0], [3.0, 4.0]], "f")
    row = next(r for r in cells(lambda x: x @ w, [[1.0, 1.0]]) if r["type"] == "MatMul")
    assert row["local"] == "[[1, 3], [2, 4]]"


def test_a_larger_jacobian_is_its_shape_which_says_so_and_no_rule_runs_for_it():
    (row,) = cells(tf.sin, np.ones(5, "f"))
    assert row["local"] == "shape [5×5]"  # of a sum, [5] alone would be read as its number


def test_a_local_that_cannot_be_had_is_not_known():
    (row,) = cells(once(), 1.0)
    assert numbers_of(row) == ("x = 1", "not known", "1")


def test_empty_and_complex_and_nan_tensors_have_words():
    (row,) = cells(tf.sin, np.zeros((0, 2), "f"))
    assert row["input"] == "x = [0×2] empty"
    (row,) = cells(tf.square, np.complex64(1 + 2j))
    assert row["input"] == "x = 1+2i"
    (row,) = cells(tf.square, np.nan)
    assert numbers_of(row) == ("x = NaN", "NaN", "NaN")


def test_the_caption_says_how_much_is_folded_away():
    trace = cgviz.trace(lambda x: tf.identity(x * x), 3.0)
    assert "(1 folded away; full=True shows all)" in trace.table().caption
    assert "folded" not in trace.table(full=True).caption


def long(x):
    for _ in range(50):
        x = tf.sin(x)
    return x


def test_a_second_input_has_a_line_of_its_own():
    text = repr(cgviz.trace(lambda x, y: x * y, 2.0, 3.0).table()).split("\n")
    assert text[1].split()[:9] == ["1", "Mul", "Mul", "x", "=", "2", "1", "3", "3"]
    assert text[2].split() == ["y", "=", "3", "2", "2"]


def test_a_long_table_is_cut_in_the_middle_and_says_so():
    text = repr(cgviz.trace(long, 1.0))
    assert "(20 more rows)" in text
    assert len(text.split("\n")) == 4 + 1 + 30 + 1
    assert "(20 more rows)" in cgviz.trace(long, 1.0).table()._repr_html_()


@pytest.mark.parametrize("f", [thrice, long, lambda x: x * x + tf.exp(x) * tf.sin(x)])
def test_a_table_of_scalars_is_at_most_a_hundred_columns_wide(f):
    assert max(map(len, repr(cgviz.trace(f, 0.123456)).split("\n"))) <= 100


def test_a_table_of_vectors_is_at_most_a_hundred_columns_wide():
    text = repr(cgviz.trace(lambda x: tf.reduce_sum(x * x), [0.123, 0.456, 0.789]))
    assert max(map(len, text.split("\n"))) <= 100


def test_a_pass_without_steps_has_a_text():
    trace = cgviz.trace(lambda x: x, 2.0)
    assert repr(trace.table()).endswith("(no steps)")
    Outline(trace.table()._repr_html_())


# --- HTML ----------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """The tags of a document, and whether they close one another."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_html_is_well_formed_and_has_a_caption_and_scopes():
    seen = Outline(cgviz.trace(thrice, 2.0).table()._repr_html_()).seen
    assert [tag for tag, _ in seen].count("caption") == 1
    assert [a["scope"] for tag, a in seen if tag == "th"] == ["col"] * 8 + ["row"] * 3


def test_the_html_says_custom_in_a_word():
    assert Outline(cgviz.trace(thrice, 2.0).table()._repr_html_()).words.count("custom") == 3
    assert "custom" not in Outline(cgviz.trace(tf.sin, 2.0).table()._repr_html_()).words


def test_the_html_has_no_ids_and_fetches_nothing():
    text = cgviz.trace(thrice, 2.0).table()._repr_html_()
    assert " id=" not in text
    assert not re.search(r"https?:|url\(|<script|@import", text)


def test_every_colour_comes_from_jupyterlab_with_something_to_fall_back_on():
    text = cgviz.trace(thrice, 2.0).table()._repr_html_()
    assert re.findall(r"var\(--jp-[\w-]+, [\w#]+\)", text)
    assert not re.findall(r"var\(--jp-[\w-]+\)", text)


def test_every_rule_of_the_style_stays_in_the_sheet():
    style = re.search(
        r"<style>(.*?)</style>", cgviz.trace(thrice, 2.0).table()._repr_html_(), re.DOTALL
    )
    selectors = re.findall(r"([^{}]+)\{", style[1])
    assert all(s.strip().startswith(".cgviz-") for rule in selectors for s in rule.split(","))


def test_what_the_learner_wrote_is_escaped():
    def f(x):
        y = tf.square(x)  # <script>alert("&")</script>
        return y

    text = cgviz.trace(f, 2.0).table()._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    Outline(text)


def test_a_name_is_escaped():
    v = tf.Variable(2.0, name="v")
    trace = cgviz.trace(lambda x: x * v, 3.0)
    object.__setattr__(next(op for op in trace.ops if op.kind == "variable"), "name", "<b>&")
    assert "&lt;b&gt;&amp; = 2" in trace.table()._repr_html_()
    assert "<b>" not in trace.table()._repr_html_()


def test_the_inputs_of_one_step_share_its_cells():
    seen = Outline(cgviz.trace(lambda x, y: x * y, 2.0, 3.0).table()._repr_html_()).seen
    spans = [a["rowspan"] for _, a in seen if "rowspan" in a]
    assert spans == ["2"] * 5


def test_text_and_html_are_the_same_every_time():
    w = np.random.default_rng(0).normal(size=(40, 40)).astype("f")

    def f(x):
        return tf.reduce_sum(tf.tanh(x @ w))

    one, other = (cgviz.trace(f, np.ones((1, 40), "f")) for _ in range(2))
    assert repr(one) == repr(other) == repr(one)
    assert one.table()._repr_html_() == other.table()._repr_html_()


def test_awkward_tensors_have_a_text():
    @tf.custom_gradient
    def nothing(x):
        return x + 0.0, lambda upstream: None

    for f, x in [
        (tf.math.log, [0.0, -1.0]),
        (tf.sin, np.zeros((0, 3), "f")),
        (tf.square, np.complex64(1 + 2j)),
        (tf.square, tf.constant(1.5, tf.bfloat16)),
        (tf.square, np.float64(1e300)),
        (nothing, 1.0),
    ]:
        trace = cgviz.trace(f, x)
        assert "value:" in repr(trace)
        Outline(trace.table()._repr_html_())
        assert str(trace.chain_rule())
