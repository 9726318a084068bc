"""Matplotlib ink for the range of numbers: op by op, forward and backward, against the limits.

One row per op, in the order they ran. A bar reaches from the smallest to the largest magnitude on a
logarithmic scale: solid with discs for the values, dashed with triangles for the gradients that
reached them. Past the limits of a type, numbers become infinite on the right and lose digits or
become zero on the left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from .. import style
from ..drawing.figure import SpokenFigure
from ..graph import Trace
from .range_words import describe, label, note
from .ranges import FLOAT16, FLOAT32, FLOAT64, Limits, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..style import Palette

MOST_ROWS = 40
TEXT, SMALL = 11.0, 10.0  # points
ROW = 0.42  # inches
TICKS = 1.6  # an inch
APART = 0.15  # of the forward and the backward bar from the middle of a row
WRITTEN = {
    **{FLOAT16.smallest: "6.1e−5", FLOAT16.largest: "65504"},
    **{FLOAT32.smallest: "1.2e−38", FLOAT32.largest: "3.4e38"},
    **{FLOAT64.smallest: "2.2e−308", FLOAT64.largest: "1.8e308"},
}
EDGES = {"float16": ":", "float32": "--", "float64": "-."}


def plot(trace: Trace, ax: Axes | None = None, *, which: int | None = None) -> Axes:
    """What `trace.plot(kind="range")` does: the magnitudes."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be a Matplotlib Axes, not {type(ax).__name__}")
    table = rows(trace, which)
    shown = table if len(table) <= MOST_ROWS else table[: MOST_ROWS - 1]
    if ax is None:
        ax = _new_axes(len(shown))
    background = ax.get_facecolor() if ax.patch.get_visible() else rcParams["figure.facecolor"]
    _Ink(ax, style.palette(to_rgb(background)), shown).draw(trace.title, len(table) - len(shown))
    ax.cgviz_alt = describe(trace, which=which)  # type: ignore[attr-defined]
    if isinstance(ax.figure, SpokenFigure):
        ax.figure.alt = ax.cgviz_alt  # type: ignore[attr-defined]
    return ax


def _new_axes(count: int) -> Axes:
    from matplotlib import pyplot as plt

    size = (9, 1.6 + ROW * max(count, 1))
    figure = plt.figure(figsize=size, layout="constrained", FigureClass=SpokenFigure)
    ax = figure.subplots()
    background = to_rgb(rcParams["figure.facecolor"])
    figure.patch.set_facecolor(rcParams["figure.facecolor"])
    ax.set_facecolor(background)
    return ax


class _Ink:
    """Draws the rows of one picture."""

    def __init__(self, ax: Axes, palette: Palette, table: Sequence[dict[str, Any]]) -> None:
        self.ax, self.palette, self.table = ax, palette, table
        self.types = _types(table)
        self.low, self.high = _window(table, self.types)
        self.inches = ax.get_window_extent().width / ax.figure.dpi

    def draw(self, title: str, left_out: int) -> None:
        """All of it."""
        self._limits()
        for place, row in enumerate(self.table):
            self._bar(place - APART, row, "", self.palette.forward, "-", "o")
            self._bar(place + APART, row, "gradient_", self.palette.backward, "--", "v")
        self._axes(title, left_out)
        self._legend()

    def _bar(
        self, y: float, row: dict[str, Any], prefix: str, colour: str, line: str, marker: str
    ) -> None:
        largest, smallest = row[f"{prefix}max"], row[f"{prefix}min"]
        if largest:
            ends = [self._x(smallest), self._x(largest)]
            self.ax.plot(ends, [y, y], line, color=colour, lw=2.2, zorder=3)
            self.ax.plot(
                ends, [y, y], marker, color=colour, ms=6, mec=self.palette.paper, mew=0.8, zorder=4
            )
        elif largest == 0:
            self._sign(self.low, y, style.ZERO, colour, "left")
        special = row[f"{prefix}special"]
        if special:
            sign = style.NAN if special == style.NAN.word else style.POSITIVE_INFINITY
            self._sign(self.high, y, sign, colour, "right")

    def _x(self, magnitude: float) -> float:
        return min(max(math.log10(magnitude), self.low), self.high)

    def _sign(self, x: float, y: float, sign: style.Sign, colour: str, side: str) -> None:
        self.ax.text(
            *(x, y, f" {sign} "),
            ha=side,
            va="center",
            fontsize=SMALL,
            color=self.palette.forward_text
            if colour == self.palette.forward
            else self.palette.backward_text,
            zorder=5,
        )

    def _limits(self) -> None:
        """The limits of the types as lines, each named at the top; the outside shaded."""
        ink = self.palette.muted
        mine = max(self.types, key=lambda each: each.largest)
        for low, high in (
            (self.low, math.log10(mine.smallest)),
            (math.log10(mine.largest), self.high),
        ):
            if low < high:
                self.ax.axvspan(low, high, color=ink, alpha=0.13, lw=0, zorder=0)
        apart = self.high - self.low < 200  # else the limits of float16 are too near to tell apart
        for each in (FLOAT16, FLOAT32, FLOAT64) if apart else (FLOAT32, FLOAT64):
            for number, word in ((each.smallest, "smallest"), (each.largest, "largest")):
                x = math.log10(number)
                if self.low <= x <= self.high:
                    self.ax.axvline(x, color=ink, ls=EDGES[each.name], lw=1.2, zorder=1)
                    self.ax.annotate(
                        f"{each.name}\n{word} {WRITTEN[number]}",
                        (x, 1),
                        (4 if word == "smallest" else -4, 4),
                        xycoords=("data", "axes fraction"),
                        textcoords="offset points",
                        ha="right" if word == "smallest" else "left",
                        va="bottom",
                        fontsize=SMALL,
                        color=self.palette.ink if each is mine else ink,
                    )

    def _axes(self, title: str, left_out: int) -> None:
        ax, ink = self.ax, self.palette.ink
        ax.set_xlim(self.low, self.high)
        ax.set_ylim(len(self.table) - 0.4, -0.6)
        ax.set_yticks(range(len(self.table)), [label(row) for row in self.table])
        decades = (self.high - self.low) / (TICKS * self.inches)  # from tick to tick at least
        step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200) if s > decades), 400)
        low, high = max(self.low, -330), min(self.high, 330)  # float64 ends there
        ticks = [t for t in range(-400, 401, step) if low <= t <= high]
        ax.set_xticks(ticks, ["1" if t == 0 else f"1e{t}".replace("-", style.MINUS) for t in ticks])
        more = f" ({left_out} more ops are not shown)" if left_out else ""
        beyond = (
            ""
            if self.high > 300 or self.inches < 6
            else "; float64 reaches on to 2.2e−308 and 1.8e308"
        )
        ax.set_xlabel(f"magnitude |value|, logarithmic{beyond}{more}", color=ink, fontsize=TEXT)
        ax.set_title(f"range of {title}", color=ink, fontsize=TEXT + 2, loc="left", pad=40)
        ax.tick_params(colors=ink, labelsize=TEXT, length=0)
        for side, spine in ax.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(self.palette.muted)
        for place in range(len(self.table)):
            ax.axhline(place + 0.5, color=self.palette.muted, lw=0.4, alpha=0.5, zorder=0)
        self._notes()

    def _notes(self) -> None:
        """What to see coming, right of each row."""
        for place, row in enumerate(self.table):
            text = note(row)
            if text:
                self.ax.annotate(
                    text,
                    (1, place),
                    (8, 0),
                    xycoords=("axes fraction", "data"),
                    textcoords="offset points",
                    va="center",
                    fontsize=SMALL,
                    color=self.palette.ink,
                    weight="bold" if text[0] in "!▲" else "normal",
                    annotation_clip=False,
                )

    def _legend(self) -> None:
        pale = self.palette.paper
        handles = [
            Line2D([], [], color=c, ls=line, marker=m, lw=2.2, ms=6, mec=pale, label=text)
            for c, line, m, text in (
                (self.palette.forward, "-", "o", "forward: values"),
                (self.palette.backward, "--", "v", "backward: gradients"),
            )
        ]
        self.ax.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0, 0),
            ncols=2,
            frameon=False,
            labelcolor=self.palette.ink,
            fontsize=SMALL,
            handlelength=3.2,
            borderaxespad=4.6,
        )


def _types(table: Sequence[dict[str, Any]]) -> list[Limits]:
    """The types in the picture, float32 where there is none."""
    names = {row["dtype"].replace("bfloat16", "float32") for row in table}
    names = {{"complex64": "float32", "complex128": "float64"}.get(n, n) for n in names}
    return [each for each in (FLOAT16, FLOAT32, FLOAT64) if each.name in names] or [FLOAT32]


def _window(table: Sequence[dict[str, Any]], types: list[Limits]) -> tuple[float, float]:
    """The decades to show: all numbers and the limits of float16 and float32; float64's if near."""
    keys = ("max", "min", "gradient_max", "gradient_min")
    logs = [math.log10(row[key]) for row in table for key in keys if row[key]]
    wide = FLOAT64 in types and (min(logs, default=0) < -50 or max(logs, default=0) > 50)
    edge = FLOAT64 if wide else FLOAT16 if types == [FLOAT16] else FLOAT32
    low, high = math.log10(edge.smallest), math.log10(edge.largest)
    room = (high - low) / 12
    nan = any(style.NAN.word in (row["special"], row["gradient_special"]) for row in table)
    return min([low - room, *logs]), max([high + room * (1.8 if nan else 1), *logs])  # a wide sign
