"""The code of a backward rule, with the numbers of one step under its names."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .. import style
from ..graph import Rule, Step, as_numpy

Line = tuple[str, list[str]]  # its text; names and their numbers, such as "x = 2"


def rule_lines(step: Step) -> list[Line]:
    """The lines of a custom op's rule, each with what its names were in this step.

    A name's number is known of the rule's parameters, of its closure, and of what was assigned
    once, from an op. Of a name that is assigned twice or in a loop nothing is said, because it is
    not one number.

    Args:
        step: A step of a custom op.

    Returns:
        Every line: its text, and its names with their numbers; no line where the code is not known.
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
            found[line - 1][1].append(f"{name} = {known[name]}")
    if len(code.returns) == 1:
        given = ", ".join(map(style.array, step.downstream))
        found[code.returns[0] - 1][1].append(f"returns {given}")
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
