"""The learner's own text: how a line is quoted, the tapes around it, and what is called there.

The trace knows that no tape recorded an op; the text tells a stopped tape from a missing one. The
calls that matter leave no op at all, as `.numpy()`, or are written far from the ops they run.
"""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache

from ..graph import Op, Source

# Calls that take numbers out of TensorFlow; a mere `np.pi` or `np.float32` takes nothing out.
NUMPY = r"(np|numpy)\..+|float|.+\.(numpy|item|numpy_function)"
ASSIGNS = r".+\.(assign|assign_add|assign_sub|scatter_\w+)"
UPDATES = r".+\.(assign|assign_add|assign_sub|apply|apply_gradients|minimize)"
GRADIENT = r".+\.(gradient|jacobian|batch_jacobian)"

MOST_TEXT = 70  # characters of the learner's line: it is to fit beside the words about it


def at(op: Op) -> str:
    """An op with the learner's own line: "Round (line 3: `y = tf.round(x)`)"."""
    if op.kind in ("input", "variable", "constant"):
        return f"`{op.name}`"
    return (f"`{op.type}`" if op.kind == "custom" else op.type) + line(op.source or op.rule)


def line(source: Source | None) -> str:
    """The learner's own line in brackets, with a space before; empty where it is not known."""
    if source is None:
        return ""
    text = source.text if len(source.text) <= MOST_TEXT else source.text[: MOST_TEXT - 1] + "…"
    return f" (line {source.line}: `{text}`)" if text else f" (line {source.line})"


def inside_tape(source: Source | None) -> str:
    """How a line is written among the tapes of its own function.

    Args:
        source: The line.

    Returns:
        "stopped" inside `stop_recording`, "inside" a GradientTape block, "outside" where the
        function has such a block elsewhere, or "" where the text does not tell.
    """
    scope = max(_functions(source), key=_first_line, default=_tree(source))
    blocks = [n for n in ast.walk(scope) if isinstance(n, ast.With)]
    items = [" ".join(ast.unparse(each.context_expr) for each in n.items) for n in blocks]
    around = " ".join(i for n, i in zip(blocks, items, strict=True) if _holds(n, source))
    if "stop_recording" in around:
        return "stopped"
    if "GradientTape" in around:
        return "inside"
    return "outside" if any("GradientTape" in text for text in items) else ""


def numpy_call(op: Op, name: str, targets: list[Op]) -> Source | None:
    """Where the numbers of an op's output are taken out of TensorFlow.

    Args:
        op: The op. In the body of a custom op every call of NumPy counts.
        name: The name of the output.
        targets: The ops that made the targets: their functions are searched too.

    Returns:
        The line that calls `.numpy()`, a function of NumPy, `float()`, `.item()` or
        `tf.numpy_function()` on it: by its name, or in the op's own line. None if there is none.
    """
    for source in (op.source, op.rule, *(each.source for each in targets)):
        for call, where in calls(source, NUMPY):
            used = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
            own = source is op.rule or (source is op.source and _holds(call, source))
            if own or name in used:
                return where
    return None


def gradient_call(op: Op) -> Source | None:
    """The first line around an op that asks a tape for a gradient, outside every other tape."""
    found = (where for _, where in calls(op.source, GRADIENT) if inside_tape(where) != "inside")
    return next(found, None)


def update(op: Op) -> Source | None:
    """The first line around an op that changes variables, as an optimizer's step does."""
    return next((where for _, where in calls(op.source, UPDATES)), None)


def calls(source: Source | None, pattern: str) -> list[tuple[ast.Call, Source]]:
    """Calls of such a name in the outermost function around a line, or in its statement.

    Args:
        source: The line.
        pattern: What the whole name of the function called matches, as `tape.gradient`.

    Returns:
        The calls with their lines, in the order of these; none of those inside a `print`.
    """
    inside = [n for n in ast.iter_child_nodes(_tree(source)) if _holds(n, source)]
    scope = min(_functions(source), key=_first_line, default=inside[0] if inside else None)
    if source is None or scope is None:
        return []
    named = [(n, ast.unparse(n.func)) for n in ast.walk(scope) if isinstance(n, ast.Call)]
    printed = {id(each) for n, name in named if name == "print" for each in ast.walk(n)}
    return [
        (n, Source(source.file, n.lineno, linecache.getline(source.file, n.lineno).strip()))
        for n, name in named
        if re.fullmatch(pattern, name, re.DOTALL) and id(n) not in printed
    ]


def _functions(source: Source | None) -> list[ast.AST]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [n for n in ast.walk(_tree(source)) if isinstance(n, kinds) and _holds(n, source)]


def _holds(node: ast.AST, source: Source | None) -> bool:
    last = getattr(node, "end_lineno", 0) or 0
    return source is not None and _first_line(node) <= source.line <= last


def _first_line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _tree(source: Source | None) -> ast.Module:
    return _parsed("".join(linecache.getlines(source.file)) if source else "")


@lru_cache(maxsize=32)  # of a few notebook cells; parsing a long file takes 50 ms
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
