"""Coordinates of a layered layout: items beside each other on their ranks, and the routes of links.

    placed   boxes and links on ranks -> their Layout
    beside   a curve along a route, at a distance to its side

All is computed for a picture that runs down; one that runs right is that with its axes swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import asin, atan2, copysign, cos, hypot, inf, sin
from typing import Literal

import numpy as np

from ..graph import Array
from .ranks import PORT, SIDE, Box, Grid, Held, Link

Direction = Literal["down", "right"]
Point = tuple[float, float]

GAP = 14.0  # between neighbours on a rank, where two arrows pass; half of it between two links
RANK_GAP = 11.0  # between ranks: a link's stems and a little more
STEM = 8.0  # how far a link runs straight before it bends, so that its arrow points at the box
BEND = 12.0, 40.0  # least and most space between ranks for a link's way to the side
STEEP = 0.2  # of the way to the side, the space for it: lines farther apart look level
RADIUS = 12.0  # of a bend, at most: a larger one reads as a slope
TURNS = 12  # rounds of placing; twice as many moved pictures of 200 boxes by a few points
LOOSE = 0.05  # what leads to one box only, as a weight, gives way to all else


@dataclass(frozen=True)
class Layout:
    """Where everything is: x to the right and y down, from (0, 0) to (width, height)."""

    centres: tuple[Point, ...]  # per box
    routes: tuple[tuple[Point, ...], ...]  # per link: corners from source to target
    labels: tuple[Point, ...]  # per link: the point of its line beside which its label is
    width: float
    height: float
    direction: Direction
    frames: tuple[tuple[float, float, float, float], ...] = ()  # left, top, width, height
    bands: tuple[Point, ...] = ()  # per level where it begins and ends, across


def placed(
    boxes: Sequence[Box],
    links: Sequence[Link],
    held: Sequence[Held],
    direction: Direction,
    band: float,
) -> Layout:
    """Place boxes and links without regard to frames.

    Args:
        boxes: The boxes.
        links: The links.
        held: Per link where along their sides it must leave its source and meet its target.
        direction: "down" or "right".
        band: The space before each level, if there is more than one.

    Returns:
        The layout.
    """
    if direction == "right":
        boxes = [Box(b.height, b.width, b.frame, b.pin, b.level) for b in boxes]
    across = _Across(Grid(boxes, links, held))
    bands = across.stack(band) if len({box.level for box in boxes}) > 1 else []
    return _drawn(across, links, direction, bands)


Pull = tuple[int, float, float]  # an item, how firmly it draws another, and to which side of it


class _Across:
    """The x of each item, and where along the side of its boxes each link begins and ends."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.x = [0.0] * len(grid.rank)
        self.apart = [self._apart(layer) for layer in grid.layers]
        # Per link, from the middle of the lower side of its upper box, and of the upper side of
        # its lower box.
        self.ports = [[at or 0.0 for at in held] for held in grid.held]
        loose = self._loose()
        self.firm = [LOOSE if item in loose else 1.0 for item in range(len(self.x))]
        self._place()
        for _ in range(3):  # a link gets out of the way of another; later no more
            self._straighten()
        self._slide()

    def _apart(self, layer: Sequence[int]) -> list[float]:
        """The least distance of each item on a rank from the one before it."""
        grid, apart = self.grid, [0.0] * bool(layer)
        for a, b in pairwise(layer):
            gap = GAP / 2 if min(a, b) >= grid.boxes else GAP
            apart.append(grid.right[a] + grid.left[b] + gap)
        return apart

    def _loose(self) -> set[int]:
        """Boxes with one link, and the waypoints of that link."""
        loose: set[int] = set()
        for chain in self.grid.chains:
            for end in (chain[0], chain[-1]):
                if len(self.grid.above[end]) + len(self.grid.below[end]) == 1:
                    loose.update({end, *chain[1:-1]})
        return loose

    def shifts(self, i: int) -> list[float]:
        """Per item of link `i` how far its line is from the item's own x."""
        return [self.ports[i][0], *[0.0] * (len(self.grid.chains[i]) - 2), self.ports[i][1]]

    # --- items ---

    def _place(self) -> None:
        """Give every item its x: near its neighbours, and clear of those beside it."""
        above, below = self._neighbours()
        ranks = range(len(self.grid.layers))
        for turn in range(TURNS):
            down, last = turn % 2 == 0, turn >= TURNS * 2 // 3
            # First by one side only, which carries a straight line through in one turn; then both.
            for r in ranks if down else reversed(ranks):
                layer, wanted, strength = self.grid.layers[r], [], []
                for item in layer:
                    near = above[item] + below[item] if last else (above if down else below)[item]
                    total = want = 0.0
                    for other, weight, shift in near:
                        total += weight
                        want += weight * (self.x[other] + shift)
                    wanted.append(want / total if near else self.x[item])
                    strength.append(self.firm[item] * (total or LOOSE))
                for item, x in zip(layer, _fitted(self.apart[r], wanted, strength), strict=True):
                    self.x[item] = x

    def _neighbours(self) -> tuple[list[list[Pull]], list[list[Pull]]]:
        """What draws each item from above, and what from below."""
        above: list[list[Pull]] = [[] for _ in self.x]
        below: list[list[Pull]] = [[] for _ in self.x]
        for i, chain in enumerate(self.grid.chains):
            shift = self.shifts(i)
            for k, (a, b) in enumerate(pairwise(chain)):
                above[b].append((a, self.firm[a], shift[k] - shift[k + 1]))
                below[a].append((b, self.firm[b], shift[k + 1] - shift[k]))
        return above, below

    # --- links ---

    def _straighten(self) -> None:
        """Give each link as few bends as its neighbours leave it the space for."""
        grid, x = self.grid, self.x
        for chain, port in zip(grid.chains, self.ports, strict=True):
            free = []
            for item in chain[1:-1]:
                layer, apart = grid.layers[grid.rank[item]], self.apart[grid.rank[item]]
                i = grid.place[item]
                low = x[layer[i - 1]] + apart[i] if i else -inf
                high = x[layer[i + 1]] - apart[i + 1] if i + 1 < len(layer) else inf
                free.append((low, max(low, high)))
            ends = x[chain[0]] + port[0], x[chain[-1]] + port[1]
            now = [x[item] for item in chain[1:-1]]
            for item, to in zip(chain[1:-1], _taut(free, now, ends), strict=True):
                x[item] = to

    def _slide(self) -> None:
        """Spread the links of each side of a box, near where their lines come from."""
        grid = self.grid
        sides: dict[tuple[int, int], list[tuple[int, float, int]]] = {}
        for i, chain in enumerate(grid.chains):
            if len(chain) > 1:
                for box, near, end in ((chain[0], chain[1], 0), (chain[-1], chain[-2], 1)):
                    if grid.held[i][end] is None:
                        sides.setdefault((box, end), []).append((grid.place[near], self.x[near], i))
        for (box, end), side in sides.items():
            side.sort()
            half = SIDE * (grid.left[box] + grid.right[box])
            if len(side) == 1:
                half = min(half, 0.7 * PORT)
            step = min(PORT, 2 * half / max(len(side) - 1, 1))
            wanted = [x - self.x[box] for _, x, _ in side]
            fitted = _fitted([0.0] + [step] * (len(side) - 1), wanted, [1.0] * len(side))
            for n, ((_, _, i), at) in enumerate(zip(side, fitted, strict=True)):
                low, high = -half + n * step, half - (len(side) - 1 - n) * step
                self.ports[i][end] = min(max(at, low), high)

    # --- levels ---

    def stack(self, band: float) -> list[Point]:
        """Put level beside level, and tell where each begins and ends."""
        grid, found, end = self.grid, [], 0.0
        for level in sorted(set(grid.level)):
            own = [i for i, each in enumerate(grid.level) if each == level]
            low = min(self.x[i] - grid.left[i] for i in own)
            high = max(self.x[i] + grid.right[i] for i in own)
            between = level % 2 == 1  # links that pass between two levels need no title
            start = end + (band / 4 if between else band)
            for i in own:
                self.x[i] += start - low
            end = start + high - low
            if not between:
                found.append((start, end))
        return found


def _fitted(
    apart: Sequence[float], wanted: Sequence[float], strength: Sequence[float]
) -> list[float]:
    """Positions as near to the wanted ones as the least distances between them allow.

    With the distances taken out this is isotonic regression, by pooling adjacent violators:
    neighbours that want to pass each other become one block at their weighted mean.
    """
    blocks: list[tuple[float, float, int]] = []  # where, how strong, how many
    offset = 0.0
    for want, own, distance in zip(wanted, strength, apart, strict=True):
        offset += distance
        where, weight, many = want - offset, own, 1
        while blocks and blocks[-1][0] >= where:
            other, heavy, more = blocks.pop()
            where = (other * heavy + where * weight) / (heavy + weight)
            weight += heavy
            many += more
        blocks.append((where, weight, many))
    found: list[float] = []
    offset = 0.0
    for where, _, many in blocks:
        for _ in range(many):
            offset += apart[len(found)]
            found.append(where + offset)
    return found


def _taut(
    free: Sequence[tuple[float, float]], now: Sequence[float], ends: tuple[float, float]
) -> list[float]:
    """A line through intervals with as few pieces as possible, each piece upright."""
    pieces: list[tuple[int, float, float]] = []  # how many, and what they have in common
    for low, high in free:
        if pieces and max(low, pieces[-1][1]) <= min(high, pieces[-1][2]):
            many, least, most = pieces[-1]
            pieces[-1] = (many + 1, max(low, least), min(high, most))
        else:
            pieces.append((1, low, high))
    line: list[float] = []
    for n, (many, low, high) in enumerate(pieces):
        mean = sum(now[len(line) : len(line) + many]) / many
        # Best straight on from the source, or straight on to the target.
        wishes = line[-1:] or [ends[0]]
        if n == len(pieces) - 1:
            wishes.append(ends[1])
        inside = [wish for wish in wishes if low <= wish <= high]
        wish = min(inside or wishes[:1], key=lambda wish: abs(wish - mean))
        line += [min(max(wish, low), high)] * many
    return line


# --- routes --------------------------------------------------------------------------------------


def _drawn(
    across: _Across, links: Sequence[Link], direction: Direction, levels: Sequence[Point]
) -> Layout:
    """Turn ranks and x into points."""
    grid, x = across.grid, across.x
    items = range(len(x))
    left = 0.0 if levels else min((x[i] - grid.left[i] for i in items), default=0.0)
    width = max((x[i] + grid.right[i] for i in items), default=0.0) - left
    bands = _bands(across)
    height = bands[-1][1] if bands else 0.0

    def point(across: float, along: float) -> Point:
        across, along = round(across - left, 3), round(along, 3)
        return (across, along) if direction == "down" else (along, across)

    def middle(item: int) -> Point:
        return point(x[item], sum(bands[grid.rank[item]]) / 2)

    routes, labels = [], []
    for i, (link, chain, label) in enumerate(zip(links, grid.chains, grid.label_item, strict=True)):
        points = [point(*corner) for corner in _corners(across, i, bands)]
        routes.append(tuple(points if chain[0] == link.source else points[::-1]))
        if label >= 0:
            labels.append(middle(label))
        else:
            a, b = points[len(points) // 2 - 1 : len(points) // 2 + 1] if points else ((0, 0),) * 2
            labels.append(((a[0] + b[0]) / 2, (a[1] + b[1]) / 2))
    if direction == "right":
        width, height = height, width
    centres = tuple(middle(box) for box in range(grid.boxes))
    found = tuple(levels)
    return Layout(centres, tuple(routes), tuple(labels), width, height, direction, bands=found)


def _bands(across: _Across) -> list[Point]:
    """Top and bottom of each rank; links that go far to the side get more space to do so."""
    grid = across.grid
    sideways = [0.0] * len(grid.layers)
    for i, chain in enumerate(grid.chains):
        line = [across.x[v] + shift for v, shift in zip(chain, across.shifts(i), strict=False)]
        for item, (a, b) in zip(chain, pairwise(line), strict=False):
            sideways[grid.rank[item]] = max(sideways[grid.rank[item]], abs(b - a))
    bands, y = [], 0.0
    for layer, way in zip(grid.layers, sideways, strict=True):
        bottom = y + max((grid.height[i] for i in layer), default=0.0)
        bands.append((y, bottom))
        least, most = BEND
        bend = min(max(least, STEEP * way), most) if way > 0.5 else 0.0
        y = bottom + max(RANK_GAP, STEM * (1 if grid.labelled else 2) + bend)
    return bands


def _corners(across: _Across, i: int, bands: Sequence[Point]) -> list[Point]:
    """The corners of a link: it bends between ranks only, and is upright within each."""
    grid, chain = across.grid, across.grid.chains[i]
    corners: list[Point] = []
    for item, shift in zip(chain, across.shifts(i), strict=False):
        top, bottom = bands[grid.rank[item]]
        middle = (top + bottom) / 2
        # On a rank of boxes all lines run straight a little farther, so that none that bends
        # sooner cuts another off.
        stem = 0.0 if grid.labelled and grid.rank[item] % 2 else STEM
        top, bottom = top - stem, bottom + stem
        if item == chain[0]:
            top = middle + grid.height[item] / 2
        elif item == chain[-1]:
            bottom = middle - grid.height[item] / 2
        corners += [(across.x[item] + shift, top), (across.x[item] + shift, bottom)]
    return corners if len(chain) > 1 else []


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
    radius = min((way * way + side * side) / (4 * side), 0.32 * way, RADIUS)
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
