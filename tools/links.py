"""Write all links to this repository, from the address at which it is published.

python tools/links.py [--whole tag]     --whole: only README.md, as the package index needs it

- the table of lessons in README.md, with Binder and Colab
- the links for a JupyterHub in classroom/jupyterhub.md
- the first code cell of each notebook, which hides TensorFlow's start-up messages, and installs the
  course where it is missing, such as on Colab and Kaggle

The address comes from GITHUB_REPOSITORY, which GitHub's workflows set, or else from the git remote
`origin`. Without either, no link is written and the first cell installs nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "custom-gradients"  # on the index; `cgviz` is another project's there
BEGIN = "<!-- lessons: written by `make links` -->\n"
END = "<!-- end of lessons -->\n"
FIRST = "first"  # the tag and the id of the first code cell
TAGS = [FIRST, "nbval-skip", "skip-execution"]  # neither tests nor `make notebooks` run it


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
    """Every notebook."""
    folders = (".", "exercises", "solutions")
    return [p for folder in folders for p in sorted(ROOT.glob(f"notebooks/{folder}/*.ipynb"))]


def opened(notebook: Path, slug: str | None) -> str:
    """The links that open a notebook without an installation."""
    if slug is None:
        return ""
    path = notebook.relative_to(ROOT).as_posix()
    binder = f"https://mybinder.org/v2/gh/{slug}/HEAD?labpath={quote(path, safe='')}"
    colab = f"https://colab.research.google.com/github/{slug}/blob/HEAD/{path}"
    return f" [Binder]({binder}), [Colab]({colab})"


def row(notebook: Path, slug: str | None) -> str:
    """The table row of one lesson, with its exercises if it has any."""
    path = notebook.relative_to(ROOT).as_posix()
    first = f"| [{title(notebook)}]({path}){opened(notebook, slug)} |"
    exercise = notebook.parent / "exercises" / notebook.name
    if not exercise.exists():
        return f"{first} |\n"
    path = exercise.relative_to(ROOT).as_posix()
    return f"{first} [exercises]({path}){opened(exercise, slug)} |\n"


def hub_row(notebook: Path, slug: str) -> str:
    """The line of one lesson: its link fetches the course on a JupyterHub and opens the lesson."""
    name = slug.rpartition("/")[2]
    path = f"lab/tree/{name}/{notebook.relative_to(ROOT).as_posix()}"
    query = urlencode({"repo": f"https://github.com/{slug}", "urlpath": path})
    link = f"https://hub.example.org/hub/user-redirect/git-pull?{query}"
    return f"- {title(notebook)}: <{link}>\n"


def between(text: str, middle: str) -> str:
    """The text with `middle` as its generated part."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{middle}\n{END}{after}"


def written(readme: str, slug: str | None) -> str:
    """The README's text with its table of lessons up to date."""
    head = "| lesson | exercises |\n|---|---|\n"
    return between(readme, head + "".join(row(path, slug) for path in lessons()))


def whole(readme: str, slug: str, tag: str) -> str:
    """The README's text with absolute links, for the package index, which holds no other file."""
    files, pages = f"https://raw.githubusercontent.com/{slug}", f"https://github.com/{slug}/blob"
    readme = re.sub(r'\b(src|srcset)="(?!https:)', rf'\1="{files}/{tag}/', readme)
    return re.sub(r"\]\((?!https:|#)", f"]({pages}/{tag}/", readme)


def hub_written(page: str, slug: str | None) -> str:
    """The text of classroom/jupyterhub.md with its links up to date."""
    if slug is None:
        return between(page, "`make links` writes them here once the repository is on GitHub.\n")
    return between(page, "".join(hub_row(path, slug) for path in lessons()))


def first_cell(slug: str | None) -> dict[str, Any]:
    """The first code cell of every notebook."""
    source = (
        "# Hide TensorFlow's start-up messages, and switch off oneDNN, which rounds differently.\n"
        "import os\n"
        "\n"
        'os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}'
    )
    if slug is not None:
        source = source.replace("import os\n", "import os\nfrom importlib.util import find_spec\n")
        source += (
            "\n\n# Where the course is not installed, as on Colab or Kaggle, it is now.\n"
            'if not find_spec("cgviz"):\n'
            '    extra = "" if find_spec("tensorflow") else "[tensorflow]"\n'
            f'    %pip install --quiet "{PACKAGE}{{extra}} @ git+https://github.com/{slug}"'
        )
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": FIRST,
        "metadata": {"tags": TAGS},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def is_first(cell: dict[str, Any]) -> bool:
    """Whether a cell is the one that this script writes."""
    return FIRST in cell["metadata"].get("tags", [])


def with_first(text: str, slug: str | None) -> str:
    """A notebook's text with `first_cell` before its own code."""
    notebook = json.loads(text)
    cells = [cell for cell in notebook["cells"] if not is_first(cell)]
    kinds = [cell["cell_type"] for cell in cells]
    cells.insert(kinds.index("code"), first_cell(slug))
    notebook["cells"] = cells
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> None:
    """Write each file that is out of date."""
    where = slug()
    if where and sys.argv[1:2] == ["--whole"]:
        readme = ROOT / "README.md"
        readme.write_text(whole(readme.read_text(encoding="utf-8"), where, sys.argv[2]))
        return
    made = {ROOT / "README.md": written, ROOT / "classroom" / "jupyterhub.md": hub_written}
    made |= dict.fromkeys(notebooks(), with_first)
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
