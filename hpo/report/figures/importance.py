"""How much each hyperparameter mattered for reaching the best trials."""

from collections.abc import Mapping
from typing import Any

from hpo.report.figures.look import BLUE, shown, styled
from hpo.report.figures.optuna_study import optuna_study, quiet_optuna
from hpo.report.figures.sample import evenly
from hpo.report.figures.subject import Drawn, NotDrawn, Subject

# Optuna's PED-ANOVA wants five trials among the best; with ten, these are half.
FEWEST, _AMONG_BEST = 10, 5


def importances(subject: Subject) -> dict[str, float] | NotDrawn:
    """Return the share of each hyperparameter that was searched, the most important first; they sum to 1.

    The share tells how far the values among the best tenth of the complete trials (the best five, where there are
    fewer than fifty) differ from those among all of them. It is zero, not small, for a dimension with one value.

    Source: PED-ANOVA, Watanabe, Bansal & Hutter 2023 (arXiv 2304.10255), as `optuna.importance` computes it, with
    conditional hyperparameters as in arXiv 2601.20800.
    """
    if len(subject.scored) < FEWEST:
        return too_few(subject)
    if len({trial.loss for trial in subject.scored}) == 1:
        return NotDrawn("all complete trials have the same score")
    keys = sorted({key for trial in subject.scored for key in trial.point})
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    evaluator = PedAnovaImportanceEvaluator(target_quantile=_best_share(subject))
    study = optuna_study(subject, subject.scored, keeps_wild=True)
    with quiet_optuna():
        # The names in order: Optuna's own come from a set, whose order changes from process to process.
        raw = get_param_importances(study, evaluator=evaluator, params=[shown(k) for k in keys], normalize=False)
    total = sum(raw.values())
    if not total:
        return NotDrawn("the best trials have the same values as all the others")
    shares = {key: raw[shown(key)] / total for key in keys}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def too_few(subject: Subject) -> NotDrawn:
    """Return why little can be said of hyperparameters."""
    return NotDrawn(f"{subject.which}; it takes {FEWEST} to say anything")


def draw_importance(subject: Subject) -> Drawn | NotDrawn:
    """Draw one bar a hyperparameter, the longest on top."""
    known = importances(subject)
    if isinstance(known, NotDrawn):
        return known
    from optuna.visualization import plot_param_importances

    # The figure wants a study only to look up names.
    few = optuna_study(subject, evenly(subject.scored, 100))
    there = {key for trial in few.get_trials(deepcopy=False) for key in trial.params}
    values = {shown(key): share for key, share in known.items() if shown(key) in there}
    with quiet_optuna():
        figure = plot_param_importances(few, evaluator=_known(values), params=list(values))
    figure.update_traces(marker_color=BLUE, hovertemplate="%{y}: %{x:.3f}<extra></extra>")
    styled(figure, 90 + 30 * len(values), margin={"t": 20, "r": 60, "b": 60, "l": 20}, bargap=0.35)
    figure.update_xaxes(title_text="share of importance", rangemode="tozero")
    figure.update_yaxes(title_text=None, automargin=True, ticksuffix="  ")
    return Drawn(
        figure,
        f"Evaluator: PED-ANOVA (Watanabe et al. 2023, Optuna's) on {subject.which}: how far the values among the best "
        f"{_best_share(subject):.0%} differ from those among all. It knows one hyperparameter at a time, and says "
        f"nothing of values that were not tried.",
    )


def _best_share(subject: Subject) -> float:
    return max(0.1, _AMONG_BEST / len(subject.scored))


def _known(values: Mapping[str, float]) -> Any:
    """Return an evaluator that knows the importances already."""
    from optuna.importance import PedAnovaImportanceEvaluator

    class Known(PedAnovaImportanceEvaluator):
        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            return dict(values)

    return Known()
