"""What a trained network takes, beside how well it predicts."""

import pytest
from safetensors.torch import load_file

from model import objective
from model.checkpoint import WEIGHTS
from model.config.whole import parse
from model.cost import cost_per_example
from model.tasks.choose import TASKS
from model.tasks.resources import MEASURED, RESOURCES
from tests.model.conftest import run, small

COUNTED = ("parameters", "cost_per_example", "model_bytes")
SHAPES = {
    "digits": "encoder",
    "text_classification": "convolutional_encoder",
    "tagging": "recurrent_encoder",
    "language_modelling": "decoder",
    "translation": "encoder_decoder",
    "generated": "recurrent_encoder_decoder",
}
SHARES = {
    "digits": ["accuracy"],
    "text_classification": ["accuracy"],
    "translation": ["exact_match"],
    "generated": ["exact_match"],
}


def counted(config):
    return {name: config[name] for name in COUNTED}


def test_what_is_counted_is_that_of_the_checkpoint_and_the_same_for_all_seeds_and_parts(fold, tmp_path):
    """Also without validation, and of the test part."""
    config, folder = small(training__epochs=1), tmp_path / "checkpoint"
    task = fold(config, checkpoint_dir=str(folder))
    _, result = run(task)
    weights = load_file(folder / WEIGHTS).values()
    assert result["model_bytes"] == sum(weight.nbytes for weight in weights)
    assert result["parameters"] == sum(weight.numel() for weight in weights)
    swapped = {"train": task["validation"], "validation": task["train"]}
    test = {"config": config, "checkpoint_dir": str(folder), "test": [5, 3], "threads": 1}
    others = [run(task | swapped | {"seed": 8})[1], run(task | {"validation": []})[1], objective.run_test(test)]
    assert [counted(other) for other in others] == [counted(result)] * 3


def test_shared_weights_are_counted_once_and_kept_as_often_as_the_checkpoint_has_them(fold, tmp_path):
    config = small("generated", "encoder_decoder", data__num_examples=60, training__epochs=1)
    folder = tmp_path / "checkpoint"
    tied, untied = (
        run(fold(config | {"model": config["model"] | {"tied_embeddings": tied}}, checkpoint_dir=str(folder)))[1]
        | {"kept": sum(weight.nbytes for weight in load_file(folder / WEIGHTS).values())}
        for tied in (True, False)
    )
    assert tied["parameters"] < untied["parameters"]
    assert [each["model_bytes"] for each in (tied, untied)] == [each["kept"] for each in (tied, untied)]


def test_the_cost_of_an_example_grows_with_its_tokens():
    configs = [
        parse(small("language_modelling", "decoder", data__path="a.txt", training__cost_length=length))
        for length in (10, 20)
    ]
    short, long = map(cost_per_example, configs)
    assert long > 2 * short > 0


def test_by_a_metric_of_no_prediction_the_best_evaluation_is_that_of_the_tasks_first(fold):
    config = small(training__epochs=6, training__lr=0.05, training__patience=2, training__schedule="plateau")
    expected = run(fold(config, metric="accuracy", direction="maximize"))
    for metric in ("parameters", "examples_per_second"):
        assert run(fold(config, metric=metric, direction="minimize")) == expected


def test_a_metric_that_the_task_has_not_is_refused_with_those_it_has(fold):
    with pytest.raises(
        ValueError, match=r"metric: must be one of accuracy, macro_f1, loss, parameters, cost_per_e.*given 'bleu'"
    ):
        run(fold(small(), metric="bleu"))


@pytest.mark.parametrize("data", TASKS)
def test_every_metric_has_a_definition_a_direction_and_bounds_and_the_shares_are_of_independent_examples(data):
    elsewhere = {} if data in ("digits", "generated") else {"data__path": "a.txt"}
    config = small(data, SHAPES[data], **elsewhere)
    method = objective.describe_method(config)
    names = {*TASKS[data].metric_names, *RESOURCES}
    assert method["metrics"].keys() == method["directions"].keys() == method["bounds"].keys() == names
    assert set(method["measured"]) == {*MEASURED} < names
    assert method["metrics"]["parameters"].endswith(f"with the best {TASKS[data].metric_names[0]}")
    assert method["shares"] == SHARES.get(data, [])
    assert all(method["bounds"][name] == [0, 1] for name in method["shares"])
