"""Successive halving and Hyperband: the brackets, and which points go on."""

import numpy as np
import pytest

from hpo.engine.observers import CheckpointPruner
from hpo.engine.schedule.proposer import propose
from hpo.engine.strategies import make_strategy
from hpo.trials.fronts import best_first
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.studies import shipped

ONE = Goal({"score": "maximize"})
SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}})


def rungs(name, num_rounds, goal=ONE, **settings):
    """Return (amount, number of points) of each round; the larger x is the better, and the smaller its size."""
    given = shipped(name) | {"min_amount": 1, "eta": 3, "counts": "trials"} | settings
    strategy = make_strategy(given, SPACE, 0)
    history, seen = History(), []
    for number in range(num_rounds):
        proposals = propose(strategy, history)
        seen.append((proposals[0].amount, len(proposals)))
        trials = [
            Trial(len(history) + i, number, p.point, amount=p.amount, continues=p.continues, trained=p.trained)
            for i, p in enumerate(proposals)
        ]
        values = ({"score": t.point["x"], "size": t.point["x"] * 97 % 1} for t in trials)
        history = history.extended(finished(t, {0: Outcome(v)}, goal) for t, v in zip(trials, values, strict=True))
    return seen, history


def test_one_in_eta_goes_on_each_time_the_best_and_from_where_it_stopped():
    seen, history = rungs("successive_halving", 6, max_amount=9)
    assert seen == [(1, 9), (3, 3), (9, 1)] * 2
    first, second, third = ([t for t in history if t.round == r] for r in range(3))
    best = sorted(first, key=lambda t: -t.point["x"])[:3]
    assert [(t.continues, t.trained) for t in second] == [(t.number, 1) for t in best]
    assert [(t.continues, t.trained) for t in third] == [(second[0].number, 3)]


@pytest.mark.parametrize("limits", [(), (Limit("size", 0.5),)])
def test_with_several_metrics_the_first_fronts_go_on_within_the_limits_first(limits):
    _, history = rungs("successive_halving", 6, Goal({"score": "maximize", "size": "minimize"}, limits), max_amount=9)
    for number in (0, 1, 3, 4):
        before, after = ([t for t in history if t.round == r] for r in (number, number + 1))
        kept = [trial for trial in before if trial.keeps_limits]
        order = [kept[place] for place in best_first(np.array([trial.losses for trial in kept]))] if kept else []
        order += sorted((trial for trial in before if not trial.keeps_limits), key=lambda trial: trial.excess)
        assert [t.continues for t in after] == [t.number for t in order[: len(after)]]


def test_of_a_rung_whose_trainings_share_no_place_nobody_goes_on():
    strategy = make_strategy(shipped("successive_halving") | {"min_amount": 3, "max_amount": 9}, SPACE, 0)
    first = strategy.propose(History(), [])

    def known(every):
        trials = []
        for number, proposal in enumerate(first):
            curve = [{"epoch": place, "s": number / place} for place in range(every(number), 4, every(number))]
            trial = Trial(number, 0, proposal.point, amount=3)
            trials.append(finished(trial, {0: Outcome({"s": 1.0}, curve)}, Goal({"s": "minimize"})))
        return strategy.propose(History(trials), [])

    assert {proposal.continues for proposal in known(lambda number: 2 + number % 2)} == {None}
    assert known(lambda number: 1 + 2 * (number % 2))[0].continues == 0


def test_one_epoch_keeps_the_best_few_to_the_end():
    seen, history = rungs("successive_halving", 5, max_amount=9, points=7, keep=2)
    assert seen == [(1, 7), (9, 2), (1, 7), (9, 2), (1, 7)]
    first, second = ([t for t in history if t.round == r] for r in range(2))
    best = sorted(first, key=lambda t: -t.point["x"])[:2]
    assert [(t.continues, t.trained) for t in second] == [(t.number, 1) for t in best]
    with pytest.raises(ValueError, match="must be below the number of points"):
        rungs("successive_halving", 1, max_amount=9, points=3, keep=3)


@pytest.mark.parametrize(
    ("max_amount", "starts"),
    [(9, [(1, 9), (3, 5), (9, 3)]), (10, [(1, 27), (3, 6), (10, 4)]), (15, [(1, 27), (5, 6), (15, 4)])],
)
def test_hyperbands_brackets_take_turns_whatever_the_largest_amount(max_amount, starts):
    _, history = rungs("hyperband", 14, max_amount=max_amount)
    rounds = {trial.round: [t for t in history if t.round == trial.round] for trial in history}
    begun = [(trials[0].amount, len(trials)) for trials in rounds.values() if trials[0].trained == 0]
    assert begun[:3] == starts
    assert begun[3] == starts[0]


def test_the_model_that_is_kept_is_that_of_the_longest_training(tmp_path):
    keeper = CheckpointPruner(tmp_path, 1, History())
    for number, amount in ((0, 1), (1, 3)):
        (tmp_path / f"trial_{number:04d}").mkdir()
        trial = Trial(number, number, {"x": 0.5}, amount=amount)
        keeper.trial_finished(finished(trial, {0: Outcome({"score": 1.0})}, Goal({"score": "maximize"})))
    assert [path.name for path in tmp_path.iterdir()] == ["trial_0001"]


def test_the_winners_model_stays_when_others_were_trained_to_their_end_before_it_was(tmp_path):
    def trained(number, amount, score):
        trial = Trial(number, 0, {"x": number / 10}, amount=amount)
        return finished(trial, {0: Outcome({"score": score})}, Goal({"score": "maximize"}))

    for number in range(3):
        (tmp_path / f"trial_{number:04d}").mkdir()
    keeper = CheckpointPruner(tmp_path, 1, History([trained(2, 1, 0.9)]))
    keeper.trials_finished([trained(1, 3, 0.8), trained(2, 3, 0.95)])
    assert not (tmp_path / "trial_0001").exists()
    assert (tmp_path / "trial_0002").exists()
    # Chosen by another rule than the score.
    keeper.trials_finished([trained(0, 3, 0.5)], needed=[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial_0000", "trial_0002"]
