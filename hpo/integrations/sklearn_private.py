"""scikit-learn's private names: with them a search goes on after a candidate whose fits all fail.

`evaluate_candidates` raises where every fit of one call has failed, whatever `error_score` says; a strategy that
proposes one point at a time would end there, and the candidate would be missing in `cv_results_`. There is no public
way on. Where a version has these names no more, a search ends there as scikit-learn's own does.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from sklearn.model_selection import _validation

_END = "_warn_or_raise_about_fit_failures"
_FILL = "_insert_error_scores"


def without_an_end(evaluate_candidates: Any, fits: list[dict[str, Any]], fills: bool) -> Callable[..., Any]:
    """Return scikit-learn's function so that no call raises because all of its fits have failed.

    One global name of it is another in a copy, which shares all else with it.

    Args:
        evaluate_candidates: as `_run_search` gets it.
        fits: gets the results of all fits.
        fills: whether those that failed get their scores here: of a callable that returns several, which these are is
            known from any candidate that could be fitted.
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


def end(fits: list[dict[str, Any]], error_score: Any) -> None:
    """Do as GridSearchCV does with all candidates: raise where every fit has failed, else warn of those that have."""
    if fits:
        getattr(_validation, _END)(fits, error_score)
