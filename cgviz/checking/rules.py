"""The rules that need few runs: shape, dtype, upstream, variables, finite numbers, f run again.

Each function looks at one case and writes into its results; `RULES` and `AGAIN` have a record for
each. The rules that need finite differences are in `derivatives`, those of other places in
`checker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from traceback import walk_tb
from typing import Any

import numpy as np
import tensorflow as tf

from .. import style
from ..findings import line
from ..graph import Array
from ..graph.dtypes import Dtype
from ..graph.model import lines_of
from ..hinting import hints
from ..lessons import DEBUGGING, GRAPHS, INPUTS, STABILITY, UPSTREAM, VARIABLES
from ..reading.format import clipped, counted
from ..recording import arguments, source, tf_hooks
from ..recording.build import dense, variable_name
from ..recording.events import CallEvent
from .case import NAN, Case, CustomStep, Results, Rule
from .comparison import apart
from .flattened import join, largest, largest_beside, ops_of, split, to_vector, vector_size

# --- what f raises -----------------------------------------------------------------------------

LONGEST = 300  # characters of an exception that are quoted: some three lines


def explain(error: BaseException) -> tuple[str, str]:
    """The rule that an exception is about, and what to do; "runs" and "" if that is not known.

    Example:
        >>> explain(TypeError("grad_fn must accept keyword argument 'variables'"))[0]
        'variables'
    """
    hint = hints.explain(error)
    return (hint.rule or "runs", hint.fix) if hint is not None else ("runs", "")


def first_line(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its message."""
    text = lines_of(error) or [""]
    if text[0] == "in user code:":  # AutoGraph puts the exception itself last
        return text[-1]
    return type(error).__name__ + (f": {clipped(text[0], LONGEST)}" if text[0] else "")


def said(error: BaseException) -> str:
    """An exception in one line, and the learner's line that raised it, or the rule that it left."""
    text, graph = first_line(error), getattr(error, "ag_error_metadata", None)
    stack: Any = [(f.f_code.co_filename, n, f.f_locals) for f, n in walk_tb(error.__traceback__)]
    if graph:  # AutoGraph ran copies of the learner's lines
        stack = [(each.filename, each.lineno, {}) for each in reversed(graph.translated_stack)]
    for file, number, known in reversed(stack):
        event = known.get("event")  # where a recording runs a rule
        if isinstance(event, CallEvent) and event.grad_fn:
            return f"{text.rstrip('.')}, by {CustomStep(event, (), ()).label}."
        if source.kind(file) == source.LEARNER:
            return f"{text.rstrip('.')}{line(source.at_line(file, number))}."
    return text


def more(count: int) -> str:
    """In words, how many other entries are wrong too."""
    return "" if count == 1 else f" (and {count - 1} more)"


def raised(results: Results, error: Exception) -> None:
    """Note that f or its backward pass raised an error."""
    rule, hint = explain(error)
    ran = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]
    own = {("differentiate", "gradient"), ("pull", "gradient")}  # not a tape inside f
    who = "the backward pass of f" if own & {*pairwise(ran)} else "f"
    told = f"{who} raised {said(error)}" if ran[-1] != "check_value" else str(error)
    results.broken(rule, "raises", told, hint)
    if rule != "runs":
        results.skipped("runs", "see below")


def runs(case: Case) -> None:
    """f and its backward pass run, and f's value has a derivative."""
    case.results.passed("runs", "forward and backward")
    if not case.targets:
        case.results.broken(
            "none",
            "no floating-point output",
            "f's value holds integers or booleans only, and these have no gradient.",
            "Round, argmax and comparisons need a surrogate rule: tf.custom_gradient.",
        )
    elif case.steps:
        case.results.passed("arity", "one gradient for each input")


# --- what a rule returns -----------------------------------------------------------------------


def returned(case: Case) -> None:
    """Each gradient is a tensor of the shape and the dtype of its input."""
    told: set[tuple[str, str]] = set()  # a warning of one call hides no error of another
    for step in _some(case.steps):
        found = [each for each in _complaints(case, step) if (step.label, each[0]) not in told]
        for level, *complaint in found:
            case.results.broken(*complaint, level=level)
            told.add((step.label, level))
    if case.steps:
        case.results.passed("shape", "each gradient has the shape of its input")
        case.results.passed("dtype", "each gradient has the dtype of its input")


def _complaints(case: Case, step: CustomStep) -> Iterator[tuple[str, str, str, str, str]]:
    """What is wrong with the gradients of one rule: level, rule, reason, message and hint."""
    # TensorFlow lists variables, which come last, in any order.
    known = [variable_name(variable) for variable in step.event.variables]
    names = [""] * (len(step.event.inputs) - len(known)) + known
    pairs = [*enumerate(zip(step.event.inputs, step.downstream, strict=False))]
    for i, (given, gradient) in sorted(pairs, key=lambda pair: names[pair[0]]):
        if gradient is None or not arguments.can_be_watched(given):
            continue
        tensor = tf.is_tensor(gradient)
        # Whether anything that is differentiated is behind it.
        used = all(step.event.watched[i : i + 1])
        level = "error" if used else "warning"
        mend = "" if tensor else "Return a tensor made of upstream: dy * 2.0, not 2.0."
        mend = mend if used else "If this input has no gradient on purpose, return None for it."
        got = dense(gradient, given.shape).shape if tensor else np.shape(gradient)
        if got != given.shape:
            a, b = (style.shape(np.zeros(shape)) or "[]" for shape in (given.shape, got))
            yield (
                level,
                "shape",
                f"{b} for {a}",
                f"{case.argument_name(step, i)} has the shape {a}, but its gradient has {b}, by "
                f"{step.label}. TensorFlow's tape does not complain.",
                mend or hints.WRONG_SHAPE,
            )
        wanted = given.dtype.name
        kind = gradient.dtype.name if tensor else f"of the type {type(gradient).__name__}"
        if isinstance(gradient, np.ndarray | np.generic):
            kind = f"a NumPy {'array' if np.ndim(gradient) else 'number'}"
        if kind != wanted:
            yield (
                level,
                "dtype",
                f"{kind} for {wanted}",
                f"{case.argument_name(step, i)} is {wanted}, but its gradient is {kind}, by "
                f"{step.label}. TensorFlow accepts it, and fails where it meets another gradient.",
                mend or f"Return the gradient in the input's dtype: tf.cast(g, {wanted!r}).",
            )


def keywords(case: Case) -> None:
    """No rule is dropped. TensorFlow drops it silently if the op is called by keyword only."""
    if any(op.rule_dropped for op in case.custom):
        found = next(each for each in case.diagnosis if each.op and each.op.rule_dropped)
        case.results.broken("keywords", "the rule is dropped", found.message, found.hint)
    elif case.custom:
        case.results.passed("keywords", "no rule is dropped")


# --- upstream ----------------------------------------------------------------------------------


def upstream(case: Case) -> None:
    """A rule is linear in its upstream: 0 gives 0, and twice the upstream twice the downstream.

    Each custom rule is judged, and then f as a whole: it may hold rules that were registered or
    loaded, or one with a tape of its own, which can run only once.
    """
    results, judged = case.results, case.judged
    found = []
    steps = _some(case.steps)
    for step in steps:
        with suppress(Exception):  # it cannot run again
            found.append((step.label, _use_of_upstream(case, step)))
    try:
        pull = partial(judged.claim, x=judged.x)
        # A power of 2 changes no digit: where f is linear, one run is exact, and tells enough.
        scaled, expected = pull(-FARTHEST * case.upstream), -FARTHEST * case.wide.vector
        exact = len(found) == len(steps) and np.array_equal(scaled, expected, equal_nan=True)
        if case.deterministic and not exact:
            names = [leaf.name for leaf in judged.leaves].__getitem__
            whole = nonlinearity(pull, case.y.size, case.dtype, judged.sizes, names)
            found.append(("f as a whole", whole))
    except Exception:
        results.skipped("upstream", "not judged: the rule cannot be run again")
    for label, (reason, words) in found:
        if reason and case.surrogate and reason not in ("ignored", NAN):
            results.skipped("upstream", f"not linear, as a surrogate may be: {words}")
        elif reason:
            hint = _USES_OF_UPSTREAM[reason]
            results.broken("upstream", reason, f"{label}: {words}.", hint)
            return
    if case.steps:
        results.passed("upstream", "downstream is linear in upstream")


def _use_of_upstream(case: Case, step: CustomStep) -> tuple[str, str]:
    known = [tf.convert_to_tensor(u) for u in step.upstream if u is not None]

    def gradients_of(found: Sequence[Any]) -> list[Any]:
        """The gradients as tensors; None is 0, since a rule may return it for some upstreams."""
        pairs = zip(found, step.event.inputs, strict=False)
        return [tf.zeros(t.shape) if g is None else dense(g, t.shape) for g, t in pairs]

    def rule(u: Array) -> Array:
        parts = iter(split(u, known))
        back = step.event.rule(*[None if old is None else next(parts) for old in step.upstream])
        return join(gradients_of(back if isinstance(back, list | tuple) else [back]))

    sizes = [to_vector(each).size for each in gradients_of(step.downstream)]
    return nonlinearity(
        rule, join(known).size, case.given, sizes, partial(case.argument_name, step)
    )


_USES_OF_UPSTREAM = {
    "ignored": "A rule returns upstream · local: multiply each gradient by the upstream.",
    NAN: "An output that the loss does not use sends upstream 0, and downstream is 0 then: "
    "tf.math.divide_no_nan.",
    "not the same twice": "Draw random numbers once, in the forward part, and let the rule use the "
    "same ones.",
    "not linear": "A rule returns upstream · local, which is linear in upstream. If it changes "
    "this on purpose, say so: cgviz.check(..., surrogate=True).",
}
FARTHEST = 4096.0  # times the upstream: beyond the thresholds of rules that clip, if finite
_SUM = "the sum of two upstreams does not give the sum of their downstreams"
MOST_CALLS = 50  # of rules, evenly chosen: each is run ten times, and a loop may make 1,000 calls


def _some(steps: Sequence[CustomStep]) -> list[CustomStep]:
    """Some of the calls, and the last of each rule, since some rules run once only."""
    last = {step.label: step for step in steps}
    return [*dict.fromkeys((*steps[:: 1 + len(steps) // MOST_CALLS], *last.values()))]


def nonlinearity(
    pull: Callable[[Array], Array],
    size: int,
    dtype: Dtype,
    sizes: Sequence[int] = (),
    name: Callable[[int], str] = str,
) -> tuple[str, str]:
    """What is wrong with the use of upstream: a key of `_USES_OF_UPSTREAM`, and words, or "", "".

    Args:
        pull: From upstream to downstream, both vectors.
        size: How many numbers upstream has.
        dtype: The coarsest dtype on the way: it sets how far rounding moves downstream.
        sizes: How many numbers downstream has for each input. Each is judged by its own largest
            number, or a large gradient for one input would hide an error in that for another.
        name: The name of each input, by its position.
    """
    random = np.random.default_rng(11)
    u, v = random.uniform(0.5, 1.5, (2, size)) * random.choice([-1.0, 1.0], (2, size))
    at_u, at_v = pull(u), pull(v)
    give = dtype.wrong * np.fmax(*(largest_beside(each, sizes) for each in (at_u, at_v)))
    if apart(pull(u), at_u, give).size:
        words = "the same upstream gives two downstreams, as where random numbers are drawn anew"
        return "not the same twice", words
    at_0 = pull(0 * u)
    if (np.isnan(at_0) & np.isfinite(at_u)).any():
        return NAN, "upstream 0 gives NaN, as where upstream is divided by its own size"
    left = apart(at_0, 0 * at_u, give)
    if left.size:
        used = apart(at_u, at_v, give)
        stuck = np.setdiff1d(left, used)
        if not stuck.size:
            return "not linear", "upstream 0 gives a downstream that is not 0"
        ends = np.cumsum(sizes or [at_u.size])
        fixed, moved = (set(np.searchsorted(ends, at, "right").tolist()) for at in (stuck, used))
        whole = fixed - moved
        where = f" for {' and '.join(map(name, sorted(whole or fixed)))}" if moved else ""
        if not whole:
            return "ignored", f"a part of the downstream{where} is the same for any upstream"
        return "ignored", f"upstream is ignored{where}: any upstream gives the same downstream"
    factors = (FARTHEST, 2.0**-3 if dtype.coarse else 2.0**-8, -1.0)  # float16 has a small range
    tried = [(t, pull(t * u), t * at_u, abs(t)) for t in factors]
    tried.append((0.0, pull(u + v), at_u + at_v, 4.0))  # four sums are rounded here, one above

    def uneven(give: Array) -> list[float]:
        return [t for t, one, other, by in tried if apart(one, other, give * by).size]

    if uneven(give):  # where terms cancel in the rule, as in softmax near 1, their rounding remains
        give = give + 4 * dtype.eps * max(largest_term(partial(pull, w)) for w in (u, v))
    for times in uneven(give):
        n = style.number(times)
        words = f"{n} times the upstream does not give {n} times the downstream"
        return "not linear", words if times else _SUM
    return "", ""


def largest_term(run: Callable[[], Any]) -> float:
    """The size of the largest number that the ops of a run return, and so round."""
    met = (t for op in ops_of(run) for t in op.outputs if arguments.can_be_watched(t))
    return max((largest(to_vector(t)) for t in met), default=0.0)


# --- variables ---------------------------------------------------------------------------------


def variables(case: Case) -> None:
    """A rule matches gradients to variables by identity, not by their position in the list."""
    steps = _some([step for step in case.steps if len(step.event.variables) > 0])
    for step in steps:
        # In eager mode TensorFlow lists them in the order of a set, which differs from run to run.
        listed = sorted(step.event.variables, key=variable_name)
        matters = _order_matters(step, listed, case.dtype.wrong)
        if matters is None:
            case.results.skipped("variables", "not judged: the rule cannot be run again")
        if matters:
            names = [variable_name(variable) for variable in listed]
            case.results.broken(
                "variables",
                "matched by position",
                f"{step.label} takes the variables by their position: called with "
                f"[{', '.join(names)}] and then with [{', '.join(names[::-1])}], it returns two "
                "different gradients for the same variable. TensorFlow promises no order.",
                "Match each one by identity: [{w.ref(): dw, b.ref(): db}[v.ref()] for v in "
                "variables].",
            )
            return
    if steps:
        count = len(steps[0].event.variables)
        case.results.passed("variables", f"{count} read, and matched in either order")


def _order_matters(step: CustomStep, listed: list[Any], wrong_by: float) -> bool | None:
    """Whether a rule returns another gradient for a variable if the variables come reversed.

    None if that is not known, because the rule cannot be run again.
    """
    grad_fn = step.event.grad_fn
    if len(listed) < 2 or grad_fn is None:
        return False
    found: list[list[Array]] = []
    for order in (listed, listed[::-1]):
        try:
            _, gradients = grad_fn(*step.upstream, variables=order)
        except Exception:
            return True if found else None
        found.append([np.zeros(0) if g is None else to_vector(g) for g in gradients])
    return any(
        one.shape != other.shape or apart(one, other, wrong_by * largest(one) + 1e-30).size
        for one, other in zip(found[0], found[1][::-1], strict=False)
    )


# --- finite numbers ----------------------------------------------------------------------------


def finite_forward(case: Case) -> None:
    """Finite inputs give a finite value."""
    bad = np.flatnonzero(~np.isfinite(case.y))
    if not bad.size:
        case.results.passed("finite forward", "every output is finite")
        return
    i = int(bad[0])
    wide = case.wide.value[i]
    stable = abs(wide) < max(each.largest for each in case.flat.dtypes)
    mendable = stable or np.isfinite(case.eager.vector).all()
    also = f", and {style.number(wide)} in float64" if stable else ""
    case.results.broken(
        "finite forward",
        style.number(case.y[i]),
        f"{case.output_name(i)} is {style.number(case.y[i])} at a finite input{also}.",
        "The value overflows as f computes it, or has none here. If it has one, write it in a form "
        "that does not overflow, such as tf.nn.softplus, tf.nn.log_softmax or tf.math.log1p: a "
        "rule mends the gradient only.",
        level="error" if mendable else "warning",
    )


def finite_gradient(case: Case) -> None:
    """Finite inputs give finite gradients."""
    vector = case.eager.vector
    pairs = zip(case.flat.leaves, case.eager.gradients, strict=True)
    # A gradient with too many or too few numbers is NaN in the vector too, and not meant here.
    fits = [np.full(x.size, g is None or vector_size(g) == x.size) for x, g in pairs]
    wrong = np.flatnonzero(~np.isfinite(vector) & np.concatenate(fits))
    if not wrong.size:
        case.results.passed("finite gradient", "every gradient is finite")
        return
    i = int(wrong[0])
    case.results.broken(
        "finite gradient",
        style.number(vector[i]),
        f"{case.gradient_name(i)} is {style.number(vector[i])} at a finite input"
        f"{more(wrong.size)}.",
        UNSTABLE,
    )


UNSTABLE = (
    "Find the step that made it with `cgviz.trace(f, x).diagnose()`. Often it is 0 × ∞: make the "
    "input of the dangerous op safe first. Or write a stable rule, of functions whose own "
    "gradients are stable, such as tf.sigmoid."
)
# --- run again ---------------------------------------------------------------------------------


def mutation(case: Case) -> None:
    """Running f, forward and backward, changes no variable and gives the same value every time."""
    if not case.written and case.deterministic:
        case.results.passed("mutation", "a run changes nothing")
        return
    reason = ", ".join(case.written)
    message = f"a run of f changes {', '.join(f'`{name}`' for name in case.written)}."
    mend = "If that is intended, as with moving averages, all is well."
    if not case.deterministic:
        reason, mend = "another value each time", "Keep such changes out of f and its rule."
        message = "f gives another value each time, with every seed fixed: no derivative is judged."
    case.results.broken(
        "mutation",
        reason,
        message,
        "`check`, `jacobian` and second derivatives run f more than once, and each run changes it "
        f"again; under tf.function Python code runs once only. {mend}",
        level="warning" if case.deterministic else "error",
    )


def registry(case: Case) -> None:
    """Calling f again and again does not fill TensorFlow's registry of gradients."""
    before = tf_hooks.registered_gradients()
    case.flat.pull()
    grown = tf_hooks.registered_gradients() - before
    if not grown:
        case.results.passed("registry", "calling f again registers nothing")
        return
    case.results.broken(
        "registry",
        f"{grown} more with each call",
        f"each call of f leaves {counted(grown, 'rule')} in TensorFlow's registry forever: f "
        "builds a new graph whenever it runs.",
        "Build the graph once: make the `tf.function` outside of f. tf.vectorized_map builds one "
        "with each call and, if it maps over more than one, drops every custom rule in it: use "
        "tf.map_fn, or write f for a batch.",
    )


RULES = (
    Rule("runs", DEBUGGING, runs),
    Rule("arity", INPUTS),
    Rule("shape", INPUTS, returned),
    Rule("dtype", DEBUGGING),
    Rule("keywords", DEBUGGING, keywords),
    Rule("variables", VARIABLES, variables),
    Rule("upstream", UPSTREAM, upstream),
    Rule("finite forward", STABILITY, finite_forward),
    Rule("finite gradient", STABILITY, finite_gradient),
)
AGAIN = (
    Rule("mutation", GRAPHS, mutation, "warning"),
    Rule("registry", GRAPHS, registry, "warning"),
)
"""The rules that stand in the table below those of derivatives."""
