"""A scikit-learn estimator like GridSearchCV that searches with the toolkit's strategies."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from types import FunctionType
from typing import Any

import numpy as np

# The documentation of `_run_search` says that searches derive from BaseSearchCV, but scikit-learn exports it nowhere.
# Without it we would need our own `fit`, scores, `refit` and `cv_results_`, 901 lines in scikit-learn 1.9:
# python -c "import inspect, sklearn.model_selection._search as s; print(inspect.getsource(s.BaseSearchCV).count('\n'))"
from sklearn.model_selection import _validation
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags

from hpo.config.shipped import named_settings
from hpo.errors import ConfigError
from hpo.integrations.defaults import default_strategy, next_points, with_scores
from hpo.trials.history import History
from hpo.trials.space.space import Point
from hpo.trials.space.written import NamedChoices, write_out
from hpo.trials.trial import Trial

# `evaluate_candidates` raises if every fit of one call has failed, whatever `error_score` is. A strategy that proposes
# one point at a time would end there, and scikit-learn has no public way to continue. If a version of scikit-learn
# lacks these private names, the search ends there as scikit-learn's own searches do.
_CHECK_FAILURES = "_warn_or_raise_about_fit_failures"
_FILL_SCORES = "_insert_error_scores"
# The dimension that chooses one of several grids. The names of all other dimensions begin with the number of a grid.
_GRID = "grid"


class HpoSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """Searches the parameters of an estimator by cross-validation, with a strategy of the toolkit.

    The class has the methods and attributes of GridSearchCV: `fit`, `best_params_`, `best_score_`, `best_estimator_`,
    `cv_results_`. The study is only in memory; `hpo.search` stores a study on disk and uses Ray workers.

    For arguments that are not listed below, see GridSearchCV. With several scores (`scoring` as a list or dict),
    `cv_results_` has all scores, and `refit` names the score to optimize. `best_params_` and `best_score_` refer to
    this score.

    Args:
        estimator: the estimator to tune.
        space: the space by parameter name, as in `hpo.search`, such as `{"C": hpo.log(1e-3, 1e3), "kernel": ["rbf"]}`.
            Values may also be estimators and other objects. A list of such dicts is allowed, as in GridSearchCV. The
            strategy then chooses one dict for each point, as if the dict were a categorical hyperparameter.
        trials: the number of points to evaluate.
        strategy: a strategy of conf/strategy: its name, or a dict of its name and settings. The strategy
            `ladder`, and strategies that train some points only partly (such as `asha`), are not supported.
        random_state: the seed of all points, or a `numpy.random.RandomState`; None = different points each time.

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
        """Evaluate the strategy's points in rounds; the strategy knows the scores of all earlier rounds."""
        if not isinstance(self.trials, Integral) or self.trials < 1:
            raise ConfigError(f"trials: must be a whole number of at least 1, given {self.trials!r}")
        given = named_settings(self.strategy)
        grids = _Grids.of(self.space)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31))
        strategy = default_strategy(given.pop("name"), grids.space, int(seed), given)
        known, fits = History(), list[dict[str, Any]]()
        evaluate = _tolerate_failures(evaluate_candidates, fits, fills=callable(self.scoring))
        while len(known) < self.trials:
            points = next_points(strategy, known, ())[: self.trials - len(known)]
            if not points:
                break
            results = evaluate([grids.parameters(point) for point in points])
            scores = results[self._score_column(results)][len(known) :]
            number = known[-1].round + 1 if known else 0
            opened = [Trial(len(known) + place, number, point) for place, point in enumerate(points)]
            known = known.extended(
                with_scores(trial, [score if self._is_fitted(fits, trial.number) else None], ["maximize"])
                for trial, score in zip(opened, scores, strict=True)
            )
        if fits:
            # Like GridSearchCV, raise if every fit of the search has failed, and warn if some have.
            getattr(_validation, _CHECK_FAILURES)(fits, self.error_score)

    def _is_fitted(self, fits: Sequence[Mapping[str, Any]], number: int) -> bool:
        """Return whether at least one fit of this candidate succeeded; True if this is unknown."""
        own = fits[number * self.n_splits_ : (number + 1) * self.n_splits_]
        return not own or any(fit["fit_error"] is None for fit in own)

    def _score_column(self, results: Mapping[str, Any]) -> str:
        """Return the column of the score that the strategy optimizes."""
        names = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
        name = names[0] if len(names) == 1 else self.refit
        if name not in names:
            raise ConfigError(f"refit: must name the score to optimize, one of {', '.join(names)}, given {name!r}")
        return f"mean_test_{name}"


@dataclass(frozen=True)
class _Grids:
    """The space of one grid, or the joint space of several grids.

    With several grids, every point belongs to one of them. The space contains names in place of estimators and other
    objects.
    """

    space: Mapping[str, Any]
    objects: Mapping[str, Mapping[Any, Any]]
    are_several: bool

    @classmethod
    def of(cls, given: Any) -> "_Grids":
        """Build the space from a grid or a list of grids; raise ConfigError for anything else."""
        objects: dict[str, dict[Any, Any]] = {}
        if isinstance(given, Mapping):
            return cls(
                {key: _dimension(value, objects.setdefault(key, {})) for key, value in given.items()}, objects, False
            )
        if not isinstance(given, list | tuple) or not given or not all(isinstance(grid, Mapping) for grid in given):
            raise ConfigError(f"space: must be a dict of parameters, or a list of such dicts, given {given!r}")
        space: dict[str, Any] = {_GRID: {"choices": list(range(len(given)))}}
        for number, grid in enumerate(given):
            for name, value in grid.items():
                key = f"{number}.{name}"
                read = _dimension(value, objects.setdefault(key, {}))
                fields = read if isinstance(read, Mapping) else {"values": read}
                conditions = {f"{number}.{other}": allowed for other, allowed in fields.get("when", {}).items()}
                space[key] = {**fields, "when": {_GRID: [number], **conditions}}
        return cls(space, objects, True)

    def parameters(self, point: Point) -> dict[str, Any]:
        """Convert a point to parameters of the estimator, with objects in place of their names."""
        own = {key: self.objects.get(key, {}).get(value, value) for key, value in point.items()}
        if not self.are_several:
            return own
        return {key.partition(".")[2]: value for key, value in own.items() if key != _GRID}


def _dimension(given: Any, objects: dict[Any, Any]) -> Any:
    """Convert a dimension to the form of conf/space, with names in place of objects (see `_name_objects`).

    `objects` gets each replaced object, with the name as the key.
    """
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, NamedChoices):
        objects.update(given.named)
        return {"choices": [*_name_objects(given.values, objects), *given.named]}
    if isinstance(given, Mapping):
        fields = {name: _name_objects(v, objects) if name in ("values", "choices") else v for name, v in given.items()}
        return write_out(fields)
    return write_out(_name_objects(given, objects) if isinstance(given, list) else given)


def _name_objects(values: Any, objects: dict[Any, Any]) -> list[Any]:
    """Return the values with a name in place of each object. Add the object to `objects`, with the name as the key.

    An object is a value that is neither a text, a finite number nor None.
    """
    named = []
    for place, value in enumerate(values):
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, int | float | str | None) or (isinstance(plain, float) and not math.isfinite(plain)):
            # Two objects may have the same text, so the name begins with the position in the list.
            plain = f"{place}: {value!r}"
            objects[plain] = value
        named.append(plain)
    return named


def _tolerate_failures(evaluate_candidates: Any, fits: list[dict[str, Any]], fills: bool) -> Callable[..., Any]:
    """Return a version of `evaluate_candidates` that adds all fits to `fits`, and does not raise if all fits failed.

    `fills` must be true if `scoring` is a function. In this case, scikit-learn learns the names of the scores only from
    a successful fit, so it cannot set the scores of failed fits if all fits of a call failed. With `fills`, the
    returned function sets these scores as soon as any call has a successful fit.
    """
    names = evaluate_candidates.__globals__
    if _CHECK_FAILURES not in names or not hasattr(_validation, _FILL_SCORES):
        return evaluate_candidates  # type: ignore[no-any-return]  # it has no types

    def collect(new: list[dict[str, Any]], error_score: Any) -> None:
        fits.extend(new)
        if fills:
            getattr(_validation, _FILL_SCORES)(fits, error_score)

    function, replaced = evaluate_candidates, {**names, _CHECK_FAILURES: collect}
    return FunctionType(function.__code__, replaced, None, function.__defaults__, function.__closure__)
