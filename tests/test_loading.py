"""Loading what was saved, and refusing what was not."""

import json

import matplotlib as mpl
import pytest
from programs import square

import cgviz
from cgviz.files import schema
from cgviz.files.loading import load

mpl.use("Agg")


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


@pytest.mark.parametrize("version", [2, 99, None, "1"])
def test_another_version_is_refused(trace, tmp_path, version):
    document = {**schema.write(trace), "version": version}
    (tmp_path / "trace.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=rf"version {version}, and this cgviz reads version 1"):
        load(tmp_path / "trace.json")


@pytest.mark.parametrize("key", ["values", "ops", "forward", "passes", "gradients"])
@pytest.mark.parametrize("wrong", ["gone", 7])
def test_a_damaged_file_is_refused(trace, tmp_path, key, wrong):
    document = schema.write(trace)
    document[key] = wrong
    if wrong == "gone":
        del document[key]
    (tmp_path / "trace.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="holds a damaged trace"):
        load(tmp_path / "trace.json")


def test_a_file_that_is_not_there_is_python_s_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "trace.json")
