"""Bring a handed-in notebook into the shape that nbgrader can grade, and say what was done.

What students do to notebooks: delete cells, retype them, break the syntax, choose another kernel,
hand in last year's version, or a file that is no notebook. Each gets a sentence that says what to
do. The file handed in is only read.
"""

from __future__ import annotations

import ast
import copy
import symtable
import warnings
from collections import Counter
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

KERNEL = "python3"


def read(path: Path, expected: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The notebook of a file, or the empty exercise if it cannot be read; and what was noticed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
    except FileNotFoundError:
        why = "No notebook was handed in"
    except Exception as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        why = f"The file is no notebook that can be read ({first[:120]})"
    else:
        return notebook, []
    return empty(expected, why)


def empty(expected: NotebookNode, why: str) -> tuple[NotebookNode, list[str]]:
    """The exercise as it was given out, in place of what cannot be graded; and what to do."""
    return copy.deepcopy(expected), [
        f"{why}. The file is kept as it is. Open it in JupyterLab; if that fails too, take the "
        "last checkpoint (File, Revert Notebook to Checkpoint), save, and hand in again."
    ]


def mend(notebook: NotebookNode, expected: NotebookNode) -> list[str]:
    """Change a submission so that it has each cell of the exercise once; what was noticed."""
    wanted = {_id(cell): cell for cell in expected.cells if _id(cell)}
    notices = [*_kernel(notebook), *_versions(notebook, wanted), *_copies(notebook)]
    notices += _missing(notebook, expected, wanted)
    notices += _types(notebook, wanted)
    notices += _syntax(notebook)
    return notices


def note(notebook: NotebookNode, notices: list[str]) -> None:
    """Put what was noticed on top, where the student's feedback shows it."""
    if notices:
        text = "**What was noticed before grading**\n\n" + "\n".join(f"- {n}" for n in notices)
        cell = nbformat.v4.new_markdown_cell(text, id="noticed")
        notebook.cells.insert(0, cell)


def _id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _kernel(notebook: NotebookNode) -> list[str]:
    name = notebook.metadata.get("kernelspec", {}).get("name", KERNEL)
    if name == KERNEL:
        return []
    notebook.metadata["kernelspec"] = {
        **{"display_name": "Python 3 (ipykernel)", "language": "python", "name": KERNEL}
    }
    return [
        f"The notebook asks for the kernel '{name}', which is not there. It was graded with "
        f"'{KERNEL}'. Choose that one: Kernel, Change Kernel."
    ]


def _versions(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Cells of another version of the exercise, and locked cells that were changed."""
    unknown, older, edited = [], [], []
    for cell in notebook.cells:
        name = _id(cell)
        if not name:
            cell.metadata.pop("nbgrader", None)
            continue
        if name not in wanted:
            unknown.append(name)
            del cell.metadata["nbgrader"]
            continue
        now, then = wanted[name].metadata.nbgrader, cell.metadata.nbgrader
        if then.get("checksum") != now.get("checksum"):
            older.append(name)
        elif now.locked and compute_checksum(cell) != now.checksum:
            edited.append(name)
        cell.metadata["nbgrader"] = copy.deepcopy(now)
    notices = []
    if unknown or older:
        names = ", ".join(sorted({*unknown, *older}))
        notices.append(
            f"This is another version of the exercises ({names}). It was graded with the current "
            "one. If a task has changed, get the new notebook and copy your answers into it."
        )
    if edited:
        notices.append(
            f"Locked cells were changed ({', '.join(edited)}). They were graded as they were given "
            "out. Write your code in the answer cells, or in cells that you add."
        )
    return notices


def _copies(notebook: NotebookNode) -> list[str]:
    """Cells that were copied with all that marks them: the last one keeps the mark."""
    seen: Counter[str] = Counter()
    for cell in reversed(notebook.cells):
        name = _id(cell)
        seen[name] += 1
        if name and seen[name] > 1:
            del cell.metadata["nbgrader"]
    return [
        f"The cell '{name}' is there {count} times. All of them were run in their order, so the "
        "last one before the tests counts. Delete the others."
        for name, count in seen.items()
        if name and count > 1
    ]


def _missing(
    notebook: NotebookNode, expected: NotebookNode, wanted: dict[str, NotebookNode]
) -> list[str]:
    notices = []
    order = list(wanted)
    for number, name in enumerate(order):
        if any(_id(cell) == name for cell in notebook.cells):
            continue
        cell = wanted[name]
        found = _retyped(notebook, cell) if cell.metadata.nbgrader.solution else None
        if found is not None:
            found.metadata["nbgrader"] = copy.deepcopy(cell.metadata.nbgrader)
            notices.append(
                f"The answer cell '{name}' had been retyped as a new cell. It was found by what it "
                "defines, and graded."
            )
            continue
        fresh = copy.deepcopy(cell)
        fresh.id = name  # its own may still be in use
        notebook.cells.insert(_after(notebook, order[:number]), fresh)
        if cell.metadata.nbgrader.solution:
            notices.append(
                f"The answer cell '{name}' is missing, so it has no points. If you wrote the "
                "answer elsewhere, copy it into that cell of a new notebook, and hand in again."
            )
        else:
            notices.append(f"The cell '{name}' was deleted, and has been put back.")
    return notices


def _after(notebook: NotebookNode, before: list[str]) -> int:
    """The place behind the last cell that should come before."""
    places = [i for i, cell in enumerate(notebook.cells) if _id(cell) in before]
    return max(places, default=-1) + 1


def _retyped(notebook: NotebookNode, wanted: NotebookNode) -> NotebookNode | None:
    names = _defined(wanted.source)
    for cell in reversed(notebook.cells):
        free = cell.cell_type == "code" and not _id(cell)
        if free and names and names <= _defined(cell.source):
            return cell
    return None


def _defined(source: str) -> set[str]:
    """The names that a cell gives a value, at its top level; imports are not among them."""
    try:
        table = symtable.symtable(TransformerManager().transform_cell(source), "cell", "exec")
    except SyntaxError:
        return set()
    return {name.get_name() for name in table.get_symbols() if name.is_assigned()}


def _types(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    notices = []
    for index, cell in enumerate(notebook.cells):
        name = _id(cell)
        if name and cell.cell_type != wanted[name].cell_type:
            fresh = nbformat.v4.new_code_cell(cell.source, metadata=cell.metadata, id=name)
            notebook.cells[index] = fresh
            notices.append(f"The cell '{name}' had been turned into text. It was run as code.")
    return notices


def _syntax(notebook: NotebookNode) -> list[str]:
    notices = []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(TransformerManager().transform_cell(cell.source))
        except SyntaxError as error:
            place = f"'{_id(cell)}'" if _id(cell) else f"{number + 1}"
            notices.append(
                f"Cell {place} has a syntax error in line {error.lineno}: {error.msg}. Python ran "
                "nothing of this cell; the others were graded. Run it in JupyterLab to see where."
            )
    return notices
