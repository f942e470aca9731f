"""Our strategies as samplers for `optuna.create_study`."""

import copy
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from hpo.engine.space.dimensions import Dimension, Range, Value
from hpo.engine.space.distributions import distribution as own_distribution
from hpo.engine.space.space import Point, point_key
from hpo.engine.strategies import Strategy
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial
from hpo.errors import SpaceError, nearest
from hpo.integrations.points import closed, next_points

# Attributes of an Optuna study, one per round: this, and the number of the trial that gets the round's first point.
_ROUND = "hpo:round:"


def as_sampler(strategy: Strategy) -> BaseSampler:
    """Return the strategy as an Optuna sampler; see `StrategySampler`.

    Example:
        >>> from hpo.integrations.defaults import default_strategy
        >>> strategy = default_strategy("evolutionary", {"x": {"low": -1.0, "high": 1.0}})
        >>> study = optuna.create_study(sampler=as_sampler(strategy))
        >>> study.optimize(lambda trial: trial.suggest_float("x", -1.0, 1.0) ** 2, n_trials=40)
    """
    return StrategySampler(strategy)


@dataclass(frozen=True)
class _Round:
    """What a strategy proposed at once: its points go to consecutive trials, the first to trial `first`."""

    number: int
    first: int
    points: Sequence[Point]


class StrategySampler(BaseSampler):
    """Hands a strategy's points to trials, in the order of the trials' numbers.

    One trial at a time, `optimize` or ask and tell gets exactly the trials of `hpo search` with the same strategy and
    one lane. With several at once (`n_jobs`), the strategy knows what has finished, and that the others are pending.
    Optuna cannot make a trial wait. So where a strategy would wait, as one of generations does, it is asked as if
    nothing were pending, and running points are removed from its answer. Proposals are stored as user attributes of the
    Optuna study: one that is loaded again, also in another process, continues with the same points, in whatever order
    an objective asks for its parameters.

    The objective must suggest every hyperparameter with the range of the space (for a list of values
    `suggest_categorical` of the same ones, or `suggest_int` where it has the same); everything else is an error.
    Failed and pruned trials count as worst: the score of a pruned one cannot be compared. Trials that the strategy did
    not propose (enqueued, added, of another sampler) are learnt from if they are in the space, and replace the point
    that their number would have had. When the strategy is over, `optimize` stops; later requests get uniform draws,
    untried ones first.

    Several processes on one storage share the proposals through it. If two of them ask in the same moment, each may
    know other finished trials, and a point may occur twice.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._space = strategy.space
        self._lock = threading.Lock()
        # By study and trial: what was stored, and what will be proposed next.
        self._handed: dict[tuple[str, int], Point] = {}
        self._upcoming: dict[tuple[str, int], Sequence[Point]] = {}

    def infer_relative_search_space(self, _study: Study, _trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return nothing: every parameter is sampled independently, so that its range can be compared."""
        return {}

    def sample_relative(
        self, _study: Study, _trial: FrozenTrial, _search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing, as above."""
        return {}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Decide the trial's point; ask the strategy where the last proposal is handed out."""
        if len(study.directions) > 1:
            raise ValueError("a strategy has one objective; multi-objective studies need another sampler")
        with self._lock:
            rounds = _rounds(study)
            last = next((r for r in reversed(rounds) if r.first <= trial.number), None)
            if last is None or trial.number >= last.first + len(last.points):
                points = self._next_points(study, trial.number, rounds)
                last = _Round(last.number + 1 if last else 0, trial.number, points)
                stored = {"number": last.number, "points": [dict(point) for point in points]}
                study.set_user_attr(f"{_ROUND}{last.first}", stored)
            self._handed[study.study_name, trial.number] = last.points[trial.number - last.first]

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return one value of the trial's point; SpaceError for another hyperparameter or range than the space's."""
        keys = self._space.keys
        if param_name not in keys:
            raise SpaceError(
                f"space: the objective suggests '{param_name}', which is not searched; searched are "
                f"{', '.join(keys)}{nearest(param_name, keys)}"
            )
        dimension = self._space[param_name]
        _refuse_other_range(dimension, param_distribution)
        handed = self._handed.get((study.study_name, trial.number))
        point = _handed_out(_rounds(study))[trial.number] if handed is None else handed
        if param_name not in point:
            raise SpaceError(
                f"space.{param_name}: the objective suggests it where it does not exist; suggest it only when "
                f"{dict(dimension.when)}"
            )
        return point[param_name]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Refuse an objective that did not suggest everything, and stop `optimize` when the strategy is over."""
        if state == TrialState.COMPLETE:
            self._refuse_missing(trial)
        with self._lock:
            self._handed.pop((study.study_name, trial.number), None)
            if self._is_over(study, trial, state, values):
                # Raised outside of `optimize`, where nothing can be stopped.
                with suppress(RuntimeError):
                    study.stop()

    def _next_points(self, study: Study, number: int, rounds: Sequence[_Round]) -> Sequence[Point]:
        """Return the points of this trial and those that follow it, at least one."""
        upcoming = self._upcoming.pop((study.study_name, number), None)
        if upcoming:
            return upcoming
        others = [t for t in study.get_trials(deepcopy=False) if t.number != number]
        done = [t for t in others if t.state.is_finished() and t.number < number]
        history = History(self._trials(done, study.direction, rounds))
        handed = _handed_out(rounds)
        running = [t.number for t in others if not t.state.is_finished() and t.number in handed]
        pending = [Trial(number, 0, handed[number]) for number in running]
        proposed = next_points(self._strategy, history, pending)
        if not proposed and pending:
            keys = {trial.key for trial in pending}
            proposed = [p for p in next_points(self._strategy, history, ()) if point_key(p) not in keys]
        return proposed or self._drawn(history.tried(pending), number)

    def _drawn(self, tried: Collection[str], number: int) -> Sequence[Point]:
        """Return one random point, untried if possible."""
        rng = np.random.default_rng(number)
        return draw_untried(self._space, rng, tried, 1) or [self._space.draw(rng)]

    def _is_over(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> bool:
        """Return whether nothing is left to propose after this trial, the last one running."""
        rounds, trials = _rounds(study), study.get_trials(deepcopy=False)
        others = [t for t in trials if t.number != trial.number]
        if any(not t.state.is_finished() for t in others):
            return False
        if rounds and len(trials) < rounds[-1].first + len(rounds[-1].points):
            return False
        last = copy.copy(trial)
        last.state, last.value = state, values[0] if values else None
        done = sorted([*others, last], key=lambda t: t.number)
        upcoming = next_points(self._strategy, History(self._trials(done, study.direction, rounds)), ())
        self._upcoming[study.study_name, len(trials)] = upcoming
        return not upcoming

    def _trials(
        self, trials: Sequence[FrozenTrial], direction: StudyDirection, rounds: Sequence[_Round]
    ) -> list[Trial]:
        """Return Optuna's trials as ours, without those outside of the space."""
        ours, handed = [], _handed_out(rounds)
        round_of = {r.first + place: r.number for r in rounds for place in range(len(r.points))}
        for frozen in trials:
            point = self._point(frozen, handed.get(frozen.number, {}))
            if point is not None:
                trial = Trial(frozen.number, round_of.get(frozen.number, -1), point)
                score = frozen.value if frozen.state == TrialState.COMPLETE else None
                ours.append(closed(trial, score, "maximize" if direction == StudyDirection.MAXIMIZE else "minimize"))
        return ours

    def _point(self, frozen: FrozenTrial, handed: Point) -> Point | None:
        """Return the point that the objective got, or would have got if it failed early; None outside of the space."""
        given = {key: frozen.params[key] for key in self._space.keys if key in frozen.params}
        candidates = (given, {**handed, **given}, handed)
        return next((point for point in candidates if point and self._space.contains(point)), None)

    def _refuse_missing(self, trial: FrozenTrial) -> None:
        for dimension in self._space.dimensions:
            if self._space.active(dimension, trial.params) and dimension.key not in trial.params:
                raise SpaceError(
                    f"space.{dimension.key}: trial {trial.number} finished without suggesting it; suggest every "
                    f"hyperparameter of the space in the objective, or remove it from the space"
                )


def _rounds(study: Study) -> list[_Round]:
    """Return the proposals that are stored with the study, by their first trials."""
    stored = {key.removeprefix(_ROUND): value for key, value in study.user_attrs.items() if key.startswith(_ROUND)}
    rounds = [_Round(value["number"], int(first), value["points"]) for first, value in stored.items()]
    return sorted(rounds, key=lambda r: r.first)


def _handed_out(rounds: Sequence[_Round]) -> dict[int, Point]:
    """Return the point by the number of its trial; of two proposals that overlap the later one counts."""
    return {r.first + place: point for r in rounds for place, point in enumerate(r.points)}


def _refuse_other_range(dimension: Dimension, distribution: BaseDistribution) -> None:
    if isinstance(dimension, Range):
        same = distribution == own_distribution(dimension)
    else:
        same = _kinds(dimension.values) == _kinds(_listed(distribution))
    if not same:
        raise SpaceError(
            f"space.{dimension.key}: the objective suggests {distribution}, the space has {_text(dimension)}; make "
            f"them the same"
        )


def _listed(distribution: BaseDistribution) -> Sequence[Value]:
    """Return all values of a finite distribution; empty for others."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1, distribution.step)
    if isinstance(distribution, FloatDistribution) and distribution.step is not None:
        steps = round((distribution.high - distribution.low) / distribution.step)
        return [distribution.low + i * distribution.step for i in range(steps + 1)]
    return []


def _kinds(values: Sequence[Value]) -> set[tuple[bool, Value]]:
    """Return the values as a set in which true and 1 differ."""
    return {(isinstance(value, bool), value) for value in values}


def _text(dimension: Dimension) -> str:
    if not isinstance(dimension, Range):
        return f"the values {list(dimension.values)}"
    kind = "whole numbers" if dimension.integer else "numbers"
    return f"{kind} from {dimension.low} to {dimension.high}{' on a log scale' if dimension.log else ''}"
