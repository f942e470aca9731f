"""A search over a Lightning module by asha: `python examples/lightning_digits.py`, 40 seconds."""

import sys

from sklearn.datasets import load_digits

import hpo

try:
    import lightning
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    from hpo.integrations.lightning import MODEL, new_trainer, train
except ImportError as error:
    sys.exit(f"{error}; install it with: python -m pip install -e '.[lightning]'")


class Digits(lightning.LightningModule):
    """A network of two layers."""

    def __init__(self, width, dropout, lr):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 10))

    def training_step(self, batch, _):
        """Return the loss of a batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.layers(images), labels)

    def validation_step(self, batch, _):
        """Log loss and accuracy."""
        images, labels = batch
        scores = self.layers(images)
        self.log("loss", nn.functional.cross_entropy(scores, labels))
        self.log("accuracy", (scores.argmax(-1) == labels).float().mean())

    def configure_optimizers(self):
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), self.hparams.lr)


def batches(indices, shuffle=False):
    """Return these digits in batches."""
    digits = load_digits()
    images, labels = torch.tensor(digits.data[indices] / 16).float(), torch.tensor(digits.target[indices])
    return DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=shuffle)


def describe_data(config):
    """Return the examples to split into train, validation and test."""
    return {"name": "digits", "size": 1797, "labels": load_digits().target.tolist()}


def run_test(config, trial):
    """Return the metrics of a saved model on the test split."""
    model = Digits.load_from_checkpoint(trial.checkpoint_dir / MODEL)
    return new_trainer(trial).validate(model, batches(trial.test), verbose=False)[0]


@hpo.objective(continues=True, describe_data=describe_data, run_test=run_test)
def digits(config, trial, **settings):
    """Train on this trial's training split."""
    trainer = new_trainer(trial, max_epochs=9, **settings)
    parts = {"train_dataloaders": batches(trial.train, shuffle=True), "val_dataloaders": batches(trial.validation)}
    return train(trainer, Digits(**config), trial, **parts)


if __name__ == "__main__":
    space = {"width": [16, 32, 64, 128], "dropout": (0.0, 0.5), "lr": hpo.log(1e-4, 1e-1)}
    asha, goal = {"name": "asha", "max_amount": 9}, {"metric": "accuracy", "direction": "maximize"}
    study = hpo.search(digits, space, strategy=asha, trials=10, workers=2, settings={"split.folds": 1}, **goal)
    print(study.best.score, study.best.config)
    print(study.test(again=True))  # other examples may have evaluated the same test split
