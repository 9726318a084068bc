"""The browser's own geometry means what the selection says, as paper's does."""

import meaning
import pytest
from golden_programs import PROGRAMS

from .conftest import has_count

LETTERS = 1.5  # points by which a browser's letters may differ from those that were measured


@pytest.mark.parametrize("name", ["fan_out", "matrices", "custom", "blocked", "second_order"])
def test_arrows_labels_and_sums_mean_what_they_show(page, tmp_path, name):
    trace = PROGRAMS[name]()
    trace.view(which=len(trace.passes) - 1).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    has_count(page.locator(".cgviz-svg"), 1)
    view = "document.querySelector('.cgviz-view').cgvizView"
    links = page.evaluate(f"{view}.clock.links.map((link) => [link.source, link.target])")
    steps = page.evaluate(f"{view}.clock.backward")
    for step in (0, steps[0], steps[-1]):
        page.evaluate(f"{view}.go({step})")
        seen = meaning.of_page(page)
        assert len(seen.lines) >= len(links)
        meaning.check(seen, links, slack=LETTERS)
