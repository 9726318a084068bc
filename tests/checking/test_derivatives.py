"""What finite differences show is explained by the rule that causes it."""

import gallery
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking import comparison


@pytest.mark.parametrize("digits", [3, 6])
def test_a_constant_with_few_digits_is_an_error_or_told(digits):
    pi = round(np.pi, digits - 1)
    f = tf.custom_gradient(lambda x: (np.pi * x, lambda dy: pi * dy))
    report = cgviz.check(f, np.float64(2.0))
    (found,) = report.findings
    assert report.ok == (digits > 3)
    assert found.rule == ("precision" if report.ok else "value")
    assert f"yours {pi:.7g}" in found.message
    assert "3.14159" in found.message or "3.142" in found.message


def test_an_input_whose_gradient_is_wrong_is_not_said_to_have_wrong_last_digits_too():
    @tf.custom_gradient
    def normed(x):  # the term of the mean is forgotten: for a small x it hardly matters
        r = tf.math.rsqrt(tf.reduce_mean(x * x))
        return x * r, lambda dy: dy * r

    (found,) = cgviz.check(normed, [0.7, -1.3, 1e-3, 2.1]).findings
    assert found.rule == "value"


def softplus(x):
    return tf.math.log(1.0 + tf.exp(x))


@pytest.mark.parametrize("x", [-15.0, -20.0, -30.0, -40.0, -100.0])
def test_a_right_rule_is_not_called_wrong_where_the_value_is_lost_beside_a_1(x):
    """A graph computes it by log1p, and float64 loses it later than float32."""
    rule = tf.custom_gradient(lambda x: (softplus(x), lambda dy: dy * tf.sigmoid(x)))
    assert cgviz.check(softplus, x).ok
    assert cgviz.check(rule, x).ok


@pytest.mark.parametrize("x", [-15.0, -20.0, -30.0, -100.0])
def test_a_rule_that_is_wrong_there_by_what_can_be_seen_is_caught(x):
    rule = tf.custom_gradient(lambda x: (softplus(x), lambda dy: dy * 1e-3))
    assert [f.rule for f in cgviz.check(rule, x).findings if f.level == "error"] == ["value"]


def test_a_kink_at_the_zeros_of_many_inputs_does_not_excuse_a_wrong_rule_elsewhere():
    relu = tf.custom_gradient(
        lambda x: (tf.nn.relu(x), lambda dy: dy * 2.0 * tf.cast(x > 0, x.dtype))
    )
    random = np.random.default_rng(0)
    image = random.uniform(0.1, 1, 784) * (random.uniform(size=784) > 0.8)
    report = cgviz.check(lambda x: tf.reduce_sum(relu(x)), image, where=())
    assert [f.rule for f in report.findings if f.level == "error"] == ["value"]


def test_what_one_rule_closes_over_is_not_blamed_for_another_rule_that_is_wrong():
    def f(x, c):
        scale = tf.custom_gradient(lambda x: (x * c, lambda dy: dy * c))
        square = tf.custom_gradient(lambda x: (x * x, lambda dy: dy * 3.0 * x))
        return square(scale(x))

    found = {each.rule: each.message for each in cgviz.check(f, 1.5, 2.0).findings}
    assert "d out / d c: yours None" in found["captured"]
    assert found["value"].startswith("d out / d x: yours 18, true 12")


def test_what_a_rule_closes_over_is_blamed_only_for_the_gradients_that_it_cuts():
    def f(x, w):
        s = tf.sigmoid(w)
        return tf.custom_gradient(lambda x: (x * s, lambda dy: 2.0 * dy * s))(x)

    report = cgviz.check(f, [1.0, 2.0], [2.0, 3.0])
    found = {each.rule: each for each in report.findings}
    assert "d out[0] / d w[0]: yours None" in found["captured"].message
    assert "as labels do" not in found["captured"].hint
    assert found["value"].hint.startswith("Yours is 2 times the true one")
    (row,) = (row for row in report.rows if row.rule == "none")
    assert (row.state, row.reason) == ("fail", "nothing flows to w: see captured")


def test_a_right_rule_is_not_blamed_for_a_stop_gradient_beside_it():
    @tf.custom_gradient
    def swish(x):
        s = tf.sigmoid(x)
        return x * s, lambda dy: dy * s * (1.0 + x * (1.0 - s))

    def loss(w, b):
        return tf.reduce_sum((swish(w) + tf.stop_gradient(b) * b) ** 2)

    for f, *args in (
        (loss, [1.0, 2.0], [0.3, 0.4]),
        (lambda x: swish(x) * tf.stop_gradient(tf.reduce_sum(x * x)), [0.5, 0.6]),
    ):
        (found,) = cgviz.check(f, *args).findings
        assert found.rule == "value"
        assert "swish" not in found.message
        assert "Does tf.stop_gradient hide a part of f" in found.hint


def test_a_slope_that_rounding_of_a_large_value_hides_is_not_judged():
    square = tf.custom_gradient(lambda w: (w * w, lambda dy: dy * w))
    large = tf.constant(1e13)
    report = cgviz.check(lambda w: large + square(w), 2.0, where=())
    (row,) = (row for row in report.rows if row.rule == "value")
    assert (row.state, row.reason) == ("skip", "finite differences are too uncertain here")


@pytest.mark.parametrize(
    "f",
    [
        tf.sqrt,
        lambda x: tf.sign(x) * tf.abs(x) ** (1 / 3),
        lambda x: tf.sqrt(tf.abs(x)),
    ],
)
def test_a_point_where_nothing_could_be_judged_is_not_called_smooth(f):
    safe = tf.custom_gradient(lambda x: (f(x), lambda dy: 0.0 * dy))
    report = cgviz.check(safe, 0.0, where=())
    (row,) = (row for row in report.rows if row.rule == "kink")
    assert (row.state, row.reason) == ("warn", "cannot be judged")
    assert report.findings[0].message.startswith("out cannot be judged at this very point (in).")


@pytest.mark.parametrize("local", [0.0, 7.0, -1.0, 1e5])
def test_where_nothing_was_judged_nothing_is_called_right(local):
    root = tf.custom_gradient(lambda x: (tf.sqrt(x), lambda dy: dy * local))
    report = cgviz.check(root, [0.0])
    assert report.headline == "check of f: – not judged here (1 warning)"
    assert report.findings[0].hint == "Check at a nearby point as well."
    assert cgviz.check(tf.sign, [0.0]).headline == "check of sign: – not judged here (1 warning)"
    assert not report.judged
    assert cgviz.check(tf.nn.relu, [0.0]).judged
    assert "✓ right" in cgviz.check(tf.nn.relu, [0.0]).headline


def test_an_infinite_slope_among_others_is_named_and_hides_no_wrong_rule():
    def check(local):
        safe = lambda x: local / tf.sqrt(tf.maximum(x, 1e-12))  # noqa: E731
        rule = tf.custom_gradient(lambda x: (tf.sqrt(x), lambda dy: dy * safe(x)))
        return {each.rule: each.message for each in cgviz.check(rule, [0.0, 1.0]).findings}

    assert list(check(0.5)) == ["kink"]
    assert check(0.5)["kink"].startswith("out[0] cannot be judged at this very point (in[0])")
    assert "yours 0.6, true 0.5" in check(0.6)["value"]


def test_a_gradient_that_was_not_judged_here_is_not_called_right_here():
    def forward(x):
        return tf.acos(tf.clip_by_value(x, -1.0, 1.0))

    def rule(dy, x):
        return -dy / tf.sqrt(1.0 - tf.clip_by_value(x, -1.0, 1.0) ** 2 + 1e-6)

    f = tf.custom_gradient(lambda x: (forward(x), lambda dy: rule(dy, x)))
    found = {each.rule: each.message for each in cgviz.check(f, [1.0]).findings}
    said = "could not be judged in full here, and is wrong beside this point"
    assert said in found["second order"]


def test_a_surrogate_whose_rule_closes_over_an_input_is_told_so():
    def f(x, w):
        return tf.custom_gradient(lambda x: (tf.round(x) * w, lambda dy: dy * w))(x)

    (found,) = cgviz.check(f, 1.3, 2.0, surrogate=True).findings
    assert (found.rule, "`w`" in found.message) == ("captured", True)


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


@pytest.mark.parametrize("width", [1e-6, 1e-7])
def test_stairs_that_have_a_slope_of_their_own_do_not_make_a_right_rule_wrong(width):
    """As those of a search by halvings that is followed by a division."""

    def report(factor):
        @tf.custom_gradient
        def square(x):
            start = tf.floor(x / width) * width
            return start**2 + 0.3 * (x - start), lambda dy: dy * factor * x

        return cgviz.check(square, [1.3, -0.7], where=())

    assert [(each.rule, each.level) for each in report(2.0).findings] == [("kink", "warning")]
    assert not report(2.1).ok


# --- the second order -------------------------------------------------------------------------


def second_order(f, *args, **how):
    report = cgviz.check(f, *args, **how)
    return [(each.level, each.message) for each in report.findings if each.rule == "second order"]


@tf.custom_gradient
def naive(x):
    """x³; the rule of its rule answers for upstream, and takes x from outside."""

    @tf.custom_gradient
    def grad(upstream):
        return upstream * 3.0 * x**2, lambda upstream2: upstream2 * 3.0 * x**2

    return x**3, grad


@tf.custom_gradient
def nested(x):
    """x³; the rule of its rule answers for upstream and for x."""

    @tf.custom_gradient
    def grad(upstream, x):
        def second(upstream2):
            return upstream2 * 3.0 * x**2, upstream2 * upstream * 6.0 * x

        return upstream * 3.0 * x**2, second

    return x**3, lambda upstream: grad(upstream, x)


def test_of_a_surrogate_that_is_applied_twice_no_second_order_is_called_wrong():
    reverse = tf.custom_gradient(lambda x: (tf.identity(x), lambda dy: -dy))
    straight = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy))
    for f in (lambda x: reverse(x) ** 2, lambda x: straight(x) * x):
        assert not cgviz.check(f, [0.3, 1.7], surrogate=True, order=2).findings


RIGHT_AT_ONE_POINT = {
    "3x for x³": (lambda x: x**3, lambda x: 3.0 * x, 1.0),
    "3x for x²": (tf.square, lambda x: 3.0 * x, 0.0),
    "x for sin": (tf.sin, lambda x: 1.0 - x, [0.0, 0.0]),
}


@pytest.mark.parametrize("name", RIGHT_AT_ONE_POINT)
def test_a_rule_that_is_right_at_this_point_alone_does_not_pass_without_a_word(name):
    value, local, at = RIGHT_AT_ONE_POINT[name]
    rule = tf.custom_gradient(lambda x: (value(x), lambda dy: dy * local(x)))
    for order, level in ((1, "warning"), (2, "error")):
        (finding,) = cgviz.check(rule, at, order=order).findings
        assert (finding.rule, finding.level) == ("second order", level)
        assert "is right here, but not beside this point" in finding.message
    assert not cgviz.check(value, at, order=2).findings


def test_the_second_derivative_of_a_single_number_is_named():
    cube = tf.custom_gradient(lambda x: (x**3, lambda dy: dy * 3.0 * x))
    assert "wrong: yours 3, true 6." in cgviz.check(cube, 1.0).findings[0].message


def test_of_two_swapped_gradients_that_are_equal_both_inputs_get_a_warning():
    swapped = tf.custom_gradient(lambda x, y: (x * y, lambda dy: (dy * x, dy * y)))
    report = cgviz.check(swapped, 2.0, 2.0)
    assert report.ok
    assert [each.message.split(" is ")[0] for each in report.findings] == [
        "the gradient for x",
        "the gradient for y",
    ]


def test_a_transpose_that_is_forgotten_is_seen_at_a_symmetric_matrix_too():
    rule = tf.custom_gradient(lambda a: (tf.linalg.slogdet(a)[1], lambda dy: dy * tf.linalg.inv(a)))
    (finding,) = cgviz.check(lambda a: rule(a), [[3.0, 1.0], [1.0, 2.0]], order=2).findings
    assert "is right here, but not beside this point" in finding.message


SPECIAL = {  # right rules, at points where something else happens beside them
    "a kink": (tf.nn.relu, [0.0, 1.0, -2.0]),
    "an edge of the domain": (tf.math.acos, 0.999),
    "a step": (tf.round, 0.47),
    "an edge of what a rule is for": (
        tf.custom_gradient(
            lambda x: (
                tf.atanh(tf.clip_by_value(x, -0.99999, 0.99999)),
                lambda dy: dy / (1.0 - x * x),
            )
        ),
        0.95,
    ),
    "a tie": (lambda x: tf.reduce_max(x), [1.0, 1.0]),
    "labels": (lambda x, y: tf.nn.softmax_cross_entropy_with_logits(y, x), [1.0, 2.0], [0.0, 1.0]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_what_happens_beside_a_point_is_not_blamed_on_a_right_rule(name):
    f, *at = SPECIAL[name]
    assert not [each for each in cgviz.check(f, *at).findings if "right here" in each.message]


def test_the_second_order_is_a_warning_unless_it_is_asked_for():
    def wrong(x):
        return tf.custom_gradient(
            lambda x: (tf.sin(x), lambda dy: dy * tf.stop_gradient(tf.cos(x)))
        )(x)

    for order, level in ((1, "warning"), (2, "error")):
        (found,) = cgviz.check(wrong, [0.5, 1.0], order=order).findings
        assert (found.rule, found.level) == ("second order", level)


def test_of_many_wrong_second_derivatives_each_input_is_moved_once_more():
    runs = []

    @tf.custom_gradient
    def f(x):
        def grad(upstream):
            runs.append(upstream)
            return upstream * (tf.stop_gradient(2 * x * tf.reduce_sum(x)) + tf.reduce_sum(x**2))

        return tf.reduce_sum(x) * tf.reduce_sum(x**2), grad

    report = cgviz.check(f, [1.0, 2.0, 3.0, 4.0], order=2)
    assert "and 15 more" in report.findings[0].message
    assert len(runs) < 250  # one slope for each of the 16 would take over 400


def test_a_rule_that_computes_in_less_than_f_is_not_blamed_for_the_second_order_too():
    f = tf.custom_gradient(lambda x: (x * x, lambda dy: tf.cast(2.0 * x * dy, tf.float32)))
    report = cgviz.check(f, np.float64([1.3, -0.7]), order=2)
    assert [each.rule for each in report.findings] == ["dtype"]
    assert "not judged: see dtype" in [row.reason for row in report.rows]


def test_a_rule_of_a_rule_that_is_wrong_in_company_only_is_caught():
    ((level, message),) = second_order(naive, 3.0, order=2)
    assert level == "error"
    assert message == (
        "Correct for an upstream of ones, but not for every upstream. "
        "With one that grows with the input, d (upstream · d out / d in) / d in: "
        "yours 0.9079, true 18.91."
    )
    assert second_order(naive, 3.0)[0][0] == "warning"
    assert "With one that grows" in second_order(naive, [3.0, 1.0], order=2)[0][1]


def test_a_rule_of_a_rule_that_takes_its_input_is_right():
    assert not cgviz.check(nested, 3.0, order=2).findings
    assert not cgviz.check(nested, [3.0, -1.0], order=2).findings


def test_a_second_derivative_that_is_nan_in_the_dtype_given_is_said():
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.nn.softplus(x), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

    ((level, message),) = second_order(log1pexp, 100.0, order=2)
    assert level == "error"
    assert message == ("differentiated twice, f gives NaN for in; its gradient is finite there.")
    assert second_order(log1pexp, 100.0)[0][0] == "warning"
    assert not second_order(log1pexp, 1.0, order=2)


@pytest.mark.parametrize("at", [[0.3, -2.0, 7.0], [10.0, 0.0, -3.0]])
def test_where_all_terms_of_a_rule_cancel_their_rounding_is_no_second_derivative(at):
    assert not second_order(lambda x: tf.reduce_sum(tf.nn.softmax(x)), at, order=2)


def test_rounding_that_terms_of_a_rule_leave_in_float32_is_no_wrong_second_derivative():
    random = np.random.default_rng(100)
    x = random.normal(size=(4, 5))
    w = tf.constant(random.normal(size=(5, 4)), tf.float32)  # keeps f in float32
    assert not second_order(lambda x: tf.nn.softmax(3.0 * x @ w), x.astype(np.float32), order=2)


def test_a_tiny_second_derivative_that_is_wrong_is_told():
    cut = tf.custom_gradient(
        lambda x: (1e-6 * x**3, lambda dy: dy * 3e-6 * tf.stop_gradient(x) ** 2)
    )
    ((_, message),) = second_order(cut, 1.0, order=2)
    assert message == "d² out / d in²: yours None, true 6e−6."


def test_of_a_value_that_overflows_the_second_derivative_tells_no_more_unless_asked_for():
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

    assert [each.rule for each in cgviz.check(log1pexp, 100.0).findings] == ["finite forward"]
    assert second_order(log1pexp, 100.0, order=2)


def test_a_second_derivative_that_is_nan_in_every_dtype_is_said():
    def f(x):
        return tf.where(x > 0.0, x, 1.0) * tf.where(x > 0.0, tf.sqrt(x) ** 3, 0.0 * x)

    found = cgviz.check(f, np.float64(0.0), order=2).findings[0]
    assert (found.rule, found.level) == ("second order", "error")
    assert "f gives" in found.message
    assert "order=2" in found.hint
    assert "tf.where" in str(cgviz.trace(f, 0.0, order=2).diagnose())


@tf.custom_gradient
def rows_that_overwrite(table, i):
    def grad(dy):
        return tf.tensor_scatter_nd_update(tf.zeros_like(table), i[:, None], dy), None

    return tf.gather(table, i), grad


@tf.custom_gradient
def shifted_by_the_mean(x, b):
    return x + b, lambda dy: (dy, tf.reduce_mean(dy, 0))


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (rows_that_overwrite, ([1.0, 2.0, 3.0], tf.constant([0, 2, 2]))),
        (shifted_by_the_mean, ([[1.0, 2.0], [3.0, 4.0]], [0.5, 1.5])),
        (gallery.python_function_without_a_rule(np.float32)[0], ([0.3, -1.2, 2.1],)),
    ],
)
def test_of_a_wrong_derivative_no_second_order_is_called_right_or_correct(f, args):
    report = cgviz.check(f, *args, order=2)
    assert len(report.findings) == 1
    row = next(row for row in report.rows if row.rule == "second order")
    assert (row.state, row.reason) == ("skip", "not judged: see value")


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
    assert "are the upstreams of two outputs swapped" in found.hint


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
    assert "is a transpose missing or one too many" in said


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


# --- what differences cannot tell, and what another point tells --------------------------------


def relu_layers(rule=None):
    """A ReLU between two layers whose float32 weights f reads: kinks lie near its inputs."""
    random = np.random.default_rng(1)
    x = random.normal(size=(8, 8)).astype(np.float32)
    w = tf.Variable(random.normal(size=(8, 64)).astype(np.float32) * 0.35, name="w")
    b = tf.Variable(np.zeros(64, np.float32), name="b")
    v = tf.Variable(random.normal(size=(64, 3)).astype(np.float32) * 0.09, name="v")
    relu = tf.custom_gradient(lambda x: (tf.nn.relu(x), lambda dy: rule(dy, x)))
    return cgviz.check(lambda x: (relu if rule else tf.nn.relu)(x @ w + b) @ v, x)


def test_in_float32_a_kink_near_by_makes_no_right_gradient_wrong():
    assert relu_layers().ok


@pytest.mark.parametrize("rule", [lambda dy, x: dy, lambda dy, x: dy * tf.cast(x < 0.5, x.dtype)])
def test_in_float32_a_wrong_rule_is_found_among_kinks(rule):
    assert relu_layers(rule).findings[0].rule == "value"


@pytest.mark.parametrize(
    "f", [lambda x: x + 0.1, lambda x: x * 7.0, lambda x: tf.where(x > 1.5, x, 0.0)]
)
def test_of_an_f_that_gives_another_value_each_time_nothing_is_called_right(f):
    random = np.random.default_rng(0)
    noisy = tf.custom_gradient(
        lambda x: (x * x + 0.1 * random.normal(size=2).astype(np.float32), lambda dy: dy * f(x))
    )
    report = cgviz.check(noisy, [1.0, 2.0], order=2)
    assert (report.ok, [found.rule for found in report.findings]) == (False, ["mutation"])
    assert report.headline.endswith("✗ not judged (1 error)")
    assert not {"value", "kink", "second order"} & {row.rule for row in report.rows}


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


def test_of_triplets_that_have_collapsed_no_second_derivative_is_called_wrong():
    same = np.equal.outer([0, 0, 1, 1], [0, 0, 1, 1])

    def loss(x):
        distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
        farthest = tf.reduce_max(tf.where(same, distances, -1e9), 1)
        nearest = tf.reduce_min(tf.where(same, 1e9, distances), 1)
        return tf.reduce_mean(tf.nn.relu(farthest - nearest + 0.2))

    assert not second_order(loss, np.ones((4, 2)))


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


class Stale:
    """A layer whose rule keeps a tensor made from its variable when the layer was built."""

    def __init__(self):
        self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="w")
        self.old = tf.convert_to_tensor(self.w)

    def __call__(self, x):
        @tf.custom_gradient
        def product(x, w):
            return x @ w, lambda dy: (dy @ tf.transpose(self.old), tf.transpose(x) @ dy)

        return product(x, tf.convert_to_tensor(self.w))


def first_kept():
    """A function whose rule keeps the first x that it sees."""
    seen = []

    def square(x):
        seen.append(x)
        return x * x, lambda dy: dy * 2.0 * seen[0]

    return tf.custom_gradient(square)


@pytest.mark.parametrize(
    ("f", "x"), [(Stale(), [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]), (first_kept(), [1.0, 2.0])]
)
def test_a_rule_that_uses_numbers_of_another_run_is_wrong(f, x):
    (found,) = cgviz.check(f, x, order=2).findings
    assert found.rule == "value"
    assert "it is the same, and the true one is another" in found.message


@pytest.mark.parametrize("claim", [0.0, 1.0, -5.0, -87.0])
def test_where_the_slope_is_infinite_no_number_is_called_true(claim):
    @tf.custom_gradient
    def entropy(x):
        safe = tf.where(x > 0, x, 1.0)
        slope = tf.where(x > 0, tf.math.log(safe) + 1.0, claim)
        return x * tf.math.log(safe), lambda dy: dy * slope

    report = cgviz.check(entropy, [0.0, 1.0])
    (row,) = [row for row in report.rows if row.rule == "value"]
    assert (row.state, "1 more are too uncertain to judge" in row.reason) == ("pass", True)


def test_a_curve_that_bends_closer_than_the_shortest_step_is_not_judged():
    assert cgviz.check(lambda x: tf.math.xlogy(x, x), [0.0, 1.0]).ok
    entropy = lambda p: -tf.reduce_sum(p * tf.math.log(p + 1e-9))  # noqa: E731
    assert cgviz.check(entropy, [0.0, 0.4], order=2).ok


@pytest.mark.parametrize("small", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize(("factor", "ok"), [(2.0, True), (2.4, False)])
def test_a_rule_that_computes_in_16_bits_is_judged_by_their_digits(small, factor, ok):
    def rule(dy, x):
        return tf.cast(tf.cast(dy, small) * tf.cast(factor * x, small), tf.float32)

    square = tf.custom_gradient(lambda x: (x * x, lambda dy: rule(dy, x)))
    report = cgviz.check(square, [0.1, 0.23], order=2)
    assert report.ok == ok
    assert not ok or "finite differences in" in str(report)


@pytest.mark.parametrize("scale", [lambda: 1.0, lambda: tf.stop_gradient(3.0)])
def test_a_surrogate_that_vectorized_map_drops_is_said_not_to_have_run(scale):
    through = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy))
    report = cgviz.check(
        lambda x: tf.vectorized_map(through, x) * tf.cast(scale(), x.dtype),
        [[0.3], [1.2]],
        surrogate=True,
    )
    (row,) = [row for row in report.rows if row.rule == "surrogate"]
    assert row.reason == "no custom rule ran: agrees with the true derivative here"


@pytest.mark.parametrize(
    ("f", "at", "said"),
    [
        (tf.custom_gradient(lambda x: (tf.sign(x), lambda dy: dy)), [0.0, 0.0], "no derivative to"),
        (lambda x: x + tf.stop_gradient(tf.round(x) - x), [0.5, 1.5], "no derivative to compare"),
        (lambda x: x + tf.stop_gradient(tf.sin(x) - x), 0.0, "agrees with the true derivative"),
    ],
)
def test_a_surrogate_is_said_to_agree_only_where_f_has_a_derivative(f, at, said):
    rows = {row.rule: row.reason for row in cgviz.check(f, at, surrogate=True).rows}
    assert rows["surrogate"].startswith(said)


def test_a_matrix_of_zeros_is_not_taken_for_a_symmetric_one():
    assert "symmetric" not in hint(lambda dy, x: dy * 3.0 + x, np.zeros((2, 2)), forward=tf.sin)


@pytest.mark.parametrize(("factor", "words"), [(1 / 8, "A mean where"), (-1.0, "A wrong sign?")])
def test_a_usual_factor_has_a_usual_cause(factor, words):
    f = tf.custom_gradient(lambda x: (tf.reduce_sum(x * x), lambda dy: dy * factor * 2.0 * x))
    assert f"everywhere. {words}" in cgviz.check(f, np.arange(1.0, 9.0)).findings[0].hint


@pytest.mark.parametrize("x", [1.003, 1.0000001, 1.007])
def test_a_wrong_rule_is_found_beside_a_kink(x):
    @tf.custom_gradient
    def distance(x):
        return tf.abs(x - 1.0), lambda dy: -dy * tf.sign(x - 1.0)

    assert [each.rule for each in cgviz.check(distance, tf.constant(x, tf.float64)).findings] == [
        "value"
    ]


def test_sixteen_bits_of_the_arguments_hide_no_error_that_float64_shows():
    @tf.custom_gradient
    def square(x):
        return x * x, lambda dy: tf.constant(2.08, x.dtype) * dy * x

    assert not cgviz.check(square, tf.constant([0.5, 2.0], tf.float16)).ok


def test_a_surrogate_that_ignores_upstream_for_one_entry_is_an_error():
    @tf.custom_gradient
    def half_deaf(x):
        return tf.identity(x), lambda dy: tf.concat([dy[:1], tf.ones_like(x[1:])], 0)

    (found,) = cgviz.check(half_deaf, [1.0, 2.0], surrogate=True).findings
    assert "is the same for any upstream" in found.message


def test_small_noise_is_not_taken_for_rounding():
    noise = np.random.default_rng(0)

    def noisy(x):
        return x * x + 1e-5 * tf.constant(noise.normal(size=2), x.dtype)

    assert cgviz.check(noisy, [1.0, 2.0]).headline == "check of noisy: ✗ not judged (1 error)"


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


def root_of_the_rest(rule):
    """√(2 − x), which raises where x is not below 2, with a rule."""

    @tf.custom_gradient
    def f(x):
        tf.debugging.assert_less(x, 2.0)
        y = tf.sqrt(2.0 - x)
        return y, lambda upstream: rule(upstream, y)

    return f


def test_where_f_raises_beside_the_point_it_is_judged_at_the_other_inputs():
    right = root_of_the_rest(lambda upstream, y: -0.5 * upstream / y)
    wrong = root_of_the_rest(lambda upstream, y: 0.5 * upstream / y)
    assert cgviz.check(right, 1.99).ok
    assert cgviz.check(right, [0.5, 1.99]).ok
    report = cgviz.check(wrong, 1.99)
    assert report.findings[0].message.startswith("d out / d in: yours 5, true −5")


def test_an_f_that_raises_at_every_other_input_is_not_judged():
    def only_at_2(x):
        tf.debugging.assert_equal(x, 2.0)
        return x * x

    report = cgviz.check(only_at_2, 2.0, order=2)
    assert report.headline == "check of only_at_2: – not judged here (1 warning)"
    assert "f raised InvalidArgumentError: Condition x == y did not hold" in str(report.findings[0])


def test_a_rule_that_raises_beside_the_point_has_no_second_derivative():
    @tf.custom_gradient
    def cube(x):
        def grad(upstream):
            tf.debugging.assert_equal(x, 2.0)
            return upstream * 3.0 * tf.stop_gradient(x) ** 2

        return x**3, grad

    ((level, message),) = second_order(cube, 2.0, order=2)
    assert level == "error"
    assert message.startswith("the second derivative raised InvalidArgumentError")


def test_a_gradient_that_is_right_at_this_point_only_is_so_called():
    swapped = tf.custom_gradient(lambda a, b: (a * b, lambda dy: (dy * a, dy * b)))
    report = cgviz.check(swapped, np.ones(3), np.ones(3))
    assert report.headline == "check of f: ✓ right at this point only (2 warnings)"


def test_at_a_tie_entries_that_fit_alone_and_not_together_are_wrong():
    def first(x):
        m = tf.reduce_max(x)
        return m, lambda dy: dy * tf.cast(x == m, x.dtype)

    found, *_ = cgviz.check(tf.custom_gradient(first), [1.0, 1.0, 0.0]).findings
    assert "not all of them together: yours 2, true 1." in found.message


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
