"""A file is written whole or not at all."""

import pytest

from cgviz import disk


def test_a_file_takes_its_name_only_when_it_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    disk.write(path, b"old")

    def full(self, content):
        raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        disk.write(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["kept.json"]
    assert path.read_text() == "old"


def test_a_suffix_in_capitals_is_the_same_suffix(tmp_path):
    assert disk.target(tmp_path / "A.HTML", (".html",)) == tmp_path / "A.HTML"


def test_what_no_suffix_tells_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"told by its suffix: \.svg or \.png"):
        disk.target(tmp_path / "a.txt", (".svg", ".png"))
    with pytest.raises(FileNotFoundError, match="no folder"):
        disk.target(tmp_path / "nowhere" / "a.svg", (".svg",))
