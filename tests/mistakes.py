"""Programs that raise an error of TensorFlow or Keras, and words of the hint that each gets."""

import math

import keras
import numpy as np
import tensorflow as tf

from cgviz.hinting import hints


def raised(call, *args):
    """The error that a call raises."""
    try:
        call(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def gradient(f, *args):
    """TensorFlow's own gradient of f."""
    with tf.GradientTape() as tape:
        tape.watch([a for a in args if isinstance(a, tf.Tensor)])
        y = f(*args)
    return tape.gradient(y, list(args))


def in_a_graph(f, x):
    """f(x) in a graph. `call` closes over f: passed as an argument, f would lose its rule."""

    @tf.function
    def call(x):
        return f(x)

    return call(x)


def library_error(error, *calls):
    """The error as if raised through `calls` in TensorFlow: (file, function), outermost first."""
    step = None
    for file, function in reversed([(f"/x/tensorflow/python/{f}", g) for f, g in calls]):
        inside = {"error": error, "step": step}
        body = "step()" if step else "raise error"
        exec(compile(f"def {function}(): {body}", file, "exec"), inside)
        step = inside[function]
    return raised(step)


ONE = tf.constant(1.0)


class Scale(keras.layers.Layer):
    """A layer whose call hands its weight to a function by position."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def build(self, shape):
        self.w = self.add_weight(shape=(3,), initializer="ones", name="kernel")

    def call(self, x):
        return self.function(x, self.w)


def fit(layer):
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 3), np.float32), np.ones((4, 3), np.float32), verbose=0)


@tf.custom_gradient
def one_gradient_for_two(a, b):
    return a * b, lambda dy: dy * b


@tf.custom_gradient
def two_gradients_for_one(a):
    return a * 2.0, lambda dy: (dy, dy)


@tf.custom_gradient
def times(x, k):
    return x * k, lambda dy: (dy * k, tf.reduce_sum(dy * x, 0))


@tf.custom_gradient
def times_unreduced(x, k):
    return x * k, lambda dy: (dy * k, dy * x)


@tf.custom_gradient
def double_in_float64(x):
    return x * 2.0, lambda dy: tf.cast(dy, tf.float64) * 2.0


@tf.custom_gradient
def plain(x, k):
    return tf.identity(x), lambda dy: (dy, None)


def reads_a_variable():
    w = tf.Variable(2.0, name="w")

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy: dy * w

    gradient(f, ONE)


def reads_a_variable_in_a_graph():
    w = tf.Variable(2.0, name="w")

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy: dy * w

    tf.function(lambda x: gradient(f, x))(ONE)


def mixed_precision():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        layer = Scale(times)
        with tf.GradientTape() as tape:
            y = layer(tf.ones((4, 3)))
        tape.gradient(y, layer.trainable_variables)
    except Exception as error:
        hints.add(error)  # while the policy is still on, as in a notebook
        raise
    finally:
        keras.mixed_precision.set_global_policy("float32")


def takes_variables_returns_one():
    w = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy, variables=None: dy * w

    gradient(f, ONE)


def takes_variables_returns_a_pair_of_numbers():
    w = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy, variables=None: dy * w

    gradient(f, tf.ones(2))


def takes_variables_returns_one_in_a_graph():
    w = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy, variables=None: dy * w

    in_a_graph(lambda x: gradient(f, x), ONE)


def returns_too_many_variable_gradients():
    w = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy, variables=None: (dy * w, [dy, dy])

    gradient(f, ONE)


@tf.custom_gradient
def without_a_rule(x):
    return x * x


@tf.custom_gradient
def with_a_derivative_for_a_rule(x):
    return x * x, 2.0 * x


def a_rule_with_one_argument_for_two_outputs():
    gradient(tf.custom_gradient(lambda x: ((x, x * 2.0), lambda dy: dy)), ONE)


@tf.custom_gradient
def with_a_rule_of_two_arguments(x):
    return x * 2.0, lambda dy, dz: dy


def a_rule_that_lists_all_derivatives():
    gradient(tf.custom_gradient(lambda x: (x * 2.0, lambda dy: [dy] * 8)), tf.ones(4))


def jacobian_with_numpy_in_the_rule():
    @tf.custom_gradient
    def f(x):
        return x * x, lambda dy: tf.constant(2.0 * dy.numpy()) * x

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    tape.jacobian(y, x)


def second_order_of_none():
    with tf.GradientTape() as tape:
        g = None
    tape.gradient(g, ONE)


def two_dtypes_in_a_rule():
    gradient(tf.custom_gradient(lambda x: (tf.cast(x, tf.float16), lambda dy: dy * x)), ONE)


def weight_in_a_rule_under_mixed_precision():
    class Product(Scale):
        def call(self, x):
            @tf.custom_gradient
            def f(x):
                w = tf.cast(self.w, x.dtype)
                return x * w, lambda dy, variables=None: (dy * tf.identity(self.w), [dy])

            return f(x)

    layer = Product(None, dtype="mixed_float16")
    gradient(lambda x: layer(x), tf.ones((4, 3)))


def registered_twice():
    for _ in range(2):
        tf.RegisterGradient("Twice")(lambda op, dy: dy)


def op_without_a_gradient():
    gradient(lambda x: tf.raw_ops.Bincount(arr=[0, 1], size=2, weights=x), tf.ones(2))


def matrices_in_a_rule():
    gradient(tf.custom_gradient(lambda x: (x * 1.0, lambda dy: dy @ x)), tf.ones((2, 3)))


def by_keyword_in_a_graph():
    tf.function(lambda x: plain(x, k=2.0))(ONE)


def by_keyword_and_by_position():
    gradient(lambda x: plain(x, k=tf.constant(2.0)), ONE)


def unreduced_assign():
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = times_unreduced(tf.ones((4, 3)), v)
    v.assign_sub(tape.gradient(y, v))


def unreduced_in_a_closed_function():
    gradient(tf.function(lambda k: times_unreduced(tf.ones((4, 3)), k)), tf.ones(3))


def unreduced_and_used_twice():
    k = tf.ones(3)
    gradient(lambda k: times_unreduced(tf.ones((4, 3)), k) + tf.ones((4, 1)) * tf.exp(k), k)


def unreduced_optimizer():
    keras.optimizers.SGD().apply([tf.ones((4, 3))], [keras.Variable([1.0, 2.0, 3.0])])


def unreduced_optimizer_in_a_graph():
    v, optimizer = keras.Variable([1.0, 2.0, 3.0]), keras.optimizers.SGD()
    optimizer.build([v])
    tf.function(lambda: optimizer.apply([tf.ones((4, 3))], [v]))()


def unreduced_optimizer_in_a_graph_of_the_same_rank():
    v, optimizer = keras.Variable([[1.0, 2.0, 3.0]]), keras.optimizers.SGD()
    optimizer.build([v])
    tf.function(lambda: optimizer.apply([tf.ones((4, 3))], [v]))()


def unreduced_fused_optimizer():
    v = tf.Variable([1.0, 2.0, 3.0])
    tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.1, delta=tf.ones((4, 3)))


def twice_on_one_tape():
    with tf.GradientTape() as tape:
        tape.watch(ONE)
        y = ONE * ONE
    tape.gradient(y, ONE)
    tape.gradient(y, ONE)


def re_entered_tape():
    with tf.GradientTape() as tape, tape:
        pass


def variable_in_a_cond():
    w = tf.Variable(2.0, trainable=False)

    @tf.custom_gradient
    def f(x):
        return x * w, lambda dy: dy * w

    tf.function(
        lambda x: gradient(lambda x: tf.cond(tf.constant(True), lambda: f(x), lambda: x), x)
    )(ONE)


def sparse_upstream():
    @tf.custom_gradient
    def f(x):
        return tf.identity(x), lambda dy: dy * 2.0

    gradient(lambda x: tf.gather(f(x), [0]), tf.ones((2, 2)))


def op_that_xla_lacks():
    tf.function(lambda x: tf.strings.to_number(tf.strings.as_string(x)), jit_compile=True)(ONE)


def string_as_bool_in_a_graph():
    @tf.custom_gradient
    def f(x, mode):
        return (x if mode else 2.0 * x), lambda dy: (dy, None)

    tf.function(lambda x: f(x, True))(ONE)


def while_in_a_graph():
    @tf.custom_gradient
    def root(a):
        x = tf.ones_like(a)
        while tf.abs(x * x - a) > 1e-3:
            x = 0.5 * (x + a / x)
        return x, lambda dy: dy / (2.0 * x)

    tf.function(lambda a: root(a))(ONE + 1.0)


def if_in_a_graph():
    @tf.custom_gradient
    def f(a):
        if a > 0.0:
            return a * 2.0, lambda dy: dy * 2.0
        return a, lambda dy: dy

    tf.function(lambda a: f(a))(ONE)


def slices_with_a_list_in_a_graph():
    @tf.custom_gradient
    def rows(table):
        ids = tf.constant([1, 1])
        return tf.gather(table, ids), lambda dy: tf.IndexedSlices(dy, ids, dense_shape=[3, 2])

    tf.function(lambda table: gradient(rows, table))(tf.ones((3, 2)))


def range_in_a_graph():
    @tf.custom_gradient
    def f(x, n):
        return sum(x for _ in range(n)), lambda dy: (dy, None)

    tf.function(lambda x: f(x, 3))(ONE)


def a_rule_as_an_argument(use):
    @tf.custom_gradient
    def tripled(x):
        def grad(upstream):
            return 3.0 * upstream

        return 3.0 * x, grad

    def step(f, x):
        return use(f, x)

    tf.function(step)(tripled, ONE)


def no_gradient_in_a_graph():
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        tf.gradients(tf.math.bincount([0, 1], weights=x), x)


def numpy_in_a_graph():
    tf.function(lambda x: tf.constant(np.sin(x.numpy())))(ONE)


def math_in_a_graph():
    tf.function(lambda x: tf.constant(math.sqrt(x)))(ONE)


def numpy_function_in_a_graph():
    tf.function(lambda x: np.asarray(x))(ONE)


def numpy_in_a_layer():
    class Sine(keras.layers.Layer):
        def call(self, x):
            return tf.constant(np.sin(x.numpy()))

    keras.Sequential([keras.Input((3,)), Sine()])


REAL = {
    # pitfall: a call that raises its error on the installed release, words that the hint must hold
    "1 eager": (reads_a_variable, "reads a variable"),
    "1 graph": (reads_a_variable_in_a_graph, "variables=None"),
    "1 no pair": (takes_variables_returns_one, "pair"),
    "1 no pair, vector": (takes_variables_returns_a_pair_of_numbers, "pair"),
    "1 no pair, graph": (takes_variables_returns_one_in_a_graph, "`dx, [dw]`: a list with one"),
    "2 eager": (lambda: gradient(one_gradient_for_two, ONE, ONE), "2 positional argument(s)"),
    "2 too many": (lambda: gradient(two_gradients_for_one, ONE), "returned 2 gradient(s)"),
    "2 graph": (
        lambda: tf.function(lambda a: gradient(one_gradient_for_two, a, a))(ONE),
        "wrong number",
    ),
    "2 outer tape": (
        lambda: gradient(tf.function(lambda a: one_gradient_for_two(a, a)), ONE),
        "wrong number",
    ),
    "2 fit": (lambda: fit(Scale(one_gradient_for_two)), "wrong number"),
    "2 variables": (returns_too_many_variable_gradients, "variables"),
    "2 no rule": (lambda: without_a_rule(ONE), "return y, grad"),
    "2 no rule, graph": (lambda: in_a_graph(without_a_rule, ONE), "return y, grad"),
    "2 no function": (lambda: with_a_derivative_for_a_rule(tf.ones(2)), "no brackets"),
    "2 no function, graph": (
        lambda: in_a_graph(with_a_derivative_for_a_rule, tf.ones(2)),
        "no brackets",
    ),
    "4 fit": (lambda: fit(Scale(lambda x, w: tf.round(x * w))), "None"),
    "4 optimizer": (lambda: keras.optimizers.SGD().apply([None], [keras.Variable(1.0)]), "None"),
    "5 op": (
        no_gradient_in_a_graph,
        "DenseBincount",
    ),
    "5 op, eager": (op_without_a_gradient, "no gradient for Bincount"),
    "5 NumPy": (lambda: gradient(np.sin, ONE), "is a numpy.float32, and no tensor"),
    "5 NumPy source": (lambda: gradient(tf.sin, np.ones(2)), "is a numpy.ndarray"),
    "5 registered": (registered_twice, "the name Twice has a gradient already"),
    "6 graph": (by_keyword_in_a_graph, "by position"),
    "6 mixed": (by_keyword_and_by_position, "keyword"),
    "7 second order": (second_order_of_none, "None already"),
    "7 jacobian": (jacobian_with_numpy_in_the_rule, "jacobian"),
    "10 assign": (unreduced_assign, "another shape"),
    "10 optimizer": (unreduced_optimizer, "reduce_sum"),
    "10 graph": (unreduced_optimizer_in_a_graph, "reduce_sum"),
    "10 graph, same rank": (unreduced_optimizer_in_a_graph_of_the_same_rank, "reduce_sum"),
    "10 closed": (unreduced_in_a_closed_function, "sum what was broadcast"),
    "10 two uses": (unreduced_and_used_twice, "sum what was broadcast"),
    "10 fused": (unreduced_fused_optimizer, "another shape than the variable"),
    "10 matrices": (matrices_in_a_rule, "do not fit"),
    "11 outputs": (a_rule_with_one_argument_for_two_outputs, "one upstream per output"),
    "11 upstreams": (
        lambda: gradient(with_a_rule_of_two_arguments, ONE),
        "one upstream per output",
    ),
    "11 upstreams, graph": (
        lambda: in_a_graph(lambda x: gradient(with_a_rule_of_two_arguments, x), ONE),
        "one upstream per output",
    ),
    "11 upstreams, outer tape": (
        lambda: gradient(tf.function(with_a_rule_of_two_arguments), ONE),
        "one upstream per output",
    ),
    "11 jacobian": (a_rule_that_lists_all_derivatives, "8 gradient(s)"),
    "13 function": (lambda: tf.square(keras.Input((3,))), "layer"),
    "13 custom": (lambda: plain(keras.Input((3,)), ONE), "layer"),
    "13 numpy": (lambda: keras.Input((3,)).numpy(), "layer"),
    "16": (twice_on_one_tape, "persistent"),
    "17": (lambda: tf.gradients(ONE, ONE), "GradientTape"),
    "19 None": (lambda: plain(ONE, None), "Close over"),
    "19 callable": (lambda: plain(ONE, tf.sin), "Close over"),
    "19 None, graph": (lambda: tf.function(lambda x: plain(x, None))(ONE), "Close over"),
    "19 callable, graph": (lambda: tf.function(lambda x: plain(x, tf.sin))(ONE), "Close over"),
    "19 bool, graph": (string_as_bool_in_a_graph, "became a tensor"),
    "19 while, graph": (while_in_a_graph, "tf.while_loop, or put the loop into a @tf.function"),
    "19 if, graph": (if_in_a_graph, "asked a tensor for True or False"),
    "19 slices, graph": (slices_with_a_list_in_a_graph, "dense_shape=tf.shape(x)"),
    "19 range, graph": (range_in_a_graph, "became a tensor"),
    "19 rule, used": (
        lambda: a_rule_as_an_argument(lambda f, x: tf.tanh(f(x))),
        "given tripled as an argument",
    ),
    "19 rule, taped": (lambda: a_rule_as_an_argument(gradient), "close over it"),
    "20": (numpy_in_a_graph, "numpy_function"),
    "20 math": (math_in_a_graph, "`tf.sqrt`, not `math.sqrt`"),
    "20 asarray": (numpy_function_in_a_graph, "numpy_function"),
    "20 layer": (numpy_in_a_layer, "numpy_function"),
    "21": (lambda: gradient(lambda x: double_in_float64(x * 3.0), ONE), "double"),
    "21 sum": (lambda: gradient(lambda x: double_in_float64(x * 1.0) + x, ONE), "cast"),
    "21 graph": (
        lambda: tf.function(lambda x: gradient(lambda x: double_in_float64(x * 3.0), x))(ONE),
        "float64",
    ),
    "21 in a rule": (two_dtypes_in_a_rule, "in a rule"),
    "21 weight": (weight_in_a_rule_under_mixed_precision, "tf.cast(w, dy.dtype)"),
    "22": (variable_in_a_cond, "tf.cond"),
    "25": (sparse_upstream, "convert_to_tensor"),
    "xla": (op_that_xla_lacks, "XLA cannot compile AsString"),
    "28": (re_entered_tape, "one inside the other"),
}
