"""The verdict: the result of a search, made once for the report, the tracker and the commands."""

from dataclasses import dataclass

from hpo.study.notes import FinalModel, Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import choose_best, decided_by
from hpo.study.winner.finalists import Finalist, read_finalists
from hpo.study.winner.full_training import are_trained_to_the_end, further_trainings, join_trainings
from hpo.trials.history import History
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
        return {trial.number: trial for trial in decided_by([each.again for each in self.finalists])}

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
    section, again = study.config.study, [finalist.again for finalist in finalists]
    winner = choose_best(section, study.goal, history, again)
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


def _model(study: PreparedStudy, record: Record, winner: Trial | None) -> FinalModel | None:
    """Return the winner's recorded model, if it is unchanged in the study's folder."""
    noted = Notes(record).final_model
    if winner is None or noted is None or noted.trial != winner.number or not study.keeps_models:
        return None
    is_there = study.folder.inside(noted.checkpoint_dir).exists()
    return noted if is_there and not study.folder.changed_files(noted.checkpoint_dir) else None
