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
from nbgrader.api import Gradebook

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
UPSTREAM = "02_upstream_downstream"


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


# --- one class in which everything happens -----------------------------------------------------


def kinds(exercise):
    """Four honest students."""
    right = model_answers(exercise)
    assert HARD_CODED[exercise].keys() == right.keys()
    half = dict(list(right.items())[: len(right) // 2])
    return {
        "right": answered(exercise, right),
        "half": answered(exercise, half),
        "hard-coded": answered(exercise, HARD_CODED[exercise]),
        "untouched": load(exercise),
    }


HOSTILE = {
    "loops": "while True:\n    pass",
    "heeds-nothing": "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "while True:\n    time.sleep(1)",
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
    "loops": r"Cell 'cube' was stopped after 10 s",
    "heeds-nothing": r"cell 'cube' (never ended and could not be|ended the kernel)",
    "fills-memory": r"more than 1 GB of memory",
    "leaves": r"cell 'cube' ended the kernel",
    "prints-for-ever": r"[Cc]ell 'cube' (was stopped|never ended|ended the kernel|asked for more)",
}
MODEL = model_answers(UPSTREAM)
CUBE = {"cube": MODEL["cube"]}


def hostile(source):
    """The prediction and the last but one answer are right: four points."""
    around = {name: MODEL[name] for name in ("downstreams", "logistic")}
    return answered(UPSTREAM, {**around, "cube": source})


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


def copied(name):
    """A copy, markings and all, kept at the end as it was before the work."""
    notebook = diligent()
    notebook.cells.append(nbformat.from_dict(cell_of(load(UPSTREAM), name)))
    notebook.cells[-1].id = "pasted"
    return notebook


def other_kernel():
    notebook = diligent()
    notebook.metadata["kernelspec"] = {"name": "py27", "display_name": "Old", "language": "python"}
    return notebook


def from_colab():
    """No kernel is named, no cell has an id of its own, and much is added."""
    notebook = diligent()
    notebook.nbformat_minor = 0
    notebook.metadata = nbformat.from_dict({"colab": {"provenance": []}, "accelerator": "GPU"})
    for number, cell in enumerate(notebook.cells):
        cell.metadata["id"] = f"cell{number}"
        del cell["id"]
    return nbformat.writes(notebook)


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


def garbled():
    """Nothing that a notebook may not hold, and nothing that can be understood."""
    notebook = diligent()
    cell_of(notebook, "cube").metadata["nbgrader"] = "gone"
    return notebook


BROKEN = {
    "deleted-answer": (lambda: without("cube"), 0, "answer cell 'cube' is missing"),
    "deleted-tests": (lambda: without("cube-tests"), 2, "'cube-tests' was deleted, and has been"),
    "deleted-setup": (lambda: without("setup"), 2, "'setup' was deleted, and has been put back"),
    "retyped": (lambda: retyped("cube"), 2, "'cube' had been retyped"),
    "copied": (lambda: copied("cube"), 2, "The cell 'cube' is there 2 times"),
    "edited-tests": (lambda: changed("cube-tests", "print('✓')"), 2, "Locked cells were changed"),
    "syntax": (lambda: changed("cube", "def cube(x:\n    pass"), 0, "'cube' has a syntax error"),
    "kernel": (other_kernel, 2, "'py27', which is not there"),
    "older": (older, 2, "another version of the exercises"),
    "as-text": (lambda: as_text("cube"), 2, "turned into text"),
    "garbled": (garbled, 0, "The notebook cannot be graded"),
    "no-notebook": (lambda: "<html>Please log in</html>", 0, "no notebook that can be read"),
    "cut-off": (lambda: nbformat.writes(load(UPSTREAM))[:3000], 0, "no notebook that can be read"),
}

# By the names that students give their files, in this order: what earns points is written last.
MISNAMED = {
    "renamed": (["Copy of 02 (1).ipynb"], "is named 'Copy of 02 (1).ipynb' and not"),
    "from-a-browser": ([f"{UPSTREAM}.ipynb.txt"], f"is named '{UPSTREAM}.ipynb.txt' and not"),
    "in-a-folder": ([f"My work/{UPSTREAM}.ipynb"], f"is named 'My work/{UPSTREAM}.ipynb' and not"),
    "two-others": (["old.ipynb", "a new one.ipynb"], "'a new one.ipynb' was graded"),
    "two-copies": ([f"{UPSTREAM}-Copy1.ipynb", f"{UPSTREAM}.ipynb"], "2 notebooks were handed in"),
}


def hand_in_misnamed(course, student, names):
    paths = [course / "submitted" / student / UPSTREAM / name for name in names]
    for age, path in enumerate(reversed(paths)):
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(load(UPSTREAM) if age else diligent(), path)
        os.utime(path, (1e9 - age, 1e9 - age))
    return paths


@pytest.fixture(scope="module")
def graded(tool, tmp_path_factory):
    """The course's folder, the rows of marks.csv by student, each file as it was handed in, and
    how many kernels were alive when a notebook's turn came.
    """
    course = tmp_path_factory.mktemp("course")
    made = {student: make() for student, (make, _, _) in BROKEN.items()}
    made |= kinds(UPSTREAM) | {student: hostile(source) for student, source in HOSTILE.items()}
    made["from-colab"] = from_colab()
    paths = [hand_in(course, student, UPSTREAM, work) for student, work in made.items()]
    for student, (names, _) in MISNAMED.items():
        paths += hand_in_misnamed(course, student, names)
    (course / "submitted" / "empty-handed" / UPSTREAM).mkdir(parents=True)
    before = {path: path.read_bytes() for path in paths}
    alive = []

    async def counted(notebook, nursery, *rest):
        alive.append(len(nursery.children))
        return await run(notebook, nursery, *rest)

    with pytest.MonkeyPatch.context() as patch:
        run = tool.run
        patch.setattr(tool, "run", counted)
        rows = tool.grade(course, UPSTREAM, limits=tool.Limits(seconds=10, memory=2**30))
    return course, {row["student"]: row for row in rows}, before, alive


# --- who gets what ---------------------------------------------------------------------------


def assert_just(rows):
    points = {student: row["points"] for student, row in rows.items()}
    assert points["right"] == rows["right"]["of"] >= 5
    assert points["untouched"] == 0
    assert points["hard-coded"] == 0
    assert 0 < points["half"] < points["right"]
    assert not any(rows[student]["noticed"] for student in kinds(UPSTREAM))


def test_a_right_notebook_has_full_marks_an_untouched_or_hard_coded_one_none(graded):
    assert_just(graded[1])


@pytest.mark.slow
@pytest.mark.parametrize("exercise", sorted({*HARD_CODED} - {UPSTREAM}))
def test_so_it_is_for_every_exercise(tool, tmp_path, exercise):
    for student, notebook in kinds(exercise).items():
        hand_in(tmp_path, student, exercise, notebook)
    assert_just({row["student"]: row for row in tool.grade(tmp_path, exercise)})


@pytest.mark.parametrize("student", HOSTILE)
def test_a_hostile_answer_earns_nothing_and_is_named(graded, student):
    course, rows, *_ = graded
    assert rows[student]["points"] <= 4
    assert re.search(MARKED.get(student, ""), rows[student]["noticed"])
    assert "cube" in feedback(course, student)


@pytest.mark.parametrize("student", ["loops", "fills-memory", "import-fails"])
def test_after_an_error_the_other_answers_still_count(graded, student):
    assert graded[1][student]["points"] == 4


@pytest.mark.parametrize("student", ["leaves", "heeds-nothing"])
def test_after_the_end_of_a_kernel_no_later_cell_counts(graded, student):
    course, rows, *_ = graded
    assert rows[student]["points"] == 1  # the prediction stands before the cube
    assert "not run, because cell" in feedback(course, student)


def test_marks_are_a_table_that_a_spreadsheet_opens(graded):
    course, rows, *_ = graded
    with (course / "marks.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["student"] for row in read] == sorted(rows)
    assert set(read[0]) == {"student", "points", "of", "noticed"}


# --- notebooks that are broken ---------------------------------------------------------------


@pytest.mark.parametrize("student", BROKEN)
def test_a_broken_notebook_is_graded_as_far_as_it_goes_and_says_what_to_do(graded, student):
    course, rows, *_ = graded
    _, points, words = BROKEN[student]
    assert rows[student]["points"] == points
    assert words in rows[student]["noticed"]
    assert "What was noticed before grading" in feedback(course, student)


@pytest.mark.parametrize("student", MISNAMED)
def test_a_file_of_another_name_is_found_and_of_several_one_is_graded(graded, student):
    row = graded[1][student]
    assert row["points"] == 2
    assert MISNAMED[student][1] in row["noticed"]


def test_what_colab_has_saved_is_graded_without_a_word(graded):
    row = graded[1]["from-colab"]
    assert (row["points"], row["noticed"]) == (2, "")


def test_an_empty_folder_is_no_points_and_no_end(graded):
    row = graded[1]["empty-handed"]
    assert (row["points"], "No notebook was handed in" in row["noticed"]) == (0, True)


def test_nothing_that_was_handed_in_is_changed(graded):
    assert all(path.read_bytes() == content for path, content in graded[2].items())


def test_whom_nbgrader_cannot_grade_does_not_stop_the_others(tool, tmp_path, monkeypatch):
    async def run(notebook, *_):
        if "TROUBLE" in str(notebook):
            notebook.cells.pop()
        return []

    monkeypatch.setattr(tool, "run", run)
    hand_in(tmp_path, "trouble", UPSTREAM, changed("steps", "TROUBLE"))
    hand_in(tmp_path, "zoe", UPSTREAM, load(UPSTREAM))
    trouble, zoe = tool.grade(tmp_path, UPSTREAM, fork=False)
    assert trouble["points"] == ""
    assert trouble["noticed"] == "nbgrader could not grade it: see grade.log."
    assert (zoe["of"], zoe["noticed"]) == (9, "")
    assert "Score:" in feedback(tmp_path, "zoe")
    assert "AssertionError" in (tmp_path / "grade.log").read_text()


def test_a_kernel_ends_with_its_notebook(graded):
    _, rows, _, alive = graded
    assert len(alive) == len(rows)
    assert max(alive) <= 3  # one runs beside this one, and one may just be ending


# --- a course that is not ready --------------------------------------------------------------


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
    for command in ("generate_assignment", "autograde"):
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
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        marks = {
            s.student.id: (s.score, s.max_score) for s in book.assignment_submissions(UPSTREAM)
        }
    assert marks == {"right": (9, 9), "untouched": (0, 9)}
