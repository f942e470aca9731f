"""What a careful reviewer would ask about a search, as far as its trials alone tell it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from typing_extensions import TypedDict

from hpo.config.goals import SCALE
from hpo.formatting import format_count, format_value
from hpo.study.results.choosing import as_good_as, cheapest, standard_error
from hpo.trials.goal import Goal
from hpo.trials.space.dimensions import Choices, Range
from hpo.trials.space.space import Space
from hpo.trials.trial import Trial, loss_of


class Searched(Protocol):
    """A search: `winner` is the best so far while it runs.

    `finalists` are as trained on fresh seeds; empty where the search's scores chose the winner.
    """

    @property
    def space(self) -> Space: ...  # noqa: D102
    @property
    def goal(self) -> Goal: ...  # noqa: D102
    @property
    def trials(self) -> Sequence[Trial]: ...  # noqa: D102
    @property
    def winner(self) -> Trial | None: ...  # noqa: D102
    @property
    def finalists(self) -> Sequence[Trial]: ...  # noqa: D102
    @property
    def called(self) -> str: ...  # noqa: D102


class AtEnd(TypedDict):
    """Field 21: a best value at an end of its range."""

    key: str
    value: int | float | str | bool | None
    end: str


# Rules of thumb of the tuning playbook and the checklists.
_FEW_TRIALS_PER_DIMENSION = 5
_MANY_FAILURES = 0.10
_MANY_BEYOND = 0.50
# Share of a range, on its scale, that counts as its end.
_NEAR_END = 0.02


def cautions_so_far(search: Searched) -> list[str]:
    """Return what can be said of them while the search runs, when that it has not ended is none."""
    reasons = [*about_the_search(search, has_ended=False)]
    if (winner := search.winner) is not None:
        reasons += [*at_an_end(search, winner), *still_improving(search, winner)]
        reasons += within_noise(search, winner) if len(search.goal.metrics) == 1 else ()
    return reasons


def about_the_search(search: Searched, has_ended: bool = True) -> Iterator[str]:
    """Yield what its trials as a whole leave in doubt."""
    trials, space = search.trials, search.space
    running = sum(trial.state == "running" for trial in trials)
    # One whose retry did not fail says nothing of the space.
    retried = {trial.retry_of for trial in trials if trial.state == "complete"}
    failed = sum(trial.state == "failed" and trial.number not in retried for trial in trials)
    if running and has_ended:
        yield f"the search has not ended: {running} {'trial is' if running == 1 else 'trials are'} not finished"
    if trials and failed / len(trials) > _MANY_FAILURES:
        yield f"{failed} of {len(trials)} trials failed: part of the space cannot be trained, so it was hardly searched"
    repeated = [(t.number, o.differs) for t in trials for _, o in sorted(t.outcomes.items()) if o.differs]
    if repeated:
        number, differs = repeated[0]
        yield (
            f"trainings are not deterministic: that of trial {number}, repeated after an interruption, reported "
            f"something else ({differs}); what it reported first counts"
        )
    complete = [trial for trial in trials if trial.state == "complete"]
    beyond = sum(not trial.keeps_limits for trial in complete)
    limits = ", ".join(map(str, search.goal.limits))
    if complete and beyond == len(complete):
        yield f"no complete trial keeps the limits ({limits})"
    elif complete and beyond / len(complete) > _MANY_BEYOND:
        yield f"{beyond} of {len(complete)} complete trials exceed a limit ({limits}): few were spent on what may win"
    dimensions = [dimension for dimension in space.dimensions if dimension.key != SCALE]
    wanted = _FEW_TRIALS_PER_DIMENSION * len(dimensions)
    # Halving trains a point in several trials.
    tried = sum(trial.continues is None for trial in trials)
    whole = space.size is not None and len({trial.key for trial in trials}) >= space.size
    if tried < wanted and not whole and has_ended:
        searched = format_count(len(dimensions), "hyperparameter*")
        yield f"few trials: {tried} for {searched}; {wanted} would be five for each"


def at_the_end(space: Space, winner: Trial) -> list[AtEnd]:
    """Return every ordered hyperparameter whose best value lies at an end of its range.

    A lower end of 0 is left out, as of a dropout: mostly nothing lies beyond.
    """
    ends: list[AtEnd] = []
    for dimension in space.dimensions:
        # The last scale is what is sought.
        if isinstance(dimension, Choices) or dimension.key not in winner.point or dimension.key == SCALE:
            continue
        value = winner.point[dimension.key]
        if isinstance(dimension, Range):
            assert isinstance(value, int | float)
            place = dimension.to_unit(value)
            # A whole number is the middle of its part of the range. Of two values, each is an end.
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


def at_an_end(search: Searched, winner: Trial) -> Iterator[str]:
    """Yield the best values that are at an end of their range."""
    for found in at_the_end(search.space, winner):
        key, value, end = found["key"], format_value(found["value"]), found["end"]
        yield f"the best {key}, {value}, lies at the {end} end of its range: the best may lie beyond"


def within_noise(search: Searched, winner: Trial) -> Iterator[str]:
    """Yield which trials are as good as the winner.

    Compare by the standard error over the winner's folds and seeds; one standard error is within the noise.
    """
    trials, seeds = search.finalists or search.trials, " on fresh seeds" if search.finalists else ""
    by = next(trial for trial in trials if trial.number == winner.number)
    near = as_good_as(by, trials, search.goal.metric)
    if near:
        numbers = ", ".join(str(t.number) for t in sorted(near, key=lambda t: t.loss)[:10])
        thing = "finalist*" if search.finalists else "configuration*"
        which = f"{format_count(len(near), f'other {thing}')} {'is' if len(near) == 1 else 'are'}"
        what = "trial" if len(near) == 1 else "trials"
        numbered = {trial.number for trial in (by, *near)}
        chosen, is_best = (
            cheapest(t for t in search.trials if t.number in numbered),
            all(t.loss >= by.loss for t in near),
        )
        takes = f"; study.winner=one_standard_error takes {chosen.number}"
        instead = "" if chosen.number == by.number or not is_best else takes
        error = f"one standard error ({standard_error(by, search.goal.metric):.2g})"
        yield f"{which} within {error} of the {search.called}{seeds}: {what} {numbers}{instead}"


def still_improving(search: Searched, winner: Trial) -> Iterator[str]:
    """Yield whether the winner was best at its end."""
    best_at_end = []
    for outcome in winner.outcomes.values():
        curve = [point[search.goal.metric] for point in outcome.curve if search.goal.metric in point]
        if len(curve) > 1:
            best = min(curve, key=lambda score: loss_of(score, search.goal.direction))
            best_at_end.append(curve[-1] == best and best not in curve[:-1])
    if best_at_end and all(best_at_end):
        whose = f"the learning curves of the {search.called}"
        yield f"{whose} were best at their last evaluation: it may want longer training"
