"""Why a derivative is wrong, and where: the rule that explains it best, the entry, a hint."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import style
from ..graph import Array, Op, Trace, Value, names
from ..lessons import CHAIN, INPUTS, VARIABLES
from ..recording import tf_hooks
from .case import Case
from .comparison import Comparison, Mismatch
from .flattened import Leaf

GENERAL = "Work the rule out by hand for this entry; does it still use the input, not the output?"
MOST_RULES = 8  # that are tried one by one: each takes a run
_NUMPY_OPS = ("PyFunc", "EagerPyFunc", "PyFuncStateless", "NumpyFunction")


def explain(case: Case, found: Comparison, leaf: Leaf, wrong: Sequence[Mismatch]) -> None:
    """Note what is wrong with one leaf under the rule that explains it best."""
    assert case.base is not None
    numbers = entry(case, wrong[0], not case.linear) + more(len(wrong))
    numbers += _summed(found, leaf)
    nothing = case.base.gradients[case.judged.leaves.index(leaf)] is None
    dropped = [op for op in case.custom if op.rule_dropped]
    captured = [(op, value) for op in case.custom for value in op.captured]
    if dropped or (leaf.variable and case.results.has("variables")):
        return  # found already, by `keywords` or `variables`
    if captured:
        names = sorted({_name(case, value) for _, value in captured})
        case.results.broken(
            "captured",
            ", ".join(names),
            f"`{captured[0][0].name}` uses {', '.join(names)} from outside, which gets no "
            f"gradient: {numbers}.",
            "Pass it as an argument, and return its gradient too.",
        )
    elif nothing:
        _nothing(case, leaf, numbers)
    else:
        case.results.broken(
            "value",
            f"wrong for {leaf.name}",
            f"{numbers}, by {_blamed(case, wrong[0]) if case.steps else 'f'}.",
            _pattern(found, case, leaf),
            lesson=VARIABLES if leaf.variable else INPUTS if len(case.judged.leaves) > 1 else CHAIN,
        )


def _blamed(case: Case, wrong: Mismatch) -> str:
    """The one rule without which the gradient is right: its body differentiated instead."""
    size = case.y.size
    upstream = np.eye(1, size, wrong.output)[0] if case.linear else np.ones(size)
    give = 1e-3 * max(abs(wrong.low), abs(wrong.high)) + 5 * wrong.error
    steps = case.distinct_steps[:MOST_RULES]
    mending = []
    for step in steps if len(steps) > 1 else []:
        try:
            with tf_hooks.rules_ignored(partial(operator.is_, step.code)):
                found = case.judged.pull(upstream).vector[wrong.input]
        except Exception:  # a body that cannot be differentiated
            return case.guilty
        if wrong.low - give <= found <= wrong.high + give:
            mending.append(step.label)
    return mending[0] if len(mending) == 1 else case.guilty


def _name(case: Case, value: Any) -> str:
    """The name of a captured value."""
    made = case.trace.producer(value) if case.trace else None
    return f"`{made[0].name}`" if made else "a tensor"


def _nothing(case: Case, leaf: Leaf, numbers: str) -> None:
    """Nothing flows to this leaf, and it matters: why."""
    ops = list(case.trace.walk()) if case.trace else []
    refused = [s for s in case.steps if _refuses(s)]
    outside = [op for op in ops if op.type in _NUMPY_OPS and op.rule_missing]
    blocking = _blocking(case, ops)
    if leaf.variable and refused:
        rule, why = "variables", f"{refused[0].label} returns None for `{leaf.name}`"
        hint = "Return a gradient for each variable in `variables`, in their order."
    elif refused:
        rule, why = "none", f"{refused[0].label} returns None for `{leaf.name}`"
        hint = "Return its gradient: one for each argument, in the order of the parameters."
    elif outside or not blocking:
        rule, why = "numpy", f"`{leaf.name}` leaves TensorFlow on its way, so nothing comes back"
        hint = (
            "NumPy and Python numbers cut the path of the gradient. Keep to tf functions, or give "
            "the NumPy part a rule with tf.custom_gradient."
        )
    else:
        rule, why = "none", f"`{blocking[0]}` lets nothing back to `{leaf.name}`"
        hint = "Give it a rule with tf.custom_gradient, or take it off the path."
    case.results.broken(rule, f"nothing flows to {leaf.name}", f"{why}: {numbers}.", hint)


def _blocking(case: Case, ops: Sequence[Op]) -> list[str]:
    """The types of ops that give a floating-point input no gradient, the likeliest first."""
    steps = case.trace.steps if case.trace and case.trace.passes else ()
    silent = [
        step.op.type
        for step in steps
        for value, flows in zip(step.op.inputs, step.flows, strict=True)
        if value.differentiable and not flows and case.trace and not _constant(case.trace, value)
    ]
    missing = [
        op.type
        for op in ops
        if (op.rule_missing and op.type not in names.SHAPE_HELPERS) or op.type == "StopGradient"
    ]
    return [*missing, *silent] if "StopGradient" in missing else [*silent, *missing]


def _constant(trace: Trace, value: Value) -> bool:
    made = trace.producer(value)
    return made is None or made[0].kind == "constant"


def _refuses(step: Any) -> bool:
    pairs = zip(step.event.inputs, step.downstream, strict=False)
    return any(g is None and t.dtype.is_floating for t, g in pairs)


def _summed(found: Comparison, leaf: Leaf) -> str:
    """The gradient of the sum of the outputs, where it is short: what `tape.gradient` shows."""
    if found.claimed is None or found.true is None or found.claimed.shape[0] == 1:
        return ""
    mine, right = (a[:, leaf.start : leaf.stop].sum(axis=0) for a in (found.claimed, found.true))
    if not 1 < mine.size <= 4 or not np.isfinite([mine, right]).all() or _close(mine, right):
        return ""
    return f"; of sum(out): yours {style.array(mine)}, true {style.array(right)}"


def entry(case: Case, wrong: Mismatch, summed: bool = False) -> str:
    """One wrong entry in words: `d out[1] / d in[2]: yours 6, true 0`."""
    left = case.output_name(wrong.output)
    if summed:
        left = "sum(out)" if case.y.size > 1 else "out"
    yours, right = digits(wrong.yours), true(wrong)
    if yours == right:
        yours, right = (f"{n:.7g}".replace("-", style.MINUS) for n in (wrong.yours, wrong.low))
    return f"d {left} / d {case.input_name(wrong.input)}: yours {yours}, true {right}"


def true(wrong: Mismatch) -> str:
    """The true slope with the digits that are sure; at a kink the two sides."""
    low, high = (_sure(v, wrong.error) for v in (wrong.low, wrong.high))
    return low if low == high else f"between {low} and {high}"


def digits(number: float) -> str:
    """A claimed number, short."""
    return style.number(number, 4)


def _sure(number: float, error: float) -> str:
    if not np.isfinite(number) or abs(number) <= 10 * error:
        return style.number(0.0 if np.isfinite(number) else number)
    with np.errstate(all="ignore"):
        digits = int(np.clip(np.floor(-np.log10(error / abs(number))), 1, 4)) if error else 4
    return style.number(float(f"{number:.{digits}g}"), 4)


def more(count: int) -> str:
    """How many other entries are wrong too, in words."""
    return "" if count == 1 else f" (and {count - 1} more)"


def _pattern(found: Comparison, case: Case, leaf: Leaf) -> str:
    """What the wrong numbers look like, as a hint."""
    if found.claimed is None or found.true is None:
        return "Work the rule out by hand for this entry."
    mine, right = (a[:, leaf.start : leaf.stop] for a in (found.claimed, found.true))
    for other in case.judged.leaves:
        theirs = found.true[:, other.start : other.stop]
        if other is not leaf and theirs.shape == mine.shape and _close(mine, theirs):
            return f"This is the gradient of `{other.name}`: are the two swapped in the `return`?"
    everywhere = " everywhere" if mine.size > 1 else ""
    if not mine.any():
        return f"Yours is 0{everywhere}: does the rule use the input, and not a constant?"
    factor = _factor(mine, right)
    if abs(factor + 1) < 1e-3:
        return "Right but for the sign: a minus is missing, or one too many."
    if factor and style.number(factor, 3) != "1":
        everywhere = " everywhere" if np.count_nonzero(right) > 1 else ""
        return f"Yours is {style.number(factor, 3)} times the true one{everywhere}."
    if _close(mine, right):
        return GENERAL  # but for small numbers beside large ones
    if mine.shape[0] == mine.shape[1] > 1 and _close(mine, right.T):
        return "This is the Jacobian transposed: a rule returns upstream · J, not J · upstream."
    if _close(np.sort(mine, axis=None), np.sort(right, axis=None)):
        return "The numbers are right, in the wrong order: look at how the parts are stacked."
    if mine.shape[0] == mine.shape[1] and _close(mine, np.eye(len(mine))):
        return "Upstream is returned as it came: the local derivative is missing."
    return GENERAL


def _factor(mine: Array, right: Array) -> float:
    """What the right numbers are multiplied by to give mine, each of them; 0 if nothing is."""
    if not right.any():
        return 0.0
    factor = float(np.sum(mine * right) / np.sum(right * right))
    give = 1e-2 * np.abs(factor * right) + 1e-6 * np.max(np.abs(right))
    fits = bool(np.all(np.abs(mine - factor * right) <= give))
    return factor if fits and abs(factor) > 1e-3 else 0.0


def _close(one: Array, other: Array) -> bool:
    size = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    return bool(np.all(np.abs(one - other) <= 1e-2 * size))
