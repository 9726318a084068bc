"""Run lessons and make slides of them: python tools/slides.py notebook ...

Each section is a column of slides, each prediction starts a new slide in it, and a code cell
appears with its output at a further key press, so that the class can guess first. Live pictures
play: on their slide each key press is a step, until the backward pass has ended. What does not fit
on a slide goes to the next one. The page is written to build/slides; it loads reveal.js from the
network.
"""

from __future__ import annotations

import base64
import itertools
import re
import struct
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path

import live_pictures
import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1280, 720
TEXT, CODE, FORMULA, GAP = 32, 26, 64, 30  # pixels: a line of each; the space between cells
LETTERS = 105  # in a line of text
PICTURE = 450  # pixels: the greatest height of a picture
LIVE = 560  # pixels: the height of a live picture, with its bar and its legend

# nbconvert leaves out the alternative text of a picture, so the template adds it.
TEMPLATE = """
{%- extends 'reveal/index.html.j2' -%}
{%- block html_head_css -%}
<style>
.reveal .jp-OutputArea-output table { font-size: 15px !important; }
.reveal .jp-RenderedImage img { max-height: PICTUREpx; width: auto; }
.reveal .jp-OutputArea-output pre, .reveal .jp-InputArea pre { white-space: pre-wrap; }
</style>
<script>
addEventListener("keydown", (event) => {
  const typing = event.composedPath()[0].matches?.("input:not([type=range]), select, textarea");
  if (typing || ![" ", "ArrowRight", "PageDown", "n"].includes(event.key)) return;
  for (const box of document.querySelectorAll("section.present:not(.stack) .cgviz-embed")) {
    const step = box.shadowRoot?.querySelector("[aria-label='One step forward']");
    if (!box.offsetHeight || box.closest(".fragment:not(.visible)")) continue;
    if (!step || step.getAttribute("aria-disabled") === "true") continue;
    step.click();
    event.preventDefault();
    event.stopImmediatePropagation(); // reveal.js would turn to the next slide
    return;
  }
}, true);
</script>
{%- endblock -%}
{%- block data_png scoped -%}
{%- set words = output | get_metadata('alt', 'image/png') or '' -%}
{{ super() | replace('<img', '<img alt="' ~ (words | escape_html) ~ '"', 1) }}
{%- endblock -%}
""".replace("PICTURE", str(PICTURE))


def slide_type(cell: NotebookNode) -> str:
    """The slide type of a cell: as stored, or else "fragment" for code, which a key press shows."""
    if "first" in cell.metadata.get("tags", []):
        return "skip"
    stored = cell.metadata.get("slideshow", {}).get("slide_type")
    return str(stored or ("fragment" if cell.cell_type == "code" else "-"))


def output_height(output: NotebookNode) -> int:
    """About how high an output is on a slide, in pixels."""
    data = output.get("data", {})
    if "cgviz-embed" in data.get("text/html", ""):
        return LIVE
    if png := data.get("image/png"):  # width and height are at the start of the file
        width, height = struct.unpack(">2I", base64.b64decode(png)[16:24])
        return min(PICTURE, height * min(WIDTH, width) // width)
    text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", []))
    line = FORMULA if "text/latex" in data else TEXT if "text/html" in data else CODE
    return len(text.splitlines()) * line


def height(cell: NotebookNode) -> int:
    """About how high a cell is on a slide, in pixels."""
    if cell.cell_type == "code":
        outputs = sum(output_height(output) + GAP for output in cell.outputs)
        return len(cell.source.splitlines()) * CODE + GAP + outputs
    shown = re.sub(r"<details>.*?</details>", "Answer", cell.source, flags=re.S)
    lines = sum(ceil(len(line) / LETTERS) or 0.5 for line in shown.splitlines())
    extra = FORMULA * (shown.count("$$") // 2 + shown.startswith("#"))
    return int(lines * TEXT) + extra + GAP


def paginate(cells: Sequence[NotebookNode]) -> None:
    """Set the slide types: a cell that does not fit starts a slide; text stays with its code."""
    used = 0
    for cell, after in itertools.zip_longest(cells, cells[1:]):
        kind, need = slide_type(cell), height(cell)
        pair = need + height(after) if after and slide_type(after) == "fragment" else need
        space = HEIGHT - GAP - used
        if kind in ("-", "fragment") and (need > space or (kind == "-" and space < pair <= HEIGHT)):
            kind = "subslide"
        if kind != "skip":
            used = need + (used if kind in ("-", "fragment") else 0)
        cell.metadata["slideshow"] = {"slide_type": kind}


def slides(notebook: NotebookNode) -> str:
    """The slides of a notebook with its outputs, as one HTML page."""
    paginate(notebook.cells)
    exporter = SlidesExporter(
        raw_template=TEMPLATE,
        reveal_scroll=True,
        reveal_number="c/t",
        reveal_width=str(WIDTH),
        reveal_height=str(HEIGHT),
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    return str(exporter.from_notebook_node(notebook)[0])


def main() -> None:
    """Write the slides of each lesson named."""
    target = ROOT / "build" / "slides"
    target.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:]:
        path = Path(name)
        if not path.is_file():
            names = " ".join(sorted(p.stem for p in ROOT.glob("notebooks/[0-9]*.ipynb")))
            sys.exit(f"There is no lesson {path.stem!r}. There are: {names}")
        page = target / f"{path.stem}.slides.html"
        lesson = nbformat.read(path, as_version=4)
        live_pictures.run(lesson, path.parent)
        page.write_text(slides(lesson), encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
