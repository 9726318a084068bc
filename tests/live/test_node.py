"""What of the browser's part needs no page, tested by plain Node in tests/browser/*.test.mjs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from golden_programs import PROGRAMS
from programs import nested

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import cgviz
from cgviz import style
from cgviz.drawing.figure import Drawn
from cgviz.live.pages import PageBuilder

TESTS = sorted(Path(__file__).parents[1].glob("browser/*.test.mjs"))
NODE = shutil.which("node")


def numbers():
    """Numbers as sliders, axes and targets have them, with the text that Python makes of them."""
    random = np.random.default_rng(0)
    plain = [0.0, 1.0, -1.5, 0.5, 1e6, 9999999.0, 0.1, 0.0001, -0.25, 31.999999, 2e-9]
    plain += [float(x) for x in random.choice([-1, 1], 200) * 10 ** random.uniform(-4, 3, 200)]
    plain += [float(np.float32(x)) for x in random.normal(size=100)]
    return [[x, digits, style.number(x, digits)] for x in plain for digits in (3, 4)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What the tests in JavaScript are held to, made by Python."""

    def f(x, w):
        a = x * w
        y = a * x
        return y

    page = PageBuilder(cgviz.trace(f, 2.0, 3.0)).page()
    opened = PageBuilder(cgviz.trace(nested, 2.0)).page(None, ["custom:square"])
    elements = {
        f"{name}, pass {which}": {
            "page": PageBuilder(trace, which, framed=False).page(which),
            "paper": {step: on_paper(trace, which, step) for step in steps_of(trace, which)},
        }
        for name, trace in ((name, program()) for name, program in PROGRAMS.items())
        for which in range(len(trace.passes))
    }
    for each in (page, opened, *(found["page"] for found in elements.values())):
        each["display"] = each["displays"][0]  # as the browser does
    path = tmp_path_factory.mktemp("node") / "data.json"
    found = {"numbers": numbers(), "page": page, "opened": opened, "elements": elements}
    path.write_text(json.dumps(found))
    return path


def steps_of(trace, which):
    count = len(trace.passes[which].steps)
    return range(count + 1) if count < 9 else (0, 1, count // 2, count)


def on_paper(trace, which, step):
    """What a figure at a step has in it: role, what it belongs to, and what a text says."""
    ax = trace.plot(which=which, step=step)
    plt.close(ax.figure)
    paths, texts = (c for c in ax.collections if isinstance(c, Drawn))
    assert len(paths.elements) == len(paths.get_paths())
    found = [(each, None) for each in paths.elements]
    found += zip(texts.elements, texts.words, strict=True)
    return [[x.role, x.of, x.i, says] for x, says in found if x.of != "legend"]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_it_holds_in_node(path, data):
    if NODE is None and os.environ.get("CGVIZ_BROWSER_TESTS") == "required":
        pytest.fail("tests of the module are required here: install Node 18 or newer")
    if NODE is None:
        pytest.skip("Node is not installed. On Debian: apt-get install nodejs")
    ran = subprocess.run(
        [NODE, "--test", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "CGVIZ_TEST_DATA": str(data)},
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
