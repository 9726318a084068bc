"""Trace: every method shows what it says."""

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
