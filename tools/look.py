"""One page with every golden picture, on paper and live side by side, to be looked at.

`make look` draws the programs of tests/golden_programs.py with Matplotlib and in Chromium, at the
start, in the middle and at the end, light and dark, into build/look/index.html. Programs can be
named: `python tools/look.py chain custom`.
"""

from __future__ import annotations

import shutil
import sys
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from cgviz.graph import Trace

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "look"
THEMES = {"light": "default", "dark": "dark_background"}  # of the page -> of Matplotlib
DOTS = 110  # per inch on paper: about as large as the letters on a screen
STYLE = """
body { font-family: system-ui, sans-serif; margin: 1rem; }
.row { align-items: start; display: flex; flex-wrap: wrap; gap: 1rem; }
.row figure { margin: 0; max-width: 100%; } img { border: 1px solid #aaa; max-width: 100%; }
"""


def moments(trace: Trace, which: int) -> dict[str, int]:
    """The steps to look at, by what they are called."""
    count = len(trace.passes[which].steps)
    return {"start": 0, "middle": (count + 1) // 2, "end": count}


def on_paper(name: str, trace: Trace, which: int) -> list[tuple[str, Path]]:
    """The figures of one pass: what they are, and their files."""
    found = []
    for theme, style in THEMES.items():
        for when, step in moments(trace, which).items():
            with plt.style.context(style):
                figure: Any = trace.plot(which=which, step=step).figure
                file = FOLDER / f"{name}-{which}-paper-{theme}-{when}.png"
                figure.savefig(file, dpi=DOTS)
                plt.close(figure)
            found.append((f"paper, {theme}, {when}", file))
    return found


def live(browser: Any, name: str, trace: Trace, which: int) -> list[tuple[str, Path]]:
    """The live pictures of one pass: what they are, and their files."""
    saved = FOLDER / f"{name}-{which}.html"
    trace.view(which=which).save(saved)
    found = []
    for theme in THEMES:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=theme)
        page.on("pageerror", lambda error: print(f"{name}: {error}"))
        page.goto(saved.as_uri())
        page.wait_for_selector(".cgviz-node")
        for when, step in moments(trace, which).items():
            page.evaluate("step => document.querySelector('.cgviz-view').cgvizView.go(step)", step)
            page.wait_for_timeout(250)  # until what fades in has done so
            file = FOLDER / f"{name}-{which}-live-{theme}-{when}.png"
            page.locator(".cgviz-view").screenshot(path=file)
            found.append((f"live, {theme}, {when}", file))
        page.close()
    return found


def row(title: str, found: list[tuple[str, Path]]) -> str:
    """What belongs together, side by side."""
    figures = "".join(
        f"<figure><figcaption>{escape(words)}</figcaption>"
        f'<img src="{file.name}" alt="{escape(words)}" loading="lazy"></figure>'
        for words, file in found
    )
    return f'<h2>{escape(title)}</h2><div class="row">{figures}</div>'


def main(names: list[str]) -> None:
    """Draw them all, and write the page."""
    from playwright.sync_api import sync_playwright

    sys.path.append(str(ROOT / "tests"))
    programs = import_module("golden_programs").PROGRAMS
    mpl.use("Agg")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names or programs:
            trace = programs[name]()
            for which in range(len(trace.passes)):
                pairs = zip(
                    on_paper(name, trace, which), live(browser, name, trace, which), strict=True
                )
                rows += [row(f"{name}, pass {which}", list(pair)) for pair in pairs]
        browser.close()
    text = f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Look</title><style>{STYLE}"
    (FOLDER / "index.html").write_text(f"{text}</style>{''.join(rows)}</html>", encoding="utf-8")
    print(FOLDER / "index.html")


if __name__ == "__main__":
    main(sys.argv[1:])
