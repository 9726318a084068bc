"""What a table says, before it becomes text or HTML."""

import numpy as np
import pytest
import tensorflow as tf
from programs import once

import cgviz
from cgviz.reading import cells
from cgviz.reading.listing import listed


def filled(f, *args, full=False, **options):
    listing = listed(cgviz.trace(f, *args, **options), full=full)
    return [cells.fill(listing, number, step) for number, step in listing.steps]


def words(row, width=None):
    """Per input: name, value, local and downstream as text."""
    return [
        (i.name, i.value.at(width), cells.join(i.local, width), i.downstream.at(width))
        for i in row.inputs
    ]


def test_each_input_has_its_value_its_local_and_its_downstream():
    (row,) = filled(lambda x, y: x * y, 2.0, 3.0)
    assert words(row) == [("x", "2", "3", "3"), ("y", "3", "2", "2")]
    assert cells.join(row.upstream, None) == "1"
    assert not row.custom


def test_several_outputs_stand_in_one_cell():
    @tf.custom_gradient
    def two(x):
        return (x * 2.0, x * 3.0), lambda u, v: u * 2 + v * 3

    row = filled(lambda x: tf.add(*two(x)), 1.0)[1]
    assert row.custom
    assert cells.join(row.upstream, None) == "1, 1"
    assert words(row) == [("x", "1", "2, 3", "5")]


def test_constants_are_left_out_unless_all_is_asked_for():
    (row,) = filled(lambda x: 3.0 * x, 2.0)
    assert [i.name for i in row.inputs] == ["x"]
    (row,) = filled(lambda x: 3.0 * x, 2.0, full=True)
    assert len(row.inputs) == 2


def test_an_input_that_gets_nothing_is_shown_with_none():
    row = filled(lambda x, y: tf.round(x) * y, 2.0, 3.0)[1]
    assert words(row) == [("x", "2", "None", "None")]


def test_a_diagonal_jacobian_is_written_by_its_diagonal():
    (row,) = filled(tf.square, [1.0, 2.0, 3.0])
    assert words(row)[0][2] == "diag(2, 4, 6)"


def test_a_jacobian_of_zeros_is_no_diagonal():
    (row,) = filled(tf.square, [0.0, 0.0])
    assert words(row)[0][2] == "[[0, 0], [0, 0]]"


def test_a_nan_off_the_diagonal_is_seen():
    (row,) = filled(tf.math.log, [0.0, 1.0])
    assert words(row)[0][2] == "[[∞, 0], [NaN, 1]]"


def test_the_jacobian_of_a_matrix_has_a_row_per_entry_of_the_output():
    w = np.array([[1.0, 2.0], [3.0, 4.0]], "f")
    row = next(r for r in filled(lambda x: x @ w, [[1.0, 1.0]]) if r.type == "MatMul")
    assert words(row)[0][2] == "[[1, 3], [2, 4]]"


def test_a_larger_jacobian_is_its_shape_and_no_rule_runs_for_it():
    (row,) = filled(tf.sin, np.ones(5, "f"))
    assert words(row)[0][2] == "[5×5]"


def test_a_local_that_cannot_be_had_is_not_known():
    (row,) = filled(once(), 1.0)
    assert words(row) == [("x", "1", "not known", "1")]


def test_empty_and_complex_and_nan_tensors_have_words():
    (row,) = filled(tf.sin, np.zeros((0, 2), "f"))
    assert words(row)[0][1] == "float32 [0×2] empty"
    (row,) = filled(tf.square, np.complex64(1 + 2j))
    assert words(row)[0][1] == "1+2i"
    (row,) = filled(tf.square, np.nan)
    assert words(row) == [("x", "NaN", "NaN", "NaN")]


def test_the_title_counts_ops_and_passes():
    assert cells.title(cgviz.trace(tf.square, 2.0, order=2)).endswith(": 1 op, 2 backward passes")


def test_the_facts_are_the_value_and_the_gradients():
    facts = cells.facts(cgviz.trace(lambda x, y: tf.round(x) * y, 2.0, 3.0))
    assert facts == [("value", "6"), ("gradients", "x None, y 2")]


def test_a_nested_value_keeps_its_structure():
    facts = cells.facts(cgviz.trace(lambda x: {"a": x * 2.0, "b": (x, [x])}, 3.0))
    assert facts[0] == ("value", "{a: 6, b: (3, (3))}")


def test_many_gradients_are_counted():
    variables = [tf.Variable(1.0, name=f"v{k}") for k in range(20)]
    facts = cells.facts(cgviz.trace(lambda x: x * tf.add_n([v * 1.0 for v in variables]), 1.0))
    assert facts[1][1].endswith("and 13 more")


def test_the_caption_says_how_much_is_folded_away():
    trace = cgviz.trace(lambda x: tf.identity(x * x), 3.0)
    assert "(1 folded away; full=True shows all)" in cells.caption(listed(trace))
    assert "folded" not in cells.caption(listed(trace, full=True))


def test_where_there_is_no_room_a_summary_stands():
    (row,) = filled(tf.square, [1.0, 2.0, 3.0])
    assert words(row, 9) == [("x", "[1, 2, 3]", "[3×3]", "[2, 4, 6]")]
    assert words(row, 8) == [("x", "[3] L2 norm 3.742", "[3×3]", "[3] L2 norm 7.483")]


def test_a_large_array_is_summed_up_once(monkeypatch):
    calls = []
    found = cells.style.statistics
    monkeypatch.setattr(cells.style, "statistics", lambda a: calls.append(a) or found(a))
    repr(cgviz.trace(tf.sin, np.ones(50, "f")).table())
    assert len(calls) == 3  # its input, its upstream, its downstream


@pytest.mark.parametrize(("given", "cut"), [("abc", "abc"), ("abcd", "abcd"), ("abcde", "abc…")])
def test_words_are_cut_to_a_width(given, cut):
    assert cells.clipped(given, 4) == cut
