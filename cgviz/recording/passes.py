"""The backward passes of a recording: events become `Pass`es and `Step`s."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ..graph import Op, Pass, Step, Value
from ..graph.jacobian import local_jacobians
from . import tf_hooks
from .builder import Builder
from .events import CallEvent, OpEvent, PassEvent, RuleEvent
from .values import reference

_EARLIER = "its forward ops ran before the recording began, so their steps are not known"
_FAILED = "it ended with an error, so it gave no gradients"


def build(builder: Builder) -> tuple[Pass, ...]:
    """The backward passes at the top level, in the order they ran."""
    return tuple(_pass(builder, index, event) for index, event in enumerate(builder.top_passes()))


def _pass(builder: Builder, index: int, event: PassEvent) -> Pass:
    result = event.result if event.result is not None else [None] * len(event.sources)
    steps = tuple(_steps(builder, event))
    sources = tuple(builder.source(tensor) for tensor in event.sources)
    known = bool(steps) or all(gradient is None for gradient in result)
    note = _FAILED if event.result is None else "" if known else _EARLIER
    return Pass(
        index,
        tuple(builder.source(tensor) for tensor in event.targets),
        [reference(t) for t in event.seeds or [None] * len(event.targets)],
        sources,
        [reference(t, source.shape) for t, source in zip(result, sources, strict=True)],
        steps,
        lambda: _ops(builder, event),
        _arrived(builder, event, steps, sources, result),
        note,
    )


def _steps(builder: Builder, event: PassEvent) -> list[Step]:
    """The steps, but for reads of variables: what reaches a read is the variable's gradient.

    A rule may hand something back to an input that no tape follows. The tape drops it, so here it
    is None, as for every input where nothing flows.
    """
    return [
        _step(builder.op_of[id(op_event)], op_event, upstream, downstream)
        for op_event, upstream, downstream in event.steps()
        if id(op_event) in builder.op_of
    ]


def _step(op: Op, event: OpEvent, upstream: Sequence[Any], downstream: Sequence[Any]) -> Step:
    given = [t if event.follows(position) else None for position, t in enumerate(downstream)]
    return Step(
        op,
        _references(upstream, op.outputs),
        _references(given, op.inputs),
        pull(op, event, upstream),
        local_jacobians,
    )


def _references(gradients: Sequence[Any], values: Sequence[Value]) -> list[Any]:
    """Gradients by reference, each with the shape of the value it belongs to."""
    return [reference(t, value.shape) for t, value in zip(gradients, values, strict=True)]


def _arrived(
    builder: Builder,
    event: PassEvent,
    steps: Sequence[Step],
    sources: Sequence[Value],
    result: Sequence[Any],
) -> dict[int, Any]:
    """The sum that reached each value, as TensorFlow had it, where TensorFlow had it."""
    arrived: dict[int, Any] = {}
    for step in steps:
        arrived.update(zip((v.key for v in step.op.outputs), step.received, strict=False))
    for tensor, source, gradient in zip(event.sources, sources, result, strict=True):
        variable = builder.values.variables.get(id(tensor))
        if gradient is not None and (variable is None or len(variable.versions) == 1):
            arrived[source.key] = reference(gradient, source.shape)
    return arrived


def _ops(builder: Builder, event: PassEvent) -> tuple[Op, ...]:
    """The ops a pass ran. Those of built-in rules that no tape saw are had by a second run."""
    if not event.quiet:
        return tuple(builder.ops.get(event, ()))
    by_rule: dict[int, list[Op]] = defaultdict(list)
    for each in builder.events:
        rule = each.where
        if isinstance(rule, RuleEvent) and rule.outer is event and id(each) in builder.op_of:
            by_rule[id(rule.op)].append(builder.op_of[id(each)])
    found: list[Op] = []
    for op_event, upstream, _ in event.steps():
        if isinstance(op_event, CallEvent):
            found += by_rule[id(op_event)]
        else:
            found += _rerun(builder, op_event, upstream)
    return tuple(found)


def _rerun(builder: Builder, event: OpEvent, upstream: Sequence[Any]) -> list[Op]:
    with tf_hooks.listening(True) as (hub, start, root):
        tf_hooks.run_rule(event, *upstream)
        events = hub.log[start:]
    again = Builder(events, hub, root, beside=builder)
    return [op for op in again.ops[root] if op.kind == "op"]


def pull(
    op: Op, event: OpEvent, original: Sequence[Any]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The backward rule of an op as a function of NumPy upstreams, unseen by any recording."""

    def run(upstream: Sequence[Any]) -> Sequence[Any]:
        with tf_hooks.aside():
            tensors = [
                _like(u, t, o) for u, t, o in zip(upstream, original, event.outputs, strict=True)
            ]
            downstream = tf_hooks.run_rule(event, *tensors)
            if not isinstance(downstream, list | tuple):
                downstream = [downstream]
            return _references(downstream, op.inputs)

    return run


def _like(upstream: Any, original: Any, output: Any) -> Any:
    """A tensor for one output's upstream; None stays None only where TensorFlow gave None."""
    if upstream is None:
        return None if original is None else tf.zeros(output.shape, output.dtype)
    return tf.convert_to_tensor(upstream, dtype=output.dtype)
