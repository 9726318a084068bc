"""Sliders around a live picture: the whole flow answers while one moves.

While a slider moves, only numbers travel; when another branch is taken, the picture follows.

    explore    a function and ranges -> an Explorer
    Explorer   a View with sliders and curves
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..drawing import display
from ..graph import Trace
from ..reading import summary
from ..recording import api
from . import pages, panel
from .pages import Document, PageBuilder
from .sweeps import Control, Sweeper, controls, summed
from .view import View


def explore(f: Callable[..., Any], *, upstream: Any = (-2.0, 2.0), **given: Any) -> Explorer:
    """Slide the arguments of f, and upstream, and watch every number answer.

    Beside the flow are the curves of f and of its gradient over the slider that moves: by the
    custom rule, by automatic differentiation of the body, and by finite differences. A rule that
    ignores upstream stays flat when upstream moves.

    Args:
        f: A function of tensors, run eagerly.
        upstream: The range of upstream, `(low, high)` or `(low, high, start)`; every entry of
            f's value gets the same. None leaves it at ones.
        **given: By the name of a parameter of f: a range for a number, a list of ranges for the
            entries of a vector, or a value that stays.

    Returns:
        The widget. `explorer.trace` is the trace at the place where the sliders stand.

    Raises:
        TypeError: f has no such parameter, or a range is none.
        ValueError: No argument has a range, or one is empty.

    Example:
        >>> import cgviz
        >>> cgviz.explore(lambda x: x * x, x=(-3.0, 3.0)).trace.gradients[0].item()
        2.0
    """
    sliders, fixed = controls(f, given, upstream)
    return Explorer(f, sliders, fixed)


class Explorer(View):
    """A live picture with sliders.

    Attributes:
        trace: The trace at the values of the sliders.
        values: The values of the sliders, upstream last.
    """

    trace: Trace

    def __init__(
        self, f: Callable[..., Any], sliders: Sequence[Control], fixed: Sequence[Any]
    ) -> None:
        self.f = f
        self.sliders = tuple(sliders)
        self.sweeper = Sweeper(f, sliders, fixed)
        self.values = [slider.value for slider in sliders]
        self.focus = 0
        trace = self._traced()
        builder = PageBuilder(trace, roomy=True, framed=False)
        self.signature = display.signature(builder.selection())
        self.custom = any(op.kind == "custom" for op in trace.walk())
        self.curves, self.swept = self._curves(0), self._swept(0)
        extra = {
            "sliders": [asdict(s) | {"upstream": s.upstream} for s in sliders],
            "curves": self.curves,
            "points": self._points(trace, 0),
        }
        super().__init__(trace, [builder], extra, start="end")

    def _traced(self, like: Trace | None = None) -> Trace:
        """The trace at the values of the sliders; `like`, the one before, has the value's shape."""
        given = self.sweeper.arguments(self.values)
        if not self.sliders[-1].upstream:
            return api.trace(self.f, *given)
        if like is not None:
            try:
                return self._with_upstream(given, like)
            except ValueError:  # another branch, a value of another shape
                pass
        return self._with_upstream(given, api.trace(self.f, *given))

    def _with_upstream(self, given: Sequence[Any], like: Trace) -> Trace:
        return api.trace(self.f, *given, upstream=_filled(like.value, self.values[-1]))

    def _answer(self, content: Document, buffers: Any) -> None:
        """Also move: run f at the values of the sliders, and send what changed."""
        if "move" not in content:
            super()._answer(content, buffers)
            return
        start = time.perf_counter()
        answer: Document = {"moved": content["id"], "settled": bool(content.get("settle"))}
        try:
            answer |= self._moved(content)
        except Exception as error:  # f is the learner's: whatever it raises is told beside it
            answer["error"] = f"{type(error).__name__}: {error}"
        answer["took"] = round(1e3 * (time.perf_counter() - start), 2)
        self.send(answer)

    def _moved(self, content: Document) -> Document:
        active, settled = int(content["active"]), bool(content.get("settle"))
        self.values = [float(x) for x in content["move"]]
        if not self.sliders[active].upstream:
            self.focus = active
        self.trace = self._traced(self.trace)
        builder = PageBuilder(self.trace, which=self.which, roomy=True, framed=False)
        shown = builder.selection()
        signature = display.signature(shown)
        answer: Document = {"points": self._points(self.trace, active)}
        if signature != self.signature:
            self.signature = signature
            answer["pages"] = [builder.page()]
        else:
            open_ = int(content.get("open", -1))
            wanted = range(len(shown.nodes)) if settled else [open_]
            answer["texts"] = pages.texts_of(shown)
            answer["panels"] = {
                i: panel.panel(self.trace, shown, shown.nodes[i], panel.small)
                for i in wanted
                if 0 <= i < len(shown.nodes)
            }
        self.builders = (builder,)
        if settled:
            if (key := self._swept(active)) != self.swept:
                answer["curves"] = self.curves = self._curves(active)
                self.swept = key
            page = builder.page() if "pages" not in answer else answer["pages"][0]
            self._keep(page, answer)
        return answer

    def _keep(self, page: Document, answer: Document) -> None:
        """What a view that is opened later begins with; those that are open know it already."""
        values = {
            "sliders": [
                asdict(s) | {"upstream": s.upstream, "value": value}
                for s, value in zip(self.sliders, self.values, strict=True)
            ],
            "pages": [page],
            "curves": self.curves,
            "points": answer["points"],
        }
        self._trait_values["document"] = self.document | values

    def _swept(self, active: int) -> tuple[Any, ...]:
        """What the curves depend on: everything but the place on the slider that they run over."""
        return active, self.focus, (*self.values[:active], *self.values[active + 1 :])

    def _curves(self, active: int) -> Document:
        return self.sweeper.curves(self.values, active, self.focus, self.custom)

    def _points(self, trace: Trace, active: int) -> Document:
        """Where the points are on the curves of f and of the rule."""
        slider = self.sliders[self.focus]
        gradient = trace.gradients[slider.argument]
        if gradient is not None and slider.entry is not None:
            gradient = gradient[slider.entry]
        return {"f": _finite(summed(trace.value)), "rule": _finite(gradient)}

    @property
    def words(self) -> str:
        """What was traced, and the sliders."""
        ranges = ", ".join(f"{s.name} from {s.low:g} to {s.high:g}" for s in self.sliders)
        return f"{summary.title(self.trace)}\nsliders: {ranges}"


def _filled(value: Any, upstream: float) -> Any:
    """f's value with `upstream` in every place."""
    if isinstance(value, dict):
        return {name: _filled(x, upstream) for name, x in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_filled(x, upstream) for x in value)
    return np.full_like(value, upstream)


def _finite(x: Any) -> float | None:
    return None if x is None or not np.isfinite(x) else float(x)
