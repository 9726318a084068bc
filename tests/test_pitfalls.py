"""Every published mistake is caught by `check`, named by `diagnose`, hinted at, or taught.

One row for each, with its number in the order of how often it was met, and a proof for each way it
is covered: a function that raises when the claim is not true.
"""

from pathlib import Path

import mistakes
import numpy as np
import pytest
import tensorflow as tf
import troubles

import cgviz
from cgviz.hinting import hints


def caught(f, *args, by, level="error", **how):
    """A proof: `check` finds this rule broken, at this level."""

    def proof():
        report = cgviz.check(f, *args, **how)
        found = [(each.rule, each.level) for each in report.findings]
        assert (by, level) in found, f"{found}\n{report}"

    return proof


def diagnosed(f, *args, what, says, **how):
    """A proof: `diagnose` has a finding of this kind that says so."""

    def proof():
        findings = cgviz.trace(f, *args, **how).diagnose()
        assert any(each.what == what and says in each.message for each in findings), findings

    return proof


def diagnosed_in(body, says):
    """A proof: `diagnose` explains None in a recording of code with its own tape."""

    def proof():
        findings = troubles.recorded(body).diagnose()
        assert any(each.what == "none" and says in each.message for each in findings), findings

    return proof


def hinted(*names):
    """A proof: each of these errors of mistakes is raised for real, and gets its hint."""

    def proof():
        for name in names:
            call, words = mistakes.REAL[name]
            hint = hints.explain(mistakes.raised(call))
            assert hint is not None, name
            assert words in str(hint)

    return proof


def taught(lesson, word):
    """A proof: the lesson speaks of it, for there is nothing that could be caught."""

    def proof():
        notebook = Path(__file__).resolve().parents[1] / "notebooks" / f"{lesson}.ipynb"
        assert word in notebook.read_text(encoding="utf-8")

    return proof


def hinted_in_mixed_precision():
    assert "mixed_float16" in mistakes.raised(mistakes.mixed_precision).__notes__[0]


def hinted_after_loading():
    """The message alone; test_known_errors raises it in a process of its own."""
    words = "No gradient defined for operation'IdentityN' (op type: IdentityN). In general every"
    assert "SavedModel" in hints.explain(LookupError(words)).what


def all_ways_of_not_being_watched():
    for body, says in (
        (troubles.not_watched, "no tape watched it"),
        (troubles.outside, "outside the `with tf.GradientTape()` block"),
        (troubles.not_trainable, "only variables that are trainable"),
        (troubles.reassigned, "a plain tensor, made by Sub"),
    ):
        diagnosed_in(body, says)()


def all_ops_without_a_useful_derivative():
    for name in ("round", "argmax", "cast", "comparison"):
        f, _, says = troubles.CUT[name]
        diagnosed(f, 2.6, what="none", says=says)()


# --- the mistakes ----------------------------------------------------------------------------


def custom(forward, rule):
    """A custom gradient from a forward function and a rule that also sees its inputs."""

    @tf.custom_gradient
    def f(*x):
        return forward(*x), lambda *dy: rule(*dy, *x)

    return lambda *x: f(*x)


w = tf.Variable(2.0, name="w")
b = tf.Variable(3.0, name="b")


@tf.custom_gradient
def reads_a_variable(x):
    return w * x, lambda dy: dy * w


@tf.custom_gradient
def matches_by_position(x):
    def grad(dy, variables=None):
        return dy * w, [tf.reduce_sum(dy * x), tf.reduce_sum(dy)]

    return w * x + b, grad


def called_by_keyword(x):
    straight = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy))
    return straight(x=x)


@tf.custom_gradient
def first_derivative_with_a_rule_for_dy(x):
    return 3.0 * x**2, lambda ddy: ddy * 3.0 * x**2


naive_nest = custom(lambda x: x**3, lambda dy, x: dy * first_derivative_with_a_rule_for_dy(x))


@tf.custom_gradient
def numpy_in_the_rule(x):
    slope = np.cos(x.numpy()) if tf.executing_eagerly() else 1.0
    return tf.sin(x), lambda dy: dy * slope


@tf.custom_gradient
def documented_log1pexp(x):
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))


@tf.custom_gradient
def one_upstream_for_two_outputs(x, y):
    return (x * y, x + y), lambda dz: (dz * y, dz * x)


@tf.custom_gradient
def python_in_the_rule(x):
    return tf.convert_to_tensor(np.square(x.numpy())), lambda dy: 2.0 * x * dy


def sparse_upstream(table):
    doubled = custom(lambda t: 2.0 * t, lambda dy, t: dy * 2.0)
    return tf.gather(doubled(table), [0, 1])


def a_new_graph_each_time(x):
    return tf.function(custom(tf.sin, lambda dy, x: dy * tf.cos(x)))(x)


def saved_with_a_python_function(x):
    @tf.custom_gradient
    def sine(x):
        y = tf.numpy_function(np.sin, [x], tf.float32)
        return tf.ensure_shape(y, x.shape), lambda dy: dy * tf.cos(x)

    return sine(x)


def mixed_precision():
    import keras

    class Scale(keras.Layer):
        def build(self, shape):
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

        def call(self, x):
            return custom(lambda x, s: x * s, lambda dy, x, s: (dy * s, tf.reduce_sum(dy * x)))(
                x, self.scale
            )

    layer = Scale(dtype="mixed_float16")
    layer.build((1, 2))
    return layer


def check_mixed_precision():
    report = cgviz.check(mixed_precision(), np.ones((1, 2), np.float16))
    assert "variables" in [each.rule for each in report.findings], report


def check_refuses_what_is_no_tensor():
    for wrong in (None, "text", len):
        with pytest.raises(TypeError, match="Close over it instead"):
            cgviz.check(lambda x, y: x, 1.0, wrong)


def check_refuses_integers():
    with pytest.raises(ValueError, match=r"Write them as floats: `2\.`"):
        cgviz.check(tf.square, 2)


# --- the table -------------------------------------------------------------------------------

silu = tf.custom_gradient(
    lambda x, beta: (
        x * tf.sigmoid(beta * x),
        lambda dy: (dy, dy * x * x * tf.sigmoid(beta * x) * (1 - tf.sigmoid(beta * x))),
    )
)
matrix = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
vector = [1.0, 2.0, 3.0]

TABLE = {
    1: ("a variable is read and not accepted", {
        "check": caught(reads_a_variable, 2.0, by="variables"),
        "hint": hinted("1 eager", "1 graph", "1 no pair"),
    }),
    2: ("one gradient for two inputs", {
        "check": caught(custom(tf.multiply, lambda dy, x, y: dy * y), 2.0, 3.0, by="arity"),
        "hint": hinted("2 eager", "2 graph", "2 fit", "2 too many"),
    }),
    3: ("upstream forgotten", {
        "check": caught(custom(tf.square, lambda dy, x: 2.0 * x), 3.0, by="upstream"),
    }),
    4: ("not watched, outside the tape, not trainable, reassigned", {
        "diagnose": all_ways_of_not_being_watched,
        "hint": hinted("4 fit", "4 optimizer"),
    }),
    5: ("None or 0 through round, argmax, cast, comparisons", {
        "diagnose": all_ops_without_a_useful_derivative,
        "hint": hinted("5 op"),
    }),
    6: ("called by keyword", {
        "check": caught(called_by_keyword, [0.4, 1.7], by="keywords"),
        "diagnose": diagnosed(called_by_keyword, [0.4, 1.7], what="none", says="custom rule"),
        "hint": hinted("6 graph", "6 mixed"),
    }),
    7: ("nested rules, and NumPy in the rule", {
        "check": caught(naive_nest, 3.0, by="second order", order=2),
        "check, NumPy": caught(numpy_in_the_rule, 0.5, by="second order", order=2),
        "diagnose": diagnosed(
            troubles.numpy_rule, 3.7, what="none", says="left TensorFlow", order=2
        ),
        "hint": hinted("7 second order", "7 jacobian"),
    }),
    8: ("NaN from the branch that where did not take", {
        "check": caught(
            lambda x: tf.where(x > 0.0, tf.sin(x) / x, 1.0), [0.0, 1.0], by="finite gradient"
        ),
        "diagnose": diagnosed(
            lambda x: tf.where(x > 0.0, tf.sin(x) / x, 1.0),
            [0.0, 1.0],
            what="nan",
            says="tf.where did not take this branch",
        ),
    }),
    9: ("forward infinite while the gradient is fine", {
        "check": caught(documented_log1pexp, 100.0, by="finite forward"),
        "diagnose": diagnosed(documented_log1pexp, 100.0, what="inf", says="overflows"),
    }),
    10: ("the gradient keeps the broadcast shape", {
        "check": caught(silu, matrix, vector, by="shape"),
        "hint": hinted("10 assign", "10 optimizer", "10 graph"),
    }),
    11: ("not one upstream per output", {
        "check": caught(one_upstream_for_two_outputs, 2.0, 3.0, by="arity"),
        "hint": hinted("11 outputs", "11 upstreams", "11 jacobian"),
    }),
    12: ("SavedModel in another process", {
        "check": caught(
            saved_with_a_python_function, vector, by="saved", where=("eager", "saved")
        ),
        "hint": hinted_after_loading,
    }),
    13: ("KerasTensor in a TensorFlow function", {"hint": hinted("13 function", "13 custom")}),
    14: ("mixed precision reads a cast variable", {
        "check": check_mixed_precision,
        "hint": hinted_in_mixed_precision,
    }),
    15: ("variables matched by position", {
        "check": caught(matches_by_position, [2.0, 3.0], by="variables"),
    }),
    16: ("a tape used twice", {"hint": hinted("16")}),
    17: ("tf.gradients in eager mode", {"hint": hinted("17")}),
    18: ("integers", {
        "check": check_refuses_integers,
        "diagnose": diagnosed_in(troubles.watched_integer, "it holds int32 numbers"),
    }),
    19: ("None, bool or callable arguments", {
        "check": check_refuses_what_is_no_tensor,
        "hint": hinted("19 None", "19 callable", "19 None, graph", "19 bool, graph"),
    }),
    20: ("NumPy in a graph", {
        "check": caught(python_in_the_rule, 3.0, by="graph"),
        "hint": hinted("20", "20 asarray", "20 layer"),
    }),
    21: ("another dtype than the input's", {
        "check": caught(
            custom(tf.square, lambda dy, x: tf.cast(2.0 * x * dy, tf.float64)), 3.0, by="dtype"
        ),
        "hint": hinted("21", "21 sum", "21 graph"),
    }),
    22: ("tf.cond with a variable in the rule", {"hint": hinted("22")}),
    23: ("memory grows with each trace", {
        "check": caught(a_new_graph_each_time, 1.0, by="registry", level="warning"),
    }),
    24: ("recompute_grad", {"taught only": taught("reference_graphs", "recompute_grad")}),
    25: ("upstream is IndexedSlices", {
        "check": caught(sparse_upstream, matrix, by="upstream"),
        "hint": hinted("25"),
    }),
    26: ("None where 0 was expected", {"diagnose": diagnosed(
            lambda x: 3.0 * x, 2.0, what="none", says="As a derivative that means 0", order=2
        )}),
    27: ("stop_gradient for a custom gradient", {"diagnose": diagnosed(
            lambda x: tf.stop_gradient(x) * 2.0, 2.6, what="none", says="lets the value through"
        )}),
    28: ("a tape is still recording", {"hint": hinted("28")}),
    29: ("forward mode ignores the rule", {
        "taught only": taught("reference_graphs", "forward mode differentiates the *body*"),
    }),
    30: ("prints appear once", {
        "taught only": taught("reference_graphs", "`print` runs once, when the graph is traced"),
    }),
}  # fmt: skip

PROOFS = [
    pytest.param(proof, id=f"{number}, {title}: {way}")
    for number, (title, ways) in TABLE.items()
    for way, proof in ways.items()
]


def test_there_is_a_row_for_each_pitfall():
    assert list(TABLE) == list(range(1, 31))
    assert all(ways for _, ways in TABLE.values())


@pytest.mark.parametrize("proof", PROOFS)
@pytest.mark.usefixtures("forks")
def test_a_pitfall_is_covered_as_the_table_says(proof):
    proof()


def test_a_layer_that_hands_on_its_weight_itself_learns_in_fit_and_fails_outside():
    """What the page *Further 04* says of a Keras weight that is passed without `.value`."""
    times = tf.custom_gradient(
        lambda x, w: (x * w, lambda dy: (dy * w, tf.reduce_sum(dy * x, axis=0)))
    )
    layer = mistakes.Scale(times)
    model = mistakes.keras.Sequential([mistakes.keras.Input((3,)), layer])
    model.compile(mistakes.keras.optimizers.SGD(0.5), "mse")
    x = np.ones((4, 3), np.float32)
    model.fit(x, 2.0 * x, verbose=0)
    # The mean of (w - 2)² over three columns has the slope 2 (1 - 2) / 3 in each.
    np.testing.assert_allclose(layer.w, np.full(3, 1.0 + 0.5 * 2.0 / 3.0), rtol=1e-5)
    with pytest.raises(TypeError, match="variables"):
        model(x)


@pytest.mark.parametrize(("read", "sent_back"), [(lambda w: w, 7.0), (tf.identity, 5.0)])
def test_a_rule_reads_a_variable_as_it_is_then_unless_its_function_kept_the_number(read, sent_back):
    """What lesson 04 says of a variable that changes between the passes, and its second task."""
    w = tf.Variable(5.0)

    @tf.custom_gradient
    def scale(x):
        kept = read(w)
        return kept * x, lambda dy, variables: (dy * kept, [tf.reduce_sum(dy * x)])

    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scale(x)
    w.assign(7.0)
    back_to_x, back_to_w = tape.gradient(y, [x, w])
    assert back_to_x.numpy().tolist() == [sent_back] * 3
    assert float(back_to_w) == 6.0
