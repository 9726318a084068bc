"""What a table and a trace say, in words and numbers, before it becomes text or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import style
from ..graph import Array, Step, Trace, Value
from ..graph.names import value_name
from .listing import Listing

MOST_ROWS = 30
MOST_SOURCES = 8
MOST_LOCAL = 16  # entries of a local Jacobian that a table shows in numbers


@dataclass(frozen=True)
class Written:
    """An array as text: at length, and short for a narrow page."""

    full: str
    short: str

    def at(self, width: int | None) -> str:
        """The text to use where there are so many columns; None: as many as it takes."""
        return self.full if width is None or len(self.full) <= width else self.short


@dataclass(frozen=True)
class Input:
    """What a table says of one input of one step."""

    name: str
    value: Written
    local: tuple[Written, ...]  # by output
    downstream: Written


@dataclass(frozen=True)
class Cells:
    """What a table says of one step."""

    step: str
    op: str
    type: str
    custom: bool
    upstream: tuple[Written, ...]  # by output
    inputs: tuple[Input, ...]
    source: str


def title(trace: Trace) -> str:
    """What was traced, and how much of it there is."""
    ops = sum(op.kind in ("op", "custom") for op in trace.ops)
    passes = len(trace.passes)
    return (
        f"trace of {trace.title}: {ops} op{'s' * (ops != 1)}, "
        f"{passes or 'no'} backward pass{'es' * (passes != 1)}"
    )


def facts(trace: Trace) -> list[tuple[str, str]]:
    """The value, and the gradients of every pass."""
    found = [("value", _shown(trace.value))]
    for each in trace.passes:
        name = "gradients" if len(trace.passes) == 1 else f"gradients of pass {each.index}"
        pairs = list(zip(each.sources, each.gradients, strict=True))
        texts = [f"{value_name(trace, s)} {style.array(g)}" for s, g in pairs[:MOST_SOURCES]]
        if len(pairs) > MOST_SOURCES:
            texts.append(f"and {len(pairs) - MOST_SOURCES} more")
        found.append((name, ", ".join(texts) or "none asked for"))
        if each.note:
            found.append((f"pass {each.index}", each.note))
    return found


def _shown(value: Any) -> str:
    """A value or a nested structure of values."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {_shown(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_shown, value))})"
    return style.array(value)


def caption(listing: Listing) -> str:
    """What a table shows."""
    count = len(listing.trace.passes)
    which = f"Backward pass {listing.pass_.index} of {count}" if count > 1 else "Backward pass"
    hidden = len(listing.pass_.steps) - len(listing.steps)
    more = f" ({hidden} folded away; full=True shows all)" if hidden > 0 else ""
    steps = f"{len(listing.steps)} step{'s' * (len(listing.steps) != 1)}"
    return f"{which} of {listing.trace.title}: {steps} in the order they ran{more}"


def cut(listing: Listing) -> tuple[Any, int, Any]:
    """The steps shown at the top, how many are left out, the steps shown at the bottom."""
    steps = listing.steps
    if len(steps) <= MOST_ROWS:
        return steps, 0, ()
    half = MOST_ROWS // 2
    return steps[:half], len(steps) - 2 * half, steps[-half:]


def fill(listing: Listing, number: int, step: Step, rows: str = ", ") -> Cells:
    """The cells of one step; `rows` stands between the rows of a matrix."""
    op = step.op
    shown = [j for j in range(len(op.inputs)) if _matters(listing, step, j)]
    local, downstream = _locals(step, shown, rows), step.downstream
    inputs = tuple(
        Input(
            value_name(listing.trace, op.inputs[j]),
            _written(op.inputs[j].numpy(), rows),
            local[j],
            _written(downstream[j], rows),
        )
        for j in shown
    )
    return Cells(
        str(number),
        op.name,
        op.type,
        op.kind == "custom",
        tuple(_written(u, rows) for u in step.upstream),
        inputs,
        str(op.source or ""),
    )


def join(entries: Sequence[Written], width: int | None) -> str:
    """Several arrays in one cell."""
    return ", ".join(entry.at(width) for entry in entries)


def _written(array: Array | None, rows: str) -> Written:
    full = style.array(array, most=MOST_LOCAL, rows=rows)
    if array is None or array.ndim == 0:
        return Written(full, full)
    # A norm of a large array takes its time: what is a summary already is not made again.
    head = f"{array.dtype} "
    if full.startswith(head):
        return Written(full, full.removeprefix(head))
    return Written(full, style.summary(array, dtype=False))


def _matters(listing: Listing, step: Step, j: int) -> bool:
    """Whether an input is worth a line: constants and integers are not."""
    value = step.op.inputs[j]
    maker = listing.trace.producer(value)
    constant = maker is None or maker[0].kind == "constant"
    return listing.full or (value.differentiable and not constant)


def _locals(step: Step, shown: Sequence[int], rows: str) -> dict[int, tuple[Written, ...]]:
    """Per input: the local Jacobian of each output, as numbers if they are few."""
    op = step.op
    sizes = {j: max((v.size for v in op.outputs), default=0) * op.inputs[j].size for j in shown}
    small = any(step.flows[j] and size <= MOST_LOCAL for j, size in sizes.items())
    try:
        local = step.local if small else None
    except RuntimeError:
        return dict.fromkeys(shown, (Written("not known", "not known"),))
    found = {}
    for j in shown:
        texts = []
        for i, output in enumerate(op.outputs):
            shape = style.shape(np.broadcast_to(0, output.shape + op.inputs[j].shape))
            if not step.flows[j]:
                texts.append(_written(None, rows))
            elif local is None or sizes[j] > MOST_LOCAL:
                texts.append(Written(shape, shape))
            else:
                texts.append(_jacobian(local[i][j], output, op.inputs[j], rows))
        found[j] = tuple(texts)
    return found


def _jacobian(local: Any, output: Value, value: Value, rows: str) -> Written:
    """A small Jacobian, with rows for the entries of the output; a diagonal one by its diagonal."""
    if local is None or output.size * value.size != local.size or not local.size:
        return _written(local, rows)
    matrix = local.reshape(output.size, value.size)
    square = output.size == value.size > 1
    flat = matrix if min(matrix.shape) > 1 else local.reshape(-1) if local.ndim else local
    if square and matrix.any() and not matrix[~np.eye(output.size, dtype=bool)].any():
        full = f"diag({', '.join(map(style.number, matrix.diagonal()))})"
    else:
        full = style.array(flat, most=MOST_LOCAL, rows=rows)
    return Written(full, style.shape(flat) or full)


def clipped(words: str, width: int) -> str:
    """Words cut to a width, with a sign that they are."""
    return words if len(words) <= width else words[: width - 1] + "…"
