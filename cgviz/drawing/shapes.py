"""The shapes of a picture: the outline of each kind of node, lines, arrows, letters.

Outlines and lines are SVG path data. Letters are measured before they are placed, and are drawn as
one collection: Matplotlib would lay out each `Text` again whenever it is drawn, which would take
two thirds of a picture's time.

An op is a box, an input a pill, a variable a drum, a use of it a small pill, a constant a note with
a folded corner, a custom op a double hexagon, folded ops a stack of boxes, a target a ring around a
dot; an open custom op is a frame, with a dot at its side for each value that enters or leaves. So
kinds are told apart without colour.

    outlines  the outlines of a node
    meets     where a line meets these outlines
    arrow     a line and the head at its end
    outline   path data -> a Matplotlib path
    extent    the width and height of a text
    outlined  a text at its place, as a path
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import hypot, sqrt
from typing import Any, Literal
from warnings import catch_warnings

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from ..graph import Array

CORNER, WIDE = 5.0, 8.0  # the radius of a box's corners; of a frame's
POINT = 11.0  # how far a hexagon's points stick out
LID = 5.0  # half the height of a drum's lid
FOLD = 9.0  # the size of a note's folded corner
SHEET = 4.0  # how far apart the sheets of a stack are
TARGET = 16.0  # across a target
PORT = 6.0  # across the dot where a value enters a frame
HEAD = 7.5  # the length of an arrow's head: as long as four widths of its line

_ROUND = 0.5523  # a quarter circle as a cubic curve: from an end to its control point, in radii

# Space around the text, across and down, by kind: as much as the corners of its outline take.
PADDING = {
    "op": (10.0, 4.5),
    "input": (14.0, 7.0),
    "variable": (11.0, 9.0),
    "constant": (12.0, 7.0),
    "custom": (17.0, 9.0),
    "scope": (14.0, 9.0),
    "use": (9.0, 3.0),
}

Point = tuple[float, float]

_COMMAND = re.compile(r"([MLCZ])([^MLCZ]*)")
_CODES = {"M": Path.MOVETO, "L": Path.LINETO, "C": Path.CURVE4, "Z": Path.CLOSEPOLY}


def outlines(kind: str, x: float, y: float, width: float, height: float) -> list[str]:
    """The outlines of a node, the hindmost first.

    Args:
        kind: The kind of node.
        x: The x coordinate of its centre.
        y: The y coordinate of its centre, growing downwards.
        width: Its width.
        height: Its height.

    Returns:
        SVG path data, to be filled and stroked in this order.
    """
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    if kind == "variable":
        return _drum(left, right, top, bottom)
    if kind == "constant":
        return _note(left, right, top, bottom)
    if kind == "custom":
        return _hexagons(left, right, top, bottom)
    if kind == "scope":
        return [
            box(left + d, right - SHEET * 2 + d, top + SHEET * 2 - d, bottom - d, 3)
            for d in (SHEET * 2, SHEET, 0.0)
        ]
    if kind == "target":
        return [box(x - r, x + r, y - r, y + r, r) for r in (TARGET / 2 - 0.5, TARGET / 4 - 1)]
    if kind in ("input", "use", "port"):
        # A tall pill keeps a flat piece, so that text stays inside.
        return [box(left, right, top, bottom, min(width / 2, height / 2, 24.0))]
    return [box(left, right, top, bottom, WIDE if kind == "open" else CORNER)]


def outline(d: str) -> Path:
    """SVG path data as a Matplotlib path."""
    vertices: list[Point] = []
    codes: list[Any] = []
    for command, numbers in _COMMAND.findall(d):
        flat = [float(number) for number in numbers.split()] or [0.0, 0.0]
        vertices += zip(flat[::2], flat[1::2], strict=True)
        codes += [_CODES[command]] * (len(flat) // 2)
    return Path(vertices, codes)


@lru_cache(maxsize=512)  # the outlines of a picture: many lines meet each of them
def _pieces(outlines: tuple[str, ...]) -> Array:
    """The straight pieces of outlines: where each begins, and where each ends."""
    polygons = [np.asarray(polygon) for d in outlines for polygon in outline(d).to_polygons()]
    return np.concatenate([np.array([x[:-1], x[1:]]) for x in polygons], axis=1)


def meets(outlines: Sequence[str], across: int, at: float, side: int) -> float:
    """Where a line along an axis meets outlines from outside.

    Args:
        outlines: The outlines of a node.
        across: The axis across the line: 0 for one that runs down, 1 for one that runs right.
        at: The coordinate of the line on that axis.
        side: -1 for a line from the top or the left, 1 for one from the bottom or the right.

    Returns:
        The coordinate on the other axis. A line outside the outlines, or less than 1 point inside
        them, is treated as if it were 1 point inside.
    """
    starts, ends = pieces = _pieces(tuple(outlines))
    near = min(max(at, pieces[..., across].min() + 1), pieces[..., across].max() - 1)
    crosses = (starts[:, across] <= near) != (ends[:, across] <= near)
    starts, way = starts[crosses], (ends - starts)[crosses]
    part = (near - starts[:, across]) / way[:, across]
    found = (starts[:, 1 - across] + part * way[:, 1 - across]).tolist()
    return max(found, key=lambda place: side * place)


def data(*parts: str | float) -> str:
    """SVG path data from commands and coordinates, which are rounded to tenths of a point.

    >>> data("M", 0, 1.25, "L", 10, 20, "Z")
    'M0 1.2L10 20Z'
    """
    found = " ".join(p if isinstance(p, str) else f"{p:.1f}".removesuffix(".0") for p in parts)
    for command in "MLCZ":
        found = found.replace(f" {command}", command).replace(f"{command} ", command)
    return found


def box(left: float, right: float, top: float, bottom: float, r: float) -> str:
    """A rectangle with round corners."""
    r = min(r, (right - left) / 2, (bottom - top) / 2)
    k = r * (1 - _ROUND)
    return data(
        *("M", left + r, top, "L", right - r, top),
        *("C", right - k, top, right, top + k, right, top + r, "L", right, bottom - r),
        *("C", right, bottom - k, right - k, bottom, right - r, bottom, "L", left + r, bottom),
        *("C", left + k, bottom, left, bottom - k, left, bottom - r, "L", left, top + r),
        *("C", left, top + k, left + k, top, left + r, top, "Z"),
    )


def _drum(left: float, right: float, top: float, bottom: float) -> list[str]:
    upper, lower = top + LID, bottom - LID
    start, side = data("M", left, upper), data("L", right, lower)
    body = start + _bow(left, right, upper, -LID) + side + _bow(right, left, lower, LID) + "Z"
    return [body, start + _bow(left, right, upper, LID)]


def _bow(start: float, end: float, y: float, height: float) -> str:
    """Half an ellipse, as the continuation of a path."""
    x, reach, rise = (start + end) / 2, _ROUND * (end - start) / 2, y + _ROUND * height
    return data(
        *("C", start, rise, x - reach, y + height, x, y + height),
        *("C", x + reach, y + height, end, rise, end, y),
    )


def _note(left: float, right: float, top: float, bottom: float) -> list[str]:
    fold = [(right - FOLD, top), (right - FOLD, top + FOLD), (right, top + FOLD)]
    sheet = [(left, top), fold[0], fold[2], (right, bottom), (left, bottom)]
    return [line(sheet) + "Z", line(fold)]


def _hexagon(left: float, right: float, top: float, bottom: float, point: float) -> str:
    y, a, b = (top + bottom) / 2, left + point, right - point
    corners = [(left, y), (a, top), (b, top), (right, y), (b, bottom), (a, bottom)]
    return line(corners) + "Z"


def _hexagons(left: float, right: float, top: float, bottom: float) -> list[str]:
    d = 3.2  # between the two borders: twice the width of their lines
    slant = POINT / ((bottom - top) / 2)  # keeps the two borders parallel
    side = d * sqrt(1 + slant * slant)
    inner = _hexagon(left + side, right - side, top + d, bottom - d, POINT - slant * d)
    return [_hexagon(left, right, top, bottom, POINT), inner]


# --- lines ---------------------------------------------------------------------------------------


def arrow(points: Sequence[Point]) -> tuple[str, str]:
    """An arrow along points, its tip at the last of them: the data of its line and of its head."""
    foot = _cut(points, HEAD)[-1]
    (x, y), (u, v) = points[-1], foot
    side, up = 0.42 * (v - y), 0.42 * (x - u)  # a head is a little narrower than it is long
    head = data("M", x, y, "L", u + side, v + up, "L", u - side, v - up, "Z")
    return line(_cut(points, HEAD - 1)), head  # the line ends within the head, not at its foot


def line(points: Sequence[Point]) -> str:
    """A line through points."""
    first, *rest = points
    return data("M", *first, *(["L"] if rest else []), *(x for point in rest for x in point))


def _cut(points: Sequence[Point], end: float) -> list[Point]:
    """A line that stops `end` points short, within its straight last piece: a stem is longer."""
    *_, (x, y), (u, v) = points
    part = end / hypot(u - x, v - y)
    return [*points[:-1], (u - (u - x) * part, v - (v - y) * part)]


# --- letters --------------------------------------------------------------------------------------

# Shipped with Matplotlib and holding every sign we use, so a figure is the same everywhere.
FONT = "DejaVu Sans"
LINE = 1.25  # the height of a line, in font sizes: what browsers give a line of this font
STEP = 1.12  # from line to line of one text, in font sizes: closer, so that they belong together
ASCENT, DESCENT = 0.76, 0.21  # of this font's letters above and below the baseline, in font sizes

Anchor = Literal["start", "middle", "end"]
Side = Literal["above", "around", "below"]
SHARE = {"start": 0.0, "middle": 0.5, "end": 1.0, "below": 0.0, "around": 0.5, "above": 1.0}
Box = tuple[float, float, float, float]  # left, top, right, bottom


def _font(bold: bool) -> FontProperties:
    return FontProperties(family=FONT, weight="bold" if bold else "normal", size=1)


@lru_cache(maxsize=4096)
def _width(line: str, bold: bool = False) -> float:
    """The width of a line at size 1."""
    font = _font(bold)  # not `ismath`: a `$` is a `$`
    with catch_warnings(action="ignore"):  # of a letter that it has not, and a browser has
        return float(text_to_path.get_text_width_height_descent(line, font, ismath=False)[0])


@lru_cache(maxsize=4096)
def _outline(line: str, bold: bool) -> tuple[Array, Array]:
    """The letters of a line at size 1, beginning at 0: vertices and codes."""
    vertices, codes = text_to_path.get_text_path(_font(bold), line)
    return np.array(vertices) / text_to_path.FONT_SCALE, np.array(codes)


def extent(text: str, size: float, bold: bool = False) -> tuple[float, float]:
    """The width and height of a text of one or more lines, in points."""
    lines = text.split("\n")
    width = max(_width(line, bold) for line in lines)
    # A browser's letters are up to a twentieth wider: it has hinting and fonts of its own.
    return 1.05 * size * width + 2, len(lines) * size * LINE


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
        text: One or more lines; those of a matrix are flush left, so that its columns line up.
        x: Where its start, its middle or its end is.
        y: Where its middle is, or the point that it is above or below.
        size: The size of the letters, in points.
        anchor: Which of these is at x.
        side: Whether it is above, around or below y.
        bold: Whether the letters are bold.

    Returns:
        The path, and the box as left, top, right and bottom.
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
