"""The trainings after a search: the best trials are fully trained, and the finalists are trained on fresh seeds.

The best score of a search is too optimistic, because it is the maximum of many noisy values. So the finalists are
trained again on fresh seeds. Source: the top-k protocol of Bouthillier et al. 2021 (arXiv 2103.03098), and retraining
in Schneider et al. 2025 (arXiv 2506.19540, on overtuning).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hpo.config.sections import StudySection
from hpo.config.study_config import StudyConfig
from hpo.study.notes import Notes
from hpo.study.results.choosing import put_chosen_first
from hpo.study.study import counts_of, full_amount_of
from hpo.trials.goal import finished, goal_of, searched_goal
from hpo.trials.history import History
from hpo.trials.ranking import leaders
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome, TaskLayout, Trial


def trials_to_finish(config: StudyConfig, record: Record, with_next: bool = False) -> list[Trial]:
    """Return the trials to train to the end after the search, the best first.

    Choose the max(`eta`, `study.finalists`) best points; points within the limits come first. With several metrics,
    Pareto fronts rank the points. For each point, take the trial with the longest training. If the full training of a
    trial fails, the next best trial replaces it. Leave out trials that the search itself has fully trained.

    Args:
        with_next: also return the next best trials, as replacements for full trainings that may fail.

    Returns:
        The trials. [] if the budget counts trials; also [] for a ladder, which trains its best trials fully anyway.
    """
    full = full_amount_of(config)
    if full is None or counts_of(config) == "trials" or config.strategy["name"] == "ladder":
        return []
    # Use the search's limits: limits set later cause no trainings.
    record = record.judged_by(searched_goal(config.study))
    history, known = record.history(), Notes(record).full_outcomes
    best: dict[str, Trial] = {}
    # Skip the points that exceed a limit when fully trained: the winner must keep the limits.
    beyond = {trial.key for trial in history if trial.amount == full and trial.excess > 0}
    for trial in sorted(history.leaders(len(history)), key=lambda trial: trial.excess > 0):
        if trial.key not in beyond:
            best.setdefault(trial.key, trial)
    # Allow one replacement per trial to finish. Without this limit, every trial would be tried if all full trainings
    # failed.
    tried = list(best.values())[: 2 * num_to_finish(config)]
    trainable = [trial for trial in tried if not any(each.outcome.error for each in known[trial.number].values())]
    chosen = trainable if with_next else trainable[: num_to_finish(config)]
    return [trial for trial in chosen if (trial.amount or full) < full]


def are_fully_trained(config: StudyConfig, record: Record) -> bool:
    """Return whether all trials from `trials_to_finish` are fully trained."""
    known = Notes(record).full_outcomes
    return all(len(known[trial.number]) == record.layout.size for trial in trials_to_finish(config, record))


def further_trainings(config: StudyConfig, record: Record) -> list[Trial]:
    """Return a `Trial` for each trial that was fully trained after the search, with the outcomes of this training.

    Leave out a trial if a task of its full training has failed or has no outcome. Also leave out a trial if the search
    itself has fully trained the same point, for example after the user raised the budget.
    """
    known, section, trials = Notes(record).full_outcomes, config.study, record.trials()
    full = config.strategy.get("max_amount")
    by_search = {trial.key for trial in trials if trial.amount == full and trial.state == "complete"}
    trainings = []
    for trial in (trial for trial in trials if known and trial.key not in by_search):
        noted = known[trial.number]
        outcomes = {index: each.outcome for index, each in noted.items()}
        if len(noted) == record.layout.size and not any(outcome.error for outcome in outcomes.values()):
            training = further_training(trial, full, min(each.trained for each in noted.values()))
            trainings.append(finished(training, outcomes, goal_of(section)))
    return trainings


def other_trainings(config: StudyConfig, record: Record, further: Iterable[Trial]) -> list[Trial]:
    """Return the outcomes of trainings after the search that are not in `further`, as one `Trial` for each trial.

    The outcomes on fresh seeds are always returned. If a trial is not in `further`, the outcomes of its full training
    are also returned. If a trial has no outcome to return, it is left out.

    Args:
        further: the result of `further_trainings`; lacks, for example, full trainings with a failed task.
    """
    known, used = Notes(record).full_outcomes, {trial.number for trial in further}
    others = []
    for trial in record.trials():
        full = {} if trial.number in used else {index: each.outcome for index, each in known[trial.number].items()}
        if outcomes := full | _fresh_outcomes(trial, record, config.study):
            others.append(replace(trial.as_opened, outcomes=outcomes))
    return others


def join_trainings(trials: Sequence[Trial], further: Iterable[Trial]) -> list[Trial]:
    """Return the trials of a search; if a trial has a further training, join the trial with this training."""
    continued = {trial.number: trial for trial in further}
    return [_join(trial, continued[trial.number]) if trial.number in continued else trial for trial in trials]


@dataclass(frozen=True)
class Finalist:
    """A finalist: the trial in the search, and the same trial with only the outcomes on fresh seeds (`again`).

    The state of `again` is `running` until every fresh seed has an outcome.
    """

    trial: Trial
    again: Trial


def read_finalists(section: StudySection, record: Record, history: History) -> list[Finalist]:
    """Return the finalists, sorted by their scores in the search, best first; [] without `study.finalists`.

    All finalists keep the limits, and have the same scale and amount. With several metrics, the trial that
    `study.choose` picks comes first.

    Args:
        history: the ended trials, joined with their further trainings.
    """
    if not section.finalists:
        return []
    at_target = (trial for trial in history if trial.keeps_limits and trial.scale == record.goal.target)
    best = leaders(at_target, section.finalists)
    ordered = put_chosen_first(best, history.front, record.goal, section.choose)[: section.finalists]
    same = [trial for trial in ordered if trial.rank[:2] == ordered[0].rank[:2]]
    return [Finalist(trial, _fresh_trial(trial, record, section)) for trial in same]


def _fresh_trial(trial: Trial, record: Record, section: StudySection) -> Trial:
    """Return a trial with only its outcomes on fresh seeds; the state is `running` until every seed has an outcome."""
    known = _fresh_outcomes(trial, record, section)
    again = Trial(trial.number, trial.round, trial.point, known, key=trial.key)
    return finished(again, known, record.goal) if len(known) == len(fresh_indices(section, record.layout)) else again


def _fresh_outcomes(trial: Trial, record: Record, section: StudySection) -> dict[int, Outcome]:
    indices = fresh_indices(section, record.layout)
    noted = {index: Notes(record).finalist_outcome(trial.number, index) for index in indices}
    return {index: outcome for index, outcome in noted.items() if outcome is not None}


def fresh_indices(section: StudySection, layout: TaskLayout) -> range:
    """Return the indices of a finalist's tasks on fresh seeds; these indices follow those of the search's tasks."""
    return range(layout.size, layout.size + section.finalist_repeats * layout.folds)


def num_to_finish(config: StudyConfig) -> int:
    """Return how many of the best points must be fully trained after the search.

    The strategy must have the setting `eta`.
    """
    count: int = max(config.strategy["eta"], config.study.finalists)
    return count


def further_training(trial: Trial, full: int | None, trained: int) -> Trial:
    """Return a new trial, still without outcomes, to continue `trial` from the amount `trained`.

    `full` is the amount of the returned trial, as in `Proposal.amount`.
    """
    return replace(trial.as_opened, amount=full, continues=trial.number, trained=trained)


def _join(before: Trial, after: Trial) -> Trial:
    """Return `after`, the further training of `before`, with the learning curves, times and costs of both."""

    def join(first: Outcome, second: Outcome) -> Outcome:
        # A second training that began anew already has the whole curve.
        curve = [*first.curve, *second.curve] if after.trained else second.curve
        seconds, units = first.seconds + second.seconds, first.units + second.units
        return replace(second, curve=curve, seconds=seconds, units=units, started=first.started)

    outcomes = {index: join(before.outcomes[index], outcome) for index, outcome in after.outcomes.items()}
    trained, continues = (before.trained, before.continues) if after.trained else (0, None)
    return replace(after, outcomes=outcomes, continues=continues, trained=trained, ended_later=after.ended)
