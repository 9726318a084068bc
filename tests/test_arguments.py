"""What a caller hands in becomes tensors with names; a mistake is named in a sentence."""

import numpy as np
import pytest
import tensorflow as tf
from oracle import same, tape_gradient
from programs import square

import cgviz


def test_an_argument_given_twice_has_two_gradients():
    x = tf.constant(3.0)
    assert cgviz.trace(lambda a, b: a * a * b, x, x).gradients == (18.0, 9.0)


def test_nested_arguments_give_nested_gradients():
    def f(params, x):
        return params["w"] * x[0] + params["b"] * x[1]

    trace = cgviz.trace(f, {"w": 2.0, "b": 3.0}, (5.0, 7.0))
    assert trace.gradients == ({"w": 5.0, "b": 7.0}, (2.0, 3.0))
    assert [o.name for o in trace.ops[:4]] == ["params.w", "params.b", "x[0]", "x[1]"]


def test_integer_tensors_are_taken_and_get_none():
    logits = tf.constant([[1.0, 2.0, 3.0]])
    labels = tf.constant([2])

    def loss(logits, labels):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    trace = cgviz.trace(loss, logits, labels)
    same(trace.gradients[0], tape_gradient(lambda x: loss(x, labels), logits)[1][0])
    assert trace.gradients[1] is None


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((3.0, 2.0), TypeError, "`f` must be a function"),
        ((square,), ValueError, "at least one argument"),
        ((square, "2"), TypeError, "`x` is the string '2'"),
        ((square, None), TypeError, "`x` is None"),
        ((square, square), TypeError, "Close over it"),
        ((square, 2), ValueError, "Write `2.` instead"),
        ((square, [1, 2]), ValueError, "made of integers"),
        ((square, np.array([1, 2])), ValueError, "no floating-point numbers"),
        ((square, True), ValueError, "made of integers"),
        ((square, [[1.0], [1.0, 2.0]]), TypeError, "rows differ in length"),
        ((square, tf.ragged.constant([[1.0], []])), TypeError, "RaggedTensor"),
        ((lambda x: None, 1.0), TypeError, "returned None"),
        ((lambda x: 3.0, 1.0), TypeError, "must return a tensor"),
        ((lambda x: x.numpy() * 2, 1.0), TypeError, "must return a tensor"),
        ((lambda x: (), 1.0), TypeError, "empty tuple"),
    ],
)
def test_a_mistake_is_named_in_a_sentence(arguments, error, words):
    with pytest.raises(error, match=words):
        cgviz.trace(*arguments)


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "2"])
def test_a_wrong_order_is_named(order):
    with pytest.raises(ValueError, match="`order` must be"):
        cgviz.trace(square, 1.0, order=order)


def test_a_wrong_upstream_is_named():
    with pytest.raises(ValueError, match=r"`upstream` has shape \(2,\)"):
        cgviz.trace(square, 1.0, upstream=[1.0, 2.0])
    with pytest.raises(ValueError, match="`upstream` has 1 entries"):
        cgviz.trace(lambda x: (x, x), 1.0, upstream=(1.0,))
