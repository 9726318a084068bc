"""`trace.plot(kind="range")`: the magnitudes op by op, against the limits of their types.

One row per op, in the order they ran. A bar reaches from the smallest to the largest magnitude on a
logarithmic scale: solid with discs for the values, dashed with triangles for the gradients that
reached them. Past the limits of a type, numbers become infinite on the right and lose digits or
become zero on the left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from .. import style
from ..drawing.figure import SpokenFigure
from ..dtypes import FLOAT16, FLOAT32, FLOAT64, limits
from ..graph import Array, Op, Pass, Trace, names
from ..graph.jacobian import wide
from .not_finite import BOTH_SIDES, exp_limit

# --- the numbers -------------------------------------------------------------------------------

NEAR = 0.9  # of an input limit: exp(0.9 x) of the largest input leaves 4 of 38 decades in float32
LITTLE = 100.0  # times from overflow: one more product of usual numbers gets there


@dataclass(frozen=True)
class Magnitudes:
    """The finite magnitudes of some arrays: the largest, the smallest that is not 0."""

    largest: float | None
    smallest: float | None
    special: str  # "NaN" or "∞" where there is one

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> Magnitudes:
        """Those of some arrays together.

        >>> Magnitudes.of([np.array([0.0, -8.0, 0.5, np.inf])])
        Magnitudes(largest=8.0, smallest=0.5, special='∞')
        """
        a = np.concatenate([np.zeros(0), *(np.abs(wide(each)).reshape(-1) for each in arrays)])
        good = a[np.isfinite(a)]
        nonzero = good[good > 0]
        return cls(
            float(good.max()) if good.size else None,
            float(nonzero.min()) if nonzero.size else None,
            "NaN" if np.isnan(a).any() else "∞" if good.size < a.size else "",
        )

    def __str__(self) -> str:
        if self.largest is None:
            return f"all {self.special}" if self.special else "none"
        if self.smallest is None:
            text = "0" if self.special else "all 0"
        elif self.smallest == self.largest:
            text = style.number(self.largest)
        else:
            text = f"from {style.number(self.smallest)} to {style.number(self.largest)}"
        return f"{text}, and {self.special}" if self.special else text


@dataclass(frozen=True)
class Row:
    """One op of the picture."""

    op: Op
    inside: str  # the custom gradient it belongs to, or ""
    dtype: str
    values: Magnitudes
    gradients: Magnitudes  # of what reached its outputs
    input: float | None = None  # of an op like exp: its largest input
    limit: float | None = None  # and where it overflows

    @property
    def headroom(self) -> float | None:
        """How many times larger its largest value could be."""
        known, largest = limits(self.dtype), self.values.largest
        return known.largest / largest if known and largest else None

    @property
    def label(self) -> str:
        """Its name, and what it does where that is not the name."""
        op, symbol = self.op, names.SYMBOLS.get(self.op.type, "")
        kind = symbol if symbol.replace(" ", "").isascii() and symbol else names.plain(op.type)
        if op.kind in ("input", "variable"):
            text = op.name
        else:  # a name that is the type and a number is not the learner's
            made_up = re.fullmatch(re.escape(op.type) + r"(_\d+)?", op.name)
            text = kind if made_up else f"{op.name}: {kind}"
        return f"{self.inside} / {text}" if self.inside else text

    @property
    def note(self) -> str:
        """What to see coming: how near the input of exp or the value is to its limit."""
        if self.limit is not None and self.input is not None:
            near = "▲ " if self.input > self.limit else "! "
            mark = near if self.input > NEAR * self.limit else ""
            limit = style.number(round(self.limit, 2), 5)
            return f"{mark}input {style.number(self.input)} of at most {limit}"
        if self.values.special:
            return f"▲ {self.values.special}"
        if self.headroom is not None and self.headroom < LITTLE:
            return f"! {style.number(self.headroom, 2)} times from overflow"
        return ""

    def __str__(self) -> str:
        text = f"{self.label} ({self.dtype}): values {self.values}"
        if self.gradients != NOTHING:
            text += f"; gradients {self.gradients}"
        return f"{text}; {self.note}." if self.note else f"{text}."


NOTHING = Magnitudes(None, None, "")


def rows(trace: Trace, which: int | None = None) -> list[Row]:
    """The magnitudes of a trace, op by op in the order they ran.

    Args:
        trace: The trace.
        which: The backward pass, as in `trace.passes`; None is the one that `trace.steps` shows.

    Returns:
        One row per op with floating-point outputs, constants left out; the body of a custom op
        before it, as it ran.

    Raises:
        ValueError: There is no such pass.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> row = rows(cgviz.trace(tf.exp, 88.0))[-1]
        >>> row.op.name, row.input, round(row.limit, 2), round(row.headroom, 2)
        ('Exp', 88.0, 88.72, 2.06)
    """
    pass_ = trace.pass_(which) if trace.passes or which is not None else None
    return list(_rows(trace.ops, "", pass_))


def _rows(ops: Sequence[Op], inside: str, pass_: Pass | None) -> Iterator[Row]:
    for op in ops:
        yield from _rows(op.body, op.name, None)  # no gradient goes through a body
        values = [v for v in op.outputs if v.differentiable]
        if op.kind == "constant" or not values:
            continue
        gradients = [pass_.upstream(v) for v in values] if pass_ else []
        limit = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
        yield Row(
            op,
            inside,
            values[0].dtype,
            Magnitudes.of([v.numpy() for v in values]),
            Magnitudes.of([g for g in gradients if g is not None]),
            None if limit is None else _largest_input(op),
            limit,
        )


def _largest_input(op: Op) -> float | None:
    x = wide(op.inputs[0].numpy()).real
    x = np.abs(x[~np.isnan(x)]) if op.type in BOTH_SIDES else x[~np.isnan(x)]
    return float(x.max()) if x.size else None


def describe(trace: Trace, *, which: int | None = None) -> str:
    """The picture in sentences: one line for the whole and one per op."""
    title = f"Magnitudes of {trace.title}, op by op, against the limits of their types."
    return "\n".join([title, *map(str, rows(trace, which))])


# --- the picture -------------------------------------------------------------------------------

MOST_ROWS = 40  # as many as a page holds
TEXT, SMALL = 11.0, 10.0  # points
ROW = 0.42  # inches: two bars and the space between rows
TICKS = 1.6  # an inch: "1e−308" is 0.6 inches wide
APART = 0.15  # of the forward and the backward bar from the middle of a row
DASHES = {"float16": ":", "float32": "--", "float64": "-."}


def plot(trace: Trace, ax: Axes | None = None, *, which: int | None = None) -> Axes:
    """What `trace.plot(kind="range")` does: the magnitudes."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be a Matplotlib Axes, not {type(ax).__name__}")
    table = rows(trace, which)
    shown = table if len(table) <= MOST_ROWS else table[: MOST_ROWS - 1]
    if ax is None:
        size = (9, 1.6 + ROW * max(len(shown), 1))
        figure = plt.figure(figsize=size, layout="constrained", FigureClass=SpokenFigure)
        ax = figure.add_subplot(facecolor=figure.get_facecolor())
    picture = _Picture(ax, shown)
    picture.limits()
    for y, row in enumerate(shown):
        picture.row(y, row)
    picture.frame(trace.title, len(table) - len(shown))
    ax.cgviz_alt = describe(trace, which=which)  # type: ignore[attr-defined]
    if isinstance(ax.figure, SpokenFigure):
        ax.figure.alt = ax.cgviz_alt  # type: ignore[attr-defined]
    return ax


class _Picture:
    """The parts of one picture, on its axes."""

    def __init__(self, ax: Axes, table: Sequence[Row]) -> None:
        self.ax, self.table = ax, table
        background = ax.get_facecolor() if ax.patch.get_visible() else rcParams["figure.facecolor"]
        self.palette = palette = style.palette(to_rgb(background))
        forward = {"color": palette.forward, "label": "forward: values"}
        backward = {"color": palette.backward, "label": "backward: gradients"}
        self.sides = (  # the text's colour, the bar's line and look
            (palette.forward_text, "-o", forward),
            (palette.backward_text, "--v", backward),
        )
        largest = max((k.largest for row in table if (k := limits(row.dtype))), default=0.0)
        self.widest = FLOAT64 if largest > FLOAT32.largest else FLOAT32
        if 0 < largest <= FLOAT16.largest:
            self.widest = FLOAT16
        # From where to where the axis reaches, in powers of ten: around the limits of a type.
        sizes = [each for row in table for each in (row.values, row.gradients)]
        logs = [math.log10(n) for each in sizes for n in (each.largest, each.smallest) if n]
        within_float32 = all(abs(n) <= 50 for n in logs)
        edge = FLOAT32 if self.widest is FLOAT64 and within_float32 else self.widest
        low, high = math.log10(edge.smallest), math.log10(edge.largest)
        nan = any(each.special == style.NAN.word for each in sizes)  # a wide sign beside the bars
        margin = (high - low) / 12
        self.low = min([low - margin, *logs])
        self.high = max([high + margin * (1.8 if nan else 1), *logs])

    def row(self, y: float, row: Row) -> None:
        """The two bars of a row, and right of it what to see coming."""
        self._size(y - APART, row.values, *self.sides[0])
        self._size(y + APART, row.gradients, *self.sides[1])
        weight = "bold" if row.note[:1] in ("!", "▲") else "normal"
        look = {"va": "center", "weight": weight, "color": self.palette.text}
        within = ("axes fraction", "data")
        self._text(row.note, (1, y), (8, 0), within, annotation_clip=False, **look)

    def _size(self, y: float, size: Magnitudes, text: str, line: str, look: dict[str, Any]) -> None:
        if size.largest and size.smallest:
            self._bar([math.log10(size.smallest), math.log10(size.largest)], [y, y], line, look)
        elif size.largest == 0:
            self._sign(self.low, y, style.ZERO, text, "left")
        if size.special:
            sign = style.NAN if size.special == style.NAN.word else style.POSITIVE_INFINITY
            self._sign(self.high, y, sign, text, "right")

    def _bar(self, x: list[float], y: list[float], line: str, look: dict[str, Any]) -> Any:
        look = look | {"lw": 2.2, "ms": 6, "mec": self.palette.paper, "mew": 0.8, "zorder": 3}
        return self.ax.plot(x, y, line, **look)[0]

    def _sign(self, x: float, y: float, sign: style.Sign, colour: str, side: Any) -> None:
        look: dict[str, Any] = {"ha": side, "va": "center", "fontsize": SMALL, "zorder": 5}
        self.ax.text(x, y, f" {sign} ", color=colour, **look)

    def _text(
        self,
        text: str,
        xy: tuple[float, float],
        shift: tuple[float, float],
        within: Any,
        **look: Any,
    ) -> None:
        units = {"xycoords": within, "textcoords": "offset points"}
        self.ax.annotate(text, xy, shift, fontsize=SMALL, **units, **look)

    def limits(self) -> None:
        """The limits of the types as lines, each named at the top; the outside shaded."""
        muted = self.palette.muted
        smallest, largest = math.log10(self.widest.smallest), math.log10(self.widest.largest)
        for low, high in ((self.low, smallest), (largest, self.high)):
            if low < high:
                self.ax.axvspan(low, high, color=muted, alpha=0.13, lw=0, zorder=0)
        # On an axis as long as float64's, the limits of float16 are too near to tell apart.
        for each in (FLOAT16, FLOAT32, FLOAT64)[self.high - self.low >= 200 :]:
            for number, word, side in (
                (each.smallest, "smallest", "right"),
                (each.largest, "largest", "left"),
            ):
                x = math.log10(number)
                if self.low <= x <= self.high:
                    self.ax.axvline(x, color=muted, ls=DASHES[each.name], lw=1.2, zorder=1)
                    name = f"{each.name}\n{word} {style.number(number, 2)}"
                    colour = self.palette.text if each is self.widest else muted
                    look = {"ha": side, "va": "bottom", "color": colour}
                    shift = (4 if side == "right" else -4, 4)
                    self._text(name, (x, 1), shift, ("data", "axes fraction"), **look)

    def frame(self, title: str, left_out: int) -> None:
        """The axes, the title and the legend."""
        ax, text, muted = self.ax, self.palette.text, self.palette.muted
        ax.set_xlim(self.low, self.high)
        ax.set_ylim(len(self.table) - 0.4, -0.6)
        ax.set_yticks(range(len(self.table)), [row.label for row in self.table])
        width = ax.get_window_extent().width / ax.figure.dpi
        decades = (self.high - self.low) / (TICKS * width)  # from tick to tick at least
        step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200) if s > decades), 400)
        low, high = max(self.low, -330), min(self.high, 330)  # float64 ends there
        ticks = [t for t in range(-400, 401, step) if low <= t <= high]
        ax.set_xticks(ticks, ["1" if t == 0 else f"1e{t}".replace("-", style.MINUS) for t in ticks])
        more = f" ({left_out} more ops are not shown)" if left_out else ""
        ax.set_xlabel(f"magnitude |value|, logarithmic{more}", color=text, fontsize=TEXT)
        ax.set_title(f"range of {title}", color=text, fontsize=TEXT + 2, loc="left", pad=40)
        ax.tick_params(colors=text, labelsize=TEXT, length=0)
        for side, spine in ax.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(muted)
        for y in range(len(self.table)):
            ax.axhline(y + 0.5, color=muted, lw=0.4, alpha=0.5, zorder=0)
        handles = [self._bar([], [], line, look) for _, line, look in self.sides]
        below: dict[str, Any] = {"bbox_to_anchor": (0, 0), "ncols": 2, "borderaxespad": 4.6}
        look: dict[str, Any] = {"fontsize": SMALL, "handlelength": 3.2, "labelcolor": text}
        ax.legend(handles=handles, loc="upper left", frameon=False, **below, **look)
