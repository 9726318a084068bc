"""Helpers of lesson 10: the positions of S2, fits, four pictures.

positions  38 published positions: dates, places on the sky, their errors
project    from the plane of an orbit to the sky
size       half the length of an orbit that is seen tilted
weigh      the mass of what a body circles
slopes     how each miss changes with each unknown
fit        moves a guess to where the model misses the measurements least
fit_again  fits a model to measurements with other random errors, many times
sketch     Kepler's two angles, M and E
arrows     where accelerations point
on_sky     the positions, and orbits through them
ellipse    two results of many fits, and how their errors hang together
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .drawing.figure import SpokenFigure, returned_axes

SETTLED = 1e-6  # a fit ends with a step that lowers its loss by less than this
YEARS = np.array([1995.0, 2014.0])  # in which the curves on the map begin and end
DASHED, THIN = {"ls": "--", "lw": 1.2}, {"lw": 0.6, "alpha": 0.5}  # one other curve, or several
# Read off the map: P, e and t0, then the eight of `project`: a is 100 south, b is 90 east.
GUESS = (16.0, 0.8, 2002.5, 0.0, -100.0, 90.0, 0.0, 0.0, 0.0, 0.0, 0.0)
LABELLED = {1: -1, 10: 1, 11: -1, 35: 1}  # position -> side of its year: -1 left, 1 right


def positions() -> tuple[Any, Any, Any]:
    """Where the Keck telescopes saw S2, a star that circles the centre of our galaxy.

    Returns:
        Dates in years [38]; places [38, 2], how far east and north of a reference point near the
        black hole, in thousandths of an arcsecond; their errors [38, 2].

    Example:
        >>> dates, seen, errors = positions()
        >>> print(dates[0], seen[0], errors[0])
        1995.439 [-40.1  162.16] [1.   0.86]
    """
    rows = np.loadtxt(Path(__file__).with_name("s2.csv"), delimiter=",", skiprows=3)
    return rows[:, 0], rows[:, 1:3], rows[:, 3:]


def project(x: Any, y: Any, date: Any, eight: Any) -> Any:
    """Where places in the plane of an orbit are on the sky.

    Args:
        x: Along the first picture's horizontal line, measured from what the body circles [n]; 1 is
            the radius of the circle.
        y: Straight up, likewise [n].
        date: Years [n].
        eight: Four pairs, each east and north in thousandths of an arcsecond [8]: what a step of 1
            in x becomes, what a step of 1 in y becomes, where that which the body circles is at
            the start of 2005, and by how much it moves each year.

    Returns:
        East and north of each place [n, 2].

    Example:
        >>> eight = tf.constant([0.0, -100.0, 90.0, 0.0, 1.0, 2.0, 0.0, 3.0])
        >>> one = tf.constant([1.0])
        >>> print(project(one, 0.0 * one, 2006.0 * one, eight).numpy())
        [[  1. -95.]]
    """
    a, b, c, d = tf.unstack(tf.reshape(eight, [4, 2]))
    return x[:, None] * a + y[:, None] * b + c + (date - 2005.0)[:, None] * d


def size(eight: Any) -> float:
    """Half the length of an orbit that is seen tilted.

    It is the radius of a circle. Seen tilted, all radii of a circle look shorter but one, so the
    longest has the true length. A thousandth of an arcsecond is 8 au at 8000 parsecs (Ghez et al.
    2008, Astrophysical Journal 689, 1044).

    Args:
        eight: As for `project` [8]; only the first two pairs count.

    Returns:
        The size in au.

    Example:
        >>> print(size([0.0, -100.0, 90.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
        800.0
    """
    return float(8.0 * np.linalg.norm(np.reshape(eight[:4], (2, 2)), 2))


def weigh(unknowns: Any) -> None:
    """Print the size of an orbit in au, and by Kepler's third law the mass of what is circled.

    Args:
        unknowns: The period P in years, e and t0, then the eight of `project` [11].

    Example:
        >>> weigh([16.0, 0.8, 2002.5, 0.0, -100.0, 90.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        size 800 au, mass 2.00 million suns
    """
    P, own = unknowns[0], size(unknowns[3:])
    print(f"size {own:.0f} au, mass {own**3 / P**2 / 1e6:.2f} million suns")


def slopes(misses: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    """How each miss of a model changes with each unknown, as a tape finds it.

    Args:
        misses: Unknowns [u] -> misses [m].

    Returns:
        A function: unknowns [u] -> misses [m], and the table of their slopes, the Jacobian [m, u].

    Example:
        >>> off, table = slopes(lambda x: 3.0 * x - 1.0)(tf.constant([2.0]))
        >>> print(off.numpy(), table.numpy())
        [5.] [[3.]]
    """

    def with_slopes(unknowns: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(unknowns)
            off = misses(unknowns)
        return off, tape.jacobian(off, unknowns)

    return with_slopes


def fit(misses: Callable[[Any], Any], guess: Any, steps: int = 8) -> tuple[Any, list[float]]:
    """Move the unknowns to where the misses are smallest: the Gauss-Newton method.

    Prints the loss (half the sum of the squared misses) and the first three unknowns at the end.

    Args:
        misses: Unknowns [u] -> misses [m], in units of the errors of the measurements. Their
            slopes are those that a tape finds.
        guess: The initial unknowns [u]; first the period P, the eccentricity e and the date t0.
        steps: The number of steps.

    Returns:
        The unknowns after the last step [u], and the losses of the guess and after each step.

    Raises:
        ValueError: A step led to where the model has no value, as beyond e = 1.

    Example:
        >>> def misses(x):  # three numbers, each measured with the error 1
        ...     return x - np.array([16.0, 0.9, 2002.3])
        >>> found, losses = fit(misses, np.array([15.0, 0.5, 2000.0]), steps=1)
        loss 0.0, P 16.000, e 0.900, t0 2002.300
        >>> print(np.round(losses, 1))
        [3.2 0. ]
    """
    compiled, unknowns, losses = tf.function(slopes(misses)), guess, []
    for jump in range(steps + 1):
        off, table = compiled(tf.constant(unknowns))
        losses.append(0.5 * np.sum(off**2))
        P, e, t0 = unknowns[:3]
        if not np.isfinite(losses[-1]):
            raise ValueError(f"jump {jump} went too far, to e = {e:.3f}: begin nearer")
        if jump < steps:
            unknowns = unknowns - np.linalg.lstsq(table, off, rcond=None)[0]
    print(f"loss {losses[-1]:.1f}, P {P:.3f}, e {e:.3f}, t0 {t0:.3f}")
    return unknowns, losses


def fit_again(misses: Callable[[Any], Any], found: Any, times: int = 300) -> tuple[Any, Any]:
    """Fit to measurements with other random errors, many times.

    Takes `found` as the truth, simulates measurements of it with random errors, of the size that
    each measurement states, and fits to these with at most five steps of the Gauss-Newton method:
    a fit ends early with a step that lowers the loss by less than a millionth.

    Args:
        misses: Unknowns [u] -> misses [m], in units of the errors of the measurements.
        found: The unknowns that a fit has found [u].
        times: The number of fits.

    Returns:
        The unknowns of each fit [times, u], and its loss [times].

    Example:
        >>> def misses(x):  # ten measurements of one number, all 3 and with the error 1
        ...     return tf.repeat(x, 10) - 3.0
        >>> means, losses = fit_again(misses, [3.0])
        >>> print(f"{means.std():.2f} {losses.mean():.1f}")  # near 1 / sqrt(10), (10 - 1) / 2
        0.32 4.4
    """
    compiled, found = tf.function(slopes(misses)), np.array(found)
    here = [part.numpy() for part in compiled(tf.constant(found))]
    fits, losses = [], []
    for less in here[0] + np.random.default_rng(0).normal(size=(times, len(here[0]))):
        unknowns, (off, table) = found, here
        for more in reversed(range(5)):
            off = off - less
            move = np.linalg.lstsq(table, off, rcond=None)[0]
            unknowns = unknowns - move
            if not more or 0.5 * np.sum((table @ move) ** 2) < SETTLED:
                break
            off, table = (part.numpy() for part in compiled(tf.constant(unknowns)))
        fits.append(unknowns)
        losses.append(0.5 * np.sum(off**2))
    return np.array(fits), np.array(losses)


def sketch(M: float, e: float) -> SpokenFigure:
    """A body on an ellipse inside a circle, and two hands that turn about the circle's centre.

    The body is vertically below or above the tip of the second hand, which is at the angle E. Arcs
    show where both angles are measured from.

    Args:
        M: The time as an angle in radians, the mean anomaly.
        e: The eccentricity.

    Returns:
        The figure; its `alt` says where the hands are.

    Example:
        >>> sketch(1.0, 0.8)
        An ellipse in a circle. One hand is at M = 1.00, one at E = 1.78.
    """
    figure, (ax,), look = returned_axes(5.6, 3.6, aspect="equal")
    middle: dict[str, Any] = {"ha": "center", "va": "center", "color": look.text}
    turn, flat, E = np.linspace(0.0, 2.0 * np.pi, 200), np.sqrt(1.0 - e**2), M
    for _ in range(300):
        E = M + e * np.sin(E)
    ax.plot(np.cos(turn), np.sin(turn), ":", np.cos(turn), flat * np.sin(turn), color=look.muted)
    ax.plot([0, e], [0, 0], [np.cos(E)] * 2, [flat * np.sin(E), np.sin(E)], color=look.muted)
    for name, angle, line, radius in (("M", M, "--", 0.3), ("E", E, "-", 0.16)):
        hand = [0, np.cos(angle)], [0, np.sin(angle)]
        ax.plot(*hand, line, color=look.forward, label=f"{name} = {angle:.2f}")
        arc = np.linspace(0.0, angle, 60)
        ax.plot(radius * np.cos(arc), radius * np.sin(arc), line, color=look.forward, lw=1.0)
        ax.annotate(name, (1.08 * hand[0][1], 1.08 * hand[1][1]), **middle)
    ax.plot(np.cos(E), flat * np.sin(E), "o", ms=9, color=look.backward, label="the body")
    ax.plot(e, 0.0, "s", ms=9, color=look.text, label="the large body")
    ax.annotate("e", (e / 2.0, -0.08), **middle)
    ax.set(xticks=[], yticks=[], ylim=(-1.15, 1.15))
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    figure.alt = f"An ellipse in a circle. One hand is at M = {M:.2f}, one at E = {E:.2f}."
    return figure


def arrows(e: float, place: Any, acceleration: Any) -> SpokenFigure:
    """Where accelerations point: an arrow at each place, and a line from there to the long axis.

    All arrows are equally long: they show directions only.

    Args:
        e: The eccentricity of the orbit, whose long half-axis is 1.
        place: x and y, measured from what the body circles, each of shape [n].
        acceleration: Its x and y components, each of shape [n].

    Returns:
        The figure; its `alt` says where the lines meet the long axis: the centre is at -e.

    Example:
        >>> arrows(0.5, ([0.0, 0.0], [0.5, -0.5]), ([0.0, 0.0], [-4.0, 4.0]))
        2 arrows point at the long axis, at 0.00 to 0.00. What the body circles is at 0.
    """
    figure, (ax,), look = returned_axes(6.4, 4.2, aspect="equal")
    x, y = np.array(place, float)
    to_x, to_y = np.array(acceleration, float)
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    ax.plot(np.cos(turn) - e, np.sqrt(1.0 - e**2) * np.sin(turn), color=look.muted)
    foot = x - y / to_y * to_x  # where the line through the arrow meets the long axis
    ax.plot([x, foot], [y, 0.0 * y], ":", color=look.muted)
    force = np.hypot(to_x, to_y)
    drawn: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.006}
    lengths = 0.18 * to_x / force, 0.18 * to_y / force
    ax.quiver(x, y, *lengths, color=look.forward, zorder=3, **drawn)
    ax.plot([], [], color=look.forward, lw=3.0, label="acceleration, its direction only")
    ax.plot([], [], ":", color=look.muted, label="where it points")
    ax.plot(x, y, "o", ms=7, color=look.backward, label="the body")
    ax.plot(-e, 0.0, "+", ms=10, color=look.text, label="centre of the ellipse")
    ax.plot(0.0, 0.0, "s", ms=9, color=look.text, label="the large body")
    ax.set(xticks=[], yticks=[])
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    met = f"{foot.min():z.2f} to {foot.max():z.2f}"  # z: no -0.00
    said = f"{len(x)} arrows point at the long axis, at {met}."
    figure.alt = f"{said} What the body circles is at 0."
    return figure


def on_sky(
    curve: Any = None,
    *others: Any,
    source: Any = None,
    low: bool = False,
    losses: Sequence[Sequence[float]] = (),
) -> SpokenFigure:
    """The positions of S2 with their errors, as on the sky, where east is on the left.

    Dotted lines cross at the origin of the map, which is near what S2 circles but not at it.

    Args:
        curve: Places [n, 2] from 1995 to 2014, to be joined by a blue line.
        *others: More curves, to be drawn in grey: one dashed, several as thin lines.
        source: The numbers of `project` [8]. They say how what S2 circles moves: a line, with a
            square at both ends. The years are written there and at the ends of a curve.
        low: Cut off the top of the map, so that the rest is larger, and leave out the years.
        losses: Those of one or two fits, as `fit` returns them, drawn beside the map; the second
            line is dashed.

    Returns:
        The figure; its `alt` says what is drawn.

    Example:
        >>> on_sky()
        38 positions of S2.
        East, north: 1996.5 at -48, 155; 2001.6 at -50, 15; 2003.3 at 39, 73; 2012.6 at -53, 161.
    """
    dates, seen, errors = positions()
    figure, (ax, *beside), look = returned_axes(8.4 if losses else 5.2, 4.8, 2 if losses else 1)
    note = partial(ax.annotate, textcoords="offset points", va="center", color=look.text)
    lines = [f"{len(dates)} positions of S2"]
    places = [f"{dates[n]:.1f} at {seen[n][0]:.0f}, {seen[n][1]:.0f}" for n in LABELLED]
    for draw in (ax.axhline, ax.axvline):
        draw(0.0, ls=":", lw=1.0, color=look.muted)
    one = len(others) == 1
    for each in others:
        ax.plot(*np.transpose(each), color=look.muted, **(DASHED if one else THIN))
    if curve is not None:
        ax.plot(*np.transpose(curve), color=look.forward, lw=1.2 if len(others) > 1 else 1.5)
        lines.append("an orbit")
    lines += ["a dashed grey one" if one else f"{len(others)} thin grey ones"] * bool(others)
    ax.plot(*seen[list(LABELLED)].T, "o", color=look.backward, ms=6)
    ax.errorbar(*seen.T, errors[:, 1], errors[:, 0], "o", color=look.backward, ms=3)
    box = {"fc": ax.get_facecolor(), "ec": "none", "pad": 1.0}  # no line runs through
    for n, side in LABELLED.items():
        ha = "left" if side > 0 else "right"
        note(f"{dates[n]:.1f}", seen[n], (7 * side, 0), ha=ha, annotation_clip=True, bbox=box)
    if source is not None:
        ends = np.array(project(0.0 * YEARS, 0.0 * YEARS, YEARS, source))
        ax.plot(*ends.T, "s-", ms=6, color=look.text, lw=1.0)
        at = [f"{east:.0f}, {north:.0f}" for east, north in ends]
        places.append(f"what it circles from {' to '.join(at)}")
    if source is not None and curve is not None and not low:
        for n, side, ha in ((0, -4, "right"), (-1, 4, "left")):
            note(f"{YEARS[n]:.0f}", ends[n], (6, 4))
            note(f"{YEARS[n]:.0f}", curve[n], (side, 0), ha=ha, color=look.forward, bbox=box)
        places.append("the orbit begins in 1995 and ends in 2014")
    kinds = ("o-", look.forward, "blue orbit"), ("s--", look.muted, "dashed orbit")
    for each, (line, color, label) in zip(losses, kinds, strict=False):
        beside[0].plot(each, line, ms=4, color=color, lw=1.2, label=label)
        beside[0].set(xlabel="jumps", ylabel="loss", yscale="log", box_aspect=1.0)
        places.append(f"loss of the {label} {each[0]:.1f} at first, {each[-1]:.1f} at the end")
    if len(losses) > 1:
        beside[0].legend(frameon=False)
    ax.set(
        aspect="equal",
        xlim=(95, -95),
        ylim=(-30, 165 if low else 200),
        xlabel="east, thousandths of an arcsecond",
        ylabel="north (same unit)",
    )
    figure.alt = f"{', '.join(lines)}.\nEast, north: {'; '.join(places)}."
    return figure


def ellipse(results: Mapping[str, Any]) -> SpokenFigure:
    """Two results of many fits against each other, and their error ellipse.

    The ellipse has the mean and the covariance of the points, and reaches two standard deviations:
    of normally distributed points it holds 1 - exp(-2), about 86%.

    Args:
        results: Two names, each with its numbers, one for each fit [n].

    Returns:
        The figure; its `alt` gives the correlation, and how many points are inside.

    Example:
        >>> ellipse({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0, 4.0]})
        x and y of 4 fits: correlation 0.98, 4 inside the ellipse.
    """
    names, points = list(results), np.array(list(results.values()), float)
    figure, (ax,), look = returned_axes(5.0, 3.2, xlabel=names[0], ylabel=names[1])
    middle = points.mean(axis=1, keepdims=True)
    factor = 2.0 * np.linalg.cholesky(np.cov(points))  # takes the unit circle to the ellipse
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    inside = np.sum(np.linalg.norm(np.linalg.solve(factor, points - middle), axis=0) < 1.0)
    ax.plot(*points, ".", ms=4, color=look.muted)
    ax.plot(*(middle + factor @ [np.cos(turn), np.sin(turn)]), color=look.text)
    correlation = f"correlation {np.corrcoef(points)[0, 1]:.2f}"
    said = f"{' and '.join(names)} of {points.shape[1]} fits"
    figure.alt = f"{said}: {correlation}, {inside} inside the ellipse."
    return figure
