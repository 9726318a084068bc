"""Every lesson keeps the same skeleton, is executed, and stores what it printed."""

import ast
import itertools
import re
import textwrap
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
FURTHER = sorted(NOTEBOOKS.glob("further_*.ipynb"))
REFERENCES = sorted(NOTEBOOKS.glob("reference_*.ipynb"))
PAGES = [*LESSONS, *FURTHER, *REFERENCES]
LONGEST_CELL = 20
INDEX = NOTEBOOKS / "index.md"
PLACES = {"system": 16, "pitfall": 30}
YOUR_TURN = 5  # minutes, for three short tasks whose answers are folded away


def read(path):
    return nbformat.read(path, as_version=4)


def prose(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook):
    """The code cells that run here; the first does not."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if "first" not in cell.metadata.get("tags", [])]


def tags(cell):
    return cell.metadata.get("tags", [])


def tagged():
    """Which notebooks have a cell with each tag: `{"system-1": ["01_chain_rule.ipynb"], ...}`."""
    found = {}
    for path in PAGES:
        for tag in {tag for cell in code(read(path)) for tag in tags(cell)}:
            found.setdefault(tag, []).append(path.name)
    return found


def stated_minutes(notebook):
    return int(re.search(r"\*\*Time:\*\* (\d+) minutes", prose(notebook)[0]).group(1))


def minutes(notebook):
    """150 words or eight lines of code a minute; half a minute for each cell that is run; one for
    each picture and each prediction.

    What is folded away is not counted, nor is a line without a word: a table of numbers, a bracket.
    It is an estimate: no learner was timed.
    """
    text = re.sub(r"\$\$.*?\$\$", " formula " * 8, "\n".join(prose(notebook)), flags=re.S)
    words = re.findall(r"[\w']+", re.sub(r"<details>.*?</details>", "", text, flags=re.S))
    cells = code(notebook)
    lines = re.findall("^.*[a-z].*$", "\n".join(cell.source for cell in cells), flags=re.M)
    pictures = sum("image/png" in o.get("data", {}) for cell in cells for o in cell.outputs)
    looked = pictures + text.count("**Predict.**")
    return len(words) / 150 + len(lines) / 8 + len(cells) / 2 + looked


def imports(cell):
    """Whether a cell imports anything, other than in code that it keeps as text."""
    source = re.sub(r"^[%!].*$", "", cell.source, flags=re.M)
    tree = ast.parse(source)
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request):
    return request.param


@pytest.fixture(params=PAGES, ids=lambda path: path.stem)
def notebook(request):
    """A lesson, a page that goes further, or a reference page."""
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
    assert 20 <= stated_minutes(read(lesson)) <= 40


def test_a_lesson_takes_the_time_it_says(lesson):
    took = minutes(read(lesson)) + YOUR_TURN
    assert 0 <= stated_minutes(read(lesson)) - took < 5, took


@pytest.fixture(params=FURTHER, ids=lambda path: path.stem)
def page(request):
    """A page that goes further than its lesson."""
    return request.param


def test_a_page_that_goes_further_takes_the_time_it_says(page):
    assert 0 <= stated_minutes(read(page)) - minutes(read(page)) < 5, minutes(read(page))


def test_a_page_that_goes_further_and_its_lesson_lead_to_each_other(page):
    lesson = NOTEBOOKS / page.name.removeprefix("further_")
    opening, *_, ends = prose(read(page))
    assert f"]({lesson.name})" in opening
    assert f"]({lesson.name})" in ends
    assert f"]({page.name})" in "\n".join(prose(read(lesson)))
    headings = re.findall(r"^## (.+)$", "\n".join(prose(read(page))), flags=re.M)
    listed = re.findall(r"\]\(#(.+?)\)", opening)
    assert listed == [h.replace(" ", "-") for h in headings if h != "Set-up"]


def test_the_map_gives_the_same_minutes():
    text = "\n".join(prose(read(LESSONS[0])))
    listed = re.findall(r"^\| \[?(\d\d) .* \| (\d+) \|$", text, flags=re.M)
    assert [int(time) for _, time in listed] == [stated_minutes(read(path)) for path in LESSONS]


def test_an_answer_that_is_a_number_is_not_shown_as_a_list_of_one(notebook):
    """Markdown takes a line such as "6. It is used twice." for the sixth point of a list."""
    for text in prose(read(notebook)):
        for fold in re.findall(r"</summary>(.*?)</details>", text, flags=re.S):
            assert len(re.findall(r"^\d+\. ", fold, flags=re.M)) != 1, fold


def test_a_lesson_has_one_set_up_cell_and_imports_nowhere_else(lesson):
    notebook = read(lesson)
    headings = [text for text in prose(notebook) if text.startswith("## Set-up")]
    assert len(headings) == 1
    assert [imports(cell) for cell in code(notebook)] == [True] + [False] * (
        len(code(notebook)) - 1
    )


def test_a_lesson_asks_before_it_tells_and_checks_afterwards(lesson):
    text = "\n".join(prose(read(lesson)))
    assert text.count("**Predict.**") >= 2
    assert "**Explanation.**" in text
    assert "**Check.**" in text


def test_the_answer_to_a_prediction_is_folded_away(notebook):
    asking = [text for text in prose(read(notebook)) if "**Predict.**" in text]
    assert all("<details>" in text for text in asking)


def test_the_title_of_a_fold_is_html_where_backticks_would_be_seen(notebook):
    assert not re.findall("<summary>[^<]*`", "\n".join(prose(read(notebook))))


def test_a_lesson_ends_with_a_turn_a_summary_and_links_that_lead_somewhere(lesson):
    texts = prose(read(lesson))
    text = "\n".join(texts)
    assert "## Your turn" in text
    assert "## Summary" in text
    assert "**Previous:**" in texts[-1] or lesson == LESSONS[0]
    assert "**Next:**" in texts[-1] or lesson == LESSONS[-1]
    for target in re.findall(r"\]\(([^)#]+\.ipynb)\)", text):
        assert (NOTEBOOKS / target).is_file(), target


def test_lesson_05_quotes_the_lines_of_a_training_step():
    quoted = re.search(
        r"<summary>The lines in <code>moons.train</code>.*?```python\n(.*?)```",
        "\n".join(prose(read(NOTEBOOKS / "05_nested_gradients.ipynb"))),
        flags=re.S,
    )
    moons = (NOTEBOOKS.parent / "cgviz" / "moons.py").read_text(encoding="utf-8")
    assert textwrap.indent(quoted.group(1), "        ") in moons


def test_neighbours_link_to_each_other():
    last = {path: prose(read(path))[-1] for path in LESSONS}
    for before, after in itertools.pairwise(LESSONS):
        assert after.name in last[before].split("**Next:**")[-1]
        assert before.name in last[after].split("**Previous:**")[-1]


def test_every_cell_was_run_in_order_and_no_error_is_a_surprise(notebook):
    cells = [cell for cell in code(read(notebook)) if cell.source.strip()]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        errors = [o for o in cell.outputs if o.output_type == "error"]
        assert not errors or "raises-exception" in cell.metadata.get("tags", [])
        assert not any(o.get("name") == "stderr" for o in cell.outputs)
        assert not any("WARNING:" in o.get("text", "") for o in cell.outputs)


def test_a_cell_holds_one_idea(notebook):
    for cell in code(read(notebook)):
        assert len(cell.source.splitlines()) <= LONGEST_CELL, cell.source


def test_every_stored_picture_stands_beside_its_text(notebook):
    for cell in code(read(notebook)):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                assert output.data.get("text/plain")
                assert "<Figure size" not in output.data["text/plain"]


# --- the place of each system and each pitfall -----------------------------------------------


def table(kind):
    """The rows of the index: number, name, and (label, file) of each page."""
    part = INDEX.read_text(encoding="utf-8").partition(f"## {kind.capitalize()}s")[2]
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", part.partition("\n## ")[0], flags=re.M)
    return {int(n): (name, re.findall(r"\[([\w ]+)\]\((.+?)\)", links)) for n, name, links in rows}


@pytest.mark.parametrize("kind", PLACES)
def test_the_index_says_where_each_one_is(kind):
    rows = table(kind)
    assert list(rows) == list(range(1, PLACES[kind] + 1))
    assert len({name for name, _ in rows.values()}) == len(rows)
    where = {n: [target for _, target in links] for n, (_, links) in rows.items()}
    assert where == {n: tagged().get(f"{kind}-{n}") for n in rows}
    for label, target in (link for _, links in rows.values() for link in links):
        assert target.startswith((label.replace(" ", "_"), f"reference_{label}"))


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)
def test_a_reference_page_is_found_by_its_table_and_leads_back(path):
    texts = prose(read(path))
    headings = re.findall(r"^## (.+)$", "\n".join(texts), flags=re.M)
    listed = re.findall(r"\]\(#(.+?)\)", texts[0])
    assert sorted(listed) == sorted(h.replace(" ", "-") for h in headings if h != "Set-up")
    assert re.search(r"\]\(\d\d_.+\.ipynb\)", texts[-1])
    assert f"]({path.name})" in INDEX.read_text(encoding="utf-8")


def test_no_tag_is_misspelt():
    known = {f"{kind}-{n}" for kind, last in PLACES.items() for n in range(1, last + 1)}
    assert set(tagged()) == known | {"raises-exception"}


def test_a_system_is_asserted_and_a_pitfall_is_seen(notebook):
    for cell in code(read(notebook)):
        if any(tag.startswith("system-") for tag in tags(cell)):
            assert re.search(r"^\s*assert ", cell.source, flags=re.M), cell.source
        if any(tag.startswith("pitfall-") for tag in tags(cell)):
            assert cell.outputs or "assert" in cell.source, cell.source


NUMBERS = {  # of the systems, as the cells with their tags assert them
    1: ["4 * 8 * 32", "256.0"],
    2: ["[16, 1, 32, 32]", "[4, 32, 8, 256]", "[2, 256, 4, 1024]"],
    3: ["[1.0, 4.0, 9.0]", "[2.0, 4.0, 6.0]", "== 4.0", "== 6.0"],
    4: ["(6.0, 3.0, 2.0)", "(x, y) is None"],
    5: ["6.9092975, 9.0", "2.5838532, 8.0"],
    6: ["[1.0, 1.0, 2.0]"],
    7: ["[0.0, 1.0, 0.0, 3.0]", "[0.01, 1.0, 0.01, 1.0]", "at_0 == [0.0, 1.0]"],
    8: ["[0.09003057, 0.24472848, 0.66524094]"],
    9: ["[inf, nan, nan]", "[inf, 1.0, nan]", "[100.0, 1.0, 0.0]"],
    10: ["[2.0, 3.0, 4.0]", "[1.0, 1.0, 1.0]", "[3.0, 6.0]"],
    11: ["(27.0, 27.0)"],
    12: ["[1.0, 1.0]"],
    14: ["0.04517666", "2.0 * rule", "0.0903533", "smooth_sign(zero) == -1.0"],
    15: ["[2.0, -0.3932239, -0.9]", "0.9901"],
}


@pytest.mark.parametrize("n", NUMBERS)
def test_the_numbers_of_a_system_are_asserted(n):
    cells = (cell for path in PAGES for cell in code(read(path)))
    sources = (cell.source for cell in cells if f"system-{n}" in tags(cell))
    asserted = [line for s in sources for line in s.splitlines() if line.startswith("assert ")]
    assert [each for each in NUMBERS[n] if not any(each in line for line in asserted)] == []


def test_the_index_is_found_from_the_readme_and_the_first_lesson():
    assert "](notebooks/index.md)" in (NOTEBOOKS.parent / "README.md").read_text(encoding="utf-8")
    assert "](index.md)" in "\n".join(prose(read(LESSONS[0])))
