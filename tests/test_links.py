"""Every link to the repository comes from its one address."""

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

ROOT = Path(__file__).resolve().parents[1]
LINKS = runpy.run_path(str(ROOT / "tools" / "links.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SLUG = "ada/gradients"
HUB_PAGE = "classroom/jupyterhub.md"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def published():
    """The address that the stored pages were written for: none, or a fork's."""
    found = re.search(r"mybinder\.org/v2/gh/([\w.-]+/[\w.-]+)/HEAD", read("README.md"))
    return found and found[1]


def test_the_pages_have_the_links_that_make_links_writes():
    assert read("README.md") == LINKS["written"](read("README.md"), published()), "run: make links"
    assert read(HUB_PAGE) == LINKS["hub_written"](read(HUB_PAGE), published()), "run: make links"


@pytest.mark.parametrize("path", LINKS["notebooks"](), ids=lambda path: path.as_posix()[-40:])
def test_a_notebook_begins_with_the_cell_that_make_links_writes(path):
    text = path.read_text(encoding="utf-8")
    assert text == LINKS["with_first"](text, published()), "run: make links"


def test_without_an_address_no_link_is_written():
    page = LINKS["written"](read("README.md"), None)
    assert "mybinder" not in page
    assert "colab" not in page
    assert "pip" not in "".join(LINKS["first_cell"](None)["source"])


@pytest.mark.parametrize(
    ("remote", "slug"),
    [
        ("https://github.com/ada/gradients.git", "ada/gradients"),
        ("git@github.com:ada/my.course.git", "ada/my.course"),
        ("https://github.com/ada/gradients/", "ada/gradients"),
        ("/home/ada/gradients", None),
        ("https://example.org/ada/gradients.git", None),
    ],
)
def test_the_address_is_that_of_the_remote(tmp_path, monkeypatch, remote, slug):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "remote", "add", "origin", remote], cwd=tmp_path, check=True)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.setitem(LINKS["slug"].__globals__, "ROOT", tmp_path)
    assert LINKS["slug"]() == slug
    monkeypatch.setenv("GITHUB_REPOSITORY", "grace/fork")
    assert LINKS["slug"]() == "grace/fork"


@pytest.mark.parametrize(
    ("there", "extra"),
    [(("cgviz", "tensorflow"), None), (("tensorflow",), ""), ((), "[tensorflow]")],
    ids=["installed", "as on Colab", "nothing"],
)
def test_the_first_cell_installs_what_is_missing_and_no_second_tensorflow(
    monkeypatch, there, extra
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in there)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    ran = []
    shell = InteractiveShell()
    shell.register_magic_function(ran.append, magic_name="pip")
    shell.run_cell("".join(LINKS["first_cell"](SLUG)["source"])).raise_error()
    wanted = f'install --quiet "{PROJECT["name"]}{extra} @ git+https://github.com/{SLUG}"'
    assert ran == ([] if extra is None else [wanted])
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"


def test_tensorflow_starts_without_a_word_after_the_first_cell():
    code = "".join(LINKS["first_cell"](None)["source"]) + "\nimport tensorflow\n"
    code = f"import gc\ngc.disable()  # a third of its time\n{code}"
    quiet = ("TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS")
    without = {name: value for name, value in os.environ.items() if name not in quiet}
    told = subprocess.run(
        [sys.executable, "-c", code], env=without, capture_output=True, text=True, check=True
    )
    assert (told.stdout, told.stderr) == ("", "")


def test_every_lesson_opens_on_binder_and_colab():
    readme = LINKS["written"](read("README.md"), SLUG)
    for lesson in ROOT.glob("notebooks/[0-9][0-9]_*.ipynb"):
        labpath = f"notebooks%2F{lesson.name}"
        assert f"(https://mybinder.org/v2/gh/{SLUG}/HEAD?labpath={labpath})" in readme
        colab = f"https://colab.research.google.com/github/{SLUG}/blob/HEAD/notebooks"
        assert f"({colab}/{lesson.name})" in readme


def test_on_the_package_index_every_link_and_picture_of_the_readme_is_whole():
    readme = LINKS["whole"](LINKS["written"](read("README.md"), SLUG), SLUG, "v1.0")
    links = re.findall(r"""\]\((.*?)\)|src(?:set)?="(.*?)\"""", readme)
    assert {(link or picture)[:8] for link, picture in links} == {"https://"}
    picture = f"https://raw.githubusercontent.com/{SLUG}/v1.0/notebooks/images/flow_light.svg"
    assert f'src="{picture}"' in readme
    assert f"](https://github.com/{SLUG}/blob/v1.0/LICENSE)" in readme


def notebook(*cells):
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def cell(source, kind="markdown"):
    return {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}


def test_the_first_cell_comes_before_all_code_and_once():
    text = notebook(cell("# Title"), cell("1 + 1", "code"))
    once = LINKS["with_first"](text, SLUG)
    title, first, last = json.loads(once)["cells"]
    assert (title["source"], last["source"]) == (["# Title"], ["1 + 1"])
    assert LINKS["is_first"](first)
    assert LINKS["with_first"](once, SLUG) == once


def test_a_title_is_the_first_heading_in_text(tmp_path):
    path = tmp_path / "lesson.ipynb"
    cells = [cell("# a comment", "code"), cell("Words.\n## Part\n# The title \n# Another")]
    path.write_text(notebook(*cells), encoding="utf-8")
    assert LINKS["title"](path) == "The title"
    path.write_text(notebook(cells[0]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"lesson\.ipynb has no heading"):
        LINKS["title"](path)


def test_what_stands_around_the_written_part_stays(tmp_path):
    begin, end = LINKS["BEGIN"], LINKS["END"]
    assert LINKS["between"](f"Before.\n{begin}old\n{end}After.", "new") == (
        f"Before.\n{begin}\nnew\n{end}After."
    )


def test_a_course_is_written_once_and_then_left_alone(tmp_path, monkeypatch, capsys):
    main = LINKS["main"]
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    for folder in ("classroom", "notebooks/exercises"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/course")
    page = f"{LINKS['BEGIN']}{LINKS['END']}"
    for name in ("README.md", HUB_PAGE):
        (tmp_path / name).write_text(page)
    for name in ("01_one.ipynb", "02_two.ipynb", "exercises/01_one.ipynb"):
        (tmp_path / "notebooks" / name).write_text(
            notebook(cell(f"# About {name}"), cell("1", "code"))
        )
    main()
    assert capsys.readouterr().out.count("written") == 5
    one, two = (
        line for line in (tmp_path / "README.md").read_text().splitlines() if "About" in line
    )
    assert one.count("owner/course") == 4
    assert "labpath=notebooks%2Fexercises%2F01_one.ipynb" in one
    assert two.endswith("| |")
    assert (
        "urlpath=lab%2Ftree%2Fcourse%2Fnotebooks%2F02_two.ipynb"
        in (tmp_path / HUB_PAGE).read_text()
    )
    main()
    assert capsys.readouterr().out == ""
