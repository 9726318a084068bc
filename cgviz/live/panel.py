"""The side panel of each node in full: `upstream x local = downstream`, with the numbers.

Only texts, made here once for the browser. A local Jacobian costs a run of the backward rule for
each entry of the output, so the caller says whether to ask for it.

    panels   a trace and a selection -> the side panel of every node
    panel    the same for one node
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from .. import style
from ..drawing.texts import Moments, bands
from ..graph import Array, Op, Pass, Rule, Step, Trace, Value, jacobian, names, wide
from ..graph.jacobian import is_small, products
from ..graph.selection import Edge, Node, Selection
from ..reading.chain_rule import Derivative, Path
from ..reading.format import Equation, marked
from ..reading.table import Line, rule_lines

Document = dict[str, Any]
Element = list[Any]  # its tag, its attributes, and its children, which are elements and texts
Part = tuple[str, str]  # of an equation: what a number is, or SIGN; and the number, or the sign

MOST_LETTERS = 3  # of a name beside each entry: a longer one leaves no space for the numbers
MOST_PATHS = 6  # of the chain rule that are listed: more are not followed one by one
MOST_OPS = 12  # ops of a folded node that are listed
TARGET = -1  # in place of an input's index, as in the display list: the link to a target
MOST_OUTPUTS = 4  # of an op, in the panel: more would fill it
LATER = "not yet"
SIGN = "times"  # of any sign in an equation
SHAPE = "local shape"  # above the shape of a local that is not shown with its numbers
LONGEST, MOST_ROWS = 44, 4  # letters and rows of a note: most of the picture stays in sight
# Per input, the inputs on whose values the local derivative depends. For other ops it is constant,
# or its dependence is not known.
_BOTH = ((0, 1), (0, 1))
DEPENDS: dict[str, tuple[tuple[int, ...], ...]] = {
    **dict.fromkeys(names.ELEMENTWISE, ((0,),)),
    **dict.fromkeys(("Mul", "MatMul", "BatchMatMulV2"), ((1,), (0,))),
    **dict.fromkeys(("Maximum", "Minimum", "Pow", "SquaredDifference"), _BOTH),
    **dict.fromkeys(("RealDiv", "DivNoNan"), ((1,), (0, 1))),
}
INSIDE = "no gradient comes here: TensorFlow runs the custom rule instead"
KINDS = {"custom": "custom op", "scope": "folded ops"}  # in words; any other kind is its own word


def panels(trace: Trace, shown: Selection, local: bool = True) -> list[Document]:
    """The side panel of every node."""
    return [panel(trace, shown, i, local) for i in range(len(shown.nodes))]


def panel(trace: Trace, shown: Selection, i: int, local: bool = True) -> Document:
    """The side panel of one node, with each small `local`, for which rules run, or without any.

    Returns:
        Elements as `element` makes them, each with the step from which on it is told: `about` comes
        before the inputs, `inputs` has the equation of each input, `more` comes after them. `rows`
        are the node's rows of the table; `come` is the step at which its gradient is complete. The
        picture writes `value` and `note` at the node, with leaders to the inputs in `depends`.
    """
    node, moments = shown.nodes[i], Moments(shown)
    found: Document = {"title": heading(node), "kind": node.kind, "inputs": [], "rows": []}
    if node.kind == "port":
        return found | {"title": names.value_name(trace, node.outputs[0]), "about": [], "more": []}
    each = None if shown.which is None or node.owner >= 0 else trace.passes[shown.which]
    op, folded, ran = node.ops[0], len(node.ops) > 1, moments.of_node(i)
    found["kind"] = KINDS.get(node.kind, op.kind if node.kind == "use" else node.kind)
    found["kind"] += " that a custom rule ran" if node.ruled else ""
    edges = *shown.outgoing[i], *shown.starts(i)
    come = found["come"] = max((moments.of_edge(edge) for edge in edges), default=shown.steps)
    if each is not None and local and (paths := _paths(trace, shown, each, node)):
        found["paths"] = paths
    made = [_output(trace, shown, i, k, each) for k in range(len(node.outputs))]
    total = made[0]["come"] if len(made) == 1 and made[0]["parts"] else ""
    upstream = ", ".join(output["upstream"] or "" for output in made)
    if each and all(x is None for x in node.upstream) and (reason := blocked(shown, i)):
        found["blocked"] = f", no gradient: {reason}"
    found["value"] = ", ".join(output["value"] for output in made)
    values = ", ".join(each["named"] + each["value"] for each in made)
    band = bands(shown).get(node.level) if node.level else ""
    level = f"in {band.replace('inner', 'the inner')}, " if band else ""
    named = values.startswith(f"{found['title']} = ")  # not "x gives x = 2"
    found["ran"] = f"{level}{values if named else found['title'] + ' gives ' + values}."
    about, more = [fact("backward", INSIDE)] if node.owner >= 0 else [], []
    if node.step is not None:
        found |= _rule(trace, shown, i, node.step, upstream, local and is_small(node.step))
        order = max(node.orders)
        if op.rule and (lines := rule_lines(node.step)):
            at = _made_by(shown, op.rule)
            nodes = [at.get(n, [i]) for n in range(len(lines))]
            more.append(_code(lines, nodes, max(order, come)))
        if op.rule_variables:  # in TensorFlow's order
            gradients = map(marked, node.step.downstream[-len(op.rule_variables) :])
            rows = list(zip(op.rule_variables, gradients, strict=False))
            more.append(grid("in TensorFlow’s order", ["variable", "gradient"], rows, since=order))
    elif node.orders:
        found["ruled"] = f"a backward rule of {found['title']} runs."  # one of those folded here
    for output in made[:MOST_OUTPUTS]:
        about += _told(output, ran, come, bool(found["inputs"]), "paths" in found)
    if folded:
        about.append(grid("the ops folded here", ["op", "type", "value"], _listed(node)))
        found["rows"] = [("", upstream, "", "")]
    elif facts := _facts(node, op):  # last: a low panel must not cut the numbers
        more.append(element("section.input", *facts))
    note = _note(total, found.pop("equations", ()))
    return found | {"about": about, "more": more, "note": note}


def _rule(
    trace: Trace, shown: Selection, i: int, step: Step, upstream: str, asked: bool
) -> Document:
    """What the rule of an op did: per input, in the rows of the table, and in a sentence.

    Without inputs that the picture does not show and to which nothing flows, such as constants.
    """
    node = shown.nodes[i]
    order = max(node.orders)
    edges = {e.position: e for e in shown.edges if e.target == i}
    given = step.products if asked else [*products(step)]
    called = [
        _called(trace, shown, edges[j].source, edges[j].output)
        if j in edges
        else names.value_name(trace, product.value)
        for j, product in enumerate(given)
    ]
    outputs = [_called(trace, shown, i, k) for k in range(len(step.op.outputs))]
    depends = DEPENDS.get(step.op.type, ()) if step.op.kind == "op" else ()
    found: Document = {"asked": asked, "rows": [], "inputs": [], "equations": []}
    ringed: set[int] = set()
    told = []
    for j, (name, product) in enumerate(zip(called, given, strict=True)):
        if j not in edges and product.returned is None:
            continue
        words, number = Equation(product), marked(product.value.numpy())
        later = "" if found["rows"] else f"Its backward rule runs in step {order}."  # said once
        detail = element("span.small", f" = {number}, {described(product.value)}")
        head = element("p.subtitle", f"to {name}", detail)
        parts = head, *_told_of(step, j, words, name, outputs)
        found["inputs"].append(element("section.input", *parts, since=order, later=later))
        returned = f"≠ {words.returned}" if words.should else words.returned
        found["rows"].append((f"{name} = {number}", upstream, _local(words), returned))
        if product.returned is None:  # no local is shown, so there is nothing to point at
            continue
        found["equations"].append(_summands(words))
        ringed.update(*depends[j : j + 1])
        if called.count(name) > 1 and j in edges and not shown.nodes[edges[j].source].label:
            name = named(shown, edges[j].source)  # to tell two × apart
        told.append(f"{words.returned} to {name}")
    several = len(node.outputs) > 1 and node.kind != "custom"
    who = f"{node.ops[0].type} ({title(node)})" if several else heading(node)
    listed = " and ".join(filter(None, [", ".join(told[:-1]), *told[-1:]]))
    ruled = f"{who} gets upstream {upstream} and returns {listed or 'nothing'}."
    found["equations"] = found["equations"] or [[[("downstream", "returns nothing")]]]
    return found | {"depends": sorted(ringed), "ruled": ruled}


def _local(words: Equation) -> str:
    """The local in a cell of the table; nothing where the rule returned nothing."""
    if words.product.returned is None:
        return ""
    if words.product.matrix is None:
        return ", ".join(local for _, local in words.factors)
    rows = [f"[{', '.join(_numbers(row))}]" for row in words.product.matrix]
    return f"[{', '.join(rows)}]"


def _summands(words: Equation) -> Iterator[list[Part]]:
    """An equation with a name for each number; a line may break between its summands."""
    for n, (up, local) in enumerate(words.factors):
        kind = SHAPE if local.endswith("]") else "local"
        first = [(SIGN, "+"), ("upstream", style.factor(up))] if n else [("upstream", up)]
        yield [*first, (SIGN, "·"), (kind, style.factor(local))]
    if words.should:
        yield [(SIGN, words.equal), ("upstream · local", words.should)]
    yield [(SIGN, words.sign), ("downstream", words.returned)]


def _note(total: str, equations: Iterable[Iterable[list[Part]]]) -> list[list[Part]]:
    """What is written at an op while its rule runs: each equation once, in words if it is long."""
    rows = [[("upstream", total)]] if total else []
    for summands in equations:
        parts = chain(*summands)
        # Not a shape, which would look like a number there.
        rows.append([(x.split()[0], "local" if x == SHAPE else words) for x, words in parts])
    plain = [("upstream", "upstream"), (SIGN, "·"), ("local", "local")]
    long = [sum(len(words) + 1 for _, words in row) > LONGEST for row in rows]
    found = [plain if each else row for row, each in zip(rows, long, strict=True)]
    return [row for n, row in enumerate(found) if row not in found[:n]][:MOST_ROWS] or [plain[:1]]


# --- elements ------------------------------------------------------------------------------------


def element(tag: str, *children: Any, **attributes: Any) -> Element:
    """An element of the page, as the browser builds it: text stays text.

    Args:
        tag: Its tag with its classes, such as "p.fact".
        children: Elements and texts.
        attributes: Its attributes. With `since` it is told from that step on, `later` until then.

    Example:
        >>> element("p.fact", "gradient ", element("b", "3", since=2))
        ['p.fact', {}, 'gradient ', ['b', {'since': 2}, '3']]
    """
    return [tag, attributes, *children]


def fact(name: str, *children: Any) -> Element:
    """A line: the name of a fact in small letters, and the fact."""
    return element("p.fact", element("span.small", f"{name} "), *children)


def grid(caption: str, columns: Sequence[str], rows: Sequence[Any], **attributes: Any) -> Element:
    """A table of rows; the first cell of each row names it."""
    head = element("tr", *(element("th", name, scope="col") for name in columns))
    body = [
        element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells))
        for name, *cells in rows
    ]
    parts = element("caption", caption), element("thead", head), element("tbody", *body)
    return element("table.plain", *parts, **attributes)


def _told(output: Document, ran: int, come: float, rule: bool, paths: bool) -> list[Element]:
    """An output: its value once the op `ran`; its gradient, and its terms, once they `come`."""
    value = element("span", output["value"], since=ran, later=LATER)
    named = element("span.forwardtext", output["named"], value)
    found = [fact("value", named, element("span.small", f" {output['is']}"))]
    if output["upstream"] is not None:
        later = "not complete yet" if output["parts"] else LATER
        gradient = element("span.backtext", output["come"], since=come, later=later)
        found.append(fact("upstream" if rule else "gradient", gradient))
    if output["parts"] and not paths:
        rows = [element("li", element("span.backtext", g), f" {x}") for x, g in output["parts"]]
        found.append(element("ul.parts", *rows, since=come))
    return found


def _told_of(
    step: Step, j: int, words: Equation, name: str, outputs: Sequence[str]
) -> Iterator[Element]:
    """What the rule returned to an input: the equation or Jacobian, and the reason if unequal."""
    product = words.product
    if product.returned is None:
        yield element("p.none", f"{style.NONE}: nothing flows back to {name}.")
        return
    if product.matrix is None:
        summands = [element("span.summand", *map(_term, parts)) for parts in _summands(words)]
        yield element("div.product", *summands)
    else:
        weighted = [(outputs[k], step.op.outputs[k]) for k, *_ in product.terms]
        yield _heatmap(words, product.matrix, weighted, name)
    if words.should:
        yield element("p.why", _why(step, j, words))
    if product.missing and step.pull:
        yield element("p.why", f"No local is shown: {product.missing}")


def _term(part: Part) -> Element:
    """A sign of an equation, or a number with its name above it."""
    name, words = part
    if name == SIGN:
        return element("span.sign.unequal" if words == "≠" else "span.sign", words)
    colour = "" if name.startswith("local") else ".backtext"
    return element(f"div.term{colour}", element("span.small", name), element("span.big", words))


def _code(lines: Sequence[Line], made: Sequence[Sequence[int]], told: float) -> Element:
    """The code of a rule, and from the step `told` on the values of its names, too.

    Each line lights up with the nodes that it `made`.
    """
    rows = []
    for (text, numbers), nodes in zip(lines, made, strict=True):
        noted = element("p.noted", "\u2003".join(numbers), since=told)
        looks = {"--cgviz-indent": f"{len(text) - len(text.lstrip())}ch"}
        looks["data-nodes"] = " ".join(map(str, nodes))
        rows.append(element("li", element("code", text), *([noted] if numbers else []), **looks))
    head = element("p.subtitle", "the backward rule")
    if any(numbers for _, numbers in lines):
        head.append(element("span", ", with the numbers of this step", since=told))
    return element("section.input", head, element("ol.code", *rows))


def _made_by(shown: Selection, rule: Rule) -> dict[int, list[int]]:
    """Per line of a rule the nodes of the ops that it ran, as a second backward pass shows them."""
    found: dict[int, list[int]] = {}
    for i, node in enumerate(shown.nodes):
        for line in {x.source.line for x in node.ops if x.source and x.source.file == rule.file}:
            found.setdefault(line - rule.line, []).append(i)
    return found


def title(node: Node) -> str:
    """What a node is called: by the learner's name, or by what it does."""
    return node.label or " ".join(node.symbol.split())


def heading(node: Node) -> str:
    """The title of a node; of a custom op with the name of its function, unless it is a lambda."""
    return _written(node) if node.kind == "custom" and node.symbol.isidentifier() else title(node)


def _written(node: Node) -> str:
    words = " ".join(node.symbol.split())
    return f"{words} ({node.label})" if node.label and words else node.label or words


def named(shown: Selection, i: int) -> str:
    """What is written on a node, with its value where another node has the same words."""
    node = shown.nodes[i]
    name = _written(node)
    alike = [n for n in shown.nodes if (n.symbol, n.label) == (node.symbol, node.label)]
    if len(alike) > 1 and len(node.outputs) == 1:
        return f"the {name} that is {style.array(node.outputs[0].numpy())}"
    return name


def _facts(node: Node, op: Op) -> list[Element]:
    written = op.kind in ("op", "custom") and op.type != title(node)
    captured = f"{len(op.captured)}: no gradient flows to it" if op.captured else ""
    facts = (
        ("type", op.type if written else ""),
        ("your code", element("code", str(op.source)) if op.source else ""),
        ("backward rule", f"line {op.rule.line}" if op.rule else ""),
        ("scope", op.scope),
        ("captured by closure", captured),
    )
    return [fact(*each) for each in facts if each[1]]


def _listed(node: Node) -> list[tuple[str, str, str]]:
    """The ops of a folded node: the name and type of each, and the dtype and shape of its value."""
    shown, left = node.ops[:MOST_OPS], len(node.ops) - MOST_OPS
    found = [(x.name, x.type, described(x.outputs[0]) if x.outputs else "") for x in shown]
    return found + ([(f"and {left} more", "", "")] if left > 0 else [])


# --- values --------------------------------------------------------------------------------------


def described(value: Value) -> str:
    """The dtype and shape of a value.

    >>> described(Value(0, (2, 3), "float32", None))
    'float32 [2×3]'
    """
    return f"{value.dtype} {style.shape(value) or 'scalar'}"


def _called(trace: Trace, shown: Selection, i: int, output: int) -> str:
    """The name of a node's output: the learner's, or else what the picture calls the node."""
    node = shown.nodes[i]
    maker = trace.maker(node.outputs[output])
    if maker is None or names.own_name(maker):
        return names.value_name(trace, node.outputs[output])
    return title(node) + (f"[{output}]" if len(node.outputs) > 1 else "")


def _output(trace: Trace, shown: Selection, i: int, output: int, each: Pass | None) -> Document:
    """An output of a node: its value, the gradient that came back to it, and the terms of a sum."""
    node = shown.nodes[i]
    value, name = node.outputs[output], _called(trace, shown, i, output)
    found: Document = {"value": marked(value.numpy()), "is": described(value)}
    # Where an op has no name of its own, its symbol is left out: "+ = 10" would mislead.
    nameless = name == title(node) and not node.label
    found |= {"named": "" if nameless else f"{name} = ", "upstream": None, "parts": []}
    if each is None:
        return found
    # The node of a variable that was assigned to has its whole gradient; here is each value's own.
    own = each.upstream(value) if len(node.outputs) > 1 else node.upstream[output]
    come = found["upstream"] = marked(own)
    edges = _summed(shown, node, output)
    # No terms where an edge stands for the uses of many values, which are stacked.
    if len(edges) > 1 and all(edge.values == 1 for edge in edges):
        terms = [marked(edge.contribution) for edge in edges]
        found["parts"] = [*zip((_user(shown, edge) for edge in edges), terms, strict=True)]
        come = f"{style.added(terms)} {style.equals([[x] for x in terms], come)} {come}"
    elif own is None and (reason := blocked(shown, i)):
        come += f": {style.BLOCKED} {reason}"
    return found | {"come": come}


def blocked(shown: Selection, i: int) -> str:
    """Why no gradient comes to a node: as its arrows say, those that leave it first."""
    arriving = (edge for edge in shown.edges if edge.target == i)
    for edges in (shown.outgoing[i], arriving):
        reasons = dict.fromkeys(edge.reason for edge in edges)
        if found := [x for x in reasons if x not in ("", "nothing arrives")]:
            return ", ".join(found)
    return ""


def _summed(shown: Selection, node: Node, output: int) -> list[Edge]:
    """The edges that add up to an output's gradient; uses may be nodes of their own."""
    alike = [i for i, each in enumerate(shown.nodes) if each.ops == node.ops]
    return [edge for i in alike for edge in shown.summands(i, [output])]


def _user(shown: Selection, edge: Edge) -> str:
    """Where a gradient is from, with the value of a node where several have its name."""
    if edge.target < 0:
        return "the pass starts here"
    node = shown.nodes[edge.target]
    name = title(node)
    alike = (each for each in shown.nodes if title(each) == name)
    if [value.size for value in node.outputs] != [1] or len([*islice(alike, 2)]) == 1:
        return f"from {name}"
    return f"from {name} = {style.array(node.outputs[0].numpy())}"


def _heatmap(
    words: Equation, matrix: Array, outputs: Sequence[tuple[str, Value]], name: str
) -> Element:
    """A small Jacobian as a heat map; before each row is its weight, an entry of upstream."""
    product = words.product
    weights = [x for _, up, _ in product.terms for x in _numbers(up)]
    entries = [entry for output in outputs for entry in _entries(*output, len(outputs) == 1)]

    def cell(number: str, tone: float) -> Element:
        share = {"--cgviz-heat": f"{round(abs(tone) * 42)}%"}
        return element("td.negative" if tone < 0 else "td", number, **share)

    def foot(array: Array | None, *words: Any) -> Element:
        name = element("th", *words, scope="row", colspan=3)
        return element("tr.sum", name, *(element("td.backtext", x) for x in _numbers(array)))

    head = element("th", "upstream", scope="col"), element("td.sign"), element("td")
    titles = [element("th", entry, scope="col") for entry in _entries(name, product.value)]
    body = []
    for weight, entry, row, tones in zip(weights, entries, matrix, heat(matrix), strict=True):
        before = element("td.backtext", weight), element("td.sign", "·")
        cells = map(cell, _numbers(row), tones)
        body.append(element("tr", *before, element("th", entry, scope="row"), *cells))
    feet = [foot(product.returned, "downstream")]
    if words.should:
        unequal = element("span.unequal", "≠"), " downstream"
        feet = [foot(product.total, "upstream · local"), foot(product.returned, *unequal)]
    parts = ("thead", [element("tr", *head, *titles)]), ("tbody", body), ("tfoot", feet)
    table = element("table.heat", *(element(tag, *rows) for tag, rows in parts))
    caption = "local Jacobian: each row is weighted by its upstream, and the rows are added"
    described = {"tabindex": 0, "role": "group", "aria-label": caption}
    shown = element("p.small", caption, **{"aria-hidden": "true"})
    return element("div.scroll", shown, table, **described)


def _numbers(a: Any) -> list[str]:
    return [style.number(x) for x in np.reshape(a, -1)]


def _entries(name: str, value: Value, alone: bool = True) -> list[str]:
    if not value.shape:
        return [name]
    if alone and not (len(name) <= MOST_LETTERS and name.isidentifier()):
        name = ""  # not `−[0]`; what is of several outputs keeps its name
    return [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(*value.shape)]


def heat(matrix: Array) -> list[list[float]]:
    """Every entry by the largest finite one, within -1 and 1: its tint or the height of its bar."""
    with np.errstate(all="ignore"):
        real = np.real(wide(matrix))
        top = np.max(np.abs(real), initial=0.0, where=np.isfinite(real))
    return np.nan_to_num(real / (top or 1.0), posinf=1.0, neginf=-1.0).round(2).tolist()


def _why(step: Step, j: int, words: Equation) -> str:
    """Why a rule returned something other than upstream x local, as a clipping rule does."""
    said = f"The rule returned {words.returned}, where upstream · local is {words.should}"
    if words.product.is_linear:
        return f"{said}."
    # Where upstream is 0 in this pass, 0 alone tells nothing. The other one fits any dtype.
    changes = (np.zeros_like, lambda u: 100 - u / 2)
    others = [jacobian.rerun(step, j, change) for change in changes]
    returned = np.asarray(words.product.returned)
    if np.any(returned) and all(x is not None and np.array_equal(x, returned) for x in others):
        return f"{said}: it returns this for other upstreams, too, so it ignores its upstream."
    return f"{said}: it is not linear in its upstream."


# --- paths ---------------------------------------------------------------------------------------


def _paths(trace: Trace, shown: Selection, each: Pass, node: Node) -> list[Document]:
    """The paths from the targets to a sum or a source, with upstream and its products on the way.

    Empty where not all of them are shown, or where their sum is not the gradient, because a rule is
    not linear in its upstream.
    """
    if len(node.outputs) != 1 or node.upstream[0] is None or node.kind == "use":
        return []
    (value,) = node.outputs
    if not node.asked and len(each.contributions(value)) < 2:
        return []
    found = Derivative(trace, each, "", value, node.upstream[0])
    if found.count > MOST_PATHS:
        return []
    links = {
        (id(shown.nodes[edge.target].step), edge.position): i for i, edge in enumerate(shown.edges)
    }
    for i, edge in enumerate(shown.targets, len(shown.edges)):
        links[edge.value.key, TARGET] = i
    places = [_places(path, links) for path in found.paths]
    if None in chain(*places) or not all(map(is_small, found.steps)) or not found.agrees:
        return []
    return [_path(path, place, shown) for path, place in zip(found.paths, places, strict=True)]


def _places(path: Path, links: dict[tuple[int, int], int]) -> list[int | None]:
    """The links of a path, from its target on; None for one that is not shown."""
    keys = [(path.target.key, TARGET), *((id(f.step), f.input) for f in path.factors)]
    return [links.get(key) for key in keys]


def _path(path: Path, places: Sequence[Any], shown: Selection) -> Document:
    """One path: its links, the product at each of its ops, and the whole as one formula."""
    numbers = list(map(marked, path.products))
    factors = [style.number(x) if x.size == 1 else "local" for x in path.locals]
    rows = []
    for (up, down), by in zip(pairwise(numbers), factors, strict=True):
        sign = style.equals([(up, by)], down)
        product = ("upstream", up), (SIGN, "·"), ("local", style.factor(by))
        rows.append([*product, (SIGN, sign), ("downstream", down)])
    whole, last = [numbers[0], *factors], numbers[-1]
    formula = f"{style.product(whole)} {style.equals([whole], last)} {last}"
    ops = [title(shown.nodes[shown.edges[place].target]) for place in places[1:]]
    through = ", ".join(f"({op})" if ", " in op else op for op in ops)  # one op, two outputs
    words = element("span.backtext", formula), element("span.small", f" through {through}")
    return {"links": places, "rows": rows, "words": words}
