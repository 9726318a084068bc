"""What excuses a wrong claim, and what is said of one that nothing excuses."""

import gallery
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking import comparison

# --- excuses ----------------------------------------------------------------------------------


def implicit(tolerance, spoil=lambda inverse: inverse):
    """The fixed point z = tanh(Wz + x), and the rule of the implicit function theorem."""

    def solve(x, w):
        return tf.while_loop(
            lambda z, step: step > tolerance,
            lambda z, step: (
                new := tf.tanh(tf.linalg.matvec(w, z) + x),
                tf.reduce_max(tf.abs(new - z)),
            ),
            (tf.zeros_like(x), tf.constant(1.0, x.dtype)),
            maximum_iterations=100,
        )[0]

    @tf.custom_gradient
    def layer(x, w):
        z = solve(x, w)

        def grad(dy):
            slope = 1.0 - z**2
            inverse = spoil(tf.linalg.inv(tf.eye(2, dtype=x.dtype) - slope[:, None] * w))
            dx = slope * tf.linalg.matvec(inverse, dy, transpose_a=True)
            return dx, dx[:, None] * z

        return z, grad

    random = np.random.default_rng(2)
    return layer, random.normal(size=2), 0.3 * random.normal(size=(2, 2))


@pytest.mark.parametrize("tolerance", [1e-4, 1e-3])
@pytest.mark.parametrize("how", [lambda f: f, tf.function])
def test_a_right_rule_is_not_called_wrong_where_f_iterates_until_its_steps_are_small(
    tolerance, how
):
    layer, *args = implicit(tolerance)
    report = cgviz.check(how(layer), *args, where="eager")
    (found,) = report.findings
    assert (report.ok, found.rule, found.level) == (True, "precision", "warning")
    assert "f is an iteration that stops early" in found.message
    assert "Tighten the tolerance" in found.hint
    assert {row.rule: row.reason for row in report.rows}["second order"].startswith("not judged")


@pytest.mark.parametrize(
    "spoil",
    [
        tf.transpose,
        lambda inverse: 0.999 * inverse,
        lambda inverse: inverse + 0.2,
        lambda inverse: inverse * [[1.02, 1.0], [1.0, 1.0]],
    ],
)
def test_a_wrong_rule_is_not_excused_by_an_iteration_that_stops_early(spoil):
    layer, *args = implicit(1e-5, spoil)
    assert not cgviz.check(layer, *args, where="eager").ok


def test_a_wrong_rule_is_not_excused_by_a_branch_that_runs_more_ops_of_the_same_type():
    @tf.custom_gradient
    def tanh(x):
        y = tf.tanh(x)
        return y, lambda dy: dy * (1.0 - 1.02 * y * y)

    report = cgviz.check(
        lambda x: tanh(x * 1.0 * 1.0 if float(x[0]) > 1.0 else x * 1.0), [1.02, 0.5, 0.3], where=()
    )
    assert not report.ok


def test_a_wrong_rule_around_a_loop_outside_tensorflow_is_wrong():
    """Newton's iteration in NumPy; the rule of the implicit function theorem lacks a factor."""

    def solve(a):
        root, step = np.ones_like(a), np.ones_like(a)
        while np.abs(step).max() > 1e-5:
            step = (a / root - root) / 2.0
            root = root + 0.4 * step
        return root

    def report(factor):
        @tf.custom_gradient
        def root(a):
            y = tf.numpy_function(solve, [a], a.dtype)
            y.set_shape(a.shape)
            return y, lambda dy: dy * tf.cast(factor, a.dtype) / y

        return cgviz.check(root, [2.0, 3.0], where=())

    assert report(0.5).ok
    for factor in (1.0, 0.505):
        assert "value" in [each.rule for each in report(factor).findings if each.level == "error"]


def picked(weights):
    """Sorts, and at a tie hands upstream back by these weights."""

    @tf.custom_gradient
    def ordered(x):
        order = tf.argsort(x, stable=True)
        tie = tf.reduce_max(x) == tf.reduce_min(x)
        given = tf.where(tie, tf.cast(weights, x.dtype), tf.one_hot(order, 3, dtype=x.dtype))
        return tf.gather(x, order), lambda dy: tf.linalg.matvec(given, dy, transpose_a=True)

    return ordered


def gates(x):
    """The shares of the two most probable of four experts; few x give these two this order."""
    w = np.random.default_rng(3).normal(size=(4, 4))
    best = tf.math.top_k(tf.nn.softmax(tf.linalg.matvec(tf.cast(w.T, x.dtype), x)), 2).values
    return best / tf.reduce_sum(best)


TIES = {
    "sort": (tf.sort, [1.0, 1.0, 1.0]),
    "sort of five": (tf.sort, np.zeros(5)),
    "sort in float32": (lambda x: tf.sort(tf.cast(x, tf.float32)), np.zeros(7)),
    "sort of twelve": (lambda x: tf.sort(tf.cast(x, tf.float32)), np.zeros(12)),
    "experts": (gates, np.zeros(4)),
    "experts in float32": (lambda x: gates(tf.cast(x, tf.float32)), np.zeros(4)),
    "own sort": (picked(np.eye(3)[[2, 0, 1]]), [1.0, 1.0, 1.0]),
    "top_k": (lambda x: tf.math.top_k(x, 2).values, [0.0, 0.0, 0.0]),
    "range": (lambda x: (tf.reduce_max(x) + tf.reduce_min(x)) / 2.0, [1.0, 1.0, 1.0]),
    "eigenvalues": (tf.linalg.eigvalsh, np.eye(3)),
}


@pytest.fixture
def patient(monkeypatch):
    """A busy machine must not decide whether a tie is judged."""
    monkeypatch.setattr(comparison, "SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "sort of twelve")) for name in TIES],
)
def test_where_three_numbers_are_equal_a_gradient_that_picks_one_of_them_is_not_wrong(name):
    report = cgviz.check(*TIES[name])
    (found,) = report.findings
    assert (report.ok, found.rule) == (True, "kink")
    assert "kink in several inputs at once" in found.message


def test_a_tie_that_takes_too_long_to_judge_is_called_neither_right_nor_wrong(monkeypatch):
    monkeypatch.setattr(comparison, "SECONDS", 1e-6)
    report = cgviz.check(tf.sort, [1.0, 1.0, 1.0], where="eager")
    assert report.headline == "check of sort: – not judged here (1 warning)"
    assert "to find out takes too long, so none was judged" in report.findings[0].message
    rows = {row.rule: (row.state, row.reason) for row in report.rows}
    assert rows["value"] == ("skip", "f may have a kink in several inputs at once")
    assert rows["second order"][0] == "skip"
    wrong = tf.custom_gradient(lambda x: (tf.sin(x), lambda dy: 2.0 * dy))
    beside = cgviz.check(lambda x, y: tf.concat([tf.sort(x), wrong(y)], 0), [1.0] * 3, [0.5])
    assert not beside.ok
    summed = cgviz.check(lambda x, y: tf.sort(x)[1] + wrong(y), [1.0] * 3, 0.5, where="eager")
    assert not summed.ok


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("slope", [-1.0, 1.2])
def test_a_rule_that_claims_no_slope_between_the_two_of_a_kink_is_wrong(slope):
    def rule(dy, x):
        return dy * tf.where(x == 0.0, tf.cast(slope, x.dtype), tf.cast(x > 0.0, x.dtype))

    relu = tf.custom_gradient(lambda x: (tf.nn.relu(x), lambda dy: rule(dy, x)))
    assert not cgviz.check(relu, [0.0, 0.0, 0.0]).ok
    assert not cgviz.check(lambda x: tf.reduce_sum(relu(x)), [0.0, 1.0]).ok


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("weights", [7.0 * np.eye(3), np.ones((3, 3)), 0.5 * np.eye(3)])
def test_where_three_numbers_are_equal_a_gradient_that_is_no_mean_of_those_beside_is_wrong(weights):
    assert "value" in [each.rule for each in cgviz.check(picked(weights), [1.0, 1.0, 1.0]).findings]


def test_a_rule_that_is_hardly_wrong_in_one_of_many_entries_is_not_excused_by_a_tie():
    factors = np.where(np.arange(12) == 3, 3.14 / np.pi, 1.0)

    @tf.custom_gradient
    def norm(x):
        y = tf.norm(x)
        return y, lambda dy: dy * factors * x / y

    assert not cgviz.check(norm, np.linspace(1.0, 2.0, 12)).ok


def test_a_rule_that_is_wrong_beside_a_tie_is_wrong_at_it():
    sort = tf.custom_gradient(lambda x: (tf.sort(x), lambda dy: dy))
    assert not cgviz.check(lambda x: sort(x[::-1]), [1.0, 1.0, 1.0]).ok


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kinked", [tf.reduce_max, lambda x: tf.reduce_sum(tf.nn.relu(x))])
def test_a_rule_that_is_wrong_at_zero_alone_is_not_excused_by_a_kink_of_something_else(kinked):
    """(eˣ − 1) / x, which is smooth, and whose slope at 0 is ½: a safe division makes it 0."""

    @tf.custom_gradient
    def phi(x):
        small = tf.abs(x) < 1e-4
        y = tf.where(small, 1 + x / 2 + x * x / 6, tf.math.divide_no_nan(tf.math.expm1(x), x))
        slope = tf.math.divide_no_nan(tf.exp(x) * x - tf.math.expm1(x), x * x)
        return y, lambda dy: dy * tf.where(small & (x != 0.0), 0.5 + x / 3, slope)

    report = cgviz.check(lambda x: kinked(x) + tf.reduce_sum(phi(x)), [0.0, 0.0, 0.0], where=())
    assert not report.ok


@pytest.mark.usefixtures("patient")
def test_a_tie_excuses_no_rule_that_is_off_by_little_everywhere():
    @tf.custom_gradient
    def median(x):
        def rule(upstream):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.sort(x)[1]
            return 1.05 * tape.gradient(y, x, upstream)

        return tf.sort(x)[1], rule

    assert not cgviz.check(median, tf.ones(3, tf.float64)).ok


@pytest.mark.usefixtures("patient")
def test_a_tie_beside_many_other_outputs_excuses_none_of_their_entries():
    factor = np.ones(300)
    factor[200:260] = 0.5

    def plain(x):
        return tf.concat([tf.sort(x[:3]) * 4.0, tf.tanh(x[3:])], 0)

    @tf.custom_gradient
    def f(x):
        def rule(upstream):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = plain(x)
            return tape.gradient(y, x, upstream) * factor

        return plain(x), rule

    x = np.linspace(-1.0, 1.0, 300)
    x[:3] = 0.5
    assert not cgviz.check(f, tf.constant(x)).ok


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("rest", [tf.tanh, tf.nn.relu], ids=["smooth", "kinks"])
def test_a_tie_beside_many_other_inputs_of_a_right_function_is_no_error(rest):
    x = np.r_[[0.5] * 3, np.zeros(20) if rest is tf.nn.relu else np.linspace(-1.0, 1.0, 40)]
    assert cgviz.check(lambda x: tf.sort(x[:3])[1] + tf.reduce_sum(rest(x[3:])), x).ok


# --- what a wrong derivative looks like -------------------------------------------------------


def hint(rule, *args, forward=tf.sin):
    f = tf.custom_gradient(lambda *x: (forward(*x), lambda dy: rule(dy, *x)))
    found = cgviz.check(lambda *x: f(*x), *args).findings
    return next(each.hint for each in found if each.rule == "value")


def test_a_gradient_that_is_0_is_not_called_that_of_an_input_whose_gradient_is_0():
    nothing = lambda dy, x, y: (0.0 * dy, 0.0 * dy)  # noqa: E731
    assert "swapped" not in hint(nothing, 0.3, 1.0, forward=lambda x, y: x + 0.0 * y)


def test_two_gradients_are_called_swapped_only_if_both_are_each_others():
    straight = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy))
    (found,) = cgviz.check(lambda x, b: straight(x) + b, [0.3, 1.7], [1.0, 2.0]).findings
    assert found.hint.startswith("The true derivative is 0 here")
    swapped = hint(lambda dy, x, y: (dy * x, dy * y), 0.3, 1.7, forward=lambda x, y: x * y)
    assert "are the two swapped" in swapped


def test_two_gradients_are_not_called_swapped_where_one_is_0_and_the_other_none():
    said = hint(lambda dy, x, y: (dy, None), 0.3, 1.7, forward=lambda x, y: tf.round(x) + y)
    assert said.startswith("The true derivative is 0 here")


def test_a_mask_that_a_rule_lacks_is_named_though_other_derivatives_are_not_0():
    clip = lambda x: tf.clip_by_value(x, -1.0, 1.0)  # noqa: E731
    said = hint(lambda dy, x: dy, [0.5, 2.0], forward=clip)
    assert "a clip, a relu or a round is flat, a rule needs a mask" in said
    assert "surrogate=True" in said
    assert "mask" not in hint(lambda dy, x: 2.0 * dy, [0.5, 2.0], forward=clip)
    assert "mask" not in hint(lambda dy, x: dy * x, [0.5, 2.0], forward=clip)


def test_an_output_that_does_not_depend_on_an_input_is_not_called_flat():
    @tf.custom_gradient
    def scaled(x, g):
        return x * g, lambda dy: (dy * g, tf.reduce_sum(dy * x, axis=1))

    x = np.random.default_rng(6).normal(size=(16, 16)).astype(np.float32)
    (found,) = cgviz.check(scaled, x, np.linspace(1.0, 2.0, 16, dtype=np.float32)).findings
    assert "true 0; others may be wrong, too" in found.message
    assert "mask" not in found.hint
    straight = hint(lambda dy, x: dy, np.linspace(0.1, 9.2, 300), forward=tf.round)
    assert straight.startswith("The true derivative is 0 here")


def test_upstreams_of_two_outputs_are_named_only_if_there_are_two():
    turned = lambda dy, x: dy * tf.cos(x)[::-1]  # noqa: E731
    assert "two outputs" not in hint(turned, [0.3, 1.1])

    @tf.custom_gradient
    def both(x):
        return (tf.sin(x), tf.exp(x)), lambda ds, de: de * tf.cos(x) + ds * tf.exp(x)

    (found,) = cgviz.check(both, [0.3, 1.1]).findings
    assert "the upstreams of two outputs swapped" in found.hint


def test_a_gradient_is_not_called_a_multiple_of_a_slope_that_is_0_within_its_error():
    told = hint(lambda dy, x: dy * 7.0, 0.0, forward=lambda x: x * tf.abs(x))
    assert told.startswith("The true derivative is 0 here")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda dy, x: -dy * tf.cos(x), "−1 times the true one everywhere"),
        (lambda dy, x: 3.0 * dy * tf.cos(x), "3 times"),
        (lambda dy, x: dy * tf.cos(x)[::-1], "wrong places"),
    ],
)
def test_wrong_numbers_are_recognized_by_their_pattern(rule, words):
    assert words in hint(rule, [0.3, 1.1])


def test_a_missing_transpose_is_named_where_the_numbers_are_in_the_wrong_places():
    w = tf.constant([[1.0, 2.0], [3.0, 5.0]])

    def times(x):
        return x @ tf.cast(w, x.dtype)

    said = hint(lambda dy, x: times(dy), [[0.3, 1.1]], forward=times)
    assert "a transpose missing or one too many" in said


def test_a_wrong_axis_and_a_missing_conjugate_are_named_only_where_they_may_be_the_cause():
    x = np.random.default_rng(4).normal(size=(3, 3)).astype(np.float32)

    @tf.custom_gradient
    def scaled(g):
        return x * g, lambda dy: tf.reduce_sum(dy * x, axis=1)

    kernel = np.random.default_rng(5).normal(size=6).astype(np.float32)

    @tf.custom_gradient
    def convolved(x):
        k = tf.signal.rfft(tf.cast(kernel, tf.float32))
        turn = lambda x: tf.signal.irfft(tf.signal.rfft(x) * k, [6])  # noqa: E731
        return turn(x), turn

    axis, conjugate = "a sum over the wrong axis", "a conjugate missing"
    (found,) = cgviz.check(scaled, [1.0, 2.0, 3.0]).findings
    assert axis in found.hint and conjugate not in found.hint  # noqa: PT018
    (found,) = cgviz.check(convolved, kernel[::-1].copy()).findings
    assert conjugate in found.hint and axis not in found.hint  # noqa: PT018
    reverse = hint(lambda dy, x: dy * tf.cos(x)[::-1], [0.3, 1.1])
    assert axis not in reverse and conjugate not in reverse  # noqa: PT018


def test_a_factor_common_to_many_derivatives_is_named():
    assert hint(lambda dy, x: 3.0 * dy * tf.cos(x), np.linspace(0.3, 1.1, 300)).startswith(
        "Yours is 3 times the true one everywhere."
    )


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_rule_for_symmetric_matrices_is_told_how_to_check_it(factor):
    said = hint(
        lambda dy, a: dy * factor * tf.linalg.inv(a),
        [[2.0, 0.5], [0.5, 1.0]],
        forward=tf.linalg.logdet,
    )
    assert "A gradient for symmetric matrices" in said
    assert "symmetric" not in hint(lambda dy, x: dy * tf.cos(x) ** 2, [0.3, 1.1])
    square = [[2.0, 0.5], [0.1, 1.0]]
    assert "symmetric" not in hint(lambda dy, x: dy * tf.cos(x) ** 2, square)


def test_a_matrix_that_is_symmetric_up_to_rounding_is_taken_for_a_symmetric_one():
    square = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    square = np.array(tf.constant(square @ square.T + 5.0 * np.eye(5, dtype=np.float32)))
    square[0, 1] *= 1 + 2e-7
    assert square[0, 1] != square[1, 0]
    said = hint(lambda dy, a: dy * tf.linalg.inv(a) * a, square, forward=tf.linalg.logdet)
    assert "A gradient for symmetric matrices" in said


def test_of_one_number_nothing_is_said_to_hold_everywhere():
    said = hint(lambda dy, x: 8.0 * dy * tf.cos(x), 0.3)
    assert said.startswith("Yours is 8 times the true one. ")


def test_a_rule_that_replaces_a_slope_of_0_is_told_how_to_say_that_it_does():
    assert "surrogate=True" in hint(lambda dy, x: dy, [0.3, 1.1], forward=tf.sign)
    assert "surrogate" not in hint(lambda dy, x: 3.0 * dy, [0.3, 1.1])


def test_a_reversed_gradient_is_told_how_to_say_that_it_is_on_purpose():
    assert "surrogate=True" in hint(lambda dy, x: -0.3 * dy, [0.3, 1.1], forward=tf.identity)


@pytest.mark.parametrize("size", [2, 300])
def test_where_there_is_no_rule_stop_gradient_is_named_and_no_rule_is_blamed(size):
    x = np.linspace(0.3, 1.1, size).astype(np.float32)
    report = cgviz.check(lambda x: tf.sin(x) + tf.stop_gradient(x * x), x)
    (said,) = (each.hint for each in report.findings if each.rule == "value")
    assert "tf.stop_gradient" in said
    assert "surrogate=True" in said
    assert "Work the rule out" not in said


def test_a_factor_of_one_is_no_hint():
    slopes, others = np.array([[0.01, 1.0], [0.02, 1.0]])
    said = hint(lambda dy, x: dy * others, np.ones(2), forward=lambda x: x * slopes)
    assert said.startswith("Work the rule out by hand")
    assert hint(lambda dy, x: 1.002 * dy * tf.cos(x), 0.3).startswith("Work the rule out")


@tf.custom_gradient
def turned(z):
    """A complex product; its rule forgets the conjugate."""
    c = tf.constant(1 + 2j, z.dtype)
    return z * c, lambda dy: dy * c


def test_of_complex_numbers_the_gradient_of_the_sum_is_tensorflows_and_conj_is_named():
    z = tf.constant([1 + 2j, 3 - 1j], tf.complex64)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.reduce_sum(z * (1 + 2j))
    assert tape.gradient(y, z).numpy().tolist() == [1 - 2j, 1 - 2j]
    (found,) = cgviz.check(turned, z).findings
    assert "d real out[0] / d imag in[0]: yours 2, true −2" in found.message
    assert "conjugate" in found.hint


def test_numbers_alike_in_four_digits_are_written_with_more():
    f = tf.custom_gradient(lambda x: (2.0 * x, lambda dy: 2.0003 * dy))
    assert "yours 2.0003, true 2" in cgviz.check(f, 2.0).findings[0].message


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (gallery.python_function_without_a_rule, "none"),
        (gallery.captured_argument, "captured"),
        (gallery.variable_gets_none, "variables"),
        (gallery.called_by_keyword_deep_inside, ""),
    ],
)
def test_the_value_has_no_tick_where_a_wrong_derivative_is_told_under_another_rule(made, rule):
    f, args = made(np.float32)
    row = next(each for each in cgviz.check(f, *args).rows if each.rule == "value")
    assert (
        (row.state, row.reason) == ("fail", f"wrong: see {rule}") if rule else row.state == "pass"
    )


def test_labels_that_get_none_on_purpose_are_told_to_be_closed_over():
    @tf.custom_gradient
    def loss(p, t):
        return tf.reduce_sum((p - t) ** 2), lambda dy: (2.0 * dy * (p - t), None)

    (found,) = cgviz.check(loss, [1.0, 2.0], [3.0, 4.0]).findings
    assert "as labels do, close over it: lambda x: f(x, labels)" in found.hint
    labels = tf.constant([3.0, 4.0])
    assert not cgviz.check(lambda p: loss(p, tf.cast(labels, p.dtype)), [1.0, 2.0]).findings


@pytest.mark.parametrize("rows", [2, 100])
def test_labels_that_get_none_on_purpose_hide_no_wrong_gradient_for_the_predictions(rows):
    @tf.custom_gradient
    def loss(p, t):  # a factor of 2 is forgotten
        return tf.reduce_sum((p - t) ** 2, -1), lambda dy: (dy[:, None] * (p - t), None)

    p, t = np.random.default_rng(1).normal(size=(2, rows, 4)).astype(np.float32)
    found = {each.rule: each for each in cgviz.check(loss, p, t).findings}
    assert "`t` got None" in found["none"].message
    assert "/ d p[" in found["value"].message
    assert found["value"].hint.startswith("Yours is 0.5 times the true one everywhere.")


def test_a_variable_that_gets_none_on_purpose_is_told_not_to_be_trainable():
    def quantized(trainable):
        codes = tf.Variable([[0.1, 0.2], [1.1, 1.3]], name="codes", trainable=trainable)

        @tf.custom_gradient
        def quantize(z):
            code = tf.cast(codes, z.dtype)
            nearest = tf.argmin(tf.reduce_sum((z[:, None] - code) ** 2, -1), -1)
            return tf.gather(
                code, nearest
            ), lambda dy, variables=None: (dy, [None]) if variables else dy

        return quantize

    z = [[0.3, 0.3], [0.9, 1.2]]
    (found,) = cgviz.check(quantized(True), z, surrogate=True).findings
    assert "make it with trainable=False" in found.hint
    assert cgviz.check(quantized(False), z, surrogate=True).ok
    (told,) = cgviz.trace(quantized(True), z).diagnose()
    assert told.lesson == found.lesson == "04_variables"


def test_stop_gradient_is_named_where_it_blocks():
    report = cgviz.check(lambda x: tf.sin(tf.stop_gradient(x)), 0.5)
    found = next(f for f in report.findings if f.rule == "none")
    assert "StopGradient" in found.message
    assert "labels" not in found.hint


def test_an_op_without_a_gradient_is_named():
    report = cgviz.check(lambda x: tf.math.zeta(x, tf.constant(2.0, x.dtype)), 3.0)
    assert "Zeta" in next(f for f in report.findings if f.rule == "none").message


@tf.custom_gradient
def right(x):
    def grad(dy):
        return dy * tf.cos(x)

    return tf.sin(x), grad


@tf.custom_gradient
def ignoring(x):
    def grad(dy):
        return tf.cos(x)

    return tf.sin(x), grad


def test_of_two_rules_the_one_that_ignores_upstream_is_named():
    found = cgviz.check(lambda x: right(ignoring(x)), 0.5).findings[0]
    assert found.rule == "upstream"
    assert found.message.startswith("the rule of `ignoring` (line")


def test_what_a_surrogate_stops_on_purpose_is_no_error_and_not_said_to_flow():
    def quantized(x, codes):  # straight-through to x; the codes are learned by another loss
        nearest = tf.argmin(tf.abs(x[:, None] - codes), axis=1)
        return x + tf.stop_gradient(tf.gather(codes, nearest) - x)

    report = cgviz.check(quantized, [0.2, 0.9], [0.0, 1.0], surrogate=True, where="eager")
    assert report.ok
    (row,) = (row for row in report.rows if row.rule == "none")
    assert (row.state, "stop_gradient" in row.reason) == ("skip", True)


def test_a_matrix_of_zeros_is_not_taken_for_a_symmetric_one():
    assert "symmetric" not in hint(lambda dy, x: dy * 3.0 + x, np.zeros((2, 2)), forward=tf.sin)


@pytest.mark.parametrize(("factor", "words"), [(1 / 8, "A mean where"), (-1.0, "A wrong sign?")])
def test_a_usual_factor_has_a_usual_cause(factor, words):
    f = tf.custom_gradient(lambda x: (tf.reduce_sum(x * x), lambda dy: dy * factor * 2.0 * x))
    assert f"everywhere. {words}" in cgviz.check(f, np.arange(1.0, 9.0)).findings[0].hint


def test_a_sum_over_the_wrong_axis_is_told_from_a_missing_mask():
    def softmax(x):
        p = tf.nn.softmax(x)
        return p, lambda dy: p * (dy - tf.reduce_sum(dy * p))

    x = np.random.default_rng(0).normal(size=(2, 3))
    found, *_ = cgviz.check(tf.custom_gradient(softmax), x).findings
    assert found.hint.endswith(
        "a sum over the wrong axis, or without a mask, mixes rows or groups."
    )
    relu = tf.custom_gradient(lambda x: (tf.nn.relu(x), lambda dy: dy))
    found, *_ = cgviz.check(relu, x).findings
    assert "where a clip, a relu or a round is flat" in found.hint
