"""Which steps are listed: those that a picture shows, or all, by their numbers in the pass."""

import pytest
import tensorflow as tf

import cgviz
from cgviz.reading.listing import listed


def scaled(x):
    return tf.identity(tf.reshape(x * 3.0, [2]))


def test_all_steps_are_listed_in_full_in_the_order_they_ran():
    trace = cgviz.trace(scaled, [1.0, 2.0])
    listing = listed(trace, full=True)
    assert [number for number, _ in listing.steps] == [1, 2, 3]
    assert [step for _, step in listing.steps] == list(trace.steps)


def test_what_a_picture_folds_away_keeps_its_number():
    trace = cgviz.trace(scaled, [1.0, 2.0])
    listing = listed(trace)
    assert 0 < len(listing.steps) < 3
    for number, step in listing.steps:
        assert trace.steps[number - 1] is step


def test_a_pass_is_chosen_by_its_number():
    trace = cgviz.trace(lambda x: x * x, 3.0, order=2)
    assert listed(trace).pass_ is trace.passes[0]
    assert listed(trace, 1).pass_ is trace.passes[1]
    with pytest.raises(ValueError, match="`which` is 2"):
        listed(trace, 2)


def test_a_pass_without_steps_lists_none():
    assert listed(cgviz.trace(lambda x: x, 3.0)).steps == ()
