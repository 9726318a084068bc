"""Kernels with two versions of cgviz whose views are on one page."""

import cgviz
from cgviz import style
from cgviz.live import assets

from .conftest import SESSION, write

SETUP = "import cgviz\ndef f(x):\n    return x * x"
OTHER_SETUP = f"""\
{SETUP}
from cgviz.live import assets
module, stylesheet = assets.module(), assets.stylesheet()
assets.module = lambda: f"{{module}}\\nView.prototype.version = 'another';\\n"
assets.stylesheet = lambda: stylesheet.replace("{style.LIGHT.forward}", "#123456")
"""
SHOW = """async ([el, stub, shared, values]) => {
  const url = URL.createObjectURL(new Blob([stub], { type: "text/javascript" }));
  const { default: { render } } = await import(url);
  const all = { ...values, shared: "IPY_MODEL_shared" };
  const widget_manager = { get_model: async () => ({ get: (name) => shared[name] }) };
  const silent = { set() {}, on() {}, off() {}, save_changes() {}, send() {} };
  const model = { ...silent, widget_manager, get: (name) => all[name] };
  await render({ model, el: document.getElementById(el) });
}"""
LOOKS = """() => [...document.querySelectorAll(".cgviz-view")].map((view) => ({
  tone: getComputedStyle(view).getPropertyValue("--cgviz-forward"),
  width: getComputedStyle(view.querySelector(".cgviz-forward")).strokeWidth,
  version: view.cgvizView.version ?? "ours",
}))"""
STEPS = """() => Object.fromEntries([...document.querySelectorAll(".cgviz-view")].map(
  ({ cgvizView: { version, state } }) => [version ?? "ours", state.step]))"""
OURS = {"module": assets.module(), "stylesheet": assets.stylesheet()}
OTHER = {
    "module": OURS["module"] + "\nView.prototype.version = 'another';\n",
    "stylesheet": OURS["stylesheet"].replace(style.LIGHT.forward, "#123456")
    + ".cgviz-svg .cgviz-forward { stroke-width: 9; }",
}


def place(page, el, version, shared):
    shown = cgviz.trace(lambda x: x * x, 3.0).view(start="end")
    values = {"document": assets.packed(shown.document), "step": shown.step, "which": 0}
    stub = assets.stub().replace(assets.version(), version)
    page.evaluate(SHOW, [el, stub, shared, values])


def test_each_view_has_the_module_and_the_stylesheet_of_its_own_version(page):
    page.set_content('<div id="a"></div><div id="b"></div><div id="c"></div>')
    place(page, "a", assets.version(), OURS)
    place(page, "b", "another", OTHER)
    place(page, "c", assets.version(), OURS)
    one, two, three = page.evaluate(LOOKS)
    assert one == three
    assert (one["tone"], one["version"]) == (style.LIGHT.forward, "ours")
    assert one["width"] != "9px"
    assert two == {"tone": "#123456", "width": "9px", "version": "another"}


def test_what_is_around_a_view_still_matters(page):
    """That a page is dark, and that a row of widgets shares its width among them."""
    page.set_content(
        '<div data-jp-theme-light="false" class="widget-hbox"><p><b id="a"></b></p></div>'
    )
    place(page, "a", assets.version(), OURS)
    assert page.evaluate(LOOKS)[0]["tone"] == style.DARK.forward
    assert page.evaluate("getComputedStyle(document.querySelector('p')).flexGrow") == "1"


def test_two_notebooks_of_one_jupyterlab_have_their_own_versions_and_kernels(lab, notebook, show):
    page = show("shown = cgviz.trace(f, 3.0).view()\nshown")
    write(lab.folder / "other.ipynb", OTHER_SETUP, "", "shown.step = 1")
    page.evaluate("jupyterapp.commands.execute('docmanager:open', { path: 'other.ipynb' })")
    ready = f"{SESSION}?.path === 'other.ipynb' && {SESSION}.kernel?.connectionStatus"
    page.wait_for_function(f"({ready}) === 'connected'")
    notebook.run(0)
    show("shown = cgviz.trace(f, 4.0).view()\nshown", views=2)
    versions = {each["version"]: each["tone"] for each in page.evaluate(LOOKS)}
    assert versions == {"ours": style.LIGHT.forward, "another": "#123456"}
    notebook.run(2)
    page.wait_for_function(f"({STEPS})().another === 1")
    assert page.evaluate(STEPS) == {"ours": 0, "another": 1}
    page.evaluate(f"{SESSION}.shutdown()")
