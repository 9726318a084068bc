"""Fourteen functions for lesson 09, to look at from the outside before you read on.

Every one says what it is meant to be. `accuse` judges your letters from the lesson's wanted list,
and shows the code of each suspect that you were right about. Nothing else in cgviz uses this file.
"""
# mypy: ignore-errors

import html
import inspect

import tensorflow as tf

w = tf.Variable(3.0, name="w")


LETTERS = {
    "distance": "C",
    "weighted": "E",
    "sine": "I",
    "reciprocal": "A",
    "root": "B",
    "fourth": "D",
    "ratio": "F",
    "shift": "G",
    "share": "J",
    "quarters": "M",
    "entropy": "K",
    "soft_maximum": "H",
    "tower": "L",
}
"""What is wrong with each, as the lesson's wanted list letters it; `bell` has two of them."""


def accuse(**letters):
    """Judge accusations: a letter of the wanted list for each suspect.

    Args:
        **letters: By the name of a suspect: your letter, or "?" to give up.

    Returns:
        A `Verdict`, which a notebook shows: right letters and given-up ones with the code folded
        below, others as "no".

    Raises:
        ValueError: There is no suspect of this name.

    Example:
        >>> from cgviz import suspects
        >>> suspects.accuse(share="b")
        share: not B.
        >>> suspects.accuse(share="J")
        share: J, right.
        1...  def share(scores):
        1...      return tf.reduce_mean(right)
    """
    for name in letters:
        if name not in LETTERS:
            raise ValueError(f"`{name}` is not a suspect: accuse one of {', '.join(LETTERS)}.")
    return Verdict({name: str(letter).strip().upper() for name, letter in letters.items()})


class Verdict:
    """What `accuse` found, by the name of the suspect."""

    def __init__(self, letters):
        self.letters = letters

    def _entries(self):
        """For each suspect: its name, what is said of it, and its code where that is shown."""
        for name, letter in self.letters.items():
            if letter == LETTERS[name]:
                yield name, f"{name}: {letter}, right.", _code(name)
            elif letter in ("", "?"):
                yield name, f"{name}: it is {LETTERS[name]}.", _code(name)
            else:
                yield name, f"{name}: not {letter}.", ""

    def __repr__(self):
        return "\n".join(text for _, *texts in self._entries() for text in texts if text)

    def _repr_html_(self):
        parts = []
        for name, said, code in self._entries():
            right = said.endswith("right.")
            head = said if right or not code else f"{name}: unfold to give up"
            below = code if right else f"{said}\n\n{code}"
            parts.append(
                f"<details><summary>{html.escape(head)}</summary>"
                f"<pre>{html.escape(below)}</pre></details>"
                if code
                else f"<p>{html.escape(said)}</p>"
            )
        return "".join(parts)


def _code(name):
    """The code of a suspect with the line numbers that reports and pictures name."""
    lines, first = inspect.getsourcelines(globals()[name])
    return "\n".join(f"{number:3}  {line}".rstrip() for number, line in enumerate(lines, first))


# --- it raises ---------------------------------------------------------------------------------


@tf.custom_gradient
def distance(x, y):
    """The distance of (x, y) from the origin."""
    r = tf.sqrt(x * x + y * y)

    def grad(upstream):
        return upstream * x / r

    return r, grad


@tf.custom_gradient
def weighted(x):
    """The variable w, times x."""

    def grad(upstream, variables):
        return upstream * w

    return w * x, grad


@tf.custom_gradient
def sine(x):
    """The sine, computed in float64 for the sake of large angles."""
    precise = tf.cast(x, tf.float64)

    def grad(upstream):
        return tf.cast(upstream, tf.float64) * tf.cos(precise)

    return tf.cast(tf.sin(precise), x.dtype), grad


# --- the number is wrong -----------------------------------------------------------------------


@tf.custom_gradient
def reciprocal(x):
    """One divided by x."""

    def grad(upstream):
        return -1.0 / x**2

    return 1.0 / x, grad


@tf.custom_gradient
def root(x):
    """The square root."""

    def grad(upstream):
        return upstream

    return tf.sqrt(x), grad


@tf.custom_gradient
def fourth(x):
    """The fourth power, as the square of the square."""

    def grad(upstream):
        return upstream * 4.0 * x**3

    x = x * x
    return x * x, grad


@tf.custom_gradient
def ratio(x, y):
    """The quotient of x and y."""

    def grad(upstream):
        return -upstream * x / y**2, upstream / y

    return x / y, grad


@tf.custom_gradient
def shift(rows, bias):
    """A bias added to every row."""

    def grad(upstream):
        return upstream, upstream

    return rows + bias, grad


# --- nothing comes back, or no number ----------------------------------------------------------


def share(scores):
    """The share of the scores that are positive."""
    right = tf.cast(scores > 0.0, tf.float32)
    return tf.reduce_mean(right)


@tf.custom_gradient
def to_grid(x, n):
    """Round to the nearest 1/n; the gradient goes straight through. This one is right."""

    def grad(upstream):
        return upstream, None

    return tf.round(x * n) / n, grad


def quarters(x):
    """Round to the nearest quarter; the gradient goes straight through."""
    return to_grid(x=x, n=4.0)


def entropy(p):
    """The entropy of shares: the sum of -p log p, where 0 log 0 is 0."""
    terms = tf.where(p > 0.0, -p * tf.math.log(p), 0.0)
    return tf.reduce_sum(terms)


@tf.custom_gradient
def soft_maximum(x):
    """The logarithm of the sum of exponentials: a maximum with soft corners."""

    def grad(upstream):
        return upstream * tf.nn.softmax(x)

    return tf.math.log(tf.reduce_sum(tf.exp(x))), grad


def tower(x):
    """Twelve sigmoids, one upon the other."""
    for _ in range(12):
        x = tf.sigmoid(x)
    return x


# --- your turn: two mistakes -------------------------------------------------------------------


@tf.custom_gradient
def bell(x, width):
    """A bell curve: exp(-(x / width)²)."""
    y = tf.exp(-((x / width) ** 2))

    def grad(upstream):
        d_x = -2.0 * x / width**2 * y
        d_width = upstream * 2.0 * x**2 / width**3 * y
        return d_x, d_width

    return y, grad
