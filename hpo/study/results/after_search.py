"""What was trained after a search, as its record has it: the best to their end, and the finalists on fresh seeds.

A search's best score is the maximum of many noisy values, so too good: finalists are trained again on fresh
seeds. Source: the top-k protocol of Bouthillier et al. 2021 (arXiv 2103.03098), and retraining in Schneider et al. 2025
(arXiv 2506.19540, on overtuning).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hpo.config.sections import StudySection
from hpo.config.study_config import StudyConfig
from hpo.study.notes import Notes
from hpo.study.results.choosing import chosen_first
from hpo.study.study import counts_of, full_amount_of
from hpo.trials.goal import finished, goal_of, searched_goal
from hpo.trials.history import History
from hpo.trials.ranking import leaders
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome, TaskLayout, Trial


def trials_to_finish(config: StudyConfig, record: Record, with_next: bool = False) -> list[Trial]:
    """Return the trials of the search that are trained to their end after it, the best first.

    They are those of the `eta` best points (`study.finalists`, if that is more), each by its furthest trial: first
    those within the limits, with several metrics by fronts. In the place of one whose further training failed comes the
    next; `with_next` adds those that may come so. None where the budget counts trials, and of a ladder, whose best at
    the target are.
    """
    full = full_amount_of(config)
    if full is None or counts_of(config) == "trials" or config.strategy["name"] == "ladder":
        return []
    # By limits that are given later nothing is trained.
    record = record.judged_by(searched_goal(config.study))
    history, known = record.history(), Notes(record).full_outcomes
    best: dict[str, Trial] = {}
    # What exceeds a limit when it is fully trained is known to; the winner keeps the limits, also where others were
    # trained further.
    beyond = {trial.key for trial in history if trial.amount == full and trial.excess > 0}
    for trial in sorted(history.leaders(len(history)), key=lambda trial: trial.excess > 0):
        if trial.key not in beyond:
            best.setdefault(trial.key, trial)
    # As many failures are made up for: where the full training cannot be done at all, not everything is tried.
    tried = list(best.values())[: 2 * num_to_finish(config)]
    sound = [trial for trial in tried if not any(each.outcome.error for each in known[trial.number].values())]
    return [
        trial for trial in (sound if with_next else sound[: num_to_finish(config)]) if (trial.amount or full) < full
    ]


def are_trained_to_the_end(config: StudyConfig, record: Record) -> bool:
    """Return whether nothing is missing of the trainings that follow the search."""
    known = Notes(record).full_outcomes
    return all(len(known[trial.number]) == record.layout.size for trial in trials_to_finish(config, record))


def further_trainings(config: StudyConfig, record: Record) -> list[Trial]:
    """Return the finished trainings that followed the search (not those that it made itself since), as trials."""
    known, section, trials = Notes(record).full_outcomes, config.study, record.trials()
    full = config.strategy.get("max_amount")
    by_search = {trial.key for trial in trials if trial.amount == full and trial.state == "complete"}
    trainings = []
    for trial in (trial for trial in trials if known and trial.key not in by_search):
        there = known[trial.number]
        outcomes_there = {index: each.outcome for index, each in there.items()}
        if len(there) == record.layout.size and not any(outcome.error for outcome in outcomes_there.values()):
            training = further_training(trial, full, min(each.trained for each in there.values()))
            trainings.append(finished(training, outcomes_there, goal_of(section)))
    return trainings


def join_trainings(trials: Sequence[Trial], further: Iterable[Trial]) -> list[Trial]:
    """Return the trials of a search, those that were trained further with all of their training."""
    continued = {trial.number: trial for trial in further}
    return [_joined(trial, continued[trial.number]) if trial.number in continued else trial for trial in trials]


@dataclass(frozen=True)
class Finalist:
    """A trial of the search, and `again` with those of the fresh seeds alone: `running` while tasks are missing."""

    trial: Trial
    again: Trial


def read_finalists(section: StudySection, record: Record, history: History) -> list[Finalist]:
    """Return the finalists, the best of the search first, all trained as far; `history` has all of their training."""
    return [Finalist(trial, _on_fresh_seeds(trial, record, section)) for trial in _candidates(section, record, history)]


def _candidates(section: StudySection, record: Record, history: History) -> list[Trial]:
    """Return the finalists of a search: the best within the limits, of those that were trained as far as the first.

    With several metrics the one that would be chosen is the first.
    """
    if not section.finalists:
        return []
    at_target = (trial for trial in history if trial.keeps_limits and trial.scale == record.goal.target)
    best = leaders(at_target, section.finalists)
    first = chosen_first(best, history.front, record.goal, section.choose)[: section.finalists]
    return [trial for trial in first if trial.rank[:2] == first[0].rank[:2]]


def _on_fresh_seeds(trial: Trial, record: Record, section: StudySection) -> Trial:
    """Return a trial with the outcomes of fresh seeds alone, as far as they are recorded: `running` while one lacks."""
    indices = fresh_indices(section, record.layout)
    noted = {index: Notes(record).finalist_outcome(trial.number, index) for index in indices}
    known = {index: outcome for index, outcome in noted.items() if outcome is not None}
    again = Trial(trial.number, trial.round, trial.point, known, key=trial.key)
    return finished(again, known, record.goal) if len(known) == len(indices) else again


def fresh_indices(section: StudySection, layout: TaskLayout) -> range:
    """Return the indices of a finalist's tasks: they follow those of the search."""
    return range(layout.size, layout.size + section.finalist_repeats * layout.folds)


def num_to_finish(config: StudyConfig) -> int:
    """Return how many of the best are trained to their end after a search by amounts."""
    count: int = max(config.strategy["eta"], config.study.finalists)
    return count


def further_training(trial: Trial, full: int | None, trained: int) -> Trial:
    """Return the training that takes a trial from `trained` to `full`, as a trial that has not begun."""
    return replace(trial.as_opened, amount=full, continues=trial.number, trained=trained)


def _joined(before: Trial, after: Trial) -> Trial:
    """Return the result of the second training, with the times and cost of both, and the whole curve."""

    def both(first: Outcome, second: Outcome) -> Outcome:
        # One that began anew has the whole curve itself.
        curve = [*first.curve, *second.curve] if after.trained else second.curve
        seconds, units = first.seconds + second.seconds, first.units + second.units
        return replace(second, curve=curve, seconds=seconds, units=units, started=first.started)

    outcomes = {index: both(before.outcomes[index], outcome) for index, outcome in after.outcomes.items()}
    trained, continues = (before.trained, before.continues) if after.trained else (0, None)
    return replace(after, outcomes=outcomes, continues=continues, trained=trained, ended_later=after.ended)
