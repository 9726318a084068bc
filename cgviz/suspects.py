"""Thirteen functions for lesson 09, to look at from the outside before you read on.

Every one says what it is meant to be. `accuse` judges your letters from the lesson's wanted list,
and shows the code of each suspect that you were right about.
"""
# mypy: ignore-errors

import inspect

import tensorflow as tf

w = tf.Variable(3.0, name="w")

_FAULTS = """
C | distance | too few | an error would count the gradients
L | weighted | only dx | the function would use a variable
F | sine | dtype | an error would name two dtypes
A | reciprocal | upstream | what goes out would be the same for every upstream
B | root | local | the rule would send back what it received
D | fourth | new x | the slope would be right, but for another x
K | ratio | swapped | two inputs would have each other's gradients
H | share | no gradient | a gradient would be None, and there would be no custom rule
M | quarters | ignored | the function would have a rule, but its gradient be None
I | entropy | tf.where | the value would be finite, but a part of the gradient NaN
G | soft_maximum | overflow | the value would not be finite
J | tower | vanishing | every slope would be right, but their product tiny
E | bell | no sum | a gradient would have more entries than its input
"""
_ROWS = {row[0]: row.split(" | ")[1:] for row in _FAULTS.strip().splitlines()}
LETTERS = {name: letter for letter, (name, _, _) in _ROWS.items()} | {"bell": "AE"}
"""What is wrong with each, as the lesson's wanted list letters it; `bell` has two of them."""
_found = set()


def accuse(**letters):
    """Judge accusations: say what speaks against a wrong letter, and show the code for a right one.

    Args:
        **letters: By the name of a suspect: a letter of the wanted list, or two: "AB", "A, B".

    Raises:
        ValueError: There is no suspect of this name.

    Example:
        >>> accuse(share="B")
        share: not B. With B, the rule would send back what it received.
        >>> accuse(share="H")
        ✓ share: H, right
        1...  def share(scores):
        ...
    """
    asked = ""
    for name, letter in letters.items():
        if name not in LETTERS:
            raise ValueError(f"`{name}` is not a suspect: accuse one of {', '.join(LETTERS)}.")
        given, own = {*str(letter).upper().replace("AND", "")} - {*" ,+"}, {*LETTERS[name]}
        if given != own:
            against = "".join(f" With {x}, {_ROWS[x][2]}." for x in _ROWS if x in given - own)
            no = f"{letter} is one of two" if given < own else f"not {letter}.{against}"
            print(f"{name}: {letter if given == {'?'} else no}")
            asked += LETTERS[name] * (given == {"?"} and len(own) == 1)
            continue
        _found.update(own)
        print(f"✓ {name}: {letter}, right\n")
        # The rule that quarters is to use is not its own. The numbers are those of the reports.
        for f in (to_grid, quarters) if name == "quarters" else (globals()[name],):
            for number, line in enumerate(*inspect.getsourcelines(f)):
                print(f"{number:3}  {line}".rstrip())
            print()
    if asked:
        free = [x for x in sorted(_ROWS) if x not in _found and (x > "J") == (asked[0] > "J")]
        print("Still free:", ", ".join(f"{x} {_ROWS[x][1]}" for x in free))


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
    """Twelve sigmoids, one on top of another."""
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
