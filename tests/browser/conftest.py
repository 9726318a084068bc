"""A real JupyterLab and a headless Chromium for the tests in this folder.

They are skipped where Chromium or Playwright is missing, with the words how to get them; with
CGVIZ_BROWSER_TESTS=required, as in CI, that is a failure.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

# The first draws pages alone, and no windows around them: it takes a sixth less of a processor.
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
    "--disable-site-isolation-trials",  # a process less for each page
    # Two pages less for each window, for its address bar. Of such flags the last counts, so what
    # Playwright disables is here again.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,AvoidUnnecessaryBeforeUnloadCheckSync,"
    "DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,"
    "MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,"
    "OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch",
]
SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
SECONDS = 120  # that a server may take to start on a machine with other work
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
    """A window of 1280 by 900."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    return context


def keep(page, request, errors: list[str]) -> None:
    """A screenshot of what failed; an error on the page is a failure."""
    if getattr(request.node, "failed", False) or errors:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{request.node.name}.png", full_page=True)
    assert not errors


def ours(error) -> bool:
    """Not thrown by the notebook itself.

    Notebook 7 looks for a schema before there is one; JupyterLab may remove a node twice where a
    cell runs again at once after its kernel was restarted.
    """
    thrown = [line for line in (error.stack or "").splitlines() if line.strip().startswith("at ")]
    own = ("/static/notebook/notebook_core", "/static/lab/jlab_core")
    return not thrown or not any(core in thrown[0] for core in own)


@pytest.fixture
def page(browser, request) -> Iterator[object]:
    """A page of its own for one test."""
    context = new_context(browser)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: ours(error) and errors.append(str(error)))
    yield opened
    keep(opened, request, errors)
    context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let the page know that its test failed."""
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
        }
        self.log = (folder.parent / f"{folder.name}.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command, f"--port={port}"],
            cwd=folder,
            env=env,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def wait(self, path: str) -> None:
        """Until it answers."""
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
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def as_root() -> list[str]:
    """What Jupyter wants to hear where the tests run as root."""
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
    """A JupyterLab."""
    server = lab_server(tmp_path_factory.mktemp("lab"))
    try:
        server.wait("/api/status")
        yield server
    finally:
        server.stop()


def write(path: Path, *cells: str) -> None:
    """A notebook of these code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )
    nbformat.write(notebook, path)


class Notebook:
    """One notebook in JupyterLab, open for all tests of a file: a kernel takes long to start."""

    def __init__(self, lab: Server, page, setup: str) -> None:
        self.page, self.folder = page, lab.folder
        write(lab.folder / "n.ipynb", setup, "")
        self.url = f"{lab.url}/lab/tree/n.ipynb?reset"
        page.goto(self.url)
        page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook')")
        page.wait_for_function(f"{SESSION}?.kernel?.connectionStatus === 'connected'")
        self.run(0)

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


@pytest.fixture(scope="module")
def notebook(lab, browser, request) -> Iterator[Notebook]:
    """The notebook of a file of tests; its first cell is the file's SETUP."""
    context = new_context(browser)
    yield Notebook(lab, context.new_page(), request.module.SETUP)
    context.close()


@pytest.fixture
def show(notebook, request) -> Iterator[object]:
    """Show something in the notebook."""
    errors: list[str] = []
    note = lambda error: ours(error) and errors.append(str(error))  # noqa: E731
    notebook.page.on("pageerror", note)
    yield notebook.show
    notebook.page.remove_listener("pageerror", note)
    keep(notebook.page, request, errors)


def until(page, condition):
    """Wait until this holds in a saved page, whose policy forbids what `wait_for_function` does."""
    ends = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < ends, condition
        page.wait_for_timeout(50)


def has_count(locator, count):
    """Wait until there are so many: what a click brings may come a moment later."""
    from playwright.sync_api import expect

    expect(locator).to_have_count(count, timeout=30_000)  # as all else in a page
