"""The importance of each hyperparameter for reaching the best trials."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hpo.engine.space.dimensions import Dimension, Range, Value
from hpo.engine.space.space import Space
from hpo.engine.trials.trial import Direction, Trial
from hpo.report.part import Absent

# Optuna's PED-ANOVA needs five trials among the best; of ten, these are half.
FEWEST, _AMONG_BEST = 10, 5


def importances(space: Space, direction: Direction, trials: Sequence[Trial]) -> dict[str, float] | Absent:
    """Return the share of each hyperparameter that was searched, the most important first; shares sum to 1.

    The share measures how far its values among the best trials (see `best_share`) differ from those among all trials,
    which have comparable scores. Each hyperparameter is considered alone. A dimension with one value has no share.

    Source: PED-ANOVA, Watanabe, Bansal & Hutter 2023 (arXiv 2304.10255), as `optuna.importance` computes it, with
    conditional hyperparameters as in arXiv 2601.20800.
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if len({trial.loss for trial in trials}) == 1:
        return Absent("all complete trials have the same score")
    import optuna
    from optuna.distributions import CategoricalDistribution
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    from hpo.engine.record.rows import distribution

    kinds = {
        d.key: distribution(d) if isinstance(d, Range) else CategoricalDistribution(range(len(d.values)))
        for d in space.dimensions
    }
    keys = sorted({key for trial in trials for key in trial.point})
    with _quiet():
        study = optuna.create_study(direction=direction)
        for trial in trials:
            there = {key: kinds[key] for key in trial.point}
            # Optuna treats true as 1, so values that are no numbers of a range are their ranks.
            params = {k: v if isinstance(space[k], Range) else rank_of(space[k], v) for k, v in trial.point.items()}
            study.add_trial(optuna.create_trial(params=params, distributions=there, value=trial.score))
        evaluator = PedAnovaImportanceEvaluator(target_quantile=best_share(len(trials)))
        # Optuna's own names come from a set, whose order differs between processes.
        raw = get_param_importances(study, evaluator=evaluator, params=keys, normalize=False)
    total = sum(raw.values())
    if not total:
        return Absent("the best trials have the same values as all the others")
    return {key: float(raw[key] / total) for key in sorted(keys, key=lambda key: (-raw[key], key))}


def best_share(number: int) -> float:
    """Return the share of so many trials that counts as the best: a tenth, but at least five trials."""
    return max(0.1, _AMONG_BEST / number)


def too_few(number: int) -> Absent:
    """Return why there are no importances."""
    return Absent(f"it takes {FEWEST} complete trials to say anything; there are {number}")


def rank_of(dimension: Dimension, value: Value) -> int:
    """Return the place of a value of a finite dimension; true and 1 are two values."""
    return next(
        k for k, v in enumerate(dimension.values) if v == value and isinstance(v, bool) == isinstance(value, bool)
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna, which says that the evaluator is new and that parts of a conditional space have few trials."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
