"""Run notebooks in place, so that running them again changes no byte.

python tools/notebooks.py [notebook ...]     default: every notebook but the exercises, which are
                                             built by tools/exercises.py and hold no outputs
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

# TensorFlow is quiet only if both are set before a kernel imports it.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

ROOT = Path(__file__).resolve().parents[1]
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
STILL = '<div class="cgviz-still">'
PICTURE = re.compile(r'src="data:image/png;base64,([^"]*)"')
LIVE_VIEW = "application/vnd.jupyter.widget-view+json"
ASKING = "**Predict.**"


def slide(cell: NotebookNode) -> str | None:
    """The slide type of a cell: "slide" at a heading, "subslide" at a small one or a prediction."""
    if cell.cell_type != "markdown":
        return None
    if cell.source.startswith(("# ", "## ")):
        return "slide"
    return "subslide" if cell.source.startswith(("### ", ASKING)) else None


def close_answers(notebook: NotebookNode) -> None:
    """Collapse the outputs between a prediction and the next text; running a cell shows its own.

    Text right below a prediction belongs to it, unless it has a heading. The output of a quiz
    stays open: it holds the questions, not the answers.
    """
    asked, text = False, False
    for cell in notebook.cells:
        above, text = text, cell.cell_type == "markdown"
        if text:
            below = asked and above and not cell.source.startswith("#")
            asked = ASKING in cell.source or below
        elif asked and cell.outputs and "cgviz.predict(" not in cell.source:
            cell.metadata["jupyter"] = {"outputs_hidden": True}
        else:
            cell.metadata.pop("jupyter", None)


def tidy(notebook: NotebookNode) -> None:
    """Remove what differs between runs or machines; set slides, alt texts and hidden outputs."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.kernelspec = NotebookNode(KERNEL)
    notebook.metadata.language_info = NotebookNode(name="python")
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if kind := slide(cell):
            cell.metadata["slideshow"] = {"slide_type": kind}
        # A live view dies with its kernel; the picture and text stored beside it do not.
        outputs = [
            each for each in cell.get("outputs", []) if {*each.get("data", [])} != {LIVE_VIEW}
        ]
        if "outputs" in cell:
            cell.outputs = outputs
        for output in outputs:
            data = output.get("data", {})
            data.pop(LIVE_VIEW, None)
            if STILL in data.get("text/html", ""):  # GitHub shows it only as an image
                html = data.pop("text/html")
                if picture := PICTURE.search(html):
                    data["image/png"] = picture[1]
            if "image/png" in data:  # alternative text is looked for in the metadata
                output.metadata.setdefault("image/png", {})["alt"] = data["text/plain"]
    close_answers(notebook)


def run(path: Path) -> None:
    """Run one notebook in its own folder and store its outputs."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=nbformat.NO_CONVERT)
    client = NotebookClient(
        notebook,
        kernel_name=KERNEL["name"],
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    tidy(notebook)
    after = nbformat.writes(notebook) + "\n"
    if after != before:
        path.write_text(after, encoding="utf-8")
    print("same   " if after == before else "changed", path)


if __name__ == "__main__":
    skipped = {".ipynb_checkpoints", "exercises"}
    every = (p for p in ROOT.glob("notebooks/**/*.ipynb") if not skipped & {*p.parts})
    for path in [Path(name) for name in sys.argv[1:]] or sorted(every):
        run(path)
