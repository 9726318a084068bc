"""Make slides of lessons: python tools/slides.py notebook ...

Each section is a column of slides, each prediction a new slide in it, and a cell with what it
printed comes with a further key press, so that the class can guess first. The page is written to
build/slides; it loads reveal.js from the network.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]


def slide_type(cell: NotebookNode) -> str:
    """Where a cell goes: as stored (`make notebooks`), and what code shows with the next key."""
    if "colab" in cell.metadata.get("tags", []):
        return "skip"
    stored = cell.metadata.get("slideshow", {}).get("slide_type")
    return str(stored or ("fragment" if cell.cell_type == "code" else "-"))


def slides(notebook: NotebookNode) -> str:
    """The page."""
    for cell in notebook.cells:
        cell.metadata["slideshow"] = {"slide_type": slide_type(cell)}
    exporter = SlidesExporter(reveal_scroll=True, reveal_number="c/t")
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
        page.write_text(slides(nbformat.read(path, as_version=4)), encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
