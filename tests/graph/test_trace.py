"""Trace: every method shows what it says."""

import pytest
import tensorflow as tf

import cgviz


def test_every_method_works(tmp_path):
    trace = cgviz.trace(lambda x: x * x, 3.0)
    assert len(trace.table()) == 1
    assert trace.chain_rule().sources[0].total == 6.0
    assert trace.diagnose().ok
    assert trace.plot().cgviz_alt
    assert trace.view().trace is trace
    trace.save(tmp_path / "t.json")
    assert cgviz.load(tmp_path / "t.json").gradients[0].item() == 6.0


@pytest.mark.parametrize("which", ["a", 0.5, 2, -3])
def test_a_pass_that_does_not_exist_is_named_as_it_was_given(which):
    trace = cgviz.trace(tf.sin, 1.0, order=2)
    with pytest.raises(ValueError, match=f"`which` is {which!r}, but this trace has 2 backward"):
        trace.table(which)
