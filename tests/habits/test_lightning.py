"""What users of Lightning type, into `hpo.integrations.lightning`: ModelCheckpoints of their own beside ours."""

import importlib
import shutil

import pytest

from hpo.workers.objective.plain_function import RunningTrial

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# By epoch: the best is the second, the fourth is its equal.
ACCURACY, ENDS = [0.5, 0.9, 0.6, 0.9, 0.7], [5.0, 4.0, 1.0, 2.0, 3.0]
# Of `lightning_nets.CHECKPOINTS`, with the epoch whose model is kept.
KEPT = {
    "one that monitors": 2,
    "one that does not": 5,
    "one with save_last": 2,
    "one of what is logged at the end": 3,
    "two, of which the second monitors": 2,
    "two that monitor, of which the first counts": 3,
}


@pytest.fixture(scope="module")
def nets():
    """Import Lightning here, and not whenever tests are collected."""
    return importlib.import_module("tests.habits.lightning_nets")


@pytest.fixture
def trained(nets, tmp_path, monkeypatch):
    """Return a function that trains, and returns curve, result, the kept model's epoch, and the trainer."""
    monkeypatch.chdir(tmp_path)

    def train_one(*callbacks, amount=None, already=0, state="state", net=nets.Net, **values):
        task = {"trial": 0, "fold": 0, "repeat": 0, "seed": 2**33, "threads": 1, "data_dir": None, "train": None}
        task |= {"metric": "accuracy", "validation": None, "amount": amount, "trained": already}
        task |= {"checkpoint_dir": str(tmp_path / "kept")}
        trial = RunningTrial(task | {"resume_dir": state and str(tmp_path / state)})
        trainer = nets.new_trainer(trial, max_epochs=5, callbacks=list(callbacks), accelerator="cpu", **values)
        loaders = {"train_dataloaders": nets.DataLoader(nets.DATA, 8), "val_dataloaders": nets.DataLoader(nets.DATA, 8)}
        curve, running = [], trial.run(lambda: nets.train(trainer, net(), trial, **loaders))
        while True:
            try:
                curve.append(next(running))
            except StopIteration as stop:
                kept = nets.torch.load(tmp_path / "kept" / nets.MODEL, weights_only=False)["state_dict"]["epoch"]
                return curve, stop.value, int(kept), trainer

    return train_one


@pytest.mark.parametrize("state", [None, "state"])
@pytest.mark.parametrize("name", KEPT)
def test_checkpoints_of_the_users_work_beside_ours(nets, trained, tmp_path, name, state):
    made, epoch = nets.CHECKPOINTS[name], KEPT[name]
    curve, result, kept, _ = trained(*made(), state=state)
    assert [point["epoch"] for point in curve] == [1, 2, 3, 4, 5]
    assert kept == epoch
    assert result == {"accuracy": pytest.approx(ACCURACY[epoch - 1]), "end": ENDS[epoch - 1]}
    assert not (tmp_path / "checkpoints").exists()  # every trial writes to a place of its own


@pytest.mark.parametrize("name", KEPT)
def test_a_training_in_parts_has_the_checkpoints_of_the_training_in_one(nets, trained, tmp_path, name):
    made, epoch = nets.CHECKPOINTS[name], KEPT[name]
    before = tmp_path / "nothing"
    for already, amount in ((0, 2), (2, 4), (4, 5)):
        # On another machine the state lies elsewhere.
        folder = tmp_path / f"state-{already}"
        if already:
            shutil.move(before, folder)
        curve, result, kept, _ = trained(*made(), amount=amount, already=already, state=folder.name)
        assert [point["epoch"] for point in curve] == [*range(already + 1, amount + 1)]
        before = folder
    assert (kept, result["end"]) == (epoch, ENDS[epoch - 1])


def test_a_checkpoint_that_the_module_brings_works(nets, trained):
    _, result, kept, _ = trained(net=nets.Bringing, amount=3)
    assert (kept, result["end"]) == (3, 1.0)
    _, result, kept, _ = trained(net=nets.Bringing, already=3)
    assert (kept, result["end"]) == (3, 1.0)


def test_early_stopping_says_that_no_more_comes(nets, trained):
    curve, _, kept, _ = trained(nets.EarlyStopping("end", patience=1, check_on_train_epoch_end=True), nets.best())
    assert [point["more"] for point in curve] == [True, True, True, False]
    assert kept == 2


def test_a_folder_of_the_users_is_the_users(nets, trained, tmp_path):
    _, _, kept, trainer = trained(nets.best(dirpath=tmp_path / "mine"))
    assert kept == 2
    assert trainer.checkpoint_callback.best_model_path.startswith(str(tmp_path / "mine"))
    shutil.rmtree(tmp_path / "state")
    trained(nets.best(dirpath=tmp_path / "mine"), amount=3)
    shutil.rmtree(tmp_path / "mine")
    with pytest.raises(FileNotFoundError, match=r"the best model is missing at .*mine.*; remove `dirpath`"):
        trained(nets.best(dirpath=tmp_path / "mine"), already=3)
