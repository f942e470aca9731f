"""The default configuration: scored on the test split where it exists, and tried first however a search is given."""

import json
from pathlib import Path

import pytest

import hpo
from tests.hpo.cli.commands import hpo as command

pytestmark = pytest.mark.slow


def searched(space, config=None):
    def score(config, trial):
        Path(trial.checkpoint_dir).mkdir(parents=True, exist_ok=True)
        if trial.resume_dir and trial.number < 0:
            Path("state_of_default").write_text(str(trial.resume_dir))
        return {"score": (config["lr"] or 0.5) * (config.get("width") or 1)}

    train = hpo.objective(
        score, describe_data=lambda config: {"size": 40, "name": "numbers"}, run_test=score, continues=True
    )
    settings = {"track": "none", "dispatch": "local", "split.folds": 1, "report.figures": False}
    hpo.search(train, space, trials=2, direction="minimize", name="s", config=config, settings=settings).test()
    return json.loads(Path("runs/s/report.json").read_text())


@pytest.mark.parametrize(("space", "config", "missing"), [
    ({"lr": [0.6, 0.7]}, None, "lr"), ({"lr": [0.6, 0.7], "width": [1, 2]}, {"lr": 0.6}, "width"),
])  # fmt: skip
def test_a_default_that_does_not_exist_is_not_scored(space, config, missing):
    report = searched(space, config)
    assert json.loads(Path("runs/s/test.json").read_text())["default"] is None
    why = report["baselines"]["default"]["missing"]
    assert why.startswith(f"there is no default configuration: {missing} has no default")
    assert report["overtuning"]["default_on_test"] == {"missing": why}
    assert not [text for text in report["cautions"] if "overtuned" in text]


@pytest.mark.parametrize(("space", "config", "score", "is_outside"), [
    ({"lr": [0.6, 0.7]}, {"lr": 0.5}, 0.5, True),
    ({"lr": {"values": [0.6, 0.7, 0.8], "default": 0.7}}, None, 0.7, False),
    # None is a value, as in scikit-learn's `max_depth`.
    ({"lr": {"choices": [None, 0.7, 0.8]}}, {"lr": None}, 0.5, False),
])  # fmt: skip
def test_a_default_is_scored(space, config, score, is_outside):
    report = searched(space, config)
    assert "/runs/" not in Path("state_of_default").read_text(), "states there belong to the search"
    assert report["overtuning"]["default_on_test"]["default"] == score
    assert is_outside == ("outside of the space: lr=0.5" in Path("runs/s/report.md").read_text())
    assert config != {"lr": None} or report["baselines"]["default"]["number"] == 0


@pytest.mark.parametrize(("words", "is_first"), [([], True), (["space.first=[]"], False)])
def test_the_default_of_a_command_line_is_tried_first(capsys, words, is_first):
    module = f"typed_with_{len(words)}"  # a process imports one module of a name
    Path(f"{module}.py").write_text("def f(config):\n    return config['lr']\n")
    space = "space.lr={low: 0.0, high: 1.0}"
    typed = ["search", f"objective={module}:f(config)", "+lr=0.25", space, *words, "study.trials=1", "track=none"]
    assert command(capsys, *typed, "dispatch=local")[::2] == (0, "")
    assert (hpo.load("f").best.point["lr"] == 0.25) == is_first
