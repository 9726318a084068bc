"""What a table and a trace say, in words and numbers, before it becomes text or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import style
from .chain import value_name
from .graph import Step, Trace, Value
from .reading import Table

MOST_ROWS = 30
MOST_SOURCES = 8
MOST_LOCAL = 16  # entries of a local Jacobian that a table shows in numbers


@dataclass(frozen=True)
class Cells:
    """What a table says of one step: words, and lines of numbers."""

    step: str
    op: str
    type: str
    custom: bool
    upstream: str  # of every output
    inputs: tuple[tuple[str, str, str], ...]  # per input: the value, the local, the downstream
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


def caption(table: Table) -> str:
    """What a table shows."""
    count = len(table.trace.passes)
    which = f"Backward pass {table.pass_.index} of {count}" if count > 1 else "Backward pass"
    hidden = len(table.pass_.steps) - len(table)
    more = f" ({hidden} folded away; full=True shows all)" if hidden > 0 else ""
    steps = f"{len(table)} step{'s' * (len(table) != 1)}"
    return f"{which} of {table.trace.title}: {steps} in the order they ran{more}"


def cut(table: Table) -> tuple[Any, int, Any]:
    """The steps shown at the top, how many are left out, the steps shown at the bottom."""
    steps = table.steps
    if len(steps) <= MOST_ROWS:
        return steps, 0, ()
    half = MOST_ROWS // 2
    return steps[:half], len(steps) - 2 * half, steps[-half:]


@dataclass(frozen=True)
class Show:
    """How to write an array: in at most about so many columns, with this between rows."""

    width: int | None = None
    rows: str = ", "

    def fits(self, written: str) -> bool:
        """Whether a text is narrow enough."""
        return self.width is None or len(written) <= self.width

    def __call__(self, array: Any) -> str:
        """A small array in full, else a summary."""
        written = style.array(array, most=MOST_LOCAL, rows=self.rows)
        return written if self.fits(written) else style.summary(array, dtype=False)


def _shape(shape: Sequence[int]) -> str:
    return f"[{'×'.join(map(str, shape))}]"


def fill(table: Table, number: int, step: Step, show: Show) -> Cells:
    """The cells of one step; `show` writes an array."""
    op, trace = step.op, table.trace
    shown = [j for j in range(len(op.inputs)) if _matters(table, step, j)]
    local, downstream = _locals(step, shown, show), step.downstream
    return Cells(
        str(number),
        op.name,
        op.type,
        op.kind == "custom",
        ", ".join(map(show, step.upstream)),
        tuple(
            (
                f"{value_name(trace, op.inputs[j])} = {show(op.inputs[j].numpy())}",
                local[j],
                show(downstream[j]),
            )
            for j in shown
        ),
        str(op.source or ""),
    )


def _matters(table: Table, step: Step, j: int) -> bool:
    """Whether an input is worth a line: constants and integers are not."""
    value = step.op.inputs[j]
    maker = table.trace.producer(value)
    constant = maker is None or maker[0].kind == "constant"
    return table.full or (value.differentiable and not constant)


def _locals(step: Step, shown: Sequence[int], show: Show) -> dict[int, str]:
    """Per input: the local Jacobian of each output, as numbers if they are few."""
    op = step.op
    sizes = {j: max((v.size for v in op.outputs), default=0) * op.inputs[j].size for j in shown}
    small = any(step.flows[j] and size <= MOST_LOCAL for j, size in sizes.items())
    try:
        local = step.local if small else None
    except RuntimeError:
        return dict.fromkeys(shown, "not known")
    found = {}
    for j in shown:
        texts = []
        for i, output in enumerate(op.outputs):
            if not step.flows[j]:
                texts.append(style.array(None))
            elif local is None or sizes[j] > MOST_LOCAL:
                texts.append(_shape(output.shape + op.inputs[j].shape))
            else:
                texts.append(_jacobian(local[i][j], output, op.inputs[j], show))
        found[j] = ", ".join(texts)
    return found


def _jacobian(local: Any, output: Value, value: Value, show: Show) -> str:
    """A small Jacobian, with rows for the entries of the output; a diagonal one by its diagonal."""
    if local is None:
        return show(None)
    rows, columns = output.size, value.size
    if rows * columns != local.size or not local.size:
        return show(local)
    matrix = local.reshape(rows, columns)
    flat = matrix if min(rows, columns) > 1 else local.reshape(-1) if local.ndim else local
    written = style.array(flat, most=MOST_LOCAL, rows=show.rows)
    is_diagonal = rows == columns > 1 and not matrix[~np.eye(rows, dtype=bool)].any()
    if is_diagonal and matrix.any():
        written = f"diag({', '.join(map(style.number, matrix.diagonal()))})"
    return written if show.fits(written) else style.shape(flat)


def clipped(words: str, width: int) -> str:
    """Words cut to a width, with a sign that they are."""
    return words if len(words) <= width else words[: width - 1] + "…"
