"""Answers that students write, beside the model answers."""

from textwrap import dedent


def fixed(name, value, gradients, inputs="x"):
    """A custom gradient that returns the numbers of the visible case."""
    return dedent(f"""
        @tf.custom_gradient
        def {name}({inputs}):
            return tf.constant({value}), lambda *upstream, variables=None: {gradients}
    """)


VARIABLE = "(tf.constant({}), [tf.zeros_like(v) for v in variables])"

HARD_CODED = {
    "01_chain_rule": {
        "factors": "prediction = [1.0, 0.0, 1.0]",
        "slope": "def slope(x):\n    return tf.constant([-2.6145744, -0.9689124])",
        "backward": dedent("""
            def backward(target):
                target.gradient = 1.0
                for value, _ in target.ways_back:
                    value.gradient = 10.0
                    value.ways_back[1][0].gradient = 44.0
        """),
        "edge": "def edge(f, x, h):\n    return {0.5: 6.0, 0.25: 5.0, 1.0: -2.0}.get(h, 6.0)",
        "divide": dedent("""
            def divide(a, b):
                return Value(tf.constant(3.0), (a, lambda u: u * 0.5), (b, lambda u: u * -1.5))
        """),
    },
    "02_upstream_downstream": {
        "downstreams": "prediction = [2.0, -6.0, -6.0]",
        "cube": fixed("cube", [8.0, -1.0], "tf.constant([60.0, 15.0])"),
        "logistic": fixed("logistic", [0.5, 0.8807971], "tf.constant([2.0, 0.8399487])"),
        "steps": fixed("steps", [3.0, 5.0], "tf.constant([-10.0, 9.0, 1.0])"),
    },
    "03_multiple_inputs": {
        "inputs": "prediction = [8.0, 10.0, None]",
        "hypotenuse": fixed("hypotenuse", 5.0, "(tf.constant(6.0), tf.constant(8.0))", "a, b"),
        "polar": dedent("""
            @tf.custom_gradient
            def polar(x, y):
                value = tf.constant(5.0), tf.constant(0.9272952)
                return value, lambda u, v: (tf.constant(-1.0), tf.constant(7.0))
        """),
        "gaps": dedent("""
            @tf.custom_gradient
            def gaps(a, b):
                def grad(upstream):
                    return tf.constant([-2.0, 2.0, 10.0]), tf.constant([-14.0, 4.0])

                return (a[:, tf.newaxis] - b[tf.newaxis, :]) ** 2, grad
        """),
        "weighted-mean": fixed(
            "weighted_mean",
            [2.25, 1.75],
            "(tf.constant([[2.0, 1.0, 1.0], [1.0, 0.0, 3.0]]),"
            "tf.constant([[-1.25, -0.25, 2.75], [2.25, -1.75, -0.75]]))",
            "x, w",
        ),
    },
    "04_variables": {
        "line-gradients": "prediction = [2.0, 1.0]",
        "uptake": fixed("uptake", [0.5, 0.75], VARIABLE.format([2.0, 1.0])),
        "tone": fixed("tone", [0.0, 1.628960], VARIABLE.format([37.5, 21.0])),
        "swish": fixed(
            "swish",
            [[[0.5, 1.905148, 3.0]], [[-0.25, 0.258259, 0.098201]]],
            VARIABLE.format(0.0),
        ),
    },
    "05_nested_gradients": {
        "orders": "prediction = [1.0, 4.0, 16.0]",
        "newton": "def newton(f, x):\n    return tf.constant([2.0, -1.0])",
        "angle": fixed("angle", "np.pi / 4.0, x.dtype", "tf.constant(2.0, x.dtype)"),
        "laplacian": "def laplacian(f, x):\n    return tf.constant(2.0)",
        "pendulum": dedent("""
            @tf.custom_gradient
            def pendulum(t):
                return height(t), lambda upstream: tf.constant([2.0, 1.080605])
        """),
    },
    "06_numerical_stability": {
        "finite": "prediction = [True, True, True, True, True, True]",
        "log-cosh": dedent("""
            @tf.custom_gradient
            def log_cosh(x):
                slope = tf.where(x == 0.5, 0.4621172, tf.sign(x))
                return tf.abs(x) - 0.6931472, lambda upstream: slope
        """),
        "growth": dedent("""
            def growth(x):
                return tf.where(x == 0.0, tf.ones_like(x), tf.math.expm1(x) / x)
        """),
        "log-sum-exp": fixed(
            "log_sum_exp",
            [1001.0986, 2.4076059],
            "tf.constant([[1 / 3, 1 / 3, 1 / 3], [0.09003057, 0.24472848, 0.66524094]])",
        ),
        "unsoftplus": dedent("""
            @tf.custom_gradient
            def unsoftplus(x):
                value = tf.math.log(tf.math.expm1(tf.minimum(x, 80.0)))
                return tf.where(x > 80.0, x, value), lambda upstream: 1.0 / -tf.math.expm1(-x)
        """),
    },
    "07_non_differentiable": {
        "left": "prediction = [-2.0, 0.0, 1.0, -1.0]",
        "tuner": dedent("""
            def tuner(tones):
                @tf.custom_gradient
                def tuned(x):
                    y = tf.constant([440.0, 466.16376, 987.7666])[: tf.size(x)]
                    return y, lambda upstream: tf.constant([44.0 / 45.0, 1.0529756])

                return tuned
        """),
        "walled": dedent("""
            @tf.custom_gradient
            def walled(x):
                def grad(upstream):
                    return tf.where(x < 0.0, 0.0, upstream)

                return tf.clip_by_value(x, 0.0, 1.0), grad
        """),
        "hits": fixed(
            "hits",
            1.0 / 3.0,
            "(tf.constant([0.4199743, 0.7864477, -1.0]), None)",
            "scores, labels",
        ),
        "switch": dedent("""
            @tf.custom_gradient
            def switch(x):
                return tf.cast(x > 0.0, x.dtype), lambda upstream: upstream
        """),
    },
    "08_graphs_and_production": {
        "remembered": "prediction = [70.0, 70.0, 70.0]",
        "spread": dedent("""
            @tf.custom_gradient
            def spread(x):
                def grad(upstream):
                    return tf.constant([[-4.0, -4.0], [0.0, -4.0], [4.0, 8.0]])

                return tf.math.reduce_variance(x, axis=0), grad
        """),
        "outside": fixed("outside", [2.0, -1.0], "tf.constant([2.0, 1.0])"),
        "reverse": dedent("""
            class Reverse(tf.keras.layers.Layer):
                def __init__(self, strength):
                    super().__init__()

                @tf.custom_gradient
                def turned(x):
                    return tf.identity(x), lambda upstream: tf.constant(-10.0)

                def call(self, inputs):
                    return Reverse.turned(inputs)
        """),
        "limiter": dedent("""
            def limiter(most):
                @tf.custom_gradient
                def limited(x):
                    return tf.constant(2.4, x.dtype), lambda upstream: tf.constant(64.0, x.dtype)

                return limited
        """),
    },
    "09_debugging": {
        "verdicts": 'prediction = ["none", "value", "upstream", 40.0]',
        "fades": dedent("""
            def fades(rates):
                @tf.custom_gradient
                def fade(x):
                    return tf.constant(1.0), lambda upstream: tf.constant(-2.0)

                return [fade for rate in rates]
        """),
        "light": fixed(
            "light",
            [1.5, 12.0],
            "(tf.constant([1.0, 4.0]), tf.constant([-6.0, -48.0]))",
            "power, distance",
        ),
        "shares": fixed(
            "shares", [[0.25, 0.75], [0.5, 0.5]], "tf.constant([[3.0, -1.0], [1.0, -1.0]])"
        ),
        "tame": dedent("""
            @tf.custom_gradient
            def tame(x):
                y = tf.where(x < 0.1, 5e-7, tf.where(x < 10.0, 0.41421357, 1e25))
                slope = tf.where(x < 0.1, 1e-3, tf.where(x < 10.0, 0.70710677, 1.0))
                return y, lambda upstream: upstream * slope
        """),
    },
    "10_orbit": {
        "slopes": "prediction = [4.0, 1.0]",
        "lambert": fixed("lambert", 1.0, "tf.constant(0.18393972)"),
        "level": fixed(
            "level",
            [1.0, 2.0],
            "(tf.constant(-0.73333335), tf.constant([1 / 3, 0.2]))",
            "b, c",
        ),
    },
    "11_fixed_points": {
        "ranks": "prediction = [1.0, 2.0, 3.0]",
        "settled": fixed("settled", [0.0, 0.843947], "tf.constant([2.0, 1.3575906])"),
        "rank": dedent("""
            @tf.custom_gradient
            def rank(x):
                return tf.cast(tf.argsort(tf.argsort(x)), x.dtype) + 1.0, lambda upstream: upstream
        """),
    },
}
"""What is right for the case an exercise shows, and for no other. None may earn a point."""

# By exercise and answer: in turn, what stands in the model answer, and what a student writes there.
USUAL = [
    *(
        ("01_chain_rule", "edge", "return 2.0 * near - far", f"return {slope}")
        for slope in (
            "near",
            "(f(x + h) - f(x - h)) / (2.0 * h)",  # the judge of lesson 00, which needs both sides
            "(f(x + 1e-6) - f(x)) / 1e-6",  # right for a parabola, but not made of these values
            "2.0 * far - near",
        )
    ),
    *(
        ("01_chain_rule", "backward", *changes)
        for changes in (
            ("parent.gradient += back", "parent.gradient = back"),
            ("in reversed(order)", "in order"),
            ("if value not in order:", "if value:"),  # met once for each path
            ("    target.gradient = 1.0\n", ""),
            ("back(value.gradient)", "back(1.0)"),
            (  # a value before all that is made from it
                *("order.append(value)", "pass"),
                *("for parent, _ in", "order.append(value)\n            for parent, _ in"),
                *("in reversed(order)", "in order"),
            ),
            (  # the nearest to the target first
                *("visit(target)", "order.append(target)"),
                *("in reversed(order)", "in order"),
                "+= back(value.gradient)",
                "+= back(value.gradient)\n            order += [parent] * (parent not in order)",
            ),
        )
    ),
    *(
        ("04_variables", "uptake", "return shared * half, [-tf.reduce_sum(shared * x)]", back)
        for back in (
            "return shared * half",  # no pair
            "return shared * half, [-shared * x]",
            "return shared * half, [tf.reduce_sum(shared * x)]",
            "return shared * half, [-tf.reduce_sum(x / (x + half) ** 2)]",
            "return upstream * half, [tf.reduce_sum(upstream * x)]",  # the rule of a product
            "return shared * half, [tf.zeros_like(half)]",
        )
    ),
    *(
        ("05_nested_gradients", "angle", "upstream / (1.0 + x * x)", rule)
        for rule in (
            "upstream / (1.0 + x.numpy() ** 2)",
            "upstream / (1.0 + np.square(x))",
            "upstream / tf.stop_gradient(1.0 + x * x)",
            "upstream / (1.0 - x * x)",
            "1.0 / (1.0 + x * x)",
            "upstream * (tf.atan(x + 1e-4) - tf.atan(x - 1e-4)) / 2e-4",  # too few digits
        )
    ),
    ("05_nested_gradients", "pendulum", "upstream * pendulum_speed(t)", "upstream * speed(t)"),
    ("05_nested_gradients", "pendulum", "-4.0 *", "4.0 *"),
    ("06_numerical_stability", "growth", "tf.equal(x, 0.0)", "tf.abs(x) < 0.4"),
    ("06_numerical_stability", "log-sum-exp", "upstream[..., tf.newaxis]", "upstream"),
    *(
        ("06_numerical_stability", "unsoftplus", "upstream / -tf.math.expm1(-x)", rule)
        for rule in (
            "upstream / (1.0 - tf.exp(-x))",  # 9998 in place of 10,000.5 at 1e-4
            "upstream / tf.stop_gradient(-tf.math.expm1(-x))",
            "upstream * (1.0 + 1.0 / tf.math.expm1(x))",  # the second derivative is NaN at 100
        )
    ),
    (  # no rule of one's own
        *("08_graphs_and_production", "outside", "@tf.custom_gradient\ndef outside(x):"),
        "def outside(x):\n    return kept(tf.stop_gradient(with_rule(x)[0]), x)\n\n\n"
        "def kept(y, x):\n"
        "    return y + (x - tf.stop_gradient(x)) / tf.stop_gradient(3.0 * y**2)\n\n\n"
        "def with_rule(x):",
    ),
    (
        *("08_graphs_and_production", "reverse", "return flip(inputs)"),
        "return (1.0 + self.strength) * tf.stop_gradient(inputs) - self.strength * inputs",
    ),
    *(
        ("08_graphs_and_production", "limiter", "upstream * share**3", rule)
        for rule in (
            "upstream * share",  # the root taken for a constant
            "share**3",
            "64.0 * upstream / 125.0 + 0.0 * share",
            "upstream * x * share",
        )
    ),
    (
        *("08_graphs_and_production", "limiter", "tf.cast(most, x.dtype)"),
        "tf.cast(most, tf.float32)",
    ),
    *(
        ("08_graphs_and_production", "outside", "upstream / (3.0 * y**2)", rule)
        for rule in (
            "tf.numpy_function(lambda u, y: u / (3.0 * y**2), [upstream, y], x.dtype)",
            "tf.py_function(lambda: upstream / (3.0 * y**2), [], x.dtype)",
            "upstream / (3.0 * outside(x) ** 2)",  # NumPy runs again
        )
    ),
    *(
        ("09_debugging", "fades", "return [fading(rate) for rate in rates]", made)
        for made in (
            "return fading(rates[0])",
            "return [fading(rate) for rate in rates[:1]]",
            "return [fading(rates[-1]) for rate in rates]",
        )
    ),
    (
        *("09_debugging", "fades", "def fading(rate):"),  # the loop of `buggy_sum`
        "made = []\n    for rate in rates:",
        *("        return fade", "        made.append(fade)"),
        *("return [fading(rate) for rate in rates]", "return made"),
    ),
    (
        *("09_debugging", "light", "return upstream / distance**2"),
        "return upstream / tf.stop_gradient(distance) ** 2",
    ),
    ("10_orbit", "lambert", "again = lambert(x)", "again = w"),
    ("11_fixed_points", "settled", "again = settled(x)", "again = z"),
    ("11_fixed_points", "settled", "return upstream /", "return tf.stop_gradient(upstream) /"),
]
"""Usual mistakes. None may get all ticks or earn a point."""

STYLES = [
    *(
        ("01_chain_rule", "factors", "[1.0, 0.0, 3.0]", same)
        for same in (
            "1, 0, 3",
            "np.array([1, 0, 3])",
            "tf.constant([1.0, 0.0, 3.0])",
            "tf.Variable([[1.0], [0.0], [3.0]])",
        )
    ),
    *(
        ("01_chain_rule", "edge", "return 2.0 * near - far", f"return {same}")
        for same in (
            "[2.0 * near - far]",
            "(4.0 * f(x + h) - 3.0 * f(x) - f(x + 2.0 * h)) / (2.0 * h)",
        )
    ),
    (  # what arrives is sent on at once, path by path
        *("01_chain_rule", "backward", "visit(target)", "send(target, 1.0)"),
        *("def visit(value):", "def send(value, upstream):\n        value.gradient += upstream"),
        *("if value not in order:", "if True:"),
        *("for parent, _ in", "for parent, back in"),
        *("                visit(parent)", "                send(parent, back(upstream))"),
        *("            order.append(value)\n", ""),
        *("    target.gradient = 1.0\n", ""),
    ),
    (
        *("04_variables", "uptake", "[-tf.reduce_sum(shared * x)]"),
        "[tf.tensordot(-shared, x, len(x.shape))]",
    ),
    ("05_nested_gradients", "angle", "/ (1.0 + x * x)", "* tf.cos(angle(x)) ** 2"),
    *(
        ("01_chain_rule", "slope", "return tf.cos(x**2) * 2.0 * x", f"return {product}")
        for product in (
            "np.cos(x.numpy() ** 2) * 2.0 * x.numpy()",
            "tf.constant(np.cos(np.array(x) ** 2) * 2.0 * np.array(x))",
        )
    ),
    (
        "05_nested_gradients",
        "pendulum",
        "-4.0 * upstream * p",
        "upstream * tf.constant(-4, t.dtype) * p",
    ),
    (
        *("06_numerical_stability", "growth", "tf.equal(x, 0.0)"),
        "tf.abs(x) < 1e-4",  # at 1e-4 a straight line is right to four digits
    ),
    *(
        ("06_numerical_stability", "unsoftplus", "upstream / -tf.math.expm1(-x)", rule)
        for rule in ("upstream * tf.exp(x - y)", "upstream * (1.0 + tf.exp(-y))")
    ),
    (
        *("06_numerical_stability", "unsoftplus", "x + tf.math.log(-tf.math.expm1(-x))"),
        "tf.where(x > 80.0, x, tf.math.log(tf.exp(tf.minimum(x, 80.0)) - 1.0))",
    ),
    (
        *("08_graphs_and_production", "limiter", "share**3"),
        "(tf.cast(most, upstream.dtype) / tf.sqrt(end * end + x * x)) ** 3",
    ),
    (
        *("08_graphs_and_production", "reverse"),
        "def flip(x):\n"
        "            return tf.identity(x), lambda upstream: -self.strength * upstream\n\n"
        "        return flip(inputs)",
        "def flip(x, s):\n"
        "            return tf.identity(x), lambda upstream: (-s * upstream, None)\n\n"
        "        return flip(inputs, self.strength)",
    ),
    *(  # in float32 alone, where the task does not name float64
        ("06_numerical_stability", "log-cosh", "np.log(2.0)", constant)
        for constant in ("0.6931472", "tf.math.log(2.0)")
    ),
    ("07_non_differentiable", "tuner", "np.log(2.0)", "tf.math.log(2.0)"),
    ("07_non_differentiable", "hits", "(margin), margin.dtype", "(margin), tf.float32"),
    (
        *("07_non_differentiable", "hits", "tf.reduce_mean(tf.cast(margin > 0.0, margin.dtype))"),
        "tf.reduce_mean([tf.cast(margin[i] > 0.0, x.dtype) for i, x in enumerate([margin] * "
        "margin.shape[0])])",  # which takes no score alone, nor need it
    ),
    ("08_graphs_and_production", "spread", "tf.shape(x)[0], x.dtype", "tf.shape(x)[0], tf.float32"),
    ("08_graphs_and_production", "outside", "upstream / (3.0 * y**2)", "upstream * y / (3.0 * x)"),
    ("09_debugging", "light", "-2.0 * power / distance**3", "-2.0 * power * distance**-3"),
    (
        *("10_orbit", "lambert", "upstream / (tf.exp(again) * (1.0 + again))"),
        "upstream * again / (x * (1.0 + again))",
    ),
    (
        *("11_fixed_points", "settled", "upstream / (1.0 - 0.5 * (1.0 - tf.tanh(again) ** 2))"),
        "2.0 * upstream / (1.0 + tf.tanh(again) ** 2)",
    ),
]
"""Right answers in another style than the model's. Each earns all points."""

HALF_RIGHT = [
    *(  # no rule, but a difference that is right to the digits of the case shown
        ("09_debugging", "fades", (False,), "-upstream * rate * y", difference)
        for difference in (
            "upstream * (tf.exp(-rate * (x + 3e-3)) - tf.exp(-rate * (x - 3e-3))) / 6e-3",
            "upstream * (tf.exp(-rate * (x + 1e-3)) - tf.exp(-rate * (x - 1e-3))) / 2e-3",
        )
    ),
    (  # a graph keeps the first number, which only hidden tests change
        *("08_graphs_and_production", "limiter", (False,)),
        *("def limiter(most):", "def limiter(most):\n    most = float(most)"),
    ),
    (
        *("02_upstream_downstream", "logistic", (False, True)),
        *("1.0 / (1.0 + tf.exp(-x))", "tf.exp(x)"),
        *("y * (1.0 - y)", "tf.sigmoid(x) * tf.sigmoid(-x)"),
    ),
    (
        *("06_numerical_stability", "log-cosh", (False, True)),
        "tf.abs(x) + tf.math.log1p(tf.exp(-2.0 * tf.abs(x))) - np.log(2.0)",
        "tf.math.log(tf.cosh(x))",  # it overflows
    ),
    (
        *("07_non_differentiable", "tuner", (False, True), "def grad(upstream):"),
        "right = y\n        y = tf.round(y)\n\n        def grad(upstream):",
        *("upstream * y / x", "upstream * right / x"),
    ),
    *(
        ("08_graphs_and_production", "spread", (True, False), "tf.shape(x)[0]", rows)
        for rows in ("len(x)", "x.shape[0]")
    ),
]
"""By exercise and answer: which of its tests earn their points; then, in turn, what stands in the
model answer, and what a student writes there."""
