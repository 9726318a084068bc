"""Ranks of a layered layout, and the order within each: links point down and few of them cross.

    Box, Link   what is laid out
    Grid        boxes, waypoints of links, and labels, rank by rank in a good order

The method is that of Sugiyama, Tagawa and Toda (1981): a rank per box by longest path, a waypoint
on each rank that a link passes, then sweeps that sort each rank by the mean position of neighbours,
with swaps of adjacent items as in Gansner, Koutsofios, North and Vo (1993).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

PORT = 18.0  # between two links at one side of a box: room for two arrows there and two back
# Of the width of a box, what its links use on either side of the middle: its corners are round.
SIDE = 0.38
# More of either found hardly fewer crossings in pictures of up to 200 boxes.
SWEEPS, REPEATS = 16, 8
PATIENCE = 6  # sweeps without fewer crossings, three each way, after which none will help
VISITS = 8000  # of items in one sweep: 2,000 boxes in a second
MOST = 4000  # waypoints: with one per rank, weights used at 400 steps would cost a minute


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


# Where a link leaves its source and meets its target, from the middle of the side; None: anywhere.
Held = tuple[float | None, float | None]


class Grid:
    """Boxes, waypoints and labels on their ranks; an item is one of these, boxes first.

    Args:
        boxes: The boxes, with width across and height along the ranks.
        links: The links.
        held: Per link where it must leave its source and meet its target.
    """

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link], held: Sequence[Held]) -> None:
        self.boxes = len(boxes)
        ends = [(x.target, x.source) if x.back else (x.source, x.target) for x in links]
        self.labelled = any(link.along for link in links)  # labels have ranks of their own
        rank = _pinned(boxes, _ranks(self.boxes, ends))
        self.rank = [r * (1 + self.labelled) for r in rank]
        self.left = [box.width / 2 for box in boxes]  # on either side of an item's own line
        self.right = list(self.left)
        self.height = [box.height for box in boxes]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        # Even: the level of an item; odd: between two levels, where links pass.
        self.level = [2 * box.level for box in boxes]
        self.chains: list[list[int]] = []  # per link its items, the upper end first
        self.label_item: list[int] = []  # per link, or -1
        self.held: list[Held] = []  # per link, the upper end first
        # By box and neighbour: how far along a wide box a link is held, so that order counts.
        self.lean: dict[tuple[int, int], float] = {}
        longest = self._longest(ends)
        for link, (a, b), at in zip(links, ends, held, strict=True):
            upper, lower = (a, b) if self.rank[a] <= self.rank[b] else (b, a)
            self.held.append(at if upper == link.source else at[::-1])
            self._add_chain(link, upper, lower, longest)
        self.layers: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for item in self._depth_first():
            self.layers[self.rank[item]].append(item)
        self.place = [0] * len(self.rank)  # per item its position in its rank
        self._cross_less()

    def _longest(self, ends: Sequence[tuple[int, int]]) -> int:
        """How many ranks a link may pass with a waypoint on each; a longer one runs straight."""
        total = 0
        spans = sorted(abs(self.rank[a] - self.rank[b]) for a, b in ends)
        for span in spans:
            total += span
            if total > max(MOST, 2 * self.boxes):
                return span - 1
        return spans[-1] if spans else 0

    def _add_chain(self, link: Link, upper: int, lower: int, longest: int) -> None:
        start, end = self.rank[upper], self.rank[lower]
        at = end - 1 if lower == link.target else start + 1  # the label is beside the target
        ranks = range(start + 1, end)
        if end - start > longest:
            ranks = range(at, at + self.labelled)
        chain, label = [upper], -1
        levels = self.level[upper], self.level[lower]
        for r in ranks:
            item = len(self.rank)
            own = self.labelled and r == at
            self.rank.append(r)
            self.left.append(max(link.before if own else 0.0, PORT / 4))
            self.right.append(max(link.after if own else 0.0, PORT / 4))
            self.height.append(link.along if own else 0.0)
            self.level.append(levels[0] if levels[0] == levels[1] else max(levels) - 1)
            self.above.append([])
            self.below.append([])
            chain.append(item)
            label = item if own else label
        self.chains.append([*chain, lower] if upper != lower else [upper])
        self.label_item.append(label)
        for a, b in pairwise(self.chains[-1]):
            self.below[a].append(b)
            self.above[b].append(a)
        if upper != lower:
            neighbours = (upper, self.chains[-1][1]), (lower, self.chains[-1][-2])
            for (box, other), held in zip(neighbours, self.held[-1], strict=True):
                if held is not None:
                    # Less than half a position, so that it never passes the next box.
                    self.lean[box, other] = 0.98 * held / (2 * self.left[box])

    def _depth_first(self) -> list[int]:
        """A first order: up from the last boxes, inputs in their order, so branches stay apart."""
        order: list[int] = []
        seen = [False] * len(self.rank)
        starts = [v for v in range(self.boxes) if not self.below[v]]
        starts.sort(key=lambda v: not self.above[v])  # what nothing touches comes last
        for start in starts:
            stack = [start]
            while stack:
                item = stack.pop()
                if not seen[item]:
                    seen[item] = True
                    order.append(item)
                    stack.extend(reversed(self.above[item]))
        return order

    # --- order ---

    def _cross_less(self) -> None:
        """Sort each rank by where its neighbours are, down and up; keep the best order seen."""
        for layer in self.layers:
            self._reorder(layer, layer)
        best, fewest, stale = [list(layer) for layer in self.layers], self._crossings(), 0
        for turn in range(SWEEPS):
            if not fewest or stale == PATIENCE:
                break
            # Equal ones change sides now and then, or the order gets stuck.
            self._sweep(down=turn % 2 == 0, flip=turn % 4 >= 2)
            self._swap_neighbours()
            now = self._crossings()
            stale += 1
            if now < fewest:
                best, fewest, stale = [list(layer) for layer in self.layers], now, 0
        for layer, order in zip(self.layers, best, strict=True):
            self._reorder(layer, order)

    def _reorder(self, layer: list[int], order: Sequence[int]) -> None:
        """Give a rank another order, in which levels stay apart."""
        layer[:] = sorted(order, key=self.level.__getitem__)
        for i, item in enumerate(layer):
            self.place[item] = i

    def _near(self, layer: Sequence[int], side: Sequence[Sequence[int]]) -> list[list[float]]:
        """Per item of a rank where its neighbours on one side are, in positions of their rank."""
        place, lean = self.place, self.lean
        if not lean:
            return [[place[o] for o in side[item]] for item in layer]
        return [[place[o] + lean.get((o, item), 0.0) for o in side[item]] for item in layer]

    def _sweep(self, down: bool, flip: bool) -> None:
        for layer in self.layers if down else reversed(self.layers):
            near = self._near(layer, self.above if down else self.below)
            key = {
                item: sum(places) / len(places) if places else self.place[item]
                for item, places in zip(layer, near, strict=True)
            }
            order = layer[::-1] if flip else layer
            self._reorder(layer, sorted(order, key=key.__getitem__))

    def _crossings(self) -> int:
        """How many pairs of links cross, summed over neighbouring ranks."""
        total = 0
        for layer in self.layers[:-1]:
            seen: list[float] = []
            for ends in self._near(layer, self.below):
                total += sum([len(seen) - bisect_right(seen, end) for end in ends])
                for end in ends:
                    insort(seen, end)
        return total

    def _swap_neighbours(self) -> None:
        """Swap neighbours on ranks where that crosses fewer links, a few times over."""
        for _ in range(max(1, min(REPEATS, VISITS // len(self.rank)))):
            if not sum(self._swap_on(layer) for layer in self.layers):
                break

    def _swap_on(self, layer: list[int]) -> bool:
        """Swap neighbours on one rank; tell whether fewer links cross.

        They are swapped also where it makes no difference, to find a way out of where it got stuck.
        """
        # Neighbours are on other ranks, so they stay where they are while this one is sorted.
        above, below = self._near(layer, self.above), self._near(layer, self.below)
        better = False
        for i in range(len(layer) - 1):
            a, b = layer[i], layer[i + 1]
            if self.level[a] != self.level[b]:
                continue
            saved = 0
            for near in (above, below):
                there = near[i + 1]
                for p in near[i]:
                    for q in there:
                        saved += (p > q) - (p < q)
            if saved >= 0:
                better = better or saved > 0
                layer[i], layer[i + 1] = b, a
                for near in (above, below):
                    near[i], near[i + 1] = near[i + 1], near[i]
        self._reorder(layer, layer)
        return better


def _ranks(count: int, ends: Sequence[tuple[int, int]]) -> list[int]:
    """A rank per box: by longest path, then each to where its links are shortest."""
    out: list[list[int]] = [[] for _ in range(count)]
    for a, b in ends:
        out[a].append(b)
    order: list[int] = []  # depth first, each box before all that it leads to but for cycles
    seen = [False] * count
    for start in range(count):
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
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in ends:
        if a != b:
            upper, lower = (a, b) if at[a] < at[b] else (b, a)
            above[lower].append(upper)
            below[upper].append(lower)
    rank = [0] * count
    for v in order:
        rank[v] = max((rank[u] + 1 for u in above[v]), default=0)
    for v in reversed(order):
        if len(below[v]) > len(above[v]):
            rank[v] = min(rank[w] for w in below[v]) - 1
    return rank


def _pinned(boxes: Sequence[Box], rank: Sequence[int]) -> list[int]:
    """The ranks with some boxes before all others, those pinned at -1, or behind them, at 1."""
    free = sorted({r for box, r in zip(boxes, rank, strict=True) if not box.pin})
    place = {r: n for n, r in enumerate(free, 1)}
    ends = {-1: 0, 1: len(free) + 1}
    found = [ends[box.pin] if box.pin else place[r] for box, r in zip(boxes, rank, strict=True)]
    first = min(found, default=0)
    return [r - first for r in found]
