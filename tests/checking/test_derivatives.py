"""What finite differences show is explained by the rule that causes it."""

import gallery
import numpy as np
import pytest
import tensorflow as tf

import cgviz


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


def test_of_triplets_that_have_collapsed_no_second_derivative_is_called_wrong():
    same = np.equal.outer([0, 0, 1, 1], [0, 0, 1, 1])

    def loss(x):
        distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
        farthest = tf.reduce_max(tf.where(same, distances, -1e9), 1)
        nearest = tf.reduce_min(tf.where(same, 1e9, distances), 1)
        return tf.reduce_mean(tf.nn.relu(farthest - nearest + 0.2))

    assert not second_order(loss, np.ones((4, 2)))


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
