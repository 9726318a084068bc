"""A placed selection as plain data for the browser: outlines, lines, and the texts on them.

It says in paths and strings what `figure` says in Matplotlib's ink: the same arrangement, outlines
and number format, so paper and screen agree. What stays while numbers change (`lines`) and what
changes with them (`texts`) are apart, so that a slider sends texts only.

    lines      where everything stands, and when it comes
    texts      what is written there, step by step
    signature  two selections with one signature have the same lines
"""

from __future__ import annotations

from math import hypot
from typing import Any

import numpy as np

from .. import style
from ..drawing import cards, figure, shapes
from ..drawing.letters import extent
from ..drawing.picture import (
    APART,
    GAP,
    HANDLE,
    HEAD,
    MARGIN,
    PAD,
    TEXT,
    Picture,
    curve,
    frame_title,
    storeys,
)
from ..graph import Array, statistics
from ..graph.selection import Node, Selection

Document = dict[str, Any]

SOURCES = ("input", "variable", "constant", "port")


def lines(picture: Picture) -> Document:
    """Where everything of a picture stands, and at which step it comes."""
    shown = picture.selection
    shift = (MARGIN + (picture.width - 2 * MARGIN - picture.layout.width) / 2, 10.0)
    return {
        "which": shown.which,
        "steps": shown.steps,
        "direction": picture.layout.direction,
        "width": _round(picture.width),
        "height": _round(picture.layout.height + 2 * MARGIN),
        "nodes": [_node(picture, i, shift) for i in range(len(picture.kinds))],
        "links": [_link(picture, i, shift) for i in range(len(picture.links))],
        "forward": [i for i, n in enumerate(shown.nodes) if n.kind not in SOURCES and n.owner < 0],
        "backward": sorted({o for e in shown.edges if (o := e.order)} | _last_orders(shown)),
        "floors": _floors(picture, shift),
        "frames": [_frame(picture, k, shift) for k in range(len(shown.frames))],
    }


def texts(shown: Selection) -> Document:
    """What is written on a picture, with the step at which each text comes."""
    target = cards._target_name(shown)
    words = []
    for i, node in enumerate(shown.nodes):
        card = cards._card(shown, i, node, None, target)
        words.append(
            {
                "head": card.head,
                "name": card.name,
                "word": card.word,
                "gradient": _sums(shown, i, node, target) if card.gradient else [],
                "called": cards._called(node),
            }
        )
    written = [
        {
            "value": label.forward,
            "gradient": label.backward,
            "blocked": label.blocked,
            "size": magnitude(edge.contribution),
            "spoken": style.array(edge.value.numpy(), most=6),
            "back": cards._spoken(edge.contribution) if label.backward else "",
        }
        for edge, label in zip(shown.edges, cards.labels(shown), strict=True)
    ]
    for node in shown.nodes:
        for output, seed in zip(node.targets, node.seeds, strict=True):
            value = node.outputs[output]
            written.append(
                {
                    "value": cards.value_text(value),
                    "gradient": cards.short(seed),
                    "blocked": False,
                    "size": magnitude(seed),
                    "spoken": style.array(value.numpy(), most=6),
                    "back": cards._spoken(seed),
                }
            )
    return {"nodes": words, "links": written}


def signature(shown: Selection) -> tuple[Any, ...]:
    """What decides the lines of a selection: everything but its numbers."""
    nodes = [(n.label, n.symbol, n.kind, n.orders, n.targets, n.source) for n in shown.nodes]
    edges = [
        (e.source, e.output, e.target, e.position, e.order, e.reason, e.contribution is None)
        for e in shown.edges
    ]
    return shown.which, shown.steps, tuple(nodes), tuple(edges)


def magnitude(a: Array | None) -> float | None:
    """The size of a gradient as a power of ten, from its largest entry; None where it has none."""
    largest = None if a is None else statistics(a).largest
    return round(float(np.log10(largest)), 2) if largest else None


def _round(x: float) -> float:
    return round(float(x), 1)


def _last_orders(shown: Selection) -> set[int]:
    return {max(node.orders) for node in shown.nodes if node.orders}


def _sums(shown: Selection, i: int, node: Node, target: str) -> list[tuple[int, str]]:
    """The text of a node's gradient from each step on at which it changes."""
    found: list[tuple[int, str]] = []
    orders = {e.order for e in shown.outgoing[i] if e.contribution is not None}
    for step in sorted({0, shown.steps} | orders):
        text = cards._gradient(shown, i, node, step, target)
        if text != (found[-1][1] if found else ""):
            found.append((step, text))
    return found


# --- lines ---------------------------------------------------------------------------------------


def _node(picture: Picture, i: int, shift: tuple[float, float]) -> Document:
    x, y = (a + b for a, b in zip(picture.layout.centres[i], shift, strict=True))
    width, height = picture.sizes[i]
    kind = picture.kinds[i]
    found: Document = {
        "kind": "custom" if kind == "open" else kind,
        "x": _round(x),
        "y": _round(y),
        "width": _round(width),
        "height": _round(height),
        "paths": [_path(p) for p in shapes.outlines(kind, x, y, width, height)],
    }
    if i >= len(picture.selection.nodes):
        return {**found, "key": "", "lines": [], "orders": [], "floor": 0, "owner": -1}
    node = picture.selection.nodes[i]
    return {
        **found,
        "key": node.key,
        "orders": list(node.orders),
        "floor": node.level,
        "group": node.group,
        "frame": node.frame,
        "owner": node.owner,
        "lines": [] if kind == "open" else _rows(picture, i, x, y),
    }


def _rows(picture: Picture, i: int, x: float, y: float) -> list[tuple[str, float, float]]:
    """The role, the middle and the left of the lines of a node, as `figure` writes them."""
    card, kind = picture.cards[i], picture.kinds[i]
    rows = [
        (role, text, size)
        for role, text, size in (
            ("head", card.head, HEAD),
            ("name", card.name, TEXT),
            ("word", card.word, TEXT),
            ("gradient", card.gradient, TEXT),
        )
        if text
    ]
    top = y - sum(extent(text, size)[1] for _, text, size in rows) / 2
    top += {"variable": shapes.LID / 2, "scope": shapes.SHEET}.get(kind, 0.0)
    x -= shapes.SHEET if kind == "scope" else 0.0
    found = []
    for role, text, size in rows:
        height = extent(text, size)[1]
        found.append((role, _round(x), _round(top + height / 2)))
        top += height
    return found


def _frame(picture: Picture, k: int, shift: tuple[float, float]) -> Document:
    """What stands around open ops: its box, and its title, row by row."""
    frame = picture.selection.frames[k]
    left, top, width, height = picture.layout.frames[k]
    x, y = left + shift[0], top + shift[1]
    rows = frame_title(picture.selection, picture.cards, k)
    words, wide, low = [], 0.0, y + 4
    for row in rows:
        at, high = x + HANDLE, max(extent(text, size)[1] for _, text, size in row)
        for role, text, size in row:
            half = extent(text, size)[0] / 2
            words.append((role, _round(at + half), _round(low + high / 2)))
            at += 2 * half + GAP
        wide, low = max(wide, at - x), low + high
    return {
        "name": frame.name,
        "node": frame.node,
        "parent": frame.parent,
        "label": rows[0][0][1],
        "x": _round(x),
        "y": _round(y),
        "width": _round(width),
        "height": _round(height),
        "wide": _round(wide),
        "middle": words[0][2],
        "lines": words,
    }


def _link(picture: Picture, i: int, shift: tuple[float, float]) -> Document:
    shown, link = picture.selection, picture.links[i]
    label = picture.labels[i]
    edge = shown.edges[i] if i < len(shown.edges) else None
    apart = APART if label.backward else 0.0
    forward = curve(picture, i, -apart) + shift
    x, y = (a + b for a, b in zip(picture.layout.labels[i], shift, strict=True))
    side = apart + PAD
    across = (side, 0.0) if picture.layout.direction == "down" else (0.0, side)
    found: Document = {
        "from": link.source,
        "to": link.target,
        "position": edge.position if edge else -1,
        "order": edge.order if edge else 0,
        "come": _come(shown, i),
        "target": edge is None,
        "floor": max(picture.selection.nodes[link.source].level, _floor(picture, link.target)),
        "line": _polyline(figure._cut(forward, figure.ARROW - 1)),
        "head": _polyline(figure._head(forward)) + "Z",
        "valueAt": (_round(x - across[0]), _round(y - across[1])),
        "gradientAt": (_round(x + across[0]), _round(y + across[1])),
    }
    if label.backward and not label.blocked:
        back = (curve(picture, i, apart) + shift)[::-1]
        found["back"] = _polyline(figure._cut(back, figure.ARROW - 1))
        found["backHead"] = _polyline(figure._head(back)) + "Z"
    return found


def _come(shown: Selection, i: int) -> int:
    """The step from which on the gradient of a link, or the reason for none, is seen."""
    if i >= len(shown.edges):
        return 1  # the seed of a target stands there before the first rule runs
    edge = shown.edges[i]
    orders = shown.nodes[edge.target].orders
    return edge.order or (min(orders) if orders else shown.steps)


def _floor(picture: Picture, i: int) -> int:
    return picture.selection.nodes[i].level if i < len(picture.selection.nodes) else 0


def _polyline(points: Array) -> str:
    """The `d` of a line, in steps of a tenth from point to point."""
    places = np.rint(_fewer(points) * 10).astype(int)
    first = places[0] / 10
    moves = [f"{dx / 10:g} {dy / 10:g}" for dx, dy in np.diff(places, axis=0).tolist() if dx or dy]
    return f"M{first[0]:g} {first[1]:g}l{' '.join(moves)}"


def _fewer(points: Array, off: float = 0.12) -> Array:
    """The points that a line needs so that it is nowhere farther off than this."""
    line = points.tolist()  # so few numbers are handled faster one by one than as arrays
    kept = {0, len(line) - 1}
    stack = [(0, len(line) - 1)]
    while stack:
        a, b = stack.pop()
        (x, y), (u, v) = line[a], (line[b][0] - line[a][0], line[b][1] - line[a][1])
        length = hypot(u, v)
        far, most = 0, off
        for i in range(a + 1, b):
            s, t = line[i][0] - x, line[i][1] - y
            away = abs(s * v - t * u) / length if length > 1e-9 else hypot(s, t)
            if away > most:
                far, most = i, away
        if far:
            kept.add(far)
            stack += [(a, far), (far, b)]
    return points[sorted(kept)]


def _path(path: Any) -> str:
    """A Matplotlib path as the `d` of an SVG path, in steps of a tenth."""
    found: list[str] = []
    at = np.zeros(2, int)
    previous = 0
    places = np.rint(path.vertices * 10).astype(int)
    for place, code in zip(places, path.codes, strict=True):
        letter = {1: "M", 2: "l", 4: "c", 79: "Z"}[int(code)]
        if letter == "Z":
            found.append("Z")
            continue
        dx, dy = (place if letter == "M" else place - at) / 10
        follows = letter == "c" and previous % 3
        found.append(f"{'' if follows else letter}{dx:g} {dy:g}")
        previous = previous + 1 if letter == "c" else 0
        if letter != "c" or previous % 3 == 0:
            at = place  # the three points of a curve are told from where it begins
    return " ".join(found)


def _floors(picture: Picture, shift: tuple[float, float]) -> list[Document]:
    """A band with a title for the forward pass, and one for each that is itself differentiated."""
    return [
        {
            "floor": floor,
            "title": title,
            "x": 3,
            "y": _round(y + shift[1]),
            "width": _round(picture.width - 6),
            "height": _round(height),
        }
        for floor, title, y, height in storeys(picture)
    ]
