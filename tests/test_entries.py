"""Single entries: where the first bad one is, and which inputs it came of."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from handmade import Tape

from cgviz.diagnosing import entries

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("a", "nan", "inf"),
    [
        ([], False, False),
        ([0.0, 1e308], False, False),
        (NAN, True, False),
        ([-INF], False, True),
        ([complex(0, NAN)], True, False),
        ([complex(NAN, INF)], True, True),
    ],
)
def test_nan_and_infinity_are_seen_in_each_part_of_a_number(a, nan, inf):
    assert (entries.has_nan(np.array(a)), entries.has_inf(np.array(a))) == (nan, inf)


def test_a_nan_is_worse_than_an_infinity_before_it():
    assert entries.first_bad(np.array([[INF, 1.0], [NAN, NAN]])) == (1, 0)
    assert entries.first_bad(np.array([1.0, -INF, INF])) == (1,)
    assert entries.first_bad(np.array(NAN)) == ()


def test_a_scalar_has_no_entry_to_name():
    assert entries.entry(()) == ""
    assert entries.entry((1, 0)) == " at entry [1, 0]"


def test_integers_have_no_numbers_of_interest():
    tape = Tape()
    assert entries.numbers(tape.value([1, 2], np.int64)).size == 0
    assert entries.numbers(tape.value(1 + 2j, np.complex64)).dtype == np.complex128
    assert entries.numbers(tape.value(65504, np.float16)) * 2 == 131008  # no longer float16


def made(type_, *inputs, like, **how):
    """An op of these inputs, and its output."""
    tape = Tape()
    values = [tape.start(f"x{i}", number) for i, number in enumerate(inputs)]
    output = tape.op("y", type_, values, np.zeros(like), **how)
    return tape.ops[-1], output


def test_an_entry_finds_its_numbers_also_where_they_were_broadcast():
    row, column = np.arange(3.0), np.arange(10.0, 12.0)[:, None]
    op, y = made("Mul", row, column, like=(2, 3))
    for index in np.ndindex(2, 3):
        found = [entries.number_at(op, v, index, y) for v in op.inputs]
        assert found == [np.broadcast_to(a, (2, 3))[index] for a in (row, column)]


def test_numbers_that_are_not_of_one_entry_are_not_told():
    square = np.ones((2, 2))
    op, y = made("MatMul", square, square, like=(2, 2))
    assert entries.number_at(op, op.inputs[0], (0, 1), y) is None  # it came of a whole row
    op, y = made("Sub", np.ones(3), np.zeros((0,)), like=(0,))
    assert entries.number_at(op, op.inputs[0], (0,), y) is None
    op, y = made("Sum", np.ones(3), like=())
    assert entries.number_at(op, op.inputs[0], (), y) is None


def test_a_single_number_belongs_to_every_entry():
    op, y = made("Prelu", np.full((1, 1), 7.0), like=(2, 3))
    assert entries.number_at(op, op.inputs[0], (1, 2), y) == 7.0


def test_the_inputs_of_an_entry_read_as_words():
    op, _ = made("Pow", [0.0, 4.0], -0.5, like=(2,))
    name = {op.inputs[0]: "`x`", op.inputs[1]: "`p`"}.get
    assert entries.inputs_at(op, (1,), name) == " from `x` = 4 and `p` = −0.5"
    assert entries.inputs_at(op, (), name, op.inputs[1]) == " from `p` = −0.5"
    tape = Tape()
    tape.op("y", "Bincount", [tape.start("i", [1], dtype=np.int32)], [1.0])
    assert entries.inputs_at(tape.ops[-1], (0,), str) == ""


def call(type_, x):
    """Run an op with x for all its inputs."""
    raw = getattr(tf.raw_ops, type_)
    tensors = [
        name
        for name, each in inspect.signature(raw).parameters.items()
        if each.default is inspect.Parameter.empty and name != "DstT"
    ]
    given = dict.fromkeys(tensors, tf.cast(x, tf.bool) if type_.startswith("Logical") else x)
    special = {"condition": x > 0.0, "bias": x[0], "inputs": [x, x]}
    given |= {name: special[name] for name in tensors if name in special}
    return raw(**given, **({"DstT": tf.float64} if type_ == "Cast" else {}))


@pytest.mark.parametrize(
    "type_",
    sorted(entries._BY_ENTRY - {"AccumulateNV2"}),  # that one runs in graphs alone
)
def test_in_an_op_by_entry_one_entry_does_not_change_another(type_):
    x = np.array([[0.3, -0.2], [0.3, 0.9], [-0.5, 0.1]], np.float32)
    change = np.zeros_like(x)
    change[1, 1] = 1
    one, other = (call(type_, tf.constant(each)) for each in (x, x + change))
    assert one.shape == x.shape
    np.testing.assert_array_equal(one[change == 0], other[change == 0])
