"""The backward table: one row for each step, a dict, in the order the steps ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from ..graph import Trace
from . import listing, sheet
from .listing import Listing

COLUMNS = ("step", "op", "type", "kind", "input", "upstream", "local", "downstream", "source")


def table(trace: Trace, which: int | None = None, *, full: bool = False) -> Table:
    """What `trace.table` returns."""
    return Table(listing.listed(trace, which, full))


class Row(dict[str, Any]):
    """One step of the backward table: a dict whose numbers are read when they are asked for."""

    def __init__(self, known: dict[str, Any], unread: dict[str, Callable[[], Any]]) -> None:
        super().__init__({name: known.get(name) for name in COLUMNS})
        self._unread = unread

    def __getitem__(self, name: str) -> Any:
        if name in self._unread:
            super().__setitem__(name, self._unread[name]())
            del self._unread[name]
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:  # its presence makes `dict(row)` read each entry
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """The entry of that name, or the default."""
        return self[name] if name in self else default  # noqa: SIM401 - that is this method

    def values(self) -> list[Any]:  # type: ignore[override]
        """Every entry, read."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        """Every name with its entry, read."""
        return [(name, self[name]) for name in self]

    def copy(self) -> dict[str, Any]:
        """A plain dict."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    def __repr__(self) -> str:
        return repr(self.copy())


class Table(Sequence[Row]):
    """The backward table: a sequence of rows, each a dict with the keys of `COLUMNS`.

    Where an op has one input, `input`, `local` and `downstream` hold its entry, a Python number
    for a scalar; else a tuple with one entry per input. `upstream` and `local` do the same for
    several outputs. A local Jacobian is computed when it is read.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> rows = cgviz.trace(lambda x: tf.square(tf.square(x)), 2.0).table()
        >>> [(row["input"], row["upstream"], row["local"], row["downstream"]) for row in rows]
        [(4.0, 1.0, 8.0, 8.0), (2.0, 8.0, 4.0, 32.0)]
    """

    def __init__(self, listing: Listing) -> None:
        self.listing = listing

    def __len__(self) -> int:
        return len(self.listing.steps)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Table: ...
    def __getitem__(self, place: int | slice) -> Row | Table:
        """One row, or the table of some."""
        if isinstance(place, slice):
            return Table(replace(self.listing, steps=self.listing.steps[place]))
        number, step = self.listing.steps[place]
        op = step.op
        known = {
            "step": number,
            "op": op.name,
            "type": op.type,
            "kind": op.kind,
            "source": None if op.source is None else str(op.source),
        }
        return Row(
            known,
            {
                "input": lambda: _one([_plain(v.numpy()) for v in op.inputs]),
                "upstream": lambda: _one(list(map(_plain, step.upstream))),
                "local": lambda: _one([_one(list(map(_plain, row))) for row in step.local]),
                "downstream": lambda: _one(list(map(_plain, step.downstream))),
            },
        )

    def __repr__(self) -> str:
        return sheet.table_text(self.listing)

    def _repr_html_(self) -> str:
        return sheet.table_html(self.listing)


def _one(entries: list[Any]) -> Any:
    return entries[0] if len(entries) == 1 else tuple(entries)


def _plain(array: Any) -> Any:
    """A scalar as a Python number, anything else as it is."""
    return array.item() if getattr(array, "ndim", None) == 0 else array
