"""A Lightning Trainer under a search."""

import subprocess
import sys

import pytest

from hpo.workers.objective.plain_function import RunningTrial
from tests.studies import REPOSITORY

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def trained(tmp_path):
    """Return a function that trains the example's model, and returns its curve, its result, and the kept weights."""
    sys.path.insert(0, str(REPOSITORY / "examples"))
    import lightning_digits

    def train(amount=None, trained=0, validation=range(200, 300), state="state", settings=None):
        task = {"trial": 0, "fold": 0, "repeat": 0, "seed": 2**40 + 3, "threads": 1, "data_dir": None, "metric": "loss"}
        task |= {"train": list(range(200)), "validation": list(validation), "amount": amount, "trained": trained}
        task |= {"checkpoint_dir": str(tmp_path / "kept"), "resume_dir": state and str(tmp_path / state)}
        trial = RunningTrial(task)
        config = {"width": 16, "dropout": 0.2, "lr": 0.01}
        running = trial.run(lambda: lightning_digits.digits(config, trial, **(settings or {})))
        curve = []
        while True:
            try:
                curve.append(next(running))
            except StopIteration as stop:
                kept = lightning_digits.Digits.load_from_checkpoint(tmp_path / "kept/model.ckpt")
                return curve, stop.value, kept.state_dict()

    yield train
    sys.path.remove(str(REPOSITORY / "examples"))


def equal(one, other):
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


@pytest.mark.slow
def test_its_epochs_are_the_curve_and_the_last_the_result(trained):
    curve, result, _ = trained(state=None)
    assert [point["epoch"] for point in curve] == list(range(1, 10))
    assert [point["more"] for point in curve] == [True] * 8 + [False]
    assert result["accuracy"] == curve[-1]["accuracy"] > curve[0]["accuracy"]


@pytest.mark.slow
def test_a_training_in_parts_is_the_training_in_one(trained):
    whole, _, weights = trained(state="one")
    begun, _, _ = trained(amount=1)
    middle, _, _ = trained(amount=4, trained=1)
    end, _, same = trained(amount=9, trained=4)
    assert [point["loss"] for point in [*begun, *middle, *end]] == [point["loss"] for point in whole]
    assert equal(weights, same)


@pytest.mark.slow
def test_after_a_crash_it_reports_what_it_had_saved_and_trains_no_step_twice(trained):
    curve, result, weights = trained(amount=2)
    again, same_result, same = trained(amount=2)
    assert [point["loss"] for point in again] == [point["loss"] for point in curve]
    assert result == same_result
    assert equal(weights, same)


@pytest.mark.slow
def test_the_final_model_needs_no_validation_part(trained):
    curve, result, _ = trained(validation=[])
    assert [set(point) for point in curve] == [{"epoch", "more"}] * 9
    assert result == {}


@pytest.mark.slow
def test_the_best_of_a_model_checkpoint_is_kept(trained, tmp_path):
    from lightning.pytorch.callbacks import ModelCheckpoint

    best = ModelCheckpoint(tmp_path / "best", monitor="loss", mode="max")
    curve, result, weights = trained(state=None, settings={"enable_checkpointing": True, "callbacks": [best]})
    assert result["loss"] == max(point["loss"] for point in curve) != curve[-1]["loss"]
    _, _, first = trained(amount=1, state="one")
    assert equal(weights, first)


@pytest.mark.nightly
def test_the_example_runs():
    command = [sys.executable, str(REPOSITORY / "examples/lightning_digits.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    (best,) = (line for line in done.stdout.splitlines() if " {'" in line)
    assert float(best.split()[0]) > 0.7, done.stdout
    assert "\n  accuracy = " in done.stdout
