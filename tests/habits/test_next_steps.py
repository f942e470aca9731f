"""The next step that is printed is one that works."""

import json
from pathlib import Path

import pytest

import hpo
from hpo.study.files.folder import StudyFolder
from hpo.study.test_log import write_evaluation
from tests.hpo.cli.commands import QUICK, refused
from tests.hpo.cli.commands import hpo as hpo_says
from tests.hpo.commands.searched import found, noted
from tests.hpo.commands.searched import note as write_down

SPACE = {"lr": [0.5, 0.25]}


def of_a_notebook():
    """Return a function that no module has."""

    def trained(config, trial):
        trial.report(epoch=1, score=config["lr"] / 2)
        write_down(config)
        return {"score": config["lr"], "other": 3.0}

    return trained


@pytest.mark.slow
def test_the_winner_of_a_function_is_trained_once_more_as_the_report_says(capsys):
    study = found(of_a_notebook(), space=SPACE, config={"width": 8}, name="mine", trials=2)
    text = (study.folder / "report.md").read_text()
    assert 'hpo.load("mine").train()' in text
    assert "hpo train --config" not in text
    capsys.readouterr()
    assert hpo.load("mine").train() == {"score": 0.5, "other": 3.0}
    assert "epoch 1  score 0.25" in capsys.readouterr().out
    assert noted()[-1] == {"lr": 0.5, "width": 8}
    assert study.train(progress=False)["score"] == 0.5
    assert capsys.readouterr().out == ""


def test_its_best_yaml_is_refused_with_what_works_instead(capsys):
    study = found(of_a_notebook(), space=SPACE, name="mine", trials=2)
    for says in (refused(capsys, "train", "--config", str(study.folder / "best.yaml")), refusal_of(study)):
        assert "objective: 'trained' was given from Python" in says
        assert 'train the winner in Python with `hpo.load("mine").train()`' in says
    assert [path.name for path in Path("runs").iterdir()] == ["mine"]


def refusal_of(study):
    with pytest.raises(hpo.HpoError) as refusal:
        hpo.train(config_file=str(study.folder / "best.yaml"))
    return str(refusal.value)


def test_one_that_is_trained_to_its_end_is_not_extended_and_what_to_do_is_said():
    study = found(of_a_notebook(), space=SPACE, name="mine", trials=2)
    with pytest.raises(hpo.HpoError, match=r'fully trained.*hpo\.load\("mine"\)\.train\(\)'):
        study.extend(best=1)


def test_the_next_steps_that_are_announced_are_those_that_are_shown(capsys):
    code, out, _ = hpo_says(capsys, "search", *QUICK, "study.name=quick")
    steps = [line[8:] for line in out.partition("\nnext:")[2].join(["next:", ""]).splitlines()]
    assert (code, steps[0].split("   ")[0]) == (0, "hpo test quick")
    shown = hpo_says(capsys, "show", "quick")[1]
    assert all(step in shown for step in steps)
    parts = json.loads(Path("runs/quick/described.json").read_text())["split"]["parts"]
    opening = {"study": "another", "time": "2026-11-27", "fingerprint": parts["test"]["fingerprint"]}
    write_evaluation(StudyFolder(Path("runs/quick")), opening)
    assert "hpo test quick --again " in hpo_says(capsys, "show", "quick")[1]


def test_without_a_complete_trial_there_is_none_to_train():
    def fails(config):
        raise ValueError(f"no {config}")

    found(fails, space=SPACE, name="failed", trials=2)
    with pytest.raises(hpo.HpoError):
        hpo.load("failed").train()
