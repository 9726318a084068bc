"""The outlines of nodes, one per kind, so that kinds are told apart without colour.

An op is a box, an input a pill, a variable a drum, a constant a note with a folded corner, a
custom op a double hexagon, folded ops a stack of boxes, a target a ring around a dot; an open
custom op is a frame, with a dot at its side for each value that enters or leaves.
"""

from __future__ import annotations

from math import ceil, sqrt

from matplotlib.path import Path

from .layout import Direction

POINT = 11.0  # how far a hexagon's points stick out
LID = 5.0  # half the height of a drum's lid
FOLD = 9.0  # a note's folded corner
SHEET = 4.0  # how far the sheets of a stack are apart
TARGET = 16.0  # across a target
PORT = 6.0  # across the place where a value enters a frame

_ROUND = 0.5523  # a quarter of a circle as a cubic curve

# Room around the text, across and down, by kind.
PADDING = {
    "op": (10.0, 4.5),
    "input": (14.0, 7.0),
    "variable": (11.0, 9.0),
    "constant": (12.0, 7.0),
    "custom": (17.0, 9.0),
    "scope": (14.0, 9.0),
}


def outlines(kind: str, x: float, y: float, width: float, height: float) -> list[Path]:
    """The outlines of a node, the hindmost first.

    Args:
        kind: The kind of node.
        x: Its centre.
        y: Its centre, growing downwards.
        width: Its width.
        height: Its height.

    Returns:
        Paths to fill and stroke in this order.
    """
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    if kind == "input":
        return [_box(left, right, top, bottom, _pill(width, height))]
    if kind == "variable":
        return _drum(left, right, top, bottom)
    if kind == "constant":
        return _note(left, right, top, bottom)
    if kind == "custom":
        return [_hexagon(left, right, top, bottom, POINT), _inner_hexagon(left, right, top, bottom)]
    if kind == "scope":
        return [
            _box(left + d, right - SHEET * 2 + d, top + SHEET * 2 - d, bottom - d, 3)
            for d in (SHEET * 2, SHEET, 0.0)
        ]
    if kind == "target":
        return [_box(x - r, x + r, y - r, y + r, r) for r in (TARGET / 2 - 0.5, TARGET / 4 - 1)]
    if kind == "port":
        return [_box(left, right, top, bottom, width / 2)]
    return [_box(left, right, top, bottom, 8 if kind == "open" else 5)]


def inset(
    kind: str, direction: Direction, width: float, height: float, port: float, side: int
) -> float:
    """How far inside a node's rectangle a line meets its outline.

    Args:
        kind: The kind of node.
        direction: The direction of the line.
        width: The node's width.
        height: Its height.
        port: Where the line comes, from the middle of the side, growing to the right or downwards.
        side: -1 at the top or on the left, 1 at the bottom or on the right.

    Returns:
        The distance, 0 where the outline is the rectangle.
    """
    down = direction == "down"
    across, along = (width, height) if down else (height, width)

    def beyond(corner: float, at: float = abs(port)) -> float:
        return max(0.0, at - (across / 2 - corner))

    if kind in ("input", "target", "port"):
        return _arc(_pill(width, height), beyond(_pill(width, height)))
    if kind == "custom":
        return along / 2 * beyond(POINT) / POINT if down else POINT * abs(port) / (across / 2)
    if kind == "variable":
        return _arc(LID, abs(port), across / 2) if down else _arc(along / 2, beyond(LID), LID)
    if kind == "constant" and down == (side < 0):
        return beyond(FOLD, -side * port)
    if kind == "scope":
        return SHEET * ceil(min(beyond(2 * SHEET, side * port) / SHEET, 2))
    return 0.0


def _arc(height: float, at: float, half: float | None = None) -> float:
    """How far below its top an ellipse is, `at` from its middle; without `half` a circle."""
    return height * (1 - sqrt(max(0.0, 1 - (at / (half or height)) ** 2)))


def _pill(width: float, height: float) -> float:
    """The radius of a pill's ends; a tall one keeps a flat piece, so that text stays inside."""
    return min(width / 2, height / 2, 24.0)


def _box(left: float, right: float, top: float, bottom: float, r: float) -> Path:
    r = min(r, (right - left) / 2, (bottom - top) / 2)
    k = r * (1 - _ROUND)
    points = [
        (left + r, top), (right - r, top),
        (right - k, top), (right, top + k), (right, top + r),
        (right, bottom - r),
        (right, bottom - k), (right - k, bottom), (right - r, bottom),
        (left + r, bottom),
        (left + k, bottom), (left, bottom - k), (left, bottom - r),
        (left, top + r),
        (left, top + k), (left + k, top), (left + r, top),
        (left + r, top),
    ]  # fmt: skip
    line, curve = [Path.LINETO], [Path.CURVE4] * 3
    codes = [Path.MOVETO, *(line + curve) * 4, Path.CLOSEPOLY]
    return Path(points, codes)


def _drum(left: float, right: float, top: float, bottom: float) -> list[Path]:
    x, half, k = (left + right) / 2, (right - left) / 2, _ROUND
    upper, lower = top + LID, bottom - LID
    body = Path(
        [
            (left, upper),
            (left, upper - k * LID), (x - k * half, top), (x, top),
            (x + k * half, top), (right, upper - k * LID), (right, upper),
            (right, lower),
            (right, lower + k * LID), (x + k * half, bottom), (x, bottom),
            (x - k * half, bottom), (left, lower + k * LID), (left, lower),
            (left, upper),
        ],
        [1, 4, 4, 4, 4, 4, 4, 2, 4, 4, 4, 4, 4, 4, 79],
    )  # fmt: skip
    rim = Path(
        [
            (left, upper),
            (left, upper + k * LID), (x - k * half, upper + LID), (x, upper + LID),
            (x + k * half, upper + LID), (right, upper + k * LID), (right, upper),
        ],
        [1, 4, 4, 4, 4, 4, 4],
    )  # fmt: skip
    return [body, rim]


def _note(left: float, right: float, top: float, bottom: float) -> list[Path]:
    corner = [(right - FOLD, top), (right - FOLD, top + FOLD), (right, top + FOLD)]
    sheet = [(left, top), corner[0], corner[2], (right, bottom), (left, bottom), (left, top)]
    return [Path(sheet, [1, 2, 2, 2, 2, 79]), Path(corner, [1, 2, 2])]


def _hexagon(left: float, right: float, top: float, bottom: float, point: float) -> Path:
    y = (top + bottom) / 2
    points = [
        (left, y), (left + point, top), (right - point, top), (right, y),
        (right - point, bottom), (left + point, bottom), (left, y),
    ]  # fmt: skip
    return Path(points, [1, 2, 2, 2, 2, 2, 79])


def _inner_hexagon(left: float, right: float, top: float, bottom: float) -> Path:
    d = 3.2
    slant = POINT / ((bottom - top) / 2)  # keep the two borders parallel
    side = d * sqrt(1 + slant * slant)
    return _hexagon(left + side, right - side, top + d, bottom - d, POINT - slant * d)
