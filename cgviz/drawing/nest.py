"""Layouts within layouts: a frame is laid out alone, and is one box of the layout around it.

    Nest     boxes, links and frames; `placed()` is their Layout
    Frame    what stands around some of the boxes

A link that crosses a frame is drawn in pieces, which meet on the frame: what is inside is placed
first, and where its lines reach the frame, the lines outside are held.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import layout
from .layout import Direction, Layout, Link, Point

Item = Hashable  # ("box", i), ("frame", k), or ("port", link, k): a link's way through a frame
PAD = 11.0  # between a frame and what is in it


@dataclass(frozen=True)
class Frame:
    """What stands around some of the boxes."""

    parent: int  # the frame around it, or -1
    title: tuple[float, float]  # width and height
    box: int = -1  # the box that it is: links of the box end at the frame
    floor: int = 0


@dataclass(frozen=True)
class _Piece:
    """A part of a link within one frame."""

    link: int
    source: Item
    target: Item
    doors: tuple[Item, Item]  # in frames that it ends at: where in them
    last: bool  # this piece has the label


@dataclass(eq=False)
class Nest:
    """Boxes in frames, and the links between them.

    Args:
        sizes: Width and height of each box; of one that is a frame it does not count.
        links: The links.
        direction: "down" or "right".
        homes: Per box the innermost frame around it, or -1.
        frames: The frames, each after the one around it.
        doors: For a link of a box that is a frame, by (link, 0 at its source or 1 at its target):
            the box inside that its line leads to.
        pinned: The boxes that stand first in their frame, at -1, or last, at 1.
        floors: As in `layout.place`; a frame and all in it are on one.
        gaps: `storey`, `gap` and `rank_gap` as in `layout.place`, where they are not its own.
    """

    sizes: Sequence[tuple[float, float]]
    links: Sequence[Link]
    direction: Direction
    homes: Sequence[int]
    frames: Sequence[Frame] = ()
    doors: Mapping[tuple[int, int], int] = field(default_factory=dict)
    pinned: Mapping[int, int] = field(default_factory=dict)
    floors: Sequence[int] = ()
    gaps: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.across, self.along = (0, 1) if self.direction == "down" else (1, 0)
        self.opened = {f.box: k for k, f in enumerate(self.frames) if f.box >= 0}
        self.pieces: dict[int, list[_Piece]] = {k: [] for k in range(-1, len(self.frames))}
        for i in range(len(self.links)):
            self._cut(i)
        self.index: dict[int, dict[Item, int]] = {}
        self.layouts: dict[int, Layout] = {}
        self.extents: dict[int, tuple[float, float]] = {}
        self.corners: dict[int, Point] = {}  # of what is in a frame, from the frame's own

    def placed(self) -> Layout:
        """Find positions for all of it, from the innermost frames out.

        Returns:
            The layout; its `frames` are in the order of `frames`.
        """
        for k in range(len(self.frames) - 1, -2, -1):
            self._solve(k)
        return self._assembled()

    def _trail(self, frame: int) -> list[int]:
        """The frames around something, outermost first."""
        found = []
        while frame >= 0:
            found.append(frame)
            frame = self.frames[frame].parent
        return found[::-1]

    def _item(self, box: int) -> Item:
        return ("frame", self.opened[box]) if box in self.opened else ("box", box)

    def _cut(self, i: int) -> None:
        """Cut a link where it crosses frames."""
        link = self.links[i]
        out, into = self._trail(self.homes[link.source]), self._trail(self.homes[link.target])
        while out and into and out[0] == into[0]:
            out, into = out[1:], into[1:]
        item: Item = self._item(link.source)
        door: Item = ("box", self.doors.get((i, 0), -1))
        for k in reversed(out):
            port = ("port", i, k)
            self.pieces[k].append(_Piece(i, item, port, (door, None), False))
            item, door = ("frame", k), port
        level = self.frames[out[0]].parent if out else self.homes[link.source]
        for k in into:
            port = ("port", i, k)
            self.pieces[level].append(_Piece(i, item, ("frame", k), (door, port), False))
            item, door, level = port, None, k
        last = ("box", self.doors.get((i, 1), -1))
        self.pieces[level].append(_Piece(i, item, self._item(link.target), (door, last), True))

    def _solve(self, k: int) -> None:
        """Lay out what is in one frame, or outside all of them."""
        own = [i for i, home in enumerate(self.homes) if home == k and i not in self.opened]
        index: dict[Item, int] = {("box", i): n for n, i in enumerate(own)}
        pinned = {n: self.pinned[i] for n, i in enumerate(own) if i in self.pinned}
        sizes = [self.sizes[i] for i in own]
        floors = [self.floors[i] for i in own] if self.floors and k < 0 else []
        for inner, frame in enumerate(self.frames):
            if frame.parent == k:
                index["frame", inner] = len(sizes)
                sizes.append(self.extents[inner])
                if floors:
                    floors.append(frame.floor)
        for piece in self.pieces[k]:
            for item, side in ((piece.source, -1), (piece.target, 1)):
                if item[0] == "port":  # type: ignore[index]
                    pinned[len(sizes)] = -side if self.links[piece.link].back else side
                    index[item] = len(sizes)
                    sizes.append((1.0, 0.0) if self.along else (0.0, 1.0))
        links = [
            replace(
                self.links[piece.link]
                if piece.last
                else Link(0, 0, back=self.links[piece.link].back),
                source=index[piece.source],
                target=index[piece.target],
                start=self._held(piece.source, piece.doors[0]),
                end=self._held(piece.target, piece.doors[1]),
            )
            for piece in self.pieces[k]
        ]
        placed = layout.place(
            sizes, links, self.direction, pinned=pinned, floors=floors, **self.gaps
        )
        self.index[k], self.layouts[k] = index, placed
        if k >= 0:
            self._enclose(k, placed, pinned)

    def _held(self, item: Item, door: Item) -> float | None:
        """Where along the side of a frame a line is held."""
        if item[0] != "frame" or door is None:  # type: ignore[index]
            return None
        k = item[1]  # type: ignore[index]
        if door not in self.index[k]:
            return None
        at = self.layouts[k].centres[self.index[k][door]][self.across]
        return at + self.corners[k][self.across] - self.extents[k][self.across] / 2

    def _enclose(self, k: int, placed: Layout, pinned: Mapping[int, int]) -> None:
        """Find the size of a frame: a row for its title, which no line crosses, and its inside."""
        width, height = self.frames[k].title
        left = PAD
        if self.direction == "down":
            first = [placed.centres[n][0] for n, side in pinned.items() if side < 0]
            left += max(0.0, width + PAD - min(first)) if first else 0.0
        self.corners[k] = left, height
        self.extents[k] = (
            max(left + placed.width, width) + PAD,
            height + placed.height + PAD,
        )

    def _assembled(self) -> Layout:
        """All of it in the places of the whole."""
        centres: list[Point] = [(0.0, 0.0)] * len(self.sizes)
        boxes = [(0.0, 0.0, 0.0, 0.0)] * len(self.frames)
        parts: list[list[tuple[int, tuple[Point, ...]]]] = [[] for _ in self.links]
        labels: list[Point] = [(0.0, 0.0)] * len(self.links)
        for k in range(-1, len(self.frames)):
            placed, index = self.layouts[k], self.index[k]
            dx, dy = 0.0, 0.0
            if k >= 0:
                frame = self.frames[k]
                x, y = self._middle(k, boxes)
                width, height = self.extents[k]
                boxes[k] = (x - width / 2, y - height / 2, width, height)
                if frame.box >= 0:
                    centres[frame.box] = x, y
                dx, dy = boxes[k][0] + self.corners[k][0], boxes[k][1] + self.corners[k][1]
            for item, n in index.items():
                if item[0] == "box":  # type: ignore[index]
                    u, v = placed.centres[n]
                    centres[item[1]] = u + dx, v + dy  # type: ignore[index]
            rows = zip(self.pieces[k], placed.routes, placed.labels, strict=True)
            for piece, route, (u, v) in rows:
                parts[piece.link].append((k, tuple((a + dx, b + dy) for a, b in route)))
                if piece.last:
                    labels[piece.link] = u + dx, v + dy
        whole = self.layouts[-1]
        routes = tuple(self._joined(i, each) for i, each in enumerate(parts))
        return Layout(
            tuple(centres),
            routes,
            tuple(labels),
            whole.width,
            whole.height,
            self.direction,
            tuple(boxes),
            whole.storeys,
        )

    def _middle(self, k: int, boxes: Sequence[tuple[float, float, float, float]]) -> Point:
        parent = self.frames[k].parent
        u, v = self.layouts[parent].centres[self.index[parent]["frame", k]]
        if parent < 0:
            return u, v
        x, y = boxes[parent][:2]
        a, b = self.corners[parent]
        return u + x + a, v + y + b

    def _joined(self, i: int, parts: Sequence[tuple[int, tuple[Point, ...]]]) -> tuple[Point, ...]:
        """The pieces of a link, from its source to its target."""
        link = self.links[i]
        out = [p for p in parts if p[0] in self._trail(self.homes[link.source])]
        rest = [p for p in parts if p not in out]
        ordered = [*sorted(out, key=lambda p: -p[0]), *sorted(rest, key=lambda p: p[0])]
        return tuple(point for _, route in ordered for point in route)
