"""Text as outlines: measured before it is placed, and drawn as one collection.

Matplotlib lays out and renders each `Text` letter by letter whenever it is drawn, which was two
thirds of a picture's time. So the outlines of a line are made once.

    extent    the width and height of a text
    outlined  a text at its place, as a path
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from ..graph import Array

# Shipped with Matplotlib and holding every sign we use, so a figure is the same everywhere.
FONT = "DejaVu Sans"
LINE = 1.25  # the height of a line, in sizes: what browsers give a line of this font
STEP = 1.12  # from one line of a text to the next, in sizes: a little closer, so that they belong
ASCENT, DESCENT = 0.76, 0.21  # of this font's letters above and below their line, in sizes

Anchor = Literal["start", "middle", "end"]
Side = Literal["above", "around", "below"]
SHARE = {"start": 0.0, "middle": 0.5, "end": 1.0, "below": 0.0, "around": 0.5, "above": 1.0}


def _font(bold: bool) -> FontProperties:
    return FontProperties(family=FONT, weight="bold" if bold else "normal", size=1)


@lru_cache(maxsize=4096)
def _width(line: str, bold: bool = False) -> float:
    """The width of a line at size 1."""
    font = _font(bold)  # not `ismath`: a `$` is a `$`
    return float(text_to_path.get_text_width_height_descent(line, font, ismath=False)[0])


@lru_cache(maxsize=4096)
def _outline(line: str, bold: bool) -> tuple[Array, Array]:
    """The letters of a line at size 1, beginning at 0: vertices and codes."""
    vertices, codes = text_to_path.get_text_path(_font(bold), line)
    return np.array(vertices) / text_to_path.FONT_SCALE, np.array(codes)


def extent(text: str, size: float, bold: bool = False) -> tuple[float, float]:
    """The width and height of a text of one or more lines, in points."""
    if not text:
        return 0.0, 0.0
    lines = text.split("\n")
    width = max(_width(line, bold) for line in lines)
    # A browser's letters are up to a twentieth wider: it has hinting and fonts of its own.
    return 1.05 * size * width + 2, len(lines) * size * LINE


Box = tuple[float, float, float, float]  # left, top, right, bottom


def outlined(
    text: str,
    x: float,
    y: float,
    size: float,
    anchor: Anchor = "middle",
    side: Side = "around",
    *,
    bold: bool = False,
) -> tuple[Path, Box]:
    """The outlines of a text, and the box that it fills, in points, y growing downwards.

    Args:
        text: One or more lines; those of a matrix are flush left, so that its columns are below
            each other.
        x: Where its start, its middle or its end is.
        y: Where its middle is, or the point that it is above or below.
        size: Of the letters, in points.
        anchor: Which of its points is at x.
        side: How it is placed to y.
        bold: Whether the letters are bold.

    Returns:
        The path and left, top, right and bottom of the box.
    """
    lines = text.split("\n")
    widths = [size * _width(line, bold) for line in lines]
    width, height = max(widths), size * (STEP * (len(lines) - 1) + ASCENT + DESCENT)
    left, top = x - SHARE[anchor] * width, y - SHARE[side] * height
    flush = 0.0 if "[[" in text else SHARE[anchor]
    paths = []
    for n, (line, own) in enumerate(zip(lines, widths, strict=True)):
        vertices, codes = _outline(line, bold)
        start = (left + flush * (width - own), top + (ASCENT + n * STEP) * size)
        paths.append(Path(vertices * (size, -size) + start, codes))
    return Path.make_compound_path(*paths), (left, top, left + width, top + height)
