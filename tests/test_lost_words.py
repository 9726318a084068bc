"""A reason in a few words becomes sentences: what happened, how to mend it, where to read on."""

import dataclasses

import numpy as np
import pytest
from handmade import Tape

from cgviz import lessons
from cgviz.diagnosing import lost_words
from cgviz.diagnosing.lost_words import Cut, say, say_captured
from cgviz.diagnosing.survey import Survey
from cgviz.graph import Op, Source


class Made:
    """A survey of y = op(x), to say things about."""

    def __init__(self, type_="Mul", source=None, kind="input", name="x", **how):
        tape = Tape()
        self.x = tape.start(name, 2.0, kind=kind)
        self.y = tape.op("y", type_, [self.x], 4.0, back=[1.0], source=source, **how)
        self.op = tape.ops[-1]
        trace = tape.trace(self.y, [self.x])
        self.survey = Survey(trace, trace.passes[0])

    def say(self, reason, value=None, who="`x`"):
        return say(self.survey, Cut(reason, self.op, value), self.x, who)


REASONS = {
    "not watched": ("no tape watched it when Mul used it", lessons.DEBUGGING),
    "tape not recording": ("no tape followed it when Mul ran", lessons.DEBUGGING),
    "stop_gradient": ("Mul lets the value through and no gradient", lessons.KINKS),
    "no gradient for Mul": ("TensorFlow has no gradient for Mul", lessons.KINKS),
    "the rule returned None": ("returned None for its input that input", lessons.INPUTS),
    "captured by closure": ("a tensor is used inside the custom gradient Mul", lessons.INPUTS),
    "in a body": ("made inside the custom gradient Mul", lessons.INPUTS),
    "rule dropped": ("the custom rule there was not used", lessons.INPUTS),
    "NumPy": ("the numbers of what came of it left TensorFlow", lessons.DEBUGGING),
    "dead end": ("what comes of it never reaches the target", lessons.DEBUGGING),
    "not on this tape": ("Mul is not on the tape that was asked", lessons.DEBUGGING),
}


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_has_a_sentence_a_hint_and_a_lesson(reason):
    words, lesson = REASONS[reason]
    message, hint, where = Made().say(reason)
    assert message.startswith("`x` got None")
    assert words in message
    assert where == lesson
    assert hint.endswith(".")


def test_the_value_before_the_cut_is_named_where_it_is_known():
    made = Made()
    assert "for its input `x`" in made.say("the rule returned None", made.x)[0]
    assert "the numbers of `x` left" in made.say("NumPy", made.x)[0]
    assert "`x` is used inside" in made.say("captured by closure", made.x)[0]
    assert "Mul makes float32 numbers" in made.say("no numbers with a gradient", made.x)[0]


@pytest.mark.parametrize(
    ("dtype", "words"), [(bool, "True and False"), (str, "texts"), (np.int8, "int8 numbers")]
)
def test_truth_and_text_are_not_called_numbers(dtype, words):
    made, value = Made("Greater"), Tape().value("1", dtype)
    value = dataclasses.replace(value, dtype=value.dtype.replace("str32", "string"))
    assert f"Greater makes {words}, and" in made.say("no numbers with a gradient", value)[0]
    message, hint, _ = say(made.survey, Cut("integers", value=value), value, "`b`")
    assert (f"it holds {words}" in message) == (dtype is not np.int8)
    assert ("`2.`" in hint) == (dtype is np.int8)


@pytest.mark.parametrize(("type_", "flat"), [("Round", True), ("Floor", True), ("Betainc", False)])
def test_only_steps_are_called_flat(type_, flat):
    message = Made(type_).say(f"no gradient for {type_}")[0]
    assert ("It is flat between its steps." in message) == flat


@pytest.mark.parametrize(
    ("kind", "name", "message", "hint"),
    [
        ("input", "x", "no tape watched it", "Call `tape.watch(x)`"),
        ("variable", "w", "only variables that are trainable", "call `tape.watch(w)`"),
        ("op", "v", "a plain tensor, made by Op, and no tape watched it", "`v.assign_sub(...)`"),
        ("op", "v_1", "a plain tensor", "`v.assign_sub(...)`"),
        ("op", "v_1b", "a plain tensor", "`v_1b.assign_sub(...)`"),
    ],
)
def test_what_was_not_watched_is_told_by_what_it_is(kind, name, message, hint):
    said = Made(kind=kind, name=name).say("not watched", who=f"`{name}`")
    assert message in said[0]
    assert hint in said[1]


TEXT = {
    "ran inside `stop_recording`": """
with tf.GradientTape() as tape:
    with tape.stop_recording():
        y = x * x
""",
    "ran outside the `with tf.GradientTape()` block": """
y = x * x
with tf.GradientTape() as tape:
    z = y
""",
}


@pytest.mark.parametrize("words", TEXT)
@pytest.mark.parametrize("reason", ["not watched", "tape not recording"])
def test_the_learners_text_tells_why_no_tape_saw_a_line(tmp_path, words, reason):
    path = tmp_path / "learner.py"
    path.write_text(TEXT[words])
    number = TEXT[words].split("\n").index(next(r for r in TEXT[words].split("\n") if "y =" in r))
    source = Source(str(path), number + 1, "y = x * x")
    message, hint, _ = Made(source=source).say(reason)
    assert f"Mul (line {number + 1}: `y = x * x`) {words}" in message
    assert hint.startswith("Move the line")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("y = tf.constant(x.numpy())", "NumPy is called there"),
        ("w.assign(x); y = w * 2", "A variable is assigned there"),
        ("y = tf.sin(x)", ""),
    ],
)
def test_a_dead_end_is_remarked_on_by_what_the_line_calls(tmp_path, line, note):
    path = tmp_path / "learner.py"
    path.write_text(line)
    message = Made(source=Source(str(path), 1, line)).say("dead end")[0]
    assert note in message
    assert message.endswith("there, and no tape follows numbers through NumPy.") == (
        "NumPy" in note
    )
    assert message.endswith("never reaches the target.") == (not note)


UNUSED = {
    "integers": ("it is float32, and TensorFlow gives integers no gradient", lessons.DEBUGGING),
    "unread": ("no op that ran reads this variable", lessons.VARIABLES),
    "independent": ("As a derivative that means 0", lessons.NESTED),
    "unused": ("no TensorFlow op that ran uses it", lessons.DEBUGGING),
}


@pytest.mark.parametrize("reason", UNUSED)
def test_without_an_op_to_blame_there_is_a_sentence_too(reason):
    words, lesson = UNUSED[reason]
    made = Made()
    message, hint, where = say(made.survey, Cut(reason, value=made.x), made.x, "`x`")
    assert message.startswith("`x` got None: ")
    assert words in message
    assert (hint[-1], where) == (".", lesson)


def test_captured_tensors_are_a_list_and_the_rule_is_shown():
    rule = Source("f.py", 9, "def grad(dy):")
    op = Op("f_1", "custom", "f", (), (), rule=rule)
    message, hint, _ = say_captured("", op, ["`s`", "`t`"])
    assert message.startswith("`s` and `t` are used inside the custom gradient `f`")
    assert hint.endswith("return a gradient for them too (line 9: `def grad(dy):`).")


def test_a_hint_that_names_a_call_shows_it_by_position():
    assert "`f(x)`, not `f(x=x)`" in lost_words.BY_POSITION
    assert Made().say("rule dropped")[1] == lost_words.BY_POSITION
