"""After a search by amounts the best trials are fully trained, and the winner is one of them."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from hpo.compare.studies import read_studies
from hpo.study.reproduce.again import reproduce
from hpo.study.reproduce.recorded import read_files, read_recorded
from hpo.study.winner import final_model
from hpo.study.winner.final_model import model_task
from hpo.study.winner.training import expected_at_end
from hpo.trials.trial import Outcome, TaskLayout
from tests import tracked
from tests.studies import STRATEGIES, Notes, prepared, rows, toy_config

pytestmark = pytest.mark.slow

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
    return {**(yield from late(task)), "size": float(task["config"]["toy"]["layers"])}


def tree(trials=9, name="asha", **settings):
    strategy = STRATEGIES[name] | {"max_amount": 8, "eta": 3} | settings
    config = toy_config(strategy, {"toy": {"layers": list(range(1, 31))}}, trials, f"{__name__}:late")
    config["study"] |= {"lanes": 2}
    return config


def run(folder, config):
    return tracked.run(prepared(folder, config)).run


@pytest.mark.parametrize(("trials", "name"), [(2, "successive_halving"), (5, "asha"), (9, "hyperband")])
def test_the_winner_is_a_full_training_whatever_the_budget(tmp_path, name, trials):
    study = prepared(tmp_path / "toy", tree(trials, name))
    found = tracked.run(study).run
    full = [trial for trial in found.trials if trial.amount == 8]
    assert len({trial.key for trial in full}) >= min(3, trials)
    assert (found.winner.amount, found.winner.score) == (8, max(trial.score for trial in full))
    assert {trial.amount for trial in found.searched} <= {1, 2, 8}
    # A final training on all folds gets the curves from the first report.
    builder = replace(study.task_builder(), plan=Mock(development=[]), layout=TaskLayout(2), checkpoints_dir=tmp_path)
    (curve,) = model_task(builder, found.winner, found.record).payload.curves
    assert [point["epoch"] for point in curve] == [*range(1, 9)]


def several(limit, **changes):
    config = tree(**changes) | {"objective": f"{__name__}:late_and_large"}
    config["study"] |= {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"size": limit}}
    return config


def test_with_several_metrics_the_front_within_the_limits_is_fully_trained(tmp_path):
    found = run(tmp_path / "toy", several(15, trials=9))
    full = [trial for trial in found.trials if trial.amount == 8]
    within = [trial.number for trial in full if trial.keeps_limits]
    assert found.winner in found.front
    assert len(within) >= min(3, sum(trial.keeps_limits for trial in found.searched))
    assert {trial.number for trial in found.front} == set(within)


def test_everything_names_the_same_trial_and_full_trainings_have_their_own_time(tmp_path):
    found = run(tmp_path / "toy", tree(5))
    winner, report = found.winner, json.loads((tmp_path / "toy" / "report.json").read_text())
    assert found.searched[winner.number].amount < 8
    (row,) = [row for row in rows(tmp_path / "toy" / "trials.csv") if row["number"] == str(winner.number)]
    assert (row["amount"], float(row["score"])) == ("8", winner.score)
    assert (report["winner"]["number"], report["winner"]["amount"]) == (winner.number, 8)
    assert sorted(report["counts"]["further_trained"]) == [trial.number for trial in found.further_trained]
    assert "trained to 8 of 8" in (tmp_path / "toy" / "report.md").read_text()
    began, search_ended = min(trial.started for trial in found.searched), max(trial.ended for trial in found.searched)
    assert report["best_so_far"]["seconds"][-1]["seconds"] > search_ended - began
    for before, after in ((found.searched[trial.number], trial) for trial in found.further_trained):
        assert after.started == before.started
        assert after.ended > search_ended
        assert after.seconds > before.seconds
        epochs = [point["epoch"] for point in after.outcomes[0].curve]
        assert epochs == list(range(before.trained + 1, 9))
    assert report["cost"]["training_seconds"] == pytest.approx(sum(trial.seconds for trial in found.trials))


def test_full_trainings_continue_from_the_states_of_the_search_and_change_nothing_else(tmp_path):
    small = run(tmp_path / "cut", tree(5))
    trained = [line.split() for line in (tmp_path / "cut" / "trained.txt").read_text().splitlines()]
    assert {(found, end) for state, found, end in trained if state.endswith("_full")} == {("1", "8"), ("2", "8")}
    assert not list((tmp_path / "cut" / "states").glob("*_full"))
    run(tmp_path / "other", tree(3) | {"study": tree(3)["study"] | {"name": "other"}})
    losses = read_studies([str(tmp_path / "cut"), str(tmp_path / "other")])[0].search.losses
    assert min(losses[-len(small.further) :]) == min(-trial.score for trial in small.further_trained)
    recorded = read_recorded(read_files(prepared(tmp_path / "cut", tree(5)).folder))
    assert [one.holds(0.0) for one in reproduce(recorded, "all", None, lambda _: None)] == [True] * len(small.searched)
    large, whole = run(tmp_path / "cut", tree(20)), run(tmp_path / "whole", tree(20))
    assert [(t.key, t.amount, t.score) for t in large.searched] == [(t.key, t.amount, t.score) for t in whole.searched]
    full = [trial.key for trial in large.trials if trial.amount == 8]
    assert {trial.key for trial in small.further} <= {*full}
    assert (len(full), large.winner.score >= small.winner.score) == (len(set(full)), True)


def test_an_interrupted_full_training_continues_and_no_finished_one_is_repeated(tmp_path, monkeypatch):
    written, calls = Notes.write_full_outcome, []

    def dies_at_the_second(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        written(*given)

    monkeypatch.setattr(Notes, "write_full_outcome", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "toy", tree(5))
    before = (tmp_path / "toy" / "trained.txt").read_text()
    found = run(tmp_path / "toy", tree(5))
    again = (tmp_path / "toy" / "trained.txt").read_text().removeprefix(before).splitlines()
    assert [line.split()[1:] for line in again] == [["8", "8"], *[["1", "8"]] * (len(again) - 1)]
    assert found.winner.amount == 8


def test_the_next_trial_replaces_one_whose_full_training_fails_and_continues_from_its_state(tmp_path):
    expected = run(tmp_path / "sound", tree(14)).further
    FAULT.write_text(json.dumps([trial.point["toy.layers"] for trial in expected]))
    found = run(tmp_path / "toy", tree(14))
    further, searched = found.further, found.searched
    assert len(further) == len(expected)
    assert {trial.number for trial in further}.isdisjoint(trial.number for trial in expected)
    assert all(found.trials[failed.number] == searched[failed.number] for failed in expected)
    assert [trial.trained for trial in further] == [searched[trial.number].amount for trial in further]
    assert (found.is_trained, found.winner.amount) == (True, 8)


def test_without_its_state_a_full_training_starts_again_with_its_own_curve(tmp_path, monkeypatch):
    monkeypatch.setattr("hpo.study.winner.training.copy_tree", lambda *_: None)
    for trial in run(tmp_path / "toy", tree(5)).further_trained:
        assert [point["epoch"] for point in trial.outcomes[0].curve] == list(range(1, 9))
        assert trial.score == trial.point["toy.layers"] * 5.0


def test_a_lost_model_of_a_full_training_leaves_the_state_of_the_search_unchanged(tmp_path, monkeypatch):
    found, tasks = run(tmp_path / "toy", tree(5)), []
    monkeypatch.setattr(final_model, "lacks_model", lambda *_: True)
    monkeypatch.setattr(final_model, "outcomes", lambda _, given, __: tasks.extend(given) or [(None, Outcome())])
    final_model.make_final_model(prepared(tmp_path / "toy", tree(5)), found, None, print)
    assert tasks[0].payload.resume_dir.endswith("_full")


def test_a_budget_of_trials_ends_with_the_search_and_a_caution(tmp_path):
    config = tree(5)
    config["strategy"]["counts"] = "trials"
    found = run(tmp_path / "toy", config)
    assert (len(found.searched), found.further_trained) == (5, [])
    assert found.winner.amount < 8
    cautions = json.loads((tmp_path / "toy" / "report.json").read_text())["cautions"]
    assert any("was trained to only 2 of 8" in caution and "hpo extend" in caution for caution in cautions)


@pytest.mark.parametrize(("name", "settings", "trials", "expected"), [
    ("asha", {}, 18, 2), ("asha", {}, 8, 0), ("successive_halving", {}, 20, 2),
    ("successive_halving", {"points": 6, "keep": 2}, 15, 4), ("hyperband", {}, 9 + 5 + 2, 1 + 1 + 2),
])  # fmt: skip
def test_the_first_lines_say_how_many_trials_to_expect_at_the_full_amount(tmp_path, name, settings, trials, expected):
    study = prepared(tmp_path / "toy", tree(trials, name, **settings))
    assert f"about {expected} of {trials} configurations will reach 8 in the search" in expected_at_end(study)
