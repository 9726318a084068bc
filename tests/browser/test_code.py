"""The code beside the picture: a rule with its numbers; line, row, op and arrow light up."""

import pytest
import tensorflow as tf
from axe_playwright_python.sync_playwright import Axe

import cgviz


@tf.custom_gradient
def log1pexp(x):
    e = tf.exp(x)

    def grad(upstream):
        share = e / (1 + e)
        return upstream * share

    return tf.math.log(1 + e), grad


def f(x):
    y = log1pexp(x)
    z = tf.sin(y) * y
    return z * y


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "flow.html"
    cgviz.trace(f, 1.5).save(path)
    return path.as_uri()


@pytest.fixture
def opened(page, address):
    page.goto(address)
    page.locator("g.cgviz-node").first.wait_for()
    page.get_by_text("The same numbers as a table").click()
    page.get_by_text("The code, line by line").click()
    return page


def rule(page):
    """The lines of the rule in the side panel, each with what is noted under it."""
    lines = page.locator(".cgviz-panel .cgviz-code li")
    return [each.split("\n\n") for each in lines.all_inner_texts()]


def lit(page):
    """What is lit up: lines, rows by op, and the names of nodes; and how many arrows."""
    words = "[...document.querySelectorAll({})].map((e) => e.innerText ?? e.textContent)"
    lines = page.evaluate(words.format("'.cgviz-line.cgviz-alike'"))
    rows = page.evaluate(words.format("'tr.cgviz-alike'"))
    nodes = page.locator(".cgviz-node.cgviz-alike").count()
    return (
        [line.split(": ")[1] for line in lines],
        len(rows),
        nodes,
        page.locator(".cgviz-link.cgviz-alike").count(),
    )


def test_a_rule_has_its_numbers_once_its_step_has_come_and_not_before(opened):
    bare = ["def grad(upstream):", "    share = e / (1 + e)", "    return upstream * share"]
    opened.locator("g.cgviz-custom").click()
    assert rule(opened) == [[line] for line in bare]
    opened.get_by_role("button", name="To the end").click()
    (step,) = (s for s in cgviz.trace(f, 1.5).steps if s.op.kind == "custom")
    up, down = (cgviz.style.number(x) for x in (step.upstream[0], step.downstream[0]))
    (_, first), (_, second), (_, last) = rule(opened)
    assert first == f"upstream = {up}"
    assert second.split("\u2003") == ["share = 0.8176", "e = 4.482"]
    assert last.split("\u2003") == [f"upstream = {up}", "share = 0.8176", f"returns {down}"]


def test_line_row_op_and_arrows_light_up_together(opened):
    opened.get_by_role("button", name="To the end").click()
    opened.get_by_role("button", name="z = tf.sin(y) * y").hover()
    assert lit(opened) == (["z = tf.sin(y) * y"], 3, 2, 3)  # a sine of one input, a product of two
    opened.locator("g.cgviz-custom").hover()
    assert lit(opened) == (["y = log1pexp(x)"], 1, 1, 1)
    opened.locator("table.cgviz-plain tbody tr").first.hover()
    assert lit(opened) == (["return z * y"], 2, 1, 2)
    opened.locator("g.cgviz-custom").focus()
    assert lit(opened)[0] == ["y = log1pexp(x)"]


def test_the_lines_of_a_rule_light_up_with_its_op(opened):
    opened.get_by_role("button", name="To the end").click()
    opened.locator("g.cgviz-custom").click()
    lines = opened.locator(".cgviz-panel .cgviz-code li.cgviz-alike")
    assert lines.count() == 3
    opened.locator("g.cgviz-input").hover()
    assert lines.count() == 0
    opened.locator(".cgviz-panel .cgviz-code li").last.hover()
    assert opened.locator("g.cgviz-custom.cgviz-alike").count() == 1


@tf.custom_gradient
def cube(x):
    def grad(upstream):
        square = x * x
        return upstream * (3.0 * square)

    return x**3, grad


def cube_squared(x):
    y = cube(x)
    return y * y


def test_a_line_of_a_rule_goes_on_behind_where_it_began_and_no_number_is_cut(opened):
    opened.locator("g.cgviz-custom").click()
    opened.get_by_role("button", name="To the end").click()
    code = opened.locator(".cgviz-panel .cgviz-code")
    assert code.evaluate("(e) => e.scrollWidth <= e.clientWidth")
    # Its first row begins at the left with the spaces of the line, others at its padding.
    look = (
        "(e) => [getComputedStyle(e).paddingLeft, getComputedStyle(e).textIndent].map(parseFloat)"
    )
    found = [line.evaluate(look) for line in code.locator("code").all()]
    assert all(padding == -indent > 0 for padding, indent in found)


def test_a_line_of_a_rule_without_a_space_is_not_cut_in_explore(page, tmp_path):
    @tf.custom_gradient
    def log(x):
        def grad(upstream):
            if upstream != 0.0:
                return tf.math.divide_no_nan(tf.math.multiply_no_nan(tf.identity(upstream), 1.0), x)
            return upstream

        return tf.math.log(x), grad

    cgviz.explore(log, x=(1.0, 3.0)).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    page.locator("g.cgviz-custom").click()
    code = page.locator(".cgviz-panel .cgviz-code")
    assert "(tf.math.multiply_no_nan(tf.identity(upstream)," in code.inner_text()
    assert code.evaluate("(e) => e.scrollWidth <= e.clientWidth")


def test_where_the_ops_of_a_rule_are_shown_each_line_lights_up_with_its_own(page, tmp_path):
    cgviz.trace(cube_squared, 2.0, order=2).view(which=1).save(tmp_path / "flow.html")
    page.goto((tmp_path / "flow.html").as_uri())
    page.get_by_role("button", name="To the end").click()
    page.locator("g.cgviz-custom").click()
    made = {}
    for line in page.locator(".cgviz-panel .cgviz-code li").all():
        line.hover()
        nodes = page.locator(".cgviz-node.cgviz-alike .cgviz-title").all_text_contents()
        made[line.locator("code").text_content().strip()] = nodes
    assert made == {
        "def grad(upstream):": ["cube"],
        "square = x * x": ["×"],
        "return upstream * (3.0 * square)": ["3 ×", "×"],
    }


def test_a_line_chooses_its_op_and_axe_finds_nothing(opened):
    opened.get_by_role("button", name="y = log1pexp(x)").press("Enter")
    assert "log1pexp" in opened.locator(".cgviz-panel").inner_text()
    found = Axe().run(opened, context=".cgviz-view")
    assert [v["id"] for v in found.response["violations"]] == []


def test_there_is_no_fold_without_lines_or_without_steps(page, tmp_path):
    cgviz.trace(log1pexp, 1.5).save(tmp_path / "alone.html")
    page.goto((tmp_path / "alone.html").as_uri())
    code, table = (page.locator(f"details.cgviz-{name}") for name in ("source", "table"))
    table.wait_for()
    assert code.is_hidden()
    page.locator("g.cgviz-custom").press("o")  # then the lines of its body are shown
    code.locator("summary").click()
    code.get_by_text("tf.math.log(1 + e)").wait_for()
    page.locator("g.cgviz-custom").press("o")
    code.wait_for(state="hidden")
    with cgviz.record() as forward:
        tf.sin(tf.Variable(1.5))
    forward.save(tmp_path / "nothing.html")
    page.goto((tmp_path / "nothing.html").as_uri())
    page.locator("g.cgviz-node").first.wait_for()
    assert table.is_hidden()
