"""One backward pass as a graph that is followed from a gradient to where a trouble began.

PassGraph   the pass: what each value is called, what reached it, which ops lead to the targets
origins     the one walk from a source towards the targets that zero and not-finite gradients share
Cause       a record: when something is the reason of a trouble, and what is said then
at, shown   an op, a tensor in words
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Pass, Source, Step, Trace, Value, names
from ..graph.jacobian import wide
from ..graph.selection import Edge, Selection, select
from ..lessons import DEBUGGING

MOST_ORIGINS = 3  # told per gradient: a fourth is seldom another mistake
MOST_TEXT = 70  # characters of the learner's line: it is to fit beside the words about it
Test = Callable[[Any], bool]
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

    def name(self, value: Value) -> str:
        """The learner's name of a value, as code."""
        return f"`{names.value_name(self.trace, value)}`"

    def contributions(self, value: Value) -> list[tuple[Step, int, Array]]:
        """What each use of a value returned to it; for a variable, all uses of all its reads."""
        maker = self.trace.producer(value)
        reads = maker[0].outputs if maker and maker[0].kind == "variable" else [value]
        return [part for read in reads for part in self.pass_.contributions(read)]

    def finding(self, what: str, words: Words, op: Op | None, sources: Iterable[Value]) -> Finding:
        """A finding about the gradients of some sources."""
        who = tuple(dict.fromkeys(names.value_name(self.trace, v) for v in sources))
        return Finding(what, *words, op, who, self.pass_.index)

    def path_edges(self, start: int) -> list[Edge]:
        """The edges on the paths from a node to the targets, past ops that tell of shapes only."""
        leaving = self.selection.outgoing

        def onward(node: int) -> Iterator[int]:
            ends = (edge.target for edge in leaving[node])
            return (end for end in ends if self.op(end).type not in names.SHAPE_HELPERS)

        reached = set(walk([start], onward))
        edges = [e for i in reached for e in leaving[i] if e.target in reached]
        wanted = {i for i in reached if self.selection.nodes[i].targets}
        for edge in sorted(edges, key=lambda e: -e.source):  # edges lead to later nodes
            if edge.target in wanted:
                wanted.add(edge.source)
        return [edge for edge in edges if edge.target in wanted]

    def followed(self, edge: Edge) -> bool:
        """Whether a tape follows along this edge, from the value into the op."""
        op, i = self.op(edge.target), edge.position
        if i < 0 or not op.recorded or op.rule_missing:
            return False
        return i >= len(op.watched) or op.watched[i]


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


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a trouble began: at a step's input, else in what a value starts with or adds up."""

    value: Value
    step: Step | None = None
    position: int = 0  # which input of the step's op
    adds_up: bool = False  # the gradients from the value's uses are in order, their sum is not


def origins(
    graph: PassGraph, test: Test, spreads: Callable[[Iterable[bool]], bool]
) -> Iterator[tuple[Value, Origin]]:
    """Where a property of gradients began: followed from each source that has it to the targets.

    Args:
        graph: The pass.
        test: Whether an array has the property.
        spreads: `all` if a sum or a rule passes the property on when all that it takes has it, as
            zero; `any` if one is enough, as NaN.

    Yields:
        Each source whose gradient has it, with up to three origins.
    """
    known: dict[Value, tuple[list[Origin], list[Value]]] = {}  # the paths of many sources meet

    def onward(here: Value) -> list[Value]:
        if here not in known:
            known[here] = _onward(graph, here, test, spreads)
        return known[here][1]

    for value, gradient in graph.gradients:
        if gradient is not None and test(gradient):
            found = (origin for here in walk([value], onward) for origin in known[here][0])
            yield from ((value, origin) for origin in islice(found, MOST_ORIGINS))


def _onward(
    graph: PassGraph, here: Value, test: Test, spreads: Callable[[Iterable[bool]], bool]
) -> tuple[list[Origin], list[Value]]:
    """What began at a value, and the values towards the targets that the rest comes from."""
    found: list[Origin] = []
    after: list[Value] = []
    parts, seed = graph.contributions(here), graph.seeds.get(here.key)
    given = [gradient for *_, gradient in parts] + ([] if seed is None else [seed])
    if seed is not None and test(seed):
        found.append(Origin(here))
    if not spreads(map(test, given)):
        return [*found, Origin(here, adds_up=True)], after
    for step, j, gradient in parts:
        pairs = zip(step.op.outputs, step.upstream, strict=True)
        arrived = [(v, u) for v, u in pairs if u is not None and u.size]
        if test(gradient) and spreads(test(u) for _, u in arrived):
            after += [v for v, u in arrived if test(u)]
        elif test(gradient):
            found.append(Origin(here, step, j))
    return found, after


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


# --- causes ------------------------------------------------------------------------------------

Words = tuple[str, str, str]  # a message, a hint and a lesson


class Cause(NamedTuple):
    """One cause of a trouble: what is said of it, and when it holds."""

    message: str  # `{name}` is an attribute of the case, or an entry
    hint: str
    lesson: str = DEBUGGING
    holds: Callable[[Any], object] = lambda case: True

    def words(self, known: Case | Mapping[str, Any]) -> Words:
        """What is said of a case."""
        return self.message.format_map(known), self.hint.format_map(known), self.lesson


class Case:
    """A trouble that is being explained: its attributes as the words of a cause name them."""

    def __getitem__(self, name: str) -> Any:
        found = getattr(self, name)
        if isinstance(found, np.ndarray):
            return shown(found)
        return style.number(found) if isinstance(found, float) else found

    def cause(self, causes: Mapping[str, Cause]) -> str:
        """The name of the first cause of a table that holds."""
        return next(name for name, cause in causes.items() if cause.holds(self))

    def words(self, causes: Mapping[str, Cause]) -> Words:
        """What the first cause that holds says."""
        return causes[self.cause(causes)].words(self)


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
