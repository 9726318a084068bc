"""A history as a figure: the target over the steps, and below it the gradients as a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rcParams
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from .. import style
from .figure import SpokenFigure

if TYPE_CHECKING:
    from ..history import History, Series

MOST_ROWS = 24  # what can still be read at the height of a notebook's page
FEW = 10  # variables up to which the map shows the ops, too
MARKS = {  # of a gradient that is no ordinary one: Matplotlib's marker, the words
    "none": ("_", "None"),
    "zero": ("o", "zero"),
    "nan": ("x", "NaN"),
    "inf": ("^", "infinite"),
}


def plot(history: History) -> SpokenFigure:
    """What `History.plot` does."""
    import matplotlib.pyplot as plt

    if not history.steps:
        raise ValueError("nothing was recorded: the history has 0 steps")
    look = style.palette(to_rgb(rcParams["figure.facecolor"]))
    rows = _rows(history)
    height = 2.2 + 0.26 * len(rows)
    figure: Any = plt.figure(figsize=(9.5, height), layout="constrained", FigureClass=SpokenFigure)
    plt.close(figure)  # a notebook shows what a cell returns; pyplot would show it once more
    grid = figure.add_gridspec(2, 2, height_ratios=(1.6, 0.26 * len(rows)), width_ratios=(3, 1))
    above, below = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    beside = figure.add_subplot(grid[1, 1])
    above.plot(history.steps, history.target, color=look.forward, linewidth=2)
    above.set(title="target", xlim=_limits(history))
    shown = _map(figure, below, history, rows, look)
    updates = _updates(beside, rows, look)
    if not updates:
        beside.remove()
    figure.alt = "\n".join([_sentence(history), shown, *updates])
    return figure


def _rows(history: History) -> list[Series]:
    variables = list(history.variables.values())
    every = [s for s in history.series.values() if s.kind != "input"]
    rows = every if len(variables) <= FEW and len(every) <= MOST_ROWS else variables
    if len(rows) <= MOST_ROWS:
        return rows or every[:MOST_ROWS]
    places = np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(int)  # evenly over the depth
    return [rows[i] for i in places]


def _limits(history: History) -> tuple[float, float]:
    every = history.steps[1] - history.steps[0] if len(history) > 1 else 1
    return history.steps[0] - every / 2, history.steps[-1] + every / 2


def _map(figure: Any, ax: Any, history: History, rows: list[Series], look: style.Palette) -> str:
    """log10 of each gradient per entry, and a mark where it is no ordinary number."""
    rms = np.array([s.rms for s in rows])
    ordinary = np.array([[not state for state in s.state] for s in rows])
    with np.errstate(all="ignore"):
        powers = np.where(ordinary & (rms > 0), np.log10(rms), np.nan)
    tones = LinearSegmentedColormap.from_list("gradient", [look.paper, look.backward])
    left, right = _limits(history)
    extent = (left, right, len(rows) - 0.5, -0.5)
    if np.isfinite(powers).any():
        image = ax.imshow(powers, cmap=tones, aspect="auto", extent=extent, interpolation="none")
        figure.colorbar(image, ax=ax, label="log10 of the gradient per entry", fraction=0.04)
    for state, (marker, words) in MARKS.items():
        places = [
            (step, i)
            for i, series in enumerate(rows)
            for step, now in zip(history.steps, series.state, strict=True)
            if now == state
        ]
        if places:
            ax.plot(
                *zip(*places, strict=True),
                marker,
                color=look.text,
                markersize=5,
                markerfacecolor="none",
                linestyle="",
                label=words,
            )
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False)
    ax.set(xlim=(left, right), ylim=(len(rows) - 0.5, -0.5), xlabel="step")
    ax.set_yticks(range(len(rows)), [s.name for s in rows], fontsize=9)
    first, last = (
        ", ".join(f"{s.name} {_said(s, i)}" for s in rows[:6]) + (", ..." if len(rows) > 6 else "")
        for i in (0, -1)
    )
    return (
        f"Gradient per entry at step {history.steps[0]}: {first}. "
        f"At step {history.steps[-1]}: {last}."
    )


def _said(series: Series, place: int) -> str:
    state = series.state[place]
    if state:
        return MARKS[state][1] if state in MARKS else "not taken"
    return style.number(float(series.rms[place]), 3)


def _updates(ax: Any, rows: list[Series], look: style.Palette) -> list[str]:
    """How far a step moves each variable: the median of update over weight."""
    known = []
    for i, series in enumerate(rows):
        update = np.asarray(series.update)
        update = update[np.isfinite(update) & (update > 0)]
        if update.size:
            known.append((i, series.name, float(np.median(update))))
    if not known:
        return []
    places, names, sizes = zip(*known, strict=True)
    ax.plot(sizes, places, "D", color=look.variable, markersize=6)
    ax.set_xscale("log")
    ax.axvline(1e-3, color=look.muted, linestyle=":", linewidth=1)  # what is usual
    ax.set(title="update / weight", ylim=(len(rows) - 0.5, -0.5), yticks=[])
    ax.grid(axis="x", color=look.muted, alpha=0.3)
    said = ", ".join(f"{n} {style.number(x, 2)}" for n, x in zip(names[:6], sizes, strict=False))
    return [f"Median of update over weight: {said}{', ...' if len(known) > 6 else ''}."]


def _sentence(history: History) -> str:
    count = len(history)
    ends = [f"{style.number(history.target[i])} at step {history.steps[i]}" for i in (0, -1)]
    return f"The target over {count} step{'s' * (count != 1)}: {', '.join(ends)}."
