"""Write every link to this repository from its one address, in pyproject.toml.

- the table of lessons in README.md, with Binder and Colab
- the links for a JupyterHub in classroom/jupyterhub.md
- the cell in each notebook that installs the course on Colab
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

ROOT = Path(__file__).resolve().parents[1]
BEGIN = "<!-- lessons: written by `make links` -->\n"
END = "<!-- end of lessons -->\n"
COLAB = "colab"
TAGS = [COLAB, "nbval-skip", "skip-execution"]  # no test and no `make notebooks` runs it


def address() -> str:
    """The repository's address."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def slug() -> str:
    """The repository's OWNER/NAME."""
    return urlsplit(address()).path.strip("/")


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


def opened(notebook: Path) -> str:
    """The table cells that open a notebook without an installation."""
    path = notebook.relative_to(ROOT).as_posix()
    binder = f"https://mybinder.org/v2/gh/{slug()}/HEAD?labpath={quote(path, safe='')}"
    colab = f"https://colab.research.google.com/github/{slug()}/blob/HEAD/{path}"
    return f"[Binder]({binder}) | [Colab]({colab})"


def row(notebook: Path) -> str:
    """One lesson, and its exercises if it has any."""
    path = notebook.relative_to(ROOT).as_posix()
    first = f"| [{title(notebook)}]({path}) | {opened(notebook)} |"
    exercise = notebook.parent / "exercises" / notebook.name
    if not exercise.exists():
        return f"{first} | | |\n"
    path = exercise.relative_to(ROOT).as_posix()
    return f"{first} [exercises]({path}) | {opened(exercise)} |\n"


def hub_row(notebook: Path) -> str:
    """One lesson on a JupyterHub: the link fetches the course, and opens the lesson."""
    name = slug().rpartition("/")[2]
    path = f"lab/tree/{name}/{notebook.relative_to(ROOT).as_posix()}"
    query = urlencode({"repo": address(), "urlpath": path})
    link = f"https://hub.example.org/hub/user-redirect/git-pull?{query}"
    return f"- {title(notebook)}: <{link}>\n"


def between(text: str, middle: str) -> str:
    """The text with its generated part as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{middle}\n{END}{after}"


def written(readme: str) -> str:
    """The README's text with its table of lessons as it should be."""
    head = "| lesson | | | exercises | | |\n|---|---|---|---|---|---|\n"
    return between(readme, head + "".join(row(path) for path in lessons()))


def hub_written(page: str) -> str:
    """The text of classroom/jupyterhub.md with its links as they should be."""
    return between(page, "".join(hub_row(path) for path in lessons()))


def colab_cell() -> dict[str, Any]:
    """The cell that installs the course on Colab, which has TensorFlow already."""
    source = (
        "# On Colab, run this first: it installs what is missing. Elsewhere it does nothing.\n"
        'if "google.colab" in str(get_ipython()):\n'
        "    %pip install --quiet anywidget\n"
        f'    %pip install --quiet --no-deps "git+{address()}"'
    )
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": COLAB,
        "metadata": {"tags": TAGS},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def is_colab(cell: dict[str, Any]) -> bool:
    """Whether a cell is the one that this script writes."""
    return COLAB in cell["metadata"].get("tags", [])


def with_colab(text: str) -> str:
    """A notebook's text with its cell for Colab behind the first one."""
    notebook = json.loads(text)
    notebook["cells"] = [cell for cell in notebook["cells"] if not is_colab(cell)]
    notebook["cells"].insert(1, colab_cell())
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> None:
    """Write what differs."""
    made = {ROOT / "README.md": written, ROOT / "classroom" / "jupyterhub.md": hub_written}
    made |= dict.fromkeys(notebooks(), with_colab)
    for path, write in made.items():
        before = path.read_text(encoding="utf-8")
        after = write(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print("written", path.relative_to(ROOT))


if __name__ == "__main__":
    main()
