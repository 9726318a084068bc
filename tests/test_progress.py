"""A check that takes long says what it does, to a person and to nobody else."""

import io
from types import SimpleNamespace

import IPython
import pytest

from cgviz.checking import progress


class Terminal(io.StringIO):
    def __init__(self, tty):
        super().__init__()
        self.tty = tty

    def isatty(self):
        return self.tty


def run(monkeypatch, tty, patience):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr(progress, "PAUSE", -1.0)
    terminal = Terminal(tty)
    monkeypatch.setattr("sys.stderr", terminal)
    bar = progress.Progress("square", 2)
    bar.next("finite differences")
    bar.run()
    shown = terminal.getvalue()
    bar.close()
    return shown, terminal.getvalue()


def test_a_slow_check_shows_a_bar_and_removes_it(monkeypatch):
    shown, after = run(monkeypatch, tty=True, patience=-1.0)
    assert "check of square [████████████░░░░░░░░░░░░] finite differences: 1 runs" in shown
    assert after.endswith(" \r")


def test_a_quick_check_and_a_file_show_nothing(monkeypatch):
    assert run(monkeypatch, tty=True, patience=9.0)[1] == ""
    assert run(monkeypatch, tty=False, patience=-1.0)[1] == ""


@pytest.mark.parametrize("somebody", [True, False])
def test_only_a_notebook_that_somebody_sits_at_shows_a_line(monkeypatch, somebody):
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data) or handle)
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=somebody))
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    monkeypatch.setattr(progress, "LONG", -1.0)
    assert run(monkeypatch, tty=False, patience=-1.0)[1] == ""
    assert len(shown) == (2 if somebody else 0)
    assert not somebody or shown[-1] == "check of square: 1 runs of f in 0 s"


def test_a_notebook_that_runs_by_itself_is_known_to(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    source = "from cgviz.checking import progress\nprint(progress._in_notebook())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook).execute()
    assert notebook.cells[0].outputs[0].text == "False\n"
