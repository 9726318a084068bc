"""A hint stands under an error as a note, and changes nothing else."""

import traceback

import pytest
import tensorflow as tf
from mistakes import ONE, gradient, one_gradient_for_two, raised

import cgviz
from cgviz.hinting import hints

# --- a recording -------------------------------------------------------------------------------


def test_a_recording_adds_one_note_and_changes_nothing_else():
    error = RuntimeError("tf.gradients is not supported when eager execution is enabled.")
    args = error.args
    with pytest.raises(RuntimeError) as caught, cgviz.record(), cgviz.record():
        raise error
    assert caught.value is error
    assert error.args is args
    assert len(error.__notes__) == 1
    assert [f.name for f in traceback.extract_tb(error.__traceback__)] == [
        "test_a_recording_adds_one_note_and_changes_nothing_else"
    ]


def test_a_recording_lets_an_interrupt_and_an_unknown_error_pass():
    with pytest.raises(KeyboardInterrupt) as caught, cgviz.record():
        raise KeyboardInterrupt
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(ZeroDivisionError) as caught, cgviz.record():
        1 / 0  # noqa: B018
    assert not hasattr(caught.value, "__notes__")


def test_an_error_whose_text_cannot_be_had_is_raised_as_it_is():
    class OddError(ValueError):
        def __str__(self):
            raise RuntimeError("no text")

    with pytest.raises(OddError), cgviz.record():
        raise OddError


@pytest.mark.parametrize("way", ["trace", "record"])
def test_errors_inside_trace_and_record_carry_their_hint(way):
    def run():
        if way == "trace":
            cgviz.trace(one_gradient_for_two, 1.0, 2.0)
        else:
            with cgviz.record():
                gradient(one_gradient_for_two, ONE, ONE)

    error = raised(run)
    assert type(error) is ValueError
    assert str(error).startswith("custom_gradient function expected")
    assert "one gradient per positional argument" in error.__notes__[0]


@pytest.mark.parametrize("returned", [(), (1.0, 1.0, 1.0)])
def test_a_rule_of_a_wrong_number_of_gradients_is_named_with_its_line_once(returned):
    def grad(dy):
        return returned

    product = tf.custom_gradient(lambda a, b: (a * b, grad))
    error = raised(lambda: cgviz.trace(lambda a, b: tf.sin(product(a, b)), 1.0, 2.0))
    line = grad.__code__.co_firstlineno
    assert f"grad` (line {line}: `def grad(dy):`)" in error.__notes__[0]
    hints.add(error)
    assert len(error.__notes__) == 1


# --- in IPython --------------------------------------------------------------------------------


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    yield made
    cgviz.unload_ipython_extension(made)
    InteractiveShell.clear_instance()


SECOND_CALL = """
import tensorflow as tf
x = tf.constant(1.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = x * x
tape.gradient(y, x)
tape.gradient(y, x)
"""


def test_the_extension_shows_the_hint_once_and_leaves_the_error_as_it_was(shell, capsys):
    shell.run_line_magic("load_ext", "cgviz")
    result = shell.run_cell(SECOND_CALL)
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("this tape has already given its gradient") == 1
    assert type(result.error_in_exec) is RuntimeError
    assert "non-persistent" in result.error_in_exec.args[0]


def test_an_ipython_that_shows_no_notes_gets_the_hint_under_the_traceback(
    shell, capsys, monkeypatch
):
    monkeypatch.setattr(shell.InteractiveTB, "structured_traceback", lambda *a, **k: ["Error"])
    shell.run_line_magic("load_ext", "cgviz")
    shell.run_cell(SECOND_CALL)
    assert capsys.readouterr().out.count("this tape has already given its gradient") == 1


def test_unloading_takes_the_hints_away(shell, capsys):
    shell.run_line_magic("load_ext", "cgviz")
    assert shell.custom_exceptions
    shell.run_line_magic("unload_ext", "cgviz")
    assert shell.custom_exceptions == ()
    shell.run_cell(SECOND_CALL)
    shown = capsys.readouterr()
    assert "cgviz" not in shown.out + shown.err


def test_loading_twice_is_loading_once(shell):
    before = shell.custom_exceptions
    cgviz.load_ipython_extension(shell)
    cgviz.load_ipython_extension(shell)
    cgviz.unload_ipython_extension(shell)
    assert shell.custom_exceptions == before
    cgviz.unload_ipython_extension(shell)


def test_syntax_errors_look_as_they_always_did(shell, capsys):
    shell.run_cell("1 +")
    before = capsys.readouterr()
    cgviz.load_ipython_extension(shell)
    shell.run_cell("1 +")
    assert capsys.readouterr() == before


def test_a_real_kernel_shows_hints_once_the_extension_is_loaded():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    sources = ["import cgviz", SECOND_CALL, "%load_ext cgviz", SECOND_CALL, "1 / 0"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    client.NotebookClient(notebook, allow_errors=True, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    before, after, other = (
        next(o for o in outputs[i] if o.output_type == "error") for i in (1, 3, 4)
    )
    assert (before.ename, before.evalue) == (after.ename, after.evalue)
    assert after.evalue.startswith("A non-persistent GradientTape")
    shown = "\n".join(after.traceback)
    assert "this tape has already given its gradient" in shown
    assert "05_nested_gradients" in shown
    assert not any("cgviz" in "\n".join(error.traceback) for error in (before, other))
