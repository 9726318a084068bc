"""Write the marks of one exercise into nbgrader's gradebook, for its formgrader and its export.

Points that were given by hand in the formgrader stay.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

# nbgrader calls alembic by name, also where the environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

import exercises
import nbformat
from handin import Cell, UnreadableError, find, merge
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory


def export(root: Path, name: str) -> None:
    """Write all marks of an exercise that tools/grade.py has given.

    Args:
        root: The course's folder.
        name: The exercise.
    """
    warnings.filterwarnings("ignore", module="nbgrader")  # SQLAlchemy warns of its queries
    source = root / "source" / name / f"{name}.ipynb"
    source.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(exercises.SOLUTIONS / source.name, source)
    config = exercises.config()
    config.CourseDirectory.root = str(root.resolve())
    config.CourseDirectory.assignment_id = name
    course = CourseDirectory(config=config)
    generate = GenerateAssignment(coursedir=course, config=config)
    generate.log.setLevel(logging.ERROR)
    generate.force = True
    generate.start()
    given, _ = exercises.cells(source)
    released = nbformat.read(root / "release" / name / source.name, as_version=4)
    metadata = {
        c.metadata.nbgrader.grade_id: c.metadata
        for c in released.cells
        if c.metadata.get("nbgrader")
    }
    with Gradebook(course.db_url) as book:
        for stored in sorted((root / "graded" / name).glob("*.json")):
            marks = json.loads(stored.read_text("utf-8"))["marks"]
            book.update_or_create_student(stored.stem)
            submission = book.update_or_create_submission(name, stored.stem)
            for grade in submission.notebooks[0].grades:
                grade.auto_score = marks[grade.name]["points"]
                grade.needs_manual_grade = False
            book.db.commit()
            try:
                data, _ = find(root / "submitted" / stored.stem / name, source.name)
                cells, _ = merge(data, given)
            except (UnreadableError, OSError):
                cells = list(given)
            target = root / "autograded" / stored.stem / name / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(_notebook(cells, metadata, marks), target)


def _notebook(cells: list[Cell], metadata: dict[str, Any], marks: dict[str, Any]) -> Any:
    """A notebook for the formgrader: the code as it was run, and under each test what was wrong."""
    notebook = nbformat.v4.new_notebook()
    for cell in cells:
        if cell.kind == "markdown":
            # A student's text is shown as it is: as markup it could hold a script.
            text = cell.source if cell.role == "prose" else textwrap.indent(cell.source, "    ")
            notebook.cells.append(nbformat.v4.new_markdown_cell(text))
            continue
        fresh = nbformat.v4.new_code_cell(cell.source, metadata=metadata.get(cell.name, {}))
        if cell.role == "tests":
            words = marks[cell.name]["why"] or "right"
            fresh.outputs = [nbformat.v4.new_output("stream", text=words)]
        notebook.cells.append(fresh)
    return notebook
