"""Boxes and links for the rooms of the layered layout, and what stands on their ranks."""

from __future__ import annotations

from hypothesis import strategies as st

from cgviz.drawing.crossings import fewer_crossings
from cgviz.drawing.layers import Grid, Link
from cgviz.drawing.spacing import move_apart, spread

BOX = (40.0, 20.0)


@st.composite
def graphs(draw, largest=25):
    """Boxes of any size, and links that all lead to a later box, some with a label."""
    count = draw(st.integers(1, largest))
    sizes = [(draw(st.integers(8, 120)), draw(st.integers(8, 60))) for _ in range(count)]
    links = []
    for _ in range(draw(st.integers(0, 2 * count)) if count > 1 else 0):
        b = draw(st.integers(1, count - 1))
        a = draw(st.integers(0, b - 1))
        label = draw(st.sampled_from([(0, 0, 0), (20, 35, 14)]))
        links.append(Link(a, b, *label))
    return sizes, links


def recurrent(steps):
    """How many boxes, and the links, of a network that uses its four weights at every step."""
    links, state, count = [], 4, 5
    for _ in range(steps):
        for weight in range(4):
            links += [Link(weight, count), Link(state, count)]
            count += 1
        links += [Link(count - 4 + i, count) for i in range(4)]
        state, count = count, count + 1
    return count, links


def grid(sizes, links, pinned=None, floors=()):
    """What stands on the ranks, in its first order; `sizes` may be a number of equal boxes."""
    boxes = [BOX] * sizes if isinstance(sizes, int) else sizes
    return Grid(boxes, links, gap=16.0, port=18.0, pinned=pinned or {}, floors=floors)


def spaced(sizes, links, floors=()):
    """The same in a good order and moved apart; and the ports."""
    made = grid(sizes, links, floors=floors)
    fewer_crossings(made)
    ports = spread(made)
    move_apart(made, ports)
    return made, ports
