"""A page of Markdown becomes a page for print."""

import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("mistune")

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools" / "print_page.py"
SHEET = ROOT / "notebooks" / "cheat_sheet.md"


def html(markdown):
    return runpy.run_path(str(TOOL))["html"](markdown)


def test_the_sheet_is_set_for_print_as_it_is_written():
    made = html(SHEET.read_text(encoding="utf-8"))
    assert SHEET.with_suffix(".html").read_text(encoding="utf-8") == made, (
        "run python tools/print_page.py"
    )


def test_the_first_heading_is_the_title_and_code_and_tables_stay_what_they_are():
    page = html(
        "# Rules & signs\n\n| a | b |\n|---|---|\n| `x < y` | 2 |\n\n```python\nf(x)\n```\n"
    )
    assert "<title>Rules &amp; signs</title>" in page
    assert "<h1>Rules &amp; signs</h1>" in page
    assert "<td><code>x &lt; y</code></td>" in page
    assert '<pre><code class="language-python">f(x)\n</code></pre>' in page


def test_a_page_is_written_beside_its_source(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("# Größe\n\n∂y/∂x\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["print_page.py", str(page)])
    runpy.run_path(str(TOOL), run_name="__main__")
    assert "∂y/∂x" in page.with_suffix(".html").read_text(encoding="utf-8")
    assert str(page.with_suffix(".html")) in capsys.readouterr().out
