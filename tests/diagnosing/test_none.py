"""A gradient that became None is followed to the op or the line where it was cut."""

import numpy as np
import pytest
import tensorflow as tf
from troubles import (
    CUT,
    X,
    forgotten,
    found,
    not_trainable,
    not_watched,
    numpy_rule,
    only,
    only_assigned,
    other_tape,
    outside,
    reassigned,
    recorded,
    stopped_on_the_way,
    through_an_assignment,
    watched_integer,
)

import cgviz
from cgviz import moons
from cgviz.diagnosing import none
from cgviz.diagnosing.pass_graph import PassGraph


def unwatched_before_a_cut():
    k = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(k)
        y = X * k
        z = tf.round(y) * 2.0
    tape.gradient(z, X)


def integer_target():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.cast(X, tf.int32)
    tape.gradient(y, X)


def integer_output_of_two():
    x = tf.constant([2.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(tf.math.top_k(x).indices, tf.float32)
    tape.gradient(y, x)


def true_or_false():
    b = tf.constant(True)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.where(b, X, 2.0)
    tape.gradient(y, b)


def watches_nothing_by_itself():
    w = tf.Variable(3.0, name="w")
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        y = w * X
    tape.gradient(y, w)


def after_the_target():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = X * X
        z = tf.sin(y)
    tape.gradient(y, z)


def target_made_before():
    one.gradient(y_before, X)


with tf.GradientTape(persistent=True) as one:
    y_before = X * X

NONE = {
    "not watched": (not_watched, "Mul", "y = X * X", "tape.watch(X)"),
    "outside the tape": (outside, "Mul", "z = X * 3.0", "into the block"),
    "tape stopped": (
        stopped_on_the_way,
        "Sin",
        "`b = tf.sin(a)`) ran inside `stop_recording`",
        "out of the `stop_recording` block",
    ),
    "tape reset": (
        forgotten,
        "Mul",
        "used a value that this tape did not watch (or not yet), after `tape.reset()`",
        "into the block",
    ),
    "integer": (watched_integer, "", "int32", "2."),
    "not trainable": (not_trainable, "Mul", "y = w * X", "trainable=True"),
    "tape that watches nothing by itself": (
        watches_nothing_by_itself,
        "Mul",
        "and none with `watch_accessed_variables=False`",
        "Call `tape.watch(w)` first.",
    ),
    "reassigned": (reassigned, "Mul", "v = v - 0.1", "v.assign_sub"),
    "only assigned": (
        only_assigned,
        "",
        "op that was recorded reads it",
        "an assignment passes no gradient on",
    ),
    "assigned": (through_an_assignment, "Mul", "never reaches the target", "an assignment"),
    "another tape": (other_tape, "Sin", "asked recorded no path through Sin", "ask the tape"),
    "not watched, and cut further on": (
        unwatched_before_a_cut,
        "Mul",
        "no tape watched it",
        "tape.watch",
    ),
    "an integer target": (integer_target, "Cast", "makes int32 numbers", "floating-point"),
    "an integer of two outputs": (integer_output_of_two, "TopKV2", "makes int32", "surrogate"),
    "True or False": (true_or_false, "", "holds True and False", "Leave it out"),
    "made of the target": (
        after_the_target,
        "",
        "no TensorFlow op that was recorded reads it",
        "leave it",
    ),
    "made before the recording": (
        target_made_before,
        "",
        "that was recorded made the target",
        "record the forward pass",
    ),
}


@pytest.mark.parametrize("name", NONE)
def test_none_is_explained_with_the_learners_own_line(name):
    body, op, message, hint = NONE[name]
    finding = recorded(body).diagnose()[0]
    assert finding.what == "none"
    assert message in finding.message
    assert hint in finding.hint
    if op:
        assert finding.op.type == op


@tf.custom_gradient
def keeps_none(x, k):
    return x * k, lambda dy: (dy, None)


def by_closure(x, w=1.0):
    s = x * 2.0 * w

    @tf.custom_gradient
    def f(a):
        return a * s, lambda dy: dy

    return f(x)


@tf.custom_gradient
def rounded(x):
    return tf.round(x), lambda dy: dy


@pytest.mark.parametrize("name", CUT)
def test_the_op_that_cuts_the_path_is_named(name):
    f, op, message = CUT[name]
    trace = cgviz.trace(f, 2.6)
    assert trace.gradients == (None,)
    finding = only(trace)
    assert (finding.what, finding.op.type, finding.sources) == ("none", op, ("x",))
    assert message in finding.message
    assert finding.source.text in finding.message or len(finding.source.text) > 70
    assert finding.name == finding.op.name


def test_a_rule_that_returns_none_is_named_with_its_line():
    finding = only(cgviz.trace(keeps_none, 2.0, 3.0))
    assert finding.sources == ("k",)
    assert "returned None for its input `k`" in finding.message
    assert "(dy, None)" in finding.message


def squared_outside(p):
    return tf.reduce_mean(tf.constant(p.numpy()) ** 2)


def test_a_path_that_another_function_cuts_is_one_finding_with_the_last_op_and_what_can_cut_it():
    w, b = tf.Variable([[2.0]], name="w"), tf.Variable([1.0], name="b")

    def body():
        with tf.GradientTape() as tape:
            loss = squared_outside(tf.nn.bias_add(w @ w, b))
        tape.gradient(loss, [w, b])

    finding = only(recorded(body))
    assert (finding.op.type, finding.sources) == ("BiasAdd", ("w", "b"))
    assert "the path goes as far as BiasAdd" in finding.message
    assert all(each in finding.hint for each in ("NumPy", "tf.Variable", "assignment", "metric"))


def test_a_dead_end_is_told_at_an_op_that_ran_before_the_target():
    w, u = tf.Variable([[2.0]], name="w"), tf.Variable(3.0, name="u")

    def body():
        with tf.GradientTape() as tape:
            h = w @ w  # noqa: F841 - forgotten
            loss = u * u
        tape.gradient(loss, [w, u])
        tf.norm(w)

    assert "MatMul (line" in only(recorded(body)).message


def test_a_use_after_the_target_is_told_if_there_is_no_other():
    w, u = tf.Variable(2.0, name="w"), tf.Variable(3.0, name="u")

    def body():
        with tf.GradientTape() as tape:
            loss = u * u
        tape.gradient(loss, [w, u])
        tf.sin(w)

    assert "Sin (line" in only(recorded(body)).message


def test_a_target_made_by_numpy_is_not_blamed_on_a_later_use_of_the_source():
    def body():
        with tf.GradientTape() as second:
            second.watch(X)
            with tf.GradientTape() as first:
                first.watch(X)
                y = X**3
            slope = first.gradient(y, X)
            slope = tf.constant(slope.numpy())
        second.gradient(slope, X)
        tf.sin(X)

    finding = only(recorded(body))
    assert "no TensorFlow op that was recorded made the target" in finding.message
    assert "not NumPy's" in finding.hint


ONE_PATH = {
    "Round": lambda x: x * tf.exp(tf.round(x)),
    "Cast": lambda x: x * tf.cast(tf.cast(x, tf.int32), tf.float32),
}


@pytest.mark.parametrize("name", ONE_PATH)
def test_an_op_that_cuts_one_of_several_paths_is_noted(name):
    report = cgviz.trace(ONE_PATH[name], 2.6).diagnose()
    (remark,) = report.remarks
    assert (report.ok, list(report)) == (True, [])
    assert (remark.op.type, remark.sources) == (name, ("x",))
    assert f"the gradient of `x` leaves out the path through {name} (line " in remark.message


WHOLE = {
    "a mask": lambda x: x * tf.cast(x > 1.0, tf.float32),
    "zeros of its shape": lambda x: tf.where(x > 1.0, x, tf.zeros_like(x)) + tf.ones_like(x),
    "the place of the largest": lambda x: tf.gather(x, tf.argmax(x)),
    "straight through": lambda x: x + tf.stop_gradient(tf.round(x) - x),
    "straight through integers": lambda x: (
        x + tf.stop_gradient(tf.cast(tf.cast(x, tf.int32), tf.float32) - x)
    ),
    "a remainder": lambda x: x * tf.math.floormod(x, 2.0),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_path_that_is_not_cut_or_is_left_out_on_purpose_is_not_noted(name):
    assert not cgviz.trace(WHOLE[name], [1.5, 2.6], order=2).diagnose().remarks


def test_an_unused_argument_is_named():
    finding = only(cgviz.trace(lambda x, y: x * 2.0, 2.0, 3.0))
    assert finding.sources == ("y",)
    assert "no TensorFlow op that was recorded reads it" in finding.message
    assert "unconnected_gradients" in finding.hint


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.numpy_function(np.square, [x], tf.float32),
        lambda x: tf.constant(np.square(x.numpy())),
    ],
)
def test_where_numpy_made_the_target_the_argument_is_not_called_unused(f):
    finding = only(cgviz.trace(f, [2.0, 3.0]))
    assert "no TensorFlow op that was recorded made the target" in finding.message
    assert "not NumPy's" in finding.hint


def test_a_variable_that_nothing_reads_is_named():
    v = tf.Variable([2.0, 3.0], name="forgotten")
    finding = only(cgviz.trace(lambda x, v: x * 2.0, 2.0, v))
    assert finding.sources == ("forgotten",)
    assert "no TensorFlow op that was recorded reads it" in finding.message


def test_a_captured_tensor_is_named_though_the_gradient_is_not_none():
    trace = cgviz.trace(lambda x, w: by_closure(x, w) + w, 3.0, 1.0)
    assert trace.gradients == (1.0, 1.0)  # and they should be 12 and 19
    finding = only(trace)
    assert "Unless its rule's gradients for the arguments include the way through `s`" in (
        finding.message
    )
    assert "Make `s` a positional argument" in finding.hint  # by keyword, it is none either


def test_a_rule_that_captures_what_its_argument_gave_may_be_right_and_is_left_to_check():
    def layer(x):
        z = tf.sqrt(x)

        @tf.custom_gradient
        def attach(x):
            return tf.identity(z), lambda dy: dy / (2.0 * z)

        return attach(x)

    for f in (layer, by_closure):  # the first is right, the second is not
        trace = cgviz.trace(f, 3.0)
        assert trace.diagnose().ok
        assert only(trace).level == "warning"
        assert "closes over `" in only(trace).message
        assert "Unless its rule's gradients for the arguments include" in only(trace).message


def test_a_keyword_call_that_dropped_the_rule_is_named():
    what = [f.message for f in cgviz.trace(lambda x: rounded(x=x), 2.6).diagnose()]
    assert any("did not use its custom rule" in message for message in what)
    assert any("no gradient for Round" in message for message in what)
    assert cgviz.trace(lambda x: rounded(x), 2.6).diagnose().ok


def test_numpy_in_a_rule_kills_the_second_order_and_is_named():
    trace = cgviz.trace(numpy_rule, 3.7, order=2)
    finding = only(trace)
    assert (finding.what, finding.which) == ("none", 1)
    assert "left TensorFlow" in finding.message
    assert trace.diagnose(0).ok


def test_a_linear_function_has_no_second_derivative_and_the_way_to_zero_is_told():
    finding = only(cgviz.trace(lambda x: 3.0 * x, 2.0, order=2))
    assert "As a derivative that means 0" in finding.message
    assert "unconnected_gradients='zero'" in finding.hint


def test_a_target_made_of_an_inner_gradient_tells_what_does_not_reach_that_gradient():
    """The steepness of lesson 05: `b` is only in the slope, which comes from NumPy."""

    @tf.custom_gradient
    def my_tanh(x):
        y = moons.outside(np.tanh, x)
        return y, lambda upstream: upstream * (1.0 - y**2)

    def length(b):
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = my_tanh(x + b)
        return tf.norm(tape.gradient(y, x))

    finding = only(cgviz.trace(length, 0.5))
    said = "`b` got None: no tape followed a path from it to the inner gradient."
    assert finding.message.startswith(said)
    assert finding.lesson.startswith("05_")


def test_an_outer_tape_that_does_not_watch_the_tensor_is_told_to_watch_it():
    def body():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(X)
                y = X**3
            slope = inner.gradient(y, X)
        outer.gradient(slope, X)

    finding = only(recorded(body))
    assert "used a value that this tape did not watch (or not yet)" in finding.message
    assert finding.hint.startswith("Let the tape that is asked `watch` the tensor before that line")


def nested_thrice(inside, f):
    """The pass that asks the second of three tapes for a second derivative."""
    w, x = tf.Variable([[3.0]], name="w"), tf.constant([[0.5]])

    def body():
        with tf.GradientTape():
            h = w * 2.0
            with tf.GradientTape() as second:
                second.watch(x)
                with tf.GradientTape() as first:
                    first.watch(x)
                    y = f(h, x)
                slope = first.gradient(y, x) if inside else None
            slope = slope if inside else first.gradient(y, x)
            second.gradient(slope, x)

    return only(recorded(body))


@pytest.mark.parametrize("f", [lambda h, x: h * x**3, lambda h, x: tf.tanh(x @ h)])
def test_an_inner_gradient_that_only_a_third_tape_saw_is_among_the_reasons(f):
    finding = nested_thrice(False, f)
    assert finding.message.startswith("`x` got None: the tape that was asked recorded no path")
    assert "an inner gradient behind it was taken outside this tape" in finding.message


def test_an_inner_gradient_that_does_not_depend_on_the_source_is_not_said_to_be_unseen():
    assert "As a derivative that means 0" in nested_thrice(True, lambda h, x: h * x).message


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tf.constant(0.5), "`k` got None: no tape watched it when Mul"),
        (
            lambda: tf.Variable(0.5, trainable=False, name="k"),
            "`k` got None: no tape watched this variable when Mul",
        ),
    ],
)
def test_a_function_called_inside_a_block_is_not_said_to_run_outside_it(make, words):
    w, k, x = tf.Variable(0.3, name="w"), make(), tf.constant([0.1, 0.2])

    def residual():
        with tf.GradientTape() as inner:
            inner.watch(x)
            u = tf.sin(w * x)
        slope = inner.gradient(u, x)
        return slope - k * u

    def body():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(residual() ** 2)
        tape.gradient(loss, [w, k])

    assert only(recorded(body)).message.startswith(words)


def test_sources_cut_at_one_place_share_a_finding():
    finding = only(cgviz.trace(lambda a, b, c: tf.round(a * b * c), 1.0, 2.0, 3.0))
    assert finding.sources == ("a", "b", "c")
    assert "`a`, `b` and `c` got None" in finding.message


def test_a_path_through_a_shape_alone_is_not_blamed_on_integers():
    trace = cgviz.trace(lambda x: tf.reshape(tf.stop_gradient(x), tf.shape(x)), [1.0, 2.0])
    assert found(trace) == [("none", "StopGradient")]


def test_numpy_that_computes_by_itself_is_remarked_on():
    def f(x):
        return tf.constant(np.sin(x.numpy())) * 2.0

    message = only(cgviz.trace(f, 2.6)).message
    assert "the numbers of `x` left TensorFlow (line" in message
    assert "`return tf.constant(np.sin(x.numpy())) * 2.0`" in message


def test_numbers_that_are_taken_by_name_are_those_of_the_value_of_that_name():
    def f(x):
        h = tf.sin(x)
        return tf.ones_like(h) * tf.constant(h.numpy())

    assert "the numbers of `h` left TensorFlow" in only(cgviz.trace(f, 1.0)).message


def test_numbers_of_what_the_line_itself_computes_are_those_of_its_op():
    message = only(cgviz.trace(lambda x: tf.constant((3.0 * x).numpy()) * 1.0, 1.0)).message
    assert "the numbers of `Mul` left TensorFlow" in message


def test_equal_numbers_without_numpy_are_no_proof():
    trace = cgviz.trace(lambda x: (tf.sin(x), tf.constant(2.6) * 2.0)[1], 2.6)
    assert "left TensorFlow" not in only(trace).message


def test_of_many_cuts_the_first_three_are_told():
    def f(x):
        return tf.round(x) + tf.floor(x) + tf.math.ceil(x) + tf.math.rint(x)

    assert found(cgviz.trace(f, 2.6)) == [("none", op) for op in ("Round", "Floor", "Ceil")]


def test_an_op_reached_on_two_ways_is_cut_once():
    finding = only(cgviz.trace(lambda x: tf.round(tf.sin(x) + tf.cos(x)), 2.6))
    assert (finding.op.type, finding.sources) == ("Round", ("x",))


def test_parts_of_an_argument_have_names():
    finding = only(cgviz.trace(lambda xs, d: xs[0] * d["a"], [1.0, 2.0], {"a": 3.0, "b": X}))
    assert finding.sources == ("d.b",)
    (tensors,) = cgviz.trace(lambda xs: xs[0] * 2.0, (X, X + 1.0)).diagnose()
    assert tensors.sources == ("xs[1]",)


def test_integers_are_a_finding_only_if_they_were_asked_for():
    trace = cgviz.trace(lambda x, i: tf.gather(x, i), [1.0, 2.0], np.array([0]))
    graph = PassGraph(trace, trace.passes[0])
    assert none.find(graph) == []
    trace.asked = True
    assert [each.sources for each in none.find(graph)] == [("i",)]


def test_a_dropped_rule_is_told_once_per_line():
    def f(x):
        y = rounded(x=x)
        return y + 2.0 * rounded(x=x)

    trace = cgviz.trace(f, 2.6)
    assert len(none.dropped(PassGraph(trace, trace.passes[0]))) == 2
    used = cgviz.trace(rounded, 2.6)
    assert none.dropped(PassGraph(used, used.passes[0])) == []


def test_numbers_that_came_back_in_another_shape_are_recognised():
    trace = cgviz.trace(lambda x: tf.constant(x.numpy().reshape(2, 1)) * 2.0, [1.0, 2.0])
    assert "the numbers of `x` left TensorFlow" in only(trace).message


def logged_on_the_way(w, v, log):
    h = tf.tanh(w * 2.0)
    log.append(h.numpy())
    log.append(float(tf.reduce_mean(h)))
    return v * v


def logged_after(w, v, log):
    h = tf.tanh(w * 2.0)
    loss = v * v
    mean = float(tf.reduce_mean(h))
    log.append(mean)
    return loss


@pytest.mark.parametrize("f", [logged_on_the_way, logged_after])
def test_a_number_that_is_only_logged_is_not_said_to_cut_the_path(f):
    message = only(cgviz.trace(lambda w, v: f(w, v, []), 1.0, 3.0)).message
    assert "never reaches the target" in message


def test_a_number_in_a_statement_over_several_lines_is_not_after_the_target():
    def f(x):
        h = tf.sin(x)
        return tf.square(
            tf.constant(
                h.numpy(),
            )
        )

    assert "the numbers of `h` left TensorFlow" in only(cgviz.trace(f, 1.0)).message


def test_a_function_that_did_not_run_is_not_blamed():
    def unused(x):
        return np.sin(x)

    def f(x):
        return tf.reduce_sum(tf.constant(np.cos(x)) * 1.0)

    assert "np.cos(x)" in only(cgviz.trace(f, 1.0)).message


@pytest.mark.parametrize("zeros", [np.zeros(1), np.zeros((0, 2), np.float32)])
def test_zeros_of_another_type_and_empty_constants_are_no_numbers_that_came_back(zeros):
    trace = cgviz.trace(lambda x: tf.reduce_sum(zeros * float(2)), [0.0, 0.0])
    assert "left TensorFlow" not in only(trace).message


def test_every_cause_of_the_table_says_what_to_do():
    for cause in none.CAUSES.values():
        assert cause.message.endswith((".", "{flat}", "{assigned}"))
        assert cause.hint.endswith(".")
        assert cause.lesson[:2].isdigit()


@pytest.mark.parametrize(("op", "flat"), [(tf.round, True), (tf.floor, True), (tf.sign, False)])
def test_only_steps_are_called_flat(op, flat):
    (finding,) = cgviz.trace(lambda x: op(x), 2.6).diagnose()
    assert ("It is flat between its steps." in finding.message) == flat


def test_a_hint_names_a_variable_that_was_replaced_without_its_number():
    v = v_1 = tf.Variable(3.0, name="v")  # noqa: F841 - as when a cell ran twice

    def body():
        v = tf.constant(1.0) * 3.0
        with tf.GradientTape() as tape:
            y = v * v
        tape.gradient(y, v)

    assert "`v.assign_sub(...)`" in only(recorded(body)).hint
