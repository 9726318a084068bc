"""`trace.plot(kind="range")`: the magnitudes op by op, against the limits of their types.

One row per op, in the order they ran. A bar reaches from the smallest to the largest magnitude on a
logarithmic scale: solid with discs for the values, dashed with triangles for the gradients that
reached them. Past the limits of a type, numbers become infinite on the right and lose digits or
become zero on the left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .. import style
from ..graph import Array, Op, Pass, Trace, names, wide
from ..graph.dtypes import BOTH_SIDES, FLOAT16, FLOAT32, FLOAT64, Dtype, exp_limit, limits
from .figure import background, new_axes, speak

NEAR = 0.9  # of an input limit: exp(0.9 x) of the largest input leaves 4 of 38 decades in float32
LITTLE = 100.0  # times from overflow: one more product of usual numbers gets there

# --- the numbers -------------------------------------------------------------------------------


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
        text = style.number(self.largest)
        if self.smallest is None:
            text = "0" if self.special else "all 0"
        elif self.smallest < self.largest:
            text = f"from {style.number(self.smallest)} to {text}"
        return f"{text}, and {self.special}" if self.special else text


NOTHING = Magnitudes(None, None, "")


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
        kind = symbol if symbol.isascii() and symbol else names.plain(op.type)
        text = f"{op.name}: {kind}" if names.own_name(op) else kind
        if op.kind in ("input", "variable"):
            text = op.name
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
        gradients = f"; gradients {self.gradients}" if self.gradients != NOTHING else ""
        note = f"; {self.note}" if self.note else ""
        return f"{self.label} ({self.dtype}): values {self.values}{gradients}{note}."


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
        numbers = Magnitudes.of([v.numpy() for v in values])
        arrived = Magnitudes.of([g for g in gradients if g is not None])
        limit = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
        largest = None if limit is None else _largest_input(op)
        yield Row(op, inside, values[0].dtype, numbers, arrived, largest, limit)


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
WRITTEN: Any = {"textcoords": "offset points", "fontsize": SMALL}  # beside a point


def plot(trace: Trace, ax: Axes | None = None, *, which: int | None = None) -> Axes:
    """What `trace.plot(kind="range")` does: the magnitudes."""
    table = rows(trace, which)
    shown = table if len(table) <= MOST_ROWS else table[: MOST_ROWS - 1]
    ax = new_axes(ax, 9, 1.6 + ROW * max(len(shown), 1))
    look = style.palette(background(ax))
    _frame(ax, shown, look)
    _limits(ax, shown, look)
    _bars(ax, shown, look)
    more = f" ({len(table) - len(shown)} more ops are not shown)" if shown != table else ""
    ax.set_xlabel(f"magnitude |value|, logarithmic{more}", color=look.text, fontsize=TEXT)
    title: Any = {"fontsize": TEXT + 2, "loc": "left", "pad": 40}
    ax.set_title(f"range of {trace.title}", color=look.text, **title)
    return speak(ax, describe(trace, which=which))


def _frame(ax: Axes, table: Sequence[Row], look: style.Palette) -> None:
    """The ticks, in powers of ten around the limits of the widest type, and the rows."""
    edge, sizes = _widest(table), [each for row in table for each in (row.values, row.gradients)]
    logs = [math.log10(n) for each in sizes for n in (each.largest, each.smallest) if n]
    if edge is FLOAT64 and all(abs(n) <= 50 for n in logs):
        edge = FLOAT32
    low, high = math.log10(edge.smallest), math.log10(edge.largest)
    nan = any(each.special == style.NAN.word for each in sizes)  # a wide sign beside the bars
    margin = (high - low) / 12
    low, high = min([low - margin, *logs]), max([high + margin * (1.8 if nan else 1), *logs])
    width = ax.get_window_extent().width / ax.figure.dpi
    decades = (high - low) / (TICKS * width)  # from tick to tick at least
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200) if s > decades), 400)
    ticks = [t for t in range(-400, 401, step) if max(low, -330) <= t <= min(high, 330)]  # float64
    ax.set_xticks(ticks, ["1" if t == 0 else f"1e{t}".replace("-", style.MINUS) for t in ticks])
    ax.set_yticks(range(len(table)), [row.label for row in table])
    ax.set(xlim=(low, high), ylim=(len(table) - 0.4, -0.6))
    ax.tick_params(colors=look.text, labelsize=TEXT, length=0)
    for side, spine in ax.spines.items():
        spine.set(visible=side == "bottom", color=look.muted)
    between = [y + 0.5 for y in range(len(table))]
    ax.hlines(between, low, high, color=look.muted, lw=0.4, alpha=0.5, zorder=0)


def _widest(table: Sequence[Row]) -> Dtype:
    """The type whose limits are the widest of float16, float32 and float64 that are there."""
    largest = max((known.largest for row in table if (known := limits(row.dtype))), default=1e38)
    return next(each for each in (FLOAT16, FLOAT32, FLOAT64) if largest <= each.largest)


def _limits(ax: Axes, table: Sequence[Row], look: style.Palette) -> None:
    """The limits of the types as lines, each named at the top, and the outside shaded."""
    widest, (low, high) = _widest(table), ax.get_xlim()
    # On an axis as long as float64's, the limits of float16 are too near to tell apart.
    for each in (FLOAT16, FLOAT32, FLOAT64)[int(high - low >= 200) :]:
        for number, word, side, shift, end in (
            (each.smallest, "smallest", "right", 4, low),
            (each.largest, "largest", "left", -4, high),
        ):
            x, colour = math.log10(number), look.text if each is widest else look.muted
            if low <= x <= high:
                ax.axvline(x, color=look.muted, ls=DASHES[each.name], lw=1.2, zorder=1)
                name = f"{each.name}\n{word} {style.number(number, 2)}"
                how = {"ha": side, "va": "bottom", "color": colour, **WRITTEN}
                ax.annotate(name, (x, 1), (shift, 4), ("data", "axes fraction"), **how)
                if each is widest:
                    ax.axvspan(x, end, color=look.muted, alpha=0.13, lw=0, zorder=0)


def _bars(ax: Axes, table: Sequence[Row], look: style.Palette) -> None:
    """Two bars per row, signs for zeros and what is not finite, and what to see coming."""
    handles, (low, high) = [], ax.get_xlim()
    bar: Any = {"lw": 2.2, "ms": 6, "mec": look.paper, "mew": 0.8, "zorder": 3}
    for shift, label, line, colour, text in (
        (-APART, "forward: values", "-o", look.forward, look.forward_text),
        (APART, "backward: gradients", "--v", look.backward, look.backward_text),
    ):
        sign: Any = {"color": text, "va": "center", "fontsize": SMALL, "zorder": 5}
        for y, row in enumerate(table):
            size = row.values if shift < 0 else row.gradients
            if size.largest and size.smallest:
                x = np.log10([size.smallest, size.largest])
                ax.plot(x, [y + shift] * 2, line, color=colour, **bar)
            elif size.largest == 0:
                ax.text(low, y + shift, f" {style.ZERO} ", ha="left", **sign)
            if size.special:
                word = style.NAN if size.special == style.NAN.word else style.POSITIVE_INFINITY
                ax.text(high, y + shift, f" {word} ", ha="right", **sign)
        handles += ax.plot([], [], line, color=colour, label=label, **bar)
    for y, row in enumerate(table):
        how: Any = {"weight": "bold" if row.note[:1] in ("!", "▲") else "normal", **WRITTEN}
        how |= {"va": "center", "color": look.text, "annotation_clip": False}
        ax.annotate(row.note, (1, y), (8, 0), ("axes fraction", "data"), **how)
    below: Any = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 2, "borderaxespad": 4.6}
    legend: Any = {"fontsize": SMALL, "handlelength": 3.2, "labelcolor": look.text}
    ax.legend(handles=handles, frameon=False, **below, **legend)
