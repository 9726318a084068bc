"""Run code of other projects plain and recorded: are all bits equal, and how much slower is it?

    python tests/benchmarks/bench_real.py [FOLDER ...] [--only WORD] [--seconds 300]

It runs training steps of `keras.applications`, distributions of tensorflow-probability where that
is installed, and every notebook in the folders named: TensorFlow's guides, for example, which are
in `site/en/guide` of its repository `docs`. A program runs three times, each in a process of its
own with the same seeds: twice plain, which tells whether TensorFlow repeats itself, and once
with each cell inside `cgviz.record()`. All floating-point numbers that the names of the program
hold at the end are compared, where the plain runs agree. A cell that raises plain (most need a
network) must raise the same when it is recorded. Times are processor times, all threads together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import linecache
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

KERAS = ("MobileNetV2", "MobileNetV3Small", "EfficientNetB0", "DenseNet121", "ResNet50")
KERAS += ("NASNetMobile", "Xception", "InceptionV3", "VGG16", "ConvNeXtTiny")
KERAS_STEP = """
import keras
import tensorflow as tf
keras.utils.set_random_seed(1)
model = keras.applications.{name}(weights=None, classes=10, input_shape=(96, 96, 3))
images = tf.random.stateless_uniform((4, 96, 96, 3), (1, 2))
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(model(images, training=True) ** 2)
gradients = tape.gradient(loss, model.trainable_variables)
"""
PROBABILITY = {
    "Normal": "0.3, a",
    "Gamma": "a, 2.0",
    "Beta": "a, 2.0",
    "StudentT": "5.0, 0.1, a",
    "VonMises": "0.3, a",
    "Dirichlet": "tf.stack([a, 2.0, 3.0])",
    "Laplace": "0.1, a",
    "Weibull": "a, 2.0",
    "LogNormal": "0.1, a",
    "Kumaraswamy": "a, 2.0",
}
PROBABILITY_STEP = """
import tensorflow as tf
import tensorflow_probability as tfp
a = tf.Variable(1.5)
with tf.GradientTape() as tape:
    distribution = tfp.distributions.{name}({arguments})
    drawn = distribution.sample(100, seed=(1, 2))
    loss = tf.reduce_mean(drawn) + tf.reduce_mean(distribution.log_prob(tf.stop_gradient(drawn)))
gradients = tape.gradient(loss, [a])
"""


def programs(folders: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """Each program: its name and its cells."""
    for name in KERAS:
        yield f"keras {name}", [KERAS_STEP.format(name=name)]
    for name, arguments in PROBABILITY.items():
        yield f"tfp {name}", [PROBABILITY_STEP.format(name=name, arguments=arguments)]
    for folder in folders:
        for path in sorted(folder.glob("**/*.ipynb")):
            cells = json.loads(path.read_text("utf-8"))["cells"]
            code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
            # Without commands for a shell or for IPython, which are not Python.
            yield path.stem, [re.sub(r"^[ \t]*[!%].*$", "", each, flags=re.M) for each in code]


# --- one run, in a process of its own ------------------------------------------------------------


def numbers(value: Any) -> Iterator[bytes]:
    """The bytes of the floating-point numbers in a value: a tensor, array, model, or container."""
    import keras
    import numpy as np
    import tensorflow as tf

    if isinstance(value, keras.Model | keras.Layer):
        value = value.weights
    elif isinstance(value, tf.Module):
        value = value.variables
    for leaf in tf.nest.flatten(value) if isinstance(value, list | tuple | dict) else [value]:
        if hasattr(leaf, "numpy") and not isinstance(leaf, tf.RaggedTensor):
            leaf = leaf.numpy() if getattr(leaf, "dtype", None) not in (tf.resource, None) else None
        if isinstance(leaf, np.ndarray | np.generic | float):
            array = np.asarray(leaf)
            if array.dtype.kind in "fc" or array.dtype.name == "bfloat16":
                yield array.tobytes()


def run(cells: list[str], recorded: bool) -> dict[str, Any]:
    """Run cells in this process; returns times, errors and a hash of each name's numbers."""
    import keras
    import matplotlib as mpl

    import cgviz

    mpl.use("Agg")
    keras.utils.set_random_seed(0)
    names: dict[str, Any] = {"__name__": "__main__"}
    errors, reading, ops = [], 0.0, 0
    began = time.process_time()
    for i, cell in enumerate(cells):
        trace = None
        try:
            name = f"<cell {i}>"
            # AutoGraph reads the source of a `tf.function`, as in a notebook.
            linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name
            code = compile(cell, name, "exec")
            if recorded:
                with cgviz.record() as trace:
                    exec(code, names)
            else:
                exec(code, names)
        except Exception as error:
            errors.append(f"{i} {type(error).__name__}")
        start = time.process_time()
        if trace is not None and trace.passes:
            repr(trace), str(trace.table()), trace.diagnose()
            ops += len(trace.ops)
        reading += time.process_time() - start
    seconds = time.process_time() - began - reading
    found = {}
    for name, value in names.items():
        try:
            parts = list(numbers(value))
        except Exception:  # a tensor of a graph, or a value that cannot be read
            continue
        if parts and not name.startswith("_"):
            found[name] = hashlib.sha256(b"".join(parts)).hexdigest()
    return {
        "seconds": seconds,
        "reading": reading,
        "ops": ops,
        "errors": errors,
        "cells": len(cells),
        "numbers": found,
    }


# --- all runs ------------------------------------------------------------------------------------


def result(cells: list[str], recorded: bool, seconds: float) -> dict[str, Any]:
    """What `run` returns in a process of its own, or how that process ended."""
    given = json.dumps({"cells": cells, "recorded": recorded})
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    try:
        with TemporaryDirectory() as folder:  # for what a program writes
            done = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--cells"],
                input=given,
                text=True,
                capture_output=True,
                timeout=seconds,
                env=environment,
                cwd=folder,
            )
    except subprocess.TimeoutExpired:
        return {"ended": f"more than {seconds:g} s"}
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 else {"ended": f"code {done.returncode}"}


def row(name: str, cells: list[str], seconds: float) -> str:
    """A line of the table."""
    one, two = result(cells, False, seconds), result(cells, False, seconds)
    three = result(cells, True, 4 * seconds)
    ended = [each.get("ended", "ran") for each in (one, two, three)]
    if set(ended) != {"ran"}:
        return f"{name:36} plain: {ended[0]}, again: {ended[1]}, recorded: {ended[2]}"
    plain, again, recorded = (each["numbers"] for each in (one, two, three))
    steady = {key for key in plain if plain[key] == again.get(key)}
    other = sorted(key for key in steady if recorded.get(key) != plain[key])
    exact = f"{len(steady) - len(other)} of {len(steady)}"
    what = f"  differ: {', '.join(other)}" if other else ""
    if one["errors"] != three["errors"]:
        what += f"  errors: {set(one['errors']) ^ set(three['errors'])}"
    return (
        f"{name:36} {one['cells'] - len(one['errors']):3} of {one['cells']:3} {exact:>12}"
        f" {three['seconds'] / one['seconds']:9.2f} {three['ops']:8,}"
        f" {three['reading']:9.2f} s{what}"
    )


def main() -> None:
    """Read the command line and print the table, each line as soon as it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="with notebooks to run")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--seconds", type=float, default=300, help="that a plain run may take")
    parser.add_argument("--cells", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cells:
        work = json.load(sys.stdin)
        print(json.dumps(run(work["cells"], work["recorded"])))
        return
    print(f"{'program':36} cells run  exact names  recorded/plain   ops  reading")
    for name, cells in programs(given.folders):
        if given.only in name:
            print(row(name, cells, given.seconds), flush=True)


if __name__ == "__main__":
    main()
