import torch
from safetensors.torch import load_file

from model.tasks.classification import Classification
from tests.model.conftest import run, small

HARD = {"training__epochs": 6, "model__dropout": 0.3, "training__lr": 0.02}


def test_the_running_mean_of_the_weights_is_evaluated_and_kept(fold, tmp_path):
    """Worked out once more from the weights after each step, which a training without it has."""
    settings = HARD | {"model__dropout": 0.0, "training__epochs": 1, "training__patience": None}
    settings |= {"training__schedule": "constant", "training__warmup_fraction": 0.0}

    def weights_of(steps, **changes):
        folder = str(tmp_path / f"{steps} {changes}")
        config = small(**settings, training__max_steps=steps, training__batch_size=16, **changes)
        run(fold(config, validation=[], size=80, checkpoint_dir=folder))
        return load_file(f"{folder}/weights.safetensors")

    weights = [weights_of(steps) for steps in range(1, 5)]
    # (1 + t) / (10 + t), at most 0.25: the third mean has reached it.
    for warmup, decays in ((False, (0.25, 0.25, 0.25)), (True, (2 / 11, 0.25, 0.25))):
        kept = weights_of(4, training__ema=0.25, training__ema_warmup=warmup)
        for name, tensor in kept.items():
            mean = weights[0][name]
            for decay, later in zip(decays, weights[1:], strict=True):
                mean = decay * mean + (1 - decay) * later[name]
            torch.testing.assert_close(tensor, mean)


def test_with_warm_up_a_long_running_mean_is_not_of_fresh_weights(fold):
    """After one epoch of sixteen steps: the mean is as good as nothing trained without, and near the last with it."""
    settings = {"training__epochs": 1, "training__batch_size": 10, "training__lr": 0.01}
    (plain,), _ = run(fold(small(**settings)))
    (cold,), _ = run(fold(small(**settings, training__ema=0.999, training__ema_warmup=False)))
    (warm,), _ = run(fold(small(**settings, training__ema=0.999)))
    assert abs(warm["loss"] - plain["loss"]) < abs(cold["loss"] - plain["loss"]) / 3


def test_label_smoothing_mixes_the_target_with_the_uniform_distribution():
    task, logits = Classification(("a", "b"), None, 8, 8), torch.tensor([[2.0, -1.0]])

    class Batch:
        inputs = attention_mask = None
        targets = torch.tensor([0])

    smoothed = task.loss(lambda *_: logits, Batch, 0.2)
    expected = -(torch.tensor([0.9, 0.1]) * logits[0].log_softmax(0)).sum()
    torch.testing.assert_close(smoothed.objective, expected)
    torch.testing.assert_close(smoothed.cross_entropy, -logits[0].log_softmax(0)[0])


def test_max_steps_ends_the_training_and_its_schedule(fold):
    points, _ = run(fold(small(training__epochs=50, training__max_steps=7, training__batch_size=32)))
    assert [point["step"] for point in points] == [5, 7]
    assert points[-1]["lr"] < points[0]["lr"]


def test_evaluation_every_n_steps(fold):
    points, _ = run(fold(small(training__batch_size=16, training__evaluate_every_steps=4)))
    assert [point["step"] for point in points] == [4, 8, 12, 16, 20]
    assert [point["epoch"] for point in points] == [0.4, 0.8, 1.2, 1.6, 2]
