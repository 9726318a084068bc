"""`trace.diagnose()` and `history.diagnose()`: where a gradient went wrong, since when, and why.

`QUESTIONS` are asked of each backward pass of a trace, `OVER_TIME` and three more of a training.
Their answers come from the `Cause` records here and in the modules of the questions. `parted` says
where two trainings begin to differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from .. import style
from ..findings import Finding, Outcome
from ..graph import Op, Trace, Value, differentiates, ratio, wide, wide_norm
from ..graph.names import value_name
from ..graph.trace import walk
from ..history import History, Series, makers
from ..lessons import STABILITY, VARIABLES
from ..reading.format import counted, told_apart
from . import none, numbers, sizes
from .pass_graph import Cause, PassGraph, listed

QUESTIONS: tuple[Callable[[PassGraph], list[Finding]], ...] = (
    numbers.values,
    none.dropped,
    none.find,
    none.beside,
    sizes.shapes,
    numbers.not_finite,
    numbers.zero,
    numbers.underflow,
    sizes.scale,
)

BROKEN = ("nan", "inf", "exploding")
GREW = " If the numbers grew from step to step, make the learning rate ten times smaller."


class Diagnosis(Outcome, Sequence[Finding]):
    """The result of `diagnose()`: a sequence, each a `Finding`, empty if all is well.

    `.ok` is True where none is an error; `.notes` are remarks.
    """

    def __init__(
        self, title: str, told: Sequence[Finding], healthy: str, notes: Iterable[str] = ()
    ) -> None:
        self.remarks = tuple(each for each in told if each.level == "note")
        texts = (f"{each.message} {each.hint}" for each in self.remarks)
        remarks = dict.fromkeys(text[0].upper() + text[1:] for text in texts)
        findings = [each for each in told if each.level != "note"]
        super().__init__(title, findings, [*remarks, *notes])
        said = counted(len(self), "finding") if self.findings else healthy
        self.headline = f"diagnosis of {title}: {said}"

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: Any) -> Any:
        return self.findings[index]


def diagnose(trace: Trace, which: int | None = None) -> Diagnosis:
    """The implementation of `trace.diagnose`."""
    chosen = trace.passes if which is None else (trace.pass_(which),)
    graphs = [PassGraph(trace, each) for each in chosen]
    every = () if graphs else [v for op in trace.ops for v in op.outputs]
    found = [(0, each) for each in numbers.forward(trace, every)]  # (training step, finding)
    for graph in graphs:
        found += [(graph.training_step, each) for ask in QUESTIONS for each in ask(graph)]
    first = min((step for step, each in found if each.what in BROKEN), default=math.inf)
    told = [x for step, x in found if x.what == "none" or step <= first]  # the rest follows
    if first:
        told = [replace(x, hint=x.hint + GREW) if _may_have_grown(x) else x for x in told]
    told = [*growing(graphs), *told]
    notes = [*_integers(trace, graphs), *trace.notes]
    return Diagnosis(trace.title, _unique(told, trace), _healthy(trace, graphs), notes)


def _may_have_grown(each: Finding) -> bool:
    """Whether weights that grew can be the reason: not at what was given, nor at a log near 0."""
    given = each.op and (each.op.kind in ("input", "constant") or each.op.type == "Log")
    return each.what in BROKEN and not given


GROWING = Cause("exploding", STABILITY, level="warning").says(
    "in the last pass the gradient of {who} is {times} times as large as in the first, and the "
    "target has grown too.",
    "Make the learning rate ten times smaller, or check the sign; `cgviz.watch` shows each step.",
)


def growing(graphs: Sequence[PassGraph]) -> Iterator[Finding]:
    """Gradients that grow, and the target with them, between the first and the last pass of a loop.

    The passes of a loop have the same variables, which it changes, and a target of the same line.
    """
    loops: dict[object, list[tuple[PassGraph, Value]]] = {}
    for graph, end in ((each, each.pass_.targets[0]) for each in graphs if each.pass_.targets):
        made, *own = map(graph.trace.maker, (end, *graph.pass_.sources))
        if end.differentiable:
            loops.setdefault((str(made and made.source), *own), []).append((graph, end))
    for (first, start), (last, end) in ((loop[0], loop[-1]) for loop in loops.values()):
        if first.training_step >= last.training_step:
            continue
        low, high = (wide_norm([g for _, g in x.gradients if g is not None]) for x in (first, last))
        rose = wide_norm([end.numpy()]) > wide_norm([start.numpy()])
        if rose and math.inf > high > GROWN * low > 0:
            asked = [v for v, g in first.gradients if g is not None]
            known = {"who": listed(map(first.name, asked)), "times": style.number(high / low, 2)}
            yield first.finding(GROWING, known, first.trace.maker(start), asked)


def _unique(found: list[Finding], trace: Trace) -> list[Finding]:
    """Each problem once, even if several passes or iterations of a loop have it."""
    kept: dict[object, Finding] = {}
    tensors = {op.name for op in trace.ops if op.kind != "variable"}

    def first(name: str) -> str:  # a tensor `x_1` is a later `x`; a variable keeps its name
        plain = re.sub(r"_\d+$", "", name)
        return plain if {plain, name} <= tensors else name

    for each in found:
        words = re.sub("`([^`]+)`", lambda name: first(name[1]), each.message)
        where = each.op and each.op.type, str(each.source) if each.source else words
        kept.setdefault((each.what, each.level, where, tuple(map(first, each.sources))), each)
    return list(kept.values())


def _healthy(trace: Trace, graphs: list[PassGraph]) -> str:
    """What the headline says if nothing was found."""
    if not graphs:
        why = "" if trace.notes else ": call `tape.gradient` inside the recording"
        return f"no backward pass, so no gradient{why}."
    if not any(graph.pass_.sources for graph in graphs):
        return "no gradient was asked for: `sources` was empty."
    gradients = [g for graph in graphs for _, g in graph.gradients if g is not None]
    ends = [numbers.numbers(target) for graph in graphs for target in graph.pass_.targets]
    if any(map(numbers.is_bad, [*gradients, *ends])):
        began = "a target or a gradient is NaN or infinite, which began before what was examined"
        return f"{began}: diagnose all passes, and record the whole forward pass."
    return "healthy. No finding about None, zero, NaN, infinite, vanishing or exploding gradients."


def _integers(trace: Trace, graphs: list[PassGraph]) -> list[str]:
    """A note that names the integers among the arguments of `cgviz.trace`, if there are any."""
    if not graphs or trace.asked:
        return []
    whole = [graphs[0].name(v) for v in graphs[0].pass_.sources if not v.differentiable]
    return [f"{listed(whole)} got no gradient: integers have none."] if whole else []


# --- a training over time ----------------------------------------------------------------------

# The root mean square of the gradient at the first of ten or more ops of one type and line, such as
# the steps of a recurrent network, over that at the last. Above its inverse it is exploding.
REPEATED = 10
LOST_WITH_STEPS = 1e-6
# An update relative to its weights: about 1e-3 is usual, and Adam's first steps reach about 1e-2.
LARGE_UPDATE = 0.1
GROWN = 1e3  # the gradients of a training that converges stay within 100 times the first
OFTEN = 0.25  # the share of the steps: anything rarer is a hiccup
RESTING = 0.01  # of the largest gradient so far: below it a variable may be where it should be
FIFTHS = 5  # parts of a training: by chance their means rise one after the other in 1 of 5! cases
ALIKE = 30.0  # two growths count as equal if neither is this many times the other
ROUNDING = 1e-5  # relative: a float32 sum in another order differs by less


Told = tuple[int, Finding]  # the index of the first recorded step concerned, and the finding


def over_time(history: History) -> Diagnosis:
    """The implementation of `history.diagnose`: the findings, earliest first.

    If the training does not recover from a NaN or an infinity, only the steps before it are
    examined for anything else: every later number is its consequence.
    """
    if not history.steps:
        raise ValueError("nothing was recorded: the history has 0 steps")
    end = len(history) if history.broken is None else history.steps.index(history.broken)
    told = list(broken(history, end))
    if told and told[0][1].level == "warning":  # the last step is finite again
        end = len(history)
    told += [each for ask in OVER_TIME for each in ask(history, end)]
    grown = [*growth(history, end)]
    told += [*grown, *size(history, grown[0][0] if grown else end)]  # the rest follows from that
    told += [] if grown else rising(history, end)
    told.sort(key=lambda each: each[0])
    notes = [history.note] if history.note else []
    return Diagnosis("the history", [each for _, each in told], "the gradients flow.", notes)


def _since(history: History, place: int) -> str:
    return f"since step {history.steps[place]}" if place else "from the first step on"


def _told(history: History, place: int, cause: Cause, *series: Series, **known: str) -> Told:
    """The finding that a cause gives for some series, from the step at index `place` on."""
    first, last = series[0], history.traces[history.steps[-1]]
    where = f" ({first.source})" if first.source else ""
    names = listed(f"`{each.name}`" for each in series)
    message, hint, lesson = cause.words({"names": names, **known})
    message = f"{_since(history, place)}, {message}{where}"
    op = next((op for op in last.ops if op.name == first.name), None)
    own = tuple(each.name for each in series if each.kind == "variable")
    return place, Finding(cause.name, message, hint, lesson, op, own, last.main, level=cause.level)


# --- what the trace of one step explains ---

LEARNT = "Of a loss that cannot be less, nothing is left to learn."
QUIET = "Other batches may have a gradient: more steps would tell."
LOOK = "`history.trace(...).diagnose()` looks at one step."


def _kept(history: History, place: int, end: int) -> Trace:
    """The last trace kept of the steps from index `place` to before `end`, else the next one."""
    kept = sorted(step for step in history.traces if step >= history.steps[place])
    return history.traces[max((x for x in kept if x <= history.steps[end - 1]), default=kept[0])]


def broken(history: History, end: int) -> Iterator[Told]:
    """The first NaN or infinity; only a warning if the last step is fine again."""
    if end == len(history):
        return
    trace = history.traces[history.steps[end]]
    found = (each for each in diagnose(trace, trace.main) if each.what in ("nan", "inf"))
    first = next(found, Finding("nan", "the target or a gradient is not finite.", LOOK, STABILITY))
    first = replace(first, message=f"at step {history.steps[end]}, {first.message}")
    fine = history.fine[end:]
    if fine[-1]:
        many = f"{np.sum(fine)} of the {len(fine) - 1} recorded steps after it are fine."
        hint = f"A loss-scale optimizer skips such a step; without one: {first.hint}"
        first = replace(first, message=f"{first.message} {many}", hint=hint, level="warning")
    yield end, first


def lost(history: History, end: int) -> Iterator[Told]:
    """Variables, and tensors in their place, whose gradient is None or 0, from some step on."""
    named: set[str] = set()
    explained = cache(lambda trace: diagnose(trace, trace.main))  # without second derivatives
    for name, series in history.series.items():
        state = series.state[end - 1] if end and series.kind in numbers.GIVEN else ""
        told = ("none", "zero") if series.kind == "variable" else ("none",)
        if state not in told or name in named:
            continue
        place = _tail(np.asarray(series.state[:end]) == state) or 0
        since = _since(history, place)
        every = explained(_kept(history, place, end))
        own = (x for x in (*every, *every.remarks) if x.what == state and name in x.sources)
        found = [replace(x, message=f"{since}, {x.message}") for x in own]
        named.update(source for each in found for source in each.sources)
        brief = end - place < OFTEN * end
        done = not any(history.target[place:end]) and not all(_masked(each.op) for each in found)
        if state == "zero" and done:
            message = f"{since}, the target is 0, and the gradient of `{name}` is 0 there."
            hint = QUIET if brief else LEARNT
            found = [replace(found[0], message=message, hint=hint, level="note")]
        elif state == "zero":  # for a short while, or for a matrix that never moves
            now = history.traces[history.steps[-1]].variables
            rows = (math.prod(np.asarray(now.get(n)).shape[:-1]) for x in found for n in x.sources)
            warned = {"error": brief, "note": not place and any(n > 1 for n in rows)}
            found = [replace(x, level="warning") if warned.get(x.level) else x for x in found]
        yield from ((place, each) for each in found)


def _masked(op: Op | None) -> bool:
    """Whether an op multiplies by a 0 that no tape follows, such as a mask or a weight."""
    if op is None or op.type not in numbers.PRODUCTS.split():
        return False
    zero = (numbers.is_zero(numbers.numbers(factor)) for factor in op.inputs)
    return any(is_zero and not op.follows(i) for i, is_zero in enumerate(zero))


def size(history: History, end: int) -> Iterator[Told]:
    """Gradients that underflow, vanish or explode in many traces; second derivatives that are 0."""
    kept = [place for place in range(end) if history.steps[place] in history.traces]
    found: dict[object, list[Told]] = {}
    for place in kept:
        trace = history.traces[history.steps[place]]
        graph = PassGraph(trace, trace.pass_(None))
        for inner in (PassGraph(trace, p) for p in trace.passes if differentiates(graph.pass_, p)):
            for each in () if inner.first_order else numbers.zero(inner)[:1]:
                found.setdefault(each.which, []).append((place, each))
        for each in (*sizes.shapes(graph), *numbers.underflow(graph), *sizes.scale(graph)):
            own = [s.state[end - 1] for name, s in history.series.items() if name in each.sources]
            # What is exactly 0 at the end is told by `lost`; what else cancels may be a minimum.
            if each.what != "zero" or (each.op and numbers.single(each.op) and "zero" not in own):
                found.setdefault(each.what, []).append((place, each))
    often = [told[0] for told in found.values() if len(told) >= OFTEN * len(kept)]
    for place, first in often:
        yield place, replace(first, message=f"at step {history.steps[place]}, {first.message}")
    if not any(first.what in ("vanishing", "exploding") for _, first in often):
        yield from _depth(history, end)


DEPTH = Cause("", STABILITY).says(
    "the gradient of {names} is {times} times that of `{last}`, per entry: it {verb} on its way "
    "through {count} ops of type {type}.",
    "Normalisation, residual connections, gates (LSTM, GRU), or other initial weights help.",
)


def _depth(history: History, end: int) -> Iterator[Told]:
    """Gradients that shrink or grow through repeated ops, as the steps of a recurrent network."""

    def place_of(s: Series) -> tuple[str, str, int]:  # of another size, entries do not compare
        return s.type, s.source, s.size

    ops = sorted((s for s in history.ops.values() if end and not any(s.state[:end])), key=place_of)
    for (type_, *_), each in groupby(ops, key=place_of):
        row = list(each)
        first, last = row[0], row[-1]
        if len(row) < REPEATED or not _leads(history, first, last):
            continue
        with np.errstate(all="ignore"):
            times = first.rms[:end] / last.rms[:end]  # 0 / 0 and ∞ / ∞ count as neither
        for name, verb, out in (
            ("vanishing", "shrinks", times < LOST_WITH_STEPS),
            ("exploding", "grows", times > 1 / LOST_WITH_STEPS),
        ):
            place = _often(out)
            if place is not None:
                known = {"last": last.name, "verb": verb, "count": str(len(row)), "type": type_}
                known["times"] = style.number(float(np.median(times[out])), 2)
                yield _told(history, place, replace(DEPTH, name=name), first, **known)
                return


def _leads(history: History, first: Series, last: Series) -> bool:
    """Whether a path leads from one op to another: terms beside each other are no depth."""
    trace = history.traces[history.steps[-1]]
    end = [op for op in trace.ops if op.name == last.name]
    before = walk(end, lambda op: makers(trace, op.inputs))
    return first.name in {op.name for op in before}


# --- what only the series show ---


DIVERGING = Cause("exploding", STABILITY).says(
    "the training diverges: the gradient of {names} grows from step to step ({sizes}), and the "
    "target grows with it. Each update goes too far.",
    "Make the learning rate ten times smaller. If it still grows, the update has a wrong sign.",
)


def growth(history: History, end: int) -> Iterator[Told]:
    """Gradients that grow from step to step, and the target with them.

    A growing loss scale is no finding: gradient and target grow alike then, and the steps do not
    move the variables further than before.
    """
    series = [s for s in history.variables.values() if not any(s.state[:end])]
    if end < 3 or not series or not history.target[end - 1] > history.target[0]:
        return
    gradient = np.linalg.norm([s.gradient[:end] for s in series], axis=0)
    moved = np.linalg.norm(np.nan_to_num([_moved(s, end) for s in series]), axis=0)
    place = _tail(gradient > GROWN * gradient[0])
    times = gradient[-1] / gradient[0] * abs(ratio(history.target[0], history.target[end - 1]))
    further = np.any(moved > ALIKE * next((n for n in moved if n > 0), 0.0))
    if place is not None and (further or not 1 / ALIKE < times < ALIKE):
        first = ", ".join(style.number(x, 2) for x in gradient[:4]) + ", ..." * (len(gradient) > 4)
        yield _told(history, place, DIVERGING, *series, sizes=first)


FROZEN = Cause("frozen", VARIABLES, level="warning").says(
    "no step moves {names}.",
    "Is a gradient taken there and given to the optimiser, and is each step large enough to change "
    "numbers of the dtype? If nothing is meant to move there, all is well.",
)


def frozen(history: History, end: int) -> Iterator[Told]:
    """Variables that the target is computed from and that no step moves, from some step on.

    One that has moved and come to rest, because its gradient has become small, is left out.
    """
    still: dict[int, list[Series]] = {}
    for series in history.variables.values():
        moved = np.asarray(series.update[:end]) > 0
        values = np.asarray(series.value[: end + 1])
        moved[: len(values) - 1] |= values[1:] != values[:-1]
        place = _tail(~moved)
        if place is None or series.name not in history.ancestors or end - place < OFTEN * end:
            continue
        usual = all(state in ("unasked", "") for state in series.state[place:end])
        gradient = np.nan_to_num(series.gradient[:end], posinf=0.0)
        rests = place > 0 and gradient[-1] < RESTING * gradient.max()
        if usual and not rests:
            still.setdefault(place, []).append(series)
    for place, found in still.items():
        yield _told(history, place, FROZEN, *found)


LARGE = Cause("update", STABILITY, level="warning").says(
    "a step moves {names} by up to {size} of the norm before it; about 0.001 is usual.",
    "If the target does not fall, try a learning rate ten times smaller.",
)


def large_updates(history: History, end: int) -> Iterator[Told]:
    """Steps that move a variable by a large part of its norm, and of the usual size of entries.

    A variable that began at 0, such as a bias, is left out: any learning rate moves it by a large
    part of its norm.
    """
    every = [s for s in history.variables.values() if s.size > 1 and end and s.value[0] > 0]
    values = np.array([s.value[:end] for s in every])
    usual = np.sqrt(np.nansum(values**2, 0) / max(sum(s.size for s in every), 1))  # RMS of entries
    found = []
    for series in every:
        update = np.asarray(series.update[:end])
        moved = _moved(series, end) / series.size**0.5
        large = (update > LARGE_UPDATE) & (moved > LARGE_UPDATE * usual)
        if (place := _often(large)) is not None:
            found.append((place, float(np.max(update[large])), series))
    if found:
        places, largest, moved_far = zip(*found, strict=True)
        yield _told(history, min(places), LARGE, *moved_far, size=style.number(max(largest), 2))


RISING = Cause("rising", VARIABLES, level="note").says(
    "the target rises: its mean over a fifth of the steps goes from {first} to {last}.",
    "To lower a loss, subtract the gradient, or try a smaller rate. If it is meant to rise, or a "
    "loss scale grows, all is well.",
)


def rising(history: History, end: int) -> Iterator[Told]:
    """A target that rises, as where the gradient is added and not subtracted.

    Means over a fifth of the steps are compared, since those of minibatches go up and down.
    """
    if end < FIFTHS:
        return
    means = [float(np.mean(part)) for part in np.array_split(history.target[:end], FIFTHS)]
    if all(before < after for before, after in pairwise(means)):
        first, last = (style.number(mean, 2) for mean in (means[0], means[-1]))
        words = RISING.words({"first": first, "last": last})
        yield 0, Finding(RISING.name, *words, level=RISING.level)


OVER_TIME = (lost, frozen, large_updates)


# --- two trainings -------------------------------------------------------------------------------


_NORM = "L2 norm "  # in the words of `style.array`


def parted(history: History, against: History) -> str:
    """Say at which step and op two trainings begin to differ, with both numbers.

    Where both kept the trace of a step, every value is compared in forward order, then every
    gradient in backward order, entry by entry, if both have one of its name; in every other step,
    only the target.
    """
    first, second = told_apart([history.title, against.title], "training")
    common = [step for step in history.steps if step in against.steps]
    for place, step in enumerate(common):
        whole = step in history.traces and step in against.traces
        mine, theirs = (_flow(each, step, whole) for each in (history, against))
        for name in (each for each in mine if each in theirs):
            one, other = mine[name], theirs[name]
            if not _close(one, other):
                rest = _not_compared(history, against, common[max(place - 1, 0) : place + 1])
                was = [style.array(each) for each in (one, other)]
                # Too large to be written out; turned around, a gradient keeps its norm.
                if was[0] != was[1] and all(_NORM in each for each in was):
                    name, was = f"the {_NORM}of {name}", [x.partition(_NORM)[2] for x in was]
                return (
                    f"They part at step {step}: {name} is {was[0]} in {first} and "
                    f"{was[1]} in {second}. Before that all numbers compared agree.{rest}"
                )
    rest = _not_compared(history, against)
    return f"They do not part in {len(common)} recorded steps. All numbers compared agree.{rest}"


def _not_compared(history: History, against: History, steps: Sequence[int] = ()) -> str:
    """What `parted` leaves out: what only one training has, and all but the target in `steps`."""
    alone = [f"`{name}`" for name in sorted(history.ancestors ^ against.ancestors)]
    hint = "give what corresponds the same name"
    said = f" Only one of them has {listed(alone)}: {hint}." if alone else ""
    kept = history.traces.keys() & against.traces.keys()
    if unseen := [step for step in steps if step not in kept]:
        said += f" Without a trace only targets are compared: try `watch(..., keep={unseen})`."
    return said


def _flow(history: History, step: int, whole: bool) -> dict[str, Any]:
    """The target of a step, after every value and gradient if `whole`, by their names in words."""
    found: dict[str, Any] = {}
    if whole:
        trace = history.traces[step]
        pass_ = trace.pass_(None)
        for op in trace.ops:  # `ancestors` leaves out what runs after the pass, as the update does
            if op.name in history.ancestors and op.outputs and op.outputs[0].differentiable:
                found[f"the value of `{op.name}`"] = op.outputs[0].numpy()
        for each in pass_.steps:
            for used, given in zip(each.op.inputs, each.downstream, strict=True):
                name = value_name(trace, used)
                found.setdefault(f"what `{each.op.name}` returns to `{name}`", given)
        for source, gradient in zip(pass_.sources, pass_.gradients, strict=True):
            found[f"the gradient of `{value_name(trace, source)}`"] = gradient
    return found | {"the target": history.target[history.steps.index(step)]}


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if np.shape(one) != np.shape(other):
        return False
    one, other = wide(one), wide(other)
    least = ROUNDING * np.max(np.abs(one), initial=0.0, where=np.isfinite(one))
    return np.allclose(one, other, ROUNDING, least, equal_nan=True)


# --- helpers -------------------------------------------------------------------------------------


def _moved(series: Series, end: int) -> np.ndarray:
    """How far each step moved a variable."""
    with np.errstate(invalid="ignore"):  # ∞ × 0, where its value is 0
        return np.multiply(series.update[:end], series.value[:end])


def _tail(holds: np.ndarray) -> int | None:
    """The index from which something holds to the end; None if it does not hold at the end."""
    broken = np.flatnonzero(~holds)
    first = int(broken[-1]) + 1 if broken.size else 0
    return first if first < len(holds) else None


def _often(holds: np.ndarray) -> int | None:
    """The index where something first holds; None if it holds in too few steps."""
    return int(np.argmax(holds)) if holds.size and holds.mean() >= OFTEN else None
