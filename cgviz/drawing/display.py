"""The display list: what is drawn of a selection, as plain data for paper and screen.

    make       a selection -> its Display, in the direction that suits a space
    arranged   a selection -> its Displays, in each direction in which it can run
    largest    Displays -> the one that suits a space
    Display    paths and texts, with what each belongs to and the steps at which it changes
    signature  selections with the same signature differ only in what their texts say

A path or a text has a role, which tells the renderers its looks, and belongs to a node, a link, a
frame or a band. It appears at one step, and is emphasised at some steps: 0 is the end of the
forward pass, k is backward step k, -k is the forward pass with k ops still to run, and SEED is the
start of the backward pass, when only targets have their upstream and no rule has run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from ..graph import selection
from ..graph.selection import Selection
from . import layout, shapes
from .layout import BAND, PORT, SIDE, Direction
from .shapes import Anchor, Side, extent
from .texts import SEED, TEXT, Moments, Text, written

APART = 3.4  # from the middle between a forward and a backward arrow to each: two line widths
PAD = 4.0  # between an arrow and its label
MARGIN = 10.0  # around the picture, so that nothing touches a cell's border
HANDLE, GAP = 24.0, 8.0  # on a frame: for the handle that closes it; between two of its texts
RADIUS = 6.5  # of a handle: 13 points across can be clicked
NARROWEST = 40.0  # the least width of a node: a symbol alone would be hard to click
NOTEBOOK = 9.5 * 72  # the width of a picture that fits a notebook, in points
SMALL, SAMPLE = 11.0, 44.0  # in the legend: the size of letters; an arrow and the space around it
LEGEND = 2.2 * TEXT  # the height of the legend's line
# A number, and the longest one that is written.
NUMBER, LONG = re.compile(r"(?<![\w.])[−]?[\d.∞]+(?:e−?\d+)?(?![\w])"), "−0.0001235"
SCRUB = 5.0  # between the text of a node and the arrow that says it can be dragged

Document = dict[str, Any]
Box = tuple[float, float, float, float]  # left or middle, top or middle, width, height
Fields = Mapping[tuple[str, int], tuple[float, float]]  # "node" or "link", which -> width, height


@dataclass(frozen=True)
class Path:
    """A line or an outline."""

    role: str
    of: str  # what it belongs to: "node", "link", "frame" or "band"
    i: int  # which of them
    d: str  # SVG path data in points, y growing downwards: M, L, C and Z, in absolute coordinates
    step: float  # the step from which it is shown
    now: tuple[float, ...] = ()  # the steps at which it is emphasised


@dataclass(frozen=True)
class Node:
    """What is known of a node besides its paths and texts; a target is a node behind its link."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    step: int
    now: tuple[int, ...]
    orders: tuple[int, ...]
    group: str


@dataclass(frozen=True)
class Link:
    """What is known of a link: an edge of the selection, or the link to a target."""

    source: int
    target: int
    position: int  # which input of its target it is; -1: a captured value, or a target of the pass


@dataclass(frozen=True)
class Frame:
    """What is known of a frame."""

    name: str
    label: str
    node: int  # the custom op whose inside it shows; -1: it shows a scope
    title: Box  # left, top, width, height


@dataclass
class Display:
    """Everything that is drawn of a selection, its paths from back to front."""

    steps: int
    direction: Direction
    width: float
    height: float
    forward: list[int]  # the nodes in the order in which they run
    backward: list[int]  # the steps of the backward pass at which something changes
    legend: list[tuple[str, str]]  # the role of a line, or "" for a sign; its meaning
    paths: list[Path] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)  # in the order of `texts.written`
    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    @property
    def sheet(self) -> tuple[float, float]:
        """Width and height including the legend, which on paper is a line below the picture."""
        words = [*(text for _, text in self.legend), f"step {self.steps} of {self.steps}"]
        least = 2 * MARGIN + sum(SAMPLE + extent(text, SMALL)[0] for text in words)
        return max(self.width, least), self.height + LEGEND

    def moment(self, step: int) -> int:
        """The last step up to `step` at which something changes."""
        return max((m for m in self.backward if m <= step), default=min(step, 0))

    def moments(self) -> list[tuple[float, str]]:
        """Every step at which the picture changes, with its name in words."""
        count = len(self.forward)
        found: list[tuple[float, str]] = [
            (n - count, f"forward {n} of {count}") for n in range(count + 1)
        ]
        found += [(SEED, "the backward pass starts")] if self.backward else []
        return found + [(k, f"backward step {k} of {self.steps}") for k in self.backward]

    def document(self) -> Document:
        """Everything but what the texts say, for the browser."""
        found = vars(self) | {"moments": self.moments()}
        for name in ("paths", "texts", "nodes", "links", "frames"):
            found[name] = [dict(vars(each)) for each in found[name]]
        for text in found["texts"]:
            del text["versions"]
        return found


def make(
    shown: Selection, space: tuple[float, float] = (NOTEBOOK, inf), enough: float = 1.0
) -> Display:
    """Arrange a selection in the direction that suits a space; `largest` explains the arguments."""
    return largest(arranged(shown, space[0] / NARROWEST), space, enough)


def largest(
    displays: Iterable[Display], space: tuple[float, float], enough: float = 1.0
) -> Display:
    """The first display list that is large enough with its legend, or else the largest one.

    Args:
        displays: The display lists of a selection; none is made after one that is large enough.
        space: The width and height that the picture gets, in points.
        enough: The scale at which a picture in this space is large enough.
    """

    def scale(each: Display) -> float:
        width, height = each.sheet
        return min(space[0] / width, space[1] / height)

    found = []
    for each in displays:
        found.append(each)
        if scale(each) >= enough:
            break
    return max(found, key=scale)


def arranged(
    shown: Selection,
    deepest: float,
    *,
    alike: Sequence[Selection] = (),
    fields: Fields | None = None,
) -> Iterator[Display]:
    """Arrange a selection in each direction.

    Args:
        shown: The selection.
        deepest: The longest path, in nodes, with which the picture may run right.
        alike: Other selections of the same signature, for whose texts space is left, too.
        fields: The sizes of the fields that gradients are typed into, by what they belong to.

    Returns:
        A display list that runs right and one that runs down, or the only one that is possible.
    """
    texts = written(shown)
    for other in alike:  # before the selection's own, which `Text.at` finds first
        pairs = zip(texts, written(other), strict=True)
        texts = [replace(own, versions=(*its.versions, *own.versions)) for own, its in pairs]
    directions: list[Direction] = ["right", "down"] if shown.depth <= deepest else ["down"]
    if len({node.level for node in shown.nodes}) > 1:
        directions = ["right"]  # so that one band is above the other
    for each in directions:
        yield _Arranged(shown, texts, each, fields or {}).display()


def longer(words: str) -> str:
    """Words with numbers as long as a slider may make them; several in a line are each shorter."""

    def line(text: str) -> str:
        # As `texts` limits letters: 10 for a scalar, 22 for two in a label, 20 for three in a sum.
        long = LONG[: max(2, 13 - 2 * len(NUMBER.findall(text)))]
        return NUMBER.sub(lambda found: max(found[0], long, key=len), text)

    return "\n".join(map(line, words.split("\n")))


def signature(shown: Selection) -> tuple[Any, ...]:
    """What decides a selection's paths and the places of its texts: all but its numbers."""
    nodes = [(n.label, n.symbol, n.kind, n.orders, n.asked) for n in shown.nodes]
    edges = [
        (e.source, e.output, e.target, e.position, e.order, e.reason, e.contribution is None)
        for e in (*shown.edges, *shown.targets)
    ]
    texts = [(text.role, text.of, text.i) for text in written(shown)]
    return shown.which, shown.steps, tuple(nodes), tuple(edges), tuple(texts)


class _Arranged:
    """A selection laid out in one direction; each target is a box after the node of its value."""

    def __init__(
        self, shown: Selection, texts: Sequence[Text], direction: Direction, fields: Fields
    ) -> None:
        self.shown, self.texts, self.fields = shown, texts, fields
        self.direction: Direction = direction
        self.across, self.along = (0, 1) if direction == "down" else (1, 0)
        self.moments = Moments(shown)
        self.by_owner: dict[tuple[str, int], dict[str, Text]] = {}
        for text in texts:
            self.by_owner.setdefault((text.of, text.i), {})[text.role] = text
        self.edges = [*shown.edges, *shown.targets]
        self.nodes = [*shown.nodes]
        self.ends = [(edge.source, edge.target) for edge in shown.edges]
        for edge in shown.targets:
            self.ends.append((edge.source, len(self.nodes)))
            made = shown.nodes[edge.source]
            target = selection.Node("", "", "", "target", (), (), ())
            self.nodes.append(replace(target, level=made.level, frame=made.frame))
        self.opened = {frame.node for frame in shown.frames}
        self.sizes = list(self._sizes())
        self.links = [self._link(i, *at) for i, at in enumerate(self._ports())]
        self.layout = self._placed()
        for frame, (*_, width, height) in zip(shown.frames, self.layout.frames, strict=True):
            if frame.node >= 0:
                self.sizes[frame.node] = width, height
        # Numbers that an earlier pass sent back are values in the next one.
        again = any(node.level for node in shown.nodes)
        self.legend = [("forward", "value" if again else "forward value")]
        written = [words for text in texts if text.of == "link" for _, words in text.versions]
        if shown.which is not None:
            product = any(" · " in words for words in written)
            plain = "gradient of the outer backward pass" if again else "backward gradient"
            self.legend.append(("backward", "upstream · local = downstream" if product else plain))
        # Under a slider of `explore` a wrong rule can come to show at any time.
        moved = shown.local and shown.moved and any(node.kind == "custom" for node in shown.nodes)
        if moved or any("≠" in words for words in written):
            self.legend.append(("", "≠ what the rule returned instead"))
        self.width = self.layout.width + 2 * MARGIN
        self.height = self.layout.height + 2 * MARGIN
        places = zip(self.nodes, self.layout.centres, self.sizes, strict=True)
        self.outlines = [
            shapes.outlines("open" if i in self.opened else n.kind, *self._moved(centre), *size)
            for i, (n, centre, size) in enumerate(places)
        ]

    # --- sizes ---

    def _extent(self, text: Text | None) -> tuple[float, float]:
        """The space that a text needs, whichever of its versions is shown."""
        sizes = [(0.0, 0.0)]
        if text is None:
            return sizes[0]
        moved = self.shown.moved
        for _, words in text.versions:
            if text.role == "title":
                name = words.partition(" = ")[0]
                words = f"{name} = {moved[name]}" if moved and name in moved else words
            elif moved is not None:
                words = longer(words)
            # A label is bold while its step is the current one.
            sizes.append(extent(words, text.size, text.of == "link"))
        if text.role == "gradient" and (text.of, text.i) in self.fields:
            sizes.append(self.fields[text.of, text.i])
        return max(w for w, _ in sizes), max(h for _, h in sizes)

    def _rows(self, i: int) -> list[Text]:
        """The texts of a node, from top to bottom."""
        return list(self.by_owner.get(("node", i), {}).values())

    def _sizes(self) -> Iterator[tuple[float, float]]:
        """The size of each node, with space for its texts and for the links at its sides."""
        leaving, arriving = (Counter(end[k] for end in self.ends) for k in (0, 1))
        for i, node in enumerate(self.nodes):
            if node.kind in ("target", "port"):
                yield (shapes.TARGET if node.kind == "target" else shapes.PORT,) * 2
                continue
            rows = [self._extent(text) for text in self._rows(i)]
            pad_x, pad_y = shapes.PADDING[node.kind]
            pad_x += SCRUB * self.shown.moves(node)
            size = [
                max(max((w for w, _ in rows), default=0.0) + 2 * pad_x, NARROWEST),
                sum(h for _, h in rows) + 2 * pad_y,
            ]
            ports = PORT * (min(max(leaving[i], arriving[i]), 12) - 1)
            corners = 2 * (APART + shapes.CORNER)
            size[self.across] = max(size[self.across], ports + corners, ports / (2 * SIDE))
            yield size[0], size[1]

    def _link(self, i: int, source: int, target: int) -> layout.Link:
        own = self.by_owner.get(("link", i), {})
        before = self._extent(own.get("value"))
        after = self._extent(own.get("gradient") or own.get("reason"))
        levels = self.nodes[source].level, self.nodes[target].level
        return layout.Link(
            source,
            target,
            before[self.across] + APART + PAD,
            after[self.across] + APART + PAD,
            max(before[self.along], after[self.along], 1.0),
            # The ops of a gradient run against the direction, each above the op that it belongs to.
            back=levels[0] == levels[1] and levels[0] % 2 == 1,
        )

    def _title(self, k: int) -> tuple[list[list[Text]], list[float], float]:
        """The rows of texts in the title of a frame, their heights, and its width."""
        node = self.shown.frames[k].node
        own = self.by_owner["frame", k] if node < 0 else self.by_owner["node", node]
        second = [own[role] for role in ("kind", "name", "gradient") if role in own]
        rows = [[own["title"]], *([second] if second else [])]
        sizes = [[self._extent(text) for text in row] for row in rows]
        width = HANDLE + max(sum(w + GAP for w, _ in row) for row in sizes)
        return rows, [max(h for _, h in row) for row in sizes], width

    # --- layout ---

    def _placed(self) -> layout.Layout:
        """The layout: frames within frames, and bands above each other."""
        top = max((node.level for node in self.nodes), default=0)
        boxes = []
        for node, size in zip(self.nodes, self.sizes, strict=True):
            pin = 0
            if node.kind == "port":
                outward = node.outputs[0] in self.nodes[node.owner].outputs
                pin = 1 if outward != bool(node.level % 2) else -1
            boxes.append(layout.Box(*size, node.frame, pin, top - node.level))
        around = [self._frame(k, top) for k in range(len(self.shown.frames))]
        return layout.place(boxes, self.links, self.direction, around)

    def _frame(self, k: int, top: int) -> layout.Frame:
        frame = self.shown.frames[k]
        _, heights, width = self._title(k)
        title = width, sum(heights) + 8
        return layout.Frame(title, frame.parent, frame.node, top - frame.level)

    def _ports(self) -> Iterator[tuple[int, int]]:
        """Per link, its ends in the layout: at an open custom op, the port of the value."""
        nodes = enumerate(self.nodes)
        ports = {(n.owner, n.outputs[0].key): i for i, n in nodes if n.kind == "port"}
        for edge, (source, target) in zip(self.edges, self.ends, strict=True):
            made = self.nodes[source].outputs[edge.output].key
            yield ports.get((source, made), source), ports.get((target, edge.value.key), target)

    # --- elements ---

    def display(self) -> Display:
        """The display list of the selection."""
        moments = self.moments
        self.found = Display(
            self.shown.steps,
            self.direction,
            round(self.width, 1),
            round(self.height, 1),
            moments.forward,
            moments.backward,
            self.legend,
        )
        self._draw_bands()
        for k in range(len(self.shown.frames)):
            self._draw_frame(k)
        for i in range(len(self.links)):
            self._draw_link(i)
        for i in range(len(self.nodes)):
            self._draw_node(i)
        placed = {(text.of, text.i, text.role): text for text in self.found.texts}
        self.found.texts = [placed[text.of, text.i, text.role] for text in self.texts]
        return self.found

    def _path(self, role: str, of: str, i: int, d: str, step: float, *now: float) -> None:
        self.found.paths.append(Path(role, of, i, d, step, now))

    def _text(
        self,
        text: Text,
        x: float,
        y: float,
        anchor: Anchor = "middle",
        side: Side = "around",
        now: Sequence[float] = (),
        step: float | None = None,
    ) -> None:
        """Add a text at its place; it is shown from `step`, by default from its first version."""
        step = text.versions[0][0] if step is None else step
        x, y = round(x, 1), round(y, 1)
        placed = replace(text, x=x, y=y, anchor=anchor, side=side, step=step, now=tuple(now))
        self.found.texts.append(placed)

    def _node_time(self, i: int) -> tuple[int, tuple[int, ...]]:
        """The step from which a node is shown, and the steps at which it is emphasised."""
        if self.nodes[i].kind == "target":
            return 0, ()
        ran = [self.moments.ran[i]] if i in self.moments.ran else []
        orders = self.nodes[i].orders
        return self.moments.of_node(i), (*ran, *dict.fromkeys(map(self.moments.shows, orders)))

    def _draw_bands(self) -> None:
        """A band for the forward pass, and above it one for each differentiated backward pass."""
        levels = sorted({node.level for node in self.nodes}, reverse=True)
        start = self.moments.start
        for level, (low, high) in zip(levels, self.layout.bands, strict=False):
            top = low - BAND + 6 + MARGIN
            outline = shapes.box(3, self.width - 3, top, top + high - low + BAND + 3, 8)
            self._path("band", "band", level, outline, start)
            self._text(self.by_owner["band", level]["title"], 12, top + 13, "start")

    def _draw_frame(self, k: int) -> None:
        """A frame: its outline, its title row by row, and the handle that closes it."""
        frame = self.shown.frames[k]
        left, top, width, height = self.layout.frames[k]
        x, y = left + MARGIN, top + MARGIN
        of, i = ("frame", k) if frame.node < 0 else ("node", frame.node)
        step, now = (self.moments.start, ()) if frame.node < 0 else self._node_time(frame.node)
        self._path("frame", of, i, shapes.box(x, x + width, y, y + height, 8), step, *now)
        rows, heights, wide = self._title(k)
        low = y + 4
        if frame.node < 0:
            self._path("tab", of, i, shapes.box(x, x + wide, y, y + heights[0] + 8, 8), step)
        self._path("handle", of, i, _handle(x + 12, low + heights[0] / 2, True), step)
        for row, tall in zip(rows, heights, strict=True):
            at = x + HANDLE
            for text in row:
                self._text(text, at, low + tall / 2, "start", "around", now, step)
                at += self._extent(text)[0] + GAP
            low += tall
        title = _rounded(x, y, wide, heights[0] + 8)
        self.found.frames.append(Frame(frame.name, rows[0][0].at(inf), frame.node, title))

    def _draw_link(self, i: int) -> None:
        """An arrow the way the value flows, one the way the gradient flows, and their labels."""
        edge, own = self.edges[i], self.by_owner.get(("link", i), {})
        source, target = self.ends[i]
        paired = "gradient" in own
        ran, come = self.moments.of_node(source), self.moments.of_edge(edge)
        runs = [self.moments.ran[target]] if target in self.moments.ran else []
        back = [SEED] if edge.target < 0 else []
        if edge.order:
            back = [self.moments.shows(edge.order)]
        shaft, head = shapes.arrow(self._line(i, -APART if paired else 0.0))
        self._path("forward", "link", i, shaft, ran, *runs)
        self._path("forward-head", "link", i, head, ran, *runs)
        if paired:
            shaft, head = shapes.arrow(self._line(i, APART)[::-1])
            self._path("backward", "link", i, shaft, come, *back)
            self._path("backward-head", "link", i, head, come, *back)
        x, y = self._moved(self.layout.labels[i])
        for role, sign, now in (("value", -1, runs), ("gradient", 1, back), ("reason", 1, back)):
            if role not in own:
                continue
            away = sign * (PAD + (APART if paired else 0.0))
            if self.direction == "down":
                self._text(own[role], x + away, y, "end" if sign < 0 else "start", now=now)
            else:
                side: Side = "above" if sign < 0 else "below"
                self._text(own[role], x, y + away, "middle", side, now)
        self.found.links.append(Link(source, target, edge.position))

    def _moved(self, point: tuple[float, float]) -> tuple[float, float]:
        return point[0] + MARGIN, point[1] + MARGIN

    def _line(self, i: int, distance: float) -> list[tuple[float, float]]:
        """A line from outline to outline, as the value flows, at a distance beside the route."""
        turn = -1 if self.links[i].back else 1
        line = layout.beside(self.layout.routes[i], self.direction, turn * distance) + MARGIN
        for node, end, side in zip(self.ends[i], (0, -1), (turn, -turn), strict=True):
            at = line[end, self.across]
            line[end, self.along] = shapes.meets(self.outlines[node], self.across, at, side)
        return [(x, y) for x, y in line.tolist()]

    def _draw_node(self, i: int) -> None:
        node, size = self.nodes[i], self.sizes[i]
        x, y = self._moved(self.layout.centres[i])
        step, now = self._node_time(i)
        if i not in self.opened:
            for n, d in enumerate(self.outlines[i]):
                self._path("inner" if n else "outline", "node", i, d, step, *now)
            self._draw_rows(i, x, y, step, now)
            if node.group:
                corner = x + size[0] / 2 - (shapes.POINT if node.kind == "custom" else 3)
                self._path("handle", "node", i, _handle(corner, y - size[1] / 2 + 2, False), step)
        where = _rounded(x, y, *size)
        self.found.nodes.append(Node(node.kind, *where, step, now, node.orders, node.group))

    def _draw_rows(self, i: int, x: float, y: float, step: int, now: Sequence[int]) -> None:
        """The texts of a node, in the middle of its outline."""
        rows = self._rows(i)
        heights = [self._extent(text)[1] for text in rows]
        top = y - sum(heights) / 2
        kind = self.nodes[i].kind
        top += {"variable": shapes.LID / 2, "scope": shapes.SHEET}.get(kind, 0.0)
        x -= shapes.SHEET if kind == "scope" else 0.0
        for text, height in zip(rows, heights, strict=True):
            self._text(text, x, top + height / 2, "middle", "around", now, step)
            top += height


def _rounded(x: float, y: float, width: float, height: float) -> Box:
    return round(x, 1), round(y, 1), round(width, 1), round(height, 1)


def _handle(x: float, y: float, is_open: bool) -> str:
    """A ring with a minus on what is open, or with a plus on what can be opened."""
    ring = shapes.box(x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS, RADIUS)
    sign = shapes.data("M", x - 3.5, y, "L", x + 3.5, y)
    return ring + sign + ("" if is_open else shapes.data("M", x, y - 3.5, "L", x, y + 3.5))
