"""The figures of a report: they hold the trials' own numbers, and where there is nothing to draw they say why."""

import itertools
import random
import statistics

import pytest

from hpo.report.figures import Drawn
from hpo.report.figures.best_so_far import draw_best_so_far, draw_expected_performance
from hpo.report.figures.importance import draw_importance
from hpo.report.figures.learning_curves import draw_fold_spread, draw_learning_curves
from hpo.report.figures.parallel_coordinates import draw_parallel_coordinates
from hpo.report.figures.score_over_values import draw_contours, draw_slices
from hpo.report.figures.style import WINNER, best_and_even
from hpo.report.part import Absent
from hpo.report.sections.curves import describe_expected
from hpo.trials.space.reader import space_from_dict
from tests.hpo.report.made_up import point, scored, subject, trial


def traces(content, name):
    """Return the traces of that name."""
    assert isinstance(content, Drawn), content
    return [trace for trace in content.figure.data if trace.name == name]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_best_so_far_never_gets_worse_and_ends_at_the_winner(direction):
    trials = [*scored(30, direction=direction), trial(30, [None])]
    drawn = subject(trials, direction=direction)
    better = max if direction == "maximize" else min
    by_number, by_time = traces(draw_best_so_far(drawn), "best so far")
    for steps in (by_number, by_time):
        assert list(steps.y) == sorted(steps.y, reverse=direction == "minimize")
        assert steps.y[-1] == drawn.winner.score
    assert by_number.x[-1] == 29
    for number, best in zip(by_number.x, by_number.y, strict=True):
        assert best == better(t.score for t in trials[: int(number) + 1])
    assert by_time.x[-1] == pytest.approx(3 * 29 + 2)  # when the last one ended
    assert [star.y for star in traces(draw_best_so_far(drawn), "winner")] == [(drawn.winner.score,)] * 2


def test_best_so_far_follows_the_order_in_which_trials_ended_on_the_axis_of_time():
    late, early = trial(0, [0.6], seconds=50.0), trial(1, [0.7])
    by_number, by_time = traces(draw_best_so_far(subject([late, early])), "best so far")
    assert list(by_number.y) == [0.6, 0.7, 0.7]
    assert list(by_time.y) == [0.7, 0.7]


def test_trials_that_were_trained_for_less_do_not_compete():
    trials = [trial(0, [0.9], amount=1), trial(1, [0.8], amount=4), trial(2, [0.7], amount=4)]
    drawn = subject(trials, winner=trials[1])
    content = draw_best_so_far(drawn)
    assert traces(content, "best so far")[0].y == (0.8, 0.8)
    assert "trained for 4" in content.caption


def test_scores_far_out_do_not_squeeze_the_others():
    trials = [*scored(20), trial(20, [-1e9])]
    low, _ = draw_best_so_far(subject(trials)).figure.layout.yaxis.range
    assert 0 < low < 0.6
    content = draw_best_so_far(subject(scored(20)))
    assert content.figure.layout.yaxis.range is None
    assert "beyond" not in content.caption


def test_a_learning_curve_is_the_mean_as_far_as_all_folds_went():
    won = trial(0, [0.9, 0.8], curve=[[0.1, 0.3, 0.9], [0.3, 0.5]])
    other = trial(1, [0.5, 0.5], curve=[[0.2], [0.4]])
    content = draw_learning_curves(subject([won, other]))
    (mean,) = traces(content, "winner")
    assert (list(mean.x), list(mean.y)) == ([1, 2], pytest.approx([0.2, 0.4]))
    assert [list(t.y) for t in traces(content, "winner, fold_0")] == [[0.1, 0.3, 0.9]]
    assert [list(t.y) for t in traces(content, "trial 1")] == [pytest.approx([0.3])]
    assert content.figure.data[-1] is mean  # on top


def test_at_most_a_hundred_learning_curves_are_drawn_the_best_among_them():
    trials = [t for k in range(450) for t in [trial(k, [k * 37 % 450 / 450], curve=[[0.1, 0.2]])]]
    content = draw_learning_curves(subject(trials))
    names = {t.name for t in content.figure.data}
    assert len(names) == 101
    ranked = sorted(trials, key=lambda t: t.loss)
    assert {f"trial {t.number}" for t in ranked[1:21]} < names
    assert "100 of 449" in content.caption


def test_the_sample_is_even_and_keeps_the_order():
    trials = scored(1000)
    drawn = best_and_even(trials, 100)
    assert [t.number for t in drawn] == sorted({t.number for t in drawn})
    assert {t.number for t in sorted(trials, key=lambda t: t.loss)[:20]} < {t.number for t in drawn}
    assert max(b.number - a.number for a, b in itertools.pairwise(drawn)) <= 16
    assert best_and_even(trials, 1000) == trials


def test_what_decides_the_score_is_the_most_important_and_its_bar_the_longest_on_top():
    trials = [trial(k, [0.9 - abs(point(k)["layers"] - 3) / 10 + k % 7 / 1e4]) for k in range(60)]
    content = draw_importance(subject(trials))
    (bars,) = content.figure.data
    assert content.figure.layout.yaxis.categoryarray[-1] == bars.y[0] == "layers"
    assert list(bars.x) == sorted(bars.x, reverse=True)
    assert "60 complete trials" in content.caption
    assert "PED-ANOVA" in content.caption


def test_slices_hold_every_score_at_its_own_value():
    trials = scored(24)
    content = draw_slices(subject(trials))
    axes = {axis.title.text: axis for axis in content.figure.select_xaxes()}
    assert set(axes) == {"lr (log)", "layers", "optimizer", "momentum"}
    by_axis = {}
    for trace in content.figure.data:
        by_axis.setdefault(trace.xaxis, []).extend(zip(trace.x, trace.y, trace.customdata, strict=True))
    names = {f"x{axis.plotly_name.removeprefix('xaxis')}": name for name, axis in axes.items()}
    for place, name in names.items():
        key = name.removesuffix(" (log)")
        found = sorted((str(x), y, number) for x, y, number in by_axis[place])
        there = [(t.point[key], t.score, t.number) for t in trials if key in t.point]
        wanted = [(str(v) if key == "lr" or isinstance(v, str) else f"{v:g}", *rest) for v, *rest in there]
        assert found == sorted(wanted)
    assert list(axes["layers"].categoryarray) == ["1", "2", "3", "4"]
    # A tick names the category that it stands at.
    assert list(axes["layers"].tickvals) == list(axes["layers"].ticktext) == ["1", "2", "3", "4"]


def test_each_cell_of_a_contour_is_the_best_score_at_its_pair_of_values():
    space = space_from_dict({"a": [1, 10, 100], "b": {"choices": ["y", "x"]}})
    rng = random.Random(1)
    trials = [trial(k, [rng.random()], at={"a": [1, 10, 100][k % 3], "b": ["y", "x"][k % 2]}) for k in range(30)]
    content = draw_contours(subject(trials, space=space))
    contour = next(t for t in content.figure.data if t.type == "contour")
    assert list(content.figure.layout.xaxis.ticktext) == ["1", "10", "100"]
    assert list(content.figure.layout.yaxis.ticktext) == ["y", "x"]
    for place, a in enumerate([1, 10, 100]):
        for height, b in enumerate(["y", "x"]):
            best = max(t.score for t in trials if t.point == {"a": a, "b": b})
            assert contour.z[list(contour.y).index(height)][list(contour.x).index(place)] == best


def test_maps_share_one_scale_of_colours_and_four_of_the_most_important_hyperparameters():
    trials = scored(40)
    figure = draw_contours(subject(trials)).figure
    assert {t.coloraxis for t in figure.select_traces({"type": "contour"})} == {"coloraxis"}
    known = subject(trials).importances
    titles = {axis.title.text.removesuffix(" (log)") for axis in figure.select_xaxes() if axis.title.text}
    assert titles == set(list(known.shares)[:4])


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_parallel_coordinates_draw_a_line_a_trial_the_best_on_top(direction):
    trials = scored(40, direction=direction)
    *lines, scale = draw_parallel_coordinates(subject(trials, direction=direction)).figure.data
    assert len(lines) == 40
    heights = [line.y[0] for line in lines]
    assert heights == sorted(heights, reverse=direction == "minimize")
    assert [line.meta for line in lines] == [t.number for t in sorted(trials, key=lambda t: -t.loss)]
    assert [line.line.color for line in lines].index(WINNER) == 39
    worst, best = min(t.score for t in trials), max(t.score for t in trials)
    assert sorted(heights) == pytest.approx(sorted((t.score - worst) / (best - worst) for t in trials))
    assert (scale.marker.cmin, scale.marker.cmax) == (worst, best)


def test_a_wild_score_leaves_colours_for_the_others_and_the_caption_says_so():
    trials = [*scored(40), trial(40, [-1e9])]
    content = draw_parallel_coordinates(subject(trials))
    assert content.figure.data[-1].marker.cmin > 0
    assert "1 score outside of" in content.caption


def test_fold_spread_holds_every_fold_of_the_best_the_winner_first():
    trials = scored(30, folds=3)
    ranked = sorted(trials, key=lambda t: t.loss)
    winner = ranked[4]
    *folds, means = draw_fold_spread(subject(trials, winner=winner)).figure.data
    order = [winner, *(t for t in ranked if t is not winner)][:15]
    assert [name.split(" ")[0] for name in means.x] == [str(t.number) for t in order]
    for index, fold in enumerate(folds):
        assert list(fold.y) == [t.outcomes[index].metrics["score"] for t in order]
    assert list(means.y) == pytest.approx([statistics.fmean(t.values("score")) for t in order])


def test_expected_performance_draws_both_estimators_to_half_the_trials():
    trials = scored(21)
    content = draw_expected_performance(subject(trials))
    known = describe_expected("random", [t.score for t in trials], "maximize")
    for name in ("unbiased", "biased"):
        high, low, mean = [t for t in content.figure.data if t.legendgroup == name]
        assert list(mean.x) == list(known[name]["budgets"])
        assert mean.x[-1] == 10
        assert list(mean.y) == list(known[name]["means"])
        assert [(a - b) / 2 for a, b in zip(high.y, low.y, strict=True)] == pytest.approx(known[name]["spreads"])
    refused = draw_expected_performance(subject(trials, strategy="tpe"))
    assert isinstance(refused, Absent)
    assert "independent" in refused.reason
