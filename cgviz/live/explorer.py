"""Sliders around a live picture: the whole flow answers while one moves.

While a slider moves, only numbers travel; when another branch is taken, the picture follows. Beside
it are curves over the range of one slider: f, and its derivative by the rule, of the body, and by
differences. Everything runs eagerly: a `tf.function` would leave each of its custom gradients in
TensorFlow's registry for ever.

    explore    a function and ranges -> an Explorer
    Explorer   a View with sliders and curves
    sliders    what `explore` was given -> sliders and fixed arguments
    Sweeper    runs a function at the values of sliders
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..drawing import display
from ..drawing.shapes import extent
from ..drawing.texts import TITLE
from ..graph import Array, Trace
from ..graph.model import silenced
from ..reading import summary
from ..recording import api, arguments, tf_hooks
from . import curves, panel
from .pages import Document, PageBuilder, texts_of
from .view import View

POINTS, FEWEST = 49, 33  # of a curve, so that a bend is seen; fewer where f is slow
LOST = 8 * float(np.finfo(np.float32).eps)  # of a number by rounding in a few ops
CURVES = 0.5  # seconds that they may take
# In a saved page sliders have positions, and what comes at them is computed beforehand.
POSITIONS = (41, 21, 15, 11, 9, 7, 5, 3)  # of each slider: as many as can be paid for
SECONDS = 10.0  # of this process that saving may take
BYTES = 1_500_000  # of the answers, each compressed by itself; together they are a third of it


def explore(f: Callable[..., Any], *, upstream: Any = (-2.0, 2.0), **given: Any) -> Explorer:
    """Slide the arguments of f, and upstream, and watch every number answer.

    Beside the flow are the curves of f and of its gradient over the slider that moves: by the
    custom rule, by automatic differentiation of the body, and by finite differences. A rule that
    ignores upstream stays flat when upstream moves. A number can be dragged in its node, too.

    Args:
        f: A function of tensors, run eagerly.
        upstream: The range of upstream, `(low, high)` or `(low, high, start)`; every entry of
            f's value gets the same. None leaves it at ones.
        **given: By the name of a parameter of f: a range for a number, a list of ranges for the
            entries of a vector, or a value that stays: a tensor or a flag such as `training=False`.
            Others keep their defaults. What has no name of its own, as in `*args` or a Keras
            layer, is `x`; of several `x0`, `x1`.

    Returns:
        The widget. `explorer.trace` is the trace at the place of the sliders.

    Raises:
        TypeError: f has no such parameter, or needs another.
        ValueError: No argument has a range, or one is none or empty.

    Example:
        >>> import cgviz
        >>> cgviz.explore(lambda x: x * x, x=(-3.0, 3.0)).trace.gradients[0].item()
        2.0
    """
    return Explorer(Sweeper(*sliders(f, given, upstream)))


@dataclass(frozen=True)
class Slider:
    """One slider: over an argument, an entry of a vector, or upstream."""

    name: str
    low: float
    high: float
    value: float
    argument: int = -1  # -1: upstream
    entry: int | None = None  # of a vector

    @property
    def upstream(self) -> bool:
        """Whether it moves upstream and not an argument."""
        return self.argument < 0

    def places(self, count: int, value: float) -> list[float]:
        """So many places, to three digits of its range as in the browser, and where it is."""
        unit = 10.0 ** np.floor(np.log10((self.high - self.low) / 100))
        found = np.round(np.linspace(self.low, self.high, count) / unit) * unit
        return sorted({value, *(float(f"{x:.12g}") for x in found)})

    def widest(self) -> str:
        """Its widest number, with a 0 for each digit: digits are equally wide."""
        every = {re.sub(r"\d", "0", style.number(x)) for x in self.places(1001, self.value)}
        return max(every, key=lambda number: extent(number, TITLE))


def sliders(
    f: Any, given: Mapping[str, Any], upstream: Any
) -> tuple[Callable[..., Any], tuple[Slider, ...], tuple[Any, ...]]:
    """What a `Sweeper` takes: a function, its sliders, and its arguments.

    The function calls f, and has the parameters that are neither flags nor left out. The last
    slider is that of upstream. Each other has a placeholder among the arguments.

    Args:
        f: The function.
        given: By parameter: a range `(low, high)` or `(low, high, start)`, a list of ranges for
            the entries of a vector, or a value that stays.
        upstream: A range, or None for no slider.
    """
    if not callable(f):
        raise TypeError(f"`f` must be a function, not {type(f).__name__}")
    name, signature = arguments.title(f), inspect.signature(f)
    # What can be no tensor with a gradient stays as it is.
    flags = {key: x for key, x in given.items() if x is None or isinstance(x, bool | str)}
    names = arguments.parameter_names(f, len(given) - len(flags))
    by_position = given.keys() - flags.keys() == set(names)
    if not by_position:
        names = sorted(given.keys() - flags.keys(), key=[*signature.parameters, *given].index)
    places = {each: object() for each in names}  # in place of the numbers that come later
    bound = None
    if by_position:
        with suppress(TypeError):  # of what takes them by name alone
            bound = signature.bind(*places.values(), **flags)
    try:
        bound = bound or signature.bind(**places, **flags)
    except TypeError as error:
        raise TypeError(f"`{name}` takes {', '.join(signature.parameters)}: {error}") from None

    def call(*numbers: Any) -> Any:
        """By position wherever that can be, for a custom gradient ignores keywords."""
        put = dict(zip(places.values(), numbers, strict=True))
        by_name = {key: put.get(x, x) for key, x in bound.kwargs.items()}
        return f(*(put.get(x, x) for x in bound.args), **by_name)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    called: Any = call
    called.__name__ = name
    called.__signature__ = inspect.Signature([inspect.Parameter(x, kind) for x in names])
    found: list[Slider] = []
    fixed: list[Any] = []
    for place, each in enumerate(names):
        value = given[each]
        if isinstance(value, tuple):
            found.append(_slider(each, value, place))
            value = 0.0
        elif isinstance(value, list) and value and isinstance(value[0], tuple):
            found += [_slider(f"{each}[{k}]", x, place, k) for k, x in enumerate(value)]
            value = [0.0] * len(value)
        fixed.append(value)
    if not found:
        raise ValueError(
            "nothing to slide: give a range for at least one argument, as in "
            f"`explore({name}, {arguments.parameter_names(f, 1)[0]}=(-3.0, 3.0))`"
        )
    if upstream is not None:
        found.append(_slider("upstream", upstream, -1))
    return called, tuple(found), tuple(fixed)


def _slider(name: str, given: Any, argument: int, entry: int | None = None) -> Slider:
    try:
        low, high, *start = (float(x + 0.0) for x in given)  # `float` alone would take "12"
        if not -np.inf < low < high < np.inf or len(start) > 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            f"the range of `{name}` must be `(low, high)` or `(low, high, start)`, low below high, "
            f"not {given!r}"
        ) from None
    value = start[0] if start else 1.0 if low < 1.0 < high else (low + high) / 2
    return Slider(name, low, high, min(max(value, low), high), argument, entry)


class Sweeper:
    """Runs one function at the values of sliders."""

    def __init__(
        self, f: Callable[..., Any], sliders: Sequence[Slider], fixed: Sequence[Any]
    ) -> None:
        self.f, self.sliders, self.fixed = f, tuple(sliders), tuple(fixed)

    def arguments(self, values: Sequence[float]) -> list[Any]:
        """The arguments of f."""
        found = [list(a) if isinstance(a, list) else a for a in self.fixed]
        for slider, value in zip(self.sliders, values, strict=True):
            if slider.entry is not None:
                found[slider.argument][slider.entry] = float(value)
            elif not slider.upstream:
                found[slider.argument] = float(value)
        return found

    def upstream(self, values: Sequence[float]) -> float:
        """The value of upstream; 1 where it has no slider."""
        return float(values[-1]) if self.sliders[-1].upstream else 1.0

    def trace(self, values: Sequence[float], like: Trace | None = None) -> Trace:
        """The trace; `like`, an earlier one, has the value's shape."""
        given, up = self._given(values), self.upstream(values)
        if not self.sliders[-1].upstream:
            return api.trace(self.f, *given)

        def seeded(known: Trace) -> Trace:
            seeds = tf.nest.map_structure(lambda x: np.full_like(x, up), known.value)
            return api.trace(self.f, *given, upstream=seeds)

        if like is not None:
            with suppress(ValueError):  # another branch, a value of another shape
                return seeded(like)
        return seeded(api.trace(self.f, *given))

    def points(self, trace: Trace, focus: int) -> Document:
        """Where the points are on the curves of f and of the rule, over one slider."""
        return {
            "f": _finite(_summed(trace.value)),
            "rule": _finite(self._entry(trace.gradients[self.sliders[focus].argument], focus)),
        }

    def curves(self, values: Sequence[float], active: int, focus: int, custom: bool) -> Document:
        """The curves over the range of one slider, the others as they are.

        Args:
            values: The values of the sliders.
            active: The slider to sweep.
            focus: The slider by which to differentiate; not upstream.
            custom: Whether f has custom rules, so that its body has a derivative of its own.

        Returns:
            The plots, with None where there is no finite number.
        """
        slider, by = self.sliders[active], self.sliders[focus].name
        with silenced():  # a rule that prints has done so already
            start = time.perf_counter()
            self._row(values, focus, custom)
            affordable = int(CURVES / (time.perf_counter() - start))
            xs = np.linspace(slider.low, slider.high, min(max(affordable, FEWEST), POINTS)).tolist()
            rows = [
                self._row([*values[:active], x, *values[active + 1 :]], focus, custom) for x in xs
            ]
        table = np.array(rows)
        if focus == active:  # a difference across a pole is no derivative
            after = np.flatnonzero(curves.starts(table[:, 0], poles=True)[1:]) + 1
            table[[*after, *after - 1], -1] = np.nan
            table[~np.isfinite(table[:, 0]), -1] = np.nan
        name = arguments.title(self.f)
        names = {
            "f": name,
            "rule": "the custom rule" if custom else "autodiff",
            "body": "autodiff of the body",
            "differences": "finite differences",
        }
        f, *derivatives = (
            {"role": role, "name": names[role], "ys": [_finite(np.round(y, 6)) for y in ys]}
            for (role, ys) in zip(names, table.T, strict=True)
            if role != "body" or custom
        )
        known = np.abs(table[np.isfinite(table[:, 0]), 0])
        lost = LOST * max(*known, *map(abs, xs))  # of f; in a difference it counts the more
        up = max(map(abs, xs)) if slider.upstream else abs(self.upstream(values))
        title = f"gradient to {by}"  # not a product: a wrong rule's line is none
        plots = [
            {"title": f"{name}({by})", "lines": [f], "noise": lost},
            {"title": title, "lines": derivatives, "noise": lost * up / self._width(focus)},
        ][slider.upstream :]
        return {"xs": xs, "axis": slider.name, "plots": plots, "active": active}

    def _row(self, values: Sequence[float], focus: int, custom: bool) -> tuple[float, ...]:
        """f, and its derivative by the rule, without it, and by differences, at one point."""
        width = self._width(focus)
        near = [[*values[:focus], values[focus] + x, *values[focus + 1 :]] for x in (width, -width)]
        body = np.nan
        try:
            value, gradient = self._gradient(values, focus)
            ahead, behind = (_summed(self.f(*self._given(each))) for each in near)
            if custom:
                # Not forward mode, because where a body has no derivative, as with a sign, it uses
                # the rule.
                with tf_hooks.rules_ignored():
                    body = self._gradient(values, focus)[1]
        except Exception:  # where f cannot be computed its curves have a gap
            return (np.nan,) * 4
        return value, gradient, body, self.upstream(values) * (ahead - behind) / (2 * width)

    def _width(self, focus: int) -> float:
        """How far to each side a difference is taken."""
        return 2e-3 * (self.sliders[focus].high - self.sliders[focus].low)

    def _given(self, values: Sequence[float]) -> tuple[Any, ...]:
        return arguments.convert(self.f, self.arguments(values), "cgviz.explore")[0]

    def _gradient(self, values: Sequence[float], focus: int) -> tuple[float, float]:
        given, up = self._given(values), self.upstream(values)
        source = given[self.sliders[focus].argument]
        with tf.GradientTape() as tape:
            tape.watch(source)
            value = self.f(*given)
        targets = tf.nest.flatten(value)
        seeds = [tf.fill(tf.shape(t), tf.cast(up, t.dtype)) for t in targets]
        found = tape.gradient(targets, source, output_gradients=seeds)
        found = None if found is None else np.asarray(tf.convert_to_tensor(found))
        return _summed(value), self._entry(found, focus)

    def _entry(self, gradient: Array | None, focus: int) -> float:
        if gradient is None:
            return np.nan
        entry = self.sliders[focus].entry
        return float(gradient if entry is None else gradient[entry])


def _summed(value: Any) -> float:
    """The sum of all numbers of a value: what an upstream of ones differentiates."""
    with np.errstate(all="ignore"):
        return float(sum(np.sum(np.asarray(t, np.float64)) for t in tf.nest.flatten(value)))


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


class Explorer(View):
    """A live picture with sliders.

    Attributes:
        trace: The trace at the values of the sliders.
        values: The values of the sliders, upstream last.
    """

    trace: Trace

    def __init__(self, sweeper: Sweeper) -> None:
        self.sweeper, self.sliders = sweeper, sweeper.sliders
        self.values = [slider.value for slider in self.sliders]
        self.focus = 0  # the slider by which the curves differentiate
        self.trace = sweeper.trace(self.values)
        self.custom = any(op.kind == "custom" for op in self.trace.walk())
        self.swept: Any = None
        self._sweep(0)
        self.moved = {s.name: s.widest() for s in self.sliders if s.entry is None}
        builder = PageBuilder(self.trace, moved=self.moved, framed=False)
        self.signature = display.signature(builder.selection())
        ranges = ", ".join(f"{s.name} from {s.low:g} to {s.high:g}" for s in self.sliders)
        words = f"{summary.title(self.trace)}\nsliders: {ranges}"
        super().__init__([builder], self._extra(), start="end", words=words)
        self.page = self.document["pages"][0]

    def _extra(self) -> Document:
        """The sliders, the curves and the points on them."""
        shown = [
            {"name": s.name, "low": s.low, "high": s.high, "value": x, "upstream": s.upstream}
            for s, x in zip(self.sliders, self.values, strict=True)
        ]
        points = self.sweeper.points(self.trace, self.focus)
        return {"sliders": shown, "curves": self.curves, "points": points}

    def _sweep(self, active: int) -> bool:
        """Draw the curves over a slider, if they depend on what has changed."""
        swept = active, self.focus, (*self.values[:active], *self.values[active + 1 :])
        if swept == self.swept:
            return False
        self.swept = swept
        self.curves = _plotted(self.sweeper.curves(self.values, active, self.focus, self.custom))
        return True

    def _answer(self, content: Document, buffers: Any) -> None:
        """Also move: run f at the values of the sliders, and send what changed."""
        if "move" not in content:
            super()._answer(content, buffers)
            return
        answer: Document = {"moved": content["id"], "settled": bool(content.get("settle"))}
        try:
            answer |= self._moved(content, answer["settled"])
        except Exception as error:  # f is the learner's: whatever it raises is told beside it
            answer["error"] = _told(error)
        self.send(answer)

    def _moved(self, content: Document, settled: bool) -> Document:
        active = int(content["active"])
        self.values = [float(x) for x in content["move"]]
        if not self.sliders[active].upstream:
            self.focus = active
        builder = self._at(self.values)
        self.trace, self.builders = builder.trace, (builder,)
        answer: Document = {"points": self.sweeper.points(self.trace, self.focus)}
        shown = builder.selection()
        signature = display.signature(shown)
        if signature != self.signature:
            self.signature, self.page = signature, builder.page()
            answer["pages"] = [self.page]
        else:
            every = range(len(shown.nodes))
            wanted = every if settled else {content.get("open", -1)} & {*every}
            found = {i: panel.panel(self.trace, shown, i, panel.small) for i in wanted}
            answer |= {"texts": texts_of(shown), "panels": found}
            if settled:
                self.page = self.page | {"texts": answer["texts"], "panels": [*found.values()]}
        if settled:
            if self._sweep(active):
                answer["curves"] = self.curves
            # What a view that is opened later begins with; those that are open know it.
            self._trait_values["document"] = self.document | self._extra() | {"pages": [self.page]}
        return answer

    def _at(self, values: Sequence[float]) -> PageBuilder:
        found = self.sweeper.trace(values, self.trace)
        return PageBuilder(found, self.which, moved=self.moved, framed=False)

    # --- in a saved page ---

    def kept(self) -> Document:
        """The sliders, with what comes at each combination of some of their positions.

        There are the fewer positions the more sliders there are and the slower f is; one of them
        is where the slider is now.
        """
        flows: dict[Any, Document] = {}
        self._kept_at(self.values, flows)  # the first takes longer than those that follow
        times = [time.process_time()]
        first = self._kept_at(self.values, flows)
        times.append(time.process_time())
        self._kept_curves(self.values, 0)
        times.append(time.process_time())
        answer, curve = np.diff(times)
        size, many = len(zlib.compress(json.dumps(first).encode())), len(self.sliders)

        def paid(n: int, moving: int) -> bool:
            all_, each = (n + 1) ** moving, (n + 1) ** (moving - 1)  # one more: where it is
            return all_ * size <= BYTES and all_ * answer + moving * each * curve <= SECONDS

        # Where not even three positions of each can be paid for, the last stay where they are.
        every = ((n, k) for k in range(many, 0, -1) for n in POSITIONS if paid(n, k))
        count, moving = next(every, (0, 0))
        extra = self._extra()
        for k, (slider, shown) in enumerate(zip(self.sliders, extra["sliders"], strict=True)):
            shown["positions"] = slider.places(count * (k < moving), shown["value"])
        fixed = " and ".join(f"`{slider.name}`" for slider in self.sliders[moving:])
        if fixed:
            warnings.warn(
                f"in what is saved {fixed} cannot be moved: the numbers at more positions would "
                f"take over {SECONDS:g} s, or {BYTES / 1e6:g} MB. Slide fewer arguments, or leave "
                "upstream at 1 with upstream=None",
                stacklevel=3,
            )
        places = [slider["positions"] for slider in extra["sliders"]]
        answers, swept = {}, {}
        for at in itertools.product(*(range(len(each)) for each in places)):
            values = [each[i] for each, i in zip(places, at, strict=True)]
            answers[_key(at)] = self._kept_at(values, flows)
            for k in range(moving):
                if at[k] == 0:  # they run over all positions of this one
                    swept[f"{k}|{_key([*at[:k], *at[k + 1 :]])}"] = self._kept_curves(values, k)
        counts = ", ".join(
            f"{len(each['positions'])} of {each['name']}" for each in extra["sliders"]
        )
        about = "Saved without a kernel, with the numbers at some positions of the sliders: "
        kept = {"flows": [*flows.values()], "answers": answers, "curves": swept}
        kept["about"] = f"{about}{counts}."
        return extra | {"kept": kept}

    def _kept_at(self, values: Sequence[float], flows: dict[Any, Document]) -> Document:
        """What is shown at these values; `flows` gets each picture once."""
        try:
            builder = self._at(values)
        except Exception as error:  # f is the learner's
            return {"error": _told(error)}
        shown = builder.selection()
        signature = display.signature(shown)
        if signature not in flows:
            flows[signature] = builder.picture()
        focuses = [k for k, slider in enumerate(self.sliders) if not slider.upstream]
        return {
            "flow": [*flows].index(signature),
            "texts": texts_of(shown),
            "panels": builder.panels(),
            "points": [self.sweeper.points(builder.trace, k) for k in focuses],
        }

    def _kept_curves(self, values: Sequence[float], active: int) -> Document:
        focus = 0 if self.sliders[active].upstream else active
        return _plotted(self.sweeper.curves(values, active, focus, self.custom))


def _plotted(found: Document) -> Document:
    """Curves as the browser draws them."""
    axis, xs = found["axis"], found["xs"]
    drawn = [curves.plot(axis=axis, xs=xs, **each) for each in found["plots"]]
    return {"active": found["active"], "plots": drawn}


def _key(places: Sequence[int]) -> str:
    return ",".join(map(str, places))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
