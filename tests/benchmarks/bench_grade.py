"""A class is graded: submissions a minute, memory, and how each kind of submission ends.

python tests/benchmarks/bench_grade.py [students] [plain]

`make grade` takes a class of that many students (20, 0 for none), a third of them hostile or
broken. Then that and nbgrader's own commands take the same few honest submissions (4).
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import test_grade  # noqa: E402

# nbgrader calls alembic by name.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
EXERCISE = test_grade.UPSTREAM
# How many of twenty students, and the points that each of them should have.
CLASS = {
    **{"right": (6, 9), "half": (4, 3), "untouched": (2, 0), "hard-coded": (1, 0)},
    **{"loops": (1, 4), "fills-memory": (1, 4), "import-fails": (1, 4), "leaves": (1, 1)},
    **{"deleted-answer": (1, 0), "syntax": (1, 0), "no-notebook": (1, 0)},
}
HONEST = ("right", "half", "untouched")


def work(kind: str) -> object:
    """What one such student hands in."""
    if kind in test_grade.HOSTILE:
        return test_grade.hostile(test_grade.HOSTILE[kind])
    if kind in test_grade.BROKEN:
        return test_grade.BROKEN[kind][0]()
    return test_grade.kinds(EXERCISE)[kind]


def course(folder: Path, kinds: list[str]) -> Path:
    """A course in which student 000 is of the first kind, and so on."""
    for number, kind in enumerate(kinds):
        test_grade.hand_in(folder, f"{number:03}-{kind}", EXERCISE, work(kind))
    return folder


def memory(process: psutil.Process) -> float:
    """Gigabytes of a process and all below it; what they share is counted once."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue  # it has ended
    return total / 2**30


def ours(folder: Path) -> tuple[float, float]:
    """Seconds that `make grade` takes, pages of feedback included, and its peak of memory."""
    began, peak = time.perf_counter(), 0.0
    command = [sys.executable, str(ROOT / "tools" / "grade.py"), str(folder), EXERCISE]
    running = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while running.poll() is None:
        peak = max(peak, memory(running))
        time.sleep(1)
    assert running.returncode == 0
    return time.perf_counter() - began, peak


def plain(folder: Path) -> float:
    """Seconds that nbgrader's own commands take for the same."""
    source = folder / "source" / EXERCISE
    source.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "solutions" / f"{EXERCISE}.ipynb", source)
    shutil.copy(ROOT / "classroom" / "nbgrader_config.py", folder)
    began = time.perf_counter()
    for command in ("generate_assignment", "autograde", "generate_feedback"):
        subprocess.run(
            [sys.executable, "-m", "nbgrader", command, EXERCISE],
            cwd=folder,
            check=True,
            capture_output=True,
            env=os.environ | {"PATH": PATH},
        )
    return time.perf_counter() - began


def report(folder: Path) -> None:
    """Print what became of each kind; complain of a mark that is not as it should be."""
    with (folder / "marks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, Counter[str]] = {}
    for row in rows:
        kind = row["student"].partition("-")[2]
        found.setdefault(kind, Counter())[row["points"]] += 1
        assert float(row["points"]) == CLASS[kind][1], row
    print(f"{'kind':16}{'students':>9}{'points':>8}  noticed")
    for kind, points in found.items():
        words = next(r["noticed"] for r in rows if r["student"].endswith(f"-{kind}"))
        print(f"{kind:16}{points.total():9}{'/'.join(points):>8}  {words[:120]}")


def pace(name: str, students: int, seconds: float, more: str = "") -> None:
    """Print one way's pace."""
    load = os.getloadavg()[0]
    rate = f"{students} in {seconds:.0f} s, {60 * students / seconds:.1f} a minute"
    print(f"{name:20} {rate}{more}; load {load:.1f}", flush=True)


def grade_class(students: int) -> None:
    """Grade a class of all kinds, and print what became of it."""
    twenty = [kind for kind, (count, _) in CLASS.items() for _ in range(count)]
    with tempfile.TemporaryDirectory() as name:
        folder = course(Path(name), [twenty[n % 20] for n in range(students)])
        seconds, peak = ours(folder)
        report(folder)
    pace("make grade, a class", students, seconds, f", {peak:.1f} GB at most")


def main() -> None:
    """Grade a class, and a few of it in both ways."""
    students, few = ([*map(int, sys.argv[1:]), *(20, 4)[len(sys.argv) - 1 :]])[:2]
    if students:
        grade_class(students)
    honest = [HONEST[n % len(HONEST)] for n in range(few)]
    for way, run in {"make grade": lambda f: ours(f)[0], "nbgrader": plain}.items():
        with tempfile.TemporaryDirectory() as name:
            pace(way, few, run(course(Path(name), honest)))


if __name__ == "__main__":
    main()
