"""What lesson 10's rule saves: ops, time and memory of the slopes of its misses, with the loop on
the tape and with the rule.

Two things differ, so there are four programs: the loop of 300 steps, and five steps of Newton's
method; each unrolled on the tape, and behind the rule. Each runs in a process of its own. Prints
the ops in the graph, the median of 50 runs, and how much the process grew from before the graph was
traced.

Usage: python tests/benchmarks/bench_orbit.py
"""

import io
import resource
import statistics
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import nbformat

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "10_orbit.ipynb"
NEWTON = """
def by_steps(M, e):
    E = M + e * tf.sin(M)
    for _ in range(5):
        E = E - (E - e * tf.sin(E) - M) / (1.0 - e * tf.cos(E))
    return E
loop = tf.function(by_steps)
"""


def measure(loop, way):
    """One of the four programs: prints its ops, seconds and megabytes."""
    names = {}
    with redirect_stdout(io.StringIO()):
        for cell in nbformat.read(LESSON, as_version=4).cells:
            if cell.cell_type == "code":
                exec(cell.source, names)
            if "orbit.fit(" in cell.source:
                break
    if loop == "newton":
        exec(NEWTON, names)
    if way == "unrolled":
        names["solution"] = names["by_steps"]
    tf = names["tf"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slopes = names["orbit"].slopes(lambda each: names["misses"](each, names["solution"]))
    compiled = tf.function(slopes)
    best = tf.constant(names["unknowns"])
    graph = compiled.get_concrete_function(best).graph.as_graph_def()
    inner = [len(f.node_def) for f in graph.library.function]
    compiled(best)
    seconds = []
    for _ in range(50):
        start = time.perf_counter()
        compiled(best)
        seconds.append(time.perf_counter() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(len(graph.node), sum(inner), statistics.median(seconds) * 1e3, grown)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(*sys.argv[1:])
    else:
        print("loop      way       nodes  in functions  ms a run  MB grown")
        for loop in ("300", "newton"):
            for way in ("unrolled", "rule"):
                run = [sys.executable, __file__, loop, way]
                said = subprocess.run(run, check=True, capture_output=True, text=True).stdout
                nodes, inner, ms, grown = said.split()[-4:]
                print(
                    f"{loop:9} {way:9} {nodes:>5} {inner:>13} {float(ms):9.1f} {float(grown):9.1f}"
                )
