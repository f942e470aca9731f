"""Our strategies as a search of scikit-learn: an estimator like GridSearchCV."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from types import FunctionType
from typing import Any

import numpy as np

# Scikit-learn says of `_run_search` that searches derive from BaseSearchCV, but exports it nowhere. Without it, `fit`,
# scores, `refit` and `cv_results_` would be ours, 901 lines in scikit-learn 1.9:
# python -c "import inspect, sklearn.model_selection._search as s; print(inspect.getsource(s.BaseSearchCV).count('\n'))"
from sklearn.model_selection import _validation
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags

from hpo.errors import ConfigError
from hpo.integrations.defaults import default_strategy, next_points, with_score
from hpo.trials.history import History
from hpo.trials.space.space import Point
from hpo.trials.space.written import write_out
from hpo.trials.trial import Trial

# `evaluate_candidates` raises where every fit of one call has failed, whatever `error_score` says; a strategy that
# proposes one point at a time would end there. There is no public way on. Where a version of scikit-learn has these
# private names no more, a search ends there as its own do.
_END = "_warn_or_raise_about_fit_failures"
_FILL = "_insert_error_scores"
# Of several grids, the dimension that says which; all others have the grid's number before their name.
_WHICH = "grid"


class HpoSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """Search the parameters of an estimator by one of our strategies, scored by cross-validation.

    It has what GridSearchCV has: `fit`, `best_params_`, `best_score_`, `best_estimator_`, `cv_results_`. The study is
    in memory only; `hpo.search` keeps one on disk, on Ray workers.

    The other arguments are as of GridSearchCV. With several scores (`scoring` as a list or dict) `cv_results_` has
    each, and `refit` names the one that is searched by, and that `best_params_` and `best_score_` are of.

    Args:
        estimator: what is tuned.
        space: by the names of its parameters, `{"C": hpo.log(1e-3, 1e3), "kernel": ["rbf", "linear"]}`, as of
            `hpo.search`; estimators and other objects are values, too. A list of such dicts, as of GridSearchCV: each
            point is of one of them, drawn like a choice.
        trials: how many points are evaluated.
        strategy: one of conf/strategy, or its name and settings. One that trains by amounts cannot be used.
        random_state: decides every point; None = another search each time, or a `numpy.random.RandomState`.

    Example:
        >>> search = HpoSearchCV(SVC(), {"C": hpo.log(1e-3, 1e3), "gamma": hpo.log(1e-4, 1.0)}, trials=20)
        >>> search.fit(x, y).best_params_
    """

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        trials: int = 20,
        strategy: str | Mapping[str, Any] = "evolutionary",
        random_state: Any = 0,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = float("nan"),
        return_train_score: bool = False,
    ) -> None:
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.trials = trials
        self.strategy = strategy
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Scikit-learn's own searches do not say whether their estimator takes several targets.
        tags.target_tags.multi_output = get_tags(self.estimator).target_tags.multi_output
        return tags

    def _run_search(self, evaluate_candidates: Callable[..., Mapping[str, Any]], **_: Any) -> None:
        """Evaluate what the strategy proposes, which sees the scores of all before."""
        if not isinstance(self.trials, Integral) or self.trials < 1:
            raise ConfigError(f"trials: must be a whole number, 1 or more, given {self.trials!r}")
        given = {"name": self.strategy} if isinstance(self.strategy, str) else dict(self.strategy)
        grids = _Grids.of(self.space)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31))
        strategy = default_strategy(given.pop("name", ""), grids.space, int(seed), given)
        known, fits = History(), list[dict[str, Any]]()
        evaluate = _without_an_end(evaluate_candidates, fits, fills=callable(self.scoring))
        while len(known) < self.trials:
            points = next_points(strategy, known, ())[: self.trials - len(known)]
            if not points:
                break
            results = evaluate([grids.parameters(point) for point in points])
            scores = results[self._searched_by(results)][len(known) :]
            number = known[-1].round + 1 if known else 0
            opened = [Trial(len(known) + place, number, point) for place, point in enumerate(points)]
            known = known.extended(
                with_score(trial, score if self._is_fitted(fits, trial.number) else None, "maximize")
                for trial, score in zip(opened, scores, strict=True)
            )
        if fits:
            # As of all candidates of a GridSearchCV: raise where every fit has failed, else warn of those that have.
            getattr(_validation, _END)(fits, self.error_score)

    def _is_fitted(self, fits: Sequence[Mapping[str, Any]], number: int) -> bool:
        """Return whether any fit of this candidate succeeded, as far as it is known."""
        own = fits[number * self.n_splits_ : (number + 1) * self.n_splits_]
        return not own or any(fit["fit_error"] is None for fit in own)

    def _searched_by(self, results: Mapping[str, Any]) -> str:
        """Return the column of the score that the strategy sees."""
        if "mean_test_score" in results:
            return "mean_test_score"
        if not isinstance(self.refit, str):
            names = ", ".join(name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_"))
            raise ConfigError(f"refit: must name the score that is searched by, one of {names}, given {self.refit!r}")
        return f"mean_test_{self.refit}"


@dataclass(frozen=True)
class _Grids:
    """A grid, or several of which each point belongs to one, as a space; objects stand in it by name."""

    space: Mapping[str, Any]
    objects: Mapping[str, Mapping[Any, Any]]
    are_several: bool

    @classmethod
    def of(cls, given: Any) -> "_Grids":
        """Read a grid, or a list of them; ConfigError for what is neither."""
        objects: dict[str, dict[Any, Any]] = {}
        if isinstance(given, Mapping):
            return cls(
                {key: _dimension(value, objects.setdefault(key, {})) for key, value in given.items()}, objects, False
            )
        if not isinstance(given, list | tuple) or not given or not all(isinstance(grid, Mapping) for grid in given):
            raise ConfigError(f"space: must be a dict of parameters, or a list of such, given {given!r}")
        space: dict[str, Any] = {_WHICH: {"choices": list(range(len(given)))}}
        for number, grid in enumerate(given):
            for name, value in grid.items():
                key = f"{number}.{name}"
                read = _dimension(value, objects.setdefault(key, {}))
                fields = read if isinstance(read, Mapping) else {"values": read}
                conditions = {f"{number}.{other}": allowed for other, allowed in fields.get("when", {}).items()}
                space[key] = {**fields, "when": {_WHICH: [number], **conditions}}
        return cls(space, objects, True)

    def parameters(self, point: Point) -> dict[str, Any]:
        """Return a point as parameters of the estimator: of its grid alone, with the objects themselves."""
        own = {key: self.objects.get(key, {}).get(value, value) for key, value in point.items()}
        if not self.are_several:
            return own
        return {key.partition(".")[2]: value for key, value in own.items() if key != _WHICH}


def _dimension(given: Any, objects: dict[Any, Any]) -> Any:
    """Return a dimension in the form of conf/space, and put its objects under their names."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, Mapping):
        fields = {name: _named(v, objects) if name in ("values", "choices") else v for name, v in given.items()}
        return write_out(fields)
    return write_out(_named(given, objects) if isinstance(given, list) else given)


def _named(values: Any, objects: dict[Any, Any]) -> list[Any]:
    named = []
    for place, value in enumerate(values):
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, int | float | str | None) or (isinstance(plain, float) and not math.isfinite(plain)):
            # Its place in the list tells it from others that look the same.
            plain = f"{place}: {value!r}"
            objects[plain] = value
        named.append(plain)
    return named


def _without_an_end(evaluate_candidates: Any, fits: list[dict[str, Any]], fills: bool) -> Callable[..., Any]:
    """Return a copy of scikit-learn's function that does not raise because all of its fits have failed.

    `fits` gets the results of all fits. `fills`: those that failed get their scores here, of a callable that returns
    several; which these are is known from any candidate that could be fitted.
    """
    names = evaluate_candidates.__globals__
    if _END not in names or not hasattr(_validation, _FILL):
        return evaluate_candidates  # type: ignore[no-any-return]  # it has no types

    def keep(ended: list[dict[str, Any]], error_score: Any) -> None:
        fits.extend(ended)
        if fills:
            getattr(_validation, _FILL)(fits, error_score)

    function = evaluate_candidates
    return FunctionType(function.__code__, {**names, _END: keep}, None, function.__defaults__, function.__closure__)
