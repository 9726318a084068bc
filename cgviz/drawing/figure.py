"""Matplotlib ink: a trace as a picture for print, GitHub and slides.

    plot      a trace -> Axes
    describe  a trace -> the picture in sentences

What is shown comes from `selection`, what is written from `cards`, where it is from `layout`,
how it looks from `style` and `shapes`. Text is measured before it is placed, so no label covers
another.
"""

from __future__ import annotations

from math import hypot
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from .. import style
from ..graph import Array, Trace
from ..graph.selection import Selection, select
from . import cards, shapes
from .cards import Card, Label
from .letters import Word, Words, extent, word
from .picture import (
    APART,
    LEGEND_LINE,
    MARGIN,
    PAD,
    SMALL,
    TEXT,
    Picture,
    arranged,
    curve,
    frame_title,
    legend,
    lines_of,
    storeys,
)

ARROW = 7.5
DASHES = (0, (3.2, 1.8))


class SpokenFigure(Figure):
    """A figure that says what it shows: as alternative text in a notebook, and as its repr."""

    alt = ""

    def __repr__(self) -> str:
        return self.alt or super().__repr__()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"image/png": {"alt": self.alt}}


def plot(
    trace: Trace,
    ax: Axes | None = None,
    *,
    step: int | None = None,
    which: int | None = None,
    full: bool = False,
) -> Axes:
    """What `trace.plot` does: the flow."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be a Matplotlib Axes, not {type(ax).__name__}")
    shown = select(trace, which, full)
    _check_step(step, shown)
    picture = arranged(shown, _room(ax))
    if ax is None:
        ax = _new_axes(picture)
    _Ink(ax, picture, step).draw()
    ax.cgviz_alt = cards.describe(shown)  # type: ignore[attr-defined]
    if isinstance(ax.figure, SpokenFigure):
        ax.figure.alt = ax.cgviz_alt  # type: ignore[attr-defined]
    return ax


def describe(trace: Trace, *, which: int | None = None, full: bool = False) -> str:
    """The picture in sentences: the alternative text for screen readers.

    Args:
        trace: The trace.
        which: The backward pass, as in `trace.passes`.
        full: Describe everything, as `plot` draws it.

    Returns:
        One line for the whole, one per edge, and one per gradient that was asked for.
    """
    return cards.describe(select(trace, which, full))


def _check_step(step: int | None, shown: Selection) -> None:
    if step is None:
        return
    if not isinstance(step, int | np.integer) or isinstance(step, bool):
        raise TypeError(f"`step` must be an integer or None, not {type(step).__name__}")
    if not 0 <= step <= shown.steps:
        raise ValueError(
            f"`step` is {step}, but this pass has {shown.steps} steps: 0 to {shown.steps}"
        )


# --- axes --------------------------------------------------------------------------------------


def _room(ax: Axes | None) -> tuple[float, float] | None:
    """Width and height of given axes, in points."""
    if ax is None:
        return None
    box = ax.get_window_extent()
    scale = 72 / ax.figure.dpi
    return box.width * scale, box.height * scale


def _new_axes(picture: Picture) -> Axes:
    import matplotlib.pyplot as plt

    size = (picture.width / 72, picture.height / 72)
    return plt.figure(figsize=size, FigureClass=SpokenFigure).add_axes((0, 0, 1, 1))


def _background(ax: Axes) -> tuple[float, float, float]:
    """The colour behind the axes, past what is transparent."""
    for colour in (ax.get_facecolor(), ax.figure.get_facecolor()):
        if to_rgba(colour)[3] > 0:
            return to_rgb(colour)
    return to_rgb(rcParams["figure.facecolor"])


class _Ink:
    """Draws one picture on one axes; one unit of its data is one point at natural size."""

    def __init__(self, ax: Axes, picture: Picture, step: int | None) -> None:
        self.ax, self.picture, self.step = ax, picture, step
        room = _room(ax)
        assert room is not None
        self.scale = min(room[0] / picture.width, room[1] / picture.height, 1.5)
        if abs(self.scale - 1) < 1e-3:  # our own figure, to within a pixel
            self.scale = 1.0
        self.direction = picture.layout.direction
        self.words: list[Word] = []
        self.look = style.palette(_background(ax))
        self.shift = (
            MARGIN + (picture.width - 2 * MARGIN - picture.layout.width) / 2,
            MARGIN,
        )

    def draw(self) -> None:
        """All of it: arrows, then nodes, then words."""
        self.ax.set_axis_off()
        self.ax.set_xlim(0, self.picture.width)
        self.ax.set_ylim(self.picture.height, 0)
        self.ax.set_aspect("equal", adjustable="box", anchor="C")
        shown, written = self.picture.selection, self.picture.cards
        now = self.picture.labels
        if self.step is not None:
            now = cards.labels(shown, self.step) + now[len(shown.edges) :]
            written = cards.cards(shown, self.step)
        self._floors()
        for k in range(len(shown.frames)):
            self._frame(k)
        self._arrows(now)
        for i, kind in enumerate(self.picture.kinds):
            self._node(i, kind)
        for i, card in enumerate(written):
            self._card(i, card)
        for i, label in enumerate(now):
            self._label(i, label)
        self._legend()
        self.ax.add_collection(Words(self.words), autolim=False)

    # --- arrows ---

    def _current(self, i: int) -> bool:
        """Whether a link hands back what the current step made."""
        shown = self.picture.selection
        return bool(self.step) and i < len(shown.edges) and shown.edges[i].order == self.step

    def _flows(self, i: int, label: Label) -> bool:
        edges = self.picture.selection.edges
        if i >= len(edges):
            return self.step != 0 and self.picture.selection.which is not None
        return bool(label.backward) and not label.blocked

    def _arrows(self, now: list[Label]) -> None:
        look, scale = self.look, self.scale
        forward: list[Array] = []
        backward: list[Array] = []
        current: list[Array] = []
        heads: list[tuple[Array, str]] = []
        for i, label in enumerate(now):
            paired = bool(self.picture.labels[i].backward)
            line = self._curve(i, -APART if paired else 0.0)
            forward.append(_cut(line, ARROW - 1))
            heads.append((_head(line), look.forward))
            if self._flows(i, label):
                line = self._curve(i, APART)[::-1]
                (current if self._current(i) else backward).append(_cut(line, ARROW - 1))
                heads.append((_head(line), look.backward))
        width = 1.7 * scale
        for lines, colour, thick, dash in (
            (forward, look.forward, width, "solid"),
            (backward, look.backward, width, DASHES),
            (current, look.backward, 1.8 * width, DASHES),
        ):
            self.ax.add_collection(
                LineCollection(lines, colors=colour, linewidths=thick, linestyles=[dash], zorder=2),
                autolim=False,
            )
        self.ax.add_collection(
            PolyCollection(
                [h for h, _ in heads], facecolors=[c for _, c in heads], linewidths=0, zorder=3
            ),
            autolim=False,
        )

    def _curve(self, i: int, distance: float) -> Array:
        """A link's line on the axes."""
        return curve(self.picture, i, distance) + self.shift

    # --- nodes and words ---

    def _floors(self) -> None:
        """A band for the forward pass, and one above it for each pass that is differentiated."""
        width = self.picture.width
        for floor, title, y, height in storeys(self.picture):
            y += self.shift[1]
            (box,) = shapes.outlines("open", width / 2, y + height / 2, width - 6, height)
            tone = self.look.backward if floor else self.look.forward
            band = PathPatch(box, facecolor=(*to_rgb(tone), 0.06), edgecolor="none", zorder=1)
            self.ax.add_artist(band)
            words = self.look.backward_text if floor else self.look.forward_text
            self.words.append(word(12, y + 13, title, TEXT, words, "left"))

    def _frame(self, k: int) -> None:
        """What is around the ops of a scope."""
        left, top, width, height = self.picture.layout.frames[k]
        x, y = left + self.shift[0], top + self.shift[1]
        (box,) = shapes.outlines("open", x + width / 2, y + height / 2, width, height)
        self._outline(box, self.look.of("scope"), "none", 1.0)
        (_, text, size), *_ = frame_title(self.picture.selection, self.picture.cards, k)[0]
        self.words.append(word(x + 8, y + 14, text, size, self.look.muted, "left"))

    def _node(self, i: int, kind: str) -> None:
        x, y = self.picture.layout.centres[i]
        tone = self.look.of(kind) if kind != "target" else self.look.backward
        nodes = self.picture.selection.nodes
        current = i < len(nodes) and bool(self.step) and self.step in nodes[i].orders
        if i < len(nodes) and (current or (nodes[i].level and kind == "op")):
            tone = self.look.backward
        fill = self.look.glow if current else self.look.fill
        paths = shapes.outlines(kind, x + self.shift[0], y + self.shift[1], *self.picture.sizes[i])
        for n, path in enumerate(paths):
            dot = kind == "target" and n
            rim = kind in ("variable", "constant") and n
            thick = 1.0 if kind == "custom" and n else 2.6 if current else 1.4
            self._outline(path, tone, tone if dot else "none" if rim else fill, thick)

    def _outline(self, path: Path, edge: str, face: str | None = None, thick: float = 1.4) -> None:
        self.ax.add_artist(
            PathPatch(
                path,
                facecolor=self.look.fill if face is None else face,
                edgecolor=edge,
                linewidth=thick * self.scale,
                zorder=4,
            )
        )

    def _card(self, i: int, card: Card) -> None:
        x, y = self.picture.layout.centres[i]
        node = self.picture.selection.nodes[i]
        full = lines_of(self.picture.cards[i])
        lines = {card.head: self.look.ink, card.name: self.look.muted, card.word: self.look.custom}
        top = y + self.shift[1] - sum(extent(t, size)[1] for t, size in full) / 2
        if node.kind == "variable":
            top += shapes.LID / 2
        dx = -shapes.SHEET if node.kind == "scope" else 0.0
        dy = shapes.SHEET if node.kind == "scope" else 0.0
        for n, (text, size) in enumerate(full):
            height = extent(text, size)[1]
            last = n == len(full) - 1 and bool(self.picture.cards[i].gradient)
            written = card.gradient if last else text
            colour = self.look.backward_text if last else lines.get(text, self.look.ink)
            if written:
                middle = top + height / 2 + dy
                self.words.append(word(x + self.shift[0] + dx, middle, written, size, colour))
            top += height

    def _label(self, i: int, label: Label) -> None:
        x, y = self.picture.layout.labels[i]
        x, y = x + self.shift[0], y + self.shift[1]
        paired = bool(self.picture.labels[i].backward)
        side = (APART if paired else 0.0) + PAD
        shown = self._flows(i, label) or label.blocked
        tone = self.look.muted if label.blocked else self.look.backward_text
        down = self.direction == "down"
        for text, sign, colour in (
            (label.forward, -1, self.look.forward_text),
            (label.backward if shown else "", 1, tone),
        ):
            if not text:
                continue
            self.words.append(
                word(
                    x + sign * side if down else x,
                    y if down else y + sign * side,
                    text,
                    TEXT,
                    colour,
                    "center" if not down else "right" if sign < 0 else "left",
                    "center" if down else "bottom" if sign < 0 else "top",
                    bold=sign > 0 and self._current(i),
                )
            )

    def _legend(self) -> None:
        shown = self.picture.selection
        y = self.picture.height - MARGIN - TEXT / 2
        x = MARGIN
        muted = self.look.muted
        for n, text in enumerate(legend(shown)):
            self._sample(x, y, backward=n == 1)
            self.words.append(word(x + 31, y, text, SMALL, muted, "left"))
            x += LEGEND_LINE + extent(text, SMALL)[0]
        if self.step is not None:
            text = f"step {self.step} of {shown.steps}"
            end = self.picture.width - MARGIN
            self.words.append(word(end, y, text, SMALL, muted, "right"))

    def _sample(self, x: float, y: float, backward: bool) -> None:
        """A short arrow for the legend."""
        line = np.array([(x, y), (x + 26, y)])[:: -1 if backward else 1]
        colour = self.look.backward if backward else self.look.forward
        dash = DASHES if backward else "solid"
        shaft = LineCollection(
            [_cut(line, ARROW - 1)],
            colors=colour,
            linewidths=1.7 * self.scale,
            linestyles=[dash],
        )
        self.ax.add_collection(shaft, autolim=False)
        tip = PolyCollection([_head(line)], facecolors=colour, linewidths=0)
        self.ax.add_collection(tip, autolim=False)


# --- lines -------------------------------------------------------------------------------------


def _cut(line: Array, end: float) -> Array:
    """A polyline without the last `end` points of its length."""
    for n in range(len(line) - 1, 0, -1):
        way = line[n] - line[n - 1]
        length = hypot(*way)
        if length > end:
            return np.concatenate((line[:n], [line[n] - way * (end / length)]))
        end -= length
    return line[:1]


def _head(line: Array) -> Array:
    """The triangle at the end of a line."""
    foot = _cut(line, ARROW)[-1]
    way = line[-1] - foot
    side = np.array([-way[1], way[0]]) * 0.42
    return np.array([line[-1], foot + side, foot - side])
