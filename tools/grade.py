"""Grade what a class has handed in for one exercise, and write everyone's feedback.

python tools/grade.py COURSE EXERCISE [--cluster tcp://...] [--jobs 2] [--seconds 30] [--total 180]
                      [--gigabytes 3] [--reveal] [--again] [--gradebook] [--without-box]

COURSE is a folder in nbgrader's layout: COURSE/submitted/STUDENT/EXERCISE/EXERCISE.ipynb is what a
student has handed in. Afterwards COURSE holds

    marks.csv                     a line per student and exercise: points, and what was noticed
    feedback/STUDENT/...          a page for each student
    graded/EXERCISE/STUDENT.json  the points of each cell; a student who has one is not graded
                                  again until the hand-in, the exercise or an option changes
    gradebook.db, autograded/     with --gradebook: for nbgrader's formgrader and `nbgrader export`

judge.py grades one hand-in. Here it is mapped over the class by dask.distributed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import itertools
import json
import logging
import os
import re
import sys
import time
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import box
import exercises
import gradebook
import judge
from box import Limits
from distributed import Client, LocalCluster, as_completed
from handin import UnreadableError, find

AHEAD = 4
"""Hand-ins that each worker has at a time: enough that none waits, few enough for the memory."""

COLUMNS = ["student", "exercise", "points", "of", "noticed"]
"""Those of marks.csv."""

NO_FOLDER = "Not graded: there is no folder"
"""How the reason begins for a student who has no folder for the exercise."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet compute a text."""


class Course:
    """A folder in nbgrader's layout, and one exercise of it."""

    def __init__(self, root: Path, name: str) -> None:
        solution = exercises.SOLUTIONS / f"{name}.ipynb"
        if not solution.exists():
            names = ", ".join(sorted(path.stem for path in exercises.SOLUTIONS.glob("*.ipynb")))
            sys.exit(f"There is no exercise '{name}'. There are: {names}.")
        self.root, self.name, self.solution = root, name, solution
        self.folders: dict[str, Path] = {}
        self.failed: dict[str, str] = {}  # why a student has no points, not even 0
        for path in sorted(root.glob("submitted/*")):
            student = path.name.encode("utf-8", "backslashreplace").decode()
            handed_in = os.path.lexists(path / name)
            if handed_in and student == path.name:
                self.folders[student] = path / name
            elif handed_in:
                self.failed[student] = "Not graded: the folder's name is not UTF-8. Rename it."
            elif not student.startswith("."):
                self.failed[student] = (
                    f"{NO_FOLDER} submitted/{student}/{name}. If the notebook lies elsewhere, put "
                    "it there."
                )
        if not self.folders:
            sys.exit(
                f"Nothing was handed in: there is no folder {root}/submitted/STUDENT/{name}. Put "
                "each student's notebook into one."
            )

    def handed_in(self, student: str) -> tuple[bytes | UnreadableError, list[str]]:
        """The content of a student's file or why there is none, and what was noticed."""
        try:
            return find(self.folders[student], f"{self.name}.ipynb")
        except UnreadableError as why:
            return why, []
        except OSError as error:  # one student's error must not stop the others' grading
            return UnreadableError(f"The hand-in cannot be read ({error.strerror})"), []

    def stored(self, student: str) -> Path:
        """Where a student's points are kept."""
        return self.root / "graded" / self.name / f"{student}.json"

    def done(self, student: str, key: str) -> bool:
        """Whether a result with this key is stored: same hand-in, same exercise, same options."""
        try:
            return bool(json.loads(self.stored(student).read_text("utf-8"))["key"] == key)
        except (OSError, ValueError, KeyError):
            return False

    def keep(self, student: str, key: str, result: judge.Result) -> None:
        """Store a result and write its page, each file whole or not at all."""
        page = self.root / "feedback" / student / self.name / f"{self.name}.html"
        points = {"key": key, **asdict(replace(result, page="", cells=[]))}
        for path, text in ((page, result.page), (self.stored(student), json.dumps(points))):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(path.name + ".part")
            unfinished.write_text(text, "utf-8")
            unfinished.replace(path)

    def marks(self) -> list[dict[str, Any]]:
        """Write marks.csv, without points for those who could not be graded; returns its rows.

        The rows of other exercises stay in the file.
        """
        rows: list[dict[str, Any]] = []
        for student in sorted({*self.folders, *self.failed}):
            row = {"student": student, "exercise": self.name, "points": "", "of": ""}
            if why := self.failed.get(student):
                rows.append({**row, "noticed": why})
                continue
            result = json.loads(self.stored(student).read_text("utf-8"))
            noticed = " ".join(result["noticed"])
            rows.append({**row, "points": result["points"], "of": result["of"], "noticed": noticed})
        path = self.root / "marks.csv"
        others = [row for row in _read(path) if row["exercise"] != self.name]
        # A teacher's own columns of other rows stay as they are: "-1" may be points.
        new = [{key: _cell(value) for key, value in row.items()} for row in rows]
        ordered = sorted([*others, *new], key=lambda row: str(row["exercise"]))
        columns = dict.fromkeys([*COLUMNS, *(name for row in others for name in row)])
        unfinished = path.with_name(path.name + ".part")
        # With a mark of UTF-8 at its beginning, or Excel would show other letters for "ü".
        with unfinished.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(ordered)
        unfinished.replace(path)
        return rows


def grade(
    root: Path,
    name: str,
    client: Client,
    limits: Limits | None = None,
    boxed: bool = True,
    reveal: bool = False,
    again: bool = False,
) -> list[dict[str, Any]]:
    """Grade one exercise of a course; returns the rows of marks.csv.

    Args:
        root: The course's folder.
        name: The exercise.
        client: The client of the cluster whose workers grade.
        limits: What one hand-in may use.
        boxed: Whether each hand-in runs in a box.
        reveal: Whether pages of feedback show the hidden tests.
        again: Whether to grade hand-ins again that were graded before.
    """
    course, limits = Course(root, name), limits or Limits()
    if boxed:
        for path in (root, exercises.SOLUTIONS):
            if box.visible(path):
                sys.exit(f"{path} lies in a folder that every box can read. Move it elsewhere.")
    exercise = judge.read_exercise(course.solution, limits, boxed)
    settings = repr((exercise, limits, boxed, reveal)).encode()
    bar = Bar(len(course.folders))
    # hash=False gives a new key: the cluster may still be releasing that of an equal exercise.
    (sent,) = client.scatter([exercise], broadcast=True, hash=False)

    def work() -> Iterator[tuple[str, str, list[str], Any]]:
        for student in course.folders:
            data, noticed = course.handed_in(student)
            content = data if isinstance(data, bytes) else str(data).encode()
            key = hashlib.sha256(settings + repr(noticed).encode() + content).hexdigest()
            if not again and course.done(student, key):
                bar.step()
                continue
            yield (
                student,
                key,
                noticed,
                client.submit(
                    judge.grade, data, sent, limits, boxed, reveal, key=f"{student}-{key}"
                ),
            )

    todo, running = work(), as_completed()
    started: dict[str, tuple[str, str, list[str]]] = {}
    while True:
        # Counted each time, because the workers of a cluster may come and go.
        while len(started) < AHEAD * max(1, len(client.nthreads())) and (one := next(todo, None)):
            student, key, noticed, future = one
            started[future.key] = (student, key, noticed)
            running.add(future)
        if not started:
            break
        future = next(running)
        student, key, noticed = started.pop(future.key)
        try:
            result = future.result()
            result.noticed[:0] = noticed
            course.keep(student, key, result)
        except Exception as error:  # one student's error must not stop the others' grading
            course.failed[student] = f"It could not be graded ({type(error).__name__}: {error})"
        future.release()
        bar.step()
    return course.marks()


class Bar:
    """Progress on one line, with the pace."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.monotonic()

    def step(self) -> None:
        """Count one more hand-in as done, and show the progress."""
        self.done += 1
        pace = 60 * self.done / max(1e-3, time.monotonic() - self.began)
        filled = "#" * round(30 * self.done / self.total)
        line = f"[{filled:.<30}] {self.done} of {self.total}, {pace:.0f} a minute"
        last = self.done == self.total
        if sys.stderr.isatty() or last:
            print(f"\r{line}  ", end="\n" if last else "", file=sys.stderr, flush=True)


def _read(path: Path) -> list[dict[str, str]]:
    """The rows of marks.csv, also as a spreadsheet has saved it; none if there is no such file.

    A file that cannot be understood is kept beside under another name, and nothing is read.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    for code in ("utf-16" if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig", "cp1252"):
        with contextlib.suppress(UnicodeDecodeError):
            text = re.sub(r"\Asep=.\r?\n", "", data.decode(code))
            break
    else:
        text = ""
    missing = {*COLUMNS}
    for delimiter in ",;\t":
        reader = csv.DictReader(io.StringIO(text, ""), delimiter=delimiter)
        missing = min(missing, {*COLUMNS} - {*(reader.fieldnames or ())}, key=len)
        if not missing:
            rows = [{key: row[key] or "" for key in row if key} for row in reader]
            return [row for row in rows if any(row.values())]
    if data.strip():
        kept_as = next(p for p in _spare(path) if not p.exists())
        path.rename(kept_as)
        lacks = [name for name in COLUMNS if name in missing]
        why = f"it lacks the columns {', '.join(lacks)}" if text else "it is no text in UTF-8"
        print(
            f"{path} cannot be understood: {why}. It is kept as {kept_as.name}, and a new one was "
            "begun.",
            file=sys.stderr,
        )
    return []


def _spare(path: Path) -> Iterator[Path]:
    """Names under which a file may be kept: marks.csv.bak, marks.csv.bak2, ..."""
    yield path.with_name(f"{path.name}.bak")
    yield from (path.with_name(f"{path.name}.bak{number}") for number in itertools.count(2))


def _cell(value: Any) -> Any:
    """A value that a spreadsheet shows as it is: a quote goes before text that it would compute."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def main() -> None:
    """Read the command line, grade, and print what needs a teacher's eye."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("course", type=Path, help="the folder with `submitted` in it")
    parser.add_argument("exercise", help="such as 02_upstream_downstream")
    parser.add_argument("--cluster", help="address of a Dask scheduler; else this machine grades")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="boxes at a time")
    parser.add_argument("--seconds", type=float, default=Limits.seconds, help="for one cell")
    parser.add_argument("--total", type=float, default=Limits.total, help="seconds for one hand-in")
    parser.add_argument("--gigabytes", type=float, default=3.0, help="for one hand-in")
    parser.add_argument("--reveal", action="store_true", help="show hidden tests on the pages")
    parser.add_argument("--again", action="store_true", help="grade also who was graded before")
    parser.add_argument("--gradebook", action="store_true", help="write marks for nbgrader too")
    parser.add_argument(
        "--without-box", action="store_true", help="run hand-ins with all rights of your account"
    )
    given = parser.parse_args()
    if not given.without_box and (why := box.missing()):
        sys.exit(
            f"Hand-ins cannot be kept in a box: {why}. Without one, a hand-in can read your files "
            "(solutions and other hand-ins too), use your network, and leave programs running. If "
            "you trust everyone who has handed in: FLAGS=--without-box."
        )
    limits = Limits(given.seconds, given.total, int(given.gigabytes * 2**30))
    boxed = not given.without_box
    # Encrypted, with a key of its own, so that no other account of this machine can use it.
    cluster = given.cluster or LocalCluster(
        n_workers=given.jobs,
        threads_per_worker=1,
        memory_limit=None,
        dashboard_address=None,
        security=True,
        silence_logs=logging.ERROR,
    )
    with Client(cluster) as client:
        rows = grade(given.course, given.exercise, client, limits, boxed, given.reveal, given.again)
    if not given.cluster:
        cluster.close()
    if given.gradebook:
        gradebook.export(given.course, given.exercise)
    without = [row["student"] for row in rows if row["noticed"].startswith(NO_FOLDER)]
    for row in rows:
        if row["noticed"] and row["student"] not in without:
            points = f"{row['points']} of {row['of']}. " if row["of"] else ""
            print(f"{row['student']}: {points}{row['noticed']}")
    if without:
        where = f"submitted/STUDENT/{given.exercise}"
        print(f"{NO_FOLDER} {where} of {len(without)}: {', '.join(without)}.")
    print(f"{sum(bool(row['of']) for row in rows)} graded. Marks: {given.course / 'marks.csv'}")


if __name__ == "__main__":
    main()
