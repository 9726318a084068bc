"""The backward table: one row for each step, a dict, in the order the steps ran.

`str()` and a notebook show the table as text and as HTML, made of the same cells; HTML has a badge
for custom ops, and a matrix has its rows below each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from typing import Any, overload

import numpy as np

from .. import style
from ..graph import Pass, Step, Trace, Value, statistics
from ..graph.names import value_name
from ..graph.pruning import prune
from .format import (
    NUMBER,
    WIDTH,
    Written,
    clipped,
    counted,
    data_frame,
    html_table,
    sheet,
    text_table,
    written,
)

COLUMNS = ("step", "op", "type", "kind", "input", "upstream", "local", "downstream", "source")
HEAD = ("step", "op", "type", "input", "upstream", "local", "downstream", "source")
NUMERIC = ("step", "input", "upstream", "local", "downstream")
CUSTOM = " (custom)"
MOST_ROWS = 30  # of a table that is shown: about a screen
MOST_LOCAL = 16  # entries of a local Jacobian in numbers, of one 4 by 4
MOST_SOURCE = 60  # characters of a source line in HTML, so that the numbers have room


class Row(dict[str, Any]):
    """One step of the backward table: a dict whose numbers are read when they are asked for."""

    def __init__(self, known: dict[str, Any], unread: dict[str, Callable[[], Any]]) -> None:
        super().__init__({name: known.get(name) for name in COLUMNS})
        self._unread = unread

    def __getitem__(self, name: str) -> Any:
        if name in self._unread:
            super().__setitem__(name, self._unread.pop(name)())
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:  # its presence makes `dict(row)` read each entry
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """The entry of that name, or the default."""
        return self[name] if name in self else default  # noqa: SIM401 - that is this method

    def values(self) -> list[Any]:  # type: ignore[override]
        """Every entry, read."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        """Every name with its entry, read."""
        return [(name, self[name]) for name in self]

    def copy(self) -> dict[str, Any]:
        """A plain dict."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    def __repr__(self) -> str:
        return repr(self.copy())


@dataclass(frozen=True, eq=False, repr=False)
class Table(Sequence[Row]):
    """The backward table: a sequence of rows, each a dict with the keys of `COLUMNS`.

    Where an op has one input, `input`, `local` and `downstream` hold its entry, a Python number
    for a scalar; else a tuple with one entry per input. `upstream` and `local` do the same for
    several outputs. A local Jacobian is computed when it is read.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> rows = cgviz.trace(lambda x: tf.square(tf.square(x)), 2.0).table()
        >>> [(row["input"], row["upstream"], row["local"], row["downstream"]) for row in rows]
        [(4.0, 1.0, 8.0, 8.0), (2.0, 8.0, 4.0, 32.0)]
    """

    trace: Trace
    pass_: Pass
    steps: tuple[tuple[int, Step], ...]  # each with its number in the pass, from 1
    full: bool  # whether the steps that a picture folds away are among them

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Table: ...
    def __getitem__(self, place: int | slice) -> Row | Table:
        """One row, or the table of some."""
        if isinstance(place, slice):
            return replace(self, steps=self.steps[place])
        number, step = self.steps[place]
        op = step.op
        source = None if op.source is None else str(op.source)
        known = {"step": number, "op": op.name, "type": op.type, "kind": op.kind, "source": source}
        return Row(
            known,
            {
                "input": lambda: _one([_plain(v.numpy()) for v in op.inputs]),
                "upstream": lambda: _one(list(map(_plain, step.upstream))),
                "local": lambda: _one([_one(list(map(_plain, row))) for row in step.local]),
                "downstream": lambda: _one(list(map(_plain, step.downstream))),
            },
        )

    def to_pandas(self) -> Any:
        """The table in tidy form: a pandas DataFrame with a row for each step and input.

        Returns:
            A DataFrame with the columns `step`, `op`, `type`, `kind`, `input` (its name) and
            `source`, and for each of `value`, `upstream` and `downstream` its shape, L2 norm,
            smallest and largest entry, as in `upstream_norm`. Of several upstreams it is the first
            that is not None.

        Raises:
            ImportError: pandas is not installed.
        """
        rows = []
        for number, step in self.steps:
            op, downstream = step.op, step.downstream
            upstream = next((u for u in step.upstream if u is not None), None)
            for j, value in enumerate(op.inputs):
                if self.full or _matters(self.trace, value):
                    name = value_name(self.trace, value)
                    known = {"step": number, "op": op.name, "type": op.type, "kind": op.kind}
                    known |= {"input": name, "source": str(op.source or "")}
                    numbers = value.numpy() if value.differentiable else None
                    known |= _range("value", numbers) | _range("upstream", upstream)
                    rows.append(known | _range("downstream", downstream[j]))
        return data_frame(rows)

    @property
    def caption(self) -> str:
        """What the table shows."""
        count = len(self.trace.passes)
        which = f"Backward pass {self.pass_.index} of {count}" if count > 1 else "Backward pass"
        hidden = len(self.pass_.steps) - len(self)
        more = f" ({hidden} folded away; full=True shows all)" if hidden > 0 else ""
        steps = counted(len(self), "step")
        notes = "".join(f"; {note}" for note in self.trace.notes)
        return f"{which} of {self.trace.title}: {steps} in the order they ran{more}{notes}"

    def _shown(self, rows: str) -> tuple[list[list[list[Any]]], int, str]:
        """The cells of the steps that are shown, as `_lines`; where and what is left out."""
        left_out = max(len(self) - MOST_ROWS, 0)
        top = MOST_ROWS // 2 if left_out else len(self)
        pairs = self.steps[:top] + self.steps[top + left_out :]
        more = f"({left_out} more rows)" if left_out else ""
        return [_lines(self, *pair, rows) for pair in pairs], top, more

    def __repr__(self) -> str:
        cells, top, more = self._shown(", ")
        for width in (40, 24, 16):  # of a cell: narrower until the table fits
            rows = [[[_text(cell, width) for cell in line] for line in step] for step in cells]
            widths = [max(map(len, column)) for column in zip(HEAD, *chain(*rows), strict=True)]
            spare = WIDTH - sum(widths[:-1]) - 2 * (len(HEAD) - 1)
            if spare >= min(widths[-1], 16):
                break
        widths[-1] = min(widths[-1], max(spare, len("line 100")))
        rows.insert(top, [[more]] if more else [])
        shown = text_table(HEAD, [*chain(*rows)], widths, ["step"])
        return shown if len(self) else f"{shown}\n(no steps)"

    def _repr_html_(self) -> str:
        cells, top, more = self._shown(",\n")
        rows = list(map(_html, cells))
        if more:
            rows.insert(
                top, f'<tr class="cgviz-first"><td colspan="{len(HEAD)}">{more}</td></tr>\n'
            )
        return sheet(html_table(self.caption, HEAD, NUMERIC, "".join(rows)))


def table(trace: Trace, which: int | None = None, *, full: bool = False) -> Table:
    """What `trace.table` returns."""
    each = trace.pass_(which)
    steps = tuple(enumerate(each.steps, 1))
    if not full:
        shown = set(prune(trace, each, full).ops)
        steps = tuple((number, step) for number, step in steps if step.op in shown)
    return Table(trace, each, steps, full)


def _one(entries: list[Any]) -> Any:
    return entries[0] if len(entries) == 1 else tuple(entries)


def _plain(array: Any) -> Any:
    """A scalar as a Python number, anything else as it is."""
    return array.item() if getattr(array, "ndim", None) == 0 else array


def _range(name: str, array: Any) -> dict[str, Any]:
    found = None if array is None else statistics(array)
    names = {"shape": "shape", "norm": "norm", "min": "low", "max": "high"}
    return {f"{name}_{short}": getattr(found, field, None) for short, field in names.items()}


# --- cells ---------------------------------------------------------------------------------------


def _lines(table: Table, number: int, step: Step, rows: str) -> list[list[Any]]:
    """A line of cells per input, each a string or several arrays.

    What belongs to all inputs is on the first line, and None on the others.
    """
    op = step.op
    names = {j: value_name(table.trace, value) for j, value in enumerate(op.inputs)}
    shown = [j for j in names if table.full or _matters(table.trace, op.inputs[j])]
    downstream = step.downstream
    numbers = [
        (
            [written(op.inputs[j].numpy(), MOST_LOCAL, rows, names[j])],
            _locals(step, j, rows),
            [written(downstream[j], MOST_LOCAL, rows)],
        )
        for j in shown
    ]
    upstream = [written(u, MOST_LOCAL, rows) for u in step.upstream]
    type_ = op.type + CUSTOM if op.kind == "custom" else op.type
    value, by_output, back = numbers[0] if numbers else ("", "", "")
    first = [str(number), op.name, type_, value, upstream, by_output, back, str(op.source or "")]
    return [first, *([None, None, None, v, None, o, b, None] for v, o, b in numbers[1:])]


def _text(cell: Any, width: int | None) -> str:
    if isinstance(cell, list):
        return ", ".join(array.at(width) for array in cell)
    return cell or ""


def _matters(trace: Trace, value: Value) -> bool:
    """Whether an input is worth a line: constants and integers are not."""
    maker = trace.producer(value)
    return value.differentiable and maker is not None and maker[0].kind != "constant"


def _locals(step: Step, j: int, rows: str) -> list[Written]:
    """The local Jacobian of each output by one input, as numbers if they are few."""
    outputs, value = step.op.outputs, step.op.inputs[j]
    if not step.flows[j]:
        return [written(None, MOST_LOCAL, rows)] * len(outputs)
    if max(v.size for v in outputs) * value.size > MOST_LOCAL:
        shapes = [style.shape(np.broadcast_to(0, v.shape + value.shape)) for v in outputs]
        return [Written(shape, shape) for shape in shapes]
    try:
        local = [row[j] for row in step.local]
    except RuntimeError:  # the rule cannot run again
        return [Written("not known", "not known")]
    return [_jacobian(x, v, value, rows) for x, v in zip(local, outputs, strict=True)]


def _jacobian(local: Any, output: Value, value: Value, rows: str) -> Written:
    """A small Jacobian, with rows for the entries of the output; a diagonal one by its diagonal."""
    if local is None or output.size * value.size != local.size or not local.size:
        return written(local, MOST_LOCAL, rows)
    matrix = local.reshape(output.size, value.size)
    square = output.size == value.size > 1
    flat = matrix if min(matrix.shape) > 1 else local.reshape(-1) if local.ndim else local
    if square and matrix.any() and not matrix[~np.eye(output.size, dtype=bool)].any():
        full = f"diag({', '.join(map(style.number, matrix.diagonal()))})"
    else:
        full = style.array(flat, most=MOST_LOCAL, rows=rows)
    return Written(full, style.shape(flat) or full)


def _html(lines: Sequence[Sequence[Any]]) -> str:
    """The table rows of one step; what belongs to all its inputs spans them."""
    span = f' rowspan="{len(lines)}"' if len(lines) > 1 else ""
    found = []
    for line in lines:
        cells = []
        for name, cell in zip(HEAD, line, strict=True):
            if cell is None:
                continue
            text, tag = escape(_text(cell, None)), "td"
            how = NUMBER if name in NUMERIC else ""
            how += span if name not in ("input", "local", "downstream") else ""
            if name == "op":
                tag, how = "th", f' scope="row"{span}'
            elif name == "type" and cell.endswith(CUSTOM):
                text = (
                    f'{escape(cell.removesuffix(CUSTOM))} <span class="cgviz-custom">custom</span>'
                )
            elif name == "source":
                how, text = f'{span} title="{text}"', escape(clipped(cell, MOST_SOURCE))
            cells.append(f"<{tag}{how}>{text}</{tag}>")
        first = ' class="cgviz-first"' if line is lines[0] else ""
        found.append(f"<tr{first}>{''.join(cells)}</tr>\n")
    return "".join(found)
