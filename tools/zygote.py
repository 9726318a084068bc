"""A process that has imported TensorFlow once, and forks a fresh kernel for each submission.

It reads one JSON request a line from standard input and answers on standard output:
    {"start": connection file, "cwd": folder, "memory": bytes}  ->  {"started": pid}
and tells of each kernel that ends: {"ended": pid, "code": exit code, or minus the signal}.
When its input ends, it ends every kernel and itself.

Forking is safe because nothing has started a thread: TensorFlow makes its own with the first op,
and no op runs here. That is checked, not hoped. Each kernel is a copy of this untouched process,
so no student sees what another one did.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HIDDEN = "BEGIN HIDDEN TESTS"
FILE_LIMIT = 200 * 2**20


class Pristine:
    """What the judges are made of, as it was before a student's code ran.

    A cell with hidden tests gets it back first: a student's `classroom.demand = print`, or a
    variable named `np`, changes no mark.
    """

    def __init__(self) -> None:
        import numpy as np
        import tensorflow as tf

        import cgviz
        from cgviz import classroom

        for name in cgviz.__all__:
            getattr(cgviz, name)  # imported when first asked for
        self.names = {"np": np, "tf": tf, "cgviz": cgviz, "classroom": classroom}
        own = [m for n, m in sys.modules.items() if n.partition(".")[0] == "cgviz"]
        self.modules: list[tuple[ModuleType, dict[str, Any]]] = [
            (module, dict(vars(module))) for module in (*own, np, tf, sys.modules["builtins"])
        ]
        classes = {c for m in own for c in vars(m).values() if isinstance(c, type)}
        judges = {c for c in classes if c.__module__.startswith("cgviz.")} | {tf.GradientTape}
        self.classes = [(c, dict(vars(c))) for c in judges]

    def restore(self, shell: Any) -> None:
        """Put everything back that was changed."""
        for module, saved in self.modules:
            current = vars(module)
            for name, value in saved.items():
                if current.get(name) is not value and name not in ("_", "__builtins__"):
                    current[name] = value
        for cls, saved in self.classes:
            for name, value in saved.items():
                if vars(cls).get(name) is not value and callable(getattr(cls, name, None)):
                    setattr(cls, name, value)
        shell.user_ns.update({k: v for k, v in self.names.items() if k in shell.user_ns})
        shell.ast_transformers = []
        for name in ("showtraceback", "_showtraceback", "run_cell", "run_code"):
            vars(shell).pop(name, None)


def become_kernel(request: dict[str, Any], pristine: Pristine) -> None:
    """Turn this forked process into a Jupyter kernel; does not return."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.chdir(request["cwd"])
    if request.get("memory"):
        resource.setrlimit(resource.RLIMIT_DATA, (request["memory"],) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    sys.path[0] = request["cwd"]  # where a notebook's own folder stands
    import random

    import numpy as np
    from ipykernel.kernelapp import IPKernelApp

    random.seed()
    np.random.seed()
    app = IPKernelApp.instance()
    app.initialize(
        ["-f", request["start"], "--HistoryManager.hist_file=:memory:", "--log-level=ERROR"]
    )
    shell: Any = app.shell

    def before(info: Any) -> None:
        if HIDDEN in (info.raw_cell or ""):
            pristine.restore(shell)

    shell.events.register("pre_run_cell", before)
    app.start()


def threads() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def say(**message: Any) -> None:
    """Answer whoever started this process."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def bury(alive: set[int]) -> None:
    """Tell of each kernel that has ended."""
    for pid in sorted(alive):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            alive.discard(pid)
            kill(pid)  # what it left running
            say(ended=pid, code=os.waitstatus_to_exitcode(status))


def kill(pid: int) -> None:
    """End a kernel and all it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main() -> None:
    """Import once, then fork as asked."""
    sys.path[0] = str(Path.cwd())  # not this folder: its files are no part of an exercise
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import ipykernel.kernelapp  # noqa: F401
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    pristine = Pristine()
    if threads() != 1:
        say(refused=f"{threads()} threads are running, so a fork would not be safe")
        return
    say(ready=True)
    alive: set[int] = set()
    pending = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.05)
        bury(alive)
        if not ready:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            pid = os.fork()
            if pid == 0:
                try:
                    become_kernel(request, pristine)
                finally:
                    os._exit(1)
            alive.add(pid)
            say(started=pid)
    for pid in alive:
        kill(pid)


if __name__ == "__main__":
    main()
