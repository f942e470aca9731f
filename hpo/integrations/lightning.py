"""A Lightning Trainer under a search: its learning curve, its checkpoints to go on from, its best model kept."""

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
    from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
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
    given = values.get("callbacks") or []
    saves = any(isinstance(callback, Checkpoint) for callback in (given if isinstance(given, list) else [given]))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(default_root_dir=trial.resume_dir, **{**quiet, "enable_checkpointing": saves, **values})


def train(trainer: Trainer, model: LightningModule, trial: RunningTrial, **data: Any) -> dict[str, float]:
    """Fit, report each epoch, and return the metrics of the last, or of the best where a ModelCheckpoint monitors one.

    Of several that monitor the first counts. Those without a `dirpath` write beside the trial's state, which another
    machine goes on from, too; without states, to a folder that is removed at the end.

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
    _refuse_short(trainer, trial)
    if trial.validation is not None and not len(trial.validation):
        trainer.limit_val_batches = 0
    with ExitStack() as stack:
        folder = trial.resume_dir or Path(stack.enter_context(TemporaryDirectory()))
        callback = TrialCallback(trial, folder)
        state = callback.continue_from()
        if callback.is_far_enough:
            # It was saved, and the search does not know it yet.
            trainer.fit_loop.max_epochs = len(callback.curve)
        trainer.callbacks.insert(0, callback)
        trainer.fit(model, **data, ckpt_path=state)
        savers = [saver for saver in trainer.checkpoint_callbacks if isinstance(saver, ModelCheckpoint)]
        best = next((saver for saver in savers if saver.monitor and saver.best_model_path), None)
        if trial.checkpoint_dir is not None:
            _keep(trainer, best, trial.checkpoint_dir)
    if best is None:
        return callback.curve[-1]
    # Of equal ones the first, as the ModelCheckpoint does.
    chosen = [point for point in callback.curve if point.get(best.monitor) == float(best.best_model_score)]
    return (chosen or callback.curve[-1:])[0]


def _refuse_short(trainer: Trainer, trial: RunningTrial) -> None:
    """Raise ValueError for a trainer that ends before the largest amount: it would be taken for a full training."""
    for name in ("max_epochs", "max_steps"):
        # Every epoch has a step at least; -1 is no end.
        if trial.max_amount is not None and 0 < (getattr(trainer, name) or 0) < trial.max_amount:
            raise ValueError(
                f"Trainer({name}={getattr(trainer, name)}) ends before strategy.max_amount={trial.max_amount}; leave "
                f"it out, or give a smaller max_amount"
            )


def _keep(trainer: Trainer, best: ModelCheckpoint | None, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if best is None:
        trainer.save_checkpoint(folder / MODEL, weights_only=True)
    elif trainer.is_global_zero:
        try:
            shutil.copyfile(best.best_model_path, folder / MODEL)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"the best model is gone from {best.best_model_path}, where an earlier part of the training has left "
                f"it; leave out `dirpath` of the ModelCheckpoint, and it is kept with the trial's state"
            ) from error


class TrialCallback(Checkpoint):  # type: ignore[misc]  # its types are not read
    """Report epochs to the search, and end where it says; `curve` has the metrics after each epoch so far.

    It is a Checkpoint so that at the end of an epoch it runs after those: their state is part of the state saved.
    """

    def __init__(self, trial: RunningTrial, folder: Path) -> None:
        self._trial, self._folder = trial, folder
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

    def setup(self, trainer: Trainer, *_: Any, **__: Any) -> None:
        """Give checkpoints of the user's a folder, before they look for one, and go to the end of the callbacks."""
        for saver in trainer.checkpoint_callbacks:
            if isinstance(saver, ModelCheckpoint) and saver.dirpath is None:
                saver.dirpath = str(self._folder / "checkpoints")
        trainer.callbacks = [*(callback for callback in trainer.callbacks if callback is not self), self]

    def on_load_checkpoint(self, trainer: Trainer, _: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Say to checkpoints of the user's where their files are now: the state may have been moved."""
        for saver in trainer.checkpoint_callbacks:
            state = checkpoint["callbacks"].get(saver.state_key, {})
            before, now = state.get("dirpath"), getattr(saver, "dirpath", None)
            if before and now:
                for name in ("best_model_path", "kth_best_model_path", "last_model_path"):
                    state[name] = state[name].replace(before, now)
                state["best_k_models"] = {p.replace(before, now): score for p, score in state["best_k_models"].items()}
                state["dirpath"] = now

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
        """Save the curve, then the state that it leads to, each whole or not at all; the first process writes."""
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
