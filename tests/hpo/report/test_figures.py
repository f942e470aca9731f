"""The figures of a report: they hold the trials' own numbers, and where there is nothing to draw they say why."""

import itertools
import json
import math
import random
from dataclasses import replace

import pytest

from hpo.report.figures import FIGURE_TABLE, Drawn
from hpo.report.figures.style import WINNER
from hpo.report.pages.html import templates
from hpo.report.pages.picture import draw_png
from hpo.report.part import is_missing
from hpo.trials.goal import Goal, Limit
from hpo.trials.ranking import front
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import TaskLayout
from tests.hpo.report.made_up import climbed, of_several, scored, subject, trial

DRAW = {name: draw for name, _, _, draw in FIGURE_TABLE}
HOSTILE = "</script><img src=x onerror=alert(1)>"
ONE = space_from_dict({"layers": [1, 2, 3, 4]})
ODD_KEYS = {HOSTILE: {"choices": [True, 1, "1", None, 2.5, HOSTILE]}, "n": {"choices": [3, 1, 2]}, "single": [7]}
ODD = space_from_dict(ODD_KEYS | {"count": {"low": 1, "high": 2, "integer": True, "log": True}})
LIMITS = (Limit(HOSTILE, 0.7), Limit("y", 0.3, is_least=True))
SEVERAL = Goal({"score": "maximize", HOSTILE: "minimize", "x": "minimize"}, LIMITS)
NARROW = Goal({"score": "maximize", "x": "minimize"}, (Limit("x", -1.0),))
LIMITED = Goal({"score": "maximize"}, (Limit("y", 0.5), Limit("score", 0.95)))
ODD_POINTS = [
    {HOSTILE: ODD.dimensions[0].values[k % 6], "n": [3, 1, 2][k % 3], "single": 7, "count": 1 + k % 2}
    for k in range(30)
]
FEW = climbed(0.7, (2, 2))
IMPORTED = [replace(trial, number=trial.number - 1) for trial in FEW.trials]
WIDE = Goal({"score": "maximize", "x": "minimize"}, (Limit("x", 0.5),))
SHORT = of_several(12, WIDE, amount=2)
OVER = next(trial for trial in SHORT if trial.excess > 0)
CASES = {
    "nothing yet": subject([]),
    "all failed": subject([trial(k, [None, 0.5]) for k in range(12)]),
    "one trial": subject([trial(0, [0.5], curve=[[0.1]])]),
    "constant scores": subject([trial(k, [0.5], curve=[[0.5, 0.5]]) for k in range(20)]),
    "one value of each": subject([trial(k, [k / 20], at={"layers": 2}) for k in range(20)], space=ONE),
    "conditional": subject(scored(25)),
    "stopped": subject([*scored(12, folds=2), trial(12, [0.3], state="stopped"), trial(13, [None, 0.2])]),
    "only shorter than the winner": subject([trial(k, [k / 20], amount=1 + (k == 3)) for k in range(12)]),
    "odd choices": subject([trial(k, [math.sin(k)], at=point) for k, point in enumerate(ODD_POINTS)], space=ODD),
    "several metrics": subject(of_several(30, SEVERAL, folds=2), goal=SEVERAL, layout=TaskLayout(2)),
    "none within the limits": subject(of_several(12, NARROW), goal=NARROW),
    "one metric and a limit": subject(of_several(12, LIMITED), goal=LIMITED),
    "scales": climbed(0.7),
    "imports": replace(FEW, scale_results=replace(FEW.scale_results, trials=IMPORTED)),
    "front of less training": subject([*SHORT, replace(OVER, number=12, amount=4)], goal=WIDE),
    "one trial of four scales": climbed(0.7, (1, 0, 0, 0)),
    "no trial of two scales": climbed(0.7, (0, 0)),
    "huge scores": subject([trial(k, [1e100 * (-1) ** k]) for k in range(12)]),
}


@pytest.mark.quick("all failed")
@pytest.mark.slow("several metrics", "one metric and a limit", "odd choices", "scales")
@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_drawn_or_says_in_one_line_why_not(case):
    for name, draw in DRAW.items():
        content = draw(CASES[case])
        if is_missing(content):
            assert content["missing"], name
            assert "\n" not in content["missing"]
            continue
        assert content.figure.data, name
        assert content.caption
        place = templates().get_template("pieces.html").module.figure(name, content.figure)
        assert "<img" not in place
        data = place.partition("application/json")[2].partition(">")[2].removesuffix("</script>")
        assert {"data", "layout"} == set(json.loads(data, parse_constant=pytest.fail))
        assert (draw_png(content.figure) is None) == (name == "contours")


@pytest.mark.parametrize(("case", "drawn"), [("all failed", {"timeline"}), ("nothing yet", set())])
def test_without_a_score_the_timeline_alone_is_drawn(case, drawn):
    assert {name for name, draw in DRAW.items() if isinstance(draw(CASES[case]), Drawn)} == drawn


def test_equal_looking_choices_stay_apart_and_in_their_order():
    axes = DRAW["slices"](CASES["odd choices"]).figure.select_xaxes()
    panel = next(axis for axis in axes if "alert" in axis.title.text)
    assert list(panel.categoryarray)[:5] == ["True", "1", "'1'", "None", "2.5"]


def traces(content, name):
    assert isinstance(content, Drawn), content
    return [trace for trace in content.figure.data if trace.name == name]


@pytest.mark.parametrize(("direction", "best_of"), [("maximize", max), ("minimize", min)])
def test_best_so_far_is_the_best_of_the_trials_so_far_and_ends_at_the_winner(direction, best_of):
    trials = [*scored(30, direction=direction), trial(30, [None])]
    drawn = subject(trials, direction=direction)
    by_number, by_time = traces(DRAW["best-so-far"](drawn), "best so far")
    for number, best in zip(by_number.x, by_number.y, strict=True):
        assert best == best_of(t.score for t in trials[: int(number) + 1])
    assert by_number.x[-1] == 29
    assert by_time.x[-1] == pytest.approx(3 * 29 + 2)  # when the last one ended
    assert by_number.y[-1] == by_time.y[-1] == drawn.winner.score
    assert [star.y for star in traces(DRAW["best-so-far"](drawn), "winner")] == [(drawn.winner.score,)] * 2


def test_best_so_far_follows_the_order_in_which_trials_ended_on_the_axis_of_time():
    late, early = trial(0, [0.6], seconds=50.0), trial(1, [0.7])
    by_number, by_time = traces(DRAW["best-so-far"](subject([late, early])), "best so far")
    assert (list(by_number.y), list(by_time.y)) == ([0.6, 0.7, 0.7], [0.7, 0.7])


def test_scores_far_out_do_not_squeeze_the_others():
    low, _ = DRAW["best-so-far"](subject([*scored(20), trial(20, [-1e9])])).figure.layout.yaxis.range
    assert 0 < low < 0.6
    assert DRAW["best-so-far"](subject(scored(20))).figure.layout.yaxis.range is None
    content = DRAW["parallel-coordinates"](subject([*scored(40), trial(40, [-1e9])]))
    assert content.figure.data[-1].marker.cmin > 0
    assert "changes 1 score." in content.caption


def test_a_learning_curve_is_the_mean_as_far_as_all_folds_went():
    won = trial(0, [0.9, 0.8], curve=[[0.1, 0.3, 0.9], [0.3, 0.5]])
    content = DRAW["learning-curves"](subject([won, trial(1, [0.5, 0.5], curve=[[0.2], [0.4]])]))
    (mean,) = traces(content, "winner")
    assert (list(mean.x), list(mean.y)) == ([1, 2], pytest.approx([0.2, 0.4]))
    assert [list(t.y) for t in traces(content, "winner, fold_0")] == [[0.1, 0.3, 0.9]]
    assert [list(t.y) for t in traces(content, "trial 1")] == [pytest.approx([0.3])]
    assert content.figure.data[-1] is mean  # on top


def test_at_most_a_hundred_learning_curves_are_drawn_the_best_among_them():
    trials = [trial(k, [k * 37 % 150 / 150], curve=[[0.1, 0.2]]) for k in range(150)]
    content = DRAW["learning-curves"](subject(trials))
    names = {t.name for t in content.figure.data}
    assert (len(names), "100 of 149" in content.caption) == (101, True)
    assert {f"trial {t.number}" for t in sorted(trials, key=lambda t: t.loss)[1:21]} < names


@pytest.mark.parametrize("name", ["best-so-far", "slices"])
def test_every_dot_is_a_trial_at_its_own_score(name):
    trials, dotted = scored(24), set()
    for trace in DRAW[name](subject(trials)).figure.select_traces({"mode": "markers"}):
        if trace.name != "winner":
            dotted |= {*zip(trace.customdata, trace.y, strict=True)}
    assert dotted == {(t.number, t.score) for t in trials}


def test_each_cell_of_a_map_is_the_best_score_at_its_pair_of_values():
    numbers, names = [1, 10, 100], ["y", "x"]
    space = space_from_dict({"a": numbers, "b": {"choices": names}})
    rng = random.Random(1)
    trials = [trial(k, [rng.random()], at={"a": numbers[k % 3], "b": names[k % 2]}) for k in range(30)]
    contour, dots, _ = (figure := DRAW["contours"](subject(trials, space=space)).figure).data
    assert dots.marker.size == 4  # smaller than in the slices
    assert (list(figure.layout.xaxis.ticktext), list(figure.layout.yaxis.ticktext)) == (["1", "10", "100"], names)
    for (place, a), (height, b) in itertools.product(enumerate(numbers), enumerate(names)):
        best = max(t.score for t in trials if t.point == {"a": a, "b": b})
        assert contour.z[list(contour.y).index(height)][list(contour.x).index(place)] == best


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_parallel_coordinates_draw_a_line_a_trial_the_best_on_top(direction):
    trials = scored(40, direction=direction)
    *lines, scale = DRAW["parallel-coordinates"](subject(trials, direction=direction)).figure.data
    assert [line.meta for line in lines] == [t.number for t in sorted(trials, key=lambda t: -t.loss)]
    assert [line.line.color for line in lines].index(WINNER) == 39
    worst, best = min(t.score for t in trials), max(t.score for t in trials)
    assert (scale.marker.cmin, scale.marker.cmax) == (worst, best)
    scores = {t.number: t.score for t in trials}
    heights = [(scores[line.meta] - worst) / (best - worst) for line in lines]
    assert [line.y[0] for line in lines] == pytest.approx(heights)


def test_fold_spread_holds_every_fold_of_the_best_the_winner_first():
    ranked = sorted(scored(30, folds=3), key=lambda t: t.loss)
    winner = ranked[4]
    *folds, means = DRAW["fold-spread"](subject(ranked, winner=winner)).figure.data
    order = [winner, *(t for t in ranked if t is not winner)][:15]
    assert [name.split(" ")[0] for name in means.x] == [str(t.number) for t in order]
    for index, fold in enumerate(folds):
        assert list(fold.y) == [t.outcomes[index].metrics["score"] for t in order]
    assert list(means.y) == pytest.approx([t.score for t in order])


TWO = Goal({"score": "maximize", "size": "minimize"})
THREE = Goal({"score": "maximize", "size": "minimize", "latency": "minimize"}, (Limit("size", 0.7),))


def test_three_metrics_have_a_panel_for_each_pair_and_each_trial_is_in_every_one():
    trials = of_several(40, THREE, folds=3)
    drawn = subject(trials, goal=THREE)
    content = DRAW["front"](drawn)
    axes = zip(content.figure.select_xaxes(), content.figure.select_yaxes(), strict=True)
    score, size, latency = "score (maximize)", "size (minimize)", "latency (minimize)"
    assert {(x.title.text, y.title.text) for x, y in axes} == {(size, score), (latency, score), (latency, size)}
    complete = {trial.number for trial in trials if trial.state == "complete"}
    for panel in {trace.xaxis for trace in content.figure.data}:
        by_name = {trace.name: trace.customdata for trace in content.figure.data if trace.xaxis == panel}
        assert {*itertools.chain(*by_name.values())} == complete
        assert set(by_name["exceeds a limit"]) == {t.number for t in trials if t.excess > 0}
        assert set(by_name["front"]) == {t.number for t in front(trials)}
        assert by_name["winner"] == (drawn.winner.number,)
    lines = [(s.x0, s.x1) if "domain" in s.yref else (s.y0, s.y1) for s in content.figure.layout.shapes]
    assert lines == [(0.7, 0.7)] * 2


@pytest.mark.parametrize(("strategy", "is_compared"), [("random", True), ("evolutionary", False)])
def test_the_figure_of_the_hypervolume_has_a_random_search_beside_it_where_draws_are_independent(strategy, is_compared):
    content = DRAW["hypervolume"](subject(of_several(40, TWO), goal=TWO, strategy=strategy))
    line = next(trace for trace in content.figure.data if trace.name == "this search")
    assert (list(line.y), line.x[-1]) == (sorted(line.y), 40)
    assert any(trace.name == "random search, on average" for trace in content.figure.data) == is_compared
    assert ("independent draws" in content.caption) != is_compared
