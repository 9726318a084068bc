"""`cgviz.course` copies the lessons and loses nobody's work."""

from pathlib import Path

import pytest

import cgviz

ROOT = Path(__file__).resolve().parents[1]


def names(folder):
    return {p.relative_to(folder).as_posix() for p in Path(folder).rglob("*") if p.is_file()}


def test_it_copies_the_lessons_and_exercises_and_no_solutions(tmp_path):
    target = cgviz.course(tmp_path / "gradients")
    assert target == tmp_path / "gradients"
    wanted = {
        n for n in names(ROOT / "notebooks") if "solutions" not in n and "checkpoints" not in n
    }
    assert names(target) == wanted
    assert "01_chain_rule.ipynb" in wanted
    assert "exercises/01_chain_rule.ipynb" in wanted


def test_what_a_student_wrote_stays_and_what_was_deleted_comes_back(tmp_path):
    target = cgviz.course(tmp_path)
    (target / "01_chain_rule.ipynb").write_text("my work")
    (target / "glossary.md").unlink()
    cgviz.course(tmp_path)
    assert (target / "01_chain_rule.ipynb").read_text() == "my work"
    assert (target / "glossary.md").exists()


def test_a_file_in_the_place_of_the_folder_is_an_error_that_names_it(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(NotADirectoryError, match=r"`folder` is a file: .*x"):
        cgviz.course(tmp_path / "x")


def test_an_installation_without_notebooks_says_so(tmp_path, monkeypatch):
    from cgviz import lessons

    monkeypatch.setattr(lessons, "_PLACES", (tmp_path,))
    with pytest.raises(FileNotFoundError, match="has no notebooks"):
        cgviz.course(tmp_path / "y")
    assert not (tmp_path / "y").exists()
