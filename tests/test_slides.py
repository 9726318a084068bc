"""A lesson becomes slides that let the class guess first."""

import copy
import html
import runpy
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "slides.py"))
LESSON = ROOT / "notebooks" / "02_upstream_downstream.ipynb"


def test_a_prediction_is_a_slide_and_its_result_comes_with_the_next_key():
    kind = TOOL["slide_type"]
    lesson = nbformat.read(LESSON.with_name("07_non_differentiable.ipynb"), as_version=4)
    types = [kind(cell) for cell in lesson.cells]
    asked = [i for i, cell in enumerate(lesson.cells) if cell.source.startswith("**Predict.**")]
    assert asked
    assert all(types[i] in ("slide", "subslide") for i in asked)
    results = [
        next(j for j in range(i, len(types)) if lesson.cells[j].cell_type == "code") for i in asked
    ]
    assert all(types[j] == "fragment" for j in results)
    assert all({*types[i + 1 : j]} <= {"-"} for i, j in zip(asked, results, strict=True))
    assert types[0] == "slide"
    installs = nbformat.v4.new_code_cell("%pip install x", metadata={"tags": ["first"]})
    assert kind(installs) == "skip"


def test_a_page_has_many_slides_and_no_set_up_of_other_hosts():
    text = TOOL["slides"](nbformat.read(LESSON, as_version=4))
    assert text.count("<section") > 15
    assert "google.colab" not in text


def test_an_unknown_lesson_names_those_that_exist(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["slides.py", "notebooks/99_nothing.ipynb"])
    with pytest.raises(SystemExit, match=r"no lesson '99_nothing'.*01_chain_rule"):
        TOOL["main"]()


def test_a_picture_keeps_its_words():
    lesson = nbformat.read(LESSON, as_version=4)
    outputs = [output for cell in lesson.cells for output in cell.get("outputs", [])]
    pictures = [o.metadata["image/png"]["alt"] for o in outputs if "image/png" in o.get("data", {})]
    page = TOOL["slides"](lesson)
    assert pictures
    for words in pictures:
        assert f'alt="{html.escape(words)}"' in page


def places(*cells):
    """Where cells go: fresh copies of them, one after the other."""
    cells = [copy.deepcopy(cell) for cell in cells]
    TOOL["paginate"](cells)
    return [cell.metadata["slideshow"]["slide_type"] for cell in cells]


def test_what_finds_no_room_starts_a_new_slide_and_words_stay_by_their_code():
    words = nbformat.v4.new_markdown_cell("Some words.")
    low, high = (nbformat.v4.new_code_cell("\n".join(["1"] * lines)) for lines in (2, 20))
    assert places(words, low, words, low) == ["-", "fragment", "-", "fragment"]
    assert places(high, high) == ["fragment", "subslide"]
    assert places(words, high, words, high) == ["-", "fragment", "subslide", "fragment"]
