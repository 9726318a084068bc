"""A real JupyterLab and a headless Chromium for the tests in this folder.

The tests are skipped where Chromium or Playwright is missing, with a message on how to install it;
with CGVIZ_BROWSER_TESTS=required, as in CI, they fail instead.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import forked
import nbformat
import pytest
from golden_programs import PROGRAMS

from cgviz.live import assets

# The first draws only pages, without browser windows: it takes a sixth less processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-site-isolation-trials",  # saves a process per page
    # Saves two pages per window, those of its address bar. Only the last such flag counts, so this
    # one repeats what Playwright disables.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,AvoidUnnecessaryBeforeUnloadCheckSync,"
    "DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,"
    "MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,"
    "OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch",
]
SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
SIZE = {"width": 1280, "height": 900}
SECONDS = 120  # that a server may take to start on a machine with other work
# Code that runs the module named first after it, as `python -m` does.
AS_MODULE = (
    "import runpy, sys; del sys.argv[0]; runpy.run_module(sys.argv[0], None, '__main__', True)"
)
# The rules of axe that compare colours: alone, they are asked of a dark page once more.
COLOURS = ["color-contrast", "link-in-text-block"]
SESSION = "jupyterapp.shell.currentWidget?.context?.sessionContext?.session"


def missing(what: str) -> None:
    """Skip, or fail where these tests are required."""
    if os.environ.get("CGVIZ_BROWSER_TESTS") == "required":
        pytest.fail(f"tests in a browser are required here: {what}")
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """The system's Chromium."""
    if CHROMIUM is None:
        missing("Chromium is not installed. On Debian: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright is not installed: pip install -e '.[browser]'")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


def new_context(browser):
    """A browser context whose window is 1280 by 900 pixels."""
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(30_000)
    return context


def keep(page, request, errors: list[str]) -> None:
    """Take a screenshot if the test failed or the page had errors; errors fail the test, too."""
    if failed(request) or errors:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{request.node.name}.png", full_page=True)
    assert not errors


def failed(request) -> bool:
    """Whether the test has failed."""
    return getattr(request.node, "failed", False)


def ours(error) -> bool:
    """Whether an error on the page was not thrown by Notebook or JupyterLab itself.

    Notebook 7 looks for a schema before there is one; JupyterLab may remove a node twice when a
    cell runs again right after its kernel was restarted.
    """
    thrown = [line for line in (error.stack or "").splitlines() if line.strip().startswith("at ")]
    own = ("/static/notebook/notebook_core", "/static/lab/jlab_core")
    return not thrown or not any(core in thrown[0] for core in own)


@pytest.fixture(scope="session")
def kept(browser) -> Iterator[list]:
    """The page, if any, that `page` lends to each test: a new one would take as long as a test."""
    pages: list = []
    yield pages
    for each in pages:
        each.context.close()


@pytest.fixture
def page(browser, kept, request) -> Iterator[object]:
    """An empty page in the state of a new one; after a failed test the page is not used again."""
    opened = kept.pop() if kept else new_context(browser).new_page()
    errors: list[str] = []
    note = lambda error: ours(error) and errors.append(str(error))  # noqa: E731
    opened.on("pageerror", note)
    yield opened
    try:
        keep(opened, request, errors)
    finally:
        if failed(request) or errors:
            opened.context.close()
        else:
            opened.remove_listener("pageerror", note)
            empty(opened)
            kept.append(opened)


def empty(page) -> None:
    """Undo what a test has shown, set and moved in a page."""
    page.goto("about:blank")
    page.context.set_offline(False)
    restore(page)


def restore(page) -> None:
    """Reset the mouse, the media and the size of a page to those of a new one."""
    page.mouse.move(0, 0)
    page.emulate_media(media="null", color_scheme="light", reduced_motion="no-preference")
    if page.viewport_size != SIZE:
        page.set_viewport_size(SIZE)


@pytest.fixture
def fresh_page(browser, request) -> Iterator[object]:
    """A page of its own for a test whose settings cannot be undone."""
    context = new_context(browser)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: ours(error) and errors.append(str(error)))
    yield opened
    keep(opened, request, errors)
    context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Note on a test that it failed, for `failed`."""
    report = yield
    if report.when == "call" and report.failed:
        item.failed = True
    return report


class Server:
    """A server on a free port of this machine, in a folder of its own."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        names = ("config", "data", "runtime", "ipython")
        homes = {n: str(folder.parent / f"{folder.name}-{n}") for n in names}
        env = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": homes["config"],
            "JUPYTER_DATA_DIR": homes["data"],
            "JUPYTER_RUNTIME_DIR": homes["runtime"],
            "IPYTHONDIR": homes["ipython"],
            "XDG_CONFIG_HOME": homes["config"],
            "PATH": str(Path(sys.executable).parent),  # without Node, which JupyterLab asks for 1 s
        }
        self.log = (folder.parent / f"{folder.name}.log").open("wb")
        self.process = subprocess.Popen(
            [forked.python(), "-c", AS_MODULE, *command, f"--port={port}"],
            cwd=folder,
            env=env,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def wait(self, path: str) -> None:
        """Wait until the server answers."""
        end = time.monotonic() + SECONDS
        while True:
            try:
                with urllib.request.urlopen(self.url + path, timeout=5):
                    return
            except urllib.error.HTTPError:
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    words = Path(self.log.name).read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the server did not start:\n{words}") from None
                time.sleep(0.2)

    def stop(self) -> None:
        """End the server."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def as_root() -> list[str]:
    """The option that Jupyter needs where the tests run as root."""
    return ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def lab_server(folder: Path) -> Server:
    """A JupyterLab of this folder, without a token and without news."""
    return Server(
        folder,
        "jupyterlab",
        "--ServerApp.ip=127.0.0.1",
        "--IdentityProvider.token=",
        "--ServerApp.disable_check_xsrf=1",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        "--no-browser",
        *as_root(),
    )


@pytest.fixture(scope="session")
def lab(browser, tmp_path_factory) -> Iterator[Server]:
    """The JupyterLab that the tests share."""
    server = lab_server(tmp_path_factory.mktemp("lab"))
    try:
        server.wait("/api/status")
        yield server
    finally:
        server.stop()


def write(path: Path, *cells: str) -> None:
    """Write a notebook with these code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )
    nbformat.write(notebook, path)


class Notebook:
    """One notebook in JupyterLab, open for all tests of a file: a kernel takes long to start."""

    def __init__(self, lab: Server, page, name: str, setup: str) -> None:
        self.page, self.folder = page, lab.folder
        write(lab.folder / f"{name}.ipynb", setup, "")
        self.url = f"{lab.url}/lab/tree/{name}.ipynb?reset"
        page.evaluate(
            "path => jupyterapp.commands.execute('docmanager:open', { path })", f"{name}.ipynb"
        )
        page.wait_for_function(
            f"name => {SESSION}?.path === name && {SESSION}.kernel?.connectionStatus"
            " === 'connected' && document.querySelector('.jp-Notebook')",
            arg=f"{name}.ipynb",
        )
        self.run(0)

    def close(self) -> None:
        """End the kernels, and close all that is open without being asked whether to save it."""
        self.page.evaluate(
            "async () => { for (const each of [...jupyterapp.shell.widgets('main')]) { "
            "if (each.context) { await each.context.sessionContext.shutdown(); "
            "each.context.model.dirty = false; } each.close(); } }"
        )
        self.page.wait_for_function("!document.querySelector('.jp-Notebook')")

    def run(self, cell: int) -> None:
        """Run one cell and wait for the kernel to be done."""
        self.page.evaluate(
            "cell => { const n = jupyterapp.shell.currentWidget.content; n.activeCellIndex = cell; "
            "return jupyterapp.commands.execute('notebook:run-cell'); }",
            cell,
        )

    def show(self, code: str, views: int = 1):
        """Run this code in the second cell, and wait for what it shows."""
        self.page.evaluate(
            "code => { const n = jupyterapp.shell.currentWidget.content; "
            "n.model.sharedModel.cells[1].setSource(code); "
            "n.widgets[1].outputArea?.model.clear(); }",
            code,
        )
        self.run(1)
        self.page.wait_for_function(
            "n => document.querySelectorAll('.cgviz-view').length === n", arg=views
        )
        return self.page

    def theme(self, name: str) -> None:
        """Use JupyterLab's theme of that name."""
        self.page.evaluate(
            "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", name
        )
        self.page.wait_for_function(
            "theme => document.body.dataset.jpThemeName === theme", arg=name
        )


def new_desk(browser, lab: Server):
    """A page with JupyterLab."""
    page = new_context(browser).new_page()
    page.goto(f"{lab.url}/lab?reset")
    page.wait_for_function("window.jupyterapp && jupyterapp.restored.then(() => true)")
    return page


@pytest.fixture(scope="session")
def desks(browser) -> Iterator[list]:
    """The JupyterLab page, if any, that `notebook` lends to each file: it takes 5 s to load."""
    pages: list = []
    yield pages
    for each in pages:
        each.context.close()


@pytest.fixture(scope="module")
def notebook(lab, browser, desks, request) -> Iterator[Notebook]:
    """The notebook of a file of tests, with a kernel of its own; its first cell is their SETUP.

    The page is the one that the files before used, unless a test failed in it.
    """
    page = desks.pop() if desks else new_desk(browser, lab)
    before = request.session.testsfailed
    name = request.module.__name__.rpartition("_")[2]
    opened = Notebook(lab, page, name, request.module.SETUP)
    yield opened
    if request.session.testsfailed > before:
        page.context.close()
    else:
        opened.close()
        restore(page)
        desks.append(page)


@pytest.fixture
def show(notebook, request) -> Iterator[object]:
    """Show something in the notebook; an error on the page is a failure."""
    errors: list[str] = []
    note = lambda error: ours(error) and errors.append(str(error))  # noqa: E731
    notebook.page.on("pageerror", note)
    yield notebook.show
    notebook.page.remove_listener("pageerror", note)
    keep(notebook.page, request, errors)


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """Save a golden program once for all tests that only look at it; the address of its page."""

    @functools.cache
    def saved(name: str, **options) -> str:
        path = tmp_path_factory.mktemp("golden") / f"{name}.html"
        PROGRAMS[name]().view(**options).save(path)
        return path.as_uri()

    return saved


def without_policy(path: Path) -> str:
    """The address of a copy of a saved page that lets in axe, which brings a script of its own."""
    policy = r'<meta http-equiv="Content-Security-Policy"[^>]*>\n'
    text, found = re.subn(policy, "", path.read_text(encoding="utf-8"))
    assert found == 1
    copy = path.with_stem(f"{path.stem}_without_policy")
    copy.write_text(text, encoding="utf-8")
    return copy.as_uri()


def violations(page, context=None, **options):
    """The rules that axe finds broken, each with some of what breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    wanted = options | {"resultTypes": ["violations"]}
    found = Axe().run(page, context=context, options=wanted).response["violations"]
    return [(v["id"], [n["html"][:120] for n in v["nodes"]][:3]) for v in found]


def violations_in_light_and_dark(page):
    """What axe finds in a saved page that is light, and what in its colours once it is dark."""
    light = violations(page)
    page.emulate_media(color_scheme="dark")
    has_count(page.locator(".cgviz-view:not(.cgviz-dark)"), 0)
    return {"light": light, "dark": violations(page, runOnly=COLOURS)}


def save_without_folds(trace, path: Path) -> None:
    """Save a trace with one fold at most, for tests that open none: laying each out takes long."""
    with pytest.MonkeyPatch.context() as patch:
        for most in ("MOST_FOLDS", "MOST_MORE"):
            patch.setattr(assets, most, 0)
        trace.save(path)


def until(page, condition):
    """Wait until a condition holds in a saved page, whose policy forbids `wait_for_function`."""
    ends = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < ends, condition
        page.wait_for_timeout(50)


def box_at_rest(locator):
    """The box of an element, once it has stayed where it is for a tenth of a second."""
    ends = time.monotonic() + 30
    box, before = locator.bounding_box(), None
    while box is None or box != before:
        assert time.monotonic() < ends, locator
        locator.page.wait_for_timeout(100)
        box, before = locator.bounding_box(), box
    return box


def has_count(locator, count):
    """Wait until a locator finds `count` elements: what a click shows may come a moment later."""
    from playwright.sync_api import expect

    expect(locator).to_have_count(count, timeout=30_000)  # as for all else in a page
