"""Kernels of the tests are forked from a process that has TensorFlow, or start as elsewhere."""

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


def said(client, code):
    """What a cell prints."""
    words = []
    client.execute_interactive(
        code, timeout=60, output_hook=lambda told: words.append(told["content"].get("text") or "")
    )
    return "".join(words)


def interrupted(manager, client):
    """What a kernel answers if it is interrupted in a loop: before the loop it answers nothing."""

    def interrupt(told):
        if told["msg_type"] == "stream":
            manager.interrupt_kernel()

    loop = "print()\nwhile True: pass"
    return client.execute_interactive(loop, timeout=60, output_hook=interrupt)["content"]


def test_a_kernel_that_is_forked_is_as_one_that_is_started(monkeypatch, tmp_path):
    found = []
    for forks in (True, False):
        if not forks:
            monkeypatch.setenv(forked.SERVER, str(tmp_path / "nobody"))
        manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
        had, looks = said(client, LOOKS).splitlines()
        assert had == f"{forks} {forks}"
        found.append(looks)
        assert interrupted(manager, client)["ename"] == "KeyboardInterrupt"
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert found[0] == found[1]


def test_a_kernel_ends_with_its_client(tmp_path):
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    kernel = int(said(client, "import os; print(os.getpid())"))
    client.stop_channels()
    manager.shutdown_kernel(now=True)  # kills the client
    ends = time.monotonic() + 30
    while Path(f"/proc/{kernel}").exists():
        assert time.monotonic() < ends
        time.sleep(0.05)
