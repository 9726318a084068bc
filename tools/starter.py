"""A process that has imported TensorFlow, and is forked into the boxes of hand-ins.

The import takes 3 s of a processor, most of what a right hand-in takes. Here it is done once.
Bubblewrap makes each box as always, around a program that only waits. A fork of this process joins
the box, gives up what bubblewrap takes from what it starts, and runs inside.py. Where something of
this fails the fork ends, and box.py starts inside.py in the box itself.

Standard input is a socket. Each message is a request, with two files, the standard input and output
of the fork:

    {"box": the process that waits in the box, "home": str, "settings": {name: value},
     "keep": [number of a capability], "calls": the filter of system calls in hex}

This process has run no op and no code of a hand-in, holds no secret, and has one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from typing import NoReturn

MOST = 2**16
"""Bytes of a request: its settings and its filter have about 2,000."""

SPACES = ("cgroup", "ipc", "uts", "net", "pid", "mnt")
"""The namespaces of a box beside that of its users. That of its files is joined last."""

USERS_PARENT = 0xB702
"""NS_GET_PARENT in Linux: in which namespace of users another one was made."""

NO_NEW_PRIVILEGES, SECCOMP, DROP_BOUND = 38, 22, 24
"""PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP and PR_CAPBSET_DROP in Linux."""

CAPABILITIES = 0x20080522
"""The form in which capabilities are set here: _LINUX_CAPABILITY_VERSION_3."""

LINUX = ctypes.CDLL(None, use_errno=True)


def must(result: int) -> None:
    """Raise the error of a call of Linux that has failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def join(box: int) -> None:
    """Enter the namespaces of a process; that of processes holds for the next fork."""
    spaces = [os.open(f"/proc/{box}/ns/{name}", os.O_RDONLY) for name in SPACES]
    users = os.open(f"/proc/{box}/ns/user", os.O_RDONLY)
    here = os.open("/proc/self/ns/user", os.O_RDONLY)
    if not os.path.sameopenfile(users, here):
        # Bubblewrap makes a second one in the first, which owns the other namespaces.
        first = fcntl.ioctl(users, USERS_PARENT)
        spaces = [users, *spaces] if os.path.sameopenfile(first, here) else [first, *spaces, users]
    for space in spaces:
        must(LINUX.setns(space, 0))


def give_up(keep: list[int], calls: bytes) -> None:
    """Keep these capabilities at most, get no other, and fail in the calls of the filter."""
    for number in range(64):
        if number not in keep:
            LINUX.prctl(DROP_BOUND, number, 0, 0, 0)  # fails from the first that Linux has not
    held = sum(1 << number for number in keep)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
    sets = (ctypes.c_uint32 * 6)(held, held, 0, 0, 0, 0)  # effective, permitted, inheritable
    must(LINUX.capset(header, sets))
    must(LINUX.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    must(LINUX.prctl(SECCOMP, 2, ctypes.byref(Program(len(calls) // 8, calls)), 0, 0))


def enter(
    files: list[int],
    box: int,
    home: str,
    settings: dict[str, str],
    keep: list[int],
    calls: str,
) -> NoReturn:
    """Be what inside.py is in a box. This process was forked for it."""
    join(box)
    if first := os.fork():  # which is in the box
        with contextlib.suppress(ChildProcessError):
            os.waitpid(first, 0)
        os._exit(0)
    if os.fork():  # a child of the first process of the box
        os._exit(0)
    os.setsid()
    for each in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate([*files, os.open(os.devnull, os.O_WRONLY)]):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    give_up(keep, bytes.fromhex(calls))
    os.environ.update(settings)  # what TensorFlow has added stays
    os.chdir(home)
    sys.argv[:] = ["/box/inside.py"]
    sys.path[:1] = ["/box", "/box"]  # the folder of the program, and PYTHONPATH
    import numpy

    numpy.random.seed()  # a fork has its parent's
    import inside

    inside.main()
    os._exit(0)


def main() -> None:
    """Import, then fork for each request until there is nobody who could ask."""
    requests = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["HOME"] = tempfile.mkdtemp()  # Keras and Matplotlib write to it
    import IPython.core.interactiveshell  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import tensorflow  # noqa: F401

    shutil.rmtree(os.environ["HOME"])
    while True:
        asked, files, *_ = socket.recv_fds(requests, MOST, 2)
        if not asked:
            return
        # Of a process with two threads a fork may hang.
        if len(os.listdir("/proc/self/task")) == 1 and os.fork() == 0:
            with contextlib.suppress(BaseException):
                enter(files, **json.loads(asked))
            os._exit(1)
        for file in files:
            os.close(file)


if __name__ == "__main__":
    main()
