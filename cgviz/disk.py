"""A file is written whole or not at all, under a name whose suffix tells what is in it.

target   a path -> where to write, or an error that says what is wrong with it
write    bytes -> a file
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def target(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """The path, or an error that says what is wrong with it.

    >>> target("trace.html", (".html",)).name
    'trace.html'
    """
    found = Path(path)
    if found.suffix.lower() not in suffixes:
        *others, last = suffixes
        known = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(
            f"`path` is {str(found)!r}, and what to write is told by its suffix: {known}"
        )
    if not found.parent.is_dir():
        raise FileNotFoundError(
            f"`path` is {str(found)!r}, but there is no folder {str(found.parent)!r}"
        )
    return found


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
