"""A finding or a hint sends its reader to a notebook that exists."""

import re
from pathlib import Path

import pytest

from cgviz import lessons
from cgviz.checking.checker import EVERY_RULE
from cgviz.hinting import hints

ROOT = Path(__file__).resolve().parents[2]
NAMES = {value for name, value in vars(lessons).items() if name.isupper() and name[0] != "_"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_lesson_is_a_notebook(name):
    assert (ROOT / "notebooks" / f"{name}.ipynb").is_file()


def test_every_rule_and_every_hint_names_a_lesson():
    assert {rule.lesson for rule in EVERY_RULE} <= NAMES
    assert {hint.lesson for hint in hints.BOOK} <= NAMES


def test_lessons_are_named_in_one_place():
    files = [path for path in ROOT.glob("cgviz/**/*.py") if path.name != "lessons.py"]
    named = {path.name for path in files if re.search(r'"\d\d[_ ][a-z]', path.read_text("utf-8"))}
    assert not named
