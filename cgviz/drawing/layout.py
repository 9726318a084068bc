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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from .crossings import fewer_crossings
from .layers import Direction, Grid, Layout, Link, Point
from .routes import beside, drawn
from .spacing import move_apart, spread, stack, straighten

__all__ = ["Direction", "Layout", "Link", "Point", "beside", "place"]


def place(
    sizes: Sequence[tuple[float, float]],
    links: Sequence[Link],
    direction: Direction = "down",
    *,
    gap: float = 16.0,
    rank_gap: float = 18.0,
    stem: float = 8.0,
    port: float = 18.0,
    pinned: Mapping[int, int] | None = None,
    floors: Sequence[int] = (),
    storey: float = 40.0,
) -> Layout:
    """Find positions for boxes and links.

    Args:
        sizes: Width and height of each box.
        links: The links; those of one box to itself are left out, and one that closes a cycle is
            drawn against the direction.
        direction: "down" or "right".
        gap: The least room between neighbours on a rank.
        rank_gap: The least room between ranks.
        stem: How far a link runs straight before it bends, so that its arrow points at the box.
        port: The room between two links at the same side of a box, where the box is wide enough.
        pinned: The boxes that stand before all others, at -1, or behind them, at 1.
        floors: Per box its floor, counted across: those of one stand on one side of the next.
        storey: The room before each floor.

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
    whole = len(sizes) + len(links)

    def part(sizes: Sequence[tuple[float, float]], links: Sequence[Link]) -> Layout:
        flat = [size if direction == "down" else size[::-1] for size in sizes]
        grid = Grid(flat, links, gap, port, pinned or {}, floors)
        fewer_crossings(grid, whole)
        ports = spread(grid)
        move_apart(grid, ports, whole)
        straighten(grid, ports)
        storeys = tuple(stack(grid, storey))
        return replace(drawn(grid, ports, links, direction, rank_gap, stem), storeys=storeys)

    parts = _components(len(sizes), links)
    if len(parts) == 1 or pinned or floors:
        return part(sizes, links)
    placed = []
    for boxes, lines in parts:
        index = {box: i for i, box in enumerate(boxes)}
        own = [
            replace(links[i], source=index[links[i].source], target=index[links[i].target])
            for i in lines
        ]
        placed.append(part([sizes[box] for box in boxes], own))
    return _packed(parts, placed, len(sizes), len(links), direction, 2 * gap)


Part = tuple[list[int], list[int]]  # the boxes and the links of what hangs together


def _components(count: int, links: Sequence[Link]) -> list[Part]:
    """What hangs together, the parts with links first."""
    leader = list(range(count))

    def find(box: int) -> int:
        while leader[box] != box:
            leader[box] = leader[leader[box]]
            box = leader[box]
        return box

    for link in links:
        a, b = find(link.source), find(link.target)
        leader[max(a, b)] = min(a, b)
    parts: dict[int, Part] = {}
    for box in range(count):
        parts.setdefault(find(box), ([], []))[0].append(box)
    for i, link in enumerate(links):
        parts[find(link.source)][1].append(i)
    return sorted(parts.values(), key=lambda part: not part[1])


def _packed(
    parts: Sequence[Part],
    placed: Sequence[Layout],
    boxes: int,
    lines: int,
    direction: Direction,
    gap: float,
) -> Layout:
    """The parts in rows, each row as wide as the widest part or as makes a fair rectangle."""
    area = sum((p.width + gap) * (p.height + gap) for p in placed)
    most = max(max((p.width for p in placed), default=0.0), 1.5 * sqrt(area))
    centres: list[Point] = [(0.0, 0.0)] * boxes
    routes: list[tuple[Point, ...]] = [()] * lines
    labels: list[Point] = [(0.0, 0.0)] * lines
    x = y = bottom = width = 0.0
    for (own, links), part in zip(parts, placed, strict=True):
        if x and x + part.width > most:
            x, y = 0.0, bottom + gap
        for box, (u, v) in zip(own, part.centres, strict=True):
            centres[box] = (u + x, v + y)
        for i, route, (u, v) in zip(links, part.routes, part.labels, strict=True):
            routes[i] = tuple((u + x, v + y) for u, v in route)
            labels[i] = (u + x, v + y)
        width, bottom = max(width, x + part.width), max(bottom, y + part.height)
        x += part.width + gap
    return Layout(tuple(centres), tuple(routes), tuple(labels), width, bottom, direction)
