"""A class is graded: honest, hostile and broken hand-ins get the points that are due."""

import hashlib
import html
import json
import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="pip install 'custom-gradients[teach]'")

import box
import handins
import judge
from answers import HARD_CODED
from box import Limits
from handin import UnreadableError
from handins import NOTEBOOKS, ROOT, UPSTREAM, answered, load, model_answers, written

pytestmark = pytest.mark.skipif(box.missing() is not None, reason=str(box.missing()))

LIMITS = Limits(seconds=5, total=20, memory=2**30)
OTHERS = {
    # With 256 processes a bomb of forks is no worse, but takes a processor longer.
    "forks": replace(LIMITS, seconds=3, processes=100),
    # On a busy machine nine processes take seconds to fill a gigabyte, and to be counted.
    "fills-memory-together": replace(LIMITS, seconds=30, total=60),
}

LOOKS = """
import ctypes, os, socket
LINUX = ctypes.CDLL(None)
print("I look around")
try:
    socket.create_connection(("127.0.0.1", PORT), 2)
except OSError:
    print("no network")
def mount():  # more memory than a box has, as the root of a namespace of users
    LINUX.unshare(0x10000000 | 0x00020000)
    if LINUX.mount(b"none", b"/tmp", b"tmpfs", 0, b"size=8g"):
        raise OSError
hide, write = lambda: os.memfd_create("hidden"), lambda: open("/box/x", "w")
for make in (hide, write, lambda: os.setuid(0), mount):
    try:
        make()
    except OSError:
        print("not allowed")
    else:
        print("done")
print(max(int(n) for n in os.listdir("/proc") if n.isdigit()) < 100, os.getuid())
"""

CLASS = handins.class_of_few(LOOKS)
UNBOXED = "loops without a box"


def read(exercise):
    return judge.read_exercise(NOTEBOOKS / "solutions" / f"{exercise}.ipynb")


@pytest.fixture(scope="module")
def exercise():
    return read(UPSTREAM)


def outside():
    """What a hand-in could change: files of this repository, and what IPython runs at its start.

    Not the whole of the home and of /dev/shm: tests on the other processors write there, too.
    """
    startup = Path.home() / ".ipython" / "profile_default" / "startup"
    places = [NOTEBOOKS, ROOT / "tools", ROOT / "cgviz", startup]
    made = ("pycache", ".ipynb_checkpoints")
    files = [p for place in places for p in place.rglob("*") if not any(m in str(p) for m in made)]
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in files if p.is_file()}


@pytest.fixture(scope="module")
def before():
    """What is outside before anything is graded."""
    return outside()


@pytest.fixture(scope="module")
def port():
    """Where this machine listens, as bytes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield str(server.getsockname()[1]).encode()


def loops_and_sleeps():
    """The cell of the cube never ends, and those behind all others take too long together."""
    loop, _, _ = handins.HOSTILE["loops"]
    notebook = handins.hostile(loop)
    slow = "import time\ntime.sleep(4)"
    notebook.cells += [nbformat.v4.new_code_cell(slow) for _ in range(5)]
    return notebook


@pytest.fixture(scope="module")
def graded(exercise, before, port):
    """By what a student does the result, as soon as it is there; they are graded two at a time.

    Beside them is one without a box, which mostly sleeps.
    """
    two, third = ThreadPoolExecutor(2), ThreadPoolExecutor(1)
    with two as pool, third as beside, pytest.MonkeyPatch.context() as patch:
        patch.setattr(box, "GRACE", 5.0)
        unboxed = written(loops_and_sleeps())
        found = {UNBOXED: beside.submit(judge.grade, unboxed, exercise, LIMITS, boxed=False)}
        for names, (notebook, _, _) in CLASS.items():
            limits = next((OTHERS[name] for name in names if name in OTHERS), LIMITS)
            content = written(notebook).replace(b"PORT", port)
            result = pool.submit(judge.grade, content, exercise, limits)
            found |= dict.fromkeys(names, result)
        yield found


@pytest.fixture(scope="module")
def half(exercise, graded, port):
    """Half of a hand-in, in a box as it is made for an account without rights.

    Of one run both results, with the expected numbers on the page and without: they are no matter
    of the box.
    """
    results(graded)  # for they are graded as whom the tests run
    wrong = {"cube": handins.MODEL["cube"].replace("upstream * ", "")}
    notebook = answered({"downstreams": handins.MODEL["downstreams"], **wrong})
    notebook.cells.append(nbformat.v4.new_code_cell(LOOKS))
    content = written(notebook).replace(b"PORT", port)
    run, came = box.run, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 1000)
        patch.setattr(box, "run", lambda *given: came or came.extend(run(*given)) or came)
        closed = judge.grade(content, exercise, LIMITS)
        return closed, judge.grade(content, exercise, LIMITS, reveal=True)


def results(graded):
    """Everyone's result, when all are there."""
    return [(student, future.result()) for student, future in graded.items()]


# --- points ----------------------------------------------------------------------------------


@pytest.mark.parametrize("names", CLASS, ids=" and ".join)
def test_each_hand_in_has_the_points_that_are_due_and_a_word_on_what_is_unusual(graded, names):
    result = graded[names[0]].result()
    _, points, words = CLASS[names]
    assert (result.points, result.of) == (points, 9), result.marks
    assert len(result.noticed) == len(words), result.noticed
    for word in words:
        assert any(word in notice for notice in result.noticed), (word, result.noticed)


def test_each_point_that_is_missing_has_a_reason(graded):
    for student, result in results(graded):
        assert all(bool(mark.why) == (mark.points < mark.of) for mark in result.marks.values())
        for name, mark in result.marks.items():
            assert html.escape(f"{name}: {mark.points:g} of {mark.of:g}") in result.page, student


def test_after_the_end_of_a_box_no_later_cell_counts(graded):
    marks = graded["leaves"].result().marks
    assert marks["downstreams-tests"].points == 1  # it was before the cube
    assert marks["logistic-rule-tests"].why.startswith("not run, because cell 'cube' ended")


def left_over():
    """What hand-ins left running, but for the boxes of tests on the other processors."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    parent = {int(pid): int(above) for pid, above, _ in rows}
    words = {int(pid): args for pid, _, args in rows}

    def of_another_worker(pid):
        while pid in parent:
            pid = parent[pid]
            if "exec(eval(sys.stdin" in words.get(pid, ""):  # how xdist starts its workers
                return pid != os.getpid()
        return False

    marks = ("86399", "inside.py")
    suspects = [pid for pid, args in words.items() if any(mark in args for mark in marks)]
    return [words[pid] for pid in suspects if not of_another_worker(pid)]


def test_nothing_is_left_running(graded):
    results(graded)
    for _ in range(50):
        if not left_over():
            break
        time.sleep(0.1)
    assert not left_over()


def test_nothing_outside_of_the_boxes_has_changed(graded, before):
    results(graded)
    assert outside() == before


def test_a_box_holds_no_notebook_and_no_setting_of_the_teachers_session(graded):
    page = graded["looks-for-solutions"].result().page
    (found,) = re.findall(r"found \[.*", page)
    assert found == "found []"
    assert "&#x27;HOME&#x27;: &#x27;/home/student&#x27;" in page
    assert str(Path.home()) not in page


@pytest.mark.parametrize("user", ["root", "student"])
def test_a_box_has_no_network_no_root_and_only_its_own_processes(graded, half, user):
    page = half[0].page if user == "student" else graded["right"].result().page
    (said,) = re.findall(r"I look around\n(.*?)</pre>", page, re.DOTALL)
    *said, last = said.splitlines()
    assert said == ["no network", *["not allowed"] * 4]
    alone, number = last.split()
    assert alone == "True"
    assert number != "0"


def test_a_box_that_does_not_start_is_nobodys_mark(exercise, monkeypatch):
    monkeypatch.setattr(box, "_shown", lambda: [Path("/usr")])  # without Python's packages
    with pytest.raises(box.BoxError, match="the box did not start"):
        judge.grade(written(load()), exercise)


def test_without_a_box_the_limits_on_time_hold_and_the_points_are_due(graded):
    result = graded[UNBOXED].result()
    assert result.points == 4
    ended, stopped = result.noticed
    assert "'cube' was stopped after 5 s" in stopped
    assert "ended the run (the notebook took more than 20 s)" in ended


# --- what the box says is not believed -------------------------------------------------------

WANTED = [
    {
        "at": "f(float32 of shape ())",
        "of": ["input 0", "slope"],
        "value": [{"dtype": "float32", "shape": [], "data": [8.0]}],
        "gradients": [{"dtype": "float32", "shape": [], "data": [12.0]}, None],
    }
]


def told(**changes):
    """The right answer, changed."""
    return [json.loads(json.dumps(WANTED[0] | changes))]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "the tests did not run to their end"),
        ("right", "the tests did not run to their end"),
        ([], "the tests did not run to their end"),
        ([[]], "the tests did not run to their end"),
        ([{}], "0 come back, and there should be 1"),
        (told(value=None), "0 come back"),
        (told(value=[8.0]), "the value has the shape None"),
        (told(value=[{"dtype": "float32", "shape": [], "data": 8.0}]), "no list of numbers"),
        (told(value=[{"dtype": "float32", "shape": [], "data": []}]), "no list of numbers"),
        (told(value=[{"dtype": "float32", "shape": [], "data": ["8"]}]), "the value is wrong"),
        (told(value=[{"dtype": "float32", "shape": [], "data": [True]}]), "the value is wrong"),
        (
            told(value=[{"dtype": "float32", "shape": [], "data": [float("nan")]}]),
            "the value is NaN",
        ),
        (told(value=[{"dtype": "float32", "shape": [], "data": [-float("inf")]}]), "is −∞"),
        (told(value=[{"dtype": "float32", "shape": [], "data": [10**400]}]), "is wrong"),
        (told(value=[{"dtype": "float64", "shape": [], "data": [8.0]}]), "not float32"),
        (told(gradients=[None, None]), "the gradient of input 0 is None"),
        (told(gradients=WANTED[0]["value"] * 2), "the gradient of input 0 is wrong"),
        (
            told(gradients=[WANTED[0]["gradients"][0]] * 2),
            "f(float32 of shape ()): the gradient of slope should be None",
        ),
        ([{"error": {"name": "NotYetError", "value": "write it"}}], "not yet: write it"),
        ([{"error": {"name": 3}}], "3: None"),
        (
            [{"error": {"name": "AssertionError", "value": "f(2) has 1 part, and should have 2."}}],
            "f(2) has 1 part, and should have 2.",
        ),
        ([{"error": {"name": "AssertionError", "value": ""}}], "AssertionError: "),
    ],
)
def test_whatever_is_no_right_number_is_wrong_and_said_in_words(given, words):
    assert words in judge.judged(given, WANTED, "")
    assert "8" not in judge.judged(given, WANTED, "").replace("is 8", "")


def test_the_right_numbers_are_right_up_to_rounding():
    near = [{"dtype": "float32", "shape": [], "data": [8.0001]}]
    assert judge.judged(WANTED, WANTED, "") == ""
    assert judge.judged(told(value=near), WANTED, "") == ""


@pytest.mark.parametrize(
    ("data", "wanted", "right"),
    [
        ([4.77e-7], [5e-7], False),
        ([5.0001e-7], [5e-7], True),
        ([0.0, 3e-5], [1e-5, 3e-5], False),
        ([1e-7, 0.5], [0.0, 0.5], True),  # rounding, next to a half
        ([1e-7, float("inf")], [0.0, float("inf")], False),
        ([1e-10], [0.0], True),
        ([3.0005], [3.0], False),
        ([0], [9], False),
        ([], [], True),
    ],
)
def test_a_number_is_right_to_its_digits_or_to_those_of_the_largest_beside_it(data, wanted, right):
    mine, ours = (
        [{"at": "f", "value": [{"dtype": "float32", "shape": [len(x)], "data": x}]}]
        for x in (data, wanted)
    )
    assert (judge.judged(mine, ours, "") == "") is right


def test_a_small_prediction_is_compared_by_its_digits():
    assert judge.judged([{"plain": 0.0}], [{"plain": 9e-7}], "") == "it is wrong"
    assert judge.judged([{"plain": 1e-12}], [{"plain": 0.0}], "") == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0, None, "none"], ""),
        ([1, None, "none"], ""),
        ([1.00001, None, "none"], ""),
        ([True, None, "none"], "a number or a word is asked for, here is True"),
        ([2.0, 0.0, "none"], "1 of 3 are right"),
        ([1.0, None], "entries asked for: 3, given: 2"),
        ("1", "entries asked for: 3, given: 1. Write a list in [ ]"),
    ],
)
def test_a_prediction_is_compared_entry_by_entry(given, words):
    assert judge.judged([{"plain": given}], [{"plain": [1.0, None, "none"]}], "") == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["None", 2.0], "a number is asked for, here is 'None'. Write it without quotes"),
        (["two", 2.0], "a number is asked for, here is 'two'"),
        ("{1, 2}", "entries asked for: 2, given: 1. Write a list in [ ]"),
        (1.0, "entries asked for: 2, given: 1"),
        ([], "entries asked for: 2, given: 0"),
    ],
)
def test_how_to_write_a_prediction_is_said_where_its_form_is_wrong(given, words):
    assert judge.judged([{"plain": given}], [{"plain": [None, 2.0]}], "") == words


def test_which_entries_are_wrong_is_said_only_of_a_list_with_a_name():
    given, wanted = [{"plain": [True, False, True]}], {"plain": [True] * 3}
    assert judge.judged(given, [wanted], "") == "2 of 3 are right"
    named = "qualities: 2 of 3 are right; wrong: 2"
    assert judge.judged(given, [wanted | {"at": "qualities"}], "") == named


GRAPH = """in user code:

    File "/box/cgviz/classroom.py", line 196, in None  *
        lambda *inner: thing(*inner)
    File "/tmp/cell", line 12, in g
        y = np.sin(x)

    NotImplementedError: Cannot convert a symbolic tf.Tensor (x:0) to a numpy array.
"""


def test_of_an_error_in_a_graph_the_page_shows_what_it_says_and_what_to_do():
    error = {"name": "NotImplementedError", "value": GRAPH}
    told = "NotImplementedError: Cannot convert a symbolic tf.Tensor (x:0) to a numpy array."
    assert judge.judged([{"error": error}], WANTED, "") == told
    with_hint = [{"error": error, "hint": "Use `tf.sin`."}]
    assert judge.judged(with_hint, WANTED, "") == f"{told} Use `tf.sin`."
    cut = error | {"value": GRAPH.partition("    NotImpl")[0]}
    assert "/box" not in judge.judged([{"error": cut}], WANTED, "")


def test_a_claimed_custom_gradient_must_be_written():
    wanted = [WANTED[0] | {"custom": True}]
    assert "no custom gradient" in judge.judged(told(custom=True), wanted, "def f(x): ...")
    assert "no custom gradient" in judge.judged(told(), wanted, "@tf.custom_gradient")
    assert judge.judged(told(custom=True), wanted, "@tf.custom_gradient") == ""


def cells_without_a_rule(exercise, monkeypatch, answers):
    """Which tests find no custom gradient in these answers, if the box reports all as right."""

    def reports(work, limits, boxed):
        right = iter(exercise.expected.values())
        return [{"answers": next(right) if cell["probe"] else []} for cell in work], ""

    monkeypatch.setattr(box, "run", reports)
    marks = judge.grade(written(answered(answers)), exercise).marks
    return [name for name, mark in marks.items() if "no custom gradient" in mark.why]


def test_a_rule_may_be_made_in_any_code_of_the_student_that_runs_before_the_tests(
    exercise, monkeypatch
):
    model = handins.MODEL
    short = {name: source.replace("@tf.custom_gradient", "@cg") for name, source in model.items()}
    alias = "cg = tf.custom_gradient"
    early = {**short, "cube": f"{alias}\n{short['cube']}"}
    late = {**short, "logistic": f"{alias}\n{short['logistic']}"}
    first = {**dict.fromkeys(model, ""), "downstreams": "\n".join(model.values())}
    assert cells_without_a_rule(exercise, monkeypatch, early) == []
    assert cells_without_a_rule(exercise, monkeypatch, first) == []
    assert cells_without_a_rule(exercise, monkeypatch, late) == ["cube-tests"]
    untouched = {name: short[name] for name in ("downstreams", "cube", "logistic")}
    assert "steps-tests" in cells_without_a_rule(exercise, monkeypatch, untouched)


def test_what_is_right_has_its_points_and_what_is_wrong_or_untouched_has_none(half):
    closed, _ = half
    assert (closed.points, closed.noticed) == (1, [])
    assert closed.marks["cube-tests"].why.endswith("the gradient of input 0 is wrong")
    assert closed.marks["steps-tests"].why.startswith("not yet: ")


def test_numbers_that_are_expected_are_shown_only_where_the_teacher_wants(half):
    closed, opened = half
    assert "and should be [" not in closed.marks["cube-tests"].why
    assert "and should be [" in opened.marks["cube-tests"].why
    assert "classroom.ask" not in closed.page
    assert "classroom.ask(cube, x, upstream=u)" in opened.page


COPY = "Every answer is that of the solution, letter for letter."


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (handins.MODEL, COPY),
        (handins.MODEL | {"cube": "### BEGIN SOLUTION"}, "`### BEGIN SOLUTION` is in it"),
        (handins.MODEL | {"downstreams": "prediction = [2.0, -6.0, -8.0]"}, ""),
    ],
    ids=["copied", "with its marks", "another prediction"],
)
def test_a_copy_of_the_solution_is_noticed_for_the_teacher_alone(
    exercise, monkeypatch, answers, words
):
    monkeypatch.setattr(box, "run", lambda work, limits, boxed: ([], ""))
    result = judge.grade(written(answered(answers)), exercise)
    assert len(result.noticed) == bool(words)
    assert all(notice.startswith(words) for notice in result.noticed)
    assert "What was noticed" not in result.page


# --- what a box does with single cells -------------------------------------------------------

NOISE = """
import base64, os
png = base64.b64encode(os.urandom(200_000)).decode()
for _ in range(10):
    display({"image/png": png, "text/plain": "a figure"}, raw=True)
"""


@pytest.fixture(scope="module")
def reports():
    """Of cells with large figures, of a locked name that is replaced, and of an endless loop."""

    def one(source, probe="", fixed=()):
        return {"source": source, "probe": probe, "fixed": [*fixed]}

    probe = "classroom.ask(given())"
    given = one("def given():\n    return 'ours'", fixed=["given"])
    replaced = one("def given():\n    return 'mine'\ndef calls():\n    return given()")
    tests = one("print(given(), calls())", probe)
    takes = one("globals().pop('given')", probe)
    cells = [*[one(NOISE)] * 5, given, replaced, tests, takes, one("while True: pass", probe)]
    root = "def f(x):\n    return tf.sqrt(x), lambda u: u / (2.0 * math.sqrt(x))"
    asked = "classroom.ask(tf.custom_gradient(f), 4.0, upstream=1.0, custom=True)"
    imports = one("import math\nimport tensorflow as tf", fixed=["math", "tf"])
    taken = "math.sqrt = 3\nclass math:\n    sqrt = 3\nimport tensorflow as tf"
    cells += [imports, one(taken), one(root, asked)]
    found, ended = box.run(cells, replace(LIMITS, seconds=3))
    assert ended == ""
    return found


def test_images_beyond_a_limit_are_left_out_and_end_no_run(reports):
    shown = [output for report in reports for output in report["shown"]]
    assert 10 < sum("image/png" in output for output in shown) < 20
    last = reports[4]["shown"][-1]  # of which the page shows the text
    assert last.keys() == {"text/plain"}
    assert "left out: an image may have 300 kB" in last["text/plain"]


def test_what_a_locked_cell_defines_is_used_in_tests_whatever_the_student_defines(reports):
    tests, takes = reports[7:9]
    assert tests["stdout"] == "ours ours\n"
    assert tests["answers"] == takes["answers"] == [{"plain": "ours"}]


def test_an_error_is_reported_with_what_to_do_and_imported_modules_are_as_they_were(reports):
    (answer,) = reports[-1]["answers"]
    assert answer["error"]["value"] == "must be real number, not SymbolicTensor"
    assert answer["hint"] == "Use TensorFlow's own functions: `tf.sqrt`, not `math.sqrt`."


def test_a_function_that_looped_in_the_visible_test_is_not_asked_again(reports):
    (answer,) = reports[9]["answers"]
    assert answer["error"]["name"] == "CellTimeoutError"


# --- pages ------------------------------------------------------------------------------------


def test_what_a_student_writes_is_never_markup(graded):
    for student, result in results(graded):
        assert "<script" not in result.page, student
        assert "javascript:y</a>" not in result.page
        assert "default-src 'none'" in result.page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in graded["scripted"].result().page


def test_a_page_is_small_whatever_is_printed(graded):
    assert max(len(result.page) for _, result in results(graded)) < 10**6


# --- every exercise --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HARD_CODED))
def test_right_is_full_marks_and_untouched_or_hard_coded_none_in_every_exercise(name):
    exercise, right = read(name), model_answers(name)
    assert HARD_CODED[name].keys() == right.keys()

    def points(answers):
        return judge.grade(written(answered(answers, name)), exercise).points

    assert points(right) == exercise.points >= 5
    assert points({}) == 0
    assert points(HARD_CODED[name]) == 0
    assert 0 < points(dict(list(right.items())[: len(right) // 2])) < exercise.points


def test_who_hands_in_nothing_has_no_points_and_a_page_that_says_so(exercise):
    result = judge.grade(UnreadableError("No notebook was handed in"), exercise)
    assert (result.points, result.of) == (0, 9)
    assert result.noticed[0].startswith("No notebook was handed in. Open your notebook")
    assert "downstreams-tests: 0 of 1 points: No notebook was handed in." in result.page


def test_where_no_box_can_be_made_grading_says_what_is_not_safe(monkeypatch, tmp_path):
    import grade

    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(box, "missing", box.missing.__wrapped__)  # not as it was found before
    monkeypatch.setattr(sys, "argv", ["grade.py", str(tmp_path), UPSTREAM])
    with pytest.raises(SystemExit, match="bubblewrap is not installed") as ended:
        grade.main()
    assert "FLAGS=--without-box" in ended.value.code
