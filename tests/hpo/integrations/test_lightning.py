"""A Lightning Trainer under a search: a training in parts, and ModelCheckpoints of the user next to ours."""

import importlib
import shutil
import sys

import pytest

from tests.hpo.integrations.training import equal, finished
from tests.studies import REPOSITORY, refuses

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# Checkpoints of users, with the epoch whose model is kept.
CHECKPOINTS = {
    "one that monitors": (2, lambda nets: [nets.best()]),
    "one that does not": (5, lambda nets: [nets.ModelCheckpoint()]),
    "one with save_last": (2, lambda nets: [nets.best(save_last=True, save_top_k=2)]),
    "one of the end": (3, lambda nets: [nets.best(monitor="end", mode="min", save_on_train_epoch_end=True)]),
    "two, of which the first counts": (3, lambda nets: [nets.best(monitor="end", mode="min"), nets.best()]),
    "two, of which the second monitors": (2, lambda nets: [nets.ModelCheckpoint(every_n_epochs=1), nets.best()]),
}


@pytest.fixture(scope="module")
def nets():
    return importlib.import_module("tests.hpo.integrations.lightning_nets")


@pytest.fixture
def digits(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples"))
    import lightning_digits

    def train(validation=range(200, 300), **task):
        task |= {"train": list(range(200)), "validation": list(validation)}
        config = {"width": 16, "dropout": 0.2, "lr": 0.01}
        curve, result = finished(lambda trial: lightning_digits.digits(config, trial), tmp_path, **task)
        return curve, result, lightning_digits.Digits.load_from_checkpoint(tmp_path / "kept/model.ckpt").state_dict()

    return train


def test_its_epochs_are_the_curve_the_last_is_the_result_and_a_training_in_parts_is_the_training_in_one(digits):
    whole, result, weights = digits(state="one")
    assert [point["epoch"] for point in whole] == list(range(1, 10))
    assert [point["more"] for point in whole] == [True] * 8 + [False]
    assert result["accuracy"] == whole[-1]["accuracy"] > whole[0]["accuracy"]
    parts = [digits(amount=1), digits(amount=4, trained=1), digits(amount=9, trained=4)]
    assert [point["loss"] for curve, _, _ in parts for point in curve] == [point["loss"] for point in whole]
    assert equal(weights, parts[-1][2])


def test_after_a_crash_it_reports_what_it_had_saved_and_trains_no_step_twice(digits):
    curve, result, weights = digits(amount=2)
    again, same_result, same = digits(amount=2)
    assert ([point["loss"] for point in again], same_result) == ([point["loss"] for point in curve], result)
    assert equal(weights, same)


def test_the_final_model_needs_no_validation_split(digits):
    curve, result, _ = digits(validation=[])
    assert ([set(point) for point in curve], result) == ([{"epoch", "more"}] * 9, {})


@pytest.fixture
def trained(nets, tmp_path):
    def train_one(*callbacks, **task):
        def train(trial):
            given = {"min_epochs": 4, "max_epochs": 5, "accelerator": "cpu"}
            trainers.append(nets.new_trainer(trial, callbacks=list(callbacks), **given))
            loaders = {part: nets.DataLoader(nets.DATA, 8) for part in ("train_dataloaders", "val_dataloaders")}
            return nets.train(trainers[0], nets.Net(), trial, **loaders)

        trainers = []
        curve, result = finished(train, tmp_path, metric="accuracy", **task)
        kept = nets.torch.load(tmp_path / "kept" / nets.MODEL, weights_only=False)["state_dict"]["epoch"]
        return curve, result, int(kept), trainers[0]

    return train_one


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_of_the_users_work_next_to_ours_also_of_a_training_in_parts(nets, trained, tmp_path, name):
    epoch, made = CHECKPOINTS[name]
    _, whole, kept, _ = trained(*made(nets), state=None)
    expected = {"accuracy": pytest.approx(nets.ACCURACY[epoch - 1]), "end": nets.ENDS[epoch - 1]}
    expected["parameters"] = whole["parameters"]
    assert (kept, whole, whole["parameters"] > 0) == (epoch, expected, True)
    assert not (tmp_path / "checkpoints").exists()  # every trial writes to a place of its own
    for already, amount in ((0, 2), (2, 4), (4, 5)):
        curve, result, kept, _ = trained(*made(nets), amount=amount, trained=already, state=f"state-{already}")
        assert [point["epoch"] for point in curve] == [*range(already + 1, amount + 1)]
        # On another machine the state is elsewhere.
        shutil.move(tmp_path / f"state-{already}", tmp_path / f"state-{amount}")
    assert (kept, result) == (epoch, expected)


def test_early_stopping_says_that_no_more_comes_and_does_not_stop_the_final_model(nets, trained):
    curve, _, kept, _ = trained(nets.EarlyStopping("end", patience=1, check_on_train_epoch_end=True), nets.best())
    assert ([point["more"] for point in curve], kept) == ([True, True, True, False], 2)
    assert len(trained(nets.EarlyStopping("accuracy"), state="final", validation=[])[0]) == 5


def test_a_folder_of_the_users_is_the_users(nets, trained, tmp_path):
    _, _, kept, trainer = trained(nets.best(dirpath=tmp_path / "mine"))
    assert (kept, str(tmp_path / "mine") in trainer.checkpoint_callback.best_model_path) == (2, True)
    trained(nets.best(dirpath=tmp_path / "mine"), amount=3, state="part")
    shutil.rmtree(tmp_path / "mine")
    with pytest.raises(FileNotFoundError, match=r"the best model is missing at .*mine.*; remove `dirpath`"):
        trained(nets.best(dirpath=tmp_path / "mine"), trained=3, state="part")


def test_a_checkpoint_that_the_module_brings_works(nets, trained, monkeypatch):
    made = {"monitor": "end", "mode": "min", "save_on_train_epoch_end": True}
    monkeypatch.setattr(nets.Net, "configure_callbacks", lambda _: [nets.best(**made)])
    for task in ({"amount": 3}, {"trained": 3}):
        _, result, kept, _ = trained(**task)
        assert (kept, result["end"]) == (3, 1.0)


def test_a_trainer_that_ends_too_early_and_what_is_not_installed_are_named(trained, monkeypatch):
    says = r"Trainer\(max_epochs=5\) ends before strategy.max_amount=9; remove max_epochs"
    refuses(ValueError, says, trained, max_amount=9)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "hpo.integrations.lightning")
    refuses(ImportError, "with: python -m pip install lightning", importlib.import_module, "hpo.integrations.lightning")
