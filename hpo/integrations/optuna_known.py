"""What an Optuna study holds: the proposals that were handed to its trials, and the trials that have finished."""

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

# Attributes of an Optuna study, one per round: this, and the number of the trial that gets the round's first point.
_ROUND = "hpo:round:"


@dataclass(frozen=True)
class Round:
    """What a strategy proposed at once: its points go to consecutive trials, the first to trial `first`.

    A substitute is the point of a trial for which the strategy would have waited: no round of its own, and the strategy
    does not wait for it either.
    """

    number: int
    first: int
    points: Sequence[Point]
    is_substitute: bool = False


class Known:
    """What an Optuna study holds, as far as it was read: each part is read once, however long the study.

    `upcoming` is the next proposal, if it was made already, and the trial that gets its first point; `is_over`: the
    strategy has nothing more to propose, whatever becomes of the running trials.
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
        """Return the proposal that has a point for this trial; None where it is to be made."""
        # Another process, or this one in an earlier life, may have stored some; not where all before are known.
        if number not in self._round_of and number != self.end:
            for key, stored in study.user_attrs.items():
                first = key.removeprefix(_ROUND)
                if first != key and int(first) not in self._rounds:
                    substitute = stored.get("substitute", False)
                    self._add(Round(stored["number"], int(first), list(map(as_values, stored["points"])), substitute))
        return self._round_of.get(number)

    def write(self, study: Study, first: int, points: Sequence[Point], is_substitute: bool) -> None:
        """Store a proposal with the study."""
        number = -1 if self._last is None else self._last.number
        made = Round(number if is_substitute else number + 1, first, points, is_substitute)
        stored = {"number": made.number, "points": [dict(point) for point in points], "substitute": is_substitute}
        study.set_user_attr(f"{_ROUND}{first}", stored)
        self._add(made)

    def is_substitute(self, number: int) -> bool:
        """Return whether the trial's point was handed out instead of waiting."""
        return number in self._round_of and self._round_of[number].is_substitute

    def _add(self, made: Round) -> None:
        self._rounds[made.first] = made
        # Of two proposals that overlap the later one counts.
        numbers = range(made.first, made.first + len(made.points))
        self._round_of |= {n: made for n in numbers if n not in self._round_of or self._round_of[n].first < made.first}
        if self._last is None or self._last.first < made.first:
            self._last = made

    @property
    def end(self) -> int:
        """The number of the first trial after all proposals."""
        return 0 if self._last is None else self._last.first + len(self._last.points)

    def trial_of(self, number: int) -> Trial | None:
        """Return a trial with the point that it was handed; None where it was handed none."""
        its = self._round_of.get(number)
        return None if its is None else Trial(number, its.number, its.points[number - its.first])

    def take(self, trials: Sequence[FrozenTrial], space: Space, directions: Sequence[Direction]) -> None:
        """Add finished trials that are new to the history, without those outside of the space."""
        new = [frozen for frozen in trials if frozen.number not in self._taken]
        self._taken |= {frozen.number for frozen in new}
        self.history = self.history.extended(
            with_scores(trial, frozen.values if frozen.state == TrialState.COMPLETE else None, directions)
            for frozen in new
            if (trial := self._trial(frozen, space)) is not None
        )

    def _trial(self, frozen: FrozenTrial, space: Space) -> Trial | None:
        """Return a trial with the point that the objective got, or would have got if it failed early."""
        opened = self.trial_of(frozen.number)
        handed = {} if opened is None else opened.point
        given = point_of(frozen, space.dimensions)
        candidates = (given, {**handed, **given}, handed)
        point = next((point for point in candidates if point and space.contains(point)), None)
        return None if point is None else Trial(frozen.number, -1 if opened is None else opened.round, point)
