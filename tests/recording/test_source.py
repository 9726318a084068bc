"""From an instruction of the learner's code to its line and its names."""

import ast
import importlib
import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz import suspects
from cgviz.recording import source


class Probe:
    """Stands in a statement for an op, and tells where the statement was when it ran."""

    def here(self, *args, **kwargs):
        frame = sys._getframe(1)
        self.place = frame.f_code, frame.f_lasti, None, 0
        return args[0] if args else self

    __call__ = gradient = __mul__ = __rmul__ = __neg__ = here


@pytest.fixture
def place(tmp_path):
    """Run a statement of a learner's file: its code, and the instruction that called `p`."""

    def run(statement, given=()):
        path = tmp_path / "learner.py"
        path.write_text(statement, encoding="utf-8")
        probe = Probe()
        names = {"p": probe, "k": 2.0, "box": Probe(), **dict(given)}
        exec(compile(statement, str(path), "exec"), names)
        return probe.place

    return run


# --- whose file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (__file__, source.LEARNER),
        ("/tmp/ipykernel_7/1.py", source.LEARNER),
        ("<string>", source.LEARNER),
        (suspects.__file__, source.LEARNER),
        (os.path.dirname(cgviz.__file__) + "_of_mine/model.py", source.LEARNER),
        (cgviz.__file__, source.OWN),
        (source.__file__, source.OWN),
        (ast.__file__, source.LIBRARY),
        (np.__file__, source.LIBRARY),
        (tf.__file__, source.LIBRARY),
        (keras.__file__, source.LIBRARY),
        ("<frozen importlib._bootstrap>", source.LIBRARY),
        ("/tmp/__autograph_generated_file_7.py", source.LIBRARY),
    ],
)
def test_a_file_is_the_learners_a_librarys_or_our_own(file, kind):
    assert source.kind(file) == kind


def test_packages_installed_into_any_folder_are_libraries(tmp_path, monkeypatch):
    # as `pip install --user` or `--target` do
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "waves-1.0.dist-info").mkdir()
    assert source.kind(str(tmp_path / "waves" / "__init__.py")) == source.LIBRARY
    assert source.kind(str(tmp_path) + "_of_mine.py") == source.LEARNER


def through(name, file, inner):
    """A function called `name`, of a file, that calls another one."""
    names = {"inner": inner}
    exec(compile(f"def {name}():\n    return inner()", file, "exec"), names)
    return names[name]


def looking():
    return source.place(sys._getframe(1))


LIBRARY, OURS = ast.__file__, source.__file__


def test_the_learners_code_is_the_innermost_that_is_no_librarys_and_not_ours():
    library = through("add", LIBRARY, through("trace", OURS, looking))
    assert through("f", "cell 2", library)()[0].co_filename == "cell 2"
    g = through("g", "cell 2", library)
    code, _, caller, _ = through("f", "cell 1", g)()
    assert (code.co_name, caller.co_name) == ("g", "f")
    assert source.place(None) == source.NOWHERE


@pytest.mark.parametrize(("file", "found"), [(OURS, None), (LIBRARY, "cell 1")])
def test_below_a_rule_that_we_run_no_line_is_the_learners(file, found):
    rule = through("run_rule", file, through("add", LIBRARY, looking))
    code = through("f", "cell 1", rule)()[0]
    assert (code and code.co_filename) == found


# --- the line --------------------------------------------------------------------------------


def test_a_source_line_is_where_the_learner_wrote_the_op():
    def f(x):
        return tf.nn.relu(x)

    op = cgviz.trace(f, 1.0).steps[0].op
    assert op.source.text == "return tf.nn.relu(x)"
    assert op.source.file == __file__


def test_a_statement_over_several_lines_is_where_its_expression_begins(place):
    found = source.locate(place("y = (\n    k +\n    p(\n        1.0\n    )\n)"))
    assert (found.line, found.text) == (3, "p(")


def test_a_rule_is_where_its_first_line_is(place):
    code = place("\n\n@p\ndef rule(dy):\n    return dy", {})[0].co_consts[0]
    assert source.at_line(code.co_filename, code.co_firstlineno).line == 3


def test_code_without_a_file_has_a_line_and_no_text():
    probe = Probe()
    exec("\ny = p(k)", {"p": probe, "k": 1.0})
    found = source.locate(probe.place)
    assert (found.file, found.line, found.text) == ("<string>", 2, "")
    assert source.assigned_name(probe.place) is None
    assert source.source_names(probe.place) == []


def test_an_op_that_no_line_of_the_learners_ran_has_no_source():
    assert source.locate(source.NOWHERE) is None
    assert source.assigned_name(source.NOWHERE) is None
    assert source.operand_names(source.NOWHERE) == ()
    assert source.source_names(source.NOWHERE) == []


def test_the_same_code_in_two_files_stays_apart(tmp_path):
    for name in ("one.py", "two.py"):
        text, probe = "y = p(1.0)", Probe()
        (tmp_path / name).write_text(f"{text}  # {name}")
        exec(compile(text, str(tmp_path / name), "exec"), {"p": probe})
        found = source.locate(probe.place)
        assert os.path.basename(found.file) == name
        assert found.text == f"{text}  # {name}"


def test_a_module_that_is_edited_and_loaded_again_has_its_new_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited_by_a_learner.py"
    path.write_text("def f(p):\n    first = p(1.0)\n")
    probe, module = Probe(), importlib.import_module(path.stem)
    module.f(probe)
    assert source.assigned_name(probe.place) == "first"
    path.write_text("import math\n\ndef f(p):\n    second = p(1.0)\n")
    importlib.reload(module).f(probe)
    assert source.assigned_name(probe.place) == "second"
    assert source.locate(probe.place).text == "second = p(1.0)"


def test_a_file_that_no_longer_parses_gives_no_names(place, tmp_path):
    where = place("y = p(k * 1.0)")
    (tmp_path / "learner.py").write_text("y = p(k * 1.0")
    assert source.assigned_name(where) is None


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("y = p(1.0)", "y"),
        ("y: float = p(1.0)", "y"),
        ("(y := p(1.0))", "y"),
        ("y = (\n    p(\n        1.0\n    )\n)", "y"),
        ("y = 3.0\ny *= p", "y"),
        ("y, z = p((1.0, 2.0))", "y, z"),
        ("box.y = p(1.0)", "box.y"),
        ("ä = 'äöü'; größe = p(1.0)", "größe"),
        ("y = z = p(1.0)", None),
        ("y = 2.0 + p(1.0)", None),
        ("y, z = p(1.0), 2.0", None),
        ("z = {}\ny, z[0] = p((1.0, 2.0))", None),
        ("y = p(1.0) if k else 2.0", None),
        ("y = [p(1.0) for _ in (1,)]", None),
        ("y = {}\ny[0] = p(1.0)", None),
        ("p(1.0)", None),
    ],
)
def test_an_op_has_the_name_its_whole_expression_is_assigned_to(place, statement, name):
    assert source.assigned_name(place(statement)) == name


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("y = p * k", ("p", "k")),
        ("y = 2.0 * p", (None, "p")),
        ("k *= p", ("k", "p")),
        ("y = p * box.weight", ("p", "box.weight")),
        ("y = -p", ()),
        ("y = p(k, k)", ()),
    ],
)
def test_the_operands_of_an_operator_are_named(place, statement, names):
    box = Probe()
    box.weight = 1.0
    assert source.operand_names(place(statement, {"box": box})) == names


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("p.gradient(k, [k, box])", ["k", "box"]),
        ("p.gradient(k, k)", ["k"]),
        ("p.gradient(sources=(k, (box, k)), target=k)", ["k", "box", "k"]),
        ("p.gradient(k, [box, 1.0, box.here])", ["box", None, "box.here"]),
        ("p.gradient(k, {'b': k, 'a': box})", [None]),  # a dict has an order of its own
        ("p.gradient(*(k, k))", []),
        ("p.gradient(k)", []),
        ("p * k", []),
    ],
)
def test_the_sources_of_a_gradient_are_named_in_tensorflows_order(place, statement, names):
    assert source.source_names(place(statement)) == names


def test_sources_in_a_dict_by_computed_keys_are_not_given_each_others_names():
    first, second = "b", "a"
    x, w = tf.constant(2.0), tf.constant(3.0)
    with cgviz.record() as trace, tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.add(x, w)
        tape.gradient(y, {first: x, second: w})
    assert not {op.name for op in trace.ops if op.kind == "input"} & {"x", "w"}
