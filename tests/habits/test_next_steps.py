"""The next step that is printed is one that works."""

from pathlib import Path

import pytest

import hpo
from tests.hpo.cli.commands import QUICK, refused
from tests.hpo.cli.commands import hpo as command
from tests.hpo.commands.searched import found, note, noted


def searched(**given):
    def trained(config, trial):
        trial.report(epoch=1, score=config["lr"] / 2)
        note(config)
        return {"score": config["lr"], "other": 3.0}

    return found(trained, space={"lr": [0.5, 0.25]}, name="mine", trials=2, **given)


@pytest.mark.slow
def test_the_winner_of_a_function_is_trained_once_more_as_the_report_says(capsys):
    text = (searched(config={"width": 8}).folder / "report.md").read_text()
    assert 'hpo.load("mine").train()' in text
    assert "hpo train --config" not in text
    capsys.readouterr()
    assert hpo.load("mine").train() == {"score": 0.5, "other": 3.0}
    assert "epoch 1  score 0.25" in capsys.readouterr().out
    assert noted()[-1] == {"lr": 0.5, "width": 8}


def test_what_a_function_cannot_do_names_what_works_instead(capsys):
    study = searched()
    best = str(study.folder / "best.yaml")
    with pytest.raises(hpo.HpoError) as refusal:
        hpo.train(config_file=best)
    for says in (refused(capsys, "train", "--config", best), str(refusal.value)):
        assert "objective: 'trained' was given from Python" in says
        assert 'train the winner in Python with `hpo.load("mine").train()`' in says
    with pytest.raises(hpo.HpoError, match=r'fully trained.*hpo\.load\("mine"\)\.train\(\)'):
        study.extend(best=1)
    assert [path.name for path in Path("runs").iterdir()] == ["mine"]


@pytest.mark.slow
def test_the_next_steps_that_are_announced_are_those_that_are_shown(capsys):
    code, out, _ = command(capsys, "search", *QUICK, "study.name=quick", "study.trials=1", "split.folds=1")
    steps = [line.strip() for line in out.partition("\nnext:")[2].splitlines()]
    assert (code, steps[0].split("   ")[0]) == (0, "hpo test quick")
    shown = command(capsys, "show", "quick")[1]
    assert [step for step in steps if step not in shown] == [], shown
