"""The toolkit's strategies as search algorithms for `ray.tune.Tuner`."""

import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ray.tune.search import ConcurrencyLimiter, SearchAlgorithm, Searcher, SearchGenerator
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils import flatten_dict

from hpo.config.keys import replaced
from hpo.engine.strategies import Strategy
from hpo.errors import ConfigError, SpaceError
from hpo.integrations.defaults import next_points, with_scores
from hpo.trials.history import History
from hpo.trials.space.space import Point
from hpo.trials.trial import Trial

Mode = Literal["min", "max"]


def as_searcher(
    strategy: Strategy, metric: str | None = None, mode: Mode | None = None, max_concurrent: int | None = None
) -> SearchAlgorithm:
    """Return the strategy as the `search_alg` of a Ray Tune run; see `StrategySearcher`.

    Args:
        strategy: the strategy.
        metric: the name of the score in a trial's last result. None = the metric of the TuneConfig. The
            searcher gets this metric only if the Tuner's `param_space` is not empty.
        mode: `min` or `max`. None = the mode of the TuneConfig, under the same condition.
        max_concurrent: the maximum number of trials at once; None = no limit. Ray ignores the TuneConfig's
            `max_concurrent_trials` for this searcher.

    Raises:
        ConfigError: the mode is neither `min` nor `max`, or there are several metrics.

    Example:
        >>> from hpo.integrations.defaults import default_strategy
        >>> search = as_searcher(default_strategy("random", {"lr": [0.1, 0.01]}), metric="loss", mode="min")
        >>> tune.Tuner(train, tune_config=tune.TuneConfig(search_alg=search, num_samples=2)).fit()
    """
    _refuse_several(metric)
    if mode not in ("min", "max", None):
        raise ConfigError(f"mode: must be min or max, given {mode!r}")
    return StrategySearch(StrategySearcher(strategy, metric, mode), max_concurrent)


class StrategySearch(SearchAlgorithm):
    """A `StrategySearcher` as a search algorithm of Ray Tune.

    This class hides Ray's `SearchGenerator`, because Ray's scheduler `PopulationBasedTraining` refuses a
    `SearchGenerator`.

    Attributes:
        searcher: the `StrategySearcher` itself, for users who need a search algorithm of their own around it.
    """

    def __init__(self, searcher: "StrategySearcher", max_concurrent: int | None) -> None:
        self.searcher = searcher
        self._generator = SearchGenerator(ConcurrencyLimiter(searcher, max_concurrent) if max_concurrent else searcher)

    def __getattribute__(self, name: str) -> Any:
        is_own = name.startswith("_") or name == "searcher"
        return object.__getattribute__(self, name) if is_own else getattr(self._generator, name)


class StrategySearcher(Searcher):
    """Suggests a strategy's points. The strategy learns from finished trials, and knows all other trials as pending.

    A trial's `config` is the point with its dotted keys nested, on top of the constants of the Tuner's `param_space`.
    If the strategy waits, for example for the end of a generation, Tune continues its running trials, and starts no new
    trial. With one trial at a time, the points are those of `hpo search` with the same strategy and one lane. With
    several trials at once, the points depend on the order in which the trials finish, as with `study.order=free`.

    A trial's score is the metric of its last result. With ASHA, this is the result at which the trial was stopped. A
    trial that failed, or reported no finite number, counts as the worst. With population based training, a trial's
    result belongs to the trial's first point, even if its `config` has changed.

    `Tuner.restore` continues with the same points. The state of the searcher is stored as JSON.
    """

    CKPT_FILE_TMPL = "searcher-state-{}.json"

    def __init__(self, strategy: Strategy, metric: str | None, mode: Mode | None) -> None:
        super().__init__(metric=metric, mode=mode)
        self._strategy = strategy
        self._history = History()
        self._points: deque[Point] = deque()
        self._running: dict[str, Trial] = {}
        self._reported: dict[str, Any] = {}
        self._round = -1

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Mapping[str, Any], **_spec: Any
    ) -> bool:
        """Use the TuneConfig's metric and mode if the searcher has none, and check the `param_space`; return True.

        Raises:
            ConfigError: the metric or the mode differs from the searcher's own, or there are several metrics.
            SpaceError: the `param_space` contains values to sample, and not only constants.
        """
        _refuse_several(metric)
        self._metric, self._mode = self._metric or metric, self._mode or mode
        for name, own, given in (("metric", self.metric, metric), ("mode", self.mode, mode)):
            if given is not None and given != own:
                raise ConfigError(
                    f"{name}: the searcher has {own!r}, but the TuneConfig has {given!r}; give {name} only once"
                )
        domains, grids = parse_spec_vars(dict(config))[1:]
        if domains or grids:
            raise SpaceError(
                "param_space: must have only constants, because the strategy has the search space; move the searched "
                "values into the strategy's space"
            )
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]  # Ray's lacks the text
        """Return the next point as a config; None while the strategy waits; FINISHED if there are no more points.

        Raise ConfigError if the metric or the mode is not known.
        """
        if not self.metric or not self.mode:
            raise ConfigError(
                "metric, mode: must be given; give both to as_searcher or both to the TuneConfig; if the Tuner's "
                "param_space is empty, give both to as_searcher, because Ray does not pass on those of the TuneConfig"
            )
        if not self._points:
            self._points.extend(next_points(self._strategy, self._history, tuple(self._running.values())))
            if not self._points:
                return None if self._running else str(self.FINISHED)
            self._round += 1
        number = len(self._history) + len(self._running)
        point = self._points.popleft()
        self._running[trial_id] = Trial(number, self._round, point)
        return replaced({}, point)

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Keep the last score of a running trial.

        Ray's scheduler may pause the trial later, and then end the paused trial without another result.
        """
        self._reported[trial_id] = flatten_dict(dict(result)).get(self.metric)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Add a finished trial to the history."""
        if result:
            self.on_trial_result(trial_id, result)
        trial, score = self._running.pop(trial_id, None), self._reported.pop(trial_id, None)
        if trial is not None:
            self._history = self._history.extended([self._finished(trial, None if error else score)])

    def _finished(self, trial: Trial, score: Any) -> Trial:
        return with_scores(trial, [score], ["maximize" if self.mode == "max" else "minimize"])

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON; Tune calls this method during the run."""
        state = {
            "history": [_to_dict(trial) for trial in self._history],
            "round": self._round,
            "running": {
                trial_id: _to_dict(self._finished(trial, self._reported.get(trial_id)))
                for trial_id, trial in self._running.items()
            },
            "points": [dict(point) for point in self._points],
        }
        Path(checkpoint_path).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Read a state written by `save`."""
        state = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
        self._history = History(self._finished(_trial(fields), fields["score"]) for fields in state["history"])
        self._round = state["round"]
        self._running = {trial_id: _trial(fields) for trial_id, fields in state["running"].items()}
        self._reported = {trial_id: fields["score"] for trial_id, fields in state["running"].items()}
        self._points = deque(state["points"])


def _refuse_several(metric: Any) -> None:
    if not isinstance(metric, str | None):
        raise ConfigError(
            f"metric: must be the name of one metric, given {metric!r}; Ray Tune compares trials by one metric; for "
            "several metrics, use `hpo search` or hpo.search"
        )


def _trial(fields: Mapping[str, Any]) -> Trial:
    return Trial(fields["number"], fields["round"], fields["point"])


def _to_dict(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "round": trial.round, "point": dict(trial.point), "score": trial.score}
