"""From boxes, links and frames to positions: the one layout for paper and screen.

    place               boxes and links -> a Layout
    Box, Link, Frame    what is placed
    Layout              centres, routes, extent
    beside              a curve along a route, or at a distance beside it

Between two ranks of boxes a link bends; beside a box it runs straight, so no link passes through a
box (except the longest links of a picture with more than `layers.MOST` waypoints, such as 40 steps
of a recurrent network shown in full).

A frame is laid out on its own, and is one box in the layout around it. A link that crosses a frame
is placed in pieces, which meet on the frame: the inside is placed first, and the outer piece must
end where the inner one reaches the frame, or where a box is pinned to it. Only the forward graph is
laid out; a backward arrow runs beside its forward one. Positions are plain numbers in the unit of
the sizes, and equal arguments give an equal picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .layers import BAND, PORT, SIDE, Box, Direction, Layout, Link, Point, arranged, beside

__all__ = ["BAND", "PORT", "SIDE", "Box", "Direction", "Frame", "Layout", "Link", "Point"]
__all__ += ["beside", "place"]

PAD = 11.0  # between a frame and its content: space for the handle that closes it


@dataclass(frozen=True)
class Frame:
    """A frame around some of the boxes."""

    title: Point  # width and height
    parent: int = -1  # the frame around it, or -1
    box: int = -1  # the box that is open as this frame, or -1
    level: int = 0


def place(
    boxes: Sequence[Box],
    links: Sequence[Link],
    direction: Direction = "down",
    frames: Sequence[Frame] = (),
) -> Layout:
    """Find positions for boxes, links and frames.

    Args:
        boxes: The boxes; the size of one that is open as a frame is ignored.
        links: The links, without a cycle; the folds of a selection never form one.
        direction: "down" or "right".
        frames: The frames, each after the one around it.

    Returns:
        The layout, with its frames in the given order.

    >>> layout = place([Box(40, 20), Box(40, 20)], [Link(0, 1)])
    >>> layout.centres
    ((20.0, 10.0), (20.0, 52.0))
    """
    nest = _Nest(boxes, links, direction, frames)
    for k in range(len(frames) - 1, -2, -1):  # from the innermost out
        nest.solve(k)
    return nest.assembled()


# ("box", i, k): box i in frame k; ("port", i, k): where link i crosses the border of frame k;
# ("frame", k, -1): frame k as a box in the layout around it.
Item = tuple[str, int, int]


class _Nest:
    """Layouts within layouts, one per frame; frame -1 is everything outside all frames."""

    def __init__(
        self,
        boxes: Sequence[Box],
        links: Sequence[Link],
        direction: Direction,
        frames: Sequence[Frame],
    ) -> None:
        self.boxes, self.links, self.frames, self.direction = boxes, links, frames, direction
        self.across = 0 if direction == "down" else 1
        self.opened = {frame.box for frame in frames}
        # Per frame, the pieces of links in it: the index of the link, and the ends of the piece.
        self.pieces: dict[int, list[tuple[int, Item, Item]]]
        self.pieces = {k: [] for k in range(-1, len(frames))}
        self.ways = [self._cut(i) for i in range(len(links))]  # per link, the frames of its pieces
        self.index: dict[int, dict[Item, int]] = {}  # per frame: where items are in its layout
        self.layouts: dict[int, Layout] = {}
        self.extents: dict[int, Point] = {}
        self.corners: dict[int, Point] = {-1: (0.0, 0.0)}  # of the inside, from the frame's own

    def _around(self, frame: int) -> list[int]:
        """The frames around a box that is in `frame`, outermost first: -1, ..., `frame`."""
        return [*self._around(self.frames[frame].parent), frame] if frame >= 0 else [-1]

    def _cut(self, i: int) -> list[int]:
        """Cut a link where it crosses frames, and return the frame of each of its pieces."""
        ends = self.links[i].source, self.links[i].target
        arounds = [self._around(self.boxes[v].frame) for v in ends]
        shared = sum(a == b for a, b in zip(*arounds, strict=False))
        out, into = (  # a pinned box is itself where a link from outside crosses its frame
            frames[shared : len(frames) - abs(self.boxes[v].pin)]
            for v, frames in zip(ends, arounds, strict=True)
        )
        way = [*out[::-1], arounds[0][shared - 1], *into]
        ports: list[Item] = [("port", i, k) for k in (*out[::-1], *into)]
        first, last = (("box", v, self.boxes[v].frame) for v in ends)
        for k, (a, b) in zip(way, pairwise([first, *ports, last]), strict=True):
            self.pieces[k].append((i, a, b))
        return way

    def solve(self, k: int) -> None:
        """Lay out what is in one frame; the frames inside it have been laid out before."""
        items: dict[Item, Box] = {}
        for i, box in enumerate(self.boxes):
            if box.frame == k and i not in self.opened:
                items["box", i, k] = box
        for inner, frame in enumerate(self.frames):
            if frame.parent == k:
                items["frame", inner, -1] = Box(*self.extents[inner], level=frame.level)
        ends = [[self._end(k, end) for end in piece[1:]] for piece in self.pieces[k]]
        for (i, *_), found in zip(self.pieces[k], ends, strict=True):
            for (item, _), side in zip(found, (-1, 1), strict=True):
                if item[0] == "port":
                    items[item] = Box(0, 0, pin=-side if self.links[i].back else side)
        self.index[k] = index = {item: n for n, item in enumerate(items)}
        links = []
        for (i, *_), ((a, first), (b, last)) in zip(self.pieces[k], ends, strict=True):
            link = replace(self.links[i], source=index[a], target=index[b], held=(first, last))
            if self.ways[i][-1] != k:  # its label is in another frame
                link = replace(link, before=0.0, after=0.0, along=0.0)
            links.append(link)
        boxes = [box if k < 0 else replace(box, level=0) for box in items.values()]
        self.layouts[k] = arranged(boxes, links, self.direction)
        if k >= 0:
            self._enclose(k, [n for n, box in enumerate(boxes) if box.pin < 0])

    def _end(self, k: int, end: Item) -> tuple[Item, float | None]:
        """The item in frame `k` at an end of a piece, and where on its side the line must end."""
        inner = end[2]
        if inner == k:
            return end, None
        centre = self.layouts[inner].centres[self.index[inner][end]]
        held = centre[self.across] + self.corners[inner][self.across]
        return ("frame", inner, -1), held - self.extents[inner][self.across] / 2

    def _enclose(self, k: int, first: Sequence[int]) -> None:
        """Set the size of a frame: a row for its title, which no line crosses, and its inside."""
        placed, (width, height) = self.layouts[k], self.frames[k].title
        left = PAD
        if self.direction == "down" and first:
            left += max(0.0, width + PAD - min(placed.centres[n][0] for n in first))
        self.corners[k] = left, height
        self.extents[k] = max(left + placed.width, width) + PAD, height + placed.height + PAD

    def assembled(self) -> Layout:
        """The whole layout, in the coordinates of the outermost one."""
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
            for n, (i, *_) in enumerate(self.pieces[k]):
                routes[i][k] = [_moved(point, origin) for point in placed.routes[n]]
                if self.ways[i][-1] == k:
                    labels[i] = _moved(placed.labels[n], origin)
        whole = (
            tuple(point for k in way for point in route[k])
            for way, route in zip(self.ways, routes, strict=True)
        )
        outer = self.layouts[-1]
        found = tuple(centres), tuple(whole), tuple(labels), outer.width, outer.height
        return Layout(*found, tuple(frames), outer.bands)


def _moved(point: Point, by: Point) -> Point:
    return point[0] + by[0], point[1] + by[1]
