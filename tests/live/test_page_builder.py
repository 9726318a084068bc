"""Pages for the browser: made once, with the bodies of custom ops, and compared."""

import numpy as np
import tensorflow as tf

import cgviz
from cgviz import style
from cgviz.live import pages
from cgviz.live.pages import PageBuilder


@tf.custom_gradient
def square(x):
    def grad(upstream):
        return upstream * 2 * x

    y = x * x
    return y, grad


@tf.custom_gradient
def wrong(x):
    def grad(upstream):
        return 2 * x

    y = x * x
    return y, grad


def with_rule(rule):
    def f(x):
        a = rule(x)
        y = 3.0 * a
        return y

    return cgviz.trace(f, 2.0)


def test_a_picture_is_arranged_once():
    builder = PageBuilder(with_rule(square))
    assert builder.displays() is builder.displays(0)
    assert builder.selection() is builder.selection(0)


def test_a_trace_without_a_backward_pass_has_a_page():
    with cgviz.record() as trace:
        tf.sin(tf.constant(1.0))
    page = PageBuilder(trace).page()
    assert page["displays"][0]["steps"] == 0
    assert page["displays"][0]["backward"] == []


def test_an_opened_custom_op_is_a_frame_with_its_body_in_it():
    builder = PageBuilder(with_rule(square))
    assert builder.names() == ["custom:a"]
    shown = builder.page(None, ["custom:a"])["displays"][0]
    (frame,) = shown["frames"]
    owner = shown["nodes"][frame["node"]]
    nodes = builder.selection(None, ["custom:a"]).nodes
    inside = [i for i, node in enumerate(nodes) if node.owner == frame["node"]]
    assert [shown["nodes"][i]["kind"] for i in inside] == ["port", "op", "port"]
    assert owner["group"] == frame["name"] == "custom:a"
    assert shown["backward"] == builder.page()["displays"][0]["backward"]
    assert shown["forward"] == builder.page()["displays"][0]["forward"]


def test_the_side_panels_inside_a_custom_op_say_that_no_gradient_comes_there():
    panels = PageBuilder(with_rule(square)).page(None, ["custom:a"])["panels"]
    (inner,) = [
        each for each in panels if each["title"] == "y" and "the custom rule" in str(each["about"])
    ]
    assert "upstream " not in str(inner["about"])
    assert "gradient " not in str(inner["about"][1:-2])


def test_a_picture_without_frames_has_nothing_to_open():
    assert PageBuilder(with_rule(square), framed=False).names() == []


def test_many_rules_are_not_run_for_a_first_view():
    def f(x):
        for _ in range(pages.MOST_RUNS + 1):
            x = tf.sin(x)
        return x

    builder = PageBuilder(cgviz.trace(f, 1.0))
    assert {each.get("asked") for each in builder.page()["panels"]} == {None, False}
    assert {each.get("asked") for each in builder.patiently().page()["panels"]} == {None, True}


def marked(one, other, of="node"):
    """The nodes of either that have a text that differs; or such texts of its links."""
    found = [PageBuilder(one).page(), PageBuilder(other).page()]
    pages.mark(*found)
    said = []
    for page in found:
        texts = zip(page["displays"][0]["texts"], page["texts"]["written"], strict=True)
        last = [(text["i"], *versions[-1]) for text, versions in texts if text["of"] == of]
        differ = [(i, words) for i, _, words, differs in last if differs]
        names = (page["texts"]["nodes"][i] if of == "node" else words for i, words in differ)
        said.append([*dict.fromkeys(names)])
    return said


def test_beside_an_op_more_equal_texts_of_the_others_are_not_marked():
    one = cgviz.trace(lambda x: 3.0 * (x + 1.0), 2.0)
    other = cgviz.trace(lambda x: 3.0 * tf.sin(x + 1.0), 2.0)
    assert marked(one, other) == [["x (input)"], ["x (input)", "sin"]]


def test_two_traces_of_one_program_do_not_differ():
    assert marked(with_rule(square), with_rule(square)) == [[], []]


def test_what_differs_is_marked_on_both():
    one = cgviz.trace(lambda x: tf.square(x), 2.0)
    other = cgviz.trace(lambda x: tf.square(x), 3.0)
    assert marked(one, other) == [["x (input)"], ["x (input)"]]


def test_of_two_numbers_of_a_link_only_what_differs_is_marked():
    one, other = (cgviz.trace(lambda x: 3.0 * (x + 1.0), at) for at in (2.0, 5.0))
    assert marked(one, other, "link") == [["2", "3", "9"], ["5", "6", "18"]]
    assert marked(one, other) == [[], []]


def test_what_an_op_that_differs_reads_is_not_marked_where_it_is_equal():
    one, other = (cgviz.trace(lambda x, k=k: x**2 + k, 2.0) for k in (1.0, 1.5))
    assert marked(one, other, "link") == [["5"], ["5.5"]]
    assert marked(one, other) == [["+ 1"], ["+ 1.5"]]


def test_an_op_that_the_other_trace_has_not_is_marked():
    assert "a (square, custom)" in marked(with_rule(square), with_rule(wrong))[0]
    assert "a (wrong, custom)" in marked(with_rule(square), with_rule(wrong))[1]


def test_the_gradient_of_a_rule_that_forgot_a_term_is_marked():
    """It equals one of the two terms that the other picture shows, and differs from their sum."""
    half = tf.custom_gradient(lambda x: (x * x, lambda upstream: upstream * x))
    one = cgviz.trace(lambda x: 3.0 * half(x), 2.0)
    other = cgviz.trace(lambda x: 3.0 * (x * x), 2.0)
    assert "6" in marked(one, other, "link")[0]


# --- search --------------------------------------------------------------------------------------


def loop(count=30):
    """Steps with one weight, then a scope with another."""
    w, v = tf.Variable(0.75, name="w"), tf.Variable(3.0, name="v")

    def f(x):
        for i in range(count):
            with tf.name_scope(f"step_{i}"):
                x = tf.tanh(w * x)
        with tf.name_scope("head"):
            y = tf.sin(v * x)
        return y

    return cgviz.trace(f, 0.5)


def test_what_is_found_has_its_own_gradient_and_the_largest_is_first():
    trace = loop()
    rows = PageBuilder(trace).page()["search"]["rows"]
    found = {(name, what): size.split()[-1] for name, what, _, size in rows}
    assert found["x", "input"] == style.number(abs(trace.gradients[0]))
    for name in ("w", "v"):
        assert found[name, "variable"] == style.number(abs(trace.variables[name]))
    assert found["y", "Sin"] == "1"
    inside = [s for s in trace.steps if s.op.scope == "head"]
    largest = max(float(np.linalg.norm(s.upstream[0])) for s in inside)
    assert found["head", "scope"] == style.number(largest)
    sizes = [float(x.split()[-1].replace("−", "-")) for *_, x in rows if "no gradient" not in x]
    assert sizes == sorted(sizes, reverse=True)


def test_whatever_is_found_is_reached_by_what_is_to_be_turned_over():
    builder = PageBuilder(loop())
    rows = builder.page()["search"]["rows"]
    for name, what, *_ in rows:
        toggled = set()
        for _ in range(4):
            search = builder.page(None, sorted(toggled))["search"]
            (k,) = (k for k, row in enumerate(search["rows"]) if tuple(row[:2]) == (name, what))
            if not (opens := search["open"][k]):
                break
            toggled -= {each for each in toggled if "@" in opens and each != opens and "@" in each}
            toggled ^= {opens}
        node = builder.selection(None, sorted(toggled)).nodes[search["at"][k]]
        assert not opens
        assert name in {op.name for op in node.ops} | {op.scope for op in node.ops}


def test_a_large_picture_has_the_bars_of_its_minimap_and_a_small_one_none():
    def deep(x, w, v):
        for _ in range(40):
            x = 0.5 * tf.sin(x)
        return x + 0.0 * tf.sin(w) + tf.stop_gradient(v)

    trace = cgviz.trace(deep, 0.5, 0.3, 0.2)
    builder = PageBuilder(trace)
    bars = {builder.selection().nodes[i].key: bar for i, bar in enumerate(builder.page()["norms"])}
    heights = [high for high, words, sign in bars.values() if not sign]
    assert (min(heights), max(heights)) == (0, 1)
    assert {sign for *_, sign in bars.values()} == {"", "○", "∅"}
    assert all((high < 0) == bool(sign) for high, _, sign in bars.values())
    assert "norms" not in PageBuilder(cgviz.trace(tf.sin, 1.0)).page()


def test_of_very_many_repeats_a_file_keeps_some_evenly():
    found = [int(name.rpartition("@")[2]) for name in PageBuilder(loop(100)).others()]
    assert found == [*range(0, 99, 3)]
    assert len(PageBuilder(loop(30)).others()) == 29
