"""Each rule that single runs judge, on the smallest case that breaks it."""

import re

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz.checking.rules import explain, first_line, nonlinearity
from cgviz.graph.dtypes import FLOAT64


def test_growth_of_the_registry_is_a_warning():
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * x * dy))
    report = cgviz.check(lambda x: tf.function(lambda x: square(x))(x), 3.0, where=())
    assert report.ok
    assert "registry" in [f.rule for f in report.findings]
    mapped = lambda x: tf.vectorized_map(square, x)  # noqa: E731
    assert not cgviz.check(tf.function(mapped), [3.0]).findings


def test_that_a_vectorized_map_drops_custom_rules_is_told():
    negated = tf.custom_gradient(lambda x: (tf.identity(x), lambda dy: -dy))
    x = tf.constant([3.0, 4.0])
    for mapping, gradient in ((tf.vectorized_map, 1.0), (tf.map_fn, -1.0)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = mapping(negated, x)
        assert list(tf.convert_to_tensor(tape.gradient(y, x))) == [gradient, gradient]
    (found,) = cgviz.check(lambda x: tf.vectorized_map(negated, x), x, where=()).findings
    assert "tf.vectorized_map" in found.hint
    assert "drops every custom rule in it" in found.hint


def test_a_shape_that_was_broadcast_is_named():
    shift = tf.custom_gradient(lambda x, b: (x + b, lambda dy: (dy, dy)))
    report = cgviz.check(lambda x, b: shift(x, b), np.ones((2, 3), np.float32), [1.0, 2.0, 3.0])
    found = next(each for each in report.findings if each.rule == "shape")
    assert found.message.startswith(
        "`b` has the shape [3], but its gradient has [2×3], by the rule"
    )
    assert found.hint.startswith("Are the gradients in the order of the inputs? What was")
    assert "summed backward" in found.hint
    value = next(row for row in report.rows if row.rule == "value")
    assert value.state == "pass"  # `x` is judged
    assert value.reason.endswith("; 18 more are not judged: see shape")


def test_a_wrong_shape_for_an_input_that_nobody_differentiates_is_a_warning():
    @tf.custom_gradient
    def loss(p, labels):
        def grad(dy):
            return 2.0 * dy[:, None] * labels * p, tf.constant(0.0, p.dtype)

        return tf.reduce_sum(labels * p * p, -1), grad

    ones = np.ones((2, 2), np.float32)
    (found,) = cgviz.check(lambda p: loss(p, tf.ones_like(ones, p.dtype)), ones).findings
    assert (found.rule, found.level) == ("shape", "warning")
    assert "return None for it" in found.hint
    for f, args in (
        (lambda p, t: loss(p, t), (ones, ones)),
        (lambda p: loss(p, 2.0 * p), (ones,)),
        (lambda t: loss(tf.ones_like(t), t), (ones,)),
        (lambda p: loss(p, tf.Variable(ones)), (ones,)),
        (lambda p: loss(tf.ones_like(p), tf.exp(p)), (ones,)),
    ):
        assert not cgviz.check(f, *args, where=()).ok


def test_what_raised_is_f_or_its_backward_pass():
    def refuse(dy):
        raise ValueError("no")

    backward = tf.custom_gradient(lambda x: (2.0 * x, refuse))
    for f, who in ((lambda x: refuse(x), "f raised"), (backward, "the backward pass of f raised")):
        message = cgviz.check(f, 1.0).findings[0].message
        assert re.fullmatch(rf"{who} ValueError: no \(line \d+: `raise ValueError.*`\)\.", message)


def test_a_rule_that_returns_too_few_gradients_is_named_with_its_line():
    def grad(dy):
        return dy

    product = tf.custom_gradient(lambda x, a: (x * a, grad))
    (found,) = cgviz.check(lambda x: tf.sin(product(tf.cos(x), 0.3)), 1.0).findings
    line = grad.__code__.co_firstlineno
    assert found.rule == "arity"
    assert found.message.endswith(f"returned 1 instead, by the rule of `<lambda>` (line {line}).")


@pytest.mark.parametrize(
    ("f", "numbers"),
    [
        (lambda x: tf.RaggedTensor.from_row_lengths(x, [1, 1]), "`.flat_values`"),
        (lambda x: tf.sparse.from_dense(tf.reshape(x, [1, 2])), "`.values`"),
    ],
)
def test_of_an_f_that_returns_no_dense_tensor_only_the_tensor_to_return_is_told(f, numbers):
    (found,) = cgviz.check(f, [1.0, 2.0]).findings
    assert found.message.startswith(f"Return its {numbers}: `f` must return a tensor")
    assert not re.search("raised|NumPy", found.message)
    assert cgviz.check(lambda x: getattr(f(x), numbers[2:-1]), [1.0, 2.0]).ok


@pytest.mark.parametrize("factor", [1.0, 2.0, -1.0, 0.0, 1.1, "ignored", "raises"])
def test_a_rule_that_works_only_in_a_graph_is_judged_there(factor):
    @tf.function
    @tf.custom_gradient
    def f(x):
        y = tf.sin(x)

        def grad(dy):
            if factor == "raises":
                raise ValueError("no")
            if factor == "ignored":
                return tf.gradients(y, x)[0]
            return factor * tf.gradients(y, x, dy)[0]

        return y, grad

    report = cgviz.check(f, [0.3, 1.0])
    assert report.ok == (factor == 1.0)
    told = {"ignored": "upstream", "raises": "runs"}.get(factor, "value")
    assert [each.rule for each in report.findings] == [told] * (factor != 1.0)


def test_a_gradient_of_a_wrong_shape_does_not_hide_a_wrong_one_for_another_input():
    shift = tf.custom_gradient(lambda x, b: (x + b, lambda dy: (2.0 * dy, dy)))
    for rows in (2, 100):  # single derivatives, and sums of them
        found = cgviz.check(
            lambda x, b: shift(x, b), np.ones((rows, 3), np.float32), [1.0, 2.0, 3.0]
        )
        messages = [f.message for f in found.findings if f.rule == "value"]
        assert "yours 2, true 1" in " ".join(messages)


@pytest.mark.parametrize("times", [lambda x: x - 1.0, lambda x: 1.0])
def test_a_function_of_tensorflow_that_stops_a_gradient_is_not_called_a_wrong_rule(times):
    x = tf.constant([1.0, 3.0, 7.0, 2.0], tf.float64)
    report = cgviz.check(lambda x: times(x) * tf.nn.moments(x, [0])[1], x, order=2)
    (found,) = report.findings
    assert (found.rule, "tf.nn.moments" in found.hint) == ("second order", True)


def test_a_moving_average_is_told_to_be_right_if_it_is_meant():
    mean = tf.Variable(0.0, trainable=False, name="mean")

    def f(x):
        mean.assign(0.9 * mean + 0.1 * tf.stop_gradient(x))
        return x * x

    found = next(e for e in cgviz.check(f, 3.0).findings if e.rule == "mutation")
    assert "`mean`" in found.message
    assert "moving averages" in found.hint


def test_random_numbers_that_no_seed_fixes_are_told_to_be_kept_out_of_f():
    random = np.random.default_rng(0)
    found = cgviz.check(lambda x: x * random.uniform(), 3.0).findings
    hint = next(each.hint for each in found if each.rule == "mutation")
    assert "keep such changes out of f" in hint.lower()
    assert "all is well" not in hint


def test_an_input_without_a_name_is_told_by_its_position():
    shift = tf.custom_gradient(lambda x, b: (x + b, lambda dy: (dy, dy)))
    given = tf.Variable([1.0, 2.0, 3.0], name="bias")
    for f, name in (
        (lambda x: shift(x, given), "`bias`"),
        (lambda x: shift(x, tf.ones(3) * 2.0), "input 1 (counted from 0)"),
    ):
        found = next(e for e in cgviz.check(f, tf.ones((2, 3))).findings if e.rule == "shape")
        assert found.message.startswith(f"{name} has the shape [3]")


def test_a_value_that_is_infinite_by_nature_is_a_warning():
    report = cgviz.check(lambda x: 1.0 / x, 0.0)
    assert ("finite forward", "warning") in [(f.rule, f.level) for f in report.findings]


@pytest.mark.parametrize("x", [100.0, 1000.0])
def test_a_value_that_overflows_only_as_it_is_computed_is_not_called_infinite_itself(x):
    one = tf.constant(1.0)  # keeps f in float32
    report = cgviz.check(lambda x: tf.math.log(one + tf.exp(x)), x)
    (found,) = (f for f in report.findings if f.rule == "finite forward")
    assert "overflows as f computes it" in found.hint
    assert "tf.nn.softplus" in found.hint


def test_a_wrong_shape_for_a_variable_is_said_by_its_name():
    w, b = tf.Variable([1.0, 2.0], name="w"), tf.Variable([3.0, 4.0], name="b")

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            return tf.reduce_sum(dy * w), [tf.stack([dy, dy]) for _ in variables]

        return w * x + b, grad

    found = next(each for each in cgviz.check(f, 3.0).findings if each.rule == "shape")
    assert found.message.startswith("`b` has the shape [2]")
    assert "by the rule of `f`" in found.message


# --- upstream and variables -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda u: 0 * u + 3.0, "ignored"),
        (lambda u: np.concatenate([u, 0 * u + 3.0]), "is the same for any upstream"),
        (lambda u: u + 1.0, "upstream 0 gives"),
        (lambda u: abs(u), "−1 times the upstream"),
        (lambda u: np.clip(u, -1, 1), "4096 times the upstream"),
        (lambda u: u * abs(u), "4096 times the upstream"),
        (lambda u: u * np.max(np.abs(u)) / (np.sum(np.abs(u)) or 1), "sum of two upstreams"),
    ],
)
def test_a_rule_that_is_not_linear_is_told_how(rule, words):
    _, said = nonlinearity(rule, 3, FLOAT64)
    assert words in said


def test_an_ignored_upstream_is_seen_beside_a_large_gradient_for_another_input():
    @tf.custom_gradient
    def affine(x, w, b):
        return w * x + b, lambda dy: (dy * w, dy * x, tf.ones_like(b))

    (found,) = cgviz.check(affine, 150000.0, -0.05, 20000.0).findings
    assert (found.rule, "upstream is ignored" in found.message) == ("upstream", True)


def test_a_linear_rule_is_linear():
    matrix = np.random.default_rng(0).normal(size=(3, 4))
    assert nonlinearity(lambda u: u @ matrix, 3, FLOAT64) == ("", "")
    assert nonlinearity(lambda u: np.zeros(0), 3, FLOAT64) == ("", "")


def test_clipping_is_an_error_unless_it_is_a_surrogate():
    clip = tf.custom_gradient(lambda x: (x + 0.0, lambda dy: tf.clip_by_norm(dy, 0.5)))
    assert cgviz.check(clip, [1.0, 2.0]).findings[0].rule == "upstream"
    assert cgviz.check(clip, [1.0, 2.0], surrogate=True).ok


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
def test_a_rule_that_clips_only_large_upstreams_is_not_linear(dtype):
    clip = tf.custom_gradient(lambda x: (2.0 * x, lambda dy: tf.clip_by_value(2.0 * dy, -1e3, 1e3)))
    (found,) = cgviz.check(clip, tf.constant([1.0, 2.0], dtype)).findings
    assert (found.rule, "4096 times the upstream" in found.message) == ("upstream", True)


def test_of_a_rule_that_is_not_linear_the_gradient_of_the_sum_is_compared():
    f = tf.custom_gradient(lambda x: (3.0 * x, lambda dy: tf.ones_like(x)))
    messages = [each.message for each in cgviz.check(f, [1.0, 2.0]).findings]
    assert any(m.startswith("d sum(out) / d in[0]: yours 1, true 3") for m in messages)


def test_a_rule_that_draws_its_random_numbers_anew_is_told_so():
    def mask(x):
        return tf.cast(tf.random.uniform(tf.shape(x)) > 0.5, x.dtype)

    drop = tf.custom_gradient(lambda x: (x * mask(x), lambda dy: dy * mask(x)))
    found = cgviz.check(drop, np.linspace(1, 2, 12), where=()).findings[0]
    assert (found.rule, "random numbers are drawn anew" in found.message) == ("upstream", True)
    assert "Draw random numbers once" in found.hint


@pytest.mark.parametrize(
    "more", [lambda dy: 0.5, lambda dy: tf.random.normal(tf.shape(dy), stddev=0.1)]
)
def test_where_a_surrogate_adds_to_the_upstream_it_is_not_called_ignored(more):
    add = tf.custom_gradient(lambda x: (tf.identity(x), lambda dy: dy + more(dy)))
    assert cgviz.check(add, [1.0, 2.0, 3.0], surrogate=True).ok
    found = cgviz.check(add, [1.0, 2.0, 3.0]).findings[0]
    assert (found.rule, "ignored" in found.message) == ("upstream", False)


def test_an_upstream_ignored_for_one_input_is_an_error_beside_a_sum_with_the_other():
    f = tf.custom_gradient(lambda a, b: (a * b, lambda dy: (dy * b + 0.5, tf.ones_like(b))))
    found = cgviz.check(f, 2.0, 3.0, surrogate=True).findings[0]
    assert (found.rule, "ignored" in found.message) == ("upstream", True)


def with_a_tape_of_its_own(rule):
    """x² whose rule asks the tape of its body, which it can do once; it is judged all the same."""

    @tf.custom_gradient
    def square(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return y, lambda dy: rule(dy, tape.gradient(y, x))

    return square


@pytest.mark.parametrize("x", [3.0, [3.0, -1.0]], ids=["number", "vector"])
@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        (lambda dy, local: dy * local, "downstream is linear in upstream"),
        (lambda dy, local: local, "ignored"),
        (lambda dy, local: tf.clip_by_value(dy, -2.0, 2.0) * local, "not linear"),
    ],
)
def test_a_rule_that_can_run_only_once_is_judged_by_runs_of_all_of_f(x, rule, outcome):
    square = with_a_tape_of_its_own(rule)
    for f in (square, lambda x: 5.0 * square(tf.sin(x))):
        report = cgviz.check(f, x)
        (row,) = (row for row in report.rows if row.rule == "upstream")
        assert row.reason == outcome
        assert report.ok is (row.state == "pass")


def test_beside_another_rule_that_is_wrong_it_is_not_blamed():
    square = with_a_tape_of_its_own(lambda dy, local: dy * local)
    ignoring = tf.custom_gradient(lambda x: (3.0 * x, lambda dy: tf.constant(3.0)))
    report = cgviz.check(lambda x: square(ignoring(x)), 2.0)
    assert "the rule of `<lambda>`" in report.findings[0].message


def test_of_a_rule_that_cannot_be_run_again_the_use_of_upstream_is_not_judged():
    @tf.custom_gradient
    def square(x):
        def grad(dy):
            if dy.numpy() != 1.0:
                raise ValueError("for a loss only")
            return dy * 2.0 * x

        return x * x, grad

    rows = {row.rule: row for row in cgviz.check(square, 3.0, where="eager").rows}
    assert rows["upstream"].state == "skip"
    assert rows["value"].state == "pass"


def test_an_ignored_upstream_is_an_error_even_of_a_surrogate():
    f = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: tf.ones_like(x)))
    assert not cgviz.check(f, [1.2, 2.2], surrogate=True).ok


def test_after_a_rule_that_clips_as_a_surrogate_may_the_next_rule_is_judged_too():
    clip = tf.custom_gradient(lambda x: (x + 0.0, lambda dy: tf.clip_by_value(dy, -1.0, 1.0)))
    step = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: tf.ones_like(x)))
    for f in (lambda x: clip(step(x)), lambda x: step(clip(x))):
        (found,) = cgviz.check(f, [0.3, 1.7], surrogate=True).findings
        assert "upstream is ignored" in found.message


def test_the_use_of_upstream_is_judged_in_a_registered_gradient_as_well():
    @tf.RegisterGradient("CgvizTestNoUpstream")
    def _(op, dy):
        return 2.0 * op.inputs[0]

    @tf.function
    def square(x):
        with tf.compat.v1.get_default_graph().gradient_override_map(
            {"Square": "CgvizTestNoUpstream"}
        ):
            return tf.square(x)

    for x in (3.0, [3.0, 1.0]):
        for surrogate in (False, True):
            found = cgviz.check(square, x, surrogate=surrogate).findings[0]
            assert found.message.startswith("f as a whole: upstream is ignored")


def test_a_rule_that_runs_once_is_judged_beside_many_calls_of_another():
    right = tf.custom_gradient(lambda x: (2.0 * x, lambda dy: 2.0 * dy))
    ignoring = tf.custom_gradient(lambda x: (3.0 * x, lambda dy: tf.constant(3.0, dy.dtype)))

    def f(x):
        for _ in range(59):
            x = right(x)
        return right(ignoring(x))

    found = cgviz.check(f, 2.0, where=()).findings[0]
    assert found.message.startswith("the rule of `<lambda>`")
    assert "upstream is ignored" in found.message


def test_every_call_of_a_rule_is_judged_and_a_rule_that_is_wrong_is_told_once():
    def power(n, last):
        return tf.custom_gradient(lambda x: (x**n, lambda dy: last(dy) * n * x ** (n - 1.0)))

    def f(x, last):
        return tf.add_n([power(2.0, lambda dy: dy)(x), *(power(n, last)(x) for n in (3.0, 4.0))])

    (found,) = cgviz.check(lambda x: f(x, tf.ones_like), 1.5).findings
    assert "upstream is ignored" in found.message
    wide = cgviz.check(lambda x: f(x, lambda dy: tf.stack([dy, dy])), [[1.5]], where=()).findings
    assert [each.rule for each in wide] == ["shape"]


def test_variables_are_shuffled():
    w, b, c = (tf.Variable(float(i), name=n) for i, n in enumerate("wbc", 1))

    def make(by_position):
        @tf.custom_gradient
        def f(x):
            def grad(dy, variables=None):
                known = {w.ref(): dy * x, b.ref(): dy, c.ref(): 2.0 * dy}
                listed = [known[v.ref()] for v in variables]
                return dy * w, list(known.values()) if by_position else listed

            return w * x + b + 2.0 * c, grad

        return f

    assert cgviz.check(make(False), 3.0).ok
    for _ in range(4):  # TensorFlow lists them in the order of a set
        report = cgviz.check(make(True), 3.0, order=2)
        (found,) = report.findings
        assert found.rule == "variables"
        assert "called with [b, c, w] and then with [w, c, b], it" in found.message
        skipped = [row.rule for row in report.rows if row.state == "skip"]
        assert skipped == ["second order", "graph"]


def test_whether_the_order_of_variables_matters_is_not_known_of_a_rule_that_can_run_only_once():
    w, b = tf.Variable(2.0, name="w"), tf.Variable(3.0, name="b")

    @tf.custom_gradient
    def f(x):
        with tf.GradientTape() as tape:
            y = w * x + b

        def grad(dy, variables=None):
            known = dict(zip([w.ref(), b.ref()], tape.gradient(y, [w, b], dy), strict=True))
            return dy * w, [known[v.ref()] for v in variables]

        return tf.identity(y), grad

    (row,) = (row for row in cgviz.check(f, 3.0, where=()).rows if row.rule == "variables")
    assert (row.state, row.reason) == ("skip", "not judged: the rule cannot be run again")


# --- what f raises ----------------------------------------------------------------------------


def error_of(f, *args):
    x = [tf.constant(a) for a in args]
    try:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(*x)
        tape.gradient(y, x)
    except Exception as error:
        return error
    pytest.fail("it raises nothing")


w = tf.Variable(2.0, name="w")
ERRORS = {
    "variables": tf.custom_gradient(lambda x: (w * x, lambda dy: dy * w)),
    "arity": tf.custom_gradient(lambda x: (x * x, lambda dy: (dy, dy))),
    "keywords": tf.function(lambda x: tf.custom_gradient(lambda x: (x, lambda dy: dy))(x=x)),
    "upstream": lambda x: tf.gather(tf.custom_gradient(lambda x: (x, lambda u: u * 2.0))(x), [0]),
    "dtype": lambda x: tf.sin(
        tf.custom_gradient(lambda x: (x * x, lambda dy: tf.cast(dy, tf.float64)))(tf.sin(x))
    ),
    "numpy": tf.function(lambda x: x * x.numpy(), autograph=False),
    "shape": lambda x: tf.custom_gradient(lambda x: (x * x, lambda dy: dy * tf.ones(7)))(x),
    "runs": lambda x: tf.reshape(x, [7]),
}


@pytest.mark.parametrize("rule", ERRORS)
def test_an_error_is_about_a_rule(rule):
    found, hint = explain(error_of(ERRORS[rule], [1.0, 2.0, 3.0]))
    assert found == rule
    assert bool(hint) == (rule != "runs")


def test_shapes_that_do_not_fit_in_the_forward_part_are_no_rules_fault():
    assert explain(ValueError("Incompatible shapes: [3] vs. [4]"))[0] == "runs"


def test_a_long_message_becomes_one_line():
    assert first_line(KeyError()) == "KeyError"
    assert first_line(ValueError("first\nsecond")) == "ValueError: first"
    keras = "Exception encountered when calling L.call().\n\n\x1b[1mthis\x1b[0m\n\nArguments: x"
    assert first_line(TypeError(keras)) == "TypeError: this"
    assert first_line(ValueError("in user code:\n\n  TypeError: this\n")) == "TypeError: this"
    assert len(first_line(ValueError("x" * 1000))) < 330


# --- what is returned ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (2.0, "of the type float"),
        (np.ones(2, np.float32), "a NumPy array"),
        (np.float32(2.0), "a NumPy number"),
    ],
)
def test_a_gradient_that_is_no_tensor_is_a_finding(returned, words):
    f = tf.custom_gradient(lambda x: (x * x, lambda dy: returned))
    found = next(each for each in cgviz.check(f, [1.0, 2.0]).findings if each.rule == "dtype")
    wanted = f"`x` is float32, but its gradient is {words}, by the rule of `<lambda>`"
    assert found.message.startswith(wanted)
    assert found.hint == "Return a tensor made of upstream: dy * 2.0, not 2.0."


def test_a_number_for_a_vector_has_the_wrong_shape_too():
    f = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0))
    found = next(each for each in cgviz.check(f, [1.0, 2.0]).findings if each.rule == "shape")
    assert found.message.startswith("`x` has the shape [2], but its gradient has []")
    assert found.hint == "Return a tensor made of upstream: dy * 2.0, not 2.0."


def test_slices_whose_shape_is_no_tensor_are_judged_and_named_where_a_graph_raises():
    @tf.custom_gradient
    def rows(t):
        taken = tf.constant([1, 3])
        return tf.gather(t, taken), lambda dy: tf.IndexedSlices(dy, taken, t.shape)

    table = [[1.0], [2.0], [3.0], [4.0]]
    assert cgviz.check(rows, table, where=()).findings == ()
    (graph,) = cgviz.check(rows, table).findings  # a graph raises when the rule has returned
    assert "has no attribute 'dtype', by the rule of `rows` (line" in graph.message


def test_an_upstream_is_called_ignored_only_where_no_number_depends_on_it():
    leaky = tf.custom_gradient(
        lambda x: (tf.nn.relu(x), lambda dy: dy * tf.cast(x > 0, x.dtype) + 0.01 * x)
    )
    message = cgviz.check(leaky, [-1.0, 2.0, 3.0]).findings[0].message
    assert "a part of the downstream for `x` is the same" in message
    product = tf.custom_gradient(lambda x, y: (x * y, lambda dy: (dy * y, x)))
    message = cgviz.check(product, [1.0, 2.0], [3.0, 5.0]).findings[0].message
    assert "upstream is ignored for `y`: any upstream" in message


def test_a_warning_of_one_call_hides_no_error_of_another_call_of_the_same_rule():
    """In the first call nothing stands behind the input whose gradient has a wrong shape."""

    @tf.custom_gradient
    def scale(x, s):
        return tf.reduce_sum(x * s), lambda upstream: (upstream * s, (upstream * x)[:, None])

    def first(x, s):
        return scale(x, tf.ones([2])) + scale(x, s)

    def last(x, s):
        return scale(x, s) + scale(x, tf.ones([2]))

    for f in (first, last):
        assert not cgviz.check(f, [1.0, 2.0], [3.0, 4.0]).ok


@pytest.mark.parametrize(
    "rule",
    [
        lambda dy, x: dy * dy / dy * tf.cos(x),
        lambda dy, x: tf.norm(dy) * (dy / tf.norm(dy)) * tf.cos(x),
    ],
)
def test_a_rule_that_gives_nan_where_upstream_is_0_is_wrong(rule):
    f = tf.custom_gradient(lambda x: (tf.sin(x), lambda dy: rule(dy, x)))
    (found,) = cgviz.check(f, [0.1, 0.2, 0.3]).findings
    assert (found.rule, found.level) == ("upstream", "error")
    assert "upstream 0 gives NaN" in found.message


def test_a_surrogate_may_not_give_nan_where_upstream_is_0():
    f = tf.custom_gradient(lambda x: (tf.sin(x), lambda dy: dy / tf.norm(dy)))
    assert not cgviz.check(f, [0.1, 0.2], surrogate=True).ok
    safe = tf.custom_gradient(lambda x: (tf.sin(x), lambda dy: dy / (tf.norm(dy) + 1e-9)))
    assert cgviz.check(safe, [0.1, 0.2], surrogate=True).ok


def test_of_a_float_gradient_for_a_complex_input_only_the_dtype_is_told():
    real = tf.custom_gradient(lambda z: (tf.math.real(z), lambda dy: dy))
    report = cgviz.check(real, tf.constant([1 + 2j, 3 - 1j], tf.complex64))
    assert [found.rule for found in report.findings] == ["dtype"]
