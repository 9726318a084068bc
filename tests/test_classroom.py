"""An exercise says at once how far it is, and a grade hangs on more than the case it shows."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from cgviz import classroom
from cgviz.classroom import NotYetError, cases, demand, feedback, guessed, predicted, sound

ROOT = Path(__file__).resolve().parents[1]


def cube_with(rule):
    @tf.custom_gradient
    def cube(x):
        return x**3, lambda upstream: rule(x, upstream)

    return cube


right = cube_with(lambda x, upstream: upstream * 3.0 * x**2)
forgetful = cube_with(lambda x, upstream: 3.0 * x**2)
wrong = cube_with(lambda x, upstream: upstream * 2.0 * x)
untouched = cube_with(lambda x, upstream: ...)
empty = cube_with(lambda x, upstream: None)


def said(capsys):
    return capsys.readouterr().out.rstrip("\n")


# --- feedback --------------------------------------------------------------------------------


def test_a_right_rule_gets_a_tick_and_nothing_else(capsys):
    feedback(right, 2.0, value=8.0, gradients=12.0, custom=True)
    assert said(capsys) == "✓ cube"


def raises(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    "stub", [..., None, lambda x: ..., lambda x: None, untouched, empty, raises], ids=range(7)
)
def test_an_untouched_stub_is_not_yet_done(capsys, stub):
    feedback(stub, 2.0, value=8.0, gradients=12.0)
    assert said(capsys).startswith("not yet · ")
    assert "\n" not in said(capsys)


def test_a_stub_that_reads_a_variable_is_not_yet_done(capsys):
    factor = tf.Variable(3.0)

    @tf.custom_gradient
    def gain(x):
        def grad(upstream, variables=None):
            return None

        return factor * x, grad

    feedback(gain, 2.0, value=6.0, gradients=3.0)
    assert said(capsys).startswith("not yet · gain: it, or its rule, returns None")


@tf.custom_gradient
def unwritten(a, b):
    def grad(upstream): ...  # your code

    return a * b, grad


@tf.custom_gradient
def one_of_two(a, b):
    def grad(upstream):
        return upstream * b[..., tf.newaxis][..., 0]

    return a * b, grad


def test_a_stub_of_two_inputs_is_not_yet_done_but_one_gradient_of_two_is_wrong(capsys):
    feedback(unwritten, 2.0, 3.0)
    assert said(capsys) == "not yet · unwritten: a `...` is left in it. Write your code there."
    feedback(one_of_two, 2.0, 3.0)
    assert "✗ one_of_two: ValueError: custom_gradient function expected" in said(capsys)


def test_a_rule_that_ignores_upstream_is_told_so(capsys):
    feedback(forgetful, 2.0, value=8.0, gradients=12.0)
    assert said(capsys).startswith("✗ cube: your rule ignores upstream: any upstream gives")


def test_a_wrong_value_is_shown_beside_the_right_one(capsys):
    feedback(lambda x: x * x, 2.0, value=8.0)
    assert said(capsys) == "✗ your answer(2) is 4, and should be 8."


def test_a_wrong_gradient_is_named_by_the_rule_that_it_breaks(capsys):
    feedback(wrong, 2.0, value=8.0, gradients=12.0)
    assert re.match(r"✗ cube: value: ", said(capsys))


def test_a_missing_custom_gradient_is_told_where_one_is_asked_for(capsys):
    feedback(lambda x: x**3, 2.0, custom=True)
    assert "holds no custom gradient: keep @tf.custom_gradient" in said(capsys)


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyError(3), RecursionError("deep")])
def test_whatever_a_student_raises_becomes_a_line(capsys, error):
    def answer(x):
        raise error

    feedback(answer, 2.0)
    assert said(capsys).startswith(f"✗ answer: {type(error).__name__}")


@pytest.mark.parametrize("answer", ["text", 3.0, np.sin, print, dict, object()], ids=range(6))
def test_whatever_stands_in_place_of_a_function_raises_nothing(capsys, answer):
    feedback(answer, 2.0, value=8.0, gradients=12.0)
    assert said(capsys)


# --- predictions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prediction", "words"),
    [
        (..., "not yet · prediction"),
        (None, "not yet · prediction"),
        ([1.0, 2.0, None], "✓ prediction"),
        ([1, 2.00001, None], "✓ prediction"),
        ([1.0, 3.0, None], "✗ prediction: 2 of 3 are right"),
        ([1.0, 2.0], "✗ prediction: 3 entries are asked for, here are 2"),
        (["a", [], {}], "✗ prediction: 0 of 3 are right"),
        ([True, 2.0, None], "✗ prediction: 2 of 3 are right"),
    ],
)
def test_a_prediction_is_counted_and_the_answer_not_given_away(capsys, prediction, words):
    guessed(prediction, [1.0, 2.0, None])
    assert said(capsys).startswith(words)


def test_a_result_that_is_missing_is_not_taken_for_a_prediction(capsys):
    guessed(None, 24.0, "total")
    assert said(capsys) == "not yet · total: it is None. Write your code where the `...` stands."


def test_a_wrong_prediction_raises_where_a_grade_hangs_on_it():
    predicted(4.0, 4.0)
    with pytest.raises(AssertionError, match="it is not 5"):
        predicted(5.0, 4.0)
    with pytest.raises(NotYetError):
        predicted(..., 4.0)


# --- what a grade hangs on -------------------------------------------------------------------


def test_several_shapes_and_both_dtypes_are_tried():
    tried = [(x.shape, x.dtype.name) for (x,) in cases(1)]
    assert {shape for shape, _ in tried} == {(), (3,), (2, 3)}
    assert {dtype for _, dtype in tried} == {"float32", "float64"}


def test_a_right_rule_meets_every_demand():
    for x, u in cases(2):
        demand(right, x, upstream=u, value=x**3, gradients=u * 3.0 * x**2)
    sound(right, 1.5, custom=True)


X = np.float32([1.0, 2.0])


@pytest.mark.parametrize(
    ("f", "expected", "words"),
    [
        (lambda x: x * x, {"value": X**3}, r"is \[1, 4\], and should be \[1, 8\]"),
        (lambda x: tf.reduce_sum(x), {"value": X}, r"has the shape \(\), and should have \(2,\)"),
        (lambda x: (x, x), {"value": X}, "has 2 parts, and should have 1"),
        (forgetful, {"upstream": -X, "gradients": -X}, "the gradient of input 0 is"),
        (
            cube_with(lambda x, u: tf.reduce_sum(u * x)),
            {"gradients": X},
            r"has the shape \(\), and should have \(2,\)",
        ),
        (
            cube_with(lambda x, u: tf.cast(u * 3.0 * x**2, tf.float64)),
            {"gradients": 3.0 * X**2},
            "is float64, and should be float32",
        ),
        (lambda x: x * 2.0, {"gradients": [None]}, "and should be None"),
    ],
)
def test_what_is_not_met_is_said_in_a_sentence(f, expected, words):
    with pytest.raises(AssertionError, match=words):
        demand(f, X, **expected)


def test_the_judgement_of_check_is_raised_with_its_hint():
    with pytest.raises(AssertionError, match=r"ignores upstream.*multiply each gradient"):
        sound(forgetful, 2.0)


# --- the teacher's page ----------------------------------------------------------------------


def test_the_exercise_of_ten_minutes_runs_as_it_is_printed():
    page = (ROOT / "classroom" / "teaching.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    names = {"tf": tf, "np": np, "classroom": classroom}
    for block in blocks:
        exec(re.sub(r"^   ", "", block, flags=re.MULTILINE), names)


def test_the_plan_has_each_lesson_with_the_minutes_it_claims():
    page = (ROOT / "classroom" / "teaching.md").read_text("utf-8")
    plan = dict(re.findall(r"^\| (\d\d) \| (\d+) \|", page, re.MULTILINE))
    for lesson in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        minutes = re.search(r"Time:\*\* (\d+) minutes", lesson.read_text("utf-8"))[1]
        assert plan[lesson.name[:2]] == minutes, lesson.name


QUESTIONS = dict(
    re.findall(
        r"^## (\d\d|The exercises)(.*?)(?=^## |\Z)",
        (ROOT / "classroom" / "questions.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)


@pytest.mark.parametrize("lesson", sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")))
def test_each_prediction_of_a_lesson_has_its_row_for_the_teacher(lesson):
    _, _, *rows = re.findall(r"^\|.*\|$", QUESTIONS[lesson.name[:2]], re.MULTILINE)
    assert len(rows) == lesson.read_text("utf-8").count("**Predict.**"), lesson.name


def test_each_exercise_has_its_row_for_the_teacher():
    rows = re.findall(r"^\| (\d\d\.\d) ", QUESTIONS["The exercises"], re.MULTILINE)
    tasks = [
        f"{path.name[:2]}.{number}"
        for path in sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
        for number in re.findall(r'"## (\d) · ', path.read_text("utf-8"))
    ]
    assert rows == tasks
