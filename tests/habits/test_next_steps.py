"""The next step that is printed is one that works."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import hpo
from hpo.show.terminal import Terminal
from hpo.study.ledger import write_opening
from hpo.study.opening import read_study
from hpo.study.preparing.preparation import known_study
from hpo.study.winner.verdict import read_verdict
from tests.hpo.cli.commands import refused
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
        assert "'trained' was given from Python and is kept in the folder of its study alone; train the winner" in says
        assert 'with `hpo.load("mine").train()` in Python' in says
    assert [path.name for path in Path("runs").iterdir()] == ["mine"]


def refusal_of(study):
    with pytest.raises(hpo.HpoError) as refusal:
        hpo.train(config_file=str(study.folder / "best.yaml"))
    return str(refusal.value)


def test_one_that_is_trained_to_its_end_is_not_extended_and_what_to_do_is_said():
    study = found(of_a_notebook(), space=SPACE, name="mine", trials=2)
    with pytest.raises(hpo.HpoError, match=r'trained to their end.*hpo\.load\("mine"\)\.train\(\)'):
        study.extend(best=1)


@pytest.mark.parametrize("has_test", [True, False])
def test_the_first_of_the_next_steps_is_announced(capsys, has_test):
    found(of_a_notebook(), space=SPACE, name="mine", trials=2)
    study = known_study("mine")
    tracked = study.config.model_copy(update={"track": study.config.track.model_copy(update={"name": "mlflow"})})
    study = replace(
        study, config=tracked, plan=SimpleNamespace(parts={"test": {"fingerprint": "f"}}) if has_test else None
    )
    record = read_study(study)
    summary = {"counts": {}, "cost": {"wall_seconds": None}}
    report = SimpleNamespace(summary=summary, paths=[study.folder.path / "report.html"])
    result = SimpleNamespace(verdict=read_verdict(study, record), report=report, is_tracked=True, untried=0)
    Terminal().conclude(study, result)
    *_, before, last = capsys.readouterr().out.splitlines()
    if has_test:
        assert (before, last) == ("next:   hpo test mine      (opens the test part, once)", "        hpo ui")
        write_opening(study.folder, {"study": "another", "time": "2026-11-27", "fingerprint": "f"})
        Terminal().conclude(study, result)
        assert "next:   hpo test mine --again      (opens the test part once more" in capsys.readouterr().out
    else:
        assert last == "next:   hpo ui"
    record.close()


def test_without_a_complete_trial_there_is_none_to_train():
    def fails(config):
        raise ValueError(f"no {config}")

    found(fails, space=SPACE, name="failed", trials=2)
    with pytest.raises(hpo.HpoError):
        hpo.load("failed").train()
