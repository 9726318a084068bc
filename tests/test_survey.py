"""A survey walks one backward pass both ways, and has the words that every finding needs."""

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape

import cgviz
from cgviz.diagnosing import survey
from cgviz.diagnosing.survey import Survey
from cgviz.graph import Op, Source, Step


def surveyed(trace, which=0):
    return Survey(trace, trace.passes[which])


# --- walking -----------------------------------------------------------------------------------


def test_the_edges_of_a_path_lead_from_the_start_to_the_target_and_nowhere_else():
    def f(x, y):
        a = tf.sin(x)
        tf.cos(tf.exp(a))  # a dead end
        return a * y + x

    walk = surveyed(cgviz.trace(f, 1.0, 2.0))
    x, y = walk.pass_.sources
    edges = walk.path_edges(walk.place(x))
    names = {(walk.op(e.source).type, walk.op(e.target).type) for e in edges}
    assert names == {("Input", "Sin"), ("Sin", "Mul"), ("Mul", "AddV2"), ("Input", "AddV2")}
    assert len(walk.path_edges(walk.place(y))) == 2


def test_ops_that_tell_of_shapes_are_no_path():
    walk = surveyed(cgviz.trace(lambda x, y: tf.reshape(y, tf.shape(x)), [1.0], [2.0]))
    x, y = walk.pass_.sources
    assert walk.path_edges(walk.place(x)) == []
    assert [walk.op(e.target).type for e in walk.path_edges(walk.place(y))] == ["Reshape"]


def test_a_value_that_no_op_made_has_no_place():
    walk = surveyed(cgviz.trace(tf.sin, 1.0))
    assert walk.place(Tape().value(1.0)) is None


def test_a_tape_follows_what_it_watched_while_it_recorded_and_no_integers():
    x, y = tf.constant(2.6), tf.Variable(3.0, trainable=False)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            before = tf.sin(x)
        whole = tf.cast(tf.cast(x, tf.int32), tf.float32)
        tape.gradient(x * y + before + whole, x)
    walk = surveyed(trace)
    edges = [e for leaving in walk.selection.outgoing for e in leaving]
    ends = {(walk.op(e.source).type, walk.op(e.target).type): walk.followed(e) for e in edges}
    assert ends == {
        ("Input", "Mul"): True,
        ("Variable", "Mul"): False,  # not trainable
        ("Input", "Sin"): False,  # the tape was stopped
        ("Input", "Cast"): True,
        ("Cast", "Cast"): False,  # int32
        ("Mul", "AddV2"): True,
        ("Sin", "AddV2"): False,
        ("Cast", "AddV2"): False,
        ("AddV2", "AddV2"): True,
    }


def test_the_contributions_of_a_variable_are_those_of_all_its_reads():
    v = tf.Variable(2.0, name="v")
    with cgviz.record() as trace, tf.GradientTape() as tape:
        gradient = tape.gradient(v * 3.0 + tf.sin(v), v)
    walk = surveyed(trace)
    (source,) = walk.pass_.sources
    given = [float(g) for _, _, g in walk.contributions(source)]
    np.testing.assert_allclose(sorted(given), sorted([3.0, np.cos(2.0)]), rtol=1e-6)
    np.testing.assert_allclose(sum(given), gradient, rtol=1e-6)


def test_the_seed_of_each_target_is_its_own():
    trace = cgviz.trace(lambda x: (tf.sin(x), tf.cos(x)), 1.0, upstream=(2.0, 3.0))
    walk = surveyed(trace)
    assert [float(walk.seed(t)) for t in walk.pass_.targets] == [2.0, 3.0]
    assert walk.seed(walk.pass_.sources[0]) is None


def test_a_target_without_an_upstream_starts_with_ones():
    walk = surveyed(cgviz.trace(tf.sin, np.zeros((2, 3), np.float32)))
    np.testing.assert_array_equal(walk.seed(walk.pass_.targets[0]), np.ones((2, 3)))


def test_a_pass_over_a_backward_pass_is_of_second_order():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    first, second = (surveyed(trace, which) for which in (0, 1))
    assert (first.first_order, first.first_order_targets) == (True, True)
    assert (second.first_order, second.first_order_targets) == (False, False)


def test_a_target_made_before_the_recording_is_unknown():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with cgviz.record() as trace:
        tape.gradient(y, x)
    assert surveyed(trace).unknown_target
    assert not surveyed(cgviz.trace(tf.sin, 1.0)).unknown_target


# --- words -------------------------------------------------------------------------------------

LINE = Source("f.py", 3, "y = tf.round(x)")
RULE = Source("f.py", 9, "def grad(dy):")


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Op("y", "op", "Round", (), (), source=LINE), "Round (line 3: `y = tf.round(x)`)"),
        (Op("y", "op", "Round", (), ()), "Round"),
        (Op("f_1", "custom", "f", (), (), source=LINE, rule=RULE), f"`f`{survey.line(LINE)}"),
        (Op("f_1", "custom", "f", (), (), rule=RULE), "`f` (line 9: `def grad(dy):`)"),
        (Op("w", "variable", "Variable", (), (), source=LINE), "`w`"),
        (Op("x", "input", "Input", (), ()), "`x`"),
    ],
)
def test_an_op_is_named_with_the_learners_line(op, words):
    assert survey.at(op) == words


def test_a_long_line_is_cut_and_a_line_without_text_has_its_number():
    text = "y = " + "x + " * 30
    words = survey.line(Source("f.py", 3, text))
    assert words == f" (line 3: `{text[:69]}…`)"
    assert survey.line(Source("f.py", 3, "x" * 70)) == f" (line 3: `{'x' * 70}`)"
    assert survey.line(Source("<stdin>", 3, "")) == " (line 3)"
    assert survey.line(None) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a", "a"),
        ("aba", "a and b"),
        ("abcd", "a, b, c and d"),
        ("abcde", "a, b, c and 2 more"),
        ("aabbccddeeff", "a, b, c and 3 more"),
    ],
)
def test_many_names_are_a_short_list(given, words):
    assert survey.names(given) == words


@pytest.mark.parametrize(
    ("array", "zero", "bad"),
    [
        ([], False, False),
        ([0.0, -0.0], True, False),
        ([0.0, 1e-320], False, False),
        ([0.0, np.nan], False, True),
        ([-np.inf], False, True),
        (complex(0, np.nan), False, True),
        (0j, True, False),
        (np.float16(0), True, False),
        (np.array([0, 0]), True, False),
        (tf.constant([0.0], tf.bfloat16), True, False),
        (tf.constant([np.inf], tf.bfloat16), False, True),
    ],
)
def test_zero_and_bad_numbers_of_every_type_are_told(array, zero, bad):
    assert (survey.is_zero(array), survey.is_bad(array)) == (zero, bad)


def test_few_numbers_are_shown_in_full_and_many_by_their_range():
    assert survey.shown(2.5) == "2.5"
    assert survey.shown(np.float16([1.0, -2.0])) == "[1, −2]"
    assert survey.shown([3.0, -1.0, 0.0, 0.5, 2.0]) == "5 numbers from −1 to 3"
    assert survey.shown(np.ones((0, 3))) == "float64 [0×3] empty"
    assert survey.shown(np.full(5, 1j)) == "complex128 [5] L2 norm 2.236"


def test_the_outputs_whose_upstream_passes_a_test_are_found():
    tape = Tape()
    outputs = tuple(tape.value(1.0) for _ in range(3))
    step = Step(Op("y", "op", "Unpack", (), outputs), [np.zeros(1), None, np.ones(1)], [])
    assert survey.outputs_with(step, step.upstream, survey.is_zero) == [outputs[0]]
    assert survey.outputs_with(step, step.upstream, lambda u: True) == [outputs[0], outputs[2]]
