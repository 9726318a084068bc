"""Saving by suffix, whole or not at all."""

import os
import re
import shutil
import subprocess
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from handmade import square_plus_sine
from programs import square

import cgviz
from cgviz import files
from cgviz.files import SUFFIXES

mpl.use("Agg")


@pytest.fixture
def trace():
    return cgviz.trace(lambda x: square(square(x)), 2.0)


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".json", b'{"format":')],
)
def test_a_file_is_what_its_suffix_says(trace, tmp_path, suffix, start):
    path = tmp_path / f"picture{suffix}"
    trace.save(path)
    assert path.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [path.name]


def test_a_path_may_be_a_string_and_a_suffix_in_capitals(trace, tmp_path):
    trace.save(str(tmp_path / "picture.PNG"))
    assert (tmp_path / "picture.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_file_has_the_rights_that_any_new_file_has(trace, tmp_path):
    (tmp_path / "other").touch()
    trace.save(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saving_twice_writes_the_same_bytes(trace, tmp_path, suffix):
    for name in ("one", "other"):
        trace.save(tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"other{suffix}").read_bytes()


def test_an_svg_has_a_title_and_a_description(trace, tmp_path):
    trace.save(tmp_path / "picture.svg")
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.find(f"{space}title").text.startswith("How the gradient flows through")
    assert "square" in root.find(f"{space}desc").text
    assert "dc:date" not in (tmp_path / "picture.svg").read_text(encoding="utf-8")


def test_pictures_carry_their_description(trace, tmp_path):
    for suffix in (".png", ".pdf"):
        trace.save(tmp_path / f"picture{suffix}")
        assert b"How the gradient flows" in (tmp_path / f"picture{suffix}").read_bytes()


def test_saving_a_picture_leaves_no_figure_open(trace, tmp_path):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    trace.save(tmp_path / "picture.svg")
    assert plt.get_fignums() == before


# --- what cannot be saved ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.htm", "trace.txt", "trace", ".json"])
def test_an_unknown_suffix_is_refused_and_the_known_ones_are_named(trace, tmp_path, name):
    message = rf"`path` is .*{re.escape(name)}, .*: \.html or .* or \.json or \.dot"
    with pytest.raises(ValueError, match=message):
        trace.save(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_what_no_suffix_tells_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"its suffix says what to write: \.svg or \.png"):
        files.target(tmp_path / "a.txt", (".svg", ".png"))


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_all_numbers_can_be_asked_of_a_document_only(trace, tmp_path, suffix):
    with pytest.raises(ValueError, match=r"`full` belongs to \.json"):
        trace.save(tmp_path / f"trace{suffix}", full=True)


# --- the graph as text ---------------------------------------------------------------------------


def test_the_graph_has_the_values_forward_and_the_gradients_backward(tmp_path):
    cgviz.trace(lambda x: square(x) * x, 3.0).save(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text(encoding="utf-8")
    assert re.findall(r'n\d \[label="(.*)", kind="(.*)"\]', text) == [
        ("x", "input"),
        ("square", "custom"),
        ("×", "op"),
    ]
    assert re.findall(r'n(.) -> n(.) \[label="(.*?)"', text) == [
        *(("0", "1", "3"), ("1", "0", "18")),
        *(("1", "2", "9"), ("2", "1", "3")),
        *(("0", "2", "3"), ("2", "0", "9")),
    ]
    assert text.count("style=dashed") == 3


def test_a_name_is_text_in_the_graph_whatever_is_in_it(tmp_path):
    trace = square_plus_sine('a"];\n evil -> "')
    trace.save(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text(encoding="utf-8")
    assert r'[label="a\"];\n evil -> \"", kind="input"]' in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_the_graph(trace, tmp_path):
    trace.save(tmp_path / "graph.dot")
    subprocess.run(["dot", "-Tsvg", tmp_path / "graph.dot"], check=True, capture_output=True)
