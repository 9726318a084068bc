"""Which ops of a trace are shown, in which order, and which of them share a node."""

import handmade
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import penalty

import cgviz
from cgviz.graph import Op, Trace, Value, folding, selection
from cgviz.graph.folding import NO_PASS, Pruned, in_order, prune


def chosen(trace, which=-1, full=False):
    return prune(trace, which if trace.passes else None, full)


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


def test_what_an_unrelated_pass_was_asked_about_is_left_out():
    """The outer target does not follow the inner gradient, so the inner loss is not its forward."""
    w = tf.Variable(0.5, name="w")
    with cgviz.record() as trace, tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.sin(w) ** 2
        fast = w - 0.1 * inner.gradient(loss, w)
        y = tf.stop_gradient(fast) ** 2
        outer.gradient(y, w)
    assert not {"Sin", "loss"} & {*names(chosen(trace))}


def test_a_cast_of_a_float_is_kept_and_one_of_an_integer_is_not():
    assert types(lambda x: tf.cast(x, tf.float64) * 2.0, 1.0) == ["Cast", "Mul"]
    kept = types(lambda x, i: x * tf.cast(i, tf.float32), 1.0, np.int32(2))
    assert kept == ["Mul"]


def test_a_cast_to_integers_is_not_drawn_without_the_cast_back():
    """`cast int32` before × would say that × multiplies integers."""
    there_and_back = types(lambda x: x * tf.cast(tf.cast(x, tf.int32), tf.float32), 2.5)
    assert there_and_back == ["Cast", "Cast", "Mul"]
    wider = types(lambda x, i: x * tf.cast(tf.cast(i, tf.int64), tf.float32), 1.0, np.int32(2))
    assert wider == ["Mul"]


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
    assert pruned.maker(second).name == "x"
    assert pruned.maker(target).name == "y"


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
    assert pruned.pass_ is NO_PASS


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
        order = pruned.ops
        assert len(set(order)) == len(order)
        for i, op in enumerate(order):
            assert all(order.index(m) < i for m in pruned.feeds(op) if m in order)


def line(*ops):
    """A pruned of these ops, in this order."""
    trace = Trace("", None, (), {}, ops, ())
    return Pruned(trace, list(ops), NO_PASS, dict.fromkeys(ops, 0), [], set())


def test_ops_that_do_not_wait_for_each_other_stay_in_the_order_in_which_they_ran():
    tape = handmade.Tape()
    a, b = tape.start("a", 1.0), tape.start("b", 1.0)
    late = tape.op("late", "Mul", [a, b], 1.0)
    tape.op("end", "Sin", [late], 1.0)
    tape.start("c", 1.0)
    ops = {op.name: op for op in tape.ops}
    shuffled = line(*(ops[n] for n in ("c", "end", "late", "b", "a")))
    assert [op.name for op in in_order(shuffled.feeding())] == ["c", "b", "a", "late", "end"]


def test_a_value_used_twice_is_waited_for_once():
    tape = handmade.Tape()
    x = tape.start("x", 3.0)
    tape.op("y", "Mul", [x, x], 9.0)
    assert [op.name for op in in_order(line(*tape.ops).feeding())] == ["x", "y"]


# --- what belongs together ---------------------------------------------------------------------


def folds(tape, limit=60):
    found = folding.tree(line(*tape.ops), limit)
    return {each.name: [op.name for op in each.ops] for each in found if each.members}


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


def test_no_op_is_no_order_and_no_fold():
    empty = line()
    assert in_order(empty.feeding()) == []
    assert list(folding.tree(empty, 4)) == []


# --- folds -------------------------------------------------------------------------------------


def tree(scopes, feeds, limit, at=None, kinds=None, levels=None):
    """The folds of ops that are called by their numbers; an op of kind None is an input."""
    ops = []
    for i, (scope, sources) in enumerate(zip(scopes, feeds, strict=True)):
        kind = kinds[i] if kinds else str(i)
        inputs = tuple(ops[j].outputs[0] for j in sources)
        output = Value(i, (), "float32", None)
        ops.append(
            Op(str(i), "op" if kind else "input", kind or "", inputs, (output,), scope=scope)
        )
    pruned = line(*ops)
    if levels:
        pruned.levels = dict(zip(ops, levels, strict=True))
    return folding.tree(pruned, limit, at)


def numbers(found):
    return [int(op.name) for each in found for op in each.ops]


@st.composite
def programs(draw):
    count = draw(st.integers(1, 40))
    scopes = [draw(st.sampled_from(["", "a", "a/b", "a/c", "d"])) for _ in range(count)]
    kinds = [draw(st.sampled_from(["sin", "mul", None])) for _ in range(count)]
    feeds = [
        sorted({draw(st.integers(0, i - 1)) for _ in range(draw(st.integers(0, 2)))})
        if i and kinds[i]
        else []
        for i in range(count)
    ]
    return scopes, feeds, kinds, draw(st.integers(1, 12))


def visible(found, shut=()):
    """The groups that are seen, each as the set of its ops, with all folds open but these."""
    for each in found:
        if each.members and each.name not in shut:
            yield from visible(each.members, shut)
        else:
            yield frozenset(numbers([each]))


def fold_names(found):
    for each in found:
        if each.members:
            yield each.name
            yield from fold_names(each.members)


@settings(max_examples=200)
@given(programs(), st.randoms())
def test_each_group_comes_after_all_that_feeds_it_whatever_is_open(program, random):
    scopes, feeds, kinds, limit = program
    found = tree(scopes, feeds, limit, kinds=kinds)
    shut = [name for name in fold_names(found) if random.random() < 0.5]
    groups = list(visible(found, shut))
    assert sorted(i for group in groups for i in group) == list(range(len(scopes)))
    place = {i: k for k, group in enumerate(groups) for i in group}
    assert all(place[j] <= place[i] for i, js in enumerate(feeds) for j in js)


def test_more_inputs_than_may_be_shown_stay_apart_where_no_op_uses_them():
    trace = cgviz.trace(lambda *given: given[0], *[1.0] * 61)
    assert len(selection.select(trace, framed=True).nodes) == 61


@given(programs())
def test_every_fold_has_a_name_of_its_own(program):
    scopes, feeds, kinds, limit = program
    found = list(fold_names(tree(scopes, feeds, limit, kinds=kinds)))
    assert len(found) == len(set(found))


@pytest.mark.parametrize("limit", [2, 9])
def test_a_scope_that_is_split_twice_stays_split(limit):
    # Its parts met again under one number, and folding never ended: one program in 300,000.
    scopes = ["c", "", "c", "", "", "c", "", "c", ""]
    feeds = [[], [], [1], [0, 2], [], [1], [], [3, 4], []]
    found = tree(scopes, feeds, limit)
    assert sorted(numbers(found)) == list(range(9))


def chained(scopes, limit=60, **how):
    feeds = [[i - 1] if i else [] for i in range(len(scopes))]
    return tree(scopes, feeds, limit, **how)


def test_scopes_open_level_by_level():
    (net,) = found = chained(["net/a"] * 3 + ["net/b"] * 3)
    assert [each.label for each in net.members] == ["a", "b"]
    assert folding.opened(found, 1) == set()
    assert folding.opened(found, 3) == {"scope:net:0"}
    assert len(folding.opened(found, 6)) == 3


def test_a_scope_with_nothing_but_a_scope_in_it_is_one_fold():
    (found,) = chained(["net/a"] * 3)
    assert found.label == "net/a"
    assert numbers(found.members) == [0, 1, 2]


def test_loose_ops_fold_into_stretches_where_they_are_too_many():
    found = chained([""] * 20, limit=5)
    assert [numbers([each]) for each in found] == [list(range(i, i + 4)) for i in range(0, 20, 4)]
    assert folding.opened(found, 60) == set()


def test_ops_of_two_levels_never_share_a_fold():
    found = chained(["a"] * 4, levels=[0, 0, 1, 1])
    assert [numbers([each]) for each in found] == [[0, 1], [2, 3]]


# --- repeats -------------------------------------------------------------------------------------


def recurrent(count, scoped=True):
    """A weight, an input, and `count` steps of two ops that need the weight and the last step."""
    scopes, feeds, kinds = ["", ""], [[], []], [None, None]
    last = 0
    for i in range(count):
        scopes += [f"step_{i}" if scoped else ""] * 2
        feeds += [[last, 1], [len(feeds)]]
        kinds += ["mul", "tanh"]
        last = len(feeds) - 1
    return scopes, feeds, {"kinds": kinds}


def told(found):
    return [each.label if each.members else int(each.op.name) for each in found]


def test_of_steps_in_a_row_one_is_shown_between_all_before_and_all_behind_it():
    scopes, feeds, how = recurrent(20)
    found = tree(scopes, feeds, 10, **how)
    assert told(found) == [0, 1, "step_0…18", "step_19"]
    assert numbers(found[3].members) == [40, 41]
    repeats = found[3].repeats
    assert (repeats.at, repeats.labels[1]) == (19, "step_1")
    assert [op.name for op in repeats.ops[1]] == ["4", "5"]
    middle = tree(scopes, feeds, 10, {found[3].name: 7}, **how)
    assert told(middle) == [0, 1, "step_0…6", "step_7", "step_8…19"]
    assert numbers([middle[4]]) == list(range(18, 42))
    assert told(tree(scopes, feeds, 10, {found[3].name: 0}, **how))[2:] == ["step_0", "step_1…19"]
    assert told(tree(scopes, feeds, 10, {found[3].name: 99}, **how)) == told(found)


def test_what_is_shown_of_repeats_opens_and_what_is_around_it_does_not():
    scopes, feeds, how = recurrent(20)
    found = tree(scopes, feeds, 10, {"repeat::0": 3}, **how)
    assert folding.opened(found, 10) == {"repeat::0"}


def test_repeats_without_a_scope_are_counted():
    scopes, feeds, how = recurrent(20, scoped=False)
    assert told(tree(scopes, feeds, 10, **how)) == [0, 1, "loop[0…18]", "loop[19]"]


def test_few_ops_show_all_repeats():
    scopes, feeds, how = recurrent(20)
    assert len(tree(scopes, feeds, 42, **how)) == 22


def test_layers_with_weights_of_their_own_are_not_repeats():
    scopes, feeds, how = recurrent(20)
    feeds = [[j for j in own if j != 1] for own in feeds]
    assert told(tree(scopes, feeds, 30, **how))[2:] == [f"step_{i}" for i in range(20)]


def test_branches_beside_each_other_are_not_repeats():
    scopes, feeds, how = recurrent(20)
    feeds = [[1] if k == "mul" else own for k, own in zip(how["kinds"], feeds, strict=True)]
    assert told(tree(scopes, feeds, 30, **how))[2:] == [f"step_{i}" for i in range(20)]


def test_a_step_of_another_structure_ends_a_row():
    scopes, feeds, how = recurrent(20)
    how["kinds"][12:14] = ["mul", "sin"]
    assert told(tree(scopes, feeds, 10, **how)) == [
        *(0, 1, "step_0…3", "step_4", "step_5", "step_6…18", "step_19"),
    ]
