"""The glossary and the cheat sheet: their code runs and is right, their words are the course's."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import cgviz

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
SHEET = (NOTEBOOKS / "cheat_sheet.md").read_text(encoding="utf-8")
GLOSSARY = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", SHEET, re.S)
V = [0.5, 1.0, 2.0]


@pytest.fixture(scope="module")
def sheet():
    """The names of the sheet's code, with what it says must be there."""
    names = {"tf": tf, "cgviz": cgviz, "w": tf.Variable(3.0, name="w"), "find": tf.sqrt}
    for block in BLOCKS[:-1]:
        exec(block, names)
    return names


@pytest.mark.parametrize(
    ("name", "args", "order"),
    [
        ("square", (V,), 2),
        ("product_and_sum", (2.0, 3.0), 2),
        ("shift", (tf.zeros((2, 3)), V), 2),
        ("scale", (V,), 2),
        ("exp", (V,), 2),
        ("root", (V,), 2),
        ("log_or_zero", ([-1.0, 0.5, 2.0],), 1),
    ],
)
def test_each_rule_of_the_sheet_is_right(sheet, name, args, order):
    cgviz.check(sheet[name], *args, order=order).assert_ok()


def test_the_rules_that_differ_on_purpose_do_what_is_said(sheet):
    cgviz.check(sheet["make_power"](3), V, order=2).assert_ok()
    assert cgviz.check(sheet["rounded"], [0.3, 1.7], surrogate=True).ok
    assert np.isfinite(cgviz.trace(sheet["log_or_zero"], [0.0, 1.0]).gradients[0]).all()


def test_the_calls_of_the_sheet_run():
    exec(BLOCKS[-1], {"cgviz": cgviz, "f": lambda x: x * x, "x": 3.0})


def test_the_sheet_holds_ten_mistakes():
    table = SHEET.split("## Ten common mistakes")[1].split("##")[0]
    assert len(re.findall(r"^\| ", table, re.M)) == 10 + 1


def test_the_sheet_fits_on_one_page(tmp_path):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("no browser to print with")
    paper = tmp_path / "sheet.pdf"
    how = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    page = (NOTEBOOKS / "cheat_sheet.html").as_uri()
    subprocess.run(
        [chromium, *how, "--no-pdf-header-footer", f"--print-to-pdf={paper}", page],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert re.findall(rb"/Count (\d+)", paper.read_bytes()) == [b"1"]


def test_the_glossary_names_lessons_that_exist_and_each_word_once():
    lessons = {path.name[:2] for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")}
    entries = re.findall(r"^- (.*)$", GLOSSARY, re.M)
    words = [word for entry in entries for word in re.findall(r"\*\*(.+?)\*\*", entry)]
    assert len(words) == len(set(words))
    for entry in entries:
        (named,) = re.findall(r"\(((?:\d\d(?:, )?)+)\)$", entry)
        assert set(named.split(", ")) <= lessons
