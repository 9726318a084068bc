"""The pages of one trace for the browser: each a picture, its texts and its cards.

Pages are made when they are asked for, and kept.

    Album      the pages of one trace, by pass and by what is opened and closed
    document   what the browser begins with
    mark       what differs between two pages
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from ..drawing import picture
from ..drawing.picture import Picture
from ..graph import Step, Trace
from ..graph.selection import Selection, select
from ..reading import summary
from . import notes, sketch

Document = dict[str, Any]

MOST_RUNS = 40  # of backward rules that a first view may cost
ROOM = (820.0, 620.0)  # of a picture on a usual screen
READABLE = 0.8  # of the size on paper
DEEP = 16  # a longer path runs down at once, as on paper


class Album:
    """The pages of one trace."""

    def __init__(
        self,
        trace: Trace,
        which: int | None = None,
        full: bool = False,
        roomy: bool = False,
        framed: bool = True,
    ) -> None:
        self.trace = trace
        self.full = full
        self.patient = False
        self.roomy = roomy  # for numbers that a slider will change
        self.framed = framed  # with scopes and custom ops that open and close
        self.which = trace.pass_(which).index if trace.passes or which is not None else None
        self._selections: dict[Any, Selection] = {}
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

    def selection(self, which: int | None = None, toggled: Sequence[str] = ()) -> Selection:
        """What is shown of a pass."""
        which = self.which if which is None or self.which is None else which
        key = which, tuple(sorted(toggled))
        if key not in self._selections:
            self._selections[key] = select(
                self.trace, which, self.full, framed=self.framed, toggled=toggled
            )
        return self._selections[key]

    def names(self, which: int | None = None, toggled: Sequence[str] = ()) -> list[str]:
        """What can be opened or closed in a picture: scopes first."""
        shown = self.selection(which, toggled)
        found = [frame.name for frame in shown.frames] + [n.group for n in shown.nodes if n.group]
        return sorted(dict.fromkeys(found), key=lambda name: "custom:" in name)

    def arranged(self, which: int | None = None, toggled: Sequence[str] = ()) -> Picture:
        """The same in its place."""
        shown = self.selection(which, toggled)
        if shown not in self._pictures:
            self._pictures[shown] = picture.arranged(
                shown, ROOM if shown.depth <= DEEP else None, roomy=self.roomy, enough=READABLE
            )
        return self._pictures[shown]

    def page(self, which: int | None = None, toggled: Sequence[str] = ()) -> Document:
        """One picture with all that is written on it and on its cards."""
        shown = self.selection(which, toggled)
        placed = self.arranged(which, toggled)
        runs = sum(v.size for n in shown.nodes if n.step for v in n.step.op.outputs)
        cheap = self.patient or runs <= MOST_RUNS
        return {
            "lines": sketch.lines(placed),
            "texts": sketch.texts(shown),
            "notes": notes.notes(self.trace, shown, notes.small if cheap else _never),
        }

    def notes(self, which: int | None = None, toggled: Sequence[str] = ()) -> list[Document]:
        """The cards with every local Jacobian that is small enough to be read."""
        return notes.notes(self.trace, self.selection(which, toggled), notes.small)


def _never(step: Step) -> bool:
    return False


# --- for the browser ------------------------------------------------------------------------------


def document(trace: Trace, albums: Sequence[Album], which: int) -> Document:
    """All that the browser needs to begin: the pages of one trace, or of two beside each other."""
    return {
        "title": trace.title,
        "about": summary.title(trace),
        "passes": [_pass_name(trace, i) for i in range(len(trace.passes))],
        "which": which,
        "names": [album.trace.title for album in albums],
        "pages": pages(albums, which, []),
    }


def pages(albums: Sequence[Album], which: int, toggled: Sequence[str]) -> list[Document]:
    """One page per trace; what differs between two is marked."""
    found = [album.page(min(which, album.last), toggled) for album in albums]
    if len(found) == 2:
        mark(*found)
    return found


def page_key(which: int, toggled: Iterable[str]) -> str:
    """The name of pages among those at hand.

    >>> page_key(0, ["scope:b:0", "scope:a:0"])
    '0|scope:a:0,scope:b:0'
    """
    return f"{which}|{','.join(sorted(toggled))}"


def _pass_name(trace: Trace, i: int) -> str:
    count = len(trace.passes[i].steps)
    return f"backward pass {i}: {count} step{'s' * (count != 1)}"


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
