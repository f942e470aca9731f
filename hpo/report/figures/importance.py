"""The importance of each hyperparameter, as bars."""

from collections.abc import Mapping
from typing import Any

from hpo.report.facts.importances import best_share
from hpo.report.facts.optuna_study import optuna_study, quiet_optuna
from hpo.report.facts.subject import Subject
from hpo.report.facts.words import shown
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import BLUE, styled
from hpo.report.figures.canvas.sample import evenly
from hpo.report.part import Absent


def draw_importance(subject: Subject) -> Drawn | Absent:
    """Draw one bar per hyperparameter, the longest at the top."""
    known = subject.importances
    if isinstance(known, Absent):
        return known
    from optuna.visualization import plot_param_importances

    # The figure needs a study only to look up names.
    few = optuna_study(subject.space, subject.direction, evenly(subject.scored, 100))
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
        f"{best_share(len(subject.scored)):.0%} differ from those among all. It knows one hyperparameter at a time, "
        f"and says nothing of values that were not tried.",
    )


def _known(values: Mapping[str, float]) -> Any:
    """Return an evaluator that returns these importances."""
    from optuna.importance import PedAnovaImportanceEvaluator

    class Known(PedAnovaImportanceEvaluator):
        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            return dict(values)

    return Known()
