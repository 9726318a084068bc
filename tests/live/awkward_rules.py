"""Rules that say something else than upstream x local, or in an unusual form."""

import tensorflow as tf

import cgviz


def _with_rule(rule, forward=tf.identity):
    @tf.custom_gradient
    def op(*inputs):
        return forward(*inputs), lambda *upstream: rule(*upstream, *inputs)

    return op


def clipping():
    op = _with_rule(lambda up, x: tf.clip_by_value(up, -1.0, 1.0))
    return cgviz.trace(op, 2.0, upstream=5.0)


def clipping_a_matrix():
    op = _with_rule(lambda up, x: tf.clip_by_value(up, -1.0, 1.0))
    return cgviz.trace(op, [[1.0, 2.0], [3.0, 4.0]], upstream=[[0.5, 5.0], [-7.0, 1.0]])


def ignoring_upstream():
    return cgviz.trace(_with_rule(lambda up, x: 2.0 * x, tf.square), 2.0, upstream=8.0)


def ignoring_one_of_two():
    op = _with_rule(lambda one, two, x: one * 3.0, lambda x: (x * 3.0, x * x))
    return cgviz.trace(lambda x: tf.add_n(op(x)), 2.0)


def two_outputs():
    op = _with_rule(
        lambda one, two, x: one * tf.cos(x) - two * tf.sin(x), lambda x: (tf.sin(x), tf.cos(x))
    )

    def f(x):
        one, two = op(x)
        return one * two

    return cgviz.trace(f, 0.7)


def two_outputs_of_vectors():
    return cgviz.trace(lambda x: tf.reduce_sum(tf.multiply(*tf.split(x, 2))), [1.0, 2.0, -3.0, 0.3])


def one_output_unused():
    op = _with_rule(lambda one, two, x: one + two, lambda x: (x, x))
    return cgviz.trace(lambda x: op(x)[1] * 2.0, 2.0)


def several_inputs():
    op = _with_rule(lambda up, a, b, c: (up * b, up * a, None), lambda a, b, c: a * b + c)
    return cgviz.trace(op, 2.0, 3.0, 4.0, upstream=-0.3)


def of_another_shape():
    op = _with_rule(lambda up, x: tf.reduce_sum(up), lambda x: 2.0 * x)
    return cgviz.trace(op, [1.0, 2.0])


def matrices():
    return cgviz.trace(
        lambda a, b: tf.nn.softmax(a @ b),
        [[1.0, 2.0]],
        [[0.5, -1.0], [0.25, 1.0]],
        upstream=[[3.0, -1.0]],
    )


def used_often():
    return cgviz.trace(lambda x: x * x * x + 2.0 * x - tf.sin(x), [0.1, -2.0])


def not_a_number():
    return cgviz.trace(lambda x: tf.sqrt(x) + tf.math.log(x), -1.0)


def zero_times_infinity():
    return cgviz.trace(lambda x: tf.sqrt(x) * 0.0, 0.0)


def too_large():
    return cgviz.trace(lambda x: x * 1e30, 1.0, upstream=1e30)


def too_small():
    return cgviz.trace(lambda x: x * 1e-30, 1.0, upstream=1e-30)


def noisy():
    op = _with_rule(lambda up, x: up * (1.0 + 0.25 * tf.sign(up)))
    return cgviz.trace(op, 1.0, upstream=-2.0)


RULES = {
    f.__name__: f
    for f in (
        *(clipping, clipping_a_matrix, ignoring_upstream, ignoring_one_of_two, two_outputs),
        *(two_outputs_of_vectors, one_output_unused, several_inputs, of_another_shape, matrices),
        *(used_often, not_a_number, zero_times_infinity, too_large, too_small, noisy),
    )
}
