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
from .panel import Element, element
from .view import View

if TYPE_CHECKING:
    from ..graph import Array
    from ..history import History, Series

MOST_COLUMNS = 60  # of a map: with more, its cells would be too narrow to be clicked
MOST_POINTS = 360  # of a curve: one for each of its pixels
ROLES = ("f", "body")  # of curves: solid and dashed


def view(history: History, against: History | None, parted: str) -> View:
    """What `History.view` returns; `parted` says where two histories part."""
    histories = [history] if against is None else [history, against]
    kept = sorted(set.intersection(*(set(each.traces) for each in histories)))
    builders = []
    for each in histories:
        first, *others = ((f"step:{step}", each.trace(step)) for step in kept)
        builders.append(PageBuilder(first[1], moments=dict(others)))
    names = told_apart([each.title for each in histories], "training")
    extra = {"names": names, "history": _document(histories, names, kept) | {"parted": parted}}
    told = [f"{name}: {each!r}" for name, each in zip(names, histories, strict=True)]
    words = "\n".join([parted, *told] if parted else map(repr, histories))
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
        marks = [element("td", "▾" if step in kept else "") for step in columns]
        head = element("tr", element("td"), *marks, **{"aria-hidden": "true"})
        at = {step: place[step] for step in columns}
        rows = [_row(*each, at, ends) for each in zip(maps[i], powers[i], strict=True)]
        title = f"gradients of {name}" if len(histories) > 1 else "gradients"
        parts = element("thead", head), element("tbody", *rows)
        table = element("div.scroll", element("table.map", *parts, **{"aria-label": title}))
        tables.append(element("figure.mapbox", element("figcaption", title), table))
    targets = [{line["role"]: line["ys"][points.index(step)] for line in lines} for step in kept]
    said = [_said(step, steps[-1], lines, each) for step, each in zip(kept, targets, strict=True)]
    plot = curves.plot("target", "step", points, lines, poles=False) if len(points) > 1 else None
    signs = [str(sign) for state, sign in figure.SIGNS.items() if state in states]
    low, high = (style.number(round(x, 1)) for x in ends)
    tones = f"log10 of the gradient's size per entry, from {low} (faint) to {high} (strong)"
    stops = (
        f"Steps whose whole trace was kept, at which the slider stops: {', '.join(map(str, kept))}"
    )
    return {
        **{"kept": kept, "said": said, "points": targets, "plot": plot},
        **{"maps": tables, "about": f"{stops} (▾). Map: {'; '.join([tones, *signs])}."},
    }


def _said(step: int, last: int, lines: Sequence[Document], targets: Document) -> str:
    """A step in words: its place in the training, and its targets."""
    numbers = ((line["name"], targets[line["role"]]) for line in lines)
    told = ", ".join(f"{n} {'not finite' if y is None else style.number(y)}" for n, y in numbers)
    return f"step {step} of {last}, {'target of ' * (len(lines) > 1)}{told}"


def _thinned(steps: list[int], kept: Sequence[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly spaced, with all that are kept among them."""
    chosen = {steps[round(place)] for place in np.linspace(0, len(steps) - 1, most - len(kept))}
    return steps if len(steps) <= most else sorted(chosen | set(kept))


def _row(
    series: Series, powers: Array, places: dict[int, int], ends: tuple[float, float]
) -> Element:
    """A row of a map: in each cell the tone of its step, a sign, and the gradient in words."""
    low, high = ends
    head = element("button", series.name, type="button")
    cells = [element("th", head, scope="row")]
    for step, place in places.items():
        sign = figure.SIGNS.get(series.moments[place].state)
        words = f"{series.name}, step {step}: {figure.said(series, place)}"
        share = (float(powers[place]) - low) / ((high - low) or 1.0)
        # From 6%, so that the faintest tone differs from none.
        tone = {"--cgviz-share": f"{round(6 + 94 * share)}%"} if np.isfinite(share) else {}
        told = {"data-step": step, "aria-label": words, "title": words}
        cells.append(element("td", sign.symbol if sign else "", **told, **tone))
    return element("tr", *cells, **{"data-name": series.name})
