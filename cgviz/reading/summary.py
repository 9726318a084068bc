"""A trace in brief: its text for a terminal, and a row for each of its layers.

text     a trace -> title, value, gradients and backward table
title    a trace -> one line
summary  a trace -> a Summary: layers, the worst first, with norms of values and gradients
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from os.path import commonpath
from typing import Any

import numpy as np

from .. import style
from ..graph import Array, Op, Pass, Statistics, Trace, Value, norm, readable, statistics, total
from ..graph.folding import Pruned, prune
from ..graph.names import value_name
from .format import NUMBER, Rows, counted, data_frame, html_table, sheet, stylesheet, text_table

MOST_SOURCES = 8  # gradients in one line


def text(trace: Trace) -> str:
    """The text that `repr(trace)` returns."""
    lines = [title(trace), *(f"{name}: {value}" for name, value in facts(trace))]
    return "\n".join([*lines, "", repr(trace.table())] if trace.passes else lines)


def title(trace: Trace) -> str:
    """What was traced, with its numbers of ops and backward passes."""
    ops = sum(op.kind in ("op", "custom") for op in trace.ops)
    passes = counted(len(trace.passes), "backward pass") if trace.passes else "no backward passes"
    return f"trace of {trace.title}: {counted(ops, 'op')}, {passes}"


def facts(trace: Trace) -> list[tuple[str, str]]:
    """The notes, the value, and the gradients of every pass."""
    found = [*(("note", note) for note in trace.notes), ("value", _structure(trace.value))]
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


def _structure(value: Any) -> str:
    """A value, or a nested structure of values, as text."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {_structure(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_structure, value))})"
    return style.array(value)


# --- layers --------------------------------------------------------------------------------------

MOST_ROWS = 30  # of a summary that is shown as text: about a screen
BAR = 12  # characters of the longest bar: as wide as a number
COLUMNS = "layer variable kind shape parameters value zeros gradient zero_gradient nan inf update"
TITLES = {
    "value": "value norm",
    "gradient": "gradient norm",
    "zero_gradient": "zeros",
    "update": "update/weight",
}
Row = dict[str, Any]
Layer = tuple[str, list[Op], list[Op]]  # its name, its ops, its variables


class Summary(Rows):
    """The layers of a trace, the worst first: a sequence of rows, each a dict.

    A layer is a name scope, an op outside of every scope, or a variable that belongs to no single
    layer. Rows with NaN come first, then those with infinities, those with a variable that got no
    gradient, those with a gradient of zeros, and the others by how far their gradient's norm is
    from the median.

    For a layer, `shape`, `value` and `zeros` are the shape, the L2 norm and the share of zeros of
    its output (of several outputs, the shape of the first, and the rest of all together);
    `gradient` and `zero_gradient` are the norm and the share of zeros of the gradient that reached
    its output; `parameters` is how many numbers its variables have; `nan` and `inf` count the NaN
    and the infinities in all of these. `variables` has a row of the same form for each variable,
    with its value and its own gradient. A norm is None where nothing flows, and for truth values
    and texts. `update` is how far the recorded code, such as a training step, moved a variable from
    its value in this pass to the next that was read, over the norm of the first; a layer has the
    largest of its variables. `update` is None if the code within `cgviz.record()` changed no
    variable, if the value was all 0, and in a trace that was read from a file, which does not keep
    it.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> w = tf.Variable([[3.0], [4.0]], name="w")
        >>> layers = cgviz.trace(lambda x: tf.reduce_sum(x @ w), [[1.0, 2.0]]).summary()
        >>> [(row["layer"], row["value"], row["gradient"]) for row in layers]
        [('MatMul', 11.0, 1.0), ('Sum', 11.0, 1.0)]
        >>> [(row["variable"], row["value"]) for row in layers[0]["variables"]]
        [('w', 5.0)]
    """

    def __init__(self, title: str, rows: Sequence[Row]) -> None:
        self.title = title
        self.rows = tuple(rows)
        columns = ("layer", "shape", "parameters", "value", "zeros", "gradient", "zero_gradient")
        seen = any(row["update"] is not None for row in rows)
        self._columns = (*columns, "update") if seen else columns
        self._head = ["", *(TITLES.get(name, name) for name in self._columns), "on a log scale"]
        self._sizes = [size for row in rows if (size := _size(row)) is not None]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame: one for each layer, followed by those of its variables.

        Returns:
            A DataFrame with the columns `layer`, `variable` (empty for a layer), `kind`, `shape`,
            `parameters`, `value`, `zeros`, `gradient`, `zero_gradient`, `nan`, `inf`, `update`.

        Raises:
            ImportError: pandas is not installed.
        """
        rows = [each for row in self.rows for each in (row, *row["variables"])]
        return data_frame([{name: row[name] for name in COLUMNS.split()} for row in rows])

    def __repr__(self) -> str:
        lines = []
        for row in self.rows[:MOST_ROWS]:
            cells = [_cell(row, name) for name in self._columns]
            bar = "█" * round(BAR * self._share(row))
            sign = _sign(row)
            lines.append([sign.symbol if sign else "", *cells, bar + _wrong(row)])
        widths = [max(map(len, column)) for column in zip(self._head, *lines, strict=True)]
        if len(self) > MOST_ROWS:
            lines.append([f"({len(self) - MOST_ROWS} more rows)"])
        return f"{self.title}\n{text_table(self._head, lines, widths, self._head[3:-1])}"

    def _repr_html_(self) -> str:
        bodies = map(self._html, self.rows)
        return sheet(BARS, html_table(self.title, self._head, self._head[2:-1], *bodies))

    def _html(self, row: Row) -> str:
        sign, share = _sign(row), self._share(row)
        mark = f'<span role="img" aria-label="{sign.word}">{sign.symbol}</span>' if sign else ""
        bar = f'<div class="cgviz-bar" style="width: {share:.0%}"></div>' if share else ""
        name = escape(row["layer"])
        if row["variables"]:
            name = f"<details><summary>{name}</summary></details>"
        variables = "".join(
            f'<tr class="cgviz-variable"><td></td><th scope="row">{escape(each["variable"])}</th>'
            f"{self._numbers(each)}<td></td></tr>\n"
            for each in row["variables"]
        )
        return (
            f'<tr class="cgviz-first"><td>{mark}</td><th scope="row">{name}</th>'
            f"{self._numbers(row)}<td>{bar}{escape(_wrong(row))}</td></tr>\n{variables}"
        )

    def _numbers(self, row: Row) -> str:
        return "".join(f"<td{NUMBER}>{escape(_cell(row, n))}</td>" for n in self._columns[1:])

    def _share(self, row: Row) -> float:
        """How long a row's bar is, from 0 to 1: the logarithm of its gradient's norm."""
        size = _size(row)
        if size is None:
            return 0.0
        least, span = min(self._sizes), max(self._sizes) - min(self._sizes)
        # At least 0.1: without a bar, the smallest would look like no gradient.
        return 0.1 + 0.9 * (size - least) / span if span else 1.0


BARS = stylesheet(__file__, "bars.css")


def summary(trace: Trace, which: int | None) -> Summary:
    """The `Summary` that `trace.summary` returns."""
    pruned = prune(trace, which, full=False)
    each = pruned.pass_
    updates = _updates(trace, each)
    rows = [_layer(each, layer, updates) for layer in _layers(pruned)]
    known = sorted(size for row in rows if (size := _size(row)) is not None)
    middle = known[len(known) // 2] if known else 0.0
    signs = [style.NAN, style.INFINITE, style.NONE, style.ZERO, None]

    def badness(row: Row) -> tuple[int, float]:
        size = _size(row)
        return signs.index(_sign(row)), 0.0 if size is None else -abs(size - middle)

    of = f", backward pass {each.index}" if trace.passes else ""
    of += f" (of 0 to {len(trace.passes) - 1})" * (len(trace.passes) > 1)
    title = f"summary of {trace.title}: {counted(len(rows), 'layer')}{of}, the worst first"
    return Summary(title, sorted(rows, key=badness))


def _layers(pruned: Pruned) -> list[Layer]:
    """The layers of a pass, in the order they ran."""
    ops = [op for op in pruned.ops if op.kind in ("op", "custom")]
    shared = commonpath([op.scope for op in ops if op.scope] or [""])
    layer_of: dict[Op, str] = {}
    layers: dict[str, Layer] = {}
    for op in ops:
        inner = op.scope.removeprefix(shared).strip("/") or op.scope
        name = inner.split("/")[0] if op.scope else op.name
        layer_of[op] = key = f"scope {name}" if op.scope else f"op {name}"
        layers.setdefault(key, (name, [], []))[1].append(op)
    owners = pruned.owners(layer_of)
    for op in pruned.ops:
        if op.kind == "variable" and op.outputs[0].differentiable:
            key = owners.get(op, f"variable {op.name}")
            layers.setdefault(key, (op.name, [], []))[2].append(op)
    return list(layers.values())


def _updates(trace: Trace, each: Pass) -> dict[Op, float]:
    """How far the recorded code moved each variable after a pass, over its norm.

    Empty if it moved none.
    """
    found = {}
    for op in trace.ops:
        if op.kind == "variable" and op.name in trace.after and op.outputs[0].differentiable:
            used = _used(each, op)
            later = [v.reference for v in op.outputs if v.key > used.key]
            before, after = readable(used.reference), readable([*later, trace.after[op.name]][0])
            if size := norm(before):
                found[op] = norm(after - before) / size
    return found if any(found.values()) else {}


def _layer(each: Pass, layer: Layer, updates: Mapping[Op, float]) -> Row:
    name, ops, own = layer
    variables = []
    for op in own:
        row = _row(name, op.name, "variable", [_used(each, op)], _gradient(each, op))
        row["update"] = updates.get(op)
        row["asked"] = any(v in each.sources for v in op.outputs)
        variables.append(row)
    if ops:
        last = ops[-1]
        gradient = _joined([g for v in last.outputs if (g := each.upstream(v)) is not None])
        kind = "scope" if len(ops) > 1 or last.scope else last.kind
        found = _row(name, "", kind, last.outputs, gradient)
        for bad in ("nan", "inf"):
            found[bad] += sum(row[bad] for row in variables)
    else:  # a variable that several layers use
        found = variables[0] | {"variable": ""}
    moved = [row["update"] for row in variables if row["update"] is not None]
    return found | {
        "update": max(moved, default=None),
        "parameters": sum(row["parameters"] for row in variables),
        "variables": variables,
    }


def _used(each: Pass, op: Op) -> Value:
    """The value of a variable that a pass used; its last one where none was used."""
    asked = [v for v in op.outputs if v in each.sources]
    arrived = [v for v in op.outputs if each.upstream(v) is not None]
    return (asked or arrived or op.outputs)[-1]


def _gradient(each: Pass, op: Op) -> Array | None:
    """The gradient of a variable: as the tape returned it, or else summed over its values."""
    of_sources = {v.key: g for v, g in zip(each.sources, each.gradients, strict=True)}
    whole = [g for v in op.outputs if (g := of_sources.get(v.key)) is not None]
    found = whole[:1] or [g for v in op.outputs if (g := each.upstream(v)) is not None]
    return total(found) if found else None


def _joined(arrays: Sequence[Any]) -> Any:
    """The numbers of all arrays as one; of those with statistics only, the first; None of none."""
    if len(arrays) < 2 or any(isinstance(a, Statistics) for a in arrays):
        return arrays[0] if arrays else None
    return np.concatenate(list(map(np.ravel, arrays)))


def _row(layer: str, variable: str, kind: str, tensors: Sequence[Value], gradient: Any) -> Row:
    numbers = [v for v in tensors if v.differentiable] or [v for v in tensors if "int" in v.dtype]
    known = _joined([v.numpy() for v in numbers])
    value, back = (None if x is None else statistics(x) for x in (known, gradient))
    both = [x for x in (value, back) if x is not None]
    return {
        "layer": layer,
        "variable": variable,
        "kind": kind,
        "shape": tensors[0].shape if tensors else (),
        "parameters": tensors[0].size if kind == "variable" else 0,
        "value": None if value is None else value.norm,
        "zeros": _zeros(value),
        "gradient": None if back is None else back.norm,
        "zero_gradient": _zeros(back),
        "nan": sum(x.nans for x in both),
        "inf": sum(x.infinities for x in both),
        "update": None,
    }


def _zeros(found: Statistics | None) -> float | None:
    return found.zeros / found.size if found is not None and found.size else None


def _sign(row: Row) -> style.Sign | None:
    """What is wrong with a layer: NaN, an infinity, a variable without gradient, all zero."""
    if row["nan"] or row["inf"]:
        return style.NAN if row["nan"] else style.INFINITE
    asked = [each for each in row["variables"] if each["asked"]]
    if any(each["gradient"] is None for each in asked):
        return style.NONE
    if row["zero_gradient"] == 1 or any(each["zero_gradient"] == 1 for each in asked):
        return style.ZERO
    return None


def _wrong(row: Row) -> str:
    """What is wrong with a layer and, if it has a bar (so its gradient is fine), in which part."""
    if not (sign := _sign(row)):
        return ""
    where = "variable" if math.isfinite(row["value"] or 0.0) else "value"
    return sign.word if _size(row) is None else f" {sign.word} in {where}"


def _size(row: Row) -> float | None:
    """The base-10 logarithm of the gradient's norm; None if that is None, 0 or not finite."""
    norm = row["gradient"]
    return math.log10(norm) if norm and math.isfinite(norm) else None


def _cell(row: Row, name: str) -> str:
    found = row[name]
    if name == "shape":
        return "×".join(map(str, found)) or "scalar"
    if name in ("zeros", "zero_gradient"):
        return f"{found:.0%}" if found else ""
    if name in ("value", "gradient", "update"):
        return style.number(found)
    return f"{found:,}" if name == "parameters" and found else str(found or "")
