"""Builds what a worker gets: the payload of each fold of a trial, and of the final training."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.config.keys import flatten, replaced
from hpo.config.sealing import values_of
from hpo.config.study_config import DATA_SOURCES, StudyConfig
from hpo.engine.training.examples import Indices
from hpo.engine.training.splits import Plan
from hpo.engine.trials.trial import Task, TaskLayout, Trial, training_seed

# Number of the fold, in seeds and messages, of the final training on all development examples.
FINAL_FOLD = -1


@dataclass(frozen=True)
class TaskBuilder:
    """Builds the tasks of one study.

    Attributes:
        config: the study's configuration.
        plan: the folds; None for an objective that brings its own data.
        layout: the tasks of a trial.
        data_dir: where the development examples were written, and nothing else; None where the objective has
            no `prepare_data`: then it gets indices in the numbering of its `describe_data`.
        checkpoints_dir: where trained models are kept; None where the objective keeps none.
        states_dir: where trainings keep their state.
        continues: whether the objective can go on from a state: then a task whose worker or driver died does. Without
            it only those trainings keep one that a later trial goes on with.
    """

    config: StudyConfig
    plan: Plan | None
    layout: TaskLayout
    data_dir: Path | None
    checkpoints_dir: Path | None
    states_dir: Path | None = None
    continues: bool = False

    def tasks_of(self, trial: Trial) -> list[Task]:
        """Return one task a fold and repeat.

        With a hold-out the model of the first repeat is kept; with folds it is trained once more at the end.
        """
        keep = self.checkpoints_dir is not None and self.layout.folds == 1
        model = str(self.checkpoints_dir / checkpoint_name(trial.number)) if keep and self.checkpoints_dir else None
        payloads = self._payloads(trial, range(self.layout.size))
        return [
            Task(trial.number, index, payload | ({"checkpoint_dir": model} if index == 0 else {}))
            for index, payload in enumerate(payloads)
        ]

    def again(self, trial: Trial, repeat: int) -> list[Task]:
        """Return one task a fold for a further training of a finished trial, with a repeat's own seeds."""
        indices = range(repeat * self.layout.folds, (repeat + 1) * self.layout.folds)
        payloads = self._payloads(trial, indices)
        return [Task(trial.number, index, payload) for index, payload in zip(indices, payloads, strict=True)]

    def final_task(self, trial: Trial, epochs: int | None) -> Task:
        """Return the task that trains the winner on all development examples, for this many epochs."""
        assert self.plan is not None
        assert self.checkpoints_dir is not None
        (payload,) = self._payloads(trial, [FINAL_FOLD])
        changes = {
            "train": self._positions(self.plan.development),
            "validation": [],
            "epochs": epochs,
            "resume_dir": self._resume_dir(trial, FINAL_FOLD, 0) if self.continues else None,
            "checkpoint_dir": str(self.checkpoints_dir / "final"),
        }
        return Task(trial.number, FINAL_FOLD, payload | changes)

    def _payloads(self, trial: Trial, indices: Sequence[int]) -> list[dict[str, Any]]:
        study = self.config.study
        config = without_sources(self.config.trial_config(trial.point), self.data_dir is not None)
        shared = {
            "study": study.name,
            "trial": trial.number,
            "objective": self.config.objective,
            "config": config,
            "data_dir": str(self.data_dir) if self.data_dir else None,
            "metric": study.metric,
            "direction": study.direction,
            "threads": self.config.dispatch.threads,
            "secrets": values_of(config, self.config.secrets),
            "epochs": trial.amount,
            "trained": trial.trained,
            "checkpoint_dir": None,
        }
        return [shared | self._part(trial, index) for index in indices]

    def _part(self, trial: Trial, index: int) -> dict[str, Any]:
        """Return what differs between the tasks of a trial."""
        fold, repeat = (FINAL_FOLD, 0) if index == FINAL_FOLD else (self.layout.fold(index), self.layout.repeat(index))
        train = validation = None
        if self.plan is not None and fold != FINAL_FOLD:
            train, validation = map(self._positions, (self.plan.folds[fold].train, self.plan.folds[fold].validation))
        return {
            "fold": fold,
            "repeat": repeat,
            "train": train,
            "validation": validation,
            "seed": training_seed(self.config.study.seed, trial.key, fold, repeat),
            "resume_dir": self._resume_dir(trial, fold, repeat) if self.continues or trial.amount is not None else None,
        }

    def state_names(self, trials: Iterable[Trial]) -> set[str]:
        """Return the names of the folders in which the trainings of these trials keep their state."""
        indices = range(self.layout.size)
        return {_state_name(trial, self.layout.fold(i), self.layout.repeat(i)) for trial in trials for i in indices}

    def _resume_dir(self, trial: Trial, fold: int, repeat: int) -> str | None:
        return None if self.states_dir is None else str(self.states_dir / _state_name(trial, fold, repeat))

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
    # A worker that reads the development copy gets no source; none ever gets the test part.
    hidden = DATA_SOURCES if is_copied else ("data.test",)
    return replaced(config, {key: None for key in hidden if key in present})


def _state_name(trial: Trial, fold: int, repeat: int) -> str:
    """Return where the state of a training is kept: the same for all trials of a point, which go on with it."""
    return f"{hashlib.sha256(trial.key.encode()).hexdigest()[:16]}_{fold}_{repeat}"


def checkpoint_name(number: int) -> str:
    """Return the name of the folder that holds a trial's trained model."""
    return f"trial_{number:04d}"
