"""The side panel of each node in full: `upstream x local = downstream`, with the numbers.

Texts only, made here once for the browser. A local Jacobian costs a run of the backward rule for
each entry of the output, so the caller says whether to ask for it.

    panels      a trace and a selection -> the side panel of every node
    panel       the same for one node
    rule_lines  the code of a backward rule, with the numbers of one step under its names
"""

from __future__ import annotations

import ast
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from .. import style
from ..graph import Array, Op, Pass, Rule, Step, Trace, Value, as_numpy, jacobian, names, wide
from ..graph.selection import Edge, Node, Selection
from ..reading.chain_rule import Derivative, Path

Document = dict[str, Any]
Ask = Callable[[Step], bool]
Term = tuple[int, Array, Any]  # which output, its upstream, its local by one input
Line = tuple[str, list[tuple[str, str]]]  # its text; names and their numbers

MOST_SIDE = 8  # rows and columns of a Jacobian that is shown with its numbers
MOST_LETTERS = 6  # of a name beside each entry, or they leave no space for the numbers
MOST_PATHS = 6  # of the chain rule that are listed: more are not followed one by one
MOST_OPS = 12  # ops of a folded node that are listed
TARGET = -1  # in place of an input, as in the display list: the link to a target
RETURNED = "returned"  # in place of a name in the code of a rule
# Per input, the inputs from whose values the local derivative is made; of other ops it is constant,
# or not known.
_OF_ITS_INPUT = """Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Expm1 Log Log1p
    Reciprocal Relu Relu6 Rsqrt Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Square Tan Tanh"""
_BOTH = ((0, 1), (0, 1))
DEPENDS: dict[str, tuple[tuple[int, ...], ...]] = {
    **dict.fromkeys(_OF_ITS_INPUT.split(), ((0,),)),
    **dict.fromkeys(("Mul", "MatMul", "BatchMatMulV2"), ((1,), (0,))),
    **dict.fromkeys(("Maximum", "Minimum", "Pow", "SquaredDifference"), _BOTH),
    **dict.fromkeys(("RealDiv", "DivNoNan"), ((1,), (0, 1))),
}
INSIDE = ("backward", "no gradient comes here: TensorFlow runs the custom rule instead")
KINDS = {"custom": "custom op", "scope": "folded ops"}  # in words; the others are their own


def panels(trace: Trace, shown: Selection, ask: Ask) -> list[Document]:
    """The side panel of every node; `ask` tells for which steps to run the rule for its local."""
    return [panel(trace, shown, i, ask) for i in range(len(shown.nodes))]


def panel(trace: Trace, shown: Selection, i: int, ask: Ask) -> Document:
    """The side panel of one node."""
    node = shown.nodes[i]
    if node.kind == "port":
        name = names.value_name(trace, node.outputs[0])
        return {"title": name, "kind": "port", "facts": [], "outputs": [], "inputs": []}
    each = None if shown.which is None or node.owner >= 0 else trace.passes[shown.which]
    op, folded = node.ops[0], len(node.ops) > 1
    kind = op.kind if node.kind == "use" else node.kind
    found: Document = {
        "title": title(node),
        "kind": KINDS.get(kind, kind),
        "facts": [] if folded else _facts(op) + ([INSIDE] if node.owner >= 0 else []),
        "outputs": [_output(trace, shown, i, k, each) for k in range(len(node.outputs))],
        "inputs": [],
    }
    if each is not None and (paths := _paths(trace, shown, each, node, ask)):
        found["paths"] = paths
    if folded:
        found["ops"] = _listed(node)
    elif node.step is not None:
        found["asked"] = ask(node.step)
        found["inputs"] = _inputs(trace, shown, i, node.step, found["asked"])
        if op.kind == "custom":
            found["code"] = rule_lines(node.step)
        if op.rule_variables:  # in TensorFlow's order
            given = map(_written, node.step.downstream[-len(op.rule_variables) :])
            found["variables"] = list(zip(op.rule_variables, given, strict=False))
    return found | {"ran": _ran(found), "ruled": _ruled(found) if each and node.orders else ""}


def _ran(found: Document) -> str:
    """What an op did, in a sentence."""
    made = ", ".join(f"{each['name']} = {each['value']}" for each in found["outputs"])
    return f"{found['title']} makes {made}."


def _ruled(found: Document) -> str:
    """What its backward rule did, in a sentence."""
    if not found["inputs"]:
        return f"a backward rule of {found['title']} runs."  # one of those that are folded
    upstream = ", ".join(each["upstream"] for each in found["outputs"])
    given = [f"{x['downstream']} to {x['name']}" for x in found["inputs"] if x["flows"]]
    returned = ", ".join(given) or "nothing"
    return f"{found['title']} gets upstream {upstream} and returns {returned}."


def small(step: Step) -> bool:
    """Whether the local Jacobians of a step are few numbers, and few runs of its rule."""
    return all(v.size <= MOST_SIDE for v in step.op.outputs)


def title(node: Node) -> str:
    """What a node is called: by the learner's name, or by what it does."""
    return node.label or " ".join(node.symbol.split())


def _facts(op: Op) -> list[tuple[str, str]]:
    captured = f"{len(op.captured)}: no gradient flows to it" if op.captured else ""
    facts = (
        ("type", op.type if op.kind in ("op", "custom") else ""),
        ("your code", str(op.source or "")),
        ("backward rule", str(op.rule or "")),
        ("scope", op.scope),
        ("captured by closure", captured),
    )
    return [fact for fact in facts if fact[1]]


def _listed(node: Node) -> list[tuple[str, str, str]]:
    """The ops of a folded node: name, what it makes, its value in short."""
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


def _written(a: Any) -> str:
    mark = style.sign(a)
    text = style.array(a)
    return text if mark is None or mark is style.ZERO else f"{mark.symbol} {text}"


def _value(trace: Trace, value: Value, name: str = "") -> Document:
    """A value: its name, its number, its dtype and shape."""
    number = value.dtype if value.dtype in ("resource", "variant") else _written(value.numpy())
    name = name or names.value_name(trace, value)
    return {"name": name, "value": number, "is": described(value)}


def _called(trace: Trace, shown: Selection, i: int, output: int) -> str:
    """An output of a node by the learner's name, or as the picture calls the node."""
    node = shown.nodes[i]
    maker = trace.producer(node.outputs[output])
    if maker is None or names.own_name(maker[0]):
        return names.value_name(trace, node.outputs[output])
    return title(node) + (f"[{output}]" if len(node.outputs) > 1 else "")


def _output(trace: Trace, shown: Selection, i: int, output: int, each: Pass | None) -> Document:
    """A value of a node: what it is, what came back to it, and from where."""
    node = shown.nodes[i]
    found = _value(trace, node.outputs[output], _called(trace, shown, i, output))
    if each is None:
        return found | {"upstream": None}
    uses = _uses(shown, node, output)
    parts = [(f"from {_user(shown, e.target)}", _written(e.contribution)) for e in uses]
    started = [edge.contribution for edge in shown.starts(i) if edge.output == output]
    parts += [("the pass starts here", _written(seed)) for seed in started]
    whole = all(e.values == 1 for e in uses)  # else it is one of many that share an arrow
    return found | {"upstream": _written(node.upstream[output]), "parts": parts if whole else []}


def _uses(shown: Selection, node: Node, output: int) -> list[Edge]:
    """What returned a gradient for an output, in the order in which its node has the terms.

    Also the uses that are nodes of their own.
    """
    return [
        edge
        for edge in shown.edges
        if edge.output == output
        and edge.contribution is not None
        and shown.nodes[edge.source].ops == node.ops
    ]


def _user(shown: Selection, i: int) -> str:
    """What a node is called, with its number where another is called the same."""
    node, name = shown.nodes[i], title(shown.nodes[i])
    alike = sum(title(each) == name for each in shown.nodes)
    if alike == 1 or [value.size for value in node.outputs] != [1]:
        return name
    return f"{name} = {style.array(node.outputs[0].numpy())}"


def _inputs(trace: Trace, shown: Selection, i: int, step: Step, asked: bool) -> list[Document]:
    """Per input what the rule returned, and the products of which that is the sum."""
    local: Any = None
    if asked and any(step.flows):
        with suppress(RuntimeError):  # a rule that cannot run once more
            local = step.local
    called = [_called(trace, shown, i, k) for k in range(len(step.op.outputs))]
    sources = {e.position: (e.source, e.output) for e in shown.edges if e.target == i}
    depends = DEPENDS.get(step.op.type, ()) if step.op.kind == "op" else ()
    found = []
    for j, (value, given) in enumerate(zip(step.op.inputs, step.downstream, strict=True)):
        name = _called(trace, shown, *sources[j]) if j in sources else ""
        one = _value(trace, value, name) | {
            "downstream": _written(given),
            "flows": given is not None,
            "depends": depends[j] if j < len(depends) else (),
            **{"products": [], "other": "", "why": ""},
        }
        if given is not None and local is not None:
            one |= _equation(step, j, given, local, [*called, one["name"]])
        found.append(one)
    return found


def _equation(step: Step, j: int, given: Array, local: Any, called: Sequence[str]) -> Document:
    """The products whose sum is `downstream`, and where it is not, what the sum is and why."""
    value, columns = step.op.inputs[j], called[-1]
    terms = [
        (k, up, row[j])
        for k, (up, row) in enumerate(zip(step.upstream, local, strict=True))
        if row[j] is not None and up is not None
    ]
    found: Document = {"products": [_product(up, part, value) for _, up, part in terms]}
    plain = terms and not any(isinstance(part, jacobian.LargeJacobian) for *_, part in terms)
    if not plain:
        return found
    total = sum((jacobian.times(up, part) for _, up, part in terms), np.zeros(()))
    size = sum((jacobian.times(np.abs(up), np.abs(x)) for _, up, x in terms), np.zeros(()))
    other = _written(total)
    # What is equal to the digits that are shown makes a true equation, too.
    differs = not jacobian.same(given, total, size) and other != _written(given)
    if differs:
        found |= {"other": other, "why": _why(step, j, given, total)}
    sizes = [up.size * value.size for _, up, _ in terms]
    few = max(value.size, *(up.size for _, up, _ in terms)) <= MOST_SIDE
    whole = [part.size for *_, part in terms] == sizes and given.size == value.size
    if few and whole and all(sizes) and set(sizes) != {1}:
        rows = [(called[k], step.op.outputs[k]) for k, *_ in terms]
        matrix = _matrix(terms, rows, (columns, value)) | {"sum": _numbers(given)}
        found["products"] = [matrix | ({"other": _numbers(total)} if differs else {})]
    return found


def _product(up: Array, local: Any, value: Value) -> Document:
    """Upstream and local of one output and one input, in short."""
    if isinstance(local, jacobian.LargeJacobian) or local.size != up.size * value.size:
        return {"upstream": _written(up), "local": style.shape(local)}
    short = style.summary(local, dtype=False) if local.size != 1 else style.number(local)
    return {"upstream": _written(up) if local.size != 1 else style.number(up), "local": short}


def _matrix(
    terms: Sequence[Term], outputs: Sequence[tuple[str, Value]], by: tuple[str, Value]
) -> Document:
    """Upstream and local of all outputs and one input, entry by entry."""
    matrix = np.concatenate([np.reshape(part, (up.size, -1)) for _, up, part in terms])
    return {
        "upstream": ", ".join(_written(up) for _, up, _ in terms),
        "local": ", ".join(style.shape(part) for *_, part in terms),
        "weights": [x for _, up, _ in terms for x in _numbers(up)],
        "cells": [_numbers(row) for row in matrix],
        "heat": heat(matrix),
        "rows": [entry for output in outputs for entry in _entries(*output)],
        "columns": _entries(*by),
    }


def _numbers(a: Any) -> list[str]:
    return [style.number(x) for x in np.reshape(a, -1)]


def _entries(name: str, value: Value) -> list[str]:
    if not value.shape:
        return [name]
    name = name if len(name) <= MOST_LETTERS and name.isidentifier() else ""  # not `−[0]`
    return [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(*value.shape)]


def heat(matrix: Array) -> list[list[float]]:
    """Every entry between -1 and 1, for its tint or the height of its bar."""
    with np.errstate(all="ignore"):
        real = np.nan_to_num(np.real(wide(matrix)), nan=0.0, posinf=1e300, neginf=-1e300)
        top = np.max(np.abs(real), initial=0.0)
    return (real / (top or 1.0)).round(2).tolist()


def _why(step: Step, j: int, given: Array, total: Array) -> str:
    """Why a rule returned something other than upstream x local; a clipping rule does that."""
    said = f"The rule returned {_written(given)}, where upstream × local is {_written(total)}"
    if np.any(given):
        nothing = [None if up is None else np.zeros_like(up) for up in step.upstream]
        with redirect_stdout(io.StringIO()):  # a rule that prints has done so in its own pass
            unmoved = step.vjp(nothing)[j]
        if unmoved is not None and np.array_equal(unmoved, given):
            return f"{said}: it returns this for upstream 0, too, so it ignores its upstream."
    if given.dtype.kind == "f":
        limits = np.finfo(given.dtype)
        size = np.abs(total[np.isfinite(total) & (total != 0)])
        if np.any(size > limits.max) or (not np.any(given) and np.all(size < limits.tiny)):
            return f"{said}, which {given.dtype.name} cannot hold."
    if not (np.all(np.isfinite(total)) and np.all(np.isfinite(wide(given)))):
        return f"{said}."
    return f"{said}: it is not linear in its upstream."


# --- paths ---------------------------------------------------------------------------------------


def _paths(trace: Trace, shown: Selection, each: Pass, node: Node, ask: Ask) -> list[Document]:
    """The paths from the targets to a sum or a source, with upstream and its products on the way.

    None where they are not all shown, or where their sum is not the gradient, because a rule is not
    linear in its upstream.
    """
    if len(node.outputs) != 1 or node.upstream[0] is None or node.kind == "use":
        return []
    (value,) = node.outputs
    if not node.source and len(each.contributions(value)) < 2:
        return []
    if any(shown.nodes[edge.target].step is None for edge in _uses(shown, node, 0)):
        return []
    found = Derivative(trace, each, "", value, node.upstream[0])
    if found.count > MOST_PATHS or not all(map(ask, found.steps)):
        return []
    links = {
        (id(shown.nodes[edge.target].step), edge.position): i for i, edge in enumerate(shown.edges)
    }
    for i, edge in enumerate(shown.targets, len(shown.edges)):
        links[edge.value.key, TARGET] = i
    try:
        paths = [_path(path, links) for path in found.paths] if found.agrees else []
    except RuntimeError:  # a rule that cannot run once more
        return []
    return [path for path in paths if path] if all(paths) else []


def _path(path: Path, links: dict[tuple[int, int], int]) -> Document | None:
    """One path; None where part of it is not shown."""
    keys = [(path.target.key, TARGET), *((id(f.step), f.input) for f in path.factors)]
    places = [links.get(key) for key in keys]
    if None in places or any(local is None for local in path.locals):
        return None
    products = [*accumulate(path.locals, jacobian.times, initial=wide(path.upstream))]
    factors = [style.number(x) if x.size == 1 else style.shape(x) for x in path.locals]
    return {"links": places, "factors": factors, "products": [_written(x) for x in products]}


# --- the code of a rule --------------------------------------------------------------------------


def rule_lines(step: Step) -> list[Line]:
    """The lines of a custom op's rule, each with what its names were in this step.

    A name's number is known of the rule's parameters, of its closure, and of what was assigned
    once, from an op. Of a name that is assigned twice or in a loop nothing is said, because it is
    not one number.

    Args:
        step: A step of a custom op.

    Returns:
        Every line: its text, and pairs of a name and a number; no line where the code is not known.
    """
    rule = step.op.rule
    if rule is None:
        return []
    found: list[Line] = [(text, []) for text in rule.code]
    code = _parsed(rule.code)
    if code is None:
        return found
    upstream = list(map(style.array, step.upstream))
    if len(rule.parameters) < len(upstream):  # *upstream
        upstream = [", ".join(upstream)]
    known = {name: style.array(as_numpy(x)) for name, x in rule.closure.items()}
    known |= dict(zip(rule.parameters, upstream, strict=False))
    known |= _made(step, rule, code)
    notes = [*code.uses, *((code.line, name) for name in rule.parameters)]
    for line, name in notes:
        if name in known and (code.times[name] + (name in rule.parameters)) < 2:
            found[line - 1][1].append((name, known[name]))
    if len(code.returns) == 1:
        given = ", ".join(map(style.array, step.downstream))
        found[code.returns[0] - 1][1].append((RETURNED, given))
    return found


class _Code(NamedTuple):
    """What the source of a rule says by itself; lines are numbered from 1."""

    line: int  # of `def`
    uses: list[tuple[int, str]]  # a line and a name in it, each once
    times: Counter[str]  # how often a name is assigned; in a loop more than once
    assigned: list[tuple[str, range]]  # a name and the lines of what is assigned to it
    returns: list[int]  # the last line of each `return`


@lru_cache(maxsize=64)  # a slider asks for the same few rules at each of its moves
def _parsed(code: tuple[str, ...]) -> _Code | None:
    try:
        (function,) = ast.parse("\n".join(code)).body
    except (SyntaxError, ValueError):  # a lambda amid an expression
        return None
    if not isinstance(function, ast.FunctionDef):
        return None
    nodes = [part for node in function.body for part in _walk(node)]
    called = [node for node in nodes if isinstance(node, ast.Name)]
    times = Counter(node.id for node in called if isinstance(node.ctx, ast.Store))
    loops = (ast.For, ast.While, ast.comprehension)
    inside = {part for n in nodes if isinstance(n, loops) for part in ast.walk(n)}
    assigned = []
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.append((node.targets[0].id, range(node.lineno, _end(node) + 1)))
            times[node.targets[0].id] += node in inside
    returns = [_end(node) for node in nodes if isinstance(node, ast.Return)]
    uses = [*dict.fromkeys((node.lineno, node.id) for node in called)]
    return _Code(function.lineno, uses, times, assigned, returns)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes in source order, but for functions inside, which have names of their own."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        for part in ast.iter_child_nodes(node):
            yield from _walk(part)


def _made(step: Step, rule: Rule, code: _Code) -> dict[str, str]:
    """What was assigned to names by ops: an op is called by the name that its value is given."""
    made = [
        (op, op.source.line - rule.line + 1)
        for op in step.ops
        if op.source and op.source.file == rule.file and len(op.outputs) == 1
    ]
    return {
        name: style.array(op.outputs[0].numpy())
        for name, lines in code.assigned
        for op, line in reversed(made)  # the first one stays
        if line in lines and re.fullmatch(rf"{name}(_\d+)?", op.name)
    }
