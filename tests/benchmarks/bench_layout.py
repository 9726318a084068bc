"""How fast the layout is, and how its crossings compare with those of Graphviz `dot`, in one run.

Prints times for 200 and 2,000 nodes and, on random graphs, the ratio of the line crossings in our
drawing to those in `dot`'s, counted by the same function in both.
"""

from __future__ import annotations

import gc
import random
import shutil
import subprocess
import time
from dataclasses import replace

import numpy as np

from cgviz.drawing import layout
from cgviz.drawing.layout import Box, Link

Line = np.ndarray


def random_graph(nodes: int, links: int, seed: int, window: int | None = None) -> list[Link]:
    """A random graph without cycles; with `window` each box uses only that many before it."""
    choose = random.Random(seed)
    ends: set[tuple[int, int]] = set()
    while len(ends) < links:
        b = choose.randrange(1, nodes)
        a = choose.randrange(max(0, b - window) if window else 0, b)
        ends.add((a, b))
    return [Link(a, b) for a, b in sorted(ends)]


def recurrent(steps: int) -> tuple[int, list[Link]]:
    """The shape of a recurrent network: four weights that every step uses."""
    links, state, count = [], 4, 5
    for _ in range(steps):
        for weight in range(4):
            links += [Link(weight, count), Link(state, count)]
            count += 1
        links += [Link(count - 4 + i, count) for i in range(4)]
        state, count = count, count + 1
    return count, links


def our_lines(nodes: int, links: list[Link]) -> list[Line]:
    """Our drawing, as polylines."""
    placed = layout.place([Box(54.0, 36.0)] * nodes, links)
    return [layout.beside(route, "down") for route in placed.routes]


def dot_lines(nodes: int, links: list[Link]) -> list[Line]:
    """`dot`'s drawing of boxes of the same size, its curves as polylines."""
    text = 'digraph { node [shape=box fixedsize=true width=0.75 height=0.5 label=""]\n'
    text += "".join(f"{v}\n" for v in range(nodes))
    text += "".join(f"{link.source} -> {link.target}\n" for link in links) + "}"
    plain = subprocess.run(
        ["dot", "-Tplain"], input=text, capture_output=True, text=True, check=True
    ).stdout
    lines = []
    t = np.linspace(0, 1, 9)[:, None]
    for row in plain.splitlines():
        if row.startswith("edge"):
            words = row.split()
            points = np.array(words[4 : 4 + 2 * int(words[3])], float).reshape(-1, 2)
            pieces = [points[:1]]
            for i in range(0, len(points) - 1, 3):
                a, b, c, d = points[i : i + 4]
                curve = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b
                pieces.append((curve + 3 * (1 - t) * t**2 * c + t**3 * d)[1:])
            lines.append(np.vstack(pieces))
    return lines


def crossings(lines: list[Line]) -> int:
    """How many pairs of pieces of different lines cross."""
    start = np.vstack([line[:-1] for line in lines])
    end = np.vstack([line[1:] for line in lines])
    owner = np.repeat(np.arange(len(lines)), [len(line) - 1 for line in lines])
    way = end - start
    total = 0
    for i in range(len(start)):
        rest = slice(i + 1, None)
        gap = start[rest] - start[i]
        cross = way[i, 0] * way[rest, 1] - way[i, 1] * way[rest, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (gap[:, 0] * way[rest, 1] - gap[:, 1] * way[rest, 0]) / cross
            u = (gap[:, 0] * way[i, 1] - gap[:, 1] * way[i, 0]) / cross
        meet = (s > 0) & (s < 1) & (u > 0) & (u < 1) & (owner[rest] != owner[i])
        total += int(meet.sum())
    return total


def times() -> None:
    """Print how long 200 and 2,000 nodes take, in graphs of several shapes, with labels."""
    graphs = {
        "tape-like, 300 links": (200, random_graph(200, 300, 1, 12)),
        "random, 300 links": (200, random_graph(200, 300, 1)),
        "tree-like, 2,000 links": (2000, random_graph(2000, 2000, 1, 10)),
        "tape-like, 3,000 links": (2000, random_graph(2000, 3000, 1, 20)),
        "random, 3,000 links": (2000, random_graph(2000, 3000, 1)),
        "recurrent, 4,800 links": recurrent(400),
    }
    for name, (nodes, links) in graphs.items():
        labelled = [replace(link, before=30.0, after=30.0, along=14.0) for link in links]
        took = []
        for _ in range(9):
            gc.collect()  # so that no run pays for the garbage of another
            start = time.process_time()
            layout.place([Box(54.0, 36.0)] * nodes, labelled)
            took.append(time.process_time() - start)
        most = 0.05 if nodes == 200 else 1.0
        print(f"{nodes} nodes, {name}: {min(took):.3f} s (at most {most})")


def against_dot() -> None:
    """Print the ratio of our crossings to those of `dot`."""
    if shutil.which("dot") is None:
        print("crossings: not compared, `dot` is missing (apt-get install graphviz)")
        return
    for nodes, links in ((10, 14), (20, 30), (40, 60), (80, 120), (150, 220)):
        ours = theirs = 0
        for seed in range(12):
            graph = random_graph(nodes, links, seed)
            ours += crossings(our_lines(nodes, graph))
            theirs += crossings(dot_lines(nodes, graph))
        ratio = ours / max(theirs, 1)
        print(
            f"{nodes} nodes, {links} links, 12 graphs: {ours} crossings, dot {theirs}: "
            f"{ratio:.2f} (at most 2)"
        )


if __name__ == "__main__":
    times()
    against_dot()
