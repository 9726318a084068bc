"""What students do to notebooks is mended cell by cell, and each gets a sentence about it."""

import copy
import runpy
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="pip install 'cgviz[teach]'")

ROOT = Path(__file__).resolve().parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "mend.py"))
EXERCISES = sorted((ROOT / "notebooks" / "exercises").glob("*.ipynb"))
CHOSEN = next(path for path in EXERCISES if path.stem == "02_upstream_downstream")


@pytest.fixture
def given():
    """The exercise as it is given out."""
    return nbformat.read(CHOSEN, as_version=4)


def name(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def names(notebook):
    return [name(cell) for cell in notebook.cells if name(cell)]


def cell_of(notebook, wanted):
    return next(cell for cell in notebook.cells if name(cell) == wanted)


def code(source):
    return nbformat.v4.new_code_cell(source)


def mended(notebook, given):
    """What was noticed; afterwards each cell of the exercise is there once, and nothing is lost."""
    sources = {cell.source for cell in notebook.cells}
    notices = TOOL["mend"](notebook, given)
    assert sorted(names(notebook)) == sorted(names(given))
    assert sources <= {cell.source for cell in notebook.cells}
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    nbformat.validate(notebook)
    return notices


def the_notice(notebook, given):
    (notice,) = mended(notebook, given)
    return notice


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_an_exercise_as_it_was_given_out_is_left_as_it_is(path):
    given = nbformat.read(path, as_version=4)
    notebook = copy.deepcopy(given)
    assert mended(notebook, given) == []
    assert notebook == given


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"<html>",
        b"\x00\xff\xfe",
        b'{"cells": 3, "nbformat": 4}',
        b'{"cells": [], "metadata": {"kernelspec": 3}, "nbformat": 4, "nbformat_minor": 5}',
        b"{" * 9,
    ],
)
def test_what_is_no_notebook_becomes_the_empty_exercise_and_is_only_read(tmp_path, given, content):
    path = tmp_path / "handed_in.ipynb"
    path.write_bytes(content)
    notebook, (notice,) = TOOL["read"](path, given)
    assert notebook == given
    assert notebook is not given
    assert notice.startswith("The file is no notebook that can be read (")
    assert "hand in again" in notice
    assert path.read_bytes() == content


def test_a_file_that_is_not_there_was_not_handed_in(tmp_path, given):
    notebook, (notice,) = TOOL["read"](tmp_path / "nothing.ipynb", given)
    assert notebook == given
    assert notice.startswith("No notebook was handed in.")


def test_a_notebook_is_read_as_it_is(given):
    assert TOOL["read"](CHOSEN, given) == (given, [])


# --- cells that are gone, or elsewhere -----------------------------------------------------------


def test_of_an_empty_notebook_every_cell_is_put_back_in_its_order(given):
    notebook = nbformat.v4.new_notebook()
    notices = mended(notebook, given)
    assert names(notebook) == names(given)
    assert len(notices) == len(names(given))
    assert sum("so it has no points" in n for n in notices) == 4  # the answers


def test_what_was_deleted_comes_back_behind_what_stood_before_it(given):
    notebook = copy.deepcopy(given)
    notebook.cells.remove(cell_of(notebook, "downstreams-tests"))
    assert the_notice(notebook, given) == (
        "The cell 'downstreams-tests' was deleted, and has been put back."
    )
    assert names(notebook) == names(given)


@pytest.mark.parametrize(
    "source",
    [
        "prediction = 3.0",
        "prediction: float = 3.0",
        "prediction, other = 3.0, 4.0",
        "%time\nfor prediction in (3.0,):\n    pass",
    ],
)
def test_an_answer_that_was_retyped_is_found_by_what_it_defines(given, source):
    notebook = copy.deepcopy(given)
    notebook.cells.remove(cell_of(notebook, "downstreams"))
    notebook.cells += [code("prediction = 0.0"), code(source)]
    assert "'downstreams' had been retyped" in the_notice(notebook, given)
    assert name(notebook.cells[-1]) == "downstreams"  # of two, the one that counts when it is run


@pytest.mark.parametrize(
    "source",
    [
        "import prediction",
        "def other():\n    prediction = 3.0",
        "print(prediction)",
        "prediction = = 3",
        "prediction.x = 3",
    ],
)
def test_a_cell_that_only_names_it_is_no_answer(given, source):
    notebook = copy.deepcopy(given)
    notebook.cells.remove(cell_of(notebook, "downstreams"))
    notebook.cells.append(code(source))
    assert "The answer cell 'downstreams' is missing" in mended(notebook, given)[0]


@pytest.mark.parametrize("locked", ["triple", "cube-tests"])
def test_a_locked_cell_that_lost_its_mark_is_put_back_beside_it(given, locked):
    notebook = copy.deepcopy(given)
    del cell_of(notebook, locked).metadata["nbgrader"]
    assert the_notice(notebook, given) == f"The cell '{locked}' was deleted, and has been put back."
    assert len(notebook.cells) == len(given.cells) + 1


def test_a_copy_that_was_pasted_behind_is_the_one_that_counts(given):
    notebook = copy.deepcopy(given)
    pasted = copy.deepcopy(cell_of(notebook, "cube"))
    pasted.id, pasted.source = "pasted", "cube = 3"
    notebook.cells.append(pasted)
    assert the_notice(notebook, given).startswith("The cell 'cube' is there 2 times.")
    assert cell_of(notebook, "cube").source == "cube = 3"


# --- cells that are not what they were -----------------------------------------------------------


def test_a_locked_cell_that_was_changed_is_named(given):
    notebook = copy.deepcopy(given)
    cell_of(notebook, "cube-tests").source = "pass"
    assert the_notice(notebook, given).startswith("Locked cells were changed (cube-tests).")


def test_an_answer_may_be_anything(given):
    notebook = copy.deepcopy(given)
    cell_of(notebook, "cube").source = "cube = None"
    assert mended(notebook, given) == []


def test_another_version_is_named_once_and_its_own_cells_lose_their_mark(given):
    notebook = copy.deepcopy(given)
    cell_of(notebook, "steps-tests").metadata.nbgrader.checksum = "0" * 32
    strange = copy.deepcopy(cell_of(notebook, "cube"))
    strange.id = strange.metadata.nbgrader.grade_id = "sphere"
    notebook.cells.append(strange)
    notice = the_notice(notebook, given)
    assert notice.startswith("This is another version of the exercises (sphere, steps-tests).")
    assert "nbgrader" not in notebook.cells[-1].metadata


def test_a_mark_without_a_name_is_taken_away(given):
    notebook = copy.deepcopy(given)
    notebook.cells.append(code("1"))
    notebook.cells[-1].metadata["nbgrader"] = {"grade": True}
    assert mended(notebook, given) == []
    assert "nbgrader" not in notebook.cells[-1].metadata


def test_an_answer_that_was_turned_into_text_is_code_again(given):
    notebook = copy.deepcopy(given)
    place = notebook.cells.index(cell_of(notebook, "cube"))
    text = nbformat.v4.new_markdown_cell("cube = 3", metadata=notebook.cells[place].metadata)
    notebook.cells[place] = text
    assert the_notice(notebook, given).startswith("The cell 'cube' had been turned into text.")
    assert (notebook.cells[place].cell_type, notebook.cells[place].source) == ("code", "cube = 3")


@pytest.mark.parametrize(
    "kernel", [{"name": "py27", "display_name": "Old", "language": "python"}, {"name": "ir"}]
)
def test_another_kernel_is_replaced_and_named(given, kernel):
    notebook = copy.deepcopy(given)
    notebook.metadata["kernelspec"] = nbformat.from_dict({"display_name": "?", **kernel})
    assert f"the kernel '{kernel['name']}', which is not there" in the_notice(notebook, given)
    assert notebook.metadata.kernelspec.name == "python3"


# --- syntax ------------------------------------------------------------------------------------


def test_a_syntax_error_is_named_with_its_cell_and_line(given):
    notebook = copy.deepcopy(given)
    cell_of(notebook, "cube").source = "def cube(x):\n    return x *"
    notebook.cells.insert(0, code("1 +"))
    mine, answer = mended(notebook, given)
    assert mine.startswith("Cell 1 has a syntax error in line 1: ")
    assert answer.startswith("Cell 'cube' has a syntax error in line 2: ")


@pytest.mark.parametrize(
    "source", ["%%time\nx = 1", "!ls", "%matplotlib inline", "len?", "await f()", "", "# nothing"]
)
def test_what_ipython_understands_is_no_syntax_error(given, source):
    notebook = copy.deepcopy(given)
    notebook.cells.append(code(source))
    assert mended(notebook, given) == []


# --- what the student reads --------------------------------------------------------------------


def test_what_was_noticed_stands_on_top_as_a_list(given):
    notebook = copy.deepcopy(given)
    TOOL["note"](notebook, ["One thing.", "Another."])
    first, *rest = notebook.cells
    assert first.source.endswith("\n\n- One thing.\n- Another.")
    assert rest == given.cells
    nbformat.validate(notebook)


def test_where_nothing_was_noticed_nothing_is_added(given):
    notebook = copy.deepcopy(given)
    TOOL["note"](notebook, [])
    assert notebook == given
