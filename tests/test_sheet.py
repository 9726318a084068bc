"""A trace as text, its table as text and HTML: word for word, escaped, the same every time."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import tensorflow as tf
from programs import thrice

import cgviz
from cgviz.reading import sheet
from cgviz.reading.listing import listed


def long(x):
    for _ in range(50):
        x = tf.sin(x)
    return x


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


def test_a_second_input_has_a_line_of_its_own():
    text = repr(cgviz.trace(lambda x, y: x * y, 2.0, 3.0).table()).split("\n")
    assert text[1].split()[:9] == ["1", "Mul", "Mul", "x", "=", "2", "1", "3", "3"]
    assert text[2].split() == ["y", "=", "3", "2", "2"]


def test_a_long_table_is_cut_in_the_middle_and_says_so():
    text = repr(cgviz.trace(long, 1.0))
    assert "(20 more rows)" in text
    assert len(text.split("\n")) == 4 + 1 + 30 + 1
    assert "(20 more rows)" in sheet.table_html(listed(cgviz.trace(long, 1.0)))


@pytest.mark.parametrize("f", [thrice, long, lambda x: x * x + tf.exp(x) * tf.sin(x)])
def test_a_table_of_scalars_is_at_most_a_hundred_columns_wide(f):
    assert max(map(len, repr(cgviz.trace(f, 0.123456)).split("\n"))) <= 100


def test_a_table_of_vectors_is_at_most_a_hundred_columns_wide():
    text = repr(cgviz.trace(lambda x: tf.reduce_sum(x * x), [0.123, 0.456, 0.789]))
    assert max(map(len, text.split("\n"))) <= 100


def test_a_trace_without_a_backward_pass_has_a_text():
    with cgviz.record() as trace:
        tf.square(2.0)
    assert "no backward passes" in repr(trace)


def test_a_pass_without_steps_has_a_text():
    trace = cgviz.trace(lambda x: x, 2.0)
    assert repr(trace.table()).endswith("(no steps)")
    Outline(sheet.table_html(listed(trace)))


def test_both_passes_have_their_gradients_in_the_text():
    text = repr(cgviz.trace(lambda x: x**3, 2.0, order=2))
    assert "gradients of pass 0: x 12\n" in text
    assert "gradients of pass 1: x 12\n" in text


# --- HTML --------------------------------------------------------------------------------------


def test_the_html_is_well_formed_and_has_a_caption_and_scopes():
    seen = Outline(sheet.table_html(listed(cgviz.trace(thrice, 2.0)))).seen
    assert [tag for tag, _ in seen].count("caption") == 1
    assert [a["scope"] for tag, a in seen if tag == "th"] == ["col"] * 8 + ["row"] * 3


def test_the_html_says_custom_in_a_word():
    assert Outline(sheet.table_html(listed(cgviz.trace(thrice, 2.0)))).words.count("custom") == 3
    assert "custom" not in Outline(sheet.table_html(listed(cgviz.trace(tf.sin, 2.0)))).words


def test_the_html_has_no_ids_and_fetches_nothing():
    text = sheet.table_html(listed(cgviz.trace(thrice, 2.0)))
    assert " id=" not in text
    assert not re.search(r"https?:|url\(|<script|@import", text)


def test_every_colour_comes_from_jupyterlab_with_something_to_fall_back_on():
    text = sheet.table_html(listed(cgviz.trace(thrice, 2.0)))
    assert re.findall(r"var\(--jp-[\w-]+, [\w#]+\)", text)
    assert not re.findall(r"var\(--jp-[\w-]+\)", text)


def test_every_rule_of_the_style_stays_in_the_sheet():
    style = re.search(
        r"<style>(.*?)</style>", sheet.table_html(listed(cgviz.trace(thrice, 2.0))), re.DOTALL
    )
    selectors = re.findall(r"([^{}]+)\{", style[1])
    assert all(s.strip().startswith(".cgviz-") for rule in selectors for s in rule.split(","))


def test_what_the_learner_wrote_is_escaped():
    def f(x):
        y = tf.square(x)  # <script>alert("&")</script>
        return y

    text = sheet.table_html(listed(cgviz.trace(f, 2.0)))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    Outline(text)


def test_a_name_is_escaped():
    v = tf.Variable(2.0, name="v")
    trace = cgviz.trace(lambda x: x * v, 3.0)
    object.__setattr__(next(op for op in trace.ops if op.kind == "variable"), "name", "<b>&")
    assert "&lt;b&gt;&amp; = 2" in sheet.table_html(listed(trace))
    assert "<b>" not in sheet.table_html(listed(trace))


def test_the_inputs_of_one_step_share_its_cells():
    seen = Outline(sheet.table_html(listed(cgviz.trace(lambda x, y: x * y, 2.0, 3.0)))).seen
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
        Outline(sheet.table_html(listed(trace)))
        assert str(trace.chain_rule())
