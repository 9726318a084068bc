"""f and three derivatives of it over a range: the rule's, that of its body, differences.

    Sweeper   draws the curves for one function
    controls  what `explore` was given -> sliders and fixed arguments
    Control   one slider: an argument, an entry of a vector, or upstream

Everything runs eagerly: a `tf.function` would leave each of its custom gradients in TensorFlow's
registry for ever.
"""

from __future__ import annotations

import inspect
import io
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array
from ..recording import arguments, tf_hooks

POINTS, FEWEST = 49, 33
SECONDS = 0.5  # that a sweep may take; a slow function gets fewer points
MOST_ENTRIES = 8  # of a vector that gets a slider each

Document = dict[str, Any]


@dataclass(frozen=True)
class Control:
    """One slider."""

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


def controls(
    f: Any, given: Mapping[str, Any], upstream: Any
) -> tuple[tuple[Control, ...], tuple[Any, ...]]:
    """The sliders, and the arguments of f with a placeholder for each slider.

    Args:
        f: The function.
        given: By parameter: a range `(low, high)` or `(low, high, start)`, a list of ranges for
            the entries of a vector, or a value that stays.
        upstream: A range, or None for no slider.

    Returns:
        The sliders, upstream last, and the arguments.
    """
    names = _parameters(f, given)
    found: list[Control] = []
    fixed: list[Any] = []
    for place, name in enumerate(names):
        value = given[name]
        ranges = value if isinstance(value, list) and value and _is_range(value[0]) else None
        if ranges is not None:
            if len(ranges) > MOST_ENTRIES:
                raise ValueError(
                    f"`{name}` has {len(ranges)} entries, and a slider for each is too much: "
                    f"at most {MOST_ENTRIES}"
                )
            for entry, each in enumerate(ranges):
                found.append(_control(f"{name}[{entry}]", each, place, entry))
            fixed.append([0.0] * len(ranges))
        elif isinstance(value, tuple):
            found.append(_control(name, value, place))
            fixed.append(0.0)
        else:
            fixed.append(value)
    if not found:
        raise ValueError(
            "nothing to slide: give a range for at least one argument, as in "
            f"`explore({arguments.title(f)}, {names[0] if names else 'x'}=(-3.0, 3.0))`"
        )
    if upstream is not None:
        found.append(_control("upstream", upstream, -1))
    return tuple(found), tuple(fixed)


def _parameters(f: Any, given: Mapping[str, Any]) -> list[str]:
    """The parameters of f that are given, in their order."""
    if not callable(f):
        raise TypeError(f"`f` must be a function, not {type(f).__name__}")
    try:
        known = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return list(given)
    if unknown := [name for name in given if name not in known]:
        raise TypeError(
            f"`{arguments.title(f)}` has no parameter `{unknown[0]}`: it takes {', '.join(known)}"
        )
    names = [name for name in known if name in given]
    if names != known[: len(names)]:
        missing = next(name for name in known if name not in given)
        raise TypeError(f"`{arguments.title(f)}` needs `{missing}`: give it a range or a value")
    return names


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple)


def _control(name: str, value: Any, argument: int, entry: int | None = None) -> Control:
    numbers = isinstance(value, tuple) and all(
        isinstance(x, int | float | np.integer | np.floating) for x in value
    )
    if not numbers or len(value) not in (2, 3):
        raise TypeError(
            f"the range of `{name}` must be `(low, high)` or `(low, high, start)`, not {value!r}"
        )
    low, high = float(value[0]), float(value[1])
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"the range of `{name}` is {value!r}: low must be below high")
    start = float(value[2]) if len(value) == 3 else 1.0 if low < 1.0 < high else (low + high) / 2
    return Control(name, low, high, min(max(start, low), high), argument, entry)


class Sweeper:
    """Runs one function at many points, without recording."""

    def __init__(
        self, f: Callable[..., Any], sliders: Sequence[Control], fixed: Sequence[Any]
    ) -> None:
        self.f = f
        self.sliders = tuple(sliders)
        self.fixed = tuple(fixed)

    def arguments(self, values: Sequence[float]) -> list[Any]:
        """The arguments of f with the sliders at these values."""
        found = [list(a) if isinstance(a, list) else a for a in self.fixed]
        for slider, value in zip(self.sliders, values, strict=True):
            if slider.upstream:
                continue
            if slider.entry is None:
                found[slider.argument] = float(value)
            else:
                found[slider.argument][slider.entry] = float(value)
        return found

    def upstream(self, values: Sequence[float]) -> float:
        """The value of upstream; 1 where it has no slider."""
        last = self.sliders[-1]
        return float(values[-1]) if last.upstream else 1.0

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
        slider = self.sliders[active]
        with redirect_stdout(io.StringIO()):  # a rule that prints has done so already
            start = time.perf_counter()
            self._row(values, active, focus, float(values[active]), custom)
            affordable = int(SECONDS / (time.perf_counter() - start))
            xs = np.linspace(slider.low, slider.high, min(max(affordable, FEWEST), POINTS))
            rows = np.array([self._row(values, active, focus, float(x), custom) for x in xs])
        name, by = arguments.title(self.f), self.sliders[focus].name
        plots = []
        if not slider.upstream:
            plots.append({"title": f"{name}({by})", "lines": [_line("f", name, rows[:, 0])]})
        lines = [_line("rule", "the custom rule" if custom else "autodiff", rows[:, 1])]
        if custom:
            lines.append(_line("body", "autodiff of the body", rows[:, 2]))
        lines.append(_line("differences", "finite differences", rows[:, 3]))
        plots.append({"title": f"gradient to {by}: upstream × d{name}/d{by}", "lines": lines})
        return {"xs": xs.tolist(), "plots": plots, "active": active}

    def _row(
        self, values: Sequence[float], active: int, focus: int, x: float, custom: bool
    ) -> list[float]:
        """f, and its derivative by the rule, without it, and by differences, at one point."""
        here = list(values)
        here[active] = x
        up = self.upstream(here)
        width = 2e-3 * (self.sliders[focus].high - self.sliders[focus].low)
        ahead, behind = list(here), list(here)
        ahead[focus] += width
        behind[focus] -= width
        try:
            value, gradient = self._gradient(here, focus, up)
            slope = up * (self._value(ahead) - self._value(behind)) / (2 * width)
            body = self._body(here, focus, up) if custom else np.nan
        except Exception:  # where f cannot be computed its curves have a gap
            return [np.nan] * 4
        return [value, gradient, body, slope]

    def _given(self, values: Sequence[float]) -> tuple[Any, ...]:
        return arguments.convert(self.f, self.arguments(values), "cgviz.explore")[0]

    def _value(self, values: Sequence[float]) -> float:
        return summed(self.f(*self._given(values)))

    def _gradient(self, values: Sequence[float], focus: int, up: float) -> tuple[float, float]:
        given = self._given(values)
        source = given[self.sliders[focus].argument]
        with tf.GradientTape() as tape:
            tape.watch(source)
            value = self.f(*given)
        targets = tf.nest.flatten(value)
        seeds = [tf.fill(tf.shape(t), tf.cast(up, t.dtype)) for t in targets]
        found = tape.gradient(targets, source, output_gradients=seeds)
        return summed(value), self._entry(found, focus)

    def _body(self, values: Sequence[float], focus: int, up: float) -> float:
        """The gradient as if no custom gradient had a rule.

        Not forward mode, because where a body has no derivative, as with a sign, it uses the rule.
        """
        with tf_hooks.rules_ignored():
            return self._gradient(values, focus, up)[1]

    def _entry(self, gradient: Any, focus: int) -> float:
        if gradient is None:
            return float("nan")
        array = np.asarray(tf.convert_to_tensor(gradient))
        entry = self.sliders[focus].entry
        return float(array if entry is None else array[entry])


def summed(value: Any) -> float:
    """The sum of all numbers of a value: what an upstream of ones differentiates."""
    with np.errstate(all="ignore"):
        return float(sum(np.sum(np.asarray(t, np.float64)) for t in tf.nest.flatten(value)))


def _line(role: str, name: str, ys: Array) -> Document:
    return {
        "role": role,
        "name": name,
        "ys": [round(float(y), 6) if np.isfinite(y) else None for y in ys],
    }
