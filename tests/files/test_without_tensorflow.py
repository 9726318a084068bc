"""A saved trace opens where no TensorFlow is installed, and what needs it says so in a sentence."""

import subprocess
import sys

import pytest
import tensorflow as tf
from programs import square

import cgviz

WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import matplotlib
matplotlib.use("Agg")
import cgviz
"""


def run(program, folder):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_saved_trace_is_read_and_shown(tmp_path):
    cgviz.trace(lambda x: square(tf.sin(x)) * x, [1.0, 2.0]).save(tmp_path / "trace.json")
    said = run(
        """
trace = cgviz.load("trace.json")
assert trace.view().words and trace.view(against=trace).words
assert trace.plot().cgviz_alt
assert trace.table()._repr_html_() and trace.summary()._repr_html_()
assert trace.diagnose() is not None
for suffix in (".html", ".svg", ".json", ".dot"):
    trace.save("again" + suffix)
cgviz.predict(trace)
print(trace)
print(trace.chain_rule())
""",
        tmp_path,
    )
    back = cgviz.load(tmp_path / "trace.json")
    assert said == f"{back}\n{back.chain_rule()}\n"


@pytest.mark.parametrize("name", ["trace", "record", "check", "explore"])
def test_what_runs_tensorflow_says_what_to_install(name, tmp_path):
    said = run(
        f"""
try:
    cgviz.{name}
except ImportError as error:
    print(error)
""",
        tmp_path,
    )
    assert said == (
        f"`cgviz.{name}` runs TensorFlow, and none is installed: install `tensorflow`, or "
        "`tensorflow-cpu`, which is smaller\n"
    )


def test_watch_says_what_to_install(tmp_path):
    said = run(
        """
try:
    cgviz.watch(lambda: None)
except ImportError as error:
    print(error)
""",
        tmp_path,
    )
    assert "none is installed: install `tensorflow`" in said


def test_importing_cgviz_loads_no_tensorflow(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c", "import cgviz, sys; print('tensorflow' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == "False\n"
