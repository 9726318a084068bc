"""The moving picture of README.md, moment by moment."""

import runpy
from pathlib import Path

import pytest

from cgviz.drawing import display

ROOT = Path(__file__).resolve().parents[2]
COVER = runpy.run_path(str(ROOT / "tools" / "cover.py"))
CLEAR = (  # what is seen clearly at a time, in milliseconds
    "time => { for (const each of document.getAnimations()) {"
    " each.pause(); each.currentTime = time; }"
    "const clear = [...document.querySelectorAll('path[data-step], text')]"
    ".filter((x) => getComputedStyle(x).opacity === '1' && getComputedStyle(x).display !== 'none');"
    "return clear.map((x) => x.getAttribute('d') ?? x.textContent); }"
)


@pytest.fixture(scope="module")
def shown():
    return display.make(COVER["selection"]())


@pytest.fixture(params=["light", "dark"])
def picture(request):
    return (ROOT / "notebooks" / "images" / f"flow_{request.param}.svg").as_uri()


def clear(shown, step):
    """What the display list says is seen at a step."""
    paths = [path.d for path in shown.paths if path.step <= step]
    texts = [text.at(step) for text in shown.texts if text.role != "title" or text.step <= step]
    return sorted([*paths, *filter(None, texts), *(says for _, says in shown.legend)])


def test_each_value_and_each_gradient_comes_at_its_step(page, shown, picture):
    page.goto(picture)
    steps = [*range(-len(shown.forward), 1), *shown.backward]
    for place, step in enumerate(steps):
        *seen, where = page.evaluate(CLEAR, 1000 * COVER["SECONDS"] * (place + 0.5))
        assert sorted(seen) == clear(shown, step), step
        way = f"backward {step} of 3" if step > 0 else f"forward {step + 3} of 3"
        assert where == way


def test_where_no_motion_is_wanted_it_shows_the_end(page, shown, picture):
    page.emulate_media(reduced_motion="reduce")
    page.goto(picture)
    *seen, where = page.evaluate(CLEAR, 0)
    assert (sorted(seen), where) == (clear(shown, shown.steps), "backward 3 of 3")
