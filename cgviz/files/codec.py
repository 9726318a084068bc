"""NumPy arrays, and nested structures of them, as strict JSON, and back to the last bit.

An array is `{"dtype", "shape", "data"}`. Its data are a flat list in row-major order, or above
1,024 numbers one string, the little-endian bytes in base64. In a list NaN and the infinities are
the strings "NaN", "Infinity" and "-Infinity", and a complex number is a pair. Bytes (TensorFlow's
"string") are text where they are UTF-8, else `{"base64": ...}`; "text" is what has no numbers,
described in words.

A structure is null, `{"array": ...}`, `{"list": [...]}`, `{"tuple": [...]}` or `{"dict": [[name,
structure], ...]}`.
"""

from __future__ import annotations

import base64
import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph import Array

MOST_LISTED = 1_024  # entries of an array that are written as a list

Document = dict[str, Any]


def write_array(array: Any) -> Document:
    """An array as a document."""
    array = np.asarray(array)
    head = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.dtype.kind in "OSU":
        items = array.reshape(-1).tolist()
        head["dtype"] = "text" if any(isinstance(x, str) for x in items) else "string"
        return {**head, "data": [_write_text(x) for x in items]}
    if array.size > MOST_LISTED:
        if array.dtype.kind != "V":  # bfloat16 and its like know no byte order
            array = array.astype(array.dtype.newbyteorder("<"))
        return {**head, "data": base64.b64encode(array.tobytes()).decode()}
    if array.dtype.kind == "V":
        array = array.astype(np.float64)
    return {**head, "data": [_write_number(x) for x in array.reshape(-1).tolist()]}


def read_array(document: Document) -> Array:
    """The array that a document describes."""
    shape, data = tuple(document["shape"]), document["data"]
    if document["dtype"] in ("string", "text"):
        array = np.empty(len(data), dtype=object)
        array[:] = list(map(_read_text if document["dtype"] == "string" else str, data))
        return array.reshape(shape)
    dtype = _dtype(document["dtype"])
    if isinstance(data, str):
        return np.frombuffer(base64.b64decode(data), dtype).reshape(shape).copy()
    if dtype.kind == "c":
        pairs = np.array([[_read_number(x) for x in pair] for pair in data], np.float64)
        return pairs.reshape(-1).view(np.complex128).astype(dtype).reshape(shape)
    if dtype.kind in "iub":
        return np.array(data, dtype).reshape(shape)
    return np.array([_read_number(x) for x in data], np.float64).astype(dtype).reshape(shape)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:  # bfloat16 and smaller come with a package that TensorFlow needs too
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


def _write_number(x: Any) -> Any:
    if isinstance(x, complex):
        return [_write_number(x.real), _write_number(x.imag)]
    if isinstance(x, float) and not math.isfinite(x):
        return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    return x


def _read_number(x: Any) -> float:
    return float(x)  # reads "NaN", "Infinity" and "-Infinity" too


def _write_text(x: Any) -> Any:
    raw = x if isinstance(x, bytes) else str(x).encode("utf-8", "surrogatepass")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _read_text(x: Any) -> bytes:
    return base64.b64decode(x["base64"]) if isinstance(x, dict) else str(x).encode("utf-8")


def write_structure(value: Any) -> Document | None:
    """A nested structure of arrays as a document."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {"dict": [[str(name), write_structure(x)] for name, x in value.items()]}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [write_structure(x) for x in value]}
    return {"array": write_array(value)}


def read_structure(document: Document | None) -> Any:
    """The nested structure that a document describes."""
    if document is None:
        return None
    ((kind, content),) = document.items()
    if kind == "dict":
        return {name: read_structure(x) for name, x in content}
    if kind == "array":
        return read_array(content)
    found = [read_structure(x) for x in content]
    return tuple(found) if kind == "tuple" else found
