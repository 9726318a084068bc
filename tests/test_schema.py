"""A trace as a JSON document: strict, and the same to the last bit when it is read back."""

import json

import numpy as np
import pytest
import tensorflow as tf
from programs import once, square

import cgviz
from cgviz.files import schema
from cgviz.graph import Value
from cgviz.graph.jacobian import LargeJacobian


def through_json(document):
    return json.loads(json.dumps(document, allow_nan=False))


def again(trace):
    return schema.read(through_json(schema.write(trace)))


def assert_same(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


def test_the_document_says_what_it_is():
    document = schema.write(cgviz.trace(square, 2.0))
    assert list(document)[:2] == ["format", "version"]
    assert (document["format"], document["version"]) == ("cgviz trace", 1)


def test_ops_values_and_passes_come_back():
    v = tf.Variable([1.0, 2.0], name="v")
    trace = cgviz.trace(lambda x: tf.reduce_sum(square(x) * v), [1.0, 3.0], order=2)
    back = again(trace)
    for one, other in zip(trace.ops, back.ops, strict=True):
        for name in ("name", "kind", "type", "scope", "watched", "recorded", "rule_variables"):
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
def test_a_read_trace_shows_what_the_first_one_showed(f, x):
    trace = cgviz.trace(f, x)
    back = again(trace)
    assert repr(back) == repr(trace)
    assert back.table()._repr_html_() == trace.table()._repr_html_()
    assert str(back.chain_rule()) == str(trace.chain_rule())
    assert back.chain_rule()._repr_latex_() == trace.chain_rule()._repr_latex_()


def test_writing_a_read_trace_changes_nothing():
    document = schema.write(cgviz.trace(lambda x: square(x) * tf.sin(x), [0.3, 0.7], order=2))
    assert schema.write(schema.read(through_json(document))) == through_json(document)


def test_a_small_local_is_kept_and_a_larger_one_says_it_cannot_be_had():
    back = again(cgviz.trace(lambda x: tf.reduce_sum(tf.sin(x)), np.ones(20, "f")))
    total, sin = back.steps
    np.testing.assert_array_equal(total.local[0][0], np.ones(20))
    with pytest.raises(RuntimeError, match=r"`Sin` cannot run again: .* read from a file"):
        _ = sin.local
    assert "this trace was read from a file" in " ".join(str(back.chain_rule()).split())
    assert repr(back.table())


def test_a_large_local_stays_a_summary_whose_product_cannot_be_had():
    back = again(cgviz.trace(tf.sin, np.ones(300, "f")))
    large = back.steps[0].local[0][0]
    assert isinstance(large, LargeJacobian)
    with pytest.raises(RuntimeError, match=r"`Sin` cannot run again: .* read from a file"):
        large.vjp(np.ones(300))


def test_beside_a_small_local_a_larger_one_stays_a_summary():
    trace = cgviz.trace(lambda x, y: x + y, np.ones(20, "f"), np.float32(1))
    by_x, by_y = again(trace).steps[0].local[0]
    assert isinstance(by_x, LargeJacobian)
    np.testing.assert_array_equal(by_y, np.ones(20))


def test_a_rule_that_cannot_run_again_is_saved_without_its_local():
    back = again(cgviz.trace(once(), 1.0))
    assert "not known" in repr(back)
    with pytest.raises(RuntimeError, match="cannot run again"):
        _ = back.steps[0].local


def test_the_folder_of_the_learners_file_is_not_told():
    document = schema.write(cgviz.trace(square, 2.0))
    assert {op["source"]["file"] for op in document["ops"] if op["source"]} == {"programs.py"}


def test_values_that_share_a_key_stay_apart():
    writer = schema._Writer(cgviz.trace(square, 2.0))
    one, other = (Value(7, (), "float32", np.float32(k)) for k in range(2))
    keys = writer.keys([one, other, one, other])
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2


def test_a_trace_without_a_pass_comes_back():
    with cgviz.record() as trace:
        tf.square(2.0)
    back = again(trace)
    assert back.passes == ()
    assert repr(back) == repr(trace)
