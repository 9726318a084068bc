"""The problem that runs through the lessons: two moons, a small network, and one picture.

    data      200 points of two interleaved half circles, with noise
    arrays    the same for a network written in NumPy, and the weights it starts from
    scatter   a picture of the points and their labels
    Network   points -> logits: one hidden layer with an activation that the caller chooses
    near      a switch whose rule lets the gradient through near the jump
    gradients the gradient of the loss with respect to each variable of a network
    train     gradient descent in plain TensorFlow -> Run
    Run       a trained network and its losses
    compare   runs side by side: decision boundaries and loss curves
    distances how far away a network says the border is, as circles
    outside   a NumPy function, from which TensorFlow gets numbers and no gradient
    over_time a number for each hidden unit, at each step
    curves    a curve, and others to compare with it
    elsewhere a function's source, run in a new process
    send      a picture, for `elsewhere` to return
    asks_for  the name under which a traced function looks for its rule
    register  a rule, registered under the name that a saved graph asks for
    log_here  TensorFlow's warnings, in the cell that causes them
    row       a name and numbers, in columns
    table     numbers in rows and columns
    agree     a function's values and gradients, each above the right one
    stairs    the cosine key of lesson 11, pressed again and again
    scale     the scores of lesson 11 on a scale, and the degree of each
    descend   gradient descent on a loss of a few weights
    tastes    trainings of lesson 11 on a map of the loss, and the best films of each
    Sliders   a picture that is drawn again when a slider moves

Everything is seeded, so a lesson prints the same numbers each time it runs.
"""

from __future__ import annotations

import inspect
import io
import logging
import operator
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import textwrap
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import tensorflow as tf
from IPython import get_ipython
from IPython.display import publish_display_data
from matplotlib.collections import EllipseCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Circle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from . import style
from .drawing.figure import SpokenFigure, current_palette, new_axes, returned_axes, speak
from .live import assets

COUNT = 200  # points: enough to see two moons, few enough to train on all of them at once
NOISE = 0.12  # standard deviation; the moons come close and hardly overlap
HIDDEN = 8  # units: the fewest that bend the boundary from every start that was tried
GRID = 400  # points along each side of the map: the border of units that jump shows no steps
REACH = 4.0  # of the map of two weights, on each side of 0
FEW = 5  # up to this many points on the wrong side get large crosses: more would crowd each other

# the first lines of a program that `elsewhere` runs
BEGIN = "import tensorflow as tf\nfrom cgviz import moons\nmoons.log_here()\n"
ABOUT = 115  # characters of a warning that are printed: what it is about, without the advice

Loss = Callable[[Callable[..., Any], Any, Any], Any]


def data() -> tuple[Any, Any]:
    """The two moons, the same each time.

    Returns:
        Points, float32 [200, 2], centred on 0; labels, float32 [200, 1]: 0 for the upper moon, 1
        for the lower one.

    Example:
        >>> points, labels = data()
        >>> points.shape, float(tf.reduce_mean(labels))
        (TensorShape([200, 2]), 0.5)
    """
    angle = np.linspace(0.0, np.pi, COUNT // 2)
    upper = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], axis=1)
    noise = np.random.default_rng(0).normal(0.0, NOISE, (COUNT, 2))
    points = np.concatenate([upper, -upper]) + noise
    labels = np.repeat([0.0, 1.0], COUNT // 2)[:, None]
    return tf.constant(points, tf.float32), tf.constant(labels, tf.float32)


def arrays(seed: int = 1) -> tuple[Any, Any, tuple[Any, Any]]:
    """The moons, and the initial weights of a two-layer network in NumPy: no biases, float64.

    Args:
        seed: The seed of the random weights.

    Returns:
        Points [200, 2]; the wanted answers [200, 1], -1 for the upper moon and 1 for the lower;
        the weights of the two layers, [2, 8] and [8, 1].

    Example:
        >>> points, wanted, (w1, w2) = arrays()
        >>> (points @ w1 @ w2).shape == wanted.shape
        True
    """
    points, labels = (np.asarray(part, float) for part in data())
    normal = np.random.default_rng(seed).normal
    start = normal(0.0, 1.0, (2, HIDDEN)), normal(0.0, 0.5, (HIDDEN, 1))
    return points, 2.0 * labels - 1.0, start


def scatter(points: Any, labels: Any) -> SpokenFigure:
    """The points of both moons, and which label belongs to which."""
    figure, (ax,), look = returned_axes(4.4, 2.2)
    names = [f"label {style.number(label, 1)}" for label in labels[:: COUNT // 2, 0]]
    _moons(ax, points, look, names)
    ax.set(xticks=[], yticks=[])
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    arches = "Two moons: circles form an arch ({}), triangles below it one upside down ({})."
    figure.alt = arches.format(*names)
    return figure


class Network:
    """One hidden layer of 8 units: `activation(points @ w1 + b1) @ w2 + b2`.

    Args:
        activation: A function of a float32 tensor [n, 8] that keeps its shape.
        *variables: The `tf.Variable`s of the activation, which are trained as well.
        seed: The seed of the random start. A sequence of seeds makes as many networks, side by
            side, which take hardly longer to train than one.
        add: A function of two tensors, used in place of +.
        matmul: A function of two tensors, used in place of @.

    Example:
        >>> Network(tf.tanh)(data()[0]).shape
        TensorShape([200, 1])
        >>> Network(tf.tanh, seed=range(16))(data()[0]).shape
        TensorShape([16, 200, 1])
    """

    def __init__(
        self,
        activation: Callable[[Any], Any],
        *variables: Any,
        seed: int | Sequence[int] = 0,
        add: Callable[[Any, Any], Any] = operator.add,
        matmul: Callable[[Any, Any], Any] = operator.matmul,
    ) -> None:
        self.activation, self.add, self.matmul = activation, add, matmul
        parts = _start(seed) if isinstance(seed, int) else _starts(seed)
        self.w1, self.b1, self.w2, self.b2 = (
            tf.Variable(part.astype("float32"), name=name)
            for part, name in zip(parts, ("w1", "b1", "w2", "b2"), strict=True)
        )
        self.variables = [self.w1, self.b1, self.w2, self.b2, *variables]

    def __call__(self, points: Any) -> Any:
        """One logit for each point, [n, 1]: above 0 means the lower moon."""
        h = self.add(self.matmul(points, self.w1), self.b1)
        return self.add(self.matmul(self.activation(h), self.w2), self.b2)


def _start(seed: int) -> list[Any]:
    """The initial values of a network's variables."""
    normal = np.random.default_rng(seed).normal
    w1, b1 = normal(0.0, 1.0, (2, HIDDEN)), normal(0.0, 0.5, HIDDEN)
    return [w1, b1, normal(0.0, 0.5, (HIDDEN, 1)), np.zeros(1)]


def _starts(seeds: Sequence[int]) -> list[Any]:
    """The same for networks side by side: a first axis for the networks, then two more."""
    return [np.stack([*map(np.atleast_2d, each)]) for each in zip(*map(_start, seeds), strict=True)]


def near(width: float) -> Callable[[Any], Any]:
    """The sign, with a rule that lets the gradient through where |h| is at most `width`."""

    @tf.custom_gradient
    def switch(h: Any) -> Any:
        return tf.sign(h), lambda upstream: tf.where(abs(h) <= width, upstream, 0.0)

    return switch


def cross_entropy(network: Callable[..., Any], points: Any, labels: Any) -> Any:
    """The mean cross-entropy of a network's logits; for networks side by side, the sum of means."""
    logits, count = network(points), 1
    if logits.shape.rank == 3:
        count, labels = logits.shape[0], tf.broadcast_to(labels, logits.shape)
    mean = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    return mean if count == 1 else count * mean


def gradients(network: Any, loss: Loss = cross_entropy) -> list[Any]:
    """The gradient of the loss on all points with respect to each of a network's variables.

    Example:
        >>> [gradient.shape for gradient in gradients(Network(tf.tanh))][1]
        TensorShape([8])
    """
    with tf.GradientTape() as tape:
        value = loss(network, *data())
    return tape.gradient(value, network.variables)


class Run(NamedTuple):
    """A trained network and the losses of its training.

    Attributes:
        network: Points [n, 2] -> logits [n, 1].
        losses: The loss before each step.
    """

    network: Callable[..., Any]
    losses: Sequence[float]

    @property
    def percent(self) -> Any:
        """The percentage of points that the network puts into the right moon, rounded down.

        For networks side by side, an array with the percentage of each.
        """
        rounded = (100 * _right(self.network).mean(axis=-1)).astype(int)
        return rounded if rounded.ndim else int(rounded)

    @property
    def first_nan(self) -> int | None:
        """The first step, counted from 0, whose loss is NaN; None if there is none.

        Example:
            >>> print(Run(tf.identity, [0.5, np.nan]).first_nan, Run(tf.identity, [0.5]).first_nan)
            1 None
        """
        return next((n for n, loss in enumerate(self.losses) if np.isnan(loss)), None)


def train(
    network: Any,
    loss: Loss = cross_entropy,
    *,
    steps: int = 300,
    rate: float = 1.0,
    graph: bool = True,
) -> Run:
    """Train on all points at once by gradient descent: each variable loses rate × gradient.

    Args:
        network: A `Network`, or anything that is called like one and has `variables`.
        loss: `loss(network, points, labels)` -> a number.
        steps: The number of steps.
        rate: The learning rate.
        graph: Run each step as a `tf.function`; False runs it line by line.

    Returns:
        The network, trained in place, and its losses.

    Example:
        >>> train(Network(tf.tanh)).percent > 90
        True
    """
    points, labels = data()

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(network, points, labels)
        gradients = tape.gradient(value, network.variables)
        for variable, gradient in zip(network.variables, gradients, strict=True):
            if gradient is not None:
                variable.assign_sub(rate * gradient)
        return value

    # Concrete: TensorFlow warns of retracing at the fifth `tf.function` that one line makes.
    run = tf.function(step, autograph=False).get_concrete_function() if graph else step
    return Run(network, [float(run()) for _ in range(steps)])


def compare(
    *runs: Run,
    names: Sequence[str] = ("right rule", "wrong rule"),
    units: bool = False,
) -> SpokenFigure:
    """Runs side by side: the decision boundary of each network, and its loss at each step.

    Circles are the upper moon, triangles the lower one; a cross marks a point on the wrong side.
    The hatched side is the one that the network assigns to the triangles; a network that answers
    NaN has no sides. On a loss curve a cross marks the last finite loss before NaN.

    Args:
        *runs: Two or three, their loss curves broad and solid, dashed, dotted. With `units`, three
            show a training after more and more steps: only the curve of the last is drawn.
        names: What they are called.
        units: Draw a dotted line where the input of each hidden unit of a `Network` is 0.

    Returns:
        The figure; its `alt` says in words what it shows.
    """
    figure, axes, look = returned_axes(9.5, 3.2, len(runs) + 1)
    lines, many, film = [], len(runs) > 2, units and len(runs) > 2
    for ax, run, name, dashes in zip(axes, runs, names, ("-", "--", ":-"[film]), strict=False):
        broken = np.isnan(run.network(data()[0])).any()
        missed = _map(ax, run, look, broken, units)
        key = ["hatched: answer ▲"] * (not broken) + ["✕: wrong side"] * (missed > 0 or many)
        if not many or run is runs[1]:  # three have one key
            ax.set_xlabel("     ".join(key) + "\ndotted: a unit's h = 0" * units, fontsize=9)
        said = "NaN, no answer" if broken else f"{run.percent}% right"
        ax.set_title(f"{name}: {said}", color=look.text)
        # Dark dashes on a broad grey line: where the curves coincide, both are seen. Blue and
        # vermillion are for the flow.
        tone, width = (to_rgba(look.muted, 0.65), 4) if dashes == "-" else (look.text, 1.8)
        if not film or run is runs[-1]:
            axes[-1].plot(run.losses, dashes, color=tone, linewidth=width, label=name)
        finite = np.flatnonzero(np.isfinite(run.losses))
        if broken and finite.size:
            end = finite[-1], run.losses[finite[-1]]
            axes[-1].update_datalim([(len(run.losses) - 1, end[1])])  # leave space for the words
            axes[-1].plot(*end, "x", color=look.text, markersize=10, markeredgewidth=2)
            axes[-1].annotate("then NaN", end, (8, 12), textcoords="offset points", color=look.text)
        ends = " -> ".join(style.number(run.losses[i], 2) for i in (0, -1) if run.losses)
        said = said.replace("% right", "% of the points right")
        lines.append(f"{name}: {said}{', loss ' * bool(ends)}{ends}.")
    lines += ["Dotted: where the input of each hidden unit is 0."] * units
    axes[-1].set(title="loss", xlabel="step", ylim=(0, None))
    axes[-1].legend(frameon=False).set_visible(not film)
    figure.alt = "Two moons: decision boundaries and loss curves.\n" + "\n".join(lines)
    return figure


def distances(runs: Mapping[str, Run], steepness: float) -> SpokenFigure:
    """How far away the border should be: a circle of radius |logit| / steepness around some points.

    If the logit rises by `steepness` per unit, a circle just touches the border, at the place
    nearest to its point, where a grey line ends. A circle whose radius is off by more than 0.1,
    the reach of the grey band, is dashed. The titles count such circles around all 200 points, and
    say how steep the logit is at these points: measured, whatever the network's rules say. All 200
    points are drawn small and grey; the bar is 1 long.

    Args:
        runs: Name -> a run whose network has a border near the points; one picture for each.
        steepness: By how much a logit should rise per unit of length.

    Returns:
        The figure; its `alt` gives the percentage of points on the right side, how many of the
        circles around all 200 points would be off, by how much the worst, and the smallest and
        the largest steepness.

    Example:
        >>> distances({"up": Run(lambda points: -6.0 * points[:, 1:], [])}, 6.0)
        up: 83% right, 0 of 200 circles are off, the worst by 0.00; steepness 6.0 to 6.0.
    """
    figure, axes, look = returned_axes(4.4 * len(runs), 3.4, len(runs))
    points = np.asarray(data()[0])
    side = np.linspace(-2.5, 2.5, 251, dtype="float32")
    x, y = np.meshgrid(side, side)
    grey = np.dot([0.8, 0.2], [to_rgba(look.paper), to_rgba(look.muted)])
    lines = []
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        logits = np.asarray(run.network(np.stack([x.ravel(), y.ravel()], axis=1))).reshape(x.shape)
        border = ax.contour(x, y, logits, [0.0], colors=look.text, linewidths=2)
        places = np.concatenate([Path(line).interpolated(9).vertices for line in border.allsegs[0]])
        away = np.linalg.norm(points[:, None] - places, axis=2)
        true, nearest = away.min(axis=1), places[away.argmin(axis=1)]
        found = np.abs(np.asarray(run.network(points))[:, 0]) / steepness
        off = np.abs(found - true)
        band = {"offsets": places, "offset_transform": ax.transData, "zorder": 0, "linewidth": 0}
        discs = EllipseCollection(0.2, 0.2, 0.0, units="xy", color=[grey], **band)  # within 0.1
        ax.add_collection(discs)
        for moon, shape in zip(np.split(points, 2), "o^", strict=True):
            faint = {"color": look.muted, "alpha": 0.6, "linewidth": 0}
            ax.scatter(*moon.T, s=9, marker=shape, zorder=1, **faint)
        for n in (14, 61, 86, 123, 167, 194):  # their lines end apart; more would overlap
            tone, dashes = (look.backward, "--") if off[n] > 0.1 else (look.forward, "-")
            ax.plot(*points[n], "o", color=tone, markersize=3)
            ax.plot(*np.stack([points[n], nearest[n]]).T, color=look.muted, linewidth=1)
            ax.add_patch(Circle(points[n], found[n], fill=False, color=tone, linestyle=dashes))
        said = f"{name}: {run.percent}% right, {(off > 0.1).sum()} of {COUNT} circles are off"
        rise_at = _steepness(run.network, points)
        steep = f"steepness {rise_at.min():.1f} to {rise_at.max():.1f}"
        ax.set_title(f"{said}\n{steep}", color=look.text)
        ax.hlines(1.15, -2.1, -1.1, color=look.text, linewidth=2)
        ax.text(-1.6, 1.2, "1 unit", color=look.text, ha="center", va="bottom")
        lines.append(f"{said}, the worst by {off.max():.2f}; {steep}")
        ax.set(xticks=[], yticks=[], xlim=(-2.2, 2.2), ylim=(-1.5, 1.5), aspect="equal")
    figure.supxlabel("circle: claimed distance     line: true distance     dashed: off", fontsize=9)
    figure.alt = "".join(f"{line}.\n" for line in lines).strip()
    return figure


def _steepness(network: Callable[..., Any], points: Any, step: float = 0.005) -> Any:
    """The norm of the logit's gradient at each point, by central differences."""
    moves = step * np.eye(2, dtype="float32")
    ends = [[np.asarray(network(points + way * move)) for way in (1, -1)] for move in moves]
    return np.hypot(*[(there - here)[:, 0] / (2 * step) for there, here in ends])


def outside(f: Callable[[Any], Any], x: Any) -> Any:
    """Apply a NumPy function to x outside TensorFlow, which gets the numbers and no gradient.

    Args:
        f: Array -> array of the same shape and dtype.
        x: A tensor.

    Example:
        >>> print(outside(np.square, tf.constant([2.0, 3.0])))
        tf.Tensor([4. 9.], shape=(2,), dtype=float32)
    """
    numbers = tf.numpy_function(f, [x], x.dtype)
    return tf.ensure_shape(numbers, x.shape)  # in a graph their static shape is unknown


def over_time(each: Any, what: str) -> SpokenFigure:
    """A line over the steps for each hidden unit, on a logarithmic axis.

    The units that end below ten times their start are grey, and numbered. Each tick is 100,000
    times the one below.

    Args:
        each: Numbers above 0, shape [steps, units].
        what: The name of the numbers.

    Returns:
        The figure; its `alt` gives the largest number at the first and at the last step, how many
        units are not grey, and which are.

    Example:
        >>> over_time(2.0 ** (np.arange(10.0)[:, None] * [1.0, 0.0]), "size")
        size, a line for each unit: at most 1 at step 0, 512 at the end.
        1 of 2 end at ten times their start or more; grey: 2.
    """
    figure, (ax,), look = returned_axes(7.0, 2.8)
    each = np.asarray(each)
    rose = each[-1] >= 10.0 * each[0]
    for numbers, up in zip(each.T, rose, strict=True):
        ax.semilogy(numbers, color=look.forward if up else look.muted)
    stay = ", ".join(str(n) for n, up in enumerate(rose, 1) if not up)
    if stay:
        end = len(each) - 1, each[-1][~rose].max()  # one label: these end close to each other
        words = f"unit{'s' * (len(stay) > 1)} {stay}"
        ax.annotate(words, end, (0, 5), textcoords="offset points", size=9, ha="right")
    ax.yaxis.set_major_locator(LogLocator(base=1e5))  # beside 1, not 0.1, 100 and 100,000
    ax.set(xlabel="step", ylabel=what)
    first, last = (style.number(np.max(each[i]), 2) for i in (0, -1))
    figure.alt = (
        f"{what}, a line for each unit: at most {first} at step 0, {last} at the end.\n"
        f"{rose.sum()} of {len(rose)} end at ten times their start or more; "
        f"grey: {stay or 'none'}."
    )
    return figure


def curves(what: str, x: Any, each: Mapping[str, Any], up: str = "value or slope") -> Any:
    """A curve over x, thick, and its slopes by several methods, and a thin line at 0.

    With three curves, a band spans every x at which the second and the third have opposite signs.

    Args:
        what: The name of x.
        x: Numbers in rising order.
        each: Name -> a number for each x; at most three names.
        up: The label of the vertical axis.

    Returns:
        The axes of a new figure; its alternative text gives the numbers at four places.

    Example:
        >>> x = np.linspace(-1.0, 1.0, 11)
        >>> curves("x", x, {"square": x**2, "slope": 2.0 * x}).figure
        At x = −0.6, −0.2, 0.2, 0.6: square 0.36, 0.04, 0.04, 0.36; slope −1.2, −0.4, 0.4, 1.2.
    """
    ax = new_axes(None, 6.5, 2.8)
    ax.axhline(0.0, color="0.7", linewidth=0.8)
    places = [len(x) * part // 5 for part in (1, 2, 3, 4)]

    def at(numbers: Any, digits: int = 2) -> str:
        return ", ".join(style.number(numbers[i], digits) for i in places)

    said = [f"{name} {at(y)}" for name, y in each.items()]
    look = current_palette()
    looks = (("-", 4.0, look.text), ("-", 2.0, look.forward), ("--", 2.0, look.backward))
    for (name, y), (dashes, width, tone) in zip(each.items(), looks, strict=False):
        ax.plot(x, y, linestyle=dashes, linewidth=width, color=tone, label=name)
    _, *others = each.values()
    opposite = x[others[0] * others[1] < 0.0] if len(others) == 2 else x[:0]
    if opposite.size:
        low, high = opposite[0], opposite[-1]
        ax.axvspan(low, high, color="0.93", zorder=0, label="slopes of\nopposite signs")
        said.append(f"opposite signs from {style.number(low, 2)} to {style.number(high, 2)}")
    ax.update_datalim([(x[0], 0.0), (x[-1], 0.0)])  # also where nothing can be drawn
    ax.autoscale_view(scaley=False)
    ax.set(xlabel=what, ylabel=up)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return speak(ax, f"At {what} = {at(x, 3)}: {'; '.join(said)}.")


def elsewhere(f: Callable[..., Any], *args: Any) -> SpokenFigure | None:
    """Run a function in a new Python process, which has its source, `tf` and `moons`.

    Its output and TensorFlow's warnings are printed here, each line after `elsewhere:`; if it
    fails, so is the last line of its error, up to a parenthesis.

    Args:
        f: A function that uses its arguments, `tf` and `moons`.
        *args: Numbers or strings.

    Returns:
        The picture that the function returns, if it returns one.
    """
    with tempfile.TemporaryDirectory() as folder:
        sent = pathlib.Path(folder, "picture")
        call = f"moons.send({f.__name__}(*{args!r}), {str(sent)!r})"
        program = f"{BEGIN}{textwrap.dedent(inspect.getsource(f))}\n{call}"
        command = [sys.executable, "-c", program]
        plain = os.environ | {"NO_COLOR": "1"}  # in a notebook Python 3.13 colours its errors
        ran = subprocess.run(command, capture_output=True, text=True, env=plain, check=False)
        picture = pickle.loads(sent.read_bytes()) if sent.exists() else None
    lines = ran.stdout.splitlines()
    if ran.returncode:
        lines.append(ran.stderr.strip().splitlines()[-1].partition(" (")[0])
    for line in lines:
        print("elsewhere:", line)
    return picture


def send(found: Any, path: str) -> None:
    """Leave what a function has returned in a file for `elsewhere`, if it is a picture."""
    if isinstance(found, SpokenFigure):
        pathlib.Path(path).write_bytes(pickle.dumps(found))


def asks_for(f: Any) -> str:
    """The name under which a traced function asks TensorFlow's registry for its custom gradient."""
    (op,) = (op for op in f.graph.get_operations() if op.type == "IdentityN")
    return op.get_attr("_gradient_op_type").decode()


def register(folder: str, rule: Callable[[Any], Any]) -> None:
    """Put a rule into TensorFlow's registry, under the name that a saved graph asks for.

    Args:
        folder: A SavedModel with one custom gradient, of a function of one input.
        rule: Upstream -> the gradient for the input.
    """
    with open(f"{folder}/saved_model.pb", "rb") as file:
        saved = SavedModel.FromString(file.read())
    functions = saved.meta_graphs[0].graph_def.library.function
    nodes = [node for each in functions for node in each.node_def if node.op == "IdentityN"]
    (name,) = {node.attr["_gradient_op_type"].s.decode() for node in nodes}
    # Its op takes and returns the value and the input: two upstreams come, two gradients go back.
    tf.RegisterGradient(name)(lambda op, upstream, unused: (None, rule(upstream)))


def log_here() -> None:
    """From now on, print TensorFlow's warnings where they arise, cut short, and log nothing else.

    Names of functions and addresses, which differ from run to run, are left out.
    """
    for name in ("absl", "tensorflow"):
        logging.getLogger(name).addFilter(_printed)  # once: a filter is not added again


def _printed(record: logging.LogRecord) -> bool:
    """Print a record if it is a warning or worse, and keep every record out of the log."""
    if record.levelno >= logging.WARNING:
        said = re.sub(r"<.*?>|\(__.*?\)", "…", record.getMessage())
        print("log:", textwrap.shorten(said, ABOUT, placeholder=" …"))
    return False


def row(name: str, entries: Sequence[Any]) -> None:
    """Print a name, then numbers or titles in columns of a fixed width.

    Args:
        name: The name of the row.
        entries: Numbers, printed with two decimal places, or strings of at most 6 characters.

    Example:
        >>> row("film", ["Echo", "Frost"])
        film       Echo  Frost
        >>> row("score", [-0.001, 2.0])
        score      0.00   2.00
    """
    texts = (n if isinstance(n, str) else f"{float(n):z.2f}" for n in entries)  # z: no -0.00
    print(f"{name:8}", *(f"{text:>6}" for text in texts))


def table(title: str, heads: Sequence[float], rows: Mapping[str, Sequence[float]]) -> None:
    """Print rows of numbers under heads, with three significant digits each.

    Args:
        title: The heading of the column of names.
        heads: A number over each column.
        rows: Name -> a number for each column.

    Example:
        >>> table("root of", [4.0, 100.0], {"sqrt": [2.0, 10.0], "cube": [1.5874, 4.6416]})
        root of                4       100
        ──────────────────────────────────
        sqrt                   2        10
        cube                1.59      4.64
    """
    lines = [
        " ".join([f"{name:14}", *[f"{number:9.3g}" for number in numbers]])
        for name, numbers in {title: heads, **rows}.items()
    ]
    print(lines[0], "─" * len(lines[0]), *lines[1:], sep="\n")


def agree(yours: Callable[[Any], Any], right: Callable[[Any], Any], at: Sequence[float]) -> bool:
    """Print values and gradients of a function, the right ones below each, and where they differ.

    Args:
        yours: A function that treats each number on its own.
        right: A function that is known to be right.
        at: The numbers that both are given.

    Returns:
        Whether every value and gradient is off by less than 1e-5, and none is NaN.

    Example:
        >>> agree(tf.abs, tf.nn.relu, [-1.0, 2.0])
        at                    -1         2
        ──────────────────────────────────
        your value             1         2
        right value            0         2
        your gradient         -1         1
        right gradient         0         1
        Not right yet at -1.
        False
    """
    x, rows = tf.constant(at), {}
    for whose, f in {"your": yours, "right": right}.items():
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows[f"{whose} value"] = value = f(x)
        rows[f"{whose} gradient"] = tape.gradient(value, x)
    pairs = [(f"your {name}", f"right {name}") for name in ("value", "gradient")]
    table("at", at, {name: rows[name] for pair in pairs for name in pair})
    matches = np.all([tf.abs(rows[a] - rows[b]) < 1e-5 for a, b in pairs], axis=0)
    wrong = ", ".join(f"{n:g}" for n in np.array(at)[~matches])
    print(f"Not right yet at {wrong}." if wrong else "All of them match.")
    return not wrong


def stairs(k: float, start: float = 1.0) -> SpokenFigure:
    """The cosine key: z and cos(kz) as curves, and 40 presses as stairs between them.

    A white square marks the start; a dot marks where z = cos(kz), with that z on the axis below.
    Arrowheads on the first four long steps say which way the stairs go; the last presses are thick.

    Args:
        k: The factor by which the display is multiplied before each cosine.
        start: The number on the display before the first press.

    Returns:
        The figure; its `alt` says on a line of its own whether the stairs wind inwards or outwards,
        and to which last two numbers on the display; it ends with the z of the dot.

    Example:
        >>> stairs(1.5)
        Stairs of 40 presses from 1 at k = 1.5.
        They wind inwards, to 0.08 and 0.99.
        z = cos(kz) at 0.610.
    """
    shown = [start]
    for _ in range(40):
        shown.append(float(np.cos(k * shown[-1])))
    ends = f"{shown[-2]:.2f} and {shown[-1]:.2f}"
    twice = np.repeat(shown, 2)  # a press: up or down to the curve, then across to the diagonal
    figure, (ax,), _ = returned_axes(6.4, 3.6)
    ax.plot(twice[:-1], twice[1:], color="0.6", linewidth=1, label="stairs")
    corners = np.stack([twice[:-1], twice[1:]], axis=1)
    moves = np.diff(corners, axis=0)
    long = np.flatnonzero(np.abs(moves).max(axis=1) > 0.25)[:4]
    for head, way in zip("><^v", ((1, 0), (-1, 0), (0, 1), (0, -1)), strict=True):
        there = long[moves[long] @ way > 0.0]
        x, y = (corners[there] + moves[there] / 2.0).T
        ax.scatter(x, y, 30, color="0.1", marker=head, zorder=3)
    z = np.linspace(0.0, 1.1, 200)
    ax.plot(z, z, "--", color="0.3", linewidth=1, label="the diagonal")
    ax.plot(z, np.cos(k * z), label=f"cos(kz) at k = {k:g}")
    ax.plot(twice[-6:-1], twice[-5:], color="0.1", linewidth=2.5, label=f"the last, {ends}")
    ax.plot(start, start, "s", color="0.1", markerfacecolor="white", zorder=3, label="start")
    both = float(np.interp(0.0, z - np.cos(k * z), z))  # z - cos(kz) only rises here
    ax.plot([both, both], [both, 0.0], ":", color="0.1", linewidth=1)
    ax.plot(both, both, "o", color="0.1", label="fixed point")
    ax.annotate(f"{both:.3f}", (both, 0.0), (4, 0), textcoords="offset points")
    ax.set(xlabel="z", ylabel="next z", aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    first, last = (abs(b - a) for a, b in (shown[:2], shown[-2:]))
    figure.alt = (
        f"Stairs of 40 presses from {start:g} at k = {k:g}.\nThey wind "
        f"{'outwards' if last > first else 'inwards'}, to {ends}.\nz = cos(kz) at {both:.3f}."
    )
    return figure


def scale(
    titles: Sequence[str], scores: Any, cut: Any, degrees: Callable[[Any, Any], Any]
) -> SpokenFigure:
    """Scores on a scale: the curve of the degrees, a dot for each title, the cut at degree ½.

    The best are filled, as many as the degrees add up to (rounded); the legend says how many.

    Args:
        titles: The name of each score.
        scores: Numbers, the lowest first.
        cut: The score whose degree is ½.
        degrees: (cut, scores) -> the degree of each score, from 0 to 1.

    Returns:
        The figure; its `alt` gives the cut and each title's degree.

    Example:
        >>> scale(["Ada", "Bob"], [-1.0, 1.0], 0.0, lambda t, x: tf.sigmoid(x - t))
        A curve from 0 up to 1, ½ at the cut, 0. Degrees: Ada 0.27, Bob 0.73.
    """
    scores = np.asarray(scores, "float32")
    each = np.asarray(degrees(cut, scores))
    figure, (ax,), _ = returned_axes(7.0, 3.4)
    x = np.linspace(scores[0] - 0.7, scores[-1] + 0.7, 300, dtype="float32")
    ax.plot(x, degrees(cut, x), color="C0")
    ax.axvline(float(cut), linestyle="--", color="0.4")
    ax.hlines(0.5, x[0], float(cut), color="0.4", linestyle=":", linewidth=1)
    at = style.number(float(cut), 2)
    here = (float(cut), 0.97)
    ax.annotate(f"the cut, {at}", here, (5, 0), textcoords="offset points", va="center")
    best = np.arange(len(scores)) >= len(scores) - round(float(each.sum()))
    for face, group, label in (("white", ~best, None), ("0.1", best, f"her best {best.sum()}")):
        ax.plot(scores[group], each[group], "o", color="0.1", markerfacecolor=face, label=label)
    for n, (title, score, degree) in enumerate(zip(titles, scores, each, strict=True)):
        # Above the curve, its end close to its own dot; on the flat part two would run together.
        place, ha = ((0, 9), "left") if n and degree < 0.1 else ((-3, 4), "right")
        name = ax.annotate(str(title), (score, degree), place, textcoords="offset points", ha=ha)
        name.set(size=9)
    ax.set(xlabel="score", ylabel="degree", title=f"the degrees add up to {each.sum():.2f}")
    ax.set_yticks([0.0, 0.5, 1.0], ["0", "½", "1"])
    ax.legend(frameon=False, loc="lower right")
    said = ", ".join(f"{title} {n:.2f}" for title, n in zip(titles, each, strict=True))
    figure.alt = f"A curve from 0 up to 1, ½ at the cut, {at}. Degrees: {said}."
    return figure


def descend(loss: Callable[[Any], Any], start: Sequence[float], *, steps: int, rate: float) -> Any:
    """Gradient descent: at each step the weights lose rate × gradient.

    Args:
        loss: A function of a float32 tensor of weights, which returns a number.
        start: The weights before the first step.
        steps: The number of steps.
        rate: The learning rate.

    Returns:
        The weights at the start and after each step, shape [steps + 1, weights].

    Example:
        >>> descend(lambda w: tf.reduce_sum(w * w), [2.0], steps=2, rate=0.25).tolist()
        [[2.0], [1.0], [0.5]]
    """
    weights = tf.Variable(start, dtype="float32")

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(weights)
        return weights.assign_sub(rate * tape.gradient(value, weights))

    # Concrete, as in `train`.
    run = tf.function(step, autograph=False).get_concrete_function()
    return np.array([start, *(run().numpy() for _ in range(steps))])


def tastes(
    titles: Sequence[str], films: Any, runs: Mapping[str, Any], hers: Sequence[str]
) -> SpokenFigure:
    """Trainings on a map of the loss, and the best films of each, those with the highest scores.

    On the map, dotted lines part the weights with other best films; where `hers` are the best, it
    is grey. A film is a dot, placed by how funny it is and how many hours it lasts; those of `hers`
    are filled. Squares, rings or diamonds mark the best films of each training.

    Args:
        titles: The name of each film.
        films: How funny each is, and its hours, shape [n, 2].
        runs: "tape", "rule" or "you" -> the two weights after each step, shape [steps, 2].
        hers: The titles of the films that were chosen; as many are the best.

    Returns:
        The figure; its `alt` gives the losses, the weights and the titles of the best films.

    Example:
        >>> tastes(["Ada", "Bob"], np.eye(2), {"rule": [[1.0, -3.0]]}, ["Bob"])
        rule: loss 5 at the end; 1.00 · funny − 3.00 · hours, the best: Ada.
    """
    films, chosen = np.asarray(films, float), np.isin(titles, hers)
    figure, (ground, plane), tones = returned_axes(9.5, 3.7, 2)
    line = np.linspace(-REACH, REACH, 51)
    heights = _taste_loss(np.stack(np.meshgrid(line, line), axis=-1), films, chosen)
    level = ground.contour(line, line, heights, [0.25, 0.5, 1, 2, 4], colors="0.6", linewidths=1)
    ground.clabel(level, fmt="%g", fontsize=8)
    angle = np.linspace(0.0, 2.0 * np.pi, 3601)
    rays = 2.0 * REACH * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    best = np.sort(np.argsort(rays @ films.T)[:, -len(hers) :])
    for end in rays[1:][np.diff(best, axis=0).any(axis=1)]:
        ground.plot(*np.outer(end, [0.0, 1.0]), ":", color="0.4", linewidth=1)
    same = (best == np.flatnonzero(chosen)).all(axis=1)
    if same.any():
        first = -np.argmin(same)  # a wedge may contain the angle 0
        wedge = np.roll(rays, first, axis=0)[np.roll(same, first)]
        tint = to_rgba(tones.muted, 0.3)
        words = "here the chosen are the best"
        ground.fill(*np.array([[0.0, 0.0], *wedge]).T, color=tint, linewidth=0, label=words)
    lines = []
    # Blue and vermillion are for the flow.
    looks = {
        "tape": ("--", tones.variable, "s", 16),
        "rule": ("-", tones.custom, "o", 12),
        "you": ("", "0.1", "D", 17),
    }
    for name, path in runs.items():
        dashes, tone, mark, size = looks[name]
        path = np.asarray(path, float)
        loss = style.number(float(_taste_loss(path[-1], films, chosen)), 2)
        ground.plot(*path.T, dashes, color=tone, marker=".", markersize=4)
        end = ground.plot(*path[-1], mark, color=tone, label=f"{name}: loss {loss}")[0]
        end.set(markersize=9, zorder=5)  # above the numbers of the map
        count = len(hers) * np.isfinite(path[-1]).all()  # NaN has no best films
        taken = np.argsort(films @ path[-1])[len(films) - count :]
        funny, hours = path[-1]
        taste = f"{funny:.2f} · funny + {hours:.2f} · hours".replace("+ -", "− ").replace("-", "−")
        around = plane.plot(*films[taken, ::-1].T, mark, color=tone, label=f"{name}: {taste}")[0]
        around.set(markersize=size, markerfacecolor="none", markeredgewidth=1.5)
        named = " ".join(titles[n] for n in taken)
        lines.append(f"{name}: loss {loss} at the end; {taste}, the best: {named}.")
    plane.plot(*films[~chosen, ::-1].T, "o", color="0.1", markerfacecolor="white")
    plane.plot(*films[chosen, ::-1].T, "o", color="0.1", label="chosen")
    for title, (funny, hours) in zip(titles, films, strict=True):
        name = plane.annotate(str(title), (hours, funny), (0, 13), textcoords="offset points")
        name.set(size=9, ha="center")
    ground.set(title="the loss, as a map", xlabel="weight of funny", ylabel="weight of hours")
    ground.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    ground.legend(loc="upper left", markerscale=0.8)
    plane.set(title=f"the best {len(hers)} of each", xlabel="hours", ylabel="funny")
    plane.margins(x=0.1)
    plane.set_ylim(films[:, 0].min() - 0.15, films[:, 0].max() + 0.65)  # space for the legend
    plane.legend(frameon=False, loc="upper left", markerscale=0.7)
    figure.alt = "\n".join(lines)
    return figure


class Sliders(ipywidgets.VBox):
    """A picture with sliders; without a kernel, the picture as it starts.

    Args:
        picture: A function of numbers that returns a `SpokenFigure`.
        **given: The range of each number, (low, high, start).

    Example:
        >>> Sliders(stairs, k=(1.0, 1.6, 1.5))
        Stairs of 40 presses from 1 at k = 1.5.
        They wind inwards, to 0.08 and 0.99.
        z = cos(kz) at 0.610.
    """

    def __init__(self, picture: Callable[..., SpokenFigure], **given: tuple[float, ...]) -> None:
        self.picture, self.image = picture, ipywidgets.HTML()
        how = {"step": 0.01, "layout": {"width": "28em"}}
        self.dials = {
            name: ipywidgets.FloatSlider(start, min=low, max=high, description=name, **how)
            for name, (low, high, start) in given.items()
        }
        for dial in self.dials.values():
            dial.observe(self._draw, "value")
        self._draw()
        super().__init__([*self.dials.values(), self.image], _dom_classes=["cgviz-sliders"])

    def _draw(self, *_: Any) -> None:
        figure = self.picture(**{name: dial.value for name, dial in self.dials.items()})
        self.words, buffer = figure.alt, io.BytesIO()
        figure.savefig(buffer, format="png", dpi=100)
        words = escape(self.words).replace("\n", "&#10;")
        source = b64encode(buffer.getvalue()).decode()
        image = f'<img alt="{words}" src="data:image/png;base64,{source}" style="max-width:100%">'
        self.image.value = image

    def __repr__(self) -> str:
        return self.words

    def _ipython_display_(self) -> None:
        """Show the sliders and, as a second output that is hidden below them, a picture."""
        if not hasattr(get_ipython(), "kernel"):
            raise NotImplementedError  # and IPython goes on to the text
        shown = self._repr_mimebundle_()
        publish_display_data({kind: x for kind, x in shown.items() if kind != "text/plain"})
        self.show_still()

    def show_still(self) -> None:
        """Show the picture alone, as where no kernel runs."""
        picture = f'{assets.still()}<div class="cgviz-still">{self.image.value}</div>'
        publish_display_data({"text/html": picture, "text/plain": self.words})


def _taste_loss(weights: Any, films: Any, chosen: Any) -> Any:
    """The loss of lesson 11 at weights of shape [..., 2]; the cut is found by halving."""
    scores = weights @ films.T
    low, high = scores.min(axis=-1) - 9.0, scores.max(axis=-1) + 9.0
    for _ in range(40):
        cut = (low + high) / 2.0
        # -log(degree); without an overflow where a degree is almost 0
        with np.errstate(invalid="ignore"):  # NaN, where a training broke
            each = np.logaddexp(0.0, (cut[..., None] - scores) / 0.4)
        few = np.exp(-each).sum(axis=-1) < np.sum(chosen)
        low, high = np.where(few, low, cut), np.where(few, cut, high)
    return each[..., chosen].mean(axis=-1)


def _right(network: Callable[..., Any]) -> Any:
    """For each point, whether the network puts it into the right moon."""
    points, labels = (np.asarray(part) for part in data())
    return ((np.asarray(network(points)) > 0) == (labels > 0.5))[..., 0]


def _units(ax: Any, network: Any, look: style.Palette) -> None:
    """Draw where the input of each hidden unit changes sign: the line w1 · point + b1 = 0."""
    for (a, b), c in zip(np.transpose(network.w1), np.asarray(network.b1), strict=True):
        length = a * a + b * b
        if not (length and np.isfinite([length, c]).all()):
            continue  # weights of 0, or NaN or infinite after an explosion: there is no such line
        foot = -c / length * np.array([a, b])  # the point of the line nearest to 0
        away = foot + np.array([b, -a])
        line = ax.axline(foot, away, color=look.text, linestyle=":", linewidth=1.8)
        line.set_zorder(1.5)  # beneath the border: dots on it would look like a second line


def _moons(ax: Any, points: Any, look: style.Palette, names: Sequence[Any] = ("", "")) -> None:
    """Draw the upper moon as circles, the lower one as triangles."""
    tones = look.variable, look.custom
    for moon, shape, tone, name in zip(np.split(points, 2), "o^", tones, names, strict=True):
        ax.plot(*moon.T, shape, color=tone, markersize=4, label=name)


def _map(ax: Any, run: Run, look: style.Palette, broken: bool, units: bool) -> int:
    """Draw a network's decision boundary; return how many points are on the wrong side."""
    points = np.asarray(data()[0])
    low, high = points.min(axis=0) - 0.3, points.max(axis=0) + 0.3
    x, y = np.meshgrid(*np.linspace(low, high, GRID).T)
    grid = np.stack([x.ravel(), y.ravel()], axis=1).astype("float32")
    logits = np.asarray(run.network(grid)).reshape(x.shape)
    if not broken:
        tint = [to_rgba(look.muted, 0.15)] if units else "none"  # a side may be too thin to hatch
        hatched = ax.contourf(x, y, logits > 0, [0.5, 1.5], colors=tint, hatches=["//"])
        hatched.set(edgecolor=to_rgba(look.muted, 0.45), linewidth=0)
        ax.contour(x, y, logits, [0.0], colors=look.text, linewidths=2)
    missed = points[~_right(run.network) & (not broken)]  # NaN > 0 is False, but NaN is no answer
    if units:
        _units(ax, run.network, look)
    # Crosses lie behind the points, or above them if units are drawn; few are large, to be noticed.
    size, width = (9, 0.9) if units or len(missed) > FEW else (15, 1.4)
    crosses = ax.plot(*missed.T, "x", color=look.text, ms=size, mew=width, zorder=2 + units)
    if width > 1:  # they must stand out on the border, too
        crosses[0].set_path_effects([withStroke(linewidth=4, foreground=look.paper)])
    _moons(ax, points, look)
    ax.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return len(missed)
