"""A box, the sandbox in which the code of one hand-in runs, and the limits on what it may use.

missing   why no box can be made on this machine, or None
visible   whether code in a box could read a path
run       runs cells in a fresh box, to the end or to a limit, and returns what they report

A box is made by bubblewrap. It has no network; its own home, /tmp and /dev/shm, in memory; its own
processes; and of this machine's files only those of the system (/usr and `SYSTEM`), of Python and
of the package cgviz, read-only. All of its processes end with it. Without a box only the limits on
time, memory, output and the size of a file hold.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.util
import json
import os
import platform
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

INSIDE = Path(__file__).with_name("inside.py")
HOME = "/home/student"

START = 120.0
"""Seconds that a box may take to start: TensorFlow needs 3 on an idle core, more on a busy one."""

GRACE = 10.0
"""Seconds from a cell's limit, when it is interrupted inside, until the box is killed."""

LOOK = 0.5
"""Seconds between two checks of the memory that a box uses."""

SHARED = 2**30
"""Bytes that a box may hold beyond the limit of one process: TensorFlow's libraries, mapped from
files, count for the box and not for that limit. Without this margin one process could have the box
killed before it gets its own MemoryError."""

OWN = range(10**6, 2 * 10**9)
"""User ids that no account has: root gives each box its own, so limits count that box alone."""

SYSTEM = (
    *("/bin", "/sbin", "/lib", "/lib64"),
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache"),
)
"""The paths outside /usr that programs need to find their libraries and fonts."""

CALLS = {
    "x86_64": (0xC000003E, (319, 447, 29, 165, 430)),
    "aarch64": (0xC00000B7, (279, 447, 194, 40, 430)),
}
"""By machine type: the number of its architecture in Linux, and the numbers of the system calls
that are denied: memfd_create, memfd_secret, shmget, mount and fsopen. They create memory that
belongs to no process, or a file system in memory, so that no limit counts it. (Otherwise code in a
box could mount one in a user namespace that it makes.)"""

SETTINGS = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    # One thread each: there are as many boxes as cores.
    **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    **{"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"},
}


@dataclass(frozen=True)
class Limits:
    """What one hand-in may use."""

    seconds: float = 30.0  # for a cell
    total: float = 180.0  # seconds for the notebook, after the start
    memory: int = 3 * 2**30  # bytes that one process may allocate; all together may hold 1 GB more
    disk: int = 64 * 2**20  # bytes in a file, and in each of its folders, which are in memory
    output: int = 8 * 2**20  # bytes that it may report
    processes: int = 256  # threads in all its processes; TensorFlow has about 30

    @property
    def gigabytes(self) -> str:
        """The limit on memory as text."""
        return f"{self.memory / 2**30:.3g} GB"


class BoxError(Exception):
    """The box did not start. No hand-in can cause this, so it costs nobody points."""


class EndedError(Exception):
    """A box ended before its notebook did. The text says why, without a full stop."""


@functools.cache
def missing() -> str | None:
    """Return why no box can be made on this machine, or None if one can."""
    if sys.platform != "linux":
        return f"bubblewrap is for Linux, and this is {sys.platform}"
    if platform.machine() not in CALLS:
        return f"the system calls of {platform.machine()} are not known here"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)"
    made = subprocess.run([*_box(), "true"], capture_output=True, text=True)
    return None if made.returncode == 0 else f"bubblewrap makes no box: {made.stderr.strip()}"


def visible(path: Path) -> bool:
    """Whether code in a box could read this path."""
    return any(path.resolve().is_relative_to(shown.resolve()) for shown in _shown())


def run(
    cells: list[dict[str, Any]], limits: Limits, boxed: bool = True
) -> tuple[list[dict[str, Any]], str]:
    """Run cells one after the other.

    Args:
        cells: For each its "source"; a "probe", code to run after it, or ""; and "fixed", the
            names that have their value of now again in each later cell with a probe.
        limits: What the hand-in may use.
        boxed: Whether to run them in a box.

    Returns:
        The reports of the cells that ran, in their order, in the form that inside.py describes;
        and why the others did not run, or "". A hand-in can forge the reports: do not trust them.

    Raises:
        BoxError: The box did not start.
    """
    work = {
        "cells": cells,
        "uid": random.choice(OWN) if boxed else 0,
        **{"seconds": limits.seconds, "memory": limits.memory},
        **{"disk": limits.disk, "processes": limits.processes},
    }
    reports: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = _Process(home, limits, boxed)
        try:
            process.write(json.dumps(work).encode())
            try:
                started = process.read(START)
            except EndedError as ended:
                raise BoxError(f"the box did not start ({ended}): {missing() or ''}") from ended
            if started != {"ready": True}:
                raise BoxError(f"the box did not start: {started}")
            end = time.monotonic() + limits.total
            for index, cell in enumerate(cells):
                most = (2 if cell["probe"] else 1) * limits.seconds + GRACE
                left = end - time.monotonic()
                report = process.read(min(most, left))
                if report is None:
                    raise EndedError(
                        f"the notebook took more than {limits.total:g} s"
                        if left < most
                        else "it never ended and could not be interrupted"
                    )
                if report.get("cell") != index:
                    raise EndedError("it wrote into the grader's own messages")
                reports.append(report)
        except EndedError as ended:
            return reports, str(ended)
        finally:
            process.kill()
    return reports, ""


class _Process:
    """The process that runs the cells: starts it, exchanges messages with it, ends it."""

    def __init__(self, home: str, limits: Limits, boxed: bool) -> None:
        python = [sys.executable, "/box/inside.py" if boxed else str(INSIDE)]
        elsewhere = {"HOME": home, "PATH": os.defpath, "PYTHONPATH": str(_package().parent)}
        self.limits = limits
        with tempfile.TemporaryFile() as calls:
            if boxed:
                calls.write(_filter())
                calls.seek(0)
            number = calls.fileno()
            self.popen = subprocess.Popen(
                [*_box("--seccomp", str(number)), *python] if boxed else python,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=home,
                # Inherited, not a copy of `os.environ`, which another thread may be changing; bwrap
                # clears it.
                env=None if boxed else SETTINGS | elsewhere,
                start_new_session=True,
                pass_fds=[number] if boxed else [],
            )
        self.pending = b""
        self.taken = 0
        self.looked = 0.0

    def write(self, work: bytes) -> None:
        """Send the work. If the process has ended already, `read` notices it."""
        assert self.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError), self.popen.stdin as stream:
            stream.write(work)

    def read(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message, or None if none comes in time."""
        assert self.popen.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0:
                return None
            if select.select([self.popen.stdout], [], [], min(left, LOOK))[0]:
                chunk = os.read(self.popen.stdout.fileno(), 2**16)
                if not chunk:
                    raise EndedError("a call such as os._exit, a crash, or too much memory")
                self.taken += len(chunk)
                self.pending += chunk
            if self.taken > self.limits.output:
                raise EndedError("its outputs are too large")
            if time.monotonic() > self.looked + LOOK and self.too_large():
                raise EndedError(f"it used more than {self.limits.gigabytes} of memory")
        line, _, self.pending = self.pending.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise EndedError("it wrote into the grader's own messages")
        return message

    def too_large(self) -> bool:
        """Whether all processes together hold more than allowed; shared memory counts once."""
        self.looked = time.monotonic()
        most, processes = self.limits.memory + SHARED, self._all()
        # First RSS, which counts shared memory for each process: quick to read, mostly low enough.
        if sum(_held(process) for process in processes) <= most:
            return False
        return sum(_held(process, exact=True) for process in processes) > most

    def kill(self) -> None:
        """End every process of the box."""
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        with self.popen:  # closes its pipes and waits
            pass

    def _all(self) -> list[psutil.Process]:
        try:
            first = psutil.Process(self.popen.pid)
            return [first, *first.children(recursive=True)]
        except psutil.Error:
            return []


def _held(process: psutil.Process, exact: bool = False) -> int:
    """Bytes that a process holds, shared memory in full or, if exact, in part; 0 if unknown."""
    try:
        return process.memory_full_info().pss if exact else process.memory_info().rss
    except psutil.Error:  # it has ended, or this account may not see it
        return 0


def _package() -> Path:
    """The folder of cgviz, found without importing it, which would import TensorFlow."""
    spec = importlib.util.find_spec("cgviz")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _shown() -> list[Path]:
    """The folders of this machine that a box shows under their own names."""
    return [Path("/usr"), Path(sys.base_prefix), Path(sys.prefix)]


def _filter() -> bytes:
    """A seccomp filter in the binary form that Linux reads: the system calls in `CALLS` fail."""
    architecture, calls = CALLS[platform.machine()]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allowed, denied = (give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | errno.EPERM)
    # Each instruction: its code, how many to skip if it holds and if not, and its operand.
    steps = [(load, 0, 0, 4), (equal, 1, 0, architecture), denied, (load, 0, 0, 0)]
    for call in calls:
        steps += [(equal, 0, 1, call), denied]
    # x86_64 has the same calls a second time, numbered from here on (the x32 ABI).
    steps += [(at_least, 0, 1, 0x40000000), denied, allowed]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _box(*options: str) -> list[str]:
    """The start of a command line, up to `--`: the command put after it runs in a box."""
    command = ["bwrap", *options, "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    if os.getuid() == 0:  # inside.py then becomes a user of its own
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", "1000", "--gid", "1000"]
    binds = [(str(path), str(path)) for path in _shown()]
    binds += [(str(INSIDE), "/box/inside.py"), (str(_package()), "/box/cgviz")]
    for name in SYSTEM:
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.exists(name):
            binds.append((name, name))
    command += ["--proc", "/proc", "--dev", "/dev"]
    # Before the binds: a checkout or an environment may itself be somewhere in /tmp.
    for folder in ("/dev/shm", "/tmp", HOME):
        command += ["--perms", "1777", "--size", str(Limits.disk), "--tmpfs", folder]
    folders = {str(parent) for _, target in binds for parent in Path(target).parents}
    for folder in sorted(folders - {"/", "/tmp"}):
        command += ["--perms", "0755", "--dir", folder]
    for source, target in binds:
        command += ["--ro-bind", source, target]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME]
    settings = SETTINGS | {"HOME": HOME, "PATH": "/usr/bin:/bin", "PYTHONPATH": "/box"}
    for name, value in settings.items():
        command += ["--setenv", name, value]
    return [*command, "--"]
