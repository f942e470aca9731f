"""Trains trials with a Lightning Trainer: reports learning curves, continues from checkpoints, saves the best model."""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hpo.workers.objective.plain_function import RunningTrial

try:
    import torch
    from lightning.pytorch import LightningModule, Trainer, seed_everything
    from lightning.pytorch.callbacks import Checkpoint, EarlyStopping, ModelCheckpoint
except ImportError as error:
    raise ImportError(f"{error}; install it with: python -m pip install lightning") from error

# The file of a trained model in `trial.checkpoint_dir`.
MODEL = "model.ckpt"
_CURVE = "curve.json"


def new_trainer(trial: RunningTrial, **values: Any) -> Trainer:
    """Seed all random generators, and return a trainer for this trial. Create the model after this call.

    Args:
        trial: the trial, whose seed is used.
        values: arguments of Lightning's Trainer. By default, the trainer itself does not print, log or save.
    """
    _seed(trial, 0)
    given = values.get("callbacks") or []
    saves = any(isinstance(callback, Checkpoint) for callback in (given if isinstance(given, list) else [given]))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(default_root_dir=trial.resume_dir, **{**quiet, "enable_checkpointing": saves, **values})


def train(trainer: Trainer, model: LightningModule, trial: RunningTrial, **data: Any) -> dict[str, float]:
    """Fit the model, report each epoch, and return the metrics of the last epoch.

    If a ModelCheckpoint monitors a metric, return the metrics of its best epoch. If several do, the first one counts. A
    ModelCheckpoint without a `dirpath` saves next to the trial's state, so that another machine can continue the
    training. If the study stores no states, a ModelCheckpoint without a `dirpath` saves to a folder that `train`
    deletes before it returns.

    If the study stores states, the state of each epoch is saved before the epoch is reported, and a training continues
    from the last state. If the study stores models, the model is saved as `model.ckpt`. A training without a validation
    split, such as the training of the final model, trains all epochs. Each epoch has its own seed, so that a continued
    training has the same result as an uninterrupted training.

    Args:
        trainer: the trainer, to which `train` adds a callback.
        model: the model to train.
        trial: the trial, as the objective gets it.
        data: arguments of `Trainer.fit`: `train_dataloaders` and `val_dataloaders`, or `datamodule`.

    Returns:
        The metrics that the model logs, by name, and the number of trained `parameters`.

    Raises:
        ValueError: the trainer would end before `strategy.max_amount`.
        FileNotFoundError: the best model, saved by an earlier part of the training, is missing.
    """
    torch.set_num_threads(trial.threads)
    _refuse_short(trainer, trial)
    if _lacks_validation(trial):
        trainer.limit_val_batches = 0
    with ExitStack() as stack:
        folder = trial.resume_dir or Path(stack.enter_context(TemporaryDirectory()))
        callback = TrialCallback(trial, folder)
        state = callback.continue_from()
        if callback.is_far_enough:
            # All epochs are trained and saved, but the last one was not reported.
            trainer.fit_loop.max_epochs = len(callback.curve)
        trainer.callbacks.insert(0, callback)
        trainer.fit(model, **data, ckpt_path=state)
        savers = [saver for saver in trainer.checkpoint_callbacks if isinstance(saver, ModelCheckpoint)]
        best = next((saver for saver in savers if saver.monitor and saver.best_model_path), None)
        if trial.checkpoint_dir is not None:
            _save_model(trainer, best, trial.checkpoint_dir)
    parameters = {"parameters": float(sum(weight.numel() for weight in model.parameters() if weight.requires_grad))}
    if best is None:
        # A training without a validation split may log no metrics. With `max_epochs=0`, there are no epochs.
        last = (callback.curve or [{}])[-1]
        return parameters | last if last else {}
    # Like ModelCheckpoint, return the first of equal epochs.
    chosen = [point for point in callback.curve if point.get(best.monitor) == float(best.best_model_score)]
    return parameters | (chosen or callback.curve[-1:])[0]


def _lacks_validation(trial: RunningTrial) -> bool:
    return trial.validation is not None and not len(trial.validation)


def _refuse_short(trainer: Trainer, trial: RunningTrial) -> None:
    """Raise ValueError if the training would end before the strategy's largest amount."""
    for name in ("max_epochs", "max_steps"):
        # Every epoch has at least one step; -1 = no limit.
        if trial.max_amount is not None and 0 < (getattr(trainer, name) or 0) < trial.max_amount:
            raise ValueError(
                f"Trainer({name}={getattr(trainer, name)}) ends before strategy.max_amount={trial.max_amount}; remove "
                f"{name}, or give a smaller strategy.max_amount"
            )


def _save_model(trainer: Trainer, best: ModelCheckpoint | None, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if best is None:
        trainer.save_checkpoint(folder / MODEL, weights_only=True)
    elif trainer.is_global_zero:
        try:
            shutil.copyfile(best.best_model_path, folder / MODEL)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"the best model is missing at {best.best_model_path}, where an earlier part of the training saved "
                "it; remove `dirpath` from the ModelCheckpoint, so that the best model is saved next to the trial's "
                "state"
            ) from error


class TrialCallback(Checkpoint):  # type: ignore[misc]  # mypy does not read Lightning's types
    """Reports epochs to the search, and ends the training at the amount of the trial.

    The training state that this callback saves must contain the latest states of the user's ModelCheckpoints. So, at
    the end of each epoch, this callback must run after the ModelCheckpoints. This class is a subclass of Checkpoint,
    because Lightning runs such callbacks after all other callbacks.

    Attributes:
        curve: the metrics of each epoch so far.
    """

    def __init__(self, trial: RunningTrial, folder: Path) -> None:
        self._trial, self._folder = trial, folder
        # The number of epochs that are already reported.
        self._num_reported = trial.earlier_amount
        self.curve: list[dict[str, float]] = []

    @property
    def is_far_enough(self) -> bool:
        """Whether the training has reached the amount of the trial."""
        return self._trial.amount is not None and len(self.curve) >= self._trial.amount

    def continue_from(self) -> Path | None:
        """Report saved epochs that are not reported yet. Return the path of the last state; None = no state exists."""
        states = list(self._trial.resume_dir.glob("epoch-*.ckpt")) if self._trial.resume_dir is not None else []
        if not states:
            return None
        last = max(states, key=_epoch)
        self.curve = json.loads(last.with_name(_CURVE).read_text())[: _epoch(last)]
        _seed(self._trial, len(self.curve))
        self.report()
        return last

    def setup(self, trainer: Trainer, *_: Any, **__: Any) -> None:
        """Give each ModelCheckpoint without a `dirpath` a folder, and move this callback behind all other callbacks.

        Without a validation split, remove all EarlyStopping callbacks, because the training trains all epochs.

        `train` inserts this callback at the start of the trainer's list. So this method runs before the
        ModelCheckpoints are set up, and can give them folders. Afterwards, this callback must run after them.
        """
        for saver in trainer.checkpoint_callbacks:
            if isinstance(saver, ModelCheckpoint) and saver.dirpath is None:
                saver.dirpath = str(self._folder / "checkpoints")
        removed = (EarlyStopping,) if _lacks_validation(self._trial) else ()
        others = (each for each in trainer.callbacks if each is not self and not isinstance(each, removed))
        trainer.callbacks = [*others, self]

    def on_load_checkpoint(self, trainer: Trainer, _: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Update the paths in the states of the user's ModelCheckpoints, because their `dirpath` may have changed."""
        for saver in trainer.checkpoint_callbacks:
            state = checkpoint["callbacks"].get(saver.state_key, {})
            before, now = state.get("dirpath"), getattr(saver, "dirpath", None)
            if before and now:
                for name in ("best_model_path", "kth_best_model_path", "last_model_path"):
                    state[name] = state[name].replace(before, now)
                state["best_k_models"] = {p.replace(before, now): score for p, score in state["best_k_models"].items()}
                state["dirpath"] = now

    def on_train_epoch_end(self, trainer: Trainer, _: LightningModule) -> None:
        """Save the training's state if the study stores states; then report the epoch."""
        self.curve.append({name: float(value) for name, value in trainer.callback_metrics.items()})
        _seed(self._trial, len(self.curve))
        if self.is_far_enough:
            # Unlike `should_stop`, this ends the training even before the trainer's `min_epochs` or `min_steps`.
            trainer.fit_loop.max_epochs = len(self.curve)
        if self._trial.resume_dir is not None:
            self._save(trainer, self._trial.resume_dir)
        has_least = len(self.curve) >= (trainer.min_epochs or 0) and trainer.global_step >= (trainer.min_steps or 0)
        is_last = (trainer.should_stop and has_least) or len(self.curve) == trainer.max_epochs
        self.report(more=not is_last)

    def _save(self, trainer: Trainer, folder: Path) -> None:
        """Save the curve, then the state, each atomically. Only the first of several processes writes files."""
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
        """Report the epochs that are not reported yet; `more` says whether the training continues afterwards."""
        for number in range(self._num_reported + 1, len(self.curve) + 1):
            self._num_reported = number
            self._trial.report(self.curve[number - 1], epoch=number, more=more or number < len(self.curve))


def _epoch(state: Path) -> int:
    return int(state.stem.removeprefix("epoch-"))


def _seed(trial: RunningTrial, epoch: int) -> None:
    seed_everything((trial.seed + epoch) % 2**32, workers=True, verbose=False)
