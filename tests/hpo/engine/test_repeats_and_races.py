"""More than one training a point: repeats, races of folds, finalists on fresh seeds, imported trials."""

import csv
import json
import statistics

import pytest

from hpo.errors import HpoError
from hpo.session.session import run_study
from hpo.study.opening import open_study, read_study
from hpo.study.results.run import StudyRun
from hpo.trials.history import History
from hpo.workers.dispatch.local import LocalDispatcher
from tests.end_to_end.test_same_trials import Replaying
from tests.studies import ORDERED, REPOSITORY, STRATEGIES, prepared, rows, run_toy, toy_config


def with_study(tree, **changes):
    return tree | {"study": tree["study"] | changes}


def folds_config(race_after=None):
    """Return a study with five folds."""
    tree = toy_config("random", ORDERED, 12, "tests.toy_data:noisy")
    return tree | {"split": tree["split"] | {"folds": 5, "race_after": race_after}}


def test_repeats_train_each_fold_with_other_seeds_and_the_score_is_their_mean(tmp_path):
    seen = run_toy(tmp_path / "a", with_study(toy_config(trials=4), repeats=3))
    assert [name for name in seen[0] if name.startswith("fold")] == [f"fold_0_repeat_{r}" for r in range(3)]
    for row in seen:
        if row["state"] == "complete":
            values = [float(row[f"fold_0_repeat_{r}"]) for r in range(3)]
            assert len(set(values)) == 3
            assert float(row["score"]) == pytest.approx(statistics.fmean(values))
    single = run_toy(tmp_path / "b", toy_config(trials=4))
    assert [row["fold_0"] for row in single] == [row["fold_0_repeat_0"] for row in seen]


@pytest.mark.slow
def test_a_race_saves_folds_of_trials_that_are_clearly_behind_and_keeps_the_winner(tmp_path):
    whole = run_toy(tmp_path / "whole", folds_config())
    raced = run_toy(tmp_path / "raced", folds_config(race_after=2))
    stopped = [row for row in raced if row["state"] == "stopped"]
    assert 0 < len(stopped) < len(raced)
    assert all(row["fold_1"] and not row["fold_2"] for row in stopped)
    best = max((row for row in whole if row["score"]), key=lambda row: float(row["score"]))
    assert next(row for row in raced if row["number"] == best["number"])["score"] == best["score"]
    report = json.loads((tmp_path / "raced" / "report.json").read_text())
    assert report["counts"]["tasks_saved"] == 3 * len(stopped)


@pytest.mark.slow
def test_a_race_ends_the_same_in_any_order_of_finishing_and_under_a_budget_raised_later(tmp_path):
    reference = run_toy(tmp_path / "reference", folds_config(race_after=2))
    shuffled = run_toy(tmp_path / "shuffled", folds_config(race_after=2), Replaying(0))
    assert shuffled == reference
    tree = folds_config(race_after=2)
    run_toy(tmp_path / "raised", with_study(tree, trials=5), Replaying(0))
    assert run_toy(tmp_path / "raised", tree, Replaying(0)) == reference


@pytest.mark.slow
def test_the_winner_is_chosen_among_the_finalists_on_fresh_seeds(tmp_path):
    study = prepared(tmp_path / "s", with_study(toy_config(trials=12), finalists=4, finalist_repeats=2))
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    known = StudyRun.of(study, record).finalists
    assert [f.trial.number for f in known] == [t.number for t in record.history().ranked(4)]
    for finalist in known:
        # Repeats 1 and 2: the search itself had repeat 0.
        assert sorted(finalist.again.outcomes) == [1, 2]
        fresh = [outcome.metrics["score"] for outcome in finalist.again.outcomes.values()]
        assert finalist.again.score == pytest.approx(statistics.fmean(fresh))
        assert finalist.trial.score not in fresh
    winner = StudyRun.of(study, record).winner
    assert winner.number == max(known, key=lambda f: f.again.score).trial.number
    assert json.loads((tmp_path / "s" / "report.json").read_text())["winner"]["number"] == winner.number
    # A second run finds everything done.
    before = [f.again.outcomes for f in known]
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    assert [f.again.outcomes for f in StudyRun.of(study, record).finalists] == before


@pytest.mark.slow
def test_imported_trials_teach_the_strategy_and_cost_no_budget(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old = run_toy(tmp_path / "runs" / "old", toy_config("evolutionary", trials=12))
    tree = with_study(toy_config("evolutionary", trials=8), name="new", imports="old")
    study = prepared(tmp_path / "runs" / "new", tree)
    assert [t.number for t in study.imports.trials] == list(range(-12, 0))
    new = run_toy(tmp_path / "runs" / "new", tree)
    assert len(new) == 8
    points = {tuple(v for k, v in row.items() if k.startswith("toy.")) for row in old}
    assert not points & {tuple(v for k, v in row.items() if k.startswith("toy.")) for row in new}
    # The first round has children of the imported best, not a first population at random.
    plain = prepared(tmp_path / "plain", toy_config("evolutionary", trials=8))
    assert [t["toy.layers"] for t in new] != [str(p["toy.layers"]) for p in plain.strategy.propose(History(), [])]
    # What was imported is in the record: the other study may go.
    (tmp_path / "runs" / "old" / "trials.csv").unlink()
    more = run_toy(tmp_path / "runs" / "new", with_study(tree, trials=12))
    assert more[:8] == new
    assert rows(tmp_path / "runs" / "new" / "trials.csv") == more


@pytest.mark.slow
def test_imports_of_trials_outside_of_the_space_or_of_another_metric_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_toy(tmp_path / "runs" / "old", toy_config(trials=3))
    other = with_study(toy_config(), imports="old", metric="accuracy")
    with pytest.raises(HpoError, match="has the metrics score: "):
        prepared(tmp_path / "new", other)
    elsewhere = with_study(toy_config(space={"toy": {"layers": [70], "width": [8], "lr": [0.1]}}), imports="old")
    with pytest.raises(HpoError, match="none of the 3 trials"):
        prepared(tmp_path / "new", elsewhere)
    table = tmp_path / "few.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["state", "score"], ["complete", "1.0"]])
    with pytest.raises(HpoError, match="has no column 'toy"):
        prepared(tmp_path / "new", with_study(toy_config(), imports=str(table)))


@pytest.mark.slow
def test_halving_repeats_folds_and_races_work_together(tmp_path):
    strategy = STRATEGIES["successive_halving"] | {"counts": "trials"}
    tree = with_study(folds_config(race_after=3), repeats=2, trials=14)
    tree |= {"strategy": strategy, "objective": "tests.toy_data:noisy_continued"}
    reference = run_toy(tmp_path / "a", tree)
    assert "failed" not in {row["state"] for row in reference}
    assert "stopped" in {row["state"] for row in reference}
    amounts = {}
    for row in reference:
        amounts.setdefault(tuple(v for k, v in row.items() if k.startswith("toy.")), []).append(row)
    assert any(len(rungs) > 1 for rungs in amounts.values())
    # Nothing goes on after it was stopped.
    assert all(row["state"] == "complete" for rungs in amounts.values() for row in rungs[:-1])
    assert run_toy(tmp_path / "b", tree, Replaying(1)) == reference


def test_an_objective_that_cannot_continue_is_refused_for_halving(tmp_path):
    with pytest.raises(HpoError, match="CONTINUES"):
        prepared(tmp_path, toy_config("hyperband", objective="tests.plain:score"))


@pytest.mark.slow
def test_a_rival_that_fails_on_a_later_fold_stops_nobody(tmp_path):
    tree = folds_config(race_after=2) | {"objective": "tests.toy_data:best_but_fails"}
    seen = run_toy(tmp_path / "s", tree)
    assert any(row["state"] == "failed" for row in seen)
    assert any(row["state"] == "complete" for row in seen)


def test_a_stopped_trial_ranks_behind_every_complete_one(tmp_path):
    study = prepared(tmp_path / "s", folds_config(race_after=2))
    run_toy(tmp_path / "s", folds_config(race_after=2))
    record = read_study(study)
    states = [trial.state for trial in record.history().ranked()]
    record.close()
    assert states == sorted(states)
    assert {"complete", "stopped"} == set(states)


@pytest.mark.nightly
def test_a_whole_number_in_a_range_of_fractions_is_the_same_point_when_it_is_read_back(tmp_path):
    space = {"toy": {"momentum": {"low": 0.0, "high": 2.0}, "layers": {"choices": [0, 1, False]}}}
    tree = toy_config(space=space | {"first": [{"toy.momentum": 1, "toy.layers": False}]}, trials=2)
    tree |= {"objective": "tests.toy:constant"}
    run_toy(tmp_path / "s", tree)
    assert len(run_toy(tmp_path / "s", with_study(tree, trials=6))) == 6


@pytest.mark.nightly
def test_dimensions_in_another_order_are_another_study(tmp_path):
    run_toy(tmp_path / "s", toy_config(trials=2))
    turned = {"toy": dict(reversed(ORDERED["toy"].items()))}
    with pytest.raises(HpoError, match="another order"):
        run_toy(tmp_path / "s", toy_config(space=turned, trials=4))
    assert len(run_toy(tmp_path / "s", toy_config(trials=4))) == 4


@pytest.mark.nightly
def test_of_a_study_by_amounts_the_longest_trained_trials_are_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    strategy = STRATEGIES["successive_halving"] | {"counts": "trials"}
    old = run_toy(tmp_path / "runs" / "old", toy_config(strategy, trials=7, objective="tests.toy:continued"))
    study = prepared(tmp_path / "new", with_study(toy_config(objective="tests.toy:continued"), imports="old"))
    assert [trial.score for trial in study.imports] == [float(r["score"]) for r in old if r["amount"] == "4"]
