"""The backward table as rows: dicts whose numbers are read when asked for."""

import numpy as np
import pytest
import tensorflow as tf
from programs import square

import cgviz
from cgviz.reading.table import COLUMNS


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


def test_a_row_is_a_dict_of_all_columns():
    (row,) = cgviz.trace(square, 3.0).table()
    assert isinstance(row, dict)
    assert tuple(row) == COLUMNS
    assert row.get("nothing", 7) == 7
    assert (
        dict(row)
        == row.copy()
        == {
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
    )


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
    assert len(runs) == 1


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


def test_a_data_frame_takes_the_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(cgviz.trace(lambda x: square(square(x)), 2.0).table())
    assert list(frame.columns) == list(COLUMNS)
    assert frame["downstream"].tolist() == [8.0, 32.0]
