"""The pages of a trace for the browser: each a display list, its texts and its side panels.

Pages are made when they are asked for; their selections and display lists are kept.

    PageBuilder  makes the pages of one trace, by pass and by what is opened and closed
    document     all that the browser needs to begin
    mark         marks what differs between two pages
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from .. import style
from ..drawing import display, texts
from ..drawing.display import Display
from ..graph import Array, Op, Pass, Trace, differentiates, names, statistics
from ..graph.selection import Selection, select
from ..reading.format import counted, told_apart
from . import panel

Document = dict[str, Any]

MOST_RUNS = 40  # runs of backward rules that a page may cost unasked: about 20 ms
MOST_REPEATS = 40  # of one row that a file keeps, so that writing it takes a few seconds at most
MANY = 20  # nodes up to which there is no minimap: nearly all are in sight in a notebook
MOST_BARS = 12  # of a strip: a wider one would hide the node that it flies to
MOST_STEPS = 60  # of a trace whose chain rule can be copied: 30 fill a page
# The arrows in the legend: the line and the head of each.
SAMPLES = {
    "forward": (("forward", "M0 5H28"), ("forward-head", "M34 5L26 8.3V1.7Z")),
    "backward": (("backward", "M34 5H6"), ("backward-head", "M0 5L8 8.3V1.7Z")),
}
DEEP = 16  # a deeper picture runs down only: to the right it would be wider than a screen


@dataclass(eq=False)
class PageBuilder:
    """Makes the pages of one trace.

    Args:
        trace: The trace.
        which: The backward pass that is shown if no other is asked for.
        full: Show everything: constants, shape helpers, no folding.
        moved: As in `Selection`: the inputs that sliders move.
        framed: Whether scopes and custom ops can be opened and closed.
        moments: Other traces of the program, as a training kept them, by name. One is shown where
            its name is in `toggled`; traces that differ only in numbers share one picture.
        local: Write upstream · local before each downstream, or ≠: see `Trace.plot`.
    """

    trace: Trace
    which: int | None = None
    full: bool = False
    _: KW_ONLY
    moved: Mapping[str, str] | None = None
    framed: bool = True
    moments: Mapping[str, Trace] = field(default_factory=dict)
    local: bool = False
    fields: display.Fields = field(default_factory=dict)  # for which a quiz leaves space
    patient: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        chosen = self.trace.passes or self.which is not None
        self.which = self.trace.pass_(self.which).index if chosen else None
        self._known: dict[Any, Any] = {}
        self._selections: dict[Any, Selection] = {}
        self._displays: dict[Any, list[Display]] = {}
        self._rows: dict[Any, Any] = {}

    def patiently(self) -> PageBuilder:
        """A copy whose pages have every local Jacobian that is small enough to be read."""
        found = copy.copy(self)
        found.patient = True
        return found

    def _at(self, toggled: Sequence[str]) -> tuple[Trace, tuple[str, ...]]:
        """Which trace is shown, and what is opened and closed in it."""
        named = next((name for name in toggled if name in self.moments), "")
        opened = tuple(sorted(name for name in toggled if name != named))
        return self.moments.get(named, self.trace), opened

    def selection(self, which: int | None = None, toggled: Sequence[str] = ()) -> Selection:
        """What is shown of a pass; of the last one where the trace has fewer."""
        trace, opened = self._at(toggled)
        if which is None or self.which is None:
            which = self.which
        if which is not None:
            which = min(which, len(trace.passes) - 1)
        key = trace, which, opened
        if key not in self._selections:
            found = select(
                trace, which, self.full, framed=self.framed, toggled=opened, known=self._known
            )
            self._selections[key] = replace(found, moved=self.moved, local=self.local)
        return self._selections[key]

    def names(self, which: int | None = None, toggled: Sequence[str] = ()) -> list[str]:
        """The names of what can be opened or closed in a picture, scopes first."""
        shown = self.selection(which, toggled)
        found = [frame.name for frame in shown.frames] + [n.group for n in shown.nodes if n.group]
        return sorted(dict.fromkeys(found), key=lambda name: "custom:" in name)

    def others(self, which: int | None = None) -> list[str]:
        """The names of the repeats that are not shown, evenly thinned out where there are many."""
        return [
            f"{each.name}@{k}"
            for each in self.selection(which).repeats
            for k in range(0, len(each.labels), -(-len(each.labels) // MOST_REPEATS))
            if k != each.at
        ]

    def displays(self, which: int | None = None, toggled: Sequence[str] = ()) -> list[Display]:
        """The display lists of a picture, one for each direction in which it can run."""
        shown = self.selection(which, toggled)
        drawn, opened = display.signature(shown), self._at(toggled)[1]
        key = drawn, opened
        if key not in self._displays:
            names = [[], *([name] for name in self.moments)]
            others = [self.selection(which, [*opened, *name]) for name in names]
            found = display.arranged(
                shown,
                DEEP,
                alike=[x for x in others if x is not shown and display.signature(x) == drawn],
                fields=self.fields,
            )
            self._displays[key] = [*found]
        return self._displays[key]

    def picture(self, which: int | None = None, toggled: Sequence[str] = ()) -> Document:
        """What stays while only numbers change: display lists, their legend, the lines of the code.

        Each line comes with the nodes that it made.
        """
        lines: dict[tuple[int, str], list[int]] = {}
        for i, node in enumerate(self.selection(which, toggled).nodes):
            source = node.ops[0].source if len(node.ops) == 1 and node.kind != "port" else None
            if source:
                lines.setdefault((source.line, str(source)), []).append(i)
        found = [_line(text, nodes) for (_, text), nodes in sorted(lines.items())]
        return {
            "displays": [each.document() for each in self.displays(which, toggled)],
            "legend": _legend(self.displays(which, toggled)[0]),
            "code": panel.element("ol.code", *found) if found else None,
        }

    def page(self, which: int | None = None, toggled: Sequence[str] = ()) -> Document:
        """One picture with its texts and side panels."""
        trace, _ = self._at(toggled)
        shown = self.selection(which, toggled)
        runs = sum(v.size for n in shown.nodes if n.step for v in n.step.op.outputs)
        local = self.patient or runs <= MOST_RUNS
        # No minimap in a quiz, which it would answer, or with sliders, which do not update it.
        mapped = self.framed and self.moved is None and len(shown.nodes) > MANY
        return {
            **self.picture(which, toggled),
            "texts": texts_of(shown),
            "panels": panel.panels(trace, shown, local),
            "repeats": [{"name": r.name, "labels": r.labels, "at": r.at} for r in shown.repeats],
            "search": self._search(trace, shown),
            **({"norms": self._norms(trace, shown)} if mapped else {}),
        }

    def _search(self, trace: Trace, shown: Selection) -> Document:
        """What can be found in a picture: ops, variables and scopes, also those in closed folds.

        Returns:
            `rows` has for each its name, its kind, both as one text, and that text with the
            |gradient|; the largest is first. `at` has the node that shows it, and `open` what has
            to be toggled to see more of it: "" if it is fully shown.
        """
        nodes = [(i, n) for i, n in enumerate(shown.nodes) if n.kind != "use" and n.owner < 0]
        where = {op: i for i, node in nodes for op in node.ops}
        if (trace, shown.which) not in self._rows:  # the same whatever is open
            self._rows[trace, shown.which] = _rows(trace, shown.which, where)
        rows, _ = self._rows[trace, shown.which]
        turns = {
            op: f"{each.name}@{each.at if k == len(each.ops) - 1 else k}"  # the last is the default
            for each in shown.repeats
            for k, ops in enumerate(each.ops)
            if k != each.at
            for op in ops
        }

        def opens(wanted: Sequence[Op]) -> str:
            node = shown.nodes[where[wanted[0]]]
            own = [op for op in node.ops if op.kind != "variable"]
            if len(own) <= len(wanted) and set(own) <= set(wanted):
                return ""
            return turns.get(wanted[0], node.group)

        return {
            "rows": [row for row, _ in rows],
            "at": [where[ops[0]] for _, ops in rows],
            "open": [opens(ops) for _, ops in rows],
        }

    def _norms(self, trace: Trace, shown: Selection) -> list[Any]:
        """Per node the largest |gradient| of its ops, for the minimap.

        Returns:
            Per node the height of its bar, from 0 to 1 on a logarithmic scale; the |gradient| in
            words; and the sign that replaces the bar, or "". None for a node without a bar: a use,
            a port, or one inside a custom op.
        """
        _, sizes = self._rows[trace, shown.which]
        alone = [n.kind not in ("use", "port") and n.owner < 0 for n in shown.nodes]
        norms = [max((sizes.get(op, -1.0) for op in n.ops), default=-1.0) for n in shown.nodes]
        powers = [np.log10(x) for x in norms if 0 < x < np.inf] or [0.0]
        low, spread = min(powers), (max(powers) - min(powers)) or 1.0

        def said(x: float) -> tuple[float, str, str]:
            words = f"|gradient| up to {style.number(x)}"
            if x < 0:
                return -2.0, "no gradient", style.NONE.symbol
            if x == 0:
                return -1.0, words, style.ZERO.symbol
            high = round(float((np.log10(x) - low) / spread), 3) if x < np.inf else 2.0
            return high, words, "" if x < np.inf else style.NAN.symbol

        return [said(x) if own else None for own, x in zip(alone, norms, strict=True)]


def _line(text: str, nodes: Sequence[int]) -> panel.Element:
    """A line of the program: a button, which lights up together with the nodes that it made."""
    made = {"type": "button", "data-nodes": " ".join(map(str, nodes))}
    code = panel.element("code", text)
    return panel.element("li", panel.element("button.line", code, **made))


def _rows(
    trace: Trace, which: int | None, every: Iterable[Op]
) -> tuple[list[tuple[tuple[str, ...], list[Op]]], dict[Op, float]]:
    """The rows of a search, each with its ops; and the |gradient| of each op, -1 for none.

    The |gradient| of an op is the L2 norm of what arrives at its outputs; that of a scope is the
    largest among its ops.
    """
    found: dict[tuple[str, str], list[Op]] = {}
    sizes = {}
    for op in every:
        found[op.name, op.type if op.kind == "op" else op.kind] = [op]
        sizes[op] = -1.0 if which is None else _size(trace.passes[which], op)
    for op in sizes:
        for scope in accumulate(op.scope.split("/") if op.scope else [], "{}/{}".format):
            found.setdefault((scope, "scope"), []).append(op)
    largest = {row: max(sizes[op] for op in ops) for row, ops in found.items()}

    def words(name: str, what: str) -> tuple[str, str]:
        size = style.number(abs(largest[name, what]))
        known = f"{'up to' if what == 'scope' else '|gradient|'} {size}"
        op = found[name, what][0]
        drawn = names.symbol(op, {}) if what == op.type else op.type if what == "custom" else ""
        is_ = what if drawn.lower() in ("", what.lower(), name) else f"{drawn}, {what}"
        called = f"{name} ({' '.join(is_.split())})"
        return called, f"{called}: {known if largest[name, what] >= 0 else 'no gradient'}"

    order = sorted(found, key=lambda row: -largest[row])
    return [((*row, *words(*row)), found[row]) for row in order], sizes


def _size(each: Pass, op: Op) -> float:
    """The L2 norm of what arrives at an op's outputs: inf if it is NaN, -1 if nothing arrives."""
    norms = [statistics(a).norm for v in op.outputs if (a := each.upstream(v)) is not None]
    known = [float(x) for x in norms if x is not None]
    return float(np.nan_to_num(np.hypot.reduce(known), nan=np.inf)) if known else -1.0


def texts_of(shown: Selection) -> Document:
    """All texts that change with the numbers, as they are sent while a slider moves.

    Returns:
        `written` has the versions of each text of the display list, `nodes` the names of its nodes,
        `seed` the sentence about the start of the backward pass, and `links` what flies along each
        link: the value, the gradient if there is one, and the strips of both if they are arrays.
    """
    found = texts.written(shown)
    back = {text.i for text in found if (text.of, text.role) == ("link", "gradient")}
    ends = [(edge.value.numpy(), edge.contribution) for edge in (*shown.edges, *shown.targets)]
    seeds = [
        f"{panel.heading(shown.nodes[edge.source])} gets upstream {texts.spoken(edge.contribution)}"
        for edge in shown.targets
    ]
    return {
        "written": [text.versions for text in found],
        "seed": f"{', '.join(seeds)}.",
        "nodes": [texts.called(node) for node in shown.nodes],
        "links": [
            {
                "value": texts.spoken(value),
                "gradient": texts.spoken(gradient) if i in back else "",
                "strips": {"value": strip(value), "gradient": strip(gradient)},
            }
            for i, (value, gradient) in enumerate(ends)
        ],
    }


def strip(a: Array | None) -> list[float]:
    """Some bars between -1 and 1 that stand for the entries of an array; none for one number.

    With more entries than bars, a bar is the entry of largest magnitude among those it represents.
    """
    # A trace that was read from a file may have no numbers.
    if not isinstance(a, np.ndarray) or a.ndim == 0 or a.size == 0 or a.dtype.kind not in "fiuc":
        return []
    parts = np.array_split(a.reshape(-1), min(MOST_BARS, a.size))
    largest = np.array([part[np.argmax(np.abs(part))] for part in parts])
    return panel.heat(largest[None])[0]


# --- for the browser ------------------------------------------------------------------------------


def document(builders: Sequence[PageBuilder], which: int) -> Document:
    """All that the browser needs to begin: the pages of one trace, or of two side by side."""
    trace = builders[0].trace
    counts = [len(each.steps) for each in trace.passes]
    called = [f"backward pass {i}" for i in range(len(counts))]
    if len(called) == 2 and differentiates(trace.passes[1], trace.passes[0]):
        called = ["inner backward pass", "outer backward pass"]  # as bands and the legend say
    names = [f"{each}: {counted(n, 'step')}" for each, n in zip(called, counts, strict=True)]
    few = sum(counts) <= MOST_STEPS  # else the formulas are too long to be read
    return {
        "title": trace.title,
        "passes": names,
        "which": which,
        "names": told_apart([each.trace.title for each in builders], "trace"),
        "pages": pages(builders, which, []),
        "latex": [trace.chain_rule(i).latex for i in range(len(names) * few)],
    }


def _legend(shown: Display) -> panel.Element:
    """What the lines and marks of a picture mean."""
    rows = []
    for role, words in shown.legend:
        sample = [panel.element(f"path.{name}", d=d) for name, d in SAMPLES.get(role, ())]
        hidden = {"viewBox": "0 0 34 10", "aria-hidden": "true"}
        swatch = [panel.element("svg.swatch", *sample, **hidden)] if sample else []
        rows.append(panel.element("li", *swatch, words))
    return panel.element("ul.legend", *rows)


def pages(builders: Sequence[PageBuilder], which: int, toggled: Sequence[str]) -> list[Document]:
    """One page per trace; what differs between two is marked."""
    found = [each.page(which, toggled) for each in builders]
    if len(found) == 2:
        mark(*found)
        words = "≠ or underlined: differs from the other picture"
        found[0]["legend"].append(panel.element("li", words))
    return found


def page_key(which: int, toggled: Iterable[str]) -> str:
    r"""The key of pages in the page cache of the browser.

    >>> page_key(0, ["scope:b:0", "scope:a:0"])
    '0|scope:a:0\nscope:b:0'
    """
    return f"{which}|" + "\n".join(sorted(toggled))


# --- two traces side by side ---------------------------------------------------------------------


def mark(one: Document, other: Document) -> None:
    """Mark what differs between the texts of two pages of one program, each version by itself.

    Where all links have the same ends a text is compared with that in its place, else with that of
    the node or link of the same name.
    """
    first, second = (page["displays"][0]["links"] for page in (one, other))
    found = [_said(page, {} if first == second else _keys(page)) for page in (one, other)]
    for page, mine, its in zip((one, other), found, reversed(found), strict=True):
        known = {version for versions in its for version in versions}
        page["texts"]["written"] = [
            [(*version, text not in known) for version, text in zip(*each, strict=True)]
            for each in zip(page["texts"]["written"], mine, strict=True)
        ]


def _said(page: Document, keys: Mapping[tuple[str, int], Any]) -> list[list[Any]]:
    """The versions of each text: the key of its node or link, or else its place; role; words."""
    texts = zip(page["displays"][0]["texts"], page["texts"]["written"], strict=True)
    return [
        [(keys.get(place := (x["of"], x["i"]), place), x["role"], words) for _, words in versions]
        for x, versions in texts
    ]


def _keys(page: Document) -> dict[tuple[str, int], Any]:
    """A key of each node and link, from its name, by which two pages are matched."""
    said: dict[int, dict[str, str]] = {}
    for *_, ((of, i), role, words) in _said(page, {}):
        if of == "node":
            said.setdefault(i, {})[role] = words
    seen: Counter[Any] = Counter()
    found: dict[tuple[str, int], Any] = {}
    for i, own in sorted(said.items()):
        # The kind first: a custom op is compared with another custom op in its place.
        key = own.get("kind") or own.get("title"), own.get("name", "").split(" = ")[0]
        seen[key] += 1  # equal keys are numbered in order
        found["node", i] = key, seen[key]
    for i, x in enumerate(page["displays"][0]["links"]):
        ends = (found.get(("node", x[end]), "target") for end in ("source", "target"))
        found["link", i] = *ends, x["position"]
    return found
