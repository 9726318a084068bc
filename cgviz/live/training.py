"""A training in the browser: a live picture whose numbers change with the step of training.

view          a history, or two -> a TrainingView
TrainingView  a View of the traces that a history kept, with a slider and a map of all steps
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import style
from ..drawing import history_figure as figure
from .pages import Document, PageBuilder
from .view import View

if TYPE_CHECKING:
    from ..graph import Array
    from ..history import History, Series

MOST_COLUMNS = 60  # of a map: cells that are wide enough to be clicked
MOST_POINTS = 360  # of a curve: one for each of its pixels
ROLES = ("f", "body")  # of curves: solid and dashed
MOMENT = "step:"  # before the number of a step, among the names of what is opened


def view(history: History, against: History | None = None, parted: str = "") -> TrainingView:
    """What `History.view` returns; `parted` says where two histories part."""
    return TrainingView([history] if against is None else [history, against], parted)


class TrainingView(View):
    """A live picture with a slider over the steps of a training."""

    def __init__(self, histories: Sequence[History], parted: str) -> None:
        kept = sorted(set.intersection(*(set(each.traces) for each in histories)))
        builders = [Moments(each, kept) for each in histories]
        self.said = "\n".join([*([parted] if parted else []), *map(repr, histories)])
        names = figure.titles(histories)
        shown = _document(histories, names, kept) | {"parted": parted}
        super().__init__(
            builders[0].trace, builders, {"names": names, "history": shown}, start="end"
        )

    def kept(self) -> Document:
        """What of the document needs no kernel: all of it."""
        return self.extra

    @property
    def words(self) -> str:
        """What the training did."""
        return self.said


class Moments(PageBuilder):
    """Makes the pages of the traces of a history; which of them is one of the names `toggled`."""

    def __init__(self, history: History, kept: Sequence[int]) -> None:
        super().__init__(history.trace(kept[0]), history.which)
        self.history = history
        self.moments = tuple(f"{MOMENT}{step}" for step in kept[1:])
        builders = [PageBuilder(history.trace(step), history.which) for step in kept]
        self.builders = dict(zip(("", *self.moments), builders, strict=True))
        for each in (self, *builders):
            each.alike, each._displays = builders, self._displays

    def patiently(self) -> PageBuilder:
        """The same with every local Jacobian that is small enough to be read."""
        found = copy.copy(self)
        found.builders = {name: each.patiently() for name, each in self.builders.items()}
        return found

    def _at(self, toggled: Sequence[str]) -> tuple[PageBuilder, list[str]]:
        """The builder of one trace, and what is opened in it."""
        moment = next((name for name in toggled if name in self.moments), "")
        return self.builders[moment], [name for name in toggled if name != moment]

    def page(self, which: int | None = None, toggled: Sequence[str] = ()) -> Document:
        """One picture, and which node has each op of the map."""
        builder, opened = self._at(toggled)
        which = None if which is None else min(which, builder.last)
        nodes = builder.selection(which, opened).nodes
        shown = [(i, node) for i, node in enumerate(nodes) if node.kind != "use"]
        places = {op.name: i for i, node in shown for op in node.ops}
        found = {s.name: places[s.name] for s in figure.rows(self.history) if s.name in places}
        return builder.page(which, opened) | {"rows": found}

    def panels(self, which: int | None = None, toggled: Sequence[str] = ()) -> list[Document]:
        """The side panels at one step of the training, in full."""
        builder, opened = self._at(toggled)
        return builder.panels(which, opened)


def _document(histories: Sequence[History], names: Sequence[str], kept: Sequence[int]) -> Document:
    """The target over time, and a map of the gradients; only steps that all histories have."""
    steps = sorted(set.intersection(*(set(each.steps) for each in histories)))
    points, columns = (_thinned(steps, kept, most) for most in (MOST_POINTS, MOST_COLUMNS))
    maps = [figure.rows(each) for each in histories]
    powers = [figure.powers(series) for series in maps]
    ends = figure.ends(powers)
    states = {state for series in maps for each in series for state in each.state}
    found: Document = {"kept": kept, "last": steps[-1], "steps": points, "columns": columns}
    found |= {"lines": [], "maps": [], "scale": [style.number(round(end, 1)) for end in ends]}
    found["signs"] = [str(sign) for state, sign in figure.SIGNS.items() if state in states]
    for i, each in enumerate(histories):
        place = {step: k for k, step in enumerate(each.steps)}
        target = [each.target[place[step]] for step in points]
        ys = [y if np.isfinite(y) else None for y in target]
        name = names[i] if len(histories) > 1 else "target"
        found["lines"].append({"role": ROLES[i], "name": name, "ys": ys})
        found["maps"].append([
            {"name": s.name, "cells": [_cell(s, row, place[step], ends) for step in columns]}
            for s, row in zip(maps[i], powers[i], strict=True)
        ])  # fmt: skip
    return found


def _thinned(steps: list[int], kept: Sequence[int], most: int) -> list[int]:
    """At most so many steps, evenly, with all that are kept."""
    chosen = {steps[round(place)] for place in np.linspace(0, len(steps) - 1, most - len(kept))}
    return steps if len(steps) <= most else sorted(chosen | set(kept))


def _cell(
    series: Series, powers: Array, place: int, ends: tuple[float, float]
) -> tuple[float | None, str, str]:
    """One gradient of a map: how deep its tone is, from 0 to 1; its sign; and it in words."""
    low, high = ends
    sign = figure.SIGNS.get(series.state[place])
    share = (float(powers[place]) - low) / ((high - low) or 1.0)
    tone = round(share, 2) if np.isfinite(share) else None
    return tone, sign.symbol if sign else "", figure.said(series, place)
