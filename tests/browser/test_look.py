"""The live picture looks as its small images, which `make look FLAGS=--references` writes anew."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from golden_programs import PROGRAMS
from PIL import Image

LOOK = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "look.py"))
BLOCK = 10  # pixels: a head of an arrow fills half of one
# Of 255, what a block may differ on average: 5 on one machine, for an image has few tones, up to 26
# where letters are placed on whole pixels, as on another system. A head at the wrong end differs by
# 44 to 76 (by 17 to 24 in the pictures that are shown small), a line 8 points away by 37 to 90.
LIMIT = 30.0
TURNED = """() => {
  const { parts } = document.querySelector(".cgviz-view").cgvizView.pictures[0];
  const ends = new Map();
  for (const { role, i, element } of parts) {
    if (role === "backward") {
      const length = element.getTotalLength();
      ends.set(i, [0, length].map((at) => element.getPointAtLength(at)));
    }
  }
  for (const { role, i, element } of parts) {
    if (role !== "backward-head") continue;
    const [from, to] = ends.get(i);
    element.setAttribute("transform", `translate(${from.x - to.x} ${from.y - to.y})`);
  }
}"""
DISPLACED = """() => {
  const { parts } = document.querySelector(".cgviz-view").cgvizView.pictures[0];
  for (const { role, element } of parts) {
    if (role.startsWith("backward")) element.setAttribute("transform", "translate(8 8)");
  }
}"""


def apart(one, other):
    """How far two images are from each other: the most that a block differs on average."""
    if one.size != other.size:
        return 255.0
    pixels = [np.asarray(each.convert("RGB"), float) for each in (one, other)]
    difference = np.abs(pixels[0] - pixels[1]).mean(axis=2)
    summed = np.pad(difference.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    blocks = (
        summed[BLOCK:, BLOCK:] - summed[:-BLOCK, BLOCK:] - summed[BLOCK:, :-BLOCK]
        + summed[:-BLOCK, :-BLOCK]
    )  # fmt: skip
    return float(blocks.max() / BLOCK**2)


@pytest.mark.parametrize(("name", "theme", "when"), LOOK["REFERENCES"])
def test_it_looks_as_it_did(browser, name, theme, when):
    shown = LOOK["reference"](browser, PROGRAMS[name](), theme, when)
    kept = Image.open(LOOK["IMAGES"] / f"{name}-{theme}-{when}.png")
    assert apart(shown, kept) <= LIMIT


@pytest.mark.parametrize("change", [TURNED, DISPLACED], ids=["turned", "displaced"])
def test_arrows_that_are_turned_or_displaced_are_seen(browser, change):
    shown = LOOK["reference"](browser, PROGRAMS["fan_out"](), "light", "end", change)
    assert apart(shown, Image.open(LOOK["IMAGES"] / "fan_out-light-end.png")) > LIMIT


def test_the_images_are_small():
    assert sum(file.stat().st_size for file in LOOK["IMAGES"].glob("*.png")) < 150_000
