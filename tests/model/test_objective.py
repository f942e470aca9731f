"""What a training gives the search: points, a result, a checkpoint, the same bits each time; and that it learns."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from model import objective
from model.checkpoint import load_checkpoint
from model.config.whole import parse
from model.errors import DataError, Diverged
from model.tasks.language_modelling import LanguageModelling
from model.training import fold as fold_module
from tests.model.conftest import compose, of, repeatable, run, small
from tests.studies import refuses

COUNTED = ("parameters", "cost_per_example", "model_bytes")
MAXIMIZE = {"direction": "maximize"}


def scored(config, task, test):
    given = {"config": config, "checkpoint_dir": task["checkpoint_dir"], "test": [*test], "threads": 1}
    return objective.run_test(given)


def test_a_curve_point_and_a_result_hold_what_the_search_relies_on(fold):
    task = fold(small())
    assert next(objective.run_fold(task))["tokens_per_second"] > 0
    points, result = run(task)
    assert [(point["epoch"], point["more"]) for point in points] == [(1, True), (2, False)]
    always = {"epoch", "step", "train_loss", "gradient_norm", "lr", "epochs", "more"}
    assert set(points[0]) == always | {"loss", "accuracy", "macro_f1"}
    assert set(result) == {"accuracy", "macro_f1", "loss", *COUNTED, "best_epoch"}
    assert json.loads(json.dumps([points, result])) == [points, result]


@pytest.mark.parametrize(("metric", "direction", "best"), [("loss", "minimize", min), ("accuracy", "maximize", max)])
def test_the_result_is_the_best_evaluation_and_the_first_of_equal_ones(fold, metric, direction, best):
    points, result = run(fold(small(training__epochs=6, training__lr=0.05), metric=metric, direction=direction))
    values = [point[metric] for point in points]
    assert (result[metric], result["best_epoch"]) == (best(values), 1 + values.index(best(values)))


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
    command, root = [sys.executable, "-c", code], Path(__file__).parents[2]
    assert json.loads(subprocess.check_output(command, input=json.dumps(task), text=True, cwd=root)) == [*first]


def test_two_trainings_in_turns_do_not_disturb_each_other(fold):
    task = fold(small())
    alone = run(task)[0]
    one, other = objective.run_fold(task), objective.run_fold(task | {"seed": 8})
    mixed = [repeatable(next(one))]
    next(other)
    torch.rand(5)
    mixed.append(repeatable(next(one)))
    assert mixed == alone


def test_without_validation_the_last_weights_are_stored(fold, tmp_path):
    points, result = run(fold(small(), validation=[], epochs=1, checkpoint_dir=str(tmp_path / "checkpoint")))
    assert (points, set(result)) == ([], {"train_loss", *COUNTED})
    assert load_checkpoint(str(tmp_path / "checkpoint")).task.classes == tuple("0123456789")


def test_divergence_names_its_step(fold, monkeypatch):
    with pytest.raises(Diverged, match=r"diverged at step \d+: loss is (nan|inf)"):
        run(fold(small(training__optimizer="sgd", training__lr=1000.0, training__clip_norm=None, training__epochs=50)))
    monkeypatch.setattr("model.training.train.evaluate", Mock(return_value={"loss": math.nan}))
    refuses(Diverged, r"diverged at step \d+: validation loss is nan", run, fold(small()))


def test_by_a_metric_of_no_prediction_the_best_evaluation_is_that_of_the_tasks_first(fold):
    task = fold(small(training__epochs=4, training__lr=0.05, training__patience=2, training__schedule="plateau"))
    assert run(task | {"metric": "parameters"}) == run(task | {"metric": "accuracy", **MAXIMIZE})
    with pytest.raises(ValueError, match=r"metric: .*accuracy, macro_f1, loss, parameters, cost_per_e.*'bleu'"):
        run(task | {"metric": "bleu"})


def test_early_stopping_waits_for_a_gain_as_long_as_its_patience(fold):
    points, result = run(fold(small(training__epochs=30, training__patience=2, training__min_gain=100.0)))
    assert (len(points), result["loss"]) == (3, min(point["loss"] for point in points))


def test_the_checkpoint_scores_as_its_training_reported(fold, tmp_path):
    config = small(training__epochs=4)
    task = fold(config, checkpoint_dir=str(tmp_path / "checkpoint"))
    _, result = run(task)
    chosen = list(range(objective.describe_data(config)["size"]))
    random.Random(0).shuffle(chosen)
    found = scored(config, task, (chosen[position] for position in task["validation"]))
    assert found.pop("examples_per_second") > 0
    del found["scores_by_example"], found["score_of_sums"]
    assert found == pytest.approx({name: result[name] for name in found})


def test_texts_are_learned_from_the_training_split_alone_and_scored_as_each_is_alone(fold, reviews, tmp_path):
    config = small("text_classification", data__path=str(reviews), data__min_count=1, training__epochs=15)
    task = fold(config, metric="accuracy", **MAXIMIZE, checkpoint_dir=str(tmp_path / "checkpoint"))
    assert run(task)[1]["accuracy"] > 0.8
    run(task | {"train": [0, 1, 2], "validation": []})
    tokens = load_checkpoint(task["checkpoint_dir"]).task.vocabulary.tokens
    lines = Path(task["data_dir"], "examples.jsonl").read_text().splitlines()[:3]
    assert set(tokens[4:]) == {word for line in lines for word in json.loads(line)["text"].split()}
    few = config | {"training": config["training"] | {"evaluation_tokens": 30}}
    by_example = scored(few, task, range(12))["scores_by_example"]["accuracy"][:, 0].tolist()
    assert by_example == [scored(few, task, [one])["accuracy"] for one in range(12)]


def test_short_lines_of_running_text_are_no_duplicates_and_keep_their_digests(tmp_path):
    long = "a line that is long enough to be no accident when it comes back\n"
    (tmp_path / "a.txt").write_text(f"{long}\nROMEO:\nshort\n{long}\nROMEO:\n")
    settings = {"data__path": str(tmp_path / "a.txt"), "data__test_fraction": 0.0}
    described = objective.describe_data(compose("language_modelling", **settings))
    assert described["recurring"] == [1, 2, 3, 5, 6]
    assert [described["digests"][number] for number in (0, 1, 2)] == [described["digests"][n] for n in (4, 5, 6)]


TAGGED = "the\tDET\nold\tADJ\ndog\tNOUN\n\nit\tPRON\nsleeps\tVERB\n\na\tDET\ncat\tNOUN\nsees\tVERB\n\n" * 6
PAIRS = "".join(f"{'abc'[n % 3] * (n % 4 + 1)} x\t{'xyz'[n % 3]} {'uv'[n % 2]} w\n" for n in range(30))
BY_EXAMPLE = {
    "text_classification": ("", {}, {"accuracy", "macro_f1"}),
    # Sentences are read in pieces of two words.
    "tagging": (TAGGED, {"data__max_length": 2}, {"accuracy", "macro_f1"}),
    "translation": (PAIRS, {}, {"exact_match", "token_error_rate", "bleu", "chrf"}),
}


@pytest.mark.parametrize("data", BY_EXAMPLE)
def test_sums_by_example_give_each_metric_of_all_test_examples_and_of_one_alone(fold, reviews, tmp_path, data):
    text, given, names = BY_EXAMPLE[data]
    if text:
        reviews = tmp_path / "given.tsv"
        reviews.write_text(text)
    config = small(data, data__path=str(reviews), training__evaluation_tokens=20, **given)
    task = fold(config, size=12, checkpoint_dir=str(tmp_path / "checkpoint"))
    run(task)
    found = scored(config, task, range(12))
    assert set(found["scores_by_example"]) == names
    for name, rows in found["scores_by_example"].items():
        if isinstance(rows, str):
            continue  # why the metric is not known by example
        score = found["score_of_sums"].get(name, lambda sums: sums[:, 0] / sums[:, 1])
        assert score(rows.sum(axis=0, keepdims=True))[0] == pytest.approx(found[name])
        for number in range(0, 12, 5) if name != "macro_f1" else ():
            assert score(rows[[number]])[0] == pytest.approx(scored(config, task, [number])[name])


def test_the_prepared_folder_holds_just_the_chosen_examples_and_no_path(reviews, tmp_path):
    objective.prepare_data(small("text_classification", data__path=str(reviews)), [5, 3], str(tmp_path / "data"))
    content = "".join(path.read_text() for path in (tmp_path / "data").iterdir())
    lines = reviews.read_text().splitlines()
    assert [json.loads(line)["text"] for line in content.splitlines()] == [lines[i].split("\t")[0] for i in (5, 3)]
    assert str(reviews) not in content


def test_preparing_again_replaces_what_a_process_has_read_and_a_folder_without_it_is_named(fold, tmp_path):
    task = fold(small())
    first = run(task)
    objective.prepare_data(small(), list(range(300, 500)), task["data_dir"])
    assert run(task) != first
    refuses(ValueError, r"nowhere.*prepare_data", run, task | {"data_dir": str(tmp_path / "nowhere")})


@pytest.mark.parametrize("data", ["digits", "text_classification"])
def test_data_are_encoded_once_and_from_disk_training_is_the_same_to_the_bit(fold, reviews, monkeypatch, data):
    task = fold(small(data, **({} if data == "digits" else {"data__path": str(reviews)})))
    first = run(task)
    monkeypatch.setattr(fold_module, "read_store", lambda _: pytest.fail("was read and encoded again"))
    assert run(task) == first


def test_other_settings_or_folds_are_encoded_anew(fold, reviews):
    task = fold(small("text_classification", data__path=str(reviews)))
    other = task["config"] | {"data": task["config"]["data"] | {"min_count": 3}}
    for each in (task, task | {"train": task["train"][:-1]}, task | {"config": other}):
        run(each)
    assert len(list((Path(task["data_dir"]) / "encoded").iterdir())) == 3


def test_a_cache_that_cannot_be_written_only_costs_time(fold, monkeypatch):
    expected = run(fold(small()))
    task = fold(small())  # prepared anew: nothing is cached
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("model.data.encoded_cache.tempfile.mkdtemp", full)
    assert run(task) == expected


@pytest.mark.slow
def test_reading_data_loads_no_torch():
    code = (
        "import sys, json; from model import objective; config = json.load(sys.stdin); objective.check(config);"
        "objective.describe_data(config); objective.describe_method(config); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], input=json.dumps(compose()), text=True, check=True)


def test_the_loss_is_the_mean_over_examples_whatever_the_batch(fold):
    tasks = [fold(small(training__epochs=1, training__evaluation_tokens=tokens)) for tokens in (1, 100, 10**6)]
    losses = [run(task)[1]["loss"] for task in tasks]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)


def test_every_token_of_a_language_model_but_the_first_is_predicted_once():
    items = [{"text": "abcdefghijklm\n"}, {"text": "nopqrstuv\n"}]
    task = LanguageModelling.learn(parse(small("language_modelling", data__context=8)), items, [0, 1])
    data = task.encode(items)
    batch = task.batch(data, torch.arange(len(data)), torch.device("cpu"))
    texts = [task.vocabulary.decode(each[batch.targets >= 0].tolist()) for each in (batch.inputs, batch.targets)]
    assert texts == ["abcdefghijklm\nnopqrstuv", "bcdefghijklm\nnopqrstuv\n"]
    assert task.count(data, torch.arange(len(data))) == 23
    refuses(DataError, "the text 'a' must have at least two tokens", task.encode, [{"text": "a"}])


@pytest.mark.slow
def test_the_default_digits_reach_96_percent(fold):
    assert run(fold(compose(), size=1617, metric="accuracy", **MAXIMIZE))[1]["accuracy"] >= 0.96


TAGGED = "The\tDET\ndog\tNOUN\nruns\tVERB\n\nA\tDET\ncat\tNOUN\n\n" * 30
POEM = "".join(f"the {number % 7} cats sat on the mat\n" for number in range(60))
COPY = of("data", {"task": "copy", "max_length": 3, "num_symbols": 5, "num_examples": 150})
WIDE = {"model__d_model": 32, "model__dropout": 0.0, "training__lr": 0.005, "training__patience": None}
LEARNED = {
    "tagging": (TAGGED, {}, 15, "accuracy", 1),
    "language_modelling": (POEM, {"data__context": 8}, 30, "loss", -math.log(2)),
    "generated": (None, COPY | WIDE, 25, "exact_match", 0.7),
}


@pytest.mark.slow
@pytest.mark.parametrize("data", LEARNED)
def test_every_task_is_learned_and_scored_as_well_from_the_checkpoint(fold, tmp_path, data):
    text, given, epochs, metric, least = LEARNED[data]
    if text:
        given = given | {"data__path": str(tmp_path / "text.tsv")}
        (tmp_path / "text.tsv").write_text(text)
    config = small(data, training__epochs=epochs, training__batch_size=8, **given)
    sign, goal = (-1, {}) if metric == "loss" else (1, MAXIMIZE)
    task = fold(config, metric=metric, **goal, checkpoint_dir=str(tmp_path / "checkpoint"))
    for found in (run(task)[1], scored(config, task, range(20))):
        assert sign * found[metric] >= least
