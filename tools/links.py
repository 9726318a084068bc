"""Write the table of lessons in README.md, with links made from the address in pyproject.toml."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
BEGIN = "<!-- lessons: written by `make links` -->\n"
END = "<!-- end of lessons -->\n"


def slug() -> str:
    """The repository's OWNER/NAME."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return urlsplit(project["urls"]["Repository"]).path.strip("/")


def title(notebook: Path) -> str:
    """The first heading of a notebook."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if cell["cell_type"] == "markdown" and line.startswith("# "):
                return line.removeprefix("# ").strip()
    raise ValueError(f"{notebook} has no heading")


def row(notebook: Path) -> str:
    """One lesson: its title, and where it opens without an installation."""
    path = notebook.relative_to(ROOT).as_posix()
    binder = f"https://mybinder.org/v2/gh/{slug()}/HEAD?labpath={quote(path, safe='')}"
    colab = f"https://colab.research.google.com/github/{slug()}/blob/HEAD/{path}"
    return f"| [{title(notebook)}]({path}) | [Binder]({binder}) | [Colab]({colab}) |\n"


def written(readme: str) -> str:
    """The README's text with its table of lessons as it should be."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = "| lesson | | |\n|---|---|---|\n"
    rows = "".join(row(path) for path in sorted(ROOT.glob("notebooks/[0-9][0-9]_*.ipynb")))
    return f"{before}{BEGIN}\n{head}{rows}\n{END}{after}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8")), encoding="utf-8")
