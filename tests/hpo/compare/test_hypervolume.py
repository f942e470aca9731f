"""Searches by several metrics, and with limits, as one number each; what they attain; and the file that keeps them."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from hpo.compare.curves import FinishedSearch
from hpo.compare.hypervolume import Yardstick, attainment
from hpo.compare.result import Budget, Measure, compare_strategies
from hpo.compare.searches import Searches
from hpo.errors import StudyError
from hpo.report.figures.attainment import draw_attainment
from hpo.trials.goal import Goal, Limit

TWO = Goal({"accuracy": "maximize", "size": "minimize"})
THREE = Goal({"accuracy": "maximize", "size": "minimize", "latency": "minimize"})
LIMITED = replace(TWO, limits=[Limit("memory", 8.0)])


def made_up(label, repeats, shift=0.0, metrics=2, limited=False):
    """Return searches of 12 trials whose losses are random, better by `shift`; every fifth failed."""
    found = []
    for repeat in range(repeats):
        rng = np.random.default_rng(repeat)
        losses, excess = rng.uniform(0, 1, (12, metrics)) ** 2 - shift, rng.uniform(-1, 1, 12).clip(min=0)
        losses[4::5] = math.inf
        others = tuple(map(tuple, losses[:, 1:].tolist()))
        over = tuple((excess * np.isfinite(losses[:, 0])).tolist()) if limited else (0.0,) * 12
        found.append(FinishedSearch(label, repeat, repeat, (*losses[:, 0].tolist(),), (1.5,) * 12, False, others, over))
    return found


def one(losses, others, excess=()):
    return FinishedSearch("a", 0, 0, losses, (1.0,) * len(losses), False, tuple((other,) for other in others), excess)


@pytest.mark.parametrize("goal", [TWO, THREE], ids=["two", "three"])
def test_a_regret_is_between_0_and_1_never_rises_and_all_trials_together_have_none(goal):
    searches = made_up("a", 3, metrics=len(goal.metrics), limited=True)
    yardstick = Yardstick.of(goal, searches)
    for search in searches:
        regrets = list(yardstick.measured(search).losses)
        assert 1 >= regrets[0] >= regrets[-1] >= 0
        assert regrets == sorted(regrets, reverse=True)
        first = search.keeps_limits.argmax()
        assert (regrets[:first], regrets[first] < 1) == ([1.0] * first, True)
    columns = ("losses", "other_losses", "excess")
    of_all = {name: tuple(itertools.chain(*(getattr(search, name) for search in searches))) for name in columns}
    assert yardstick.measured(replace(searches[0], **of_all)).losses[-1] == pytest.approx(0, abs=1e-12)


def test_a_trial_over_the_limits_is_a_trial_without_a_result():
    search = one((-0.9, -0.8, -0.99), (5.0, 4.0, 1.0), (0.0, 0.0, 0.2))
    without = one((-0.9, -0.8, math.inf), (5.0, 4.0, math.inf), (0.0, 0.0, 0.0))
    a, b = (Yardstick.of(LIMITED, [each]).measured(each).losses for each in (search, without))
    assert a == b
    assert [search.over_at(n, "trials") for n in (1, 2, 3)] == [0, 0, pytest.approx(1 / 3)]
    single = replace(Goal({"loss": "minimize"}), limits=LIMITED.limits)
    over = FinishedSearch("a", 0, 0, (2.0, 1.0), (1.0, 1.0), excess=(0.0, 0.5))
    assert Measure.of(single, [over]).measured(over).losses == (2.0, math.inf)
    never = one((-0.9,), (5.0,), (0.1,))
    nothing = Yardstick.of(LIMITED, [never])
    assert nothing.measured(never).losses == (1.0,)
    assert any("No search has a complete trial within the limits" in note for note in nothing.notes())


def test_a_point_is_attained_by_the_searches_that_have_a_trial_as_good_in_both():
    searches = [*made_up("a", 5), one((math.inf,), (math.inf,))]
    stairs = attainment(searches, TWO)
    assert list(stairs) == ["25", "50", "75"]
    assert Yardstick.of(TWO, [*searches, one((), ())]).whole == Yardstick.of(TWO, searches).whole
    for level, corners in stairs.items():
        losses = np.array(corners) * (-1, 1)
        assert (np.diff(losses, axis=0) * (1, -1) > 0).all()
        for place in np.random.default_rng(0).uniform(0, 1, (200, 2)):
            share = sum((search.losses_within_limits <= place).all(axis=1).any() for search in searches) / len(searches)
            assert (losses <= place).all(axis=1).any() == (100 * share >= int(level)), (level, share)
    (front,) = attainment(searches[:1], TWO).values()
    assert {tuple(row) for row in np.array(front) * (-1, 1)} <= {tuple(row) for row in searches[0].losses_within_limits}


def test_attainment_is_drawn_of_two_metrics_to_the_worse_ends_of_the_axes_and_of_no_more():
    def compared(goal):
        a, b = (made_up(label, 6, shift, len(goal.metrics)) for label, shift in (("a", 0.0), ("b", 0.5)))
        measure, budget = Measure.of(goal, [*a, *b]), Budget(12, "trials")
        return compare_strategies("c", {"a": a, "b": b}, measure, [budget], {"a": {}, "b": {}})

    figure, three = draw_attainment(compared(TWO)), compared(THREE)
    x, y = figure.layout.xaxis.range, figure.layout.yaxis.range
    lines = {line.name: [*zip(line.x, line.y, strict=True)] for line in figure.data if line.name}
    assert {name: (line[-1][0], line[0][1]) for name, line in lines.items()} == dict.fromkeys("ab", (min(x), max(y)))
    steps = [step for line in lines.values() for step in itertools.pairwise(line)]
    assert all(before[0] == after[0] or before[1] == after[1] for before, after in steps)
    assert draw_attainment(three) is None
    assert any("drawn only for two metrics; here there are 3" in note for note in three["notes"])


@pytest.mark.parametrize("goal", [TWO, LIMITED, Goal({"m": "minimize"}), Goal({"m": "maximize"}, [Limit("n", 1.0)])])
def test_a_finished_search_is_read_as_it_was_written(tmp_path, goal):
    searches = made_up("a", 3, metrics=len(goal.metrics), limited=bool(goal.limits))
    if len(goal.metrics) == 1:
        searches = [replace(each, other_losses=(), excess=() if goal.is_single else each.excess) for each in searches]
    for search in searches:
        Searches(tmp_path / "searches.csv", goal).append(search)
    assert list(Searches(tmp_path / "searches.csv", goal).finished.values()) == searches
    head = (tmp_path / "searches.csv").read_text().partition("\n")[0]
    more = "" if goal.is_single else ",other_scores,excess"
    assert head == f"strategy,repeat,seed,best,is_partial,scores,seconds{more}"


@pytest.mark.parametrize("row", ["a,0", "a,x,0,1,False,[1],[1]", "a,0,0,1,False,[1,[1]", "a,0,0,1,False,[1],1"])
def test_a_line_that_describes_no_search_is_named(tmp_path, row):
    path = tmp_path / "searches.csv"
    path.write_text(f"strategy,repeat,seed,best,is_partial,scores,seconds\n{row}\n")
    with pytest.raises(StudyError, match=rf"{path}:2: must describe a finished search; remove the line"):
        Searches(path, Goal({"m": "minimize"}))
