"""Kernels and programs that share one import of TensorFlow, forked from a process that has it.

python tests/forked.py --serve SOCKET     fork kernels until standard input ends
python tests/forked.py -f CONNECTION ...  be a kernel: the kernel spec of the tests starts this
python tests/forked.py PROGRAM ...        run a program, forked likewise
python tests/forked.py [-I] -c CODE ...   run code, forked likewise; other options: plain Python

The process that forks is single-threaded, and has run no op and opened no connection, because
threads, TensorFlow's runtime and connections do not survive a fork. Where no such process answers,
a kernel or program starts as usual.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import shlex
import signal
import socket
import sys
import traceback
import types
from typing import Any, NoReturn

SERVER = "CGVIZ_TEST_FORK_SERVER"  # the environment variable that says where the server listens
SECONDS = 60.0  # that an answer may take: a busy machine imports TensorFlow before the first
HOME = {None, "", "localhost", "127.0.0.1", "0.0.0.0", "::1"}  # hosts that a lesson may reach
PYTHON = "python"  # beside the socket: a script that runs this file, in place of `sys.executable`
MOST = 2**20  # bytes of a request, most of it the environment


def serve(path: str) -> None:
    """Fork a kernel for each connection; import nothing before the first."""
    import selectors

    # Before the imports, at which OpenBLAS starts its threads and Matplotlib reads its backend.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    begun = {*os.environ}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # only its client waits for a kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    del sys.path[0]  # the folder of this file
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    while all(key.fileobj is listener for key, _ in selector.select()):
        connection, _ = listener.accept()
        asked, files, *_ = socket.recv_fds(connection, MOST, 3)
        gc.disable()
        import ipykernel.kernelapp  # noqa: F401
        import matplotlib.pyplot  # noqa: F401
        import tensorflow  # noqa: F401

        gc.freeze()  # no kernel looks for garbage in the imports, which would copy their pages

        # A fork with a second thread could hang; if none is made, the client starts its own kernel.
        if len(os.listdir("/proc/self/task")) == 1 and os.fork() == 0:
            selector.close()
            listener.close()
            be_kernel(connection, files, begun, **json.loads(asked))
        connection.close()
        for file in files:
            os.close(file)
    os._exit(0)  # tearing down TensorFlow would take a second


def be_kernel(
    connection: socket.socket,
    files: list[int],
    begun: set[str],
    args: list[str],
    env: dict[str, str],
    cwd: str,
) -> NoReturn:
    """Be a kernel, or run a program, in this forked process, until it or its client ends."""
    import threading

    import numpy
    from ipykernel import kernelapp

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for name in begun - env.keys():  # what TensorFlow has added stays
        del os.environ[name]
    os.environ.update(env)
    os.chdir(cwd)
    sys.executable = python()  # what it starts is forked, too
    isolated = args[0] == "-I"
    paths = [] if isolated else env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    numpy.random.seed()  # else each fork has the random state of its parent
    gc.enable()
    connection.send(str(os.getpid()).encode())

    end, own = os._exit, os.getpid()

    def end_with_client() -> None:
        connection.recv(1)
        end(1)

    threading.Thread(target=end_with_client, daemon=True).start()
    if args[0] != "-f":

        def tell_and_end(code: int) -> NoReturn:
            if os.getpid() == own:  # else it is a process that the program forked
                connection.send(bytes([code & 255]))
            end(code)

        os._exit = tell_and_end  # a program may call it
        os._exit(run(args[isolated:], isolated))
    sys.addaudithook(refuse_network)
    # With 1, ipykernel does not watch the parent: a kernel must end with its client instead.
    kernelapp.launch_new_instance(["--IPKernelApp.parent_handle=1", *args])
    os._exit(0)


def refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Refuse each host but this machine: a cell of a notebook must not need the network.

    An address that is no tuple is a file's.
    """
    host: object = None
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    if host not in HOME:
        raise PermissionError(f"a lesson must not need the network, and this asks for {host!r}")


def run(args: list[str], isolated: bool) -> int:
    """Run a program, or code, as a new Python would; returns the exit code."""
    if not isolated:
        sys.path.insert(0, "" if args[0] == "-c" else os.path.dirname(os.path.abspath(args[0])))
    try:
        if args[0] == "-c":
            main = types.ModuleType("__main__")
            sys.modules["__main__"], sys.argv = main, ["-c", *args[2:]]
            exec(compile(args[1], "<string>", "exec"), vars(main))
        else:
            sys.argv = args
            runpy.run_path(args[0], run_name="__main__")
        code: object = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code if isinstance(code, int) else 1


def ask(path: str, args: list[str]) -> None:
    """Have a kernel forked, pass signals to it and end with it; return only if none was forked."""
    given = {"args": args, "env": dict(os.environ), "cwd": os.getcwd()}
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(SECONDS)
    try:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(given).encode()], [0, 1, 2])
        kernel = int(connection.recv(32))
    except (OSError, ValueError):  # nobody listens, or nothing was answered
        connection.close()
        return
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: os.kill(kernel, number))
    parent = os.getppid()
    connection.settimeout(1.0)
    while os.getppid() == parent:  # as ipykernel watches its parent
        with contextlib.suppress(TimeoutError):
            told = connection.recv(1)  # a program sends its exit code, a kernel nothing
            sys.exit(told[0] if told else args[0] != "-f")
    sys.exit()


def python() -> str:
    """The path of a Python that is forked, or of this one where no server is set."""
    where = os.environ.get(SERVER)
    return os.path.join(os.path.dirname(where), PYTHON) if where else sys.executable


def printed(program: os.PathLike[str]) -> str:
    """What a program prints in a process of its own, which may have TensorFlow imported already."""
    import subprocess

    return subprocess.check_output([python(), program], text=True)


def said(client: Any, code: str) -> str:
    """What code prints in the kernel of a Jupyter client."""
    words: list[str] = []
    client.execute_interactive(
        code, timeout=60, output_hook=lambda told: words.append(told["content"].get("text") or "")
    )
    return "".join(words)


def peak(client: Any) -> float:
    """The most memory that a kernel has had, in MB, as if it had imported TensorFlow itself.

    Of a file that is mapped, as TensorFlow's code is, Linux counts what a process has touched. Most
    of it a forked kernel leaves to its parent, which imported it, so what the parent has touched is
    added. What both have touched is then counted twice: the answer is a little too large.
    """
    kernel, parent = said(client, "import os; print(os.getpid(), os.getppid())").split()
    found = _kilobytes(kernel, "VmHWM")
    with open(f"/proc/{parent}/cmdline", encoding="utf-8") as file:
        if "--serve" in file.read():
            found += _kilobytes(parent, "RssFile")
    return found * 1024 / 1e6


def _kilobytes(process: str, what: str) -> int:
    with open(f"/proc/{process}/status", encoding="utf-8") as file:
        return int(file.read().partition(f"{what}:")[2].split()[0])


def kernel_spec(folder: str) -> None:
    """Write the kernel spec of the tests and their `PYTHON` into a folder for JUPYTER_PATH."""
    argv = [sys.executable, os.path.abspath(__file__), "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3 (ipykernel)", "language": "python"}
    os.makedirs(f"{folder}/kernels/python3")
    with open(f"{folder}/kernels/python3/kernel.json", "w", encoding="utf-8") as file:
        json.dump(spec | {"metadata": {"debugger": True}}, file)
    with open(f"{folder}/{PYTHON}", "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(argv[:2])} "$@"\n')
    os.chmod(f"{folder}/{PYTHON}", 0o755)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        kind = sys.argv[2] if sys.argv[1] == "-I" else sys.argv[1]
        if kind in ("-f", "-c") or not kind.startswith("-"):
            ask(os.environ.get(SERVER, ""), sys.argv[1:])
        what = ["-m", "ipykernel_launcher"] if sys.argv[1] == "-f" else []
        os.execv(sys.executable, [sys.executable, *what, *sys.argv[1:]])
