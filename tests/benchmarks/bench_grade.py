"""Submissions a minute: `nbgrader autograde` against `make grade`, without pages of feedback.

python tests/benchmarks/bench_grade.py [students] [jobs] [--ours]     --ours: leave nbgrader out
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import grade  # noqa: E402
import test_grade  # noqa: E402

EXERCISE = test_grade.UPSTREAM


def course(folder: Path, students: int) -> Path:
    """A class of which every second student has solved everything, and the rest half of it."""
    right = test_grade.model_answers(EXERCISE)
    half = dict(list(right.items())[:2])
    for number in range(students):
        notebook = test_grade.answered(EXERCISE, half if number % 2 else right)
        test_grade.hand_in(folder, f"student{number:03}", EXERCISE, notebook)
    return folder


def plain(folder: Path) -> float:
    """Seconds that nbgrader's own command takes."""
    source = folder / "source" / EXERCISE
    source.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "solutions" / f"{EXERCISE}.ipynb", source)
    shutil.copy(ROOT / "classroom" / "nbgrader_config.py", folder)
    command = [sys.executable, "-m", "nbgrader"]
    quiet = {"cwd": folder, "check": True, "capture_output": True, "env": os.environ}
    subprocess.run([*command, "generate_assignment", EXERCISE], **quiet)
    began = time.perf_counter()
    subprocess.run([*command, "autograde", EXERCISE], **quiet)
    return time.perf_counter() - began


def ours(folder: Path, jobs: int, fork: bool) -> float:
    """Seconds that `make grade` takes, from nothing to marks.csv."""
    began = time.perf_counter()
    rows = grade.grade(folder, EXERCISE, jobs=jobs, fork=fork, pages=False)
    taken = time.perf_counter() - began
    assert {row["points"] for row in rows} == {9, 3}
    return taken


def main() -> None:
    """Print the pace of each way."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    students, jobs = ([*numbers, *(8, 2)[len(numbers) :]])[:2]
    ways = {
        f"make grade, {jobs} forked kernels": lambda folder: ours(folder, jobs, True),
        f"the same, {jobs} fresh kernels": lambda folder: ours(folder, jobs, False),
        "nbgrader autograde": plain,
    }
    if "--ours" in sys.argv:
        ways = dict(list(ways.items())[:1])
    print(f"{students} submissions of {EXERCISE}; load {os.getloadavg()[0]:.1f}")
    for name, way in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds = way(course(Path(folder), students))
        print(f"{name:30} {seconds:6.1f} s   {60 * students / seconds:5.1f} a minute", flush=True)


if __name__ == "__main__":
    main()
