"""The rules that a custom gradient must keep, judged from single runs: shape, upstream, and so on.

Each function looks at one case and writes into its ledger. What is judged with finite differences
is in `derivatives`; where else f must run, in `places`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import style
from ..graph import Array
from ..recording import tf_hooks
from ..recording.build import variable_name
from . import raised
from .case import Case, CustomStep
from .subject import Pulled


def runs(case: Case) -> bool:
    """Note what f or its backward pass raised; whether there is anything left to judge."""
    if case.error is None:
        case.ledger.passed("runs", "forward and backward")
        if case.steps:
            case.ledger.passed("arity", "one gradient for each input")
        return True
    backward = True
    try:
        case.targets = case.subject.call(case.subject.arguments(case.subject.x))
    except Exception:
        backward = False
    rule, hint = raised.explain(case.error, backward)
    when = "the backward pass raised" if backward else "f raised"
    case.ledger.broken(rule, "raises", f"{when} {raised.first_line(case.error)}", hint)
    if rule != "runs":
        case.ledger.skipped("runs", "see below")
    return False


def shapes(case: Case) -> None:
    """Each gradient has the shape and the dtype of its input."""
    if not case.steps:
        return
    seen: set[tuple[Any, ...]] = set()
    for step in case.steps:
        for name, given, gradient in _answers(step):
            if gradient is None or not _floating(given):
                continue
            place = f"{name} of {step.where}"
            got = _shape(gradient, given)
            if got != tuple(given.shape) and ("s", step.code) not in seen:
                seen.add(("s", step.code))
                _wrong_shape(case, place, given.shape, got)
            if gradient.dtype != given.dtype and ("d", step.code) not in seen:
                seen.add(("d", step.code))
                case.ledger.broken(
                    "dtype",
                    f"{gradient.dtype.name} for {given.dtype.name}",
                    f"{place} is {given.dtype.name}, and its gradient {gradient.dtype.name}. "
                    "TensorFlow takes it silently, and fails where it meets another gradient.",
                    f"Return the gradient in the input's dtype: tf.cast(g, {given.dtype.name!r}).",
                )
    case.ledger.passed("shape", "each gradient has the shape of its input")
    case.ledger.passed("dtype", "each gradient has the dtype of its input")


def _shape(gradient: Any, given: Any) -> tuple[int, ...]:
    """The shape of a gradient; slices that do not know theirs are rows of the input's."""
    if gradient.shape.rank is None:
        return (*given.shape[:1], *gradient.values.shape[1:])
    return tuple(gradient.shape)


def _answers(step: CustomStep) -> list[tuple[str, Any, Any]]:
    """Each input of a rule, its name, and what the rule returned for it.

    Variables come last and by name, for TensorFlow lists them in any order.
    """
    pairs = list(zip(step.event.inputs, step.downstream, strict=False))
    read = list(step.event.variables)
    count = len(step.event.inputs) - len(read)
    given = [(f"input {i}", *pair) for i, pair in enumerate(pairs[:count])]
    names = [f"`{variable_name(v)}`" for v in read]
    others = [(name, *pair) for name, pair in zip(names, pairs[count:], strict=False)]
    return [*given, *sorted(others, key=lambda each: each[0])]


def _wrong_shape(case: Case, place: str, wanted: Any, got: Any) -> None:
    a, b = style.shape(np.zeros(wanted)) or "[]", style.shape(np.zeros(got)) or "[]"
    case.ledger.broken(
        "shape",
        f"{b} for {a}",
        f"{place} has the shape {a}, and its gradient {b}. TensorFlow takes it silently.",
        "What was broadcast forward is summed backward: tf.reduce_sum over the axes that the "
        "input did not have.",
    )


def _floating(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def keywords(case: Case) -> None:
    """A custom gradient that is called by keyword only is dropped, without a word."""
    dropped = [op for op in case.custom if op.rule_dropped]
    for op in dropped[:1]:
        line = f" ({op.source})" if op.source else ""
        case.ledger.broken(
            "keywords",
            "the rule is dropped",
            f"a custom gradient is called with keyword arguments only{line}, so TensorFlow drops "
            "its rule and differentiates its body.",
            "Call it with positional arguments.",
        )
    if not dropped and case.custom:
        case.ledger.passed("keywords", "no rule is dropped")


def finite(case: Case, base: Pulled) -> None:
    """Finite inputs give a finite value and finite gradients."""
    y = case.subject.y
    out, into = case.places()
    bad = np.flatnonzero(~np.isfinite(y))
    gradient_fine = bool(np.isfinite(base.vector).all())
    if bad.size:
        _bad_forward(case, y, bad, gradient_fine, out)
    else:
        case.ledger.passed("finite forward", "every output is finite")
    wrong = np.flatnonzero(~np.isfinite(base.vector))
    wrong = np.array([i for i in wrong if _has_right_size(case, base, int(i))], dtype=int)
    if wrong.size:
        i = int(wrong[0])
        more = f" (and {wrong.size - 1} more)" if wrong.size > 1 else ""
        case.ledger.broken(
            "finite gradient",
            style.number(base.vector[i]),
            f"d {'out' if case.subject.y.size == 1 else 'sum(out)'} / d {into(i)} is "
            f"{style.number(base.vector[i])} at a finite input{more}.",
            "Find the step that made it with `cgviz.trace(f, x).diagnose()`. Often it is 0 × ∞: "
            "make the input of the dangerous op safe first, or write a stable rule.",
        )
    else:
        case.ledger.passed("finite gradient", "every gradient is finite")


def _bad_forward(
    case: Case, y: Array, bad: Array, gradient_fine: bool, out: Callable[[int], str]
) -> None:
    i = int(bad[0])
    wide = case.judged.forward(case.judged.x) if case.judged is not case.subject else y
    largest = max((float(t.dtype.max) for t in case.targets if _floating(t)), default=np.inf)
    stable = np.isfinite(wide[i]) and abs(wide[i]) < largest
    message = f"{out(i)} is {style.number(y[i])} at a finite input"
    if stable:
        message += f", and {style.number(wide[i])} in float64"
    elif gradient_fine:
        message += ", while the rule stays finite"
    case.ledger.broken(
        "finite forward",
        style.number(y[i]),
        message + ".",
        "A rule mends the gradient only. Write the value in a form that does not overflow, such "
        "as tf.nn.softplus, tf.nn.log_softmax or tf.math.log1p."
        if stable or gradient_fine
        else "f itself has no finite value here.",
        warning=not (stable or gradient_fine),
    )


def _has_right_size(case: Case, base: Pulled, index: int) -> bool:
    leaf = case.subject.leaf_at(index)
    gradient = base.gradients[case.subject.leaves.index(leaf)]
    return gradient is not None and tuple(gradient.shape) == leaf.shape


def registry(case: Case) -> None:
    """Calling f again and again does not fill TensorFlow's registry of gradients."""
    subject = case.subject
    subject.pull()
    before = tf_hooks.registered_gradients()
    subject.pull()
    grown = tf_hooks.registered_gradients() - before
    if grown:
        case.ledger.broken(
            "registry",
            f"{grown} more with each call",
            f"each call of f leaves {grown} gradient{'s' * (grown > 1)} in TensorFlow's registry "
            "for ever: f builds a graph anew whenever it runs.",
            "Make the `tf.function` once, outside of f.",
            warning=True,
        )
    else:
        case.ledger.passed("registry", "calling f again registers nothing")


def mutation(case: Case, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Running f, forward and backward, changes nothing but its value."""
    names = sorted({*case.written, *(n for n in before if n in after and before[n] != after[n])})
    if names or not case.deterministic:
        what = f"a run of f changes {', '.join(f'`{n}`' for n in names)}"
        case.ledger.broken(
            "mutation",
            ", ".join(names) if names else "another value each time",
            (what if names else "f gives another value each time, with every seed fixed") + ".",
            "Under tf.function Python code runs once only, and `check`, `jacobian` and second "
            "derivatives run it again: keep such changes out of f and its rule.",
            warning=True,
        )
    else:
        case.ledger.passed("mutation", "a run changes nothing")
