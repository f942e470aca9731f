"""A study: configuration, space, strategy, objective, split."""

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from hpo.config.study_config import StudyConfig
from hpo.engine.loop import is_over
from hpo.engine.schedule.rules import Counts, Rules
from hpo.engine.schedule.stopping import Race, StopRule, Target
from hpo.engine.strategies import BY_AMOUNT, Strategy
from hpo.objectives.outside import OUTSIDE
from hpo.study.basis.changes import AllowedChange, config_as_of
from hpo.study.basis.described import Described
from hpo.study.basis.environment import read_environment
from hpo.study.basis.source_code import Code
from hpo.study.files.folder import RUNS, StudyFolder, short_path
from hpo.study.files.imports import Imports
from hpo.study.notes import Notes
from hpo.trials.goal import Goal, goal_of, searched_goal
from hpo.trials.places import amount_text
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import AddedPoint, RecordedAction
from hpo.trials.space.space import Space
from hpo.trials.trial import TaskLayout, Trial
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.objective import Objective, SearchDescription
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.store.url import UrlStore
from hpo.workers.training.own_lines import OwnLines
from hpo.workers.training.splits import Plan
from hpo.workers.training.tasks import TaskBuilder, Training


@dataclass(frozen=True)
class PreparedStudy:
    """Everything a search needs, checked.

    Attributes:
        config: the frozen configuration, including a space that the objective describes itself.
        examples, plan: the data and its split; None for an objective with its own data, and where none is read.
        imports: finished trials of another study, for a new one.
        allow_changes: whether an existing study continues although its basis has changed.
        script: what each trial learned in the search of free order that this study runs again.
        added, actions: the points that users added to that search, and their other actions.
        replays: the folder of the study whose search this study runs again.
        callbacks: called when a trial ends; each with what steers the search, and the trial.
        code: what its results depend on, as its search began or went on; None where no search runs.
        own_lines: where its trainings log to MLflow by themselves; None where they do not, or no search runs.
    """

    config: StudyConfig
    folder: StudyFolder
    objective: Objective
    space: Space
    strategy: Strategy
    described: Described
    own: SearchDescription = field(default_factory=SearchDescription)
    examples: Examples | None = None
    plan: Plan | None = None
    imports: Imports = field(default_factory=Imports)
    allow_changes: bool = False
    script: tuple[tuple[int, ...], ...] = ()
    added: tuple[AddedPoint, ...] = ()
    actions: tuple[RecordedAction, ...] = ()
    replays: StudyFolder | None = None
    callbacks: tuple[Callable[[Any, Trial], None], ...] = ()
    code: Code | None = None
    own_lines: OwnLines | None = None

    @property
    def num_folds(self) -> int:
        """The number of folds, 1 with a hold-out."""
        return self.described.folds

    @property
    def layout(self) -> TaskLayout:
        """The tasks of a trial."""
        return TaskLayout(self.num_folds, self.config.study.repeats)

    @property
    def goal(self) -> Goal:
        """What is better, and what is allowed; what the search is for may be less, see `searched_goal`."""
        return goal_of(self.config.study)

    @property
    def is_outside(self) -> bool:
        """Whether nothing trains here: its trials are asked for and told."""
        return is_outside(self.config)

    @property
    def waits(self) -> bool:
        """Whether its search waits for the clock; see `Rules.waits`."""
        return self.rules().waits

    @property
    def counts(self) -> Counts:
        """What the budget of trials counts."""
        return counts_of(self.config)

    @property
    def full_amount(self) -> int | None:
        """How far a full training goes; None where every training is one."""
        return full_amount_of(self.config)

    def amount_text(self, trial: Trial) -> str:
        """Return what follows a complete trial's score: see the function."""
        return amount_text(trial.amount, trial.reached, self.full_amount)

    def num_counted(self, trials: Iterable[Trial]) -> int:
        """Return how many of these trials the budget counts."""
        # One that was trained anew after the search continues none, and is the same configuration.
        counted = (trial for trial in trials if trial.retry_of is None)
        return len({trial.key if self.counts == "configurations" else trial.number for trial in counted})

    def done(self, trials: Sequence[Trial]) -> str:
        """Return how much of the budget these finished trials are: `14 of 16 trials`."""
        return f"{self.num_counted(trials)} of {self.config.study.trials} {self.counts}"

    def rules(self, imported: Sequence[Trial] = ()) -> Rules:
        """Return what determines its search, besides the budget."""
        study, split = self.config.study, self.config.split
        after, goal = split.race_after, searched_goal(study)
        return Rules(
            strategy=self.strategy,
            tasks_of=self.task_builder().tasks_of,
            cost_of=self.cost_of,
            lanes=study.lanes,
            order=study.order,
            race=None if after is None else Race(after, split.race_level, goal),
            imported=imported,
            script=self.script,
            stop_without_gain=study.stop_without_gain,
            target=None if study.target is None else Target.of(study.target, goal, self.full_amount),
            stop_rule=None if study.stop_rule == "none" else StopRule(study.stop_rule_after, goal),
            space=self.space if self.config.has_own_strategy else None,
            counts=self.counts,
            is_watched=bool(self.callbacks) or study.on_trial is not None,
            is_ask_and_tell=self.is_outside,
        )

    def cost_of(self, trial: Trial) -> float:
        """Return the cost of one unit of a trial's training, on the study's clock."""
        return self.objective.cost(self.config.trial_config(trial.point), trial.number)

    def is_over(self, record: Record) -> bool:
        """Return whether nothing is left to search: every trial is finished, and the budget or the space exhausted."""
        section = self.config.study
        return is_over(self.rules(Notes(record).imports), record, section.trials, section.minutes)

    @property
    def keeps_models(self) -> bool:
        """Whether the objective can score a kept model on the test part."""
        return self.objective.run_test is not None

    @property
    def artifacts(self) -> UrlStore | None:
        """Where workers keep states and models; None = in the study's folder."""
        url = self.config.artifacts
        return None if url is None else UrlStore(url, "study.artifacts")

    def remove_states(self, keep: Collection[str]) -> None:
        """Delete the training states except those with these names."""
        for path in self.folder.states_dir.glob("*"):
            if path.name not in keep:
                shutil.rmtree(path, ignore_errors=True)
        if (artifacts := self.artifacts) is not None:
            for name in set(artifacts.folders("states")) - set(keep):
                artifacts.remove_folder(f"states/{name}")

    def has_model(self, name: str) -> bool:
        """Return whether a model is in the study's folder, after it was fetched from where it is kept."""
        path = self.folder.path / name
        return path.exists() or (self.artifacts is not None and self.artifacts.get_folder(name, path))

    def task_builder(self) -> TaskBuilder:
        """Return the builder of the study's tasks."""
        pickled = self.folder.function_path if self.objective.pickled else None
        rows = self.objective.pickled.rows if self.objective.pickled else None
        return TaskBuilder(
            training=Training.of(self.config, pickled, self.code.files if self.code else None, self.own_lines),
            plan=self.plan,
            layout=self.layout,
            data_dir=self.folder.data_dir if self.plan and self.objective.prepare_data else None,
            has_given_data=rows is not None,
            given_dir=self.folder.given_data_dir if rows and rows.has_rows else None,
            checkpoints_dir=self.folder.checkpoints_dir,
            states_dir=self.folder.states_dir,
            files_dir=self.folder.files_dir,
            continues=self.objective.continues,
        )

    def environment(self) -> dict[str, Any]:
        """Return the environment at the study's start; StudyError where its file is incomplete."""
        return read_environment(short_path(self.folder.environment_path))

    def as_of(self, allowed: Sequence[AllowedChange], trial: Trial) -> Self:
        """Return the study as it was when this trial was trained: without changes that were allowed later."""
        return replace(self, config=config_as_of(self.config, allowed, trial.number)) if allowed else self

    @property
    def reference(self) -> str:
        """How commands name it; see `StudyFolder.reference`."""
        return self.folder.reference


def counts_of(config: StudyConfig) -> Counts:
    """Return what a study's budget of trials counts; another than `trials` only under a strategy by amounts."""
    counts: Counts = "trials" if full_amount_of(config) is None else config.strategy.get("counts", "configurations")
    return counts


def full_amount_of(config: StudyConfig) -> int | None:
    """Return how far a full training of a study goes; None where every training is one."""
    return config.strategy["max_amount"] if config.strategy["name"] in (*BY_AMOUNT, "ladder") else None


def is_outside(config: StudyConfig) -> bool:
    """Return whether nothing trains in a study: see `hpo.objectives.outside`."""
    return config.objective == OUTSIDE


def training_command(objective: str, best: str) -> str:
    """Return what trains the winner, of this best.yaml, once more: a command, or Python for a function from there."""
    if not ObjectivePath.of(objective).is_kept:
        return f"hpo train --config {best}"
    folder = Path(best).parent
    return f'hpo.load("{folder.name if folder == RUNS / folder.name else folder}").train()'
