"""A training in the browser: a live picture whose numbers change with the step of training.

view  a history, or two -> a View of the traces that it kept, with a slider and a map of all steps
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .. import style
from ..drawing import history_figure as figure
from ..reading.format import told_apart
from . import curves
from .pages import Document, PageBuilder
from .view import View

if TYPE_CHECKING:
    from ..graph import Array
    from ..history import History, Series

MOST_COLUMNS = 60  # of a map: cells that are wide enough to be clicked
MOST_POINTS = 360  # of a curve: one for each of its pixels
ROLES = ("f", "body")  # of curves: solid and dashed


def view(history: History, against: History | None = None, parted: str = "") -> View:
    """What `History.view` returns; `parted` says where two histories part."""
    histories = [history] if against is None else [history, against]
    kept = sorted(set.intersection(*(set(each.traces) for each in histories)))
    builders = []
    for each in histories:
        first, *others = ((f"step:{step}", each.trace(step)) for step in kept)
        builders.append(PageBuilder(first[1], each.which, moments=dict(others)))
    names = told_apart([each.title for each in histories], "training")
    extra = {"names": names, "history": _document(histories, names, kept) | {"parted": parted}}
    words = "\n".join([*([parted] if parted else []), *map(repr, histories)])
    paper = partial(figure.plot, history, against, parted)
    return View(builders, extra, start="end", words=words, paper=paper)


def _document(histories: Sequence[History], names: Sequence[str], kept: Sequence[int]) -> Document:
    """The target over time, and a map of the gradients; only steps that all histories have."""
    steps = sorted(set.intersection(*(set(each.steps) for each in histories)))
    points, columns = (_thinned(steps, kept, most) for most in (MOST_POINTS, MOST_COLUMNS))
    maps = [figure.rows(each) for each in histories]
    powers = [figure.powers(series) for series in maps]
    ends = figure.ends(powers)
    states = {state for series in maps for each in series for state in each.state}
    lines: list[Document] = []
    tables = []
    for i, each in enumerate(histories):
        place = {step: k for k, step in enumerate(each.steps)}
        target = [each.target[place[step]] for step in points]
        ys = [y if np.isfinite(y) else None for y in target]
        name = names[i] if len(histories) > 1 else "target"
        lines.append({"role": ROLES[i], "name": name, "ys": ys})
        rows = zip(maps[i], powers[i], strict=True)
        at = [place[step] for step in columns]
        own = [{"name": s.name, "cells": _cells(s, row, at, ends)} for s, row in rows]
        title = f"gradients of {name}" if len(histories) > 1 else "gradients"
        tables.append({"title": title, "rows": own})
    targets = [{line["role"]: line["ys"][points.index(step)] for line in lines} for step in kept]
    said = [_said(step, steps[-1], lines, each) for step, each in zip(kept, targets, strict=True)]
    plot = curves.plot("target", "step", points, lines, poles=False) if len(points) > 1 else None
    signs = [str(sign) for state, sign in figure.SIGNS.items() if state in states]
    low, high = (style.number(round(x, 1)) for x in ends)
    tones = f"log10 of the gradient per entry, from {low} (pale) to {high} (deep)"
    stops = (
        f"Steps whose whole trace was kept, at which the slider stops: {', '.join(map(str, kept))}"
    )
    return {
        **{"kept": kept, "said": said, "points": targets, "plot": plot, "columns": columns},
        **{"maps": tables, "about": f"{stops} (▾). Map: {'; '.join([tones, *signs])}."},
    }


def _said(step: int, last: int, lines: Sequence[Document], targets: Document) -> str:
    """Where a step is in a training, and its targets."""
    numbers = ((line["name"], targets[line["role"]]) for line in lines)
    told = ", ".join(f"{n} {'not finite' if y is None else style.number(y)}" for n, y in numbers)
    return f"step {step} of {last}, {'target of ' * (len(lines) > 1)}{told}"


def _thinned(steps: list[int], kept: Sequence[int], most: int) -> list[int]:
    """At most so many steps, evenly, with all that are kept."""
    chosen = {steps[round(place)] for place in np.linspace(0, len(steps) - 1, most - len(kept))}
    return steps if len(steps) <= most else sorted(chosen | set(kept))


def _cells(
    series: Series, powers: Array, places: Sequence[int], ends: tuple[float, float]
) -> list[tuple[float | None, str, str]]:
    """A row of a map: how deep each tone is, from 0 to 1; the sign; and the gradient in words."""
    low, high = ends
    found = []
    for place in places:
        sign = figure.SIGNS.get(series.moments[place].state)
        share = (float(powers[place]) - low) / ((high - low) or 1.0)
        tone = round(share, 2) if np.isfinite(share) else None
        found.append((tone, sign.symbol if sign else "", figure.said(series, place)))
    return found
