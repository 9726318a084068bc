"""Right and wrong gradients, for `check` to tell apart.

PAIRS     functions with their backward rules, written by hand and right
MUTATIONS ways to spoil a rule by machine, each with the rule of `check` that must notice
WRONG     spoiled pairs, and published mistakes in our own code
RIGHT     the pairs as they are, and much that looks suspicious and is right
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Pair:
    """A function and its rule: vjp(upstreams, inputs, outputs) gives one gradient per input."""

    name: str
    forward: Callable
    vjp: Callable
    args: tuple

    def build(self, spoil=None):
        """The custom gradient, its rule spoiled or not."""
        vjp = self.vjp if spoil is None else lambda dy, x, y: spoil(self.vjp, dy, x, y)

        @tf.custom_gradient
        def f(*x):
            y = self.forward(*x)
            outputs = y if isinstance(y, tuple) else (y,)

            def grad(*dy):
                found = vjp(dy, x, outputs)
                return found[0] if len(found) == 1 else tuple(found)

            return y, grad

        return lambda *x: f(*x)


@dataclass(frozen=True)
class Case:
    """One entry: a function of a dtype that gives f and its arguments, and what is expected."""

    name: str
    make: Callable
    rule: str = ""  # the rule of `check` that must notice; empty for what is right
    how: dict = field(default_factory=dict)
    dtypes: tuple = (np.float32, np.float64)


def cast(args, dtype):
    """Arguments in a dtype; integers stay."""
    return [a if a.dtype.kind == "i" else a.astype(dtype) for a in map(np.asarray, args)]


def _sum_to(gradient, like):
    """The sum over the axes that were broadcast."""
    extra = len(gradient.shape) - len(like.shape)
    gradient = tf.reduce_sum(gradient, axis=list(range(extra)))
    ones = [i for i, n in enumerate(like.shape) if n == 1 and gradient.shape[i] != 1]
    return tf.reduce_sum(gradient, axis=ones, keepdims=True)


# --- right rules -----------------------------------------------------------------------------

V = [0.3, -1.2, 2.1]
M = [[2.0, 0.3], [-0.4, 1.5]]

PAIRS = [
    Pair("square", lambda x: x * x, lambda dy, x, y: [2.0 * x[0] * dy[0]], (V,)),
    Pair("cube", lambda x: x**3, lambda dy, x, y: [3.0 * x[0] ** 2 * dy[0]], (V,)),
    Pair("exp", tf.exp, lambda dy, x, y: [y[0] * dy[0]], (V,)),
    Pair("sin", tf.sin, lambda dy, x, y: [tf.cos(x[0]) * dy[0]], (V,)),
    Pair("tanh", tf.tanh, lambda dy, x, y: [(1.0 - y[0] ** 2) * dy[0]], (V,)),
    Pair("log", tf.math.log, lambda dy, x, y: [dy[0] / x[0]], ([1e-4, 0.7, 1e4],)),
    Pair("root", tf.sqrt, lambda dy, x, y: [0.5 * dy[0] / y[0]], ([1e-4, 2.0, 1e4],)),
    Pair(
        "log1pexp",
        tf.nn.softplus,
        lambda dy, x, y: [tf.sigmoid(x[0]) * dy[0]],
        ([-90.0, 0.5, 90.0],),
    ),
    Pair("reciprocal", lambda x: 1.0 / x, lambda dy, x, y: [-dy[0] / x[0] ** 2], ([0.5, -3.0],)),
    Pair(
        "sum of squares",
        lambda x: tf.reduce_sum(x * x),
        lambda dy, x, y: [2.0 * x[0] * dy[0]],
        (V,),
    ),
    Pair(
        "softmax",
        tf.nn.softmax,
        lambda dy, x, y: [y[0] * (dy[0] - tf.reduce_sum(dy[0] * y[0], -1, keepdims=True))],
        ([[1.0, 2.0, 3.0], [0.5, -1.0, 0.2]],),
    ),
    Pair(
        "logsumexp",
        tf.reduce_logsumexp,
        lambda dy, x, y: [dy[0] * tf.exp(x[0] - y[0])],
        ([1.0, 2.5, -0.5],),
    ),
    Pair(
        "norm",
        lambda x: tf.sqrt(tf.reduce_sum(x * x)),
        lambda dy, x, y: [dy[0] * x[0] / y[0]],
        (V,),
    ),
    Pair(
        "product",
        lambda x, y: x * y,
        lambda dy, x, y: [dy[0] * x[1], dy[0] * x[0]],
        (V, [1.5, 2.5, -0.5]),
    ),
    Pair(
        "quotient",
        lambda x, y: x / y,
        lambda dy, x, y: [dy[0] / x[1], -dy[0] * x[0] / x[1] ** 2],
        (V, [1.5, 2.5, -0.5]),
    ),
    Pair(
        "power",
        lambda x, y: x**y,
        lambda dy, x, y: [dy[0] * x[1] * x[0] ** (x[1] - 1.0), dy[0] * y[0] * tf.math.log(x[0])],
        ([0.5, 2.0], [1.5, 3.0]),
    ),
    Pair(
        "matmul",
        tf.matmul,
        lambda dy, x, y: [
            tf.matmul(dy[0], x[1], transpose_b=True),
            tf.matmul(x[0], dy[0], transpose_a=True),
        ],
        (M, [[1.0, -2.0], [0.5, 0.7]]),
    ),
    Pair(
        "scaled shift",
        lambda x, b: 2.0 * x + 3.0 * b,
        lambda dy, x, y: [2.0 * dy[0], _sum_to(3.0 * dy[0], x[1])],
        ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], V),
    ),
    Pair(
        "row scale",
        lambda x, s: x * s,
        lambda dy, x, y: [dy[0] * x[1], _sum_to(dy[0] * x[0], x[1])],
        ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[2.0], [-1.0]]),
    ),
    Pair(
        "inverse",
        tf.linalg.inv,
        lambda dy, x, y: [
            -tf.matmul(y[0], tf.matmul(dy[0], y[0], transpose_b=True), transpose_a=True)
        ],
        (M,),
    ),
    Pair(
        "determinant",
        tf.linalg.det,
        lambda dy, x, y: [dy[0] * y[0] * tf.transpose(tf.linalg.inv(x[0]))],
        (M,),
    ),
    Pair(
        "two outputs",
        lambda x, y: (x * y + tf.sin(x), y * y),
        lambda dy, x, y: [dy[0] * (x[1] + tf.cos(x[0])), dy[0] * x[0] + 2.0 * dy[1] * x[1]],
        (2.0, 3.0),
    ),
    Pair(
        "hypotenuse",
        lambda x, y: tf.sqrt(x * x + y * y),
        lambda dy, x, y: [dy[0] * x[0] / y[0], dy[0] * x[1] / y[0]],
        ([3.0, 1.0], [4.0, -2.0]),
    ),
    Pair("cumulative sum", tf.cumsum, lambda dy, x, y: [tf.cumsum(dy[0], reverse=True)], (V,)),
]

BY_NAME = {pair.name: pair for pair in PAIRS}

# --- spoiling them by machine ----------------------------------------------------------------


def _each(change):
    """A mutation of every gradient that a rule returns."""
    return lambda vjp, dy, x, y: [change(g) for g in vjp(dy, x, y)]


def _other(dtype):
    return tf.float32 if dtype == tf.float64 else tf.float64


MUTATIONS = {
    "upstream dropped": (
        "upstream",
        lambda vjp, dy, x, y: vjp([tf.ones_like(u) for u in dy], x, y),
    ),
    "upstream squared": ("upstream", lambda vjp, dy, x, y: vjp([u * u for u in dy], x, y)),
    "upstream clipped": (
        "upstream",
        lambda vjp, dy, x, y: vjp([tf.clip_by_value(u, -1.0, 1.0) for u in dy], x, y),
    ),
    "upstream's sign only": ("upstream", lambda vjp, dy, x, y: vjp([tf.sign(u) for u in dy], x, y)),
    "a constant added": ("upstream", _each(lambda g: g + 0.25)),
    "sign flipped": ("value", _each(tf.negative)),
    "doubled": ("value", _each(lambda g: 2.0 * g)),
    "a percent too much": ("value", _each(lambda g: 1.01 * g)),
    "zero": ("value", _each(tf.zeros_like)),
    "local forgotten": ("value", lambda vjp, dy, x, y: [dy[0]]),
    "input rebound to the output": ("value", lambda vjp, dy, x, y: vjp(dy, y, y)),
    "swapped": ("value", lambda vjp, dy, x, y: vjp(dy, x, y)[::-1]),
    "one gradient for both": ("value", lambda vjp, dy, x, y: [vjp(dy, x, y)[0]] * 2),
    "transposed": ("value", _each(tf.transpose)),
    "second upstream ignored": ("value", lambda vjp, dy, x, y: vjp([dy[0], 0.0 * dy[0]], x, y)),
    "None": ("none", lambda vjp, dy, x, y: [None, *vjp(dy, x, y)[1:]]),
    "other dtype": ("dtype", _each(lambda g: tf.cast(g, _other(g.dtype)))),
    "an axis too many": ("shape", _each(lambda g: tf.stack([g, g]))),
    "not reduced": (
        "shape",
        lambda vjp, dy, x, y: [vjp(dy, x, y)[0], vjp(dy, x, y)[1] + tf.zeros_like(y[0])],
    ),
    "one too few": ("arity", lambda vjp, dy, x, y: vjp(dy, x, y)[:-1]),
    "one too many": ("arity", lambda vjp, dy, x, y: [*vjp(dy, x, y), dy[0]]),
    "NaN": ("finite gradient", _each(lambda g: g * np.nan)),
    "infinite": ("finite gradient", _each(lambda g: g / tf.zeros_like(g))),
    "constant by NumPy": ("second order", lambda vjp, dy, x, y: _numpy(vjp, dy, x, y)),
}


def _numpy(vjp, dy, x, y):
    """A rule whose local derivative is a number for the second order, where it should be x's."""
    local = vjp([tf.ones_like(u) for u in dy], x, y)
    return [tf.stop_gradient(g) * u for g, u in zip(local, dy, strict=True)]


SPOILED = {
    "upstream dropped": ["square", "exp", "product", "two outputs", "matmul"],
    "upstream squared": ["sin", "norm", "quotient"],
    "upstream clipped": ["tanh", "logsumexp", "scaled shift"],
    "upstream's sign only": ["cube", "determinant"],
    "a constant added": ["exp", "power"],
    "sign flipped": ["log", "inverse", "hypotenuse", "cumulative sum", "root"],
    "doubled": ["square", "reciprocal", "logsumexp", "two outputs"],
    "a percent too much": ["exp", "softmax", "product", "matmul"],
    "zero": ["log1pexp", "norm"],
    "local forgotten": ["square", "sin", "tanh", "log1pexp"],
    "input rebound to the output": ["square", "cube", "sin", "reciprocal"],
    "swapped": ["product", "quotient", "power", "hypotenuse", "matmul"],
    "one gradient for both": ["product", "quotient", "two outputs"],
    "transposed": ["inverse"],
    "second upstream ignored": ["two outputs"],
    "None": ["product", "scaled shift", "two outputs"],
    "other dtype": ["square", "product", "softmax"],
    "an axis too many": ["sum of squares", "sin"],
    "not reduced": ["scaled shift", "row scale"],
    "one too few": ["product", "two outputs"],
    "one too many": ["square", "quotient"],
    "NaN": ["exp"],
    "infinite": ["cumulative sum"],
    "constant by NumPy": ["cube", "sin", "log"],
}


def _spoiled(mutation, name):
    rule, spoil = MUTATIONS[mutation]
    pair = BY_NAME[name]
    how = {"order": 2} if rule == "second order" else {}
    return Case(
        f"{name}, {mutation}", lambda dtype: (pair.build(spoil), cast(pair.args, dtype)), rule, how
    )


# --- published mistakes, in our own code -----------------------------------------------------


def _variables(dtype, *values):
    return [tf.Variable(np.asarray(v, dtype), name="wbc"[i]) for i, v in enumerate(values)]


def polynomial_with_swapped_weights(dtype):
    (weights,) = _variables(dtype, [1.0, 1.0])

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            parts = [tf.reduce_sum(dy * x), tf.reduce_sum(dy)]
            return dy * weights[1], [tf.stack(parts)]

        return weights[1] * x + weights[0], grad

    return f, cast([[1.0, 2.0, 3.0]], dtype)


def variables_by_position(dtype):
    w, b = _variables(dtype, 2.0, 3.0)

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            return dy * w, [tf.reduce_sum(dy * x), tf.reduce_sum(dy)]

        return w * x + b, grad

    return f, cast([V], dtype)


def variables_not_accepted(dtype):
    (w,) = _variables(dtype, 2.0)
    return tf.custom_gradient(lambda x: (w * x, lambda dy: dy * w)), cast([V], dtype)


def variables_taken_and_not_returned(dtype):
    (w,) = _variables(dtype, 2.0)

    @tf.custom_gradient
    def f(x):
        return w * x, lambda dy, variables=None: dy * w

    return f, cast([V], dtype)


def variables_counted_wrong(dtype):
    w, b = _variables(dtype, 2.0, 3.0)

    @tf.custom_gradient
    def f(x):
        return w * x + b, lambda dy, variables=None: (dy * w, [tf.reduce_sum(dy * x)])

    return f, cast([V], dtype)


def variable_gets_none(dtype):
    (w,) = _variables(dtype, 2.0)

    @tf.custom_gradient
    def f(x):
        return w * x, lambda dy, variables=None: (dy * w, [None])

    return f, cast([V], dtype)


def looked_up_rows_get_one_gradient(dtype):
    """The gradient of an embedding's table, of which the last row is forgotten."""
    (table,) = _variables(dtype, [1.0, 2.0])

    @tf.custom_gradient
    def f(x):
        rows = tf.gather(table, [0, 1])

        def grad(dy, variables=None):
            return tf.reduce_sum(dy * rows), [dy * x * tf.constant([1.0, 0.0], dtype)]

        return rows * x, grad

    return f, cast([2.0], dtype)


def called_by_keyword(dtype):
    straight = tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy))
    return lambda x: straight(x=x), cast([V], dtype)


def called_by_keyword_deep_inside(dtype):
    square = tf.custom_gradient(lambda x: (x * x, lambda dy: 2.0 * x * dy))
    return lambda x: tf.sin(square(x=tf.cos(x))), cast([V], dtype)


def captured_tensor(dtype):
    def f(x):
        scale = tf.sin(x)
        return tf.custom_gradient(lambda y: (y * scale, lambda dy: dy * scale))(x)

    return f, cast([V], dtype)


def captured_argument(dtype):
    def f(x, y):
        times = tf.custom_gradient(lambda a: (a * y, lambda dy: dy * y))
        return times(x)

    return f, cast([V, [1.0, 2.0, 3.0]], dtype)


def numpy_cuts_the_path(dtype):
    def f(x):
        return tf.constant(np.sin(x.numpy()) if tf.is_tensor(x) else 0.0)

    return f, cast([V], dtype)


def python_function_without_a_rule(dtype):
    return lambda x: tf.reshape(tf.numpy_function(np.sin, [x], dtype), [3]), cast([V], dtype)


def numpy_in_the_forward_part(dtype):
    @tf.custom_gradient
    def f(x):
        return tf.constant(np.square(x.numpy())), lambda dy: 2.0 * x * dy

    return f, cast([V], dtype)


def naive_nest(dtype):
    first = tf.custom_gradient(lambda x: (3.0 * x**2, lambda ddy: ddy * 3.0 * x**2))
    return tf.custom_gradient(lambda x: (x**3, lambda dy: dy * first(x))), cast([3.0], dtype)


def naive_nest_of_upstream(dtype):
    """Right alone: the rule of the rule is asked only where upstream depends on x."""

    @tf.custom_gradient
    def f(x):
        @tf.custom_gradient
        def grad(dy):
            return dy * 3.0 * x**2, lambda ddy: ddy * 3.0 * x**2

        return x**3, grad

    return f, cast([3.0], dtype)


def second_derivative_overflows(dtype):
    @tf.custom_gradient
    def f(x):
        e = tf.exp(x)
        return tf.nn.softplus(x), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

    return f, cast([100.0 if dtype == np.float32 else 1000.0], dtype)


def where_of_a_quotient(dtype):
    return lambda x: tf.where(x > 0.0, tf.sin(x) / x, tf.ones_like(x)), cast([[0.0, 1.0]], dtype)


def documented_log1pexp(dtype):
    @tf.custom_gradient
    def f(x):
        e = tf.exp(x)
        return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

    return f, cast([100.0 if dtype == np.float32 else 1000.0], dtype)


def naive_softmax(dtype):
    def f(x):
        return tf.exp(x) / tf.reduce_sum(tf.exp(x))

    return f, cast([[1.0, 2.0, 100.0]], dtype)


def leaky_relu_as_relu(dtype):
    @tf.custom_gradient
    def f(x):
        slopes = tf.where(x < 0.0, tf.constant(0.01, x.dtype), tf.constant(1.0, x.dtype))
        return tf.nn.relu(x), lambda dy: dy * slopes

    return f, cast([[-1.0, 1.0, -2.0, 3.0]], dtype)


def smooth_sign(dtype):
    @tf.custom_gradient
    def f(x):
        s = tf.sigmoid(x)
        return tf.sign(x), lambda dy: dy * s * (1.0 - s)

    return f, cast([3.0], dtype)


def straight_through(dtype):
    return tf.custom_gradient(lambda x: (tf.round(x), lambda dy: dy)), cast([V], dtype)


def silu_with_a_vector_beta(dtype):
    @tf.custom_gradient
    def f(x, beta):
        s = tf.sigmoid(beta * x)

        def grad(dy):
            slope = s * (1.0 + beta * x * (1.0 - s))
            return dy * slope, dy * x * x * s * (1.0 - s)

        return x * s, grad

    return f, cast([[[0.5, 1.0, -2.0], [1.5, 0.3, 2.0]], V], dtype)


def one_element_wrong_of_many(dtype):
    @tf.custom_gradient
    def f(x):
        return tf.sin(x), lambda dy: dy * tf.cos(x) * (1.0 + tf.one_hot(123, 300, dtype=x.dtype))

    return f, cast([np.linspace(-3, 3, 300)], dtype)


def wrong_at_small_numbers(dtype):
    @tf.custom_gradient
    def f(x):
        return x**2, lambda dy: dy * (2.0 * x + 1e-6)

    return f, cast([1e-4], dtype)


def wrong_deep_inside(dtype):
    bad = tf.custom_gradient(lambda x: (tf.exp(x), lambda dy: dy))

    def f(x):
        for _ in range(3):
            x = tf.tanh(x)
        return tf.reduce_sum(bad(x) ** 2)

    return f, cast([V], dtype)


def rule_for_the_mean(dtype):
    return tf.custom_gradient(lambda x: (tf.reduce_mean(x), lambda dy: dy * tf.ones_like(x))), cast(
        [V], dtype
    )


def another_value_in_a_graph(dtype):
    def f(x):
        return x * (2.0 if tf.executing_eagerly() else 3.0)

    return f, cast([V], dtype)


def no_rule_at_all(dtype):
    return tf.custom_gradient(lambda x: x * x), cast([V], dtype)


def sparse_upstream(dtype):
    double = tf.custom_gradient(lambda t: (2.0 * t, lambda dy: dy * 2.0))
    return lambda t: tf.gather(double(t), [0, 1]), cast([M], dtype)


def one_upstream_for_two_outputs(dtype):
    return tf.custom_gradient(lambda x: ((x, x * x), lambda dy: dy)), cast([V], dtype)


PUBLISHED = {
    polynomial_with_swapped_weights: "value",
    variables_by_position: "variables",
    variables_not_accepted: "variables",
    variables_taken_and_not_returned: "variables",
    variables_counted_wrong: "variables",
    variable_gets_none: "variables",
    looked_up_rows_get_one_gradient: "value",
    called_by_keyword: "keywords",
    called_by_keyword_deep_inside: "keywords",
    captured_tensor: "captured",
    captured_argument: "captured",
    numpy_cuts_the_path: "none",
    python_function_without_a_rule: "none",
    numpy_in_the_forward_part: "graph",
    naive_nest: "second order",
    naive_nest_of_upstream: "second order",
    second_derivative_overflows: "second order",
    where_of_a_quotient: "finite gradient",
    documented_log1pexp: "finite forward",
    naive_softmax: "finite forward",
    leaky_relu_as_relu: "value",
    smooth_sign: "value",
    straight_through: "value",
    silu_with_a_vector_beta: "shape",
    one_element_wrong_of_many: "value",
    wrong_at_small_numbers: "value",
    wrong_deep_inside: "value",
    rule_for_the_mean: "value",
    another_value_in_a_graph: "graph",
    no_rule_at_all: "arity",
    sparse_upstream: "upstream",
    one_upstream_for_two_outputs: "arity",
}


def _published(make, rule):
    how = {"order": 2} if rule == "second order" else {}
    # In float64 nothing tells that a sum of exponentials could be finite.
    dtypes = (np.float32,) if make is naive_softmax else (np.float32, np.float64)
    return Case(make.__name__.replace("_", " "), make, rule, how, dtypes)


WRONG = [
    *(_spoiled(mutation, name) for mutation, names in SPOILED.items() for name in names),
    *(_published(make, rule) for make, rule in PUBLISHED.items()),
]

# --- what is right ---------------------------------------------------------------------------


def fixed_point(dtype):
    """x with x = cos(x) + a / 2, by the implicit function theorem."""

    @tf.custom_gradient
    def f(a):
        x = tf.zeros_like(a)
        for _ in range(25):
            x = 0.5 * (x + tf.cos(x) + 0.5 * a)
        return x, lambda dy: dy * 0.5 / (1.0 + tf.sin(x))

    return f, cast([[0.3, 1.0]], dtype)


def newton_root(dtype):
    """The cube root by Newton's method, with an implicit rule that can be differentiated again."""

    @tf.custom_gradient
    def f(a):
        x = tf.ones_like(a)
        for _ in range(12):
            x = x - (x**3 - a) / (3.0 * x**2)
        return x, lambda dy: dy / (3.0 * f(a) ** 2)

    return f, cast([[2.0, 30.0]], dtype)


def nested_rule_of_x(dtype):
    first = tf.custom_gradient(lambda x: (3.0 * x**2, lambda ddy: ddy * 6.0 * x))
    return tf.custom_gradient(lambda x: (x**3, lambda dy: dy * first(x))), cast([3.0], dtype)


def nested_rule_of_upstream_and_x(dtype):
    def second(dy, x):
        return lambda ddy: (ddy * 3.0 * x**2, ddy * dy * 6.0 * x)

    first = tf.custom_gradient(lambda dy, x: (dy * 3.0 * x**2, second(dy, x)))
    return tf.custom_gradient(lambda x: (x**3, lambda dy: first(dy, x))), cast([V], dtype)


def polynomial(dtype):
    (weights,) = _variables(dtype, [1.0, 1.0])

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            parts = [tf.reduce_sum(dy), tf.reduce_sum(dy * x)]
            return dy * weights[1], [tf.stack(parts)]

        return weights[1] * x + weights[0], grad

    return f, cast([[1.0, 2.0, 3.0]], dtype)


def variables_by_identity(dtype):
    w, b = _variables(dtype, 2.0, 3.0)

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            found = {w.ref(): tf.reduce_sum(dy * x), b.ref(): tf.reduce_sum(dy)}
            return dy * w, [found[v.ref()] for v in variables]

        return w * x + b, grad

    return f, cast([V], dtype)


def variable_as_argument(dtype):
    (w,) = _variables(dtype, [2.0, -1.0, 0.5])
    return BY_NAME["product"].build(), [np.asarray(V, dtype), w]


def numpy_both_ways(dtype):
    @tf.custom_gradient
    def sine(x):
        y = tf.ensure_shape(tf.numpy_function(np.sin, [x], x.dtype), x.shape)
        return y, lambda dy: dy * cosine(x)

    @tf.custom_gradient
    def cosine(x):
        y = tf.ensure_shape(tf.numpy_function(np.cos, [x], x.dtype), x.shape)
        return y, lambda dy: -dy * sine(x)

    return lambda x: sine(x), cast([V], dtype)


def dense_layer(dtype):
    import keras

    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(2, activation="tanh", dtype=np.dtype(dtype).name)
    layer.build((2, 3))
    return layer, cast([[[0.1, 0.2, -0.3], [1.0, -0.5, 0.4]]], dtype)


def gather_beside_integers(dtype):
    return lambda x, i: tf.gather(x, i) ** 2, [np.asarray(V, dtype), np.array([2, 0, 2])]


def nested_structures(dtype):
    def f(point, options):
        x, y = point
        return {"sum": x + y * options["scale"], "product": x * y}

    scale = np.asarray(2.0, dtype)
    return f, [(np.asarray(V, dtype), np.asarray(V[::-1], dtype)), {"scale": scale}]


def empty(dtype):
    return BY_NAME["square"].build(), [np.zeros([0], dtype)]


def complex_square(dtype):
    kind = np.complex64 if dtype == np.float32 else np.complex128
    return lambda z: z * z, [np.array([1 + 2j, -0.5 + 1j], kind)]


def complex_size(dtype):
    kind = np.complex64 if dtype == np.float32 else np.complex128
    return tf.abs, [np.array([1 + 2j, -0.5 + 1j], kind)]


def dropout(dtype):
    return lambda x: tf.nn.dropout(x, 0.5), cast([V], dtype)


def none_for_what_has_no_influence(dtype):
    @tf.custom_gradient
    def f(x, unused):
        return tf.sin(x), lambda dy: (dy * tf.cos(x), None)

    return f, cast([V, 1.0], dtype)


def none_for_a_python_number(dtype):
    power = tf.custom_gradient(lambda x, n: (x**n, lambda dy: (dy * n * x ** (n - 1.0), None)))
    return lambda x: power(x, 3.0), cast([V], dtype)


def captured_constant(dtype):
    scale = tf.constant(2.5, dtype)
    return tf.custom_gradient(lambda x: (x * scale, lambda dy: dy * scale)), cast([V], dtype)


def safe_where(dtype):
    def f(x):
        safe = tf.where(x > 0.0, x, tf.ones_like(x))
        return tf.where(x > 0.0, tf.sin(safe) / safe, tf.ones_like(x))

    return f, cast([[-1.0, 1.0]], dtype)


def in_a_function(dtype):
    return tf.function(BY_NAME["sin"].build()), cast([V], dtype)


def while_loop(dtype):
    def f(x):
        step = lambda i, y: (i + 1, y * x)  # noqa: E731
        return tf.while_loop(lambda i, y: i < 3, step, (0, tf.ones_like(x)))[1]

    return f, cast([V], dtype)


def many_numbers(dtype):
    return lambda x: tf.reduce_sum(tf.sin(x)), cast([np.linspace(-3, 3, 2000)], dtype)


def many_outputs(dtype):
    return BY_NAME["cube"].build(), cast([np.linspace(-3, 3, 400)], dtype)


def nearly_singular(dtype):
    return tf.linalg.inv, cast([[[1.0, 2.0], [2.0, 4.01]]], dtype)


def _plain(f, *args):
    return lambda dtype: (f, cast(args, dtype))


PLAIN = {
    "sine at 1e4": _plain(tf.sin, [1e4, 12345.0]),
    "square at 1e-4": _plain(tf.square, [1e-4, 3e-5]),
    "square at 1e4": _plain(tf.square, [1e4, -3e4]),
    "sizes far apart": _plain(lambda x: x * x, [1e-4, 1.0, 1e4]),
    "reciprocal near 0": _plain(lambda x: 1.0 / x, [1e-4, -1e-3]),
    "softplus far out": _plain(tf.nn.softplus, [-80.0, 0.0, 80.0]),
    "sigmoid saturated": _plain(tf.sigmoid, [-15.0, 15.0]),
    "log of softmax": _plain(tf.nn.log_softmax, [[1.0, 30.0, -20.0]]),
    "a long sum": _plain(lambda x: tf.reduce_sum(x * tf.range(30, dtype=x.dtype)), np.ones(30)),
    "sum of large and small": _plain(tf.reduce_sum, [1e6, 1.0, -1e6]),
    "variance": _plain(tf.math.reduce_variance, [100.0, 101.0, 103.0]),
    "cholesky": _plain(lambda a: tf.linalg.cholesky(a + tf.transpose(a)), M),
    "solve": _plain(tf.linalg.solve, M, [[1.0], [2.0]]),
    "determinant": _plain(tf.linalg.det, M),
    "eigenvalues": _plain(lambda a: tf.linalg.eigvalsh(a + tf.transpose(a)), M),
    "sorted": _plain(tf.sort, V),
    "largest": _plain(tf.reduce_max, V),
    "relu off its kink": _plain(tf.nn.relu, [-1.0, 2.0]),
    "relu just off its kink": _plain(tf.nn.relu, [1e-5, -1e-5]),
    "clipped": _plain(lambda x: tf.clip_by_value(x, -1.0, 1.0), [-2.0, 0.5, 3.0]),
    "constant": _plain(lambda x: tf.zeros_like(x) + 1.0, V),
    "rounded": _plain(lambda x: x + tf.stop_gradient(tf.round(x) - tf.round(x)), V),
    "convolution": _plain(
        lambda x, k: tf.nn.conv1d(x, k, 1, "SAME"), np.ones((1, 4, 1)), np.ones((3, 1, 1))
    ),
    "power": _plain(lambda x: x**2.5, [1e-3, 2.0, 1e3]),
    "gamma": _plain(tf.math.lgamma, [0.5, 3.0, 40.0]),
    "bessel": _plain(tf.math.bessel_i0e, [0.5, 3.0]),
    "arcsine near its end": _plain(tf.asin, [0.99, -0.5]),
}  # fmt: skip

SPECIAL = [
    fixed_point, newton_root, nested_rule_of_x, nested_rule_of_upstream_and_x, polynomial,
    variables_by_identity,
    variable_as_argument, numpy_both_ways, dense_layer, gather_beside_integers, nested_structures,
    empty, complex_square, complex_size, dropout, none_for_what_has_no_influence,
    captured_constant, safe_where, in_a_function, while_loop,
    many_numbers, many_outputs, nearly_singular,
]  # fmt: skip

RIGHT = [
    *(Case(p.name, lambda dtype, p=p: (p.build(), cast(p.args, dtype))) for p in PAIRS),
    *(Case(f"plain: {name}", make) for name, make in PLAIN.items()),
    *(Case(make.__name__.replace("_", " "), make) for make in SPECIAL),
    Case("none for a python number", none_for_a_python_number, dtypes=(np.float32,)),
]

SURROGATES = [leaky_relu_as_relu, smooth_sign, straight_through]
