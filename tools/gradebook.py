"""Write the marks of one exercise into nbgrader's gradebook, for its formgrader and its export.

Points given by hand in the formgrader are kept.
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

# nbgrader calls alembic by name, which must also be found if the environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

import exercises
import nbformat
from handin import Cell, UnreadableError, find, merge
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import text


def export(root: Path, name: str) -> None:
    """Write all marks that tools/grade.py has given for an exercise.

    Args:
        root: The course's folder.
        name: The exercise.
    """
    warnings.filterwarnings("ignore", module="nbgrader")  # SQLAlchemy warns of nbgrader's queries
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
        # No waiting for the disk three times per student: a lost gradebook can be written again.
        book.db.execute(text("PRAGMA synchronous = OFF"))
        for stored in sorted((root / "graded" / name).glob("*.json")):
            marks = json.loads(stored.read_text("utf-8"))["marks"]
            if not marks.keys() <= metadata.keys():
                continue  # graded before the exercise changed, and not again since
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
            target.write_text(_notebook(cells, metadata, marks), "utf-8")


def _notebook(cells: list[Cell], metadata: dict[str, Any], marks: dict[str, Any]) -> str:
    """A notebook for the formgrader: the code as it was run, and under each test what was wrong."""
    shown: list[dict[str, Any]] = []
    for cell in cells:
        if cell.kind == "markdown":
            # A student's text is indented, hence shown as code: as markup it could hold a script.
            words = cell.source if cell.role == "prose" else textwrap.indent(cell.source, "    ")
            shown.append({"cell_type": "markdown", "metadata": {}, "source": words})
            continue
        fresh = {"cell_type": "code", "source": cell.source, "execution_count": None}
        words = (marks[cell.name]["why"] or "right") if cell.role == "tests" else ""
        output = {"output_type": "stream", "name": "stdout", "text": words}
        shown.append(
            {**fresh, "metadata": metadata.get(cell.name, {}), "outputs": [output] * bool(words)}
        )
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": shown}
    return json.dumps(notebook)
