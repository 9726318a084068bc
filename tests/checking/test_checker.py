"""check() judges a gradient, says where it is wrong, and leaves everything as it was."""

import os
import re
import signal
import sys
import threading
import time
from types import SimpleNamespace

import gallery
import numpy as np
import pytest
import tensorflow as tf
from programs import two_rows

import cgviz


def rules(report, level="error"):
    return [finding.rule for finding in report.findings if finding.level == level]


def finding(report, rule):
    return next(each for each in report.findings if each.rule == rule)


def row(report, rule):
    return next(each for each in report.rows if each.rule == rule)


@tf.custom_gradient
def square(x):
    return x * x, lambda dy: 2.0 * x * dy


# --- published numbers -----------------------------------------------------------------------


def test_the_documented_polynomial_has_its_weights_swapped():
    report = cgviz.check(*_spread(gallery.polynomial_with_swapped_weights(np.float32)))
    found = finding(report, "value")
    assert "d w[0]: yours 3, true 1 (and 3 more)" in found.message
    assert "in the wrong places" in found.hint
    assert found.lesson == "04_variables"


def test_the_naive_nest_gives_27_where_18_is_true():
    f, args = gallery.naive_nest(np.float32)
    report = cgviz.check(f, *args, order=2)
    assert "yours 27, true 18" in finding(report, "second order").message
    assert not report.ok
    assert cgviz.check(f, *args).ok
    assert rules(cgviz.check(f, *args), "warning") == ["second order"]
    assert not cgviz.check(f, 2.0, order=2).findings, "at 2 both give 12"


def test_the_documented_log1pexp_is_infinite_at_100():
    report = cgviz.check(*_spread(gallery.documented_log1pexp(np.float32)))
    assert rules(report) == ["finite forward"]
    assert finding(report, "finite forward").message == (
        "out is ∞ at a finite input, and 100 in float64."
    )


def test_a_leaky_rule_for_relu_is_wrong_unless_it_is_called_a_surrogate():
    f, args = gallery.leaky_relu_as_relu(np.float32)
    report = cgviz.check(f, *args)
    assert "d out[0] / d in[0]: yours 0.01, true 0" in finding(report, "value").message
    report = cgviz.check(f, *args, surrogate=True)
    report.assert_ok()
    assert "yours 0.01, true 0, bias 0.01" in row(report, "surrogate").reason


def test_a_rule_that_replaces_a_slope_of_0_is_sent_to_the_lesson_on_surrogates():
    straight = tf.custom_gradient(lambda x: (tf.sign(x), lambda upstream: upstream))
    told = finding(cgviz.check(straight, 0.5), "value")
    assert told.hint.endswith("say so with surrogate=True.")
    assert told.lesson.startswith("07")


def test_a_surrogate_at_a_jump_is_not_said_to_agree_with_a_derivative_that_is_not_there():
    @tf.custom_gradient
    def straight(x):
        return tf.sign(x), lambda upstream: upstream

    at_the_jump, beside = (cgviz.check(straight, x, surrogate=True) for x in (0.0, 0.5))
    assert row(at_the_jump, "surrogate").state == "skip"
    assert row(at_the_jump, "surrogate").reason.endswith("so no bias")
    assert "bias 1" in row(beside, "surrogate").reason


def test_no_slope_is_told_as_true_where_f_jumps_and_what_is_wrong_beside_it_is_found():
    @tf.custom_gradient
    def straight(x):
        return tf.sign(x), lambda upstream: upstream

    report = cgviz.check(straight, tf.constant([0.0, 1.0]))  # sign jumps at the first
    wrong = "d out[1] / d in[1]: yours 1, true 0, by the rule of `straight`"
    assert finding(report, "value").message.startswith(wrong)
    assert "surrogate=True" in finding(report, "value").hint
    assert finding(report, "kink").message == (
        "out[0] jumps at this very point (in[0]). It has no derivative here, and none was judged."
    )


def _spread(made):
    f, args = made
    return f, *args


# --- what a finding says ---------------------------------------------------------------------


def test_a_finding_names_the_place_the_hint_and_the_lesson():
    f = tf.custom_gradient(lambda x, y: (x * y, lambda dy: (dy * x, dy * y)))
    found = cgviz.check(lambda x, y: f(x, y), 2.0, 3.0).findings
    assert [each.message.split(",")[0] for each in found] == [
        "d out / d x: yours 2",
        "d out / d y: yours 3",
    ]
    assert all("swapped" in each.hint for each in found)
    assert {each.lesson for each in found} == {"03_multiple_inputs"}
    assert {each.level for each in found} == {"error"}


@pytest.mark.parametrize("y_gets", [lambda z, w: (z, z), lambda z, w: (w, z)])
def test_a_rule_that_takes_one_output_s_upstream_for_another_s_is_seen_where_a_sum_hides_it(y_gets):
    """z + w sends 1 to both outputs."""

    @tf.custom_gradient
    def z_and_w(x, y):
        def rule(up_z, up_w):
            one, other = y_gets(up_z, up_w)
            return up_z * y, one * x + other * 2.0 * y

        return (x * y, y**2), rule

    assert cgviz.check(lambda x, y: tf.add(*z_and_w(x, y)), 2.0, 3.0).ok
    assert "d out[0] / d y: yours" in cgviz.check(z_and_w, 2.0, 3.0).findings[0].message


def test_a_variable_that_is_an_argument_has_its_own_name():
    f = tf.custom_gradient(lambda x, w: (x * w, lambda dy: (dy * x, dy * w)))
    found = cgviz.check(lambda x, w: f(x, w), 2.0, tf.Variable(3.0, name="weight")).findings
    assert [each.message.split(":")[0] for each in found] == ["d out / d x", "d out / d weight"]
    assert "This is the gradient of `weight`" in found[0].hint


def test_a_report_raises_only_when_it_is_asked_to():
    report = cgviz.check(lambda x: tf.custom_gradient(lambda x: (x, lambda dy: -dy))(x), 1.0)
    assert not report.ok
    with pytest.raises(AssertionError, match="−1 times the true one"):
        report.assert_ok()
    assert cgviz.check(square, 1.0).assert_ok() is None


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_one_wrong_entry_is_found_where_it_is(shape):
    last = tuple(n - 1 for n in shape)

    @tf.custom_gradient
    def f(x):
        wrong = np.zeros(shape)
        wrong[last] = 0.5
        return tf.sin(x), lambda dy: dy * (tf.cos(x) + tf.constant(wrong, x.dtype))

    place = f"[{', '.join(map(str, last))}]" if shape else ""
    report = cgviz.check(f, np.full(shape, 0.3, np.float32))
    assert (
        f"d out{place} / d in{place}: yours 1.455, true 0.9553" in finding(report, "value").message
    )


def test_one_wrong_entry_of_many_is_found_too():
    f, args = gallery.one_element_wrong_of_many(np.float32)
    message = finding(cgviz.check(f, *args), "value").message
    assert "d out[123] / d in[123]" in message
    assert "others may be wrong, too" in message


def spoiled(forward, slope, entry, factor):
    """An elementwise function, one derivative of which is multiplied by a factor."""

    @tf.custom_gradient
    def f(x):
        wrong = 1.0 + (factor - 1.0) * tf.one_hot(entry, x.shape[0], dtype=x.dtype)
        return forward(x), lambda dy: dy * slope(x) * wrong

    return f


def tanh_slope(x):
    return 1.0 - tf.tanh(x) ** 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "factor"), [(200, -1.0), (20_000, 1.01)])
def test_one_derivative_of_an_elementwise_rule_is_seen_among_any_number(size, factor, dtype):
    x = np.random.default_rng(1).normal(size=size).astype(dtype)
    entry = size * 2 // 3
    report = cgviz.check(spoiled(tf.tanh, tanh_slope, entry, factor), x)
    assert f"d out[{entry}] / d in[{entry}]:" in finding(report, "value").message
    assert "more)" not in finding(report, "value").message


def test_a_right_rule_of_many_numbers_raises_no_alarm():
    x = np.random.default_rng(1).normal(size=20_000)
    report = cgviz.check(spoiled(tf.tanh, tanh_slope, 0, 1.0), x)
    assert not report.findings
    reason = row(report, "value").reason
    assert re.fullmatch(r"\d+ sums of \d+ derivatives agree .* in float64", reason), reason


def test_what_is_compared_one_by_one_says_how_closely():
    one = tf.constant(1.0)  # keeps f in float32
    reason = row(cgviz.check(lambda x: tf.sin(one * x), [0.3, 1.1]), "value").reason
    assert reason == "4 derivatives agree with finite differences in float32 to 0.5%"


def test_what_is_compared_in_sums_says_what_could_be_missed():
    def loss(x):
        return tf.reduce_sum(tf.sin(x) * tf.ones_like(x, tf.float32))

    reason = row(cgviz.check(loss, np.linspace(0, 1, 5000).astype(np.float32)), "value").reason
    assert re.match(r"\d+ sums of \d+ derivatives agree", reason)
    assert "% of their mean could be missed" in reason


def test_a_kink_at_the_very_point_is_a_warning():
    report = cgviz.check(tf.nn.relu, [0.0, 1.0])
    assert report.ok
    assert rules(report, "warning") == ["kink"]
    both = tf.custom_gradient(lambda x: (tf.nn.relu(x), lambda dy: dy * 5.0))
    assert "yours 5, true between 0 and 1" in finding(cgviz.check(both, 0.0), "value").message


def test_a_cond_decides_once_for_all_entries_and_raises_where_a_where_has_a_kink():
    """What reference_rules says of its bent line."""

    def bent(x):
        return tf.cond(x > 0.0, lambda: 2.0 * x, lambda: x)

    x = tf.constant([-1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="truth value"):
        cgviz.trace(bent, x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a scalar"):
        tf.function(bent)(x)
    for one, slope in ((-1.0, 1.0), (1.0, 2.0)):
        assert cgviz.trace(bent, one).gradients[0] == slope


def cube_root_by(halvings, factor=1.0):
    @tf.custom_gradient
    def root(x):
        low, high = tf.zeros_like(x), tf.fill(tf.shape(x), tf.cast(8.0, x.dtype))
        for _ in range(halvings):
            middle = (low + high) / 2
            below = middle**3 < x
            low, high = tf.where(below, middle, low), tf.where(below, high, middle)
        return low, lambda upstream: factor * upstream / (3 * low * low)

    return root


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("halvings", [22, 28])
def test_a_search_by_halvings_is_judged_over_steps_longer_than_its_stairs(dtype, halvings):
    report = cgviz.check(cube_root_by(halvings), tf.constant(3.3, dtype))
    assert report.ok, report
    if halvings < 28:  # in float32, whose last bit is about as large, only its digits are told
        assert "moves in stairs" in finding(report, "kink").message
    assert not cgviz.check(cube_root_by(halvings, 1.02), tf.constant(3.3, dtype)).ok


def test_of_stairs_that_a_rounding_makes_a_surrogate_is_named():
    fine = tf.custom_gradient(lambda x: (tf.round(x * 2.0**20) / 2.0**20, lambda dy: dy))
    message = finding(cgviz.check(fine, np.float64(0.3)), "kink").message
    assert "or a rounding (if on purpose: surrogate=True)" in message


def test_a_kink_or_a_flat_place_nearby_is_not_taken_for_stairs():
    x = tf.constant(1.0 + 1e-7, tf.float64)
    for f, wrong in ((lambda x: tf.nn.relu(x - 1), 0.0), (lambda x: tf.round(x * 256) / 256, 1.0)):
        rule = tf.custom_gradient(lambda x, f=f, wrong=wrong: (f(x), lambda dy: dy * wrong))
        assert not cgviz.check(rule, x).ok


def test_digits_that_cancel_are_a_warning_of_precision():
    def f(x):
        return (1.0 - tf.cos(x)) / x**2

    report = cgviz.check(f, 1e-3)
    assert report.ok
    assert "precision" in rules(report, "warning")


# --- everywhere it will be used --------------------------------------------------------------


@pytest.mark.usefixtures("forks")
def test_a_gradient_is_judged_in_every_place():
    w = tf.Variable(2.0, name="w")
    report = cgviz.check(
        lambda x: w * square(x), [1.0, 2.0], where=("eager", "graph", "xla", "saved")
    )
    assert not report.findings, report
    assert [place.rule for place in report.places] == ["eager", "graph", "xla", "saved"]
    assert {place.state for place in report.places} == {"pass"}


def test_a_place_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="'gpu'"):
        cgviz.check(square, 1.0, where="gpu")


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((None,), TypeError, "Close over it"),
        (("text",), TypeError, "Close over it"),
        (([[1.0], [1.0, 2.0]],), TypeError, "differ in length"),
        ((tf.sparse.from_dense([1.0]),), TypeError, "SparseTensor"),
        ((tf.ragged.constant([[1.0], [1.0, 2.0]]),), TypeError, "RaggedTensor"),
        ((2,), ValueError, "`2.` for 2"),
        ((), ValueError, "at least one argument"),
        ((float("nan"),), ValueError, "NaN or infinity"),
    ],
)
def test_what_is_no_argument_is_refused_in_words(args, error, words):
    with pytest.raises(error, match=words) as caught:
        cgviz.check(square, *args)
    assert "cgviz.check" in str(caught.value)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match=r"cgviz\.check\(f, x\)"):
        cgviz.check(3.0, 1.0)
    with pytest.raises(ValueError, match="`order`"):
        cgviz.check(square, 1.0, order=0)
    with pytest.raises(ValueError, match="`order` is 3"):
        cgviz.check(square, 1.0, order=3)


def test_the_bias_of_a_surrogate_names_each_input_before_it_names_one_twice():
    """Otherwise the large bias of one input, meant so, hides a mistake in that of another."""
    straight = tf.custom_gradient(
        lambda z, w: (tf.round(z) * w, lambda dy: (9.0 * dy, dy * (tf.round(z) + 0.5)))
    )
    report = cgviz.check(straight, [1.2, 2.2, 3.2, 4.2, 5.2], [1.0] * 5, surrogate=True)
    assert "/ d w[" in row(report, "surrogate").reason


def test_a_check_inside_a_graph_is_refused():
    with pytest.raises(RuntimeError, match="building a graph"):
        tf.function(lambda x: cgviz.check(square, 1.0) and x)(1.0)
    for run in (cgviz.check, cgviz.trace):  # with a tensor of the graph, too
        with pytest.raises(RuntimeError, match="building a graph"):
            tf.function(lambda x, run=run: run(square, x) and x)(tf.constant(1.0))


def test_a_function_that_raises_is_a_finding():
    def f(x):
        event = SimpleNamespace(grad_fn=len)  # a name that the recording uses, too
        raise KeyError("mine", event)

    report = cgviz.check(f, 1.0)
    assert rules(report) == ["runs"]
    assert "KeyError: ('mine'" in finding(report, "runs").message


def test_a_value_without_numbers_that_can_be_differentiated_is_a_finding():
    assert rules(cgviz.check(lambda x: tf.argmax(x), [1.0, 2.0])) == ["none"]
    assert rules(cgviz.check(lambda x: None, [1.0, 2.0])) == ["runs"]


def test_a_random_function_is_said_so_and_judged_with_its_seed_fixed():
    report = cgviz.check(lambda x: x * tf.random.normal([2]), [1.0, 2.0])
    assert report.ok
    assert any("same seed" in note for note in report.notes)


def test_dropout_of_one_number_is_right_however_often_two_draws_agree():
    for rate in (1e-6, 0.5):  # as good as all pairs, and half of them
        report = cgviz.check(lambda x, rate=rate: 3.0 * tf.nn.dropout(x, rate), 2.0, where=())
        assert report.ok
        assert "same seed" in str(report)


def test_a_loop_that_raises_in_float64_leaves_tensorflow_as_it_was():
    w = tf.Variable([1.0, 2.0])
    loop = tf.function(lambda x: tf.map_fn(lambda row: row * w, x))
    assert cgviz.check(loop, [[1.0, 2.0], [3.0, 4.0]]).ok
    assert tf.compat.v1.get_variable_scope().caching_device is None


def test_a_random_function_leaves_the_streams_as_they_were():
    np.random.seed(1)
    tf.random.set_seed(1)
    expected = np.random.normal(), float(tf.random.normal([]))
    np.random.seed(1)
    tf.random.set_seed(1)
    cgviz.check(lambda x: x * tf.random.normal([2]) * np.random.normal(), [1.0, 2.0])
    assert (np.random.normal(), float(tf.random.normal([]))) == expected


def test_a_stateful_function_is_warned_of_and_its_variable_put_back():
    count = tf.Variable(0.0, trainable=False, name="count")

    def f(x):
        count.assign_add(1.0)
        return x * x

    report = cgviz.check(f, 3.0)
    assert "`count`" in finding(report, "mutation").message
    assert report.ok
    assert float(count) == 0.0


def test_random_numbers_of_a_generator_are_the_same_in_a_graph():
    import keras

    layer = keras.layers.Dropout(0.5, seed=1)
    generator = tf.random.Generator.from_seed(1)
    before = generator.state.numpy().tolist()
    for f in (lambda x: layer(x, training=True), lambda x: x * generator.normal([6])):
        report = cgviz.check(f, np.linspace(1, 2, 6).astype(np.float32))
        report.assert_ok()
        assert rules(report, "warning") == ["mutation"]
        assert row(report, "graph").reason == "the same value and gradients as in eager mode"
    assert generator.state.numpy().tolist() == before


def test_checks_in_threads_leave_the_streams_and_what_others_print(capsys):
    def f(x):
        print("inside")
        return x * tf.random.normal([2])

    stdout = sys.stdout
    threads = [threading.Thread(target=cgviz.check, args=(f, [1.0, 2.0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        print("outside")
        time.sleep(0.01)
    assert sys.stdout is stdout
    assert set(capsys.readouterr().out.split()) == {"outside"}


def test_of_a_slow_function_the_second_order_is_judged_only_if_it_is_asked_for(monkeypatch):
    monkeypatch.setattr("cgviz.checking.derivatives.LONG", 0.0)
    assert row(cgviz.check(square, 2.0), "second order").reason == (
        "not judged: f is slow (order=2 judges it)"
    )
    assert row(cgviz.check(square, 2.0, order=2), "second order").state == "pass"


def test_what_f_prints_is_kept_off_the_screen(capsys):
    def f(x):
        print("many times")
        return x * x

    assert not cgviz.check(f, 3.0).findings
    assert capsys.readouterr().out == ""


def test_variables_are_as_they_were():
    w = tf.Variable([1.5, -2.5], name="w")
    v = tf.Variable(3.0, name="v")
    cgviz.check(lambda x, w: tf.reduce_sum(x * w) * v, 2.0, w, order=2)
    assert w.numpy().tolist() == [1.5, -2.5]
    assert float(v) == 3.0


def test_a_variable_twice_is_one_variable():
    w = tf.Variable(3.0, name="w")
    assert not cgviz.check(lambda a, b: a * b, w, w).findings


def test_a_recording_does_not_see_a_check_inside_it():
    x = tf.constant(3.0)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert cgviz.check(square, 2.0).ok
        g = tape.gradient(y, x)
    assert float(g) == 6.0
    assert [op.type for op in trace.ops if op.kind == "op"] == ["Mul"]


def test_an_interrupt_leaves_everything_as_it_was():
    w = tf.Variable(3.0, name="w")
    runs = []

    def f(x):
        runs.append(1)
        if len(runs) == 20:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        return x * w

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            cgviz.check(f, 2.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert float(w) == 3.0
    assert cgviz.check(square, 2.0).ok
    assert threading.current_thread() is threading.main_thread()


# --- what runs in the open only --------------------------------------------------------------


def test_a_tf_function_that_raises_as_a_graph_is_a_finding_and_no_crash():
    @tf.function
    def through(f, x):
        return f(x) + 1.0  # TensorFlow unwraps a custom gradient that is an argument

    report = cgviz.check(lambda x: through(two_rows, x), TABLE)
    assert [finding.rule for finding in report.findings] == ["runs"]
    assert "TypeError" in report.findings[0].message


# --- sparse gradients ------------------------------------------------------------------------

TABLE = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.usefixtures("forks")
def test_slices_that_do_not_know_of_what_shape_are_judged_as_the_tape_takes_them():
    def f(table, variable):
        return two_rows(table) + two_rows(variable)

    where = ("eager", "graph", "xla", "saved")
    report = cgviz.check(f, TABLE, tf.Variable(TABLE), order=2, where=where)
    assert report.ok, report


def test_slices_at_the_wrong_rows_are_found():
    @tf.custom_gradient
    def shifted(table):
        return tf.gather(table, [0, 2]), lambda u: tf.IndexedSlices(u, tf.constant([0, 1]))

    assert [x.rule for x in cgviz.check(shifted, TABLE).findings if x.level == "error"] == ["value"]


def test_slices_of_another_width_are_found():
    @tf.custom_gradient
    def narrow(table):
        return tf.gather(table, [0, 2]), lambda u: tf.IndexedSlices(u[:, :1], tf.constant([0, 2]))

    assert "shape" in [finding.rule for finding in cgviz.check(narrow, TABLE).findings]


# --- cost ------------------------------------------------------------------------------------


def test_the_number_of_runs_does_not_grow_faster_than_the_number_of_elements():
    runs = {}
    for n in (10, 20, 40, 4000):
        count = []
        cgviz.check(lambda x, count=count: count.append(1) or tf.sin(x), np.linspace(0.1, 1, n))
        runs[n] = len(count)
    assert runs[20] < 2.2 * runs[10]
    assert runs[40] < 2.2 * runs[20]
    assert runs[4000] < 3 * runs[40]


def test_nothing_is_computed_again_that_is_known():
    def count(x, rule, **how):
        runs = []

        @tf.custom_gradient
        def f(x):
            runs.append(x)
            return tf.sin(x), lambda dy: rule(dy, x)

        cgviz.check(lambda x: f(x), x, **how)
        return len(runs)

    assert count(3.0, lambda dy, x: dy * tf.cos(x)) < 62
    wrong = np.linspace(0.1, 1.0, 10, dtype=np.float32)
    assert count(wrong, lambda dy, x: dy) < 160


def test_a_gradient_that_has_nearly_vanished_takes_no_more_runs_to_judge():
    def count(factor):
        runs = []
        cgviz.check(lambda x: runs.append(x) or tf.sin(x) * [1.0, factor], np.array([0.5, 1.0]))
        return len(runs)

    assert count(1e-9) <= count(1.0)
