"""The code of a backward rule, with the numbers of one step under its names.

A name's number is known of the rule's parameters, of its closure, and of what was assigned once,
from an op. Of a name that is assigned twice or in a loop nothing is said, because it is not one
number.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from .. import style
from ..graph import Rule, Step, as_numpy

Line = tuple[str, list[tuple[str, str]]]  # its text; names and their numbers

RETURNED = "returned"  # in place of a name


def rule_lines(step: Step) -> list[Line]:
    """The lines of a custom op's rule, each with what its names were in this step.

    Args:
        step: A step of a custom op.

    Returns:
        Every line: its text, and pairs of a name and a number; no line where the code is not known.
    """
    rule = step.op.rule
    if rule is None:
        return []
    found: list[Line] = [(text, []) for text in rule.code]
    try:
        (function,) = ast.parse("\n".join(rule.code)).body
    except (SyntaxError, ValueError):  # a lambda amid an expression
        return found
    if not isinstance(function, ast.FunctionDef):
        return found
    nodes = list(_within(function.body))
    known = _known(step, rule, nodes)
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in known:
            noted = found[node.lineno - 1][1]
            if (node.id, known[node.id]) not in noted:
                noted.append((node.id, known[node.id]))
    found[function.lineno - 1][1].extend((n, known[n]) for n in rule.parameters if n in known)
    returns = [node for node in nodes if isinstance(node, ast.Return)]
    if len(returns) == 1:
        given = ", ".join(map(style.array, step.downstream))
        found[(returns[0].end_lineno or returns[0].lineno) - 1][1].append((RETURNED, given))
    return found


def _within(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes in source order, but for functions inside, which have names of their own."""
    for node in body:
        yield from _walk(node)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        for part in ast.iter_child_nodes(node):
            yield from _walk(part)


def _known(step: Step, rule: Rule, nodes: list[ast.AST]) -> dict[str, str]:
    """The numbers of the names that are assigned once."""
    upstream = list(map(style.array, step.upstream))
    if len(rule.parameters) < len(upstream):  # *upstream
        upstream = [", ".join(upstream)]
    known = {name: style.array(as_numpy(x)) for name, x in rule.closure.items()}
    known |= dict(zip(rule.parameters, upstream, strict=False))
    times = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    times.update(rule.parameters)
    loops = (ast.For, ast.While, ast.comprehension)
    inside = {part for n in nodes if isinstance(n, loops) for part in ast.walk(n)}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            made = _made(step, rule, name, node)
            if made is not None:
                known[name] = made
            times[name] += node in inside
    return {name: number for name, number in known.items() if times[name] < 2}


def _made(step: Step, rule: Rule, name: str, node: ast.Assign) -> str | None:
    """What was assigned to a name, if an op made it: ops are called by the name they are given."""
    lines = range(rule.line + node.lineno - 1, rule.line + (node.end_lineno or node.lineno))
    for op in step.ops:
        here = op.source and op.source.file == rule.file and op.source.line in lines
        if here and re.fullmatch(rf"{name}(_\d+)?", op.name) and len(op.outputs) == 1:
            return style.array(op.outputs[0].numpy())
    return None
