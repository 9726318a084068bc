"""The pages of one trace for the browser: each a picture, its texts and its cards.

Pages are made when they are asked for, and kept.

    Album   the pages of one trace, by pass and by what is unfolded
    mark    what differs between two pages
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..drawing import picture, scene
from ..drawing.picture import Picture
from ..drawing.scene import Node, Scene
from ..graph import Content, Op, Step, Trace, Value
from ..reading.chain import value_name
from . import notes, sketch

Document = dict[str, Any]

MOST_RUNS = 40  # of backward rules that a first view may cost
ROOM = (900.0, 520.0)  # of a picture on a usual screen
DEEP = 16  # a longer path runs down at once, as on paper
MOST_BODY = 40  # ops of a custom op's body that is drawn


class Album:
    """The pages of one trace."""

    def __init__(
        self, trace: Trace, which: int | None = None, full: bool = False, roomy: bool = False
    ) -> None:
        self.trace = trace
        self.full = full
        self.patient = False
        self.roomy = roomy  # for numbers that a slider will change
        self.which = trace.pass_(which).index if trace.passes or which is not None else None
        self._scenes: dict[Any, Scene] = {}
        self._pictures: dict[Any, Picture] = {}

    @property
    def last(self) -> int:
        """The number of the last pass."""
        return max(len(self.trace.passes) - 1, 0)

    def patiently(self) -> Album:
        """The same with every local Jacobian that is small enough to be read."""
        found = copy.copy(self)
        found.patient = True
        return found

    def scene(self, which: int | None = None, opened: Sequence[str] = ()) -> Scene:
        """What is shown of a pass."""
        which = self.which if which is None or self.which is None else which
        key = which, tuple(sorted(opened))
        if key not in self._scenes:
            self._scenes[key] = scene.make(self.trace, which, self.full, opened=opened)
        return self._scenes[key]

    def arranged(self, which: int | None = None, opened: Sequence[str] = ()) -> Picture:
        """The same in its place."""
        shown = self.scene(which, opened)
        if shown not in self._pictures:
            self._pictures[shown] = picture.arranged(
                shown, ROOM if shown.depth <= DEEP else None, roomy=self.roomy
            )
        return self._pictures[shown]

    def page(self, which: int | None = None, opened: Sequence[str] = ()) -> Document:
        """One picture with all that is written on it and on its cards."""
        shown = self.scene(which, opened)
        placed = self.arranged(which, opened)
        runs = sum(v.size for n in shown.nodes if n.step for v in n.step.op.outputs)
        cheap = self.patient or runs <= MOST_RUNS
        return {
            "lines": sketch.lines(placed),
            "texts": sketch.texts(shown),
            "notes": notes.notes(self.trace, shown, notes.small if cheap else _never),
            "bodies": _bodies(self.trace, shown),
        }

    def notes(self, which: int | None = None, opened: Sequence[str] = ()) -> list[Document]:
        """The cards with every local Jacobian that is small enough to be read."""
        return notes.notes(self.trace, self.scene(which, opened), notes.small)


def _never(step: Step) -> bool:
    return False


# --- inside custom ops ---------------------------------------------------------------------------


def _bodies(trace: Trace, shown: Scene) -> dict[str, Document]:
    """By node: the page of what a custom op ran inside."""
    found = {}
    for i, node in enumerate(shown.nodes):
        if node.kind == "custom" and len(node.ops) == 1 and 0 < len(node.ops[0].body) <= MOST_BODY:
            found[str(i)] = _body(trace, node)
    return found


def _body(trace: Trace, node: Node) -> Document:
    (op,) = node.ops
    inside = {v.key for inner in op.body for v in inner.outputs}
    read: dict[int, Value] = {}
    for inner in op.body:
        for value in inner.inputs:
            if value.key not in inside:
                read.setdefault(value.key, value)
    given = tuple(Op(value_name(trace, v), "input", "Input", (), (v,)) for v in read.values())
    within = Trace(Content(op.type, None, (), {}, (*given, *op.body), ()))
    shown = scene.make(within)
    placed = picture.arranged(shown, None)
    return {
        "lines": sketch.lines(placed),
        "texts": sketch.texts(shown),
        "notes": notes.notes(within, shown, _never),
        "bodies": {},
    }


# --- two traces side by side ---------------------------------------------------------------------


def mark(one: Document, other: Document) -> None:
    """Mark on two pages of the same program what differs in what they say."""
    for kind in ("nodes", "links"):
        pairs = _paired(one, other, kind)
        for page, side in ((one, 0), (other, 1)):
            page["differs"] = page.get("differs", {})
            page["differs"][kind] = [
                i
                for i in range(len(page["texts"][kind]))
                if i not in (matched := {pair[side]: pair for pair in pairs})
                or not _same(*(p["texts"][kind][k] for p, k in zip((one, other), matched[i])))  # noqa: B905
            ]


def _same(a: Document, b: Document) -> bool:
    compared = ("head", "gradient", "value", "blocked")
    return all(a.get(name) == b.get(name) for name in compared)


def _paired(one: Document, other: Document, kind: str) -> list[tuple[int, int]]:
    """Which nodes or links of two pages belong together, by what they are called and where."""
    keys = [_keys(page, kind) for page in (one, other)]
    place = {key: i for i, key in enumerate(keys[1])}
    return [(i, place[key]) for i, key in enumerate(keys[0]) if key in place]


def _keys(page: Document, kind: str) -> list[Any]:
    nodes = _numbered(
        [
            ("custom" if n["word"] else n["head"], n["name"].split(" = ")[0])
            for n in page["texts"]["nodes"]
        ]
    )
    if kind == "nodes":
        return nodes
    return [
        (nodes[link["from"]], "target" if link["target"] else nodes[link["to"]], link["position"])
        for link in page["lines"]["links"]
    ]


def _numbered(keys: Sequence[Any]) -> list[Any]:
    """The same key a second time becomes another."""
    seen: dict[Any, int] = {}
    found = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        found.append((key, seen[key]))
    return found
