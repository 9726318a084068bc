"""The positions, fit and pictures of lesson 10 and its page, and what they say of the loop."""

import io
from contextlib import redirect_stdout
from pathlib import Path

import ipywidgets
import nbformat
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.colors import same_color

from cgviz import orbit

LESSON = Path(__file__).resolve().parents[1] / "notebooks" / "10_orbit.ipynb"


@pytest.fixture(scope="module")
def lesson():
    """The names that lesson 10 has when its rule can be differentiated again.

    What the notebook checks, its own test runs.
    """
    names, cells = {}, nbformat.read(LESSON, as_version=4).cells
    with redirect_stdout(io.StringIO()):
        for cell in cells:
            if cell.cell_type == "code" and "first" not in cell.metadata.get("tags", []):
                lines = [n for n in cell.source.splitlines() if "cgviz.check(" not in n]
                exec("\n".join(lines), names)
            if "motion(repaired)" in cell.source:
                break
    return names


def misses_of(lesson, name):
    """The lesson's misses, with what it calls `name` for finding E."""
    return lambda unknowns: lesson["misses"](unknowns, lesson[name])


def slopes(lesson, name):
    """These misses, and their slopes."""
    return orbit.slopes(misses_of(lesson, name))


@pytest.fixture(scope="module")
def again(lesson):
    """The page's 300 fits to measurements made anew, and their losses."""
    return orbit.fit_again(misses_of(lesson, "solution"), lesson["unknowns"])


@pytest.fixture(scope="module")
def moves(lesson):
    """By the name of what finds E: the places, and the accelerations that a tape gives with it."""
    return {name: lesson["motion"](lesson[name]) for name in ("by_steps", "solution")}


def by_newton(M, e):
    E = M + e * tf.sin(M)
    for _ in range(5):
        E = E - (E - e * tf.sin(E) - M) / (1.0 - e * tf.cos(E))
    return E


def with_rule(lesson, loop):
    """The lesson's `solution`, for another loop."""

    @tf.custom_gradient
    def solution(M, e):
        E = loop(tf.stop_gradient(M), tf.stop_gradient(e))
        return E, lambda upstream: lesson["solution_rule"](E, e, upstream)

    return solution


def test_each_position_has_a_date_a_place_and_two_errors():
    dates, seen, errors = orbit.positions()
    assert dates.shape == (38,)
    assert seen.shape == errors.shape == (38, 2)
    assert (np.diff(dates) > 0).all()
    assert (errors > 0).all()
    assert not ((dates > 2001.6) & (dates < 2003.3)).any()  # none at the lower end


def test_fits_to_measurements_made_anew_spread_as_far_as_their_errors_say():
    """Two numbers, 5 and 20 measurements of them with the error 1: bars of 1/√5 and 1/√20."""
    columns = np.repeat(np.eye(2), [5, 20], axis=0)

    def lines(x):
        return tf.linalg.matvec(tf.constant(columns), x) - 3.0

    fits, losses = orbit.fit_again(lines, [3.0, 3.0], times=2000)
    assert fits.shape == (2000, 2)
    np.testing.assert_allclose(fits.mean(axis=0), 3.0, atol=0.03)
    np.testing.assert_allclose(fits.std(axis=0), [5**-0.5, 20**-0.5], rtol=0.05)
    assert losses.mean() == pytest.approx((25 - 2) / 2, rel=0.02)


@pytest.mark.parametrize(("years", "sign"), [(12.0, 1), (20.0, 1), (30.0, -1)])
def test_the_fit_finds_the_orbit_from_other_guesses_forwards_or_backwards(lesson, years, sign):
    """Where time runs backwards, y and b change signs."""
    with redirect_stdout(io.StringIO()) as said:
        guess = np.array([years, *lesson["guess"][1:]])
        found, losses = orbit.fit(misses_of(lesson, "solution"), guess)
    assert said.getvalue().startswith("loss 60.1, P ")
    assert len(losses) == 9
    for unknowns, loss in ((guess, losses[0]), (found, losses[-1])):
        misses, _ = slopes(lesson, "solution")(tf.constant(unknowns))
        assert 0.5 * np.sum(misses**2) == pytest.approx(loss)
    signs = np.ones(11)
    signs[[0, 5, 6]] = sign
    np.testing.assert_allclose(found, signs * lesson["unknowns"], rtol=1e-3, atol=1e-2)


def test_a_fit_that_jumps_beyond_all_ellipses_says_so(lesson):
    guess = lesson["guess"].copy()
    guess[1] = 0.7
    with redirect_stdout(io.StringIO()), pytest.raises(ValueError, match="jump 1 went too far"):
        orbit.fit(misses_of(lesson, "without_e"), guess)


def test_both_orbits_run_through_the_points_and_hardly_differ_in_how_far_they_miss(lesson):
    misses = np.array(slopes(lesson, "solution")(tf.constant(lesson["unknowns"]))[0])
    assert np.sqrt(np.mean(misses**2)) == pytest.approx(1.26, abs=5e-3)
    misses = np.array(slopes(lesson, "solution")(tf.constant(lesson["wrong"]))[0])
    assert np.sqrt(np.mean(misses**2)) == pytest.approx(1.34, abs=5e-3)
    misses = np.array(slopes(lesson, "solution")(tf.constant(lesson["unknowns"]))[0])
    assert np.abs(misses).max() == pytest.approx(4.2, abs=0.05)


def test_the_other_orbit_is_at_rest_by_its_own_slopes_and_would_move_in_e_by_the_right_ones(lesson):
    wrong = lesson["wrong"]
    misses, right = slopes(lesson, "solution")(tf.constant(wrong))
    _, own = slopes(lesson, "without_e")(tf.constant(wrong))
    in_e = [abs(np.linalg.lstsq(table, misses, rcond=None)[0][1]) for table in (own, right)]
    assert in_e[0] < 1e-3 < 0.01 < in_e[1]
    assert [np.linalg.matrix_rank(table) for table in (own, right)] == [10, 11], "nothing fixes e"


@pytest.mark.parametrize(
    ("name", "ends", "loss", "suns"),
    [("solution", 0.894, 60.1, 4.14), ("without_e", 0.867, 63.5, 3.04)],
)
def test_only_with_the_whole_rule_does_the_fit_end_at_the_same_orbit_from_another_guess(
    lesson, name, ends, loss, suns
):
    guess = lesson["guess"].copy()
    guess[1] = 0.75
    with redirect_stdout(io.StringIO()):
        found, losses = orbit.fit(misses_of(lesson, name), guess)
    assert found[1] == pytest.approx(ends, abs=5e-4)
    assert losses[-1] == pytest.approx(loss, abs=0.05)
    assert round(orbit.size(found[3:]) ** 3 / found[0] ** 2 / 1e6, 2) == suns


def test_without_the_rules_part_for_e_the_fit_ends_at_another_orbit_and_a_third_less_mass(lesson):
    """What lesson 10 says of *A forgotten part*."""
    right, wrong = lesson["unknowns"], lesson["wrong"]

    def loss(unknowns):
        return 0.5 * np.sum(slopes(lesson, "solution")(tf.constant(unknowns))[0] ** 2)

    assert [round(loss(each), 1) for each in (right, wrong)] == [60.1, 68.4]
    mass = [8.0**-3 * orbit.size(each[3:]) ** 3 / each[0] ** 2 for each in (right, wrong)]
    assert mass[1] / mass[0] == pytest.approx(2.66 / 4.14, abs=5e-3)
    assert [round(orbit.size(each[3:])) for each in (right, wrong)] == [1013, 874]
    assert round(orbit.size(right[3:]) * (1.0 - right[1])) == 107  # S2's closest distance, in au
    none = np.zeros(2)
    ends = [np.array(orbit.project(none, none, orbit.YEARS, each[3:])) for each in (wrong, right)]
    np.testing.assert_allclose(np.subtract(*ends)[:, 1], 11.0, atol=0.5)  # ■, north
    years = np.linspace(1995.0, 2014.0, 2001)
    apart = np.linalg.norm(lesson["sky"](years, right) - lesson["sky"](years, wrong), axis=1)
    near = np.abs(years[:, None] - lesson["dates"]).min(axis=1) < 0.01
    assert apart[near].max() < 2.6 < 7.0 < apart.max()  # thousandths of an arcsecond
    gap = (years > 2001.6) & (years < 2003.3)
    assert apart[~gap].max() < 2.7 < 8.7 < apart[gap].max()


def test_the_longest_radius_is_neither_of_the_two_arrows(lesson):
    a, b = 8.0 * lesson["unknowns"][3:7].reshape(2, 2)
    turn = np.linspace(0.0, np.pi, 10_001)[:, None]
    radii = np.linalg.norm(np.cos(turn) * a + np.sin(turn) * b, axis=1)
    assert max(np.linalg.norm(a), np.linalg.norm(b)) < 0.99 * radii.max()
    assert radii.max() == pytest.approx(orbit.size(lesson["unknowns"][3:]), rel=1e-6)


def test_a_tape_can_follow_the_loop_but_has_many_more_ops_to_follow(lesson):
    """The table of *What does the rule save?* on the page."""
    best, by_steps, tables = tf.constant(lesson["unknowns"]), lesson["by_steps"], []

    def compiled(solution):
        found = tf.function(orbit.slopes(lambda unknowns: lesson["misses"](unknowns, solution)))
        graph = found.get_concrete_function(best).graph
        return found, len(graph.as_graph_def().node)

    # Each step adds as many ops, so short loops tell how many 300 steps have: their graph is long.
    ten, twenty, thirty = (compiled(lambda M, e, n=n: by_steps(M, e, n))[1] for n in (10, 20, 30))
    assert thirty - twenty == twenty - ten
    assert thirty + 27 * (thirty - twenty) == pytest.approx(7640, rel=0.02)
    stated = {with_rule(lesson, by_steps): 1360, by_newton: 840, with_rule(lesson, by_newton): 510}
    for solution, stated_ops in stated.items():
        found, ops = compiled(solution)
        assert ops == pytest.approx(stated_ops, rel=0.02)
        tables.append(found(best)[1])
    for table in tables[1:]:
        np.testing.assert_allclose(table, tables[0], atol=1e-3, rtol=1e-6)


def test_the_mass_is_the_same_on_each_date_where_the_tape_can_follow_or_ask(lesson, moves):
    """Accelerations weigh what is circled as Kepler's third law does."""
    size = orbit.size(lesson["unknowns"][3:])

    def masses(place, acceleration):
        distance, force = (size * np.hypot(*each) for each in (place, acceleration))
        return distance**2 * force / (4.0 * np.pi**2) / 1e6

    for each in (moves["by_steps"], lesson["motion"](lesson["repaired"])):
        np.testing.assert_allclose(masses(*each), 4.142, atol=1e-3)
    assert size**3 / lesson["P"] ** 2 / 1e6 == pytest.approx(4.142, abs=1e-3)
    farther = 8280.0 / 8000.0 * size  # Gillessen's distance, on the page
    assert farther**3 / lesson["P"] ** 2 / 1e6 == pytest.approx(4.59, abs=5e-3)


def test_a_loop_that_stops_too_early_gives_a_wrong_slope(lesson):
    for steps, left, slope, taped in ((5, 0.0219, 3.98, 3.42), (300, 0.0, 3.61, 3.61)):
        E = lesson["by_steps"](0.1, 0.8, steps)
        assert float(abs(E - 0.8 * tf.sin(E) - 0.1)) == pytest.approx(left, abs=5e-5)
        assert float(lesson["solution_rule"](E, 0.8, 1.0)[0]) == pytest.approx(slope, abs=5e-3)
        M = tf.Variable(0.1)
        with tf.GradientTape() as tape:
            E = lesson["by_steps"](M, 0.8, steps)
        assert float(tape.gradient(E, M)) == pytest.approx(taped, abs=5e-3)


def test_a_rule_that_asks_for_itself_runs_the_loop_once_each_time(lesson, monkeypatch):
    runs, loop = [], lesson["loop"]
    monkeypatch.setitem(lesson, "loop", lambda *inputs: runs.append(1) or loop(*inputs))
    M = tf.Variable(1.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            E = lesson["repaired"](M, 0.8)
        assert len(runs) == 1
        slope = inner.gradient(E, M)
        assert len(runs) == 2
    outer.gradient(slope, M)
    assert len(runs) == 3


def test_orbits_fitted_anew_spread_where_no_points_are_and_not_where_their_errors_are_long(
    lesson, again
):
    """The answer to the prediction of the page, and what is said below its picture."""
    others = again[0][:100]
    # As a graph: it is called 200 times. A lambda: tf.function calls a default, if it is a function
    # with a custom gradient, without its gradient.
    sky = tf.function(lambda *args: lesson["sky"](*args))
    dates, _, errors = orbit.positions()
    longest = np.sort(dates[np.argsort(errors.max(axis=1))[-2:]])
    assert [int(date) for date in longest] == [2004, 2005]
    at = np.linspace(2002.2, 2002.3, 5)
    for times, spread in ((at, (1.7, 2.4)), (longest, (0.1, 0.3))):
        places = np.array([sky(times, each) for each in others])
        ways = [sky(times + step, lesson["unknowns"]) for step in (0.01, -0.01)]
        along = np.subtract(*ways) / np.linalg.norm(np.subtract(*ways), axis=1, keepdims=True)
        across = np.stack([-along[:, 1], along[:, 0]], axis=1)
        far = np.std(np.sum((places - places.mean(axis=0)) * across, axis=2), axis=0)
        assert spread[0] < far.min()
        assert far.max() < spread[1]


def test_the_stated_errors_are_too_small_and_s2_came_late_by_more_than_the_bars_say(lesson, again):
    """What the page says of *Do the error bars tell the truth?*"""
    unknowns = lesson["unknowns"]
    others, losses = again
    longer = np.sqrt(60.1 / losses.mean())
    bar = np.std(others[:, 0] + others[:, 2])
    late = 2018.38 - (unknowns[0] + unknowns[2])
    assert losses.max() == pytest.approx(50.7, abs=0.05)
    assert [longer, late] == pytest.approx([1.37, 0.24], abs=5e-3)
    assert [round(late / bar), round(late / bar / longer)] == [4, 3]
    sizes = [8.28 * np.linalg.norm(each[3:7].reshape(2, 2), 2) for each in others]
    mass = np.std([size**3 / each[0] ** 2 / 1e6 for size, each in zip(sizes, others, strict=True)])
    assert longer * mass == pytest.approx(1.0, abs=0.05)  # beside Gillessen's


def test_the_hands_of_the_sketch_solve_keplers_equation():
    figure = orbit.sketch(M=1.0, e=0.8)
    (ax,) = figure.axes
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    hands = {name[0]: line[1] for name, line in lines.items() if " = " in name}
    angle = {name: np.arctan2(y, x) for name, (x, y) in hands.items()}
    assert angle["M"] == pytest.approx(1.0)
    assert "E = 1.78" in lines
    assert lines["the body"][0][0] == pytest.approx(hands["E"][0])
    assert [[0.0, 0.0], [0.8, 0.0]] in [line.get_xydata().tolist() for line in ax.lines]  # e
    assert angle["M"] == pytest.approx(angle["E"] - 0.8 * np.sin(angle["E"]))
    assert ax.get_aspect() == 1.0


def test_sliders_turn_the_hands_as_the_line_in_the_lesson_says():
    line = "interact(orbit.sketch, M=(0.0, 6.3), e=(0.0, 0.9))"
    assert sum(line in cell.source for cell in nbformat.read(LESSON, as_version=4).cells) == 1
    turned = ipywidgets.interactive(orbit.sketch, M=(0.0, 6.3), e=(0.0, 0.9))
    turned.children[0].value, turned.children[1].value = 1.0, 0.8
    assert turned.result.alt == orbit.sketch(1.0, 0.8).alt


def test_an_arrow_points_where_the_acceleration_does_and_its_line_ends_on_the_long_axis():
    x, y, at = np.array([0.3, -1.0]), np.array([0.5, -0.4]), -0.7
    figure = orbit.arrows(0.7, (x, y), (3.0 * (at - x), -3.0 * y))
    (ax,) = figure.axes
    (field,) = ax.collections
    np.testing.assert_allclose(np.arctan2(field.V, field.U), np.arctan2(-y, at - x))
    np.testing.assert_allclose(np.hypot(field.U, field.V), 0.18)
    lines = [line.get_xydata() for line in ax.lines if line.get_linestyle() == ":"]
    lines = [line for line in lines if len(line)]  # one is for the legend
    np.testing.assert_allclose([line[-1] for line in lines], [[at, 0.0]] * 2, atol=1e-12)
    marks = {line.get_marker(): line.get_xydata()[0] for line in ax.lines if len(line.get_xydata())}
    assert marks["+"] == pytest.approx([-0.7, 0.0])
    assert marks["s"] == pytest.approx([0.0, 0.0])
    assert "at -0.70 to -0.70" in figure.alt


def test_on_the_sky_east_is_on_the_left_and_each_error_has_its_own_direction():
    dates, seen, errors = orbit.positions()
    (ax,) = orbit.on_sky().axes
    left, right = ax.get_xlim()
    assert left > right
    (bars,) = ax.containers
    np.testing.assert_array_equal(np.transpose(bars[0].get_data()), seen)
    for n, lines in enumerate(bars[2]):
        ends = np.array([segment[:, n] for segment in lines.get_segments()])
        np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2.0 * errors[:, n])
    for text in ax.texts:
        assert f"{text.get_text()} at {text.xy[0]:.0f}, {text.xy[1]:.0f}" in ax.figure.alt
        place = next(seen[n] for n in orbit.LABELLED if text.get_text() == f"{dates[n]:.1f}")
        assert tuple(text.xy) == tuple(place)
        assert same_color(text.get_bbox_patch().get_facecolor(), ax.get_facecolor())


def test_a_single_companion_is_dashed():
    curve = np.array([[0.0, 0.0], [10.0, 20.0]])
    figure = orbit.on_sky(curve, curve + 1.0)
    (ax,) = figure.axes
    dashes = [line.get_linestyle() for line in ax.lines if len(line.get_xdata()) == len(curve)]
    assert dashes.count("--") == 1
    assert "an orbit, a dashed grey one." in figure.alt


def test_a_curve_and_its_thin_companions_are_drawn_and_counted():
    curve = np.array([[0.0, 0.0], [10.0, 20.0]])
    figure = orbit.on_sky(curve, curve + 1.0, curve + 2.0, low=True)
    (ax,) = figure.axes
    drawn = [line.get_xydata() for line in ax.lines[2:5]]
    np.testing.assert_array_equal(drawn, [curve + 1.0, curve + 2.0, curve])
    assert ax.lines[4].get_linewidth() > ax.lines[2].get_linewidth()
    _, seen, errors = orbit.positions()
    assert seen[np.argsort(errors.max(axis=1))[-2:], 1].max() < ax.get_ylim()[1] < seen[:, 1].max()
    assert "an orbit, 2 thin grey ones." in figure.alt


def test_the_guess_by_eye_is_as_long_and_as_wide_as_its_numbers_say(lesson):
    """A step of 1 in x is 100 long; the ellipse reaches 0.6 of a step in y, which is 90 long."""
    curve = np.array(lesson["sky"](lesson["year"], lesson["guess"]))
    np.testing.assert_allclose(np.ptp(curve, axis=0), [108.0, 200.0], atol=0.01)


def test_the_ends_of_an_orbit_and_of_what_it_circles_have_their_years(lesson):
    curve, source = lesson["sky"](lesson["year"], lesson["unknowns"]), lesson["unknowns"][3:]
    ax = orbit.on_sky(curve, source=source).axes[0]
    (squares,) = [line.get_xydata() for line in ax.lines if line.get_marker() == "s"]
    for year, end in (("1995", 0), ("2014", -1)):
        assert int(lesson["year"][end]) == int(year)
        at = [text.xy for text in ax.texts if text.get_text() == year]
        np.testing.assert_array_equal(at, [squares[end], curve[end]])
    assert "the orbit begins in 1995 and ends in 2014." in ax.figure.alt
    low = orbit.on_sky(curve, source=source, low=True)
    assert not {"1995", "2014"} & {text.get_text() for text in low.axes[0].texts}
    assert "1995" not in low.alt


def test_the_square_is_where_the_model_has_what_s2_circles_and_nowhere_without_one(lesson):
    """`place` counts from there: it is where x and y are 0."""
    curve, unknowns = lesson["sky"](lesson["year"], lesson["unknowns"]), lesson["unknowns"]
    assert not [line for line in orbit.on_sky(curve).axes[0].lines if line.get_marker() == "s"]
    no_size = np.concatenate([unknowns[:3], np.zeros(4), unknowns[7:]])
    there = lesson["sky"](lesson["year"], no_size)
    ax = orbit.on_sky(curve, source=unknowns[3:]).axes[0]
    (ends,) = [line.get_xydata() for line in ax.lines if line.get_marker() == "s"]
    np.testing.assert_allclose(ends, np.array(there)[[0, -1]])
    assert "what it circles from 2, -9 to 1, 6" in ax.figure.alt


def test_the_losses_of_two_fits_are_told_apart_without_colour(lesson):
    both = [lesson["losses"], lesson["its_losses"]]
    figure = orbit.on_sky(losses=both)
    _, ax = figure.axes
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], both)
    assert both[0][2] > 100.0 > 60.15 > both[0][3], "three jumps, as the lesson says"
    assert [(line.get_linestyle(), line.get_marker()) for line in ax.lines] == [
        ("-", "o"),
        ("--", "s"),
    ]
    assert ax.get_yscale() == "log"
    assert figure.alt.endswith(
        "loss of the blue orbit 441222.0 at first, 60.1 at the end; "
        "loss of the dashed orbit 441222.0 at first, 68.4 at the end."
    )


def second_and_third(f, at=0.5):
    """The derivatives of f with respect to M at e = 0.8; None if the second one is None."""
    M = tf.Variable(at, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as middle:
            with tf.GradientTape() as inner:
                value = f(M, tf.constant(0.8, tf.float64))
            first = inner.gradient(value, M)
        second = middle.gradient(first, M)
    if second is None:
        return None
    return float(second), float(outer.gradient(second, M))


def test_a_rule_that_keeps_its_e_has_no_second_derivative_and_one_that_asks_for_itself_has(lesson):
    """The missing arrow, and the answer to the second *Your line*."""
    # At this M it is as close after 60 steps as after 300, and the tapes have less to follow.
    true = second_and_third(lambda M, e: lesson["by_steps"](M, e, 60))
    assert second_and_third(lesson["repaired"]) == pytest.approx(true)
    assert true[0] == pytest.approx(-1.757, abs=5e-4)
    assert second_and_third(lesson["solution"]) is None

    @tf.custom_gradient
    def asks_for_solution(M, e):
        found = lesson["loop"](tf.stop_gradient(M), tf.stop_gradient(e))
        return found, lambda u: lesson["solution_rule"](lesson["solution"](M, e), e, u)

    second, third = second_and_third(asks_for_solution)
    assert second == pytest.approx(true[0])
    assert third != pytest.approx(true[1], rel=0.1)


def test_a_tape_follows_a_loop_even_in_the_body_of_a_custom_gradient(lesson):
    """Why the lesson hides the loop behind `tf.stop_gradient`."""

    @tf.custom_gradient
    def open_loop(M, e):
        E = lesson["by_steps"](M, e, 60)
        return E, lambda upstream: lesson["solution_rule"](E, e, upstream)

    true = second_and_third(lambda M, e: lesson["by_steps"](M, e, 60))
    assert second_and_third(open_loop)[0] == pytest.approx(true[0])
    assert second_and_third(lesson["solution"]) is None


def test_of_the_two_terms_of_a_second_derivative_a_rule_that_keeps_its_e_leaves_one(lesson):
    """The numbers that lesson 10 says of x = cos E, beside the closed form of both terms."""
    E = float(lesson["by_steps"](tf.constant(0.5, tf.float64), 0.8))
    fraction = 1.0 / (1.0 - 0.8 * np.cos(E))
    first = -np.cos(E) * fraction**2
    second = -np.sin(E) * -0.8 * np.sin(E) * fraction**3
    assert (-np.sin(E), fraction, -np.sin(E) * fraction) == pytest.approx(
        (-0.953, 1.321, -1.259), abs=5e-4
    )
    assert (first, second, first + second) == pytest.approx((-0.530, 1.674, 1.144), abs=5e-4)
    for name, means in (("solution", first), ("repaired", first + second)):
        got = second_and_third(lambda M, e, find=lesson[name]: tf.cos(find(M, e)))[0]
        assert got == pytest.approx(means, rel=1e-4)


def test_the_rule_that_keeps_its_e_points_at_the_centre_and_a_tape_through_the_loop_at_the_focus(
    lesson, moves
):
    for name, at in (("by_steps", 0.0), ("solution", -lesson["e"])):
        said = orbit.arrows(lesson["e"], *moves[name]).alt
        assert f"at {at:.2f} to {at:.2f}" in said


def test_the_error_ellipse_holds_six_in_seven_of_points_spread_as_its_normal_distribution():
    """Its share is 1 - exp(-2), whatever the correlation of the points."""
    x, y = np.random.default_rng(0).normal(size=(2, 10_000))
    said = orbit.ellipse({"x": x, "y": y - 3.0 * x}).alt
    inside = int(said.split(", ")[1].split()[0])
    assert inside / 10_000 == pytest.approx(1.0 - np.exp(-2.0), abs=0.01)
    assert "correlation -0.95" in said


def test_the_loop_needs_about_100_steps_for_six_digits_and_newtons_method_5(lesson):
    """The steps that *What does the rule save?* on the page tells."""
    e, M = lesson["e"], np.linspace(0.0, 2.0 * np.pi, 2001)
    true = np.array(lesson["by_steps"](tf.constant(M), e, 1000))

    def needed(step, E):
        for n in range(1, 300):
            E = step(E)
            if np.abs(E - true).max() < 1e-6:
                return n
        return None

    assert 95 < needed(lambda E: M + e * np.sin(E), M) < 105
    newton = needed(
        lambda E: E - (E - e * np.sin(E) - M) / (1.0 - e * np.cos(E)), M + e * np.sin(M)
    )
    assert newton == 5


def test_the_pictures_follow_a_dark_theme():
    import matplotlib.pyplot as plt

    with plt.style.context("dark_background"):
        dark = orbit.on_sky(source=np.zeros(8), low=True)
    (square,) = [line for line in dark.axes[0].lines if line.get_marker() == "s"]
    assert not same_color(square.get_color(), "#1a1a1a")


def test_what_a_custom_gradient_returns_is_a_copy_and_a_tape_goes_back_from_the_copy_alone():
    """Why lesson 10's rule must not use the tensor that its body has found."""
    made = []

    @tf.custom_gradient
    def op(x):
        made.append(tf.stop_gradient(x))
        return made[0], lambda upstream: 3.0 * upstream

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        returned = op(x)
        both = returned * 1.0, made[0] * 1.0
    assert [tape.gradient(each, x) for each in both] == [3.0, None]
