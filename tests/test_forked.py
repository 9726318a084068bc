"""Kernels and programs of the tests are forked from a process that has TensorFlow, or started."""

import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from jupyter_client.manager import start_new_kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")

LOOKS = """\
import gc, os, pathlib, sys
parent = pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_text()
print("tensorflow" in sys.modules, "--serve" in parent)
import tensorflow
given = {k: v for k, v in os.environ.items() if not k.startswith(("JPY_", "CGVIZ_"))}
print(os.getcwd(), sys.path, __name__, sorted(given.items()), os.umask(0), gc.isenabled())
"""


def interrupted(manager, client):
    """What a kernel answers if it is interrupted in a loop: before the loop it answers nothing."""

    def interrupt(told):
        if told["msg_type"] == "stream":
            manager.interrupt_kernel()

    loop = "print()\nwhile True: pass"
    return client.execute_interactive(loop, timeout=60, output_hook=interrupt)["content"]


def forked_and_started(monkeypatch, tmp_path):
    """A kernel that is forked, then one that is started: whether it is forked, manager, client."""
    for forks in (True, False):
        if not forks:
            monkeypatch.setenv(forked.SERVER, str(tmp_path / "nobody"))
        manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
        yield forks, manager, client
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_kernel_that_is_forked_is_as_one_that_is_started(monkeypatch, tmp_path):
    found = []
    for forks, manager, client in forked_and_started(monkeypatch, tmp_path):
        had, looks = forked.said(client, LOOKS).splitlines()
        assert had == f"{forks} {forks}"
        found.append(looks)
        assert interrupted(manager, client)["ename"] == "KeyboardInterrupt"
    assert found[0] == found[1]


def test_a_forked_kernel_is_said_to_take_the_memory_of_one_that_is_started(monkeypatch, tmp_path):
    found = []
    for _, _, client in forked_and_started(monkeypatch, tmp_path):
        forked.said(client, "import tensorflow as tf; tf.ones((1000, 100_000)) + 1.0")
        found.append(forked.peak(client))
    assert min(found) > 2 * 400  # two of the tensors, of 400 MB each
    assert max(found) < 1.1 * min(found)


@pytest.mark.parametrize(
    "asks",
    [
        "import urllib.request; urllib.request.urlopen('https://example.org')",
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 80))",
    ],
)
def test_a_cell_that_needs_the_network_fails(asks, tmp_path):
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    answer = client.execute_interactive(asks, timeout=60)["content"]
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert "a lesson must not need the network" in answer["evalue"]


def test_a_kernel_ends_with_its_client(tmp_path):
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    kernel = int(forked.said(client, "import os; print(os.getpid())"))
    client.stop_channels()
    manager.shutdown_kernel(now=True)  # kills the client
    ends = time.monotonic() + 30
    while Path(f"/proc/{kernel}").exists():
        assert time.monotonic() < ends
        time.sleep(0.05)


PROGRAM = """\
import os, sys
given = [os.environ.get(name) for name in ("MINE", "MPLBACKEND", "OPENBLAS_NUM_THREADS")]
print(os.getcwd(), sys.path, sys.argv, __name__, given, os.umask(0), flush=True)
print([name for name in sys.modules if name.startswith("cgviz")], file=sys.stderr)
"""
ENDS = {"": 0, "sys.exit(3)": 3, "sys.exit('words')": 1, "os._exit(4)": 4, "raise KeyError(5)": 1}


@pytest.mark.parametrize("how", [["-c"], ["-I", "-c"], ["program.py"]], ids=" ".join)
def test_a_program_that_is_forked_is_as_one_that_is_started(how, tmp_path, monkeypatch):
    """It has nothing of cgviz, and ends with the same code and the same last words."""
    monkeypatch.setenv("MINE", "yes")
    for end, code in ENDS.items():
        (tmp_path / "program.py").write_text(PROGRAM + end)
        given = [*how, *([PROGRAM + end] if "-c" in how else []), "x"]
        one, other = (
            subprocess.run([python, *given], capture_output=True, text=True, cwd=tmp_path)
            for python in (forked.python(), sys.executable)
        )
        assert one.stdout == other.stdout
        assert one.returncode == other.returncode == code
        assert one.stderr.splitlines()[-1] == other.stderr.splitlines()[-1]
        assert one.stderr.startswith("[]\n")


def test_what_a_test_starts_by_its_python_is_forked(forks):
    look = "import os, sys; print('tensorflow' in sys.modules, os.path.basename(sys.executable))"
    assert subprocess.check_output([sys.executable, "-c", look], text=True) == "True python\n"
