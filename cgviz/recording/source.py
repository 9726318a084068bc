"""The learner's own lines and names, found afterwards from positions in the code.

For each op, a recording keeps only a code object and an instruction offset, and the same of the
calling frame. From these, Python gives the exact span of the expression that ran (PEP 657), and the
syntax tree of the file or notebook cell gives the name that the expression was assigned to. In
`y = tf.sin(x) * x` the product is therefore named `y`, and the sine is not.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import sysconfig
import textwrap
from functools import cache, lru_cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from ..graph import Source

LEARNER, LIBRARY, OWN = range(3)
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SUSPECTS = _OWN + "suspects.py"  # written to be examined, so it counts as a learner's
_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
# Functions of ours that run a rule or call f. The search for a learner's frame ends at them: a
# frame further out called cgviz, and did not run the op.
_BOUNDARIES = {"run_rule", "differentiate"}

Place = tuple[CodeType | None, int, CodeType | None, int]
NOWHERE: Place = (None, 0, None, 0)
Span = tuple[int | None, int | None, int | None, int | None]


@lru_cache(maxsize=256)
def _is_installed(folder: str) -> bool:
    """Whether packages are installed in this folder: each has a `.dist-info` folder in it."""
    return os.path.isdir(folder) and any(x.endswith(".dist-info") for x in os.listdir(folder))


@cache
def kind(filename: str) -> int:
    """Whether a file is the learner's, a library's or cgviz's own."""
    if filename.startswith(_OWN) and filename != _SUSPECTS:
        return OWN
    is_library = (
        filename.startswith((*_STANDARD, "<frozen", "<__array_function__"))
        or "__autograph_generated_file" in filename
        or any(filename.startswith(x + os.sep) for x in sys.path if _is_installed(x))
    )
    return LIBRARY if is_library else LEARNER


def is_learners(function: Any) -> bool:
    """Whether a function is written in the learner's files; a callable without code counts too."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or kind(code.co_filename) == LEARNER


def place(frame: FrameType | None) -> Place:
    """Where the learner's own code is: in the innermost frame that is neither a library's nor ours.

    Returns that frame's code and instruction offset, and those of the frame that called it.
    """
    while frame is not None:
        code = frame.f_code
        found = kind(code.co_filename)
        back = frame.f_back
        if found == LEARNER:
            caller = (None, 0) if back is None else (back.f_code, back.f_lasti)
            return code, frame.f_lasti, *caller
        if found == OWN and code.co_name in _BOUNDARIES:
            break
        frame = back
    return NOWHERE


def locate(at: Place) -> Source | None:
    """The learner's file, the line in it and its text."""
    return _found(at)[0]


def elsewhere(file: str) -> str:
    """In words, a file other than that of the code that called cgviz: " of ops.py", or "".

    Cells of a notebook are no files of their own; suspects are not to be looked up.
    """
    code = place(sys._getframe())[0]
    named = code and code.co_filename != file and "ipykernel_" not in file
    named = named and os.path.isfile(file) and not file.startswith(_OWN)
    return f" of {os.path.basename(file)}" if named else ""


def lines(code: CodeType) -> tuple[str, ...]:
    """The source lines of a function, dedented; empty if they are not known."""
    try:  # `inspect.getsourcelines` would search all modules for a notebook cell, twice
        found = inspect.getblock(_lines(code.co_filename)[code.co_firstlineno - 1 :])
    except SyntaxError:  # the file has changed since
        return ()
    return tuple(textwrap.dedent("".join(found)).rstrip().split("\n")) if found else ()


def at_line(file: str, line: int) -> Source:
    """A line of a file."""
    text = "".join(_lines(file)[line - 1 : line])
    return Source(file, line, text.strip())


def _lines(file: str) -> list[str]:
    """The lines of a file, read again if it was edited."""
    linecache.checkcache(file)
    return linecache.getlines(file)


def assigned_name(at: Place) -> str | None:
    """The name that the running expression is assigned to; None if it is part of a larger one."""
    _, node, parent = _found(at)
    if isinstance(node, ast.AugAssign):
        return _name(node.target)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return _name(parent.targets[0])
    if isinstance(parent, ast.AnnAssign | ast.NamedExpr):
        return _name(parent.target)
    return None


def reduces(at: Place) -> bool:
    """Whether the running expression is a call of `sum`, `functools.reduce` or `tf.einsum`."""
    _, node, _ = _found(at)
    called = _name(node.func) if isinstance(node, ast.Call) else None
    return (called or "").rpartition(".")[2] in ("sum", "reduce", "einsum")


def operand_names(at: Place) -> tuple[str | None, ...]:
    """The names of the two operands of a binary operator, in TensorFlow's input order."""
    _, node, _ = _found(at)
    if isinstance(node, ast.BinOp):
        return _name(node.left), _name(node.right)
    if isinstance(node, ast.AugAssign):
        return _name(node.target), _name(node.value)
    return ()


def source_names(at: Place) -> list[str | None]:
    """The names in the sources argument of the running `tape.gradient(target, sources)`."""
    _, node, _ = _found(at)
    if not isinstance(node, ast.Call):
        return []
    given = node.args[1:2] or [k.value for k in node.keywords if k.arg == "sources"]
    return _leaves(given[0]) if given else []


def _leaves(node: ast.expr) -> list[str | None]:
    if isinstance(node, ast.List | ast.Tuple):
        return [name for element in node.elts for name in _leaves(element)]
    return [_name(node)]


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _name(node.value)
        return f"{owner}.{node.attr}" if owner else None
    if isinstance(node, ast.Tuple):
        names = [_name(element) for element in node.elts]
        return ", ".join(n for n in names if n) if all(names) else None
    return None


def _found(at: Place) -> tuple[Source | None, ast.AST | None, ast.AST | None]:
    code, lasti, *_ = at
    return (None, None, None) if code is None else _expression(code.co_filename, code, lasti)


@lru_cache(maxsize=4096)
def _expression(
    filename: str, code: CodeType, lasti: int
) -> tuple[Source, ast.AST | None, ast.AST | None]:
    """Where an instruction is, the syntax node that it belongs to, and that node's parent.

    Equal code objects may come from two files, so the file name is part of the cache's key.
    """
    span = next(islice(code.co_positions(), lasti // 2, None))
    where = at_line(filename, span[0] or code.co_firstlineno)
    return (where, *_tree("".join(_lines(filename))).get(span, (None, None)))


@lru_cache(maxsize=64)
def _tree(text: str) -> dict[Span, tuple[ast.AST, ast.AST]]:
    """Every expression and augmented assignment of a file by its span, with its parent."""
    found: dict[Span, tuple[ast.AST, ast.AST]] = {}
    for parent in ast.walk(parsed(text)):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.expr | ast.AugAssign):
                span = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
                found[span] = (node, parent)
    return found


@lru_cache(maxsize=32)  # enough for some notebook cells; parsing a long file takes 50 ms
def parsed(text: str) -> ast.Module:
    """The syntax tree of a file; an empty one if the file cannot be parsed."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
