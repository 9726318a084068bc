"""Which ops matter for a pass, in which order, and which of them belong together."""

import handmade
import numpy as np
import pytest
import tensorflow as tf
from programs import penalty

import cgviz
from cgviz.graph.folding import Fold, leaves
from cgviz.graph.pruning import Pruned, folded, in_order, prune


def chosen(trace, which=-1, full=False):
    return prune(trace, trace.passes[which] if trace.passes else None, full)


def names(pruned):
    return [op.name for op in pruned.ops]


def types(f, *args, **how):
    return [op.type for op in chosen(cgviz.trace(f, *args), **how).ops if op.kind != "input"]


def test_dead_ends_are_left_out():
    def f(x):
        tf.exp(x)
        return tf.sin(x)

    assert types(f, 1.0) == ["Sin"]


def test_shape_helpers_and_identities_are_left_out_unless_all_is_asked_for():
    def f(x):
        y = tf.identity(x * x)
        return y * tf.cast(tf.size(x), tf.float32)

    assert types(f, [1.0, 2.0]) == ["Mul", "Mul"]
    assert {"Identity", "Cast"} <= set(types(f, [1.0, 2.0], full=True))


def test_a_cast_of_a_float_is_kept_and_one_of_an_integer_is_not():
    assert types(lambda x: tf.cast(x, tf.float64) * 2.0, 1.0) == ["Cast", "Mul"]
    kept = types(lambda x, i: x * tf.cast(i, tf.float32), 1.0, np.int32(2))
    assert kept == ["Mul"]


def test_what_comes_of_constants_alone_is_left_out():
    tape = handmade.Tape()
    x = tape.start("x", 2.0)
    one, two = (tape.start(name, 3.0, kind="constant") for name in ("one", "two"))
    total = tape.op("total", "AddV2", [one, two], 6.0)
    y = tape.op("y", "Mul", [tape.op("half", "Mul", [total, one], 3.0), x], 6.0, back=[2.0, 3.0])
    assert names(chosen(tape.trace(y, [x]))) == ["x", "y"]
    everything = ["x", "one", "two", "total", "half", "y"]
    assert names(chosen(tape.trace(y, [x]), full=True)) == everything


def test_a_constant_whose_gradient_is_asked_for_is_kept():
    tape = handmade.Tape()
    c = tape.start("c", 2.0, kind="constant")
    y = tape.op("y", "Sin", [c], 0.9, back=[-0.4])
    assert names(chosen(tape.trace(y, [c]))) == ["c", "y"]


def test_a_value_is_found_past_any_number_of_identities():
    tape = handmade.Tape()
    x = tape.start("x", 2.0)
    first = tape.op("first", "Identity", [x], 2.0, back=[1.0])
    second = tape.op("second", "Identity", [first], 2.0, back=[1.0])
    y = tape.op("y", "Sin", [second], 0.9, back=[-0.4])
    target = tape.op("target", "Identity", [y], 0.9, back=[1.0])
    pruned = chosen(tape.trace(target, [x]))
    assert names(pruned) == ["x", "y"]
    assert pruned.value(second) is x
    assert pruned.maker(second)[0].name == "x"
    assert pruned.maker(target)[0].name == "y"


def test_an_identity_whose_gradient_is_asked_for_is_kept():
    tape = handmade.Tape()
    x = tape.start("x", 2.0)
    h = tape.op("h", "Identity", [x], 2.0, back=[1.0])
    y = tape.op("y", "Sin", [h], 0.9, back=[-0.4])
    assert names(chosen(tape.trace(y, [h]))) == ["x", "h", "y"]


def test_a_source_that_leads_nowhere_is_kept():
    tape = handmade.Tape()
    x, unused = tape.start("x", 2.0), tape.start("unused", 2.0)
    y = tape.op("y", "Sin", [x], 0.9, back=[-0.4])
    assert names(chosen(tape.trace(y, [x, unused]))) == ["x", "unused", "y"]


def test_what_a_rule_captured_is_kept():
    tape = handmade.Tape()
    x, w = tape.start("x", 2.0), tape.start("w", 3.0)
    h = tape.op("h", "Sin", [w], 0.1)
    y = tape.op("y", "scale", [x], 0.2, back=[0.1], kind="custom", captured=(h,))
    assert names(chosen(tape.trace(y, [x]))) == ["x", "w", "h", "y"]


def test_without_a_pass_all_but_the_dull_is_chosen():
    tape = handmade.Tape()
    x, c = tape.start("x", 2.0), tape.start("c", 3.0, kind="constant")
    tape.op("aside", "Exp", [x], 7.4)
    y = tape.op("y", "Mul", [x, c], 6.0)
    pruned = chosen(tape.trace(y, [x], passes=False))
    assert names(pruned) == ["x", "aside", "y"]
    assert pruned.pass_ is None


def test_a_second_pass_has_the_ops_of_the_first_on_a_level_above():
    trace = cgviz.trace(lambda x: tf.sin(x) * x, 1.0, order=2)
    pruned = chosen(trace)
    assert {pruned.levels[op] for op in pruned.ops} == {0, 1}
    assert [p.index for p in pruned.below] == [0]
    first = chosen(trace, 0)
    assert {first.levels[op] for op in first.ops} == {0}
    assert not first.below


def test_the_forward_pass_is_there_even_where_no_second_gradient_comes():
    pruned = chosen(cgviz.trace(lambda x: x**3, 3.0, order=2))
    assert ("Pow", 0) in {(op.type, pruned.levels[op]) for op in pruned.ops}


def test_another_call_on_a_persistent_tape_is_no_part_of_a_second_pass():
    x = tf.constant(1.0)
    with cgviz.record() as trace, tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, other = tf.sin(x), tf.exp(x)
        slope = tape.gradient(y, x)
        tape.gradient(other, x)
        outer.gradient(slope, x)
    pruned = chosen(trace)
    assert [p.index for p in pruned.below] == [0]
    assert "Exp" not in {op.type for op in pruned.ops}


# --- the order ---------------------------------------------------------------------------------


def test_every_op_comes_after_what_it_uses_also_in_a_gradient_penalty():
    trace = cgviz.trace(penalty, 1.0)
    for which in (0, 1):
        pruned = chosen(trace, which)
        order = in_order(pruned)
        assert len(order) == len(pruned.ops)
        for i, op in enumerate(order):
            makers = [m[0] for v in op.inputs if (m := pruned.maker(v))]
            assert all(order.index(m) < i for m in makers if m in order)


def line(*ops):
    """A pruned of these ops, in this order."""
    made = {v.key: (op, i) for op in ops for i, v in enumerate(op.outputs)}
    return Pruned(list(ops), None, dict.fromkeys(ops, 0), made)


def test_ops_that_do_not_wait_for_each_other_stay_in_the_order_in_which_they_ran():
    tape = handmade.Tape()
    a, b = tape.start("a", 1.0), tape.start("b", 1.0)
    late = tape.op("late", "Mul", [a, b], 1.0)
    tape.op("end", "Sin", [late], 1.0)
    tape.start("c", 1.0)
    ops = {op.name: op for op in tape.ops}
    shuffled = line(*(ops[n] for n in ("c", "end", "late", "b", "a")))
    assert [op.name for op in in_order(shuffled)] == ["c", "b", "a", "late", "end"]


def test_a_value_used_twice_is_waited_for_once():
    tape = handmade.Tape()
    x = tape.start("x", 3.0)
    tape.op("y", "Mul", [x, x], 9.0)
    assert [op.name for op in in_order(line(*tape.ops))] == ["x", "y"]


# --- what belongs together ---------------------------------------------------------------------


def folds(tape, limit=60):
    found = folded(line(*tape.ops), tape.ops, limit)
    return {
        each.name: [tape.ops[i].name for i in leaves(each)]
        for each in found
        if isinstance(each, Fold)
    }


def test_a_variable_belongs_to_the_layer_that_alone_uses_it():
    tape = handmade.Tape()
    x = tape.start("x", 1.0)
    own, shared = tape.start("own", 1.0, "variable"), tape.start("shared", 1.0, "variable")
    a = tape.op("a", "Mul", [x, own], 1.0, scope="first")
    b = tape.op("b", "Mul", [a, shared], 1.0, scope="first")
    c = tape.op("c", "Mul", [b, shared], 1.0, scope="second")
    tape.op("d", "Sin", [c], 1.0, scope="second")
    assert folds(tape) == {"scope:first:0": ["own", "a", "b"], "scope:second:0": ["c", "d"]}


@pytest.mark.parametrize("kind", ["input", "variable", "constant"])
def test_what_ops_start_from_is_never_part_of_a_stretch(kind):
    tape = handmade.Tape()
    x = tape.start("x", 1.0, kind)
    for i in range(9):
        x = tape.op(f"op{i}", "Sin", [x], 1.0)
    stretches = folds(tape, limit=3)
    assert stretches
    assert not any("x" in members for members in stretches.values())


def test_ops_of_a_gradient_are_never_in_a_fold_with_those_of_its_function():
    tape = handmade.Tape()
    x = tape.start("x", 1.0)
    for name in ("a", "b", "c", "d"):
        x = tape.op(name, "Sin", [x], 1.0, scope="layer")
    pruned = line(*tape.ops)
    pruned.levels = {op: int(op.name in ("c", "d")) for op in tape.ops}
    found = folded(pruned, tape.ops, 60)
    assert [[tape.ops[i].name for i in leaves(each)] for each in found] == [
        ["x"],
        ["a", "b"],
        ["c", "d"],
    ]


def test_no_op_is_no_order_and_no_fold():
    empty = line()
    assert in_order(empty) == []
    assert folded(empty, [], 4) == ()
