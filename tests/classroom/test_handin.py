"""What students hand in is read within bounds, and each oddity gets a sentence about it."""

import copy
import io
import json
import os
import zipfile

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="pip install 'custom-gradients[teach]'")

import exercises
import handin
import handins
from handin import UnreadableError, find, merge
from handins import NOTEBOOKS, UPSTREAM, cell_of, diligent, load, written

NAME = f"{UPSTREAM}.ipynb"
GIVEN, SOLVED = exercises.cells(NOTEBOOKS / "solutions" / NAME)
SECRET = NOTEBOOKS / "solutions" / NAME


def names(cells):
    return [cell.name for cell in cells if cell.name]


def cell(cells, name):
    (found,) = [one for one in cells if one.name == name]
    return found


def merged(notebook):
    """The cells and what was noticed; each cell of the exercise is there once."""
    cells, noticed = merge(written(notebook), GIVEN)
    assert sorted(names(cells)) == sorted(names(GIVEN))
    return cells, noticed


def the_notice(notebook):
    _, (notice,) = merged(notebook)
    return notice


@pytest.mark.parametrize("path", sorted((NOTEBOOKS / "exercises").glob("*.ipynb")), ids=str)
def test_an_exercise_as_it_was_given_out_is_left_as_it_is(path):
    given, _ = exercises.cells(NOTEBOOKS / "solutions" / path.name)
    assert merge(path.read_bytes(), given) == (list(given), [])


# --- the file ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "submitted" / "ada" / UPSTREAM
    made.mkdir(parents=True)
    return made


def put(folder, name, notebook, age=0):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written(notebook))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_the_file_with_the_right_name_is_read_and_nothing_is_said(folder):
    path = put(folder, NAME, diligent())
    assert find(folder, NAME) == (path.read_bytes(), [])


@pytest.mark.parametrize(
    ("handed_in", "words"),
    [
        (["Copy of 02 (1).ipynb"], "is named 'Copy of 02 (1).ipynb' and not"),
        ([NAME.upper()], f"is named '{NAME.upper()}' and not"),
        ([f"{NAME}.txt"], f"is named '{NAME}.txt' and not"),
        ([f"My work/{NAME}"], f"is named 'My work/{NAME}' and not"),
        (["a\nb<i>.ipynb"], "is named 'a?b<i>.ipynb' and not"),
        (["old.ipynb", "a new one.ipynb"], "'a new one.ipynb' was graded"),
        ([f"{UPSTREAM}-Copy1.ipynb", NAME], "2 notebooks were handed in"),
    ],
)
def test_a_file_of_another_name_is_found_and_of_several_the_right_one(folder, handed_in, words):
    for age, name in enumerate(reversed(handed_in)):  # the newest is the last
        put(folder, name, load() if age else diligent(), age)
    data, (notice,) = find(folder, NAME)
    assert data == written(diligent())
    assert words in notice


def test_an_empty_folder_and_checkpoints_are_no_hand_in(folder):
    put(folder, f".ipynb_checkpoints/{NAME}", diligent())
    with pytest.raises(UnreadableError, match="No notebook was handed in"):
        find(folder, NAME)


def dangling(folder):
    (folder / NAME).symlink_to(folder / "nowhere")


def loop(folder):
    (folder / NAME).symlink_to(folder / NAME)


def to_the_solution(folder):
    (folder / NAME).symlink_to(SECRET)


def through_a_folder(folder):
    (folder / "work").symlink_to(SECRET.parent)


def a_pipe(folder):
    os.mkfifo(folder / NAME)


def a_folder_for_a_file(folder):
    (folder / NAME).mkdir()


@pytest.mark.parametrize(
    "make", [dangling, loop, to_the_solution, through_a_folder, a_pipe, a_folder_for_a_file]
)
def test_what_is_no_regular_file_is_never_read(folder, make):
    make(folder)
    with pytest.raises(UnreadableError, match=r"was not read|No notebook was handed in"):
        find(folder, NAME)


def test_a_regular_file_beside_a_link_is_read(folder):
    to_the_solution(folder)
    put(folder, "mine.ipynb", diligent())
    assert find(folder, NAME)[0] == written(diligent())


@pytest.mark.parametrize("which", ["folder", "parent"])
def test_a_link_in_place_of_a_students_folder_is_never_followed(tmp_path, folder, which):
    put(folder, NAME, diligent())
    eve = tmp_path / "submitted" / "eve"
    if which == "parent":
        eve.symlink_to(folder.parent)
    else:
        eve.mkdir()
        (eve / UPSTREAM).symlink_to(folder)
    with pytest.raises(UnreadableError, match="a link, and no folder"):
        find(eve / UPSTREAM, NAME)


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / UPSTREAM).write_text("mine")
    with pytest.raises(UnreadableError, match="is a file or a link"):
        find(tmp_path / UPSTREAM, NAME)


def test_a_pipe_that_takes_the_place_of_a_file_does_not_block(folder):
    os.mkfifo(folder / NAME)
    with pytest.raises(UnreadableError, match="no regular file"):
        handin._content(folder / NAME)


def test_too_much_is_not_read(folder, monkeypatch):
    with open(folder / NAME, "wb") as file:
        file.truncate(handin.MOST_BYTES + 1)
    with pytest.raises(UnreadableError, match="larger than 20 MB"):
        find(folder, NAME)
    for number in range(handin.MOST_FILES):
        (folder / str(number)).touch()
    with pytest.raises(UnreadableError, match="More than 1000 files"):
        find(folder, NAME)


# --- what is no notebook -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"null", b"[]", b"{}", b"<html>", b"\x00\xff\xfe", b"{" * 9, b"[" * 10**6),
        b'{"cells": 3, "nbformat": 4}',
        b'{"worksheets": [], "nbformat": 3}',
        b'{"cells": [' + b"1" * 5000 + b"]}",
        written(load())[:3000],
    ],
    ids=lambda content: str(content[:20]),
)
def test_what_is_no_notebook_is_said_to_be_none(content):
    with pytest.raises(UnreadableError, match="no notebook that can be read"):
        merge(content, GIVEN)


ZIP = io.BytesIO()
with zipfile.ZipFile(ZIP, "w") as packed:
    packed.writestr(NAME, "{}")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is empty"),
        (b" \r\n", "it is empty"),
        (b"%PDF-1.7\n%\xe4", "it is a PDF"),
        (ZIP.getvalue(), "it is a zip file, or a document of a word processor"),
        (b"\n<!DOCTYPE html>", "it is a web page"),
        *(("{}".encode(code), "it is text in UTF-16") for code in ("utf-16", "utf-16-le")),
        ("{}".encode("utf-16-be"), "it is text in UTF-16"),
        (b'{"cells": "\xe4"}', "it is no text in UTF-8"),
        (b'{"cells": [', "Expecting value"),
    ],
)
def test_of_a_file_that_is_no_notebook_it_is_said_what_it_is(content, what):
    with pytest.raises(UnreadableError) as found:
        merge(content, GIVEN)
    assert f"no notebook that can be read ({what}" in str(found.value)
    assert "codec" not in str(found.value)


def test_a_notebook_of_too_many_cells_or_too_much_code_is_not_run():
    many = {"cells": [{"cell_type": "code", "source": "1"}] * 10**4}
    with pytest.raises(UnreadableError, match="more than 400 cells"):
        merge(json.dumps(many).encode(), GIVEN)
    long = {"cells": [{"cell_type": "code", "source": "1\n" * 10**6}]}
    with pytest.raises(UnreadableError, match="more than 1000000 characters"):
        merge(json.dumps(long).encode(), GIVEN)


def test_whatever_cells_and_marks_may_be_is_read_as_far_as_it_goes():
    cells, notices = merged(handins.garbled())
    assert cell(cells, "cube").source == handins.MODEL["cube"]
    assert notices == []


# --- cells that are gone, or elsewhere -----------------------------------------------------------


def test_tests_and_tags_come_from_the_exercise_and_only_answers_from_the_student():
    notebook = handins.tagged(diligent())
    cell_of(notebook, "cube-tests").source = "print('✓')"
    cells, (notice,) = merged(notebook)
    assert notice.startswith("Locked cells were changed (cube-tests).")
    assert cell(cells, "cube-tests") == cell(GIVEN, "cube-tests")
    assert cell(cells, "cube").source == handins.MODEL["cube"]


def test_of_an_empty_notebook_every_cell_is_put_back_in_its_order():
    cells, notices = merged(nbformat.v4.new_notebook())
    assert cells == [cell for cell in GIVEN if cell.name]
    (notice,) = notices
    assert notice.startswith("No cell of the exercise is left in the notebook")


def test_several_cells_that_were_lost_share_a_sentence():
    notebook = handins.without("downstreams-tests", "logistic", "steps", "steps-tests")
    assert [notice.partition(",")[0] for notice in merged(notebook)[1]] == [
        "The answer cells 'logistic'",
        "The cells 'downstreams-tests'",
    ]
    one, other = merged(notebook)[1]
    assert "'steps' are missing, so they have no points" in one
    assert "'steps-tests' were deleted, and have been put back." in other


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("cube", "The answer cell 'cube' is missing, so it has no points."),
        ("cube-tests", "The cell 'cube-tests' was deleted, and has been put back."),
        ("setup", "The cell 'setup' was deleted, and has been put back."),
    ],
)
def test_what_was_deleted_comes_back_where_it_was(gone, words):
    notebook = handins.without(gone)
    assert the_notice(notebook).startswith(words)
    assert names(merged(notebook)[0]) == names(GIVEN)


@pytest.mark.parametrize(
    "source",
    ["prediction = 3.0", "prediction: float = 3.0", "prediction, other = 3.0, 4.0", "%time\n{0}"],
)
def test_an_answer_that_was_retyped_is_found_by_what_it_defines(source):
    notebook = handins.without("downstreams")
    source = source.format("prediction = 3.0")
    place = notebook.cells.index(cell_of(notebook, "downstreams-tests"))
    typed = [nbformat.v4.new_code_cell(text) for text in ("prediction = 0.0", source)]
    notebook.cells[place:place] = typed
    assert "'downstreams' had been retyped" in the_notice(notebook)
    cells, _ = merged(notebook)
    assert cell(cells, "downstreams").source == source  # of two, the one that counts


@pytest.mark.parametrize(
    "source",
    [
        *("import prediction", "def other():\n    prediction = 3.0", "print(prediction)"),
        *("prediction == 3", "prediction.x = 3"),
    ],
)
def test_a_cell_that_only_names_it_is_no_answer(source):
    notebook = handins.without("downstreams")
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    assert "The answer cell 'downstreams' is missing" in the_notice(notebook)


def test_an_answer_that_lost_its_mark_is_found_and_a_locked_cell_is_put_back_beside_it():
    assert "'cube' had been retyped" in the_notice(handins.retyped("cube"))
    assert "'cube-tests' was deleted" in the_notice(handins.retyped("cube-tests"))


@pytest.mark.parametrize("place", ["cube", None], ids=["in another answer", "in an own cell"])
def test_answers_that_share_a_cell_are_found_and_no_stub_replaces_them(place):
    notebook = handins.without("downstreams", "cube", "logistic", "steps")
    notebook.cells.insert(2, nbformat.v4.new_code_cell("\n".join(handins.MODEL.values())))
    if place:
        notebook.cells[2].metadata = cell_of(diligent(), place).metadata
    cells, notices = merged(notebook)
    shared = place or "downstreams"  # the first that is missing has the cell
    assert {name for name in handins.MODEL if cell(cells, name).source} == {shared}
    (found,) = [words for words in notices if "was found in another cell, and graded" in words]
    assert all(f"'{name}'" in found for name in {*handins.MODEL} - {shared})
    assert not any("missing, so it has no points" in words for words in notices)


def test_a_stub_is_put_back_where_only_a_locked_cell_or_a_test_names_the_answer():
    notebook = handins.without("cube")
    notebook.cells.insert(2, nbformat.v4.new_code_cell("def other():\n    return cube"))
    assert "so it has no points" in the_notice(notebook)
    assert "..." in cell(merged(notebook)[0], "cube").source


def test_a_name_of_a_locked_cell_that_the_student_defines_again_is_noticed():
    notebook = diligent()
    notebook.cells.append(nbformat.v4.new_code_cell("mirror = abs\nmine = 3"))
    assert the_notice(notebook).startswith("Your code defines mirror, which a locked cell defines")
    notebook.cells[-1].source = cell_of(notebook, "mirror").source  # a copy says nothing new
    assert merged(notebook)[1] == []


def test_a_copy_of_a_locked_cell_fixes_its_names_as_early_as_the_cell_itself():
    notebook = diligent()
    notebook.cells.append(copy.deepcopy(cell_of(notebook, "mirror")))
    mirrors = {"mirror", "two_mirrors"}
    fixed = [one.fixed for one in merged(notebook)[0]]
    assert fixed.count(mirrors) == 2
    assert [each for each in fixed if each and each != mirrors] == [
        {"np", "tf", "cgviz", "classroom"}  # what the first cell imports
    ]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("class cgviz:\n    check = print", "cgviz"),
        ("np = tf = None", "np, tf"),
        ("from mine import (\n    classroom,  # a comment, too\n    other,\n)", "classroom"),
        ("import jax.numpy as np; import tensorflow as tf", "np"),
        ("import numpy as np\nimport tensorflow as tf\nimport cgviz.moons", ""),
        ("from cgviz import classroom, moons", ""),
        ("from numpy import *", ""),
        ("import cgviz.classroom as classroom  # again", ""),
        ("def mine():\n    import pandas as np\n    tf = 3", ""),
        ("np == tf == None", ""),
    ],
)
def test_what_a_locked_cell_imports_is_noticed_where_it_comes_to_mean_something_else(source, names):
    notebook = diligent()
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    words = f"Your code defines {names}, which a locked cell defines already." if names else None
    said = [notice[: len(words or "")] for notice in merged(notebook)[1]]
    assert said == [words] * bool(names)


def test_a_test_cell_that_was_pasted_above_does_not_count_as_moved():
    notebook = diligent()
    answer = notebook.cells.index(cell_of(notebook, "cube"))
    notebook.cells.insert(answer, copy.deepcopy(cell_of(notebook, "cube-tests")))
    assert the_notice(notebook).startswith("The cell 'cube-tests' is there 2 times.")


def test_a_stray_cell_of_another_exercise_does_not_make_it_another_version():
    notebook = diligent()
    notebook.cells.append(copy.deepcopy(cell_of(load("01_chain_rule"), "factors")))
    assert the_notice(notebook).startswith("Some cells are not of this exercise (factors).")


def test_a_copy_that_was_pasted_behind_is_the_one_that_counts():
    notebook = diligent()
    notebook.cells.append(copy.deepcopy(cell_of(notebook, "cube")))
    notebook.cells[-1].source = "cube = 3"
    assert the_notice(notebook).startswith("The cell 'cube' is there 2 times.")
    assert cell(merged(notebook)[0], "cube").source == "cube = 3"


# --- cells that are not what they were -----------------------------------------------------------


def test_another_version_is_named_once_and_its_own_cells_lose_their_mark():
    cells, (notice, back) = merged(handins.older())
    assert back.startswith("The cell 'mirror' was deleted")
    assert notice.startswith("This is another version of the exercises (cube-tests, gone-since).")
    assert "gone-since" not in names(cells)


def test_an_answer_below_its_tests_is_named_and_a_copy_of_one_above_them_is_not():
    notebook = diligent()
    answer = cell_of(notebook, "cube")
    notebook.cells.remove(answer)
    notebook.cells.append(answer)
    assert the_notice(notebook).startswith("Cells were moved: 'cube-tests' is above 'cube'.")
    assert "there 2 times" in the_notice(handins.copied("cube"))


BELOW = "An answer for cube stands in code cell {}, below its tests ('cube-tests'), and there is"


@pytest.mark.parametrize(
    "stub",
    [None, "", "# see below", "@tf.custom_gradient\ndef other(x):\n    return x, lambda u: u"],
    ids=["untouched", "emptied", "commented", "another name"],
)
def test_an_answer_in_a_new_cell_below_its_tests_is_named_with_its_cell(stub):
    notebook = load()
    if stub is not None:
        cell_of(notebook, "cube").source = stub
    tests = notebook.cells.index(cell_of(notebook, "cube-tests"))
    notebook.cells.insert(tests + 1, nbformat.v4.new_code_cell(handins.MODEL["cube"]))
    code = [each.source for each in notebook.cells if each.cell_type == "code"]
    said = the_notice(notebook)
    assert said.startswith(BELOW.format(code.index(handins.MODEL["cube"]) + 1))
    assert "Move it into the answer cell 'cube', and hand in again." in said


def test_a_locked_cell_may_stand_between_an_answer_and_its_tests():
    exercise = "07_non_differentiable"
    notebook, (given, _) = load(exercise), exercises.cells(SECRET.with_stem(exercise))
    notebook.cells.append(nbformat.v4.new_code_cell("switch = abs"))
    _, (notice,) = merge(written(notebook), given)
    assert notice.startswith("An answer for switch stands in code cell")


def test_an_answer_that_was_retyped_or_copied_below_its_tests_is_named_too():
    retyped, copied = handins.without("cube"), load()
    retyped.cells.append(nbformat.v4.new_code_cell(handins.MODEL["cube"]))
    copied.cells.append(copy.deepcopy(cell_of(diligent(), "cube")))
    for notebook in (retyped, copied):
        assert any(notice.startswith("An answer for cube stands") for notice in merged(notebook)[1])


def test_an_answer_in_a_new_cell_is_named_beside_another_that_was_moved():
    notebook = diligent()
    notebook.cells.append(notebook.cells.pop(notebook.cells.index(cell_of(notebook, "cube"))))
    notebook.cells.append(nbformat.v4.new_code_cell(handins.MODEL["logistic"]))
    moved, below = merged(notebook)[1]
    assert moved.startswith("Cells were moved")
    assert below.startswith("An answer for logistic stands in code cell")


@pytest.mark.parametrize("where", ["an answer", "a cell above", "a stub below", "another's cell"])
def test_an_answer_above_its_tests_may_be_defined_again_below_them(where):
    notebook = load() if where == "a cell above" else diligent()
    model = nbformat.v4.new_code_cell(handins.MODEL["cube"])
    if where == "a cell above":
        notebook.cells.insert(2, copy.deepcopy(model))
        cell_of(notebook, "cube").source = ""
    if where == "another's cell":
        source = cell_of(notebook, "downstreams")
        source.source, cell_of(notebook, "cube").source = handins.MODEL["cube"], ""
    if where == "a stub below":
        model.source = cell_of(load(), "cube").source
    notebook.cells.append(model)
    assert merged(notebook)[1] == []


def test_the_notebook_of_another_exercise_is_said_to_be_one():
    with pytest.raises(UnreadableError, match=r"belongs to another exercise \(area, inputs, "):
        merge(written(load("03_multiple_inputs")), GIVEN)


def test_a_cell_of_another_exercise_among_retyped_answers_does_not_make_it_another_one():
    notebook = handins.retyped("cube")
    for name in [each.name for each in GIVEN if each.role == "answer" and each.name != "cube"]:
        handins.cell_of(notebook, name).metadata.pop("nbgrader")
    notebook.cells.append(copy.deepcopy(handins.cell_of(load("03_multiple_inputs"), "area")))
    cells, _ = merged(notebook)
    assert "x**3" in cell(cells, "cube").source


def test_an_old_format_is_named_and_the_ends_of_lines_may_be_those_of_windows():
    notebook = json.loads(nbformat.writes(diligent()))
    for one in notebook["cells"]:
        one["source"] = "".join(one["source"]).replace("\n", "\r\n")
    assert merge(json.dumps(notebook).encode(), GIVEN) == merge(written(diligent()), GIVEN)
    with pytest.raises(UnreadableError, match="the format before 4 had none"):
        merge(b'{"worksheets": [], "nbformat": 3}', GIVEN)


def test_an_answer_that_was_turned_into_text_is_code_again():
    cells, (notice,) = merged(handins.as_text("cube"))
    assert notice == "The cell 'cube' had been turned into text. It was run as code."
    assert cell(cells, "cube").kind == "code"


@pytest.mark.parametrize("kernel", [{"name": "py27", "display_name": "Old"}, {"name": 3}])
def test_another_kernel_is_named(kernel):
    notebook = json.dumps(json.loads(nbformat.writes(handins.with_kernel(name="x"))))
    notebook = notebook.replace('"name": "x"', json.dumps(kernel)[1:-1])
    assert f"the kernel '{kernel['name']}', which is not there" in the_notice(notebook)


def test_what_colab_has_saved_is_read_without_a_word():
    cells, notices = merged(handins.from_colab())
    assert cell(cells, "cube").source == handins.MODEL["cube"]
    assert notices == []


def test_half_of_a_pair_of_surrogates_does_no_harm():
    notebook = nbformat.writes(diligent()).replace("upstream * 3.0", "upstream * 3.0  # \\ud800")
    merged(notebook)[0][5].source.encode()
