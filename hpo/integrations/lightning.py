"""A Lightning Trainer under a search: its learning curve, its checkpoints to go on from, its best model kept."""

import json
import shutil
from pathlib import Path
from typing import Any

from hpo.engine.training.objective.plain_function import RunningTrial

try:
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
    from lightning.pytorch.callbacks import ModelCheckpoint
except ImportError as error:
    raise ImportError(f"{error}; install it with: python -m pip install lightning") from error

# Of a trained model in the folder that a study keeps.
MODEL = "model.ckpt"
_CURVE = "curve.json"


def new_trainer(trial: RunningTrial, **values: Any) -> Trainer:
    """Return a trainer for this trial, and seed all generators, for the model that is made next.

    Args:
        trial: decides the seed.
        values: any of lightning's Trainer; without others nothing is shown, logged or saved elsewhere.
    """
    _seed(trial, 0)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(default_root_dir=trial.resume_dir, **{**quiet, "enable_checkpointing": False, **values})


def train(trainer: Trainer, model: LightningModule, trial: RunningTrial, **data: Any) -> dict[str, float]:
    """Fit, report each epoch, and return the metrics of the last, or of the best where a ModelCheckpoint monitors one.

    Where the study keeps states, each is saved before it is reported, and a training goes on from the last. The model
    is kept, as `model.ckpt`, where the study keeps one. A training without a validation part, as of the final model,
    trains all epochs. Each epoch has a seed of its own, so that a continued training sees what it would have seen.

    Args:
        trainer: with what it needs; a callback is added.
        model: what is trained.
        trial: the trial, as the objective gets it.
        data: of `Trainer.fit`: `train_dataloaders` and `val_dataloaders`, or `datamodule`.

    Returns:
        What the model logs, by name.
    """
    torch.set_num_threads(trial.threads)
    if trial.validation is not None and not len(trial.validation):
        trainer.limit_val_batches = 0
    callback = TrialCallback(trial)
    state = callback.continue_from()
    if callback.is_far_enough:
        # It was saved, and the search does not know it yet.
        trainer.fit_loop.max_epochs = len(callback.curve)
    trainer.callbacks.append(callback)
    trainer.fit(model, **data, ckpt_path=state)
    best = trainer.checkpoint_callback
    monitored = best.monitor if isinstance(best, ModelCheckpoint) and best.best_model_path else None
    if trial.checkpoint_dir is not None:
        trial.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        if monitored and trainer.is_global_zero:
            shutil.copyfile(best.best_model_path, trial.checkpoint_dir / MODEL)
        elif not monitored:
            trainer.save_checkpoint(trial.checkpoint_dir / MODEL, weights_only=True)
    chosen = [point for point in callback.curve if monitored and point.get(monitored) == float(best.best_model_score)]
    return (chosen or callback.curve)[-1]


class TrialCallback(Callback):  # type: ignore[misc]  # its types are not read
    """Report epochs to the search, and end where it says; `train` adds it, last of all callbacks.

    Attributes:
        curve: the metrics after each epoch so far.
    """

    def __init__(self, trial: RunningTrial) -> None:
        self._trial = trial
        # How many points of the learning curve the search has.
        self._num_reported = trial.trained
        self.curve: list[dict[str, float]] = []

    @property
    def is_far_enough(self) -> bool:
        """Whether it has trained as far as it should."""
        return self._trial.amount is not None and len(self.curve) >= self._trial.amount

    def continue_from(self) -> Path | None:
        """Return the last state that was saved, if there is one, and report what the search does not know of it."""
        states = list(self._trial.resume_dir.glob("epoch-*.ckpt")) if self._trial.resume_dir is not None else []
        if not states:
            return None
        last = max(states, key=_epoch)
        self.curve = json.loads(last.with_name(_CURVE).read_text())[: _epoch(last)]
        _seed(self._trial, len(self.curve))
        self.report()
        return last

    def on_train_epoch_end(self, trainer: Trainer, _: LightningModule) -> None:
        """Save the state, then report."""
        self.curve.append({name: float(value) for name, value in trainer.callback_metrics.items()})
        _seed(self._trial, len(self.curve))
        trainer.should_stop = trainer.should_stop or self.is_far_enough
        if self._trial.resume_dir is not None:
            self._save(trainer, self._trial.resume_dir)
        is_last = trainer.should_stop or len(self.curve) == trainer.max_epochs
        self.report(more=not is_last)

    def _save(self, trainer: Trainer, folder: Path) -> None:
        """Save the curve, then the state that it leads to, and remove the one before: each whole or not at all.

        Of several processes all take part, and the first writes.
        """
        aside = folder / "new"
        before = list(folder.glob("epoch-*.ckpt"))
        if trainer.is_global_zero:
            aside.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(self.curve))
            aside.replace(folder / _CURVE)
        trainer.save_checkpoint(aside)
        if trainer.is_global_zero:
            aside.replace(folder / f"epoch-{len(self.curve)}.ckpt")
            for state in before:
                state.unlink()

    def report(self, more: bool = True) -> None:
        """Report what the search does not know; `more`: whether the training goes on after it."""
        for number in range(self._num_reported + 1, len(self.curve) + 1):
            self._num_reported = number
            self._trial.report(self.curve[number - 1], epoch=number, more=more or number < len(self.curve))


def _epoch(state: Path) -> int:
    return int(state.stem.removeprefix("epoch-"))


def _seed(trial: RunningTrial, epoch: int) -> None:
    seed_everything((trial.seed + epoch) % 2**32, workers=True, verbose=False)
