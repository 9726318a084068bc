"""The picture at the top of README.md is of the function that README.md shows."""

import re
import runpy
from html import unescape
from pathlib import Path

import pytest

import cgviz
from cgviz.drawing.texts import describe
from cgviz.graph.selection import select

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
f = runpy.run_path(str(ROOT / "tools" / "cover.py"))["f"]


def test_the_function_is_the_one_in_the_readme():
    assert "return x * x + 3.0 * x" in README
    assert f(2.0) == 10.0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_what_tensorflow_does(theme):
    picture = f"notebooks/images/flow_{theme}.svg"
    assert picture in README
    text = (ROOT / picture).read_text(encoding="utf-8")
    (words,) = re.findall("<desc>(.*?)</desc>", text, re.DOTALL)
    assert unescape(words) == describe(select(cgviz.trace(f, 2.0))), "run: make notebooks"
