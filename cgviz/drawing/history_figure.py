"""A history as a figure: the target over the steps, and below it the gradients as a map.

plot    a history, or two -> a figure
rows    the series that a map shows
powers  log10 of their gradients per entry
said    one of these gradients in words
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from .. import style
from ..graph import Array
from ..reading.format import told_apart
from .figure import SpokenFigure, current_palette, returned_figure

if TYPE_CHECKING:
    from ..history import History, Series

MOST_ROWS = 24  # of a map: more could not be read at the height of a notebook's page
FEW = 10  # up to this many variables, a map shows the ops, too
ROW = 0.26  # the height of a map's row, in inches: one line of letters
LINE = 100  # letters in a line of the title: the width of the figure
MOST_SAID = 6  # series whose numbers a figure says in words
SIGNS = {  # for a gradient that is not an ordinary number, by `Moment.state`
    "none": style.NONE,
    "zero": style.Sign(style.ZERO.symbol, "zero"),
    "nan": style.NAN,
    "inf": style.Sign("▲", "infinite"),
    "unasked": style.Sign("·", "not taken"),
}
MARKERS = {"none": "_", "zero": "o", "nan": "x", "inf": "^"}  # Matplotlib's names


def plot(
    history: History, against: History | None, parted: str, names: Sequence[str] | None = None
) -> SpokenFigure:
    """Draw what `History.plot` returns; `parted` is a title that says where two histories part."""
    histories = [history] if against is None else [history, against]
    look = current_palette()
    maps = [rows(each, names) for each in histories]
    between = ends([powers(series) for series in maps])
    heights = [1.6, *(ROW * len(series) for series in maps)]
    figure: Any = returned_figure(9.5, sum(heights) + 0.6 * len(maps))
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=(3, 1))
    above = figure.add_subplot(grid[0, 0], xlim=_limits(history))
    above.xaxis.get_major_locator().set_params(integer=True)
    said = fill(parted.replace("`", ""), LINE)
    above.set_title(said or "target", fontsize=9 if said else None)
    words = [parted] if parted else []
    titles = told_apart([each.title for each in histories], "training")
    looks = (look.forward, "-"), (look.custom, ":")
    for i, (each, (colour, dashes)) in enumerate(zip(histories, looks, strict=False)):
        above.plot(each.steps, each.target, dashes, color=colour, linewidth=2, label=titles[i])
        below, beside = (figure.add_subplot(grid[i + 1, column]) for column in (0, 1))
        whose = "" if against is None else f"{titles[i]}: "
        words += [whose + _sentence(each), _map(figure, below, each, maps[i], between, look)]
        # Above the map, not beside its colour bar, too short for these words if rows are few.
        below.set_title(f"{whose}log10 of the gradient's size per entry", fontsize=9)
        words += _updates(beside, maps, i, look)
    if against is not None:
        above.set_ylabel("target")
        above.legend(frameon=False)
    figure.alt = "\n".join(words)
    return figure


def rows(history: History, names: Sequence[str] | None = None) -> list[Series]:
    """The series that a map shows: those in `names`, or at most 24.

    By default they are the variables, with the ops if both are few; without variables, the ops.
    """
    if names is not None:
        if not isinstance(names, Iterable) or not names or not set(names) <= history.series.keys():
            known = ", ".join(history.series)
            raise ValueError(f"`rows` is {names!r}, and must name some of {known}")
        return [history.series[name] for name in names]
    variables = list(history.variables.values())
    every = [s for s in history.series.values() if s.kind != "input"]
    found = every if len(variables) <= FEW and len(every) <= MOST_ROWS else variables
    if len(found) <= MOST_ROWS:
        return found or every[:MOST_ROWS]
    places = np.linspace(0, len(found) - 1, MOST_ROWS).round().astype(int)  # evenly over the depth
    return [found[i] for i in places]


def powers(series: Sequence[Series]) -> Array:
    """log10 of each gradient's RMS, shape (series, steps); NaN if it is not an ordinary number."""
    sizes = np.array([each.rms for each in series])
    ordinary = np.array([[not state for state in each.state] for each in series])
    with np.errstate(all="ignore"):
        return np.where(ordinary & (sizes > 0), np.log10(sizes), np.nan)


def said(series: Series, place: int) -> str:
    """The gradient per entry at the recorded step of index `place`, as text."""
    moment = series.moments[place]
    sign, size = SIGNS.get(moment.state), moment.gradient / max(series.size, 1) ** 0.5
    return style.number(size, 3) if sign is None else sign.word


def _limits(history: History) -> tuple[float, float]:
    every = history.steps[1] - history.steps[0] if len(history) > 1 else 1
    return history.steps[0] - every / 2, history.steps[-1] + every / 2


def ends(powers: Sequence[Array]) -> tuple[float, float]:
    """The smallest and the largest power over all maps, which share one colour scale."""
    known = np.concatenate([each[np.isfinite(each)] for each in powers])
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _map(
    figure: Any, ax: Any, history: History, shown: list[Series], ends: Any, look: style.Palette
) -> str:
    """Draw log10 of each gradient per entry, or a mark for one that is not an ordinary number."""
    sizes = powers(shown)
    left, right = _limits(history)
    if np.isfinite(sizes).any():
        dark, paper = np.array([to_rgb(look.backward), to_rgb(look.paper)])
        pale = 0.12 * dark + 0.88 * paper  # so that the smallest gradient differs from none
        tones = LinearSegmentedColormap.from_list("gradient", [pale, dark])
        extent = (left, right, len(shown) - 0.5, -0.5)
        between = dict(zip(("vmin", "vmax"), ends, strict=True))
        image = ax.imshow(
            sizes, tones, aspect="auto", extent=extent, interpolation="none", **between
        )
        figure.colorbar(image, ax=ax, fraction=0.04)
    states, steps = np.array([series.state for series in shown]), np.array(history.steps)
    marks = {"linestyle": "", "color": look.text, "markersize": 5, "markerfacecolor": "none"}
    for state, marker in MARKERS.items():
        places, times = np.nonzero(states == state)
        if places.size:
            ax.plot(steps[times], places, marker, label=SIGNS[state].word, **marks)
    if ax.lines:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 3.5}
        ax.legend(ncols=4, frameon=False, **below)
    ax.set(xlim=(left, right), ylim=(len(shown) - 0.5, -0.5), xlabel="step")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_yticks(range(len(shown)), [s.name for s in shown], fontsize=9)
    more = ", ..." * (len(shown) > MOST_SAID)
    words = []
    for i in (0, -1):
        told = ", ".join(f"{s.name} {said(s, i)}" for s in shown[:MOST_SAID])
        words.append(f"Gradient per entry at step {history.steps[i]}: {told}{more}.")
    return " ".join(words)


def _updates(ax: Any, maps: list[list[Series]], at: int, look: style.Palette) -> list[str]:
    """Draw how far a step moves each variable of a map: the median of update over weight.

    All maps share the axis, so that they can be compared.
    """
    medians = []
    for rows in maps:
        moved = ([x for x in series.update if 0 < x < np.inf] for series in rows)
        medians.append({i: float(np.median(each)) for i, each in enumerate(moved) if each})
    known, every = medians[at], [x for each in medians for x in each.values()]
    if not known:
        ax.remove()
        return []
    ax.plot([*known.values()], [*known], "D", color=look.variable, markersize=6, clip_on=False)
    low, high = np.floor(np.log10([min(every), max(every)]))
    ax.set(xscale="log", xlim=(10.0**low, 10.0 ** (high + 1)))  # whole powers: their labels fit
    ax.xaxis.set_minor_formatter("")  # within one power the labels of its parts would overlap
    ax.set_title("update / weight", fontsize=9)
    ax.set(ylim=(len(maps[at]) - 0.5, -0.5), yticks=[])
    ax.grid(axis="x", color=look.muted, alpha=0.3)
    first = [*known.items()][:MOST_SAID]
    told = ", ".join(f"{maps[at][i].name} {style.number(x, 2)}" for i, x in first)
    return [f"Median of update over weight: {told}{', ...' * (len(known) > MOST_SAID)}."]


def _sentence(history: History) -> str:
    count = len(history)
    ends = [f"{style.number(history.target[i])} at step {history.steps[i]}" for i in (0, -1)]
    return f"The target over {count} step{'s' * (count != 1)}: {', '.join(ends)}."
