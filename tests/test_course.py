"""Every lesson keeps the same skeleton, is executed, and stores what it printed."""

import ast
import itertools
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
LONGEST_CELL = 20


def read(path):
    return nbformat.read(path, as_version=4)


def prose(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def imports(cell):
    """Whether a cell imports anything, other than in code that it keeps as text."""
    source = re.sub(r"^[%!].*$", "", cell.source, flags=re.M)
    tree = ast.parse(source)
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request):
    return request.param


def test_there_are_lessons_and_their_numbers_have_no_gap():
    assert [path.name[:2] for path in LESSONS] == [f"{n:02}" for n in range(len(LESSONS))]
    assert len(LESSONS) >= 3


def test_a_lesson_opens_with_its_promise_goals_needs_and_minutes(lesson):
    first = prose(read(lesson))[0]
    number = lesson.name[:2]
    assert re.match(rf"# {number} · \S", first)
    assert re.search(r"After (it|this lesson) you can\n\n1\. .+\n2\. .+\n3\. ", first)
    assert "**You need**" in first
    minutes = int(re.search(r"\*\*Time:\*\* (\d+) minutes", first).group(1))
    assert 20 <= minutes <= 40


def test_a_lesson_has_one_set_up_cell_and_imports_nowhere_else(lesson):
    notebook = read(lesson)
    headings = [text for text in prose(notebook) if text.startswith("## Set-up")]
    assert len(headings) == 1
    assert [imports(cell) for cell in code(notebook)] == [True] + [False] * (
        len(code(notebook)) - 1
    )


def test_a_lesson_asks_before_it_tells_and_checks_afterwards(lesson):
    text = "\n".join(prose(read(lesson)))
    assert text.count("**Predict.**") >= 3
    assert "**Explain.**" in text
    assert "**Check.**" in text
    assert any("assert" in cell.source for cell in code(read(lesson)))


def test_a_lesson_ends_with_a_turn_a_summary_and_links_that_lead_somewhere(lesson):
    texts = prose(read(lesson))
    text = "\n".join(texts)
    assert "## Your turn" in text
    assert "## Summary" in text
    assert "**Previous:**" in texts[-1] or lesson == LESSONS[0]
    assert "**Next:**" in texts[-1] or lesson == LESSONS[-1]
    for target in re.findall(r"\]\(([^)#]+\.ipynb)\)", text):
        assert (NOTEBOOKS / target).is_file(), target


def test_neighbours_link_to_each_other():
    last = {path: prose(read(path))[-1] for path in LESSONS}
    for before, after in itertools.pairwise(LESSONS):
        assert after.name in last[before].split("**Next:**")[-1]
        assert before.name in last[after].split("**Previous:**")[-1]


def test_every_cell_was_run_in_order_and_no_error_is_a_surprise(lesson):
    cells = [cell for cell in code(read(lesson)) if cell.source.strip()]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        errors = [o for o in cell.outputs if o.output_type == "error"]
        assert not errors or "raises-exception" in cell.metadata.get("tags", [])
        assert not any(o.get("name") == "stderr" for o in cell.outputs)


def test_a_cell_holds_one_idea(lesson):
    for cell in code(read(lesson)):
        assert len(cell.source.splitlines()) <= LONGEST_CELL, cell.source


def test_every_stored_picture_stands_beside_its_text(lesson):
    for cell in code(read(lesson)):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                assert output.data.get("text/plain")
                assert "<Figure size" not in output.data["text/plain"]
