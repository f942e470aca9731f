"""`hpo extend`: trains the best trials with other settings, from their states or anew, and compares the scores."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from hpo.errors import HpoError
from hpo.study.extension import choose_trials, extension_of
from hpo.trials.history import History
from tests.studies import STRATEGIES, config_from_dict, prepared, read_study, refuses, run_toy, toy_config

pytestmark = pytest.mark.slow

CONTINUES = True
CONTINUES_WITH = ("toy.epochs",)


def by_epochs(task):
    """Each epoch adds more if fewer are planned, so that a continued training differs from a new one."""
    toy, state = task["config"]["toy"], Path(task["resume_dir"]) / "state.json"
    scores = json.loads(state.read_text()) if state.exists() else [0.0]
    found, wanted = len(scores) - 1, task["amount"] or toy["epochs"]
    for epoch in range(task["trained"] + 1, wanted + 1):
        if epoch > found:
            scores.append(scores[-1] + toy["layers"] / toy["epochs"])
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps(scores))
        yield {"epoch": epoch, "score": scores[epoch]}
    return {"score": scores[-1], "trained": wanted - found}


def tree(strategy="random", **study):
    config = toy_config(strategy, {"toy": {"layers": [1, 2, 3, 4, 5]}}, 5, f"{__name__}:by_epochs")
    config["toy"] |= {"epochs": 2}
    config["study"] |= study
    return config


def extended(folder, config, best=2, numbers=(), **changes):
    study = prepared(folder, config)
    given = {**config, **{name: {**config[name], **values} for name, values in changes.items()}}
    with closing(read_study(study)) as record:
        trials = choose_trials(study, record.history(), best, numbers)
        return extension_of(study, trials, config_from_dict(given)).to_dict()


def trained(folder, config):
    with closing(read_study(prepared(folder, config))) as record:
        return [trial.outcomes[0].metrics["trained"] for trial in record.trials()]


def test_the_best_are_trained_anew_with_their_points_and_seeds_and_compared_with_their_scores(tmp_path):
    config = tree(stop_without_gain=1000)
    run_toy(tmp_path / "old", config)
    rows = run_toy(tmp_path / "new", extended(tmp_path / "old", config, toy={"epochs": 4, "always": 2}))
    assert [(row["toy.layers"], float(row["score"])) for row in rows] == [("5", 5.0), ("4", 4.0)]
    extends = json.loads((tmp_path / "new" / "report.json").read_text())["study"]["extends"]
    assert extends["changes"] == {"toy.epochs": [2, 4], "toy.always": [1, 2]}
    compared = [(t["score_before"], t["score"], t["gain"], t["continued"]) for t in extends["trials"]]
    assert compared == [(5.0, 5.0, 0.0, False), (4.0, 4.0, 0.0, False)]


def test_halved_trials_continue_from_their_states_with_the_same_result_if_those_are_gone(tmp_path):
    halved = tree(STRATEGIES["asha"] | {"max_amount": 2, "eta": 2}, trials=8)
    run_toy(tmp_path / "old", halved)
    other = extended(tmp_path / "old", halved, best=8, toy={"epochs": 4, "always": 3})
    points = [point["toy.layers"] for point in other["space"]["first"]]
    assert len(points) == len(set(points)) == other["study"]["trials"]
    assert not any(trial["continues"] for trial in other["study"]["extends"]["trials"])
    rows = run_toy(tmp_path / "full", extended(tmp_path / "old", halved, best=8))
    assert [float(row["score"]) for row in rows] == [float(row["toy.layers"]) for row in rows]
    with pytest.raises(HpoError, match="are fully trained, and you changed no training setting"):
        extended(tmp_path / "old", halved, best=1)
    longer = extended(tmp_path / "old", halved, toy={"epochs": 4})
    rows = run_toy(tmp_path / "new", longer)
    assert float(rows[0]["score"]) == float(rows[0]["toy.layers"]) * (2 / 2 + 2 / 4)
    assert trained(tmp_path / "new", longer) == [2.0, 2.0]
    shutil.rmtree(tmp_path / "old" / "states")
    assert run_toy(tmp_path / "again", longer) == rows


def test_changes_that_make_scores_incomparable_are_refused_in_one_line(tmp_path):
    run_toy(tmp_path / "old", tree())
    longer = {"toy": {"epochs": 9}}
    for changes, words in (
        ({}, r"you changed no training setting; change one, such as training\.epochs=60"),
        ({"toy": {"layers": 9}}, r"toy\.layers: is searched, so every trial keeps its own value"),
        (longer | {"study": {"seed": 3}}, r"study\.seed: would make new scores incomparable"),
        (longer | {"study": {"trials": 50}}, r"study\.trials: has no effect"),
        (longer | {"split": {"folds": 3}}, r"split\.folds: would make new scores incomparable"),
    ):
        refuses(HpoError, words, extended, tmp_path / "old", tree(), **changes)
    refuses(HpoError, "no trial is complete", choose_trials, prepared(tmp_path / "new", tree()), History(), 2, ())


def test_a_stopped_trial_is_trained_to_the_end_from_where_it_was_stopped(tmp_path):
    config = tree(trials=10, stop_rule="median", lanes=1) | {"space": {"toy": {"layers": list(range(1, 11))}}}
    config["toy"]["epochs"] = 4
    before = run_toy(tmp_path / "old", config)
    stopped = [int(row["number"]) for row in before if row["state"] == "stopped"][:2]
    assert stopped
    further = extended(tmp_path / "old", config, numbers=stopped)
    rows = run_toy(tmp_path / "new", further)
    assert [float(row["score"]) for row in rows] == [float(before[n]["toy.layers"]) for n in stopped]
    assert all(epochs < 4 for epochs in trained(tmp_path / "new", further))
    refuses(HpoError, "has no finished trial 99 with a score", extended, tmp_path / "old", config, numbers=[99])
