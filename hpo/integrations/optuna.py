"""The toolkit's strategies as samplers for `optuna.create_study`."""

import copy
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import HyperbandPruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from hpo.engine.strategies import Strategy
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.errors import ConfigError, SpaceError, nearest
from hpo.integrations.defaults import next_points
from hpo.integrations.optuna_known import Known
from hpo.trials.record.rows import directions_of, point_of
from hpo.trials.record.rows import distribution as own_distribution
from hpo.trials.space.dimensions import Dimension, Range, Value, to_stored
from hpo.trials.space.space import Point, point_key


def as_sampler(strategy: Strategy) -> BaseSampler:
    """Return the strategy as an Optuna sampler; see `StrategySampler`.

    Example:
        >>> from hpo.integrations.defaults import default_strategy
        >>> strategy = default_strategy("evolutionary", {"x": {"low": -1.0, "high": 1.0}})
        >>> study = optuna.create_study(sampler=as_sampler(strategy))
        >>> study.optimize(lambda trial: trial.suggest_float("x", -1.0, 1.0) ** 2, n_trials=40)
    """
    return StrategySampler(strategy)


class StrategySampler(BaseSampler):
    """Assigns a strategy's points to trials, in the order of the trials' numbers.

    With one trial at a time, the trials are exactly the trials of `hpo search` with the same strategy and one lane.
    With several trials at once (`n_jobs`), the strategy knows the results of finished trials, and knows running trials
    as pending.

    Optuna cannot make a trial wait. If the strategy has no point yet, for example before the end of a generation, the
    trial gets a substitute. A substitute is a random point, or a point that the strategy would propose if no trials
    were pending. The strategy learns from substitutes, but no generation includes them or waits for them.

    Proposals are stored as user attributes of the Optuna study. After a study is loaded again, even in another process,
    the search continues with the same points. The order in which the objective suggests its parameters does not matter.

    The objective must suggest every hyperparameter with the range of the space; any other range is an error. For a
    hyperparameter with a list of values, the objective calls `suggest_categorical` with these values, or suggests a
    finite range that has the same values. If the study has several objectives, the strategy optimizes all of them, and
    uses the first one wherever it needs a single score. Constraints are ignored. Failed and pruned trials count as the
    worst, because the score of a pruned trial is not comparable.

    The strategy also learns from other trials with points in the space: enqueued trials, added trials, and trials of
    another sampler. The strategy may propose several points at once, one for each of the next trial numbers. If one
    of these numbers goes to another trial, the point with this number is dropped.

    When the strategy is finished, `optimize` stops. A trial that is started afterwards gets a uniformly drawn point, if
    possible an untried point.

    Several processes share the proposals through one storage. If two processes start trials at the same moment, they
    may know different finished trials, and a point may occur twice.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._space = strategy.space
        self._lock = threading.Lock()
        # The known contents by the name of the Optuna study.
        self._known: defaultdict[str, Known] = defaultdict(Known)

    def infer_relative_search_space(self, _study: Study, _trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return an empty space, so that Optuna calls `sample_independent` for each parameter."""
        return {}

    def sample_relative(
        self, _study: Study, _trial: FrozenTrial, _search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return no values; see `infer_relative_search_space`."""
        return {}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make sure that the trial has a point; if all proposed points are assigned, ask the strategy for more.

        Raise ConfigError if the study has several objectives, but the strategy supports only one, or if the study has a
        HyperbandPruner.
        """
        if isinstance(study.pruner, HyperbandPruner):
            raise ConfigError(
                "pruner: must not be a HyperbandPruner, because it shows the sampler only some of the trials; choose "
                "another pruner, such as SuccessiveHalvingPruner"
            )
        reason, count = getattr(self._strategy, "refuses_several", None), len(study.directions)
        if count > 1 and reason is not None:
            raise ConfigError(
                f"strategy: '{self._strategy.announcement}' {reason}, given an Optuna study of {count} objectives; "
                f"choose another strategy, such as evolutionary"
            )
        with self._lock:
            known = self._known[study.study_name]
            while known.round_of(study, trial.number) is None:
                # A trial with a lower number may have started in another thread. If it has no point yet, it is first.
                trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
                started = [t.number for t in trials if known.end <= t.number < trial.number]
                self._propose(study, min(started, default=trial.number), known)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value of a parameter in the trial's point; a list or mapping becomes JSON text.

        Raise SpaceError if the space does not have the parameter or has another range for it, or if the parameter's
        condition is not met.
        """
        keys = self._space.keys
        if param_name not in keys:
            raise SpaceError(
                f"space: the objective suggests '{param_name}', which is not in the space; the space has "
                f"{', '.join(keys)}{nearest(param_name, keys)}"
            )
        dimension = self._space[param_name]
        _refuse_other_range(dimension, param_distribution)
        with self._lock:
            own_round = self._known[study.study_name].round_of(study, trial.number)
        assert own_round is not None
        point = own_round.points[trial.number - own_round.first]
        suggested = point_of(trial, self._space.dimensions)
        if param_name not in point and self._space.active(dimension, suggested):
            # An enqueued trial has values of its own, so it may meet other conditions than the proposed point.
            point = self._space.complete(suggested, np.random.default_rng(trial.number))
        if param_name not in point:
            raise SpaceError(
                f"space.{param_name}: the objective suggests '{param_name}', but the condition of this hyperparameter "
                f"is not met; suggest '{param_name}' only when {dict(dimension.when)}"
            )
        return to_stored(point[param_name])

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Stop `optimize` if the strategy is finished; raise SpaceError if a complete trial lacks a hyperparameter."""
        if state == TrialState.COMPLETE:
            self._refuse_missing(trial)
        with self._lock:
            if self._known[study.study_name].is_over or self._is_over(study, trial, state, values):
                # `stop` raises RuntimeError outside `optimize`.
                with suppress(RuntimeError):
                    study.stop()

    def _propose(self, study: Study, number: int, known: Known) -> None:
        """Store new points of the strategy: one for this trial, and perhaps more for the following trials."""
        upcoming_round, known.upcoming = known.upcoming, None
        if upcoming_round is not None and upcoming_round[0] == number and upcoming_round[1]:
            known.write(study, number, upcoming_round[1], is_substitute=False)
            return
        others = [t for t in study.get_trials(deepcopy=False) if t.number != number]
        known.take([t for t in others if t.state.is_finished()], self._space, directions_of(study))
        numbers = [t.number for t in others if not t.state.is_finished()]
        running = [trial for n in numbers if (trial := known.trial_of(n)) is not None]
        is_in_rounds = self._strategy.learns == "by_round"
        pending = [t for t in running if not (is_in_rounds and known.is_substitute(t.number))]
        keys = {trial.key for trial in running}
        proposed = [p for p in next_points(self._strategy, known.history, pending) if point_key(p) not in keys]
        if proposed:
            known.write(study, number, proposed, is_substitute=False)
            return
        upcoming = next_points(self._strategy, known.history, ()) if running else []
        others_left = [point for point in upcoming if point_key(point) not in keys]
        # If the strategy has no more points, `optimize` must stop even while other trials are running.
        known.is_over = bool(running) and not (upcoming if is_in_rounds else others_left)
        points: Sequence[Point] = others_left[:1] if is_in_rounds else []
        if not points:
            rng = np.random.default_rng(number)
            points = draw_untried(self._space, rng, known.history.tried(running), 1) or [self._space.draw(rng)]
        known.write(study, number, points, is_substitute=True)

    def _is_over(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> bool:
        """Return whether no other trial is running and the strategy has no more points."""
        known, trials = self._known[study.study_name], study.get_trials(deepcopy=False)
        others = [t for t in trials if t.number != trial.number]
        if any(not t.state.is_finished() for t in others) or len(trials) < known.end:
            return False
        last = copy.copy(trial)
        last.state, last.values = state, values
        known.take([*others, last], self._space, directions_of(study))
        upcoming = next_points(self._strategy, known.history, ())
        known.upcoming = len(trials), upcoming
        return not upcoming

    def _refuse_missing(self, trial: FrozenTrial) -> None:
        point = point_of(trial, self._space.dimensions)
        for dimension in self._space.dimensions:
            if self._space.active(dimension, point) and dimension.key not in point:
                raise SpaceError(
                    f"space.{dimension.key}: the objective of trial {trial.number} did not suggest this "
                    "hyperparameter; suggest it in the objective, or remove it from the space"
                )


def _refuse_other_range(dimension: Dimension, distribution: BaseDistribution) -> None:
    if isinstance(dimension, Range):
        same = distribution == own_distribution(dimension)
    else:
        same = _kinds(list(map(to_stored, dimension.values))) == _kinds(_listed(distribution))
    if not same:
        raise SpaceError(
            f"space.{dimension.key}: the objective suggests {distribution}, but the space has {_text(dimension)}; "
            "use the same values in both"
        )


def _listed(distribution: BaseDistribution) -> Sequence[Value]:
    """Return all values of a finite distribution; for an infinite distribution, return an empty list."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution | FloatDistribution) and distribution.step is not None:
        steps = round((distribution.high - distribution.low) / distribution.step)
        return [distribution.low + i * distribution.step for i in range(steps + 1)]
    return []


def _kinds(values: Sequence[Value]) -> set[tuple[bool, Value]]:
    """Return the values as a set that distinguishes True from 1, but not 0.3 from 0.1 + 2 * 0.1."""
    rounded = (float(f"{value:.12g}") if isinstance(value, float) else value for value in values)
    return {(isinstance(value, bool), value) for value in rounded}


def _text(dimension: Dimension) -> str:
    if not isinstance(dimension, Range):
        return f"the values {list(map(to_stored, dimension.values))}"
    kind = "whole numbers" if dimension.integer else "numbers"
    return f"{kind} from {dimension.low} to {dimension.high}{' on a log scale' if dimension.log else ''}"
