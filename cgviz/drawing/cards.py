"""What is written in a picture: the lines of each node, the two labels of each edge.

Texts only, no Matplotlib: paper and screen say the same.

    Card      the lines of one node
    Label     what stands beside an edge: the value on one side, the gradient on the other
    cards     selection -> Cards
    labels    selection -> Labels
    describe  selection -> the same in sentences, for screen readers
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import style
from ..graph import Array, Value
from ..graph.selection import Edge, Node, Selection

WIDEST = 22  # letters in a line of an edge's label
MOST = 12  # entries of an array that are written out
MANY = 3  # a value used more often stands in its node, and not at each of its edges


@dataclass(frozen=True)
class Card:
    """The lines of one node, from top to bottom; an empty one is not there."""

    head: str  # what it does, or the name of an input or variable
    name: str  # the learner's name of the result
    word: str  # its kind in words where the shape may not be known: "custom"
    gradient: str  # the sum of what came back: `3 + 4 = 7`


@dataclass(frozen=True)
class Label:
    """What stands beside an edge."""

    forward: str
    backward: str
    blocked: bool = False  # `backward` is the reason why nothing flows


def cards(selection: Selection, step: int | None = None) -> list[Card]:
    """The card of each node, after the first `step` steps; None is after all of them."""
    target = _target_name(selection)
    return [_card(selection, i, node, step, target) for i, node in enumerate(selection.nodes)]


def labels(selection: Selection, step: int | None = None) -> list[Label]:
    """The label of each edge, after the first `step` steps; None is after all of them."""
    return [_label(selection, edge, step) for edge in selection.edges]


def short(a: Array | None) -> str:
    """An array in few and narrow lines, with the sign of what is no ordinary number."""
    if a is None:
        return str(style.NONE)
    mark = style.sign(a)
    prefix = "" if mark is None or mark is style.ZERO else f"{mark.symbol} "
    if a.ndim == 0:
        return prefix + style.number(a)
    if 0 < a.size <= MOST and a.ndim <= 2 and a.shape[-1] <= 6:
        for digits, widest in ((4, WIDEST - 4), (3, WIDEST)):
            text = style.array(a, digits=digits, most=MOST, rows=",\n ")
            if max(map(len, text.split("\n"))) <= widest:
                return prefix + text
    text = prefix + style.summary(a, dtype=False)
    return text if len(text) <= WIDEST else text.replace("] ", "]\n", 1)


def value_text(value: Value) -> str:
    """A forward value in few and narrow lines."""
    if value.dtype in ("resource", "variant"):
        return value.dtype
    return short(value.numpy())


def _label(selection: Selection, edge: Edge, step: int | None) -> Label:
    known = _often(selection, edge.source) or _at_port(selection, edge)
    forward = "" if known else value_text(edge.value)
    if edge.contribution is not None:
        shown = step is None or 0 < edge.order <= step
        return Label(forward, short(edge.contribution) if shown else "")
    if not edge.reason or edge.reason == "nothing arrives":
        return Label(forward, "")
    # A block shows when the pass has come to it; one that it never comes to, at the end.
    orders = selection.nodes[edge.target].orders
    come = step is None or (min(orders) if orders else selection.steps) <= step
    text = f"{style.BLOCKED} {edge.reason}" if come else ""
    return Label(forward, _broken(text), blocked=come)


def _often(selection: Selection, i: int) -> bool:
    """Whether a node's one value is used so often that it is written once, in the node."""
    return len(selection.outgoing[i]) > MANY and len(selection.nodes[i].outputs) == 1


def _at_port(selection: Selection, edge: Edge) -> bool:
    """Whether a line goes on outside a frame, where its value is written."""
    return "port" in (selection.nodes[edge.source].kind, selection.nodes[edge.target].kind)


def _broken(text: str) -> str:
    """A long reason on two lines."""
    if len(text) <= 16:
        return text
    middle = min(
        (i for i, c in enumerate(text) if c == " " and i > 2),
        key=lambda i: abs(i - len(text) / 2),
        default=0,
    )
    return f"{text[:middle]}\n{text[middle + 1 :]}" if middle else text


def _card(selection: Selection, i: int, node: Node, step: int | None, target: str) -> Card:
    if node.kind == "port":
        return Card("", "", "", "")
    name = short_name(node.label)
    word = "custom" if node.kind == "custom" else ""
    head = node.symbol or name
    if node.kind == "scope" and name:
        head, name = name, node.symbol
    if name == head:
        name = ""
    alone = not selection.outgoing[i] and not node.targets and node.outputs
    if alone or _often(selection, i):
        value = value_text(node.outputs[0])
        if node.symbol:
            name = f"{name} = {value}" if name and "\n" not in value else value
        else:
            head, name = (f"{head} = {value}", "") if len(value) < 12 else (head, value)
    return Card(head, name, word, _gradient(selection, i, node, step, target))


def short_name(name: str) -> str:
    """The last two parts of a path, and no more than 24 letters."""
    name = "/".join(name.split("/")[-2:])
    return name if len(name) <= 24 else f"{name[:23]}…"


def _gradient(selection: Selection, i: int, node: Node, step: int | None, target: str) -> str:
    """The sum at a node: where a value is used more than once, and where a gradient was asked."""
    if selection.which is None:
        return ""
    uses = [e for e in selection.outgoing[i] if e.contribution is not None]
    terms = [e.contribution for e in uses] + [s for s in node.seeds if node.targets]
    come = [e for e in uses if step is None or e.order <= step]
    outputs = {e.output for e in uses} | set(node.targets)
    if not node.source and (len(terms) < 2 or len(outputs) > 1):
        return ""
    complete = len(come) == len(uses)
    if step is not None and not (complete and (uses or step >= selection.steps)):
        if len(terms) < 2 or not come or len(outputs) > 1:
            return ""
        text = " + ".join(short(e.contribution) for e in come)
        return f"{text if len(text) <= 30 else f'Σ of {len(come)}'} + …"
    total = node.upstream[0] if node.upstream else None
    result = short(total)
    parts = [short(t) for t in terms]
    asked = _derivative(target, short_name(node.label)) if node.source else ""
    if len(outputs) == 1 and len(parts) > 1:
        text = " + ".join(parts).replace(f"+ {style.MINUS}", f"{style.MINUS} ")
        fits = "\n" not in text and len(text) + len(result) <= 38
        asked = " = ".join(t for t in (asked, text if fits else f"Σ of {len(parts)}") if t)
    space = "\n" if "\n" in result else " "
    return f"{asked} ={space}{result}" if asked else result


def _derivative(target: str, source: str) -> str:
    text = f"d{target}/d{source}"
    return text if target and len(text) <= 14 and source.isidentifier() else "gradient"


def _target_name(selection: Selection) -> str:
    names = [n.label for n in selection.nodes for _ in n.targets]
    return names[0] if len(names) == 1 and names[0].isidentifier() else ""


def describe(selection: Selection) -> str:
    """The picture in sentences, edge by edge; it serves as the picture's alternative text.

    Args:
        selection: The selection.

    Returns:
        One line for the whole, one per edge, and one per gradient that was asked for.
    """
    names = [_called(node) for node in selection.nodes]
    head = f"Gradient flow: {len(selection.nodes)} nodes, {len(selection.edges)} edges"
    lines = [
        f"{head}, {selection.steps} backward steps." if selection.which is not None else f"{head}."
    ]
    for edge in selection.edges:
        text = f"{names[edge.source]} to {names[edge.target]}: value {_spoken(edge.value.numpy())}"
        if edge.contribution is not None:
            text += f", gradient {_spoken(edge.contribution)} flows back"
        elif edge.reason:
            text += f", no gradient: {edge.reason}"
        lines.append(text + ".")
    for node, name in zip(selection.nodes, names, strict=True):
        for output, seed in zip(node.targets, node.seeds, strict=True):
            value = _spoken(node.outputs[output].numpy())
            lines.append(f"Target {name}: value {value}, upstream {_spoken(seed)}.")
        if node.source and selection.which is not None:
            lines.append(f"Gradient of {name}: {_spoken(node.upstream[0])}.")
    return "\n".join(lines)


def _called(node: Node) -> str:
    words = " ".join(node.symbol.split())
    if node.kind in ("op", "scope"):
        return f"{node.label} ({words})" if node.label else words
    return f"{node.label or words} ({node.kind})"


def _spoken(a: Array | None) -> str:
    return style.array(a, most=6)
