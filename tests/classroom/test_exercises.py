"""The exercises that students get come from the solutions, and ask what the lessons teach."""

import ast
import contextlib
import dis
import functools
import json
import re
import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from answers import HALF_RIGHT, STYLES, USUAL
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

pytest.importorskip("nbgrader", reason="pip install 'custom-gradients[teach]'")

import judge

from cgviz import classroom

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
EXERCISES = ROOT / "notebooks" / "exercises"
TOOL = runpy.run_path(str(ROOT / "tools" / "exercises.py"))


@pytest.fixture(params=SOLUTIONS, ids=lambda path: path.stem)
def solution(request):
    return nbformat.read(request.param, as_version=4), request.param


def graded(notebook, key):
    """The cells that nbgrader treats as `key`, by their grade_id."""
    marked = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get(key)]
    return {cell.metadata.nbgrader.grade_id: cell for cell in marked}


def test_each_lesson_from_01_to_11_has_its_exercises():
    lessons = {p.name for p in (ROOT / "notebooks").glob("[01][0-9]_*.ipynb")}
    assert {p.name for p in SOLUTIONS} == {p.name for p in EXERCISES.glob("*.ipynb")}
    assert lessons - {"00_start_here.ipynb"} == {p.name for p in SOLUTIONS}
    assert [p.name[:2] for p in SOLUTIONS] == [f"{n:02}" for n in range(1, 12)]


def test_building_the_exercises_again_changes_no_byte(solution):
    path = solution[1]
    assert (EXERCISES / path.name).read_text("utf-8") == TOOL["built"](path), "make exercises"


def test_the_build_names_what_is_stale_and_writes_nothing(tmp_path, monkeypatch, capsys):
    main = TOOL["main"]
    monkeypatch.setitem(main.__globals__, "EXERCISES", tmp_path)
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["exercises.py", "--check"])
    assert main() == 1
    assert capsys.readouterr().out.count("stale") == len(SOLUTIONS)
    assert not list(tmp_path.iterdir())


def test_no_answer_and_no_hidden_test_is_left_in_what_students_get(solution):
    notebook, path = solution
    text = (EXERCISES / path.name).read_text("utf-8")
    assert "SOLUTION" not in text
    assert "HIDDEN" not in text
    assert "classroom.ask" not in text
    released = nbformat.reads(text, as_version=4)
    for name, cell in graded(released, "solution").items():
        assert "..." in cell.source, name
        assert cell.source != graded(notebook, "solution")[name].source


def test_each_notebook_has_three_to_six_exercises_with_hints(solution):
    notebook, _ = solution
    prose = [c.source for c in notebook.cells if c.cell_type == "markdown"]
    tasks = [text for text in prose if re.match(r"## \d · ", text)]
    assert 3 <= len(tasks) <= 6
    assert "".join(prose).count("<details><summary>Hint</summary>") >= len(tasks) - 1


def test_one_exercise_is_a_prediction(solution):
    notebook, _ = solution
    sources = [c.source for c in notebook.cells if c.cell_type == "code"]
    assert any(s.startswith("cgviz.predict(") for s in sources)
    assert any("classroom.guessed(prediction" in s for s in sources)


def test_every_graded_cell_answers_at_once_and_has_hidden_tests(solution):
    notebook, _ = solution
    cells = graded(notebook, "grade")
    assert cells
    for name, cell in cells.items():
        shown, _, hidden = cell.source.partition("### BEGIN HIDDEN TESTS")
        assert re.search(r"classroom\.(feedback|guessed)\(", shown), name
        assert re.search(r"classroom\.ask\(", hidden), name
        assert cell.metadata.nbgrader.points >= 1


def test_a_test_cell_takes_no_name_that_a_student_may_use(solution):
    notebook, _ = solution
    for name, cell in graded(notebook, "grade").items():
        shown = cell.source.partition("### BEGIN HIDDEN TESTS")[0]
        said = "".join(output.text for output in cell.outputs)  # names a function, if it does
        taken = {n for n in stored(shown) if not n.startswith("_") and f"✓ {n}\n" not in said}
        assert not taken, name


def stored(source):
    """The names that a cell stores when it runs; not those within its functions."""
    steps = dis.get_instructions(compile(source, "cell", "exec"))
    return {step.argval for step in steps if step.opname == "STORE_NAME"}


def test_grade_ids_are_unique_and_say_what_they_grade(solution):
    notebook, _ = solution
    names = [c.metadata.nbgrader.grade_id for c in notebook.cells if "nbgrader" in c.metadata]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


class Nameless(ast.NodeTransformer):
    """Names are numbered as they appear, and whole numbers are floats."""

    def __init__(self):
        self.names = {"tf": "tf", "np": "np"}

    def visit_Name(self, node):
        return ast.Name(self.names.setdefault(node.id, f"name{len(self.names)}"))

    def visit_Constant(self, node):
        return ast.Constant(float(node.value) if type(node.value) is int else node.value)


def returned(source):
    """What functions of a source return, but for what is as short as `upstream * slope(x)`."""
    source = re.sub("^%.*", "", source, flags=re.M)
    for node in ast.walk(ast.parse(source)):
        result = {ast.Return: "value", ast.Lambda: "body"}.get(type(node))
        found = getattr(node, result) if result else None
        steps = sum(isinstance(n, ast.BinOp | ast.Call) for n in ast.walk(found)) if found else 0
        if steps > 2:
            yield ast.unparse(Nameless().visit(found))


@functools.cache
def taught():
    """What functions of the lessons and of the cheat sheet return."""
    lessons = [nbformat.read(p, 4) for p in (ROOT / "notebooks").glob("[01][0-9]_*.ipynb")]
    sources = [cell.source for n in lessons for cell in n.cells if cell.cell_type == "code"]
    sheet = (ROOT / "notebooks" / "cheat_sheet.md").read_text("utf-8")
    sources += re.findall(r"```python\n(.*?)```", sheet, re.S)
    return {found for source in sources for found in returned(source)}


def test_no_answer_is_copied_from_a_lesson_or_the_cheat_sheet_with_other_names(solution):
    assert taught()
    for name, cell in graded(solution[0], "solution").items():
        assert not taught() & {*returned(cell.source)}, name


def test_solutions_store_only_right_answers(solution):
    notebook, _ = solution
    said = [
        output.text
        for cell in graded(notebook, "grade").values()
        for output in cell.outputs
        if output.output_type == "stream"
    ]
    assert len(said) == len(graded(notebook, "grade"))
    assert all(re.fullmatch(r"(✓ [\w ]+\n)+", text) for text in said), said


def test_binder_does_not_open_the_solutions_first():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert not re.search(r"labpath=[^)]*solutions", readme)


def test_what_students_get_has_no_outputs_and_no_empty_lines_at_the_end_of_a_cell():
    for path in EXERCISES.glob("*.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            assert not cell.get("outputs")
            assert cell["source"] == [] or not cell["source"][-1].endswith("\n")


def run(notebook, capsys):
    """Each code cell, run as in a notebook, and what it said."""
    # As a notebook: the source of an answer is found through IPython.
    shell = InteractiveShell()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            capsys.readouterr()
            shell.run_cell(cell.source).raise_error()
            yield cell, capsys.readouterr().out


def test_solutions_say_what_they_store(solution, capsys):
    """As nbval would find, but without a kernel of its own and one more import of TensorFlow."""
    for cell, said in run(solution[0], capsys):
        stored = "".join(each.get("text") or each.data["text/plain"] for each in cell.outputs)
        assert said.removeprefix("Out[0]: ").strip() == stored.strip(), cell.source


@pytest.fixture(params=SOLUTIONS, ids=lambda path: path.stem)
def untouched(request, capsys):
    """What each graded cell says where nothing has been written."""
    exercise = nbformat.read(EXERCISES / request.param.name, as_version=4)
    said = {
        cell.metadata.get("nbgrader", {}).get("grade_id"): words
        for cell, words in run(exercise, capsys)
    }
    notebook = nbformat.read(request.param, as_version=4)
    return {name: said[name] for name in graded(notebook, "grade")}


def test_where_nothing_is_written_each_cell_says_not_yet(untouched):
    assert untouched
    assert all(re.fullmatch(r"(not yet · .*\n)+", text) for text in untouched.values()), untouched


# --- other answers than the model's ----------------------------------------------------------


@functools.cache
def cells_of(exercise):
    """The cells of an exercise, with the model answers."""
    return TOOL["cells"](ROOT / "notebooks" / "solutions" / f"{exercise}.ipynb")[1]


def tried(exercise, answer, change=lambda source: source):
    """The source of an answer; what its tests show; and their names with what a grader reads."""
    shell, shown, notes, last = InteractiveShell(), [], {}, ""
    for cell in cells_of(exercise):
        last = cell.name if cell.role == "answer" else last
        if cell.role == "locked" and cell.kind == "code":
            shell.run_cell(cell.source).raise_error()
        elif cell.role == "answer" and last == answer:
            source = change(cell.source)
            shell.run_cell(source).raise_error()
        elif cell.role == "tests" and last == answer:
            with capture_output() as said:
                shell.run_cell(cell.source)
            shown.append(said.stdout)
            classroom.answers.clear()
            with contextlib.suppress(Exception):
                exec(compile(cell.probe, "<hidden test>", "exec"), {**shell.user_ns})
            notes[cell.name] = [*classroom.answers]
    return source, shown, notes


@functools.cache
def model(exercise, answer):
    """What the hidden tests of the model answer note."""
    return tried(exercise, answer)[2]


def marked(exercise, answer, *changes):
    """What is shown of each cell with tests, and the reason of a grader why it earns nothing."""

    def change(source):
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert source.count(old) == 1
            source = source.replace(old, new)
        return source

    source, shown, notes = tried(exercise, answer, change)
    wanted = model(exercise, answer)
    return shown, [judge.judged(notes[name], wanted[name], source) for name in wanted]


@pytest.mark.parametrize(("exercise", "answer", "changes"), [(*u[:2], u[2:]) for u in USUAL])
def test_a_usual_mistake_is_told_and_earns_no_point(exercise, answer, changes):
    shown, reasons = marked(exercise, answer, *changes)
    assert all(reasons), reasons
    assert all(re.search("^✗", text, re.M) for text in shown), shown


@pytest.mark.parametrize(
    ("exercise", "answer", "changes"), [(*each[:2], each[2:]) for each in STYLES]
)
def test_a_right_answer_in_another_style_gets_its_ticks_and_all_points(exercise, answer, changes):
    shown, reasons = marked(exercise, answer, *changes)
    assert not any(reasons), reasons
    assert all(line.startswith("✓") for text in shown for line in text.splitlines()), shown


@pytest.mark.parametrize(
    ("exercise", "answer", "earned", "changes"), [(*h[:3], h[3:]) for h in HALF_RIGHT]
)
def test_what_is_wrong_costs_the_points_of_its_own_tests_alone(exercise, answer, earned, changes):
    _, reasons = marked(exercise, answer, *changes)
    assert tuple(not reason for reason in reasons) == earned, reasons


def test_which_setting_and_which_quality_is_wrong_is_said():
    fixed = ("tf.round(tones *", "tf.round(12.0 *", ")) / tones)", ")) / 12.0)")
    _, (value, rule) = marked("07_non_differentiable", "tuner", *fixed)
    assert value == "tuned(float32 of shape ()) with 5 tones: the value is wrong"
    assert "with 5 tones: the gradient" in rule
    far = ("tf.maximum(1.0 - tf.abs(x), 0.0)", "1.0 / (1.0 + x * x)")
    _, (qualities,) = marked("07_non_differentiable", "switch", *far)
    assert re.fullmatch(r"qualities: . of 5 are right; wrong: 3.*", qualities)
