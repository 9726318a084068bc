"""Grade a class: hand-ins per minute, peak memory, and whether the marks are right.

python tests/benchmarks/bench_grade.py [students]

One in eight students (of 80 by default) is hostile, each in another way; the others are honest.
"""

import csv
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "classroom")]

import handins  # noqa: E402

HONEST = ("right", "half", "right", "untouched", "right", "talks-on-stderr", "right")
HOSTILE = ("loops", "leaves", "fills-memory", "replaces-ask", "forges-messages", "claims-a-rule")
HOSTILE += ("leaves-30-daemons", "looks-for-solutions", "prints-for-ever", "import-fails")


def write_class(folder: Path, students: int) -> dict[str, float]:
    """Write the hand-ins; returns the points that are due to each student."""
    made, due = handins.class_of_all_kinds(), {}
    honest, hostile = cycle(HONEST), cycle(HOSTILE)
    for number in range(students):
        kind = next(hostile) if number % 8 == 7 else next(honest)
        notebook, points, _ = made[kind]
        student = f"{number:03}-{kind}"
        path = folder / "submitted" / student / handins.UPSTREAM / f"{handins.UPSTREAM}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(handins.written(notebook))
        due[student] = points
    return due


def memory(process: psutil.Process) -> float:
    """Gigabytes held by a process and all its descendants; shared memory counts once."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue  # it has ended
    return total / 2**30


def main() -> None:
    """Grade a class, and compare the marks with those that are due."""
    students = int(sys.argv[1]) if len(sys.argv) > 1 else 80
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        due = write_class(folder, students)
        began, peak = time.perf_counter(), 0.0
        grade = [sys.executable, str(ROOT / "tools" / "grade.py"), name, handins.UPSTREAM]
        running = psutil.Popen(grade, stdout=subprocess.DEVNULL)
        while running.poll() is None:
            peak = max(peak, memory(running))
            time.sleep(1)
        seconds = time.perf_counter() - began
        with (folder / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
            given = {row["student"]: float(row["points"]) for row in csv.DictReader(file)}
    wrong = {student: given.get(student) for student in due if given.get(student) != due[student]}
    rate = 60 * students / seconds
    print(f"{students} hand-ins in {seconds:.0f} s, {rate:.1f} a minute, {peak:.1f} GB at most")
    print(f"{len(due) - len(wrong)} have the points that are due; others: {wrong}")


if __name__ == "__main__":
    main()
