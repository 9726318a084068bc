"""The data model: one `Trace` of NumPy numbers, and the records that it is made of."""

from .model import (
    Array,
    Op,
    Pass,
    Rule,
    Source,
    Statistics,
    Step,
    Value,
    as_numpy,
    norm,
    ratio,
    readable,
    statistics,
    total,
    wide,
)
from .trace import Trace

__all__ = [
    "Array",
    "Op",
    "Pass",
    "Rule",
    "Source",
    "Statistics",
    "Step",
    "Trace",
    "Value",
    "as_numpy",
    "norm",
    "ratio",
    "readable",
    "statistics",
    "total",
    "wide",
]
