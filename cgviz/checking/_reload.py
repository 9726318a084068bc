"""Run by `check(where="saved")` in a process of its own: load a SavedModel, differentiate it.

It imports nothing of cgviz and nothing of the caller's, so nothing helps the model along.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf


def vector(tensor: tf.Tensor) -> np.ndarray:
    """The numbers of a tensor as float64; of complex ones all real parts, then all imaginary."""
    array = np.asarray(tf.convert_to_tensor(tensor)).reshape(-1)
    if array.dtype.kind == "c":
        array = np.concatenate([array.real, array.imag])
    return array.astype(np.float64)


def main(folder: Path) -> None:
    """Write value and gradients of the model in `folder`."""
    module = tf.saved_model.load(str(folder / "model"))
    u = np.load(folder / "upstream.npy")
    tensors = [tf.convert_to_tensor(each) for each in module.given]
    sources = [*tensors, *module.kept]
    with tf.GradientTape() as tape:
        tape.watch([s for s in sources if s.dtype.is_floating or s.dtype.is_complex])
        targets = [t for t in module.call(*tensors) if t.dtype.is_floating or t.dtype.is_complex]
    seeds, start = [], 0
    for target in targets:
        size = int(np.prod(target.shape))
        part = u[start : start + size * (2 if target.dtype.is_complex else 1)]
        start += part.size
        if target.dtype.is_complex:
            part = part[:size] + 1j * part[size:]
        seeds.append(tf.constant(part.reshape(target.shape), target.dtype))
    gradients = tape.gradient(targets, sources, output_gradients=seeds)
    found = {"y": np.concatenate([np.zeros(0), *map(vector, targets)])}
    names = [f"x{i}" for i in range(len(tensors))] + [f"v{i}" for i in range(len(module.kept))]
    for name, gradient, source in zip(names, gradients, sources, strict=True):
        if isinstance(gradient, tf.IndexedSlices):  # they may not know of what shape
            gradient = tf.IndexedSlices(gradient.values, gradient.indices, tf.shape(source))
        if gradient is not None:
            found[name] = vector(gradient)
    np.savez(folder / "found.npz", **found)  # type: ignore[arg-type, unused-ignore]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
