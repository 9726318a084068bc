"""Across the ranks of a layered layout: how far to the side each item stands.

    spread        the ports where links meet their nodes
    move_apart    every item near its neighbours, and clear of those beside it
    straighten    as few bends as there can be
    stack         floor beside floor

A helper of `layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from .layers import Grid

# Per link, where it leaves its upper node and meets its lower one, from the middle of the side.
Ports = list[tuple[float, float]]


def spread(grid: Grid) -> Ports:
    """Spread the links of each side of a node, in the order in which they arrive."""
    place = {item: i for layer in grid.layers for i, item in enumerate(layer)}
    upper: list[list[tuple[int, int]]] = [[] for _ in range(grid.nodes)]
    lower: list[list[tuple[int, int]]] = [[] for _ in range(grid.nodes)]
    for i, chain in enumerate(grid.chains):
        if i in grid.lanes:
            outside = -1 if left_lane(grid, i, place) else len(place)
            upper[chain[0]].append((outside, i))
            lower[chain[-1]].append((outside, i))
        elif len(chain) > 1:
            upper[chain[0]].append((place[chain[1]], i))
            lower[chain[-1]].append((place[chain[-2]], i))
    found = [[0.0, 0.0] for _ in grid.chains]
    firm = _firmness(grid)
    for end, sides in enumerate((upper, lower)):
        for node, side in enumerate(sides):
            order = [i for _, i in sorted(side)]
            trunk = [at for at, i in enumerate(order) if firm[grid.chains[i][1]] == 1]
            # A lone trunk keeps the middle, and what hangs beside it comes in from the side.
            middle = trunk[0] if len(trunk) == 1 else (len(order) - 1) / 2
            reach = max(middle, len(order) - 1 - middle)
            width = 0.38 * (grid.left[node] + grid.right[node])
            step = min(grid.port, width / max(reach, 0.5))
            for at, i in enumerate(order):
                found[i][end] = (at - middle) * step
    for free, held in zip(found, grid.held, strict=True):
        free[:] = [a if b is None else b for a, b in zip(free, held, strict=True)]
    return [(a, b) for a, b in found]


def left_lane(grid: Grid, link: int, place: dict[int, int]) -> bool:
    """Whether the lane of a link is on the left: the side that its ends are nearer to."""
    ends = grid.chains[link]
    return sum(place[v] / len(grid.layers[grid.rank[v]]) for v in ends) < len(ends) / 2


def shifts(chain: Sequence[int], port: tuple[float, float]) -> list[float]:
    """Per item of a link: how far its line is from the item's own x."""
    return [port[0], *[0.0] * (len(chain) - 2), port[1]]


def move_apart(grid: Grid, ports: Ports, whole: int = 0) -> None:
    """Give every item its x: near its neighbours, and clear of those beside it."""
    size = max(len(grid.rank), whole)
    grid.x = [0.0] * len(grid.rank)
    room = [_room(grid, layer) for layer in grid.layers]
    for layer, apart in zip(grid.layers, room, strict=True):
        _settle(grid.x, layer, apart, [0.0] * len(layer), [1.0] * len(layer))
    pulls = _pulls(grid, ports)
    turns = max(4, min(48, 40_000 // max(size, 1)))
    # First by one side only, which carries a straight trunk through in one turn; then by both.
    one_sided = turns * 2 // 3
    holds = {side: _holds(grid, pulls, side) for side in (True, False, None)}
    turn, last = 0, [0.0] * len(grid.x)
    while turn < turns:
        down = turn % 2 == 0
        _turn(grid, room, holds[down if turn < one_sided else None], down)
        turn += 1
        if turn < one_sided and not down:
            if _only_shifted(last, grid.x):  # and so would every pair of turns that is left
                turn += (one_sided - turn) // 2 * 2
            last = list(grid.x)


# Per item: how firmly it is held, and by what: (neighbour, share, where it wants to be from there).
Holds = list[tuple[float, list[tuple[int, float, float]]]]


def _holds(grid: Grid, pulls: list[list[tuple[int, float, float]]], down: bool | None) -> Holds:
    """What holds each item: its neighbours above, those below, or (None) both."""
    found: Holds = []
    for item, (each, firm) in enumerate(zip(pulls, _firmness(grid), strict=True)):
        rank = grid.rank[item]
        own = [p for p in each if down is None or (grid.rank[p[0]] < rank) == down]
        total = sum([weight for _, weight, _ in own])
        shares = [(other, weight / total, shift) for other, weight, shift in own]
        found.append((firm * total or 1e-3, shares))
    return found


def _turn(grid: Grid, room: Sequence[Sequence[float]], holds: Holds, down: bool) -> None:
    """Give every rank what its neighbours want, from the first to the last or back."""
    x = grid.x
    for r in range(len(room)) if down else range(len(room) - 1, -1, -1):
        wanted, strength = [], []
        for item in grid.layers[r]:
            held, shares = holds[item]
            want = 0.0 if shares else x[item]
            for other, share, shift in shares:
                want += share * (x[other] + shift)
            wanted.append(want)
            strength.append(held)
        _settle(x, grid.layers[r], room[r], wanted, strength)


def _only_shifted(before: Sequence[float], now: Sequence[float]) -> bool:
    """Whether everything moved together."""
    moves = [b - a for a, b in zip(before, now, strict=True)]
    return max(moves, default=0.0) - min(moves, default=0.0) < 1e-6


def _pulls(grid: Grid, ports: Ports) -> list[list[tuple[int, float, float]]]:
    """Per item (neighbour, weight, where it wants to be from there): lines want to be straight.

    A node that one link holds goes where that link takes it and pulls little itself, so that a
    weight or a bias hangs beside the trunk and does not bend it.
    """
    nodes = grid.nodes
    degree = [len(a) + len(b) for a, b in zip(grid.above, grid.below, strict=True)]
    pulls: list[list[tuple[int, float, float]]] = [[] for _ in grid.rank]
    for n, (chain, port) in enumerate(zip(grid.chains, ports, strict=True)):
        if n in grid.lanes:
            continue
        light = degree[chain[0]] == 1, degree[chain[-1]] == 1
        shift_of = shifts(chain, port)
        for i, (a, b) in enumerate(pairwise(chain)):
            shift = shift_of[i] - shift_of[i + 1]
            weight = 8.0 if a >= nodes and b >= nodes else 2.0
            pulls[b].append((a, weight * (0.05 if b < nodes and light[0] else 1.0), shift))
            pulls[a].append((b, weight * (0.05 if a < nodes and light[1] else 1.0), -shift))
    return pulls


def _firmness(grid: Grid) -> list[float]:
    """How firmly each item stands when there is a crowd: what leads to one leaf only gives way."""
    firm = [1.0] * len(grid.rank)
    for chain in grid.chains:
        for end in (chain[0], chain[-1]):
            if len(grid.above[end]) + len(grid.below[end]) == 1:
                firm[end] = 0.05
                for item in chain[1:-1]:
                    firm[item] = 0.05
    return firm


def _room(grid: Grid, layer: Sequence[int]) -> list[float]:
    """The least distance of each item on a rank from the one before it."""
    apart = [0.0] * bool(layer)
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
    if len(layer) == 1:
        x[layer[0]] = wanted[0]
        return
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


def stack(grid: Grid, gap: float) -> list[tuple[float, float]]:
    """Put floor beside floor, and tell where each begins and ends."""
    found, end = [], 0.0
    for storey in sorted(set(grid.storey)):
        own = [i for i, s in enumerate(grid.storey) if s == storey]
        low = min(grid.x[i] - grid.left[i] for i in own)
        high = max(grid.x[i] + grid.right[i] for i in own)
        start = end + (gap if storey % 2 == 0 else gap / 4)
        for i in own:
            grid.x[i] += start - low
        end = start + high - low
        if storey % 2 == 0:
            found.append((start, end))
    return found


def straighten(grid: Grid, ports: Ports) -> None:
    """Give each link as few bends as its neighbours leave it the room for."""
    place = {item: i for layer in grid.layers for i, item in enumerate(layer)}
    room = [_room(grid, layer) for layer in grid.layers]
    x = grid.x
    for _ in range(3 if len(x) < 2000 else 1):
        for chain, port in zip(grid.chains, ports, strict=True):
            inner = chain[1:-1]
            if not inner:
                continue
            free = []
            for item in inner:
                layer, apart, i = grid.layers[grid.rank[item]], room[grid.rank[item]], place[item]
                low = x[layer[i - 1]] + apart[i] if i else -inf
                high = x[layer[i + 1]] - apart[i + 1] if i + 1 < len(layer) else inf
                free.append((low, max(low, high)))
            ends = x[chain[0]] + port[0], x[chain[-1]] + port[1]
            for item, to in zip(inner, _taut(free, [x[item] for item in inner], ends), strict=True):
                x[item] = to
    _slide(grid, ports)


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
        wish = sum(now[len(line) : len(line) + many]) / many
        near = [e for e, mine in zip(ends, (n == 0, n == len(pieces) - 1), strict=True) if mine]
        near = [e for e in near if low <= e <= high and abs(e - wish) < 24]
        if near:
            wish = min(near, key=lambda e: abs(e - wish))
        elif line and n:
            wish = line[-1]
        line += [min(max(wish, low), high)] * many
    return line


def _slide(grid: Grid, ports: Ports) -> None:
    """Move ports along their side to where their lines come from, in order and apart."""
    sides: dict[tuple[int, int], list[int]] = {}
    for i, chain in enumerate(grid.chains):
        if len(chain) > 1 and i not in grid.lanes:
            sides.setdefault((chain[0], 0), []).append(i)
            sides.setdefault((chain[-1], 1), []).append(i)
    lanes = {v for i in grid.lanes for v in grid.chains[i]}
    for (node, end), side in sides.items():
        if node in lanes or any(grid.held[i][end] is not None for i in side):
            continue
        side.sort(key=lambda i: ports[i][end])
        half = 0.38 * (grid.left[node] + grid.right[node])
        if len(side) == 1:
            half = min(half, 0.7 * grid.port)
        apart = min(grid.port, 2 * half / max(len(side) - 1, 1))
        wanted = []
        for i in side:
            inner = grid.chains[i][-2] if end else grid.chains[i][1]
            shift = 0.0 if inner >= grid.nodes else ports[i][1 - end]
            wanted.append(grid.x[inner] + shift - grid.x[node])
        places = [0.0] * len(side)
        order = range(len(side))
        _settle(places, order, [0.0] + [apart] * (len(side) - 1), wanted, [1.0] * len(side))
        for n, i in enumerate(side):
            low, high = -half + n * apart, half - (len(side) - 1 - n) * apart
            new = min(max(places[n], low), high)
            ports[i] = (ports[i][0], new) if end else (new, ports[i][1])
