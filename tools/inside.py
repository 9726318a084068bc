"""The program inside a box: runs the cells of one notebook and reports what came of each.

It reads one JSON object from standard input:

    {"cells": [{"source": str, "probe": str, "fixed": [str]}], "seconds": float, "memory": int,
     "disk": int, "processes": int, "uid": int}

and writes one JSON object per line to standard output: {"ready": true}, or {"failed": error}; then
for each cell

    {"cell": index, "stdout": str, "stderr": str, "shown": [{mime type: str}],
     "error": {"name": str, "value": str} or null, "answers": [...]}

A probe is the part of a hidden test that computes; the answers are the values that it notes, as
plain JSON. Names that are fixed, those of locked cells, have their first value again in each cell
with a probe, and so has what is in a module that a locked cell imports (not in modules below it).

The code of a hand-in runs in this process and can forge every line, so nothing here is trusted: no
expected value is in the box, and the grader compares the answers outside of it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

SHOWN = ("text/plain", "image/png")
"""The forms of an output that a feedback page can show: none that a browser would run."""

MOST_TEXT = 20_000
"""Characters kept of each stream, error and text output of a cell: several screens."""

MOST_IMAGE = 400_000
"""Characters of base64 above which an image is dropped: a Matplotlib figure has about 50,000."""

MOST_IMAGES = 4_000_000
"""Characters of base64 of all images together, half of what a box may report."""

LEFT_OUT = "\n(left out: an image may have 300 kB, and all images of a notebook together 3 MB)"

MOST_SHOWN = 10
"""Outputs kept of a cell."""

AGAIN = 2.0
"""Seconds after which a cell that ignores an interrupt is interrupted again."""


class CellTimeoutError(KeyboardInterrupt):
    """A cell ran too long. A KeyboardInterrupt, so that `except Exception` does not catch it."""


def restrict(work: dict[str, Any]) -> None:
    """Give up root, and set the limits that hold for each process here."""
    if sys.platform == "linux" and os.getuid() == 0 and work["uid"]:
        os.setgroups([])
        os.setgid(work["uid"])
        os.setuid(work["uid"])
    wanted = {
        "RLIMIT_DATA": work["memory"],
        "RLIMIT_FSIZE": work["disk"],
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": work["processes"],
    }
    for name, most in wanted.items():
        if name == "RLIMIT_NPROC" and not work["uid"]:
            continue  # without a box it would count all processes of this account
        resource.setrlimit(getattr(resource, name), (most, most))


def text(path: str) -> str:
    """Return what was written to a file, cut to MOST_TEXT characters, and empty the file."""
    with open(path, "r+b") as file:
        found = file.read(4 * MOST_TEXT).decode("utf-8", "replace")
        file.truncate(0)
    return found[:MOST_TEXT] + ("\n(cut)" if len(found) > MOST_TEXT else "")


def described(error: BaseException | None) -> dict[str, str] | None:
    """An error as plain text, whatever its own `__str__` may raise."""
    if error is None:
        return None
    name = type(error).__name__
    try:
        if isinstance(error, SyntaxError):
            return {"name": name, "value": f"line {error.lineno}: {error.msg}"[:MOST_TEXT]}
        return {"name": name, "value": str(error)[:MOST_TEXT]}
    except BaseException as worse:
        return {"name": name, "value": f"(its text raises {type(worse).__name__})"}


class Cells:
    """A shell that runs cells one after the other."""

    def __init__(self, seconds: float) -> None:
        from IPython.core.displayhook import CapturingDisplayHook
        from IPython.core.displaypub import CapturingDisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        self.seconds = seconds
        self.shell: Any = InteractiveShell.instance(config=config)
        # `%matplotlib inline` calls it, and there are no windows here.
        self.shell.enable_gui = lambda gui=None: None  # type: ignore[method-assign]
        self.shown: list[Any] = []
        self.images = MOST_IMAGES
        self.fixed: dict[str, Any] = {}
        publisher: Any = CapturingDisplayPublisher()
        publisher.outputs = self.shown
        self.shell.display_pub = publisher
        self.shell.display_trap.hook = CapturingDisplayHook(self.shell, self.shown)
        # What a probe needs, even if the hand-in uses these names for something else.
        import numpy
        import tensorflow

        import cgviz
        from cgviz import classroom
        from cgviz.hinting.hints import explain

        self.names = {"np": numpy, "tf": tensorflow, "cgviz": cgviz, "classroom": classroom}
        # Modules that tests use, with all that was in them.
        self.modules = {module: dict(vars(module)) for module in self.names.values()}
        self.answers = classroom.answers
        self.explain = explain
        signal.signal(signal.SIGALRM, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        raise CellTimeoutError(f"this cell was stopped after {self.seconds:g} s")

    def run(self, source: str, probe: str, fixed: list[str]) -> dict[str, Any]:
        """Run a cell, then its probe, whose output is dropped; returns the report."""
        if probe:
            self._put_back()
        self.shown.clear()
        self.answers.clear()
        result: dict[str, Any] = {"answers": []}
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)
            done = self.shell.run_cell(source, store_history=True)
            error = done.error_before_exec or done.error_in_exec
        except BaseException as raised:
            error = raised
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        result |= {"stdout": text(STDOUT), "stderr": text(STDERR), "error": described(error)}
        result["shown"] = [self._kept(output) for output in self.shown[:MOST_SHOWN]]
        names = self.shell.user_ns
        given = {name: names[name] for name in fixed if name in names}
        modules = [each for each in given.values() if isinstance(each, ModuleType)]
        self.modules = {each: dict(vars(each)) for each in modules} | self.modules
        self.fixed |= given
        if probe and isinstance(error, CellTimeoutError):
            result["answers"] = [{"error": described(error)}]  # it would take as long again
        elif probe:
            result["answers"] = self._asked(probe)
            text(STDOUT), text(STDERR)
        return result

    def _put_back(self) -> None:
        self.shell.user_ns.update(self.fixed)
        for module, own in self.modules.items():
            vars(module).update(own)

    def _asked(self, probe: str) -> list[Any]:
        self._put_back()
        self.answers.clear()
        failed = []
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)
            names = {**self.shell.user_ns, **self.names}
            exec(compile(probe, "<hidden test>", "exec"), names)
        except BaseException as error:
            failed = [{"error": described(error), "hint": self._hint(error)}]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return [*self.answers, *failed]

    def _hint(self, error: BaseException) -> str:
        """What to do about an error, as a visible test would say it; "" if that is not known."""
        try:
            hint = self.explain(error) if len(str(error)) <= MOST_TEXT else None
            return hint.fix if hint else ""
        except BaseException:  # `str(error)` may raise anything, or take too long
            return ""

    def _kept(self, output: Any) -> dict[str, str]:
        """The forms of one output that are safe to show."""
        data = output.get("data", {}) if isinstance(output, dict) else output.data
        kept = {mime: str(data[mime]) for mime in SHOWN if mime in data}
        kept["text/plain"] = kept.get("text/plain", "")[:MOST_TEXT]
        size = len(kept.get("image/png", ""))
        if size > min(MOST_IMAGE, self.images):
            del kept["image/png"]
            kept["text/plain"] += LEFT_OUT
        else:
            self.images -= size
        return kept


STDOUT, STDERR = (str(Path.home() / name) for name in (".stdout", ".stderr"))


def main() -> None:
    """Read the work, do it, and end."""
    work = json.load(sys.stdin)
    restrict(work)
    # Results go to what was standard output; what cells print, also from C++, goes to files.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for number, path in ((1, STDOUT), (2, STDERR)):
        opened = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.path[0] = str(Path.cwd())  # not this file's folder

    first = os.getpid()

    def tell(**message: Any) -> None:
        if os.getpid() != first:
            os._exit(0)  # a process that a cell forked, and that ran on to here
        results.write(json.dumps(message) + "\n")
        results.flush()

    gc.disable()  # what is imported stays: searching it for garbage takes a sixth of the start
    try:
        cells = Cells(work["seconds"])
    except BaseException as error:
        tell(failed=described(error))
        raise
    gc.freeze()
    gc.enable()
    tell(ready=True)
    for index, cell in enumerate(work["cells"]):
        tell(cell=index, **cells.run(**cell))
    os._exit(0)  # skips exit handlers that a hand-in may have registered


if __name__ == "__main__":
    main()
