"""From boxes, links and frames to positions: the one layout for paper and screen.

    place               boxes and links -> a Layout
    Box, Link, Frame    what is placed
    Layout              centres, routes, extent
    beside              a curve along a route, at a distance to its side

Between two ranks of boxes a link bends; beside a box it runs straight, so no link passes through a
box (but for the longest ones of a picture with more than `layers.MOST` waypoints, as 40 steps of a
recurrent network shown in full).

A frame is laid out alone, and is one box of the layout around it. A link that crosses a frame is
placed in pieces, which meet on the frame: what is inside is placed first, and where its lines reach
the frame, the lines outside are held. Only the forward graph is laid out; a backward arrow runs
beside its forward one. Everything is plain numbers in the unit of the sizes, and equal arguments
give an equal picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .layers import PORT, SIDE, Box, Direction, Layout, Link, Point, arranged, beside

__all__ = ["PORT", "SIDE", "Box", "Direction", "Frame", "Layout", "Link", "Point"]
__all__ += ["beside", "place"]

PAD = 11.0  # between a frame and what is in it: a handle that closes it fits


@dataclass(frozen=True)
class Frame:
    """A frame around some of the boxes."""

    title: Point  # width and height
    parent: int = -1  # the frame around it, or -1
    box: int = -1  # the box that it is: links of the box end at the frame
    level: int = 0


def place(
    boxes: Sequence[Box],
    links: Sequence[Link],
    direction: Direction = "down",
    frames: Sequence[Frame] = (),
    band: float = 40.0,
) -> Layout:
    """Find positions for boxes, links and frames.

    Args:
        boxes: The boxes; of one that is a frame the size does not count.
        links: The links; those of one box to itself are left out, and one that closes a cycle is
            drawn against the direction.
        direction: "down" or "right".
        frames: The frames, each after the one around it.
        band: The space before each level, where there are several.

    Returns:
        The layout; its `frames` are in the order of `frames`.

    >>> layout = place([Box(40, 20), Box(40, 20)], [Link(0, 1)])
    >>> layout.centres
    ((20.0, 10.0), (20.0, 52.0))
    """
    nest = _Nest(boxes, links, direction, frames)
    for k in range(len(frames) - 1, -2, -1):  # from the innermost out
        nest.solve(k, band)
    return nest.assembled()


Item = tuple[str, int, int]  # ("box", i, 0), ("frame", k, 0), ("port", link, k): into or out of k
NOWHERE: Item = ("", 0, 0)


@dataclass(frozen=True)
class _Piece:
    """A part of a link within one frame; a link has at most one in each."""

    link: int
    source: Item
    target: Item
    exit: Item  # of a source that is a frame: the item inside that the line comes from
    entry: Item  # of a target that is a frame: the item inside that the line leads to


class _Nest:
    """Layouts within layouts; -1 is what is outside all frames."""

    def __init__(
        self,
        boxes: Sequence[Box],
        links: Sequence[Link],
        direction: Direction,
        frames: Sequence[Frame],
    ) -> None:
        self.boxes, self.links, self.direction, self.frames = boxes, links, direction, frames
        self.across = 0 if direction == "down" else 1
        self.opened = {frame.box: k for k, frame in enumerate(frames) if frame.box >= 0}
        self.pieces: dict[int, list[_Piece]] = {k: [] for k in range(-1, len(frames))}
        self.ways = [self._cut(i) for i in range(len(links))]
        self.index: dict[int, dict[Item, int]] = {}  # per frame: items in its layout
        self.layouts: dict[int, Layout] = {}
        self.extents: dict[int, Point] = {}
        self.corners: dict[int, Point] = {-1: (0.0, 0.0)}  # of what is inside, from the frame's own

    def _around(self, frame: int) -> list[int]:
        """A frame and those around it, outermost first."""
        return [*self._around(self.frames[frame].parent), frame] if frame >= 0 else []

    def _item(self, box: int) -> Item:
        return ("frame", self.opened[box], 0) if box in self.opened else ("box", box, 0)

    def _cut(self, i: int) -> list[int]:
        """Cut a link where it crosses frames, and tell which frame each of its pieces is in."""
        link, way = self.links[i], []
        home = self.boxes[link.source].frame
        out, into = self._around(home), self._around(self.boxes[link.target].frame)
        while out and into and out[0] == into[0]:
            out, into = out[1:], into[1:]
        item, inside = self._item(link.source), ("box", link.exit, 0)
        for k in reversed(out):
            port = ("port", i, k)
            self.pieces[k].append(_Piece(i, item, port, inside, NOWHERE))
            way.append(k)
            item, inside, home = ("frame", k, 0), port, self.frames[k].parent
        for k in into:
            port = ("port", i, k)
            self.pieces[home].append(_Piece(i, item, ("frame", k, 0), inside, port))
            way.append(home)
            item, inside, home = port, NOWHERE, k
        last = _Piece(i, item, self._item(link.target), inside, ("box", link.entry, 0))
        self.pieces[home].append(last)
        return [*way, home]

    def solve(self, k: int, band: float) -> None:
        """Lay out what is in one frame; what is in frames inside it is already."""
        items: dict[Item, Box] = {}
        for i, box in enumerate(self.boxes):
            if box.frame == k and i not in self.opened:
                items["box", i, 0] = box
        for inner, frame in enumerate(self.frames):
            if frame.parent == k:
                items["frame", inner, 0] = Box(*self.extents[inner], level=frame.level)
        for piece in self.pieces[k]:
            for item, side in ((piece.source, -1), (piece.target, 1)):
                if item[0] == "port":
                    items[item] = Box(0, 0, pin=-side if self.links[piece.link].back else side)
        self.index[k] = index = {item: n for n, item in enumerate(items)}
        links, held = [], []
        for piece in self.pieces[k]:
            link = self.links[piece.link]
            if self.ways[piece.link][-1] != k:  # its label is in another frame
                link = replace(link, before=0.0, after=0.0, along=0.0)
            links.append(replace(link, source=index[piece.source], target=index[piece.target]))
            ends = (piece.source, piece.exit), (piece.target, piece.entry)
            held.append((self._held(*ends[0]), self._held(*ends[1])))
        boxes = [box if k < 0 else replace(box, level=0) for box in items.values()]
        self.layouts[k] = arranged(boxes, links, held, self.direction, band)
        if k >= 0:
            self._enclose(k, [n for n, box in enumerate(boxes) if box.pin < 0])

    def _held(self, item: Item, inside: Item) -> float | None:
        """Where along the side of a frame a line ends, from its middle."""
        kind, k, _ = item
        if kind != "frame" or inside not in self.index[k]:
            return None
        at = self.layouts[k].centres[self.index[k][inside]][self.across]
        return at + self.corners[k][self.across] - self.extents[k][self.across] / 2

    def _enclose(self, k: int, first: Sequence[int]) -> None:
        """Find the size of a frame: a row for its title, which no line crosses, and its inside."""
        placed, (width, height) = self.layouts[k], self.frames[k].title
        left = PAD
        if self.direction == "down" and first:
            left += max(0.0, width + PAD - min(placed.centres[n][0] for n in first))
        self.corners[k] = left, height
        self.extents[k] = max(left + placed.width, width) + PAD, height + placed.height + PAD

    def assembled(self) -> Layout:
        """All of it in the coordinates of the whole."""
        centres: list[Point] = [(0.0, 0.0)] * len(self.boxes)
        frames = [(0.0, 0.0, 0.0, 0.0)] * len(self.frames)
        labels: list[Point] = [(0.0, 0.0)] * len(self.links)
        routes: list[dict[int, list[Point]]] = [{} for _ in self.links]  # by frame
        for k in range(-1, len(self.frames)):
            placed, corner = self.layouts[k], self.corners[k]
            origin = _moved(frames[k][:2], corner) if k >= 0 else corner
            for (kind, i, _), n in self.index[k].items():
                x, y = centre = _moved(placed.centres[n], origin)
                if kind == "frame":
                    width, height = self.extents[i]
                    frames[i] = x - width / 2, y - height / 2, width, height
                    kind, i = "box", self.frames[i].box
                if kind == "box" and i >= 0:
                    centres[i] = centre
            for n, piece in enumerate(self.pieces[k]):
                routes[piece.link][k] = [_moved(point, origin) for point in placed.routes[n]]
                if self.ways[piece.link][-1] == k:
                    labels[piece.link] = _moved(placed.labels[n], origin)
        whole = [
            _without_needless_corners([point for k in way for point in route[k]])
            for way, route in zip(self.ways, routes, strict=True)
        ]
        outer = self.layouts[-1]
        found = tuple(centres), tuple(whole), tuple(labels), outer.width, outer.height
        return Layout(*found, self.direction, tuple(frames), outer.bands)


def _moved(point: Point, by: Point) -> Point:
    return point[0] + by[0], point[1] + by[1]


def _without_needless_corners(route: Sequence[Point]) -> tuple[Point, ...]:
    """A route without the corners at which it goes straight on."""
    found: list[Point] = []
    for point in route:
        if len(found) > 1 and any(found[-2][k] == found[-1][k] == point[k] for k in (0, 1)):
            found.pop()
        found.append(point)
    return tuple(found)
