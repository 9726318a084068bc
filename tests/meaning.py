"""What a picture says by its geometry: which node an arrow points at, which line a label is at.

`Seen` holds the geometry of a picture, from the display list, from paper or from a page, and
`check` compares it with what the selection means.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from matplotlib.path import Path

from cgviz.drawing.figure import Drawn
from cgviz.drawing.shapes import outline, outlined

TOUCH = 1.5  # points between a tip and the outline that it touches: less than the width of a line
NEAR = 12.0  # points from a label to its line: its distance, and the space below its letters
SLACK = 0.7  # points by which boxes may overlap: less than the space around letters


@dataclass
class Seen:
    """The geometry of a picture."""

    lines: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)  # (role, link) -> points
    heads: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    outlines: dict[int, list[np.ndarray]] = field(default_factory=dict)  # node -> polygons
    texts: list[tuple[str, str, int, str, tuple[float, ...]]] = field(default_factory=list)

    def add(self, role, of, i, points):
        if of == "link" and role in ("forward", "backward"):
            self.lines[role, i] = points
        elif of == "link":
            self.heads[role.removesuffix("-head"), i] = points
        elif of == "node" and role in ("outline", "inner", "frame"):
            self.outlines.setdefault(i, []).append(points)


ELEMENTS = """() => {
  const [picture] = document.querySelector(".cgviz-view").cgvizView.pictures;
  const back = picture.inner.getScreenCTM().inverse();
  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const [a, b] = [new DOMPoint(left, top), new DOMPoint(right, bottom)];
    return [a, b].map((p) => p.matrixTransform(back)).flatMap(({ x, y }) => [x, y]);
  };
  const known = (window.cgvizPointsOf ??= new Map());  // slow to get, and no step changes a path
  const points = (path) => {
    const d = path.getAttribute("d");
    if (!known.has(d)) known.set(d, along(path));
    return known.get(d);
  };
  const along = (path) => {
    const length = path.getTotalLength(), count = Math.max(Math.ceil(length / 2), 3);
    return Array.from({ length: count + 1 }, (_, n) => {
      const { x, y } = path.getPointAtLength((n * length) / count);
      return [x, y];
    });
  };
  const visible = (element) => getComputedStyle(element).visibility !== "hidden";
  const shown = picture.parts.filter(({ element }) => visible(element));
  return JSON.stringify(shown.map(({ role, of, i, k, element }) => k === undefined
    ? { role, of, i, points: points(element) }
    : { role, of, i, words: element.cgvizWords, box: box(element) }));
}"""  # as one string: Playwright would go through thousands of numbers several times


def of_page(page) -> Seen:
    """The geometry of the first picture of a page, as the browser has it."""
    found = Seen()
    for element in json.loads(page.evaluate(ELEMENTS)):
        of = element["role"], element["of"], element["i"]
        if "points" in element:
            found.add(*of, np.array(element["points"]))
        elif element["words"]:
            found.texts.append((*of, element["words"], tuple(element["box"])))
    return found


def points_of(path: Path) -> np.ndarray:
    """A path as points close to each other."""
    polygon = max(path.interpolated(1).to_polygons(closed_only=False), key=len)
    return np.asarray(polygon)


@functools.lru_cache(maxsize=10_000)
def line(d: str) -> np.ndarray:
    """The points of an SVG path; cached, because a display list draws it at many steps."""
    return points_of(outline(d))


def of_display(shown, step) -> Seen:
    """The geometry of a display list at a step."""
    found = Seen()
    for path in shown.paths:
        if path.step <= step:
            found.add(path.role, path.of, path.i, line(path.d))
    for text in shown.texts:
        if words := text.at(step):
            _, box = outlined(words, text.x, text.y, text.size, text.anchor, text.side)
            found.texts.append((text.role, text.of, text.i, words, box))
    return found


def of_paper(ax) -> Seen:
    """The geometry of what Matplotlib drew."""
    found = Seen()
    for drawn in (c for c in ax.collections if isinstance(c, Drawn)):
        for n, element in enumerate(drawn.elements):
            if element.of == "legend":
                continue
            if drawn.words:
                text = element.role, element.of, element.i, drawn.words[n], drawn.boxes[n]
                found.texts.append(text)
            else:
                found.add(element.role, element.of, element.i, points_of(drawn.get_paths()[n]))
    return found


def away(points: np.ndarray, point: np.ndarray) -> float:
    """How far a point is from a line through points."""
    start, along = points[:-1], np.diff(points, axis=0)
    length = np.maximum((along**2).sum(1), 1e-9)
    part = np.clip(((point - start) * along).sum(1) / length, 0, 1)[:, None]
    return float(np.hypot(*(point - start - part * along).T).min())


def box_away(points: np.ndarray, box) -> np.ndarray:
    """The distance of each point from a box; 0 inside."""
    left, top, right, bottom = box
    across = np.maximum(np.maximum(left - points[:, 0], points[:, 0] - right), 0)
    down = np.maximum(np.maximum(top - points[:, 1], points[:, 1] - bottom), 0)
    return np.hypot(across, down)


def within(points: np.ndarray, box) -> np.ndarray:
    """Which of the points are in a box."""
    left, top, right, bottom = box
    x, y = points.T
    return (left <= x) & (x <= right) & (top <= y) & (y <= bottom)


def dense(points: np.ndarray) -> np.ndarray:
    """The points of a line and more between them, so that neighbours are less than 4 apart."""
    way = np.diff(points, axis=0)
    counts = np.maximum((np.hypot(*way.T) / 2).astype(int), 1)
    piece = np.repeat(np.arange(len(way)), counts)
    number = np.arange(counts.sum()) - (np.cumsum(counts) - counts)[piece] + 1
    between = points[piece] + way[piece] * (number / counts[piece])[:, None]
    return np.concatenate([points[:1], between])


def shrunk(box):
    left, top, right, bottom = box
    return left + SLACK, top + SLACK, right - SLACK, bottom - SLACK


def check(seen: Seen, links, *, slack: float = 0.0) -> None:
    """Assert that a picture shows what the selection means.

    Args:
        seen: The geometry of the picture.
        links: The source and the target of each link.
        slack: Points by which places may be further off than on paper: letters differ in browsers.
    """
    check_arrows(seen, links, slack)
    check_labels(seen, slack)
    check_node_texts(seen, slack)
    check_sums(seen, links)
    check_products(seen, links)


def check_arrows(seen, links, slack):
    """A forward arrow goes from source to target, a backward arrow from target to source."""
    for (role, i), line in seen.lines.items():
        ends = links[i] if role == "forward" else links[i][::-1]
        head = seen.heads[role, i]
        tip, tail = head[0], line[0]
        for place, node, what in ((tail, ends[0], "begins"), (tip, ends[1], "ends")):
            least = min(away(polygon, place) for polygon in seen.outlines[node])
            assert least <= TOUCH + slack, f"{role} arrow of link {i} {what} {least} off its node"
        # The line leads into the head from behind, so dashes run towards the tip.
        assert np.hypot(*(line[-1] - tip)) < np.hypot(*(line[0] - tip)), (role, i)
        along = (head.mean(axis=0) - tip) / np.hypot(*(head.mean(axis=0) - tip))
        behind = (line[-1] - tip) @ along
        beside = (line[-1] - tip) @ (along[1], -along[0])
        assert 0 < behind <= ((head - tip) @ along).max() + slack, (role, i)
        assert abs(beside) <= TOUCH + slack, (role, i)


def check_labels(seen, slack):
    """A label is beside its own line, and on no other line or node."""
    labels = [text for text in seen.texts if text[1] == "link"]
    lines = {key: dense(points) for key, points in seen.lines.items()}
    owners = [key for key, points in lines.items() for _ in points]
    every = np.concatenate(list(lines.values())) if lines else np.zeros((0, 2))
    nodes = {
        node: [(Path(p), (*p.min(axis=0), *p.max(axis=0))) for p in polygons]
        for node, polygons in seen.outlines.items()
        # Not the frame of an open custom op: the labels of its inside lie in it.
        if len(polygons) > 1 or area(polygons[0]) <= 20_000
    }
    for role, _, i, words, box in labels:
        own = "backward" if role == "gradient" else "forward"
        assert box_away(lines[own, i], box).min() <= NEAR + slack, f"{words} is far from its line"
        met = within(every, shrunk(box))
        assert not met.any(), f"{words} is on {owners[int(met.argmax())]}"
        for node, paths in nodes.items():
            for path, around in paths:
                if overlap(around, box):  # else the label is far from the node
                    inside = path.contains_points(corners(shrunk(box))).any()
                    assert not inside, f"{words} is on node {node}"
    for n, (*_, words, box) in enumerate(labels):
        for *_, other, its in labels[:n]:
            assert not overlap(shrunk(box), shrunk(its)), f"{words} is on {other}"


def check_node_texts(seen, slack):
    """The text of a node is inside its outline."""
    for _, of, i, words, box in seen.texts:
        if of == "node":
            left, top, right, bottom = box
            inner = left + slack, top + slack, right - slack, bottom - slack
            # The front sheet of a stack, or the inner of two borders.
            polygons = seen.outlines[i]
            least = 0.6 * max(map(area, polygons))
            large = [polygon for polygon in polygons if area(polygon) > least]
            front = Path(large[-1])
            assert front.contains_points(corners(shrunk(inner))).all(), f"{words} leaves its node"


def check_sums(seen, links):
    """The terms of a sum are the labels of the arrows that meet at its node; "=" if they add up."""
    labels = {i: words.split(" ")[-1] if "·" in words else words for i, words in returned(seen)}
    for role, of, node, words, _ in seen.texts:
        if (of, role) != ("node", "gradient") or ("+" not in words and " − " not in words):
            continue
        parts = re.split(r" ([=≈])\s", words)
        (place,) = (n for n, part in enumerate(parts) if " + " in part or " − " in part)
        total = parts[place]
        terms = [x for x in total.replace(" − ", " + −").split(" + ") if x != "…"]
        if "Σ" in words:
            continue
        meet = [labels[i] for i, (source, _) in enumerate(links) if source == node and i in labels]
        assert Counter(terms) == Counter(meet), words
        with suppress(ValueError):  # of numbers alone
            numbers = [float(x.replace("−", "-")) for x in (*terms, *parts[place + 2 :])]
            if "…" not in total and np.isfinite(numbers).all():
                same = f"{sum(numbers[:-1]):.4g}" == f"{numbers[-1]:.4g}"
                assert parts[place + 1] == ("=" if same else "≈"), words


def returned(seen):
    """The link and the label of each backward arrow."""
    return [
        (i, words) for role, of, i, words, _ in seen.texts if (of, role) == ("link", "gradient")
    ]


def check_products(seen, links):
    """A product's upstream is what the node at the arrow's start received; "=" if it is true."""
    labels = dict(returned(seen))
    assert not [words for words in labels.values() if "· −" in words], "two signs meet"
    product = r"(\S+) · \(?([^\s()]+)\)? ([=≈≠]) (.+)"
    found = {i: re.fullmatch(product, words) for i, words in labels.items()}
    totals = {node: words for role, of, node, words, _ in seen.texts if role == "gradient"}
    for i, product in found.items():
        if product is None:
            continue
        upstream, local, sign, downstream = product.groups()
        node = links[i][1]
        arrived = [k for k, (source, _) in enumerate(links) if source == node and k in labels]
        total = labels[arrived[0]] if len(arrived) == 1 else totals[node]
        assert re.split(" [=≈≠] ", total)[-1].split(" ")[-1] == upstream, (total, labels[i])
        with suppress(ValueError):  # of numbers alone
            u, v, d = (float(x.replace("−", "-")) for x in (upstream, local, downstream))
            if np.isfinite([u, v, d]).all() and sign != "≠":
                alike = f"{u * v + 0.0:.4g}" == f"{d + 0.0:.4g}"  # + 0.0: −0 is 0
                assert sign == ("=" if alike else "≈") or "e" in downstream, labels[i]
                assert np.isclose(u * v, d, rtol=2e-3), labels[i]


def corners(box):
    left, top, right, bottom = box
    return [(left, top), (right, top), (left, bottom), (right, bottom)]


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def area(polygon):
    return float(np.prod(np.ptp(polygon, axis=0)))
