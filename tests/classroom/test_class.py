"""A whole class is graded on a cluster: nobody is lost, nobody is graded twice."""

import contextlib
import csv
import functools
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytest.importorskip("nbgrader", reason="pip install 'custom-gradients[teach]'")
pytest.importorskip("distributed", reason="pip install 'custom-gradients[teach]'")

import box
import grade
import gradebook
import judge
from distributed import Client, LocalCluster
from handins import MODEL, ROOT, UPSTREAM, answered, load, written

pytestmark = pytest.mark.skipif(box.missing() is not None, reason=str(box.missing()))

BROKEN = "{"  # which costs no box
STUDENTS = {"s0": answered(MODEL), "s1": answered(MODEL), "=cmd()": BROKEN}


def hand_in(course, student, notebook):
    path = course / "submitted" / student / UPSTREAM / f"{UPSTREAM}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(written(notebook))


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=None, dashboard_address=None, security=True
    )
    with cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def read():
    """Reading an exercise, which runs its solution in a box, once and not for each grading."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "read_exercise", functools.cache(judge.read_exercise))
        yield judge.read_exercise


@pytest.fixture(scope="module")
def graded(tmp_path_factory, client):
    """A course, the rows, how often each result was stored; a worker was killed in the middle."""
    course = tmp_path_factory.mktemp("course")
    for student, notebook in STUDENTS.items():
        hand_in(course, student, notebook)
    (course / "submitted" / "eve" / UPSTREAM).mkdir(parents=True)
    (course / "submitted" / "eve" / UPSTREAM / f"{UPSTREAM}.ipynb").symlink_to(
        course / "submitted" / "s0" / UPSTREAM / f"{UPSTREAM}.ipynb"
    )
    (course / "submitted" / "fay").mkdir()
    (course / "submitted" / "fay" / UPSTREAM).write_text("a file and no folder")
    stored, killed = [], []

    def kill_one():
        while not (course / "graded").exists():
            time.sleep(0.05)
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.MonkeyPatch.context() as patch:
        keep = grade.Course.keep
        patch.setattr(
            grade.Course, "keep", lambda self, *args: stored.append(args[0]) or keep(self, *args)
        )
        rows = grade.grade(course, UPSTREAM, client)
    killer.join()
    return course, {row["student"]: row for row in rows}, stored, killed


def test_with_a_worker_killed_nobody_is_lost_and_nobody_is_graded_twice(graded):
    _, rows, stored, killed = graded
    assert killed
    assert sorted(stored) == sorted(rows) == sorted([*STUDENTS, "eve", "fay"])
    assert {rows[student]["points"] for student in STUDENTS} == {9, 0}
    assert all(rows[student]["points"] == 9 for student in STUDENTS if student != "=cmd()")


def test_links_and_files_in_place_of_folders_are_named_and_have_no_points(graded):
    _, rows, *_ = graded
    assert rows["eve"]["points"] == rows["fay"]["points"] == 0
    assert "is a link or no regular file" in rows["eve"]["noticed"]
    assert "is a file or a link, and no folder" in rows["fay"]["noticed"]


def test_marks_are_a_table_that_a_spreadsheet_opens_and_computes_nothing_of(graded):
    course, rows, *_ = graded
    with (course / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        read = list(csv.DictReader(file))
    assert {row["student"].lstrip("'") for row in read} == set(rows)
    assert not any(value.startswith("=") for row in read for value in row.values())


def test_marks_name_the_exercise_and_the_rows_of_other_exercises_stay(graded, tmp_path):
    course = grade.Course(graded[0], UPSTREAM)
    course.root = tmp_path
    (tmp_path / "graded").symlink_to(graded[0] / "graded")
    others = "student,exercise,points,of,noticed\r\n'=cmd(),01_chain_rule,3,11,a word\r\n"
    (tmp_path / "marks.csv").write_text(f"\ufeff{others}", "utf-8")
    for _ in range(2):
        rows = course.marks()
        kept = (tmp_path / "marks.csv").read_bytes().decode()
        assert kept.startswith(f"\ufeff{others}")
        assert kept.count(f",{UPSTREAM},") == len(rows) == len(course.folders)


@pytest.fixture
def marked(tmp_path):
    """A course whose one student has 2 of 9 points in the exercise; grading it again writes these.

    Its rows in marks.csv, with those that a table has there before.
    """
    (tmp_path / "submitted" / "ada" / UPSTREAM).mkdir(parents=True)
    course = grade.Course(tmp_path, UPSTREAM)
    path = course.stored("ada")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"points": 2, "of": 9, "noticed": []}))

    def write(data):
        table = tmp_path / "marks.csv"
        table.write_bytes(data)
        course.marks()
        return list(csv.DictReader(table.read_text("utf-8-sig").splitlines()))

    return write


BEFORE = {"student": "Müller", "exercise": "01_chain_rule", "points": "3,5", "of": "11"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_rows_that_a_spreadsheet_has_saved_stay_whatever_it_put_between_them(
    marked, delimiter, code
):
    row = BEFORE | {"noticed": "a word; another, too", "mine": "-1"}
    text = io.StringIO()
    writer = csv.DictWriter(text, row, delimiter=delimiter)
    writer.writeheader()
    writer.writerow(row)
    kept, added = marked(text.getvalue().encode(code))
    assert kept == row
    assert (added["student"], added["points"], added["mine"]) == ("ada", "2", "")


def test_a_line_that_names_the_delimiter_is_no_row(marked):
    table = (
        "sep=;\r\nstudent;exercise;points;of;noticed\r\nMüller;01_chain_rule;3,5;11;\r\n;;;;\r\n"
    )
    assert [row["student"] for row in marked(table.encode())] == ["Müller", "ada"]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (b"student;exercise;points;of\r\nada;01;3;4\r\n", "it lacks the columns noticed."),
        (b"\x00\x81PK", "it is no text in UTF-8."),
        (b"a word", "it lacks the columns student, exercise, points, of, noticed."),
    ],
)
def test_marks_that_cannot_be_understood_are_kept_beside_and_this_is_said(
    marked, table, why, tmp_path, capsys
):
    for name in ("marks.csv.bak", "marks.csv.bak2"):
        (row,) = marked(table)
        assert row["student"] == "ada"
        assert (tmp_path / name).read_bytes() == table
        said = capsys.readouterr().err
        assert f"cannot be understood: {why} It is kept as {name}, and a new one was begun" in said


def test_every_student_has_a_page(graded):
    course, rows, *_ = graded
    for student in rows:
        page = course / "feedback" / student / UPSTREAM / f"{UPSTREAM}.html"
        assert f"{rows[student]['points']:g} of 9 points" in page.read_text("utf-8")


def test_who_was_graded_is_not_graded_again_until_the_hand_in_changes(
    graded, client, monkeypatch, read
):
    course, *_ = graded
    read.cache_clear()  # the solution runs again, and gives the numbers that it gave
    asked = []
    submit = client.submit
    monkeypatch.setattr(
        client, "submit", lambda *args, **more: asked.append(more["key"]) or submit(*args, **more)
    )
    grade.grade(course, UPSTREAM, client)
    assert asked == []
    path = course / "submitted" / "s1" / UPSTREAM / f"{UPSTREAM}.ipynb"
    path.write_bytes(written(BROKEN))
    (course / "graded" / UPSTREAM / "eve.json").write_text("{")  # as after a full disk
    again = {row["student"]: row for row in grade.grade(course, UPSTREAM, client)}
    assert sorted(key.partition("-")[0] for key in asked) == ["eve", "s1"]
    assert {name: row["points"] for name, row in again.items()} == dict.fromkeys(again, 0) | {
        "s0": 9
    }


def test_whom_the_cluster_cannot_grade_has_no_points_and_does_not_stop_the_others(
    graded, client, monkeypatch
):
    course, *_ = graded
    submit = client.submit

    def fails(function, *args, **more):
        return submit(divmod, 1, 0) if more["key"].startswith("s1-") else submit(function, *args)

    monkeypatch.setattr(client, "submit", fails)
    (course / "graded" / UPSTREAM / "s1.json").unlink()
    rows = {row["student"]: row for row in grade.grade(course, UPSTREAM, client)}
    assert rows["s1"]["points"] == ""
    assert "It could not be graded (ZeroDivisionError" in rows["s1"]["noticed"]
    assert rows["s0"]["points"] == 9


def test_the_marks_go_into_the_gradebook_and_points_by_hand_stay(graded):
    from nbgrader.api import Gradebook

    course, *_ = graded
    gradebook.export(course, UPSTREAM)
    address = f"sqlite:///{course / 'gradebook.db'}"
    with Gradebook(address) as book:
        by_hand = book.find_grade("cube-tests", UPSTREAM, UPSTREAM, "s0")
        by_hand.manual_score = 1
        book.db.commit()
    gradebook.export(course, UPSTREAM)
    with Gradebook(address) as book:
        points = {s.student.id: s.score for s in book.assignment_submissions(UPSTREAM)}
    stored = {path.stem: json.loads(path.read_text())["points"] for path in marks(course)}
    assert points == stored | {"s0": 8}
    shown = course / "autograded" / "s0" / UPSTREAM / f"{UPSTREAM}.ipynb"
    assert '"grade_id": "cube"' in shown.read_text("utf-8")


def marks(course):
    return sorted((course / "graded" / UPSTREAM).glob("*.json"))


# --- what `make grade` installs ---------------------------------------------------------------

WITH_ONLY = """
import sys
from importlib.machinery import PathFinder

class Teachers(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in sys.argv[1:]:
            path = [folder for folder in sys.path if folder.endswith("_vendor")]  # setuptools'
        return super().find_spec(name, path, target)

sys.meta_path = [Teachers if finder is PathFinder else finder for finder in sys.meta_path]
import grade
from distributed.security import Security
Security.temporary()  # what LocalCluster(security=True) does first
"""


def with_all_they_need(wanted):
    """The names of these distributions, and of all that they require, as they are installed."""
    found, left = set(), [*map(Requirement, wanted)]
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        if (name, *one.extras) in found:
            continue
        found.add((name, *one.extras))
        with contextlib.suppress(PackageNotFoundError):  # one for another Python or machine
            lines = map(Requirement, requires(name) or [])
            extras = [*one.extras, ""]
            left += [
                line
                for line in lines
                if not line.marker or any(line.marker.evaluate({"extra": e}) for e in extras)
            ]
    return {name for name, *_ in found}


def test_the_extra_for_teachers_installs_all_that_grading_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    installed = with_all_they_need([*project["dependencies"], *extras["cpu"], *extras["teach"]])
    missing = [
        module
        for module, owners in packages_distributions().items()
        if not installed & {*map(canonicalize_name, owners)}
    ]
    assert "jupyterhub" in missing  # as in an environment of a teacher
    ran = subprocess.run(
        [sys.executable, "-c", WITH_ONLY, *missing],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tools")])},
        **{"capture_output": True, "text": True},
    )
    assert ran.returncode == 0, ran.stderr


# --- a course that is not ready --------------------------------------------------------------


def test_an_unknown_exercise_names_those_that_exist(tmp_path, client):
    with pytest.raises(SystemExit, match=r"no exercise '77_x'.*There are: 01_chain_rule"):
        grade.grade(tmp_path, "77_x", client)


def test_a_course_without_hand_ins_says_where_to_put_them(tmp_path, client):
    with pytest.raises(SystemExit, match=r"Nothing was handed in: there is no folder"):
        grade.grade(tmp_path, UPSTREAM, client)


def test_who_cannot_be_graded_has_a_row_that_says_why_and_does_not_stop_the_others(
    tmp_path, client, monkeypatch, capsys
):
    monkeypatch.setattr(grade, "LocalCluster", lambda **settings: client.cluster)
    monkeypatch.setattr(client.cluster, "close", lambda: None)
    hand_in(tmp_path, "ada", BROKEN)
    hand_in(tmp_path, os.fsdecode(b"J\xfcrgen"), BROKEN)
    submitted = tmp_path / "submitted"
    (submitted / "flat").mkdir()
    for name in (f"flat/{UPSTREAM}.ipynb", "file.ipynb", ".DS_Store"):
        (submitted / name).write_bytes(written(load()))
    monkeypatch.setattr(sys, "argv", ["grade.py", str(tmp_path), UPSTREAM])
    grade.main()
    said = capsys.readouterr().out
    assert "1 graded." in said
    (line,) = [line for line in said.splitlines() if "there is no folder" in line]
    assert line.endswith(f"no folder submitted/STUDENT/{UPSTREAM} of 2: file.ipynb, flat.")
    rows = csv.DictReader((tmp_path / "marks.csv").read_text("utf-8-sig").splitlines())
    noticed = {row["student"]: row["noticed"] for row in rows if not row["points"]}
    assert noticed.keys() == {"J\\udcfcrgen", "flat", "file.ipynb"}
    assert "name is not UTF-8" in noticed["J\\udcfcrgen"]
    assert f"no folder submitted/flat/{UPSTREAM}." in noticed["flat"]


def test_a_course_where_every_box_can_read_it_is_refused(client, monkeypatch, tmp_path):
    hand_in(tmp_path, "ada", load())
    monkeypatch.setattr(box, "_shown", lambda: [Path("/usr"), tmp_path])
    with pytest.raises(SystemExit, match="every box can read"):
        grade.grade(tmp_path, UPSTREAM, client)


def test_a_solution_that_fails_its_own_tests_is_named(tmp_path):
    path = tmp_path / f"{UPSTREAM}.ipynb"
    notebook = load(kind="solutions")
    for cell in notebook.cells:
        cell.source = cell.source.replace("return upstream * 3.0 * x**2", "return 1 / 0")
    path.write_bytes(written(notebook))
    with pytest.raises(ValueError, match=r"fails in 'cube-tests'.*division by zero"):
        judge.read_exercise(path)
