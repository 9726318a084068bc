"""Random boxes and links for the tests of the layout."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from cgviz.drawing.layers import Box, Layers, Link

BOX = Box(40.0, 20.0)
LABELS = st.sampled_from([(0.0, 0.0, 0.0), (20.0, 35.0, 14.0)])


@st.composite
def graphs(draw, largest=25):
    """Boxes of any size, and links that all lead to a later box, some with a label."""
    count = draw(st.integers(1, largest))
    boxes = [Box(draw(st.integers(8, 120)), draw(st.integers(8, 60))) for _ in range(count)]
    links = []
    for _ in range(draw(st.integers(0, 2 * count)) if count > 1 else 0):
        b = draw(st.integers(1, count - 1))
        a = draw(st.integers(0, b - 1))
        links.append(Link(a, b, *draw(LABELS)))
    return boxes, links


@st.composite
def with_levels(draw, largest=12):
    """Boxes on up to three levels; on odd ones the links run back, as gradients do."""
    boxes, links = draw(graphs(largest))
    levels = sorted(draw(st.integers(0, 2)) for _ in boxes)
    boxes = [replace(box, level=level) for box, level in zip(boxes, levels, strict=True)]

    def back(link):
        level = boxes[link.source].level
        return level == boxes[link.target].level and level % 2 == 1

    return boxes, [replace(link, back=back(link)) for link in links]


def recurrent(steps):
    """Boxes and links of a network that uses its four weights at every step."""
    links, state, count = [], 4, 5
    for _ in range(steps):
        for weight in range(4):
            links += [Link(weight, count), Link(state, count)]
            count += 1
        links += [Link(count - 4 + i, count) for i in range(4)]
        state, count = count, count + 1
    return [BOX] * count, links


def grid(boxes, links):
    """Boxes on their ranks in a good order; `boxes` may be a number of equal ones."""
    boxes = [BOX] * boxes if isinstance(boxes, int) else boxes
    made = Layers(boxes, links)
    made.order()
    return made
