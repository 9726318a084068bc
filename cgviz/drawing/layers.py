"""The layout of boxes and links in layers, without frames: ranks, order, places and routes.

    arranged           boxes and links -> their Layout
    Box, Link, Layout  what is placed, and where it is
    beside             a curve along a route, at a distance to its side

The method is that of Sugiyama, Tagawa and Toda (1981). Each box gets a rank by longest path, each
link a waypoint on every rank that it passes; sweeps sort each rank by the mean position of the
neighbours, with swaps of adjacent items as in Gansner, Koutsofios, North and Vo (1993); then all
are moved beside each other, as near to their neighbours as sizes allow. Boxes are on the even
ranks and labels on the odd ones between them, so that labels overlap neither boxes nor each other.

All is computed for a picture that runs down; one that runs right is that with its axes swapped.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import asin, atan2, ceil, copysign, cos, hypot, inf, sin
from typing import Literal

import numpy as np

from ..graph import Array

PORT = 18.0  # between two links at one side of a box: space for two arrows there and two back
# Of the width of a box, what its links use on either side of the middle: its corners are round.
SIDE = 0.38
GAP = 14.0  # between neighbours on a rank, where two arrows pass; half of it between two links
RANK_GAP = 11.0  # between ranks: a link's stem and a little more
STEM = 8.0  # how far a link runs straight before it bends, so that its arrow points at the box
BEND = 12.0, 40.0  # least and most space between ranks for a link's way to the side
STEEP = 0.2  # of the way to the side, the space for it: lines farther apart look level
RADIUS = 12.0  # of a bend, at most: a larger one reads as a slope
ARC = 0.3  # radians from point to point of a bend: an eighth of a point from the true arc
SWEEPS, SWAPS = 12, 3  # for the order; more of either found hardly fewer crossings
TURNS = 9  # rounds of placing; more moved pictures of 200 boxes by a few points
LOOSE = 0.05  # what leads to one box only, as a weight, gives way to all else
# Waypoints of all links, the shortest first; the others run straight, through boxes if need be, or
# a weight that each of 400 steps uses would cost a minute.
MOST = 4000

Direction = Literal["down", "right"]
Point = tuple[float, float]
# Where a link leaves its source and meets its target, from the middle of the side; None: anywhere.
Held = tuple[float | None, float | None]


@dataclass(frozen=True)
class Box:
    """A box to be placed."""

    width: float
    height: float
    frame: int = -1  # the innermost frame around it, or -1
    pin: int = 0  # -1: before all others of its frame; 1: behind them
    level: int = 0  # its band, counted across the direction from 0


@dataclass(frozen=True)
class Link:
    """One link, from box `source` to box `target`, by index.

    Its label needs space `before` and `after` the line, across it, and `along` it: for a picture
    that runs down these are its widths left and right of the line, and its height.
    """

    source: int
    target: int
    before: float = 0.0
    after: float = 0.0
    along: float = 0.0
    back: bool = False  # it runs against the direction
    exit: int = -1  # of a source that is a frame: the box inside that the line comes from
    entry: int = -1  # of a target that is a frame: the box inside that the line leads to


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


def arranged(
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
        boxes = [replace(box, width=box.height, height=box.width) for box in boxes]
    layers = Layers(boxes, links, held)
    layers.place()
    bands = layers.stack(band) if len({box.level for box in boxes}) > 1 else []
    return layers.layout(direction, bands)


class Layers:
    """Boxes, waypoints and labels on their ranks; an item is one of these, boxes first."""

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link], held: Sequence[Held]) -> None:
        self.boxes, self.links = len(boxes), links
        ends = [(x.target, x.source) if x.back else (x.source, x.target) for x in links]
        self.rank = [2 * r for r in ranks(boxes, ends)]
        self.left = [box.width / 2 for box in boxes]  # on either side of an item's own line
        self.right = list(self.left)
        self.height = [box.height for box in boxes]
        # Even: the level of an item; odd: between two levels, where links pass.
        self.level = [2 * box.level for box in boxes]
        # The neighbours of an item on the even ranks above and below it.
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        self.chains: list[list[int]] = []  # per link its items, the upper end first
        self.label_item: list[int] = []  # per link, or -1
        self.held: list[Held] = []  # per link, the upper end first
        # By box and neighbour: how far along a wide box a link is held, so that order counts.
        self.lean: dict[tuple[int, int], float] = {}
        spans = np.sort([abs(self.rank[a] - self.rank[b]) for a, b in ends])
        self.longest = spans[spans.cumsum() <= 2 * MOST].max(initial=2)
        for link, (a, b), at in zip(links, ends, held, strict=True):
            upper, lower = (a, b) if self.rank[a] <= self.rank[b] else (b, a)
            self.held.append(at if upper == link.source else at[::-1])
            self._add_chain(link, upper, lower)
        self.x = [0.0] * len(self.rank)
        self.ports = [[at or 0.0 for at in ends] for ends in self.held]  # as `held`
        self.layers: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        self.at = [0] * len(self.rank)  # per item its position in its rank
        self._order()

    def _add_item(self, rank: int, level: int, before: float, after: float, along: float) -> int:
        self.rank.append(rank)
        self.level.append(level)
        self.left.append(max(before, PORT / 4))
        self.right.append(max(after, PORT / 4))
        self.height.append(along)
        self.above.append([])
        self.below.append([])
        return len(self.rank) - 1

    def _add_chain(self, link: Link, upper: int, lower: int) -> None:
        """Add the items of a link: waypoints beside boxes, and between them one has its label."""
        start, end = self.rank[upper], self.rank[lower]
        at = end - 1 if lower == link.target else start + 1  # the label is beside the target
        own, other = self.level[upper], self.level[lower]
        level, long = own if own == other else max(own, other) - 1, end - start > self.longest
        items, label = [upper], -1
        for r in [at] if long else range(start + 1, end):
            space = (link.before, link.after, link.along) if r == at else (0.0, 0.0, 0.0)
            items.append(self._add_item(r, level, *space))
            label = items[-1] if r == at else label
        items += [lower] * (upper != lower)
        self.chains.append(items)
        self.label_item.append(label)
        for a, b in () if long else pairwise(items[::2]):
            self.below[a].append(b)
            self.above[b].append(a)
        if upper != lower:
            for box, near, to in zip(
                (upper, lower), (items[2], items[-3]), self.held[-1], strict=True
            ):
                if to is not None:
                    # Less than half a position, so that it never passes the next box.
                    self.lean[box, near] = 0.98 * to / (2 * self.left[box])

    # --- order ---

    def _order(self) -> None:
        """Find an order for the even ranks in which few links cross; the odd ones follow it."""
        for item in self._depth_first():
            self.layers[self.rank[item]].append(item)
        even = self.layers[::2]
        for layer in even:
            self._reorder(layer, layer)
        best, fewest = [list(layer) for layer in even], self._crossings()
        for turn in range(SWEEPS):
            if not fewest:
                break
            # Equal ones change sides now and then, or the order gets stuck.
            self._sweep(down=turn % 2 == 0, flip=turn % 4 >= 2)
            for _ in range(SWAPS):
                for layer in even:
                    self._swap(layer)
            if (now := self._crossings()) < fewest:
                best, fewest = [list(layer) for layer in even], now
        for layer, order in zip(even, best, strict=True):
            self._reorder(layer, order)
        between: dict[int, float] = {}
        for items in self.chains:
            for a, item, b in zip(items[::2], items[1::2], items[2::2], strict=False):
                self.layers[self.rank[item]].append(item)
                lean = self.lean.get((a, b), 0.0) + self.lean.get((b, a), 0.0)
                between[item] = self.at[a] + self.at[b] + lean
        for layer in self.layers[1::2]:
            self._reorder(layer, sorted(layer, key=between.__getitem__))

    def _depth_first(self) -> list[int]:
        """A first order: up from the last boxes, inputs in their order, so branches stay apart."""
        order: dict[int, None] = {}
        starts = [v for v in range(self.boxes) if not self.below[v]]
        for start in sorted(starts, key=lambda v: not self.above[v]):  # loose ones come last
            stack = [start]
            while stack:
                if (item := stack.pop()) not in order:
                    order[item] = None
                    stack += reversed(self.above[item])
        return list(order)

    def _reorder(self, layer: list[int], order: Sequence[int]) -> None:
        """Give a rank another order, in which levels stay apart."""
        layer[:] = sorted(order, key=self.level.__getitem__)
        for i, item in enumerate(layer):
            self.at[item] = i

    def _near(self, layer: Sequence[int], side: Sequence[Sequence[int]]) -> list[list[float]]:
        """Per item of a rank where its neighbours on one side are, in positions of their rank."""
        at, lean = self.at, self.lean
        if not lean:
            return [[at[o] for o in side[item]] for item in layer]
        return [[at[o] + lean.get((o, item), 0.0) for o in side[item]] for item in layer]

    def _sweep(self, down: bool, flip: bool) -> None:
        """Sort each rank by where its neighbours on one side are."""
        for layer in self.layers[::2] if down else self.layers[::-2]:
            near = self._near(layer, self.above if down else self.below)
            key = {
                item: sum(places) / len(places) if places else self.at[item]
                for item, places in zip(layer, near, strict=True)
            }
            self._reorder(layer, sorted(layer[::-1] if flip else layer, key=key.__getitem__))

    def _crossings(self) -> int:
        """How many pairs of links cross, summed over neighbouring ranks."""
        total = 0
        for layer in self.layers[:-1:2]:
            seen: list[float] = []
            for ends in self._near(layer, self.below):
                total += sum([len(seen) - bisect_right(seen, end) for end in ends])
                for end in ends:
                    insort(seen, end)
        return total

    def _swap(self, layer: list[int]) -> None:
        """Swap neighbours on a rank where that crosses no more links.

        Where it makes no difference, too, to find a way out of where the order is stuck.
        """
        # Neighbours are on other ranks, so they stay where they are while this one is sorted.
        sides = self._near(layer, self.above), self._near(layer, self.below)
        for i in range(len(layer) - 1):
            a, b = layer[i], layer[i + 1]
            if self.level[a] != self.level[b]:
                continue
            saved = 0
            for near in sides:
                there = near[i + 1]
                for p in near[i]:
                    for q in there:
                        saved += (p > q) - (p < q)
            if saved >= 0:
                layer[i], layer[i + 1] = b, a
                for near in sides:
                    near[i], near[i + 1] = near[i + 1], near[i]
        self._reorder(layer, layer)

    # --- across the direction ---

    def place(self) -> None:
        """Give every item its x, and every link its place at the sides of its boxes."""
        self.apart = [self._apart(layer) for layer in self.layers]
        self._near_neighbours()
        for _ in range(3):  # a link gets out of the way of another; later no more
            self._straighten()
        self._slide()

    def _apart(self, layer: Sequence[int]) -> list[float]:
        """The least distance of each item on a rank from the one before it."""
        apart = [0.0] * bool(layer)
        for a, b in pairwise(layer):
            gap = GAP / 2 if min(a, b) >= self.boxes else GAP
            apart.append(self.right[a] + self.left[b] + gap)
        return apart

    def _near_neighbours(self) -> None:
        """Move every item as near to its neighbours as those beside it allow."""
        uses = Counter(end for items in self.chains for end in (items[0], items[-1]))
        firm = [1.0] * len(self.x)
        for items in self.chains:
            for end in (items[0], items[-1]):
                for item in (end, *items[1:-1]) if uses[end] == 1 else ():
                    firm[item] = LOOSE
        # Per item what draws it from above and from below: an item, how firmly, how far beside it.
        above: list[list[tuple[int, float, float]]] = [[] for _ in self.x]
        below: list[list[tuple[int, float, float]]] = [[] for _ in self.x]
        for i, items in enumerate(self.chains):
            for (a, b), (p, q) in zip(pairwise(items), pairwise(self.shifts(i)), strict=True):
                above[b].append((a, firm[a], p - q))
                below[a].append((b, firm[b], q - p))
        both = [one + other for one, other in zip(above, below, strict=True)]
        x = self.x
        for turn in range(TURNS):
            down = turn % 2 == 0
            # First by one side only, which carries a straight line through in one turn; then both.
            pulls = both if turn >= TURNS * 2 // 3 else above if down else below
            for r in range(len(self.layers)) if down else reversed(range(len(self.layers))):
                layer = self.layers[r]
                wanted, strength = [], []
                for item in layer:
                    total = want = 0.0
                    for other, weight, shift in pulls[item]:
                        total += weight
                        want += weight * (x[other] + shift)
                    wanted.append(want / total if total else x[item])
                    strength.append(firm[item] * (total or LOOSE))
                for item, place in zip(layer, fitted(self.apart[r], wanted, strength), strict=True):
                    x[item] = place

    def shifts(self, i: int) -> list[float]:
        """Per item of link `i` how far its line is from the item's own x."""
        (first, last), count = self.ports[i], len(self.chains[i])
        return [first, *[0.0] * (count - 2), last][:count]

    def _straighten(self) -> None:
        """Give each link as few bends as its neighbours leave it the space for."""
        x = self.x
        for items, port in zip(self.chains, self.ports, strict=True):
            free = []
            for item in items[1:-1]:
                layer, apart = self.layers[self.rank[item]], self.apart[self.rank[item]]
                i = self.at[item]
                low = x[layer[i - 1]] + apart[i] if i else -inf
                high = x[layer[i + 1]] - apart[i + 1] if i + 1 < len(layer) else inf
                free.append((low, max(low, high)))
            line = taut(free, x[items[0]] + port[0], x[items[-1]] + port[1])
            for item, to in zip(items[1:-1], line, strict=True):
                x[item] = to

    def _slide(self) -> None:
        """Spread the links of each side of a box, near where their lines come from."""
        sides: dict[tuple[int, int], list[tuple[int, float, int]]] = {}
        for i, items in enumerate(self.chains):
            for end, near in ((0, items[1:2]), (-1, items[-2:-1])):
                if near and self.held[i][end] is None:
                    side = sides.setdefault((items[end], end), [])
                    side.append((self.at[near[0]], self.x[near[0]], i))
        for (box, end), side in sides.items():
            side.sort()
            half = SIDE * 2 * self.left[box]
            if len(side) == 1:  # not at a corner, nor far from the middle
                half = min(half, 0.7 * PORT, max(self.left[box] - PORT / 4, 0.0))
            step = min(PORT, 2 * half / max(len(side) - 1, 1))
            wanted = [x - self.x[box] for _, x, _ in side]
            places = fitted([0.0] + [step] * (len(side) - 1), wanted, [1.0] * len(side))
            for n, ((_, _, i), place) in enumerate(zip(side, places, strict=True)):
                low, high = -half + n * step, half - (len(side) - 1 - n) * step
                self.ports[i][end] = min(max(place, low), high)

    def stack(self, band: float) -> list[Point]:
        """Put level beside level, and tell where each begins and ends."""
        found, end = [], 0.0
        for level in sorted(set(self.level)):
            own = [i for i, each in enumerate(self.level) if each == level]
            low = min(self.x[i] - self.left[i] for i in own)
            high = max(self.x[i] + self.right[i] for i in own)
            between = level % 2 == 1  # links that pass between two levels need no title
            start = end + (band / 4 if between else band)
            for i in own:
                self.x[i] += start - low
            end = start + high - low
            if not between:
                found.append((start, end))
        return found

    # --- along the direction ---

    def layout(self, direction: Direction, bands: Sequence[Point]) -> Layout:
        """Turn ranks and x into points."""
        every = range(len(self.x))
        left = 0.0 if bands else min((self.x[i] - self.left[i] for i in every), default=0.0)
        width = max((self.x[i] + self.right[i] for i in every), default=0.0) - left
        rows = self._rows()
        height = rows[-1][1] if rows else 0.0

        def point(across: float, along: float) -> Point:
            across, along = round(across - left, 3), round(along, 3)
            return (across, along) if direction == "down" else (along, across)

        def middle(item: int) -> Point:
            return point(self.x[item], sum(rows[self.rank[item]]) / 2)

        routes = []
        for i, (link, items) in enumerate(zip(self.links, self.chains, strict=True)):
            points = [point(*corner) for corner in self._corners(i, rows)]
            routes.append(tuple(points if items[0] == link.source else points[::-1]))
        if direction == "right":
            width, height = height, width
        return Layout(
            tuple(map(middle, range(self.boxes))),
            tuple(routes),
            tuple(middle(label) if label >= 0 else (0.0, 0.0) for label in self.label_item),
            *(width, height, direction),
            bands=tuple(bands),
        )

    def _rows(self) -> list[Point]:
        """Top and bottom of each rank; links that go far to the side get more space to do so."""
        sideways = [0.0] * len(self.layers)
        for i, items in enumerate(self.chains):
            line = [self.x[v] + shift for v, shift in zip(items, self.shifts(i), strict=True)]
            for item, (a, b) in zip(items, pairwise(line), strict=False):
                sideways[self.rank[item]] = max(sideways[self.rank[item]], abs(b - a))
        rows, y = [], 0.0
        for layer, way in zip(self.layers, sideways, strict=True):
            bottom = y + max((self.height[i] for i in layer), default=0.0)
            rows.append((y, bottom))
            least, most = BEND
            bend = min(max(least, STEEP * way), most) if way > 0.5 else 0.0
            y = bottom + max(RANK_GAP, STEM + bend)
        return rows

    def _corners(self, i: int, rows: Sequence[Point]) -> list[Point]:
        """The corners of a link: it bends between ranks only, and is upright within each."""
        items = self.chains[i]
        corners: list[Point] = []
        for item, shift in zip(items, self.shifts(i), strict=True):
            top, bottom = rows[self.rank[item]]
            middle, half = (top + bottom) / 2, self.height[item] / 2
            # On a rank of boxes all lines run straight a little farther, so that none that bends
            # sooner cuts another off.
            stem = 0.0 if self.rank[item] % 2 else STEM
            top = middle + half if item == items[0] else top - stem
            bottom = middle - half if item == items[-1] else bottom + stem
            corners += [(self.x[item] + shift, top), (self.x[item] + shift, bottom)]
        return corners if len(items) > 1 else []


def ranks(boxes: Sequence[Box], ends: Sequence[tuple[int, int]]) -> list[int]:
    """A rank per box: by longest path, then each to where its links are shortest.

    Boxes that are pinned come before all others, or behind them.
    """
    out: list[list[int]] = [[] for _ in boxes]
    for a, b in ends:
        out[a].append(b)
    order: list[int] = []  # depth first, each box before all that it leads to but for cycles
    seen = [False] * len(boxes)
    for start in range(len(boxes)):
        stack = [start]
        while stack:
            v = stack.pop()
            if v < 0:
                order.append(~v)
            elif not seen[v]:
                seen[v] = True
                stack += [~v, *out[v]]
    order.reverse()
    at = {v: i for i, v in enumerate(order)}
    above: list[list[int]] = [[] for _ in boxes]
    below: list[list[int]] = [[] for _ in boxes]
    for a, b in ends:
        if a != b:
            upper, lower = (a, b) if at[a] < at[b] else (b, a)
            above[lower].append(upper)
            below[upper].append(lower)
    rank = [0] * len(boxes)
    for v in order:
        rank[v] = max((rank[u] + 1 for u in above[v]), default=0)
    for v in reversed(order):
        if len(below[v]) > len(above[v]):
            rank[v] = min(rank[w] for w in below[v]) - 1
    keys = [(box.pin, 0 if box.pin else r) for box, r in zip(boxes, rank, strict=True)]
    place = {key: n for n, key in enumerate(sorted(set(keys)))}
    return [place[key] for key in keys]


def fitted(
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


def taut(free: Sequence[tuple[float, float]], start: float, end: float) -> list[float]:
    """A line from `start` to `end` through intervals: few upright pieces, each straight on if free.

    >>> taut([(-1, 9), (4, 9), (5, 9)], 0, 6)
    [6, 6, 6]
    """
    pieces: list[tuple[int, float, float]] = []  # how many intervals, and what they have in common
    for low, high in free:
        if pieces and max(low, pieces[-1][1]) <= min(high, pieces[-1][2]):
            many, least, most = pieces[-1]
            pieces[-1] = (many + 1, max(low, least), min(high, most))
        else:
            pieces.append((1, low, high))
    line: list[float] = []
    for many, low, high in pieces:
        last = len(line) + many == len(free)
        wish = end if last and low <= end <= high else line[-1] if line else start
        line += [min(max(wish, low), high)] * many
    return line


# --- curves --------------------------------------------------------------------------------------


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
    line, way = line[np.concatenate(([True], moves))], way[moves]
    if not distance or len(line) < 2:
        return line
    turn = np.concatenate((way[:1], way[:-1] + way[1:], way[-1:]))
    side = turn[:, ::-1] * (1.0, -1.0) / np.hypot(turn[:, :1], turn[:, 1:])
    return line + (distance if direction == "down" else -distance) * side


def _bend(across: float, along: float) -> list[Point]:
    """From (0, 0) to (across, along): an arc, a straight piece and an arc back, upright at ends.

    Arcs keep their distance from a line beside them, which a spline in so little space does not.
    """
    side, way = abs(across), abs(along)
    if side < 1e-6 or way < 1e-6:
        return [(across, along)]
    # Never quite level: two lines on one level could not be told apart.
    radius = min((way * way + side * side) / (4 * side), 0.32 * way, RADIUS)
    # way = 2 r sin(angle) + d cos(angle), side = 2 r (1 - cos(angle)) + d sin(angle)
    angle = asin(min(1.0, 2 * radius / hypot(way, 2 * radius - side)))
    angle -= atan2(2 * radius - side, way)
    count = max(ceil(angle / ARC), 1)
    arc = [angle * i / count for i in range(count + 1)]
    first = [(radius * (1 - cos(a)), radius * sin(a)) for a in arc]
    last = [(side - u, way - v) for u, v in reversed(first)]
    return [(copysign(u, across), copysign(v, along)) for u, v in [*first[1:], *last]]
