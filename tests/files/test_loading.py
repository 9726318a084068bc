"""Loading what was saved, and refusing what was not."""

import base64
import copy
import json
import sys
import tracemalloc
import zlib

import matplotlib as mpl
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import square

import cgviz
from cgviz import files
from cgviz.files import load
from cgviz.graph import Trace

mpl.use("Agg")


def written(trace):
    return json.loads(files.document(trace, False))


@pytest.fixture
def trace():
    return cgviz.trace(lambda x: square(square(x)), 2.0)


def test_a_loaded_trace_has_table_chain_rule_and_plot(trace, tmp_path):
    trace.save(tmp_path / "trace.json")
    back = cgviz.load(tmp_path / "trace.json")
    assert repr(back.table()) == repr(trace.table())
    assert str(back.chain_rule()) == str(trace.chain_rule())
    back.save(tmp_path / "loaded.svg")
    trace.save(tmp_path / "direct.svg")
    assert (tmp_path / "loaded.svg").read_bytes() == (tmp_path / "direct.svg").read_bytes()


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tf.custom_gradient(lambda x: (x * 1.0, lambda dy: tf.clip_by_norm(dy, 1.0))), [2.0, 3.0]),
        (lambda x: tf.where(x > 0.0, tf.sqrt(x), 0.0), 0.0),
    ],
)
def test_a_loaded_trace_of_a_rule_that_is_not_linear_is_shown(f, x, tmp_path):
    cgviz.trace(lambda x: tf.reduce_sum(f(x) ** 2), x).save(tmp_path / "trace.json")
    back = cgviz.load(tmp_path / "trace.json")
    panels = json.dumps(back.view().document["pages"][0]["panels"])
    assert "The rule returned" in panels
    back.save(tmp_path / "trace.html")


def test_a_loaded_trace_saves_the_same_file(trace, tmp_path):
    trace.save(tmp_path / "one.json")
    cgviz.load(str(tmp_path / "one.json")).save(tmp_path / "other.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"\x89PNG\r\n"])
def test_a_file_that_is_no_json_is_refused(tmp_path, content):
    (tmp_path / "trace.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"trace\.json` holds no trace of cgviz: it is not a JSON"):
        load(tmp_path / "trace.json")


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"format": "other"}'])
def test_a_json_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(ValueError, match=r"it was not written by `trace\.save`"):
        load(tmp_path / "trace.json")


@pytest.mark.parametrize("version", [1, 5, 99, None, "2"])
def test_another_version_is_refused(trace, tmp_path, version):
    document = {**written(trace), "version": version}
    (tmp_path / "trace.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=rf"version {version}, and this cgviz reads version 8"):
        load(tmp_path / "trace.json")


@pytest.mark.parametrize("key", ["nodes", "trace"])
@pytest.mark.parametrize("wrong", ["gone", 7, [], [None], ["at", 0], ["at"], [["os.system", "ls"]]])
def test_a_damaged_file_is_refused(trace, tmp_path, key, wrong):
    document = {**written(trace), key: wrong}
    if wrong == "gone":
        del document[key]
    (tmp_path / "trace.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="holds a damaged trace"):
        load(tmp_path / "trace.json")


@pytest.mark.parametrize("size", [-1, 3])
def test_no_more_of_an_array_is_unpacked_than_its_shape_needs(trace, size):
    document = written(trace)
    packed = base64.b64encode(zlib.compress(bytes(30_000_000))).decode()
    array = next(node for node in document["nodes"] if node[0] == "array")
    array[1:] = ["uint8", ["tuple", size], packed]
    del packed
    tracemalloc.start()
    with pytest.raises(ValueError, match="a damaged trace"):
        files.read(document)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_file_that_is_nested_too_deeply_is_refused(trace, tmp_path):
    deep = '["tuple",' * 100_000 + "0" + "]" * 100_000
    text = json.dumps({**written(trace), "trace": 0}).replace('"trace": 0', f'"trace": {deep}')
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(ValueError, match="holds no trace") as found:
        load(tmp_path / "trace.json")
    assert isinstance(found.value.__cause__, RecursionError)


def test_a_document_that_is_nested_too_deeply_is_refused(trace):
    deep = 0
    for _ in range(sys.getrecursionlimit()):
        deep = ["tuple", deep]
    with pytest.raises(ValueError, match="a damaged trace") as found:
        files.read({**written(trace), "trace": deep})
    assert isinstance(found.value.__cause__, RecursionError)


def test_words_of_what_has_no_numbers_and_bytes_are_loaded_as_they_were(tmp_path):
    def listed(x):
        label = tf.strings.join(["a", "b"])
        none = tf.constant([], tf.int32)
        tensors = tf.raw_ops.TensorListReserve(
            element_shape=none, num_elements=1, element_dtype=tf.float32
        )
        tensors = tf.raw_ops.TensorListSetItem(input_handle=tensors, index=0, item=x)
        stacked = tf.raw_ops.TensorListStack(
            input_handle=tensors, element_shape=none, element_dtype=tf.float32
        )
        return stacked[0] * tf.cast(tf.strings.length(label), tf.float32)

    trace = cgviz.trace(listed, 2.0)
    trace.save(tmp_path / "trace.json")
    table = repr(trace.table())
    assert " variant " in table
    back = load(tmp_path / "trace.json")
    assert repr(back.table()) == table
    outputs = [v for op in back.ops for v in op.outputs]
    assert [v.numpy().tolist() for v in outputs if v.dtype == "string"][-1] == b"ab"


def leaves(node, path=()):
    """The ways to everything in a document."""
    pairs = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, inner in pairs:
        yield (*path, key)
        yield from leaves(inner, (*path, key))


JUNK = (
    None,
    True,
    -1,
    3,
    1e300,
    10**30,
    "",
    "os.system",
    [],
    [[]],
    {},
    ["at", -1],
    ["at", 0],
    ["tuple"],
    ["dict", 3],
    "at",
    "array",
    "Step",
)


@settings(max_examples=400)
@given(st.data())
def test_a_file_with_anything_changed_is_a_trace_or_a_clear_error(data):
    """Nothing but a ValueError leaves `load`, whatever is in the file."""
    document = json.loads(DOCUMENT)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(sorted(leaves(document), key=str)))
        node = document
        for key in way:
            node = node[key]
        node[last] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))  # or junk would hold itself
    try:
        found = files.read(document)
    except ValueError:
        return
    assert isinstance(found, Trace)


DOCUMENT = files.document(cgviz.trace(lambda x: square(tf.sin(x) * x), [2.0, 3.0]), False)


def test_a_file_that_is_not_there_is_python_s_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "trace.json")
