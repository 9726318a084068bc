"""What went wrong with the gradients of a training: since which step, and where first.

`QUESTIONS` are the records that `diagnose` asks a history, in this order. Each is a function that
yields findings; a new question is a new function in the tuple, and its test. Only the steps before
a NaN or an infinity are asked about anything else: afterwards every number is its consequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np

from .. import lessons, style
from ..findings import Finding
from ..graph import Op
from ..history import History, Series
from .diagnosis import Diagnosis

# Root mean squares of gradients along the depth. Twelve healthy networks of up to 20 layers, some
# badly initialised, stay within 1e-3 to 1e3; sigmoids lose a factor of 4 or more per layer.
VANISHING = 1e-4
EXPLODING = 1e4
# Through so many ops of one type, as the steps of a recurrent network, less is left of anything.
REPEATED = 10
LOST_WITH_STEPS = 1e-6
# Updates over weights: about 1e-3 is usual, and Adam's first steps reach some 1e-2.
LARGE_UPDATE = 0.1
OFTEN = 0.25  # of the steps: what happens more rarely is a hiccup
UNDERFLOW = 0.25  # of the entries: more new zeros than rounding makes of an ordinary gradient
GROWN = 1e3  # a gradient so many times its first size, while the target grows too


def diagnose(history: History) -> Diagnosis:
    """The findings about a history, the first in time first."""
    if not history.steps:
        raise ValueError("nothing was recorded: the history has 0 steps")
    found: list[tuple[int, Finding]] = []
    end = len(history)
    for ask in QUESTIONS:
        for place, finding in ask(history, end):
            found.append((place, finding))
            if ask is not_finite:
                end = place
    found.sort(key=lambda pair: pair[0])
    return Diagnosis("the history", [finding for _, finding in found], "the gradients flow.")


Found = Iterator[tuple[int, Finding]]


def not_finite(history: History, end: int) -> Found:
    """The first NaN or infinity: a value in forward order, else a gradient in backward order."""
    every = list(history.series.values())
    for place in range(end):
        for series in every:
            what = series.value_state[place]
            if series.kind != "input" and what in ("nan", "inf"):
                yield place, _finding(
                    history, what, series, place,
                    f"the value of `{series.name}` is {_word(what)}, first of all ops in forward "
                    "order; every NaN and infinity after it follows from it.",
                    "Look at its inputs in `history.trace(...)` of the step before. A learning "
                    "rate that is too large is the most frequent cause.",
                    lessons.STABILITY,
                )  # fmt: skip
                return
        for series in reversed(every):
            upstream_is_fine = series.kind in ("op", "custom") and series.state[place] == ""
            if upstream_is_fine and series.returned_state[place] in ("nan", "inf"):
                yield place, _finding(
                    history, "nan", series, place,
                    f"the rule of `{series.name}` makes NaN or infinity of a finite upstream.",
                    "Look at its values in `history.trace(...)`: a root, a logarithm or a division "
                    "at 0, or an overflow.",
                    lessons.STABILITY,
                )  # fmt: skip
                return


def none(history: History, end: int) -> Found:
    """Variables whose gradient was asked for and is None."""
    moves = end > 1 and len(set(history.target[:end])) > 1
    for series in history.variables.values():
        place = _since(series, "none", end)
        if place is not None:
            ends = (style.number(history.target[i]) for i in (place, end - 1))
            still = f" The target still moves, from {' to '.join(ends)}." if moves else ""
            yield place, _finding(
                history, "none", series, place,
                f"the gradient of `{series.name}` is None.{still}",
                "`history.trace(...).diagnose()` says where it is lost.",
                lessons.DEBUGGING,
            )  # fmt: skip


def dead(history: History, end: int) -> Found:
    """Ops that return 0 for every entry of an upstream that is not 0, and stay so."""
    told: set[str] = set()
    for series in reversed(list(history.ops.values())):
        lost = np.asarray(series.lost[:end]) == 1.0
        alive = np.asarray([not s for s in series.state[:end]])
        place = _tail(lost & alive)
        if place is None:
            continue
        behind = _reached(history, series)
        starved = tuple(v for v in behind if _since(history.series[v], "zero", end) is not None)
        if not starved or told.issuperset(starved):
            continue  # another path feeds them, as at a product with a constant 0
        told |= set(starved)
        dying = "relu" in series.type.lower()
        yield place, _finding(
            history, "zero", series, place,
            f"`{series.name}` returns 0 for every entry of its upstream"
            + (", as all its inputs are negative (a dying ReLU)." if dying else ".")
            + f" So the gradient of {_listed(starved)} is 0.",
            "A smaller learning rate, another initial bias, or leaky_relu keeps it alive."
            if dying
            else "A derivative of 0 stops learning; a surrogate rule can replace it.",
            lessons.KINKS,
            sources=starved,
        )  # fmt: skip
    for series in history.variables.values():
        place = _since(series, "zero", end)
        if place is not None and series.name not in told:
            yield place, _finding(
                history, "zero", series, place,
                f"the gradient of `{series.name}` is 0 in every entry.",
                "`history.trace(...).diagnose()` says where it is lost.",
                lessons.DEBUGGING,
            )  # fmt: skip


def underflow(history: History, end: int) -> Found:
    """Gradients of half precision that round to 0 on their way."""
    for series in reversed(list(history.ops.values())):
        if series.dtype not in ("float16", "bfloat16") or "relu" in series.type.lower():
            continue
        more = np.asarray(series.lost[:end]) - np.asarray(series.zeros[:end]) > UNDERFLOW
        place = _often(more & (np.asarray(series.lost[:end]) < 1.0))
        if place is not None:
            share = style.number(100 * series.lost[place], 2)
            yield place, _finding(
                history, "zero", series, place,
                f"{share} % of what `{series.name}` returns is 0 in {series.dtype}, where its "
                "upstream is not: too small for the type (underflow).",
                "Scale the loss up and the gradients down again "
                "(tf.keras.mixed_precision.LossScaleOptimizer), or use float32 here.",
                lessons.STABILITY,
            )  # fmt: skip
            return


def depth(history: History, end: int) -> Found:
    """Gradients that shrink or grow along the depth."""
    if end == 0:
        return
    weights = [s for s in history.variables.values() if s.size > 1 and _ordinary(s, end)]
    told = False
    if len(weights) > 2:
        ratio = _ratio(weights[0], weights[-1], end)
        for what, out in (("vanishing", ratio < VANISHING), ("exploding", ratio > EXPLODING)):
            place = _often(out)
            if place is not None:
                told = True
                times = style.number(float(np.median(ratio[out])), 2)
                yield place, _finding(
                    history, what, weights[0], place,
                    f"the gradient of `{weights[0].name}` is {times} times that of "
                    f"`{weights[-1].name}`, per entry: it {_verb(what)} on its way through "
                    f"{len(weights)} layers.",
                    "Another activation, a normalisation, residual connections or another scale "
                    "of the initial weights keep it level.",
                    lessons.STABILITY,
                )  # fmt: skip
    by_type = sorted((s for s in history.ops.values() if _ordinary(s, end)), key=lambda s: s.type)
    for kind, group in groupby(by_type, key=lambda s: s.type):
        repeated = list(group)
        if told or len(repeated) < REPEATED:
            continue
        ratio = _ratio(repeated[0], repeated[-1], end)
        grown = 1 / LOST_WITH_STEPS
        for what, out in (("vanishing", ratio < LOST_WITH_STEPS), ("exploding", ratio > grown)):
            place = _often(out)
            if place is not None and not told:
                told = True
                times = style.number(float(np.median(ratio[out])), 2)
                yield place, _finding(
                    history, what, repeated[0], place,
                    f"the gradient {_verb(what)} through {len(repeated)} ops of type {kind}: at "
                    f"`{repeated[0].name}` it is {times} times that at `{repeated[-1].name}`.",
                    "Shorter sequences, gates (LSTM, GRU), clipping, or weights whose largest "
                    "singular value is near 1 keep it level.",
                    lessons.STABILITY,
                )  # fmt: skip


def growth(history: History, end: int) -> Found:
    """Gradients that grow from step to step, and the target with them."""
    if end < 3 or not abs(history.target[end - 1]) > abs(history.target[0]):
        return
    worst: tuple[int, Series] | None = None
    for series in history.variables.values():
        gradient = np.asarray(series.gradient[:end])
        if _ordinary(series, end) and gradient[0] > 0:
            place = _tail(gradient > GROWN * gradient[0])
            if place is not None and (worst is None or place < worst[0]):
                worst = place, series
    if worst is not None:
        place, series = worst
        yield place, _finding(
            history, "exploding", series, place,
            f"the gradient of `{series.name}` is more than {GROWN:.0f} times that of the first "
            "step, and the target grows as well.",
            "The learning rate is too large, or the sign of the update is wrong.",
            lessons.STABILITY,
        )  # fmt: skip


def frozen(history: History, end: int) -> Found:
    """Variables that take part, and that no step moves."""
    for series in history.variables.values():
        moves = np.asarray(series.update[:end])
        if not series.dtype.startswith(("float", "bfloat", "complex")):
            continue  # such as the state of a random generator
        if series.name not in history.ancestors or not moves.size or np.any(moves > 0):
            continue
        if all(state in ("unasked", "") for state in series.state[:end]):
            asked = series.state[0] != "unasked"
            yield 0, _finding(
                history, "frozen", series, 0,
                f"no step moves `{series.name}`"
                + (" although it has a gradient." if asked else ": no gradient is taken of it."),
                "Is it among the variables that are given to the optimiser? If it is meant to "
                "stay as it is, all is well.",
                lessons.VARIABLES,
                level="warning",
            )  # fmt: skip


def large_updates(history: History, end: int) -> Found:
    """Steps that move a variable by a large part of itself."""
    found = []
    for series in history.variables.values():
        update, value = np.asarray(series.update[:end]), np.asarray(series.value[:end])
        if series.size > 1 and value.size and value[0] > 0:
            place = _often(update > LARGE_UPDATE)
            if place is not None:
                found.append((place, float(np.nanmedian(update)), series))
    if found:
        place, size, series = min(found, key=lambda each: (each[0], -each[1]))
        others = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        yield place, _finding(
            history, "update", series, place,
            f"a step moves `{series.name}` by {style.number(size, 2)} of its own norm{others}; "
            "about 0.001 is usual.",
            "Try a learning rate ten times smaller.",
            lessons.STABILITY,
            level="warning",
        )  # fmt: skip


QUESTIONS: tuple[Callable[[History, int], Found], ...] = (
    not_finite,
    none,
    dead,
    underflow,
    depth,
    growth,
    frozen,
    large_updates,
)


# --- helpers -------------------------------------------------------------------------------------


def _finding(
    history: History,
    what: str,
    series: Series,
    place: int,
    message: str,
    hint: str,
    lesson: str,
    *,
    sources: Sequence[str] = (),
    level: str = "error",
) -> Finding:
    when = "from the first step on" if place == 0 else f"since step {history.steps[place]}"
    where = f" ({series.source})" if series.source else ""
    return Finding(
        what,
        f"{when}, {message}{where}",
        hint,
        lesson,
        _op(history, series.name),
        tuple(sources) or ((series.name,) if series.kind == "variable" else ()),
        history.which,
        level=level,
    )


def _op(history: History, name: str) -> Op | None:
    """The op of a series, as one of the kept traces has it."""
    for trace in reversed(list(history.traces.values())):
        for op in trace.ops:
            if op.name == name:
                return op
    return None


def _word(what: str) -> str:
    return {"nan": "NaN", "inf": "infinite"}[what]


def _verb(what: str) -> str:
    return {"vanishing": "shrinks", "exploding": "grows"}[what]


def _listed(names: Sequence[str]) -> str:
    shown = [f"`{name}`" for name in names[:3]]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


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


def _ordinary(series: Series, end: int) -> bool:
    return not any(series.state[:end])


def _ratio(early: Series, late: Series, end: int) -> np.ndarray:
    """Per step: the gradient per entry of one over that of another."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(early.rms[:end] / late.rms[:end], nan=1.0)


def _reached(history: History, series: Series) -> list[str]:
    """The variables whose gradient comes through an op: those among its ancestors."""
    found: dict[str, None] = {}
    waiting = [series.name]
    seen = set(waiting)
    while waiting:
        each = history.series.get(waiting.pop())
        if each is None:
            continue
        if each.kind == "variable":
            found[each.name] = None
        new = [name for name in each.inputs if name not in seen]
        seen.update(new)
        waiting += new
    return [name for name in history.variables if name in found]
