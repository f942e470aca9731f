import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model import objective
from model.checkpoint import load_checkpoint
from model.config.whole import parse
from model.errors import Diverged
from model.networks.classifier import Classifier
from model.tasks.choose import TASKS
from model.tasks.units import counted_in
from model.training.schedule import ReplayedPlateaus
from model.training.train import Goal
from tests.model.conftest import compose, repeatable, run, small

COUNTED = ("parameters", "cost_per_example", "model_bytes")


@pytest.mark.slow
def test_the_default_digits_reach_96_percent(fold):
    _, result = run(fold(compose(), size=1617, metric="accuracy", direction="maximize"))
    assert result["accuracy"] >= 0.96


def test_a_curve_point_and_a_result_hold_what_the_search_relies_on(fold):
    points, result = run(fold(small()))
    assert [point["epoch"] for point in points] == [1, 2]
    always = {"epoch", "step", "train_loss", "gradient_norm", "lr", "epochs", "more"}
    assert set(points[0]) == always | {"loss", "accuracy", "macro_f1"}
    assert [point["more"] for point in points] == [True, False]
    assert set(result) == {"accuracy", "macro_f1", "loss", *COUNTED, "best_epoch"}
    assert json.loads(json.dumps([points, result])) == [points, result]


@pytest.mark.parametrize(("metric", "direction", "best"), [("loss", "minimize", min), ("accuracy", "maximize", max)])
def test_the_result_is_the_best_evaluation_and_the_first_of_equal_ones(fold, metric, direction, best):
    points, result = run(fold(small(training__epochs=6, training__lr=0.05), metric=metric, direction=direction))
    values = [point[metric] for point in points]
    assert result[metric] == best(values)
    assert result["best_epoch"] == 1 + values.index(best(values))


@pytest.mark.slow
def test_the_same_task_gives_the_same_bits_again_after_others_and_in_another_process(fold, tmp_path):
    task = fold(small(), checkpoint_dir=str(tmp_path / "a"))
    first = run(task)
    state = torch.get_rng_state()
    run(task | {"seed": 8, "checkpoint_dir": None})
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(random.randrange(10**6))
    assert run(task | {"checkpoint_dir": str(tmp_path / "b")}) == first
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]
    code = "import json, sys; from tests.model.conftest import run; print(json.dumps(run(json.load(sys.stdin))))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(task), capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert json.loads(elsewhere.stdout) == [first[0], first[1]]


def test_two_trainings_in_turns_do_not_disturb_each_other(fold):
    task = fold(small())
    alone = run(task)[0]
    one, other = objective.run_fold(task), objective.run_fold(task | {"seed": 8})
    mixed = [repeatable(next(one))]
    next(other)
    torch.rand(5)
    mixed.append(repeatable(next(one)))
    assert mixed == alone


def test_without_validation_the_last_weights_are_kept(fold, tmp_path):
    task = fold(small(), validation=[], epochs=1, checkpoint_dir=str(tmp_path / "checkpoint"))
    points, result = run(task)
    assert points == []
    assert set(result) == {"train_loss", *COUNTED}
    assert load_checkpoint(str(tmp_path / "checkpoint")).task.classes == tuple("0123456789")


PLATEAU = {"training__schedule": "plateau", "training__plateau_patience": 1, "training__warmup_fraction": 0.0}


def test_a_training_without_validation_repeats_the_plateaus_of_others(fold):
    """Of one other training it repeats each learning rate; of two the geometric mean."""
    config = small(**PLATEAU, training__epochs=6, training__min_gain=0.3)
    points, _ = run(fold(config))
    rates = [point["lr"] for point in points]
    assert len(set(rates)) > 2
    training, gain = parse(config).training, Goal("loss", "minimize").gain
    alone, mixed = (ReplayedPlateaus.of(curves, gain, training) for curves in ([points], [points, points[:1]]))
    assert [alone.scale(epoch) * training.lr for epoch in range(6)] == pytest.approx(rates)
    assert [mixed.scale(epoch) ** 2 for epoch in range(6)] == pytest.approx([alone.scale(epoch) for epoch in range(6)])


def test_plateaus_within_an_epoch_are_repeated_where_they_were():
    training = parse(small(**PLATEAU, training__plateau_factor=0.5)).training
    flat = [{"epoch": 1, "step": step, "loss": 1.0} for step in range(10, 101, 10)]
    replayed = ReplayedPlateaus.of([flat], Goal("loss", "minimize").gain, training)
    assert [replayed.scale(epochs) for epochs in (0, 0.15, 0.25, 0.5, 1, 7)] == [1, 1, 0.5, 2**-4, 2**-9, 2**-9]


def test_the_plateaus_of_others_reach_the_weights_of_a_training_without_validation(fold):
    config = small(**PLATEAU, training__epochs=4, training__plateau_factor=1e-9)
    falling = [{"epoch": epoch, "step": 3 * epoch, "loss": 1.0 / epoch} for epoch in (1, 2, 3, 4)]
    flat = [point | {"loss": 1.0} for point in falling]
    lasts = [run(fold(config, validation=[], curves=[curve]))[1]["train_loss"] for curve in (falling, flat)]
    assert lasts[0] < lasts[1] - 0.03


def test_a_plateau_without_anything_to_judge_it_by_is_refused(fold):
    with pytest.raises(ValueError, match=r"schedule: plateau needs a validation split.*; choose another schedule"):
        run(fold(small(**PLATEAU), validation=[]))


def test_divergence_names_its_step(fold):
    with pytest.raises(Diverged, match=r"diverged at step \d+: loss is (nan|inf)"):
        run(fold(small(training__optimizer="sgd", training__lr=1000.0, training__clip_norm=None, training__epochs=50)))


def test_early_stopping_waits_for_a_gain_as_long_as_its_patience(fold):
    config = small(training__epochs=30, training__patience=2, training__min_gain=100.0)
    points, result = run(fold(config))
    assert len(points) == 3
    assert result["loss"] == min(point["loss"] for point in points)


def test_the_checkpoint_scores_as_its_training_said(fold, tmp_path):
    config = small(training__epochs=4)
    task = fold(config, checkpoint_dir=str(tmp_path / "checkpoint"))
    _, result = run(task)
    chosen = list(range(objective.describe_data(config)["size"]))
    random.Random(0).shuffle(chosen)
    test = [chosen[position] for position in task["validation"]]
    scored = objective.run_test(
        {"config": config, "checkpoint_dir": task["checkpoint_dir"], "test": test, "threads": 1}
    )
    assert scored.pop("examples_per_second") > 0
    assert statistics.fmean(scored.pop("scores_by_example")["accuracy"]) == scored["accuracy"]
    assert scored == pytest.approx({name: result[name] for name in scored})


def test_scores_by_example_are_those_of_each_example_alone(fold, reviews, tmp_path):
    """Texts are scored in batches of like lengths, and given back in ascending order."""
    config = small("text_classification", data__path=str(reviews), data__min_count=1, training__epochs=2)
    task = fold(config, metric="accuracy", direction="maximize", checkpoint_dir=str(tmp_path / "checkpoint"))
    run(task)
    few = config | {"training": config["training"] | {"evaluation_tokens": 30}}
    scored = {"config": few, "checkpoint_dir": task["checkpoint_dir"], "threads": 1}
    by_example = objective.run_test(scored | {"test": [*range(12)]})["scores_by_example"]["accuracy"]
    assert by_example == [objective.run_test(scored | {"test": [one]})["accuracy"] for one in range(12)]
    assert {0, 1} == {*by_example}, "another seed, please: all are right, or wrong"


def test_texts_are_learned_from_the_training_part_alone(fold, reviews, tmp_path):
    config = small("text_classification", data__path=str(reviews), data__min_count=1, training__epochs=15)
    task = fold(config, metric="accuracy", direction="maximize", checkpoint_dir=str(tmp_path / "checkpoint"))
    _, result = run(task)
    assert result["accuracy"] > 0.8
    run(task | {"train": [0], "validation": []})
    tokens = load_checkpoint(task["checkpoint_dir"]).task.vocabulary.tokens
    text = json.loads((Path(task["data_dir"]) / "examples.jsonl").read_text().splitlines()[0])["text"]
    assert set(tokens[4:]) == set(text.split())


def test_the_prepared_folder_holds_just_the_chosen_examples_and_no_path(reviews, tmp_path):
    config = small("text_classification", data__path=str(reviews))
    objective.prepare_data(config, [5, 3], str(tmp_path / "data"))
    content = "".join(path.read_text() for path in (tmp_path / "data").iterdir())
    lines = reviews.read_text().splitlines()
    assert [json.loads(line)["text"] for line in content.splitlines()] == [lines[i].split("\t")[0] for i in (5, 3)]
    assert str(reviews) not in content
    assert [path.name for path in tmp_path.iterdir() if "data" in path.name] == ["data"]


def test_preparing_again_replaces_what_a_process_has_read(fold, tmp_path):
    task = fold(small())
    first = run(task)
    objective.prepare_data(small(), list(range(300, 500)), task["data_dir"])
    assert run(task) != first


@pytest.mark.nightly
def test_reading_data_loads_no_torch():
    code = (
        "import sys, json; from model import objective; config = json.load(sys.stdin); objective.check(config);"
        "objective.describe_data(config); objective.describe_method(config); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], input=json.dumps(compose()), text=True, check=True)


def test_the_loss_is_the_mean_over_examples_whatever_the_batch_which_has_at_most_its_tokens(fold, monkeypatch):
    forward, seen = Classifier.forward, []

    def noted(self, inputs, attention_mask):
        if not self.training:
            seen.append(inputs.shape[0] * inputs.shape[1])
        return forward(self, inputs, attention_mask)

    monkeypatch.setattr(Classifier, "forward", noted)
    losses = []
    # An image has eight rows; one of 1 token is evaluated alone.
    for tokens, largest in ((1, 8), (100, 96), (10**6, 320)):
        seen.clear()
        losses.append(run(fold(small(training__epochs=1, training__evaluation_tokens=tokens)))[1]["loss"])
        assert max(seen) == largest
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)


def test_a_folder_that_was_not_prepared_is_named(fold, tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.*with prepare_data first"):
        run(fold(small()) | {"data_dir": str(tmp_path / "nowhere")})


def varied(config, key, value):
    """What the metrics are counted in with this value, and with the configuration's own."""
    group, name = key.split(".")
    other = config | {group: config[group] | {name: value}}
    return [objective.describe_method(each)["counted_in"] for each in (config, other)]


@pytest.mark.parametrize(
    ("data", "key", "value", "names"),
    [
        ("language_modelling", "data.min_count", 2, {"loss", "perplexity"}),
        ("language_modelling", "data.max_size", 9, {"loss", "perplexity"}),
        ("language_modelling", "data.tokens", "words", {"loss", "perplexity", "bits_per_character", "bits_per_byte"}),
        ("language_modelling", "data.context", 9, set()),
        ("translation", "data.max_size", 9, {"loss"}),
        ("translation", "data.max_length", 9, {"loss"}),
        ("translation", "data.beam_size", 9, set()),
        ("tagging", "data.min_count", 9, set()),
    ],
)
def test_metrics_say_which_settings_change_what_they_are_counted_in(data, key, value, names):
    shape = {"language_modelling": "decoder", "translation": "encoder_decoder", "tagging": "encoder"}[data]
    ours, its = varied(small(data, shape, data__path="a.txt"), key, value)
    assert {name for name in ours if ours[name]["depends_on"] != its[name]["depends_on"]} == names
    known = objective.describe_method(small(data, shape, data__path="a.txt"))["metrics"]
    assert ours.keys() <= known.keys() == {*TASKS[data].metric_names, *COUNTED, "examples_per_second"}


@pytest.mark.parametrize("metric", ["bits_per_character", "bits_per_byte"])
def test_bits_are_the_same_under_all_tokens_that_give_every_text_back(metric):
    text, data = "Two  words,\tÉ and\nmore ", {"data__path": "a.txt", "data__max_size": 300}
    for unit in ("words", "characters", "subwords"):
        config = parse(small("language_modelling", "decoder", data__tokens=unit, **data))
        tokens = TASKS["language_modelling"].learn(config, [{"text": text}], [0]).vocabulary
        gives_back = tokens.decode(tokens.encode(text)) == text
        assert gives_back is (unit in counted_in(config)[metric]["alike"]["data.tokens"]), unit


def test_source_tokens_change_no_target_where_it_has_tokens_of_its_own():
    config = small("translation", "encoder_decoder", data__path="a.tsv", data__target_tokens="words")
    ours, its = varied(config, "data.tokens", "characters")
    assert ours == its
