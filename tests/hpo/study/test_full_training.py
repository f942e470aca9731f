"""After a search by amounts its best are trained to their end, and the winner is one of them."""

import csv
import json
import math
from pathlib import Path

import pytest

from hpo.compare.studies import read_studies
from hpo.session.session import run_study
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.study.reproduce.again import reproduce
from hpo.study.reproduce.recorded import read_files, read_recorded
from hpo.study.results.after_search import trials_to_finish
from hpo.study.winner.training import expected_at_end
from hpo.trials.trial import Outcome, Proposal
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, STRATEGIES, prepared, toy_config

CONTINUES = True
# Layers of which a training to the end fails.
FAULT = Path("fault.json")


def late(task):
    """The more layers, the worse at first and the better in the end."""
    layers, state = task["config"]["toy"]["layers"], Path(task["resume_dir"]) / "epochs.txt"
    found, end = int(state.read_text()) if state.exists() else 0, task["amount"] or 8
    state.parent.mkdir(parents=True, exist_ok=True)
    name = state.parents[1].name
    with (state.parents[3] / "trained.txt").open("a") as file:
        file.write(f"{name} {found} {end}\n")
    if FAULT.exists() and name.endswith("_full") and layers in json.loads(FAULT.read_text()):
        raise ValueError("out of memory")
    for epoch in range(task["trained"] + 1, end + 1):
        state.write_text(str(max(epoch, found)))
        yield {"epoch": epoch, "score": layers * (epoch - 3.0)}
    return {"score": layers * (end - 3.0)}


def late_and_large(task):
    """As `late`, and the more layers, the larger."""
    return {**(yield from late(task)), "size": float(task["config"]["toy"]["layers"])}


def tree(trials=9, name="asha", **settings):
    strategy = STRATEGIES[name] | {"max_amount": 8, "eta": 3} | settings
    config = toy_config(strategy, {"toy": {"layers": list(range(1, 31))}}, trials, f"{__name__}:late")
    config["study"] |= {"lanes": 2}
    return config


def run(folder, config, dispatcher=None, tracker=None):
    study = prepared(folder, config)
    record = open_study(study)
    try:
        result = run_study(study, record, dispatcher or LocalDispatcher(str(REPOSITORY)), tracker)
        return result, record.trials(), Notes(record)
    finally:
        record.close()


def rows(folder):
    with (folder / "trials.csv").open() as file:
        return {row["number"]: row for row in csv.DictReader(file)}


@pytest.mark.quick("2-successive_halving", "5-asha", "9-hyperband")
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["asha", "successive_halving", "hyperband"])
@pytest.mark.parametrize("trials", [1, 2, 5, 9])
def test_the_winner_is_a_full_training_whatever_the_budget(tmp_path, name, trials):
    result, _, _ = run(tmp_path / "toy", tree(trials, name))
    verdict = result.run
    full = [trial for trial in verdict.trials if trial.amount == 8]
    assert len({trial.key for trial in full}) >= min(3, trials)
    assert verdict.winner.amount == 8
    assert verdict.winner.score == max(trial.score for trial in full)
    assert {trial.amount for trial in verdict.searched} <= {1, 2, 8}


def several(limit, **changes):
    config = tree(**changes) | {"objective": f"{__name__}:late_and_large"}
    config["study"] |= {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"size": limit}}
    return config


def test_with_several_metrics_what_is_trained_to_its_end_is_the_front_within_the_limits(tmp_path):
    verdict = run(tmp_path / "toy", several(15, trials=9))[0].run
    full = [trial for trial in verdict.trials if trial.amount == 8]
    assert verdict.front
    assert verdict.winner in verdict.front
    assert len([trial for trial in full if trial.keeps_limits]) >= min(3, sum(t.keeps_limits for t in verdict.searched))
    assert set(map(id, verdict.front)) <= set(map(id, full))
    # To the end, more layers are better and larger: none is dominated.
    assert {trial.number for trial in verdict.front} == {trial.number for trial in full if trial.keeps_limits}


def test_points_within_the_limits_come_before_those_that_were_trained_further(tmp_path):
    study = prepared(tmp_path / "toy", several(15))
    record = open_study(study)
    layers = [(16, 8), (30, 8), (20, 2), (9, 1), (10, 2), (4, 1)]
    for number, (count, amount) in enumerate(layers):
        record.open_trial(number, Proposal({"toy.layers": count}, amount))
        record.add_outcome(number, 0, Outcome({"score": float(count), "size": float(count)}))
    assert [trial.number for trial in trials_to_finish(study.config, record)][:1] == [4]
    assert {trial.number for trial in trials_to_finish(study.config, record)} == {3, 4, 5}
    record.close()


def test_everything_names_the_same_trial_and_how_far_it_was_trained(tmp_path):
    result, searched, _ = run(tmp_path / "toy", tree(5))
    winner = result.run.winner
    assert searched[winner.number].amount < 8
    row = rows(tmp_path / "toy")[str(winner.number)]
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert (row["amount"], float(row["score"])) == ("8", winner.score)
    assert (report["winner"]["number"], report["winner"]["amount"]) == (winner.number, 8)
    assert [trial["amount"] for trial in report["top"][:3]] == [8, 8, 8]
    assert sorted(report["counts"]["further_trained"]) == [trial.number for trial in result.run.further_trained]
    assert "trained to 8 of 8" in (tmp_path / "toy" / "report.md").read_text()
    curve = [point["epoch"] for point in winner.outcomes[0].curve]
    assert curve == list(range(searched[winner.number].trained + 1, 9))


def test_what_follows_the_search_has_its_own_time_and_comes_after_it(tmp_path):
    result, searched, _ = run(tmp_path / "toy", tree(5))
    verdict, report = result.run, json.loads((tmp_path / "toy" / "report.json").read_text())
    search_ended = max(trial.ended for trial in searched)
    assert verdict.further
    for before, after in ((searched[trial.number], trial) for trial in verdict.further_trained):
        assert after.started == before.started
        assert after.ended > search_ended
        assert after.seconds > before.seconds
    assert report["cost"]["training_seconds"] == pytest.approx(sum(trial.seconds for trial in verdict.trials))
    began = min(trial.started for trial in searched)
    assert report["best_so_far"]["seconds"][-1]["seconds"] > search_ended - began
    full = [trial.number for trial in searched if trial.amount == 8]
    steps = [step["trial"] for step in report["best_so_far"]["trials"]]
    assert steps[: len(set(steps) & set(full))] == [number for number in steps if number in full]


@pytest.mark.nightly
def test_a_comparison_counts_what_follows_the_search_after_it(tmp_path):
    result, searched, _ = run(tmp_path / "toy", tree(5))
    other = tree(3)
    other["study"]["name"] = "other"
    run(tmp_path / "other", other)
    study, _ = read_studies([str(tmp_path / "toy"), str(tmp_path / "other")])
    further = len(result.run.further)
    inside = [-trial.score for trial in searched if trial.amount == 8]
    assert [loss for loss in study.search.losses[:-further] if math.isfinite(loss)] == inside
    assert min(study.search.losses[-further:]) == min(-trial.score for trial in result.run.further_trained)


@pytest.mark.slow
def test_it_goes_on_from_the_states_of_the_search_and_leaves_them_to_it(tmp_path):
    run(tmp_path / "cut", tree(5))
    trained = [line.split() for line in (tmp_path / "cut" / "trained.txt").read_text().splitlines()]
    assert {(found, end) for state, found, end in trained if state.endswith("_full")} == {("1", "8"), ("2", "8")}
    assert not list((tmp_path / "cut" / "states").glob("*_full"))
    _, after, _ = run(tmp_path / "cut", tree(20))
    _, whole, _ = run(tmp_path / "whole", tree(20))
    assert [(t.key, t.amount, t.score) for t in after] == [(t.key, t.amount, t.score) for t in whole]
    assert rows(tmp_path / "cut").keys() == rows(tmp_path / "whole").keys()


def test_what_was_interrupted_goes_on_and_nothing_finished_is_trained_again(tmp_path):
    class Dies(LocalDispatcher):
        left = 1

        def wait(self, timeout=None):
            reports = super().wait(timeout)
            is_further = any(r.outcome and r.task.payload.resume_dir.endswith("_full") for r in reports)
            if is_further and not self.left:
                raise KeyboardInterrupt
            self.left -= is_further
            return reports

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "toy", tree(5), Dies(str(REPOSITORY)))
    before = (tmp_path / "toy" / "trained.txt").read_text()
    result, _, _ = run(tmp_path / "toy", tree(5))
    again = (tmp_path / "toy" / "trained.txt").read_text().removeprefix(before).split("\n")
    assert [line.split()[1:] for line in again if line] == [["8", "8"], *[["1", "8"]] * (len(again) - 2)]
    assert result.run.winner.amount == 8


@pytest.mark.slow
def test_what_was_trained_is_not_forgotten_with_a_larger_budget(tmp_path):
    small, _, _ = run(tmp_path / "toy", tree(5))
    large, searched, _ = run(tmp_path / "toy", tree(20))
    before = {trial.key for trial in small.run.further}
    by_search = {trial.key for trial in searched if trial.amount == 8}
    assert before - by_search <= {trial.key for trial in large.run.further}
    assert large.run.winner.score >= small.run.winner.score
    full = [trial.key for trial in large.run.trials if trial.amount == 8]
    assert len(full) == len(set(full))


@pytest.mark.slow
def test_in_the_place_of_one_that_fails_comes_the_next_and_its_result_in_the_search_stays(tmp_path):
    expected, _, _ = run(tmp_path / "sound", tree(9))
    failing = expected.run.further[0]
    FAULT.write_text(json.dumps([failing.point["toy.layers"]]))
    result, searched, _ = run(tmp_path / "toy", tree(9))
    verdict = result.run
    assert failing.number not in {trial.number for trial in verdict.further}
    assert verdict.trials[failing.number] == searched[failing.number]
    assert len(verdict.further) == len(expected.run.further)
    assert verdict.is_trained
    assert verdict.winner.amount == 8


@pytest.mark.slow("asha")
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["asha", "successive_halving", "hyperband"])
def test_what_comes_in_the_place_of_one_that_failed_goes_on_from_its_state(tmp_path, name):
    expected, _, _ = run(tmp_path / "sound", tree(14, name))
    FAULT.write_text(json.dumps([trial.point["toy.layers"] for trial in expected.run.further]))
    result, searched, _ = run(tmp_path / "toy", tree(14, name))
    further = result.run.further
    assert further
    assert {trial.number for trial in further}.isdisjoint(trial.number for trial in expected.run.further)
    assert [trial.trained for trial in further] == [searched[trial.number].amount for trial in further]
    assert not list((tmp_path / "toy" / "states").glob("*_full"))


def test_states_that_halving_needs_no_more_are_there_for_the_training_to_the_end(tmp_path):
    result, _, _ = run(tmp_path / "toy", tree(14, "successive_halving"))
    lines = [line.split() for line in (tmp_path / "toy" / "trained.txt").read_text().splitlines()]
    assert {found for state, found, _ in lines if state.endswith("_full")} <= {"1", "2"}
    for trial in result.run.further_trained:
        epochs = [point["epoch"] for point in trial.outcomes[0].curve]
        assert epochs == sorted(set(epochs))


def test_without_its_state_a_training_begins_anew_and_has_its_own_curve(tmp_path, monkeypatch):
    monkeypatch.setattr("hpo.study.winner.training.copy_tree", lambda *_: None)
    result, _, _ = run(tmp_path / "toy", tree(5))
    for trial in result.run.further_trained:
        assert [point["epoch"] for point in trial.outcomes[0].curve] == list(range(1, 9))
        assert trial.score == trial.point["toy.layers"] * 5.0
    assert prepared(tmp_path / "toy", tree(5)).done(result.run.history) == "5 of 5 configurations"


@pytest.mark.slow
def test_a_trial_that_was_trained_to_its_end_is_reproduced(tmp_path):
    result, _, _ = run(tmp_path / "toy", tree(5))
    recorded = read_recorded(read_files(prepared(tmp_path / "toy", tree(5)).folder))
    repetitions = reproduce(recorded, "all", None, lambda _: None)
    assert len(repetitions) == len(result.run.history)
    assert all(one.holds(0.0) for one in repetitions)


def test_a_budget_of_trials_ends_with_the_search_and_says_what_that_means(tmp_path):
    config = tree(5)
    config["strategy"]["counts"] = "trials"
    result, searched, _ = run(tmp_path / "toy", config)
    assert len(searched) == 5
    assert not result.run.further_trained
    assert result.run.winner.amount < 8
    cautions = json.loads((tmp_path / "toy" / "report.json").read_text())["cautions"]
    assert any("was trained to only 2 of 8" in caution and "hpo extend" in caution for caution in cautions)


@pytest.mark.parametrize(("name", "settings", "trials", "expected"), [
    ("asha", {}, 18, 2), ("asha", {}, 8, 0), ("successive_halving", {}, 20, 2), ("successive_halving", {}, 8, 0),
    ("successive_halving", {"points": 6, "keep": 2}, 15, 4), ("hyperband", {}, 9 + 5 + 2, 1 + 1 + 2),
])  # fmt: skip
def test_the_first_lines_say_how_many_are_expected_to_be_trained_to_the_end(tmp_path, name, settings, trials, expected):
    study = prepared(tmp_path / "toy", tree(trials, name, **settings))
    assert f"about {expected} of {trials} configurations will reach 8 in the search" in expected_at_end(study)
