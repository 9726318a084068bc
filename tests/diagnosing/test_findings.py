"""A diagnosis reads as text and as a page."""

import re

import pytest
import tensorflow as tf

import cgviz
from cgviz import findings, style
from cgviz.diagnosing.diagnosis import Diagnosis
from cgviz.findings import Finding
from cgviz.graph import Op, Source


def finding(message="`x` got None.", what="none", op=None):
    return Finding(what, message, "Take `tf.round` away.", "07_non_differentiable", op)


def test_a_diagnosis_is_a_sequence_of_findings():
    one, two = finding(), finding()
    diagnosis = Diagnosis("f", [one, two], "healthy.")
    assert list(diagnosis) == [one, two]
    assert (len(diagnosis), diagnosis[-1], diagnosis[:1]) == (2, two, (one,))
    assert two in diagnosis
    assert not diagnosis.ok
    with pytest.raises(IndexError):
        diagnosis[2]


def test_a_diagnosis_without_findings_is_one_line_and_its_notes():
    diagnosis = Diagnosis("f", [], "healthy.", ["`i` is int32.", "Pass 1: began late."])
    assert diagnosis.ok
    assert list(diagnosis) == []
    assert repr(diagnosis) == "diagnosis of f: healthy.\n\n`i` is int32.\nPass 1: began late."
    page = diagnosis._repr_html_()
    assert page.count("<p><code>i</code> is int32.</p>") == 1
    assert "<ol" not in page


def test_a_warning_leaves_a_diagnosis_ok():
    frozen = Finding("frozen", "no step moves `w`", "", "", level="warning")
    assert Diagnosis("the history", [frozen], "").ok


def test_findings_are_counted_and_read_one_after_the_other_with_the_notes_last():
    assert Diagnosis("f", [finding()], "").headline == "diagnosis of f: 1 finding"
    diagnosis = Diagnosis("f", [finding(), finding("`y` is 0.", "zero")], "", ["A note."])
    assert repr(diagnosis).split("\n\n") == [
        "diagnosis of f: 2 findings",
        "∅ None: `x` got None.\n  hint: Take `tf.round` away.\n  lesson: 07_non_differentiable",
        "○ 0: `y` is 0.\n  hint: Take `tf.round` away.\n  lesson: 07_non_differentiable",
        "A note.",
    ]
    page = diagnosis._repr_html_()
    assert page.index("<code>x</code> got None") < page.index("<code>y</code> is 0")
    assert page.index("</ol>") < page.index("<p>A note.</p>")


@pytest.mark.parametrize("what", findings.SIGNS)
def test_each_kind_has_a_word_beside_its_symbol(what):
    sign = finding(what=what).sign
    page = Diagnosis("f", [finding(what=what)], "")._repr_html_()
    start = f'<span aria-hidden="true">{sign.symbol}</span> <strong>{sign.word}</strong>: '
    assert start in page
    assert repr(finding(what=what)).startswith(f"{sign.symbol} {sign.word}: ")


def test_a_broken_rule_is_named_beside_the_mark_of_its_level():
    broken = Finding("shape", "It is [2].", "Sum it.", "03_multiple_inputs")
    assert broken.rule == "shape"
    assert repr(broken) == "✗ shape: It is [2].\n  hint: Sum it.\n  lesson: 03_multiple_inputs"
    warning = Finding("kink", "It has a kink.", "", "", level="warning")
    assert repr(warning) == "! kink: It has a kink."
    assert "cgviz-warning" in warning.html()


@pytest.mark.parametrize(("what", "word"), [("zero", "0"), ("cancels", "cancels")])
def test_a_remark_reads_as_text_and_as_a_page(what, word):
    note = Finding(what, "`x` is 0 but for rounding.", "", "", level="note")
    assert repr(note) == f"{findings.SIGNS.get(what, f'i {what}')}: `x` is 0 but for rounding."
    assert f"<strong>{word}</strong>: <code>x</code> is 0" in note.html()


def test_names_and_code_of_the_learner_are_text_and_never_markup():
    bad = '<b onclick="x">&amp;</b>'
    page = Diagnosis(bad, [finding(f"`{bad}` {bad}")], "", [bad])._repr_html_()
    assert "<b" not in page
    assert page.count("&lt;b onclick=&quot;x&quot;&gt;&amp;amp;&lt;/b&gt;") == 4


def test_a_lone_tick_of_the_learners_leaves_the_text_plain():
    page = Diagnosis("f", [finding("a lone ` tick")], "")._repr_html_()
    assert "a lone ` tick</p>" in page


def test_a_finding_names_its_op_and_the_learners_line():
    line, rule = Source("f.py", 3, "y = tf.round(x)"), Source("f.py", 9, "def grad(dy):")
    assert (finding().name, finding().source) == ("", None)
    op = Op("y", "op", "Round", (), (), source=line, rule=rule)
    assert (finding(op=op).name, finding(op=op).source) == ("y", line)
    assert finding(op=Op("y", "custom", "f", (), (), rule=rule)).source == rule


def test_the_colours_are_those_of_the_palette():
    used = set(re.findall("#[0-9A-Fa-f]{6}", findings.STYLE))
    assert used == {style.LIGHT.backward, "#8c8c8c"}  # a grey for warnings


def test_what_a_trace_finds_reads_as_text_and_as_a_page():
    diagnosis = cgviz.trace(lambda x: tf.round(x) * tf.cast(x < 3.0, tf.float32), 2.6).diagnose()
    assert repr(diagnosis).startswith("diagnosis of f: 2 findings\n\n∅ None: `x` got None")
    page = diagnosis._repr_html_()
    assert "<code>x</code> got None" in page
    assert "x &lt; 3.0" in page
    assert "x < 3.0" not in page


MODULE = """
import tensorflow as tf

@tf.custom_gradient
def stopped(x):
    def grad(dy):
        return 0.0 * dy
    return 2.0 * x, grad
"""


@pytest.mark.parametrize(
    ("path", "line"), [("ops.py", "line 6 of ops.py"), ("ipykernel_7/1.py", "line 6")]
)
def test_a_line_of_another_file_is_given_with_its_file_and_one_of_a_cell_alone(
    tmp_path, path, line
):
    (file := tmp_path / path).parent.mkdir(exist_ok=True)
    file.write_text(MODULE, encoding="utf-8")
    exec(compile(MODULE, str(file), "exec"), names := {})
    stopped, w = names["stopped"], tf.Variable(1.0, name="w")

    def step():
        with tf.GradientTape() as tape:
            y = stopped(w)
        tape.gradient(y, w)

    for diagnosis in (cgviz.trace(stopped, w).diagnose(), cgviz.watch(step, 3).diagnose()):
        assert f"became 0 at `stopped` ({line}: `def grad(dy):`)" in str(diagnosis)
    assert f"by the rule of `stopped` ({line})." in str(cgviz.check(stopped, 1.0))
