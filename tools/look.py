"""Make one page to look at with all golden pictures, on paper and live side by side.

`make look` draws the programs of tests/golden_programs.py with Matplotlib and in Chromium, at the
start, in the middle and at the end, light and dark, into build/look/index.html. To draw only some
programs, name them: `python tools/look.py chain custom`. `make look FLAGS=--references` rewrites
the small images with which tests/browser/test_look.py compares the live picture.
"""

from __future__ import annotations

import io
import shutil
import sys
from base64 import b64encode
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib import pyplot as plt
from PIL import Image

from cgviz.graph import Trace

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "look"
THEMES = {"light": "default", "dark": "dark_background"}  # a page's theme -> Matplotlib's style
DOTS = 110  # per inch on paper: letters about as large as on a screen
# The small images that are kept: a program, the theme of its page, and a moment.
REFERENCES = [
    ("chain", "light", "end"),
    ("fan_out", "dark", "middle"),
    ("fan_out", "light", "end"),
    ("matrices", "dark", "end"),
    ("custom", "light", "middle"),
    ("custom_body", "dark", "end"),
    ("two_outputs", "light", "start"),
    ("variables", "light", "end"),
    ("second_order", "light", "end"),
    ("blocked", "dark", "end"),
    ("scopes_open", "light", "middle"),
    ("network", "light", "start"),
]
IMAGES = ROOT / "tests" / "browser" / "references"
TONES = 160  # colours of a small image: its tones and the shades between them
# Pale letters, not moved to whole pixels, in small images: each machine draws letters differently.
LETTERS = "opacity: 0.3 !important; text-rendering: geometricPrecision"
STYLE = """
body { font-family: system-ui, sans-serif; margin: 1rem; }
.row { align-items: start; display: flex; flex-wrap: wrap; gap: 1rem; }
.row figure { margin: 0; max-width: 100%; } img { border: 1px solid #aaa; max-width: 100%; }
"""


def moments(trace: Trace, which: int) -> dict[str, int]:
    """The steps to look at, by name."""
    count = len(trace.passes[which].steps)
    return {"start": 0, "middle": (count + 1) // 2, "end": count}


def on_paper(name: str, trace: Trace, which: int) -> list[tuple[str, Path]]:
    """Save the figures of one pass; returns a caption and the file of each."""
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
    """Save the live pictures of one pass; returns a caption and the file of each."""
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
            page.wait_for_timeout(250)  # until fading in has ended
            file = FOLDER / f"{name}-{which}-live-{theme}-{when}.png"
            page.locator(".cgviz-view").screenshot(path=file)
            found.append((f"live, {theme}, {when}", file))
        page.close()
    return found


def reference(browser: Any, trace: Trace, theme: str, when: str, changed: str = "") -> Image.Image:
    """The small image of the last pass of a program; the script `changed` runs in the page first.

    Its letters are pale, and in the font that comes with Matplotlib and so is on every machine.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    saved, which = FOLDER / "reference.html", len(trace.passes) - 1
    trace.view(which=which).save(saved)
    font = Path(font_manager.findfont("DejaVu Sans")).read_bytes()
    face = f"url(data:font/ttf;base64,{b64encode(font).decode()})"
    page = browser.new_page(
        viewport={"width": 720, "height": 900},
        color_scheme=theme,
        reduced_motion="reduce",
        bypass_csp=True,  # else the page refuses the font
    )
    page.goto(saved.as_uri())
    page.wait_for_selector(".cgviz-node")
    style = f"@font-face {{ font-family: 'DejaVu Sans'; src: {face} }}"
    style += " .cgviz-status { position: static !important }"  # else it may lie on the picture
    page.add_style_tag(content=f"{style} .cgviz-svg text {{ {LETTERS} }}")
    page.evaluate("document.fonts.load('12px \"DejaVu Sans\"')")
    # A step scrolls a large picture from where it is, so its size must be known before.
    page.wait_for_function("document.querySelector('.cgviz-view').cgvizView.width > 0")
    step = moments(trace, which)[when]
    page.evaluate("step => document.querySelector('.cgviz-view').cgvizView.go(step)", step)
    page.evaluate(changed or "null")
    shot = page.locator(".cgviz-stage").screenshot(animations="disabled")
    page.close()
    return Image.open(io.BytesIO(shot)).convert("RGB")


def write_references(browser: Any, programs: Any) -> None:
    """Rewrite all small images."""
    IMAGES.mkdir(exist_ok=True)
    for name, theme, when in REFERENCES:
        file = IMAGES / f"{name}-{theme}-{when}.png"
        image = reference(browser, programs[name](), theme, when)
        image.quantize(TONES, dither=Image.Dither.NONE).save(file, optimize=True)
        print(file)


def row(title: str, found: list[tuple[str, Path]]) -> str:
    """The HTML of a title with the images of files side by side."""
    figures = "".join(
        f"<figure><figcaption>{escape(words)}</figcaption>"
        f'<img src="{file.name}" alt="{escape(words)}" loading="lazy"></figure>'
        for words, file in found
    )
    return f'<h2>{escape(title)}</h2><div class="row">{figures}</div>'


def main(names: list[str]) -> None:
    """Draw the programs named, or all, and write the page; or rewrite the small images."""
    from playwright.sync_api import sync_playwright

    sys.path.append(str(ROOT / "tests"))
    programs = import_module("golden_programs").PROGRAMS
    mpl.use("Agg")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if names == ["--references"]:
            return write_references(browser, programs)
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
