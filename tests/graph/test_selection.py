"""What is shown of a trace."""

import handmade
import numpy as np
import pytest
import tensorflow as tf
from programs import penalty, square

import cgviz
from cgviz.graph.selection import select


def named(shown):
    return {node.label or node.symbol.replace("\n", " "): node for node in shown.nodes}


def edges(shown):
    """Each edge as (source, target, position, contribution or reason)."""
    found = []
    for e in shown.edges:
        ends = [shown.nodes[i].label or shown.nodes[i].symbol for i in (e.source, e.target)]
        flow = e.reason if e.contribution is None else float(np.sum(e.contribution))
        found.append((*ends, e.position, flow))
    return found


def test_two_uses_of_x_give_two_edges():
    shown = select(handmade.square_plus_sine())
    assert edges(shown)[:2] == [("x", "a", 0, 3.0), ("x", "a", 1, 3.0)]
    assert edges(shown)[2][3] == pytest.approx(-0.99)
    assert [n.order for n in shown.nodes] == [None, 2, 3, 1]


def test_the_target_shows_its_seed():
    shown = select(handmade.square_plus_sine())
    (edge,) = shown.targets
    target = shown.nodes[edge.source]
    assert target is named(shown)["y"]
    assert edge.output == 0
    assert edge.contribution == 1
    assert target.upstream[0] == 1
    assert [n.asked for n in shown.nodes] == [(0,), (), (), ()]


def test_what_arrived_is_the_sum_over_the_uses():
    x = select(handmade.square_plus_sine()).nodes[0]
    assert x.upstream[0] == pytest.approx(5.01)


def test_a_scalar_constant_is_part_of_the_symbol():
    def f(x):
        y = 2.0 * x
        z = y - 1.0
        return z**3

    shown = select(cgviz.trace(f, 2.0))
    assert [n.symbol for n in shown.nodes] == ["", "2 ×", "− 1", "z³"]
    assert [n.kind for n in shown.nodes] == ["input", "op", "op", "op"]


def test_a_symbol_has_the_name_of_what_the_op_is_given():
    def f(x, half, a_longer_name):
        h = tf.sin(x)
        return x**2 + h**2 + tf.cos(x) ** 2 + tf.sqrt(half) + 2.0**a_longer_name + tf.abs(h * h)

    shown = select(cgviz.trace(f, 1.0, 0.5, 3.0))
    squares = [n.symbol for n in shown.nodes if n.symbol and n.symbol not in "+sincos"]
    assert squares == ["x²", "h²", "^ 2", "√half", "2 ^", "×", "abs"]


def test_full_shows_the_constants_too():
    shown = select(cgviz.trace(lambda x: 2.0 * x, 2.0), full=True)
    assert sorted(n.kind for n in shown.nodes) == ["constant", "input", "op"]
    assert {n.symbol for n in shown.nodes} == {"", "×"}


def test_a_target_behind_an_identity_is_found():
    def f(x):
        return tf.identity(tf.sin(x))

    shown = select(cgviz.trace(f, 1.0))
    assert [n.symbol for n in shown.nodes] == ["", "sin"]
    assert [(edge.source, edge.output) for edge in shown.targets] == [(1, 0)]


def test_a_custom_op_is_one_node():
    shown = select(cgviz.trace(lambda x: square(square(x)), 2.0))
    assert [n.kind for n in shown.nodes] == ["input", "custom", "custom"]
    assert [n.symbol for n in shown.nodes[1:]] == ["square", "square"]


def test_a_source_that_leads_nowhere_is_shown():
    def f(x, y):
        return x * 2.0

    shown = select(cgviz.trace(f, 2.0, 3.0))
    assert named(shown)["y"].asked == (0,)
    assert named(shown)["y"].upstream == (None,)


def test_of_a_variable_each_pass_shows_the_value_that_it_used():
    w = tf.Variable(1.0, name="w")
    wanted = []
    with cgviz.record() as trace:
        for _ in range(3):
            value = w.numpy()
            with tf.GradientTape() as tape:
                loss = (w * 2.0 - 3.0) ** 2
            gradient = tape.gradient(loss, w)
            wanted.append((value, gradient.numpy()))
            w.assign_sub(0.1 * gradient)
    for which, (value, gradient) in enumerate(wanted):
        node = named(select(trace, which))["w"]
        assert [v.numpy() for v in node.outputs] == [value]
        assert node.upstream == (gradient,)
        assert trace.plot(which=which).cgviz_alt.count("None") == 0
        (row,) = [v for r in trace.summary(which) for v in r["variables"]]
        assert (row["value"], row["gradient"]) == pytest.approx((abs(value), abs(gradient)))


def test_what_two_tensors_are_stitched_into_is_no_shape():
    def f(a, b):
        return tf.reduce_sum(tf.dynamic_stitch([[0, 2], [1]], [a, b]) * [1.0, 2.0, 3.0])

    shown = select(cgviz.trace(f, [1.0, 2.0], [5.0]))
    assert [n.kind for n in shown.nodes] == ["input", "input", "op", "op", "op"]
    assert len(shown.edges) == 4


def test_a_value_that_was_watched_is_not_called_unwatched():
    x, y = tf.constant(2.0), tf.constant(3.0)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        tape.watch([x, y])
        with tape.stop_recording():
            s = x * y
        tape.gradient(x * s, [x, y])
    reasons = {e.reason for e in select(trace).edges if e.reason}
    assert reasons == {"tape not recording"}


def test_each_break_has_its_reason():
    def f(x):
        a = tf.stop_gradient(x)
        b = tf.round(x)
        c = tf.cast(tf.cast(x, tf.int32), tf.float32)
        return a + b + c + x

    reasons = {e.reason for e in select(cgviz.trace(f, 2.5)).edges}
    assert {"stop_gradient", "no gradient for Round", "integer"} <= reasons


def test_an_integer_input_says_so():
    def f(x, i):
        return tf.gather(x, i)

    shown = select(cgviz.trace(f, [1.0, 2.0, 3.0], np.array([0, 2])))
    assert "integer" in {e.reason for e in shown.edges}


def test_what_no_tape_watches_says_so_although_the_rule_hands_something_back():
    x, w = tf.constant(2.0), tf.Variable(3.0, name="w")
    with cgviz.record() as trace:
        with tf.GradientTape() as tape:
            y = x * w
        tape.gradient(y, [x, w])
    shown = select(trace)
    assert {e.reason for e in shown.edges} == {"not watched", ""}
    assert named(shown)["x"].upstream == (None,)
    assert named(shown)["w"].upstream[0] == 2


def test_a_rule_that_returns_none_says_so():
    @tf.custom_gradient
    def forget(a, b):
        return a * b, lambda upstream: (upstream * b, None)

    shown = select(cgviz.trace(forget, 2.0, 3.0))
    assert [e.reason for e in shown.edges] == ["", "the rule returned None"]


def test_a_captured_tensor_has_an_edge_that_is_blocked():
    def f(x, w):
        h = w * 2.0

        @tf.custom_gradient
        def scale(v):
            return v * h, lambda upstream: upstream * h

        return scale(x)

    shown = select(cgviz.trace(f, 2.0, 3.0))
    blocked = [e for e in shown.edges if e.reason == "captured by closure"]
    assert len(blocked) == 1
    assert blocked[0].position == -1
    assert shown.nodes[blocked[0].source].label == "h"


def test_before_a_break_nothing_arrives():
    def f(x):
        return tf.round(x * 2.0) + x

    reasons = [e.reason for e in select(cgviz.trace(f, 2.5)).edges]
    assert "nothing arrives" in reasons


def test_a_second_pass_shows_the_ops_of_the_first():
    def f(x):
        return tf.sin(x) * x

    trace = cgviz.trace(f, 1.0, order=2)
    shown = select(trace, which=1)
    assert shown.which == 1
    assert {n.level for n in shown.nodes} == {0, 1}
    total = sum(float(e.contribution) for e in shown.outgoing[0] if e.contribution is not None)
    assert total == pytest.approx(2 * np.cos(1) - np.sin(1), abs=1e-5)
    assert {n.level for n in select(trace, which=0).nodes} == {0}


def test_every_edge_leads_to_a_later_node():
    for which in (0, 1):
        shown = select(cgviz.trace(penalty, 1.0), which)
        assert all(e.source < e.target for e in shown.edges)
        assert shown.edges


def test_a_trace_without_a_pass_shows_its_forward_ops():
    tape = handmade.Tape()
    x = tape.start("x", 1.0)
    y = tape.op("y", "Sin", [x], 0.8)
    shown = select(tape.trace(y, [x], passes=False))
    assert len(shown.nodes) == 2
    assert shown.which is None
    assert [e.reason for e in shown.edges] == [""]


def test_an_empty_trace_is_an_empty_selection():
    from cgviz.graph import Trace

    shown = select(Trace("f", None, (), {}, (), ()))
    assert (shown.nodes, shown.edges, shown.depth) == ((), (), 0)


def test_a_pass_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="`which`"):
        select(handmade.chain(3), which=4)


def layers(count):
    found = [tf.keras.layers.Dense(3, activation="relu", name=f"layer{i}") for i in range(count)]
    model = tf.keras.Sequential([tf.keras.Input((3,)), *found])
    with cgviz.record() as trace, tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((2, 3))) ** 2)
        tape.gradient(loss, model.trainable_variables)
    return trace


def test_a_large_model_shows_its_layers():
    shown = select(layers(20))
    assert len(shown.nodes) <= 60
    folded = [n for n in shown.nodes if n.kind == "scope"]
    assert [n.label for n in folded] == [f"layer{i}" for i in range(20)]
    assert folded[3].symbol == "3 ops, 2 variables"
    assert folded[3].step is None
    assert len(folded[3].steps) >= 2
    assert all(e.contribution is not None for e in shown.edges)


def test_a_small_model_is_not_folded_and_no_limit_never_folds():
    assert not any(n.kind == "scope" for n in select(layers(2)).nodes)
    assert not any(n.kind == "scope" for n in select(layers(20), limit=None).nodes)
    assert not any(n.kind == "scope" for n in select(layers(20), full=True).nodes)


def test_three_hundred_ops_without_a_scope_fold_into_stretches():
    shown = select(handmade.chain(300))
    assert len(shown.nodes) <= 60
    assert sum(len(n.ops) for n in shown.nodes) == 301
    orders = [o for n in shown.nodes for o in n.orders]
    assert sorted(orders) == list(range(1, 301))


def test_edges_between_folded_nodes_add_up_where_they_carry_the_same_value():
    tape = handmade.Tape()
    x = tape.start("x", 3.0)
    first = tape.op("s", "Sin", [x], 1.0, back=[2.0], scope="a")
    one = tape.op("p", "Mul", [first, first], 1.0, back=[0.5, 0.25], scope="b")
    two = tape.op("q", "AddV2", [one, first], 1.0, back=[1.0, 4.0], scope="b")
    trace = tape.trace(two, [x])
    shown = select(trace, limit=3)
    merged = [e for e in shown.edges if shown.nodes[e.target].kind == "scope"]
    assert len(merged) == 1
    assert merged[0].uses == 3
    assert merged[0].contribution == pytest.approx(4.75)


def test_a_scope_entered_twice_makes_no_cycle():
    tape = handmade.Tape()
    x = tape.start("x", 3.0)
    for i in range(40):
        scope = ("a", "a", "", "b")[i % 4]
        x = tape.op(f"op_{i}", "Sin", [x], 1.0, back=[1.0], scope=scope)
    shown = select(tape.trace(x, []), limit=8)
    assert all(e.source < e.target for e in shown.edges)
    assert sum(len(n.ops) for n in shown.nodes) == 41


# --- repeats -------------------------------------------------------------------------------------


def recurrent(count=20):
    """A network that runs `count` steps with one weight for the state and one for the inputs."""
    w, u = tf.Variable([[0.5, -0.25], [0.75, 1.0]], name="w"), tf.Variable([[1.0, 0.5]], name="u")

    def f(xs):
        state = tf.zeros([1, 2])
        for i in range(count):
            with tf.name_scope(f"step_{i}"):
                state = tf.tanh(state @ w + xs[i] @ u)
        return tf.reduce_sum(state)

    return cgviz.trace(f, np.cos(np.arange(count, dtype="float32")).reshape(count, 1, 1))


@pytest.fixture(scope="module")
def steps():
    return recurrent()


def test_twenty_steps_are_one_that_is_shown_and_all_others(steps):
    shown = select(steps)
    assert len(shown.nodes) < 20
    (repeats,) = shown.repeats
    assert repeats.labels == tuple(f"step_{i}" for i in range(20))
    assert [frame.label for frame in shown.frames] == ["20 of 20: step_19"]
    assert "step_0…18" in named(shown)


@pytest.mark.parametrize("k", [0, 7, 19])
def test_whichever_of_repeats_is_shown_its_numbers_are_its_own_and_sums_are_whole(steps, k):
    shown = select(steps, toggled=[f"{select(steps).repeats[0].name}@{k}"])
    inside = [node for node in shown.nodes if node.frame == 0 and node.kind != "use"]
    assert {node.ops[0].scope.split("/")[0] for node in inside} == {f"step_{k}"}
    for node in inside:
        np.testing.assert_array_equal(node.upstream[0], node.step.upstream[0])
        for edge in (e for e in shown.edges if shown.nodes[e.target] is node):
            if edge.contribution is not None:
                np.testing.assert_array_equal(
                    edge.contribution, node.step.downstream[edge.position]
                )
    for name in ("w", "u", "xs"):
        (whole,) = (n for n in shown.nodes if n.label == name and n.kind != "use")
        leaving = [e for e in shown.edges if shown.nodes[e.source].label == name]
        assert sum(e.uses for e in leaving) == whole.uses == 20
        total = sum(e.contribution for e in leaving)
        np.testing.assert_allclose(total, whole.upstream[0], rtol=1e-5)


def test_what_is_before_and_behind_does_not_open_and_the_shown_step_does(steps):
    name = select(steps).repeats[0].name
    shown = select(steps, framed=True, toggled=[f"{name}@7"])
    assert [named(shown)[label].group for label in ("step_0…6", "step_8…19")] == ["", ""]
    closed = select(steps, framed=True, toggled=[f"{name}@7", name])
    assert named(closed)["step_7"].group == name
    assert closed.repeats[0].at == 7


def test_repeats_are_of_the_forward_pass_or_of_its_gradient_and_not_of_both():
    w = tf.Variable(0.75, name="w")

    def f(x):
        for _ in range(40):
            x = tf.tanh(w * x)
        return x

    trace = cgviz.trace(f, 0.5, order=2)
    shown = select(trace, which=1)
    assert shown.repeats
    for repeats in shown.repeats:
        assert len({op in trace.ops for ops in repeats.ops for op in ops}) == 1
    for node in shown.nodes:
        assert len({op in trace.ops for op in node.ops}) == 1


def test_full_and_no_limit_show_all_repeats(steps):
    assert not select(steps, full=True).repeats
    assert not select(steps, limit=None).repeats


def test_many_values_between_two_nodes_are_one_edge_that_stacks_them():
    weight = tf.Variable(2.0, name="weight")

    def f(x):
        total = tf.zeros([3])
        for part in tf.unstack(x):
            total = tf.tanh(weight * total + tf.sin(part))
        return tf.reduce_sum(total)

    x = np.arange(90, dtype="float32").reshape(30, 3) / 90
    trace = cgviz.trace(f, x)
    shown = select(trace)
    (edge,) = [e for e in shown.edges if e.values > 1]
    assert (edge.values, edge.value.shape) == (29, (29, 3))
    np.testing.assert_array_equal(edge.value.numpy(), x[:29])
    np.testing.assert_array_equal(edge.contribution, trace.gradients[0][:29])


# --- uses ----------------------------------------------------------------------------------------


def powers(count):
    w = tf.Variable(0.9, name="w")

    def f(x):
        for _ in range(count):
            x = w * x
        return x

    return cgviz.trace(f, 2.0)


def test_what_is_used_often_is_a_chip_at_each_use_and_a_node_with_the_whole_gradient():
    trace = powers(7)
    shown = select(trace)
    (whole,) = (n for n in shown.nodes if n.kind == "variable")
    assert (whole.uses, shown.outgoing[shown.nodes.index(whole)]) == (7, ())
    assert whole.upstream[0] == pytest.approx(7 * 0.9**6 * 2.0)
    chips = [e for e in shown.edges if shown.nodes[e.source].kind == "use"]
    for edge in chips:
        step = shown.nodes[edge.target].step
        assert edge.contribution == step.downstream[edge.position]
    assert len(chips) == 7
    assert sum(e.contribution for e in chips) == pytest.approx(whole.upstream[0])
    assert all(e.source < e.target for e in shown.edges)


def test_few_uses_are_arrows_and_so_are_all_in_full():
    assert not any(n.kind == "use" for n in select(powers(6)).nodes)
    assert not any(n.kind == "use" for n in select(powers(7), full=True).nodes)
    assert not any(n.kind == "use" for n in select(powers(7), limit=None).nodes)
