"""The gradients of TensorFlow's own tape, and how a trace is compared with them."""

import numpy as np
import tensorflow as tf


def tape_gradient(f, *args, upstream=None):
    """f(*args), and its gradients by TensorFlow's own tape, with nothing recorded."""
    with tf.GradientTape() as tape:
        tape.watch([a for a in args if isinstance(a, tf.Tensor)])
        y = f(*args)
    sources = [*args, *(v for v in tape.watched_variables() if all(v is not a for a in args))]
    return y, tape.gradient(y, sources, output_gradients=upstream)


def same(ours, theirs):
    """Assert that two gradients are equal to the last bit, NaN to NaN and None only to None."""
    if ours is None or theirs is None:
        assert ours is None
        assert theirs is None
        return
    theirs = tf.convert_to_tensor(theirs).numpy()
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert ours.tobytes() == theirs.tobytes()


def edges_sum_to_upstream(trace):
    """Assert that the gradients from all uses of a value add up to the upstream of its maker."""
    for each in trace.passes:
        for step in each.steps:
            for value, upstream in zip(step.op.outputs, step.upstream, strict=True):
                parts = [part.astype(np.float64) for _, _, part in each.contributions(value)]
                if value.key in {t.key for t in each.targets} or not parts:
                    continue
                np.testing.assert_allclose(sum(parts), upstream, rtol=1e-4, atol=1e-5)
