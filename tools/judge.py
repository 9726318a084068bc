"""Grade one hand-in: run it in a box, compare what it computes, give points and say why.

read_exercise   an exercise, with the numbers that its solution computes
grade           a hand-in and an exercise -> a result

The code of a hand-in only computes: it runs in a box (box.py) that holds no expected value, and
numbers come out. Here they are compared with those that the solution computed in a box of its own,
at the same inputs. A cell with tests gets its points if all of its answers are right.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import box
import page
from box import Limits
from handin import Cell, UnreadableError, merge

TOLERANCE = {"float16": 1e-2, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-9}
"""Allowed relative error by dtype, the same as in the visible tests."""

PLAIN = (1e-4, 1e-9)
"""Allowed relative and absolute error of a prediction: four digits count."""

KINDS = {bool: "True or False", str: "a word", list: "a list"}
"""What an entry of a prediction is called, if it is no number."""

STRANGE = {"nan": "NaN", "inf": "∞", "-inf": "−∞"}
"""Numbers that are named where they are wrong."""

AGAIN = (
    "Open your notebook in JupyterLab; if that fails, take the last checkpoint (File, Revert "
    "Notebook to Checkpoint). Save it, and hand in that one file again."
)


@dataclass(frozen=True)
class Exercise:
    """What hand-ins of one exercise are compared with."""

    name: str
    cells: tuple[Cell, ...]  # as students got them, with their probes
    expected: dict[str, list[Any]]  # by the name of a cell with tests: the solution's answers
    answers: dict[str, str]  # by the name of an answer cell: the solution's code, as `_bare` has it

    @property
    def points(self) -> float:
        """The points of a hand-in that is right throughout."""
        return sum(cell.points for cell in self.cells)


@dataclass(frozen=True)
class Mark:
    """The points of one cell with tests, and the reason if they are not all."""

    points: float
    of: float
    why: str


@dataclass
class Result:
    """One hand-in, graded."""

    points: float
    of: float
    noticed: list[str]
    marks: dict[str, Mark] = field(default_factory=dict)
    page: str = ""  # feedback for the student, in HTML
    cells: list[Cell] = field(default_factory=list)  # what was run


def read_exercise(path: Path, limits: Limits | None = None, boxed: bool = True) -> Exercise:
    """Read an exercise, and run its solution.

    Args:
        path: The notebook with the solution.
        limits: What the solution may use.
        boxed: Whether it runs in a box.

    Raises:
        ValueError: The solution does not run to its end, or fails in its own tests.
    """
    import exercises  # here, for it imports nbgrader, which workers that only grade do not need

    given, solved = exercises.cells(path)
    reports, ended = box.run(_work(solved), limits or Limits(), boxed)
    if ended:
        raise ValueError(f"The solution of {path.stem} did not run to its end: {ended}.")
    expected = {}
    for cell, report in zip(solved, reports, strict=True):
        if cell.role == "tests":
            expected[cell.name] = report["answers"]
            wrong = [a["error"] for a in report["answers"] if "error" in a]
            if wrong or not report["answers"]:
                raise ValueError(f"The solution of {path.stem} fails in '{cell.name}': {wrong}")
    answers = {cell.name: _bare(cell.source) for cell in solved if cell.role == "answer"}
    return Exercise(path.stem, given, expected, answers)


def grade(
    notebook: bytes | UnreadableError,
    exercise: Exercise,
    limits: Limits | None = None,
    boxed: bool = True,
    reveal: bool = False,
) -> Result:
    """Grade one hand-in. The result depends on the arguments alone, and nothing is left behind.

    Args:
        notebook: The content of the file, or why there is none.
        exercise: From `read_exercise`.
        limits: What the hand-in may use.
        boxed: Whether it runs in a box; without one its code can read and change your files.
        reveal: Whether the page shows the hidden tests, with the numbers that they expect.
    """
    limits = limits or Limits()
    try:
        if isinstance(notebook, UnreadableError):
            raise notebook
        cells, noticed = merge(notebook, exercise.cells)
    except UnreadableError as error:
        noticed = [f"{error}. {AGAIN}"]
        tests = [cell for cell in exercise.cells if cell.role == "tests"]
        marks = {cell.name: Mark(0.0, cell.points, f"{error}.") for cell in tests}
        return _result(exercise, [], [], marks, noticed, reveal)
    code = [cell for cell in cells if cell.kind == "code"]
    reports, ended = box.run(_work(code), limits, boxed)
    if ended:
        ended = f"{_place(code, len(reports))} ended the run ({ended})"
        noticed.append(f"{_capital(ended)}.")
    marks = {}
    for number, cell in enumerate(code):
        report = reports[number] if number < len(reports) else None
        noticed += _unusual(_place(code, number), report, limits)
        if cell.role != "tests":
            continue
        why = f"not run, because {ended}"
        if report is not None:
            # A cell that is as it was handed out is not the student's, whatever stands in it.
            before = [c.source for c in code[:number] if c not in exercise.cells]
            sources = re.sub(r"#.*", "", "\n".join(before))
            why = judged(report.get("answers"), exercise.expected[cell.name], sources, reveal)
        marks[cell.name] = Mark(0.0 if why else cell.points, cell.points, why)
    result = _result(exercise, cells, reports, marks, noticed, reveal)
    result.noticed += _copied(cells, exercise)  # for the teacher: the page is written
    return result


def judged(given: Any, wanted: list[Any], sources: str, reveal: bool = False) -> str:
    """Return what is wrong with the answers of a cell, or "" if nothing is.

    Args:
        given: The answers that the hand-in reports, which may be any JSON value.
        wanted: The solution's answers.
        sources: The student's code before the tests, which must contain a custom gradient where
            one is asked for.
        reveal: Whether to show the numbers.
    """
    given = given if isinstance(given, list) else []
    for number, want in enumerate(wanted):
        got = given[number] if number < len(given) else None
        if not isinstance(got, dict):
            return "the tests did not run to their end"
        if isinstance(error := got.get("error"), dict):
            return _raised(error, got.get("hint"))
        if why := _wrong(got, want, reveal):
            return why
        # The reports can claim anything, but cannot change the code that was handed in.
        if want.get("custom") and not re.search(r"\bcustom_gradient\b", sources):
            return f"{want['at']}: there is no custom gradient. Keep @tf.custom_gradient"
    return ""


def _raised(error: dict[str, Any], hint: Any) -> str:
    """An error in one line, with what to do about it."""
    name, told = str(error.get("name")), str(error.get("value"))
    value = _text(_telling(told))
    if name == "NotYetError":
        return f"not yet: {value}"
    if name == "AssertionError" and value:  # a sentence already: of `cgviz.classroom`, or their own
        return value
    words = value if value.startswith(f"{name}:") else f"{_text(name)}: {value}"
    if words.endswith("but returned 1 instead."):  # which may be the None of a rule without any
        words += " Does the rule `return`?"
    end = "" if words.endswith((".", "?", "!")) else "."
    return f"{words}{end} {_text(hint, 400)}" if hint else words


def _telling(message: str) -> str:
    """The message of an error in a graph, without the files and lines that TensorFlow puts first.

    These are the grader's, too; and only what follows them says what is wrong.
    """
    lines = message.splitlines()
    frames = [number for number, line in enumerate(lines) if line.lstrip().startswith('File "')]
    if not frames:
        return message
    rest = "\n".join(lines[frames[-1] + 1 :])
    return rest.partition("\n\n")[2] or rest.partition("\n")[2] or lines[0]


def _work(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The cells in the form in which a box gets them."""
    return [{"source": c.source, "probe": c.probe, "fixed": sorted(c.fixed)} for c in cells]


def _bare(source: str) -> str:
    """Code without the marks of a solution, and without spaces."""
    return "".join(re.sub(r"### (BEGIN|END) SOLUTION", "", source).split())


def _copied(cells: list[Cell], exercise: Exercise) -> list[str]:
    """The notice of a hand-in whose answers are those of the solution."""
    if any("### BEGIN SOLUTION" in cell.source for cell in cells):
        return ["`### BEGIN SOLUTION` is in it, a mark of the teacher's notebooks."]
    answers = {cell.name: _bare(cell.source) for cell in cells if cell.role == "answer"}
    same = answers == exercise.answers
    return ["Every answer is that of the solution, letter for letter."] if same else []


def _wrong(got: dict[str, Any], want: dict[str, Any], reveal: bool) -> str:
    """Return what is wrong with one answer, or "" if nothing is."""
    if "plain" in want:
        right, count = _right(got.get("plain"), want["plain"]), _count(want["plain"])
        if right == count:
            return ""
        shown = f" It is {_text(got.get('plain'))}, and should be {want['plain']}" * reveal
        words = f"{right} of {count} are right" if count > 1 else "it is wrong"
        if want.get("at") and count > 1 and isinstance(got.get("plain"), list):
            pairs = enumerate(zip(got["plain"], want["plain"], strict=False), start=1)
            off = [str(n) for n, (one, other) in pairs if _right(one, other) < _count(other)]
            words = f"{want['at']}: {words}; wrong: {', '.join(off)}"
        return (_misfit(got.get("plain"), want["plain"]) or words) + shown
    if want.get("custom") and got.get("custom") is not True:
        return f"{want['at']}: there is no custom gradient. Keep @tf.custom_gradient"
    for way, words in (("", ""), ("graph", " in a tf.function")):
        mine = got.get(way) if way else got
        ours = want.get(way) if way else want
        if ours is None:
            continue
        mine = mine if isinstance(mine, dict) else {}
        names = {
            "value": ["the value"] * len(ours.get("value", [])),
            "gradients": [f"the gradient of {each}" for each in want.get("of", [])],
        }
        for part, each in names.items():
            if part in ours and (why := _unlike(mine.get(part), ours[part], each, reveal)):
                return f"{want['at']}{words}: {why}"
    return ""


def _unlike(got: Any, want: list[Any], names: list[str], reveal: bool) -> str:
    got = got if isinstance(got, list) else []
    if len(got) != len(want):
        return f"{len(got)} come back, and there should be {len(want)}"
    for mine, ours, which in zip(got, want, names, strict=True):
        if mine is None or ours is None:
            if mine is not ours:
                return f"{which} is None" if mine is None else f"{which} should be None"
            continue
        mine = mine if isinstance(mine, dict) else {}
        for part in ("shape", "dtype"):
            if mine.get(part) != ours[part]:
                return f"{which} has the {part} {_text(mine.get(part))}, and not {ours[part]}"
        give = TOLERANCE.get(ours["dtype"], 1e-9)
        data = mine.get("data")
        if not isinstance(data, list) or len(data) != len(ours["data"]):
            return f"{which} is no list of numbers"
        # Beside a larger number the last digits of a smaller one are rounding.
        sizes = [abs(b) for b in ours["data"] if math.isfinite(b)]
        near = give * min(max([1e-5, *sizes]), 1.0)
        pairs = zip(data, ours["data"], strict=True)
        if off := {str(a) for a, b in pairs if not _close(a, b, give, near)}:
            words = next((STRANGE[number] for number in STRANGE if number in off), "wrong")
            shown = f": it is {_text(data)}, and should be {_text(ours['data'])}" * reveal
            return f"{which} is {words}{shown}"
    return ""


def _close(one: Any, other: Any, relative: float, absolute: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    with contextlib.suppress(OverflowError):  # an integer may be too large for a float
        one, other = float(one), float(other)
        same = one == other or (math.isnan(one) and math.isnan(other))
        return same or abs(one - other) <= absolute + relative * abs(other) < math.inf
    return False


def _misfit(got: Any, want: Any) -> str:
    """Say that the number of entries is wrong, or the kind of one; "" if neither is."""
    given, wanted = (each if isinstance(each, list) else [each] for each in (got, want))
    if len(given) != len(wanted):
        text = given and isinstance(given[0], str) and not isinstance(got, list)
        words = f"entries asked for: {len(wanted)}, given: {len(given)}"
        return f"{words}. Write a list in [ ]" if text else words
    kinds = {KINDS.get(type(each), "a number") for each in wanted if each is not None}
    odd = [
        each
        for each in given
        if each == "None" or (each is not None and KINDS.get(type(each), "a number") not in kinds)
    ]
    if not odd:
        return ""
    due = " or ".join(sorted(kinds)) or "None"
    quoted = odd[0] in ("None", "True", "False")
    words = f"{due} is asked for, here is {_text(repr(odd[0]))}"
    return f"{words}. Write it without quotes" if quoted else words


def _count(want: Any) -> int:
    return sum(map(_count, want)) if isinstance(want, list) else 1


def _right(got: Any, want: Any) -> int:
    """How many entries are right; a list of another length has none."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return 0
        return sum(_right(a, b) for a, b in zip(got, want, strict=True))
    if want is None or isinstance(want, str):
        return int(type(got) is type(want) and got == want)
    return int(_close(got, want, *PLAIN))


def _unusual(place: str, report: dict[str, Any] | None, limits: Limits) -> list[str]:
    """The notice of an error that matters beyond its cell: of time, of memory or of syntax."""
    error = (report or {}).get("error")
    if not isinstance(error, dict):
        return []
    name, start = error.get("name"), _capital(place)
    if name == "CellTimeoutError":
        return [f"{start} was stopped after {limits.seconds:g} s. Is there an endless loop?"]
    if name == "MemoryError":
        return [f"{start} asked for more than {limits.gigabytes} of memory."]
    if name in ("SyntaxError", "IndentationError", "TabError"):
        return [
            f"{start} has a syntax error in {_text(error.get('value'))}. Python ran nothing of "
            "this cell; the others were graded. Run it in JupyterLab to see where."
        ]
    return []


def _place(code: list[Cell], number: int) -> str:
    if number >= len(code):
        return "the end of the notebook"
    return f"cell '{code[number].name}'" if code[number].name else f"code cell {number + 1}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _text(thing: Any, most: int = 200) -> str:
    """Anything that a hand-in reports, as one line cut at 200 characters, or as many as said."""
    line = " ".join(str(thing).split())
    return line[:most] + ("..." if len(line) > most else "")


def _result(
    exercise: Exercise,
    cells: list[Cell],
    reports: list[dict[str, Any]],
    marks: dict[str, Mark],
    noticed: list[str],
    reveal: bool,
) -> Result:
    points = sum(mark.points for mark in marks.values())
    result = Result(points, exercise.points, noticed, marks, "", cells)
    result.page = page.feedback(exercise.name, result, reports, reveal)
    return result
