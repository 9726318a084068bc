"""The stylesheet: one palette, readable on light and dark, prefixed."""

import re
from pathlib import Path

import pytest

import cgviz
from cgviz import style
from cgviz.live import looks


@pytest.mark.parametrize("palette", [style.LIGHT, style.DARK])
def test_each_tone_of_the_palette_is_a_variable(palette):
    assert all(tone in looks.css() for tone in vars(palette).values())


def test_no_other_colour_is_written():
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgba?\(", looks.SHEET.read_text(encoding="utf-8"))


def test_every_class_is_ours_or_the_pages():
    sheet = re.sub(r"/\*.*?\*/", "", looks.SHEET.read_text(encoding="utf-8"), flags=re.DOTALL)
    selectors = re.sub(r"\{[^{}]*\}", " ", sheet)
    assert all(name.startswith("cgviz-") for name in re.findall(r"\.([a-z][\w-]*)", selectors))


def test_every_variable_used_is_there():
    css = looks.css()
    used = set(re.findall(r"var\((--cgviz-[\w-]+)", css))
    made = set(re.findall(r"(--cgviz-[\w-]+):", css))
    assert used - made <= {"--cgviz-heat"}  # set by the module, cell by cell


@pytest.mark.parametrize("palette", [style.LIGHT, style.DARK])
@pytest.mark.parametrize("tone", ["ink", "muted", "forward_text", "backward_text", "custom"])
def test_texts_can_be_read(palette, tone):
    for ground in (palette.paper, palette.fill):
        assert style.contrast(getattr(palette, tone), ground) >= 4.5


def test_the_view_styles_nothing_outside_of_itself():
    """The stylesheet holds for the whole page, where tables and reports have classes too."""
    package = Path(cgviz.__file__).parent
    wings = (p for p in package.rglob("*.py") if p.parent.name != "live")
    others = {c for p in wings for c in re.findall(r"cgviz-[a-z]+", p.read_text("utf-8"))}
    assert {"cgviz-mark", "cgviz-rows", "cgviz-finding"} <= others
    rules = re.sub(r"/\*.*?\*/", "", looks.css(), flags=re.DOTALL)
    selectors = ",".join(re.findall(r"([^{}]+)\{", rules)).split(",")
    for selector in selectors:
        classes = set(re.findall(r"\.(cgviz-[a-z]+)", selector))
        assert not classes or not classes <= others, selector
