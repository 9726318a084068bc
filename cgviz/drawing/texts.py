"""What is written in a picture, and at which step: the text of nodes, the labels of links.

    Moments   the steps of a picture: when each node, value and gradient comes
    Text      one text: what it says from each step on, and its place
    written   a selection -> all its texts
    describe  a selection -> the same in sentences, for screen readers

A step is a number: 0 is the end of the forward pass, k is backward step k, and -k is the forward
pass with k ops still to run. SEED is the start of the backward pass: only targets have their
upstream, and no rule has run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from textwrap import fill
from weakref import WeakKeyDictionary

from .. import style
from ..graph import Array
from ..graph.jacobian import is_small
from ..graph.names import output_name
from ..graph.selection import Edge, Node, Selection
from ..graph.trace import walk
from ..reading.format import Equation, counted
from .shapes import Anchor, Side

TITLE, TEXT = 14.0, 11.5  # sizes of letters, in points; 11 and more can be read when projected
REASON = 16  # letters in a line of why nothing flows back
LONGEST = 22  # letters in a line of a label: two labels and their lines fit between two nodes
MOST = 12  # the most entries of an array that are written out: a 3x4 matrix
SUM, MOVED = 38, 23  # the most letters of a sum that is written out; of one that a slider changes
MANY = 3  # a value used more often is written in its node, and not at each of its edges
SEED = 0.5  # between the end of the forward pass, 0, and the first backward step, 1
SOURCES = ("input", "variable", "constant", "port", "use")  # do not run: their values are there


class Moments:
    """The steps at which something changes, and what changes then."""

    def __init__(self, shown: Selection) -> None:
        nodes = shown.nodes
        self.shown = shown
        # The body of a custom op appears together with the op.
        self.forward = [i for i, n in enumerate(nodes) if n.kind not in SOURCES and n.owner < 0]
        self.ran = {i: place + 1 - len(self.forward) for place, i in enumerate(self.forward)}
        last = {max(node.orders) for node in nodes if node.orders}
        last |= {shown.steps} - {0}  # at which all has come, though its op may be left out
        self.backward = sorted({e.order for e in shown.edges if e.order} | last)

    @property
    def start(self) -> int:
        """The step at which nothing has run."""
        return -len(self.forward)

    def of_node(self, i: int) -> int:
        """The step from which a node has its values."""
        while self.shown.nodes[i].owner >= 0:
            i = self.shown.nodes[i].owner
        return self.ran.get(i, self.start)

    def of_edge(self, edge: Edge) -> float:
        """The step from which an edge shows its gradient, or the reason why it has none."""
        if edge.target < 0:
            return SEED
        orders = self.shown.nodes[edge.target].orders
        return edge.order or (min(orders) if orders else self.shown.steps)

    def shows(self, order: int) -> int:
        """The step of the picture that shows a step of the pass; a folded node shows its last."""
        return self.backward[bisect_left(self.backward, order)]


@dataclass(frozen=True)
class Text:
    """One text of a picture, and where it is: `display` places it."""

    role: str
    of: str  # what it belongs to: "node", "link", "frame" or "band"
    i: int  # which of them
    versions: tuple[tuple[float, str], ...]  # (step, words from it on), in order of steps
    size: float  # of its letters, in points
    x: float = 0.0
    y: float = 0.0
    anchor: Anchor = "middle"  # which of its points is at x
    side: Side = "around"  # whether it is above, around or below y
    step: float = 0.0  # the step from which it is shown
    now: tuple[float, ...] = ()  # the steps at which it is emphasised

    def at(self, step: float) -> str:
        """What it says at a step."""
        return next((words for start, words in reversed(self.versions) if start <= step), "")


_WRITTEN: WeakKeyDictionary[Selection, list[Text]] = WeakKeyDictionary()


def written(shown: Selection) -> list[Text]:
    """All texts of a picture, of its links, nodes, frames and bands; made once per selection.

    Links are the edges of the selection, then one to each target. Roles are "value", "gradient"
    and "reason" for links, "title", "name", "kind" and "gradient" for nodes, and "title" for
    frames and bands.
    """
    if shown not in _WRITTEN:
        _WRITTEN[shown] = _texts(shown)
    return _WRITTEN[shown]


def _texts(shown: Selection) -> list[Text]:
    moments = Moments(shown)
    found = list(_labels(shown, moments))
    for i in range(len(shown.nodes)):
        found += _node(shown, i, moments)
    found += [
        _text("title", "frame", k, [(moments.start, short_name(frame.label) or "ops in a row")])
        for k, frame in enumerate(shown.frames)
        if frame.node < 0
    ]
    for level, name in bands(shown).items():
        title = f"{name}: the ops of the gradient" if level else name
        found.append(_text("title", "band", level, [(moments.start, title)]))
    return [text for text in found if text.versions]


def bands(shown: Selection) -> dict[int, str]:
    """The name of each band, by its level; nothing if there is only one."""
    levels = sorted({node.level for node in shown.nodes})
    # Most such pictures have only one backward band, the inner tape's, which needs no number.
    inner = "backward pass {}" if len(levels) > 2 else "inner backward pass"
    names = [(k, inner.format(k - 1) if k else "forward pass") for k in levels]
    return dict(names) if len(names) > 1 else {}


def _text(role: str, of: str, i: int, versions: Sequence[tuple[float, str]]) -> Text:
    """A text without the versions that change nothing; one that is always empty has no versions."""
    pairs = pairwise([(0.0, ""), *versions])
    kept = tuple((step, words) for (_, before), (step, words) in pairs if words != before)
    size = TITLE if (role, of) == ("title", "node") else TEXT  # what a node does is read first
    return Text(role, of, i, kept, size)


# --- labels --------------------------------------------------------------------------------------


def _labels(shown: Selection, moments: Moments) -> Iterator[Text]:
    for i, edge in enumerate(shown.edges):
        if not (_inside(shown, edge.source) or _at_port(shown, edge)):
            ran = moments.of_node(edge.source)
            yield _text("value", "link", i, [(ran, _carried(edge))])
        come = moments.of_edge(edge)
        if edge.contribution is not None:
            product = _product(shown, edge)
            yield _text("gradient", "link", i, [(come, product + short(edge.contribution))])
        elif edge.reason and edge.reason != "nothing arrives":
            words = fill(f"{style.BLOCKED} {edge.reason}", REASON, break_long_words=False)
            yield _text("reason", "link", i, [(come, words)])
    for i, edge in enumerate(shown.targets, len(shown.edges)):
        yield _text("value", "link", i, [(moments.of_node(edge.source), short(edge.value.numpy()))])
        yield _text("gradient", "link", i, [(SEED, short(edge.contribution))])


def _product(shown: Selection, edge: Edge) -> str:
    """`upstream · local` and the sign after it, where there is one upstream and all are scalars.

    Before an array there is only ≠, where a rule returned something else.
    """
    step = shown.nodes[edge.target].step if shown.local else None
    if step is None or edge.uses > 1 or not is_small(step):
        return ""
    product = step.products[edge.position]
    words = Equation(product)
    scalar = product.total is not None and product.total.ndim == 0
    if not scalar or [upstream.ndim for _, upstream, _ in product.terms] != [0]:
        return "≠ " if words.should else ""
    return f"{style.product(words.factors[0])} {words.sign} "


def _carried(edge: Edge) -> str:
    """The value of an edge as text, with the number of values or uses if it represents many."""
    if edge.values > 1:
        return f"{edge.values} values\n{short(edge.value.numpy())}"
    return short(edge.value.numpy()) + (f"\n{edge.uses} uses" if edge.uses > MANY else "")


def short(a: Array | None) -> str:
    """An array in a few narrow lines, with the sign of None, NaN or infinity where there is one."""
    if a is None:
        return str(style.NONE)
    prefix = style.mark(a)
    if a.ndim == 0:
        return prefix + style.number(a)
    if 0 < a.size <= MOST and a.ndim <= 2 and a.shape[-1] <= 6:
        for digits, widest in ((4, LONGEST - 4), (3, LONGEST)):
            text = style.array(a, digits=digits, most=MOST, rows=",\n ")
            if max(map(len, text.split("\n"))) <= widest:
                return prefix + text
    text = prefix + style.summary(a, dtype=False)
    return text if len(text) <= LONGEST else text.replace("] ", "]\n", 1)


def _inside(shown: Selection, i: int) -> bool:
    """Whether a node's only value is written once, in it, as it is used often or on a slider."""
    node = shown.nodes[i]
    often = node.kind == "use" or (len(shown.outgoing[i]) > MANY and len(node.outputs) == 1)
    return often or shown.moves(node)


def _at_port(shown: Selection, edge: Edge) -> bool:
    """Whether an edge has an end at a port: its value is written where its line goes on outside."""
    return "port" in (shown.nodes[edge.source].kind, shown.nodes[edge.target].kind)


# --- nodes ---------------------------------------------------------------------------------------


def _node(shown: Selection, i: int, moments: Moments) -> list[Text]:
    """The lines of a node, from top to bottom."""
    node = shown.nodes[i]
    if node.kind == "port":
        return []
    start, ran = moments.start, moments.of_node(i)
    before, after = _title(shown, i, known=False), _title(shown, i, known=True)
    kind = "custom" if node.kind == "custom" else "custom rule" if node.ruled else ""
    return [
        _text("title", "node", i, [(start, before[0]), (ran, after[0])]),
        _text("name", "node", i, [(start, before[1]), (ran, after[1])]),
        # Its kind in words, since a reader may not know its shape.
        _text("kind", "node", i, [(start, kind)]),
        _text("gradient", "node", i, _gradients(shown, i)),
    ]


def _title(shown: Selection, i: int, known: bool) -> tuple[str, str]:
    """What a node does, or the name of an input; and the learner's name for the result.

    A value that no edge shows is written here, once it is known.
    """
    node = shown.nodes[i]
    name = short_name(node.label)
    title = node.symbol or name
    if node.kind == "scope" and name:
        title, name = name, node.symbol
    if name == title:
        name = ""
    alone = not shown.outgoing[i] and not shown.starts(i) and node.outputs
    if node.kind == "use":
        return title, f"×{node.uses}" if node.uses > 1 else ""
    if known and (alone or _inside(shown, i)):
        value = short(node.outputs[0].numpy())
        if node.symbol:
            name = f"{name} = {value}" if name and "\n" not in value else value
        else:
            title, name = (f"{title} = {value}", "") if len(value) < 12 else (title, value)
    if node.uses:
        name = f"{name}\nused ×{node.uses}".strip()
    return title, name


def short_name(name: str) -> str:
    """The last two parts of a name's path, cut to 24 letters."""
    name = "/".join(name.split("/")[-2:])
    return name if len(name) <= 24 else f"{name[:23]}…"


def _gradients(shown: Selection, i: int) -> list[tuple[int, str]]:
    """The text of a node's gradient, for each step at which it may change."""
    orders = {e.order for e in shown.outgoing[i] if e.contribution is not None}
    return [(step, _gradient(shown, i, step)) for step in sorted({0, shown.steps} | orders)]


def _gradient(shown: Selection, i: int, step: int) -> str:
    """The text of a node's gradient: the sum over several uses, or one that was asked for."""
    if shown.which is None:
        return ""
    node = shown.nodes[i]
    own = node.asked and node.kind != "variable"  # whose gradient is that of all its values
    if not node.asked and len(shown.outgoing[i]) + len(shown.targets) < 2:
        return ""  # it has no sum
    parts = shown.summands(i, node.asked if own else range(len(node.outputs)))
    uses = [e for e in parts if e.target >= 0]
    terms, outputs = [e.contribution for e in parts], {e.output for e in parts}
    summed = len(terms) > 1 and len(outputs) == 1
    if any(e.values > 1 for e in uses) or not (node.asked or summed):
        return ""
    come = [e for e in uses if e.order <= step]
    if len(come) < len(uses) or (not uses and step < shown.steps):
        if not (come and summed):
            return ""
        each = [short(e.contribution) if e in come else "…" for e in uses]
        text = style.added([b for a, b in pairwise(["", *each]) if (a, b) != ("…", "…")])
        return text if len(text) <= 34 else f"Σ of {len(come)} + …"
    result = ", ".join(short(node.upstream[k]) for k in node.asked or outputs)
    sides, sign = [_asked(shown, i)] if node.asked else [], "="
    if summed:
        numbers = [*map(short, terms)]
        text, most = style.added(numbers), SUM if shown.moved is None else MOVED
        if "\n" not in text and len(text) + len(result) <= most:
            sign = style.equals([[x] for x in numbers], result)
        else:
            text = f"Σ of {len(terms)}"
        sides.append(text)
    space = "\n" if "\n" in result else " "
    return f"{' = '.join(sides)} {sign}{space}{result}"


def _asked(shown: Selection, i: int) -> str:
    """What to call the gradient of a source; behind a custom rule it may be no derivative."""
    node, target = shown.nodes[i], _target_name(shown)
    first, *others = node.asked
    own = "" if others else output_name(node.label, first, len(node.outputs))
    source = short_name(own or node.label)
    text = f"d{target}/d{source}"  # with an underscore, such as dto_M/dM, it is hard to read
    if not target or len(text) > 14 or "_" in text or not source.isidentifier():
        return "gradient"
    ahead = walk([i], lambda n: [edge.target for edge in shown.outgoing[n]])
    return "gradient" if any(shown.nodes[n].kind == "custom" for n in ahead if n != i) else text


def _target_name(shown: Selection) -> str:
    """The name of the one target, if its upstream is the number 1: else there is no dy/dx."""
    if len(shown.targets) != 1 or "upstream" in (shown.moved or ()):
        return ""
    seed, name = shown.targets[0].contribution, shown.nodes[shown.targets[0].source].label
    one = seed is not None and seed.ndim == 0 and bool(seed == 1)
    return name if one and name.isidentifier() else ""


# --- for screen readers --------------------------------------------------------------------------


def describe(shown: Selection, step: int | None = None) -> str:
    """The picture in sentences, edge by edge; it serves as the picture's alternative text.

    Args:
        shown: The selection.
        step: How many backward steps the picture shows; None is all of them.

    Returns:
        One line for the whole, one per edge, band by band, one per target, and one per gradient
        that was asked for and that the picture shows.
    """
    names, band = [called(node) for node in shown.nodes], bands(shown)
    back = "" if shown.which is None else f", {counted(shown.steps, 'backward step')}"
    lines = [f"Gradient flow: {len(shown.nodes)} nodes, {len(shown.edges)} edges{back}."]
    levels = [shown.nodes[edge.target].level for edge in shown.edges]
    before = None
    for level, edge in sorted(zip(levels, shown.edges, strict=True), key=itemgetter(0)):
        if band and level != before:
            lines.append(f"{band[level].capitalize()}:")
        start, before = shown.nodes[edge.source].level, level
        where = f' in the band "{band[start]}"' if start != level else ""
        text = f"{names[edge.source]}{where} to {names[edge.target]}: "
        text += f"{edge.values} values" if edge.values > 1 else "value"
        text += f" {spoken(edge.value.numpy())}"
        if edge.contribution is not None and (step is None or edge.order <= step):
            product = _product(shown, edge)
            text += f", gradient {product}{spoken(edge.contribution)} flows back"
        elif edge.reason:
            text += f", no gradient: {edge.reason}"
        lines.append(text + ".")
    for i, (node, name) in enumerate(zip(shown.nodes, names, strict=True)):
        for edge in shown.starts(i):
            value, seed = spoken(edge.value.numpy()), spoken(edge.contribution)
            lines.append(f"Target {name}: value {value}, upstream {seed}.")
        if node.asked and shown.which is not None and step in (None, shown.steps):
            given = ", ".join(spoken(node.upstream[k]) for k in node.asked)
            lines.append(f"Gradient of {name}: {given}.")
    return "\n".join(lines)


def called(node: Node) -> str:
    """What a node is called in a sentence."""
    words = " ".join(node.symbol.split())
    if node.kind in ("op", "scope"):
        return f"{node.label} ({words})" if node.label else words
    kind = node.ops[0].kind if node.kind == "use" else node.kind
    if node.kind == "custom" and node.label and words.isidentifier():
        kind = f"{words}, custom"
    return f"{node.label or words} ({kind})"


def spoken(a: Array | None) -> str:
    """An array in a sentence."""
    return style.array(a, most=6)
