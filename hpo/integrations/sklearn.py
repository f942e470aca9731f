"""Our strategies as a search of scikit-learn: an estimator like GridSearchCV."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

# scikit-learn documents this class as the one to derive searches from, but does not export it.
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, get_tags

from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial
from hpo.errors import ConfigError
from hpo.integrations.defaults import default_strategy
from hpo.integrations.grids import Grids
from hpo.integrations.points import closed, next_points
from hpo.integrations.sklearn_private import end, without_an_end


class HpoSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no types
    """Search the parameters of an estimator by one of our strategies, scored by cross-validation.

    It has what GridSearchCV has: `fit`, `best_params_`, `best_score_`, `best_estimator_`, `cv_results_`. The study is
    in memory only; `hpo.search` keeps one on disk, on Ray workers.

    The other arguments are as of GridSearchCV; with several scores `refit` names the one that is searched by.

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
        grids = Grids.of(self.space)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31))
        strategy = default_strategy(given.pop("name", ""), grids.space, int(seed), given)
        known, fits = History(), list[dict[str, Any]]()
        evaluate = without_an_end(evaluate_candidates, fits, fills=callable(self.scoring))
        while len(known) < self.trials:
            points = next_points(strategy, known, ())[: self.trials - len(known)]
            if not points:
                break
            results = evaluate([grids.parameters(point) for point in points])
            scores = results[self._searched_by(results)][len(known) :]
            number = known[-1].round + 1 if known else 0
            opened = [Trial(len(known) + place, number, point) for place, point in enumerate(points)]
            known = known.extended(
                closed(trial, score if self._is_fitted(fits, trial.number) else None, "maximize")
                for trial, score in zip(opened, scores, strict=True)
            )
        end(fits, self.error_score)

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
