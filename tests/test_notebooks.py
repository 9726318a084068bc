"""A notebook is run in place, and running it again changes no byte."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
LESSONS = sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))
TOOL = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))


def test_what_differs_from_run_to_run_is_not_stored():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "c0ffee"}, "text/plain": "x"}
    output = nbformat.v4.new_output("execute_result", data=view, execution_count=1)
    cell = nbformat.v4.new_code_cell(
        "x",
        metadata={"execution": {"iopub.execute_input": "now"}, "tags": ["keep"]},
        outputs=[output],
    )
    language = {"name": "python", "version": "3.11.7"}
    notebook = nbformat.v4.new_notebook(
        cells=[cell], metadata={"widgets": {"state": {}}, "language_info": language}
    )
    TOOL["tidy"](notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert cell.metadata == {"tags": ["keep"]}
    assert output.data == {"text/plain": "x"}


def test_a_picture_says_what_it_shows_and_headings_and_questions_start_slides():
    data = {"image/png": "cG5n", "text/plain": "a tree"}
    picture = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data=data)])
    texts = ["# Title", "## Part", "### Detail", "**Predict.** And now?", "So it is."]
    cells = [nbformat.v4.new_markdown_cell(text) for text in texts]
    TOOL["tidy"](nbformat.v4.new_notebook(cells=[picture, *cells]))
    assert picture.outputs[0].metadata == {"image/png": {"alt": "a tree"}}
    kinds = [cell.metadata.get("slideshow", {}).get("slide_type") for cell in cells]
    assert kinds == ["slide", "slide", "subslide", "subslide", None]


def test_of_a_live_picture_the_picture_and_its_text_are_stored():
    image = '<img alt="a tree" src="data:image/png;base64,cG5n">'
    still = f'<style></style><div class="cgviz-still">{image}</div>'
    live = {"application/vnd.jupyter.widget-view+json": {"model_id": "c0ffee"}}
    cell = nbformat.v4.new_code_cell(
        outputs=[
            nbformat.v4.new_output("display_data", data=data)
            for data in (live, {"text/html": still, "text/plain": "a tree"})
        ]
    )
    TOOL["tidy"](nbformat.v4.new_notebook(cells=[cell]))
    (output,) = cell.outputs
    assert output.data == {"image/png": "cG5n", "text/plain": "a tree"}
    assert output.metadata == {"image/png": {"alt": "a tree"}}


def said_of(folder):
    """What pytest says of the notebooks in a folder."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text("utf-8"))
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "-rA"]
    run += ["--nbval-current-env", "-o", f"pythonpath={ROOT / 'tests'}"]  # of conftest.py
    run += ["--rootdir", str(folder), str(folder)]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True).stdout


LIVE_CELLS = (
    "import tensorflow as tf, cgviz\ncgviz.trace(tf.sin, 2.0)",
    "cgviz.trace(tf.sin, 3.0)",
)


def test_a_stored_picture_is_compared_by_its_text_alone(tmp_path):
    """As nbval does: the words of another trace are a failure, another picture is none."""
    path = tmp_path / "live.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in LIVE_CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    TOOL["run"](path)
    stored = nbformat.read(path, as_version=4)
    same, other = (cell.outputs[0].data for cell in stored.cells)
    assert set(same) == set(other) == {"image/png", "text/plain"}
    other["text/plain"] = "trace of cos"
    nbformat.write(stored, path)
    said = said_of(tmp_path)
    assert "PASSED live.ipynb::Cell 0" in said
    assert "FAILED live.ipynb::Cell 1" in said


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read on Linux")
def test_a_notebook_whose_kernel_takes_more_memory_than_it_may_fails(tmp_path):
    for name, size in {"large": 10**9, "small": 1}.items():
        cell = nbformat.v4.new_code_cell(f"x = b'x' * {size}")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    said = said_of(tmp_path)
    assert "PASSED small.ipynb::Cell 0" in said
    assert "ERROR small.ipynb" not in said
    assert "ERROR large.ipynb::Cell 0" in said
    assert re.search(r"the kernel of large.ipynb has used 1\d\d\d MB", said)


def test_what_answers_a_prediction_is_closed_until_its_cell_runs():
    printed = [nbformat.v4.new_output("stream", text="6")]
    question = nbformat.v4.new_markdown_cell("Here is a rule.\n\n**Predict.** What comes back?")
    below = nbformat.v4.new_markdown_cell("Read the picture from the right.")
    told = nbformat.v4.new_markdown_cell("So it is.")
    before, answer, picture, after = (
        nbformat.v4.new_code_cell("f()", outputs=printed) for _ in range(4)
    )
    definition = nbformat.v4.new_code_cell("def f(): ...")
    quiz = nbformat.v4.new_code_cell("def f(): ...\n\n\ncgviz.predict(f)", outputs=printed)
    cells = [before, question, below, definition, quiz, answer, picture, told, after]
    heading = nbformat.v4.new_markdown_cell("## Next")
    next_one = nbformat.v4.new_code_cell("g()", outputs=printed)
    cells += [question, heading, next_one]
    TOOL["tidy"](nbformat.v4.new_notebook(cells=cells))
    assert answer.metadata == picture.metadata == {"jupyter": {"outputs_hidden": True}}
    assert all(cell.metadata == {} for cell in (before, definition, quiz, after, next_one))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_stores_what_answers_its_predictions_closed(path):
    notebook = nbformat.read(path, as_version=4)
    stored = [cell.metadata.get("jupyter") for cell in notebook.cells]
    TOOL["close_answers"](notebook)
    assert stored == [cell.metadata.get("jupyter") for cell in notebook.cells], "make notebooks"
    assert {"outputs_hidden": True} in stored


def test_the_size_of_a_picture_stays():
    data = {"image/png": "cG5n", "text/plain": "a tree"}
    size = {"image/png": {"width": 600}}
    output = nbformat.v4.new_output("display_data", data=data, metadata=size)
    TOOL["tidy"](nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])]))
    assert output.metadata == {"image/png": {"width": 600, "alt": "a tree"}}


def test_a_second_run_changes_no_byte(tmp_path, capsys):
    (tmp_path / "beside.py").write_text("NUMBER = 7")
    path = tmp_path / "lesson.ipynb"
    source = "from beside import NUMBER\nprint(1, flush=True)\nprint(2, flush=True)\nNUMBER"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    TOOL["run"](path)
    first = path.read_bytes()
    printed, shown = nbformat.read(path, as_version=4).cells[0].outputs
    assert printed.text == "1\n2\n"
    assert shown.data["text/plain"] == "7"
    TOOL["run"](path)
    assert path.read_bytes() == first
    assert capsys.readouterr().out == f"changed {path}\nsame    {path}\n"


def test_a_cell_that_fails_is_an_error_and_the_file_stays_as_it_was(tmp_path):
    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        TOOL["run"](path)
    assert path.read_bytes() == before
