"""The side panel of each node in full: `upstream x local = downstream`, with the numbers.

Texts only, made here once for the browser. A local Jacobian costs a run of the backward rule for
each entry of the output, so the caller says whether to ask for it.

    panels  a trace and a selection -> the side panel of every node
    panel   the same for one node
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from .. import style
from ..drawing.texts import targets
from ..graph import Array, Op, Pass, Step, Trace, Value, jacobian, wide
from ..graph.names import value_name
from ..graph.selection import Node, Selection
from ..reading.chain_rule import Derivative, Path
from .code import rule_lines

Document = dict[str, Any]
Ask = Callable[[Step], bool]
Term = tuple[Value, Array, Any]  # an output, its upstream, its local by one input

MOST_SIDE = 8  # rows and columns of a Jacobian that is shown with its numbers
MOST_LETTERS = 6  # of a name beside each entry, or they leave no space for the numbers
MOST_PATHS = 6  # of the chain rule that are listed: more are not followed one by one
TARGET = -1  # in place of an input, as in the display list: the link to a target
MOST_OPS = 12  # ops of a folded node that are listed
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
KINDS = {
    "op": "op",
    "custom": "custom op",
    "variable": "variable",
    "input": "input",
    "constant": "constant",
    "scope": "folded ops",
}


def panels(trace: Trace, shown: Selection, ask: Ask) -> list[Document]:
    """The side panel of every node; `ask` tells for which steps to run the rule for its local."""
    return [panel(trace, shown, node, ask) for node in shown.nodes]


def panel(trace: Trace, shown: Selection, node: Node, ask: Ask) -> Document:
    """The side panel of one node."""
    if not node.ops:
        name = value_name(trace, node.outputs[0])
        return {"title": name, "kind": "port", "facts": [], "outputs": [], "inputs": []}
    each = None if shown.which is None or node.owner >= 0 else trace.passes[shown.which]
    op = node.ops[0]
    folded = len(node.ops) > 1
    found: Document = {
        "title": node.label or " ".join(node.symbol.split()),
        "kind": KINDS[op.kind if node.kind == "use" else node.kind],
        "facts": [] if folded else _facts(op) + ([INSIDE] if node.owner >= 0 else []),
        "outputs": [_output(trace, each, node, i, v) for i, v in enumerate(node.outputs)],
        "inputs": [],
    }
    if each is not None and (paths := _paths(trace, shown, each, node, ask)):
        found["paths"] = paths
    if folded:
        found["ops"] = _listed(node)
    elif node.step is not None:
        found["inputs"] = _inputs(trace, node.step, ask(node.step))
        found["asked"] = ask(node.step)
        if op.kind == "custom":
            found["code"] = rule_lines(node.step)
        if op.rule_variables:
            found["variables"] = _variables(node.step)
    return found


def small(step: Step) -> bool:
    """Whether the local Jacobians of a step are few numbers, and few runs of its rule."""
    return all(v.size <= MOST_SIDE for v in step.op.outputs)


def _facts(op: Op) -> list[tuple[str, str]]:
    facts = []
    if op.kind in ("op", "custom"):
        facts.append(("type", op.type))
    if op.source is not None:
        facts.append(("your code", str(op.source)))
    if op.rule is not None:
        facts.append(("backward rule", str(op.rule)))
    if op.scope:
        facts.append(("scope", op.scope))
    if op.captured:
        facts.append(("captured by closure", f"{len(op.captured)}: no gradient flows to it"))
    return facts


def described(value: Value) -> str:
    """The dtype and shape of a value.

    >>> described(Value(0, (2, 3), "float32", None))
    'float32 [2×3]'
    """
    shape = f"[{'×'.join(map(str, value.shape))}]" if value.shape else "scalar"
    return f"{value.dtype} {shape}"


def _written(a: Any) -> str:
    mark = style.sign(a)
    text = style.array(a)
    return text if mark is None or mark is style.ZERO else f"{mark.symbol} {text}"


def _value(value: Value) -> str:
    return value.dtype if value.dtype in ("resource", "variant") else _written(value.numpy())


def _output(trace: Trace, each: Pass | None, node: Node, i: int, value: Value) -> Document:
    """A value of a node: what it is, what came back to it, and from where."""
    found: Document = {
        "name": value_name(trace, value),
        "value": _value(value),
        "is": described(value),
        "upstream": None if each is None else _written(node.upstream[i]),
    }
    if each is not None:
        parts = [
            (f"from {_user(step.op)}", _written(given))
            for step, _, given in each.contributions(value)
        ]
        if i in node.targets:
            parts.append(("the pass starts here", _written(node.seeds[node.targets.index(i)])))
        found["parts"] = parts
    return found


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
    found = Derivative(trace, each, "", value, node.upstream[0])
    links = {
        (id(shown.nodes[edge.target].step), edge.position): i for i, edge in enumerate(shown.edges)
    }
    for i, (target, output, _) in enumerate(targets(shown), len(shown.edges)):
        links[shown.nodes[target].outputs[output].key, TARGET] = i
    known = all(ask(step) for step in found.steps)
    try:
        if found.count > MOST_PATHS or not known or not found.agrees:
            return []
        paths = [_path(path, links) for path in found.paths]
    except RuntimeError:  # a rule that cannot run once more
        return []
    return [path for path in paths if path] if all(paths) else []


def _path(path: Path, links: dict[tuple[int, int], int]) -> Document | None:
    """One path; None where part of it is not shown."""
    keys = [(path.target.key, TARGET), *((id(f.step), f.input) for f in path.factors)]
    places = [links.get(key) for key in keys]
    if None in places or any(local is None for local in path.locals):
        return None
    products = [wide(path.upstream)]
    for local in path.locals:
        products.append(jacobian.times(products[-1], local))
    factors = [style.number(x) if x.size == 1 else style.shape(x) for x in path.locals]
    return {"links": places, "factors": factors, "products": [_written(x) for x in products]}


def _user(op: Op) -> str:
    return op.name if op.kind == "custom" or op.name != op.type else op.type


def _inputs(trace: Trace, step: Step, asked: bool) -> list[Document]:
    local: Any = None
    if asked and any(step.flows):
        try:
            local = step.local
        except RuntimeError:
            asked = False
    found = []
    depends = DEPENDS.get(step.op.type, ()) if step.op.kind == "op" else ()
    for j, value in enumerate(step.op.inputs):
        given = step.downstream[j]
        one: Document = {
            "name": value_name(trace, value),
            "value": _value(value),
            "is": described(value),
            "downstream": _written(given),
            "flows": given is not None,
            "depends": depends[j] if j < len(depends) else (),
            "products": [],
            "other": "",
            "why": "",
        }
        if given is not None and local is not None:
            one |= _equation(trace, step, j, given, local)
        found.append(one)
    return found


def _equation(trace: Trace, step: Step, j: int, given: Array, local: Any) -> Document:
    """The products whose sum is `downstream`, and where it is not, what the sum is and why."""
    terms = [
        (output, up, row[j])
        for output, up, row in zip(step.op.outputs, step.upstream, local, strict=True)
        if row[j] is not None and up is not None
    ]
    value = step.op.inputs[j]
    sizes = [output.size * value.size for output, _, _ in terms]
    plain = not any(isinstance(part, jacobian.LargeJacobian) for _, _, part in terms)
    total = _sum(terms) if plain and terms else None
    found: Document = {"products": [], "other": "", "why": ""}
    if total is not None and not jacobian.same(given, total[0], total[1]):
        other = _written(total[0])
        if other != _written(given):  # else the equation is true to the digits that are shown
            found |= {"other": other, "why": _why(step, j, given, total[0])}
    few = all(max(output.size, value.size) <= MOST_SIDE for output, _, _ in terms)
    whole = plain and all(part.size == n for (_, _, part), n in zip(terms, sizes, strict=True))
    if not (few and whole) or np.size(given) != value.size or set(sizes) <= {1}:
        found["products"] = [_product(up, part, value) for _, up, part in terms]
    else:
        found["products"] = [_matrix(trace, terms, value, given)]
        if found["other"]:
            found["products"][0]["other"] = _numbers(total[0] if total else None)
    return found


def _product(up: Array, local: Any, value: Value) -> Document:
    """Upstream and local of one output and one input, in short."""
    if isinstance(local, jacobian.LargeJacobian) or local.size != up.size * value.size:
        return {"upstream": _written(up), "local": f"[{'×'.join(map(str, local.shape))}]"}
    if local.size > 1:
        return {"upstream": _written(up), "local": style.summary(local, dtype=False)}
    return {"upstream": style.number(up), "local": style.number(local)}


def _matrix(trace: Trace, terms: Sequence[Term], value: Value, given: Any) -> Document:
    """Upstream and local of all outputs and one input, entry by entry."""
    matrix = np.concatenate(
        [np.reshape(part, (output.size, value.size)) for output, _, part in terms]
    )
    return {
        "upstream": ", ".join(_written(up) for _, up, _ in terms),
        "local": ", ".join(style.shape(part) for _, _, part in terms),
        "weights": [x for _, up, _ in terms for x in _numbers(up)],
        "cells": [_numbers(row) for row in matrix],
        "heat": heat(matrix),
        "sum": _numbers(given),
        "rows": [x for o, _, _ in terms for x in _entries(value_name(trace, o), o)],
        "columns": _entries(value_name(trace, value), value),
    }


def _numbers(a: Any) -> list[str]:
    return [style.number(x) for x in np.reshape(a, -1)]


def _entries(name: str, value: Value) -> list[str]:
    if not value.shape:
        return [name]
    name = name if len(name) <= MOST_LETTERS else ""
    return [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(*value.shape)]


def heat(matrix: Array) -> list[list[float]]:
    """Every entry between -1 and 1, for its tint or the height of its bar."""
    with np.errstate(all="ignore"):
        real = np.nan_to_num(np.real(wide(matrix)), nan=0.0, posinf=1e300, neginf=-1e300)
        top = np.max(np.abs(real), initial=0.0)
    return [[round(float(x), 2) for x in row] for row in (real / top if top else real)]


def _sum(terms: Sequence[Term]) -> tuple[Array, Array]:
    """The sum of upstream x local over the outputs, and of their absolute values."""
    total: Any = 0.0
    size: Any = 0.0
    for _, up, local in terms:
        total = total + jacobian.times(up, local)
        size = size + jacobian.times(np.abs(up), np.abs(local))
    return np.asarray(total), np.asarray(size)


def _why(step: Step, j: int, given: Array, total: Array) -> str:
    """Why a rule returned something other than upstream x local; a clipping rule does that."""
    said = f"The rule returned {_written(given)}, where upstream × local is {_written(total)}"
    if np.any(given):
        nothing = [None if up is None else np.zeros_like(up) for up in step.upstream]
        with redirect_stdout(io.StringIO()):  # a rule that prints has done so in its own pass
            unmoved = step.vjp(nothing)[j]
        if unmoved is not None and np.array_equal(unmoved, given):
            return f"{said}: it returns this for upstream 0, too, so it ignores its upstream."
    dtype = given.dtype
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        size = np.abs(total[np.isfinite(total) & (total != 0)])
        if np.any(size > limits.max) or (not np.any(given) and np.all(size < limits.tiny)):
            return f"{said}, which {dtype.name} cannot hold."
    if not (np.all(np.isfinite(total)) and np.all(np.isfinite(wide(given)))):
        return f"{said}."
    return f"{said}: it is not linear in its upstream."


def _variables(step: Step) -> list[tuple[str, str]]:
    """The variables that a custom rule was given, in TensorFlow's order, each with its gradient."""
    names = step.op.rule_variables
    return list(zip(names, map(_written, step.downstream[-len(names) :]), strict=False))


def _listed(node: Node) -> list[tuple[str, str, str]]:
    """The ops of a folded node: name, what it makes, its value in short."""
    found = [
        (op.name, op.type, described(op.outputs[0]) if op.outputs else "")
        for op in node.ops[:MOST_OPS]
    ]
    left = len(node.ops) - len(found)
    return found + ([(f"and {left} more", "", "")] if left else [])
