"""A check that takes long says what it does, to a person and to nobody else."""

import io

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
