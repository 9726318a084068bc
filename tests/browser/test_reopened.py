"""Where a notebook is seen without the kernel that made it: opened again, and as HTML."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from .conftest import SESSION, has_count, write

SETUP = "import tensorflow as tf, cgviz\ndef f(x):\n    return tf.sin(x) * x"
LIVE = "application/vnd.jupyter.widget-view+json"
SHOWN = "cgviz.trace(f, 2.0)"
READY = f"window.jupyterapp && {SESSION}?.kernel?.connectionStatus === 'connected'"


def stills(page, shown):
    """Wait until so many stored pictures are to be seen, and no message of a host about widgets."""
    seen = (
        "[...document.querySelectorAll('.cgviz-still')].filter((x) => x.offsetHeight > 100).length"
    )
    page.wait_for_function(f"n => {seen} === n", arg=shown)
    page.wait_for_function("!document.body.innerText.includes('widget')")


IN_A_BOX = f"""\
import ipywidgets
one, two = {SHOWN}.view(), {SHOWN}.view()
slider = ipywidgets.IntSlider()
link = ipywidgets.jslink((one, "step"), (slider, "value"))
box = ipywidgets.HBox([one, two])
box
"""


def test_in_jupyterlab(notebook, show):
    show(IN_A_BOX, views=2)  # closed by the next run of its cell; the box and the link stay
    page = show(f"display({SHOWN})\nshown = {SHOWN}.view()\nshown", views=2)
    stills(page, 0)
    page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("!jupyterapp.shell.currentWidget.context.model.dirty")
    # With its kernel alive the views are live again.
    page.reload()
    page.wait_for_function(READY)
    has_count(page.locator(".cgviz-view"), 2)
    page.get_by_role("button", name="One step forward").first.click()
    stills(page, 0)
    # With another kernel there are the pictures.
    page.evaluate(f"{SESSION}.shutdown()")
    page.wait_for_function(f"!{SESSION}?.kernel")
    page.goto("about:blank")
    page.goto(notebook.url)
    page.wait_for_function(READY)
    stills(page, 2)
    has_count(page.locator(".cgviz-view"), 0)
    assert "gradients: x" in page.locator(".cgviz-still img").first.get_attribute("alt")
    notebook.theme("JupyterLab Dark")
    dark = "getComputedStyle(document.querySelector('.cgviz-still img')).filter"
    assert "invert" in page.evaluate(dark)
    notebook.theme("JupyterLab Light")
    # A notebook that is not trusted shows them, too.
    page.evaluate("jupyterapp.shell.currentWidget.content.model.cells.get(1).trusted = false")
    stills(page, 2)
    # And its cells can be run again.
    page.evaluate(f"{SESSION}.kernel.restart()")
    notebook.run(0)
    notebook.run(1)
    has_count(page.locator(".cgviz-view"), 2)
    stills(page, 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A notebook that was run, with the state of its widgets."""
    path = tmp_path_factory.mktemp("run") / "n.ipynb"
    write(path, SETUP, SHOWN, "cgviz.predict(cgviz.trace(f, 2.0))")
    found = nbformat.read(path, as_version=4)
    NotebookClient(found, kernel_name="python3").execute()
    return found


@pytest.mark.parametrize("state", [False, True], ids=["without", "with"])
def test_as_html_with_and_without_the_state_of_widgets(run, page, tmp_path, state):
    kept = nbformat.from_dict(run)
    assert LIVE in kept.cells[1].outputs[0].data
    if not state:
        kept.metadata.pop("widgets")
    text, _ = HTMLExporter().from_notebook_node(kept)
    (tmp_path / "n.html").write_text(text, encoding="utf-8")
    page.context.set_offline(True)  # what nbconvert's page would load a widget with
    page.goto((tmp_path / "n.html").as_uri())
    for name in ("^trace of f", "^3 questions on a"):
        picture = page.get_by_role("img", name=re.compile(name))
        assert picture.bounding_box()["height"] > 100
