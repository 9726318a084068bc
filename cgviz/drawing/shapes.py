"""The shapes of a picture as SVG path data: the outline of each kind of node, lines and arrows.

An op is a box, an input a pill, a variable a drum, a use of it a small pill, a constant a note with
a folded corner, a custom op a double hexagon, folded ops a stack of boxes, a target a ring around a
dot; an open custom op is a frame, with a dot at its side for each value that enters or leaves. So
kinds are told apart without colour.

    outlines   the outlines of a node
    box        a rectangle with round corners
    arrow      a line and the head at its end
    inset      where a line meets the outline of a node
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, hypot, sqrt

from .layout import Direction

CORNER, WIDE = 5.0, 8.0  # the radius of a box's corners; of a frame's
POINT = 11.0  # how far a hexagon's points stick out
LID = 5.0  # half the height of a drum's lid
FOLD = 9.0  # a note's folded corner
SHEET = 4.0  # how far the sheets of a stack are apart
TARGET = 16.0  # across a target
PORT = 6.0  # across the dot where a value enters a frame
HEAD = 7.5  # the length of an arrow's head: as long as four widths of its line
OFF = 0.12  # how far a line may be from its points: less than a pixel of any screen

_ROUND = 0.5523  # a quarter of a circle as a cubic curve

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


def outlines(kind: str, x: float, y: float, width: float, height: float) -> list[str]:
    """The outlines of a node, the hindmost first.

    Args:
        kind: The kind of node.
        x: Its centre.
        y: Its centre, growing downwards.
        width: Its width.
        height: Its height.

    Returns:
        The data of paths to fill and stroke in this order.
    """
    left, right, top, bottom = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    if kind in ("input", "use"):
        return [box(left, right, top, bottom, _pill(width, height))]
    if kind == "variable":
        return _drum(left, right, top, bottom)
    if kind == "constant":
        return _note(left, right, top, bottom)
    if kind == "custom":
        return [_hexagon(left, right, top, bottom, POINT), _inner_hexagon(left, right, top, bottom)]
    if kind == "scope":
        return [
            box(left + d, right - SHEET * 2 + d, top + SHEET * 2 - d, bottom - d, 3)
            for d in (SHEET * 2, SHEET, 0.0)
        ]
    if kind == "target":
        return [box(x - r, x + r, y - r, y + r, r) for r in (TARGET / 2 - 0.5, TARGET / 4 - 1)]
    if kind == "port":
        return [box(left, right, top, bottom, width / 2)]
    return [box(left, right, top, bottom, WIDE if kind == "open" else CORNER)]


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

    if kind in ("input", "use", "target", "port"):
        return _arc(_pill(width, height), beyond(_pill(width, height)))
    if kind == "custom":
        return along / 2 * beyond(POINT) / POINT if down else POINT * abs(port) / (across / 2)
    if kind == "variable":
        return _arc(LID, abs(port), across / 2) if down else _arc(along / 2, beyond(LID), LID)
    if kind == "constant" and down == (side < 0):
        return beyond(FOLD, -side * port)
    if kind == "scope":
        return SHEET * ceil(min(beyond(2 * SHEET, side * port) / SHEET, 2))
    corner = WIDE if kind == "open" else CORNER
    return 0.0 if kind == "constant" else _arc(corner, beyond(corner))


def _arc(height: float, at: float, half: float | None = None) -> float:
    """How far below its top an ellipse is, `at` from its middle; without `half` a circle."""
    return height * (1 - sqrt(max(0.0, 1 - (at / (half or height)) ** 2)))


def _pill(width: float, height: float) -> float:
    """The radius of a pill's ends; a tall one keeps a flat piece, so that text stays inside."""
    return min(width / 2, height / 2, 24.0)


def data(*parts: str | float) -> str:
    """SVG path data of commands and coordinates, in tenths of a point.

    >>> data("M", 0, 1.25, "L", 10, 20, "Z")
    'M0 1.2L10 20Z'
    """
    found = " ".join(p if isinstance(p, str) else f"{round(p, 1):g}" for p in parts)
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
    x, half, k = (left + right) / 2, (right - left) / 2, _ROUND
    upper, lower = top + LID, bottom - LID
    body = data(
        *("M", left, upper, "C", left, upper - k * LID, x - k * half, top, x, top),
        *("C", x + k * half, top, right, upper - k * LID, right, upper, "L", right, lower),
        *("C", right, lower + k * LID, x + k * half, bottom, x, bottom),
        *("C", x - k * half, bottom, left, lower + k * LID, left, lower, "Z"),
    )
    under = upper + LID
    rim = data(
        *("M", left, upper, "C", left, upper + k * LID, x - k * half, under, x, under),
        *("C", x + k * half, under, right, upper + k * LID, right, upper),
    )
    return [body, rim]


def _note(left: float, right: float, top: float, bottom: float) -> list[str]:
    inner, under = right - FOLD, top + FOLD
    sheet = data(
        *("M", left, top, "L", inner, top, "L", right, under),
        *("L", right, bottom, "L", left, bottom, "Z"),
    )
    return [sheet, data("M", inner, top, "L", inner, under, "L", right, under)]


def _hexagon(left: float, right: float, top: float, bottom: float, point: float) -> str:
    y = (top + bottom) / 2
    return data(
        *("M", left, y, "L", left + point, top, "L", right - point, top),
        *("L", right, y, "L", right - point, bottom, "L", left + point, bottom, "Z"),
    )


def _inner_hexagon(left: float, right: float, top: float, bottom: float) -> str:
    d = 3.2  # between the two borders: twice the width of their lines
    slant = POINT / ((bottom - top) / 2)  # keeps the two borders parallel
    side = d * sqrt(1 + slant * slant)
    return _hexagon(left + side, right - side, top + d, bottom - d, POINT - slant * d)


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
    first, *rest = _fewer(points)
    return data("M", *first, *(["L"] if rest else []), *(x for point in rest for x in point))


def _cut(points: Sequence[Point], end: float) -> list[Point]:
    """A line without the last `end` points of its length."""
    for n in range(len(points) - 1, 0, -1):
        (x, y), (u, v) = points[n - 1], points[n]
        length = hypot(u - x, v - y)
        if length > end:
            part = end / length
            return [*points[:n], (u - (u - x) * part, v - (v - y) * part)]
        end -= length
    return list(points[:1])


def _fewer(points: Sequence[Point]) -> list[Point]:
    """The points that a line needs so that it is nowhere farther off than `OFF`.

    The algorithm of Ramer, Douglas and Peucker.
    """
    kept = {0, len(points) - 1}
    stack = [(0, len(points) - 1)]
    while stack:
        a, b = stack.pop()
        (x, y), (u, v) = points[a], (points[b][0] - points[a][0], points[b][1] - points[a][1])
        length = hypot(u, v)
        far, most = 0, OFF
        for i in range(a + 1, b):
            s, t = points[i][0] - x, points[i][1] - y
            away = abs(s * v - t * u) / length if length > 1e-9 else hypot(s, t)
            if away > most:
                far, most = i, away
        if far:
            kept.add(far)
            stack += [(a, far), (far, b)]
    return [points[i] for i in sorted(kept)]
