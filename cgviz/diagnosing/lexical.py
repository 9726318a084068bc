"""What the learner's text says around a line: inside which `with` it stands, in which function.

The trace knows that no tape recorded an op; the text tells a stopped tape from a missing one.
"""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache

from ..graph import Source


def where(source: Source | None) -> str:
    """How a line stands to the tapes around it in its own function.

    Args:
        source: The line.

    Returns:
        "stopped" inside `stop_recording`, "inside" a GradientTape block, "outside" where the
        function has such a block elsewhere, or "" where the text does not tell.
    """
    if source is None:
        return ""
    scope = _scope(source)
    blocks = [n for n in ast.walk(scope) if isinstance(n, ast.With)] if scope else []
    around = [_items(b) for b in blocks if _holds(b, source.line)]
    if any("stop_recording" in items for items in around):
        return "stopped"
    if any("GradientTape" in items for items in around):
        return "inside"
    return "outside" if any("GradientTape" in _items(b) for b in blocks) else ""


def uses_numpy(source: Source | None) -> bool:
    """Whether the function around a line takes numbers out of TensorFlow.

    Args:
        source: A line of that function.

    Returns:
        True if it calls `.numpy()`, a function of NumPy, `float()`, `.item()` or
        `tf.numpy_function()`. A mere `np.pi` or `np.float32` takes nothing out.
    """
    return _calls(source, r"(np|numpy)\..+|float|.+\.(numpy|item|numpy_function)")


def assigns(source: Source | None) -> bool:
    """Whether the function around a line writes to a variable.

    Args:
        source: A line of that function.

    Returns:
        True if it calls `.assign()`, `.assign_add()`, `.assign_sub()` or a `.scatter_...()`.
    """
    return _calls(source, r".+\.(assign|assign_add|assign_sub|scatter_\w+)")


def _calls(source: Source | None, pattern: str) -> bool:
    """Whether the function around a line calls something of such a name."""
    scope = _outermost(source)
    found = [n for n in ast.walk(scope) if isinstance(n, ast.Call)] if scope else []
    return any(re.fullmatch(pattern, ast.unparse(n.func), re.DOTALL) for n in found)


def _items(block: ast.With) -> str:
    return " ".join(ast.unparse(item.context_expr) for item in block.items)


def _holds(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
    return first <= line <= last


def _functions(source: Source) -> list[ast.AST]:
    tree = _tree("".join(linecache.getlines(source.file)))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [n for n in ast.walk(tree) if isinstance(n, kinds) and _holds(n, source.line)]


def _scope(source: Source) -> ast.AST | None:
    """The innermost function around a line, or the whole text."""
    functions = _functions(source)
    if functions:
        return max(functions, key=lambda n: n.lineno)  # type: ignore[attr-defined]
    return _tree("".join(linecache.getlines(source.file)))


def _outermost(source: Source | None) -> ast.AST | None:
    """The outermost function around a line; at the top level the statement itself."""
    if source is None:
        return None
    functions = _functions(source)
    if functions:
        return min(functions, key=lambda n: n.lineno)  # type: ignore[attr-defined]
    tree = _tree("".join(linecache.getlines(source.file)))
    inside = [n for n in ast.iter_child_nodes(tree) if _holds(n, source.line)]
    return inside[0] if inside else None


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
