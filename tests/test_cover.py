"""The picture at the top of README.md is of the function that README.md shows."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COVER = runpy.run_path(str(ROOT / "tools" / "cover.py"))


def test_the_function_is_the_one_in_the_readme():
    assert "return x * x + 3.0 * x" in README
    assert COVER["f"](2.0) == 10.0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_what_tensorflow_does(theme):
    picture = f"notebooks/images/flow_{theme}.svg"
    assert picture in README
    drawn = COVER["moving"](COVER["selection"](), *COVER["PAPERS"][theme])
    assert (ROOT / picture).read_text(encoding="utf-8") == drawn, "run: make notebooks"
