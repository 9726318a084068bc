"""The files around the package agree with one another."""

import os
import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
TOP = {
    *(".ci", ".devcontainer", ".dockerignore", ".github", ".gitignore", "CHANGELOG.md"),
    *("CODE_OF_CONDUCT.md", "SECURITY.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE"),
    *("Makefile", "README.md", "binder", "cgviz", "classroom", "conftest.py", "constraints.txt"),
    *("environment.yml", "notebooks", "pyproject.toml", "site", "tests", "tools"),
}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


PYPROJECT = tomllib.loads(read("pyproject.toml"))
PROJECT = PYPROJECT["project"]
ENVIRONMENT = yaml.safe_load(read("environment.yml"))
CITATION = yaml.safe_load(read("CITATION.cff"))


@pytest.fixture(scope="module")
def tracked():
    """The committed files, as paths from the top."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [Path(name) for name in listing.stdout.splitlines() if (ROOT / name).exists()]


# --- the top level ---------------------------------------------------------------------------


def test_the_top_level_holds_only_what_is_expected(tracked):
    assert {path.parts[0] for path in tracked} <= TOP


def test_the_licence_is_the_same_everywhere():
    assert PROJECT["license"] == CITATION["license"] == "Apache-2.0"
    assert "Apache License\n" in read("LICENSE")
    assert "Version 2.0" in read("LICENSE")
    assert "[Apache-2.0](LICENSE)" in read("README.md")


def test_the_authors_are_the_same_everywhere():
    assert PROJECT["authors"] == CITATION["authors"]


def test_the_version_is_written_in_one_place(tracked):
    assert "version" in PROJECT["dynamic"]
    assert "version" not in {*PROJECT, *CITATION}
    literal = re.compile(r"""__version__\s*=\s*["']""")
    written = [p.as_posix() for p in tracked if p.suffix == ".py" and literal.search(read(p))]
    assert written == [PYPROJECT["tool"]["hatch"]["version"]["path"]]


# --- Python and the packages -----------------------------------------------------------------


def test_the_environment_names_one_python_that_the_package_allows():
    (python,) = [d for d in ENVIRONMENT["dependencies"] if str(d).startswith("python")]
    name, _, version = python.partition("=")
    assert (name, bool(re.fullmatch(r"3\.\d+", version))) == ("python", True)
    assert version in SpecifierSet(PROJECT["requires-python"])


def test_the_lowest_python_is_the_same_everywhere():
    lowest = re.search(r">=(3\.\d+)", PROJECT["requires-python"])[1]
    assert PYPROJECT["tool"]["mypy"]["python_version"] == lowest
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{lowest.replace('.', '')}"
    assert set(re.findall(r"--python(?:-version)? (3\.\d+)", read("Makefile"))) == {lowest}


def test_the_classifiers_list_the_pythons_allowed():
    named = {c.split(" :: ")[-1] for c in PROJECT["classifiers"] if " Python :: 3." in c}
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert named == {f"3.{minor}" for minor in range(30) if f"3.{minor}" in allowed}


def test_the_environment_has_the_learners_packages_in_the_pinned_versions():
    (pip,) = [d["pip"] for d in ENVIRONMENT["dependencies"] if isinstance(d, dict)]
    assert pip[0] == "-c constraints.txt"
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + extras["cpu"] + extras["lab"]
    wanted = [Requirement(line) for line in lines]
    installed = [Requirement(line) for line in pip[1:]]
    assert {(r.name, str(r.marker)) for r in installed} == {(r.name, str(r.marker)) for r in wanted}
    assert not any(r.specifier for r in installed), "versions belong in pyproject.toml"


def pins():
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    return [Requirement(line) for line in lines]


def test_every_pin_is_exact_and_has_no_address():
    assert all(len(p.specifier) == 1 and str(p.specifier).startswith("==") for p in pins())
    assert not re.search(r"://|@|--|file:|/\w+/", read("constraints.txt"))


def test_every_requirement_is_pinned_within_its_range():
    pinned = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins()}
    lines = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for requirement in map(Requirement, lines):
        if requirement.name != PROJECT["name"]:
            assert pinned[requirement.name.lower()] in requirement.specifier, requirement


def test_each_tensorflow_of_the_matrix_is_in_the_range():
    (versions,) = re.findall(r"^TENSORFLOWS := (.*)$", read("Makefile"), re.MULTILINE)
    (first, *_, last) = versions.split()
    extras = PROJECT["optional-dependencies"]
    ranges = [Requirement(line) for line in extras["cpu"] + extras["tensorflow"]]
    assert all(version in r.specifier for r in ranges for version in versions.split())
    assert f"TensorFlow {first} to {last}" in read("README.md")


def test_no_tensorflow_is_installed_over_another():
    """`tensorflow-cpu` unpacks over an installed `tensorflow`, and neither works afterwards."""
    assert not [line for line in PROJECT["dependencies"] if "tensorflow" in line]


def test_nobody_is_told_to_install_another_projects_package(tracked):
    """On the package index `cgviz` is another project."""
    assert PROJECT["name"] != "cgviz"
    wrong = [
        path.as_posix()
        for path in tracked
        if (ROOT / path).is_file()
        and re.search(
            r"(pip|uv|uvx|pipx|conda|mamba)\b[^\n`'\"]* (install|add|run) (-[^\s]+ )*cgviz\b",
            (ROOT / path).read_bytes().decode("utf-8", "ignore"),
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["README.md", "classroom/jupyterhub.md"])
def test_whoever_is_told_to_install_the_checkout_gets_a_tensorflow(name):
    told = re.findall(r"""pip install .*["']\.\[(.*)\]["']""", read(name))
    assert told
    assert all("cpu" in extras.split(",") for extras in told)


# --- scripts ---------------------------------------------------------------------------------


def test_what_a_fresh_machine_runs_can_be_run():
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert read(".ci/run").startswith("#!")


@pytest.mark.parametrize(
    ("user", "flags", "started"),
    [(1000, "", True), (0, "", False), (0, "--allow-root", True)],
)
def test_make_lab_opens_the_first_lesson_and_tells_root_what_to_do(tmp_path, user, flags, started):
    """The address that is printed is the default one, and not that of a file that is named."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(read(name))
    scripts = {"python": "", "jupyter": 'echo "$@"', "id": f"echo {user}"}
    for name, script in scripts.items():
        path = tmp_path / ".venv" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    (tmp_path / ".venv" / "lab.stamp").touch()
    env = os.environ | {"PATH": f"{tmp_path}/.venv/bin:{os.environ['PATH']}"}
    command = ["make", "lab", f"FLAGS={flags}"]
    made = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    first = "lab --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb"
    assert (first in made.stdout) == started
    assert ("make lab FLAGS='--allow-root'" in made.stdout) == (not started)
    assert (made.returncode == 0) == started


@pytest.mark.parametrize("name", ["Makefile", "binder/start", "conftest.py"])
def test_tensorflow_is_kept_quiet_wherever_it_starts(name):
    assert re.search(r"TF_CPP_MIN_LOG_LEVEL\W+3\b", read(name))
    assert re.search(r"TF_ENABLE_ONEDNN_OPTS\W+0\b", read(name))


# --- the JavaScript --------------------------------------------------------------------------


def test_the_javascript_can_be_read_whole_and_no_line_is_cut_beside_another():
    """Both together: alone, each limit would be kept by longer lines or by more of them.

    No build step makes it smaller: what is written here is what each page loads.
    """
    lines = [x for path in (ROOT / "cgviz/live/js").glob("*.mjs") for x in read(path).splitlines()]
    assert 0 < len(lines) <= 2000
    assert [line for line in lines if len(line) > 120] == []


# --- what the prose says ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".ci/run"])
def test_every_make_command_that_is_named_exists(name):
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", read(name), re.MULTILINE))
    assert named <= targets


def test_every_make_target_is_explained():
    makefile = read("Makefile")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert re.findall(r"^([a-z]+):.*## .", makefile, re.MULTILINE) == phony
    assert all(f"`make {t}`" in read("CONTRIBUTING.md") for t in phony if t != "help")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_link_to_a_file_leads_somewhere(name):
    for target in re.findall(r"\]\(([^)#]+)\)", read(name)):
        assert "://" in target or (ROOT / target).exists(), target


def test_every_place_the_readme_names_exists():
    layout = read("README.md").partition("## What is where")[2]
    places = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", layout, re.MULTILINE)))
    assert places
    assert not [place for place in places if not (ROOT / place).exists()]


def test_the_readmes_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    import matplotlib as mpl

    mpl.use("Agg")
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["trace"].value == 10.0
    assert list(names["trace"].gradients) == [7.0]
