"""The rules that single runs judge: shape, dtype, upstream, variables, finite numbers.

Each function looks at one case and writes into its results; `RULES` has a record for each rule.
What finite differences judge is in `derivatives`; where else f must run, in `places`.
"""

from __future__ import annotations

import itertools
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..graph import Array, dtypes
from ..hinting import hints
from ..lessons import DEBUGGING, INPUTS, STABILITY, UPSTREAM, VARIABLES
from ..recording.build import dense, variable_name
from .case import Case, CustomStep
from .flattened import join, split, to_vector
from .report import Rule

# --- what f raises -----------------------------------------------------------------------------

# What the message says, and the rule it is about. Checked on TensorFlow 2.16 to 2.21.
_MESSAGES = (
    ("accept (?:keyword argument )?'variables'|keyword argument 'variables'", "variables"),
    ("Must return gradient for each variable", "variables"),
    (r"expected to return \d+ gradients|too few gradients|Num gradients \d+ generated", "arity"),
    ("derivatives but grad must return", "arity"),
    ("supports keywords arguments only when eager", "keywords"),
    ("unsupported operand type.*IndexedSlices", "upstream"),
    (r"expected to be a \w+ tensor but is a|incompatible with requested type", "dtype"),
    (r"attribute 'numpy'|numpy\(\) is only available|annot convert a symbolic", "numpy"),
    (r"symbolic tf\.Tensor|__array__\(\)", "numpy"),
    (r"Tensor\.graph is undefined when eager", "graph"),
)
_SHAPES = (
    "[Ii]ncompatible shapes|[Ii]nconsistent shape|Dimensions must be equal|must be broadcastable"
    "|is not compatible with supplied shape"
)
_HINTS = {
    "shape": "A rule returns each gradient in the shape of its input: sum what was broadcast.",
    "variables": "Return a pair: the gradients of the inputs, and a list with one gradient for "
    "each variable in `variables`.",
    "arity": "A custom gradient returns its value and its rule, `return y, grad`; the rule takes "
    "one upstream for each output and returns one gradient for each argument.",
    "upstream": "After a lookup, upstream comes as `tf.IndexedSlices`: begin the rule with "
    "`dy = tf.convert_to_tensor(dy)`.",
    "dtype": "A rule returns each gradient in the dtype of its input: `tf.cast(g, x.dtype)`.",
    "numpy": "NumPy sees numbers, and a graph has none yet. Keep to tf functions, or wrap the "
    "NumPy code in `tf.numpy_function`, in the value and in the rule.",
    "keywords": "Call a custom gradient with positional arguments.",
}
LONGEST = 300  # characters of an exception that are quoted: some three lines


def explain(error: BaseException, backward: bool) -> tuple[str, str]:
    """The rule that an exception is about, and a hint; "runs" where nothing more is known.

    Args:
        error: The exception, with its traceback.
        backward: Whether it came from the backward pass.

    Returns:
        The name of the rule, and what to do, empty where nothing is sure.

    Example:
        >>> explain(TypeError("grad_fn must accept keyword argument 'variables'"), False)[0]
        'variables'
    """
    rule = _about(error, backward)
    hint = hints.explain(error)
    return rule, hint.mend if hint is not None else _HINTS.get(rule, "")


def _about(error: BaseException, backward: bool) -> str:
    text = f"{type(error).__name__}: {error}"
    for pattern, rule in _MESSAGES:
        if re.search(pattern, text):
            return rule
    if backward and re.search(_SHAPES, text):
        return "shape"
    if isinstance(error, TypeError | ValueError):
        line = _decorator_line(error)
        if "variable_grads" in line:
            return "variables"
        if "grad_fn" in line:
            return "arity"
    return "runs"


def _decorator_line(error: BaseException) -> str:
    """The line of `tf.custom_gradient` that raised, with none of the caller's code after it."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = frame.filename.replace("\\", "/")
        if file.endswith("tensorflow/python/ops/custom_gradient.py"):
            return frame.line or ""
        if "/tensorflow/python/" not in file:
            return ""
    return ""


def first_line(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its message."""
    text = [line for line in str(error).strip().splitlines() if line.strip()]
    line = re.sub(r"\{\{function_node .*?\}\}\s*", "", text[0]) if text else ""
    if line.strip() == "in user code:":  # AutoGraph's: what was raised comes last
        return text[-1].strip()
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def runs(case: Case) -> None:
    """f and its backward pass run."""
    results = case.results
    if case.error is None:
        results.passed("runs", "forward and backward")
        if case.steps:
            results.passed("arity", "one gradient for each input")
        return
    try:
        targets = case.flat.call(case.flat.arguments(case.flat.x))
    except Exception:
        targets = None
    rule, hint = explain(case.error, targets is not None)
    when = "f raised" if targets is None else "the backward pass raised"
    results.broken(rule, "raises", f"{when} {first_line(case.error)}", hint)
    if rule != "runs":
        results.skipped("runs", "see below")
    if targets and np.isfinite(join(targets)).all():
        results.passed("finite forward", "every output is finite")


# --- shape and dtype ---------------------------------------------------------------------------


def shapes(case: Case) -> None:
    """Each gradient has the shape and the dtype of its input."""
    if not case.steps:
        return
    seen: set[tuple[str, Any]] = set()
    for step in case.steps:
        for name, given, gradient in _returned(step):
            if gradient is None or not (given.dtype.is_floating or given.dtype.is_complex):
                continue
            which = f"{name} of {step.label}"
            if isinstance(gradient, np.ndarray | np.generic) or not hasattr(gradient, "dtype"):
                if ("tensor", step.code) not in seen:
                    seen.add(("tensor", step.code))
                    _no_tensor(case, which, gradient, given)
                continue
            got = _shape(gradient, given)
            if got != tuple(given.shape) and ("shape", step.code) not in seen:
                seen.add(("shape", step.code))
                _wrong_shape(case, which, given.shape, got)
            if gradient.dtype != given.dtype and ("dtype", step.code) not in seen:
                seen.add(("dtype", step.code))
                case.results.broken(
                    "dtype",
                    f"{gradient.dtype.name} for {given.dtype.name}",
                    f"{which} is {given.dtype.name}, and its gradient {gradient.dtype.name}. "
                    "TensorFlow takes it silently, and fails where it meets another gradient.",
                    f"Return the gradient in the input's dtype: tf.cast(g, {given.dtype.name!r}).",
                )
    case.results.passed("shape", "each gradient has the shape of its input")
    case.results.passed("dtype", "each gradient has the dtype of its input")


def _no_tensor(case: Case, which: str, gradient: Any, given: Any) -> None:
    kind = "a NumPy array" if isinstance(gradient, np.ndarray | np.generic) else ""
    kind = kind or f"the Python {type(gradient).__name__} {gradient}"
    size = style.shape(np.zeros(given.shape))
    case.results.broken(
        "shape",
        "no tensor",
        f"{which} is a tensor{f' of shape {size}' if size else ''}, and its gradient {kind}. "
        "TensorFlow takes it silently, and fails where it is used.",
        "Return a tensor made of upstream: dy * 2.0, not 2.0.",
    )


def _shape(gradient: Any, given: Any) -> tuple[int, ...]:
    """The shape of a gradient; slices that do not know theirs are rows of the input's."""
    if gradient.shape.rank is None:
        return (*given.shape[:1], *gradient.values.shape[1:])
    return tuple(gradient.shape)


def _returned(step: CustomStep) -> list[tuple[str, Any, Any]]:
    """Each input of a rule: its name, the tensor, and the gradient that the rule returned.

    Variables come last and by name, for TensorFlow lists them in any order.
    """
    pairs = list(zip(step.event.inputs, step.downstream, strict=False))
    read = list(step.event.variables)
    count = len(step.event.inputs) - len(read)
    given = [(f"input {i}", *pair) for i, pair in enumerate(pairs[:count])]
    names = [f"`{variable_name(v)}`" for v in read]
    others = [(name, *pair) for name, pair in zip(names, pairs[count:], strict=False)]
    return [*given, *sorted(others, key=lambda each: each[0])]


def _wrong_shape(case: Case, which: str, wanted: Any, got: Any) -> None:
    a, b = style.shape(np.zeros(wanted)) or "[]", style.shape(np.zeros(got)) or "[]"
    case.results.broken(
        "shape",
        f"{b} for {a}",
        f"{which} has the shape {a}, and its gradient {b}. TensorFlow takes it silently.",
        "What was broadcast forward is summed backward: tf.reduce_sum over the axes that the "
        "input did not have.",
    )


def keywords(case: Case) -> None:
    """A custom gradient that is called by keyword only is dropped, without a word."""
    dropped = [op for op in case.custom if op.rule_dropped]
    if dropped:
        line = f" ({dropped[0].source})" if dropped[0].source else ""
        case.results.broken(
            "keywords",
            "the rule is dropped",
            f"a custom gradient is called with keyword arguments only{line}, so TensorFlow drops "
            "its rule and differentiates its body.",
            "Call it with positional arguments.",
        )
    elif case.custom:
        case.results.passed("keywords", "no rule is dropped")


# --- upstream ----------------------------------------------------------------------------------


def upstream(case: Case) -> None:
    """A rule is linear in its upstream: nothing gives nothing, twice gives twice."""
    if not case.steps:
        return
    wrong_by = case.dtype.wrong
    dtype_small = any(leaf.source.dtype.size < 4 for leaf in case.judged.leaves)
    found = nonlinearity(
        lambda u: case.judged.pull(u).vector, case.y.size, 8.0 if dtype_small else 256.0, wrong_by
    )
    alone = {step.label: _step_nonlinearity(step, wrong_by) for step in case.distinct_steps}
    wrong = [label for label, outcome in alone.items() if outcome]
    blamed = wrong[0] if len(wrong) == 1 else case.guilty
    if found is None and wrong:
        blamed, found = wrong[0], alone[wrong[0]]
    if found is None:
        case.results.passed("upstream", "downstream is linear in upstream")
        return
    ignored, words = found
    if case.surrogate and not ignored:
        case.results.skipped("upstream", f"not linear, as a surrogate may be: {words}")
        return
    case.results.broken(
        "upstream",
        "ignored" if ignored else "not linear",
        f"{blamed}: {words}.",
        "A rule returns upstream · local: multiply each gradient by the upstream."
        if ignored
        else "A gradient is linear in upstream. If the rule changes it on purpose, say so: "
        "cgviz.check(..., surrogate=True).",
    )


def nonlinearity(
    pull: Callable[[Array], Array], size: int, factor: float, wrong_by: float
) -> tuple[bool, str] | None:
    """What is wrong with a rule's use of upstream: whether it is ignored, and in words.

    Args:
        pull: Upstream to downstream, both vectors.
        size: How many numbers upstream has.
        factor: What upstream is multiplied by; small where the dtype overflows soon.
        wrong_by: The relative error that is no longer rounding.
    """
    if size == 0:
        return None
    random = np.random.default_rng(11)
    u, v = random.uniform(0.5, 1.5, (2, size)) * random.choice([-1.0, 1.0], (2, size))
    at_u, at_v, nothing = pull(u), pull(v), pull(0 * u)
    largest = _largest(at_u)
    if largest == 0:
        return None
    give = wrong_by * largest
    if _differ(nothing, 0 * at_u, give):
        if not _differ(at_u, at_v, give) and not _differ(at_u, nothing, give):
            return True, "upstream is ignored: any upstream gives the same downstream"
        return True, "upstream 0 gives a downstream that is not 0"
    if not _differ(at_u, pull(-u), give):
        return True, "upstream and its negative give the same downstream"
    for times in (factor, 1 / factor, -1.0):
        if _differ(pull(times * u), times * at_u, give * abs(times)):
            word = style.number(times)
            return False, f"{word} times the upstream does not give {word} times the downstream"
    # Four sums are rounded here, one above.
    if _differ(pull(u + v), at_u + at_v, 4 * wrong_by * max(largest, _largest(at_v))):
        return False, "the sum of two upstreams does not give the sum of their downstreams"
    return None


def _step_nonlinearity(step: CustomStep, wrong_by: float) -> tuple[bool, str] | None:
    given = [None if u is None else tf.convert_to_tensor(u) for u in step.upstream]
    known = [u for u in given if u is not None]

    def rule(u: Array) -> Array:
        parts = iter(split(u, known))
        back = step.event.rule(*[None if old is None else next(parts) for old in given])
        found = back if isinstance(back, list | tuple) else [back]
        pairs = zip(found, step.event.inputs, strict=False)
        return join([dense(g, t.shape) for g, t in pairs if g is not None])

    try:
        return nonlinearity(rule, join(known).size, 8.0, wrong_by)
    except Exception:  # a rule that can run once only; f as a whole was judged
        return None


def _largest(vector: Array) -> float:
    return float(np.max(np.abs(vector[np.isfinite(vector)]), initial=0.0))


def _differ(one: Array, other: Array, give: float) -> bool:
    if one.shape != other.shape:
        return False  # None here and a tensor there: judged by value
    known = np.isfinite(one) & np.isfinite(other)
    return bool(np.any(np.abs(one - other)[known] > give))


# --- variables ---------------------------------------------------------------------------------

MOST_ORDERS = 24  # all of four variables


def variables(case: Case) -> None:
    """A rule finds each variable's gradient by the variable, not by its position in the list."""
    steps = [s for s in case.distinct_steps if len(s.event.variables) > 0]
    for step in steps:
        wrong = _order_matters(step, case.dtype.wrong)
        if wrong is not None:
            case.results.broken(
                "variables",
                "matched by position",
                f"{step.label} takes the variables by their position: given as {wrong}, it "
                "returns another gradient for the same variable. TensorFlow promises no order.",
                "Match each one by identity: [{w.ref(): dw, b.ref(): db}[v.ref()] for v in "
                "variables].",
            )
            return
    if steps:
        count = len(steps[0].event.variables)
        case.results.passed("variables", f"{count} read, and matched in every order tried")


def _order_matters(step: CustomStep, wrong_by: float) -> str | None:
    """An order of the variables that changes the rule's answer, in words; None if none does."""
    # In eager mode TensorFlow lists them in the order of a set, which differs from run to run.
    listed = sorted(step.event.variables, key=variable_name)
    grad_fn = step.event.grad_fn
    if len(listed) < 2 or grad_fn is None or any(u is None for u in step.upstream):
        return None
    expected: Sequence[Array] | None = None
    for order in itertools.islice(itertools.permutations(range(len(listed))), MOST_ORDERS):
        arranged = [listed[i] for i in order]
        names = ", ".join(map(variable_name, arranged))
        try:
            _, found = grad_fn(*step.upstream, variables=arranged)
        except Exception:
            return None if expected is None else names
        vectors = [np.zeros(0) if g is None else to_vector(g) for g in found]
        by_position = dict(zip(order, vectors, strict=False))
        gradients = [by_position.get(i, np.zeros(0)) for i in range(len(listed))]
        expected = expected or gradients
        for one, other in zip(expected, gradients, strict=True):
            if one.shape != other.shape or _differ(one, other, wrong_by * _largest(one) + 1e-30):
                return names
    return None


# --- finite numbers ----------------------------------------------------------------------------


def finite_forward(case: Case) -> None:
    """Finite inputs give a finite value."""
    bad = np.flatnonzero(~np.isfinite(case.y))
    if not bad.size:
        case.results.passed("finite forward", "every output is finite")
        return
    assert case.base is not None
    i = int(bad[0])
    wide = case.y if case.judged is case.flat else case.judged.forward(case.judged.x)
    known = [dtypes.limits(t.dtype.name) for t in case.targets]
    largest = max((each.largest for each in known if each), default=np.inf)
    stable = np.isfinite(wide[i]) and abs(wide[i]) < largest
    gradient_fine = bool(np.isfinite(case.base.vector).all())
    message = f"{case.output_name(i)} is {style.number(case.y[i])} at a finite input"
    if stable:
        message += f", and {style.number(wide[i])} in float64"
    elif gradient_fine:
        message += ", while the rule stays finite"
    case.results.broken(
        "finite forward",
        style.number(case.y[i]),
        message + ".",
        "A rule mends the gradient only. Write the value in a form that does not overflow, such "
        "as tf.nn.softplus, tf.nn.log_softmax or tf.math.log1p."
        if stable or gradient_fine
        else "f itself has no finite value here.",
        level="error" if stable or gradient_fine else "warning",
    )


def finite_gradient(case: Case) -> None:
    """Finite inputs give finite gradients."""
    assert case.base is not None
    vector = case.base.vector
    right_size = np.zeros(vector.size, bool)  # NaN stands for a wrong shape, too
    for leaf, gradient in zip(case.flat.leaves, case.base.gradients, strict=True):
        right_size[leaf.start : leaf.stop] = (
            gradient is not None and tuple(gradient.shape) == leaf.shape
        )
    wrong = np.flatnonzero(~np.isfinite(vector) & right_size)
    if not wrong.size:
        case.results.passed("finite gradient", "every gradient is finite")
        return
    i = int(wrong[0])
    more = f" (and {wrong.size - 1} more)" if wrong.size > 1 else ""
    case.results.broken(
        "finite gradient",
        style.number(vector[i]),
        f"d {'out' if case.y.size == 1 else 'sum(out)'} / d {case.input_name(i)} is "
        f"{style.number(vector[i])} at a finite input{more}.",
        "Find the step that made it with `cgviz.trace(f, x).diagnose()`. Often it is 0 × ∞: "
        "make the input of the dangerous op safe first, or write a stable rule.",
    )


RULES = (
    Rule("runs", DEBUGGING, runs),
    Rule("arity", INPUTS),
    Rule("shape", INPUTS, shapes),
    Rule("dtype", INPUTS),
    Rule("keywords", INPUTS, keywords),
    Rule("variables", VARIABLES, variables),
    Rule("upstream", UPSTREAM, upstream),
    Rule("finite forward", STABILITY, finite_forward),
    Rule("finite gradient", STABILITY, finite_gradient),
)
