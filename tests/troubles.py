"""Small programs with a gradient that goes wrong, and what a diagnosis finds in them."""

import tensorflow as tf

import cgviz


def found(trace, which=None):
    """(what, op type) of each finding."""
    return [(f.what, f.op.type if f.op else "") for f in trace.diagnose(which)]


def only(trace, which=None):
    """The one finding of a diagnosis."""
    (finding,) = trace.diagnose(which)
    assert finding.hint
    assert finding.lesson[:2].isdigit()
    return finding


def recorded(body):
    """The trace of a body that opens its own tape."""
    with cgviz.record() as trace:
        body()
    return trace


def curvature(f, t):
    """The second derivative of f at t by two tapes, as in the equation of a physics loss."""
    with tf.GradientTape() as second:
        second.watch(t)
        with tf.GradientTape() as first:
            first.watch(t)
            y = f(t)
        slope = first.gradient(y, t)
    return second.gradient(slope, t)


# --- programs that get None --------------------------------------------------------------------

X = tf.constant(2.0)


def not_watched():
    with tf.GradientTape() as tape:
        y = X * X
    tape.gradient(y, X)


def outside():
    z = X * 3.0
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = z * z
    tape.gradient(y, X)


def stopped_on_the_way():
    with tf.GradientTape() as tape:
        tape.watch(X)
        a = tf.cos(X)
        with tape.stop_recording():
            b = tf.sin(a)
        y = b * 2.0
    tape.gradient(y, X)


def forgotten():
    with tf.GradientTape() as tape:
        tape.watch(X)
        a = tf.cos(X)
        tape.reset()
        y = X * a
    tape.gradient(y, X)


def watched_integer():
    n = tf.constant(2)
    with tf.GradientTape() as tape:
        tape.watch(n)
        y = tf.cast(n, tf.float32) * 2.0
    tape.gradient(y, n)


def not_trainable():
    w = tf.Variable(3.0, trainable=False, name="w")
    with tf.GradientTape() as tape:
        y = w * X
    tape.gradient(y, w)


def reassigned():
    v = tf.Variable(3.0, name="v")
    v = v - 0.1
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)


def other_tape():
    with tf.GradientTape() as one:
        one.watch(X)
        z = tf.sin(X)
    with tf.GradientTape() as two:
        two.watch(z)
        y = z * z
    two.gradient(y, X)


def only_assigned():
    v = tf.Variable(3.0, name="v")
    with tf.GradientTape() as tape:
        tape.watch(X)
        v.assign_add(1.0)
        y = X * 3.0
    tape.gradient(y, v)


def through_an_assignment():
    w = tf.Variable(3.0, name="w")
    with tf.GradientTape() as tape:
        tape.watch(X)
        w.assign(X * X)
        y = w * 2.0
    tape.gradient(y, X)


@tf.custom_gradient
def numpy_rule(x):
    number = x.numpy()
    return x * x, lambda dy: dy * 2.0 * number


def through_numpy(x):
    y = tf.sin(x).numpy()
    return tf.constant(y) * 2.0


def never_returned(x):
    tf.sin(x)
    return tf.constant(3.0) * 2.0


CUT = {  # by cause: the program, the op that cuts the gradient, and words of the finding
    "round": (lambda x: tf.round(x) * 3.0, "Round", "flat between its steps"),
    "floor": (lambda x: tf.floor(x), "Floor", "no gradient for Floor"),
    "argmax": (lambda x: tf.cast(tf.argmax([x, 1.0]), tf.float32) * 2.0, "ArgMax", "int64"),
    "cast": (lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), "Cast", "int32"),
    "comparison": (lambda x: tf.where(x > 1.0, 2.0, 3.0), "Greater", "True and False"),
    "stop_gradient": (lambda x: tf.stop_gradient(x * 2.0) * 3.0, "StopGradient", "no gradient"),
    "NumPy": (through_numpy, "Sin", "left TensorFlow"),
    "dead end": (never_returned, "Sin", "never reaches the target"),
}
