"""Pages for the browser: made once, with the bodies of custom ops, and compared."""

import tensorflow as tf

import cgviz
from cgviz.live import album
from cgviz.live.album import Album


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
    pages = Album(with_rule(square))
    assert pages.arranged() is pages.arranged(0)
    assert pages.selection() is pages.selection(0)


def test_a_trace_without_a_backward_pass_has_a_page():
    with cgviz.record() as trace:
        tf.sin(tf.constant(1.0))
    page = Album(trace).page()
    assert page["lines"]["which"] is None
    assert page["lines"]["backward"] == []


def test_an_opened_custom_op_is_a_frame_with_its_body_in_it():
    pages = Album(with_rule(square))
    assert pages.names() == ["custom:a"]
    lines = pages.page(None, ["custom:a"])["lines"]
    (frame,) = lines["frames"]
    owner = lines["nodes"][frame["node"]]
    inside = [node for node in lines["nodes"] if node["owner"] == frame["node"]]
    assert [node["kind"] for node in inside] == ["port", "op", "port"]
    assert owner["group"] == frame["name"] == "custom:a"
    assert lines["backward"] == pages.page()["lines"]["backward"]
    assert lines["forward"] == pages.page()["lines"]["forward"]


def test_the_cards_inside_a_custom_op_say_that_no_gradient_comes_there():
    notes = Album(with_rule(square)).page(None, ["custom:a"])["notes"]
    (inner,) = [note for note in notes if note["title"] == "y" and album_fact(note)]
    assert inner["outputs"][0]["upstream"] is None


def album_fact(note):
    return [words for name, words in note["facts"] if name == "backward"]


def test_a_picture_without_frames_has_nothing_to_open():
    assert Album(with_rule(square), framed=False).names() == []


def test_many_rules_are_not_run_for_a_first_view():
    def f(x):
        for _ in range(album.MOST_RUNS + 1):
            x = tf.sin(x)
        return x

    pages = Album(cgviz.trace(f, 1.0))
    assert {note.get("asked") for note in pages.page()["notes"]} == {None, False}
    assert {note.get("asked") for note in pages.notes()} == {None, True}


def marked(one, other):
    pages = [Album(one).page(), Album(other).page()]
    album.mark(*pages)
    return [[page["texts"]["nodes"][i]["head"] for i in page["differs"]["nodes"]] for page in pages]


def test_two_traces_of_one_program_do_not_differ():
    assert marked(with_rule(square), with_rule(square)) == [[], []]


def test_what_differs_is_marked_on_both():
    one = cgviz.trace(lambda x: tf.square(x), 2.0)
    other = cgviz.trace(lambda x: tf.square(x), 3.0)
    assert marked(one, other) == [["x"], ["x"]]


def test_an_op_that_the_other_trace_has_not_is_marked():
    assert "square" in marked(with_rule(square), with_rule(wrong))[0]
    assert "wrong" in marked(with_rule(square), with_rule(wrong))[1]
