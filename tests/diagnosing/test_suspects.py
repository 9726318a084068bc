"""The suspects of lesson 09 have the mistakes that they are there for, and no others."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import cgviz
from cgviz import suspects

V = [0.5, 1.0, 2.0]
TOOLS = ("accuse", "to_grid")
WRONG = {
    suspects.distance: ((3.0, 4.0), ["arity"]),
    suspects.weighted: ((V,), ["variables"]),
    suspects.sine: ((V,), ["dtype"]),
    suspects.reciprocal: ((2.0,), ["upstream"]),
    suspects.root: ((16.0,), ["value"]),
    suspects.fourth: (([1.0, 2.0, 3.0],), ["value"]),
    suspects.ratio: ((6.0, 2.0), ["value", "value"]),
    suspects.quarters: (([0.3, 0.6],), ["keywords"]),
    suspects.entropy: (([0.0, 0.5],), ["finite gradient"]),
    suspects.soft_maximum: (([100.0, 1.0],), ["finite forward"]),
    suspects.bell: ((V, 2.0), ["shape", "upstream"]),
    suspects.share: ((V,), []),
    suspects.tower: ((1.0,), []),
}


@pytest.mark.parametrize("suspect", WRONG, ids=lambda f: f.__name__)
def test_check_finds_the_one_mistake_of_a_suspect(suspect):
    args, rules = WRONG[suspect]
    found = cgviz.check(suspect, *args).findings
    assert [f.rule for f in found if f.level == "error"] == rules


@pytest.mark.parametrize(("suspect", "what"), [("share", "none"), ("tower", "vanishing")])
def test_diagnose_finds_what_is_right_and_of_no_use(suspect, what):
    f = getattr(suspects, suspect)
    assert [each.what for each in cgviz.trace(f, *WRONG[f][0]).diagnose()] == [what]


@pytest.mark.parametrize(("suspect", "what"), [("soft_maximum", "inf"), ("entropy", "nan")])
def test_diagnose_finds_what_is_not_finite(suspect, what):
    f = getattr(suspects, suspect)
    assert [each.what for each in cgviz.trace(f, *WRONG[f][0]).diagnose()] == [what]


def test_with_a_safe_input_the_gradient_of_the_entropy_is_finite():
    def repaired(p):
        safe = tf.where(p > 0.0, p, 1.0)
        return tf.reduce_sum(tf.where(p > 0.0, -p * tf.math.log(safe), 0.0))

    trace = cgviz.trace(repaired, [0.0, 0.5])
    assert trace.value == cgviz.trace(suspects.entropy, [0.0, 0.5]).value
    assert tf.math.is_finite(trace.gradients[0]).numpy().all()


def test_the_nan_of_the_entropy_is_made_at_mul_in_both_directions_but_not_let_into_its_value():
    """What lesson 09 says of `entropy`, whose value `tf.where` keeps right."""
    trace = cgviz.trace(suspects.entropy, [0.0, 0.5])
    bad = [op.type for op in trace.ops if np.isnan(op.outputs[0].numpy()).any()]
    (finding,) = trace.diagnose().findings
    assert bad == ["Mul"]
    assert np.isfinite(trace.value)
    assert "the first NaN of the backward pass is made at Mul" in finding.message
    assert "`Log` = −∞ and upstream 0. tf.where did not take this branch" in finding.message
    (log,) = [step for step in trace.steps if step.op.type == "Log"]
    assert log.upstream[0][0] == 0
    assert np.isnan(log.downstream[0][0])


def test_every_suspect_is_held_here():
    written = {
        name
        for name, f in vars(suspects).items()
        if getattr(f, "__module__", "") == "cgviz.suspects" and name not in TOOLS
    }
    assert written == {f.__name__ for f in WRONG}


def test_the_code_of_a_suspect_counts_as_a_learners(capsys):
    (op,) = [op for op in cgviz.trace(suspects.share, V).ops if op.type == "Mean"]
    assert op.source.text == "return tf.reduce_mean(right)"
    suspects.accuse(share="H")
    assert f"{op.source.line:3}      {op.source.text}" in capsys.readouterr().out


def test_a_number_is_a_wrong_letter(capsys):
    suspects.accuse(share=3)
    assert capsys.readouterr().out == "share: not 3.\n"


def test_a_wrong_letter_or_none_does_not_show_the_code(capsys):
    suspects.accuse(root="A", tower="?", ratio="K")
    said = capsys.readouterr().out
    assert said.startswith("root: not A. With A, ")
    assert "\ntower: ?\n✓ ratio: K, right\n\n" in said
    assert "return -upstream * x / y**2" in said
    assert "tf.sqrt" not in said


@pytest.mark.parametrize("both", ["AE", "ea", "A, E", "A and E", "a + e"])
def test_two_letters_may_be_written_as_one_writes_them(both, capsys):
    suspects.accuse(bell=both)
    assert capsys.readouterr().out.startswith(f"✓ bell: {both}, right\n\n")


def test_an_accusation_without_a_letter_names_those_that_are_free(capsys, monkeypatch):
    monkeypatch.setattr(suspects, "_found", set())
    suspects.accuse(tower="?", root="?")
    assert capsys.readouterr().out == (
        "tower: ?\nroot: ?\nStill free: A upstream, B local, C too few, D new x, E no sum, "
        "F dtype, G overflow, H no gradient, I tf.where, J vanishing\n"
    )
    suspects.accuse(tower="J", ratio="K", bell="?")  # bell has a letter that another has, too
    assert "free" not in capsys.readouterr().out
    suspects.accuse(entropy="?")
    assert capsys.readouterr().out.endswith("H no gradient, I tf.where\n")
    suspects.accuse(quarters="?")
    assert capsys.readouterr().out == "quarters: ?\nStill free: L only dx, M ignored\n"


@pytest.mark.parametrize("letter", "ABCDEFGHIJKLM")
def test_what_speaks_against_a_wrong_letter_is_said_in_one_sentence(letter, capsys):
    for name, right in suspects.LETTERS.items():
        if letter not in right:
            suspects.accuse(**{name: letter})
            said = capsys.readouterr().out
            assert said.startswith(f"{name}: not {letter}. With {letter}, ")
            assert (said.count("."), said.endswith(".\n")) == (2, True)


def test_who_is_accused_must_be_a_suspect():
    with pytest.raises(ValueError, match="`tour` is not a suspect: accuse one of distance, "):
        suspects.accuse(tour="L")


def test_each_letter_but_e_is_given_once_alone_and_each_suspect_has_one():
    single = [letter for letter in suspects.LETTERS.values() if len(letter) == 1]
    assert sorted(single) == list("ABCDFGHIJKLM")  # E waits for `bell`
    assert {*suspects.LETTERS} == {f.__name__ for f in WRONG}


def test_the_one_with_two_mistakes_is_shown_for_both_letters_in_any_order(capsys):
    suspects.accuse(bell="A")
    suspects.accuse(bell="AB")
    said = capsys.readouterr().out
    assert said.startswith("bell: A is one of two\nbell: not AB. With B, ")
    assert said.count("With") == 1
    suspects.accuse(bell="EA")
    assert "d_x = -2.0 * x / width**2 * y" in capsys.readouterr().out


def test_a_call_without_names_mends_quarters_and_its_letter_shows_the_unused_rule(capsys):
    trace = cgviz.trace(lambda x: suspects.to_grid(x, 4.0), [0.3, 0.6])
    assert (trace.value.tolist(), trace.gradients[0].tolist()) == ([0.25, 0.5], [1.0, 1.0])
    suspects.accuse(quarters="M")
    shown = [line for line in capsys.readouterr().out.splitlines()[1:] if line]
    written = Path(suspects.__file__).read_text().splitlines()
    for line in shown:
        assert line[5:] == written[int(line[:3]) - 1]
    assert [line[5:] for line in (shown[0], shown[1], shown[-1])] == [
        "@tf.custom_gradient",
        "def to_grid(x, n):",
        "    return to_grid(x=x, n=4.0)",
    ]
