"""The input of a report: a study's space, goal and trials, and values that several sections and figures need."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

from hpo.config.goals import SCALE
from hpo.engine.schedule.clock import Key
from hpo.engine.schedule.scheduler import clock_times
from hpo.formatting import format_count
from hpo.report.hypervolume import Expectation, Growth, expected_growth, growth
from hpo.report.importance import Contribution, Importances, importances, shapley_values
from hpo.report.part import Missing, is_missing, missing
from hpo.report.transfer import ScaleResults
from hpo.study.results.after_search import other_trainings
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.trials.goal import Goal
from hpo.trials.ranking import at_largest_scale, front, leaders
from hpo.trials.record.record import Stretch, memory_record
from hpo.trials.space.first_points import default_of, why_no_default
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Direction, Outcome, TaskLayout, Trial

# With fewer trials per hyperparameter, PED-ANOVA's shares and interpolated surfaces depend more on chance than on the
# space.
_ENOUGH_PER_KEY = 20


@dataclass(frozen=True)
class Subject:
    """The input of figures, and the values that figures and sections share.

    Attributes:
        trials: all trials, in the order of their numbers.
        finalists: the finalists as trained on fresh seeds. Empty if the winner was chosen without scores on fresh
            seeds.
        default: the default configuration; None if there is none, or if it is not in the space.
        no_default: why there is no default configuration; None if there is one, even outside the space.
        trainings: the trials as the search left them. Then, for each trial that was fully trained after the search,
            a second `Trial` with the same number. None = `trials`.
        other_trainings: trainings after the search that are not in `trainings`, such as the finalists' on fresh seeds.
        workers: the configured number of workers; None = as many as the machines have room for.
        gpus: number of GPUs of each worker.
        lanes: number of parallel trainings on the study's clock. None if `order` is `clock` and the search does not
            depend on which trials end first (see `Rules.waits`).
        order: when the strategy gets a result: `clock` = as soon as the study's clock reaches the result, `free` = as
            soon as the result arrives.
        clock: start and end of each ended task on the study's clock; empty if `Rules.waits` is False.
        scale_results: the trials by scale; None for a study without scales.
        given: `Trial.key` of each point that the strategy did not choose: first points, and points added by the user.
        is_extension: whether this study extends another study, from which its trials were selected.
        is_over: False on the live page of a study that has not ended; then `winner` is the best trial so far.
    """

    space: Space
    goal: Goal
    layout: TaskLayout
    strategy: str
    trials: Sequence[Trial]
    winner: Trial | None
    finalists: Sequence[Trial] = ()
    default: Point | None = None
    no_default: str | None = None
    trainings: Sequence[Trial] | None = None
    other_trainings: Sequence[Trial] = ()
    workers: int | None = None
    gpus: float = 0.0
    lanes: int | None = None
    order: Literal["clock", "free"] = "clock"
    clock: Mapping[Key, tuple[float, float]] = field(default_factory=dict)
    stretches: Sequence[Stretch] = ()
    scale_results: ScaleResults | None = None
    given: frozenset[str] = frozenset()
    is_over: bool = True
    is_extension: bool = False

    @classmethod
    def of(cls, study: PreparedStudy, run: StudyRun) -> Self:
        """Return the input of a study's report."""
        section, rules, share = study.config.study, study.rules(), run.notes.gpu_share
        searched = memory_record(study.goal, study.layout, run.searched)
        subject = cls.of_run(run, run.searched, run.trials, run.winner)
        return replace(
            subject,
            is_extension=section.extends is not None,
            finalists=() if run.fresh_winner is None else [finalist.again for finalist in run.finalists],
            gpus=subject.gpus if share is None else share,
            lanes=section.lanes if rules.waits or section.order == "free" else None,
            order=section.order,
            clock=clock_times(rules, searched) if rules.waits else {},
        )

    @classmethod
    def of_run(cls, run: StudyRun, searched: Sequence[Trial], trials: Sequence[Trial], winner: Trial | None) -> Self:
        """Return the input of figures for a viewer, which has no `PreparedStudy`.

        Attributes that need a `PreparedStudy` keep their defaults, for example `lanes`, `clock` and `finalists`.

        Args:
            searched: the trials as the search left them.
            trials: the same trials, joined with their further trainings.
        """
        config = run.config
        given = [*run.space.first, *(each.point for each in run.record.added if each.retry_of is None)]
        return cls(
            space=run.space,
            goal=run.goal,
            layout=run.layout,
            strategy=config.strategy["name"],
            trials=trials,
            winner=winner,
            default=default_of(run.space, config),
            no_default=why_no_default(run.space, config),
            trainings=[*searched, *run.further],
            other_trainings=other_trainings(config, run.record, run.further),
            workers=config.dispatch.workers,
            gpus=config.dispatch.gpus_per_worker or 0.0,
            stretches=run.record.stretches,
            given=frozenset(Trial(0, 0, point).key for point in given),
            scale_results=ScaleResults.of(config, run.space, [*run.notes.imports, *trials]),
        )

    @property
    def metric(self) -> str:
        """The name of the study's metric; with several metrics, the name of the leading metric."""
        return self.goal.metric

    @property
    def direction(self) -> Direction:
        """The direction of the study's metric; with several metrics, the direction of the leading metric."""
        return self.goal.direction

    @property
    def metric_label(self) -> str:
        """The metric's name for captions; with several metrics, the name and the words `, the leading metric,`."""
        return f"{self.metric}, the leading metric," if len(self.goal.metrics) > 1 else self.metric

    @property
    def all_trainings(self) -> Sequence[Trial]:
        """`trainings`, or `trials` if `trainings` is None."""
        return self.trials if self.trainings is None else self.trainings

    @cached_property
    def places(self) -> dict[int, int]:
        """The position of each trial in figures, by trial number; trials trained further after the search come last."""
        further = [trial.number for trial in self.all_trainings[len(self.trials) :]]
        later = {number: len(self.trials) + place for place, number in enumerate(further)}
        return {trial.number: later.get(trial.number, trial.number) for trial in self.trials}

    @cached_property
    def scored(self) -> list[Trial]:
        """The complete trials at the largest scale, and with the largest amount there; their scores are comparable."""
        complete = at_largest_scale([t for t in self.trials if t.state == "complete" and math.isfinite(t.loss)])
        longest = max((t.amount or 0 for t in complete), default=0)
        return [t for t in complete if (t.amount or 0) == longest]

    @cached_property
    def drawn_scores(self) -> list[float]:
        """The scores of the trials in `scored` that keep the limits, and whose points the strategy chose."""
        return [score_of(trial) for trial in self.scored if trial.keeps_limits and trial.key not in self.given]

    @cached_property
    def ranked(self) -> list[Trial]:
        """The winner, then the other trials in `scored` from best to worst; on ties, the earlier trial comes first."""
        return self._winner_first(leaders(self.scored, len(self.scored)))

    @cached_property
    def front(self) -> list[Trial]:
        """The Pareto front of the trials within the limits, sorted by the leading metric, the best trial first."""
        return front(self.trials)

    @cached_property
    def in_order(self) -> list[Trial]:
        """All complete trials from best to worst: the winner, the rest of the Pareto front, then the others."""
        members = {trial.number for trial in self.front}
        ordered = leaders(self.trials, len(self.trials))
        return self._winner_first([*self.front, *(t for t in ordered if t.number not in members)])

    def _winner_first(self, trials: list[Trial]) -> list[Trial]:
        if self.winner is None:
            return trials
        return [self.winner, *(trial for trial in trials if trial.number != self.winner.number)]

    @cached_property
    def within_limits(self) -> list[Trial]:
        """The complete trials within the limits, at the largest scale, and with the largest amount at this scale."""
        valid = at_largest_scale([trial for trial in self.trials if trial.keeps_limits])
        longest = max((trial.amount or 0 for trial in valid), default=0)
        return [trial for trial in valid if (trial.amount or 0) == longest]

    @cached_property
    def growth(self) -> Growth:
        """The front's hypervolume after each trial, with trials in the order of `places`; see `hypervolume.growth`."""
        return growth(sorted(self.within_limits, key=lambda trial: self.places[trial.number]), self.goal)

    @property
    def why_no_expectation(self) -> str | None:
        """The reason why the expected hypervolume of a random search is unknown; None = it is known."""
        if (why := dependent_text(self.strategy, self.is_extension)) is not None:
            return why
        return None if len(self._ended) > 1 else "fewer than two trials have ended"

    @property
    def _ended(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.state != "running" and trial.key not in self.given]

    @cached_property
    def expected_growth(self) -> Expectation:
        """The expected hypervolume of a random search; valid only if the study's trials are independent draws."""
        return expected_growth(self._ended, self.growth.scale)

    @cached_property
    def importances(self) -> Importances | Missing:
        """The importance of each hyperparameter for the metric that `metric` names; see `importance.importances`."""
        return self.importances_by_metric[self.metric]

    @cached_property
    def _of_one_scale(self) -> tuple[Space, list[Trial]]:
        """The space without the dimension for the scale, and the trials of `scored` in this smaller space."""
        if all(dimension.key != SCALE for dimension in self.space.dimensions):
            return replace(self.space, first=()), list(self.scored)
        inner = replace(self.space, dimensions=tuple(d for d in self.space.dimensions if d.key != SCALE), first=())
        return inner, [trial.within_scale for trial in self.scored]

    @cached_property
    def importances_by_metric(self) -> dict[str, Importances | Missing]:
        """The importances for each metric; the leading metric comes first."""
        space, scored = self._of_one_scale
        return {
            name: importances(space, direction, scored, [self.goal.scores(t.losses)[name] for t in scored])
            for name, direction in self.goal.metrics.items()
        }

    @cached_property
    def contributions(self) -> dict[str, Contribution] | Missing:
        """Each hyperparameter's contribution to the winner's gain over the default; see `importance.shapley_values`."""
        if self.no_default is not None:
            return missing(self.no_default)
        space, scored = self._of_one_scale
        default = None if self.default is None else {k: v for k, v in self.default.items() if k != SCALE}
        return shapley_values(space, scored, default, self.winner and self.winner.within_scale)

    @property
    def keys(self) -> list[str]:
        """The hyperparameters of the trials in `scored`, the most important first if the importances are known."""
        present = {key for trial in self.scored for key in trial.point if key != SCALE}
        known = self.importances
        ordered = self.space.keys if is_missing(known) else list(known.shares)
        return [key for key in ordered if key in present]

    @cached_property
    def outcomes(self) -> list[tuple[Trial, int, Outcome]]:
        """Every task that a worker ran, as (trial, task index, outcome), in order of start."""
        trainings = [*self.all_trainings, *self.other_trainings]
        ran = [(t, index, o) for t in trainings for index, o in t.outcomes.items() if o.worker]
        return sorted(ran, key=lambda task: (task[2].started, task[0].number, task[1]))

    @property
    def scored_text(self) -> str:
        """The number of trials in `scored`, as text.

        If the study's trials have different amounts, the text also says the amount of the trials in `scored`. If the
        study has scales, the text also says their scale (see `at_scale`).
        """
        amounts = {t.amount for t in self.trials if t.amount is not None}
        kind = f"complete trial*, trained for {max(amounts)}" if len(amounts) > 1 else "complete trial*"
        return format_count(len(self.scored), kind) + self.at_scale

    @property
    def at_scale(self) -> str:
        """The text that names the scale of the trials in `scored`, such as ` at scale 2 of 3, below the target`.

        `scored_text` ends with this text. The text is empty for a study without scales, and if `scored` is empty.
        """
        if not self.scored or not (scale := self.scored[0].scale):
            return ""
        target = self.goal.target
        return f" at scale {scale} of {target}{', the target' if scale == target else ', below the target'}"

    @property
    def called(self) -> str:
        """The name of the winner in texts: `winner` if `is_over`, else `best trial so far`."""
        return "winner" if self.is_over else "best trial so far"

    @property
    def few_trials_note(self) -> str:
        """A warning for a caption if there are few trials per hyperparameter; else empty."""
        keys = [key for key in self.keys if len({repr(trial.point.get(key)) for trial in self.scored}) > 1]
        if len(self.scored) >= _ENOUGH_PER_KEY * len(keys):
            return ""
        trials, hyperparameters = format_count(len(self.scored), "trial*"), format_count(len(keys), "hyperparameter*")
        return f" With only {trials} for {hyperparameters}, the figure is only a hint."

    def is_winner(self, trial: Trial) -> bool:
        """Return whether the trial is the winner."""
        return self.winner is not None and trial.number == self.winner.number


def dependent_text(strategy: str, is_extension: bool) -> str | None:
    """Return why a study's trials cannot predict the scores of random search; None if they can.

    `is_extension` says whether the trials were selected from another study.
    """
    if is_extension:
        return "the trials were selected from another study, so they cannot predict the scores of random search"
    if strategy == "random":
        return None
    return (
        f"the trials are not independent draws, because {strategy} search chooses points by earlier results or by a "
        f"pattern; to compare with random search, repeat both searches with hpo compare"
    )


def score_of(trial: Trial) -> float:
    """Return the score of a complete trial."""
    assert trial.score is not None
    return trial.score
