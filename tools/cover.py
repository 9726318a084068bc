"""Draw the moving picture at the top of README.md, for light and for dark pages.

Each is an SVG file that plays by itself where GitHub shows it: no script, only CSS keyframes. It is
drawn from the display list, so each part appears at the same step as in the live picture. For a
reader who prefers reduced motion it shows the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from math import ceil
from pathlib import Path

import tensorflow as tf

import cgviz
from cgviz import style
from cgviz.drawing import display, shapes, texts
from cgviz.drawing.display import Display
from cgviz.drawing.shapes import extent
from cgviz.graph.selection import Selection, select

PICTURES = Path(__file__).resolve().parents[1] / "notebooks" / "images"
PAPERS = {"light": (style.LIGHT, "#ffffff"), "dark": (style.DARK, "#0d1117")}  # GitHub's own
SECONDS, HOLD = 1.2, 3.0  # for a step, to read its number; for the end, to look at all of it
HIDDEN = ("handle", "tab")  # the roles of what is only there to be clicked

LOOK = """\
text { dominant-baseline: central; fill: var(--tone); font-family: "DejaVu Sans", Verdana; }
path { fill: var(--plain); stroke: var(--tone); stroke-width: var(--wide); }
.forward, .backward { --plain: none; --wide: 1.7px; }
.backward { stroke-dasharray: 5.4 3; }
.forward-head, .backward-head, .inner { --plain: var(--tone); --wide: 0; }
.outline { --wide: 1.4px; }
@media (prefers-reduced-motion: reduce) {
  * { animation: none !important; }
  .past { display: none; }
}
@keyframes flow { to { stroke-dashoffset: -8.4px; } }
"""


def f(x: tf.Tensor) -> tf.Tensor:
    """The function that README.md shows."""
    return x * x + 3.0 * x


def selection() -> Selection:
    """What is drawn of `f`, with the product that gives its number at each backward arrow."""
    return replace(select(cgviz.trace(f, 2.0)), local=True)


class Clock:
    """When each step is shown, in percent of one run of the animation, and the CSS keyframes."""

    def __init__(self, shown: Display) -> None:
        self.moments = [*range(-len(shown.forward), 1), *shown.backward]
        self.seconds = SECONDS * len(self.moments) + HOLD
        self.keyframes: dict[str, str] = {}

    def percent(self, step: int) -> float:
        """When a step comes, in percent; 100 for a step after the last."""
        place = next((i for i, m in enumerate(self.moments) if m >= step), None)
        return 100.0 if place is None else 100 * SECONDS * place / self.seconds

    def play(self, name: str, frames: Sequence[tuple[float, str]]) -> str:
        """Keep keyframes that jump to each frame at its time; returns the CSS that plays them."""
        rows = "".join(f"{when:.1f}% {{ {looks} }} " for when, looks in frames if when < 100)
        self.keyframes[name] = f"@keyframes {name} {{ {rows}}}\n"
        return f"{name} {self.seconds:.1f}s step-end infinite"

    def between(self, first: int, end: int | None, before: str = "0") -> str:
        """The animation of opacity: `before` at first, 1 from step `first` on, 0 from `end` on."""
        frames = [(self.percent(first), "opacity: 1")]
        if first > self.moments[0]:
            frames.insert(0, (0.0, f"opacity: {before}"))
        elif end is None:
            return ""
        if end is not None:
            frames.append((self.percent(end), "opacity: 0"))
        name = f"from{first}{'' if end is None else f'to{end}'}pale{before.replace('.', '')}"
        return self.play(name.replace("-", "m"), frames)

    def lit(self, steps: Sequence[int], line: bool) -> str:
        """The animation of emphasis at these steps: wider, and for an outline another tone."""
        frames = [(0.0, "")]
        for step in steps:
            way = "backward" if step > 0 else "forward"
            tone = "" if line else f"fill: var(--lit-{way}); stroke: var(--{way}); "
            frames += [(self.percent(step), f"{tone}stroke-width: 3px")]
            frames += [(self.percent(step + 1), "")]
        own = "stroke-width: var(--wide)"
        own += "" if line else "; fill: var(--plain); stroke: var(--tone)"
        name = "lit" + "and".join(map(str, steps)).replace("-", "m") + "line" * line
        return self.play(name, [(when, looks or own) for when, looks in frames])


def paths(shown: Display, clock: Clock, look: style.Palette) -> Iterator[str]:
    """The lines and outlines."""
    for path in shown.paths:
        if path.role in HIDDEN:
            continue
        kind = shown.nodes[path.i].kind if path.of == "node" else ""
        tone = look.backward if kind == "target" else look.of(kind)
        if path.of == "link":
            tone = look.forward if path.role.startswith("forward") else look.backward
        before = "0.32" if kind else "0.22" if path.role.startswith("forward") else "0"
        step = ceil(path.step)  # the seed comes with the first step
        plays = [clock.between(step, None, before)]
        if (now := [int(m) for m in path.now if m != texts.SEED]) and path.role[-5:] != "-head":
            plays.append(clock.lit(now, path.of == "link"))
        if path.role == "backward":
            plays.append("flow 0.7s linear infinite")
        yield _element("path", path.role, tone, plays, f'd="{path.d}" data-step="{step}"')


def words(shown: Display, clock: Clock, look: style.Palette) -> Iterator[str]:
    """The texts: one element for each version of each text."""
    tones = {"value": look.forward_text, "gradient": look.backward_text, "title": look.text}
    for text in shown.texts:
        away = {"above": -0.485, "around": 0.0, "below": 0.485}[text.side]  # half a letter's height
        at = text.x, text.y + away * text.size, text.anchor, text.size
        tone = tones.get(text.role, look.muted)
        steps = [ceil(step) for step, _ in text.versions]
        versions = zip(steps, text.versions, [*steps[1:], None], strict=True)
        for step, (_, says), end in versions:
            if text.role == "title":
                plays = clock.between(ceil(text.step), end, "0.32")
            else:
                plays = clock.between(step, end)
            yield _text(says, at, tone, plays, end)


def legend(shown: Display, clock: Clock, look: style.Palette) -> Iterator[str]:
    """The legend of the lines, and the name of the step."""
    height = shown.sheet[1]
    x, y = display.MARGIN, height - display.MARGIN - texts.TEXT / 2
    for role, says in shown.legend:
        tone = look.forward if role == "forward" else look.backward
        ends = [(x, y), (x + 26, y)]
        shaft, head = shapes.arrow(ends if role == "forward" else ends[::-1])
        yield _element("path", role, tone, [], f'd="{shaft}"')
        yield _element("path", f"{role}-head", tone, [], f'd="{head}"')
        yield _text(says, (x + 31, y, "start", display.SMALL), look.muted)
        x += display.SAMPLE + extent(says, display.SMALL)[0]
    at, count = (shown.width - display.MARGIN, y, "end", display.SMALL), len(shown.forward)
    for step, end in zip(clock.moments, [*clock.moments[1:], None], strict=True):
        says = f"forward {step + count} of {count}"
        if step > 0:
            says = f"backward {step} of {shown.steps}"
        yield _text(says, at, look.muted, clock.between(step, end), end)


def _element(
    tag: str, name: str, tone: str, plays: Sequence[str], rest: str, inside: str = ""
) -> str:
    playing = ", ".join(each for each in plays if each)
    how = f"--tone: {tone}" + (f"; animation: {playing}" if playing else "")
    named = f' class="{name}"' if name else ""
    return f'<{tag}{named} style="{how}" {rest}>{inside}</{tag}>\n'


def _text(
    says: str,
    at: tuple[float, float, str, float],
    tone: str,
    plays: str = "",
    end: int | None = None,
) -> str:
    x, y, anchor, size = at
    rest = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return _element("text", "" if end is None else "past", tone, [plays], rest, escape(says))


def moving(chosen: Selection, look: style.Palette, paper: str) -> str:
    """The text of an SVG file that plays a selection."""
    shown = display.make(chosen)
    clock = Clock(shown)
    drawn = "".join(part for draw in (paths, words, legend) for part in draw(shown, clock, look))
    width, height = shown.width, shown.sheet[1]
    tones = {"plain": look.fill, "forward": look.forward, "backward": look.backward}
    tones |= {"lit-forward": f"{look.forward}33", "lit-backward": look.glow}  # 33: a fifth of it
    named = " ".join(f"--{name}: {tone};" for name, tone in tones.items())
    root = f"svg {{ {named} background: {paper}; }}\n"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" '
        f'width="{1.6 * width:.0f}" height="{1.6 * height:.0f}" role="img">\n'
        f"<desc>{escape(texts.describe(chosen))}</desc>\n"
        f"<style>\n{root}{LOOK}{''.join(clock.keyframes.values())}</style>\n{drawn}</svg>\n"
    )


def main() -> None:
    """Write both pictures."""
    chosen = selection()
    for theme, (look, paper) in PAPERS.items():
        (PICTURES / f"flow_{theme}.svg").write_text(moving(chosen, look, paper), encoding="utf-8")


if __name__ == "__main__":
    main()
