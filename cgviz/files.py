r"""Save a trace to a file, and load one.

    save    a trace -> a picture, a page or a document, by the suffix of the path
    load    a document -> the trace
    target  a path, or an error that says what is wrong with it
    write   bytes -> a file, whole or not at all

A document is strict JSON: `{"format", "version", "records", "arrays", "trace"}`. The records are
the objects of `graph`, each as `[class, field, ...]` after all that it refers to:

    {"record": 3}                   the fourth record
    {"array": 3}                    the fourth array: {"dtype", "shape", "zlib"}
    [...], {"list": [...]}          a tuple, a list
    {"dict": [[key, value], ...]}   a dict
    {"float": "nan"}                a float that JSON has no number for

The bytes of an array are little-endian, packed and in base64, and equal arrays are stored once. Of
an array with more than 1,024 numbers only `Statistics` are stored, unless all are asked for.
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
from html import escape
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

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
from .graph.jacobian import LargeJacobian, Local, local_jacobians
from .graph.selection import select

FORMAT, VERSION = "cgviz trace", 3
PICTURES = (".svg", ".png", ".pdf")
SUFFIXES = (".html", *PICTURES, ".json", ".dot")
MOST_KEPT = 1_024  # numbers of an array that a document holds: more are not read one by one
MOST_LOCAL = 256  # entries of a Jacobian that a document holds, for one of 16 by 16
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)

Document = dict[str, Any]


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
    """Write a file whole or not at all: a failure leaves what was there before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def save(trace: Trace, path: str | os.PathLike[str], *, full: bool = False) -> None:
    """What `trace.save` does."""
    found = target(path, SUFFIXES)
    suffix = found.suffix.lower()
    if full and suffix != ".json":
        raise ValueError(f"`full` belongs to .json, and `path` is {str(found)!r}")
    if suffix == ".html":
        from .live.assets import page
        from .live.pages import PageBuilder

        write(found, page([PageBuilder(trace)]).encode())
    elif suffix == ".dot":
        write(found, dot(trace).encode())
    else:
        write(found, picture(trace, suffix) if suffix in PICTURES else document(trace, full))


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `trace.save` wrote to a `.json` file.

    It shows all that the first one showed. Its backward rules are not in the file: a local
    Jacobian of up to 256 numbers is, and asking for anything beyond raises a RuntimeError. So does
    reading the numbers of an array of which the file has only the statistics.

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

Arrays = tuple[np.ndarray | Statistics | None, ...]
Values, Ops = tuple[Value, ...], tuple[Op, ...]
# By class: the parameters that make one, each an attribute of that name, and their types.
FIELDS: dict[type, dict[str, Any]] = {
    **{each: get_type_hints(each) for each in (Source, Rule, Statistics, Value, Op)},
    Step: {
        "op": Op,
        "received": Arrays,
        "returned": Arrays,
        "ops": Ops,
        "find_local": tuple | None,
    },
    Pass: get_type_hints(Pass) | {"seed_references": Arrays, "gradient_references": Arrays},
    Trace: {
        name: hint
        for name, hint in get_type_hints(Trace).items()
        if name[0] != "_" and name != "after"  # as large as the model, for one column
    },
}


def document(trace: Trace, full: bool) -> bytes:
    """A trace as a document; `full` keeps all numbers of every array."""
    writer = _Writer(full)
    root = writer.node(trace)
    found = {"format": FORMAT, "version": VERSION, "records": writer.records}
    found |= {"arrays": writer.arrays, "trace": root}
    return json.dumps(found, allow_nan=False, separators=(",", ":")).encode()


def read(found: Any) -> Trace:
    """The trace of a document; a ValueError where it is none."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("no trace of cgviz: it was not written by `trace.save`")
    if (version := found.get("version")) != VERSION:
        raise ValueError(
            f"a trace of version {version}, and this cgviz reads version {VERSION}: read it with "
            "the cgviz that wrote it, or save it again with this one"
        )
    try:
        return _Reader(found).trace
    except (*DAMAGE, zlib.error) as error:
        raise ValueError(f"a damaged trace: {error!r}") from error


class _Writer:
    def __init__(self, full: bool) -> None:
        self.full = full
        self.records: list[list[Any]] = []
        self.arrays: list[Document] = []
        self.index: dict[Any, int] = {}  # of what is stored, by a record or an array's bytes

    def node(self, found: Any) -> Any:
        if type(found) in FIELDS:
            if found not in self.index:
                row = [type(found).__name__, *map(self.node, self.fields(found).values())]
                self.index[found] = len(self.records)
                self.records.append(row)
            return {"record": self.index[found]}
        if found is None or type(found) in (bool, int, str):
            return found
        if type(found) is float:
            return found if math.isfinite(found) else {"float": str(found)}
        if isinstance(found, Mapping):
            return {"dict": [[self.node(k), self.node(v)] for k, v in found.items()]}
        if isinstance(found, tuple | list):
            nodes = list(map(self.node, found))
            return nodes if isinstance(found, tuple) else {"list": nodes}
        return self.array(np.asarray(as_numpy(found)))

    def array(self, array: Array) -> Document:
        if array.size > MOST_KEPT and not self.full and array.dtype.kind not in "OSU":
            return self.node(statistics(array))
        head: Document = {"dtype": array.dtype.name, "shape": list(array.shape)}
        if array.dtype.kind in "OSU":
            self.arrays.append({**head, "dtype": "object", "items": list(map(_item, array.flat))})
            return {"array": len(self.arrays) - 1}
        if array.dtype.kind != "V":  # bfloat16 and its like know no byte order
            array = array.astype(array.dtype.newbyteorder("<"))
        raw = array.tobytes()
        index = self.index.setdefault((array.dtype.name, array.shape, raw), len(self.arrays))
        if index == len(self.arrays):
            self.arrays.append({**head, "zlib": base64.b64encode(zlib.compress(raw)).decode()})
        return {"array": index}

    def fields(self, found: Any) -> Document:
        given = {name: getattr(found, name) for name in FIELDS[type(found)]}
        if isinstance(found, Source):
            # The name of the file alone: its folder tells nothing to whom the trace is given.
            given["file"] = os.path.basename(found.file)
        elif isinstance(found, Step):
            given |= {"received": found.upstream, "returned": found.downstream}
            given["find_local"] = _small_locals(found)
        elif isinstance(found, Pass):
            uses = {v.key: v for step in found.steps for v in step.op.inputs}
            # Statistics cannot be added up when they are read.
            sums = {key: found.upstream(v) for key, v in uses.items() if v.size > MOST_KEPT}
            given["arrived"] = {**found.arrived, **sums}
            given |= {"seed_references": found.seeds, "gradient_references": found.gradients}
        return given


def _item(item: Any) -> Any:
    if isinstance(item, bytes):
        return {"bytes": base64.b64encode(item).decode()}
    return str(item)


def _small_locals(step: Step) -> tuple[Any, ...] | None:
    pairs = zip(step.op.inputs, step.flows, strict=True)
    into = [value.size for value, flows in pairs if flows]
    sizes = [value.size * size for value in step.op.outputs for size in into]
    if not sizes or min(sizes) > MOST_LOCAL:
        return None
    try:
        rows = step.local
    except RuntimeError:  # the rule cannot run again
        return None
    return tuple(tuple("large" if _is_large(x) else x for x in row) for row in rows)


def _is_large(jacobian: Any) -> bool:
    return isinstance(jacobian, LargeJacobian) or np.size(jacobian) > MOST_LOCAL


class _Reader:
    def __init__(self, found: Document) -> None:
        self.arrays = list(map(_read_array, found["arrays"]))
        self.records: list[Any] = []
        classes = {cls.__name__: cls for cls in FIELDS}
        for name, *row in found["records"]:
            self.records.append(self.record(classes[name], list(map(self.node, row))))
        self.trace = self.node(found["trace"])
        if not isinstance(self.trace, Trace):
            raise TypeError("it holds something else than a trace")

    def node(self, node: Any) -> Any:
        if isinstance(node, list):
            return tuple(map(self.node, node))
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "dict":
            return {self.node(key): self.node(value) for key, value in content}
        if kind == "list":
            return list(map(self.node, content))
        if kind == "float":
            return float(content)
        return {"record": self.records, "array": self.arrays}[kind][content]

    def record(self, cls: type, row: Sequence[Any]) -> Any:
        given = dict(zip(FIELDS[cls], row, strict=True))
        for name, expected in FIELDS[cls].items():
            if not _fits(given[name], expected):
                raise TypeError(f"{name!r} of a {cls.__name__} is a {type(given[name]).__name__}")
        if cls is Step:
            sizes = len(given["op"].outputs), len(given["op"].inputs)
            if sizes != (len(given["received"]), len(given["returned"])):
                raise ValueError("a step has not the inputs and outputs of its op")
            rows = given["find_local"]
            given["find_local"] = local_jacobians if rows is None else _kept(rows)
        return cls(**given)


def _fits(found: Any, hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind is tuple:
        return isinstance(found, tuple) and all(_fits(x, get_args(hint)[0]) for x in found)
    return hint is Any or isinstance(found, hint if kind is UnionType else kind)


def _kept(rows: Sequence[Sequence[Any]]) -> Callable[[Step], Local]:
    """The local Jacobians that the file holds."""
    return lambda step: tuple(
        tuple(LargeJacobian(step, i, j) if isinstance(x, str) else x for j, x in enumerate(row))
        for i, row in enumerate(rows)
    )


def _read_array(found: Document) -> Array:
    shape = tuple(found["shape"])
    if found["dtype"] == "object":
        items = [x if isinstance(x, str) else base64.b64decode(x["bytes"]) for x in found["items"]]
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(shape)
    try:
        dtype = np.dtype(found["dtype"])
    except TypeError:  # bfloat16 and smaller come with a package that TensorFlow needs too
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), found["dtype"]))
    packed = base64.b64decode(found["zlib"])
    # No more than the shape says, whatever was packed.
    raw = zlib.decompressobj().decompress(packed, dtype.itemsize * math.prod(shape) + 1)
    return np.frombuffer(raw, dtype).reshape(shape)


# --- pictures ------------------------------------------------------------------------------------


def picture(trace: Trace, suffix: str) -> bytes:
    """The picture of `plot()` as a file's bytes, the same whenever the trace is."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    from .drawing import figure

    buffer = io.BytesIO()
    axes: Any = figure.plot(trace)
    words = axes.cgviz_alt
    # What the picture shows, for who cannot see it, under the names that each format knows.
    about = {"Title": f"How the gradient flows through {trace.title}"}
    about |= {"Subject" if suffix == ".pdf" else "Description": words}
    about |= {"Software": "cgviz"} if suffix == ".png" else {"Creator": "cgviz"}
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    try:
        with mpl.rc_context({"svg.hashsalt": "cgviz"}):
            axes.figure.savefig(
                buffer, format=suffix[1:], bbox_inches="tight", metadata=about | dates[suffix]
            )
    finally:
        plt.close(axes.figure)
    if suffix != ".svg":
        return buffer.getvalue()
    # A screen reader takes it as one picture with a title and a description.
    svg = buffer.getvalue().replace(b"<svg ", b'<svg role="img" ', 1)
    return svg.replace(b"</title>", f"</title>\n <desc>{escape(words)}</desc>".encode(), 1)


def dot(trace: Trace) -> str:
    """The graph in the DOT language, as Graphviz, networkx and yEd read it.

    Forward edges are solid and have the value, backward edges are dashed and have the gradient.
    """
    shown = select(trace)
    lines = [f"digraph {_quoted(trace.title)} {{", "  node [shape=box];"]
    for i, node in enumerate(shown.nodes):
        label = "\n".join(x for x in (node.label, node.symbol) if x)
        lines.append(f"  n{i} [label={_quoted(label)}, kind={_quoted(node.kind)}];")
    blue, orange = style.LIGHT.forward, style.LIGHT.backward
    for edge in shown.edges:
        value = "" if edge.value.dtype in ("resource", "variant") else edge.value.numpy()
        label = _quoted(style.array(value))
        lines.append(f'  n{edge.source} -> n{edge.target} [label={label}, color="{blue}"];')
        if edge.contribution is not None:
            label = _quoted(style.array(edge.contribution))
            how = f'style=dashed, color="{orange}", constraint=false, step={edge.order}'
            lines.append(f"  n{edge.target} -> n{edge.source} [label={label}, {how}];")
    return "\n".join([*lines, "}\n"])


def _quoted(text: str) -> str:
    r"""Text as a DOT string.

    >>> print(_quoted('a "b"'))
    "a \"b\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
