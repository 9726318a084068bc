"""Words as outlines: measured before they are placed, and drawn as one collection.

Matplotlib lays out and renders each `Text` letter by letter whenever it is drawn, which was two
thirds of a picture's time. Outlines are kept, and those of a whole picture are one artist.

    extent   width and height of a text
    word     a text at its place
    Words    all words of one picture, an artist
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from ..graph import Array

# Shipped with Matplotlib and holding every sign we use, so a figure is the same everywhere.
FONT = "DejaVu Sans"
LINE = 1.25  # the height of a line, in sizes
STEP = 1.12  # from one line of a text to the next, in sizes
NUMERIC = frozenset("0123456789.,−+×=e∞[] ")  # no pair of them asks for other room than its own
ASCENT, DESCENT = 0.76, 0.21  # of the letters above and below their line, in sizes

Across = Literal["left", "center", "right"]
Down = Literal["top", "center", "bottom"]
_SHARE = {"left": 0.0, "center": 0.5, "right": 1.0, "top": 0.0, "bottom": 1.0}


Outline = tuple[Array, Array, float]  # vertices, codes and width


@lru_cache(maxsize=4096)
def _outline(line: str, bold: bool) -> Outline:
    """The letters of a line at size 1, its start at 0; a number is put together of its digits."""
    if len(line) < 2 or not NUMERIC.issuperset(line):
        return _laid_out(line, bold)
    letters = [_outline(letter, bold) for letter in line]
    *starts, width = accumulate((wide for *_, wide in letters), initial=0.0)
    placed = [v + np.array((x, 0.0)) for (v, *_), x in zip(letters, starts, strict=True)]
    return np.concatenate(placed), np.concatenate([codes for _, codes, _ in letters]), width


def _laid_out(line: str, bold: bool) -> Outline:
    """A line as Matplotlib lays it out, with the room between letters that each pair asks for."""
    font = FontProperties(family=FONT, weight="bold" if bold else "normal", size=1)
    vertices, codes = text_to_path.get_text_path(font, line)  # not `ismath`: a `$` is a `$`
    width, _, _ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
    return np.array(vertices) / text_to_path.FONT_SCALE, np.array(codes), float(width)


def extent(text: str, size: float) -> tuple[float, float]:
    """Width and height of a text of one or more lines, in points."""
    if not text:
        return 0.0, 0.0
    lines = text.split("\n")
    return 1.05 * size * max(_outline(t, False)[2] for t in lines) + 2, len(lines) * size * LINE


@dataclass(frozen=True)
class Word:
    """A text as it stands in a picture, in the picture's points, y growing downwards."""

    text: str
    size: float
    colour: str
    box: tuple[float, float, float, float]  # left, top, right, bottom
    path: Path


def word(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    across: Across = "center",
    down: Down = "center",
    *,
    bold: bool = False,
) -> Word:
    """A text so placed that (x, y) is its left, centre or right, and its top, centre or bottom.

    The lines of a matrix are flush left, so that its columns stand below each other.
    """
    lines = [_outline(line, bold) for line in text.split("\n")]
    width = size * max(line[2] for line in lines)
    height = size * (STEP * (len(lines) - 1) + ASCENT + DESCENT)
    left, top = x - _SHARE[across] * width, y - _SHARE[down] * height
    flush = 0.0 if "[[" in text else _SHARE[across]
    paths = []
    for n, (vertices, codes, advance) in enumerate(lines):
        start = (left + flush * (width - advance * size), top + (ASCENT + n * STEP) * size)
        paths.append(Path(vertices * (size, -size) + start, codes))
    box = (left, top, left + width, top + height)
    return Word(text, size, colour, box, Path.make_compound_path(*paths))


class Words(PathCollection):
    """All words of one picture, as one outline per colour."""

    def __init__(self, words: Sequence[Word]) -> None:
        colours = list(dict.fromkeys(w.colour for w in words))
        together = [
            Path.make_compound_path(*(w.path for w in words if w.colour == c)) for c in colours
        ]
        super().__init__(together, facecolors=colours, linewidths=0, zorder=6)
        self.words = words
