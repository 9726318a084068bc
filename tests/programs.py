"""Small programs that many tests record."""

import tensorflow as tf


@tf.custom_gradient
def square(x):
    def grad(upstream):
        return upstream * 2 * x

    return x * x, grad


def thrice(x):
    a = square(x)
    b = square(a)
    y = square(b)
    return y


def nested(x):
    with tf.name_scope("part"):
        y = tf.sin(square(x))
    return y


def once():
    """A custom identity whose rule raises an error when it runs a second time."""
    runs = []

    @tf.custom_gradient
    def once(x):
        def grad(upstream):
            runs.append(upstream)
            if len(runs) > 1:
                raise ValueError("once only")
            return upstream

        return x + 0.0, grad

    return once


@tf.custom_gradient
def two_rows(table):
    """Rows 0 and 2; the rule returns slices without the shape of the table."""

    def grad(upstream):
        return tf.IndexedSlices(upstream, tf.constant([0, 2]))

    return tf.gather(table, [0, 2]), grad


def log1pexp(x):
    """log(1 + e^x); above 88 it overflows, and its gradient is NaN."""
    e = tf.exp(x)
    return tf.math.log(1.0 + e)


@tf.custom_gradient
def documented(x):
    """`log1pexp` with the rule of TensorFlow's documentation, whose gradient stays finite."""
    e = tf.exp(x)
    return tf.math.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


def penalty(x):
    """A value and the square of its own slope: a pass in a pass."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(x) * x
    slope = tape.gradient(y, x)
    return y + slope * slope
