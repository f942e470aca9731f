"""The default configuration: scored on the test part where there is one, and tried first however a search is given."""

import json
from pathlib import Path

import pytest

import hpo
from tests.hpo.cli.commands import hpo as command

DATA = {"size": 40, "name": "numbers"}


def searched(space, config=None):
    """Search a function that uses 0.5 where it gets no rate, and score it on the test part."""

    def score(config, trial):
        Path(trial.checkpoint_dir).mkdir(parents=True, exist_ok=True)
        return {"score": (config["lr"] or 0.5) * (config.get("width") or 1)}

    train = hpo.objective(score, describe_data=lambda config: DATA, run_test=score)
    settings = {"track": "none", "dispatch": "local", "split.folds": 1}
    study = hpo.search(train, space, trials=2, direction="minimize", name="s", config=config, settings=settings)
    study.test()
    return json.loads(Path("runs/s/report.json").read_text()), study


@pytest.mark.parametrize(
    ("space", "config", "missing"),
    [({"lr": [0.6, 0.7]}, None, "lr"), ({"lr": [0.6, 0.7], "width": [1, 2]}, {"lr": 0.6}, "width")],
)
def test_a_default_that_does_not_exist_is_not_scored(space, config, missing):
    """The objective may train with None: that is no configuration of anybody."""
    report, study = searched(space, config)
    assert json.loads(Path("runs/s/test.json").read_text())["default"] is None
    why = f"there is no default configuration: {missing} has no default and no value outside of the space"
    assert report["baselines"]["default"] == report["overtuning"]["default_on_test"] == {"missing": why}
    assert not [text for text in report["cautions"] if "overtuned" in text]
    assert f"{why[0].upper()}{why[1:]}." in Path("runs/s/report.md").read_text()
    study.report(latex=True)
    assert "Default configuration" not in Path("runs/s/tables.tex").read_text()


def test_a_default_outside_of_the_space_is_scored_and_said_to_be():
    report, _ = searched({"lr": [0.6, 0.7]}, {"lr": 0.5})
    assert report["overtuning"]["default_on_test"]["default"] == 0.5
    assert "The default configuration is outside of the space: lr=0.5 is not" in Path("runs/s/report.md").read_text()


def test_a_default_of_the_space_itself_is_what_is_scored():
    report, _ = searched({"lr": {"values": [0.6, 0.7, 0.8], "default": 0.7}})
    assert report["overtuning"]["default_on_test"]["default"] == 0.7


def test_none_is_a_default_where_it_is_one_of_the_choices():
    """As scikit-learn's `max_depth`."""
    report, _ = searched({"lr": {"choices": [None, 0.7, 0.8]}}, {"lr": None})
    assert report["overtuning"]["default_on_test"]["default"] == 0.5
    assert report["baselines"]["default"]["number"] == 0


@pytest.mark.parametrize(("words", "is_first"), [([], True), (["space.first=[]"], False)])
def test_the_default_of_a_command_line_is_tried_first(capsys, words, is_first):
    module = f"typed_with_{len(words)}"  # a process imports one module of a name
    Path(f"{module}.py").write_text("def f(config):\n    return config['lr']\n")
    space = "space.lr={low: 0.0, high: 1.0}"
    typed = ["search", f"objective={module}:f(config)", "+lr=0.25", space, *words, "study.trials=1", "track=none"]
    assert command(capsys, *typed, "dispatch=local")[::2] == (0, "")
    assert (hpo.load("f").best.point["lr"] == 0.25) == is_first
