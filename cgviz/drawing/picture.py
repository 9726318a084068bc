"""A selection with its texts measured and everything in its place, ready for ink.

    arranged   a selection -> a Picture
    curve      a link's line in it

A helper of `figure`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, TypeVar

from ..graph import Array
from ..graph.selection import Selection
from . import cards, layout, nest, shapes
from .cards import Card, Label
from .layout import Direction, Layout
from .letters import extent

HEAD, TEXT = 14.0, 11.5  # sizes of letters, in points
APART = 3.4  # of the forward and the backward arrow from their common middle
PAD = 4.0  # between an arrow and its label
MARGIN = 10.0
STOREY, TITLE = 34.0, "forward pass"  # the room before a floor; the title of the first
HANDLE, GAP = 24.0, 8.0  # on a frame: what closes it; between two words
WIDEST = 9.5 * 72  # what fits a notebook
SMALL, LEGEND_LINE = 11.0, 44.0  # of the legend: its letters; an arrow with the space around it
NUMBER, LONG = re.compile(r"(?<![\w.])[−]?[\d.∞]+(?:e−?\d+)?(?![\w])"), "−0.0008"
DEEPEST = 8  # a longer path runs down at once


_Words = TypeVar("_Words", Card, Label)


@dataclass(frozen=True)
class Picture:
    """A selection with its texts and places; targets are boxes of their own behind the nodes."""

    selection: Selection
    cards: list[Card]
    labels: list[Label]  # per link: edges, then targets
    sizes: list[tuple[float, float]]
    kinds: list[str]
    links: list[layout.Link]
    layout: Layout
    width: float
    height: float


def arranged(
    shown: Selection,
    room: tuple[float, float] | None,
    *,
    roomy: bool = False,
    enough: float = inf,
) -> Picture:
    """Place everything, running right where that fits and down where it does not.

    `roomy` leaves room for other numbers than those of now, as a slider brings them. A picture
    that is as large as `enough` in its room need not be larger.
    """
    texts = cards.cards(shown)
    labels = cards.labels(shown) + [
        Label(cards.value_text(node.outputs[output]), cards.short(seed))
        for node in shown.nodes
        for output, seed in zip(node.targets, node.seeds, strict=True)
    ]
    ends = [(e.source, e.target) for e in shown.edges]
    for i, node in enumerate(shown.nodes):
        for _ in node.targets:
            ends.append((i, len(shown.nodes) + len(ends) - len(shown.edges)))
    kinds = [n.kind for n in shown.nodes] + ["target"] * (len(ends) - len(shown.edges))
    for frame in shown.frames:
        if frame.node >= 0:
            kinds[frame.node] = "open"
    widest = [_roomy(t) if roomy else t for t in texts]
    widest_labels = [_roomy(t) if roomy else t for t in labels]
    pictures = []
    directions: list[Direction] = ["right", "down"]
    if len({n.level for n in shown.nodes}) > 1:
        directions = ["right"]  # so that a floor is above the other
    elif room is None and shown.depth > DEEPEST:
        directions = ["down"]
    for direction in directions:
        sizes = _sizes(widest, kinds, ends, direction)
        links = [_link(a, b, t, direction) for (a, b), t in zip(ends, widest_labels, strict=True)]
        floors = _floors(shown, links)
        links = [_turned(link, floors) for link in links]
        placed = _placed(shown, widest, sizes, links, floors, direction)
        width = max(placed.width, _legend_width(shown)) + 2 * MARGIN
        height = placed.height + 2 * MARGIN + 2.2 * TEXT
        for frame, (_, _, w, h) in zip(shown.frames, placed.frames, strict=True):
            if frame.node >= 0:
                sizes[frame.node] = w, h
        pictures.append(Picture(shown, texts, labels, sizes, kinds, links, placed, width, height))
        if direction == "right" and room is None and width <= WIDEST:
            break
    if room is None:
        return pictures[-1]
    return max(pictures, key=lambda p: min(room[0] / p.width, room[1] / p.height, enough))


def _floors(shown: Selection, links: list[layout.Link]) -> list[int]:
    """The floor of each node, and of the targets behind them."""
    targets = [shown.nodes[link.source].level for link in links[len(shown.edges) :]]
    return [n.level for n in shown.nodes] + targets


def _turned(link: layout.Link, floors: list[int]) -> layout.Link:
    """The ops of a gradient run the other way: each above the op that it belongs to."""
    floor = floors[link.source]
    return replace(link, back=floor == floors[link.target] and floor % 2 == 1)


def _placed(
    shown: Selection,
    texts: list[Card],
    sizes: list[tuple[float, float]],
    links: list[layout.Link],
    floors: list[int],
    direction: Direction,
) -> Layout:
    """Everything in its place: frame in frame, and floor above floor."""
    homes = [n.frame for n in shown.nodes] + [-1] * (len(sizes) - len(shown.nodes))
    for link in links[len(shown.edges) :]:  # a target stands beside what made it
        homes[link.target] = shown.nodes[link.source].frame
    outward = {port for _, name, port in shown.ports if name < 0}
    pinned = {}
    for i, node in enumerate(shown.nodes):
        if node.kind == "port":
            pinned[i] = 1 if (i in outward) != bool(node.level % 2) else -1
    top = max(floors, default=0)
    return nest.Nest(
        sizes,
        links,
        direction,
        homes,
        _frames(shown, texts, top),
        _doors(shown, links),
        pinned,
        [top - floor for floor in floors] if top else [],
        {"storey": STOREY, "gap": 14.0, "rank_gap": 11.0},
    ).placed()


def _doors(shown: Selection, links: list[layout.Link]) -> dict[tuple[int, int], int]:
    """For links of open custom ops: the port that each leads to."""
    ports = {(op, name): port for op, name, port in shown.ports}
    ends = [(~e.output, e.value.key) for e in shown.edges]
    ends += [(~output, -1) for node in shown.nodes for output in node.targets]
    found = {}
    for n, (link, (out, into)) in enumerate(zip(links, ends, strict=True)):
        if (link.source, out) in ports:
            found[n, 0] = ports[link.source, out]
        if (link.target, into) in ports:
            found[n, 1] = ports[link.target, into]
    return found


def _roomy(words: _Words) -> _Words:
    """The same words with every number as long as numbers usually get."""
    found: dict[str, Any] = {}
    for field in fields(words):
        text = getattr(words, field.name)
        if isinstance(text, str) and (field.name != "head" or " = " in text):
            found[field.name] = NUMBER.sub(LONG, text)
    return replace(words, **found)


def _sizes(
    texts: list[Card], kinds: list[str], ends: list[tuple[int, int]], direction: Direction
) -> list[tuple[float, float]]:
    """Room for the text of each node and for the links at its sides."""
    leaving, arriving = [0] * len(kinds), [0] * len(kinds)
    for a, b in ends:
        leaving[a] += 1
        arriving[b] += 1
    sizes = []
    for i, kind in enumerate(kinds):
        if kind in ("target", "port"):
            size = shapes.TARGET if kind == "target" else shapes.PORT
            sizes.append((size, size))
            continue
        lines = [extent(t, size) for t, size in lines_of(texts[i])]
        pad_x, pad_y = shapes.PADDING.get(kind, shapes.PADDING["op"])
        width = max(max((w for w, _ in lines), default=0.0) + 2 * pad_x, 40.0)
        height = sum(h for _, h in lines) + 2 * pad_y
        ports = 18.0 * (min(max(leaving[i], arriving[i]), 12) - 1) / 0.7
        if direction == "down":
            sizes.append((max(width, ports), height))
        else:
            sizes.append((width, max(height, ports)))
    return sizes


def lines_of(card: Card) -> list[tuple[str, float]]:
    """The lines of a card with their sizes."""
    sized = ((card.head, HEAD), (card.name, TEXT), (card.word, TEXT), (card.gradient, TEXT))
    return [(text, size) for text, size in sized if text]


Title = list[list[tuple[str, str, float]]]  # rows of words: the role, the text, the size


def frame_title(shown: Selection, texts: list[Card], k: int) -> Title:
    """The words on a frame."""
    frame = shown.frames[k]
    if frame.node < 0:
        return [[("head", cards.short_name(frame.label) or "ops in a row", TEXT)]]
    card = texts[frame.node]
    rest = [("word", card.word), ("name", card.name), ("gradient", card.gradient)]
    return [
        [("head", card.head, HEAD)],
        [(role, text, TEXT) for role, text in rest if text],
    ]


def _frames(shown: Selection, texts: list[Card], top: int) -> list[nest.Frame]:
    found = []
    for k, frame in enumerate(shown.frames):
        rows = [
            [extent(text, size) for _, text, size in row] for row in frame_title(shown, texts, k)
        ]
        width = HANDLE + max(sum(w + GAP for w, _ in row) for row in rows)
        height = sum(max(h for _, h in row) for row in rows) + 8
        found.append(nest.Frame(frame.parent, (width, height), frame.node, top - frame.level))
    return found


def _link(a: int, b: int, label: Label, direction: Direction) -> layout.Link:
    forward, backward = extent(label.forward, TEXT), extent(label.backward, TEXT)
    across, along = (0, 1) if direction == "down" else (1, 0)
    side = APART + PAD
    return layout.Link(
        a,
        b,
        forward[across] + side,
        backward[across] + side,
        max(forward[along], backward[along], 1.0),
    )


def legend(shown: Selection) -> list[str]:
    """The words of the legend: what each kind of arrow is, and where ops come from."""
    words = ["forward value"]
    if shown.which is not None:
        words.append("backward gradient")
    return words


def storeys(picture: Picture) -> list[tuple[int, str, float, float]]:
    """Of a picture with floors, each one's number, its title, its top and its height."""
    numbers = sorted({n.level for n in picture.selection.nodes}, reverse=True)
    titles = [f"backward pass {n - 1}: the ops of the gradient" if n else TITLE for n in numbers]
    return [
        (floor, title, low - STOREY + 6, high - low + STOREY + 3)
        for floor, title, (low, high) in zip(numbers, titles, picture.layout.storeys, strict=False)
    ]


def _legend_width(shown: Selection) -> float:
    words = [*legend(shown), f"step {shown.steps} of {shown.steps}"]
    return sum(LEGEND_LINE + extent(text, SMALL)[0] for text in words)


def curve(picture: Picture, i: int, distance: float) -> Array:
    """A link's line at a distance to the side of its route, from outline to outline."""
    link, direction = picture.links[i], picture.layout.direction
    turn = -1 if link.back else 1
    line = layout.beside(_straightened(picture.layout.routes[i]), direction, turn * distance)
    across, along = (0, 1) if direction == "down" else (1, 0)
    for node, end, side in ((link.source, 0, turn), (link.target, -1, -turn)):
        port = float(line[end, across]) - picture.layout.centres[node][across]
        kind, size = picture.kinds[node], picture.sizes[node]
        line[end, along] -= side * shapes.inset(kind, direction, *size, port, side)
    return line


def _straightened(route: Sequence[layout.Point]) -> list[layout.Point]:
    """A route without the corners at which it goes straight on."""
    found: list[layout.Point] = []
    for point in route:
        if len(found) > 1 and any(found[-2][k] == found[-1][k] == point[k] for k in (0, 1)):
            found.pop()
        found.append(point)
    return found
