"""A trace as a document: strict JSON, and the same to the last bit when it is read back."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from programs import once, square

import cgviz
from cgviz import files
from cgviz.graph import Statistics, Trace
from cgviz.graph.jacobian import LargeJacobian

DTYPES = (
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint64"),
)


def again(trace, tmp_path, **how):
    path = tmp_path / "again.json"
    trace.save(path, **how)
    return cgviz.load(path)


def through_a_file(value, full=True):
    """A trace's value, written and read."""
    text = files.document(Trace("f", value, (), {}, (), ()), full)
    json.loads(text, parse_constant=pytest.fail)  # strict
    return files.read(json.loads(text)).value


def assert_same(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


# --- numbers -------------------------------------------------------------------------------------


@given(st.data())
def test_every_number_comes_back_to_the_last_bit(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    numbers = arrays.from_dtype(np.dtype(dtype), allow_nan=False)
    shape = arrays.array_shapes(min_dims=0, min_side=0, max_side=4)
    array = data.draw(arrays.arrays(dtype, shape, elements=numbers))
    assert_same(through_a_file(array), array)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16", "float8_e4m3fn"])
def test_a_large_array_comes_back_to_the_last_bit(dtype):
    array = (np.arange(5000) % 7).reshape(50, 100).astype(tf.as_dtype(dtype).as_numpy_dtype)
    assert_same(through_a_file(array), array)


def test_bfloat16_comes_back():
    array = tf.constant([1.5, -0.0, 3e38, np.inf], tf.bfloat16).numpy()
    assert_same(through_a_file(array), array)


def test_nan_infinity_and_minus_zero_come_back():
    array = np.array([np.nan, np.inf, -np.inf, -0.0], "f")
    assert_same(through_a_file(array), array)
    numbers = through_a_file((math.inf, 0.5, np.float64("nan")))
    assert numbers[:2] == (math.inf, 0.5)
    assert np.isnan(numbers[2])


def test_complex_infinity_keeps_its_parts():
    array = np.array([complex(np.inf, 0), complex(1, -np.inf), complex(np.nan, 2)])
    back = through_a_file(array)
    np.testing.assert_array_equal(back.real, array.real)
    np.testing.assert_array_equal(back.imag, array.imag)


def test_strings_of_any_bytes_come_back():
    array = tf.constant([b"plain", "größer".encode(), b"\xff\x00"]).numpy()
    assert through_a_file(array).tolist() == array.tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_and_scalar_arrays_keep_their_shape(shape, dtype):
    array = np.zeros(shape, dtype)
    assert_same(through_a_file(array), array)


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
    assert through_a_file(structure) == structure


# --- traces --------------------------------------------------------------------------------------


def test_ops_values_and_passes_come_back(tmp_path):
    v = tf.Variable([1.0, 2.0], name="v")
    trace = cgviz.trace(lambda x: tf.reduce_sum(square(x) * v), [1.0, 3.0], order=2)
    back = again(trace, tmp_path)
    for one, other in zip(trace.ops, back.ops, strict=True):
        for name in ("name", "kind", "type", "scope", "watched", "rule_variables"):
            assert getattr(one, name) == getattr(other, name)
        assert str(one.source) == str(other.source)
        assert [o.name for o in one.body] == [o.name for o in other.body]
        for a, b in zip(one.outputs, other.outputs, strict=True):
            assert (a.key, a.shape, a.dtype) == (b.key, b.shape, b.dtype)
            assert_same(a.numpy(), b.numpy())
    assert [p.index for p in back.passes] == [0, 1]
    for one, other in zip(trace.passes, back.passes, strict=True):
        assert [o.name for o in one.ops] == [o.name for o in other.ops]
        assert [s.key for s in one.sources] == [s.key for s in other.sources]
        for a, b in zip(one.gradients, other.gradients, strict=True):
            assert_same(a, b)
        for a, b in zip(one.steps, other.steps, strict=True):
            assert a.op.name == b.op.name
            assert a.flows == b.flows
            for x, y in zip(a.upstream + a.downstream, b.upstream + b.downstream, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    assert_same(x, y)
    np.testing.assert_array_equal(back.variables["v"], trace.variables["v"])


@pytest.mark.parametrize(
    "f",
    [
        square,
        lambda x: x * x + tf.sin(x),
        lambda x: tf.math.log(x) * tf.round(x),
        lambda x: tf.reduce_sum(tf.split(tf.stack([x, x * x]), 2)[0]),
    ],
)
@pytest.mark.parametrize("x", [2.0, 0.0, np.float64(0.1), np.nan])
def test_a_read_trace_shows_what_the_first_one_showed(f, x, tmp_path):
    trace = cgviz.trace(f, x)
    back = again(trace, tmp_path)
    assert repr(back) == repr(trace)
    assert back.table()._repr_html_() == trace.table()._repr_html_()
    assert str(back.chain_rule()) == str(trace.chain_rule())
    assert back.chain_rule()._repr_latex_() == trace.chain_rule()._repr_latex_()


def test_a_small_local_is_kept_and_a_larger_one_says_it_cannot_be_had(tmp_path):
    back = again(cgviz.trace(lambda x: tf.reduce_sum(tf.sin(x)), np.ones(20, "f")), tmp_path)
    total, sin = back.steps
    np.testing.assert_array_equal(total.local[0][0], np.ones(20))
    with pytest.raises(RuntimeError, match=r"`Sin` cannot run again: .* read from a file"):
        _ = sin.local
    assert "this trace was read from a file" in " ".join(str(back.chain_rule()).split())
    assert repr(back.table())


def test_a_large_local_stays_a_summary_whose_product_cannot_be_had(tmp_path):
    back = again(cgviz.trace(tf.sin, np.ones(300, "f")), tmp_path)
    large = back.steps[0].local[0][0]
    assert isinstance(large, LargeJacobian)
    assert large.shape == (300, 300)
    with pytest.raises(RuntimeError, match=r"`Sin` cannot run again: .* read from a file"):
        back.steps[0].vjp([np.ones(300)])


def test_beside_a_small_local_a_larger_one_stays_a_summary(tmp_path):
    trace = cgviz.trace(lambda x, y: x + y, np.ones(20, "f"), np.float32(1))
    by_x, by_y = again(trace, tmp_path).steps[0].local[0]
    assert isinstance(by_x, LargeJacobian)
    np.testing.assert_array_equal(by_y, np.ones(20))


def test_a_rule_that_cannot_run_again_is_saved_without_its_local(tmp_path):
    back = again(cgviz.trace(once(), 1.0), tmp_path)
    assert "not known" in repr(back)
    with pytest.raises(RuntimeError, match="cannot run again"):
        _ = back.steps[0].local


def test_the_folder_of_the_learners_file_is_not_told(tmp_path):
    back = again(cgviz.trace(square, 2.0), tmp_path)
    assert {op.source.file for op in back.walk() if op.source} == {"programs.py"}


def test_a_trace_without_a_pass_comes_back(tmp_path):
    with cgviz.record() as trace:
        tf.square(2.0)
    back = again(trace, tmp_path)
    assert back.passes == ()
    assert repr(back) == repr(trace)


# --- large arrays --------------------------------------------------------------------------------


def steep(x):
    return tf.reduce_sum(tf.exp(x) * x)


LARGE = np.linspace(-0.9, 1.0, 5000, dtype="f").reshape(50, 100)


def test_of_a_large_array_a_file_keeps_the_statistics(tmp_path):
    trace = cgviz.trace(steep, LARGE)
    back = again(trace, tmp_path)
    kept = back.gradients[0]
    assert isinstance(kept, Statistics)
    gradient = trace.gradients[0].astype("d")
    assert (kept.shape, kept.dtype) == ((50, 100), "float32")
    assert (kept.low, kept.high) == (gradient.min(), gradient.max())
    assert kept.norm == np.sqrt(np.sum(gradient**2))
    assert (kept.zeros, kept.nans, kept.infinities) == (0, 0, 0)


@pytest.mark.parametrize(
    "use",
    [
        lambda array: array[0],
        lambda array: list(array),
        lambda array: array * 2.0,
        lambda array: 1.0 - array,
        lambda array: array > 0.0,
        lambda array: array.max(),
        lambda array: array.T,
        np.mean,
        np.abs,
    ],
)
def test_whoever_computes_with_statistics_is_told_how_to_keep_the_numbers(tmp_path, use):
    (gradient,) = again(cgviz.trace(steep, LARGE), tmp_path).gradients
    with pytest.raises((RuntimeError, AttributeError), match="the trace with `full=True`"):
        use(gradient)
    assert copy.deepcopy(pickle.loads(pickle.dumps(gradient))) == gradient


def test_what_is_read_of_large_arrays_is_what_it_was(tmp_path):
    trace = cgviz.trace(steep, LARGE)
    back = again(trace, tmp_path)
    assert repr(back) == repr(trace)
    assert back.table()._repr_html_() == trace.table()._repr_html_()
    assert back.plot().cgviz_alt == trace.plot().cgviz_alt
    assert back.view().words == trace.view().words


def test_asking_for_numbers_that_are_not_in_the_file_says_how_to_keep_them(tmp_path):
    back = again(cgviz.trace(steep, LARGE), tmp_path)
    with pytest.raises(RuntimeError, match=r"save the trace with `full=True`"):
        np.asarray(back.gradients[0])


def test_statistics_are_not_saved_as_all_numbers_and_diagnose_says_what_it_misses(tmp_path):
    back = again(cgviz.trace(tf.sin, np.ones(2000, "float32")), tmp_path)
    with pytest.raises(ValueError, match="`full` needs all numbers, and the file"):
        back.save(tmp_path / "all.json", full=True)
    with pytest.raises(RuntimeError, match="save the trace with `full=True` to keep its numbers"):
        back.diagnose()


def test_all_numbers_are_kept_where_they_are_asked_for(tmp_path):
    trace = cgviz.trace(steep, LARGE)
    assert_same(again(trace, tmp_path, full=True).gradients[0], trace.gradients[0])


def test_equal_arrays_are_stored_once(tmp_path):
    trace = cgviz.trace(lambda x: tf.reduce_sum(x + x + x), np.arange(1000, dtype="f"))
    trace.save(tmp_path / "sum.json")
    document = json.loads((tmp_path / "sum.json").read_bytes())
    large = [each for each in document["nodes"] if each[0] == "array" and 1000 in each[2]]
    assert len(large) == 5  # x, x + x, x + x + x; and of the gradients 1, 1 + 1 and 1 + 1 + 1
