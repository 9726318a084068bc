"""What a rule does with its upstream, and with the variables it is handed.

A gradient is linear in upstream: nothing gives nothing, twice gives twice. And it belongs to its
variable, wherever that stands in the list. Both are seen by running the rule again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..graph import Array
from ..recording.build import dense, variable_name
from .case import Case, CustomStep


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
    alone = {step.where: _step_linear(step, case.slack) for step in distinct(case.steps)}
    wrong = [where for where, outcome in alone.items() if outcome]
    where = wrong[0] if len(wrong) == 1 else guilty(case)
    if found is None and wrong:
        where, found = wrong[0], alone[wrong[0]]
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
    steps = distinct(case.steps)
    return steps[0].where if len(steps) == 1 else "a rule in f"


def distinct(steps: Sequence[CustomStep], most: int = 8) -> list[CustomStep]:
    """One step of each rule."""
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
        found = back if isinstance(back, list | tuple) else [back]
        pairs = zip(found, step.event.inputs, strict=False)
        return [None if g is None else dense(g, t.shape) for g, t in pairs]

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
    steps = [s for s in distinct(case.steps) if len(s.event.variables) > 0]
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
    # In eager mode TensorFlow lists them in the order of a set, which differs from run to run.
    listed = sorted(step.event.variables, key=variable_name)
    grad_fn = step.event.grad_fn
    if len(listed) < 2 or grad_fn is None or any(u is None for u in step.upstream):
        return None
    orders = list(itertools.permutations(range(len(listed))))[:24]
    expected: list[Array] | None = None
    for order in orders:
        arranged = [listed[i] for i in order]
        names = ", ".join(map(variable_name, arranged))
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
