"""Failed trials again: the same point, amount and seed, outside of the budget, and known to resume and to a replay."""

from dataclasses import replace

import pytest

from hpo.commands.study import Study
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.opening import open_study
from hpo.study.reproduce.replay import read_added
from tests.studies import STRATEGIES, prepared, report_again, rows, run_toy, toy_config

FAULTS = {"above": 0.15}
SEEDS = {}
CONTINUES = True
GRID = STRATEGIES["grid"] | {"order": "lexicographic"}


def faulty(task):
    """Fail where the learning rate is above the fault's, as long as it is there."""
    lr = task["config"]["toy"]["lr"]
    SEEDS.setdefault(lr, []).append(task["seed"])
    if lr > FAULTS["above"]:
        raise ValueError("the code has a fault")
    for epoch in range((task["trained"] or 0) + 1, (task["amount"] or 3) + 1):
        yield {"epoch": epoch, "score": lr * epoch}


@pytest.fixture(autouse=True)
def _fault():
    FAULTS["above"] = 0.15
    SEEDS.clear()


def study_of(folder, settings=GRID, trials=12):
    space = {"toy": {"lr": [0.01, 0.1, 0.2, 0.3]}}
    config = toy_config(settings, space, trials=trials, objective=f"{__name__}:faulty")
    run_toy(folder, config)
    return config


def test_what_failed_is_tried_again_and_names_the_failed_trial(tmp_path):
    config = study_of(tmp_path / "study")
    study = Study(StudyFolder(tmp_path / "study"))
    assert any(step.command.startswith("hpo retry") for step in study.status.next)
    FAULTS["above"] = 1.0
    assert "retries of trials 2, 3, which use no budget" in study.retry().says
    with pytest.raises(StudyError, match="there is nothing to retry"):
        study.retry()
    assert study.status.retries == 2
    run_toy(tmp_path / "study", config)
    made = run_toy(tmp_path / "study", config)
    assert [(row["state"], row["retry_of"]) for row in made[2:]] == [
        ("failed", ""),
        ("failed", ""),
        ("complete", "2"),
        ("complete", "3"),
    ]
    assert all(len({*seeds}) == 1 for seeds in SEEDS.values()), "a retry has the seed of the failed training"
    assert (study.status.done, study.status.best.trial) == (4, 5), "a retry uses no budget, and may be the winner"
    assert study.show(4).to_dict()["retry_of"] == 2
    report = report_again(tmp_path / "study", config, has_page=False).summary
    again = prepared(tmp_path / "again", config)
    open_study(replace(again, added=read_added(report["added_points"], again.space))).close()
    run_toy(tmp_path / "again", config)
    states = [row["state"] for row in rows(tmp_path / "again" / "trials.csv")]
    assert states == ["complete"] * 6, "a replay repeats retries, whatever becomes of the trials that failed"


def test_it_is_tried_when_the_budget_is_used_up_and_the_budget_stays(tmp_path):
    config = study_of(tmp_path / "study", trials=3)
    study = Study(StudyFolder(tmp_path / "study"))
    FAULTS["above"] = 1.0
    answer = study.retry(2)
    assert answer.says == "a retry of trial 2, which uses no budget; `hpo resume study` continues"
    run_toy(tmp_path / "study", config)
    assert [row["retry_of"] for row in rows(tmp_path / "study" / "trials.csv")] == ["", "", "", "2"]
    run_toy(tmp_path / "study", config | {"study": config["study"] | {"trials": 4}})
    made = rows(tmp_path / "study" / "trials.csv")
    assert [row["toy.lr"] for row in made] == ["0.01", "0.1", "0.2", "0.2", "0.3"]


def test_to_add_a_point_that_failed_is_to_retry_it_and_others_are_refused(tmp_path):
    study_of(tmp_path / "study")
    study = Study(StudyFolder(tmp_path / "study"))
    with pytest.raises(StudyError, match="is already trial 1"):
        study.add({"toy.lr": 0.1})
    assert "a retry of trial 2" in study.add({"toy.lr": 0.2}).says
    with pytest.raises(StudyError, match="is already added"):
        study.add({"toy.lr": 0.2})
    for number, why in {0: "is complete", 2: "was already retried", 9: "does not exist"}.items():
        with pytest.raises(StudyError, match=f"trial {number} {why}; give a failed trial without a retry \\(3\\)"):
            study.retry(number)


@pytest.mark.parametrize("strategy", ["asha", "successive_halving"])
def test_a_retry_is_trained_as_far_and_rises_as_the_failed_one_might_have(tmp_path, strategy):
    settings = STRATEGIES[strategy] | {"min_amount": 1, "max_amount": 4, "eta": 2, "counts": "trials"}
    config = study_of(tmp_path / "study", settings, trials=4)
    before = rows(tmp_path / "study" / "trials.csv")
    failed = next(row for row in before if row["state"] == "failed")
    FAULTS["above"] = 1.0
    Study(StudyFolder(tmp_path / "study")).retry()
    run_toy(tmp_path / "study", config)
    retried = [row for row in rows(tmp_path / "study" / "trials.csv") if row["retry_of"] == failed["number"]]
    assert [(row["state"], row["amount"]) for row in retried] == [("complete", failed["amount"])]
