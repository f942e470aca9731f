"""The figures of a front: they hold the trials' own numbers, and each of the other figures says what it is of."""

import numpy as np
import pytest
from scipy import stats

from hpo.report.figures import draw_figures
from hpo.report.figures.attainment import draw_hypervolume
from hpo.report.figures.front import draw_front
from hpo.report.figures.importance import draw_importance
from hpo.report.figures.parallel_coordinates import draw_parallel_coordinates
from hpo.report.part import Absent
from hpo.trials.goal import Goal, Limit
from hpo.trials.ranking import front, leaders
from tests.hpo.report.made_up import of_several, subject
from tests.hpo.report.recomputed import area

TWO = Goal({"score": "maximize", "size": "minimize"})
THREE = Goal({"score": "maximize", "size": "minimize", "latency": "minimize"}, (Limit("size", 0.7),))


def test_three_metrics_have_a_panel_for_each_pair_and_each_trial_is_in_every_one():
    trials = of_several(40, THREE, folds=3)
    drawn = subject(trials, goal=THREE)
    content = draw_front(drawn)
    panels = {}
    for trace in content.figure.data:
        panels.setdefault(trace.xaxis, []).append(trace)
    titles = {
        (x.title.text, y.title.text)
        for x, y in zip(content.figure.select_xaxes(), content.figure.select_yaxes(), strict=True)
    }
    assert titles == {
        ("size (minimize)", "score (maximize)"),
        ("latency (minimize)", "score (maximize)"),
        ("latency (minimize)", "size (minimize)"),
    }
    complete = {trial.number for trial in trials if trial.state == "complete"}
    for traces in panels.values():
        assert {number for trace in traces for number in trace.customdata} == complete
        by_name = {trace.name: trace for trace in traces}
        assert set(by_name["exceeds a limit"].customdata) == {t.number for t in trials if t.excess > 0}
        assert set(by_name["front"].customdata) == {t.number for t in front(trials)}
        assert by_name["winner"].customdata == (drawn.winner.number,)
    # Two panels have the size on an axis, and its limit is a line there.
    lines = {(s.x0, s.x1) if "domain" in s.yref else (s.y0, s.y1) for s in content.figure.layout.shapes}
    assert (len(content.figure.layout.shapes), lines) == (2, {(0.7, 0.7)})
    assert "size <= 0.7" in content.caption
    error = next(trace.error_y for trace in content.figure.data if trace.name == "front")
    first = front(trials)[-1]
    low, high = stats.t.interval(0.95, 2, loc=first.score, scale=stats.sem(first.values("score")))
    assert (error.arrayminus[0], error.array[0]) == pytest.approx((first.score - low, high - first.score))


def test_the_figure_of_the_hypervolume_ends_at_what_all_trials_have():
    trials = of_several(40, TWO)
    content = draw_hypervolume(subject(trials, goal=TWO))
    line = next(trace for trace in content.figure.data if trace.name == "this search")
    assert list(line.y) == sorted(line.y)
    assert line.x[-1] == 40
    kept = [trial for trial in trials if trial.keeps_limits]
    losses = np.array([trial.losses for trial in kept])
    assert line.y[-1] == pytest.approx(area(map(tuple, (losses - losses.min(0)) / np.ptp(losses, axis=0))))
    assert any(trace.name == "random search, on average" for trace in content.figure.data)
    refused = draw_hypervolume(subject(trials, goal=TWO, strategy="evolutionary"))
    assert "independent draws" in refused.caption
    assert not any(trace.name == "random search, on average" for trace in refused.figure.data)
    assert isinstance(draw_hypervolume(subject(of_several(5, Goal({"score": "maximize"})))), Absent)


def test_the_other_figures_are_of_the_leading_metric_or_of_each():
    trials = of_several(40, THREE)
    drawn = subject(trials, goal=THREE)
    names = [drawing.name for drawing in draw_figures(drawn)]
    assert names[:3] == ["front", "hypervolume", "best-so-far"]
    single = Goal({"score": "maximize"})
    assert draw_figures(subject(of_several(12, single), goal=single))[0].name == "best-so-far"
    panels = {note.text for note in draw_importance(drawn).figure.layout.annotations}
    assert {"score", "size", "latency"} <= panels
    labels = draw_parallel_coordinates(drawn).figure.layout.xaxis.ticktext
    assert list(labels[:3]) == ["score", "size", "latency"]
    assert drawn.in_order[0] is drawn.winner
    rest = [trial for trial in leaders(trials, 40) if trial not in front(trials)]
    assert drawn.in_order[len(front(trials)) :] == rest
