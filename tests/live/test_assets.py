"""What the browser gets: one module, in which nothing is lost or hidden, and one stylesheet."""

import re
from collections import Counter
from pathlib import Path

import pytest
from contrast import contrast

import cgviz
from cgviz import style
from cgviz.live import assets

NAMED = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
SHEET = assets.FOLDER / "view.css"
FILES = sorted((assets.FOLDER / "js").glob("*.mjs"))


def test_it_imports_nothing_and_exports_what_a_widget_needs():
    assert not re.findall(r"^import\b", assets.module(), re.MULTILINE)
    assert re.findall(r"^export .*", assets.module(), re.MULTILINE) == ["export default {"]


def test_every_file_is_in_it_once():
    for path in FILES:
        first = path.read_text(encoding="utf-8").split("\n", 1)[0]
        assert first.startswith("// ")
        holds = assets.stub() if path.stem == "load" else assets.module()
        assert holds.count(first + "\n") == 1, path.name


def test_the_stub_is_small_and_names_the_version():
    assert len(assets.stub()) < 4000
    assert f'"{assets.version()}"' in assets.stub()
    assert re.findall(r"^export .*", assets.stub(), re.MULTILINE)[0].startswith("export default")


def test_another_module_has_another_version(monkeypatch):
    before = assets.version()
    monkeypatch.setattr(assets, "module", lambda: "another")
    assert assets.version() != before


def test_no_name_is_given_twice():
    twice = [name for name, count in Counter(NAMED.findall(assets.module())).items() if count > 1]
    assert twice == []


def test_what_is_named_outside_a_function_comes_before_it_is_needed():
    """A const of one file that another computes with while it loads would not be there yet."""
    text = assets.stub() + assets.module()
    places = [text.index(path.read_text(encoding="utf-8").split("\n", 1)[0]) for path in FILES]
    order = [path.stem for _, path in sorted(zip(places, FILES, strict=True))]
    for path in FILES:
        imported = re.findall(r'from "\./(\w+)\.mjs"', path.read_text(encoding="utf-8"))
        assert all(order.index(each) < order.index(path.stem) for each in imported), path.name


# --- the stylesheet ------------------------------------------------------------------------------


@pytest.mark.parametrize("palette", [style.LIGHT, style.DARK])
def test_each_tone_of_the_palette_is_a_variable(palette):
    assert all(tone in assets.stylesheet() for tone in vars(palette).values())


def test_no_other_colour_is_written():
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgba?\(", SHEET.read_text(encoding="utf-8"))


def test_every_class_is_ours_or_the_pages():
    sheet = re.sub(r"/\*.*?\*/", "", SHEET.read_text(encoding="utf-8"), flags=re.DOTALL)
    selectors = re.sub(r"\{[^{}]*\}", " ", sheet)
    names = set(re.findall(r"\.([a-z][\w-]*)", selectors))
    assert {name for name in names if not name.startswith("cgviz-")} == set()


def test_every_variable_used_is_there():
    css = assets.stylesheet()
    used = set(re.findall(r"var\((--cgviz-[\w-]+)", css))
    made = set(re.findall(r"(--cgviz-[\w-]+):", css))
    set_by_the_module = {
        f"--cgviz-{name}" for name in ("heat", "indent", "left", "readable", "share", "tall")
    }
    assert used - made <= set_by_the_module


@pytest.mark.parametrize("palette", [style.LIGHT, style.DARK])
@pytest.mark.parametrize("tone", ["text", "muted", "forward_text", "backward_text", "custom"])
def test_texts_can_be_read(palette, tone):
    for ground in (palette.paper, palette.fill):
        assert contrast(getattr(palette, tone), ground) >= 4.5


def test_the_view_styles_nothing_outside_of_itself():
    """The stylesheet holds for the whole page, where tables and reports have classes too."""
    package = Path(cgviz.__file__).parent
    modules = (p for p in package.rglob("*.py") if p.parent.name != "live")
    others = {c for p in modules for c in re.findall(r"cgviz-[a-z]+", p.read_text("utf-8"))}
    assert {"cgviz-mark", "cgviz-rows", "cgviz-finding"} <= others
    rules = re.sub(r"/\*.*?\*/", "", assets.stylesheet(), flags=re.DOTALL)
    selectors = ",".join(re.findall(r"([^{}]+)\{", rules)).split(",")
    for selector in selectors:
        classes = set(re.findall(r"\.(cgviz-[a-z]+)", selector))
        assert not classes or not classes <= others, selector
