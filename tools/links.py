"""Write every link to this repository, from the address that it is published at.

- the table of lessons in README.md, with Binder and Colab
- the links for a JupyterHub in classroom/jupyterhub.md
- the cell in each notebook that installs the course on Colab, Kaggle and the like

The address is GITHUB_REPOSITORY in a workflow of GitHub, and elsewhere that of the git remote
`origin`. Where there is neither, no link and no such cell is written: none that leads nowhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parents[1]
BEGIN = "<!-- lessons: written by `make links` -->\n"
END = "<!-- end of lessons -->\n"
INSTALL = "colab"  # the tag and the id of the cell
TAGS = [INSTALL, "nbval-skip", "skip-execution"]  # no test and no `make notebooks` runs it


def slug() -> str | None:
    """The repository's OWNER/NAME on GitHub; None where it is not known."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return name
    command = ["git", "remote", "get-url", "origin"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:  # no git here
        return None
    match = re.search(r"github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", found.stdout.strip())
    return match[1] if match else None


def title(notebook: Path) -> str:
    """The first heading of a notebook."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if cell["cell_type"] == "markdown" and line.startswith("# "):
                return line.removeprefix("# ").strip()
    raise ValueError(f"{notebook} has no heading")


def lessons() -> list[Path]:
    """The lessons in reading order."""
    return sorted(ROOT.glob("notebooks/[0-9][0-9]_*.ipynb"))


def notebooks() -> list[Path]:
    """Every notebook that can be opened on Colab."""
    folders = ("exercises", "solutions")
    return [*lessons(), *(p for f in folders for p in sorted(ROOT.glob(f"notebooks/{f}/*.ipynb")))]


def opened(notebook: Path, slug: str | None) -> str:
    """The links that open a notebook without an installation."""
    if slug is None:
        return ""
    path = notebook.relative_to(ROOT).as_posix()
    binder = f"https://mybinder.org/v2/gh/{slug}/HEAD?labpath={quote(path, safe='')}"
    colab = f"https://colab.research.google.com/github/{slug}/blob/HEAD/{path}"
    return f" [Binder]({binder}), [Colab]({colab})"


def row(notebook: Path, slug: str | None) -> str:
    """One lesson, and its exercises if it has any."""
    path = notebook.relative_to(ROOT).as_posix()
    first = f"| [{title(notebook)}]({path}){opened(notebook, slug)} |"
    exercise = notebook.parent / "exercises" / notebook.name
    if not exercise.exists():
        return f"{first} |\n"
    path = exercise.relative_to(ROOT).as_posix()
    return f"{first} [exercises]({path}){opened(exercise, slug)} |\n"


def hub_row(notebook: Path, slug: str) -> str:
    """One lesson on a JupyterHub: the link fetches the course, and opens the lesson."""
    name = slug.rpartition("/")[2]
    path = f"lab/tree/{name}/{notebook.relative_to(ROOT).as_posix()}"
    query = urlencode({"repo": f"https://github.com/{slug}", "urlpath": path})
    link = f"https://hub.example.org/hub/user-redirect/git-pull?{query}"
    return f"- {title(notebook)}: <{link}>\n"


def between(text: str, middle: str) -> str:
    """The text with its generated part as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{middle}\n{END}{after}"


def written(readme: str, slug: str | None) -> str:
    """The README's text with its table of lessons as it should be."""
    head = "| lesson | exercises |\n|---|---|\n"
    return between(readme, head + "".join(row(path, slug) for path in lessons()))


def hub_written(page: str, slug: str | None) -> str:
    """The text of classroom/jupyterhub.md with its links as they should be."""
    if slug is None:
        return between(page, "`make links` writes them here once the repository is on GitHub.\n")
    return between(page, "".join(hub_row(path, slug) for path in lessons()))


def install_cell(slug: str) -> dict[str, Any]:
    """The cell that installs the course where TensorFlow is and cgviz is not, as on Colab."""
    source = (
        "# On Colab or Kaggle this installs the course. Elsewhere it does nothing.\n"
        "try:\n"
        "    import cgviz\n"
        "except ImportError:\n"
        "    %pip install --quiet anywidget\n"
        f'    %pip install --quiet --no-deps "git+https://github.com/{slug}"'
    )
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": INSTALL,
        "metadata": {"tags": TAGS},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def is_install(cell: dict[str, Any]) -> bool:
    """Whether a cell is the one that this script writes."""
    return INSTALL in cell["metadata"].get("tags", [])


def with_install(text: str, slug: str | None) -> str:
    """A notebook's text with its cell that installs the course behind the first one."""
    notebook = json.loads(text)
    notebook["cells"] = [cell for cell in notebook["cells"] if not is_install(cell)]
    if slug is not None:
        notebook["cells"].insert(1, install_cell(slug))
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> None:
    """Write what differs."""
    where = slug()
    made = {ROOT / "README.md": written, ROOT / "classroom" / "jupyterhub.md": hub_written}
    made |= dict.fromkeys(notebooks(), with_install)
    for path, write in made.items():
        before = path.read_text(encoding="utf-8")
        after = write(before, where)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print("written", path.relative_to(ROOT))
    if where is None:
        print(
            "no address: set GITHUB_REPOSITORY=owner/name, or add a git remote `origin` on GitHub"
        )


if __name__ == "__main__":
    main()
