"""Arrays and nested structures as JSON: strict, and the same to the last bit when read back."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cgviz.files import codec

DTYPES = (
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint64"),
)


def through_json(document):
    return json.loads(json.dumps(document, allow_nan=False))


def assert_same(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


@given(st.data())
def test_every_number_comes_back_to_the_last_bit(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    numbers = arrays.from_dtype(np.dtype(dtype), allow_nan=False)
    shape = arrays.array_shapes(min_dims=0, min_side=0, max_side=4)
    array = data.draw(arrays.arrays(dtype, shape, elements=numbers))
    assert_same(codec.read_array(through_json(codec.write_array(array))), array)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16", "float8_e4m3fn"])
def test_a_large_array_comes_back_to_the_last_bit(dtype):
    array = (np.arange(5000) % 7).reshape(50, 100).astype(tf.as_dtype(dtype).as_numpy_dtype)
    document = through_json(codec.write_array(array))
    assert isinstance(document["data"], str)
    assert_same(codec.read_array(document), array)
    codec.read_array(document)[0] = 1  # writable, as NumPy's own


def test_bfloat16_comes_back():
    array = tf.constant([1.5, -0.0, 3e38, np.inf], tf.bfloat16).numpy()
    assert_same(codec.read_array(through_json(codec.write_array(array))), array)


def test_nan_and_infinity_are_strings():
    document = codec.write_array(np.array([np.nan, np.inf, -np.inf, -0.0], "f"))
    assert document["data"] == ["NaN", "Infinity", "-Infinity", -0.0]
    back = codec.read_array(through_json(document))
    np.testing.assert_array_equal(back, np.array([np.nan, np.inf, -np.inf, 0.0], "f"))
    assert math.copysign(1, back[3]) == -1


def test_complex_infinity_keeps_its_parts():
    array = np.array([complex(np.inf, 0), complex(1, -np.inf), complex(np.nan, 2)])
    back = codec.read_array(through_json(codec.write_array(array)))
    np.testing.assert_array_equal(back.real, array.real)
    np.testing.assert_array_equal(back.imag, array.imag)


def test_strings_of_any_bytes_come_back():
    array = tf.constant([b"plain", "größer".encode(), b"\xff\x00"]).numpy()
    assert codec.read_array(through_json(codec.write_array(array))).tolist() == array.tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_and_scalar_arrays_keep_their_shape(shape, dtype):
    array = np.zeros(shape, dtype)
    assert_same(codec.read_array(through_json(codec.write_array(array))), array)


@given(
    st.recursive(
        st.none() | st.floats(allow_nan=False).map(np.float64),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_a_structure_comes_back(structure):
    assert codec.read_structure(through_json(codec.write_structure(structure))) == structure
