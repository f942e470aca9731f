"""What a report is made from: a study's space, metric and trials, and values that sections and figures share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self

from hpo.config.keys import flatten
from hpo.engine.course.clock import Key
from hpo.engine.course.course import clock_times
from hpo.engine.record.record import Record, Stretch, memory_record
from hpo.engine.space.first_points import default_point
from hpo.engine.space.space import Point, Space
from hpo.engine.trials.trial import Direction, Outcome, TaskLayout, Trial
from hpo.errors import SpaceError
from hpo.report.importance import Contribution, importances, shapley_values
from hpo.report.part import Absent
from hpo.report.words import count_text
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.verdict import Verdict


@dataclass(frozen=True)
class Subject:
    """What figures are drawn from, and what sections share with them.

    Attributes:
        trials: all trials, in the order of their numbers.
        default: the default configuration; None where it does not lie in the space.
        trainings: the trials as they ran: those of the search, and those that took some to their end after it, under
            the same numbers; None = the trials.
        workers: the configured number; None = as many as fit.
        gpus: those of each worker.
        lanes: trainings planned to be under way at once; None where the strategy never waits for one.
        order: None before there was a clock.
        clock: begin and end of each task on the study's clock.
    """

    space: Space
    metric: str
    direction: Direction
    layout: TaskLayout
    strategy: str
    trials: Sequence[Trial]
    winner: Trial | None
    default: Point | None = None
    trainings: Sequence[Trial] | None = None
    workers: int | None = None
    gpus: float = 0.0
    lanes: int | None = None
    order: Literal["clock", "free"] | None = None
    clock: Mapping[Key, tuple[float, float]] = field(default_factory=dict)
    stretches: Sequence[Stretch] = ()

    @classmethod
    def of(cls, study: PreparedStudy, record: Record, verdict: Verdict) -> Self:
        """Return what the report of a study is made from."""
        section, dispatch = study.config.study, study.config.dispatch
        order, waits, share = section.order if study.has_clock else None, study.waits, Notes(record).gpu_share
        searched = memory_record(study.goal, study.layout, verdict.searched)
        return cls(
            space=study.space,
            metric=section.metric,
            direction=section.direction,
            layout=study.layout,
            strategy=study.config.strategy["name"],
            trials=verdict.trials,
            winner=verdict.winner,
            default=_default_of(study),
            trainings=[*verdict.searched, *verdict.further],
            workers=dispatch.workers,
            gpus=(dispatch.gpus_per_worker or 0.0) if share is None else share,
            lanes=section.lanes if waits or order == "free" else None,
            order=order,
            clock=clock_times(study.rules(), searched) if waits else {},
            stretches=record.stretches,
        )

    @property
    def as_they_ran(self) -> Sequence[Trial]:
        """The trainings, or the trials where none followed the search."""
        return self.trials if self.trainings is None else self.trainings

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each trial by its number: that, or, of one that was trained further, after all others."""
        further = [trial.number for trial in self.as_they_ran[len(self.trials) :]]
        later = {number: len(self.trials) + place for place, number in enumerate(further)}
        return {trial.number: later.get(trial.number, trial.number) for trial in self.trials}

    @cached_property
    def scored(self) -> list[Trial]:
        """The complete trials with comparable scores: those trained for longest, if some were trained for less."""
        complete = [t for t in self.trials if t.state == "complete" and math.isfinite(t.loss)]
        longest = max((t.amount or 0 for t in complete), default=0)
        return [t for t in complete if (t.amount or 0) == longest]

    @cached_property
    def ranked(self) -> list[Trial]:
        """The same from best to worst, the earlier trial first on ties; the winner always comes first."""
        ranked = sorted(self.scored, key=lambda t: (t.loss, t.number))
        if self.winner is None:
            return ranked
        return [self.winner, *(t for t in ranked if t.number != self.winner.number)]

    @cached_property
    def importances(self) -> dict[str, float] | Absent:
        """The share of each hyperparameter that was searched, the most important first; see `importances`."""
        return importances(self.space, self.direction, self.scored)

    @cached_property
    def contributions(self) -> dict[str, Contribution] | Absent:
        """What each hyperparameter contributes to the winner's gain over the default; see `shapley_values`."""
        return shapley_values(self.space, self.scored, self.default, self.winner)

    @property
    def keys(self) -> list[str]:
        """The hyperparameters that complete trials have, the most important first if that is known."""
        there = {key for trial in self.scored for key in trial.point}
        known = self.importances
        ordered = self.space.keys if isinstance(known, Absent) else list(known)
        return [key for key in ordered if key in there]

    @cached_property
    def outcomes(self) -> list[tuple[Trial, int, Outcome]]:
        """Every task that a worker ran, with its trial and index, in the order of their starts."""
        ran = [(t, index, o) for t in self.as_they_ran for index, o in t.outcomes.items() if o.worker]
        return sorted(ran, key=lambda task: (task[2].started, task[0].number, task[1]))

    @property
    def which(self) -> str:
        """Which trials `scored` are, in words."""
        amounts = {t.amount for t in self.trials if t.amount is not None}
        kind = f"complete trial*, trained for {max(amounts)}" if len(amounts) > 1 else "complete trial*"
        return count_text(len(self.scored), kind)

    def is_winner(self, trial: Trial) -> bool:
        """Return whether the trial is the winner."""
        return self.winner is not None and trial.number == self.winner.number


def _default_of(study: PreparedStudy) -> Point | None:
    """Return the default configuration's point; None where it does not lie in the space."""
    try:
        return default_point(study.space, flatten(study.config.objective_config))
    except SpaceError:
        return None


def score_of(trial: Trial) -> float:
    """Return the score of a trial that has one."""
    assert trial.score is not None
    return trial.score
