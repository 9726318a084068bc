"""The ranks of a layered layout: who stands on which.

Grid   nodes, dummies and labels on their ranks
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Direction = Literal["down", "right"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Link:
    """One link, from box `source` to box `target`, by index.

    Its label needs room `before` and `after` the line, across it, and `along` it: for a picture
    that runs down these are its widths left and right of the line, and its height.
    """

    source: int
    target: int
    before: float = 0.0
    after: float = 0.0
    along: float = 0.0
    start: float | None = (
        None  # where it leaves its source, from the middle of the side; None: free
    )
    end: float | None = None  # where it meets its target
    back: bool = False  # it runs against the direction


@dataclass(frozen=True)
class Layout:
    """Where everything is: x to the right and y down, from (0, 0) to (width, height)."""

    centres: tuple[Point, ...]  # per node
    routes: tuple[tuple[Point, ...], ...]  # per link: corners from source to target
    labels: tuple[Point, ...]  # per link: the point of its line beside which the label stands
    width: float
    height: float
    direction: Direction
    frames: tuple[tuple[float, float, float, float], ...] = ()  # left, top, width, height
    storeys: tuple[tuple[float, float], ...] = ()  # per floor where it begins and ends, across


# --- ranks -------------------------------------------------------------------------------------


def _acyclic(count: int, links: Sequence[Link]) -> list[tuple[int, int]]:
    """The ends of each link, upper first; a link that closes a cycle is turned round."""
    ends = [(x.target, x.source) if x.back else (x.source, x.target) for x in links]
    out: list[list[int]] = [[] for _ in range(count)]
    for i, (a, _) in enumerate(ends):
        out[a].append(i)
    state = [0] * count  # 1: on the way down from here, 2: done
    for start in range(count):
        stack = [(start, 0)] if not state[start] else []
        while stack:
            node, next_link = stack.pop()
            state[node] = 1
            if next_link == len(out[node]):
                state[node] = 2
                continue
            stack.append((node, next_link + 1))
            i = out[node][next_link]
            target = ends[i][1]
            if state[target] == 1:
                ends[i] = (target, node)
            elif state[target] == 0:
                stack.append((target, 0))
    return ends


def _ranks(count: int, ends: Sequence[tuple[int, int]]) -> list[int]:
    """A rank per node: by longest path, then each node to where its links are shortest."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in ends:
        if a != b:
            above[b].append(a)
            below[a].append(b)
    waiting = [len(a) for a in above]
    order = [v for v in range(count) if not waiting[v]]
    for v in order:
        for w in below[v]:
            waiting[w] -= 1
            if not waiting[w]:
                order.append(w)
    rank = [0] * count
    for v in order:
        rank[v] = max((rank[u] + 1 for u in above[v]), default=0)
    for v in reversed(order):
        if len(below[v]) > len(above[v]):
            rank[v] = min(rank[w] for w in below[v]) - 1
    return rank


def _pinned(rank: list[int], pinned: Mapping[int, int]) -> list[int]:
    """The same with some nodes before all others, those at -1, or behind them, those at 1."""
    if not pinned:
        return rank
    free = sorted({r for v, r in enumerate(rank) if v not in pinned})
    place = {r: n for n, r in enumerate(free, 1)}
    ends = {-1: 0, 1: len(free) + 1}
    return [ends[pinned[v]] if v in pinned else place[r] for v, r in enumerate(rank)]


# --- nodes, dummies and labels on their ranks --------------------------------------------------


class Grid:
    """The ranks with all that stands on them; an item is a node, a dummy or a label."""

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        links: Sequence[Link],
        gap: float,
        port: float,
        pinned: Mapping[int, int],
        floors: Sequence[int] = (),
    ) -> None:
        count = len(sizes)
        self.gap, self.port = gap, port
        self.ends = _acyclic(count, links)
        labelled = any(link.along for link in links)
        self.step = 2 if labelled else 1  # labels stand on ranks of their own
        self.rank = [r * self.step for r in _pinned(_ranks(count, self.ends), pinned)]
        self.nodes = count
        self.x: list[float] = []  # the line of each item, once `layout` has moved them apart
        self.left = [w / 2 for w, _ in sizes]  # room on either side of an item's own line
        self.right = list(self.left)
        self.height = [h for _, h in sizes]
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        self.chains: list[list[int]] = []  # per link its items, upper end first
        self.label_item: list[int] = []
        self.lanes = self._lanes()
        self.held = [  # per link: where its upper and its lower end are held, or None
            (x.start, x.end) if a == x.source else (x.end, x.start)
            for x, (a, _) in zip(links, self.ends, strict=True)
        ]
        # By item and neighbour: how far along a wide box a link is held, so that order counts.
        self.lean: dict[tuple[int, int], float] = {}
        for i, (link, (a, b)) in enumerate(zip(links, self.ends, strict=True)):
            self._add_chain(link, a, b, labelled, i in self.lanes)
        self.storey = self._storeys(floors) if floors else []
        self.layers: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for item in self._depth_first():
            self.layers[self.rank[item]].append(item)

    def _storeys(self, floors: Sequence[int]) -> list[int]:
        """Per item, even for a floor, counted across; odd between two, where links pass."""
        storey = [2 * floor for floor in floors] + [0] * (len(self.rank) - self.nodes)
        for chain in self.chains:
            ends = storey[chain[0]], storey[chain[-1]]
            for item in chain[1:-1]:
                storey[item] = ends[0] if ends[0] == ends[1] else max(ends) - 1
        return storey

    def by_storey(self, layer: list[int]) -> list[int]:
        """A rank in the same order, but floor by floor."""
        return sorted(layer, key=self.storey.__getitem__) if self.storey else layer

    def _lanes(self) -> set[int]:
        """The links that run in a lane beside everything, so that dummies do not outnumber all.

        Without lanes the weights of a recurrent network, used at each of 300 steps, would cost a
        million dummies. A picture that anybody reads has none.
        """
        span = [self.rank[b] - self.rank[a] - 1 for a, b in self.ends]
        total = sum(span)
        lanes = set()
        for i in sorted(range(len(span)), key=lambda i: -span[i]):
            if total <= max(3000, 2 * self.nodes) or span[i] < 3:
                break
            lanes.add(i)
            total -= span[i]
        return lanes

    def _add_chain(self, link: Link, a: int, b: int, labelled: bool, lane: bool) -> None:
        chain = [a]
        label = -1
        if lane:
            chain.append(b)
        elif a != b:
            at = self.rank[b] - 1 if b == link.target else self.rank[a] + 1
            for r in range(self.rank[a] + 1, self.rank[b]):
                item = len(self.rank)
                own = labelled and r == at
                self.rank.append(r)
                self.left.append(max(link.before if own else 0.0, self.port / 4))
                self.right.append(max(link.after if own else 0.0, self.port / 4))
                self.height.append(link.along if own else 0.0)
                self.above.append([])
                self.below.append([])
                chain.append(item)
                label = item if own else label
            chain.append(b)
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
            beside = (a, chain[1]), (b, chain[-2])
            for (box, other), held in zip(beside, self.held[len(self.chains)], strict=True):
                if held is not None:
                    self.lean[box, other] = 0.98 * held / (self.left[box] + self.right[box])
        self.chains.append(chain)
        self.label_item.append(label)

    def _depth_first(self) -> list[int]:
        """A first order: up from the last nodes, inputs in their order, so branches stay apart."""
        order: list[int] = []
        seen = [False] * len(self.rank)
        starts = [v for v in range(self.nodes) if not self.below[v]]
        starts.sort(key=lambda v: not self.above[v])  # what nothing touches stands aside
        for start in starts:
            stack = [start]
            while stack:
                item = stack.pop()
                if seen[item]:
                    continue
                seen[item] = True
                order.append(item)
                stack.extend(reversed(self.above[item]))
        return order
