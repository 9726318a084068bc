"""The public names: offered by the Tab key, typed, and explained to the last parameter."""

import inspect
import re
import subprocess
import sys

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import cgviz
from cgviz.graph import Pass, Step, Trace

FUNCTIONS = [getattr(cgviz, name) for name in cgviz.__all__]
METHODS = [
    member
    for each in (Trace, Pass, Step)
    for name, member in inspect.getmembers(each, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.parametrize("public", FUNCTIONS + METHODS, ids=lambda public: public.__qualname__)
def test_each_parameter_is_explained(public):
    said = inspect.getdoc(public)
    for name in inspect.signature(public).parameters:
        if name != "self":
            assert re.search(rf"^    \**{name}: ", said, re.MULTILINE), name


@pytest.mark.parametrize("public", FUNCTIONS, ids=lambda public: public.__name__)
def test_each_function_says_what_comes_back_what_is_raised_and_shows_an_example(public):
    said = inspect.getdoc(public)
    for part in ("Raises:\n", "Example:\n    >>> "):
        assert part in said
    assert "Returns:\n" in said or "Yields:\n" in said


def test_the_tab_key_offers_the_public_names_and_no_others():
    shell = InteractiveShell()
    shell.run_cell("import cgviz")
    with provisionalcompleter():
        offered = {each.text.lstrip(".") for each in shell.Completer.completions("cgviz.", 6)}
    assert offered == set(cgviz.__all__)


def test_a_program_that_uses_them_passes_a_type_checker(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import cgviz\n"
        "from cgviz.graph import Trace\n"
        "trace: Trace = cgviz.trace(lambda x: x * x, 3.0)\n"
        "ok: bool = cgviz.check(lambda x: x * x, 3.0).ok\n"
        "again: Trace = cgviz.load('trace.json')\n"
        "questions: int = len(cgviz.predict(trace).questions)\n"
        "wrong: int = trace.title\n"
    )
    # With no option that `make lint` does not have: then mypy reads what that run found of cgviz.
    mypy = [sys.executable, "-m", "mypy", str(program)]
    run = subprocess.run(mypy, capture_output=True, text=True)
    found = [line for line in run.stdout.splitlines() if "program.py" in line]
    assert len(found) == 1
    assert "program.py:7: error: Incompatible types in assignment" in found[0]
