"""Reads two things from an Optuna study: the points that a strategy proposed for trials, and the finished trials."""

from collections.abc import Sequence
from dataclasses import dataclass

from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from hpo.integrations.defaults import with_scores
from hpo.trials.history import History
from hpo.trials.record.rows import point_of
from hpo.trials.space.dimensions import as_values
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Direction, Trial

# Each round is an attribute of the Optuna study. Its name is this prefix and the number of the round's first trial.
_ROUND = "hpo:round:"


@dataclass(frozen=True)
class Round:
    """Points that the strategy has proposed together, for consecutive trials.

    `number` is the round's index, and `first` is the number of the first trial. If the strategy has no point for a
    trial yet, the trial gets a substitute point. Each substitute has its own `Round`, with the index of the strategy's
    last round (-1 if there is none). The strategy does not wait for the trial of a substitute.
    """

    number: int
    first: int
    points: Sequence[Point]
    is_substitute: bool = False


class Known:
    """The proposals and the finished trials of an Optuna study.

    The proposals are stored in rounds. A round has the points that the strategy has proposed together. Each round and
    each finished trial is read only once.

    Attributes:
        history: the finished trials.
        upcoming: the number of the next trial, and the points for this and later trials. These points are not stored
            yet. None = the points are not known.
        is_over: whether the strategy has no more points, whatever the results of the running trials.
    """

    def __init__(self) -> None:
        self.history = History()
        self.upcoming: tuple[int, Sequence[Point]] | None = None
        self.is_over = False
        self._taken: set[int] = set()
        self._rounds: dict[int, Round] = {}
        self._round_of: dict[int, Round] = {}
        self._last: Round | None = None

    def round_of(self, study: Study, number: int) -> Round | None:
        """Return the stored round that has the point of trial `number`; None = the trial has no stored point yet."""
        # Another process may have stored proposals, so read them, unless this is the number after all known proposals.
        if number not in self._round_of and number != self.end:
            for key, stored in study.user_attrs.items():
                first = key.removeprefix(_ROUND)
                if first != key and int(first) not in self._rounds:
                    substitute = stored.get("substitute", False)
                    self._add(Round(stored["number"], int(first), list(map(as_values, stored["points"])), substitute))
        return self._round_of.get(number)

    def write(self, study: Study, first: int, points: Sequence[Point], is_substitute: bool) -> None:
        """Store proposed points in the Optuna study as a new round."""
        number = -1 if self._last is None else self._last.number
        new = Round(number if is_substitute else number + 1, first, points, is_substitute)
        stored = {"number": new.number, "points": [dict(point) for point in points], "substitute": is_substitute}
        study.set_user_attr(f"{_ROUND}{first}", stored)
        self._add(new)

    def is_substitute(self, number: int) -> bool:
        """Return whether the trial got a substitute point, because the strategy had no point for this trial yet."""
        return number in self._round_of and self._round_of[number].is_substitute

    def _add(self, new: Round) -> None:
        self._rounds[new.first] = new
        # If two proposals overlap, the later one counts.
        numbers = range(new.first, new.first + len(new.points))
        self._round_of |= {n: new for n in numbers if n not in self._round_of or self._round_of[n].first < new.first}
        if self._last is None or self._last.first < new.first:
            self._last = new

    @property
    def end(self) -> int:
        """The first trial number after the last `Round` (points proposed together); 0 if there is no round."""
        return 0 if self._last is None else self._last.first + len(self._last.points)

    def trial_of(self, number: int) -> Trial | None:
        """Return the trial `number` with its stored point; None = the trial has no stored point yet."""
        own = self._round_of.get(number)
        return None if own is None else Trial(number, own.number, own.points[number - own.first])

    def take(self, trials: Sequence[FrozenTrial], space: Space, directions: Sequence[Direction]) -> None:
        """Add the new finished trials to the history, except trials outside of the space."""
        new = [frozen for frozen in trials if frozen.number not in self._taken]
        self._taken |= {frozen.number for frozen in new}
        self.history = self.history.extended(
            with_scores(trial, frozen.values if frozen.state == TrialState.COMPLETE else None, directions)
            for frozen in new
            if (trial := self._trial(frozen, space)) is not None
        )

    def _trial(self, frozen: FrozenTrial, space: Space) -> Trial | None:
        """Return a trial with the first of three points that is in the space; None = none of them is.

        The points are: the values that the objective suggested; these values, completed with the values that the
        strategy proposed; the proposed values.
        """
        opened = self.trial_of(frozen.number)
        proposed = {} if opened is None else opened.point
        suggested = point_of(frozen, space.dimensions)
        candidates = (suggested, {**proposed, **suggested}, proposed)
        point = next((point for point in candidates if point and space.contains(point)), None)
        return None if point is None else Trial(frozen.number, -1 if opened is None else opened.round, point)
