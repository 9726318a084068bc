"""From boxes and links to positions: the one layout for paper and screen.

A layered layout. Each node gets a rank, so that every link points down; a long link passes through
a small dummy on each rank between; the order within ranks is chosen for few crossings; then nodes
move apart as far as their sizes ask, and no farther from their neighbours than they must. Between
two ranks a link bends; beside a node it runs straight, so no link passes through a node. The label
of a link is itself a box on the way of its link, so labels meet neither nodes nor each other.

    place    sizes and links -> a Layout
    Link     what is connected, and how much room its label needs
    Layout   centres, polylines, extent
    beside   a curve along a route, at a distance to its side

Only the forward graph is laid out; a backward arrow runs beside its forward one. Everything is
plain numbers in the unit of the sizes, and the same call gives the same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from .graph import Array
from .layers import Grid, Link, fewer_crossings

__all__ = ["Direction", "Layout", "Link", "Point", "beside", "place"]

Direction = Literal["down", "right"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Where everything is: x to the right and y down, from (0, 0) to (width, height)."""

    centres: tuple[Point, ...]  # per node
    routes: tuple[tuple[Point, ...], ...]  # per link: corners from source to target
    labels: tuple[Point, ...]  # per link: the point of its line beside which the label stands
    width: float
    height: float
    direction: Direction


def place(
    sizes: Sequence[tuple[float, float]],
    links: Sequence[Link],
    direction: Direction = "down",
    *,
    gap: float = 16.0,
    rank_gap: float = 18.0,
    port: float = 18.0,
) -> Layout:
    """Find positions for boxes and links.

    Args:
        sizes: Width and height of each box.
        links: The links; those of one box to itself are left out, and one that closes a cycle is
            drawn against the direction.
        direction: "down" or "right".
        gap: The least room between neighbours on a rank.
        rank_gap: The least room between ranks.
        port: The room between two links at the same side of a box, where the box is wide enough.

    Returns:
        The layout.

    Raises:
        ValueError: If `direction` is neither, or a link names a box that is not there.

    >>> layout = place([(40, 20), (40, 20)], [Link(0, 1)])
    >>> layout.centres
    ((20.0, 10.0), (20.0, 48.0))
    """
    if direction not in ("down", "right"):
        raise ValueError(f'`direction` must be "down" or "right", not {direction!r}')
    for link in links:
        if not (0 <= link.source < len(sizes) and 0 <= link.target < len(sizes)):
            raise ValueError(f"`links` has {link}, but there are {len(sizes)} boxes")
    if direction == "right":
        sizes = [(h, w) for w, h in sizes]
    grid = Grid(sizes, links, gap, port)
    fewer_crossings(grid)
    ports = _ports(grid)
    _move_apart(grid, ports)
    _straighten(grid, ports)
    return _drawn(grid, ports, links, direction, rank_gap)


# --- across the ranks --------------------------------------------------------------------------

# Per link, where it leaves its upper node and meets its lower one, from the middle of the side.
Ports = list[tuple[float, float]]


def _ports(grid: Grid) -> Ports:
    """Spread the links of each side of a node, in the order in which they arrive."""
    place = {item: i for layer in grid.layers for i, item in enumerate(layer)}
    upper: list[list[tuple[int, int]]] = [[] for _ in range(grid.nodes)]
    lower: list[list[tuple[int, int]]] = [[] for _ in range(grid.nodes)]
    for i, chain in enumerate(grid.chains):
        if len(chain) > 1:
            upper[chain[0]].append((place[chain[1]], i))
            lower[chain[-1]].append((place[chain[-2]], i))
    found = [[0.0, 0.0] for _ in grid.chains]
    for end, sides in enumerate((upper, lower)):
        for node, side in enumerate(sides):
            width = 0.7 * (grid.left[node] + grid.right[node])
            step = min(grid.port, width / max(len(side) - 1, 1))
            for at, (_, i) in enumerate(sorted(side)):
                found[i][end] = (at - (len(side) - 1) / 2) * step
    return [(a, b) for a, b in found]


def _shifts(chain: Sequence[int], port: tuple[float, float]) -> list[float]:
    """Per item of a link: how far its line is from the item's own x."""
    return [port[0], *[0.0] * (len(chain) - 2), port[1]]


def _move_apart(grid: Grid, ports: Ports) -> None:
    """Give every item its x: near its neighbours, and clear of those beside it."""
    size = len(grid.rank)
    grid.x = [0.0] * size
    room = [_room(grid, layer) for layer in grid.layers]
    for layer, apart in zip(grid.layers, room, strict=True):
        _settle(grid.x, layer, apart, [0.0] * len(layer), [1.0] * len(layer))
    pulls = _pulls(grid, ports)
    turns = list(zip(grid.layers, room, strict=True))
    x = grid.x
    for turn in range(max(4, min(60, 50_000 // max(size, 1)))):
        for layer, apart in turns if turn % 2 == 0 else reversed(turns):
            wanted, strength = [], []
            for item in layer:
                total = pull = 0.0
                for other, weight, shift in pulls[item]:
                    total += weight
                    pull += weight * (x[other] + shift)
                wanted.append(pull / total if total else x[item])
                strength.append(total or 1e-3)
            _settle(x, layer, apart, wanted, strength)


def _pulls(grid: Grid, ports: Ports) -> list[list[tuple[int, float, float]]]:
    """Per item (neighbour, weight, where it wants to be from there): lines want to be straight.

    A node that one link holds goes where that link takes it and pulls little itself, so that a
    weight or a bias hangs beside the trunk and does not bend it.
    """
    nodes = grid.nodes
    degree = [len(a) + len(b) for a, b in zip(grid.above, grid.below, strict=True)]
    pulls: list[list[tuple[int, float, float]]] = [[] for _ in grid.rank]
    for chain, port in zip(grid.chains, ports, strict=True):
        light = degree[chain[0]] == 1, degree[chain[-1]] == 1
        shifts = _shifts(chain, port)
        for i, (a, b) in enumerate(pairwise(chain)):
            shift = shifts[i] - shifts[i + 1]
            weight = 8.0 if a >= nodes and b >= nodes else 2.0
            pulls[b].append((a, weight * (0.05 if b < nodes and light[0] else 1.0), shift))
            pulls[a].append((b, weight * (0.05 if a < nodes and light[1] else 1.0), -shift))
    return pulls


def _room(grid: Grid, layer: Sequence[int]) -> list[float]:
    """The least distance of each item on a rank from the one before it."""
    apart = [0.0]
    for a, b in pairwise(layer):
        slim = a >= grid.nodes and b >= grid.nodes
        apart.append(grid.right[a] + grid.left[b] + (grid.gap / 2 if slim else grid.gap))
    return apart


def _settle(
    x: list[float],
    layer: Sequence[int],
    apart: Sequence[float],
    wanted: Sequence[float],
    strength: Sequence[float],
) -> None:
    """Put a rank's items as near to where they want as the room between them allows.

    With the room taken out this is isotonic regression: neighbours that want to pass each other
    become one block at their weighted mean.
    """
    blocks: list[tuple[float, float, int]] = []  # where, how strong, how many
    offset = 0.0
    for want, weight, room in zip(wanted, strength, apart, strict=True):
        offset += room
        where, many = want - offset, 1
        while blocks and blocks[-1][0] >= where:
            other, heavy, more = blocks.pop()
            where = (other * heavy + where * weight) / (heavy + weight)
            weight += heavy
            many += more
        blocks.append((where, weight, many))
    offset, i = 0.0, 0
    for where, _, many in blocks:
        for _ in range(many):
            offset += apart[i]
            x[layer[i]] = where + offset
            i += 1


def _straighten(grid: Grid, ports: Ports) -> None:
    """Make the run of each link one straight line wherever its neighbours leave it the room."""
    place = {item: i for layer in grid.layers for i, item in enumerate(layer)}
    room = [_room(grid, layer) for layer in grid.layers]
    x = grid.x
    for chain, port in zip(grid.chains, ports, strict=True):
        inner = chain[1:-1]
        if not inner:
            continue
        low, high = -np.inf, np.inf
        for item in inner:
            layer, apart, i = grid.layers[grid.rank[item]], room[grid.rank[item]], place[item]
            if i:
                low = max(low, x[layer[i - 1]] + apart[i])
            if i + 1 < len(layer):
                high = min(high, x[layer[i + 1]] - apart[i + 1])
        if low > high:
            continue
        ends = [x[chain[0]] + port[0], x[chain[-1]] + port[1]]
        middle = sum(x[item] for item in inner) / len(inner)
        free = [end for end in ends if low <= end <= high]
        best = min(free, key=lambda end: abs(end - middle), default=middle)
        if abs(best - middle) > grid.port:
            best = middle
        for item in inner:
            x[item] = min(max(best, low), high)


# --- down the ranks ----------------------------------------------------------------------------


def _drawn(
    grid: Grid, ports: Ports, links: Sequence[Link], direction: Direction, rank_gap: float
) -> Layout:
    """Turn ranks and x into points; `right` is `down` with its axes swapped."""
    x = grid.x
    left = min((x[i] - grid.left[i] for i in range(len(x))), default=0.0)
    width = max((x[i] + grid.right[i] for i in range(len(x))), default=0.0) - left
    bands = _bands(grid, ports, rank_gap)
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
    for link, chain, port, label in each:
        corners = _corners(grid, port, chain, bands)
        points = [point(*corner) for corner in corners]
        routes.append(tuple(points if chain[0] == link.source else points[::-1]))
        if label >= 0:
            labels.append(point(x[label], middle(label)))
        else:
            a, b = points[len(points) // 2 - 1 : len(points) // 2 + 1] if points else ((0, 0),) * 2
            labels.append(((a[0] + b[0]) / 2, (a[1] + b[1]) / 2))
    if direction == "right":
        width, height = height, width
    return Layout(centres, tuple(routes), tuple(labels), width, height, direction)


def _bands(grid: Grid, ports: Ports, rank_gap: float) -> list[tuple[float, float]]:
    """Top and bottom of each rank; links that go far to the side get more room to do so."""
    sideways = [0.0] * len(grid.layers)
    for chain, port in zip(grid.chains, ports, strict=True):
        shifts = _shifts(chain, port)
        for i, (a, b) in enumerate(pairwise(chain)):
            way = grid.x[b] + shifts[i + 1] - grid.x[a] - shifts[i]
            sideways[grid.rank[a]] = max(sideways[grid.rank[a]], abs(way))
    bands, y = [], 0.0
    for r, layer in enumerate(grid.layers):
        bottom = y + max((grid.height[i] for i in layer), default=0.0)
        bands.append((y, bottom))
        y = bottom + min(max(rank_gap, 0.25 * sideways[r]), 3 * rank_gap)
    return bands


def _corners(
    grid: Grid,
    port: tuple[float, float],
    chain: Sequence[int],
    bands: Sequence[tuple[float, float]],
) -> list[tuple[float, float]]:
    """The corners of a link: it bends between ranks only, and stands upright within each."""
    corners: list[tuple[float, float]] = []
    last = len(chain) - 1
    for i, (item, shift) in enumerate(zip(chain, _shifts(chain, port), strict=False)):
        top, bottom = bands[grid.rank[item]]
        if i == 0:
            top = (top + bottom + grid.height[item]) / 2
        elif i == last:
            bottom = (top + bottom - grid.height[item]) / 2
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
        bends = abs(across) > 1e-6 and abs(along) > 1e-6
        for t in _STEPS if bends else (1.0,):
            s = t * t * (3 - 2 * t)  # upright at both ends
            u, v = (s, t) if direction == "down" else (t, s)
            points.append((x0 + u * (x1 - x0), y0 + v * (y1 - y0)))
    line = np.array(points)
    line = line[np.r_[True, np.abs(np.diff(line, axis=0)).sum(1) > 1e-6]]
    if not distance or len(line) < 2:
        return line
    way = np.diff(line, axis=0)
    way = np.vstack([way[:1], way[:-1] + way[1:], way[-1:]])
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    side = np.column_stack([way[:, 1], -way[:, 0]])
    return line + (distance if direction == "down" else -distance) * side


_STEPS = tuple(i / 12 for i in range(1, 13))
