"""What the live picture costs: to make, to step through, to move by a slider, and when it is large.

Prints medians. The part in the browser needs Chromium, Playwright and JupyterLab; it is left out
where Playwright is missing.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import cgviz
from cgviz.live.pages import PageBuilder

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SETUP = """\
import pathlib, time
import tensorflow as tf, cgviz
def chain(x, w):
    y = x
    for _ in range(10):
        y = tf.sin(y) * w + x
    return y
def deep(x):
    for layer in range(50):
        with tf.name_scope(f"layer_{layer}"):
            for _ in range(40):
                x = tf.sin(x)
    return x
"""
TRACED = """\
trace = {trace}
_ = pathlib.Path("traced").write_text(str(1e3 * time.time()))
trace
"""
PAINTED = """() => {
  const now = () => performance.timeOrigin + performance.now();
  window.cgvizPainted = new Promise((done) => {
    new MutationObserver((_, watch) => {
      if (!document.querySelector(".cgviz-view")) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(now())));
    }).observe(document.body, { childList: true, subtree: true });
  });
  return now();
}"""
PANS = """async () => {
  const svg = document.querySelector(".cgviz-svg");
  const box = svg.getBoundingClientRect(), y = box.top + 200;
  const at = (type, x) => svg.dispatchEvent(new PointerEvent(
    type, { pointerId: 1, clientX: box.left + x, clientY: y, button: 0, bubbles: true }));
  svg.setPointerCapture = () => {};
  at("pointerdown", 400);
  let frames = 0;
  const start = performance.now();
  while (performance.now() - start < 2000) {
    frames += 1;
    at("pointermove", 400 - frames % 300);
    await new Promise(requestAnimationFrame);
  }
  at("pointerup", 0);
  return frames / 2;
}"""
STEPS = """async () => {
  const root = document.querySelector(".cgviz-view"), times = [];
  for (let step = 1; step <= 30; step++) {
    await new Promise(requestAnimationFrame);
    const start = performance.now();
    root.cgvizView.go(step);
    root.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
}"""
SLIDES = """async () => {
  const box = document.querySelector(".cgviz-explore"), slider = box.querySelector("input");
  const times = [];
  for (let i = 0; i < 60; i++) {
    await new Promise((done) => setTimeout(done, 400));
    const before = box.dataset.moved;
    const start = performance.now();
    slider.value = -2 + i / 15;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    while (box.dataset.moved === before) await new Promise((done) => setTimeout(done, 1));
    box.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
}"""


def chain(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Thirty ops."""
    y = x
    for _ in range(10):
        y = tf.sin(y) * w + x
    return y


def deep(x: tf.Tensor) -> tf.Tensor:
    """Two thousand ops in fifty scopes."""
    for layer in range(50):
        with tf.name_scope(f"layer_{layer}"):
            for _ in range(40):
                x = tf.sin(x)
    return x


def median(name: str, run: Callable[[], Any], runs: int = 9) -> None:
    """Print the median time of a function."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    print(f"{name:44} {statistics.median(times):8.1f} ms")


def in_python() -> None:
    """Time what Python does."""
    small, large = cgviz.trace(chain, 0.5, 0.3), cgviz.trace(deep, 0.5)
    median("30 ops: the view", small.view)
    median("30 ops: the view and the picture beside it", lambda: small.view().still())
    median("2,000 ops, folded: the view", large.view, 3)
    explorer = cgviz.explore(chain, x=(-2.0, 2.0), w=(-1.0, 1.0))
    explorer.send = lambda answer, buffers=None: None  # type: ignore
    ids = itertools.count()

    def slide() -> None:
        i = next(ids)
        explorer._answer({"move": [i / 30, 0.3, 1.0], "active": 0, "id": i, "open": 3}, None)

    median("30 ops: a slider, in Python", slide, 60)
    size = len(json.dumps(PageBuilder(small).page(), separators=(",", ":")))
    print(f"{'30 ops: one page of the document':44} {size / 1e3:8.1f} kB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flow.html"
        small.save(path)
        print(f"{'30 ops: the saved page':44} {path.stat().st_size / 1e3:8.1f} kB")


def first_views(notebook: Any, name: str, trace: str, runs: int) -> None:
    """Time from running the cell, and from the end of its trace, to the picture on the screen."""
    from_run, from_trace = [], []
    for _ in range(runs):
        notebook.show("", views=0)
        run = notebook.page.evaluate(PAINTED)
        notebook.show(TRACED.format(trace=trace))
        painted = notebook.page.evaluate("window.cgvizPainted")
        from_run.append(painted - run)
        from_trace.append(painted - float((notebook.folder / "traced").read_text()))
    for words, times in (("running the cell", from_run), ("the trace", from_trace)):
        print(f"{f'{name}: from {words} to the picture':44} {statistics.median(times):8.1f} ms")


def in_the_browser() -> None:
    """Time what JupyterLab in Chromium does."""
    try:
        from browser.conftest import CHROMIUM, FLAGS, Notebook, lab_server, new_desk
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        print(f"the browser is left out: {error}")
        return
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        server = lab_server(Path(folder))
        try:
            server.wait("/api/status")
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            notebook = Notebook(server, new_desk(chromium, server), "bench", SETUP)
            page = notebook.show("cgviz.trace(chain, 0.5, 0.3)")
            steps = page.evaluate(STEPS)
            print(f"{'30 ops: a step, in the page (median)':44} {statistics.median(steps):8.1f} ms")
            first_views(notebook, "30 ops", "cgviz.trace(chain, 0.5, 0.3)", 9)
            first_views(notebook, "2,000 ops", "cgviz.trace(deep, 0.5)", 3)
            print(f"{'2,000 ops: panning':44} {page.evaluate(PANS):8.1f} frames a second")
            notebook.show("cgviz.explore(chain, x=(-2.0, 2.0), w=(-1.0, 1.0))")
            slides = sorted(page.evaluate(SLIDES))
            middle, late = statistics.median(slides), slides[int(0.95 * len(slides))]
            print(f"{'30 ops: a slider to all numbers (median)':44} {middle:8.1f} ms")
            print(f"{'30 ops: the same (95th percentile)':44} {late:8.1f} ms")
            chromium.close()
        finally:
            server.stop()


if __name__ == "__main__":
    in_python()
    in_the_browser()
