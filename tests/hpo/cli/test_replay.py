"""`hpo search --replay`: the whole search again, compared trial by trial."""

from pathlib import Path

import yaml

from tests.hpo.cli.commands import hpo
from tests.studies import toy_config


def searched(capsys):
    Path("toy.yaml").write_text(yaml.safe_dump(toy_config("evolutionary", trials=9)))
    assert hpo(capsys, "search", "--config", "toy.yaml")[0] == 0
    return Path("runs/toy/trials.csv")


def test_a_search_comes_out_the_same(capsys):
    path = searched(capsys)
    code, out, _ = hpo(capsys, "search", "--replay", "toy")
    assert (code, f"replayed: all 9 trials are those of {path}" in out) == (0, True)
    assert Path("runs/toy-replay/trials.csv").exists()


def test_a_trial_that_differs_is_named_and_the_exit_code_is_1(capsys):
    path = searched(capsys)
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace(",complete,", ",failed,")
    path.write_text("\n".join(lines) + "\n")
    code, out, _ = hpo(capsys, "search", "--replay", "toy")
    assert code == 1
    assert "trial 3 differs in state" in out
    assert "not replayed: 1 of 9" in out


def test_a_study_that_is_not_there_is_refused(capsys):
    code, _, err = hpo(capsys, "search", "--replay", "nobody")
    assert (code, err.count("\n")) == (2, 1)
    assert "there is no 'nobody'" in err
