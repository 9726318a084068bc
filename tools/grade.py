"""Grade what a class has handed in for one exercise, and write everyone's feedback.

python tools/grade.py COURSE EXERCISE [--jobs 2] [--seconds 30] [--gigabytes 3] [--fresh]

COURSE is a folder. What was handed in lies in COURSE/submitted/STUDENT/EXERCISE/EXERCISE.ipynb,
as nbgrader has it. Afterwards COURSE holds

    marks.csv                 a line per student: points, and what was noticed
    feedback/STUDENT/...      a page for each student
    grade.log                 what nbgrader did
    gradebook.db, autograded/ nbgrader's own, for `nbgrader formgrader`
    checked/                  the submissions as they were run

Marks are nbgrader's. Only the running of notebooks is ours: several at once, in kernels that need
not import TensorFlow again (zygote.py), with limits on time and memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Both must be set before TensorFlow is imported; kernels inherit them.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
# nbgrader calls alembic by name, also where the environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

import exercises
import mend
import nbformat
from kernels import Limits, Nursery, error, run
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
)
from traitlets.config import Config

SANITIZE = (ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata)


@dataclass
class Submission:
    """One student's notebook on its way to a mark."""

    student: str
    notebook: NotebookNode
    notices: list[str] = field(default_factory=list)
    done: Future[NotebookNode] = field(default_factory=Future)


@dataclass
class Course:
    """A folder in nbgrader's layout."""

    root: Path
    exercise: str

    def __post_init__(self) -> None:
        """Let nbgrader write what it does into a file."""
        self.log = logging.getLogger("cgviz-grade")
        self.log.propagate = False
        self.log.handlers = [logging.FileHandler(self.root / "grade.log", "w", "utf-8", delay=True)]
        self.log.setLevel(logging.INFO)

    @property
    def config(self) -> Config:
        """nbgrader's settings. It reads `checked`, so that what was handed in stays as it is."""
        config = exercises.config()
        config.CourseDirectory.root = str(self.root.resolve())
        config.CourseDirectory.assignment_id = self.exercise
        config.CourseDirectory.submitted_directory = "checked"
        return config

    def convert(self, converter: Any, **settings: Any) -> None:
        """Run one of nbgrader's converters."""
        course = CourseDirectory(config=self.config)
        made = converter(coursedir=course, config=self.config)
        made.log = self.log
        made.force = True
        for name, value in settings.items():
            setattr(made, name, value)
        made.start()

    def convert_each(self, converter: Any, **settings: Any) -> None:
        """The same for every student: nbgrader notes in its log whom it could not convert."""
        with contextlib.suppress(NbGraderException):
            self.convert(converter, **settings)

    @property
    def database(self) -> str:
        """The address of the gradebook."""
        return str(CourseDirectory(config=self.config).db_url)

    def prepare(self) -> NotebookNode:
        """Give the course its exercise; returns what students got."""
        solution = exercises.SOLUTIONS / f"{self.exercise}.ipynb"
        if not solution.exists():
            names = ", ".join(sorted(p.stem for p in exercises.SOLUTIONS.glob("*.ipynb")))
            sys.exit(f"There is no exercise '{self.exercise}'. There are: {names}.")
        source = self.root / "source" / self.exercise / solution.name
        if not source.exists() or source.read_bytes() != solution.read_bytes():
            source.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(solution, source)
        self.convert(GenerateAssignment)
        released = self.root / "release" / self.exercise / solution.name
        return nbformat.read(released, as_version=4)

    def collect(self, expected: NotebookNode) -> list[Submission]:
        """Read, mend and sanitise every submission, into `checked`."""
        found = []
        for folder in sorted(self.root.glob(f"submitted/*/{self.exercise}")):
            student = folder.parent.name
            path, notices = self._notebook(folder)
            notebook, more = mend.read(path, expected)
            try:
                more += mend.mend(notebook, expected)
                notebook = self._sanitised(notebook, student)
            except Exception as error:  # never one student's trouble for the others
                why = f"The notebook cannot be graded ({type(error).__name__}: {error})"
                notebook, more = mend.empty(expected, why)
                notebook = self._sanitised(notebook, student)
            notices += more
            mend.note(notebook, notices)
            self._write(folder, student, notebook)
            found.append(Submission(student, notebook, notices))
        if not found:
            sys.exit(
                f"Nothing was handed in: there is no folder {self.root}/submitted/STUDENT/"
                f"{self.exercise}. Put each student's notebook into one."
            )
        return found

    def _notebook(self, folder: Path) -> tuple[Path, list[str]]:
        """The file to grade: the one with the right name, or else the newest."""
        wanted = folder / f"{self.exercise}.ipynb"
        every = [p for p in folder.rglob("*.ipynb*") if p.is_file()]  # browsers add `.txt`
        found = [p for p in every if ".ipynb_checkpoints" not in p.parts]
        if not found:
            return wanted, []
        chosen = wanted if wanted in found else max(found, key=lambda p: (p.stat().st_mtime, p))
        notices = []
        if len(found) > 1:
            names = ", ".join(sorted(f"'{p.relative_to(folder)}'" for p in found))
            notices = [
                f"{len(found)} notebooks were handed in: {names}. '{chosen.relative_to(folder)}' "
                "was graded. If another one is yours, hand in that one alone."
            ]
        elif chosen != wanted:
            name = chosen.relative_to(folder)
            notices = [f"The file is named '{name}' and not '{wanted.name}'. It was graded."]
        return chosen, notices

    def _sanitised(self, notebook: NotebookNode, student: str) -> NotebookNode:
        named = {"student": student, "assignment": self.exercise, "notebook": self.exercise}
        resources = {"nbgrader": {**named, "db_url": self.database}}
        for step in SANITIZE:
            made = step(config=self.config)
            made.log = self.log
            notebook, resources = made.preprocess(notebook, resources)
        return notebook

    def _write(self, folder: Path, student: str, notebook: NotebookNode) -> None:
        target = self.root / "checked" / student / self.exercise
        shutil.rmtree(target, ignore_errors=True)
        ignored = shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints")
        shutil.copytree(folder, target, ignore=ignored)
        nbformat.write(notebook, target / f"{self.exercise}.ipynb")

    def marks(self, submissions: list[Submission]) -> list[dict[str, Any]]:
        """Write marks.csv from the gradebook."""
        rows: list[dict[str, Any]] = []
        with Gradebook(self.database) as book:
            for one in submissions:
                points: dict[str, Any] = {"points": "", "of": ""}
                if (self.root / "autograded" / one.student / self.exercise).exists():
                    mark = book.find_submission(self.exercise, one.student)
                    points = {"points": mark.score, "of": mark.max_score}
                else:
                    one.notices.append("nbgrader could not grade it: see grade.log.")
                rows.append({"student": one.student, **points, "noticed": " ".join(one.notices)})
        with (self.root / "marks.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["student", "points", "of", "noticed"])
            writer.writeheader()
            writer.writerows(rows)
        return rows


class Bar:
    """Progress on one line, with the pace."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.monotonic()
        self.live = sys.stderr.isatty()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        minutes = (time.monotonic() - self.began) / 60
        filled = round(30 * self.done / self.total)
        pace = f"{self.done / minutes:.0f} a minute" if minutes else ""
        line = f"[{'#' * filled}{'.' * (30 - filled)}] {self.done} of {self.total}, {pace}"
        if self.live:
            print(f"\r{line}  ", end="\n" if self.done == self.total else "", file=sys.stderr)
        elif self.done == self.total:
            print(line, file=sys.stderr)


def execute(submissions: list[Submission], jobs: int, limits: Limits, nursery: Nursery) -> None:
    """Run all notebooks, `jobs` at a time; each fills its `done`."""

    async def one(submission: Submission, gate: asyncio.Semaphore) -> None:
        async with gate:
            notebook = submission.notebook
            try:
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cwd:
                    submission.notices += await run(notebook, nursery, cwd, limits)
            except Exception as why:  # never one student's trouble for the others
                submission.notices.append(f"It could not be run: {why}")
                for cell in notebook.cells:
                    if cell.cell_type == "code":
                        cell.outputs = [error("NotRun", f"the kernel could not be used: {why}")]
            submission.done.set_result(notebook)

    async def everyone() -> None:
        gate = asyncio.Semaphore(jobs)
        await asyncio.gather(*(one(submission, gate) for submission in submissions))

    asyncio.run(everyone())


def executed(submissions: list[Submission], bar: Bar) -> type[NbGraderPreprocessor]:
    """A preprocessor in the place of nbgrader's Execute that waits for what runs elsewhere."""
    by_student = {submission.student: submission for submission in submissions}

    class Executed(NbGraderPreprocessor):
        def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
            done = by_student[resources["nbgrader"]["student"]].done.result()
            assert [c.source for c in nb.cells] == [c.source for c in done.cells]
            bar.step()
            return done, resources

    return Executed


def grade(
    root: Path,
    exercise: str,
    jobs: int = 2,
    limits: Limits | None = None,
    fork: bool | None = None,
    pages: bool = True,
) -> list[dict[str, Any]]:
    """Grade one exercise of a course; returns the rows of marks.csv.

    Args:
        root: The course's folder.
        exercise: The name of the exercise.
        jobs: How many kernels run at a time.
        limits: What a submission may use.
        fork: Whether kernels are forked; None means wherever that is safe.
        pages: Whether to write the pages of feedback.
    """
    # SQLAlchemy warns of nbgrader's own queries.
    warnings.filterwarnings("ignore", module="nbgrader")
    course = Course(root, exercise)
    submissions = course.collect(course.prepare())
    nursery, bar = Nursery(fork), Bar(len(submissions))
    work = (submissions, jobs, limits or Limits(), nursery)
    runner = threading.Thread(target=execute, args=work, daemon=True)
    runner.start()
    try:
        stand_in = executed(submissions, bar)
        steps = [stand_in, *Autograde.autograde_preprocessors.default_args[0][1:]]
        course.convert_each(Autograde, autograde_preprocessors=steps)
        runner.join()
    finally:
        nursery.close()
    if pages:
        course.convert_each(GenerateFeedback)
    return course.marks(submissions)


def main() -> None:
    """Read the command line, grade, and print what needs a teacher's eye."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("course", type=Path, help="the folder with `submitted` in it")
    parser.add_argument("exercise", help="such as 02_upstream_downstream")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="kernels at a time")
    parser.add_argument("--seconds", type=int, default=30, help="for one cell")
    parser.add_argument("--gigabytes", type=float, default=3.0, help="for one kernel")
    parser.add_argument("--fresh", action="store_true", help="start every kernel anew")
    given = parser.parse_args()
    limits = Limits(given.seconds, int(given.gigabytes * 2**30))
    rows = grade(given.course, given.exercise, given.jobs, limits, False if given.fresh else None)
    for row in rows:
        if row["noticed"]:
            print(f"{row['student']}: {row['points']} of {row['of']}. {row['noticed']}")
    print(f"{len(rows)} graded. Marks: {given.course / 'marks.csv'}")


if __name__ == "__main__":
    main()
