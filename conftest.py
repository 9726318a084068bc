"""Keep TensorFlow quiet in every test, doctest and notebook kernel; compare no pictures.

It is at the top so that it is read whatever pytest is asked to run.
"""

import gc
import os
import subprocess
import sys
import tempfile

import forked
import hypothesis
import pytest
from nbval.plugin import IPyNbCell

gc.disable()  # until all is imported and collected

# Both must be set before TensorFlow is imported; kernels inherit them.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

# An example takes as long as it takes on a machine with other work.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_configure(config):
    """Let kernels be forked from one process for the whole run, where processes are forked."""
    if hasattr(config, "workerinput") or forked.SERVER in os.environ:
        return  # a worker of xdist, or a run inside a test, has what the run has set
    folder = tempfile.TemporaryDirectory(prefix="cgviz-kernels-")
    config.add_cleanup(folder.cleanup)
    forked.kernel_spec(folder.name)
    os.environ["JUPYTER_PATH"] = os.pathsep.join(
        filter(None, [folder.name, os.environ.get("JUPYTER_PATH")])
    )
    if sys.platform == "linux":
        os.environ[forked.SERVER] = os.path.join(folder.name, "server")
        command = [sys.executable, forked.__file__, "--serve", os.environ[forked.SERVER]]
        bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        server = subprocess.Popen(command, stdin=subprocess.PIPE, env=bare)  # each fork has its own
        config.add_cleanup(server.communicate)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Look for no garbage where there is none: what was imported and collected stays to the end."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def forks(monkeypatch):
    """What a test has started in a fresh Python is forked from a process that has TensorFlow."""
    monkeypatch.setattr(sys, "executable", forked.python())


@pytest.fixture(autouse=True)
def _no_figures_left():
    """Close what a test or an example drew: pyplot warns once more than 20 figures are open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_modifyitems(items):
    """Compare no picture of a live view: nbval compares HTML, and pictures in no other form."""
    for item in items:
        if isinstance(item, IPyNbCell):
            item.compare_outputs = _without_stills(item.compare_outputs)


def _without_stills(compare):
    def compared(test, ref, **given):
        for output in test:
            if "cgviz-still" in output.get("data", {}).get("text/html", ""):
                del output["data"]["text/html"]
        return compare(test, ref, **given)

    return compared
