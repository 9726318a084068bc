"""Load a trace from a file that `trace.save` wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..graph import Trace
from . import schema


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `trace.save` wrote to a `.json` file.

    It shows all that the first one showed. Its backward rules are not in the file: a local
    Jacobian of up to 256 numbers is, and asking for anything beyond raises a RuntimeError.

    Args:
        path: The file.

    Returns:
        The trace.

    Raises:
        ValueError: The file holds no trace, a damaged one, or one of a newer cgviz.
        FileNotFoundError: There is no such file.

    Example:
        >>> import cgviz, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "square.json")
        ...     cgviz.trace(lambda x: x * x, 3.0).save(path)
        ...     cgviz.load(path).gradients[0].item()
        6.0
    """
    name = str(Path(path))
    try:
        document = json.loads(Path(path).read_bytes())
    except ValueError as error:  # no JSON, or no text at all
        raise ValueError(f"`{name}` holds no trace of cgviz: it is not a JSON file") from error
    if not isinstance(document, dict) or document.get("format") != schema.FORMAT:
        raise ValueError(f"`{name}` holds no trace of cgviz: it was not written by `trace.save`")
    version = document.get("version")
    if version != schema.VERSION:
        raise ValueError(
            f"`{name}` holds a trace of version {version}, and this cgviz reads version "
            f"{schema.VERSION}: a newer cgviz may read it"
        )
    try:
        return schema.read(document)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"`{name}` holds a damaged trace: {error!r}") from error
