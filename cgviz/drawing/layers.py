"""The layout of boxes and links in layers, without frames: ranks, order, places and routes.

    arranged           boxes and links -> their Layout
    Box, Link, Layout  what is placed, and where it is
    beside             a curve along a route, or at a distance beside it

The method is that of Sugiyama, Tagawa and Toda (1981). Each box gets a rank by longest path, each
link a waypoint on every rank that it passes; sweeps sort each rank by the mean position of the
neighbours, with swaps of adjacent items as in Gansner, Koutsofios, North and Vo (1993); then every
item is placed as near to its neighbours on other ranks as the sizes allow. Boxes are on the even
ranks and labels on the odd ones between them, so that labels overlap neither boxes nor each other.

Everything is computed for a picture that runs down; for one that runs right, axes are swapped.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import accumulate, chain, pairwise
from math import asin, atan2, ceil, copysign, cos, hypot, inf, sin
from typing import Literal

import numpy as np

from ..graph import Array

PORT = 18.0  # between two links at one side of a box: each has an arrow forward and one back
# The share of a box's width that its links use on either side of the middle: corners are round.
SIDE = 0.38
BAND = 34.0  # above a band, for its title
GAP = 14.0  # between a box and its neighbour on a rank: two arrows fit in; half of it between links
RANK_GAP = 11.0  # between ranks: a link's stem and a little more
STEM = 8.0  # how far a link runs straight before it bends, so that its arrow points at the box
BEND = 16.0, 40.0  # the least and the most space between ranks for links that go to the side
LEVEL = 0.42  # the largest radius of a bend, as a share of that space: half would make lines level
STEEP = 0.2  # that space, as a share of a link's way to the side: with less, lines look level
TOGETHER = 1.5 * PORT  # two lines that overlap by more, across, must not bend at the same height
CROSSING = 0.5 * PORT  # the same between bands, for two that cross: there links run far
MOST_TURNS = 3  # heights for such bends besides the first one: more would take too much space
MOST_BENT = 24  # bent links between two ranks: if there are more, no line can be followed anyway
RADIUS = 12.0  # the largest radius of a bend: a larger one looks like a slope
ARC = 0.3  # radians from point to point of a bend: within an eighth of a point of the true arc
# Rounds of swaps for the order. Three times as many take a third as much time again for 3 percent
# fewer crossings in random graphs of 20 to 80 boxes, and leave the golden pictures as they are.
ROUNDS = 20
TURNS = 7  # rounds of placing; with 9 or 30 the links are at most one percent shorter in total
LOOSE = 0.05  # how firm a box with a single link is, such as a weight: it gives way to all others
# The most waypoints, which go to the shortest links first. The other links run straight, through
# boxes if need be; otherwise a weight that each of 400 steps uses would cost a minute.
MOST = 4000

Direction = Literal["down", "right"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A box to be placed."""

    width: float
    height: float
    frame: int = -1  # the innermost frame around it, or -1
    # -1: before all other boxes of its frame; 1: after them. A link between a pinned box and the
    # outside ends at the frame.
    pin: int = 0
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
    # Where it must leave its source and meet its target, from the side's middle; None: anywhere.
    held: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Layout:
    """Where everything is: x to the right and y down, from (0, 0) to (width, height)."""

    centres: tuple[Point, ...]  # per box
    routes: tuple[tuple[Point, ...], ...]  # per link: corners from source to target
    labels: tuple[Point, ...]  # per link: the point of its line that its label is beside
    width: float
    height: float
    frames: tuple[tuple[float, float, float, float], ...] = ()  # left, top, width, height
    bands: tuple[Point, ...] = ()  # per level: where it begins and ends, across the direction


def arranged(boxes: Sequence[Box], links: Sequence[Link], direction: Direction) -> Layout:
    """Place boxes and links without regard to frames."""
    if direction == "right":
        boxes = [replace(box, width=box.height, height=box.width) for box in boxes]
    layers = Layers(boxes, links)
    layers.order()
    layers.place()
    bands = layers.stack() if len({box.level for box in boxes}) > 1 else []
    return layers.layout(direction, bands)


@dataclass(eq=False, slots=True)
class Item:
    """A box, or a link where it passes a rank."""

    rank: int  # even: of boxes; odd: of labels
    level: int  # twice the level of a box; odd where a link passes between two levels
    left: float  # its extent on either side of its own line
    right: float
    height: float
    firm: float  # how strongly it pulls its neighbours
    is_box: bool = False
    at: int = -1  # its position in its rank
    apart: float = 0.0  # its least distance from the item before it
    x: float = 0.0
    # On an even rank: where its links end on the even ranks above and below, in positions.
    near: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    # Where its neighbours keep its position, one per such link: in which list, where in it, and the
    # lean of the link.
    told: list[tuple[list[float], int, float]] = field(default_factory=list)
    # Its neighbours on the ranks above and below, and how far beside each its link is upright.
    pulls: tuple[list[Beside], list[Beside]] = field(default_factory=lambda: ([], []))


Beside = tuple[Item, float]


@dataclass(eq=False, slots=True)
class Line:
    """A link as its items, the upper end first."""

    link: Link  # turned if it runs back
    items: list[Item]
    label: Item
    ports: list[float]  # where it ends at the upper and at the lower box, from their middles
    # Below each of its items: how far its bend is held back, and how far the last bend there is.
    waits: list[Point] = field(default_factory=list)

    def xs(self) -> list[float]:
        """Its x at each of its items."""
        first, *between, last = self.items
        return [first.x + self.ports[0], *[item.x for item in between], last.x + self.ports[1]]


def _turned(link: Link) -> Link:
    return replace(link, source=link.target, target=link.source, held=link.held[::-1])


class Layers:
    """Boxes and links as items on their ranks."""

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link]) -> None:
        links = [_turned(link) if link.back else link for link in links]
        ends = [(link.source, link.target) for link in links]
        found = ranks(boxes, ends)
        links_of = Counter(chain(*ends))
        self.boxes = []
        for i, (box, rank) in enumerate(zip(boxes, found, strict=True)):
            half, firm = box.width / 2, 1.0 if links_of[i] > 1 else LOOSE
            self.boxes.append(Item(2 * rank, 2 * box.level, half, half, box.height, firm, True))
        spans = np.sort([2 * (found[b] - found[a]) for a, b in ends])
        self.longest = spans[spans.cumsum() <= 2 * MOST].max(initial=2)
        self.lines = list(map(self._line, links))
        self.layers: list[list[Item]] = [[] for _ in range(2 * max(found, default=-1) + 1)]
        for item in sorted(self._depth_first(), key=lambda item: item.level):
            self.layers[item.rank].append(item)

    def _line(self, link: Link) -> Line:
        """A link as items: waypoints on the ranks it passes, one with space for its label."""
        upper, lower = self.boxes[link.source], self.boxes[link.target]
        level = max(upper.level, lower.level) - (upper.level != lower.level)
        firm = min(upper.firm, lower.firm)
        passed = range(upper.rank + 1, lower.rank)
        if len(passed) >= self.longest:
            passed = passed[:1] if link.back else passed[-1:]
        space = PORT / 4  # on either side
        items = [upper, *(Item(rank, level, space, space, 0.0, firm) for rank in passed), lower]
        label = items[1 if link.back else -2]  # beside the target
        label.left, label.right = max(link.before, space), max(link.after, space)
        label.height = link.along
        first, last = ports = [at or 0.0 for at in link.held]
        shifts = [first, *[0.0] * (len(items) - 2), last]
        for (a, p), (b, q) in pairwise(zip(items, shifts, strict=True)):
            a.pulls[1].append((b, q - p))
            b.pulls[0].append((a, p - q))
        for (a, p), (b, q) in pairwise(zip(items[::2], shifts[::2], strict=True)):
            if b.rank == a.rank + 2:  # or it has no waypoints
                for this, shift, near in ((a, p, b.near[0]), (b, q, a.near[1])):
                    this.told.append((near, len(near), _lean(this, shift)))
                    near.append(0.0)
        return Line(link, items, label, ports)

    # --- order ---

    def _depth_first(self) -> Iterator[Item]:
        """A first order, depth-first from the last boxes, inputs in order: branches stay apart."""
        arriving: dict[Item, list[Line]] = {box: [] for box in self.boxes}
        for line in self.lines:
            arriving[line.items[-1]].append(line)
        # Boxes without any link come last.
        last = [box for box in self.boxes if not box.pulls[1]]
        stack = [[box] for box in sorted(last, key=lambda box: not box.pulls[0])[::-1]]
        while stack:
            *between, box = stack.pop()
            yield from between
            if box in arriving:
                yield box
                stack += [line.items[-2::-1] for line in reversed(arriving.pop(box))]

    def order(self) -> None:
        """Find an order for the even ranks in which few links cross; the odd ranks follow it."""
        even = self.layers[::2]
        for layer in even:
            reorder(layer, layer)
        best, fewest = [list(layer) for layer in even], crossings(even)
        rounds, turn = ROUNDS, 0
        while fewest and rounds:
            down = turn % 2 == 0
            for layer in even if down else even[::-1]:
                # Ties are reversed in every other pair of turns, or the order would get stuck.
                sweep(layer, 0 if down else 1, flip=turn % 4 >= 2)
            turn += 1
            now, in_vain = crossings(even), 0
            while rounds and in_vain < 2:  # after one round in vain another may find a way
                saved = sum([swap(layer) for layer in even])
                now, rounds, in_vain = now - saved, rounds - 1, 0 if saved else in_vain + 1
                if now < fewest:
                    best, fewest = [list(layer) for layer in even], now
        for layer, order in zip(even, best, strict=True):
            reorder(layer, order)
        for layer in self.layers[1::2]:
            reorder(layer, sorted(layer, key=_between))

    # --- across the direction ---

    def place(self) -> None:
        """Give every item its x, and every link its place at the sides of its boxes."""
        for layer in self.layers:
            for a, b in pairwise(layer):
                b.apart = a.right + b.left + (GAP if a.is_box or b.is_box else GAP / 2)
        self._near_neighbours()
        for _ in range(3):  # each time a link may make way for another; after that none does
            self._straighten()
        self._slide()

    def _near_neighbours(self) -> None:
        """Move every item as near to its neighbours as the items beside it on its rank allow."""
        rows = [(layer, list(accumulate(item.apart for item in layer))) for layer in self.layers]
        for turn in range(TURNS):
            # First by the neighbours on one side only, which carries a straight line through in one
            # turn; then by both.
            side, both = turn % 2, turn >= TURNS * 2 // 3
            for layer, offsets in rows[::-1] if side else rows:
                wanted, strength = [], []
                for item in layer:
                    total = want = 0.0
                    for other, shift in chain(*item.pulls) if both else item.pulls[side]:
                        total += other.firm
                        want += other.firm * (other.x + shift)
                    wanted.append(want / total if total else item.x)
                    strength.append(item.firm * (total or LOOSE))
                for item, x in zip(layer, fitted(offsets, wanted, strength), strict=True):
                    item.x = x

    def _straighten(self) -> None:
        """Give each link as few bends as the space between the items beside it allows."""
        for line in self.lines:
            first, *between, last = line.items
            free = []
            for item in between:
                layer, i = self.layers[item.rank], item.at
                low = layer[i - 1].x + item.apart if i else -inf
                high = layer[i + 1].x - layer[i + 1].apart if i + 1 < len(layer) else inf
                free.append((low, max(low, high)))
            start, end = first.x + line.ports[0], last.x + line.ports[1]
            for item, x in zip(between, taut(free, start, end), strict=True):
                item.x = x

    def _slide(self) -> None:
        """Spread the links along each side of a box, each near where its line comes from."""
        sides: dict[tuple[Item, int], list[tuple[int, float, Line]]] = {}
        for line in self.lines:
            for end, near in ((0, line.items[1]), (-1, line.items[-2])):
                if line.link.held[end] is None:
                    sides.setdefault((line.items[end], end), []).append((near.at, near.x, line))
        for (box, end), side in sides.items():
            side.sort(key=lambda each: each[:2])
            half = SIDE * 2 * box.left
            if len(side) == 1:  # not at a corner, nor far from the middle
                half = min(half, 0.7 * PORT, max(box.left - PORT / 4, 0.0))
            step = min(PORT, 2 * half / max(len(side) - 1, 1))
            offsets = [n * step for n in range(len(side))]
            places = fitted(offsets, [x - box.x for _, x, _ in side], [1.0] * len(side))
            for offset, (*_, line), place in zip(offsets, side, places, strict=True):
                line.ports[end] = min(max(place, offset - half), offset + half - offsets[-1])

    def stack(self) -> list[Point]:
        """Put the levels side by side, and return where each begins and ends."""
        levels: dict[int, list[Item]] = {}
        for layer in self.layers:
            for item in layer:
                levels.setdefault(item.level, []).append(item)
        found, end = [], 0.0
        for level, items in sorted(levels.items()):
            between = level % 2 == 1  # links that pass between two levels need no title
            start = end + (BAND / 4 if between else BAND)
            shift = start - min(item.x - item.left for item in items)
            for item in items:
                item.x += shift
            end = max(item.x + item.right for item in items)
            if not between:
                found.append((start, end))
        return found

    # --- along the direction ---

    def layout(self, direction: Direction, bands: Sequence[Point]) -> Layout:
        """Turn ranks and x into points."""
        every = [item for layer in self.layers for item in layer]
        left = 0.0 if bands else min((item.x - item.left for item in every), default=0.0)
        width = max((item.x + item.right for item in every), default=0.0) - left
        rows = self._rows()
        height = rows[-1][1] if rows else 0.0

        def point(across: float, along: float) -> Point:
            across, along = round(across - left, 3), round(along, 3)
            return (across, along) if direction == "down" else (along, across)

        def middle(item: Item) -> Point:
            return point(item.x, sum(rows[item.rank]) / 2)

        routes = []
        for line in self.lines:
            route = [point(*corner) for corner in corners(line, rows)]
            routes.append(tuple(route[::-1] if line.link.back else route))
        return Layout(
            tuple(map(middle, self.boxes)),
            tuple(routes),
            tuple(middle(line.label) for line in self.lines),
            *((width, height) if direction == "down" else (height, width)),
            bands=tuple(bands),
        )

    def _rows(self) -> list[Point]:
        """Top and bottom of each rank; links that go far to the side get more space to do so.

        Links that overlap on their way to the side bend one after the other, the foremost first
        (`Line.waits`): otherwise they would run on top of each other, for all bends are nearly
        level.
        """
        ways: list[list[tuple[float, float, Line]]] = [[] for _ in self.layers]
        for line in self.lines:
            for item, (a, b) in zip(line.items, pairwise(line.xs()), strict=False):
                ways[item.rank].append((a, b, line))
        rows, y = [], 0.0
        for layer, passing in zip(self.layers, ways, strict=True):
            way = max((abs(b - a) for a, b, _ in passing), default=0.0)
            crossing = CROSSING if any(item.level for item in layer) else TOGETHER
            turns = held_back([(a, b) for a, b, _ in passing], crossing)
            last = PORT * max(turns, default=0)
            for (*_, line), turn in zip(passing, turns, strict=True):
                line.waits.append((PORT * turn, last))
            # A rank may be empty: no link leaves an argument that the body does not use.
            bottom = y + max((item.height for item in layer), default=0.0)
            rows.append((y, bottom))
            least, most = BEND
            bend = min(max(least, STEEP * way), most) if way > 0.5 else 0.0
            y = bottom + max(RANK_GAP, STEM + bend) + last
        return rows


def ranks(boxes: Sequence[Box], ends: Sequence[tuple[int, int]]) -> list[int]:
    """A rank per box: by longest path, then moved down if that makes its links shorter in total.

    Pinned boxes come before all others, or after them.
    """
    above: list[list[int]] = [[] for _ in boxes]
    below: list[list[int]] = [[] for _ in boxes]
    for a, b in ends:
        above[b].append(a)
        below[a].append(b)
    order = list(TopologicalSorter(dict(enumerate(above))).static_order())
    rank = [0] * len(boxes)
    for v in order:
        rank[v] = max((rank[u] + 1 for u in above[v]), default=0)
    for v in reversed(order):
        if len(below[v]) > len(above[v]):
            rank[v] = min(rank[w] for w in below[v]) - 1
    keys = [(box.pin, 0 if box.pin else r) for box, r in zip(boxes, rank, strict=True)]
    place = {key: n for n, key in enumerate(sorted(set(keys)))}
    return [place[key] for key in keys]


# --- the order of a rank -------------------------------------------------------------------------


def reorder(layer: list[Item], order: Sequence[Item]) -> None:
    """Give a rank a new order, and tell its items and their neighbours the positions in it."""
    layer[:] = order
    for i, item in enumerate(layer):
        if item.at != i:
            item.at = i
            for near, n, lean in item.told:
                near[n] = i + lean


def _lean(item: Item, shift: float) -> float:
    """How far from an item's middle a link ends, in positions: at a wide box their order counts.

    Less than half a position, so that an end never counts as beyond the next box.
    """
    return 0.49 * shift / item.left if shift else 0.0


def _between(item: Item) -> tuple[int, float]:
    """The level of an item of an odd rank, and twice its position among the links around it."""
    return item.level, sum(o.at + _lean(o, shift) for o, shift in chain(*item.pulls))


def sweep(layer: list[Item], side: int, flip: bool) -> None:
    """Sort a rank by level and the mean position of neighbours on `side`; `flip` reverses ties."""

    def place(item: Item) -> tuple[int, float]:
        near = item.near[side]
        return item.level, sum(near) / len(near) if near else item.at

    reorder(layer, sorted(layer[::-1] if flip else layer, key=place))


def crossings(layers: Sequence[Sequence[Item]]) -> int:
    """How many pairs of links cross, summed over neighbouring ranks."""
    total = 0
    for layer in layers:
        seen: list[float] = []
        for item in layer:
            total += sum([len(seen) - bisect_right(seen, end) for end in item.near[1]])
            for end in item.near[1]:
                insort(seen, end)
    return total


def swap(layer: list[Item]) -> int:
    """Swap adjacent items of a rank where that adds no crossing, and count the crossings saved.

    They are swapped even where it makes no difference: that can free an order that is stuck.
    """
    total = 0
    for i, right in enumerate(layer[1:]):
        left, saved = layer[i], 0
        if left.level == right.level:
            for side in 0, 1:
                for p in left.near[side]:
                    for q in right.near[side]:
                        if p != q:
                            saved += 1 if p > q else -1
            if saved >= 0:
                layer[i], layer[i + 1] = right, left
                total += saved
    reorder(layer, layer)
    return total


# --- places on a rank ----------------------------------------------------------------------------


def fitted(
    offsets: Sequence[float], wanted: Sequence[float], strength: Sequence[float]
) -> list[float]:
    """Positions as near to the wanted ones as allowed: as far apart as the offsets, or farther.

    With the offsets taken out this is isotonic regression, by pooling adjacent violators:
    neighbours that want to pass each other become one block at their weighted mean.
    """
    blocks = [(-inf, 0.0, 0)]  # where, how strong, how many
    for want, weight, offset in zip(wanted, strength, offsets, strict=True):
        where, many = want - offset, 1
        while blocks[-1][0] >= where:
            other, heavy, more = blocks.pop()
            where = (other * heavy + where * weight) / (heavy + weight)
            weight += heavy
            many += more
        blocks.append((where, weight, many))
    places = [where for where, _, many in blocks for _ in range(many)]
    return [where + offset for where, offset in zip(places, offsets, strict=True)]


def taut(free: Sequence[tuple[float, float]], start: float, end: float) -> list[float]:
    """A line from `start` to `end` in few upright pieces: its place in each interval.

    A piece continues the one before it as far as its intervals allow; the last is at `end` if free.

    >>> taut([(-1, 9), (4, 9), (5, 9)], 0, 6)
    [6, 6, 6]
    """
    line = [start]
    n, low, high = 0, -inf, inf  # a piece: how many intervals, and their intersection
    for least, most in [*free, (end, end)]:  # the end is one more interval
        if least > high or most < low:
            line += [min(max(line[-1], low), high)] * n
            n, low, high = 1, least, most
        else:
            n, low, high = n + 1, max(low, least), min(high, most)
    return [*line, *[end] * n][1:-1]


def held_back(ways: Sequence[Point], crossing: float = TOGETHER) -> list[int]:
    """How many heights later than the first each link between two ranks must bend.

    Args:
        ways: Per link, where it comes from and where it goes to, across the direction.
        crossing: By how much two that cross must overlap at least.

    >>> held_back([(0, 200), (20, 190), (100, 100), (180, 30)])
    [1, 0, 0, 2]
    """
    turns = [0] * len(ways)
    bent = [(min(a, b), max(a, b), a < b, i) for i, (a, b) in enumerate(ways) if a != b]
    # Of the links that go the same way, the foremost is first, so that none crosses another.
    bent.sort(key=lambda each: -each[0] if each[2] else each[1])
    for n, (a, b, right, i) in enumerate(bent if len(bent) <= MOST_BENT else ()):
        for c, d, also_right, j in bent[:n]:
            shared, cross = min(b, d) - max(a, c), right != also_right
            later = shared > (crossing if cross else TOGETHER)
            if shared > 0 and (later or not cross):
                turns[i] = min(max(turns[i], turns[j] + later), MOST_TURNS)
    return turns


def corners(line: Line, rows: Sequence[Point]) -> list[Point]:
    """The corners of a link: it bends between ranks only, and is upright within each."""
    first, last = line.items[0], line.items[-1]
    found: list[Point] = []
    waits = [*line.waits, (0.0, 0.0)]
    before = (0.0, 0.0)
    for item, x, after in zip(line.items, line.xs(), waits, strict=True):
        top, bottom = rows[item.rank]
        middle, half = (top + bottom) / 2, item.height / 2
        # On a rank of boxes all lines run straight a little farther, or a line that bends sooner
        # would cut another off.
        stem = 0.0 if item.rank % 2 else STEM
        top = middle + half if item is first else top - stem
        bottom = middle - half if item is last else bottom + stem
        top, bottom, before = top - (before[1] - before[0]), bottom + after[0], after
        if len(found) > 1 and x == found[-1][0] == found[-2][0]:  # straight on
            found[-1] = x, bottom
        else:
            found += [(x, top), (x, bottom)]
    return found


# --- curves --------------------------------------------------------------------------------------


def beside(route: Sequence[Point], direction: Direction, distance: float = 0.0) -> Array:
    """A smooth curve along a route, or beside it.

    Args:
        route: The corners, as in `Layout.routes`.
        direction: The direction of the layout.
        distance: How far beside the route: to the right if it runs down, below if it runs right;
            negative for the other side.

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
    """From (0, 0) to (across, along): an arc, a straight piece, an arc back; upright at both ends.

    Arcs keep their distance from a line beside them, which a spline in so little space does not.
    """
    side, way = abs(across), abs(along)
    if side < 1e-6 or way < 1e-6:
        return [(across, along)]
    # Never quite level: two lines on one level could not be told apart.
    radius = min((way * way + side * side) / (4 * side), LEVEL * way, RADIUS)
    # way = 2 r sin(angle) + d cos(angle), side = 2 r (1 - cos(angle)) + d sin(angle)
    angle = asin(min(1.0, 2 * radius / hypot(way, 2 * radius - side)))
    angle -= atan2(2 * radius - side, way)
    count = max(ceil(angle / ARC), 1)
    arc = [angle * i / count for i in range(count + 1)]
    first = [(radius * (1 - cos(a)), radius * sin(a)) for a in arc]
    last = [(side - u, way - v) for u, v in reversed(first)]
    return [(copysign(u, across), copysign(v, along)) for u, v in [*first[1:], *last]]
