"""An exercise says at once how far it is, and a grade hangs on more than the case it shows."""

import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from cgviz import classroom
from cgviz.classroom import NotYetError, answers, ask, cases, feedback, guessed

ROOT = Path(__file__).resolve().parents[2]


def cube_with(rule):
    @tf.custom_gradient
    def cube(x):
        return x**3, lambda upstream: rule(x, upstream)

    return cube


right = cube_with(lambda x, upstream: upstream * 3.0 * x**2)
forgetful = cube_with(lambda x, upstream: 3.0 * x**2)
wrong = cube_with(lambda x, upstream: upstream * 2.0 * x)
empty = cube_with(lambda x, upstream: None)


@tf.custom_gradient
def untouched(x):
    def grad(upstream): ...  # your code

    return x**3, grad


def said(capsys):
    return capsys.readouterr().out.rstrip("\n")


# --- feedback --------------------------------------------------------------------------------


def test_a_right_rule_gets_a_tick_and_nothing_else(capsys):
    feedback(right, 2.0, value=8.0, gradients=12.0, custom=True)
    assert said(capsys) == "✓ cube"


@pytest.mark.parametrize(
    "stub", [..., None, lambda x: ..., lambda x: None, untouched, empty], ids=range(6)
)
def test_an_untouched_stub_is_not_yet_done(capsys, stub):
    feedback(stub, 2.0, value=8.0, gradients=12.0, custom=True)
    assert said(capsys).startswith("not yet · ")
    assert "\n" not in said(capsys)


@pytest.mark.parametrize("x", [2.0, [2.0, -1.0]], ids=["scalar", "two"])
def test_what_a_custom_gradient_returns_is_said_where_it_returns_no_rule(capsys, x):
    @tf.custom_gradient
    def cube(x):
        return x**3

    feedback(cube, x, gradients=12.0, custom=True)
    words = said(capsys)
    assert words.startswith("✗ cube: TypeError: ")
    assert ". End it in `return y, grad`, where `grad` is the function itself" in words


def test_a_rule_that_gives_nothing_back_is_asked_whether_it_returns(capsys):
    feedback(empty, 2.0, value=8.0, gradients=12.0, custom=True)
    assert said(capsys).endswith("what comes back is None. Is there a rule, and does it `return`?")


@pytest.mark.parametrize("slope", [0.0, 1.0], ids=["flat", "wrong"])
def test_an_exercise_gives_no_advice_to_call_a_rule_a_surrogate(capsys, slope):
    @tf.custom_gradient
    def bent(x):
        return slope * x, lambda upstream: 3.0 * upstream

    feedback(bent, 2.0, custom=True)
    words = said(capsys)
    assert words.startswith("✗ bent: value: ")
    assert "surrogate" not in words


def test_what_cannot_be_judged_at_a_point_is_not_called_right(capsys):
    @tf.custom_gradient
    def root(x):
        return tf.sqrt(x), lambda upstream: -upstream  # at 0 the slope is infinite

    feedback(root, 0.0)
    assert said(capsys).startswith("✗ root: its gradient cannot be judged at this very point.")


def test_where_only_a_value_is_asked_for_no_gradient_is_missed(capsys):
    feedback(lambda x: X**3, X, value=X**3, check=False)
    assert said(capsys) == "✓ your answer"


@tf.custom_gradient
def half(x):
    y = (
        ...  # your code
    )

    def grad(upstream): ...  # your code

    return y, grad


def test_where_only_a_value_is_asked_for_its_rule_may_be_unwritten_but_the_value_may_not(capsys):
    feedback(untouched, 2.0, value=8.0, check=False)
    feedback(half, 2.0, value=8.0, check=False)
    assert said(capsys).splitlines() == [
        "✓ untouched",
        "not yet · half: a `...` is left in it. Write your code there.",
    ]
    ask(untouched, 2.0)
    assert answers.pop()["value"][0]["data"] == [8.0]
    for more in ({"upstream": 1.0}, {"custom": True}):
        with pytest.raises(NotYetError):
            ask(untouched, 2.0, **more)


@pytest.mark.parametrize("check", [True, False])
def test_a_gradient_of_none_is_wrong_where_no_rule_is_asked_for(capsys, check):
    feedback(lambda x: tf.round(x) * 0.0 + 8.0, 2.0, value=8.0, gradients=12.0, check=check)
    assert re.match(r"✗ your answer.*None", said(capsys))


def test_a_stub_that_reads_a_variable_is_not_yet_done(capsys):
    factor = tf.Variable(3.0)

    @tf.custom_gradient
    def gain(x):
        def grad(upstream, variables=None): ...  # your code

        return factor * x, grad

    feedback(gain, 2.0, value=6.0, gradients=3.0)
    assert said(capsys).startswith("not yet · gain: ")


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
    line = said(capsys)
    assert line.startswith("✗ cube: upstream: ")
    assert "upstream is ignored: any upstream gives the same downstream" in line


def test_a_wrong_value_is_shown_beside_the_right_one(capsys):
    feedback(lambda x: x * x, 2.0, value=8.0)
    assert said(capsys) == "✗ your answer(2) is 4, and should be 8."


def test_a_wrong_gradient_is_named_by_the_rule_that_it_breaks(capsys):
    feedback(wrong, 2.0, value=8.0, gradients=12.0)
    assert re.match(r"✗ cube: value: ", said(capsys))


def test_a_missing_custom_gradient_is_told_where_one_is_asked_for(capsys):
    for check in (True, False):
        feedback(lambda x: x**3, 2.0, custom=True, check=check)
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


@tf.custom_gradient
def without_return(a, b):
    def grad(upstream):
        _ = upstream * b, upstream * a

    return a * b, grad


def test_a_rule_of_two_inputs_that_returns_nothing_is_asked_whether_it_returns(capsys):
    feedback(without_return, 2.0, 3.0)
    assert "but returned 1 instead. Does the rule `return`? Return one gra" in said(capsys)


@pytest.mark.parametrize("more", [{"value": [6.0, 1.0]}, {"upstream": [1.0, 2.0]}])
def test_one_output_in_place_of_two_is_counted_whatever_is_looked_at_first(capsys, more):
    product = tf.custom_gradient(lambda a, b: (a * b, lambda u: (u * b, u * a)))
    words = "your answer(2, 3) has 1 part, and should have 2."
    feedback(product, 2.0, 3.0, **more)
    assert said(capsys) == f"✗ {words}"
    with pytest.raises(AssertionError, match=re.escape(words)):
        ask(product, 2.0, 3.0, upstream=[1.0, 2.0])


def test_python_mathematics_in_a_graph_is_told_in_two_sentences(capsys):
    def root(x):
        return tf.sqrt(x), lambda upstream: upstream / (2.0 * math.sqrt(x))

    feedback(tf.custom_gradient(root), 4.0)
    feedback(tf.function(lambda x: x * math.sqrt(x)), 4.0)
    for line in said(capsys).splitlines():
        assert re.search(r"real number, not SymbolicTensor( \(line .*\))?\. Use TensorFlow", line)
        assert "`tf.sqrt`, not `math.sqrt`" in line


def test_a_rule_that_returns_a_number_of_numpy_is_told_that_it_is_no_tensor(capsys):
    feedback(cube_with(lambda x, upstream: np.float32(12.0)), 2.0)
    assert "is float32, but its gradient is a NumPy number" in said(capsys)


# --- predictions -----------------------------------------------------------------------------


TEXT, COUNT = "a number is asked for, here is", "entries asked for: 3, given:"


@pytest.mark.parametrize(
    ("prediction", "words"),
    [
        (..., "not yet · prediction"),
        (None, "not yet · prediction"),
        ([1.0, 2.0, None], "✓ prediction"),
        ([1, 2.00001, None], "✓ prediction"),
        ([1.0, 3.0, None], "✗ prediction: 2 of 3 are right"),
        ([1.0, 2.0], "✗ prediction: entries asked for: 3, given: 2"),
        (["a", [], {}], "✗ prediction: a number is asked for, here is 'a'"),
        ([True, 2.0, None], "✗ prediction: a number is asked for, here is True"),
        ([1.0, 2.0, "None"], f"✗ prediction: {TEXT} 'None'. Write it without quotes."),
        ([1.0, "two", None], f"✗ prediction: {TEXT} 'two'."),
        ({1.0, 2.0}, f"✗ prediction: {COUNT} 1. Write a list in [ ]."),
        ("1, 2, None", f"✗ prediction: {COUNT} 1. Write a list in [ ]."),
        (1.0, f"✗ prediction: {COUNT} 1."),
    ],
)
def test_a_prediction_is_counted_and_the_answer_not_given_away(capsys, prediction, words):
    guessed(prediction, [1.0, 2.0, None])
    assert said(capsys).startswith(words)


@pytest.mark.parametrize(
    ("prediction", "truth", "mark"), [(0.0, 9e-7, "✗"), (1e-12, 0.0, "✓"), (9.0001e-7, 9e-7, "✓")]
)
def test_a_small_number_is_predicted_to_four_digits_as_well(capsys, prediction, truth, mark):
    guessed(prediction, truth)
    assert said(capsys).startswith(mark)


def test_where_truth_values_are_asked_for_a_number_is_told_so(capsys):
    guessed([1, 0], [True, False])
    assert said(capsys) == "✗ prediction: True or False is asked for, here is 1.0."


def test_a_truth_value_of_numpy_is_one(capsys):
    guessed([np.isfinite(1.0), np.isnan(1.0)], [True, False])
    assert said(capsys) == "✓ prediction"


FORMS = [
    list,
    tuple,
    np.array,
    tf.constant,
    tf.Variable,
    lambda x: [tf.constant(each) for each in x],
]


@pytest.mark.parametrize("form", FORMS)
def test_a_prediction_is_counted_in_whatever_form_its_numbers_come(capsys, form):
    guessed(form([2.0, -6.0, -8.0]), [2.0, -6.0, -8.0])
    assert said(capsys) == "✓ prediction"
    guessed(form([2.0, -6.0, 8.0]), [2.0, -6.0, -8.0])
    assert said(capsys) == "✗ prediction: 2 of 3 are right."
    guessed(form([2.0, -6.0]), [2.0, -6.0, -8.0])
    assert said(capsys) == "✗ prediction: entries asked for: 3, given: 2."


@pytest.mark.parametrize("form", FORMS)
def test_a_list_of_one_number_is_that_number_for_the_line_and_for_the_grader(capsys, form):
    guessed(form([6.0]), 6.0, "central")
    assert said(capsys) == "✓ central"
    assert asked(form([6.0])) == asked(6.0) == {"plain": 6.0}


def test_of_a_result_it_is_said_which_entries_are_wrong(capsys):
    guessed([True, False, True, False], [True] * 4, "qualities")
    assert said(capsys) == "✗ qualities: 2 of 4 are right; wrong: 2, 4."


def test_a_result_that_is_missing_is_not_taken_for_a_prediction(capsys):
    guessed(None, 24.0, "total")
    assert said(capsys) == "not yet · total: it is None. Write your code where the `...` is."


# --- what a grade hangs on -------------------------------------------------------------------


def test_several_shapes_are_tried_and_float64_only_where_it_is_asked_for():
    tried = [(x.shape, x.dtype.name) for (x,) in cases(1)]
    assert {shape for shape, _ in tried} == {(), (3,), (2, 3)}
    assert {dtype for _, dtype in tried} == {"float32"}
    assert {x.dtype.name for (x,) in cases(1, float64=True)} == {"float32", "float64"}


def asked(*args, **options):
    """What `ask` notes, as a grader gets it."""
    answers.clear()
    ask(*args, **options)
    (note,) = json.loads(json.dumps(answers))
    return note


def test_an_answer_is_noted_with_its_shape_and_dtype_and_the_upstream_it_was_given():
    x, u = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    note = asked(right, x, upstream=u)
    assert note["at"] == "cube(float64 of shape (2,))"
    assert note["value"] == [{"dtype": "float64", "shape": [2], "data": [1.0, 8.0]}]
    assert note["gradients"] == [{"dtype": "float64", "shape": [2], "data": [3.0, -12.0]}]


def test_without_an_upstream_only_the_value_is_asked():
    assert asked(np.sin, 0.0) == {
        "at": "sin(float32 of shape ())",
        "of": ["input 0"],
        "value": [{"dtype": "float32", "shape": [], "data": [0.0]}],
    }


def test_a_variable_is_noted_with_its_name():
    factor = tf.Variable(3.0, name="factor")
    assert asked(lambda v: v * v, factor, upstream=1.0)["of"] == ["factor"]


def test_the_value_or_the_graph_may_be_left_out_of_a_note():
    note = asked(right, 2.0, upstream=1.0, custom=True, without="value")
    assert "value" not in {*note, *note["graph"]}
    note = asked(right, 2.0, upstream=1.0, custom=True, without="graph")
    assert note["custom"] is True
    assert "graph" not in note


def test_of_an_input_that_nothing_depends_on_no_gradient_is_noted():
    note = asked(lambda a, b: (a * 2.0, a), 1.0, 2.0, upstream=[1.0, 1.0])
    assert (len(note["value"]), note["gradients"][1]) == (2, None)


@pytest.mark.parametrize(("f", "custom"), [(right, True), (lambda x: x**3, False)])
def test_a_custom_gradient_is_asked_for_and_tried_in_a_graph(f, custom):
    note = asked(f, 2.0, upstream=1.0, custom=True)
    assert note["custom"] is custom
    assert note["graph"] == {"value": note["value"], "gradients": note["gradients"]}


def test_a_rule_that_a_graph_cannot_hold_has_no_answer():
    with pytest.raises(AttributeError, match="numpy"):
        asked(cube_with(lambda x, u: u * 3.0 * x.numpy() ** 2), 2.0, upstream=1.0, custom=True)


@pytest.mark.parametrize(
    ("prediction", "plain"),
    [
        ([1, None, "none"], [1.0, None, "none"]),
        ((np.True_, False), [True, False]),
        (tf.constant(2.5), 2.5),
        ([np.float32(0.5), [1]], [0.5, 1.0]),
        (np.array([2, None, "none"], object), [2.0, None, "none"]),
        (tf.Variable([[2.0], [-6.0]]), [2.0, -6.0]),
        (tf.constant([True, False]), [True, False]),
        ([2.0, 3j], [2.0, "3j"]),
    ],
)
def test_a_prediction_is_noted_as_plain_numbers_and_words(prediction, plain):
    assert asked(prediction) == {"plain": plain}


@pytest.mark.parametrize("stub", [..., lambda x: ..., lambda x: None, untouched])
def test_what_has_not_been_written_has_no_answer(stub):
    with pytest.raises(NotYetError):
        asked(stub, *[2.0] * callable(stub), upstream=1.0)


def test_of_a_huge_array_only_the_beginning_is_noted():
    (note,) = asked(tf.zeros, [300, 300])["value"]
    assert (note["shape"], len(note["data"])) == ([300, 300], 10_000)


X = np.float32([1.0, 2.0])


@pytest.mark.parametrize(
    ("f", "expected", "words"),
    [
        (lambda x: x * x, {"value": X**3}, "is [1, 4], and should be [1, 8]"),
        (lambda x: tf.reduce_sum(x), {"value": X}, "has the shape (), and should have (2,)"),
        (lambda x: (x, x), {"value": X}, "has 2 parts, and should have 1"),
        (forgetful, {"upstream": -X, "gradients": -X}, "the gradient of input 0 is"),
        (lambda x: x * 2.0, {"gradients": [None]}, "and should be None"),
    ],
)
def test_what_is_wrong_in_the_visible_case_is_said_in_a_sentence(capsys, f, expected, words):
    feedback(f, X, check=False, **expected)
    assert words in said(capsys)


@pytest.mark.parametrize(
    ("value", "wanted", "mark"),
    [
        (4.77e-7, 5e-7, "✗"),
        (5.0001e-7, 5e-7, "✓"),
        ([0.0, 3e-5], [1e-5, 3e-5], "✗"),
        ([1e-7, 0.5], [0.0, 0.5], "✓"),  # rounding, next to a half
        (1e-10, 0.0, "✓"),
        (3.0005, 3.0, "✗"),
    ],
)
def test_a_number_is_right_to_its_digits_or_to_those_of_the_largest_beside_it(
    capsys, value, wanted, mark
):
    feedback(lambda x: 0.0 * x + value, 1.0, value=np.float32(wanted), check=False)
    assert said(capsys).startswith(mark)


# --- the teacher's page ----------------------------------------------------------------------


def test_the_exercise_of_ten_minutes_runs_as_it_is_printed():
    page = (ROOT / "classroom" / "teaching.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    names = {"tf": tf, "np": np, "classroom": classroom}
    for block in blocks:
        exec(re.sub(r"^   ", "", block, flags=re.MULTILINE), names)


def test_the_lines_for_moodle_move_each_hand_in_and_make_no_other_folder(tmp_path):
    page = (ROOT / "classroom" / "teaching.md").read_text("utf-8")
    (lines,) = re.findall(r"```console\n(for file.*?)```", page, re.DOTALL)
    late, nobody = "Ada Lovelace_1_assignsubmission_file", "Emmy Noether_2_assignsubmission_file"
    folder = tmp_path / "spring" / "submitted"
    for student, path in ((late, "02_up.ipynb.txt"), (nobody, "01_chain_rule/01_chain_rule.ipynb")):
        (folder / student / path).parent.mkdir(parents=True)
        (folder / student / path).touch()
    for moved in (True, False):
        done = subprocess.run(["sh", "-c", lines], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout + done.stderr == "", moved
        found = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*/*"))
        exercise = "02_upstream_downstream"
        assert found == [
            f"{late}/{exercise}/02_up.ipynb.txt",
            f"{nobody}/01_chain_rule/01_chain_rule.ipynb",
        ]
        assert len([*folder.glob("*/*")]) == 2


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
    pages = [lesson, *lesson.parent.glob(f"further_{lesson.name}")]
    asked = sum(page.read_text("utf-8").count("**Predict.**") for page in pages)
    assert len(rows) == asked, lesson.name


def test_each_exercise_has_its_row_for_the_teacher():
    rows = re.findall(r"^\| (\d\d\.\d) ", QUESTIONS["The exercises"], re.MULTILINE)
    tasks = [
        f"{path.name[:2]}.{number}"
        for path in sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
        for number in re.findall(r'"## (\d) · ', path.read_text("utf-8"))
    ]
    assert rows == tasks


def test_nbgrader_alone_gives_no_points_for_answers_that_nobody_compares(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(RuntimeError, match="nbgrader cannot grade this cell"):
        classroom.ask(lambda x: x, 1.0)
