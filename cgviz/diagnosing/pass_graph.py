"""One backward pass as a graph that is followed from a gradient to where a trouble began.

PassGraph     the pass: what each value is called, what reached it, which ops lead to the targets
walk          the one walk that all questions share
Cause, Case   a record of why something is so, and a trouble that such records explain
at, shown     an op, a tensor in words
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Pass, Step, Trace, Value, names, wide
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
        found = {i for i, node in enumerate(self.selection.nodes) if node.targets}
        for edge in sorted(
            self.selection.edges, key=lambda e: -e.source
        ):  # they lead to later ones
            if edge.target in found and not self._tells_of_shapes(edge):
                found.add(edge.source)
        return found

    def onward(self, node: int) -> list[Edge]:
        """The edges on the paths from a node to the targets, past ops that tell of shapes only."""
        leaving = self.selection.outgoing[node]
        return [e for e in leaving if e.target in self._leading and not self._tells_of_shapes(e)]

    def _tells_of_shapes(self, edge: Edge) -> bool:
        return self.op(edge.target).type in names.SHAPE_HELPERS


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


def unlike(like: Array) -> Array:
    """Numbers between 1 and 2 of which no two are alike, and that have no simple sums."""
    golden = (np.sqrt(5.0) - 1) / 2  # its multiples are spread most evenly, and never meet
    return (1 + np.arange(like.size) * golden % 1).reshape(like.shape).astype(like.dtype)


def rerun(step: Step, j: int, change: Callable[[Array], Array]) -> Array | None:
    """What a step's rule returns to input j for a changed upstream; None where it cannot run."""
    given = [None if u is None else change(wide(u)).astype(u.dtype) for u in step.upstream]
    try:
        return step.vjp(given)[j]
    except RuntimeError:  # as of a trace that was read from a file
        return None


# --- causes ------------------------------------------------------------------------------------

Words = tuple[str, str, str]  # a message, a hint and a lesson


@dataclass(frozen=True)
class Cause:
    """One cause of a trouble: when it holds, and what is said of it."""

    name: str
    lesson: str = DEBUGGING
    ops: str = ""  # the types of op that it is about; "" for all
    when: Callable[[Any], object] = lambda case: True
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
        return next(each for each in about if each.when(self))

    @property
    def words(self) -> Words:
        """What that cause says."""
        return self.cause.words(self)


# --- words -------------------------------------------------------------------------------------


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
