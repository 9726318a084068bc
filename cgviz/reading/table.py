"""The steps of a backward pass in numbers: as a table, and in the code of a custom op's rule.

The table has one row for each step, in the order the steps ran; each row is a mapping. `str()`
gives it as text and a notebook shows it as HTML, both made of the same cells; the HTML has a badge
for custom ops, and puts the rows of a matrix below each other.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from typing import Any

import numpy as np

from .. import style
from ..graph import Pass, Rule, Step, Trace, as_numpy, statistics
from ..graph.folding import prune
from ..graph.jacobian import repeats
from ..graph.names import value_name
from .format import (
    NUMBER,
    WIDTH,
    Rows,
    clipped,
    counted,
    data_frame,
    html_table,
    sheet,
    text_table,
    written,
)

Line = tuple[str, list[str]]  # a line's text; its names with their numbers, such as "x = 2"

HEAD = ("step", "op", "type", "input", "upstream", "local", "downstream", "source")
NUMERIC = ("step", "input", "upstream", "local", "downstream")
CUSTOM = " (custom)"
MOST_ROWS = 30  # of a table that is shown: about a screen
HALF = MOST_ROWS // 2  # of a longer table, this many first and last rows are shown
MOST_LOCAL = 16  # entries of an array in numbers, such as a local Jacobian of 4 by 4
MOST_SOURCE = 60  # characters of a source line in HTML, so that the numbers have space


class Row(Mapping[str, Any]):
    """One step of the backward table; its local Jacobian is computed when it is read."""

    def __init__(self, number: int, step: Step) -> None:
        op = step.op
        self.step = step
        self._known = {
            "step": number,
            "op": op.name,
            "type": op.type,
            "kind": op.kind,
            "input": _one([_plain(v.numpy()) for v in op.inputs]),
            "upstream": _one([_plain(u) for u in step.upstream]),
            "local": None,
            "downstream": _one([_plain(d) for d in step.downstream]),
            "source": None if op.source is None else str(op.source),
        }

    def __getitem__(self, name: str) -> Any:
        if name == "local":
            return _one([_one([_plain(x) for x in row]) for row in self.step.local])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return repr(dict(self))


class Table(Rows):
    """The backward table: a sequence of rows, each a mapping.

    The keys are `step`, `op`, `type`, `kind`, `input`, `upstream`, `local`, `downstream`, `source`.

    If an op has one input, `input`, `local` and `downstream` hold the entry itself, a Python number
    for a scalar; else they hold a tuple with one entry per input. `upstream` and `local` do the
    same for outputs. A local Jacobian is computed when it is read.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> rows = cgviz.trace(lambda x: tf.square(tf.square(x)), 2.0).table()
        >>> [(row["input"], row["upstream"], row["local"], row["downstream"]) for row in rows]
        [(4.0, 1.0, 8.0, 8.0), (2.0, 8.0, 4.0, 32.0)]
    """

    def __init__(self, trace: Trace, each: Pass, rows: Sequence[Row], full: bool) -> None:
        self.trace, self.pass_, self.rows = trace, each, tuple(rows)
        self.full = full  # whether the rows include the steps that a picture folds away

    def to_pandas(self) -> Any:
        """The table in tidy form: a pandas DataFrame with a row for each step and input.

        Returns:
            A DataFrame with the columns `step`, `op`, `type`, `kind`, `input` (its name) and
            `source`, and for each of `value`, `upstream` and `downstream` its shape, L2 norm,
            smallest and largest entry, as in `upstream_norm`. For an op with several outputs,
            `upstream` is the first that is not None.

        Raises:
            ImportError: pandas is not installed.
        """
        rows = []
        for row in self.rows:
            step, downstream = row.step, row.step.downstream
            upstream = next((u for u in step.upstream if u is not None), None)
            for j in self._inputs(step):
                value = step.op.inputs[j]
                known = {name: row[name] for name in ("step", "op", "type", "kind")}
                known |= {"input": value_name(self.trace, value), "source": row["source"] or ""}
                numbers = value.numpy() if value.differentiable else None
                known |= _range("value", numbers) | _range("upstream", upstream)
                rows.append(known | _range("downstream", downstream[j]))
        return data_frame(rows)

    @property
    def caption(self) -> str:
        """What the table shows."""
        count = len(self.trace.passes)
        which = "Backward pass"
        if count > 1:
            which += f" {self.pass_.index} (of 0 to {count - 1})"
        hidden = len(self.pass_.steps) - len(self)
        more = f" ({hidden} folded away; full=True shows all)" if hidden > 0 else ""
        steps = counted(len(self), "step")
        notes = "".join(f"; {note}" for note in self.trace.notes)
        return f"{which} of {self.trace.title}: {steps} in the order they ran{more}{notes}"

    def _inputs(self, step: Step) -> list[int]:
        """The inputs of a step that are worth a line: constants and integers are not."""
        makers = map(self.trace.maker, step.op.inputs)
        return [
            j
            for j, (value, maker) in enumerate(zip(step.op.inputs, makers, strict=True))
            if self.full or (value.differentiable and maker and maker.kind != "constant")
        ]

    def _cells(self, rows: str, width: int | None) -> list[list[list[str | None]]]:
        """The lines of each row that is shown, one line per input, each with one cell per column.

        A cell that belongs to all inputs is on the first line, and None on the others.
        """
        shown = self.rows if len(self) <= MOST_ROWS else (*self[:HALF].rows, *self[-HALF:].rows)
        found = []
        for row in shown:
            step, op = row.step, row.step.op
            downstream = step.downstream
            numbers = [
                (
                    f"{value_name(self.trace, op.inputs[j])} = "
                    + written(op.inputs[j].numpy(), MOST_LOCAL, rows, width),
                    ", ".join(_locals(step, j, rows, width)),
                    written(downstream[j], MOST_LOCAL, rows, width),
                )
                for j in self._inputs(step)
            ]
            value, local, back = numbers[0] if numbers else ("", "", "")
            upstream = ", ".join(written(u, MOST_LOCAL, rows, width) for u in step.upstream)
            type_ = op.type + CUSTOM * (op.kind == "custom")
            first = [str(row["step"]), op.name, type_, value, upstream, local, back]
            others = [[None, None, None, v, None, o, b, None] for v, o, b in numbers[1:]]
            found.append([[*first, row["source"] or ""], *others])
        return found

    @property
    def _more(self) -> str:
        return f"({len(self) - 2 * HALF} more rows)" if len(self) > MOST_ROWS else ""

    def __repr__(self) -> str:
        for width in (40, 24, 16):  # of one cell: narrower until the table fits
            rows = [[[c or "" for c in line] for line in row] for row in self._cells(", ", width)]
            widths = [max(map(len, column)) for column in zip(HEAD, *chain(*rows), strict=True)]
            spare = WIDTH - sum(widths[:-1]) - 2 * (len(HEAD) - 1)
            if spare >= min(widths[-1], 16):
                break
        widths[-1] = min(widths[-1], max(spare, len("line 100")))
        rows.insert(HALF, [[self._more]] if self._more else [])
        shown = text_table(HEAD, [*chain(*rows)], widths, ["step"])
        return shown if len(self) else f"{shown}\n(no steps)"

    def _repr_html_(self) -> str:
        rows = list(map(_html, self._cells(",\n", None)))
        if self._more:
            more = f'<td colspan="{len(HEAD)}">{self._more}</td>'
            rows.insert(HALF, f'<tr class="cgviz-first">{more}</tr>\n')
        return sheet(html_table(self.caption, HEAD, NUMERIC, "".join(rows)))


def table(trace: Trace, which: int | None, full: bool) -> Table:
    """The `Table` that `trace.table` returns."""
    each = trace.pass_(which)
    shown = {step.op for step in each.steps} if full else set(prune(trace, which, full).ops)
    rows = [Row(n, step) for n, step in enumerate(each.steps, 1) if step.op in shown]
    return Table(trace, each, rows, full)


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


def _locals(step: Step, j: int, rows: str, width: int | None) -> list[str]:
    """The local Jacobian of each output with respect to one input, in numbers if it is small."""
    outputs, value = step.op.outputs, step.op.inputs[j]
    if not step.flows[j]:
        return ["None"] * len(outputs)
    if max(v.size for v in outputs) * value.size > MOST_LOCAL:
        return [_shape(np.broadcast_to(0, v.shape + value.shape)) for v in outputs]
    if step.products[j].missing:
        return ["not known"]
    pairs = zip(step.local, outputs, strict=True)
    return [_jacobian(row[j], v.size, value.size, rows, width) for row, v in pairs]


def _jacobian(local: Any, m: int, n: int, rows: str, width: int | None) -> str:
    """A small Jacobian, `m` outputs by `n` inputs, as a matrix or by its diagonal."""
    if local is None or m * n != local.size or not local.size:
        return written(local, MOST_LOCAL, rows, width)
    matrix = local.reshape(m, n)
    flat = matrix if min(m, n) > 1 else local.reshape(-1) if local.ndim else local
    text = style.array(flat, most=MOST_LOCAL, rows=rows)
    if m == n > 1 and matrix.any() and not matrix[~np.eye(n, dtype=bool)].any():
        text = f"diag({', '.join(map(style.number, matrix.diagonal()))})"
    return text if width is None or len(text) <= width else _shape(flat)


def _shape(local: Any) -> str:
    """The shape in place of the numbers: `[2]` alone would be read as one of them."""
    return f"shape {style.shape(local)}"


def _html(lines: Sequence[Sequence[str | None]]) -> str:
    """The table rows of one step; a cell that belongs to all inputs spans them."""
    span = f' rowspan="{len(lines)}"' if len(lines) > 1 else ""
    found = []
    for line in lines:
        cells = zip(HEAD, line, strict=True)
        row = "".join(_html_cell(name, cell, span) for name, cell in cells if cell is not None)
        first = ' class="cgviz-first"' if line is lines[0] else ""
        found.append(f"<tr{first}>{row}</tr>\n")
    return "".join(found)


def _html_cell(name: str, cell: str, span: str) -> str:
    text = escape(cell)
    if name == "op":
        return f'<th scope="row"{span}>{text}</th>'
    if name == "source":
        return f'<td{span} title="{text}">{escape(clipped(cell, MOST_SOURCE))}</td>'
    if name in ("input", "local", "downstream"):  # of one input
        span = ""
    if name == "type" and cell.endswith(CUSTOM):
        text = f'{escape(cell.removesuffix(CUSTOM))} <span class="cgviz-custom">custom</span>'
    return f"<td{NUMBER if name in NUMERIC else ''}{span}>{text}</td>"


# --- the code of a rule -------------------------------------------------------------------------


def rule_lines(step: Step) -> list[Line]:
    """The lines of a custom op's rule, each with the numbers of its names in this step.

    Numbers are known for the rule's parameters, for its closure, and for names assigned once, from
    an op. A name that is assigned twice, also by a loop, is left out: it has no single number.

    Args:
        step: A step of a custom op.

    Returns:
        For every line its text and its names with their numbers; no lines if the code is not known.
    """
    rule = step.op.rule
    if rule is None:
        return []
    found: list[Line] = [(text, []) for text in rule.code]
    try:
        (function,) = ast.parse("\n".join(rule.code)).body
    except (SyntaxError, ValueError):  # a lambda within an expression
        return found
    if not isinstance(function, ast.FunctionDef):
        return found
    inner = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef | ast.Lambda)][1:]
    others = {part for each in inner for part in ast.walk(each)}  # they have names of their own
    nodes = [node for node in ast.walk(function) if node not in others]
    names, bound = [], Counter[str]()
    for node in nodes:
        if isinstance(node, ast.Name | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.arg
            names.append((node.lineno, node.col_offset, name))
            bound[name] += not isinstance(getattr(node, "ctx", None), ast.Load)
    known = _given(step, rule) | _made(step, rule, nodes)
    for line, name in dict.fromkeys((line, name) for line, _, name in sorted(names)):
        if name in known and bound[name] < 2:
            found[line - 1][1].append(f"{name} = {known[name]}")
    returns = [node for node in nodes if isinstance(node, ast.Return)]
    if len(returns) == 1:
        given = ", ".join(map(style.array, step.downstream))
        found[_lines(returns[0])[-1] - 1][1].append(f"returns {given}")
    return found


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _given(step: Step, rule: Rule) -> dict[str, str]:
    """The numbers of a rule's closure and of its parameters."""
    upstream = list(map(style.array, step.upstream))
    if len(rule.parameters) < len(upstream):  # *upstream, or some by name and *rest
        last = len(rule.parameters) - 1
        upstream[last:] = [", ".join(upstream[last:])]
    # The closure was read after the recording: no numbers of it where it has changed since.
    closure = rule.closure if rule.closure and repeats(step) else {}
    found = {name: style.array(as_numpy(x)) for name, x in closure.items()}
    return found | dict(zip(rule.parameters, upstream, strict=False))


def _made(step: Step, rule: Rule, nodes: Sequence[ast.AST]) -> dict[str, str]:
    """The numbers that ops gave to names: an op has the name that its value is assigned to."""
    made = [
        (op, op.source.line - rule.line + 1)
        for op in step.ops
        if op.source and op.source.file == rule.file and len(op.outputs) == 1
    ]
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = re.compile(rf"{node.targets[0].id}(_\d+)?")
            values = [op for op, line in made if line in _lines(node) and name.fullmatch(op.name)]
            if len(values) == 1:  # more have come from the turns of a loop
                found[node.targets[0].id] = style.array(values[0].outputs[0].numpy())
    return found
