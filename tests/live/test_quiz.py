"""Predict before reveal: what is asked, what is known of mistakes, and what is kept back."""

import re

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.live.quiz import MISTAKES


def f(x):
    a = x * x
    y = 3.0 * a
    return y


def mistakes(question):
    found = {}
    kinds = {words: kind for kind, words in MISTAKES.items()}
    for words, numbers in question["mistakes"]:
        found.setdefault(kinds[words], []).append(numbers)
    return found


def test_each_step_is_asked_for_in_order():
    quiz = cgviz.predict(cgviz.trace(f, 2.0))
    assert [q["step"] for q in quiz.questions] == [1, 2, 2]
    assert [q["answer"] for q in quiz.questions] == [[3.0], [6.0], [6.0]]


def test_it_knows_what_comes_of_each_mistake():
    first, second, _ = cgviz.predict(cgviz.trace(f, 2.0, upstream=5.0)).questions
    assert mistakes(first) == {
        "sign": [[-15.0]],
        "upstream": [[3.0]],
        "local": [[5.0]],
        "own": [[20.0]],
        "sum": [[8.0]],
    }
    assert mistakes(second)["upstream"] == [[2.0]]
    own = cgviz.predict(cgviz.trace(lambda a, b: a * b, 4.0, 5.0)).questions[1]
    assert list(mistakes(own)).index("own") < list(mistakes(own)).index("sum")  # 5 is 1 + 4, too
    assert mistakes(own)["own"] == mistakes(own)["sum"] == [[5.0]]


def test_a_complex_upstream_is_no_mistake_that_a_real_answer_can_show():
    quiz = cgviz.predict(cgviz.trace(lambda a, b: tf.abs(tf.complex(a, b)), 3.0, 4.0))
    for question, answer, other in zip(quiz.questions, (0.6, 0.8), (0.8, 0.6), strict=True):
        assert question["answer"] == [pytest.approx(answer)]
        known = {"sign": [[pytest.approx(-answer)]], "other": [[pytest.approx(other)]]}
        assert mistakes(question) == known


def test_who_multiplies_where_a_rule_does_not_is_told_that_the_rule_is_wrong():
    rule = tf.custom_gradient(lambda x: (x * x, lambda upstream: 2.0 * x))
    asked = cgviz.predict(cgviz.trace(lambda x: 3.0 * rule(x), 2.0)).questions[-1]
    assert asked["answer"] == [4.0]
    assert asked["mistakes"][0] == (
        "That is upstream · local. This rule returns another number.",
        [12.0],
    )


def test_it_knows_what_one_path_alone_gives():
    def two_ways(x):
        a = tf.square(x)
        y = tf.sin(a) + 3.0 * a
        return y

    quiz = cgviz.predict(cgviz.trace(two_ways, 2.0))
    last = quiz.questions[-1]
    assert last["answer"] == [pytest.approx(4 * (np.cos(4.0) + 3), rel=1e-6)]
    assert sorted(x[0] for x in mistakes(last)["path"]) == pytest.approx(
        sorted([4 * np.cos(4.0), 12.0]), rel=1e-6
    )


def test_outputs_of_two_shapes_are_paths_of_their_own():
    def f(x):
        a, b = tf.split(x, [1, 2])
        return tf.reduce_sum(a) * tf.reduce_sum(b)

    last = cgviz.predict(cgviz.trace(f, [1.0, 2.0, 3.0])).questions[-1]
    assert last["answer"] == [5.0, 1.0, 1.0]
    assert "path" not in mistakes(last)


def noise(hide, f, *given):
    asked = cgviz.predict(cgviz.trace(f, *given), hide=hide).questions
    return [q["noise"] / abs(q["answer"][0]) for q in asked]


def test_what_rounding_leaves_of_0_may_be_called_0_and_a_number_as_small_may_not():
    at = tf.constant(np.pi / 4, tf.float64)
    assert noise("downstream", lambda x: tf.sin(x * 2.0), at)[0] > 1
    assert noise("local", lambda x: tf.sin(x), 2 * at)[0] > 1
    assert noise("gradient", lambda x: 0.1 * x + 0.2 * x - 0.3 * x, 1e-3 * at)[0] > 1
    assert max(noise("downstream", lambda x: 3e-20 * tf.sin(x), 1.0)) < 1e-5
    assert max(noise("downstream", lambda x: tf.exp(x), -45.0)) < 1e-5


def test_a_vector_is_asked_for_entry_by_entry():
    quiz = cgviz.predict(cgviz.trace(lambda x: tf.reduce_sum(x * x), [1.0, 2.0]))
    assert quiz.questions[-1]["answer"] == [1.0, 2.0]


def test_large_arrays_are_not_asked_for():
    quiz = cgviz.predict(cgviz.trace(lambda x: tf.reduce_sum(tf.sin(x) * x[0]), tf.ones([9])))
    assert all(len(q["answer"]) <= 4 for q in quiz.questions)
    with pytest.raises(ValueError, match="no downstream to ask for"):
        cgviz.predict(cgviz.trace(tf.sin, tf.ones([9])))


def repeated(x):
    for _ in range(100):
        x = x * 1.01
    return x


@pytest.mark.parametrize(
    ("f", "x", "hide", "needed"),
    [
        (repeated, 1.0, "downstream", "an op, in a box of its own"),
        (tf.square, tf.constant(1 + 2j), "downstream", "in float16, float32 or float64"),
        (tf.square, tf.constant(1.0, tf.bfloat16), "local", "in float16, float32 or float64"),
        (tf.round, 2.6, "downstream", "not None"),
        (tf.sin, 2.6, "gradient", "a value used more than once"),
    ],
)
def test_where_there_is_nothing_to_ask_the_error_says_what_a_question_needs(f, x, hide, needed):
    with pytest.raises(ValueError, match=f"no {hide} to ask for .*: a question needs .*{needed}"):
        cgviz.predict(cgviz.trace(f, x), hide=hide)


def test_local_derivatives_can_be_asked_for():
    quiz = cgviz.predict(cgviz.trace(f, 2.0, upstream=5.0), hide="local")
    assert [q["answer"] for q in quiz.questions] == [[3.0], [2.0], [2.0]]
    assert mistakes(quiz.questions[0])["times"] == [[15.0]]


def test_a_local_jacobian_is_asked_for_with_its_shape():
    trace = cgviz.trace(lambda x: tf.reduce_sum(tf.nn.relu(x)), [6.0, -12.0])
    asked = cgviz.predict(trace, hide="local").questions
    one, two = (len(question["answer"]) for question in asked)
    assert (one, two) == (2, 4)
    assert asked[0]["text"].endswith("with respect to relu: the 1×2 Jacobian, row by row?")
    assert asked[1]["text"].endswith("relu with respect to x: the 2×2 Jacobian, row by row?")


def test_sums_can_be_asked_for():
    (question,) = cgviz.predict(cgviz.trace(f, 2.0), hide="gradient").questions
    assert question["answer"] == [12.0]
    assert question["step"] == 2
    assert mistakes(question)["multiplied"] == [[36.0]]


@pytest.mark.parametrize(
    ("hide", "words"),
    [
        ("downstream", "Multiply the upstream by the local for this input alone."),
        ("local", "Differentiate the op alone."),
        ("gradient", "Add every gradient that arrives there."),
    ],
)
def test_an_answer_of_no_known_mistake_gets_a_hint_at_what_was_asked(hide, words):
    questions = cgviz.predict(cgviz.trace(f, 2.0), hide=hide).questions
    assert {question["hint"] for question in questions} == {f"Not yet. {words}"}


def test_what_is_no_number_is_told_as_a_word():
    quiz = cgviz.predict(cgviz.trace(lambda x: tf.math.log(x), 0.0))
    assert quiz.questions[0]["answer"] == ["Infinity"]


def written(quiz):
    """What the stored picture says: of gradients, and of all else."""
    (shown,) = quiz.drawn()
    said = {True: [], False: []}
    for text in shown.texts:
        said[text.role == "gradient"].append(text.at(shown.steps))
    return sorted(said[True]), sorted(said[False])


@pytest.mark.parametrize("hide", ["downstream", "local", "gradient"])
def test_what_is_stored_beside_it_has_a_gap_for_each_answer_and_is_else_the_picture(hide):
    trace = cgviz.trace(f, 2.0)
    quiz = cgviz.predict(trace, hide=hide)
    gradients, others = written(quiz)
    assert gradients.count("?") >= len(quiz.questions)
    answers = {question["shown"] for question in quiz.questions} - {"3"}  # a forward constant
    assert not answers & {*gradients}
    assert others == written_in_full(trace)
    assert quiz.still().startswith("<img alt=")


def written_in_full(trace):
    (shown,) = trace.view().drawn()
    return sorted(text.at(shown.steps) for text in shown.texts if text.role != "gradient")


def test_the_gradient_that_a_quiz_starts_with_is_no_gap():
    gradients, _ = written(cgviz.predict(cgviz.trace(f, 2.0, upstream=5.0)))
    assert gradients == ["5", *["?"] * 4]


def test_what_is_stored_beside_it_tells_no_answer():
    quiz = cgviz.predict(cgviz.trace(f, 2.0))
    assert quiz.words.splitlines() == [
        "3 questions on a live view of a trace of f: 2 ops, 1 backward pass",
        "1. What does 3 × (y) return to a?",
        "2. What does × (a) return to x, its first input?",
        "3. What does × (a) return to x, its second input?",
    ]


def test_it_begins_before_the_backward_pass():
    assert cgviz.predict(cgviz.trace(f, 2.0)).step == 0


def test_it_can_be_saved_as_a_page(tmp_path):
    cgviz.predict(cgviz.trace(f, 2.0)).save(tmp_path / "quiz.html")
    text = (tmp_path / "quiz.html").read_text(encoding="utf-8")
    assert "return to a" in text
    words = re.search(r"<noscript>(.*?)</noscript>", text, re.DOTALL)[1]
    assert "12" not in words


def test_it_is_saved_as_a_page_only(tmp_path):
    with pytest.raises(ValueError, match=r"its suffix says what to write: \.html"):
        cgviz.predict(cgviz.trace(f, 2.0)).save(tmp_path / "quiz.png")


def test_what_cannot_be_asked_is_named():
    with pytest.raises(TypeError, match="`trace` must be a trace, not function"):
        cgviz.predict(f)
    with pytest.raises(ValueError, match="`hide` must be one of downstream, local, gradient"):
        cgviz.predict(cgviz.trace(f, 2.0), hide="everything")
    with pytest.raises(ValueError, match="1 backward pass"):
        cgviz.predict(cgviz.trace(f, 2.0), which=3)


@pytest.mark.parametrize(
    ("f", "x", "shared"),
    [
        (tf.cumsum, [1.0, 2.0], True),
        (lambda x: x * tf.constant([1.0, 2.0, 3.0]), 2.0, True),
        (tf.sin, 1.0, False),
        (tf.sin, [1.0, 2.0], False),
        (tf.reduce_sum, [1.0, 2.0], False),
    ],
)
def test_the_hint_speaks_of_all_results_where_an_entry_is_part_of_several(f, x, shared):
    (question,) = cgviz.predict(cgviz.trace(f, x)).questions
    what = "it" if np.ndim(x) == 0 else "an entry"  # a single number has no entries
    assert (f"all results that {what} is part of" in question["hint"]) is shared
    assert (
        "Multiply the upstream by the local for this input alone" in question["hint"]
    ) is not shared


def test_of_a_custom_op_the_hint_speaks_of_its_rule_which_may_be_no_derivative():
    @tf.custom_gradient
    def straight(x):
        return tf.sign(x), lambda upstream: upstream

    (question,) = cgviz.predict(cgviz.trace(straight, [-2.0, 0.5])).questions
    assert question["hint"] == "Not yet. Put the upstream into its backward rule."


def test_the_gradient_of_the_other_input_is_named_as_such():
    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda upstream: (upstream * y, upstream * x)

    to_x, to_y = cgviz.predict(cgviz.trace(product, 2.0, 3.0, upstream=10.0)).questions
    assert ["That is what another input gets.", [20.0]] in map(list, to_x["mistakes"])
    assert ["That is what another input gets.", [30.0]] in map(list, to_y["mistakes"])


def test_who_takes_0_times_infinity_for_0_is_told_so():
    trace = cgviz.trace(lambda x: tf.where(x > 50.0, x, tf.math.log(1.0 + tf.exp(x))), 100.0)
    at_exp = next(q for q in cgviz.predict(trace).questions if "exp return" in q["text"])
    assert at_exp["answer"] == ["NaN"]
    assert at_exp["mistakes"][0] == ("0 · ∞ is not 0.", [0.0])
