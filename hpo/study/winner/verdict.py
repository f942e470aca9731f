"""The verdict: the result of a search, made once for the report, the tracker and the commands."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpo.study.notes import FinalModel, Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import choose
from hpo.study.winner.finalists import Finalist, read_finalists
from hpo.study.winner.full_training import are_trained_to_the_end, further_trainings, join_trainings
from hpo.trials.history import History
from hpo.trials.ranking import front
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial


@dataclass(frozen=True)
class Verdict:
    """The result of a search; `winner` is None where no trial is complete at the target, or none keeps the limits.

    Attributes:
        searched: all trials as the search made them, in the order of their numbers, running ones included.
        further: the trainings that took some of them to their end after the search, under the same numbers.
        trials: the trials with all of their training; `history` has the finished ones.
        model: the winner's trained model; None where it is missing, or the objective keeps none.
    """

    searched: tuple[Trial, ...]
    further: tuple[Trial, ...]
    trials: tuple[Trial, ...]
    history: History
    finalists: tuple[Finalist, ...]
    winner: Trial | None
    model: FinalModel | None
    are_best_trained: bool

    @property
    def front(self) -> list[Trial]:
        """The trials that none dominates, by the search's scores; the best and its equals with one metric."""
        return self.history.front

    @property
    def fresh_scored(self) -> dict[int, Trial]:
        """The complete finalists as trained again on fresh seeds, by number; empty where the search's scores decide."""
        return {trial.number: trial for trial in _complete_again(self.finalists)}

    @property
    def fresh_winner(self) -> Trial | None:
        """The winner as trained again on fresh seeds, where these chose it; None where the search's scores did."""
        return None if self.winner is None else self.fresh_scored.get(self.winner.number)

    @property
    def are_finalists_trained(self) -> bool:
        """Whether all that follows the search is trained: the best to their end, and the finalists."""
        return self.are_best_trained and all(finalist.again.state != "running" for finalist in self.finalists)

    @property
    def further_trained(self) -> tuple[Trial, ...]:
        """The trials that were trained to their end after the search, with all of their training."""
        numbers = {trial.number for trial in self.further}
        return tuple(trial for trial in self.trials if trial.number in numbers)


def read_verdict(study: PreparedStudy, record: Record) -> Verdict:
    """Return the result of the search in the current record."""
    searched, further = tuple(record.trials()), tuple(further_trainings(study.config, record))
    trials = tuple(join_trainings(searched, further))
    history = History(trial for trial in trials if trial.state != "running")
    finalists = tuple(read_finalists(study, record, history))
    winner = _winner(study, history, finalists)
    return Verdict(
        searched,
        further,
        trials,
        history,
        finalists,
        winner,
        model=_model(study, record, winner),
        are_best_trained=are_trained_to_the_end(study, record),
    )


def lacks_model(study: PreparedStudy, verdict: Verdict) -> bool:
    """Return whether the winner's model must still be trained."""
    has_parts = study.keeps_models and study.described.split is not None
    return has_parts and verdict.winner is not None and verdict.model is None


def _winner(study: PreparedStudy, history: History, finalists: tuple[Finalist, ...]) -> Trial | None:
    """Return the chosen one of the front, on the fresh seeds where all finalists are trained.

    With one metric that is the best trial, or the cheapest of those as good. None where no trial keeps the limits, or
    none of the target scale is complete.
    """
    section, goal = study.config.study, study.goal
    others = _complete_again(finalists) or list(history)
    first = front(others)
    if not first or first[0].scale < goal.target:
        return None
    if len(goal.metrics) > 1:
        chosen = choose(first, goal, section.choose)
    elif section.winner == "best":
        chosen = first[0]
    else:
        good = {trial.number for trial in as_good_as(first[0], others, goal.metric)}
        chosen = cheapest(t for t in history if t.number == first[0].number or t.number in good)
    return next(trial for trial in history if trial.number == chosen.number)


def _complete_again(finalists: Sequence[Finalist]) -> list[Trial]:
    """Return the finalists that are complete on the fresh seeds; none while one of them is being trained."""
    again = [finalist.again for finalist in finalists]
    return [] if any(trial.state == "running" for trial in again) else [t for t in again if t.state == "complete"]


def _model(study: PreparedStudy, record: Record, winner: Trial | None) -> FinalModel | None:
    """Return the winner's recorded model, if it is unchanged in the study's folder."""
    noted = Notes(record).final_model
    if winner is None or noted is None or noted.trial != winner.number or not study.keeps_models:
        return None
    is_there = study.folder.inside(noted.checkpoint_dir).exists()
    return noted if is_there and not study.folder.changed_files(noted.checkpoint_dir) else None


def standard_error(trial: Trial, metric: str) -> float | None:
    """Return the standard error of a trial's score over its folds and seeds; None where it has a single one."""
    values = trial.values(metric)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def as_good_as(best: Trial, trials: Iterable[Trial], metric: str) -> list[Trial]:
    """Return the complete trials, trained as far, within one standard error of the best; without it itself."""
    error = standard_error(best, metric)
    if error is None:
        return []
    complete = [t for t in trials if t.keeps_limits and t.number != best.number and t.rank[:2] == best.rank[:2]]
    return [trial for trial in complete if trial.loss - best.loss <= error]


def cheapest(trials: Iterable[Trial]) -> Trial:
    """Return the trial of the least cost; ties go to the better one.

    Source: Breiman, Friedman, Olshen & Stone 1984, "Classification and Regression Trees", section 3.4.3 (the 1 SE rule;
    there the smallest tree).
    """
    return min(trials, key=lambda trial: (_cost(trial), trial.loss, trial.number))


def _cost(trial: Trial) -> float:
    # Trained as far by steps, the last of which may be a part only: then a unit's cost compares.
    return trial.total_cost if trial.amount is None else trial.cost
