"""A class is graded: right, wrong, hard-coded, half done, hostile, and broken on the way."""

import csv
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="pip install 'cgviz[teach]'")

from answers import HARD_CODED

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
UPSTREAM = "02_upstream_downstream"
EVERY = [
    pytest.param(name, marks=[] if name == UPSTREAM else pytest.mark.slow)
    for name in sorted(HARD_CODED)
]


@pytest.fixture(scope="module")
def tool():
    """tools/grade.py, whose neighbours it imports."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("grade")
    sys.path.remove(str(ROOT / "tools"))


def load(exercise, kind="exercises"):
    return nbformat.read(NOTEBOOKS / kind / f"{exercise}.ipynb", as_version=4)


def cell_of(notebook, name):
    found = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name]
    return found[0]


def answered(exercise, answers):
    """What students get, with these answers in it."""
    notebook = load(exercise)
    for name, source in answers.items():
        cell_of(notebook, name).source = source
    return notebook


def model_answers(exercise):
    cells = load(exercise, "solutions").cells
    marked = [c for c in cells if c.metadata.get("nbgrader", {}).get("solution")]
    return {cell.metadata.nbgrader.grade_id: cell.source for cell in marked}


def hand_in(course, student, exercise, notebook):
    folder = course / "submitted" / student / exercise
    folder.mkdir(parents=True)
    path = folder / f"{exercise}.ipynb"
    if isinstance(notebook, str):
        path.write_text(notebook, encoding="utf-8")
    else:
        nbformat.write(notebook, path)
    return path


def feedback(course, student, exercise=UPSTREAM):
    page = course / "feedback" / student / exercise / f"{exercise}.html"
    return page.read_text(encoding="utf-8")


# --- who gets what ---------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", EVERY)
def test_a_right_notebook_has_full_marks_an_untouched_or_hard_coded_one_none(
    tool, tmp_path, exercise
):
    right = model_answers(exercise)
    assert HARD_CODED[exercise].keys() == right.keys()
    half = dict(list(right.items())[: len(right) // 2])
    hand_in(tmp_path, "half", exercise, answered(exercise, half))
    hand_in(tmp_path, "hard-coded", exercise, answered(exercise, HARD_CODED[exercise]))
    hand_in(tmp_path, "right", exercise, answered(exercise, right))
    hand_in(tmp_path, "untouched", exercise, load(exercise))
    rows = {row["student"]: row for row in tool.grade(tmp_path, exercise)}
    points = {student: row["points"] for student, row in rows.items()}
    assert points["right"] == rows["right"]["of"] >= 5
    assert points["untouched"] == 0
    assert points["hard-coded"] == 0
    assert 0 < points["half"] < points["right"]
    assert not any(row["noticed"] for row in rows.values())


HOSTILE = {
    "loops": "while True:\n    pass",
    "heeds-nothing": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "while True:\n    pass",
    "fills-memory": "hog = []\nwhile True:\n    hog.append(bytearray(10**8))",
    "leaves": "import os\nos._exit(0)",
    "import-fails": "import a_module_that_does_not_exist",
    "prints-for-ever": "while True:\n    print('and so on ' * 1000)",
    "fools-the-judge": "classroom.demand = classroom.sound = lambda *a, **k: None\n"
    "import builtins\nbuiltins.zip = lambda *a, **k: []\nnp = None\n"
    "get_ipython().showtraceback = lambda *a, **k: None\ncube = abs",
    "names-the-judge": "class classroom:\n    feedback = demand = sound = print\ncube = abs",
}
MARKED = {
    "loops": r"Cell 'cube' was stopped after 4 s",
    "heeds-nothing": r"cell 'cube' (never ended and could not be|ended the kernel)",
    "fills-memory": r"more than 1 GB of memory",
    "leaves": r"cell 'cube' ended the kernel",
    "prints-for-ever": r"[Cc]ell 'cube' (was stopped|never ended|ended the kernel|asked for more)",
}


@pytest.fixture(scope="module")
def hostile(tool, tmp_path_factory):
    """A class in which eight of nine do something bad in the answer for the cube."""
    course = tmp_path_factory.mktemp("course")
    right = model_answers(UPSTREAM)
    for student, source in HOSTILE.items():
        hand_in(course, student, UPSTREAM, answered(UPSTREAM, {**right, "cube": source}))
    hand_in(course, "diligent", UPSTREAM, answered(UPSTREAM, right))
    limits = tool.Limits(seconds=4, memory=2**30)
    rows = tool.grade(course, UPSTREAM, limits=limits)
    return course, {row["student"]: row for row in rows}


@pytest.mark.parametrize("student", HOSTILE)
def test_a_hostile_answer_earns_nothing_and_is_named(hostile, student):
    course, rows = hostile
    assert rows[student]["points"] <= rows["diligent"]["points"] - 2
    assert re.search(MARKED.get(student, ""), rows[student]["noticed"])
    assert "cube" in feedback(course, student)


def test_the_others_are_graded_all_the_same(hostile):
    _, rows = hostile
    assert rows["diligent"]["points"] == rows["diligent"]["of"] == 9


@pytest.mark.parametrize("student", ["loops", "fills-memory", "import-fails"])
def test_after_an_error_the_other_answers_still_count(hostile, student):
    assert hostile[1][student]["points"] == 7


@pytest.mark.parametrize("student", ["leaves", "heeds-nothing"])
def test_after_the_end_of_a_kernel_no_later_cell_counts(hostile, student):
    course, rows = hostile
    assert rows[student]["points"] == 1  # the prediction stands before the cube
    assert "not run, because cell" in feedback(course, student)


def test_marks_are_a_table_that_a_spreadsheet_opens(hostile):
    course, rows = hostile
    with (course / "marks.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["student"] for row in read] == sorted(rows)
    assert set(read[0]) == {"student", "points", "of", "noticed"}


# --- notebooks that are broken ---------------------------------------------------------------


CUBE = {"cube": model_answers(UPSTREAM)["cube"]}


def diligent():
    """What earns the two points of the cube, and takes little time."""
    return answered(UPSTREAM, CUBE)


def without(name):
    notebook = diligent()
    notebook.cells.remove(cell_of(notebook, name))
    return notebook


def retyped(name):
    notebook = diligent()
    del cell_of(notebook, name).metadata["nbgrader"]
    return notebook


def changed(name, source):
    return answered(UPSTREAM, {**CUBE, name: source})


def other_kernel():
    notebook = diligent()
    notebook.metadata["kernelspec"] = {"name": "py27", "display_name": "Old", "language": "python"}
    return notebook


def older():
    notebook = diligent()
    cell_of(notebook, "cube-tests").metadata.nbgrader["checksum"] = "0" * 32
    cell_of(notebook, "triple").metadata.nbgrader["grade_id"] = "gone-since"
    return notebook


def as_text(name):
    notebook = diligent()
    cell = cell_of(notebook, name)
    cell.cell_type = "markdown"
    del cell["outputs"], cell["execution_count"]
    return notebook


BROKEN = {
    "deleted-answer": (lambda: without("cube"), 0, "answer cell 'cube' is missing"),
    "deleted-tests": (lambda: without("cube-tests"), 2, "'cube-tests' was deleted, and has been"),
    "deleted-setup": (lambda: without("setup"), 2, "'setup' was deleted, and has been put back"),
    "retyped": (lambda: retyped("cube"), 2, "'cube' had been retyped"),
    "edited-tests": (lambda: changed("cube-tests", "print('✓')"), 2, "Locked cells were changed"),
    "syntax": (lambda: changed("cube", "def cube(x:\n    pass"), 0, "'cube' has a syntax error"),
    "kernel": (other_kernel, 2, "'py27', which is not there"),
    "older": (older, 2, "another version of the exercises"),
    "as-text": (lambda: as_text("cube"), 2, "turned into text"),
    "no-notebook": (lambda: "<html>Please log in</html>", 0, "no notebook that can be read"),
    "cut-off": (lambda: nbformat.writes(load(UPSTREAM))[:3000], 0, "no notebook that can be read"),
}


@pytest.fixture(scope="module")
def broken(tool, tmp_path_factory):
    course = tmp_path_factory.mktemp("broken")
    before = {}
    for student, (make, _, _) in BROKEN.items():
        path = hand_in(course, student, UPSTREAM, make())
        before[path] = path.read_bytes()
    misnamed = hand_in(course, "misnamed", UPSTREAM, diligent())
    misnamed.rename(misnamed.with_name("Copy of 02 (1).ipynb"))
    (course / "submitted" / "empty-handed" / UPSTREAM).mkdir(parents=True)
    rows = {row["student"]: row for row in tool.grade(course, UPSTREAM)}
    return course, rows, before


@pytest.mark.parametrize("student", BROKEN)
def test_a_broken_notebook_is_graded_as_far_as_it_goes_and_says_what_to_do(broken, student):
    course, rows, _ = broken
    _, points, words = BROKEN[student]
    assert rows[student]["points"] == points
    assert words in rows[student]["noticed"]
    assert "What was noticed before grading" in feedback(course, student)


def test_a_file_of_another_name_is_found(broken):
    row = broken[1]["misnamed"]
    assert (row["points"], "Copy of 02 (1).ipynb" in row["noticed"]) == (2, True)


def test_an_empty_folder_is_no_points_and_no_end(broken):
    row = broken[1]["empty-handed"]
    assert (row["points"], "No notebook was handed in" in row["noticed"]) == (0, True)


def test_nothing_that_was_handed_in_is_changed(broken):
    assert all(path.read_bytes() == content for path, content in broken[2].items())


def test_an_unknown_exercise_names_those_that_exist(tool, tmp_path):
    with pytest.raises(SystemExit, match=r"no exercise '77_x'.*There are: 01_chain_rule"):
        tool.grade(tmp_path, "77_x")


def test_a_course_without_submissions_says_where_to_put_them(tool, tmp_path):
    with pytest.raises(SystemExit, match=r"Nothing was handed in: there is no folder"):
        tool.grade(tmp_path, UPSTREAM)


# --- nbgrader itself -------------------------------------------------------------------------


def test_nbgrader_alone_gives_the_same_marks(tmp_path):
    """The documented commands, with nbgrader's own way to run a notebook."""
    source = tmp_path / "source" / UPSTREAM
    source.mkdir(parents=True)
    shutil.copy(NOTEBOOKS / "solutions" / f"{UPSTREAM}.ipynb", source)
    hand_in(tmp_path, "right", UPSTREAM, answered(UPSTREAM, model_answers(UPSTREAM)))
    hand_in(tmp_path, "untouched", UPSTREAM, load(UPSTREAM))
    (tmp_path / "nbgrader_config.py").write_text(
        (ROOT / "classroom/nbgrader_config.py").read_text()
    )
    bin_ = Path(sys.executable).parent
    for command in ("generate_assignment", "autograde", "generate_feedback"):
        done = subprocess.run(
            [bin_ / "nbgrader", command, UPSTREAM],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{bin_}:/usr/bin:/bin"},
        )
        assert done.returncode == 0, done.stderr
    released = tmp_path / "release" / UPSTREAM / f"{UPSTREAM}.ipynb"
    assert nbformat.read(released, as_version=4) == load(UPSTREAM)
    assert "Score: 9.0 / 9.0" in feedback(tmp_path, "right")
    assert "Score: 0.0 / 9.0" in feedback(tmp_path, "untouched")
