"""A Hugging Face Trainer under a search."""

import json
import shutil
import subprocess
import sys

import pytest

import hpo
from hpo.errors import ConfigError
from hpo.workers.objective.plain_function import RunningTrial
from tests.studies import REPOSITORY

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def trained(tmp_path):
    """Return a function that trains the example's model, and returns its curve, its result, and the kept weights."""
    sys.path.insert(0, str(REPOSITORY / "examples"))
    import hugging_face
    from safetensors.torch import load_file

    def train(amount=None, trained=0, validation=range(200, 300), state="state", **settings):
        task = {"trial": 0, "fold": 0, "repeat": 0, "seed": 2**40 + 3, "threads": 1, "data_dir": None, "metric": "loss"}
        task |= {"train": list(range(200)), "validation": list(validation), "amount": amount, "trained": trained}
        task |= {"checkpoint_dir": str(tmp_path / "kept"), "resume_dir": state and str(tmp_path / state)}
        # Where there is no GPU to pin memory for, torch warns of that at each epoch.
        config = {"training": {"learning_rate": 1e-3, "dataloader_pin_memory": False, **settings}}
        trial = RunningTrial(task)
        curve, running = [], trial.run(lambda: hugging_face.digits(config, trial))
        while True:
            try:
                curve.append(next(running))
            except StopIteration as stop:
                return curve, stop.value, load_file(tmp_path / "kept/model.safetensors")

    yield train
    sys.path.remove(str(REPOSITORY / "examples"))


def equal(one, other):
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


@pytest.mark.slow
def test_its_evaluations_are_the_curve_and_its_last_the_result(trained):
    curve, result, _ = trained(state=None)
    assert [point["epoch"] for point in curve] == list(range(1, 5))
    assert [point["more"] for point in curve] == [True] * 3 + [False]
    assert (result["accuracy"], result["loss"]) == (curve[-1]["accuracy"], curve[-1]["loss"])


@pytest.mark.slow
def test_a_training_in_parts_is_the_training_in_one(trained):
    whole, _, weights = trained(state="one")
    begun, _, _ = trained(amount=1)
    continued, _, same = trained(amount=4, trained=1)
    assert [point["loss"] for point in [*begun, *continued]] == [point["loss"] for point in whole]
    assert equal(weights, same)


@pytest.mark.slow
def test_after_a_crash_it_reports_what_it_had_saved_and_trains_no_step_twice(trained, tmp_path):
    curve, _, weights = trained(amount=2)
    again, _, same = trained(amount=2)
    assert [point["loss"] for point in again] == [point["loss"] for point in curve]
    assert equal(weights, same)
    checkpoints = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert checkpoints == ["checkpoint-25", "checkpoint-50"]


@pytest.mark.nightly
def test_a_checkpoint_that_was_cut_off_is_passed_over(trained, tmp_path):
    whole, _, weights = trained(state="one")
    trained(amount=2)
    shutil.copytree(tmp_path / "state/checkpoint-50", tmp_path / "state/checkpoint-75")
    (tmp_path / "state/checkpoint-75/trainer_state.json").write_text('{"epoch": 3.0, "log_hi')
    continued, _, same = trained(trained=2)
    assert [point["loss"] for point in continued] == [point["loss"] for point in whole[2:]]
    assert equal(weights, same)


@pytest.mark.nightly
def test_the_best_is_kept_where_it_is_loaded_at_the_end(trained):
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    curve, result, weights = trained(save_strategy="epoch", **best)
    worst = max(curve, key=lambda point: point["loss"])
    assert result["loss"] == worst["loss"]
    _, _, then = trained(state="other", amount=worst["epoch"])
    assert equal(weights, then)


@pytest.mark.nightly
def test_the_final_model_needs_no_validation_part(trained, tmp_path):
    curve, result, weights = trained(validation=[])
    assert (curve, result) == ([], {})
    assert json.loads((tmp_path / "state/checkpoint-100/trainer_state.json").read_text())["epoch"] == 4
    assert weights


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hugging_face", "hugging_face_lora"])
def test_the_example_runs(tmp_path, name):
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / f"examples/{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    (best,) = (line for line in done.stdout.splitlines() if " {'" in line)
    assert float(best.split()[0]) > 0.2, done.stdout
    assert "\n  accuracy = " in done.stdout


def small_trainer(tmp_path, kind=None, evaluated=None, **settings):
    """Return a trainer of a small network on images of two kinds, for `objective_of`."""
    from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

    shape = {"image_size": 8, "patch_size": 4, "num_channels": 1, "num_labels": 2, "hidden_size": 8}
    config = ViTConfig(**shape, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    images = [{"pixel_values": [[[float(i % 2)] * 8] * 8], "labels": i % 2} for i in range(32)]
    arguments = TrainingArguments(output_dir=str(tmp_path / "trainer"), report_to="none", use_cpu=True, **settings)
    parts = {"train_dataset": images, "eval_dataset": evaluated(images) if evaluated else images}
    return (kind or Trainer)(model_init=lambda: ViTForImageClassification(config), args=arguments, **parts)


@pytest.mark.slow
def test_all_sets_of_an_evaluation_are_one_report_of_what_evaluate_returns(tmp_path):
    from transformers import Trainer

    from hpo.integrations.transformers import objective_of

    class Adjusted(Trainer):
        def evaluate(self, *args, **kwargs):
            metrics = super().evaluate(*args, **kwargs)
            if {"eval_a_loss", "eval_b_loss"} <= metrics.keys():
                metrics["eval_both"] = metrics["eval_a_loss"] + self.state.global_step
            return metrics

    trainer = small_trainer(tmp_path, Adjusted, lambda images: {"a": images[:16], "b": images[16:]}, num_train_epochs=9)
    search = {"metric": "both", "direction": "minimize", "progress": False}
    settings = {"dispatch": "local", "track": "none"}
    study = hpo.search(
        objective_of(trainer), {"learning_rate": hpo.log(1e-4, 1e-1)}, trials=7, name="sets", **search,
        strategy={"name": "asha", "max_amount": 9, "counts": "trials"}, settings=settings,
    )  # fmt: skip
    assert study.trials["error"].isna().all(), study.trials["error"].tolist()
    assert set(study.trials["reached"]) == {1, 3}
    assert set(study.trials["amount"]) == {1, 3}
    best = study.trials["score"]
    # After one epoch it is some 4 steps more than the loss, after three some 12.
    assert best.between(4, 14).all()
    assert (best > 12).tolist() == (study.trials["reached"] == 3).tolist()
    plain = hpo.search(
        objective_of(small_trainer(tmp_path, Adjusted, lambda images: {"a": images[:16], "b": images[16:]})),
        {"learning_rate": [1e-3]}, trials=1, name="plain", **search, settings={"dispatch": "local", "track": "none"},
    )  # fmt: skip
    # What it returns is the last of its three epochs.
    assert 12 < plain.best.score < 14


@pytest.mark.parametrize(("space", "settings", "line"), [
    ({"learning_rate": [1e-3]}, {"num_train_epochs": 3}, "strategy.max_amount: here a training ends at 3"),
    ({"learning_rate": [1e-3], "num_train_epochs": [2, 9]}, {}, "space.num_train_epochs: with 2 a training ends at 2"),
    ({"learning_rate": [1e-3]}, {"max_steps": 100, "eval_strategy": "steps", "eval_steps": 50}, "a training ends at 2"),
])  # fmt: skip
def test_a_training_that_ends_before_the_largest_amount_is_refused(tmp_path, space, settings, line):
    from hpo.integrations.transformers import objective_of

    with pytest.raises(ConfigError, match=r"before strategy\.max_amount=9") as refused:
        hpo.search(
            objective_of(small_trainer(tmp_path, **settings)), space, metric="loss", direction="minimize", name="short",
            strategy={"name": "asha", "max_amount": 9}, trials=3, progress=False,
        )  # fmt: skip
    assert line in str(refused.value)


@pytest.mark.slow
def test_it_takes_the_place_of_hyperparameter_search(tmp_path):
    from hpo.integrations.transformers import objective_of

    trainer = small_trainer(tmp_path)
    space = {"learning_rate": hpo.log(1e-4, 1e-1), "num_train_epochs": [1, 2, 3]}
    local = {"dispatch": "local", "track": "none"}
    study = hpo.search(
        objective_of(trainer), space, metric="loss", direction="minimize", trials=3, settings=local, progress=False
    )
    assert list(study.trials.state) == ["complete"] * 3
    assert study.best.score < 0.7
    trainer.model_init = None
    with pytest.raises(ConfigError, match="model_init"):
        objective_of(trainer)
