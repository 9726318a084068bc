"""A pass graph is walked both ways, and has the words that every finding needs."""

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape

import cgviz
from cgviz.diagnosing import none, numbers, pass_graph
from cgviz.diagnosing.pass_graph import PassGraph
from cgviz.graph import Op, Source
from cgviz.graph.trace import walk


def graph_of(trace, which=0):
    return PassGraph(trace, trace.passes[which])


# --- walking -----------------------------------------------------------------------------------


def test_the_edges_of_a_path_lead_from_the_start_to_the_target_and_nowhere_else():
    def f(x, y):
        a = tf.sin(x)
        tf.cos(tf.exp(a))  # a dead end
        return a * y + x

    graph = graph_of(cgviz.trace(f, 1.0, 2.0))
    x, y = graph.pass_.sources
    nodes = walk([graph.nodes[x.key]], lambda n: [e.target for e in graph.onward(n)])
    edges = [edge for node in nodes for edge in graph.onward(node)]
    names = {(graph.op(e.source).type, graph.op(e.target).type) for e in edges}
    assert names == {("Input", "Sin"), ("Sin", "Mul"), ("Mul", "AddV2"), ("Input", "AddV2")}
    assert len(graph.onward(graph.nodes[y.key])) == 1


def test_ops_that_tell_of_shapes_are_no_path():
    graph = graph_of(cgviz.trace(lambda x, y: tf.reshape(y, tf.shape(x)), [1.0], [2.0]))
    x, y = graph.pass_.sources
    assert graph.onward(graph.nodes[x.key]) == []
    assert [graph.op(e.target).type for e in graph.onward(graph.nodes[y.key])] == ["Reshape"]


def test_a_value_that_no_op_made_has_no_place():
    graph = graph_of(cgviz.trace(tf.sin, 1.0))
    assert Tape().value(1.0).key not in graph.nodes


def test_a_tape_follows_what_it_watched_while_it_recorded_and_no_integers():
    x, y = tf.constant(2.6), tf.Variable(3.0, trainable=False)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            before = tf.sin(x)
        whole = tf.cast(tf.cast(x, tf.int32), tf.float32)
        tape.gradient(x * y + before + whole, x)
    graph = graph_of(trace)
    edges = [e for leaving in graph.selection.outgoing for e in leaving]
    ends = {
        (graph.op(e.source).type, graph.op(e.target).type): none.followed(graph, e) for e in edges
    }
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
    graph = graph_of(trace)
    (source,) = graph.pass_.sources
    given = [float(g) for _, _, g in graph.contributions(source)]
    np.testing.assert_allclose(sorted(given), sorted([3.0, np.cos(2.0)]), rtol=1e-6)
    np.testing.assert_allclose(sum(given), gradient, rtol=1e-6)


def test_the_seed_of_each_target_is_its_own():
    trace = cgviz.trace(lambda x: (tf.sin(x), tf.cos(x)), 1.0, upstream=(2.0, 3.0))
    graph = graph_of(trace)
    assert [float(graph.seeds[t.key]) for t in graph.pass_.targets] == [2.0, 3.0]
    assert graph.pass_.sources[0].key not in graph.seeds


def test_a_target_without_an_upstream_starts_with_ones():
    graph = graph_of(cgviz.trace(tf.sin, np.zeros((2, 3), np.float32)))
    np.testing.assert_array_equal(graph.seeds[graph.pass_.targets[0].key], np.ones((2, 3)))


def test_a_pass_over_a_backward_pass_is_of_second_order():
    trace = cgviz.trace(lambda x: x**3, 2.0, order=2)
    first, second = (graph_of(trace, which) for which in (0, 1))
    assert (first.first_order, second.first_order) == (True, False)


# --- words -------------------------------------------------------------------------------------

LINE = Source("f.py", 3, "y = tf.round(x)")
RULE = Source("f.py", 9, "def grad(dy):")


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Op("y", "op", "Round", (), (), source=LINE), "Round (line 3: `y = tf.round(x)`)"),
        (Op("y", "op", "Round", (), ()), "Round"),
        (Op("f_1", "custom", "f", (), (), source=LINE, rule=RULE), f"`f`{pass_graph.line(LINE)}"),
        (Op("f_1", "custom", "f", (), (), rule=RULE), "`f` (line 9: `def grad(dy):`)"),
        (Op("w", "variable", "Variable", (), (), source=LINE), "`w`"),
        (Op("x", "input", "Input", (), ()), "`x`"),
    ],
)
def test_an_op_is_named_with_the_learners_line(op, words):
    assert pass_graph.at(op) == words


def test_a_long_line_is_cut_and_a_line_without_text_has_its_number():
    text = "y = " + "x + " * 30
    words = pass_graph.line(Source("f.py", 3, text))
    assert words == f" (line 3: `{text[:69]}…`)"
    assert pass_graph.line(Source("f.py", 3, "x" * 70)) == f" (line 3: `{'x' * 70}`)"
    assert pass_graph.line(Source("<stdin>", 3, "")) == " (line 3)"
    assert pass_graph.line(None) == ""


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
    assert pass_graph.listed(given) == words


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
    assert (numbers.is_zero(array), numbers.is_bad(array)) == (zero, bad)


def test_few_numbers_are_shown_in_full_and_many_by_their_range():
    assert numbers.shown(2.5) == "2.5"
    assert numbers.shown(np.float16([1.0, -2.0])) == "[1, −2]"
    assert numbers.shown([3.0, -1.0, 0.0, 0.5, 2.0]) == "5 numbers from −1 to 3"
    assert numbers.shown(np.ones((0, 3))) == "float64 [0×3] empty"
    assert numbers.shown(np.full(5, 1j)) == "complex128 [5] L2 norm 2.236"


# --- where something began ---------------------------------------------------------------------


def test_zero_spreads_where_all_is_zero_and_nan_from_a_single_one():
    tape = Tape()
    x = tape.start("x", 1.0)
    a = tape.op("a", "Sin", [x], 0.8, back=[0.0], upstream=0.0)
    b = tape.op("b", "Cos", [x], 0.5, back=[np.nan], upstream=np.nan)
    y = tape.op("y", "Mul", [a, b], 1.0, back=[0.0, np.nan])
    graph = graph_of(tape.trace(y, [x, a]))
    assert [(f.name, f.sources) for f in numbers.zero(graph)] == [("y", ("a",))]
    assert [(f.name, f.sources) for f in numbers.not_finite(graph)] == [("y", ("x",))]
