"""Keep TensorFlow quiet in every test, doctest and notebook kernel; compare no pictures.

This file is in the root folder so that pytest reads it whatever it is asked to run.
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

MOST_MEMORY = 900  # MB of a notebook's kernel: classroom/jupyterhub.md guarantees a student 1 GB

# Both must be set before TensorFlow is imported; kernels inherit them.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

# No deadline: an example may take any time on a machine with other work.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_configure(config):
    """Write the kernel spec of the tests; on Linux start the process that forks their kernels."""
    if hasattr(config, "workerinput") or forked.SERVER in os.environ:
        return  # a worker of xdist, or a run inside a test, inherits what the outer run set
    folder = tempfile.TemporaryDirectory(prefix="cgviz-kernels-")
    config.add_cleanup(folder.cleanup)
    forked.kernel_spec(folder.name)
    os.environ["JUPYTER_PATH"] = os.pathsep.join(
        filter(None, [folder.name, os.environ.get("JUPYTER_PATH")])
    )
    if sys.platform == "linux":
        os.environ[forked.SERVER] = os.path.join(folder.name, "server")
        command = [sys.executable, forked.__file__, "--serve", os.environ[forked.SERVER]]
        # Without PYTHONPATH, because each fork sets its own.
        bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        server = subprocess.Popen(command, stdin=subprocess.PIPE, env=bare)
        config.add_cleanup(server.communicate)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Exempt modules and test items, which stay to the end, from garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def forks(monkeypatch):
    """Fork what a test starts in a fresh Python from a process that has imported TensorFlow."""
    monkeypatch.setattr(sys, "executable", forked.python())


@pytest.fixture(autouse=True)
def _no_figures_left():
    """Close what a test or an example drew: pyplot warns once more than 20 figures are open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """After the last cell of a notebook, look at the most memory that its kernel has had."""
    used, notebook = 0.0, item.parent
    ends = isinstance(item, IPyNbCell) and (nextitem is None or nextitem.parent is not notebook)
    if ends and sys.platform == "linux" and not notebook.timed_out and notebook.kernel.is_alive():
        used = forked.peak(notebook.kernel.kc)
    yield  # the kernel ends, whatever it has used
    assert used < MOST_MEMORY, f"the kernel of {notebook.name} has used {used:.0f} MB"


def pytest_collection_modifyitems(items):
    """Do not compare the still picture of a live view: it is HTML, which nbval compares."""
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
