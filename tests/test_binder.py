"""Binder builds an image in which the course runs, as far as that shows without building it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
BINDER = ROOT / "binder"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.mark.parametrize("name", ["environment.yml", "constraints.txt"])
def test_binder_reads_the_files_at_the_top(name):
    link = BINDER / name
    assert link.readlink() == Path("..", name)
    assert link.samefile(ROOT / name)


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_a_script_can_be_run(name):
    assert os.access(BINDER / name, os.X_OK)
    assert (BINDER / name).read_text().startswith("#!/bin/sh\n")


# --- the image -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dockerfile():
    """What repo2docker would build, and what it says about it."""
    command = shutil.which("repo2docker", path=PATH)
    if command is None:
        pytest.skip("repo2docker is missing: pip install jupyter-repo2docker")
    as_binder = ["--user-name", "jovyan", "--user-id", "1000"]
    done = subprocess.run(
        [command, "--no-build", "--debug", *as_binder, ROOT],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_the_image_has_the_python_that_environment_yml_names(dockerfile):
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (python,) = [d for d in dependencies if str(d).startswith("python")]
    assert f"Building conda environment for {python}\n" in dockerfile


def test_the_steps_of_the_image_are_in_an_order_that_works(dockerfile):
    steps = [
        "COPY --chown=1000:1000 src/ ${REPO_DIR}/",  # constraints.txt must be there
        '--file "binder/environment.yml"',
        "RUN ./binder/postBuild",
        'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"',
    ]
    places = [dockerfile.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)


# --- the scripts -----------------------------------------------------------------------------


def test_the_last_step_adds_the_checkout_and_chooses_no_versions(tmp_path):
    pip = tmp_path / "pip"
    pip.write_text('#!/bin/sh\necho "$@"\n')
    pip.chmod(0o755)
    done = subprocess.run(
        [BINDER / "postBuild"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"install .*--constraint constraints\.txt notebook", first)
    assert re.fullmatch(r"install .*--no-deps \.", second)


def test_a_failed_installation_ends_the_build(tmp_path):
    (tmp_path / "pip").symlink_to("/bin/false")
    done = subprocess.run([BINDER / "postBuild"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode


def test_start_keeps_tensorflow_quiet_and_hands_over_to_the_server():
    server = 'echo "$TF_CPP_MIN_LOG_LEVEL $TF_ENABLE_ONEDNN_OPTS $0 $1"; exit 3'
    done = subprocess.run(
        [BINDER / "start", "/bin/sh", "-c", server, "a server", "with spaces"],
        env={},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("3 0 a server with spaces\n", 3)


def test_what_is_installed_holds_every_file_of_the_package(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="pip install hatchling")
    (made,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    held = {name for name in ZipFile(made).namelist() if name.startswith("cgviz/")}
    files = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("cgviz/**/*") if p.is_file()}
    own = {name for name in held if not name.startswith("cgviz/notebooks/")}
    assert own == {name for name in files if "__pycache__" not in name}
    course = {name.removeprefix("cgviz/notebooks/") for name in held - own}
    assert {"01_chain_rule.ipynb", "exercises/01_chain_rule.ipynb", "glossary.md"} <= course
    assert not [name for name in course if "solutions" in name or "checkpoints" in name]
    assert any(name.endswith(".mjs") for name in held)
    assert "cgviz/py.typed" in held
