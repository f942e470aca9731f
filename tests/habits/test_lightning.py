"""What users of Lightning type, into `hpo.integrations.lightning`: ModelCheckpoints of their own beside ours."""

import shutil

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from hpo.engine.objective.plain_function import RunningTrial
from hpo.integrations.lightning import MODEL, new_trainer, train

pytestmark = pytest.mark.filterwarnings("ignore")
DATA = TensorDataset(torch.eye(8), torch.arange(8) % 2)
# By epoch: the best is the second, the fourth is its equal.
ACCURACY, ENDS = [0.5, 0.9, 0.6, 0.9, 0.7], [5.0, 4.0, 1.0, 2.0, 3.0]


class Net(lightning.LightningModule):
    """It counts its epochs in a weight, so that a kept model says of which it is."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
        self.register_buffer("epoch", torch.tensor(0))

    def training_step(self, batch, _):
        """Return the loss."""
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, _):
        """Log what the epoch has."""
        if not self.trainer.sanity_checking:
            self.epoch += 1
            self.log("accuracy", ACCURACY[self.current_epoch])

    def on_train_epoch_end(self):
        """Log what only callbacks that run after it see."""
        self.log("end", ENDS[self.current_epoch])

    def configure_optimizers(self):
        """Return SGD."""
        return torch.optim.SGD(self.parameters(), 0.1)


class Bringing(Net):
    """The checkpoint comes from the module."""

    def configure_callbacks(self):
        """Return it."""
        return [ModelCheckpoint(monitor="end", save_on_train_epoch_end=True)]


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Return a function that trains, and returns curve, result, the kept model's epoch, and the trainer."""
    monkeypatch.chdir(tmp_path)

    def train_one(*callbacks, amount=None, already=0, state="state", net=Net, **values):
        task = {"trial": 0, "fold": 0, "repeat": 0, "seed": 2**33, "threads": 1, "data_dir": None, "train": None}
        task |= {"metric": "accuracy", "validation": None, "epochs": amount, "trained": already}
        task |= {"checkpoint_dir": str(tmp_path / "kept")}
        trial = RunningTrial(task | {"resume_dir": state and str(tmp_path / state)})
        trainer = new_trainer(trial, max_epochs=5, callbacks=list(callbacks), accelerator="cpu", **values)
        loaders = {"train_dataloaders": DataLoader(DATA, 8), "val_dataloaders": DataLoader(DATA, 8)}
        curve, running = [], trial.run(lambda: train(trainer, net(), trial, **loaders))
        while True:
            try:
                curve.append(next(running))
            except StopIteration as stop:
                kept = torch.load(tmp_path / "kept" / MODEL, weights_only=False)["state_dict"]["epoch"]
                return curve, stop.value, int(kept), trainer

    return train_one


def best(**values):
    return ModelCheckpoint(**{"monitor": "accuracy", "mode": "max", **values})


CHECKPOINTS = {
    "one that monitors": (lambda: [best()], 2),
    "one that does not": (lambda: [ModelCheckpoint()], 5),
    "one with save_last": (lambda: [best(save_last=True, save_top_k=2)], 2),
    "one of what is logged at the end": (lambda: [best(monitor="end", mode="min", save_on_train_epoch_end=True)], 3),
    "two, of which the second monitors": (lambda: [ModelCheckpoint(every_n_epochs=1), best()], 2),
    "two that monitor, of which the first counts": (lambda: [best(monitor="end", mode="min"), best()], 3),
}


@pytest.mark.quick("one that monitors-*", "one that does not-state")
@pytest.mark.slow
@pytest.mark.parametrize("state", [None, "state"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_of_the_users_work_beside_ours(trained, tmp_path, name, state):
    made, epoch = CHECKPOINTS[name]
    curve, result, kept, _ = trained(*made(), state=state)
    assert [point["epoch"] for point in curve] == [1, 2, 3, 4, 5]
    assert kept == epoch
    assert result == {"accuracy": pytest.approx(ACCURACY[epoch - 1]), "end": ENDS[epoch - 1]}
    assert not (tmp_path / "checkpoints").exists()  # every trial writes to a place of its own


@pytest.mark.quick("one that monitors", "one with save_last")
@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_training_in_parts_has_the_checkpoints_of_the_training_in_one(trained, tmp_path, name):
    made, epoch = CHECKPOINTS[name]
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


def test_a_checkpoint_that_the_module_brings_works(trained):
    _, result, kept, _ = trained(net=Bringing, amount=3)
    assert (kept, result["end"]) == (3, 1.0)
    _, result, kept, _ = trained(net=Bringing, already=3)
    assert (kept, result["end"]) == (3, 1.0)


def test_early_stopping_says_that_no_more_comes(trained):
    curve, _, kept, _ = trained(EarlyStopping("end", patience=1, check_on_train_epoch_end=True), best())
    assert [point["more"] for point in curve] == [True, True, True, False]
    assert kept == 2


def test_a_folder_of_the_users_is_the_users(trained, tmp_path):
    _, _, kept, trainer = trained(best(dirpath=tmp_path / "mine"))
    assert kept == 2
    assert trainer.checkpoint_callback.best_model_path.startswith(str(tmp_path / "mine"))
    shutil.rmtree(tmp_path / "state")
    trained(best(dirpath=tmp_path / "mine"), amount=3)
    shutil.rmtree(tmp_path / "mine")
    with pytest.raises(FileNotFoundError, match=r"the best model is gone from .*mine.*; leave out `dirpath`"):
        trained(best(dirpath=tmp_path / "mine"), already=3)
