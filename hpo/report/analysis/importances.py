"""The importance of each hyperparameter for reaching the best trials."""

from collections.abc import Sequence

from hpo.engine.space.space import Space
from hpo.engine.trials.trial import Direction, Trial
from hpo.report.analysis.optuna_study import optuna_study, quiet_optuna
from hpo.report.part import Absent
from hpo.report.words import escape_markup

# Optuna's PED-ANOVA needs five trials among the best; of ten, these are half.
FEWEST, _AMONG_BEST = 10, 5


def importances(space: Space, direction: Direction, trials: Sequence[Trial]) -> dict[str, float] | Absent:
    """Return the share of each hyperparameter that was searched, the most important first; shares sum to 1.

    The share measures how far its values among the best trials (see `best_share`) differ from those among all trials.
    Each hyperparameter is considered alone. A dimension with one value has no share.

    Args:
        space: the space that was searched.
        direction: which scores are better.
        trials: complete trials with comparable scores.

    Source: PED-ANOVA, Watanabe, Bansal & Hutter 2023 (arXiv 2304.10255), as `optuna.importance` computes it, with
    conditional hyperparameters as in arXiv 2601.20800.
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if len({trial.loss for trial in trials}) == 1:
        return Absent("all complete trials have the same score")
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    keys = sorted({key for trial in trials for key in trial.point})
    evaluator = PedAnovaImportanceEvaluator(target_quantile=best_share(len(trials)))
    study = optuna_study(space, direction, trials, keeps_wild=True)
    with quiet_optuna():
        # Optuna's own names come from a set, whose order differs between processes.
        raw = get_param_importances(
            study, evaluator=evaluator, params=[escape_markup(k) for k in keys], normalize=False
        )
    total = sum(raw.values())
    if not total:
        return Absent("the best trials have the same values as all the others")
    shares = {key: float(raw[escape_markup(key)] / total) for key in keys}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def best_share(number: int) -> float:
    """Return the share of so many trials that counts as the best: a tenth, but at least five trials."""
    return max(0.1, _AMONG_BEST / number)


def too_few(number: int) -> Absent:
    """Return why there are no importances."""
    return Absent(f"it takes {FEWEST} complete trials to say anything; there are {number}")
