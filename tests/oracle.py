"""What TensorFlow's own tape says, and how a trace is held against it."""

import numpy as np
import tensorflow as tf


def tape_gradient(f, *args, upstream=None):
    """What TensorFlow's own tape says, with no recording anywhere."""
    with tf.GradientTape() as tape:
        tape.watch([a for a in args if isinstance(a, tf.Tensor)])
        y = f(*args)
    sources = [*args, *(v for v in tape.watched_variables() if all(v is not a for a in args))]
    return y, tape.gradient(y, sources, output_gradients=upstream)


def same(ours, theirs):
    """Equal to the last bit, NaN equal to NaN, None only to None."""
    if ours is None or theirs is None:
        assert ours is None
        assert theirs is None
        return
    theirs = tf.convert_to_tensor(theirs).numpy()
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert ours.tobytes() == theirs.tobytes()


def edges_sum_to_upstream(trace):
    """What the uses of a value return adds up to what its maker receives."""
    for each in trace.passes:
        for step in each.steps:
            for value, upstream in zip(step.op.outputs, step.upstream, strict=True):
                parts = [part.astype(np.float64) for _, _, part in each.contributions(value)]
                if value.key in {t.key for t in each.targets} or not parts:
                    continue
                np.testing.assert_allclose(sum(parts), upstream, rtol=1e-4, atol=1e-5)
