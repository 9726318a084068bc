"""One backward pass as a graph that is followed from a gradient to where a trouble began.

PassGraph     the pass: what each value is called, what reached it, which ops lead to the targets
walk          the one walk that all questions share
Cause, Case   a record of why something is so, and a trouble that such records explain
at, shown     an op, a tensor in words
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Pass, Source, Step, Trace, Value, names, wide
from ..graph.selection import Edge, Selection, select
from ..lessons import DEBUGGING

MOST_ORIGINS = 3  # told per gradient: a fourth is seldom another mistake
Item = TypeVar("Item", bound=Hashable)


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
        """Whether the pass went over forward ops only."""
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
        """How many times the variables that it read had been assigned before."""
        used = [v for step in self.pass_.steps for v in step.op.inputs]
        makers = [self.trace.producer(v) for v in (*self.pass_.sources, *used)]
        return max((m[1] for m in makers if m and m[0].kind == "variable"), default=0)

    @cached_property
    def _nodes(self) -> dict[int, int]:
        nodes = self.selection.nodes
        return {v.key: i for i, node in enumerate(nodes) for v in node.outputs}

    def node(self, value: Value) -> int | None:
        """The index of the node that made a value."""
        return self._nodes.get(value.key)

    def op(self, node: int) -> Op:
        """The op of a node."""
        return self.selection.nodes[node].ops[0]

    def maker(self, value: Value) -> Op | None:
        """The op that made a value; None if it came from elsewhere."""
        made = self.trace.producer(value)
        return made and made[0]

    def kind(self, value: Value) -> str:
        """The kind of op that made a value; of an unread variable only the handle is known."""
        maker = self.maker(value)
        return "variable" if value.dtype == "resource" else maker.kind if maker else "input"

    def name(self, value: Value) -> str:
        """The learner's name of a value, as code."""
        return f"`{names.value_name(self.trace, value)}`"

    def contributions(self, value: Value) -> list[tuple[Step, int, Array]]:
        """What each use of a value returned to it; for a variable, all uses of all its reads."""
        maker = self.maker(value)
        reads = maker.outputs if maker and maker.kind == "variable" else [value]
        return [part for read in reads for part in self.pass_.contributions(read)]

    def finding(self, what: str, words: Words, op: Op | None, sources: Iterable[Value]) -> Finding:
        """A finding about the gradients of some sources."""
        who = tuple(dict.fromkeys(names.value_name(self.trace, v) for v in sources))
        return Finding(what, *words, op, who, self.pass_.index)

    @cached_property
    def _leading(self) -> set[int]:
        """The nodes from which a path leads to a target."""
        nodes = self.selection.nodes
        found = {i for i, node in enumerate(nodes) if node.targets}
        for i in reversed(range(len(nodes))):  # edges lead to later ones
            if any(edge.target in found for edge in self._useful(i)):
                found.add(i)
        return found

    def onward(self, node: int) -> list[Edge]:
        """The edges on the paths from a node to the targets, past ops that tell of shapes only."""
        return [edge for edge in self._useful(node) if edge.target in self._leading]

    def _useful(self, node: int) -> list[Edge]:
        leaving = self.selection.outgoing[node]
        return [e for e in leaving if self.op(e.target).type not in names.SHAPE_HELPERS]


def walk(start: Iterable[Item], onward: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """All that can be reached from some items, themselves included, each once.

    >>> sorted(walk([6], lambda n: [n // 2, n - 2] if n > 1 else []))
    [0, 1, 2, 3, 4, 6]
    """
    stack = list(start)
    seen = set(stack)
    while stack:
        here = stack.pop()
        for each in onward(here):
            if each not in seen:
                seen.add(each)
                stack.append(each)
        yield here


def is_zero(array: Any) -> bool:
    """Whether there are numbers, all of them zero."""
    a = wide(array)
    return a.size > 0 and not a.any()


def is_bad(array: Any) -> bool:
    """Whether there is a NaN or an infinity."""
    return not bool(np.isfinite(wide(array)).all())


# --- causes ------------------------------------------------------------------------------------

Words = tuple[str, str, str]  # a message, a hint and a lesson


@dataclass(frozen=True)
class Cause:
    """One cause of a trouble: when it holds, and what is said of it."""

    name: str
    lesson: str = DEBUGGING
    ops: str = ""  # the types of op that it is about; "" for all
    when: Callable[[Any], object] | None = None  # else it holds where it is asked for
    level: str = "error"  # of its findings; "warning", or "note" where other gradients flow
    message: str = ""  # `{name}` is an attribute of the case, or an entry
    hint: str = ""

    def says(self, message: str, hint: str) -> Cause:
        """The record with its words."""
        return replace(self, message=message, hint=hint)

    def words(self, known: Case | Mapping[str, Any]) -> Words:
        """What is said of a case."""
        return self.message.format_map(known), self.hint.format_map(known), self.lesson


class Case:
    """A trouble that is being explained: its attributes as the words of a cause name them."""

    causes: Sequence[Cause]
    type: str  # of the op

    def __getitem__(self, name: str) -> Any:
        found = getattr(self, name)
        if isinstance(found, np.ndarray):
            return shown(found)
        return style.number(found) if isinstance(found, float | complex) else found

    @cached_property
    def cause(self) -> Cause:
        """The first cause that holds."""
        about = (each for each in self.causes if not each.ops or self.type in each.ops.split())
        return next(each for each in about if each.when is None or each.when(self))

    @property
    def words(self) -> Words:
        """What that cause says."""
        return self.cause.words(self)


# --- words -------------------------------------------------------------------------------------


def at(op: Op) -> str:
    """An op with the learner's own line: "Round (line 3: `y = tf.round(x)`)"."""
    if op.kind in ("input", "variable", "constant"):
        return f"`{op.name}`"
    return (f"`{op.type}`" if op.kind == "custom" else op.type) + line(op.source or op.rule)


def line(source: Source | None) -> str:
    """The learner's own line in brackets, with a space before; empty where it is not known."""
    if source is None:
        return ""
    text = source.text if len(source.text) <= MOST_TEXT else source.text[: MOST_TEXT - 1] + "…"
    return f" (line {source.line}: `{text}`)" if text else f" (line {source.line})"


def listed(given: Iterable[str]) -> str:
    """Some names as a list: "`x`, `y` and 3 more"."""
    unique = list(dict.fromkeys(given))
    if len(unique) > 4:
        unique = [*unique[:3], f"{len(unique) - 3} more"]
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"


def shown(array: Any) -> str:
    """A few numbers in full, many by their range."""
    a = wide(array)
    if a.size <= 4 or a.dtype.kind == "c":
        return style.array(a, most=4)
    return f"{a.size} numbers from {style.number(a.min())} to {style.number(a.max())}"


# --- the learner's own text --------------------------------------------------------------------

# Calls that take numbers out of TensorFlow; a mere `np.pi` or `np.float32` takes nothing out.
NUMPY = r"(np|numpy)\..+|float|.+\.(numpy|item|numpy_function)"
ASSIGNS = r".+\.(assign|assign_add|assign_sub|scatter_\w+)"
UPDATES = r".+\.(assign|assign_add|assign_sub|apply|apply_gradients|minimize)"
GRADIENT = r".+\.(gradient|jacobian|batch_jacobian)"

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
MOST_TEXT = 70  # characters of the learner's line: it is to fit beside the words about it


def inside_tape(source: Source | None) -> str:
    """How a line is written among the tapes of its own function.

    Args:
        source: The line.

    Returns:
        "stopped" inside `stop_recording`, "inside" a GradientTape block, "outside" where the
        function has such a block elsewhere, or "" where the text does not tell.
    """
    scope = [n for n in _around(source) if isinstance(n, ast.Module | FUNCTION)][-1]
    blocks = [n for n in ast.walk(scope) if isinstance(n, ast.With)]
    items = [" ".join(ast.unparse(each.context_expr) for each in n.items) for n in blocks]
    around = " ".join(i for n, i in zip(blocks, items, strict=True) if _holds(n, source))
    if "stop_recording" in around:
        return "stopped"
    if "GradientTape" in around:
        return "inside"
    return "outside" if any("GradientTape" in text for text in items) else ""


def numpy_call(op: Op, name: str, targets: list[Op]) -> Source | None:
    """Where the numbers of an op's output are taken out of TensorFlow.

    Args:
        op: The op. In the body of a custom op every call of NumPy counts.
        name: The name of the output.
        targets: The ops that made the targets: their functions are searched too.

    Returns:
        The line that calls `.numpy()`, a function of NumPy, `float()`, `.item()` or
        `tf.numpy_function()` on it: by its name, or in the op's own line. None if there is none.
    """
    for source in (op.source, op.rule, *(each.source for each in targets)):
        for call, where in calls(source, NUMPY):
            used = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
            own = source is op.rule or (source is op.source and _holds(call, source))
            if own or name in used:
                return where
    return None


def gradient_call(op: Op) -> Source | None:
    """The first line around an op that asks a tape for a gradient, outside every other tape."""
    found = (where for _, where in calls(op.source, GRADIENT) if inside_tape(where) != "inside")
    return next(found, None)


def calls(source: Source | None, pattern: str) -> list[tuple[ast.Call, Source]]:
    """Calls of such a name in the outermost function around a line, or in its statement.

    Args:
        source: The line.
        pattern: What the whole name of the function called matches, as `tape.gradient`.

    Returns:
        The calls with their lines, in the order of these; none of those inside a `print`.
    """
    _, *around = _around(source)
    scope = next((n for n in around if isinstance(n, FUNCTION)), around[0] if around else None)
    if source is None or scope is None:
        return []
    named = [(n, ast.unparse(n.func)) for n in ast.walk(scope) if isinstance(n, ast.Call)]
    printed = {id(each) for n, name in named if name == "print" for each in ast.walk(n)}
    return [
        (n, Source(source.file, n.lineno, linecache.getline(source.file, n.lineno).strip()))
        for n, name in named
        if re.fullmatch(pattern, name, re.DOTALL) and id(n) not in printed
    ]


def _around(source: Source | None) -> list[ast.AST]:
    """The tree of a file, and its statements that hold a line, outermost first."""
    tree = _parsed("".join(linecache.getlines(source.file)) if source else "")
    return [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.stmt) and _holds(n, source))]


def _holds(node: ast.stmt | ast.expr, source: Source | None) -> bool:
    return source is not None and node.lineno <= source.line <= (node.end_lineno or 0)


@lru_cache(maxsize=32)  # of a few notebook cells; parsing a long file takes 50 ms
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
