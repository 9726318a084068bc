"""Pages for the browser: made once, with the bodies of custom ops, and compared."""

import tensorflow as tf

import cgviz
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
    assert builder.display() is builder.display(0)
    assert builder.selection() is builder.selection(0)


def test_a_trace_without_a_backward_pass_has_a_page():
    with cgviz.record() as trace:
        tf.sin(tf.constant(1.0))
    page = PageBuilder(trace).page()
    assert page["display"]["which"] is None
    assert page["display"]["backward"] == []


def test_an_opened_custom_op_is_a_frame_with_its_body_in_it():
    builder = PageBuilder(with_rule(square))
    assert builder.names() == ["custom:a"]
    shown = builder.page(None, ["custom:a"])["display"]
    (frame,) = shown["frames"]
    owner = shown["nodes"][frame["node"]]
    inside = [node for node in shown["nodes"] if node["owner"] == frame["node"]]
    assert [node["kind"] for node in inside] == ["port", "op", "port"]
    assert owner["group"] == frame["name"] == "custom:a"
    assert shown["backward"] == builder.page()["display"]["backward"]
    assert shown["forward"] == builder.page()["display"]["forward"]


def test_the_side_panels_inside_a_custom_op_say_that_no_gradient_comes_there():
    panels = PageBuilder(with_rule(square)).page(None, ["custom:a"])["panels"]
    (inner,) = [each for each in panels if each["title"] == "y" and fact(each)]
    assert inner["outputs"][0]["upstream"] is None


def fact(each):
    return [words for name, words in each["facts"] if name == "backward"]


def test_a_picture_without_frames_has_nothing_to_open():
    assert PageBuilder(with_rule(square), framed=False).names() == []


def test_many_rules_are_not_run_for_a_first_view():
    def f(x):
        for _ in range(pages.MOST_RUNS + 1):
            x = tf.sin(x)
        return x

    builder = PageBuilder(cgviz.trace(f, 1.0))
    assert {each.get("asked") for each in builder.page()["panels"]} == {None, False}
    assert {each.get("asked") for each in builder.panels()} == {None, True}


def marked(one, other):
    found = [PageBuilder(one).page(), PageBuilder(other).page()]
    pages.mark(*found)
    return [[page["texts"]["nodes"][i] for i in page["differs"]["nodes"]] for page in found]


def test_two_traces_of_one_program_do_not_differ():
    assert marked(with_rule(square), with_rule(square)) == [[], []]


def test_what_differs_is_marked_on_both():
    one = cgviz.trace(lambda x: tf.square(x), 2.0)
    other = cgviz.trace(lambda x: tf.square(x), 3.0)
    assert marked(one, other) == [["x (input)"], ["x (input)"]]


def test_an_op_that_the_other_trace_has_not_is_marked():
    assert "a (custom)" in marked(with_rule(square), with_rule(wrong))[0]
    assert "a (custom)" in marked(with_rule(square), with_rule(wrong))[1]
