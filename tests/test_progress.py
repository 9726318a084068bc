"""A line that says what is being done shows where somebody waits, and nowhere else."""

import io
from types import SimpleNamespace

import IPython
import pytest

from cgviz import findings


class Terminal(io.StringIO):
    def __init__(self, tty):
        super().__init__()
        self.tty = tty

    def isatty(self):
        return self.tty


ERASED = "\r\x1b[K"


def shown(monkeypatch, tty, patience=-1.0):
    """What a check that takes a while shows on the way, and what is left of it."""
    monkeypatch.setattr(findings, "PATIENCE", patience)
    monkeypatch.setattr(findings, "PAUSE", -1.0)
    terminal = Terminal(tty)
    monkeypatch.setattr("sys.stderr", terminal)
    line = findings.Progress("check of square")
    line.doing = "value"
    line.run()
    before = terminal.getvalue()
    line.close()
    return before, terminal.getvalue()


def test_a_slow_check_says_what_it_does_and_removes_the_line(monkeypatch):
    before, after = shown(monkeypatch, tty=True)
    assert before == f"{ERASED}check of square: value, 1 runs in 0 s"
    assert after == before + ERASED


def test_a_quick_check_and_a_file_show_nothing(monkeypatch):
    assert shown(monkeypatch, tty=True, patience=9.0)[1] == ""
    assert shown(monkeypatch, tty=False)[1] == ""


@pytest.mark.parametrize("somebody", [True, False])
def test_only_a_notebook_that_somebody_sits_at_shows_a_line_and_keeps_none(monkeypatch, somebody):
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=somebody))
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    said = []
    monkeypatch.setattr(
        IPython.display,
        "display",
        lambda html, display_id, update: said.append((html.data, display_id, update)),
    )
    assert shown(monkeypatch, tty=False)[1] == ""
    lines = [("check of square: value, 1 runs in 0 s", False), ("", True)] if somebody else []
    assert [(line, update) for line, _, update in said] == lines
    assert len({display_id for _, display_id, _ in said}) == len(lines) / 2


def test_a_notebook_that_runs_by_itself_is_known_to():
    import nbformat
    from nbclient import NotebookClient

    source = "from cgviz import findings\nprint(findings.is_watched())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook).execute()
    assert notebook.cells[0].outputs[0].text == "False\n"
