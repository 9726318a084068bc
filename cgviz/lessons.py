"""The lessons: the names of their notebooks, and `course`, which copies them to a folder.

A finding or a hint sends its reader to a lesson by one of these names.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CHAIN = "01_chain_rule"
UPSTREAM = "02_upstream_downstream"
INPUTS = "03_multiple_inputs"
VARIABLES = "04_variables"
NESTED = "05_nested_gradients"
STABILITY = "06_numerical_stability"
KINKS = "07_non_differentiable"
GRAPHS = "08_graphs_and_production"
DEBUGGING = "09_debugging"

_PACKAGE = Path(__file__).parent
# An installed package contains the notebooks; in a checkout they are beside the package.
_PLACES = (_PACKAGE / "notebooks", _PACKAGE.parent / "notebooks")
_LEFT_OUT = {"solutions", ".ipynb_checkpoints"}  # at any depth


def course(folder: str | os.PathLike[str]) -> Path:
    """Copy the lessons and exercises that belong to the installed version to a folder.

    An existing file stays as it is, so nobody's work is lost; a second call restores the files
    that were deleted. The solutions of the exercises are not copied.

    Args:
        folder: The folder to copy to; it is created if it does not exist.

    Returns:
        The folder, as an absolute path.

    Raises:
        NotADirectoryError: `folder` is a file.
        FileNotFoundError: This installation of cgviz has no notebooks.

    Example:
        >>> import cgviz
        >>> cgviz.course("gradients")  # doctest: +SKIP
        PosixPath('/home/ada/gradients')
    """
    target = Path(folder).expanduser().absolute()
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"`folder` is a file: {target}. Name a folder for the course.")
    source = next((place for place in _PLACES if (place / f"{CHAIN}.ipynb").exists()), None)
    if source is None:
        raise FileNotFoundError(
            "this installation of cgviz has no notebooks: install it again, or take them from "
            "the folder `notebooks` of its repository"
        )
    for path in sorted(source.rglob("*")):
        within = path.relative_to(source)
        if path.is_file() and not _LEFT_OUT & set(within.parts) and not (target / within).exists():
            (target / within).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / within)
    return target
