r"""Save a trace to a file, and load one.

    save    a trace -> a picture, a page or a document, by the suffix of the path
    load    a document -> the trace
    target  a path, or an error that says what is wrong with it

A document is strict JSON: `{"format", "version", "nodes", "trace"}`. Whatever JSON cannot express
is a node, a list that begins with its kind:

    ["tuple", ...], ["list", ...]   their items
    ["dict", ["tuple", key, value], ...]
    ["float", "nan"]                a float that JSON has no number for
    ["array", dtype, shape, zlib]   its bytes, compressed and in base64
    ["texts", shape, ...]           an array of byte strings, as Latin-1
    ["words", shape, ...]           an array of strings, such as the dtype's name for a variant
    ["Op", ...]                     an object of `graph`: the class, then its fields
    ["at", 3]                       the fourth of `nodes`, where objects and arrays are stored once

For an array of more than 1,024 numbers only `Statistics` are stored, unless `full` asks for all.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from . import style
from .graph import (
    Array,
    Op,
    Pass,
    Rule,
    Source,
    Statistics,
    Step,
    Trace,
    Value,
    as_numpy,
    statistics,
)
from .graph.jacobian import LargeJacobian
from .graph.selection import select

FORMAT, VERSION = "cgviz trace", 8
ABOUT: dict[str, tuple[str, str, dict[str, Any]]] = {  # the names of a picture's metadata
    ".svg": ("Description", "Creator", {"Date": None}),
    ".png": ("Description", "Software", {}),
    ".pdf": ("Subject", "Creator", {"CreationDate": None}),
}
SUFFIXES = (".html", *ABOUT, ".json", ".dot")
MOST_KEPT = 1_024  # numbers of an array that a document holds: nobody reads more one by one
MOST_LOCAL = 256  # entries of a Jacobian that a document holds: one of 16 by 16 fits


def target(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """The path, or an error that says what is wrong with it.

    >>> target("trace.html", (".html",)).name
    'trace.html'
    """
    found = Path(path)
    if found.suffix.lower() not in suffixes:
        known = " or ".join(suffixes)
        raise ValueError(f"`path` is {path!s}, and its suffix says what to write: {known}")
    return found


def save(trace: Trace, path: str | os.PathLike[str], *, full: bool = False) -> None:
    """The implementation of `trace.save`."""
    found = target(path, SUFFIXES)
    suffix = found.suffix.lower()
    if full and suffix != ".json":
        raise ValueError(f"`full` belongs to .json, and `path` is {str(found)!r}")
    if suffix == ".html":
        from .live.assets import page, state
        from .live.pages import PageBuilder

        builder = PageBuilder(trace)
        kept = state([builder], builder.which or 0, {}, "forward")
        content = page(trace.title, repr(trace), kept).encode()
    elif suffix == ".dot":
        content = dot(trace).encode()
    else:
        content = picture(trace, suffix) if suffix in ABOUT else document(trace, full)
    found.write_bytes(content)


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `trace.save` wrote to a `.json` file.

    It shows all that the saved trace showed, except how far variables were moved. The file holds
    local Jacobians of up to 256 numbers but no backward rules: whatever needs a rule raises a
    RuntimeError, and so does reading the numbers of an array that the file has only statistics of.

    Args:
        path: The file.

    Returns:
        The trace.

    Raises:
        ValueError: The file holds no trace, a damaged one, or one of another version.
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
        found = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:  # no JSON, or no text at all
        raise ValueError(f"`{name}` holds no trace of cgviz: it is not a JSON file") from error
    try:
        return read(found)
    except ValueError as error:
        raise ValueError(f"`{name}` holds {error}") from error.__cause__


# --- documents -----------------------------------------------------------------------------------

# Class -> the parameters of its constructor, which are also attributes.
FIELDS: dict[type, list[str]] = {
    cls: [field.name for field in fields(cls) if field.init]
    for cls in (Source, Rule, Statistics, Value, Op, Step, Pass, Trace, LargeJacobian)
}
FIELDS[Step].append("local")  # computed where it is read
FIELDS[Trace].remove("after")  # as large as the model, and only one column uses it


def document(trace: Trace, full: bool) -> bytes:
    """A trace as a document; `full` keeps all numbers of every array."""
    writer = _Writer(full)
    root = writer.node(trace)
    found = {"format": FORMAT, "version": VERSION, "nodes": writer.nodes, "trace": root}
    return json.dumps(found, allow_nan=False, separators=(",", ":")).encode()


def read(found: Any) -> Trace:
    """The trace that a document holds; a ValueError if there is none."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("no trace of cgviz: it was not written by `trace.save`")
    if (version := found.get("version")) != VERSION:
        raise ValueError(
            f"a trace of version {version}, and this cgviz reads version {VERSION}: read it with "
            "the cgviz that wrote it, or save it again with this one"
        )
    made: dict[int, Any] = {}  # by index, which is never negative

    def node(written: Any) -> Any:
        if not isinstance(written, list):
            return written
        kind, *content = written
        return made[content[0]] if kind == "at" else MAKE[kind](*map(node, content))

    try:
        for written in found["nodes"]:
            made[len(made)] = node(written)
        trace = node(found["trace"])
        if not isinstance(trace, Trace):
            raise TypeError("it holds something other than a trace")
        return trace
    except Exception as error:
        raise ValueError(f"a damaged trace: {error!r}") from error


class _Writer:
    def __init__(self, full: bool) -> None:
        self.full = full
        self.nodes: list[Any] = []
        self.places: dict[Any, int] = {}  # index in `nodes`, by record or by an array's bytes

    def node(self, found: Any) -> Any:
        if found is None or type(found) in (bool, int, str):
            return found
        if type(found) is float:
            return found if math.isfinite(found) else ["float", str(found)]
        if isinstance(found, Mapping):
            return ["dict", *map(self.node, found.items())]
        if isinstance(found, tuple | list):
            return ["list" if isinstance(found, list) else "tuple", *map(self.node, found)]
        if type(found) in FIELDS:
            return self.once(found, lambda: self.record(found))
        return self.array(np.asarray(as_numpy(found)))

    def once(self, key: Any, make: Callable[[], list[Any]]) -> list[Any]:
        if key not in self.places:
            node = make()  # stores its parts first
            self.places[key] = len(self.nodes)
            self.nodes.append(node)
        return ["at", self.places[key]]

    def record(self, found: Any) -> list[Any]:
        if self.full and isinstance(found, Statistics):
            raise ValueError(
                "`full` needs all numbers, and the file that this trace was read from has only "
                "statistics of some"
            )
        given = _shown(found)
        row = [given[x] if x in given else getattr(found, x) for x in FIELDS[type(found)]]
        return [type(found).__name__, *map(self.node, row)]

    def array(self, array: Array) -> Any:
        shape, name = self.node(array.shape), array.dtype.name
        if array.dtype.kind in "OSU":
            found = array.ravel().tolist()
            if all(isinstance(x, bytes) for x in found):
                return ["texts", shape, *(x.decode("latin-1") for x in found)]
            return ["words", shape, *map(str, found)]
        if array.size > MOST_KEPT and not self.full:
            return self.node(statistics(array))
        raw = array.tobytes()

        def packed() -> list[Any]:
            return ["array", name, shape, base64.b64encode(zlib.compress(raw)).decode()]

        return self.once((name, array.shape, raw), packed)


def _shown(found: Any) -> dict[str, Any]:
    """Substitutes for the fields of an object that a document does not hold as they are."""
    if isinstance(found, Source):
        # The file's name without its folder, which tells other readers of the trace nothing.
        return {"file": os.path.basename(found.file)}
    if isinstance(found, Step):
        given = {"received": found.upstream, "returned": found.downstream, "pull": None}
        return given | {"local": _small_locals(found)}
    if isinstance(found, Pass):
        return {"seed_references": found.seeds, "gradient_references": found.gradients}
    return {}


def _small_locals(step: Step) -> tuple[Any, ...] | None:
    """A step's local Jacobians, without the numbers of large ones; None if none can be stored."""
    into = (v.size for v, flows in zip(step.op.inputs, step.flows, strict=True) if flows)
    outputs = (v.size for v in step.op.outputs)
    if min(into, default=math.inf) * min(outputs, default=math.inf) > MOST_LOCAL:
        return None
    try:
        rows = step.local
    except RuntimeError:  # the rule cannot run again
        return None
    return tuple(
        tuple(LargeJacobian(x.shape) if np.size(x) > MOST_LOCAL else x for x in row) for row in rows
    )


def _record(cls: type, *row: Any) -> Any:
    given = dict(zip(FIELDS[cls], row, strict=True))
    local = given.pop("local", None)
    made = cls(**given)
    if local is not None:
        made.local = local
    return made


def _array(name: str, shape: tuple[int, ...], packed: str) -> Array:
    try:
        dtype = np.dtype(name)
    except TypeError:  # bfloat16 and smaller floats are in a package that TensorFlow needs
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape}")
    most = dtype.itemsize * math.prod(shape) + 1  # bytes, however many were packed
    raw = zlib.decompressobj().decompress(base64.b64decode(packed), most)
    return np.frombuffer(raw, dtype).reshape(shape)


def _words(shape: tuple[int, ...], *words: str | bytes) -> Array:
    return np.array(words, object).reshape(shape)


MAKE: dict[str, Callable[..., Any]] = {
    "float": float,
    "tuple": lambda *items: items,
    "list": lambda *items: list(items),
    "dict": lambda *items: dict(items),
    "array": _array,
    "texts": lambda shape, *texts: _words(shape, *(text.encode("latin-1") for text in texts)),
    "words": _words,
    **{cls.__name__: partial(_record, cls) for cls in FIELDS},
}


# --- pictures ------------------------------------------------------------------------------------


def picture(trace: Trace, suffix: str) -> bytes:
    """The picture of `plot()` as a file's bytes; the same trace gives the same bytes."""
    import matplotlib as mpl

    from .drawing import display, figure, texts

    buffer, shown = io.BytesIO(), select(trace)
    words = texts.describe(shown)
    # A description for those who cannot see the picture, under the names that each format knows.
    description, creator, date = ABOUT[suffix]
    about = {"Title": f"How the gradient flows through {trace.title}"}
    about |= {description: words, creator: "cgviz", **date}
    with mpl.rc_context({"svg.hashsalt": "cgviz"}):
        sheet = figure.sheet([display.make(shown)])
        sheet.savefig(buffer, format=suffix[1:], bbox_inches="tight", metadata=about)
    if suffix != ".svg":
        return buffer.getvalue()
    # With these, a screen reader takes it as one picture with a title and a description.
    svg = buffer.getvalue().replace(b"<svg ", b'<svg role="img" ', 1)
    return svg.replace(b"</title>", f"</title>\n <desc>{escape(words)}</desc>".encode(), 1)


def dot(trace: Trace) -> str:
    """The graph in the DOT language, which Graphviz, networkx and yEd read.

    Forward edges are solid, labelled with the value; backward edges are dashed, labelled with the
    gradient.
    """
    shown = select(trace)
    quoted = partial(json.dumps, ensure_ascii=False)  # escapes as DOT does
    lines = [f"digraph {quoted(trace.title)} {{", "  node [shape=box];"]
    for i, node in enumerate(shown.nodes):
        label = "\n".join(x for x in (node.label, node.symbol) if x)
        lines.append(f"  n{i} [label={quoted(label)}, kind={quoted(node.kind)}];")
    blue, orange = style.LIGHT.forward, style.LIGHT.backward
    for edge in shown.edges:
        label = quoted(style.array(edge.value.numpy()))
        lines.append(f'  n{edge.source} -> n{edge.target} [label={label}, color="{blue}"];')
        if edge.contribution is not None:
            label = quoted(style.array(edge.contribution))
            how = f'style=dashed, color="{orange}", constraint=false, step={edge.order}'
            lines.append(f"  n{edge.target} -> n{edge.source} [label={label}, {how}];")
    return "\n".join([*lines, "}\n"])
