"""Run a student's notebook to the end, whatever is in it, and mark clearly what did not run.

Nursery    starts kernels: forked from a zygote that has imported TensorFlow, or fresh ones
run        one notebook in one kernel: outputs into its cells, an error where something ended it
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any, cast

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

MOST_OUTPUT = 2**20
"""Characters of output that are kept of one cell."""
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}


@dataclass
class Limits:
    """What a submission may use."""

    seconds: int = 30  # for one cell
    memory: int = 3 * 2**30  # in bytes

    @property
    def gigabytes(self) -> str:
        """The memory in words."""
        return f"{self.memory / 2**30:.3g} GB"


@dataclass
class Forked:
    """A kernel that the zygote has forked, as far as `LocalProvisioner` needs a process."""

    pid: int
    code: int | None = None
    done: threading.Event = field(default_factory=threading.Event)
    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self.code if self.done.is_set() else None

    def wait(self) -> int | None:
        """Wait for the end."""
        self.done.wait(5)
        return self.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal to it and to all it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    terminate = kill


class Nursery:
    """Starts kernels. `fork=False` starts each one anew, with its own import of TensorFlow."""

    def __init__(self, fork: bool | None = None) -> None:
        self.fork = sys.platform == "linux" if fork is None else fork
        self.children: dict[int, Forked] = {}
        self.started: Queue[int] = Queue()
        self.asking = threading.Lock()
        self.zygote: subprocess.Popen[str] | None = None
        self.listener: threading.Thread | None = None
        if self.fork:
            self._hatch()

    def _hatch(self) -> None:
        # One thread for linear algebra, or the zygote would not be alone when it forks.
        alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.zygote = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "JPY_PARENT_PID"} | alone | QUIET,
        )
        assert self.zygote.stdout is not None
        first = json.loads(self.zygote.stdout.readline() or '{"refused": "it did not start"}')
        if "refused" in first:
            print(f"Kernels start one by one: {first['refused']}.", file=sys.stderr)
            self.close()
            self.fork = False
            return
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        assert self.zygote is not None
        assert self.zygote.stdout is not None
        for line in self.zygote.stdout:
            message = json.loads(line)
            if "started" in message:
                self.children[message["started"]] = Forked(message["started"])
                self.started.put(message["started"])
            else:
                child = self.children.pop(message["ended"])
                child.code = message["code"]
                child.done.set()

    def start(self, connection: str, cwd: str, memory: int) -> Forked:
        """Fork a kernel."""
        assert self.zygote is not None
        assert self.zygote.stdin is not None
        with self.asking:
            request = {"start": connection, "cwd": cwd, "memory": memory}
            self.zygote.stdin.write(json.dumps(request) + "\n")
            self.zygote.stdin.flush()
            return self.children[self.started.get(timeout=30)]

    def manager(self, cwd: str, limits: Limits) -> AsyncKernelManager:
        """A kernel manager for one submission."""
        manager = AsyncKernelManager(kernel_name="python3")
        if self.fork:
            nursery = self

            class Provisioner(LocalProvisioner):
                async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
                    file = manager.connection_file
                    forked = nursery.start(file, cwd, limits.memory)
                    self.process = cast("subprocess.Popen[bytes]", forked)
                    self.pid = self.pgid = forked.pid
                    return self.connection_info

            manager.provisioner = Provisioner(
                kernel_id="", kernel_spec=manager.kernel_spec, parent=manager
            )
        return manager

    def close(self) -> None:
        """End the zygote, and with it every kernel."""
        if self.zygote is not None:
            assert self.zygote.stdin is not None
            self.zygote.stdin.close()
            try:
                self.zygote.wait(10)
            except subprocess.TimeoutExpired:
                self.zygote.kill()
            if self.listener is not None:
                self.listener.join(10)
            with self.zygote:  # closes its pipes
                pass


class Client(NotebookClient):
    """A notebook client that keeps no flood of output, and no error to itself."""

    kept = 0

    def output(self, outs: Any, msg: Any, display_id: Any, cell_index: Any) -> Any:
        """Take one output, unless the cell has said enough."""
        self.kept += len(str(msg["content"]))
        if self.kept > MOST_OUTPUT and msg["msg_type"] != "error":
            return None
        return super().output(outs, msg, display_id, cell_index)


def error(name: str, words: str) -> NotebookNode:
    """An error output."""
    return NotebookNode(
        output_type="error",
        ename=name,
        evalue=words,
        traceback=[f"\x1b[0;31m{name}\x1b[0m: {words}"],
    )


async def run(notebook: NotebookNode, nursery: Nursery, cwd: str, limits: Limits) -> list[str]:
    """Run every code cell; returns what was unusual, in words.

    A cell that takes too long is interrupted, and the rest goes on. A kernel that dies, or heeds
    no interrupt, ends the run: then each cell that did not run holds an error that says why.
    """
    manager = nursery.manager(cwd, limits)
    client = Client(
        notebook,
        km=manager,
        timeout=limits.seconds,
        interrupt_on_timeout=True,
        allow_errors=True,
        store_widget_state=False,
        shutdown_kernel="immediate",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": cwd}},
        error_on_timeout={
            "ename": "CellTimeoutError",
            "evalue": f"this cell was stopped after {limits.seconds} s. Is there an endless loop?",
            "traceback": [],
        },
        on_cell_executed=_keep_error,
    )
    cells = [(i, c) for i, c in enumerate(notebook.cells) if c.cell_type == "code"]
    ended = ""
    # The client ends a kernel only when asked to, if the manager is not its own.
    async with client.async_setup_kernel(env={**os.environ, **QUIET}, cwd=cwd, cleanup_kc=True):
        for number, (index, cell) in enumerate(cells):
            client.kept = 0
            try:
                await asyncio.wait_for(
                    client.async_execute_cell(cell, index), 2 * limits.seconds + 30
                )
                if _timed_out(cell) and not await _answers(client):
                    ended = f"{_place(cell, number)} never ended and could not be interrupted"
            except (DeadKernelError, CellTimeoutError, TimeoutError, RuntimeError) as why:
                code = await _code(manager)
                ended = f"{_place(cell, number)} ended the kernel ({_cause(why, code, limits)})"
            if ended:
                cell.outputs.append(error("KernelEnded", ended + "."))
                for _, later in cells[number + 1 :]:
                    later.outputs = [error("NotRun", f"not run, because {ended}.")]
                await manager.shutdown_kernel(now=True)
                break
    remarks = [f"The run ended early: {ended}."] if ended else []
    for number, (_, cell) in enumerate(cells):
        place = _place(cell, number).replace("c", "C", 1)
        if _timed_out(cell):
            remarks.append(f"{place} was stopped after {limits.seconds} s.")
        if any(o.get("ename") == "MemoryError" for o in cell.outputs):
            remarks.append(f"{place} asked for more than {limits.gigabytes} of memory.")
    return remarks


def _keep_error(**event: Any) -> None:
    """Note an error that left no output, and say that a cell was stopped, and not by its author."""
    cell, reply = event["cell"], event["execute_reply"]["content"]
    if reply.get("ename") == "CellTimeoutError":
        cell.outputs = [o for o in cell.outputs if o.get("ename") != "KeyboardInterrupt"]
    if reply["status"] == "error" and not any(o.output_type == "error" for o in cell.outputs):
        cell.outputs.append(error(reply["ename"], reply["evalue"]))


def _place(cell: NotebookNode, number: int) -> str:
    """A cell by the name that its exercise gives it, or by its number."""
    name = cell.metadata.get("nbgrader", {}).get("grade_id")
    return f"cell '{name}'" if name else f"code cell {number + 1}"


def _timed_out(cell: NotebookNode) -> bool:
    return any(o.get("ename") == "CellTimeoutError" for o in cell.outputs)


async def _answers(client: Client, seconds: float = 5.0) -> bool:
    """Whether the kernel runs an empty cell, so that the next one has a chance."""
    assert client.kc is not None
    probe: Callable[..., Any] = client.kc._async_execute_interactive
    try:
        reply = await asyncio.wait_for(probe("pass", silent=True, timeout=seconds), seconds + 1)
    except Exception:
        return False
    return bool(reply["content"]["status"] == "ok")


async def _code(manager: AsyncKernelManager) -> int | None:
    await asyncio.sleep(0.2)
    provisioner = manager.provisioner
    return await provisioner.poll() if provisioner and provisioner.has_process else None


def _cause(why: BaseException, code: int | None, limits: Limits) -> str:
    if isinstance(why, TimeoutError | CellTimeoutError):
        return f"no answer after {2 * limits.seconds + 30} s"
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"{name}: a crash, or more than {limits.gigabytes} of memory"
    return "a call such as os._exit, or a crash" if code is None else f"it exited with {code}"
