"""Sliders around a live picture: all numbers of the flow change while a slider moves.

While a slider moves, only numbers are sent; when f takes another branch, a new picture is. Beside
the picture are curves over the range of one slider: f, and its derivative by the custom rule, by
autodiff of the body, and by finite differences. Everything runs eagerly: a `tf.function` would
leave each of its custom gradients in TensorFlow's registry forever.

    explore    a function and ranges -> an Explorer
    Explorer   a View with sliders and curves
    sliders    what `explore` was given -> a function, its sliders and its arguments
    Sweeper    runs a function at the values of sliders
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
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

POINTS = 49  # of a curve: enough to show a bend
LOST = 8 * float(np.finfo(np.float32).eps)  # the share of a number that rounding in a few ops costs
# A jump may lie where f rises more than this share of its rises on both sides together; halving the
# way so many times tells it from a slope.
STEEP, HALVINGS = 0.8, 8
# In a saved page sliders have a few positions, whose numbers are computed beforehand.
POSITIONS = (41, 21, 15, 11, 9, 7, 5, 3)  # of each slider: as many as MOST and BYTES allow
MOST, FEW = 700, 4  # answers for an f of at most so many ops, some 10 s, and fewer for a larger f
CURVE = 13  # a curve takes as long as so many answers
BYTES = 1_500_000  # of the answers, each compressed alone; compressed together they take a third


def explore(f: Callable[..., Any], *, upstream: Any = (-2.0, 2.0), **given: Any) -> Explorer:
    """Slide the arguments of f, and upstream, and watch every number change.

    Where upstream and local are one number each, an arrow reads upstream · local, with ≠ if a rule
    returns something else. Beside the flow are curves over the range of the slider that moves: f,
    and its gradient by the custom rule, by automatic differentiation of the body, and by finite
    differences. The curve of a rule that ignores upstream stays flat when upstream moves. A number
    can also be dragged in its node.

    Args:
        f: A function of tensors, run eagerly.
        upstream: The range of upstream, `(low, high)` or `(low, high, start)`; every entry of
            f's value gets the same number. None keeps upstream at ones.
        **given: By the name of a parameter of f: a range for a number, a list of ranges for the
            entries of a vector, lists of these for a matrix, or a fixed value: a tensor or a flag
            such as `training=False`.
            Other parameters keep their defaults. An argument without a name of its own, as in
            `*args` or a Keras layer, is called `x`; several are `x0`, `x1`.

    Returns:
        The widget; its attribute `trace` is the trace at the values of the sliders.

    Raises:
        TypeError: f is not callable, has no parameter of a given name, or needs another argument.
        ValueError: No argument has a range, or a range is malformed or empty.

    Example:
        >>> import cgviz
        >>> cgviz.explore(lambda x: x * x, x=(-3.0, 3.0)).trace.gradients[0].item()
        2.0
    """
    return Explorer(Sweeper(*sliders(f, given, upstream)))


@dataclass(frozen=True)
class Slider:
    """One slider: over an argument, an entry of an array, or upstream."""

    name: str
    low: float
    high: float
    value: float
    argument: int = -1  # -1: upstream
    entry: tuple[int, ...] = ()  # its index in an array

    @property
    def upstream(self) -> bool:
        """Whether it moves upstream and not an argument."""
        return self.argument < 0

    @property
    def unit(self) -> float:
        """Its values are multiples of this: 100 at most, so that a pointer reaches each of them."""
        return curves.rounded_up((self.high - self.low) / 100)

    def places(self, count: int, value: float) -> list[float]:
        """About `count` round numbers over the range, its ends, and `value`."""
        step = curves.rounded_up((self.high - self.low) / (count - 1))
        every = np.arange(np.ceil(self.low / step), self.high / step) * step
        return sorted({self.low, self.high, value, *(float(f"{x:.12g}") for x in every)})

    def widest(self) -> str:
        """The widest number it takes, with a 0 for each digit: digits are equally wide."""
        every = {re.sub(r"\d", "0", style.number(x)) for x in self.places(1001, self.value)}
        return max(every, key=lambda number: extent(number, TITLE))


def sliders(
    f: Any, given: Mapping[str, Any], upstream: Any
) -> tuple[Callable[..., Any], tuple[Slider, ...], tuple[Any, ...]]:
    """The arguments of a `Sweeper`: a function, its sliders, and its fixed arguments.

    The function calls f; its parameters are those that were given and are no flags. The last slider
    is that of upstream. Every other slider has a placeholder among the fixed arguments.

    Args:
        f: The function.
        given: By parameter: a range `(low, high)` or `(low, high, start)`, nested lists of ranges
            for the entries of an array, or a fixed value.
        upstream: A range, or None for no slider.
    """
    if not callable(f):
        raise TypeError(f"`f` must be a function, not {type(f).__name__}")
    name, signature = arguments.title(f), inspect.signature(f)
    # What cannot be a tensor with a gradient is passed on as it is.
    flags = {key: x for key, x in given.items() if x is None or isinstance(x, bool | str)}
    values = {key: x for key, x in given.items() if key not in flags}
    names = arguments.parameter_names(f, len(values))
    by_position = values.keys() == set(names)
    if not by_position:
        names = sorted(values, key=[*signature.parameters, *given].index)

    def bound(numbers: Sequence[Any]) -> inspect.BoundArguments:
        """By position wherever possible: a custom gradient ignores keywords."""
        if by_position:
            with suppress(TypeError):  # where f takes them by keyword only
                return signature.bind(*numbers, **flags)
        return signature.bind(**dict(zip(names, numbers, strict=True)), **flags)

    def call(*numbers: Any) -> Any:
        found = bound(numbers)
        return f(*found.args, **found.kwargs)

    try:
        bound(names)
    except TypeError as error:
        both = [", ".join(each) for each in (signature.parameters, given)]
        raise TypeError(f"`{name}` takes {both[0]}, and was given {both[1]}: {error}") from None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    called: Any = call
    called.__name__ = name
    called.__signature__ = inspect.Signature([inspect.Parameter(x, kind) for x in names])
    found: list[Slider] = []
    fixed: list[Any] = []
    for place, each in enumerate(names):
        value = given[each]
        ranges = dict(_ranges(value))
        if any(isinstance(x, tuple) for x in ranges.values()):
            found += [_slider(f"{each}{[*at] or ''}", x, place, at) for at, x in ranges.items()]
            value = np.zeros([k + 1 for k in max(ranges)], np.float32)
            if ranges.keys() != set(np.ndindex(value.shape)):
                raise ValueError(f"the lists of ranges of `{each}` must be equally long")
        fixed.append(value)
    if not found:
        raise ValueError(
            "nothing to slide: give a range for at least one argument, as in "
            f"`explore({name}, {arguments.parameter_names(f, 1)[0]}=(-3.0, 3.0))`"
        )
    if upstream is not None:
        found.append(_slider("upstream", upstream, -1))
    return called, tuple(found), tuple(fixed)


def _ranges(given: Any, *index: int) -> Iterator[tuple[tuple[int, ...], Any]]:
    """What nested lists hold, each with its index."""
    if isinstance(given, list):
        for k, each in enumerate(given):
            yield from _ranges(each, *index, k)
    else:
        yield index, given


def _slider(name: str, given: Any, argument: int, entry: tuple[int, ...] = ()) -> Slider:
    try:
        low, high, *start = (float(x + 0.0) for x in given)  # `float` alone would take "12"
        value = start[0] if start else 1.0 if low < 1.0 < high else (low + high) / 2
        if not -np.inf < low <= value <= high < np.inf or low == high or len(start) > 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            f"the range of `{name}` must be `(low, high)` or `(low, high, start)`, finite, "
            f"low below high, start between them, not {given!r}"
        ) from None
    return Slider(name, low, high, value, argument, entry)


@dataclass(frozen=True)
class Sweeper:
    """Runs one function at the values of sliders."""

    f: Callable[..., Any]
    sliders: Sequence[Slider]
    fixed: Sequence[Any]

    def arguments(self, values: Sequence[float]) -> list[Any]:
        """The arguments of f at these values of the sliders."""
        found = [*self.fixed]
        for slider, value in zip(self.sliders, values, strict=True):
            if not slider.upstream:
                found[slider.argument] = array = np.array(found[slider.argument])
                array[slider.entry] = value
        return found

    def upstream(self, values: Sequence[float]) -> float:
        """The value of upstream; 1 where it has no slider."""
        return float(values[-1]) if self.sliders[-1].upstream else 1.0

    def trace(self, values: Sequence[float]) -> Trace:
        """The trace at these values; every entry of f's value gets the same upstream."""
        given = self._given(values)
        return api.trace(self.f, *given, upstream=partial(self._seeds, values))

    def points(self, trace: Trace, focus: int) -> Document:
        """The heights of the points on the curves: f, and its gradient with respect to `focus`."""
        return {
            "f": _finite(_summed(trace.value)),
            "rule": _finite(self._entry(trace.gradients[self.sliders[focus].argument], focus)),
        }

    def curves(self, values: Sequence[float], active: int, focus: int) -> Document:
        """The curves over the range of one slider, with the others left where they are.

        Args:
            values: The values of the sliders.
            active: The slider to sweep.
            focus: The slider with respect to which to differentiate; not that of upstream.

        Returns:
            The x of the points, the name of the axis, and the plots, with None where a number is
            not finite.
        """
        slider, by = self.sliders[active], self.sliders[focus].name
        xs = np.linspace(slider.low, slider.high, POINTS)
        # A rule that prints has done so already; infinity minus infinity is a gap.
        with silenced(), np.errstate(invalid="ignore"):
            rows = [self._row(_put(values, active, x), focus) for x in xs]
            # NaN in place of None; across a jump, the slope depends on the width.
            *columns, wide, narrow, customs = np.array(rows, float).T
            table = np.stack([*columns, wide], 1)
            custom = bool(customs.any())
            known = table[np.isfinite(table[:, 0]), 0]
            # The error of f, which a difference magnifies.
            lost = LOST * np.max(np.abs(known), initial=0.0)
            up = np.max(np.abs(xs)) if slider.upstream else abs(self.upstream(values))
            noise = lost * up / self._width(focus)
            smooth = np.abs(wide - narrow) <= np.abs(wide) / 2 + noise
            table[~(smooth & np.isfinite(table[:, 0])), 3] = np.nan
            after = self._jumps(values, active, xs, table[:, 0], lost)
            between = (table[after - 1] + table[after]) / 2  # a rule may go on where f jumps
            between[table[after - 1] * table[after] < 0] = np.nan  # but not through a pole
        between[:, [0, -1]] = np.nan
        table = np.insert(table, after, between, axis=0)
        xs = np.insert(xs, after, (xs[after - 1] + xs[after]) / 2)
        name = arguments.title(self.f)
        names = {
            "f": name,
            "rule": "the custom rule" if custom else "autodiff",
            "body": "autodiff of the body",
            "differences": "finite differences",
        }
        for role, found in zip(names, [*zip(*rows, strict=True)][: len(names)], strict=True):
            if None in found and not np.isfinite(np.array(found, float)).any():
                names[role] += f": {style.NONE}"
        f, *derivatives = (
            {"role": role, "name": names[role], "ys": [_finite(float(f"{y:.6g}")) for y in ys]}
            for (role, ys) in zip(names, table.T, strict=True)
            if role != "body" or custom
        )
        plots = [  # not "upstream × derivative", which a wrong rule does not give
            {"title": f"{name}({by})", "lines": [f], "noise": lost},
            {"title": f"gradient to {by}", "lines": derivatives, "noise": noise},
        ]
        return {"xs": xs.tolist(), "axis": slider.name, "plots": plots}

    def _jumps(self, values: Sequence[float], active: int, xs: Any, ys: Any, lost: float) -> Any:
        """The points before which f jumps, or has a pole: halving the way does not halve a jump."""
        rise = np.nan_to_num(np.abs(np.diff(ys)), posinf=0.0)
        others = np.append(rise[1], rise[:-1]) + np.append(rise[1:], rise[-2])
        found = []
        for k in np.flatnonzero(rise > STEEP * others + lost).tolist():
            ends = [(xs[k], ys[k]), (xs[k + 1], ys[k + 1])]
            for _ in range(HALVINGS):
                (low, first), (high, last) = ends
                x, y = (low + high) / 2, np.nan
                with suppress(Exception):  # where f cannot be computed
                    y = self._value(_put(values, active, x))
                ends[int(abs(y - first) > abs(last - y))] = x, y
            if not abs(ends[1][1] - ends[0][1]) < rise[k] / 2:
                found.append(k + 1)
        return np.array(found, int)

    def _row(self, values: Sequence[float], focus: int) -> tuple[float | None, ...]:
        """f and its derivative at one point: by the rule, without it, and by two differences.

        The last number is 1 where a custom rule ran.
        """
        body: float | None = np.nan
        try:
            value, gradient = self._gradient(values, focus)
            width = self._width(focus)
            slopes = [self._slope(values, focus, each) for each in (width, width / 2)]
        except Exception:  # where f cannot be computed its curves have a gap
            return *(np.nan,) * 5, 0.0
        # Not forward mode, which uses the rule where the body has no derivative, as with a sign. An
        # op of the body may have no gradient at all.
        with tf_hooks.rules_ignored() as rules, suppress(Exception):
            body = self._gradient(values, focus)[1]
        return value, gradient, body, *slopes, float(bool(rules))

    def _slope(self, values: Sequence[float], focus: int, width: float) -> float:
        """The central difference of f, so far to each side, times upstream."""
        near = (_put(values, focus, values[focus] + x) for x in (width, -width))
        ahead, behind = map(self._value, near)
        return self.upstream(values) * (ahead - behind) / (2 * width)

    def _width(self, focus: int) -> float:
        """How far to each side of a point f is evaluated for a finite difference."""
        return 2e-3 * (self.sliders[focus].high - self.sliders[focus].low)

    def _given(self, values: Sequence[float]) -> tuple[Any, ...]:
        return arguments.convert(self.f, self.arguments(values), "cgviz.explore")[0]

    def _value(self, values: Sequence[float]) -> float:
        return _summed(self.f(*self._given(values)))

    def _seeds(self, values: Sequence[float], targets: Sequence[Any]) -> list[Any]:
        """The upstream of each tensor in a value of f."""
        up = self.upstream(values)  # NumPy's, because ops of TensorFlow would be recorded
        arrays = (np.full(t.shape, up, t.dtype.as_numpy_dtype) for t in targets)
        return [tf.convert_to_tensor(each) for each in arrays]

    def _gradient(self, values: Sequence[float], focus: int) -> tuple[float, float | None]:
        given = self._given(values)
        source = given[self.sliders[focus].argument]
        with tf.GradientTape() as tape:
            tape.watch(source)
            value = self.f(*given)
        targets = arguments.check_value(value, self.f)
        found = tape.gradient(targets, source, output_gradients=self._seeds(values, targets))
        found = None if found is None else np.asarray(tf.convert_to_tensor(found))
        return _summed(value), self._entry(found, focus)

    def _entry(self, gradient: Array | None, focus: int) -> float | None:
        entry = self.sliders[focus].entry
        # A rule may return another shape: the picture shows it, and the curve has a gap.
        if gradient is not None and np.ndim(gradient) != len(entry):
            return np.nan
        return None if gradient is None else float(gradient[entry])


def _put(values: Sequence[float], k: int, x: float) -> list[float]:
    """The values, with x in place of number k."""
    return [*values[:k], x, *values[k + 1 :]]


def _summed(value: Any) -> float:
    """The sum of all numbers of a value: what an upstream of ones differentiates."""
    with np.errstate(all="ignore"):
        return float(sum(np.sum(np.asarray(t, np.float64)) for t in tf.nest.flatten(value)))


def _finite(x: float | None) -> float | None:
    return None if x is None or not np.isfinite(x) else float(x)


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
        self.focus = 0  # the curves differentiate with respect to this slider
        self.trace = sweeper.trace(self.values)
        self.swept: Any = None
        self._sweep(0)
        self.moved = {s.name: s.widest() for s in self.sliders if not s.entry}
        builder = PageBuilder(self.trace, moved=self.moved, framed=False, local=True)
        self.signature = display.signature(builder.selection())
        ranges = ", ".join(f"{s.name} from {s.low:g} to {s.high:g}" for s in self.sliders)
        words = f"{summary.title(self.trace)}\nsliders: {ranges}"
        super().__init__([builder], self._extra(), start="end", words=words)
        self.page = self.document["pages"][0]

    def _extra(self) -> Document:
        """The sliders, the curves and the points on them."""
        shown = [
            {"name": s.name, "low": s.low, "high": s.high, "value": x}
            | {"unit": s.unit, "upstream": s.upstream}
            for s, x in zip(self.sliders, self.values, strict=True)
        ]
        points = self.sweeper.points(self.trace, self.focus)
        return {"sliders": shown, "curves": self.curves, "points": points}

    def _sweep(self, active: int) -> bool:
        """Draw the curves again if what they depend on has changed; return whether it had."""
        others = _put(self.values, active, 0.0)  # where the active one is does not matter
        swept = active, self.focus, others
        if swept == self.swept:
            return False
        self.swept = swept
        self.curves = self._curves(self.values, active, self.focus)
        return True

    def _curves(self, values: Sequence[float], active: int, focus: int) -> Document:
        """Curves as the browser draws them."""
        found = self.sweeper.curves(values, active, focus)
        drawn = [curves.plot(axis=found["axis"], xs=found["xs"], **x) for x in found["plots"]]
        return {"active": active, "plots": drawn}

    def _answer(self, content: Document, buffers: Any) -> None:
        """Also answer a move: run f at the values of the sliders, and send what changed."""
        if "move" not in content:
            super()._answer(content, buffers)
            return
        answer: Document = {"moved": content["id"], "settled": bool(content.get("settle"))}
        try:
            answer |= self._moved(content, answer["settled"])
        except Exception as error:  # f is the learner's: whatever it raises is shown
            answer["error"] = f"{type(error).__name__}: {error}"
        self.send(answer)

    def _moved(self, content: Document, settled: bool) -> Document:
        active = int(content["active"])
        values = [float(x) for x in content["move"]]
        builder = self._at(values)
        self.values = values  # only where f did not raise: what is saved later begins here
        if not self.sliders[active].upstream:
            self.focus = active
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
            found = {i: panel.panel(self.trace, shown, i) for i in wanted}
            answer |= {"texts": texts_of(shown), "panels": found}
            if settled:
                self.page = self.page | {"texts": answer["texts"], "panels": [*found.values()]}
        if settled:
            if self._sweep(active):
                answer["curves"] = self.curves
            # A view that is opened later begins with this; open views already have it.
            self._trait_values["document"] = self.document | self._extra() | {"pages": [self.page]}
        return answer

    def _at(self, values: Sequence[float]) -> PageBuilder:
        found = self.sweeper.trace(values)
        return PageBuilder(found, self.which, moved=self.moved, framed=False, local=True)

    # --- in a saved page ---

    def kept(self) -> Document:
        """The sliders, with the numbers at each combination of their positions.

        The more sliders there are, the fewer positions each of them has. One of them is its present
        value.
        """
        flows: dict[Any, Document] = {}
        first = json.dumps(self._kept_at(self.values, flows))
        size = len(zlib.compress(first.encode()))
        most = MOST * (FEW / max(FEW, sum(1 for _ in self.trace.walk()))) ** 0.5

        def positions(count: int, moving: int) -> list[list[float]]:
            pairs = enumerate(zip(self.sliders, self.values, strict=True))
            return [slider.places(count, x) if k < moving else [x] for k, (slider, x) in pairs]

        def paid(places: list[list[float]]) -> bool:
            counts = [len(each) for each in places if len(each) > 1]
            grid = math.prod(counts)
            swept = sum(grid // each for each in counts)  # curves that span one slider each
            return grid * size <= BYTES and grid + CURVE * swept <= most

        # Where even three positions of each cost too much, the last sliders stay where they are.
        every = (positions(n, k) for k in range(len(self.sliders), 0, -1) for n in POSITIONS)
        places = next(filter(paid, every), positions(0, 0))
        extra = self._extra()
        for slider, own in zip(extra["sliders"], places, strict=True):
            slider["positions"] = own
        still = [slider["name"] for slider in extra["sliders"] if len(slider["positions"]) == 1]
        fixed = " and ".join(f"`{name}`" for name in still)
        if fixed:
            warnings.warn(
                f"in what is saved {fixed} cannot be moved: that would take too long, or over "
                f"{BYTES / 1e6:g} MB. Slide fewer arguments, or leave upstream at 1 with "
                "upstream=None",
                stacklevel=3,
            )
        grid = {
            at: [each[i] for each, i in zip(places, at, strict=True)]
            for at in itertools.product(*(range(len(each)) for each in places))
        }
        answers = {_key(at): self._kept_at(values, flows) for at, values in grid.items()}
        swept = {}
        for at, values in grid.items():
            for k, own in enumerate(places):
                if len(own) > 1 and at[k] == 0:  # curves span all positions of this slider
                    focus = 0 if self.sliders[k].upstream else k
                    key = f"{k}|{_key([*at[:k], *at[k + 1 :]])}"
                    swept[key] = self._curves(values, k, focus)
        counts = ", ".join(
            f"{len(each['positions'])} of {each['name']}" for each in extra["sliders"]
        )
        about = "Saved without a kernel, with the numbers at some positions of the sliders: "
        kept = {"flows": [*flows.values()], "answers": answers, "curves": swept}
        return extra | {"kept": kept | {"about": f"{about}{counts}."}}

    def _kept_at(self, values: Sequence[float], flows: dict[Any, Document]) -> Document:
        """What is shown at these values; a picture that is not yet in `flows` is added to it."""
        try:
            builder = self._at(values)
        except Exception as error:  # f is the learner's
            return {"error": f"{type(error).__name__}: {error}"}
        shown = builder.selection()
        signature = display.signature(shown)
        if signature not in flows:
            flows[signature] = builder.picture()
        focuses = [k for k, slider in enumerate(self.sliders) if not slider.upstream]
        return {
            "flow": [*flows].index(signature),
            "texts": texts_of(shown),
            "panels": panel.panels(builder.trace, shown),
            "points": [self.sweeper.points(builder.trace, k) for k in focuses],
        }


def _key(places: Sequence[int]) -> str:
    return ",".join(map(str, places))
