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
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
SECONDS = 60
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


@pytest.fixture
def page(browser, request) -> Iterator[object]:
    """A page; errors on it fail the test, and a failure leaves a screenshot."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(SECONDS * 1000)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    if getattr(request.node, "failed", False) or errors:
        SHOTS.mkdir(parents=True, exist_ok=True)
        opened.screenshot(path=SHOTS / f"{request.node.name}.png", full_page=True)
    context.close()
    assert not errors


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let the page know that its test failed."""
    report = yield
    if report.when == "call" and report.failed:
        item.failed = True
    return report


class Server:
    """A Jupyter application on a free port of this machine, in a folder of its own."""

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
        }
        self.log = (folder.parent / f"{folder.name}.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command, f"--port={port}", "--no-browser"],
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


OPEN = ("--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=1")


@pytest.fixture(scope="session")
def lab(browser, tmp_path_factory) -> Iterator[Server]:
    """A JupyterLab."""
    folder = tmp_path_factory.mktemp("lab")
    root = (
        "--allow-root"
        if hasattr(os, "geteuid") and os.geteuid() == 0
        else "--Application.log_level=30"
    )
    server = Server(
        folder,
        "jupyterlab",
        *OPEN,
        root,
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
    )
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


@pytest.fixture
def run(lab, page):
    """Open a notebook of the given cells in JupyterLab and run all of it."""
    opened = []

    def run_(*cells: str, dark: bool = False, views: int = 1):
        name = f"n{len(list(lab.folder.iterdir()))}.ipynb"
        write(lab.folder / name, *cells)
        page.goto(f"{lab.url}/lab/tree/{name}?reset")
        page.wait_for_function(
            "window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')"
        )
        if dark:
            page.evaluate(
                "jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
            )
            page.wait_for_selector("body[data-jp-theme-light=false]")
        page.wait_for_function(f"{SESSION}?.kernel?.connectionStatus === 'connected'")
        opened.append(page.evaluate(f"{SESSION}.id"))
        page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")
        page.wait_for_function(
            "n => document.querySelectorAll('.cgviz-view').length >= n", arg=views
        )
        return page

    yield run_
    page.goto("about:blank")
    for session in opened:
        url = f"{lab.url}/api/sessions/{session}"
        urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=20).close()
