"""The order within the ranks of a layered layout: few links cross.

    fewer_crossings   sort each rank by where its neighbours are, down and up

A helper of `layout`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from .layers import Grid


def fewer_crossings(grid: Grid, whole: int = 0) -> None:
    """Sort each rank by where its neighbours are, down and up; keep the best order seen.

    How often it tries depends on the size of the grid, or of the `whole` that it is a part of.
    """
    size = max(len(grid.rank), whole)
    rounds = max(2, min(24, 16_000 // max(size, 1)))
    first = [list(layer) for layer in grid.layers]
    # A small picture is worth more than one start: orders get stuck in different places.
    starts = (False, True) if size < 400 else (False,)
    best, fewest = first, -1
    for mirrored in starts:
        for upwards in starts:
            turned = [layer[::-1] if mirrored else list(layer) for layer in first]
            grid.layers = [grid.by_storey(layer) for layer in turned]
            order, count = _settled(grid, rounds, upwards)
            if fewest < 0 or count < fewest:
                best, fewest = order, count
            if not fewest:
                break
    grid.layers = best


def _settled(grid: Grid, rounds: int, upwards: bool) -> tuple[list[list[int]], int]:
    """The best order found from the present one, and how many links cross in it."""
    place = [0] * len(grid.rank)
    for layer in grid.layers:
        for i, item in enumerate(layer):
            place[item] = i
    best = [list(layer) for layer in grid.layers]
    fewest = _crossings(grid, place)
    stale = 0
    for turn in range(rounds):
        if not fewest or stale > 6:
            break
        _sweep(grid, place, down=(turn % 2 == 0) != upwards, flip=turn % 4 >= 2)
        if len(place) < 4000:
            while _swap_neighbours(grid, place, ties=turn % 3 == 2) and len(place) < 400:
                pass
        now = _crossings(grid, place)
        stale += 1
        if now < fewest:
            fewest, stale = now, 0
            best = [list(layer) for layer in grid.layers]
    return best, fewest


def _sweep(grid: Grid, place: list[int], down: bool, flip: bool) -> None:
    near = grid.above if down else grid.below
    for layer in grid.layers if down else reversed(grid.layers):
        key = {}
        for item in layer:
            others = near[item]
            if not others:
                key[item] = float(place[item])
            elif grid.lean:
                key[item] = sum(_places(grid, place, item, others)) / len(others)
            elif len(others) == 1:
                key[item] = float(place[others[0]])
            else:
                key[item] = sum([place[o] for o in others]) / len(others)
        if flip:  # equal ones change sides now and then, or the order gets stuck
            layer.reverse()
        layer.sort(key=key.__getitem__)
        layer[:] = grid.by_storey(layer)
        for i, item in enumerate(layer):
            place[item] = i


def _crossings(grid: Grid, place: list[int]) -> int:
    """How many pairs of links cross, summed over neighbouring ranks."""
    total = 0
    for layer in grid.layers[:-1]:
        seen: list[float] = []
        for item in layer:
            ends = sorted(_places(grid, place, item, grid.below[item]))
            for end in ends:
                total += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return total


def _places(grid: Grid, place: list[int], item: int, others: list[int]) -> Sequence[float]:
    """Where the neighbours of an item are; of one held at a place of a wide box, that place."""
    if not grid.lean:
        return [place[o] for o in others]
    return [place[o] + grid.lean.get((o, item), 0.0) for o in others]


def _swap_neighbours(grid: Grid, place: list[int], ties: bool) -> bool:
    """Swap neighbours on a rank wherever that crosses fewer links; tell whether it did.

    With `ties` also where it makes no difference, to find a way out of where it got stuck.
    """
    better = False
    sides = grid.above, grid.below
    for layer in grid.layers:
        # Neighbours are on other ranks, so they stay where they are while this rank is sorted.
        near = [[_places(grid, place, item, side[item]) for side in sides] for item in layer]
        for i in range(len(layer) - 1):
            a, b = layer[i], layer[i + 1]
            if grid.storey and grid.storey[a] != grid.storey[b]:
                continue
            saved = 0
            for here, there in zip(near[i], near[i + 1], strict=True):
                for p in here:
                    for q in there:
                        saved += (p > q) - (p < q)
            if saved > 0 or (ties and saved == 0):
                better = better or saved > 0
                layer[i], layer[i + 1] = b, a
                place[a], place[b] = i + 1, i
                near[i], near[i + 1] = near[i + 1], near[i]
    return better
