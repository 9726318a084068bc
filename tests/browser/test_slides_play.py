"""Slides of a lesson: its live pictures play, one key a step."""

import runpy
import sys
from pathlib import Path

from .conftest import write

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "slides.py"))
# What reveal.js does with a key, which is on the network.
REVEAL = """() => {
  const slides = [...document.querySelectorAll("section:not(:has(section))")];
  for (const each of document.querySelectorAll(".fragment")) each.classList.add("visible");
  let at = slides.findIndex((each) => each.querySelector(".cgviz-embed"));
  const turn = () => slides.forEach((each, i) => each.classList.toggle("present", i === at));
  addEventListener("keydown", () => { at += 1; turn(); });
  window.slide = () => at;
  turn();
}"""


def test_each_key_is_a_step_and_the_one_after_the_last_turns_the_slide(
    fresh_page, tmp_path, monkeypatch
):
    page = fresh_page
    write(tmp_path / "n.ipynb", "import cgviz", "cgviz.trace(lambda x: x * x, 3.0)", "1 + 1")
    monkeypatch.setitem(TOOL["main"].__globals__, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["slides.py", str(tmp_path / "n.ipynb")])
    TOOL["main"]()
    page.context.set_offline(True)
    page.add_init_script("window.require = () => {}; require.config = () => {}")
    page.goto((tmp_path / "build" / "slides" / "n.slides.html").as_uri())
    where = page.locator(".cgviz-where")
    where.wait_for(state="attached")
    page.evaluate(REVEAL)
    start, told = page.evaluate("slide()"), []
    for key in ("ArrowRight", "PageDown", "Space"):
        told.append(where.inner_text())
        page.keyboard.press(key)
    assert told == ["forward 1 of 1", "the backward pass starts", "backward step 1 of 1"]
    assert page.evaluate("slide()") == start + 1
