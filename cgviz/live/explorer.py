"""Sliders around a live picture: the whole flow answers while one moves.

While a slider moves, only numbers travel; when another branch is taken, the picture follows.

    explore    a function and ranges -> an Explorer
    Explorer   a View with sliders and curves
"""

from __future__ import annotations

import itertools
import json
import time
import zlib
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

# In a saved page sliders have positions, and what comes at them is computed beforehand.
POSITIONS = (41, 21, 15, 11, 9, 7, 5, 3)  # of each slider: as many as can be paid for
SECONDS = 10.0  # of this process that saving may take
BYTES = 1_500_000  # of the answers, each compressed by itself; together they are a third of it


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
        trace = self._traced(self.values)
        builder = PageBuilder(trace, roomy=True, framed=False)
        self.signature = display.signature(builder.selection())
        self.custom = any(op.kind == "custom" for op in trace.walk())
        self.curves, self.swept = self._curves(0), self._swept(0)
        extra = {
            "sliders": self._shown_sliders(),
            "curves": self.curves,
            "points": self._points(trace, 0),
        }
        super().__init__(trace, [builder], extra, start="end")

    def _traced(self, values: Sequence[float], like: Trace | None = None) -> Trace:
        """The trace at values of the sliders; `like`, an earlier one, has the value's shape."""
        given = self.sweeper.arguments(values)
        if not self.sliders[-1].upstream:
            return api.trace(self.f, *given)
        if like is not None:
            try:
                return api.trace(self.f, *given, upstream=_filled(like.value, values[-1]))
            except ValueError:  # another branch, a value of another shape
                pass
        found = api.trace(self.f, *given)
        return api.trace(self.f, *given, upstream=_filled(found.value, values[-1]))

    def _shown_sliders(self) -> list[Document]:
        return [
            asdict(slider) | {"upstream": slider.upstream, "value": value}
            for slider, value in zip(self.sliders, self.values, strict=True)
        ]

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
            answer["error"] = _told(error)
        answer["took"] = round(1e3 * (time.perf_counter() - start), 2)
        self.send(answer)

    def _moved(self, content: Document) -> Document:
        active, settled = int(content["active"]), bool(content.get("settle"))
        self.values = [float(x) for x in content["move"]]
        if not self.sliders[active].upstream:
            self.focus = active
        self.trace = self._traced(self.values, self.trace)
        builder = PageBuilder(self.trace, which=self.which, roomy=True, framed=False)
        shown = builder.selection()
        signature = display.signature(shown)
        answer: Document = {"points": self._points(self.trace, self.focus)}
        if signature != self.signature:
            self.signature = signature
            answer["pages"] = [builder.page()]
        else:
            open_ = int(content.get("open", -1))
            wanted = range(len(shown.nodes)) if settled else [open_]
            answer["texts"] = pages.texts_of(shown)
            answer["panels"] = {
                i: panel.panel(self.trace, shown, i, panel.small)
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
            "sliders": self._shown_sliders(),
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

    def _points(self, trace: Trace, focus: int) -> Document:
        """Where the points are on the curves of f and of the rule, over one slider."""
        slider = self.sliders[focus]
        gradient = trace.gradients[slider.argument]
        if gradient is not None and slider.entry is not None:
            gradient = gradient[slider.entry]
        return {"f": _finite(summed(trace.value)), "rule": _finite(gradient)}

    # --- in a saved page ---

    def kept(self) -> Document:
        """The sliders, with what comes at each combination of some of their positions.

        There are the fewer positions the more sliders there are and the slower f is; one of them
        is where the slider is now.
        """
        flows: dict[Any, Document] = {}
        self._kept_at(self.values, flows)  # the first takes longer than those that follow
        start = time.process_time()
        first = self._kept_at(self.values, flows)
        answer = time.process_time() - start
        self._kept_curves(self.values, 0)
        curve = time.process_time() - start - answer
        size, many = len(zlib.compress(json.dumps(first).encode())), len(self.sliders)

        def paid(n: int) -> bool:
            all_, each = (n + 1) ** many, (n + 1) ** (many - 1)  # one more: where the slider is
            return all_ * size <= BYTES and all_ * answer + many * each * curve <= SECONDS

        count = next(filter(paid, POSITIONS), 1)
        sliders = self._shown_sliders()
        for slider in sliders:
            slider["positions"] = _positions(slider, count)
        answers, curves = {}, {}
        for at in itertools.product(*(range(len(s["positions"])) for s in sliders)):
            values = [slider["positions"][i] for slider, i in zip(sliders, at, strict=True)]
            answers[_key(at)] = self._kept_at(values, flows)
            for k in range(many):
                if at[k] == 0 and count > 1:  # they run over all positions of this one
                    curves[f"{k}|{_key([*at[:k], *at[k + 1 :]])}"] = self._kept_curves(values, k)
        return {
            "sliders": sliders,
            "curves": self.curves,
            "points": self._points(self.trace, self.focus),
            "kept": {"flows": [*flows.values()], "answers": answers, "curves": curves},
        }

    def _kept_at(self, values: Sequence[float], flows: dict[Any, Document]) -> Document:
        """What is shown at these values; `flows` gets each picture once."""
        try:
            trace = self._traced(values, self.trace)
        except Exception as error:  # f is the learner's
            return {"error": _told(error)}
        found = PageBuilder(trace, self.which, roomy=True, framed=False)
        shown = found.selection()
        signature = display.signature(shown)
        if signature not in flows:
            flows[signature] = found.display().document()
        arguments = [k for k, slider in enumerate(self.sliders) if not slider.upstream]
        return {
            "flow": [*flows].index(signature),
            "texts": pages.texts_of(shown),
            "panels": found.panels(),
            "points": [self._points(trace, k) for k in arguments],
        }

    def _kept_curves(self, values: Sequence[float], active: int) -> Document:
        focus = 0 if self.sliders[active].upstream else active
        return self.sweeper.curves(values, active, focus, self.custom)

    @property
    def words(self) -> str:
        """What was traced, and the sliders."""
        ranges = ", ".join(f"{s.name} from {s.low:g} to {s.high:g}" for s in self.sliders)
        return f"{summary.title(self.trace)}\nsliders: {ranges}"


def _positions(slider: Document, count: int) -> list[float]:
    """So many places on a slider, to three digits of its range, and the one where it is."""
    low, high = slider["low"], slider["high"]
    unit = 10.0 ** np.floor(np.log10((high - low) / 100))
    places = np.linspace(low, high, count if count > 1 else 0)
    return sorted({float(f"{np.round(x / unit) * unit:.12g}") for x in places} | {slider["value"]})


def _key(places: Sequence[int]) -> str:
    return ",".join(map(str, places))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _filled(value: Any, upstream: float) -> Any:
    """f's value with `upstream` in every place."""
    if isinstance(value, dict):
        return {name: _filled(x, upstream) for name, x in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_filled(x, upstream) for x in value)
    return np.full_like(value, upstream)


def _finite(x: Any) -> float | None:
    return None if x is None or not np.isfinite(x) else float(x)
