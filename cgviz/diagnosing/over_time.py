"""What went wrong with the gradients of a training: since which step, and where first.

`QUESTIONS` are asked of a history in this order; each yields what it has seen. Only
the steps before a NaN or an infinity are asked about anything else: afterwards every number is its
consequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from .. import lessons, style
from ..drawing.history_figure import titles
from ..findings import Finding
from ..graph import Op, wide
from ..history import History, Series, ancestors
from .diagnosis import Diagnosis
from .pass_graph import listed
from .scale import GROWN

# Root mean squares of gradients along the depth, first layer over last. The derivative of a sigmoid
# is at most 1/4, so ten layers of them lose 1e-6; the healthy trainings of the tests pass.
VANISHING = 1e-4
EXPLODING = 1e4
# Through so many ops of one type, as the steps of a recurrent network, less is left of anything.
REPEATED = 10
LOST_WITH_STEPS = 1e-6
# Updates over weights: about 1e-3 is usual, and Adam's first steps reach some 1e-2.
LARGE_UPDATE = 0.1
OFTEN = 0.25  # of the steps: what happens more rarely is a hiccup
UNDERFLOW = 0.25  # of the entries: more new zeros than rounding makes of an ordinary gradient
ROUNDING = 1e-5  # of what is compared: a sum of float32 in another order differs by less
WORDS = {"nan": "NaN", "inf": "infinite"}


HINTS = {
    "value": "Look at its inputs one step before; most often the learning rate is too large.",
    "rule": "Look at its values: a root, a logarithm or a division at 0, or an overflow.",
    "lost": "`history.trace(...).diagnose()` says where it is lost.",
    "dying": "A smaller learning rate, another initial bias, or leaky_relu keeps it alive.",
    "dead": "A derivative of 0 stops learning; a surrogate rule can replace it.",
    "underflow": "Use float32 here, or tf.keras.mixed_precision.LossScaleOptimizer.",
    "layers": "Normalisation, residual connections, or another activation or initial scale help.",
    "repeated": "Shorter sequences, gates (LSTM, GRU), clipping, or orthogonal weights help.",
    "growth": "The learning rate is too large, or the sign of the update is wrong.",
    "frozen": "Is it given to the optimiser? If it is meant to stay as it is, all is well.",
    "update": "Try a learning rate ten times smaller.",
}
LESSONS = {  # by the hint; the others are numbers that are too large or too small
    "lost": lessons.DEBUGGING,
    "dying": lessons.KINKS,
    "dead": lessons.KINKS,
    "frozen": lessons.VARIABLES,
}
WARNINGS = ("frozen", "update")  # what may be meant so


class Seen(NamedTuple):
    """What went wrong: since which recorded step, at which series, in words."""

    what: str  # "none", "zero", "nan", ...; as a finding's
    place: int
    series: Series
    words: str
    hint: str  # a key of `HINTS`
    sources: tuple[str, ...] = ()


def diagnose(history: History) -> Diagnosis:
    """The findings about a history, the first in time first."""
    if not history.steps:
        raise ValueError("nothing was recorded: the history has 0 steps")
    seen: list[Seen] = []
    end = len(history)
    for ask in QUESTIONS:
        found = list(ask(history, end))
        seen += found
        if ask is not_finite and found:
            end = found[0].place
    seen.sort(key=lambda each: each.place)
    findings = [_finding(history, each) for each in seen]
    return Diagnosis("the history", findings, "the gradients flow.")


def _finding(history: History, seen: Seen) -> Finding:
    series, place = seen.series, seen.place
    when = f"since step {history.steps[place]}" if place else "from the first step on"
    where = f" ({series.source})" if series.source else ""
    return Finding(
        seen.what,
        f"{when}, {seen.words}{where}",
        HINTS[seen.hint],
        LESSONS.get(seen.hint, lessons.STABILITY),
        _op(history, series.name),
        seen.sources or (series.name,) * (series.kind == "variable"),
        history.which,
        level="warning" if seen.what in WARNINGS else "error",
    )


def not_finite(history: History, end: int) -> Iterator[Seen]:
    """The first NaN or infinity: a value in forward order, else a gradient in backward order."""
    every = [series for series in history.series.values() if series.kind != "input"]
    for place in range(end):
        for series in every:
            what = series.value_state[place]
            if what in WORDS:
                words = (
                    f"the value of `{series.name}` is {WORDS[what]}, first of all ops in forward "
                    "order; every NaN and infinity after it follows from it."
                )
                yield Seen(what, place, series, words, "value")
                return
        for series in reversed(every):
            what = series.returned_state[place] if series.kind != "variable" else ""
            if what in WORDS and not series.state[place]:
                words = f"the rule of `{series.name}` makes {WORDS[what]} of a finite upstream."
                yield Seen(what, place, series, words, "rule")
                return


def none(history: History, end: int) -> Iterator[Seen]:
    """Variables whose gradient was asked for and is None."""
    for series in history.variables.values():
        place = _since(series, "none", end)
        if place is not None:
            first, last = (style.number(history.target[i]) for i in (place, end - 1))
            moves = f" The target still moves, from {first} to {last}." if first != last else ""
            words = f"the gradient of `{series.name}` is None.{moves}"
            yield Seen("none", place, series, words, "lost")


def zero(history: History, end: int) -> Iterator[Seen]:
    """Variables whose gradient is 0, with the op that made it so.

    That op returns 0 for every entry of an upstream that is not 0, and stays so.
    """
    known = history.series
    starved = [n for n, s in history.variables.items() if _since(s, "zero", end) is not None]
    for series in reversed(list(history.ops.values())):
        alive = np.asarray([not state for state in series.state[:end]], bool)
        place = _tail((np.asarray(series.lost[:end]) == 1.0) & alive)
        before = ancestors([series.name], lambda name: getattr(known.get(name), "inputs", ()))
        mine = tuple(name for name in starved if name in before)
        if place is not None and mine:
            starved = [name for name in starved if name not in mine]
            dying = "relu" in series.type.lower()
            why = ", as all its inputs are negative (a dying ReLU)" if dying else ""
            words = (
                f"`{series.name}` returns 0 for every entry of its upstream{why}. "
                f"So the gradient of {listed(f'`{name}`' for name in mine)} is 0."
            )
            yield Seen("zero", place, series, words, "dying" if dying else "dead", mine)
    for name in starved:
        series = history.series[name]
        place = _since(series, "zero", end) or 0
        yield Seen("zero", place, series, f"the gradient of `{name}` is 0 in every entry.", "lost")


def underflow(history: History, end: int) -> Iterator[Seen]:
    """Gradients of half precision that round to 0 on their way."""
    for series in reversed(list(history.ops.values())):
        if series.dtype not in ("float16", "bfloat16") or "relu" in series.type.lower():
            continue
        lost = np.asarray(series.lost[:end])
        place = _often((lost - np.asarray(series.zeros[:end]) > UNDERFLOW) & (lost < 1.0))
        if place is not None:
            words = (
                f"{style.number(100 * lost[place], 2)} % of what `{series.name}` returns is 0 in "
                f"{series.dtype}, where its upstream is not: too small for the type (underflow)."
            )
            yield Seen("zero", place, series, words, "underflow")
            return


def depth(history: History, end: int) -> Iterator[Seen]:
    """Gradients that shrink or grow along the depth: layer by layer, or through repeated ops."""
    every = [s for s in history.series.values() if end and not any(s.state[:end])]
    weights = [s for s in every if s.kind == "variable" and s.size > 1]
    rows = [("layers", weights, 3, VANISHING, EXPLODING)]
    ops = sorted((s for s in every if s.kind in ("op", "custom")), key=lambda s: s.type)
    for _, repeated in groupby(ops, key=lambda s: s.type):
        rows.append(("repeated", list(repeated), REPEATED, LOST_WITH_STEPS, 1 / LOST_WITH_STEPS))
    for cause, row, fewest, low, high in rows:
        if len(row) < fewest:
            continue
        first, last = row[0], row[-1]
        with np.errstate(all="ignore"):
            ratio = np.nan_to_num(first.rms[:end] / last.rms[:end], nan=1.0)
        for what, verb, out in (
            ("vanishing", "shrinks", ratio < low),
            ("exploding", "grows", ratio > high),
        ):
            place = _often(out)
            if place is not None:
                times = style.number(float(np.median(ratio[out])), 2)
                through = f"ops of type {first.type}" if cause == "repeated" else "layers"
                words = (
                    f"the gradient of `{first.name}` is {times} times that of `{last.name}`, per "
                    f"entry: it {verb} on its way through {len(row)} {through}."
                )
                yield Seen(what, place, first, words, cause)
                return


def growth(history: History, end: int) -> Iterator[Seen]:
    """Gradients that grow from step to step, and the target with them."""
    if end < 3 or not abs(history.target[end - 1]) > abs(history.target[0]):
        return
    found = []
    for series in history.variables.values():
        gradient = np.asarray(series.gradient[:end])
        if gradient[0] > 0:
            place = _tail(gradient > GROWN * gradient[0])
            found += [] if place is None else [(place, series)]
    if found:
        place, series = min(found, key=lambda each: each[0])
        words = (
            f"the gradient of `{series.name}` is more than {GROWN:.0f} times that of the first "
            "step, and the target grows as well."
        )
        yield Seen("exploding", place, series, words, "growth")


def frozen(history: History, end: int) -> Iterator[Seen]:
    """Variables that take part, and that no step moves."""
    for series in history.variables.values():
        # Others than floats are such as the state of a random generator.
        floats = series.dtype.startswith(("float", "bfloat", "complex"))
        moved = np.any(np.asarray(series.update[:end]) > 0)
        usual = all(state in ("unasked", "") for state in series.state[:end])
        if floats and series.name in history.ancestors and series.update and usual and not moved:
            asked = series.state[0] != "unasked"
            why = " although it has a gradient." if asked else ": no gradient is taken of it."
            yield Seen("frozen", 0, series, f"no step moves `{series.name}`{why}", "frozen")


def large_updates(history: History, end: int) -> Iterator[Seen]:
    """Steps that move a variable by a large part of itself."""
    found = []
    for series in history.variables.values():
        update = np.asarray(series.update[:end])
        if series.size > 1 and update.size and series.value[0] > 0:
            place = _often(update > LARGE_UPDATE)
            found += [] if place is None else [(place, -float(np.nanmedian(update)), series)]
    if found:
        place, size, series = min(found, key=lambda each: each[:2])
        others = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        words = (
            f"a step moves `{series.name}` by {style.number(-size, 2)} of its own norm{others}; "
            "about 0.001 is usual."
        )
        yield Seen("update", place, series, words, "update")


QUESTIONS = (not_finite, none, zero, underflow, depth, growth, frozen, large_updates)


# --- two trainings -------------------------------------------------------------------------------


def parted(history: History, against: History) -> str:
    """Say at which step and op two trainings part, with the numbers.

    What is compared is every value in forward order, then every gradient in backward order: entry
    by entry where both kept the trace of a step, else by the norms.
    """
    first, second = titles([history, against])
    for place, step in enumerate(history.steps):
        if step not in against.steps:
            continue
        whole = step in history.traces and step in against.traces
        mine = _flow(history, place, whole)
        theirs = _flow(against, against.steps.index(step), whole)
        if len(mine) != len(theirs):  # the programs differ: by what both have
            both = {name for name, _ in mine} & {name for name, _ in theirs}
            mine, theirs = ([each for each in row if each[0] in both] for row in (mine, theirs))
        for (name, one), (its, other) in zip(mine, theirs, strict=True):
            if not _close(one, other):
                what = "" if whole else "the norm of "
                there = f" ({its})" if its != name else ""
                return (
                    f"They part at step {step}: {what}{name} is {style.array(one)} in {first} and "
                    f"{style.array(other)} in {second}{there}. Before that all numbers agree."
                )
    return f"They do not part in {len(history)} recorded steps."


def _flow(history: History, place: int, whole: bool) -> list[tuple[str, Any]]:
    """All that flows in one step, in its order, each with its words: arrays, or else norms."""
    found: list[tuple[str, Any]] = []
    if not whole:
        series = [s for s in history.series.values() if s.name in history.ancestors]
        found += [(f"the value of `{s.name}`", s.value[place]) for s in series]
        return found + [(f"the gradient of `{s.name}`", s.gradient[place]) for s in series[::-1]]
    trace = history.traces[history.steps[place]]
    for op in trace.ops:
        # Not what runs after the pass, such as the update.
        if op.name in history.ancestors and op.outputs and op.outputs[0].differentiable:
            found.append((f"the value of `{op.name}`", op.outputs[0].numpy()))
    for step in trace.pass_(history.which).steps:
        for used, given in zip(step.op.inputs, step.downstream, strict=True):
            to = trace.producer(used)
            found.append(
                (f"what `{step.op.name}` returns{f' to `{to[0].name}`' if to else ''}", given)
            )
    return found


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if np.shape(one) != np.shape(other):
        return False
    one, other = wide(one), wide(other)
    least = ROUNDING * np.max(np.abs(one), initial=0.0, where=np.isfinite(one))
    return np.allclose(one, other, ROUNDING, least, equal_nan=True)


# --- helpers -------------------------------------------------------------------------------------


def _op(history: History, name: str) -> Op | None:
    """The op of a series, as one of the kept traces has it."""
    ops = (op for trace in reversed(list(history.traces.values())) for op in trace.ops)
    return next((op for op in ops if op.name == name), None)


def _tail(holds: np.ndarray) -> int | None:
    """Since when something holds up to the end; None if it does not hold at the end."""
    broken = np.flatnonzero(~holds)
    first = int(broken[-1]) + 1 if broken.size else 0
    return first if first < len(holds) else None


def _often(holds: np.ndarray) -> int | None:
    """When something first holds, if it holds in a good part of the steps."""
    return int(np.argmax(holds)) if holds.size and holds.mean() >= OFTEN else None


def _since(series: Series, state: str, end: int) -> int | None:
    return _tail(np.asarray([s == state for s in series.state[:end]], bool)) if end else None
