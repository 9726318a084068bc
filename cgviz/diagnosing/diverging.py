"""A training that diverges: the gradients grow from step to step, and the target with them.

Each step that is too large makes the next gradient larger. What follows, exploding gradients,
infinity and at last NaN, is told once and by its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Value
from ..lessons import STABILITY
from .code import update
from .pass_graph import PassGraph, is_bad, line, listed
from .scale import typical

GROWN = 1e3  # a training that converges has its largest gradients within 100 times the first


def find(graphs: Sequence[PassGraph]) -> Finding | None:
    """Say that a training diverges.

    Args:
        graphs: The passes of a recording, in execution order.

    Returns:
        A finding where the gradients of some variables, or the variables themselves, become more
        than 1,000 times as large as at first before anything is infinite, and the target grows too.
    """
    steps = list({graph.training_step: graph for graph in reversed(graphs)}.values())[::-1]
    if len(steps) < 2 or not all(graph.first_order and graph.pass_.targets for graph in steps):
        return None
    target = steps[0].pass_.targets[0]
    before, after = (_size(graph.pass_.targets[0].numpy()) for graph in (steps[0], steps[-1]))
    grown = {v: sizes for v in steps[0].pass_.sources if (sizes := _grows(steps, v))}
    if not grown or not after > before:
        return None
    sizes = max(grown.values(), key=lambda found: found[-1] / found[0])
    shown = ", ".join(style.number(size, 2) for size in sizes[:4]) + ", ..." * (len(sizes) > 4)
    maker = steps[0].trace.producer(target)
    where = update(maker[0]) if maker else None
    message = (
        f"the training diverges: the gradient of {listed(map(steps[0].name, grown))} grows from "
        f"step to step ({shown}), and {steps[0].name(target)} grows with it. Each update goes too "
        f"far{line(where)}."
    )
    hint = (
        "Make the learning rate ten times smaller. If it still grows, the update has a wrong sign."
    )
    found = steps[0].finding("exploding", (message, hint, STABILITY), None, grown)
    return replace(found, line=where)


def _grows(steps: Sequence[PassGraph], value: Value) -> list[float]:
    """The sizes of a variable's gradient from step to step; empty where the variable is stable."""
    trace = steps[0].trace
    variable = trace.producer(value)
    gradients: list[float] = []
    values: list[float] = []
    for graph in steps:
        for each, gradient in graph.gradients:
            made = trace.producer(each)
            if variable and made and made[0] is variable[0] and gradient is not None:
                gradients.append(_size(gradient))
                values.append(_size(each.numpy()))
        if gradients and not np.isfinite(gradients[-1]):
            break
    finite = [size for size in gradients if np.isfinite(size)]
    if len(gradients) < 2 or not finite or not finite[0]:
        return []
    apart = max(finite) > GROWN * finite[0] or max(values) > GROWN * values[0] > 0
    return gradients if apart else []


def _size(array: Array) -> float:
    """The typical entry; infinite where one is not finite."""
    return float("inf") if is_bad(array) else typical([array])
