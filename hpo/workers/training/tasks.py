"""The task: everything that a worker gets to train it, and how each is built: of trials, final training and test."""

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

# What an objective is not told.
_NOT_FOR_OBJECTIVE = {
    *("secrets", "before", "earlier", "limits", "limits_after", "limit_minutes", "function_file", "code"),
    *("most_file_bytes", "own_lines"),
}


@dataclass(frozen=True)
class Payload:
    """What one task trains; JSON-able."""

    objective: str  # its path; see `ObjectivePath`
    config: Mapping[str, Any]  # the objective's configuration with the trial's point written into it, sealed
    metric: str  # the score's name; with several metrics that of the leading one
    direction: Direction = "maximize"  # which way it is better
    score: Literal["best", "last"] = "best"  # which reported value of it counts where the objective returns nothing
    seed: int = 0
    threads: int = 1
    processes: int = 1  # that train it together, each with so many threads
    # These four identify the task in messages.
    study: str = ""
    trial: int = 0
    fold: int = 0
    repeat: int = 0
    # Indices of examples; None where the objective brings its own data. `validation` is empty in the final training,
    # which has no validation part.
    train: Sequence[int] | None = None
    validation: Sequence[int] | None = None
    test: Sequence[int] | None = None  # indices of the test part, where a kept model is scored on it; else None
    data_dir: str | None = None  # folder of the objective's `prepare_data`, or None
    amount: int | None = None  # how far to train, counted from the start; None = to the end
    max_amount: int | None = None  # how far the search trains at most; None where all trainings are full ones
    trained: int = 0  # how far it is trained already
    resume_dir: str | None = None  # folder of the training's state and its journal (see there), or None
    # The points of the trainings that this one continues, as the record has them.
    earlier: Sequence[Mapping[str, Any]] = ()
    # `config` and `amount` of the training that this one continues, which is done first where its state is not there
    # yet; None = none.
    before: Mapping[str, Any] | None = None
    checkpoint_dir: str | None = None  # folder of the best model, or None
    files_dir: str | None = None  # folder of the training's own files, or None
    most_file_bytes: int | None = None  # that these may take; None = any
    # Of the final training, the learning curves of the trial's trainings, so that it can repeat what their evaluations
    # decided; None in all others.
    curves: Sequence[Sequence[Mapping[str, float]]] | None = None
    limit_minutes: float | None = None  # after how many the training has failed, at its next report; None = no limit
    # By place on the curve, the score by which a rule stops the training, after so many points; see `Limits`.
    limits: Sequence[tuple[float, float]] = ()
    limits_after: int = 1
    # With several metrics, or limits, the names in their order; and what else must be returned, because it has a limit
    # or is measured.
    metrics: Sequence[str] = ()
    limited: Sequence[str] = ()
    function_file: str | None = None  # the file of a function that was given from Python; None for one that is imported
    # A hash of each source file of the user's as the search began, by its path: what a worker imports must be the same;
    # None where nothing is compared.
    code: Mapping[str, str] | None = None
    own_lines: OwnLines | None = None  # where its run in MLflow is; None = it has none
    mlflow_run_id: str | None = None  # of that run, once its worker has it
    # Values by name that open the config (see `secrets.py`); objectives see them only there.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def task(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the objective's argument: what is for it, and the configuration opened."""
        if_any = ("test", "curves", "metrics", "limited")
        absent = _NOT_FOR_OBJECTIVE | {name for name in if_any if getattr(self, name) in (None, ())}
        task = {name: value for name, value in vars(self).items() if name not in absent}
        return task | {"config": config, "resume_dir": None if self.resume_dir is None else state_of(self.resume_dir)}

    def known_secrets(self) -> Mapping[str, str]:
        """Return the secrets by name, those of the environment included, as far as they are set."""
        try:
            return values_of(self.config, self.secrets)
        except ConfigError:
            return self.secrets  # That one of them is not set is the task's failure.


@dataclass(frozen=True)
class Task:
    """The unit of work that is dispatched: one fold of one trial, with one seed."""

    trial: int  # its number, from 0 in the order of proposal
    index: int  # within the trial, from 0; see `TaskLayout`
    payload: Payload


# Stands for the fold of the final training on all development examples, in seeds and messages.
FINAL_FOLD = -1


@dataclass(frozen=True, kw_only=True)
class Training:
    """What all tasks of a study, or of a single training, share."""

    common: Payload  # of every task; its configuration, secrets and seed are filled in
    # Returns the objective's configuration, sealed, with a trial's point written into it.
    trial_config: Callable[[Mapping[str, Any]], dict[str, Any]]
    seed: int  # the study's; each task's own seed is derived from it
    secrets: Mapping[str, str]  # values by name that open the configuration; see `secrets.py`
    limit_minutes: float | None = None  # after how many a trial's training has failed; None = no limit
    max_amount: int | None = None  # of a strategy that trains by amounts, the largest
    extends: Extension | None = None  # the trials of another study that its first trials continue; None = none
    own_lines: OwnLines | None = None  # where the runs of its trainings in MLflow are; None = they have none

    @classmethod
    def of(
        cls,
        config: StudyConfig,
        function_file: Path | None = None,
        code: Mapping[str, str] | None = None,
        own_lines: OwnLines | None = None,
    ) -> Self:
        """Return what the tasks of a study share; `kept`, `code` and `own_lines` as in `Payload`."""
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
        """Return the configuration of the training that a trial continues, and how far that went; None = nothing."""
        extends = self.extends
        # Without changes it goes on as it would have, and from which state makes no difference.
        if extends is None or not extends.changes or trial.number >= len(extends.trials):
            return None
        earlier = extends.trials[trial.number]
        return (self.trial_config({**trial.point, **extends.changes}), earlier.amount) if earlier.continues else None


@dataclass(frozen=True, kw_only=True)
class TaskBuilder:
    """Builds tasks: of trials, of the final training, and of the test."""

    training: Training  # what they share
    plan: Plan | None  # the folds; None for an objective with its own data
    layout: TaskLayout  # the tasks of a trial
    # Folder of the development examples only; None where the objective has no `prepare_data`: then it gets indices in
    # the numbering of its `describe_data`.
    data_dir: Path | None
    checkpoints_dir: Path | None  # folder of trained models; None where none is kept
    has_given_data: bool = False  # whether the search was given its data, so that no key of the configuration has them
    given_dir: Path | None = None  # folder of all rows that were given, the test part included; None = there are none
    states_dir: Path | None = None  # folder of training states; None where there are none
    files_dir: Path | None = None  # folder of the trainings' own files; None where none are kept
    # Whether the objective can continue from a state: then a task does so after its worker or driver died. Without it
    # only trainings that a later trial continues keep a state.
    continues: bool = False

    def tasks_of(self, trial: Trial) -> list[Task]:
        """Return one task per fold and repeat."""
        return self._tasks(trial, range(self.layout.size))

    def again(self, trial: Trial, repeat: int) -> list[Task]:
        """Return one task per fold to train a finished trial again, from the start, with the seeds of this repeat."""
        indices = range(repeat * self.layout.folds, (repeat + 1) * self.layout.folds)
        return self._tasks(replace(trial, trained=0), indices)

    def final_task(self, trial: Trial, amount: int | None) -> Task:
        """Return the task that trains the winner on all development examples, up to `amount`."""
        assert self.plan is not None
        assert self.checkpoints_dir is not None
        payload = replace(
            self._payload(trial, FINAL_FOLD, 0),
            train=self._positions(self.plan.development),
            validation=[],
            amount=amount,
            trained=0,
            curves=[list(trial.outcomes[index].curve) for index in sorted(trial.outcomes)],
            resume_dir=self._resume_dir(trial, FINAL_FOLD, 0) if self.continues else None,
            checkpoint_dir=str(self.checkpoints_dir / "final"),
        )
        return Task(trial.number, FINAL_FOLD, payload)

    def test_task(self, trial: Trial, test: Sequence[int], checkpoint_dir: str | None) -> Task:
        """Return the task that scores a kept model on the test part, or trains one; only it gets the data's sources."""
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
        """Return a task's payload; no other function creates one."""
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
        """Return the name of a training within its trial; None for the only one of the trial."""
        if fold == FINAL_FOLD:
            return "final"
        if self.layout.size == 1 and repeat == 0:
            return None
        return f"fold_{fold}_repeat_{repeat}" if repeat or self.layout.repeats > 1 else f"fold_{fold}"

    def _own_lines(self, trial: Trial, name: str | None) -> OwnLines | None:
        """Return where the training's run is: the only training of a trial has the trial's, others one below it."""
        if self.training.own_lines is None:
            return None
        return {**self.training.own_lines, "name": name or run_name(trial), "task": name}

    def _checkpoint_dir(self, trial: Trial, fold: int, repeat: int) -> str | None:
        """Return where the model is kept: only with a hold-out, that of the first repeat."""
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
        """Return the trial's tree without the source of the test part, and without any source when data is copied."""
        # Without data to divide, and beside data that were given, such keys are the objective's own.
        are_own = self.plan is None or self.has_given_data
        hidden = () if are_own else ("data.test",) if self.data_dir is None else DATA_SOURCES
        present = flatten(config)
        return replaced(config, {key: None for key in hidden if key in present})

    def state_names(self, trials: Iterable[Trial]) -> set[str]:
        """Return the names of the state folders of these trials' trainings."""
        indices = range(self.layout.size)
        return {_state_name(trial, self.layout.fold(i), self.layout.repeat(i)) for trial in trials for i in indices}

    def _resume_dir(self, trial: Trial, fold: int, repeat: int) -> str | None:
        return None if self.states_dir is None else str(self.states_dir / _state_name(trial, fold, repeat))

    def _positions(self, indices: Indices) -> list[int]:
        """Return the examples' positions in the development copy, or their own numbers without a copy."""
        assert self.plan is not None
        if self.data_dir is None:
            return list(indices)
        place = {index: position for position, index in enumerate(self.plan.development)}
        return [place[index] for index in indices]


def _state_name(trial: Trial, fold: int, repeat: int) -> str:
    """Return the name of a training's state folder: the same for all trials of a point, which continue from it."""
    return f"{hashlib.sha256(trial.key.encode()).hexdigest()[:16]}_{fold}_{repeat}"


def checkpoint_name(number: int) -> str:
    """Return the name of the folder of a trial's trained model."""
    return f"trial_{number:04d}"
