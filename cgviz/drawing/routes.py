"""Down the ranks of a layered layout: bands, bends, and lanes beside everything.

    drawn    a grid whose items have their x -> a Layout
    beside   a curve along a route, at a distance to its side

A helper of `layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import asin, atan2, copysign, cos, hypot, sin

import numpy as np

from ..graph import Array
from .layers import Direction, Grid, Layout, Link, Point
from .spacing import Ports, left_lane, shifts


def drawn(
    grid: Grid,
    ports: Ports,
    links: Sequence[Link],
    direction: Direction,
    rank_gap: float,
    stem: float,
) -> Layout:
    """Turn ranks and x into points; `right` is `down` with its axes swapped."""
    x = grid.x
    left = min((x[i] - grid.left[i] for i in range(len(x))), default=0.0)
    left = 0.0 if grid.storey else left  # with the room before the first floor
    right = max((x[i] + grid.right[i] for i in range(len(x))), default=0.0)
    lanes, left, right = _lanes(grid, links, left, right)
    width = right - left
    bands = _bands(grid, ports, rank_gap, stem)
    height = bands[-1][1] if bands else 0.0

    def point(across: float, along: float) -> Point:
        across = round(across - left, 3)
        along = round(along, 3)
        return (across, along) if direction == "down" else (along, across)

    def middle(item: int) -> float:
        top, bottom = bands[grid.rank[item]]
        return (top + bottom) / 2

    centres = tuple(point(x[v], middle(v)) for v in range(grid.nodes))
    routes, labels = [], []
    each = zip(links, grid.chains, ports, grid.label_item, strict=True)
    for i, (link, chain, port, label) in enumerate(each):
        corners = _corners(grid, port, chain, bands, stem)
        if i in lanes:
            top, bottom = bands[grid.rank[chain[0]] + 1][0], bands[grid.rank[chain[-1]] - 1][1]
            if grid.step == 1:
                top, bottom = top - stem, bottom + stem
            corners[2:2] = [(lanes[i], top), (lanes[i], bottom)]
        points = [point(*corner) for corner in corners]
        routes.append(tuple(points if chain[0] == link.source else points[::-1]))
        if i in lanes:
            labels.append(point(lanes[i], bottom - link.along / 2))
        elif label >= 0:
            labels.append(point(x[label], middle(label)))
        else:
            a, b = points[len(points) // 2 - 1 : len(points) // 2 + 1] if points else ((0, 0),) * 2
            labels.append(((a[0] + b[0]) / 2, (a[1] + b[1]) / 2))
    if direction == "right":
        width, height = height, width
    return Layout(centres, tuple(routes), tuple(labels), width, height, direction)


def _lanes(
    grid: Grid, links: Sequence[Link], left: float, right: float
) -> tuple[dict[int, float], float, float]:
    """The x of each lane, beside all that stands on ranks, and how far it now goes."""
    place = {item: i for layer in grid.layers for i, item in enumerate(layer)}
    lanes: dict[int, float] = {}
    for side in (-1, 1):
        own = [i for i in grid.lanes if left_lane(grid, i, place) == (side < 0)]
        if not own:
            continue
        before = max(links[i].before for i in own) + grid.port / 2
        after = max(links[i].after for i in own) + grid.port / 2
        ends: list[int] = []  # per lane, the rank where its last link ends
        for i in sorted(own, key=lambda i: (grid.rank[grid.chains[i][0]], i)):
            start, end = (grid.rank[v] for v in grid.chains[i])
            n = next((n for n, last in enumerate(ends) if last < start), len(ends))
            ends[n:] = [end, *ends[n + 1 :]]
            lanes[i] = (
                left - after - n * (before + after)
                if side < 0
                else right + before + n * (before + after)
            )
        if side < 0:
            left -= len(ends) * (before + after)
        else:
            right += len(ends) * (before + after)
    return lanes, left, right


def _bands(grid: Grid, ports: Ports, rank_gap: float, stem: float) -> list[tuple[float, float]]:
    """Top and bottom of each rank; links that go far to the side get more room to do so."""
    sideways = [0.0] * len(grid.layers)
    for chain, port in zip(grid.chains, ports, strict=True):
        shift = shifts(chain, port)
        for i, (a, b) in enumerate(pairwise(chain)):
            way = grid.x[b] + shift[i + 1] - grid.x[a] - shift[i]
            sideways[grid.rank[a]] = max(sideways[grid.rank[a]], abs(way))
    bands, y = [], 0.0
    for r, layer in enumerate(grid.layers):
        bottom = y + max((grid.height[i] for i in layer), default=0.0)
        bands.append((y, bottom))
        # Links that go far to the side get some room to do so.
        bend = min(max(12.0, 0.2 * sideways[r]), 40.0) if sideways[r] > 0.5 else 0.0
        y = bottom + max(rank_gap, stem * 2 / grid.step + bend)
    return bands


def _corners(
    grid: Grid,
    port: tuple[float, float],
    chain: Sequence[int],
    bands: Sequence[tuple[float, float]],
    stem: float,
) -> list[tuple[float, float]]:
    """The corners of a link: it bends between ranks only, and stands upright within each."""
    corners: list[tuple[float, float]] = []
    last = len(chain) - 1
    for i, (item, shift) in enumerate(zip(chain, shifts(chain, port), strict=False)):
        top, bottom = bands[grid.rank[item]]
        middle = (top + bottom) / 2
        # On a rank of nodes all lines run straight a little farther, so that none that bends
        # sooner cuts another off.
        more = 0.0 if grid.rank[item] % grid.step else stem
        top, bottom = top - more, bottom + more
        if i == 0:
            top = middle + grid.height[item] / 2
        elif i == last:
            bottom = middle - grid.height[item] / 2
        corners += [(grid.x[item] + shift, top), (grid.x[item] + shift, bottom)]
    return corners if last else []


def beside(route: Sequence[Point], direction: Direction, distance: float = 0.0) -> Array:
    """A smooth curve along a route, or beside it.

    Args:
        route: The corners, as in `Layout.routes`.
        direction: The direction of the layout.
        distance: How far beside it: to the right of one that runs down, below one that runs
            right; negative for the other side.

    Returns:
        The points of the curve, of shape (n, 2).
    """
    points = [route[0]]
    for (x0, y0), (x1, y1) in pairwise(route):
        across, along = (x1 - x0, y1 - y0) if direction == "down" else (y1 - y0, x1 - x0)
        for u, v in _bend(across, along):
            points.append((x0 + u, y0 + v) if direction == "down" else (x0 + v, y0 + u))
    line = np.array(points)
    way = line[1:] - line[:-1]
    moves = np.abs(way).sum(1) > 1e-6
    if not moves.all():
        line, way = line[np.concatenate(([True], moves))], way[moves]
    if not distance or len(line) < 2:
        return line
    turn = np.concatenate((way[:1], way[:-1] + way[1:], way[-1:]))
    side = turn[:, ::-1] * (1.0, -1.0) / np.hypot(turn[:, :1], turn[:, 1:])
    return line + (distance if direction == "down" else -distance) * side


def _bend(across: float, along: float) -> list[Point]:
    """From (0, 0) to (across, along): an arc, a straight piece and an arc back, upright at ends.

    Arcs keep their distance from a line beside them, which a spline in so little room does not.
    """
    side, way = abs(across), abs(along)
    if side < 1e-6 or way < 1e-6:
        return [(across, along)]
    # Never quite level: two lines on one level could not be told apart.
    radius = min((way * way + side * side) / (4 * side), 0.32 * way, 12.0)
    # way = 2 r sin(angle) + d cos(angle), side = 2 r (1 - cos(angle)) + d sin(angle)
    angle = asin(min(1.0, 2 * radius / hypot(way, 2 * radius - side)))
    angle -= atan2(2 * radius - side, way)
    first = []
    for i in range(1, 7):
        a = angle * i / 6
        first.append((radius * (1 - cos(a)), radius * sin(a)))
    last = [(side - u, way - v) for u, v in [*reversed(first[:-1]), (0.0, 0.0)]]
    points = [*first, (side - first[-1][0], way - first[-1][1]), *last]
    return [(copysign(u, across), copysign(v, along)) for u, v in points]
