"""One check in progress: f, what a recorded run showed about it, and the outcome of each rule.

Rule      a record in the registry: a property that a right gradient has
Row       one line of the table: a rule, its outcome and the reason
Results   collects rows and findings while the rules run
Case      f at the point where it is judged, and what is known about it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from ..findings import Finding
from ..graph import Array, Op, Trace, dtypes
from ..graph.dtypes import Dtype
from ..graph.names import has_own_name, value_name
from ..graph.trace import with_bodies
from ..recording import api, arguments, tf_hooks
from ..recording.build import variable_name
from ..recording.events import CallEvent, PassEvent
from ..recording.source import elsewhere
from . import flattened
from .comparison import apart, wobble
from .flattened import Flattened, Kept, Leaf, Pulled, largest, largest_beside

# TensorFlow's ops that draw from a random stream. Stateless ops take their seed as an input.
_DRAWS = re.compile(r"(?!Stateless).*(Random|Multinomial|TruncatedNormal|CandidateSampler)")

NAN = (
    "NaN at 0"  # what is wrong with a rule that is NaN for upstream 0, and may be linear elsewhere
)


@dataclass(frozen=True)
class Rule:
    """A property that a right gradient has: one line of the report.

    `level`, "error" or "warning", is the default for its findings. `judge` judges a case and writes
    into its results; it is None for a rule that is judged by the function of another.
    """

    name: str
    lesson: str
    judge: Callable[[Any], None] | None = None
    level: str = "error"


@dataclass(frozen=True)
class Row:
    """One line of the table: a rule, how it fared ("pass", "fail", "warn", "skip"), and why."""

    rule: str
    state: str
    reason: str


class Results:
    """Collects rows and findings while the rules run; the keys of `rows` are names of rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self.rows: dict[str, Row] = {}
        self.findings: list[Finding] = []

    def passed(self, rule: str, reason: str) -> None:
        """Note that the rule holds, unless it has a row already."""
        self.rows.setdefault(rule, Row(rule, "pass", reason))

    def skipped(self, rule: str, reason: str) -> None:
        """Note that the rule could not be judged or does not apply, unless it has a row already."""
        self.rows.setdefault(rule, Row(rule, "skip", reason))

    def broken(
        self, rule: str, reason: str, message: str, hint: str, *, level: str = "", lesson: str = ""
    ) -> None:
        """Note that the rule is broken: add a finding, and set the row unless it is as bad already.

        `level` and `lesson` default to those of the rule.
        """
        known = self.rules[rule]
        level = level or known.level
        state = "warn" if level == "warning" else "fail"
        old = self.row(rule).state
        if old in ("", "pass", "skip") or (old, state) == ("warn", "fail"):
            self.rows[rule] = Row(rule, state, reason)
        self.findings.append(Finding(rule, message, hint, lesson or known.lesson, level=level))

    def row(self, rule: str) -> Row:
        """The row of a rule; one without state and reason if it was not judged yet."""
        return self.rows.get(rule, Row(rule, "", ""))

    def has(self, rule: str) -> bool:
        """Whether this rule has a finding of level "error"."""
        return any(f.rule == rule and f.level == "error" for f in self.findings)


@dataclass(frozen=True, eq=False)
class CustomStep:
    """One run of a custom rule in the backward pass, to be repeated with other upstreams."""

    event: CallEvent
    upstream: tuple[Any, ...]
    downstream: tuple[Any, ...]

    @property
    def label(self) -> str:
        """The rule in words: the type of its op, and the line where it is defined."""
        code = getattr(self.event.grad_fn, "__code__", None)
        at = f" (line {code.co_firstlineno}{elsewhere(code.co_filename)})" if code else ""
        return f"the rule of `{self.event.type}`{at}"


@dataclass(frozen=True, eq=False)
class Case:
    """One check in progress: f runs, forward and backward."""

    flat: Flattened  # f with its arguments in their own dtype
    judged: Flattened  # f with float64 arguments if it allows them, else `flat`
    results: Results
    order: int
    surrogate: bool
    trace: Trace
    steps: Sequence[CustomStep]
    targets: Sequence[Any]  # f's outputs that have a derivative
    upstream: Array  # that f is given in every place: 1 for a single number, else random, below 1
    eager: Pulled  # value and gradient of `flat` for `upstream`, in eager mode
    wide: Pulled  # value and gradient of `judged` for `upstream`: in float64, if f allows it
    variables: Kept  # all that a run touches
    written: Sequence[str]  # the names of the variables that a run changes
    draws: bool  # whether an op of TensorFlow draws random numbers
    deterministic: bool
    dtype: Dtype  # the coarsest that `judged` computes in; its `eps` is that of f's values
    given: Dtype  # the coarsest that `flat` computes in; float32 at the finest

    @cached_property
    def custom(self) -> list[Op]:
        """The custom ops at any depth, and the ops whose custom rule was dropped."""
        return [op for op in with_bodies(self.trace.ops) if op.kind == "custom" or op.rule_dropped]

    @cached_property
    def diagnosis(self) -> Sequence[Finding]:
        """What `diagnose` finds or remarks about the gradients of the recorded run."""
        found = self.trace.diagnose()
        return (*found, *found.remarks)

    def argument_name(self, step: CustomStep, index: int) -> str:
        """The name of a rule's input: the learner's own, or else its position."""
        count = len(step.event.inputs) - len(step.event.variables)
        if index >= count:
            return f"`{variable_name(step.event.variables[index - count])}`"
        made = set(map(id, step.event.outputs))
        for op in self.custom:
            found = made & {id(output.reference) for output in op.outputs}
            if found and has_own_name(self.trace, op.inputs[index]):
                return f"`{value_name(self.trace, op.inputs[index])}`"
        return f"input {index} (counted from 0)"

    def reached(self, leaf: Leaf) -> set[int]:
        """The keys of a leaf and of all values that are computed from it."""
        keys = {v.key for op in self.trace.ops if op.name == leaf.name for v in op.outputs}
        for op in with_bodies(self.trace.ops):
            if keys & {v.key for v in (*op.inputs, *op.captured)}:
                keys |= {v.key for v in op.outputs}
        return keys

    def guilty(self, leaf: Leaf) -> str:
        """The custom rule behind a leaf's wrong gradient, to end a message with; "" if unsure."""
        keys = self.reached(leaf)
        met = [op for op in self.trace.ops if keys & {v.key for v in op.inputs}]
        if any(op.type == "StopGradient" for op in met) or not {*met} & {*self.custom}:
            return ""
        labels = {step.label for step in self.steps}
        return f", by {labels.pop() if len(labels) == 1 else 'a rule in f'}" if labels else ""

    @property
    def linear(self) -> bool:
        """Whether every rule is linear in its upstream, as far as that was judged."""
        row = self.results.row("upstream")
        return row.state in ("", "pass") or row.reason == NAN

    @property
    def y(self) -> Array:
        """f's value."""
        return self.eager.value

    @cached_property
    def give(self) -> Array:
        """How far rounding may move each entry of the gradient of `eager`."""
        moved = 10 * self.wobble(self.flat, self.eager, self.given.eps)
        # In 16 bits an entry may stay by chance.
        return largest_beside(moved, self.flat.sizes) if self.given.coarse else moved

    def wobble(self, flat: Flattened, here: Pulled, eps: float) -> Array:
        """How far rounding the inputs moves the gradient for `upstream` from that of `here`."""
        return wobble(lambda x: flat.claim(self.upstream, x), here.vector, flat.x, eps)

    def output_name(self, index: int) -> str:
        """The name of an entry of y: `out`, `out[1]`; `out[1][0]` if there are several tensors."""
        several = len(self.targets) > 1
        names = [f"out[{i}]" if several else "out" for i in range(len(self.targets))]
        return flattened.leaf_at(flattened.lay(self.targets, names), index).entry(index)

    @cached_property
    def ones(self) -> Array:
        """The upstream that a tape starts with: 1 for a real number, 1 + 0i for a complex one."""
        return flattened.join([tf.ones_like(target) for target in self.targets])

    @property
    def sum_name(self) -> str:
        """The name of the sum of y, which is what a tape differentiates."""
        return "out" if self.y.size == 1 else "sum(out)"

    def input_name(self, index: int) -> str:
        """The name of an entry of x: `w[0, 2]`; `in[2]` if f has one input and no variable."""
        leaves = self.flat.leaves
        if len(leaves) == 1 and not leaves[0].variable:
            leaves = flattened.lay([leaves[0].source], ["in"])
        return flattened.leaf_at(leaves, index).entry(index)

    def gradient_name(self, index: int) -> str:
        """The name of an entry of the gradient."""
        return f"the gradient for {self.input_name(index)}"


# --- making a case -----------------------------------------------------------------------------


def examine(
    flat: Flattened, results: Results, order: int, surrogate: bool, variables: Kept
) -> Case:
    """Run f, first under a recording, to find out what it is made of and what it changes.

    Args:
        flat: f at its point.
        results: Collects the outcome.
        order: The order that was asked for.
        surrogate: Whether the rule differs from the true derivative on purpose.
        variables: The variables among f's arguments; the others that f touches are added.

    Raises:
        Exception: What f or its backward pass raises.
    """
    given = flat.arguments(flat.x)
    with tf_hooks.recording(True) as recording:
        recording.recorder.before = variables
        trace = api.trace(flat.f, *given)
        log = recording.events()
    written = {variable_name(v) for v in flattened.restore(variables)}
    own = {id(leaf.source) for leaf in flat.leaves}
    touched = recording.recorder.variables.values()
    read = [v for v in touched if v.trainable and id(v) not in own and arguments.can_be_watched(v)]
    own |= {id(v) for v in read}
    changed = {k: pair for k, pair in variables.items() if k not in own} if written else {}
    flat = replace(flat, variables=read, changed=changed, x=np.zeros(0))  # x is read again
    draws = any(_DRAWS.match(op.type) for op in trace.walk())
    flat, targets, deterministic = _settled(flat, draws)
    size = flattened.join(targets).size
    upstream = np.ones(1) if size == 1 else np.random.default_rng(13).uniform(0.5, 1.0, size)
    eager = flat.pull(upstream)
    narrow = _coarsest([*flat.dtypes, *_met(trace.ops)])
    judged, wide, seen = _widened(flat, eager, upstream, trace)
    # A variable that f reads keeps its dtype: in 16 bits its steps and its gradient are coarse.
    coarse = [each for each in judged.dtypes if each.coarse]
    dtype = narrow if judged is flat else _coarsest([*_met(seen.ops), *coarse])
    ran = [op for each in seen.passes for step in each.steps for op in step.ops]
    inside = [each for each in _met(ran) if each.coarse]  # of rules, where f may have more digits
    return Case(
        flat=flat,
        judged=judged,
        results=results,
        order=order,
        surrogate=surrogate,
        trace=trace,
        steps=_custom_steps(log),
        targets=targets,
        upstream=upstream,
        eager=eager,
        wide=wide,
        variables=variables,
        written=sorted(written),
        draws=draws,
        deterministic=deterministic,
        dtype=replace(_coarsest([dtype, *inside]), eps=dtype.eps) if inside else dtype,
        given=_coarsest([dtypes.FLOAT32, narrow, *inside]),
    )


def _custom_steps(log: Sequence[Any]) -> list[CustomStep]:
    return [
        CustomStep(event, tuple(upstream), tuple(downstream))
        for each in log
        if isinstance(each, PassEvent)
        for event, upstream, downstream in each.steps()
        if isinstance(event, CallEvent) and event.grad_fn is not None
    ]


def _settled(flat: Flattened, draws: bool) -> tuple[Flattened, list[Any], bool]:
    """Seed the random streams if f draws from them.

    An f with a random op is seeded at once, not only if two runs differ, because two draws may
    agree: with a dropout of one number, half of them do.

    Returns:
        f, seeded if it must be; its outputs; and whether they are the same every time.
    """
    seeded = replace(flat, seeded=True)
    for each in (seeded,) if draws else (flat, seeded):
        found = [each.call(each.arguments(flat.x)) for _ in range(2)]
        one, other = map(flattened.join, found)
        give = 4 * _coarsest(flat.dtypes).eps * largest(one)  # threads may add in another order
        if one.shape == other.shape and not apart(one, other, give).size:
            return each, found[1], True
    return flat, found[1], False


def _widened(
    flat: Flattened, eager: Pulled, upstream: Array, trace: Trace
) -> tuple[Flattened, Pulled, Trace]:
    """f in float64 if it does the same there, else f as it is; its run for upstream; its trace."""
    if all(each is dtypes.FLOAT64 for each in flat.dtypes):
        return flat, eager, trace
    try:
        wide = flat.widened()
        run = wide.pull(upstream)
        with tf_hooks.recording(True) as recording:
            seen = api.trace(flat.f, *wide.arguments(wide.x))
    except Exception:
        return flat, eager, trace
    here, there = eager.value, run.value
    # A given variable that f reads itself, not through its argument, has no copy in `wide`.
    copied = {id(leaf.source) for leaf in flat.leaves} - {id(v) for v in flat.variables}
    read_itself = copied & {id(v) for v in recording.recorder.variables.values()}
    # If the values differ by more than rounding, even that of bfloat16, f does something else in
    # float64 and cannot be judged there. Digits lost beside a 1, as in log(1 + x), are rounding as
    # well, however small f is.
    give = 0.05 * largest(there) + 8 * _coarsest(flat.dtypes).eps
    if read_itself or here.shape != there.shape or apart(here, there, give).size:
        return flat, eager, trace
    return wide, run, seen


def _met(ran: Sequence[Op]) -> list[Dtype]:
    """The dtypes that ops compute in: f may cast to a coarser one inside."""
    ops = [op for op in with_bodies(ran) if op.kind in ("op", "custom")]
    # An integer or a boolean loses nothing in a cast.
    ops = [op for op in ops if op.type != "Cast" or dtypes.limits(op.inputs[0].dtype)]
    known = [dtypes.limits(value.dtype) for op in ops for value in op.outputs]
    return [each for each in known if each is not None]


def _coarsest(found: Sequence[Dtype]) -> Dtype:
    return max(found, key=lambda each: each.eps, default=dtypes.FLOAT64)
