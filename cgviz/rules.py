"""The rules that a custom gradient must keep, judged from single runs: shape, upstream, and so on.

Each function looks at one case and writes into its ledger. What is judged with finite differences
is in `derivatives`; where else f must run, in `places`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from . import _seams, raised, style
from .case import Case, CustomStep
from .graph import Array
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
        pairs = zip(step.event.inputs, step.downstream, strict=False)
        for number, (given, gradient) in enumerate(pairs):
            if gradient is None or not _floating(given):
                continue
            place = f"input {number} of {step.where}"
            if tuple(gradient.shape) != tuple(given.shape) and ("s", step.code) not in seen:
                seen.add(("s", step.code))
                _wrong_shape(case, place, given.shape, gradient.shape)
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


def upstream(case: Case) -> None:
    """A rule is linear in its upstream: nothing gives nothing, twice gives twice."""
    if not case.steps:
        return
    subject = case.judged
    size = max(case.subject.y.size, subject.y.size)
    dtype_small = any(leaf.source.dtype.size < 4 for leaf in subject.leaves)

    def whole(u: Array) -> Sequence[Any]:
        return subject.pull(lambda targets: subject.split(u, targets)).gradients

    found = _linear(whole, size, 8.0 if dtype_small else 256.0, case.slack)
    where = guilty(case) if found else ""
    if found is None:
        for step in _distinct(case.steps):
            found = _step_linear(step, case.slack)
            if found:
                where = step.where
                break
    if found is None:
        case.ledger.passed("upstream", "downstream is linear in upstream")
        return
    case.linear = False
    ignored, words = found
    if case.surrogate and not ignored:
        case.ledger.skipped("upstream", f"not linear, as a surrogate may be: {words}")
        return
    case.ledger.broken(
        "upstream",
        "ignored" if ignored else "not linear",
        f"{where}: {words}.",
        "A rule returns upstream · local: multiply each gradient by `dy`."
        if ignored
        else "A gradient is linear in upstream. If the rule changes it on purpose, say so: "
        "cgviz.check(..., surrogate=True).",
    )


def guilty(case: Case) -> str:
    """The rule that is to blame, if there is but one."""
    steps = _distinct(case.steps)
    return steps[0].where if len(steps) == 1 else "a rule in f"


def _distinct(steps: Sequence[CustomStep], most: int = 8) -> list[CustomStep]:
    found: dict[Any, CustomStep] = {}
    for step in steps:
        found.setdefault(step.code, step)
    return list(found.values())[:most]


def _step_linear(step: CustomStep, slack: float) -> tuple[bool, str] | None:
    given = [_dense(u) for u in step.upstream]
    sizes = [0 if u is None else u.size for u in given]

    def rule(u: Array) -> Sequence[Any]:
        parts = np.split(u, np.cumsum(sizes)[:-1])
        tensors = [
            None if old is None else tf.cast(tf.reshape(tf.constant(part), old.shape), old.dtype)
            for old, part in zip(given, parts, strict=True)
        ]
        back = step.event.rule(*tensors)
        return list(back) if isinstance(back, list | tuple) else [back]

    try:
        return _linear(rule, sum(sizes), 8.0, slack)
    except Exception:  # a rule that can run once only; f as a whole was judged
        return None


def _dense(tensor: Any) -> Array | None:
    return None if tensor is None else np.asarray(tf.convert_to_tensor(tensor).numpy())


def _linear(
    pull: Callable[[Array], Sequence[Any]], size: int, factor: float, slack: float
) -> tuple[bool, str] | None:
    """What is wrong with a rule's use of upstream: whether it is ignored, and in words."""
    if size == 0:
        return None
    random = np.random.default_rng(11)
    u, v = random.uniform(0.5, 1.5, (2, size)) * random.choice([-1.0, 1.0], (2, size))

    def flat(upstream: Array) -> Array:
        parts = [_flat(g) for g in pull(upstream)]
        return np.concatenate([np.zeros(0), *parts])

    at_u, at_v, nothing = flat(u), flat(v), flat(0 * u)
    largest = np.max(np.abs(at_u[np.isfinite(at_u)]), initial=0.0)
    if largest == 0:
        return None
    if _differ(nothing, 0 * at_u, slack * largest):
        same = not _differ(at_u, at_v, slack * largest) and not _differ(
            at_u, nothing, slack * largest
        )
        if same:
            return True, "upstream is ignored: any upstream gives the same downstream"
        return True, "upstream 0 gives a downstream that is not 0"
    if not _differ(at_u, flat(-u), slack * largest):
        return True, "upstream and its negative give the same downstream"
    for times in (factor, 1 / factor, -1.0):
        if _differ(flat(times * u), times * at_u, slack * abs(times) * largest):
            word = style.number(times)
            return False, f"{word} times the upstream does not give {word} times the downstream"
    size_v = max(largest, np.max(np.abs(at_v[np.isfinite(at_v)]), initial=0.0))
    if _differ(flat(u + v), at_u + at_v, 4 * slack * size_v):
        return False, "the sum of two upstreams does not give the sum of their downstreams"
    return None


def _flat(tensor: Any) -> Array:
    if tensor is None:
        return np.zeros(0)
    array = np.asarray(tf.convert_to_tensor(tensor).numpy()).reshape(-1)
    if array.dtype.kind == "c":
        array = np.concatenate([array.real, array.imag])
    return array.astype(np.float64)


def _differ(one: Array, other: Array, give: float) -> bool:
    if one.shape != other.shape:
        return False  # None here and a tensor there: judged by value
    known = np.isfinite(one) & np.isfinite(other)
    return bool(np.any(np.abs(one - other)[known] > give))


def variables(case: Case) -> None:
    """A rule finds each variable's gradient by the variable, not by its place in the list."""
    steps = [s for s in _distinct(case.steps) if len(s.event.variables) > 0]
    for step in steps:
        wrong = _order_matters(step, case.slack)
        if wrong is not None:
            case.ledger.broken(
                "variables",
                "matched by position",
                f"{step.where} takes the variables by their place: handed over as {wrong}, it "
                "returns another gradient for the same variable. TensorFlow promises no order.",
                "Match each one by identity: [{w.ref(): dw, b.ref(): db}[v.ref()] for v in "
                "variables].",
            )
            return
    if steps:
        count = len(steps[0].event.variables)
        case.ledger.passed("variables", f"{count} read, and matched in every order tried")


def _order_matters(step: CustomStep, slack: float) -> str | None:
    """An order of the variables that changes the rule's answer, in words; None if none does."""
    listed = list(step.event.variables)
    grad_fn = step.event.grad_fn
    if len(listed) < 2 or grad_fn is None or any(u is None for u in step.upstream):
        return None
    orders = list(itertools.permutations(range(len(listed))))[:24]
    expected: list[Array] | None = None
    for order in orders:
        arranged = [listed[i] for i in order]
        names = ", ".join(str(v.name).removesuffix(":0") for v in arranged)
        try:
            _, found = grad_fn(*step.upstream, variables=arranged)
        except Exception:
            return None if expected is None else names
        by_place = dict(zip(order, map(_flat, found), strict=False))
        gradients = [by_place.get(i, np.zeros(0)) for i in range(len(listed))]
        if expected is None:
            expected = gradients
        for one, other in zip(expected, gradients, strict=True):
            largest = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
            if one.shape != other.shape or _differ(one, other, slack * largest + 1e-30):
                return names
    return None


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
    before = _seams.registered_gradients()
    subject.pull()
    grown = _seams.registered_gradients() - before
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
