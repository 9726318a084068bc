"""Build the site: into build/site/html, if no other folder is named.

python site/build.py [--to folder] [page ...]   run these pages only; the others show what is stored

The pages are the lessons, the exercises, and those in `site/pages`, such as the reference. Pages
with code, except the exercises, are run, two at a time, with views that play without a kernel;
Sphinx turns them with their outputs into HTML. A page is named by its address:
`python site/build.py index notebooks/00_start_here`.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode
from sphinx.cmd.build import build_main

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent
TOOLS = ROOT / "tools"
sys.path.append(str(TOOLS))

import links  # noqa: E402 - it is in tools, as is the next
import live_pictures  # noqa: E402

from cgviz.live import assets  # noqa: E402

BUILD = ROOT / "build" / "site"
KEPT = BUILD / "run"
AT_ONCE = 2  # kernels: each takes one processor and 0.6 GB
MENDED = [  # in the pages of Sphinx and Furo -> what screen readers need
    ('role="heading">', 'role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ('<th scope="col"></th>', "<td></td>"),
    ('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">'),
]


def pages() -> dict[str, Path]:
    """The source file of each page, by the name of the page in the site."""
    found = {path.stem: path for path in sorted((SITE / "pages").glob("*.md"))}
    for path in [*sorted(ROOT.glob("notebooks/*")), *sorted(ROOT.glob("notebooks/exercises/*"))]:
        if path.suffix in (".ipynb", ".md"):
            found[path.relative_to(ROOT).with_suffix("").as_posix()] = path
    return found


def read(path: Path) -> NotebookNode:
    """Read a notebook, or a page of Markdown with code in it, as a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return nbformat.reads(text, as_version=4)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = read_myst_markdown_notebook(text, MdParserConfig())
    notebook.metadata.kernelspec = NotebookNode(kernel)
    return notebook


def fingerprint(notebook: NotebookNode) -> str:
    """A hash of what decides the outputs of a page: its cells and the code of the package."""
    found = hashlib.sha256(repr([cell.source for cell in notebook.cells]).encode())
    for path in sorted([*ROOT.glob("cgviz/**/*"), TOOLS / "live_pictures.py"]):
        if path.suffix in (".py", ".mjs", ".css"):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def run(name: str, notebook: NotebookNode, folder: Path) -> NotebookNode:
    """A page with its outputs, which are those of an earlier build if nothing has changed."""
    kept = KEPT / f"{name.replace('/', '-')}-{fingerprint(notebook)}.ipynb"
    if not kept.exists():
        print("running", name, flush=True)
        live_pictures.run(notebook, folder)
        for old in KEPT.glob(f"{name.replace('/', '-')}-*"):
            old.unlink()
        kept.write_text(nbformat.writes(notebook), encoding="utf-8")
    return nbformat.read(kept, as_version=4)


def dress(notebook: NotebookNode, path: Path, source: Path) -> None:
    """Add links that open a notebook, and alternative texts; keep only one copy of the script."""
    if path.suffix == ".ipynb":
        here = os.path.relpath(path, source / path.parent.relative_to(ROOT))
        opened = re.findall(r"\[.*?\)", links.opened(path, links.slug()))
        ways = [*opened, f"{{download}}`Download this notebook <{here}>`"]
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(" · ".join(ways)))
    outputs = [(cell, output) for cell in notebook.cells for output in cell.get("outputs", [])]
    scripted = False
    for cell, output in outputs:
        data = output.get("data", {})
        if "image/png" in data:
            alt = output.metadata.get("image/png", {}).get("alt") or data.get("text/plain", "")
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
        if assets.shared() in data.get("text/html", ""):
            if scripted:
                data["text/html"] = data["text/html"].replace(assets.shared(), "")
            scripted = True


def stage(name: str, path: Path, source: Path, wanted: bool) -> None:
    """Write the source of a page for Sphinx."""
    has_code = path.suffix == ".ipynb" or "{code-cell}" in path.read_text(encoding="utf-8")
    target = source / f"{name}{'.ipynb' if has_code else path.suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not has_code:
        shutil.copy(path, target)
        return
    notebook = read(path)
    if wanted and path.parent.name != "exercises":  # a learner is to run these
        notebook = run(name, notebook, path.parent)
    dress(notebook, path, source)
    target.write_text(nbformat.writes(notebook), encoding="utf-8")


def main(names: list[str], folder: Path) -> int:
    """Run the notebooks and build the site; returns the exit code of Sphinx."""
    source, html = folder / "source", folder / "html"
    for made in (source, html):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        staged = [
            pool.submit(stage, name, path, source, not names or name in names)
            for name, path in pages().items()
        ]
    for each in staged:
        each.result()
    sys.path.insert(0, str(SITE))  # for `conf.slug`
    how = ["-q", "--fail-on-warning", "-c", SITE, "-d", folder / "doctrees"]
    failed = build_main([str(each) for each in (*how, source, html)])
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, instead in MENDED:
            text = text.replace(found, instead)
        page.write_text(text, encoding="utf-8")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--to", type=Path, default=BUILD)
    given = parser.parse_args()
    gc.disable()  # saves a quarter of the time, and the process ends after the build
    sys.exit(main(given.pages, given.to.resolve()))
