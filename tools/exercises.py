"""Build the exercises that students get from the solutions that teachers keep.

python tools/exercises.py [--check]     --check: write nothing, name what would change

notebooks/solutions holds each exercise once, with its answers and hidden tests. nbgrader's own
preprocessors take both out. The result is what `nbgrader generate_assignment` would release.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from handin import Cell
from nbformat import NotebookNode
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
)
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
SOLUTIONS = ROOT / "notebooks" / "solutions"
EXERCISES = ROOT / "notebooks" / "exercises"

STUB = "...  # your code"
"""What stands in place of an answer: it runs, and `classroom.feedback` calls it not yet written."""

HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS\n(.*?)^### END HIDDEN TESTS", re.M | re.S)

# In nbgrader's order, without the step that writes into a course's database.
STEPS = (
    *(LockCells, ClearSolutions, ClearOutput, CheckCellMetadata, ComputeChecksums),
    *(ClearHiddenTests, ClearMarkScheme, ComputeChecksums, CheckCellMetadata),
)


def config() -> Config:
    """The settings under which nbgrader takes the answers out."""
    return Config({"ClearSolutions": {"code_stub": {"python": STUB}}})


def released(solution: NotebookNode) -> NotebookNode:
    """The notebook that students get, made from a solution notebook."""
    notebook = nbformat.from_dict(solution)
    resources: dict[str, Any] = {}
    for step in STEPS:
        notebook, resources = step(config=config()).preprocess(notebook, resources)
    return notebook


def cells(path: Path) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Return a solution notebook's cells as students get them, and the same with the answers.

    The probes of both are the hidden tests.
    """
    solution = nbformat.read(path, as_version=4)
    given, solved = [], []
    for full, free in zip(solution.cells, released(solution).cells, strict=True):
        marks = free.metadata.get("nbgrader", {})
        role = "tests" if marks.get("grade") else "answer" if marks.get("solution") else "locked"
        cell = Cell(
            free.cell_type,
            free.source,
            marks.get("grade_id", ""),
            role if marks else "prose" if free.cell_type == "markdown" else "",
            float(marks.get("points", 0)),
            marks.get("checksum", ""),
            "\n".join(HIDDEN.findall(full.source)),
        )
        given.append(cell)
        solved.append(replace(cell, source=full.source) if role == "answer" else cell)
    return tuple(given), tuple(solved)


def text(notebook: NotebookNode) -> str:
    """The text of a notebook's file."""
    return nbformat.writes(notebook) + "\n"


def built(solution: Path) -> str:
    """The text of the exercise notebook that belongs to a solution notebook."""
    return text(released(nbformat.read(solution, as_version=4)))


def main() -> int:
    """Write every exercise that is out of date, or with --check only name it."""
    stale = []
    for solution in sorted(SOLUTIONS.glob("*.ipynb")):
        target, wanted = EXERCISES / solution.name, built(solution)
        if not target.exists() or target.read_text(encoding="utf-8") != wanted:
            stale.append(target)
            if "--check" not in sys.argv:
                EXERCISES.mkdir(exist_ok=True)
                target.write_text(wanted, encoding="utf-8")
    for target in stale:
        print("stale  " if "--check" in sys.argv else "written", target.relative_to(ROOT))
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
