"""Read what a student has handed in, within limits, and bring it into the form of the exercise.

find    reads the notebook to grade from a student's folder
merge   the cells to run: each cell of the exercise once, and the cells that the student has added

Students delete cells, retype them, choose another kernel, or hand in last year's version, a file
that is no notebook, or a link to somebody else's. The student is told what to do about each.
Only the answers in the exercise's own cells are taken from the hand-in; everything else about these
cells, tags and tests included, comes from the exercise.
"""

from __future__ import annotations

import json
import os
import re
import stat
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

MOST_FILES = 1000
"""The most files in one hand-in: an exercise is one notebook."""

MOST_BYTES = 20 * 2**20
"""The most bytes of a notebook: with its figures an exercise has less than one million."""

MOST_CELLS = 400
"""The most cells of a notebook: an exercise has about 20."""

MOST_SOURCE = 10**6
"""The most characters in all cells of a notebook: an exercise has fewer than 10,000."""

KERNEL = "python3"

UTF_16 = "text in UTF-16, as some editors save it: save it as UTF-8"
BEGINNINGS = {
    b"%PDF": "a PDF",
    b"PK": "a zip file, or a document of a word processor",
    b"\x1f\x8b": "a compressed file",
    b"Rar!": "a compressed file",
    b"7z\xbc\xaf": "a compressed file",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"<": "a web page",
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff", b"{\x00", b"\x00{"), UTF_16),
}
"""What a file is that begins so, and is handed in as a notebook."""

LOST = {
    "retyped": (
        "The answer cell {} had been retyped as a new cell. It was found by what it defines, and "
        "graded.",
        "The answer cells {} had been retyped as new cells. They were found by what they define, "
        "and graded.",
    ),
    "elsewhere": (
        "The answer cell {} is missing. What it defines was found in another cell, and graded.",
        "The answer cells {} are missing. What they define was found in another cell, and graded.",
    ),
    "gone": (
        "The answer cell {} is missing, so it has no points. If you wrote the answer elsewhere, "
        "copy it into that cell of a new notebook, and hand in again.",
        "The answer cells {} are missing, so they have no points. If you wrote the answers "
        "elsewhere, copy them into these cells of a new notebook, and hand in again.",
    ),
    "back": (
        "The cell {} was deleted, and has been put back.",
        "The cells {} were deleted, and have been put back.",
    ),
}
"""What is said of cells that a notebook has lost, of one and of several."""


@dataclass(frozen=True)
class Cell:
    """A cell, as far as grading needs it.

    A cell without a name is the student's own, unless it is unchanged prose of the exercise.
    """

    kind: str  # "code" or "markdown"
    source: str
    name: str = ""  # nbgrader's grade_id
    role: str = ""  # "answer", "locked", "tests" or "prose"
    points: float = 0.0
    checksum: str = ""  # tells one version of the exercise from another
    probe: str = ""  # in a cell with tests: the code that computes the answers to compare

    @property
    def fixed(self) -> set[str]:
        """What a locked cell defines or imports; tests use these names as they were given out."""
        given = self.role == "locked" and self.kind == "code"
        return {*_defined(self.source), *_imported(self.source)} if given else set()


class UnreadableError(Exception):
    """There is no notebook that can be graded. The text says why, without a full stop."""


def find(folder: Path, name: str) -> tuple[bytes, list[str]]:
    """Read the notebook of a folder: the one with the right name, or else the newest.

    Args:
        folder: The folder that one student has handed in for one exercise.
        name: The right name of the file.

    Returns:
        The content of the file, and what was noticed.

    Raises:
        UnreadableError: There is no notebook, it is no regular file or too large, or there are too
            many files.
    """
    if not all(stat.S_ISDIR(path.lstat().st_mode) for path in (folder.parent, folder)):
        raise UnreadableError("The hand-in is a file or a link, and no folder")
    found, links = [], []
    for path in _files(folder):
        if ".ipynb" not in path.name.lower():  # browsers add `.txt`
            continue
        try:
            info = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            found.append((path, info.st_mtime))
        else:
            links.append(path)
    if not found and links:
        words = f"'{_shown(links[0].relative_to(folder))}' is a link or no regular file"
        raise UnreadableError(f"{words}, and was not read")
    if not found:
        raise UnreadableError("No notebook was handed in")
    wanted = folder / name
    chosen = max(found, key=lambda one: (one[0] == wanted, one[1], one[0]))[0]
    what = _shown(chosen.relative_to(folder))
    notices = []
    if len(found) > 1:
        names = ", ".join(sorted(f"'{_shown(p.relative_to(folder))}'" for p, _ in found[:9]))
        notices = [
            f"{len(found)} notebooks were handed in: {names}. '{what}' was graded. If another one "
            "is yours, hand in that one alone."
        ]
    elif chosen != wanted:
        notices = [f"The file is named '{what}' and not '{name}'. It was graded."]
    return _content(chosen), notices


def merge(data: bytes, exercise: tuple[Cell, ...]) -> tuple[list[Cell], list[str]]:
    """Return the cells to run, and what was noticed.

    Args:
        data: A notebook as it was handed in.
        exercise: The cells of the exercise, as students got them, with their probes.

    Raises:
        UnreadableError: The data is no notebook, or too large.
    """
    notebook = _parsed(data)
    known = {cell.name: cell for cell in exercise if cell.name}
    prose = {cell.source: cell for cell in exercise if cell.role == "prose"}
    notices = _kernel(notebook)
    cells, more = _named(notebook["cells"], known)
    cells = [cell if cell.name else prose.get(cell.source, cell) for cell in cells]
    moved = _moved(cells, list(known))
    cells, copies = _once(cells)
    notices += [*more, *moved, *copies]
    there = {cell.name for cell in cells}
    lost = [_put_back(cells, known[name], list(known)[:i]) for i, name in enumerate(known)]
    notices += _lost([each for each in lost if each[0]], len(known))
    notices += _below(cells, exercise, there if moved else set())
    return cells, [*notices, *_redefined(cells)]


def _files(folder: Path) -> list[Path]:
    """The files and links in a folder; no link is followed."""
    paths: list[Path] = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - {".ipynb_checkpoints"})
        paths += [Path(root, file) for file in (*files, *folders)]
        if len(paths) > MOST_FILES:
            raise UnreadableError(f"More than {MOST_FILES} files were handed in")
    return [path for path in paths if path.is_symlink() or not path.is_dir()]


def _content(path: Path) -> bytes:
    # The file may have been replaced meanwhile: a pipe must not block, nor a link be followed.
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableError(f"The file cannot be read ({error.strerror})") from error
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise UnreadableError("The file is no regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"The file is larger than {MOST_BYTES // 2**20} MB")
    return data


def _shown(name: object) -> str:
    """A name as one printable line of at most 120 characters."""
    return "".join(c if c.isprintable() else "?" for c in str(name))[:120]


def _parsed(data: bytes) -> dict[str, Any]:
    why = "The file is no notebook that can be read"
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{why} ({_what(data, error)})") from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise UnreadableError(f"{why} (it has no 'cells'; the format before 4 had none)")
    cells = [_raw(cell) for cell in notebook["cells"][: MOST_CELLS + 1]]
    if len(cells) > MOST_CELLS:
        raise UnreadableError(f"The notebook has more than {MOST_CELLS} cells")
    if sum(len(source) for _, source, _ in cells) > MOST_SOURCE:
        raise UnreadableError(f"The notebook has more than {MOST_SOURCE} characters of code")
    return {"cells": cells, "metadata": notebook.get("metadata")}


def _what(data: bytes, error: Exception) -> str:
    """What a file is that is no notebook, by its first bytes; else what is wrong with it."""
    start = data.removeprefix(BOM_UTF8).lstrip()[:8]
    for beginning, kind in BEGINNINGS.items():
        if start.startswith(beginning):
            return f"it is {kind}"
    if not start:
        return "it is empty"
    return "it is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else _shown(error)


def _raw(cell: Any) -> tuple[str, str, dict[str, Any]]:
    """The kind, the source and nbgrader's metadata of a cell, which may be any JSON value."""
    cell = cell if isinstance(cell, dict) else {}
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    marks = _within(cell, "metadata", "nbgrader")
    # A lone surrogate cannot be written to any file; the end of a line is no change of it.
    source = source.encode("utf-8", "replace").decode() if isinstance(source, str) else ""
    source = source.replace("\r\n", "\n")
    return ("code" if cell.get("cell_type") == "code" else "markdown", source, marks)


def _within(thing: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing if isinstance(thing, dict) else {}


def _kernel(notebook: dict[str, Any]) -> list[str]:
    name = _within(notebook, "metadata", "kernelspec").get("name", KERNEL)
    if name == KERNEL:
        return []
    return [
        f"The notebook asks for the kernel '{_shown(name)}', which is not there. It was graded "
        f"with '{KERNEL}'. Choose that one: Kernel, Change Kernel."
    ]


def _named(
    raw: list[tuple[str, str, dict[str, Any]]], known: dict[str, Cell]
) -> tuple[list[Cell], list[str]]:
    """Take known cells from the exercise, with the student's answers; returns also the notices."""
    cells, text, other, edited = [], [], [], []
    for kind, source, marks in raw:
        name = str(marks.get("grade_id", ""))
        if name not in known:
            cells.append(Cell(kind, source))
            if name:
                other.append(_shown(name))
            continue
        cell = known[name]
        if marks.get("checksum") != cell.checksum:
            other.append(name)
        elif cell.role != "answer" and source != cell.source:
            edited.append(name)
        if kind != cell.kind:
            text.append(name)
        cells.append(replace(cell, source=source) if cell.role == "answer" else cell)
    strange = ", ".join([name for name in other if name not in known][:9])
    if strange and not any(cell.role in ("answer", "tests") for cell in cells):
        raise UnreadableError(f"The notebook belongs to another exercise ({strange})")
    notices = []
    if strange and all(name not in known for name in other):
        notices.append(
            f"Some cells are not of this exercise ({strange}). They were run as cells of your own."
        )
    elif other:
        notices.append(
            f"This is another version of the exercises ({', '.join(sorted({*other})[:9])}). It was "
            "graded with the current one. If a task has changed, get the new notebook and copy "
            "your answers into it."
        )
    if edited:
        notices.append(
            f"Locked cells were changed ({', '.join(edited[:9])}). They were graded as they were "
            "given out. Write your code in the answer cells, or in cells that you add."
        )
    notices += [
        f"The cell '{name}' had been turned into text. It was run as code." for name in text[:9]
    ]
    return cells, notices


def _moved(cells: list[Cell], known: list[str]) -> list[str]:
    """The notice of cells in another order than that of the exercise."""
    places: dict[str, int] = {}  # of copies, that of the first; of tests, that of the last
    for place, cell in enumerate(cells):
        if cell.name and (cell.role == "tests" or cell.name not in places):
            places[cell.name] = place
    names = sorted(places, key=places.__getitem__)
    due = [name for name in known if name in places]
    for name, other in zip(names, due, strict=True):
        if name != other:
            return [
                f"Cells were moved: '{name}' is above '{other}'. All were run from top to bottom, "
                "so an answer below its tests has no points."
            ]
    return []


def _once(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    """Keep the name of a copied cell in its last copy only; returns also the notices."""
    count = Counter(cell.name for cell in cells if cell.name)
    left = count.copy()
    kept = []
    for cell in cells:
        left[cell.name] -= 1
        if cell.name and left[cell.name]:
            locked = cell.role == "locked"  # what it defines is fixed from its first copy on
            cell = replace(cell, name="") if locked else Cell(cell.kind, cell.source)
        kept.append(cell)
    return kept, [
        f"The cell '{name}' is there {times} times. All of them were run in their order. Of an "
        "answer the last one before the tests counts. Delete the others."
        for name, times in count.items()
        if times > 1
    ]


def _put_back(cells: list[Cell], wanted: Cell, before: list[str]) -> tuple[str, str]:
    """Put a cell of the exercise back if the notebook has lost it; returns a key of `LOST`."""
    name = wanted.name
    if any(cell.name == name for cell in cells):
        return "", name
    if wanted.role == "answer" and (place := _retyped(cells, wanted)) is not None:
        cells[place] = replace(wanted, source=cells[place].source)
        return "retyped", name
    places = [i for i, cell in enumerate(cells) if cell.name in before]
    names = _defined(wanted.source) if wanted.role == "answer" else set()
    written = {each for cell in _own(cells) for each in _defined(cell.source)}
    elsewhere = bool(names) and names <= written
    # In place of an answer that is in another's cell, an empty one: its `...` would replace it.
    back = replace(wanted, source="") if elsewhere else wanted
    cells.insert(max(places, default=-1) + 1, back)
    return ("elsewhere" if elsewhere else "gone" if wanted.role == "answer" else "back"), name


def _lost(lost: list[tuple[str, str]], count: int) -> list[str]:
    """A sentence for each way in which cells were lost; only one if all of `count` are gone."""
    if len(lost) == count and {kind for kind, _ in lost} == {"gone", "back"}:
        return [
            "No cell of the exercise is left in the notebook, and no answer was found, so it has "
            "no points. If you wrote the answers elsewhere, copy them into a new notebook of this "
            "exercise, and hand in again."
        ]
    found = {kind: [name for each, name in lost if each == kind] for kind in LOST}
    return [
        words[len(found[kind]) > 1].format(", ".join(f"'{name}'" for name in found[kind]))
        for kind, words in LOST.items()
        if found[kind]
    ]


def _below(cells: list[Cell], exercise: tuple[Cell, ...], named: set[str]) -> list[str]:
    """The notices of answers that stand below their tests, and nowhere above them.

    Args:
        cells: The cells to run.
        exercise: The cells of the exercise.
        named: Cells of the exercise that were handed in, where their order has a notice already.
    """
    stubs = {_bare(cell.source) for cell in exercise if cell.role == "answer"}
    own = [cell for cell in _own(cells) if _bare(cell.source) not in stubs]
    code = [cell for cell in cells if cell.kind == "code"]
    graded = [cell for cell in exercise if cell.role in ("answer", "tests")]
    notices = []
    for answer, tests in pairwise(graded):
        names = _defined(answer.source)
        if answer.role != "answer" or tests.role != "tests" or not names:
            continue
        first = next(i for i, cell in enumerate(code) if cell.name == tests.name)
        found = [i for i, c in enumerate(code) if c in own and names <= _defined(c.source)]
        if not found or found[0] < first:
            continue
        place, what = found[0], ", ".join(sorted(names))
        if code[place].name not in {answer.name} & named:
            notices.append(
                f"An answer for {what} stands in code cell {place + 1}, below its tests "
                f"('{tests.name}'), and there is none above them. All cells were run from top to "
                f"bottom, so it has no points. Move it into the answer cell '{answer.name}', and "
                "hand in again."
            )
    return notices


def _retyped(cells: list[Cell], wanted: Cell) -> int | None:
    names = _defined(wanted.source)
    for place in reversed(range(len(cells))):
        cell = cells[place]
        if cell.kind == "code" and not cell.name and names and names <= _defined(cell.source):
            return place
    return None


def _own(cells: list[Cell]) -> list[Cell]:
    """The cells with the student's own code; a copy of a locked cell is none."""
    given = {cell.source for cell in cells if cell.role in ("locked", "tests")}
    written = [cell for cell in cells if cell.kind == "code" and cell.role in ("", "answer")]
    return [cell for cell in written if cell.source not in given]


def _redefined(cells: list[Cell]) -> list[str]:
    """The notice of names that locked cells define or import, and the student's code as well.

    To import the same again is no other definition.
    """
    fixed = {name for cell in cells for name in cell.fixed}
    ours = {pair for cell in cells if cell.fixed for pair in _imported(cell.source).items()}
    own = [cell.source for cell in _own(cells)]
    imported = {pair for source in own for pair in _imported(source).items()}
    again = {name for source in own for name in _defined(source)}
    again = fixed & (again | {name for name, _ in imported - ours})
    if not again:
        return []
    return [
        f"Your code defines {', '.join(sorted(again)[:9])}, which a locked cell defines already. "
        "The tests used the locked cell's. Choose another name."
    ]


def _bare(source: str) -> str:
    """Code without comments and spaces."""
    return "".join(re.sub(r"#.*", "", source).split())


def _defined(source: str) -> set[str]:
    """The names that a cell defines at its top level. No parser: a hand-in could make one hang."""
    functions = re.findall(r"^(?:async def|def|class) (\w+)", source, re.MULTILINE)
    names = r"^(\w[\w, ]{0,200}(?:=(?!=)[\w, ]{1,200}){0,9})(?::[^=\n]{1,200})?=(?!=)"
    found = re.findall(names, source, re.MULTILINE)
    return {*functions, *(name.strip() for each in found for name in re.split("[,=]", each))}


def _imported(source: str) -> dict[str, str]:
    """The names that a cell imports at its top level, each with what it stands for."""
    found = {}
    kind = r"^(?:from ([\w.]{1,200}) )?import (?:\(([^()]{1,999})\)|([^\n;(]{1,999}))"
    source = re.sub(r"#.*", "", source).replace("\\\n", " ")
    for module, *lists in re.findall(kind, source, re.MULTILINE):
        for part in "".join(lists).split(","):
            match part.split():
                case [what, "as", name]:
                    found[name] = f"{module}.{what}".strip(".")
                case ["*"]:
                    pass
                case [what] if module:
                    found[what] = f"{module}.{what}"
                case [what]:
                    first = what.partition(".")[0]
                    found[first] = first
    return found
