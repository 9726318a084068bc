"""The modules of the browser's part become one, in which nothing is lost or hidden."""

import re
from collections import Counter

from cgviz.live import module

NAMED = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
FILES = sorted(module.SCRIPTS.glob("*.mjs"))


def test_it_imports_nothing_and_exports_what_a_widget_needs():
    assert not re.findall(r"^import\b", module.source(), re.MULTILINE)
    assert re.findall(r"^export .*", module.source(), re.MULTILINE) == ["export default {"]


def test_every_file_is_in_it_once():
    for path in FILES:
        first = path.read_text(encoding="utf-8").split("\n", 1)[0]
        assert first.startswith("// ")
        assert module.source().count(first + "\n") == 1, path.name


def test_no_name_is_given_twice():
    twice = [name for name, count in Counter(NAMED.findall(module.source())).items() if count > 1]
    assert twice == []


def test_what_is_named_outside_a_function_comes_before_it_is_needed():
    """A const of one file that another computes with while it loads would not be there yet."""
    text = module.source()
    places = [text.index(path.read_text(encoding="utf-8").split("\n", 1)[0]) for path in FILES]
    order = [path.stem for _, path in sorted(zip(places, FILES, strict=True))]
    for path in FILES:
        imported = re.findall(r'from "\./(\w+)\.mjs"', path.read_text(encoding="utf-8"))
        assert all(order.index(each) < order.index(path.stem) for each in imported), path.name
