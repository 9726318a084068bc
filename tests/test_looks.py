"""The stylesheet: one palette, readable on light and dark, prefixed."""

import re

import pytest

from cgviz import style
from cgviz.screen import looks


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
