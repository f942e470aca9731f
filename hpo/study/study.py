"""A prepared study: configuration, space, strategy, objective and split."""

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
    """A checked study with everything that a search needs.

    Attributes:
        config: the frozen configuration, including a space that the objective describes.
        examples, plan: the data and the split; None if the objective reads its own data, or if no data were read.
        imports: for a new study, the finished trials of other studies.
        allow_changes: whether an existing study continues although its basis has changed.
        script: for the replay of a search with `study.order=free`, the order in which outcomes became known. Element n
            lists the trials (by number) whose outcomes became known just before trial n was opened.
        added, actions: for the replay of a search, the points that users added, and the actions that stopped trials.
        replays: for the replay of a search, the original study's folder; otherwise None.
        callbacks: functions to call when a trial ends; arguments are the search's controls and the trial.
        code: the code at the time when the running search began or was last continued; None if no search runs.
        own_lines: the MLflow run to which trainings log directly; None if they do not log directly, or no search runs.
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
        """The number of folds; 1 for a hold-out split."""
        return self.described.folds

    @property
    def layout(self) -> TaskLayout:
        """The layout of a trial's tasks: the folds and the repeats."""
        return TaskLayout(self.num_folds, self.config.study.repeats)

    @property
    def goal(self) -> Goal:
        """The metrics, directions and limits for choosing the winner; the search itself uses `searched_goal`."""
        return goal_of(self.config.study)

    @property
    def is_outside(self) -> bool:
        """Whether another program trains the study's trials, by ask-and-tell."""
        return is_outside(self.config)

    @property
    def counts(self) -> Counts:
        """What `study.trials` counts: trials or configurations."""
        return counts_of(self.config)

    @property
    def full_amount(self) -> int | None:
        """The amount of a full training; None if every training is full."""
        return full_amount_of(self.config)

    def amount_text(self, trial: Trial) -> str:
        """Return how far a complete trial was trained, as a text to append to its score, such as `, trained to 3 of 9`.

        The text is empty if the trial has no amount.
        """
        return amount_text(trial.amount, trial.reached, self.full_amount)

    def num_counted(self, trials: Iterable[Trial]) -> int:
        """Return how much these trials use of the budget `study.trials`; retries use no budget."""
        # Under a strategy with amounts, several trials may be trainings of one configuration.
        counted = (trial for trial in trials if trial.retry_of is None)
        return len({trial.key if self.counts == "configurations" else trial.number for trial in counted})

    def done(self, trials: Sequence[Trial]) -> str:
        """Return how much of the budget these finished trials use, as text: `14 of 16 trials`."""
        return f"{self.num_counted(trials)} of {self.config.study.trials} {self.counts}"

    def rules(self, imported: Sequence[Trial] = ()) -> Rules:
        """Return the rules of the search: everything that determines its trials, except the budget."""
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
        """Return how much one unit of a trial's training costs on the study's clock."""
        return self.objective.cost(self.config.trial_config(trial.point), trial.number)

    def is_over(self, record: Record) -> bool:
        """Return whether the search is over: every trial has ended, and no further trial can begin."""
        section = self.config.study
        return is_over(self.rules(Notes(record).imports), record, section.trials, section.minutes)

    @property
    def keeps_models(self) -> bool:
        """Whether trainings must save models: True if the objective scores saved models on the test split."""
        return self.objective.run_test is not None

    @property
    def artifacts(self) -> UrlStore | None:
        """The store at a URL for the workers' states and models; None if these are stored in the study's folder."""
        url = self.config.artifacts
        return None if url is None else UrlStore(url, "study.artifacts")

    def remove_states(self, keep: Collection[str]) -> None:
        """Delete all training states except those named in `keep`."""
        for path in self.folder.states_dir.glob("*"):
            if path.name not in keep:
                shutil.rmtree(path, ignore_errors=True)
        if (artifacts := self.artifacts) is not None:
            for name in set(artifacts.folders("states")) - set(keep):
                artifacts.remove_folder(f"states/{name}")

    def has_model(self, name: str) -> bool:
        """Return whether the study's folder has this model; fetch a missing model from the artifact store first."""
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
        """Return the environment at the study's start; StudyError if environment.json is incomplete."""
        return read_environment(short_path(self.folder.environment_path))

    def as_of(self, allowed: Sequence[AllowedChange], trial: Trial) -> Self:
        """Return the study with the configuration that it had when this trial was trained."""
        return replace(self, config=config_as_of(self.config, allowed, trial.number)) if allowed else self

    @property
    def reference(self) -> str:
        """The name or path that names the study in commands; see `StudyFolder.reference`."""
        return self.folder.reference


def counts_of(config: StudyConfig) -> Counts:
    """Return what `study.trials` counts: `trials` or `configurations`.

    For a strategy with amounts, return its setting `counts` (default `configurations`). All other strategies count
    trials.
    """
    counts: Counts = "trials" if full_amount_of(config) is None else config.strategy.get("counts", "configurations")
    return counts


def full_amount_of(config: StudyConfig) -> int | None:
    """Return the largest amount to which the strategy trains; None if the strategy does not train in amounts."""
    return config.strategy["max_amount"] if config.strategy["name"] in (*BY_AMOUNT, "ladder") else None


def is_outside(config: StudyConfig) -> bool:
    """Return whether another program trains a study's trials; see `hpo.objectives.outside`."""
    return config.objective == OUTSIDE


def training_command(objective: str, best: str) -> str:
    """Return the command that trains the winner again from best.yaml; for a pickled function, a line of Python."""
    if not ObjectivePath.of(objective).is_pickled:
        return f"hpo train --config {best}"
    folder = Path(best).parent
    return f'hpo.load("{folder.name if folder == RUNS / folder.name else folder}").train()'
