"""Builds what a worker gets: the payload of each fold of a trial, and of the final training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.config import StudyConfig
from hpo.examples import Indices
from hpo.keys import flatten, replaced
from hpo.splits import Plan
from hpo.trials import Task, Trial, training_seed

# Number of the fold, in seeds and messages, of the final training on all development examples.
FINAL_FOLD = -1

# Where data comes from. A worker that reads the development copy gets none of them; none ever gets the test part.
_SOURCES = ("data.path", "data.train", "data.validation", "data.test")


@dataclass(frozen=True)
class TaskBuilder:
    """Builds the tasks of one study.

    Attributes:
        config: the study's configuration.
        plan: the folds; None for an objective that brings its own data.
        data_dir: where the development examples were written, and nothing else; None where the objective has
            no `prepare_data`: then it gets indices in the numbering of its `describe_data`.
        checkpoints_dir: where trained models are kept; None where the objective keeps none.
    """

    config: StudyConfig
    plan: Plan | None
    data_dir: Path | None
    checkpoints_dir: Path | None

    @property
    def num_folds(self) -> int:
        """How many tasks a trial has."""
        return len(self.plan.folds) if self.plan else 1

    def tasks_of(self, trial: Trial) -> list[Task]:
        """Return one task a fold. With a hold-out the model is kept; with folds it is trained once more at the end."""
        keep = self.checkpoints_dir is not None and self.num_folds == 1
        checkpoint = (
            str(self.checkpoints_dir / checkpoint_name(trial.number)) if keep and self.checkpoints_dir else None
        )
        return [Task(trial.number, fold, self._payload(trial, fold, checkpoint)) for fold in range(self.num_folds)]

    def final_task(self, trial: Trial, epochs: int | None) -> Task:
        """Return the task that trains the winner on all development examples, for this many epochs."""
        assert self.plan is not None
        assert self.checkpoints_dir is not None
        payload = self._payload(trial, FINAL_FOLD, str(self.checkpoints_dir / "final"))
        everything = self._positions(self.plan.development)
        return Task(trial.number, FINAL_FOLD, payload | {"train": everything, "validation": [], "epochs": epochs})

    def _payload(self, trial: Trial, fold: int, checkpoint_dir: str | None) -> dict[str, Any]:
        study = self.config.study
        halves: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None)
        if self.plan is not None and fold != FINAL_FOLD:
            halves = self._positions(self.plan.folds[fold].train), self._positions(self.plan.folds[fold].validation)
        return {
            "study": study.name,
            "trial": trial.number,
            "fold": fold,
            "objective": self.config.objective,
            "config": without_sources(self.config.trial_config(trial.point), self.data_dir is not None),
            "train": halves[0],
            "validation": halves[1],
            "data_dir": str(self.data_dir) if self.data_dir else None,
            "metric": study.metric,
            "direction": study.direction,
            "seed": training_seed(study.seed, trial.key, fold),
            "threads": self.config.dispatch.threads,
            "epochs": None,
            "checkpoint_dir": checkpoint_dir,
        }

    def _positions(self, indices: Indices) -> list[int]:
        """Return the examples' places in the development copy, or their own numbers where there is none."""
        assert self.plan is not None
        if self.data_dir is None:
            return list(indices)
        place = {index: position for position, index in enumerate(self.plan.development)}
        return [place[index] for index in indices]


def without_sources(config: Mapping[str, Any], is_copied: bool) -> dict[str, Any]:
    """Return the trial's tree without the way to the test part, and without any source when the data is copied."""
    present = flatten(config)
    hidden = _SOURCES if is_copied else ("data.test",)
    return replaced(config, {key: None for key in hidden if key in present})


def checkpoint_name(number: int) -> str:
    """Return the name of the folder that holds a trial's trained model."""
    return f"trial_{number:04d}"
