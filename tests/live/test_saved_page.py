"""The saved page: one file that loads nothing, and in which the learner's words are words."""

import base64
import gzip
import hashlib
import json
import re

import golden_programs
import tensorflow as tf

import cgviz
from cgviz.live import assets
from cgviz.live.pages import PageBuilder

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}  # names, not loaded
ATTACK = "<img src=x onerror=alert(1)>"


def chain(x, w):
    y = x
    for _ in range(10):
        y = tf.sin(y) * w + x
    return y


def saved(trace, tmp_path):
    trace.save(tmp_path / "flow.html")
    return (tmp_path / "flow.html").read_text(encoding="utf-8")


def test_thirty_ops_are_well_under_200_kilobytes(tmp_path):
    trace = cgviz.trace(chain, 0.5, 0.3)
    assert len(trace.steps) == 30
    assert len(saved(trace, tmp_path).encode()) < 200_000


def test_it_names_no_other_place(tmp_path):
    text = saved(cgviz.trace(chain, 0.5, 0.3), tmp_path)
    assert set(re.findall(r"\w+://[^\s\"'<)]+", text)) <= NAMESPACES
    assert not re.search(r"<(link|img|iframe)|\bimport\b\s*[({'\"]|@import|url\(", text)


def test_the_policy_allows_this_script_and_this_style_only(tmp_path):
    text = saved(cgviz.trace(chain, 0.5, 0.3), tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        (inside,) = re.findall(rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_names_and_values_cannot_leave_their_place(tmp_path):
    with cgviz.record() as trace, tf.GradientTape() as tape:
        x = tf.Variable(1.0, name="w")
        y = x * x
    tape.gradient(y, x)
    document = {"title": f"</script>{ATTACK}"}
    state = assets.state([PageBuilder(trace)], 0, document, "forward")
    text = assets.page(trace.title, repr(trace), state)
    assert ATTACK not in text
    assert kept(text)["state"]["document"]["title"] == f"</script>{ATTACK}"


def kept(text):
    state = re.search(r'id="cgviz-state">([A-Za-z0-9+/=]*)</script>', text)[1]
    found = json.loads(gzip.decompress(base64.b64decode(state)))
    for _, pages in found["pages"]:
        for page in pages:
            page["displays"] = [found["displays"][i] for i in page["displays"]]
    return found


def layers(x):
    for name in ("one", "two"):
        with tf.name_scope(name):
            for inner in ("a", "b"):
                with tf.name_scope(inner):
                    x = tf.sin(tf.cos(x))
    return x


def test_every_scope_can_be_closed_and_opened_in_it(tmp_path):
    names = {key for key, _ in kept(saved(cgviz.trace(layers, 0.5), tmp_path))["pages"]}
    assert "0|scope:one:0" in names
    assert "0|scope:one/a:0" in names
    assert "0|scope:one:0\nscope:two:0" in names


def test_the_frame_of_repeats_can_be_closed_at_each_of_them(tmp_path):
    pages = dict(kept(saved(golden_programs.repeated(), tmp_path))["pages"])
    for k in (0, 1, 2):
        (page,) = pages[f"0|repeat::0\nrepeat::0@{k}"]
        assert page["repeats"][0]["at"] == k
        assert "repeat::0" in {node["group"] for node in page["displays"][0]["nodes"]}


def test_the_steps_of_a_training_share_their_picture(tmp_path):
    w = tf.Variable(1.0, name="w")

    def step():
        with tf.GradientTape() as tape:
            y = tf.sin(w) * w
        w.assign_sub(0.1 * tape.gradient(y, w))

    found = kept(saved(cgviz.watch(step, 8).view(), tmp_path))
    assert len(found["pages"]) == 8
    assert len(found["displays"]) == 2  # one for each direction


def test_without_scripts_it_says_the_same_in_words(tmp_path):
    text = saved(cgviz.trace(lambda x: x * x, 3.0), tmp_path)
    words = re.search(r"<noscript>(.*?)</noscript>", text, re.DOTALL)[1]
    assert "gradients: x 6" in words


def test_the_same_trace_gives_the_same_file(tmp_path):
    one, other = (saved(cgviz.trace(chain, 0.5, 0.3), tmp_path) for _ in range(2))
    assert one == other


def test_embedded_pictures_share_module_and_stylesheet_and_break_no_markdown():
    one, other = (cgviz.trace(chain, x, 0.3).view().embed() for x in (0.5, 0.7))
    assert one != other
    assert one.count(assets.shared()) == other.count(assets.shared()) == 1
    assert "\n\n" not in one
    assert not re.search(r'(src|href)="(?!data:)', one)


def test_names_cannot_leave_the_text_of_an_embedded_picture():
    trace = cgviz.trace(chain, 0.5, 0.3)
    for op in trace.ops:
        if op.kind == "input":
            object.__setattr__(op, "name", f'">{ATTACK}')
    assert ATTACK not in trace.view().embed()
