"""The live picture in what else shows notebooks: Voila, Notebook 7 and marimo."""

import re
from base64 import b64encode
from importlib.util import find_spec

import pytest

import cgviz
from cgviz.live import assets

from .conftest import SECONDS, Server, as_root, has_count, missing, write

SETUP = "import tensorflow as tf, cgviz\ndef f(x):\n    return tf.sin(x) * x"
SHOWN = (
    "cgviz.trace(f, 2.0)",
    "cgviz.explore(f, x=(-3.0, 3.0))",
    "cgviz.predict(cgviz.trace(f, 2.0))",
)
HOSTS = {
    "voila": ("n.ipynb", "--Voila.ip=127.0.0.1", "--no-browser"),
    "notebook": (
        "--ServerApp.ip=127.0.0.1",
        "--IdentityProvider.token=",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        "--no-browser",
    ),
    "marimo": ("run", "n.py", "--host=127.0.0.1", "--headless", "--no-token"),
}


@pytest.fixture
def host(request, tmp_path):
    """A server of the host that the test names, in a folder that holds the notebook."""
    name = request.param
    if find_spec(name) is None:
        missing(f"{name} is not installed: pip install -e '.[browser]'")
    folder = tmp_path / name
    folder.mkdir()
    write(folder / "n.ipynb", SETUP, *SHOWN)
    write_marimo(folder / "n.py")
    root = as_root() if name == "notebook" else []
    server = Server(folder, name, *HOSTS[name], *root)
    try:
        server.wait("/static/")  # not "/", where Voila would start a kernel
        yield server
    finally:
        server.stop()


def write_marimo(path):
    """The same notebook as a program of marimo's."""
    setup = SETUP.replace("\n", "\n    ")
    cells = [f"def _():\n    {setup}\n    return cgviz, f\n"]
    cells += [f"def _(cgviz, f):\n    {code}\n    return\n" for code in SHOWN]
    app = "".join(f"\n@app.cell\n{cell}" for cell in cells)
    path.write_text(f"import marimo\n\napp = marimo.App()\n{app}", encoding="utf-8")


def use(page):
    """Step through the view, move a slider of the explorer, answer a question of the quiz."""
    from playwright.sync_api import expect

    has_count(page.locator(".cgviz-view"), len(SHOWN))
    view, explorer, quiz = page.locator(".cgviz-view").all()
    for _ in range(2):  # the seed comes before the first step
        view.get_by_role("button", name="One step forward").click()
    assert view.locator(".cgviz-where").inner_text() == "backward step 1 of 2"
    view.get_by_role("button", name="One step forward").click()
    view.locator("g.cgviz-node", has_text="sin").click()
    assert "−0.4161" in view.locator(".cgviz-panel").inner_text()
    explorer.get_by_label("x", exact=True).fill("2")
    expect(explorer.locator(".cgviz-explore")).to_have_attribute("data-moved", re.compile("[1-9]"))
    expect(explorer.locator(".cgviz-svg")).to_contain_text("−0.8323")
    quiz.get_by_role("button", name="To the end").click()
    quiz.locator(".cgviz-answer input").first.fill("-2")
    quiz.locator(".cgviz-answer input").first.press("Enter")
    assert "Wrong sign" in quiz.locator(".cgviz-verdict").first.inner_text()


@pytest.mark.parametrize("host", ["voila", "marimo"], indirect=True)
def test_it_is_live_where_only_outputs_are_shown(host, fresh_page):
    page = fresh_page
    page.context.set_default_timeout(2000 * SECONDS)  # its kernel starts now
    page.goto(host.url)
    page.locator(".cgviz-view").nth(2).wait_for()
    use(page)


@pytest.mark.parametrize("host", ["notebook"], indirect=True)
def test_it_is_live_in_notebook_7(host, fresh_page):
    page = fresh_page
    page.goto(f"{host.url}/notebooks/n.ipynb")
    page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook')")
    page.wait_for_function(
        "jupyterapp.shell.currentWidget?.context?.sessionContext?.session?.kernel"
        "?.connectionStatus === 'connected'"
    )
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    page.locator(".cgviz-view").nth(2).wait_for()
    use(page)


@pytest.mark.parametrize(
    ("ground", "dark"),
    [
        ("white", False),
        ("rgb(24, 28, 26)", True),
        ("oklch(0.99 0.01 200)", False),
        ("color(display-p3 0.1 0.1 0.1)", True),
    ],
)
def test_it_is_dark_where_the_page_around_a_shadow_root_is(page, ground, dark):
    shown = cgviz.trace(lambda x: x * x, 3.0).view()
    state = {"document": assets.packed(shown.document), "which": 0, "step": 0}
    source = b64encode(assets.module().encode()).decode()
    page.set_content(f'<body style="background: {ground}"><div id="host"></div>')
    page.evaluate(
        "async ([source, state]) => { "
        "const { default: widget } = await import(`data:text/javascript;base64,${source}`); "
        "const root = document.getElementById('host').attachShadow({ mode: 'open' }); "
        "const el = root.appendChild(document.createElement('div')); "
        "const nothing = () => {}; "
        "const model = { get: (name) => state[name], on: nothing, off: nothing }; "
        "widget.render({ model, el }); }",
        [source, state],
    )
    has_count(page.locator(".cgviz-view.cgviz-dark"), int(dark))
    has_count(page.locator(".cgviz-view"), 1)
