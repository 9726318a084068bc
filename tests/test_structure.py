"""The package is built as CONTRIBUTING says: imports run one way, private names stay private."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.glob("cgviz/**/*.py")
}
# Above the data model; a method of Trace imports these when it is called.
SECOND = ("cgviz.checking", "cgviz.diagnosing", "cgviz.hinting", "cgviz.classroom")
CORE = (
    "cgviz.recording",
    "cgviz.graph",
    "cgviz.reading",
    "cgviz.drawing",
    "cgviz.live",
    "cgviz.files",
    "cgviz.style",
)


def imported(module, everywhere=False):
    """The modules that a module imports when it loads; `everywhere` also those inside functions."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    package = MODULES[module].name == "__init__.py"
    found = set()
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            level = node.level - package
            above = module.split(".")[: -level or None]
            place = ".".join([*above, node.module] if node.module else above)
            names = [f"{place}.{name.name}" for name in node.names]
            found |= {name if name in MODULES else place for name in names}
        if everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)
    return found & set(MODULES) - {module}


def test_imports_at_module_level_form_no_cycle():
    TopologicalSorter({module: imported(module) for module in MODULES}).prepare()


def test_the_core_never_imports_the_second_layer():
    wrong = {
        (module, other)
        for module in MODULES
        if module.startswith(CORE)
        for other in imported(module, everywhere=True)
        if other.startswith(SECOND) and module != "cgviz.graph.trace"
    }
    assert wrong == set()


def test_no_module_uses_a_private_name_of_another():
    wrong = []
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        aliases = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                for name in node.names:
                    aliases.add(name.asname or name.name)
                    if name.name.startswith("_") and not name.name.startswith("__"):
                        wrong.append(f"{module}: {name.name}")
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in aliases
                and node.attr.startswith("_")
            ):
                wrong.append(f"{module}: {node.value.id}.{node.attr}")
    assert sorted(set(wrong)) == sorted(STILL_PRIVATE)


# What is left from before the rule; a name that goes from the code goes from here.
STILL_PRIVATE: list[str] = []


def test_only_the_tensorflow_hooks_use_private_tensorflow():
    wrong = [
        module
        for module, path in MODULES.items()
        if "tensorflow.python" in path.read_text(encoding="utf-8")
    ]
    assert wrong == ["cgviz.recording.tf_hooks"]


def test_contributing_names_every_part_of_the_package_and_nothing_else():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## How the package is built")[2].partition("From `cgviz.trace(f)`")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    there = {p.name for p in (ROOT / "cgviz").iterdir() if p.is_dir() and any(p.glob("*.py"))}
    there |= {p.name for p in (ROOT / "cgviz").glob("[a-z]*.py")}
    assert named == there


def test_every_file_that_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:cgviz|tests|notebooks|tools|classroom)/[^`*]+)`", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
