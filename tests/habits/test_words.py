"""The toolkit's own words are hyperparameters and constants like any other."""

import json

import pytest

from tests.hpo.commands.searched import found, note, noted

# The names of sections, of what the toolkit's own objectives have, and of a dimension's fields.
WORDS = (
    *("training", "split", "strategy", "objective", "space", "report", "track", "dispatch", "study", "data", "model"),
    *("default", "when", "low", "values", "first", "require", "choices", "objective_config", "seed", "config", "notes"),
)


@pytest.mark.slow
def test_all_words_of_the_toolkit_go_through_report_reproduction_and_resumption():
    def train(config):
        note(config)
        return sum(config["searched"][word] + config[word] for word in WORDS)

    space = {"searched": dict.fromkeys(WORDS, (1, 9))} | {word: [1, 2, 3] for word in WORDS}
    study = found(train, space=space, trials=3)
    assert study.best.score == train(study.best.config)
    report = json.loads((study.report().page.parent / "report.json").read_text())
    assert set(report["winner"]["point"]) == {*WORDS, *(f"searched.{word}" for word in WORDS)}
    assert study.reproduce().is_reproduced
    assert len(study.resume(4, progress=False).trials) == 4


def test_all_words_of_the_toolkit_are_constants_like_any_other():
    def train(config):
        note(config)
        return config["x"]

    constants = {word: {"test": 5, "seed": 7, "values": [1, 2]} for word in WORDS}
    study = found(train, space={"x": [1.0, 2.0]}, config=constants, trials=2)
    assert [config | {"x": 0} for config in noted()] == [constants | {"x": 0}] * 2
    assert study.best.config == constants | {"x": max(config["x"] for config in noted())}
    keys = ("objective_config.split.seed", "objective_config.data.test", "objective_config.training.seed")
    longer = study.extend(dict.fromkeys(keys, 6), best=1, progress=False)
    seen = noted()[-1]
    assert (seen["split"]["seed"], seen["data"]["test"], seen["training"]["seed"]) == (6, 6, 6)
    assert seen == longer.best.config


@pytest.mark.slow
def test_points_to_try_first_may_be_given_next_to_a_dimension_called_first():
    study = found(lambda config: config["first"], space={"first": (1, 500)}, config={"first": 77, "size": 1}, trials=1)
    assert study.best.point == {"first": 77}
    longer = study.extend({"size": 2}, best=1, progress=False)
    assert (longer.best.point, longer.best.config["size"]) == ({"first": 77}, 2)
