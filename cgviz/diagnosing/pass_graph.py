"""One backward pass as a graph, to be followed from a gradient to where its problem began.

PassGraph   the pass: the names of its values, what reached them, which ops lead to the targets
Cause       a record of one cause: when it holds, and what to say about it
at          an op in words
calls       the calls in the learner's code around a line
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from ..findings import Finding, line
from ..graph import Array, Op, Pass, Source, Step, Trace, Value, names, readable, wide_norm
from ..graph.selection import Edge, Selection, select
from ..lessons import DEBUGGING
from ..recording.source import parsed

INSTEAD = (
    " But pass {} gives {} a gradient in the same step, and the step changes it. If you add up the "
    "gradients of several losses or batches, one of them may be missing."
)
MOST_ORIGINS = 3  # reported per gradient: a fourth is seldom another mistake


class PassGraph:
    """One backward pass of a trace, with what is needed to follow it both ways."""

    def __init__(self, trace: Trace, pass_: Pass) -> None:
        self.trace = trace
        self.pass_ = pass_

    @cached_property
    def selection(self) -> Selection:
        """Every op and every edge of the pass."""
        return select(self.trace, self.pass_.index, full=True, limit=None)

    @cached_property
    def first_order(self) -> bool:
        """Whether the pass differentiates forward ops only."""
        forward = set(self.trace.ops)
        return all(step.op in forward for step in self.pass_.steps)

    @cached_property
    def seeds(self) -> dict[int, Array | None]:
        """The upstream that each target started with, by the key of the target."""
        return {t.key: s for t, s in zip(self.pass_.targets, self.pass_.seeds, strict=True)}

    @cached_property
    def gradients(self) -> list[tuple[Value, Array | None]]:
        """Each source with its gradient."""
        return list(zip(self.pass_.sources, self.pass_.gradients, strict=True))

    @cached_property
    def training_step(self) -> int:
        """The largest number of earlier assignments among the variables that the pass uses."""
        used = [v for step in self.pass_.steps for v in step.op.inputs]
        makers = [self.trace.producer(v) for v in (*self.pass_.sources, *used)]
        return max((m[1] for m in makers if m and m[0].kind == "variable"), default=0)

    @cached_property
    def nodes(self) -> dict[int, int]:
        """The index of the node that made a value, by the value's key."""
        return {v.key: i for i, node in enumerate(self.selection.nodes) for v in node.outputs}

    def op(self, node: int) -> Op:
        """The op of a node."""
        return self.selection.nodes[node].ops[0]

    def kind(self, value: Value) -> str:
        """The kind of op that made a value; an unread variable is known only by its handle."""
        maker = self.trace.maker(value)
        return "variable" if value.dtype == "resource" else maker.kind if maker else "input"

    def name(self, value: Value) -> str:
        """The learner's name of a value, in backticks."""
        return f"`{names.value_name(self.trace, value)}`"

    def contributions(self, value: Value) -> list[tuple[Step, int, Array]]:
        """What each use of a value returned to it; for a variable, all uses of all its reads."""
        maker = self.trace.maker(value)
        reads = maker.outputs if maker and maker.kind == "variable" else [value]
        return [part for read in reads for part in self.pass_.contributions(read)]

    def finding(
        self, cause: Cause, known: Any, op: Op | None, sources: Iterable[Value], **more: Any
    ) -> Finding:
        """A finding about the gradients of some sources; `more` are fields that differ."""
        who = tuple(dict.fromkeys(names.value_name(self.trace, v) for v in sources))
        words = cause.words(known)
        found = Finding(cause.name, *words, op, who, self.pass_.index, level=cause.level)
        found = replace(found, **more)
        other = self._instead({*who}) if cause.optional and found.level == "error" else None
        if other is None:
            return found
        hint = found.hint + INSTEAD.format(other, listed(f"`{name}`" for name in who))
        return replace(found, hint=hint, level="warning")

    def _instead(self, who: set[str]) -> int | None:
        """Another pass of the step that gives these variables a gradient, and they move."""
        for other in self.trace.passes if self.first_order else ():
            its = PassGraph(self.trace, other)
            given = [v for v, g in its.gradients if g is not None and 0 < wide_norm([g]) < inf]
            moved = {names.value_name(self.trace, v) for v in given if self._moves(v)}
            if who <= moved and its.training_step == self.training_step:
                return other.index
        return None

    def _moves(self, value: Value) -> bool:
        """Whether the code changes a variable after it has used this value of it."""
        op = self.trace.maker(value)
        held = self.trace.after.get(op.name) if op else None
        later = op is not None and op.outputs[-1] is not value
        return held is not None and (later or not np.array_equal(value.numpy(), readable(held)))

    @cached_property
    def _leading(self) -> set[int]:
        """The nodes from which a path leads to a target."""
        found = {edge.source for edge in self.selection.targets}
        for i in reversed(range(len(self.selection.nodes))):  # edges lead to later nodes
            if any(edge.target in found for edge in self._useful(i)):
                found.add(i)
        return found

    def onward(self, node: int) -> list[Edge]:
        """The edges of a node that are on a path to a target, except those into shape helpers."""
        return [edge for edge in self._useful(node) if edge.target in self._leading]

    def _useful(self, node: int) -> list[Edge]:
        leaving = self.selection.outgoing[node]
        return [e for e in leaving if self.op(e.target).type not in names.SHAPE_HELPERS]


# --- causes ------------------------------------------------------------------------------------

Words = tuple[str, str, str]  # a message, a hint and a lesson


@dataclass(frozen=True)
class Cause:
    """One cause of a problem: when it holds, and what to say about it."""

    name: str
    lesson: str = DEBUGGING
    ops: str = ""  # the op types that it applies to; "" for all
    when: Callable[[Any], object] | None = None  # None: no further condition
    level: str = "error"  # of its findings; or "warning", "note"
    message: str = ""  # `{name}` is an item of what `words` is given
    hint: str = ""
    optional: bool = False  # no fault if another pass of the step gives the gradient

    def says(self, message: str, hint: str) -> Cause:
        """A copy of the record with these words."""
        return replace(self, message=message, hint=hint)

    def words(self, known: Any) -> Words:
        """The message, hint and lesson for a case."""
        return self.message.format_map(known), self.hint.format_map(known), self.lesson


# --- words -------------------------------------------------------------------------------------


def at(op: Op, backward: bool = False) -> str:
    """An op with the learner's own line: "Round (line 3: `y = tf.round(x)`)".

    Backward, the line of a custom op is where its rule is written, not where it is called.
    """
    if op.kind in ("input", "variable", "constant"):
        return f"`{op.name}`"
    custom = op.kind == "custom"
    where = op.rule if custom and backward else op.source
    return (f"`{op.type}`" if custom else op.type) + line(where or op.source or op.rule)


def listed(given: Iterable[str]) -> str:
    """Some names as a list: "`x`, `y` and 3 more"."""
    unique = list(dict.fromkeys(given))
    if len(unique) > 4:
        unique = [*unique[:3], f"{len(unique) - 3} more"]
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"


# --- the learner's own text --------------------------------------------------------------------

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def calls(source: Source | None, pattern: str) -> list[tuple[ast.Call, Source]]:
    """Calls that match, in the functions around a line, else in the outermost statement.

    Args:
        source: The line.
        pattern: A regular expression for the whole name of the function, such as `tape.gradient`.

    Returns:
        The calls with their lines, outer ones first: none whose result a statement of its own
        drops, as within `print(...)`, nor one in another function, which need not have run.
    """
    _, *statements = around(source)
    if source is None or not statements:
        return []
    scope = next((n for n in statements if isinstance(n, FUNCTION)), statements[0])

    def drops(n: ast.AST) -> bool:
        kept = (ast.Lambda in map(type, ast.walk(n))) if isinstance(n, ast.Expr) else True
        return not (holds(n, source) if isinstance(n, FUNCTION) else kept)

    named = [(n, ast.unparse(n.func)) for n in ast.walk(scope) if isinstance(n, ast.Call)]
    # The outermost call of a dropped expression counts, as in `w.assign(x)`.
    dropped = {id(e) for n in ast.walk(scope) if drops(n) for e in [*ast.walk(n)][2:]}
    return [
        (n, Source(source.file, n.lineno, linecache.getline(source.file, n.lineno).strip()))
        for n, name in named
        if re.fullmatch(pattern, name, re.DOTALL) and id(n) not in dropped
    ]


def around(source: Source | None) -> list[Any]:
    """The syntax tree of a line's file, and the statements around the line, outermost first."""
    tree = parsed("".join(linecache.getlines(source.file)) if source else "")
    return [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.stmt) and holds(n, source))]


def holds(node: ast.stmt | ast.expr, source: Source | None) -> bool:
    """Whether a line is within a node."""
    return source is not None and node.lineno <= source.line <= (node.end_lineno or 0)
