"""After a search by amounts the best trials are fully trained, and the winner is one of them."""

import json
import math
from pathlib import Path

import pytest

from hpo.compare.studies import read_studies
from hpo.errors import StudyError
from hpo.session.session import run_study
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.study.reproduce.again import reproduce
from hpo.study.reproduce.recorded import read_files, read_recorded
from hpo.study.results.after_search import trials_to_finish
from hpo.study.winner.training import expected_at_end
from hpo.trials.trial import Outcome, Proposal
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, STRATEGIES, prepared, rows, toy_config

CONTINUES = True
# Layers whose full training fails.
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


def run(folder, config, dispatcher=None):
    study = prepared(folder, config)
    record = open_study(study)
    try:
        result = run_study(study, record, dispatcher or LocalDispatcher(str(REPOSITORY)), None)
        return result, record.trials(), Notes(record)
    finally:
        record.close()


@pytest.mark.parametrize(("trials", "name"), [(2, "successive_halving"), (5, "asha"), (9, "hyperband")])
def test_the_winner_is_a_full_training_whatever_the_budget(tmp_path, name, trials):
    found = run(tmp_path / "toy", tree(trials, name))[0].run
    full = [trial for trial in found.trials if trial.amount == 8]
    assert len({trial.key for trial in full}) >= min(3, trials)
    assert found.winner.amount == 8
    assert found.winner.score == max(trial.score for trial in full)
    assert {trial.amount for trial in found.searched} <= {1, 2, 8}
    # Their states are those of the search, which keeps them.
    lines = [line.split() for line in (tmp_path / "toy" / "trained.txt").read_text().splitlines()]
    assert {done for state, done, _ in lines if state.endswith("_full")} <= {"1", "2"}
    for trial in found.further_trained:
        epochs = [point["epoch"] for point in trial.outcomes[0].curve]
        assert epochs == sorted(set(epochs))


def several(limit, **changes):
    config = tree(**changes) | {"objective": f"{__name__}:late_and_large"}
    config["study"] |= {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"size": limit}}
    return config


def test_with_several_metrics_the_front_within_the_limits_is_fully_trained(tmp_path):
    found = run(tmp_path / "toy", several(15, trials=9))[0].run
    full = [trial for trial in found.trials if trial.amount == 8]
    within = [trial.number for trial in full if trial.keeps_limits]
    assert found.winner in found.front
    assert len(within) >= min(3, sum(trial.keeps_limits for trial in found.searched))
    # At the end more layers are better and larger: none is dominated.
    assert {trial.number for trial in found.front} == set(within)


def test_points_within_the_limits_are_fully_trained_before_those_that_were_trained_further(tmp_path):
    study = prepared(tmp_path / "toy", several(15))
    record = open_study(study)
    for number, (count, amount) in enumerate([(16, 8), (30, 8), (20, 2), (9, 1), (10, 2), (4, 1)]):
        record.open_trial(number, Proposal({"toy.layers": count}, amount))
        record.add_outcome(number, 0, Outcome({"score": float(count), "size": float(count)}))
    first, *others = (trial.number for trial in trials_to_finish(study.config, record))
    assert (first, {*others}) == (4, {3, 5})
    record.close()


def test_everything_names_the_same_trial_and_full_trainings_have_their_own_time(tmp_path):
    result, searched, _ = run(tmp_path / "toy", tree(5))
    found, report = result.run, json.loads((tmp_path / "toy" / "report.json").read_text())
    winner = found.winner
    assert searched[winner.number].amount < 8
    (row,) = [row for row in rows(tmp_path / "toy" / "trials.csv") if row["number"] == str(winner.number)]
    assert (row["amount"], float(row["score"])) == ("8", winner.score)
    assert (report["winner"]["number"], report["winner"]["amount"]) == (winner.number, 8)
    assert [trial["amount"] for trial in report["top"][:3]] == [8, 8, 8]
    assert sorted(report["counts"]["further_trained"]) == [trial.number for trial in found.further_trained]
    assert "trained to 8 of 8" in (tmp_path / "toy" / "report.md").read_text()
    curve = [point["epoch"] for point in winner.outcomes[0].curve]
    assert curve == list(range(searched[winner.number].trained + 1, 9))
    began, search_ended = min(trial.started for trial in searched), max(trial.ended for trial in searched)
    for before, after in ((searched[trial.number], trial) for trial in found.further_trained):
        assert after.started == before.started
        assert after.ended > search_ended
        assert after.seconds > before.seconds
    assert report["cost"]["training_seconds"] == pytest.approx(sum(trial.seconds for trial in found.trials))
    assert report["best_so_far"]["seconds"][-1]["seconds"] > search_ended - began
    full = [trial.number for trial in searched if trial.amount == 8]
    steps = [step["trial"] for step in report["best_so_far"]["trials"]]
    assert steps[: len(set(steps) & set(full))] == [number for number in steps if number in full]


@pytest.mark.slow
def test_full_trainings_continue_from_the_states_of_the_search_and_change_nothing_else(tmp_path):
    """A comparison counts them after the search; they are reproduced; a larger budget gives the same trials."""
    small, searched, _ = run(tmp_path / "cut", tree(5))
    trained = [line.split() for line in (tmp_path / "cut" / "trained.txt").read_text().splitlines()]
    assert {(found, end) for state, found, end in trained if state.endswith("_full")} == {("1", "8"), ("2", "8")}
    assert not list((tmp_path / "cut" / "states").glob("*_full"))
    run(tmp_path / "other", tree(3) | {"study": tree(3)["study"] | {"name": "other"}})
    study, _ = read_studies([str(tmp_path / "cut"), str(tmp_path / "other")])
    further, losses = len(small.run.further), study.search.losses
    in_search = [-trial.score for trial in searched if trial.amount == 8]
    assert [loss for loss in losses[:-further] if math.isfinite(loss)] == in_search
    assert min(losses[-further:]) == min(-trial.score for trial in small.run.further_trained)
    recorded = read_recorded(read_files(prepared(tmp_path / "cut", tree(5)).folder))
    assert [one.holds(0.0) for one in reproduce(recorded, "all", None, lambda _: None)] == [True] * len(searched)

    large, after, _ = run(tmp_path / "cut", tree(20))
    _, whole, _ = run(tmp_path / "whole", tree(20))
    assert [(t.key, t.amount, t.score) for t in after] == [(t.key, t.amount, t.score) for t in whole]
    full = [trial.key for trial in large.run.trials if trial.amount == 8]
    assert {trial.key for trial in small.run.further} <= {*full}
    assert (len(full), large.run.winner.score >= small.run.winner.score) == (len(set(full)), True)


@pytest.mark.slow
def test_an_interrupted_full_training_continues_and_no_finished_one_is_repeated(tmp_path):
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
    again = (tmp_path / "toy" / "trained.txt").read_text().removeprefix(before).splitlines()
    assert [line.split()[1:] for line in again] == [["8", "8"], *[["1", "8"]] * (len(again) - 1)]
    assert result.run.winner.amount == 8


@pytest.mark.slow
def test_the_next_trial_replaces_one_whose_full_training_fails_and_continues_from_its_state(tmp_path):
    expected = run(tmp_path / "sound", tree(14))[0].run.further
    FAULT.write_text(json.dumps([trial.point["toy.layers"] for trial in expected]))
    result, searched, _ = run(tmp_path / "toy", tree(14))
    found = result.run
    assert len(found.further) == len(expected)
    assert {trial.number for trial in found.further}.isdisjoint(trial.number for trial in expected)
    assert all(found.trials[failed.number] == searched[failed.number] for failed in expected)
    assert [trial.trained for trial in found.further] == [searched[trial.number].amount for trial in found.further]
    assert (found.is_trained, found.winner.amount) == (True, 8)
    assert not list((tmp_path / "toy" / "states").glob("*_full"))


def test_without_its_state_a_full_training_starts_again_with_its_own_curve(tmp_path, monkeypatch):
    monkeypatch.setattr("hpo.study.winner.training.copy_tree", lambda *_: None)
    result, _, _ = run(tmp_path / "toy", tree(5))
    for trial in result.run.further_trained:
        assert [point["epoch"] for point in trial.outcomes[0].curve] == list(range(1, 9))
        assert trial.score == trial.point["toy.layers"] * 5.0
    assert prepared(tmp_path / "toy", tree(5)).done(result.run.history) == "5 of 5 configurations"


def test_a_budget_of_trials_ends_with_the_search_and_a_caution(tmp_path):
    config = tree(5)
    config["strategy"]["counts"] = "trials"
    result, searched, _ = run(tmp_path / "toy", config)
    assert (len(searched), result.run.further_trained) == (5, [])
    assert result.run.winner.amount < 8
    cautions = json.loads((tmp_path / "toy" / "report.json").read_text())["cautions"]
    assert any("was trained to only 2 of 8" in caution and "hpo extend" in caution for caution in cautions)


@pytest.mark.parametrize(("name", "settings", "trials", "expected"), [
    ("asha", {}, 18, 2), ("asha", {}, 8, 0), ("successive_halving", {}, 20, 2), ("successive_halving", {}, 8, 0),
    ("successive_halving", {"points": 6, "keep": 2}, 15, 4), ("hyperband", {}, 9 + 5 + 2, 1 + 1 + 2),
])  # fmt: skip
def test_the_first_lines_say_how_many_trials_to_expect_at_the_full_amount(tmp_path, name, settings, trials, expected):
    study = prepared(tmp_path / "toy", tree(trials, name, **settings))
    assert f"about {expected} of {trials} configurations will reach 8 in the search" in expected_at_end(study)


def test_the_search_is_reported_although_the_final_training_fails(tmp_path, monkeypatch):
    def fail(*_):
        raise StudyError("final training of trial 3 failed: no memory")

    monkeypatch.setattr("hpo.session.session.make_final_model", fail)
    with pytest.raises(StudyError, match="no memory"):
        run(tmp_path / "toy", toy_config(trials=5))
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert report["counts"]["proposed"] == 5
    assert (tmp_path / "toy" / "trials.csv").exists()
