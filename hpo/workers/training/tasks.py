"""Builds the tasks of a search: the tasks of its trials, of the final training, and of the test.

A task contains the payload for its worker.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from hpo.config.keys import flatten, replaced
from hpo.config.secrets import values_of
from hpo.config.sections import Extension
from hpo.config.study_config import DATA_SOURCES, StudyConfig
from hpo.errors import ConfigError
from hpo.trials.goal import goal_of, searched_goal
from hpo.trials.trial import Direction, TaskLayout, Trial, training_seed
from hpo.workers.objective.examples import Indices
from hpo.workers.training.journal import state_of
from hpo.workers.training.own_lines import OwnLines, run_name
from hpo.workers.training.splits import Plan

# Fields of a payload that are not passed to the objective.
_NOT_FOR_OBJECTIVE = {
    *("secrets", "before", "earlier", "limits", "limits_after", "limit_minutes", "function_file", "code"),
    *("most_file_bytes", "own_lines"),
}


@dataclass(frozen=True)
class Payload:
    """The input of one task. Every field can be written as JSON."""

    objective: str  # the objective's path; see `ObjectivePath`
    config: Mapping[str, Any]  # the configuration with the trial's values and redacted secrets
    metric: str  # name of the score; with several metrics, of the leading metric
    direction: Direction = "maximize"  # whether a higher or a lower score is better
    score: Literal["best", "last"] = "best"  # the reported score to use if the objective returns nothing
    seed: int = 0
    threads: int = 1  # threads of each process
    processes: int = 1  # number of processes that train the task together
    # These four identify the task.
    study: str = ""
    trial: int = 0
    fold: int = 0
    repeat: int = 0
    # Indices of examples; None if the objective loads its data itself, and when a stored model is tested. `validation`
    # is empty in the final training.
    train: Sequence[int] | None = None
    validation: Sequence[int] | None = None
    test: Sequence[int] | None = None  # indices of the test split, to score a stored model; None in a training
    # Folder that the objective's `prepare_data` wrote; in a test, the folder of all rows from Python. None = no folder.
    data_dir: str | None = None
    amount: int | None = None  # amount of training, counted from the start; None = a full training
    max_amount: int | None = None  # the search's largest amount; None if all trainings are full
    trained: int = 0  # amount of training that is already done
    # Whether an interrupted attempt may have saved a state with more training than `trained`.
    interrupted: bool = False
    resume_dir: str | None = None  # folder of the training's state and journal; None = none is stored
    # The recorded learning curve of the trainings that this training continues.
    earlier: Sequence[Mapping[str, Any]] = ()
    # `config` and `amount` of the training that this training continues. That earlier training runs first if its state
    # is missing. None = there is no earlier training.
    before: Mapping[str, Any] | None = None
    # Folder for the best model; if `test` is given, folder of the model to score. None = no model is stored.
    checkpoint_dir: str | None = None
    files_dir: str | None = None  # folder for other files of the training; None = none are stored
    most_file_bytes: int | None = None  # the largest total size of these files; None = no limit
    # Learning curves of the trial, only for the final training. It has no validation split, so it takes decisions such
    # as early stopping from these curves. None in all other trainings.
    curves: Sequence[Sequence[Mapping[str, float]]] | None = None
    limit_minutes: float | None = None  # the training fails at its next report after this time; None = no limit
    # `limits`: pairs of a place (epoch or step) and a score. A training whose best score at a place is worse than the
    # score of the place's pair is stopped. `limits_after`: the first report, counted from 1, at which a training can be
    # stopped. See `Limits`.
    limits: Sequence[tuple[float, float]] = ()
    limits_after: int = 1
    # `metrics`: the names of the metrics in order; empty if there is one metric and no limit. `limited`: the names of
    # other results that have a limit or are measured.
    metrics: Sequence[str] = ()
    limited: Sequence[str] = ()
    function_file: str | None = None  # file of a pickled function; None if the objective is imported
    # Hash of each of the user's source files at the start of the search, by path. A worker compares the files that it
    # imports with these hashes. None = no comparison.
    code: Mapping[str, str] | None = None
    own_lines: OwnLines | None = None  # where the training's MLflow run is; None = it has no run
    mlflow_run_id: str | None = None  # id of that run; None until the worker has found or created it
    # Values of the redacted secrets by name (see `secrets.py`). The objective sees them only within its `config`.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def task(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task to pass to the objective; `config` is the configuration with the real secrets."""
        if_any = ("test", "curves", "metrics", "limited")
        absent = _NOT_FOR_OBJECTIVE | {name for name in if_any if getattr(self, name) in (None, ())}
        task = {name: value for name, value in vars(self).items() if name not in absent}
        return task | {"config": config, "resume_dir": None if self.resume_dir is None else state_of(self.resume_dir)}

    def known_secrets(self) -> Mapping[str, str]:
        """Return the values of the configuration's secrets by name.

        The values come from `secrets`, a field of this payload, and from environment variables. If a needed variable is
        not set, return only the values in `secrets`.
        """
        try:
            return values_of(self.config, self.secrets)
        except ConfigError:
            return self.secrets  # The task itself fails for the unset variable.


@dataclass(frozen=True)
class Task:
    """The unit of work for a dispatcher: one fold of one trial, with one seed."""

    trial: int  # number of the trial, from 0 in the order of proposal
    # Number of the task within the trial, from 0; see `TaskLayout`. FINAL_FOLD for the final training and the test.
    index: int
    payload: Payload


# The fold number of the final training and of the test. The final training uses all development examples.
FINAL_FOLD = -1


@dataclass(frozen=True, kw_only=True)
class Training:
    """The settings that several tasks share, for example all tasks of a study."""

    common: Payload  # template of every task's payload; `TaskBuilder` fills in the rest
    # Returns the objective's configuration for a trial's values, with redacted secrets.
    trial_config: Callable[[Mapping[str, Any]], dict[str, Any]]
    seed: int  # the study's seed; each task's seed is derived from it
    secrets: Mapping[str, str]  # values of the redacted secrets by name; see `secrets.py`
    limit_minutes: float | None = None  # a training of a trial fails after this time; None = no limit
    max_amount: int | None = None  # the largest amount of training; None = all trainings are full
    extends: Extension | None = None  # the study whose trials the first trials continue, or None
    own_lines: OwnLines | None = None  # where the trainings' MLflow runs are; None = no runs

    @classmethod
    def of(
        cls,
        config: StudyConfig,
        function_file: Path | None = None,
        code: Mapping[str, str] | None = None,
        own_lines: OwnLines | None = None,
    ) -> Self:
        """Return the settings that all tasks of a study share.

        For the arguments `function_file` and `code`, see the fields of `Payload`. For `own_lines`, see `Training`.
        """
        study, goal, names = config.study, searched_goal(config.study), goal_of(config.study).names
        common = Payload(
            objective=config.objective,
            config={},
            metric=study.metric,
            direction=study.direction,
            metrics=() if goal.is_single else tuple(goal.metrics),
            limited=tuple(name for name in names if name not in goal.metrics),
            score=study.score,
            most_file_bytes=study.trial_files_bytes,
            threads=config.dispatch.threads,
            processes=config.dispatch.processes_per_task,
            study=study.name,
            function_file=str(function_file) if function_file else None,
            code=code,
        )
        return cls(
            common=common,
            trial_config=config.trial_config,
            seed=study.seed,
            secrets=config.secrets,
            limit_minutes=study.trial_minutes,
            max_amount=config.strategy.get("max_amount"),
            extends=study.extends,
            own_lines=own_lines,
        )

    def before(self, trial: Trial) -> tuple[dict[str, Any], int | None] | None:
        """Return how a trial was trained before: the configuration and the amount of its training in another study.

        `study.extends` names the other study. If that training was a full training, the amount is None. If the trial
        continues no training of the other study, return None. If both studies have the same configuration, also return
        None.
        """
        extends = self.extends
        # If the extension changes nothing, the trial continues like any other, and `before` is not needed.
        if extends is None or not extends.changes or trial.number >= len(extends.trials):
            return None
        earlier = extends.trials[trial.number]
        return (self.trial_config({**trial.point, **extends.changes}), earlier.amount) if earlier.continues else None


@dataclass(frozen=True, kw_only=True)
class TaskBuilder:
    """Builds the tasks of trials, of the final training, and of the test."""

    training: Training  # the shared settings
    plan: Plan | None  # the folds; None if the objective loads its data itself
    layout: TaskLayout  # number of folds and repeats of a trial
    # Folder of the development examples. None = the objective has no `prepare_data`. Then its tasks have the indices of
    # the examples of `describe_data`.
    data_dir: Path | None
    checkpoints_dir: Path | None  # folder of trained models; None = no model is stored
    has_given_data: bool = False  # whether the data was passed from Python, not configured
    given_dir: Path | None = None  # folder of all rows from Python, with the test split; None = no rows
    states_dir: Path | None = None  # folder of training states; None = no state is stored
    files_dir: Path | None = None  # folder of the trainings' other files; None = no file is stored
    # Whether the objective can continue from a state. If so, every training saves a state and continues from it after a
    # crash. If not, only the trainings of trials with an amount have a state folder.
    continues: bool = False

    def tasks_of(self, trial: Trial) -> list[Task]:
        """Return a trial's tasks: one for each fold and repeat."""
        return self._tasks(trial, range(self.layout.size))

    def again(self, trial: Trial, repeat: int) -> list[Task]:
        """Return tasks, one per fold, that train a finished trial again from the start, with the seeds of `repeat`."""
        indices = range(repeat * self.layout.folds, (repeat + 1) * self.layout.folds)
        return self._tasks(replace(trial, trained=0), indices)

    def final_task(self, trial: Trial, amount: int | None, curves: Sequence[Sequence[Mapping[str, Any]]] = ()) -> Task:
        """Return the task that trains the winning trial up to `amount`, on all development examples.

        `curves` are the trial's learning curves, each from the start of the training.
        """
        assert self.plan is not None
        assert self.checkpoints_dir is not None
        payload = replace(
            self._payload(trial, FINAL_FOLD, 0),
            train=self._positions(self.plan.development),
            validation=[],
            amount=amount,
            trained=0,
            curves=[list(curve) for curve in curves],
            resume_dir=self._resume_dir(trial, FINAL_FOLD, 0) if self.continues else None,
            checkpoint_dir=str(self.checkpoints_dir / "final"),
        )
        return Task(trial.number, FINAL_FOLD, payload)

    def test_task(self, trial: Trial, test: Sequence[int], checkpoint_dir: str | None) -> Task:
        """Return the task that scores the model in `checkpoint_dir` on the test split.

        If `checkpoint_dir` is None, the task trains a model on the development examples, and scores the test split in
        place of a validation split.

        The configuration of this task has all paths of data. Other tasks may lack some; see `_without_sources`.
        """
        assert self.plan is not None
        config = self.training.trial_config(trial.point)
        payload = replace(
            self._payload(trial, FINAL_FOLD, 0),
            config=config,
            secrets=values_of(config, self.training.secrets),
            data_dir=str(self.given_dir) if self.given_dir else None,
            trained=0,
            resume_dir=None,
            files_dir=None,
        )
        if checkpoint_dir is None:
            scored = replace(payload, train=list(self.plan.development), validation=list(test))
        else:
            scored = replace(payload, test=list(test), checkpoint_dir=checkpoint_dir)
        return Task(trial.number, FINAL_FOLD, scored)

    def _tasks(self, trial: Trial, indices: Iterable[int]) -> list[Task]:
        layout = self.layout
        return [
            Task(trial.number, index, self._payload(trial, layout.fold(index), layout.repeat(index)))
            for index in indices
        ]

    def _payload(self, trial: Trial, fold: int, repeat: int) -> Payload:
        """Return the payload of one task. Every method of this class gets its payloads here."""
        training = self.training
        config = self._without_sources(training.trial_config(trial.point))
        train = validation = None
        if self.plan is not None and fold != FINAL_FOLD:
            train, validation = map(self._positions, (self.plan.folds[fold].train, self.plan.folds[fold].validation))
        before = None
        if fold != FINAL_FOLD and (earlier := training.before(trial)) is not None:
            before = {"config": self._without_sources(earlier[0]), "amount": earlier[1]}
        name = self._name(fold, repeat)
        own_lines, secrets = self._own_lines(trial, name), values_of(config, training.secrets)
        if own_lines is not None:
            secrets |= values_of(own_lines["uri"], training.secrets, "track.uri")
        return replace(
            training.common,
            config=config,
            seed=training_seed(training.seed, trial.key, fold, repeat),
            trial=trial.number,
            fold=fold,
            repeat=repeat,
            train=train,
            validation=validation,
            data_dir=str(self.data_dir) if self.data_dir else None,
            amount=trial.amount,
            max_amount=None if trial.amount is None else training.max_amount,
            trained=trial.trained,
            resume_dir=self._resume_dir(trial, fold, repeat) if self.continues or trial.amount is not None else None,
            before=before,
            checkpoint_dir=self._checkpoint_dir(trial, fold, repeat),
            files_dir=self._files_dir(trial, name),
            limit_minutes=None if fold == FINAL_FOLD else training.limit_minutes,
            own_lines=own_lines,
            secrets=secrets,
        )

    def _name(self, fold: int, repeat: int) -> str | None:
        """Return the name of a training within its trial; None = the trial has only one training."""
        if fold == FINAL_FOLD:
            return "final"
        if self.layout.size == 1 and repeat == 0:
            return None
        return f"fold_{fold}_repeat_{repeat}" if repeat or self.layout.repeats > 1 else f"fold_{fold}"

    def _own_lines(self, trial: Trial, name: str | None) -> OwnLines | None:
        """Return the location of a training's MLflow run: the trial's run, or with `name` a child of that run."""
        if self.training.own_lines is None:
            return None
        return {**self.training.own_lines, "name": name or run_name(trial), "task": name}

    def _checkpoint_dir(self, trial: Trial, fold: int, repeat: int) -> str | None:
        """Return the folder for a trained model; None = no model is stored.

        Only the first repeat of a trial with one fold can store a model.
        """
        if self.checkpoints_dir is None or self.layout.folds > 1 or fold == FINAL_FOLD or repeat > 0:
            return None
        return f"{self.checkpoints_dir}/{checkpoint_name(trial.number)}"

    def _files_dir(self, trial: Trial, name: str | None) -> str | None:
        if self.files_dir is None:
            return None
        if name == "final":
            return f"{self.files_dir}/final"
        folder = f"{self.files_dir}/{checkpoint_name(trial.number)}"
        return folder if name is None else f"{folder}/{name}"

    def _without_sources(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration with None in place of the paths of data that a task must not read.

        If the search does not split the configured data, no path changes. If it does and there is a `data_dir`, all
        paths become None, because tasks read the examples in `data_dir`. If it does and there is no `data_dir`, only
        `data.test` becomes None.
        """
        # Unless the search splits the configured data, the objective itself may use these keys.
        are_own = self.plan is None or self.has_given_data
        hidden = () if are_own else ("data.test",) if self.data_dir is None else DATA_SOURCES
        present = flatten(config)
        return replaced(config, {key: None for key in hidden if key in present})

    def state_names(self, trials: Iterable[Trial]) -> set[str]:
        """Return the names of the state folders of these trials, one for each fold and repeat of a trial."""
        indices = range(self.layout.size)
        return {_state_name(trial, self.layout.fold(i), self.layout.repeat(i)) for trial in trials for i in indices}

    def _resume_dir(self, trial: Trial, fold: int, repeat: int) -> str | None:
        return None if self.states_dir is None else str(self.states_dir / _state_name(trial, fold, repeat))

    def _positions(self, indices: Indices) -> list[int]:
        """Convert each example's index in the whole data set to the example's position in `data_dir`.

        `data_dir` contains only the development examples. If there is no `data_dir`, return the indices unchanged.
        """
        assert self.plan is not None
        if self.data_dir is None:
            return list(indices)
        place = {index: position for position, index in enumerate(self.plan.development)}
        return [place[index] for index in indices]


def _state_name(trial: Trial, fold: int, repeat: int) -> str:
    """Return the name of a training's state folder. A trial shares the folder with the trial that it continues."""
    return f"{hashlib.sha256(trial.key.encode()).hexdigest()[:16]}_{fold}_{repeat}"


def checkpoint_name(number: int) -> str:
    """Return the name of the folder of a trial's trained model."""
    return f"trial_{number:04d}"
