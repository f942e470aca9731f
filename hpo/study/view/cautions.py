"""Finds cautions in a search's trials: reasons to doubt the search's result, as a reviewer would raise them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from hpo.config.goals import SCALE
from hpo.formatting import format_count, format_value
from hpo.study.results.choosing import as_good_as, cheapest, standard_error
from hpo.trials.goal import Goal
from hpo.trials.ranking import front
from hpo.trials.space.dimensions import Choices, Range
from hpo.trials.space.space import Space
from hpo.trials.trial import Trial, loss_of


@dataclass(frozen=True)
class SearchFacts:
    """The facts about a search that its cautions need. While the search runs, `winner` is the best trial so far.

    `finalists` has the finalists with scores on fresh seeds; it is empty if the scores of the search chose the
    winner. `called` is the text by which cautions name the winner: `winner`, or `best trial so far`.
    """

    space: Space
    goal: Goal
    trials: Sequence[Trial]
    winner: Trial | None
    finalists: Sequence[Trial]
    called: str


class AtEnd(TypedDict):
    """A hyperparameter whose best value is at an end of its range (field 21 of the report).

    Attributes:
        key: the hyperparameter's key.
        value: the best value.
        end: `lower` or `upper` of a range, `first` or `last` of a list of values.
    """

    key: str
    value: int | float | str | bool | None
    end: str


# Rules of thumb from the tuning playbook and the checklists.
_FEW_TRIALS_PER_DIMENSION = 5
_MANY_FAILURES = 0.10
_MANY_BEYOND = 0.50
# The share at each end of a range that counts as the end, measured on the scale of the range (linear or log).
_NEAR_END = 0.02


def cautions_so_far(search: SearchFacts) -> list[str]:
    """Return the cautions that are known before a search ends."""
    cautions = [*search_cautions(search, has_ended=False)]
    if (winner := search.winner) is not None:
        cautions += [*boundary_cautions(search, winner), *curve_cautions(search, winner)]
        cautions += noise_cautions(search, winner) if len(search.goal.metrics) == 1 else ()
    return cautions


def search_cautions(search: SearchFacts, has_ended: bool = True, is_extension: bool = False) -> Iterator[str]:
    """Yield the cautions about all trials: failures, exceeded limits, nondeterministic trainings.

    If `has_ended` is true, also yield cautions about unfinished trials and about too few trials.

    If `is_extension` is true, another study chose the trials. Then yield no caution about too few trials. If
    `is_extension` is true and there are no finalists, yield a caution that the trials' scores are optimistic.
    """
    trials, space = search.trials, search.space
    running = sum(trial.state == "running" for trial in trials)
    # A failure does not count if its retry is complete: the fault was not in the point.
    retried = {trial.retry_of for trial in trials if trial.state == "complete"}
    failed = sum(trial.state == "failed" and trial.number not in retried for trial in trials)
    if running and has_ended:
        yield f"the search has not ended: {running} {'trial is' if running == 1 else 'trials are'} not finished"
    if failed and failed / (ended := len(trials) - running) > _MANY_FAILURES:
        yield f"{failed} of {ended} ended trials failed, so the search knows little about their part of the space"
    repeated = [(t.number, o.differs) for t in trials for _, o in sorted(t.outcomes.items()) if o.differs]
    if repeated:
        number, differs = repeated[0]
        yield (
            f"trainings are not deterministic: trial {number}, repeated after an interruption, reported other values "
            f"({differs}); the study keeps the first reports"
        )
    complete = [trial for trial in trials if trial.state == "complete"]
    beyond = sum(not trial.keeps_limits for trial in complete)
    limits = ", ".join(map(str, search.goal.limits))
    if complete and beyond == len(complete):
        yield f"no complete trial keeps the limits ({limits})"
    elif complete and beyond / len(complete) > _MANY_BEYOND:
        yield f"{beyond} of {len(complete)} complete trials exceed a limit ({limits}): few trials could win"
    dimensions = [dimension for dimension in space.dimensions if dimension.key != SCALE]
    wanted = _FEW_TRIALS_PER_DIMENSION * len(dimensions)
    # Count each point once: halving trains a point in several trials, and a failed trial may be retried.
    tried = sum(trial.continues is None and trial.retry_of is None for trial in trials)
    whole = space.size is not None and len({trial.key for trial in trials}) >= space.size
    if is_extension and not search.finalists:
        yield (
            "this study's trials were chosen by their scores in another study, and both studies use the same seeds, so "
            "these scores are optimistic; set study.finalists to train the best trials again on fresh seeds"
        )
    if tried < wanted and not whole and has_ended and not is_extension:
        searched = format_count(len(dimensions), "hyperparameter*")
        yield f"few trials: {tried} for {searched}; use {wanted} or more, {_FEW_TRIALS_PER_DIMENSION} for each"


def at_the_end(space: Space, winner: Trial) -> list[AtEnd]:
    """Return each hyperparameter whose value in `winner` is at an end of its range; skip unordered hyperparameters.

    Skip a value of 0 at the lower end, such as a dropout of 0, because smaller values usually make no sense.
    """
    ends: list[AtEnd] = []
    for dimension in space.dimensions:
        # Skip the scale: the winner must have the last one.
        if isinstance(dimension, Choices) or dimension.key not in winner.point or dimension.key == SCALE:
            continue
        value = winner.point[dimension.key]
        if isinstance(dimension, Range):
            assert isinstance(value, int | float)
            place = dimension.to_unit(value)
            # `to_unit` puts an integer in the middle of its part of the range, so compare the bounds themselves.
            is_whole_end = dimension.high - dimension.low >= 2 and value in (dimension.low, dimension.high)
            is_end = place < _NEAR_END or place > 1 - _NEAR_END or (dimension.integer and is_whole_end)
            end = "lower" if place < 0.5 else "upper"
        else:
            assert not isinstance(value, list | dict)
            is_end = len(dimension.values) > 2 and value in (dimension.values[0], dimension.values[-1])
            end = "first" if value == dimension.values[0] else "last"
        if is_end and not (value == 0 and end in ("lower", "first")):
            ends.append({"key": dimension.key, "value": value, "end": end})
    return ends


def boundary_cautions(search: SearchFacts, winner: Trial) -> Iterator[str]:
    """Yield a caution for each hyperparameter whose value in `winner` is at an end of its range.

    Here the score of a trial is the value of the leading (first) metric. If another trial on the Pareto front has a
    better score than `winner`, yield nothing. A caution says that the best value is at an end of its range, which would
    then be false.
    """
    deciding = search.finalists or search.trials
    loss = next((trial.loss for trial in deciding if trial.number == winner.number), winner.loss)
    if any(trial.loss < loss for trial in front(deciding)):
        return
    for each in at_the_end(search.space, winner):
        end = each["end"]
        place = f"the {end} of its values" if end in ("first", "last") else f"at the {end} end of its range"
        yield f"the best {each['key']} ({format_value(each['value'])}) is {place}: a better value may lie outside"


def noise_cautions(search: SearchFacts, winner: Trial) -> Iterator[str]:
    """Yield a caution if at least one other trial is about as good as the winner.

    A trial is about as good if its score is better than the winner's score, or worse by no more than one standard
    error. The error is computed from the winner's scores over folds and seeds.
    """
    trials, seeds = search.finalists or search.trials, " on fresh seeds" if search.finalists else ""
    deciding = next(trial for trial in trials if trial.number == winner.number)
    near = as_good_as(deciding, trials, search.goal.metric)
    if near:
        numbers = ", ".join(str(t.number) for t in sorted(near, key=lambda t: t.loss)[:10])
        noun = "finalist*" if search.finalists else "configuration*"
        others = f"{format_count(len(near), f'other {noun}')} {'is' if len(near) == 1 else 'are'}"
        label = "trial" if len(near) == 1 else "trials"
        numbered = {trial.number for trial in (deciding, *near)}
        chosen = cheapest(t for t in search.trials if t.number in numbered)
        is_best = all(t.loss >= deciding.loss for t in near)
        hint = f"; study.winner=one_standard_error takes {chosen.number}"
        instead = "" if chosen.number == deciding.number or not is_best else hint
        error = f"one standard error ({standard_error(deciding, search.goal.metric):.2g})"
        yield f"{others} within {error} of the {search.called}{seeds}: {label} {numbers}{instead}"


def curve_cautions(search: SearchFacts, winner: Trial) -> Iterator[str]:
    """Yield a caution if every learning curve of the winner has its best value at the last evaluation."""
    best_at_end = []
    for outcome in winner.outcomes.values():
        curve = [point[search.goal.metric] for point in outcome.curve if search.goal.metric in point]
        if len(curve) > 1:
            best = min(curve, key=lambda score: loss_of(score, search.goal.direction))
            best_at_end.append(curve[-1] == best and best not in curve[:-1])
    if best_at_end and all(best_at_end):
        curves = f"the learning curves of the {search.called}"
        yield f"{curves} were best at their last evaluation: longer training may improve the score"
