"""Hand-ins of exercise 02: honest, hostile and broken ones."""

import copy
import json
import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
UPSTREAM = "02_upstream_downstream"


def load(exercise=UPSTREAM, kind="exercises"):
    return nbformat.read(NOTEBOOKS / kind / f"{exercise}.ipynb", as_version=4)


def cell_of(notebook, name):
    found = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name]
    return found[0]


def answered(answers, exercise=UPSTREAM):
    """What students get, with these answers in it."""
    notebook = load(exercise)
    for name, source in answers.items():
        cell_of(notebook, name).source = source
    return notebook


def model_answers(exercise=UPSTREAM):
    cells = load(exercise, "solutions").cells
    marked = [c for c in cells if c.metadata.get("nbgrader", {}).get("solution")]
    marks = re.compile(r"^ *### (BEGIN|END) SOLUTION\n", re.MULTILINE)
    return {cell.metadata.nbgrader.grade_id: marks.sub("", f"{cell.source}\n") for cell in marked}


def written(notebook):
    """The bytes of the file."""
    return (notebook if isinstance(notebook, str) else nbformat.writes(notebook)).encode()


MODEL = model_answers()


def hostile(source, **more):
    """The prediction (1 point) and `logistic` (3) are right; `cube` (2) is this; no `steps` (3)."""
    around = {name: MODEL[name] for name in ("downstreams", "logistic")}
    return answered({**around, "cube": source, **more})


def right_and(source):
    """All is right, and the cell of the cube does this first."""
    return answered({**MODEL, "cube": f"{source}\n\n{MODEL['cube']}"})


def tagged(notebook):
    """Every cell marked as one that is not to be run, as JupyterLab does with two clicks."""
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution"]
    return notebook


def with_cells(count, source):
    notebook = answered(MODEL)
    notebook.cells[3:3] = [nbformat.v4.new_code_cell(source) for _ in range(count)]
    return notebook


NO_RULE = "\n\ndef cube(x):\n    return x**3"
NO_RULE_IN_STEPS = "\n\ndef steps(x):\n    return x[1:] - x[:-1]"

FORGED = (
    """
import json, os
note = {"at": "cube", "value": [], "gradients": [], "custom": True, "graph": {}}
answers = [note] * 7
for number in range(3, 30):
    for cell in range(30):
        line = {"cell": cell, "answers": answers, "error": None, "stdout": "", "stderr": ""}
        try:
            os.write(number, (json.dumps(line) + "\\n").encode())
        except OSError:
            break
"""
    + NO_RULE
)

TAKEN = "Your code defines classroom, np, which a locked cell defines already."

# Each with the points that are due, and a word of what is noticed.
HOSTILE = {
    "loops": ("while True:\n    pass", 4, "'cube' was stopped after 5 s"),
    "heeds-nothing": (
        "import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "while True:\n    time.sleep(1)",
        *(1, "'cube' ended the run (it never ended"),
    ),
    "fills-memory": (
        "hog = []\nwhile True:\n    hog.append(bytearray(10**8))",
        4,
        "'cube' asked for more than 1 GB",
    ),
    "fills-memory-together": (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n"
        "        hog = b'x' * (3 * 10**8)\n        time.sleep(60)\ntime.sleep(60)",
        *(1, "it used more than 1 GB of memory"),
    ),
    "fills-the-disk": (
        "for n in range(99):\n    open(f'/tmp/{n}', 'wb').write(b'x' * 10**7)" + NO_RULE,
        *(4, ""),
    ),
    "leaves": ("import os\nos._exit(0)", 1, "'cube' ended the run (a call such as os._exit"),
    "import-fails": ("import a_module_that_does_not_exist", 4, ""),
    "prints-for-ever": ("while True:\n    print('and so on ' * 1000)", 4, ""),
    "prints-a-gigabyte": ("for _ in range(1000):\n    print('x' * 10**6)" + NO_RULE, 4, ""),
    "raises-100-megabytes": ("raise ValueError('x' * 10**8)", 4, ""),
    "text-of-an-error-raises": (
        "class Bad(Exception):\n    def __str__(self):\n        raise SystemExit\nraise Bad()",
        *(4, ""),
    ),
    # It goes on where it may fork no more, which else is an error of the cell like any other.
    "forks": (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        *(1, "'cube'"),
    ),
    "ends-all-processes": ("import os\nos.kill(-1, 9)", 4, ""),
    "replaces-ask": (
        "classroom.ask.__code__ = (lambda thing, *args, upstream=None, custom=False: None).__code__"
        + NO_RULE,
        *(1, ""),
    ),
    "replaces-names": (
        "import builtins\nbuiltins.zip = lambda *a, **k: []\nnp = None\nclass classroom:\n"
        "    ask = feedback = guessed = print\ncube = abs",
        *(1, TAKEN),
    ),
    "replaces-the-shell": (
        "type(get_ipython()).run_cell = lambda self, *a, **k: None" + NO_RULE,
        *(1, ""),
    ),
    "transforms-input": (
        "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])" + NO_RULE,
        *(1, ""),
    ),
    "forges-messages": (FORGED, 1, "it wrote into the grader's own messages"),
    "claims-a-rule": (
        "import types\nfrom cgviz import classroom as ours\nkind = types.SimpleNamespace\n"
        "ours.trace = lambda f, *a: kind(ops=[kind(kind='custom')])" + NO_RULE,
        *(4, ""),
    ),
    "looks-for-solutions": (
        "import os\nfound = []\nfor root, folders, files in os.walk('/'):\n"
        "    folders[:] = {*folders} - {'proc', 'usr', 'site-packages'}\n"
        "    found += [name for name in files if '.ipynb' in name or name == 'gradebook.db']\n"
        "print('found', found)\nprint(os.listdir('/'), dict(os.environ))" + NO_RULE,
        *(4, ""),
    ),
    "writes-everywhere": (
        "import os\nfor root, folders, files in os.walk('/'):\n"
        "    for name in [*folders, *files]:\n"
        "        try:\n            open(os.path.join(root, name), 'a').write('mine')\n"
        "        except OSError:\n            pass\n    if root.count('/') > 3:\n"
        "        folders.clear()" + NO_RULE,
        *(4, ""),
    ),
    # IPython reads the whole cell again for each of its magics: half a minute, and no code has run.
    "slow-to-read": ("%time 1\n" * 450 + "1\n" * 9000, 4, "'cube' was stopped after"),
}

# They break a rule of good conduct, but their answers are right.
RIGHT = {
    "right": "",
    "talks-on-stderr": "import logging, warnings\nwarnings.warn('this', stacklevel=1)\n"
    "logging.error('that')\ntf.print('from C++')\nprint('x' * 10**5)",
    "stops-its-parent": "import os, signal\ntry:\n    os.kill(os.getppid(), signal.SIGSTOP)\n"
    "except OSError:\n    pass",
    "leaves-30-daemons": "import subprocess\nfor _ in range(30):\n"
    "    subprocess.Popen(['sleep', '86399'], start_new_session=True)",
    "leaves-start-up-files": "from pathlib import Path\n"
    "folder = Path('~/.ipython/profile_default/startup').expanduser()\n"
    "folder.mkdir(parents=True, exist_ok=True)\n"
    "(folder / 'first.py').write_text('import os; os._exit(1)')",
    "asks-for-figures": "%matplotlib inline",
    "takes-names": "np = x = u = classroom = None",
}


SCRIPT = "'<script>alert(1)</script>'"
SCRIPT_AND_LINK = "<script>alert(2)</script> [x](javascript:y)"


def class_of_all_kinds():
    """By student: the hand-in, the points that are due, and a word of what is noticed."""
    made = {name: (right_and(source), 9, "") for name, source in RIGHT.items()}
    made |= {name: (hostile(s), points, words) for name, (s, points, words) in HOSTILE.items()}
    half = dict(list(MODEL.items())[:2])
    made |= {
        "half": (answered(half), 3, ""),
        "untouched": (load(), 0, ""),
        "tagged-and-untouched": (tagged(load()), 0, ""),
        "tagged": (tagged(answered(MODEL)), 9, ""),
        "many-slow-cells": (
            with_cells(20, "import time\ntime.sleep(4)"),
            *(0, "the notebook took more than 20 s"),
        ),
        "scripted": (with_cells(1, SCRIPT), 9, ""),
    }
    scripts = made["scripted"][0].cells
    scripts.insert(0, nbformat.v4.new_markdown_cell(SCRIPT_AND_LINK))
    return made


# For a box takes 4 s of a processor. Each is a box: what is done in cells of the student's own and
# in that of the cube, which leaves those behind it their points; then in that of the steps, behind
# which the points are; and at last in a cell that ends the run. All that is noticed has its word,
# and whatever else went wrong would be noticed or cost points.
TOGETHER = [
    ((), "claims-a-rule", "replaces-ask", "heeds-nothing"),
    ((), "writes-everywhere", "replaces-names", "fills-memory-together"),
    (
        ("prints-for-ever", "raises-100-megabytes"),
        *("fills-the-disk", "replaces-the-shell", None),
    ),
    (("ends-all-processes", "prints-a-gigabyte"), "import-fails", "transforms-input", None),
    (("fills-memory",), "text-of-an-error-raises", "forges-messages", None),
    (("slow-to-read",), "looks-for-solutions", "forks", None),
    ((), "leaves", None, None),
]


def together(own, cube, steps, last):
    """One hand-in that does several things: it, the points that are due, and what is noticed."""
    in_place = {"steps": in_steps(HOSTILE[steps][0])} if steps else {}
    notebook = hostile(HOSTILE[cube][0], **in_place)
    place = notebook.cells.index(cell_of(notebook, "cube"))
    notebook.cells[place:place] = [nbformat.v4.new_code_cell(HOSTILE[name][0]) for name in own]
    if last:
        notebook.cells.append(nbformat.v4.new_code_cell(HOSTILE[last][0]))
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    words = [HOSTILE[cube][2], in_steps(HOSTILE[steps][2]) if steps else ""]
    for name in filter(None, (*own, last)):
        source, _, word = HOSTILE[name]
        words.append(word.replace("'cube'", f"Code cell {code.index(source) + 1}"))
    return notebook, HOSTILE[cube][1], [*filter(None, words)]


def in_steps(text):
    """What is done in the cell of the cube, done in that of the steps."""
    return text.replace(NO_RULE, NO_RULE_IN_STEPS).replace("cube", "steps")


def all_right(source):
    """Whatever breaks a rule of good conduct and is right, tags and scripts; last, this is run."""
    notebook = right_and("\n\n".join(RIGHT.values()))
    notebook.cells.insert(3, nbformat.v4.new_code_cell(SCRIPT))
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(SCRIPT_AND_LINK))
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    return tagged(notebook)


def class_of_few(source):
    """The class of all kinds, but a student does several things; by the names of these.

    Who has all right runs this, too.
    """
    made = {}
    for own, *rest in TOGETHER:
        made[(*own, *(name for name in rest if name))] = together(own, *rest)
    return made | {(*RIGHT, "tagged", "scripted"): (all_right(source), 9, [TAKEN])}


# --- notebooks that are broken ---------------------------------------------------------------

CUBE = {"cube": MODEL["cube"]}


def diligent():
    """What earns the two points of the cube."""
    return answered(CUBE)


def without(*names):
    notebook = diligent()
    for name in names:
        notebook.cells.remove(cell_of(notebook, name))
    return notebook


def retyped(name):
    notebook = diligent()
    del cell_of(notebook, name).metadata["nbgrader"]
    return notebook


def copied(name):
    """A copy, markings and all, kept at the end as it was before the work."""
    notebook = diligent()
    notebook.cells.append(copy.deepcopy(cell_of(load(), name)))
    notebook.cells[-1].id = "pasted"
    return notebook


def with_kernel(**kernel):
    notebook = diligent()
    notebook.metadata["kernelspec"] = {"language": "python", **kernel}
    return notebook


def from_colab():
    """No kernel is named, no cell has an id of its own, and much is added."""
    notebook = diligent()
    notebook.nbformat_minor = 0
    notebook.metadata = nbformat.from_dict({"colab": {"provenance": []}, "accelerator": "GPU"})
    for number, cell in enumerate(notebook.cells):
        cell.metadata["id"] = f"cell{number}"
        del cell["id"]
    return nbformat.writes(notebook)


def older():
    notebook = diligent()
    cell_of(notebook, "cube-tests").metadata.nbgrader["checksum"] = "0" * 32
    cell_of(notebook, "mirror").metadata.nbgrader["grade_id"] = "gone-since"
    return notebook


def as_text(name):
    notebook = diligent()
    cell = cell_of(notebook, name)
    cell.cell_type = "markdown"
    del cell["outputs"], cell["execution_count"]
    return notebook


def garbled():
    """Nothing that a notebook may not hold, and nothing that can be understood."""
    notebook = json.loads(nbformat.writes(diligent()))
    notebook["metadata"] = {"kernelspec": 3}
    nameless = [cell for cell in notebook["cells"] if "nbgrader" not in cell["metadata"]]
    for cell, metadata in zip(nameless, (None, [], {"nbgrader": "gone"}), strict=False):
        cell["metadata"] = metadata
    notebook["cells"] += [None, 3, "cell", {}, {"source": 3}, {"source": [None, "1"]}]
    return json.dumps(notebook)
