"""Curves as the browser draws them: in percent of their plot, with round numbers at its axes.

plot   curves over numbers -> a plot
ticks  the round numbers of an axis
rounded_up  a step between round numbers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import style
from .panel import Document, Element, element

TICKS = 4  # of an axis, about: more would overlap in a plot of 280 pixels
DIGITS = 5  # significant, of a tick: those between 999.5 and 1000.5 still differ
POLE = 0.02  # share of the numbers left out at each end: they may lie beside a pole
SPARE = 0.08  # share of the range that is left free above and below the curves
FAR = 100.0  # percent beyond the border, to which points are clipped: curves still leave the plot


def plot(
    title: str,
    axis: str,
    xs: Sequence[float],
    lines: Sequence[Document],
    *,
    poles: bool = True,
    noise: float = 0.0,
) -> Document:
    """A plot of some curves.

    Args:
        title: Written above the plot.
        axis: The name of the x axis.
        xs: The x of each point, ascending.
        lines: Per curve its role, its name, and its `ys`, with None where there is no number.
        poles: Whether there may be poles, across which no line is drawn. A training has none: its
            peaks are real.
        noise: The rounding error of the numbers: if they vary by no more, they count as equal.

    Returns:
        The `range` of x and of y, the `roles` of the curves, and the `element`, with an empty group
        for the points at one x.
    """
    curves = [np.array(line["ys"], float) for line in lines]
    (x0, x1), (y0, y1) = (xs[0], xs[-1]), limits(curves, poles, noise)

    def across(x: Any) -> Any:
        return 100 * (x - x0) / (x1 - x0)

    def down(y: Any) -> Any:
        return 100 * (y1 - y) / (y1 - y0)

    def path(ys: Any) -> str:
        places = zip(across(np.array(xs)), np.clip(down(ys), -FAR, 100 + FAR), strict=True)
        return "".join(
            f"{'M' if anew else 'L'}{x:.2f} {y:.2f}"
            for anew, (x, y) in zip(starts(ys, poles), places, strict=True)
            if not np.isnan(y)
        )

    def grid(x: Sequence[float], y: Sequence[float]) -> Element:
        ends = {"x1": x[0], "x2": x[-1], "y1": y[0], "y2": y[-1]}
        return element("line.grid", **{name: f"{end}%" for name, end in ends.items()})

    def tick(words: str, anchor: str = "middle", **place: Any) -> Element:
        return element("text.tick", words, **{"text-anchor": anchor}, **place)

    columns = [(style.number(x, DIGITS), round(across(x), 2)) for x in ticks(x0, x1)]
    some = any(np.isfinite(ys).any() for ys in curves)  # else there is no axis of y, either
    rows = [(style.number(y, DIGITS), round(down(y), 2)) for y in ticks(y0, y1) if some]
    drawn = [grid([x], [0, 100]) for _, x in columns] + [grid([0, 100], [y]) for _, y in rows]
    drawn += [tick(words, x=f"{x}%", y="100%", dy=14) for words, x in columns]
    drawn += [tick(words, "end", x=-5, y=f"{y}%", dy=4) for words, y in rows]
    drawn.append(tick(axis, x="50%", y="100%", dy=30))
    drawn += [tick("nothing to draw: no number is finite", x="50%", y="50%")] * (not some)
    paths = [
        element(f"path.curve.{x['role']}", d=path(ys)) for x, ys in zip(lines, curves, strict=True)
    ]
    whole = {"width": "100%", "height": "100%", "preserveAspectRatio": "none"}
    drawn += [element("svg", *paths, viewBox="0 0 100 100", **whole), element("g")]
    left = {"--cgviz-left": f"{max((len(words) for words, _ in rows), default=0)}ch"}
    named = {"role": "img", "aria-label": f"{title} over {axis}"}
    legend = []
    for line in lines:
        sample = element(f"path.curve.{line['role']}", d="M0 5H26")
        swatch = element("svg.swatch", sample, viewBox="0 0 26 10", **{"aria-hidden": "true"})
        legend.append(element("li", swatch, line["name"]))
    parts = element("figcaption", title), element("svg.plot", *drawn, **named, **left)
    return {
        "range": [x0, x1, y0, y1],
        "roles": [line["role"] for line in lines],
        "element": element("figure.plotbox", *parts, element("ul.legend", *legend)),
    }


def ticks(low: float, high: float) -> list[float]:
    """The round numbers of an axis.

    >>> ticks(-3, 3)
    [-2.0, 0.0, 2.0]
    """
    step = rounded_up(0.7 * (high - low) / TICKS)
    places = np.arange(np.ceil(low / step), np.floor(high / step + 1e-9) + 1)
    return [float(x) for x in places * step + 0.0]


def rounded_up(x: float) -> float:
    """The least of 1, 2 and 5, times a power of ten, that is not below x.

    >>> rounded_up(0.04), rounded_up(0.1)
    (0.05, 0.1)
    """
    base = 10.0 ** np.floor(np.log10(x))
    return float(base * next(m for m in (1, 2, 5, 10) if m * base >= x * (1 - 1e-9)))


def limits(curves: Sequence[Any], poles: bool, noise: float = 0.0) -> tuple[float, float]:
    """The range of y: all numbers; where there may be poles, without the outermost few."""
    values = np.sort(np.concatenate(curves))
    values = values[~np.isnan(values)]
    if not values.size:
        return -1.0, 1.0
    cut = int(values.size * POLE) if poles else 0
    low, high = float(values[cut]), float(values[-1 - cut])
    margin = SPARE * (high - low)
    if high - low <= max(noise, 1e-9 * abs(high)):  # flat: the line goes in the middle
        margin = abs(high) / 2 if abs(high) > noise else 1.0
    return low - margin, high + margin


def starts(ys: Any, poles: bool) -> Any:
    """Where a curve begins anew: after a missing number, and where it jumps as at a pole.

    Such a jump goes against the rise on each side, and is larger than both of them together.
    """
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        rise = np.diff(ys, prepend=np.nan, append=np.nan)[:-1]
    before, after = np.append(np.nan, rise[:-1]), np.append(rise[1:], np.nan)
    turns = (before * rise < 0) & (rise * after < 0)
    jumps = poles & turns & (np.abs(rise) > np.abs(before) + np.abs(after))
    return np.append(True, np.isnan(ys[:-1])) | jumps
