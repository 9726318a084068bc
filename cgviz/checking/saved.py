"""f as a SavedModel, loaded and differentiated in a fresh process that knows nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array
from ..recording import arguments
from .case import Case

MOST_SECONDS = 300


def differentiate(case: Case, u: Array, folder: Path) -> tuple[Array, Array]:
    """Value and gradients of f for upstream u, saved in `folder` and loaded elsewhere."""
    subject = case.subject
    flat = [tf.convert_to_tensor(arguments.as_source(t)) for t in subject.flat]
    module = tf.Module()
    module.kept = [leaf.source for leaf in subject.leaves if leaf.variable]
    # As variables, which a SavedModel keeps whatever their type: NumPy's files know no bfloat16.
    module.given = [tf.Variable(t, trainable=False) for t in flat]
    module.inner = case.f if isinstance(case.f, tf.Module) else None
    positional = [isinstance(arguments.as_source(t), tf.Variable) for t in subject.flat]

    def call(*tensors: Any) -> Any:
        given = [
            old if is_variable else new
            for old, new, is_variable in zip(subject.flat, tensors, positional, strict=True)
        ]
        return tf.nest.flatten(case.f(*tf.nest.pack_sequence_as(subject.given, given)))

    signature = [tf.TensorSpec(t.shape, t.dtype) for t in flat]
    module.call = tf.function(call, input_signature=signature)
    tf.saved_model.save(module, str(folder / "model"))
    np.save(folder / "upstream.npy", u)
    script = Path(__file__).with_name("_reload.py")
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if ": " in line]
        raise RuntimeError(lines[-1] if lines else f"the process ended with {done.returncode}")
    with np.load(folder / "found.npz") as arrays:
        inputs = {k: arrays[k] for k in arrays.files}
    parts = []
    at = {id(arguments.as_source(t)): i for i, t in enumerate(subject.flat)}
    kept = [leaf.source for leaf in subject.leaves if leaf.variable]
    for leaf in subject.leaves:
        if leaf.variable:
            key = f"v{[leaf.source is k for k in kept].index(True)}"
        else:
            key = f"x{at[id(leaf.source)]}"
        parts.append(inputs.get(key, np.zeros(leaf.stop - leaf.start)))
    return inputs["y"], np.concatenate([np.zeros(0), *parts])
