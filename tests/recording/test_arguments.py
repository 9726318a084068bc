"""What a caller hands in becomes tensors with names; a mistake is named in a sentence."""

from collections import namedtuple
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from oracle import same, tape_gradient
from programs import square

import cgviz
from cgviz.recording.arguments import (
    as_source,
    can_be_watched,
    check_value,
    convert,
    parameter_names,
    seeds,
    title,
)

# --- arguments become tensors ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (2.0, "float32"),
        ([], "float32"),
        ([[1, 2.5]], "float32"),
        (float("nan"), "float32"),
        (np.float64(2.0), "float64"),
        (np.zeros((0, 3)), "float64"),
        (np.array([1.0, 2.0], ">f4"), "float32"),
        (np.float16(2.0), "float16"),
        (1 + 2j, "complex128"),
    ],
)
def test_python_numbers_become_float32_and_numpys_keep_their_type(given, dtype):
    ((tensor,), _) = convert(square, [given])
    assert tensor.dtype.name == dtype
    np.testing.assert_array_equal(tensor.numpy(), given)


class Series:
    """An array of another library: pandas, JAX and torch have such."""

    dtype = np.dtype("float32")

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0], self.dtype)


def test_an_array_of_another_library_is_taken_as_numpys():
    assert cgviz.trace(square, Series()).gradients[0].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("number", [1e-300, 3.4028235e38, float("-inf")])
def test_a_float_is_rounded_to_float32_as_tensorflow_does(number):
    ((tensor,), _) = convert(square, [number])
    same(tensor.numpy(), tf.constant(number))


def test_tensors_and_variables_are_taken_as_they_are():
    x, v = tf.constant([1.0]), tf.Variable([2.0])
    k = keras.Variable([3.0])
    given, named = convert(lambda x, v, k: x, [x, v, k])
    assert all(ours is theirs for ours, theirs in zip(given, (x, v, k), strict=True))
    assert [(tensor is x, name) for tensor, name in named] == [(True, "x")]


def test_an_argument_given_twice_has_two_gradients():
    x = tf.constant(3.0)
    assert cgviz.trace(lambda a, b: a * a * b, x, x).gradients == (18.0, 9.0)


def test_nested_arguments_give_nested_gradients():
    def f(params, x):
        return params["w"] * x[0] + params["b"] * x[1]

    trace = cgviz.trace(f, {"w": 2.0, "b": 3.0}, (5.0, 7.0))
    assert trace.gradients == ({"w": 5.0, "b": 7.0}, (2.0, 3.0))
    assert [o.name for o in trace.ops[:4]] == ["params.w", "params.b", "x[0]", "x[1]"]


def test_a_list_of_numbers_is_one_tensor_and_a_list_of_tensors_a_structure_at_any_depth():
    w, b = tf.constant([[2.0]]), np.float32([3.0])
    (layers, rows), named = convert(lambda layers, rows: 0, [[(w, b), {"w": w}], [[1.0], [2.0]]])
    assert rows.shape == (2, 1)
    assert [[leaf.shape for leaf in tf.nest.flatten(layer)] for layer in layers] == [
        [(1, 1), (1,)],
        [(1, 1)],
    ]
    names = ["layers[0][0]", "layers[0][1]", "layers[1].w", "rows"]
    assert [name for _, name in named] == names


def test_a_models_list_of_variables_is_an_argument():
    layer = keras.layers.Dense(1)
    x = tf.ones((1, 2))
    layer(x)
    trace = cgviz.trace(lambda weights: layer(x) * 3.0, layer.trainable_variables)
    kernel, bias = trace.gradients[0]
    np.testing.assert_array_equal(kernel, [[3.0], [3.0]])
    np.testing.assert_array_equal(bias, [3.0])


def test_a_named_tuple_stays_one():
    Pair = namedtuple("Pair", "a b")
    assert cgviz.trace(lambda pair: pair.a * pair.b, Pair(2.0, 3.0)).gradients == (Pair(3.0, 2.0),)


def test_integer_tensors_are_taken_and_get_none():
    logits = tf.constant([[1.0, 2.0, 3.0]])
    labels = tf.constant([2])

    def loss(logits, labels):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    trace = cgviz.trace(loss, logits, labels)
    same(trace.gradients[0], tape_gradient(lambda x: loss(x, labels), logits)[1][0])
    assert trace.gradients[1] is None


# --- names -----------------------------------------------------------------------------------


class Scale:
    """A callable object, which has no `__name__`."""

    def __call__(self, factor, x):
        return factor * x


@pytest.mark.parametrize(
    ("f", "count", "expected"),
    [
        (lambda a, b=1.0, *, c=2.0: a, 2, ["a", "b"]),
        (lambda *xs: xs, 1, ["x"]),
        (lambda *xs: xs, 2, ["x0", "x1"]),
        (lambda a, *rest: a, 3, ["a", "x1", "x2"]),
        (lambda a: a, 2, ["a", "x1"]),
        (partial(tf.add, 1.0), 1, ["y"]),
        (tf.function(lambda q: q), 1, ["q"]),
        (Scale(), 2, ["factor", "x"]),
        (keras.layers.Dense(1), 1, ["x"]),
        (max, 1, ["x"]),  # no signature that Python can tell
    ],
)
def test_arguments_have_the_names_of_the_parameters(f, count, expected):
    assert parameter_names(f, count) == expected


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x, "f"),
        (square, "square"),
        (tf.function(lambda x: x), "f"),
        (partial(partial(tf.add, 1.0), 2.0), "add"),
        (tf.function(partial(tf.add, 1.0)), "add"),
        (keras.layers.Dense(1, name="last"), "last"),
        (Scale(), "Scale"),
        (Scale().__call__, "__call__"),
    ],
)
def test_a_title_is_the_name_that_the_learner_gave(f, expected):
    assert title(f) == expected


def test_a_keras_variable_is_differentiated_by_the_variable_inside_it():
    k = keras.Variable([3.0])
    assert isinstance(as_source(k), tf.Variable)
    v, x = tf.Variable(1.0), tf.constant(1.0)
    assert as_source(v) is v
    assert as_source(x) is x


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (tf.constant(1.0, tf.bfloat16), True),
        (tf.constant(1j), True),
        (tf.Variable(1), False),
        (tf.constant("1"), False),
        (tf.constant(True), False),
    ],
)
def test_a_tape_watches_floats_and_complex_numbers_only(tensor, expected):
    assert can_be_watched(tensor) is expected
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = tf.identity(tensor)
    assert (tape.gradient(y, tensor) is not None) is expected


# --- f's value and upstream ------------------------------------------------------------------


def test_the_tensors_of_a_value_are_flat_and_variables_are_read():
    v = tf.Variable(2.0)
    found = check_value({"b": v, "a": [tf.constant(1.0)]}, square)
    assert [float(t) for t in found] == [1.0, 2.0]
    assert not any(isinstance(t, tf.Variable) for t in found)
    with pytest.raises(TypeError, match="`square` must return a tensor, and it returned None"):
        check_value((v, None), square)


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        (([1.0, 2.0], [3.0, 4.0]), [[1, 2], [3, 4]]),
        ([[1.0, 2.0], [3.0, 4.0]], [[1, 2], [3, 4]]),
        ({"b": [1.0, 2.0], "a": tf.constant([3.0, 4.0])}, [[3, 4], [1, 2]]),
        ((np.float64([0, np.inf]), None), [[0, np.inf], [1, 1]]),
    ],
)
def test_each_tensor_of_the_value_has_its_upstream(upstream, expected):
    found = seeds(upstream, [tf.zeros(2), tf.zeros(2)])
    for ours, theirs in zip(found, expected, strict=True):
        same(ours.numpy(), tf.constant(theirs, tf.float32))


def test_an_upstream_left_out_means_ones():
    assert seeds(None, [tf.zeros(2)]) is None
    trace = cgviz.trace(lambda x: (x, x * x, tf.constant("label")), 3.0, upstream=(None, 2.0, None))
    assert trace.gradients == (13.0,)  # the tape itself ends the process here


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((3.0, 2.0), TypeError, "`f` must be a function"),
        ((square,), ValueError, "at least one argument"),
        ((square, "2"), TypeError, "`x` is the string '2'"),
        ((square, None), TypeError, "`x` is None"),
        ((square, square), TypeError, "Close over it"),
        ((square, 2), ValueError, "`2.` for 2"),
        ((square, [1, 2]), ValueError, "made of integers"),
        ((square, np.array([1, 2])), ValueError, "no floating-point numbers"),
        ((square, True), ValueError, "is True, made of integers"),
        ((square, ()), ValueError, "nothing to differentiate with respect to: `x`"),
        ((square, "a"), TypeError, r"Close over it instead: cgviz.trace\(lambda x: f\(x, setting"),
        ((square, {1.0}), TypeError, "`x` is a set, and must be made of numbers"),
        ((square, np.array(["2"])), TypeError, "a ndarray, and must be made of numbers"),
        ((square, keras.Input((2,))), TypeError, "`x` is a KerasTensor, .* a dense tensor with"),
        ((square, [[1.0], [1.0, 2.0]]), TypeError, "rows differ in length"),
        ((square, tf.ragged.constant([[1.0], []])), TypeError, "RaggedTensor.*`.flat_values`"),
        ((lambda x: None, 1.0), TypeError, "returned None"),
        ((lambda x: (), 1.0), TypeError, r"returned \(\), no tensor. Does it end in `return`"),
        ((lambda x: 3.0, 1.0), TypeError, "must return a tensor"),
        ((lambda x: x.numpy() * 2, 1.0), TypeError, "must return a tensor"),
        (
            (lambda x: tf.RaggedTensor.from_row_lengths(x, [2]), [1.0, 2.0]),
            TypeError,
            "flat_values",
        ),
        ((tf.sparse.from_dense, [1.0, 2.0]), TypeError, r"`\.values`"),
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
    with pytest.raises(ValueError, match=r"`upstream` has shape \(\) and dtype string"):
        cgviz.trace(square, 1.0, upstream="a")
    with pytest.raises(ValueError, match="`upstream` has 1 entries"):
        cgviz.trace(lambda x: (x, x), 1.0, upstream=(1.0,))
    with pytest.raises(ValueError, match=r"dtype complex128, .* dtype float32: they must agree"):
        cgviz.trace(square, 1.0, upstream=1j)
    with pytest.raises(TypeError, match=r"`upstream\[0\]` is a list whose rows differ"):
        cgviz.trace(lambda x: (x, x), 1.0, upstream=([[1.0], [1.0, 2.0]], 1.0))
