"""Draws each hyperparameter's importance, and each hyperparameter's contribution to the winner's gain.

The gain is the improvement of the score from the default configuration to the winner.
"""

from collections.abc import Mapping
from typing import Any

from hpo.formatting import format_count
from hpo.report.figures.style import GOOD, OTHER, Drawn, new_figure, pale, styled
from hpo.report.formatting import escape_markup
from hpo.report.importance import ENOUGH, Importances, best_share
from hpo.report.part import Missing, is_missing, missing
from hpo.report.subject import Subject


def draw_importance(subject: Subject) -> Drawn | Missing:
    """Draw each hyperparameter's importance, and each hyperparameter's contribution to the winner's gain.

    The highest importance is at the top. An importance that is not significant has a hollow bar. With few trials,
    such an importance has no bar.
    """
    known, parts = subject.importances, subject.contributions
    if is_missing(known):
        return known
    by_metric, has_several = subject.importances_by_metric, len(subject.goal.metrics) > 1
    drawn = {name: each for name, each in by_metric.items() if not is_missing(each) and each.visible}
    nothing = f"no hyperparameter is significant after {format_count(known.num_trials, 'trial*')}"
    if not drawn and is_missing(parts):
        return missing(nothing)
    titles = [*map(escape_markup, drawn)] if has_several else ["share of importance"] * len(drawn)
    gain = f"gain in {escape_markup(subject.metric)}{'' if has_several else ' over the default'}"
    titles += [] if is_missing(parts) else [gain]
    figure = new_figure(len(titles), titles)
    for column, each in enumerate(drawn.values(), start=1):
        colours = [OTHER if key in each.significant else pale(OTHER, 0.0) for key in each.visible]
        marker = {"color": colours, "line": {"color": OTHER, "width": 1.5}}
        _add(figure, each.visible, {"marker": marker, "hovertemplate": "%{y}: %{x:.3f}<extra></extra>"}, column)
        figure.update_xaxes(rangemode="tozero", row=1, col=column)
    caption = (
        f"Left: importance by PED-ANOVA (Watanabe et al. 2023, as in Optuna) on {subject.scored_text}. A bar shows how "
        f"far the hyperparameter's values in the best {best_share(len(subject.scored)):.0%} of the trials differ from "
        f"its values in all trials.{_chance_text(known)}"
    )
    if not drawn:
        caption = f"Importance (PED-ANOVA) is left out: {nothing}."
    gains: Mapping[str, float] = {}
    if is_missing(parts):
        caption = caption.removeprefix("Left: ") + f" The gain over the default is left out: {parts['missing']}."
    else:
        gains = {key: part.gain for key, part in parts.items()}
        above = [part.high - part.gain for part in parts.values()]
        below = [part.gain - part.low for part in parts.values()]
        error = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": OTHER}
        colours = [GOOD if gain > 0 else OTHER for gain in gains.values()]
        look = {"marker": {"color": colours}, "error_x": error}
        _add(figure, gains, {**look, "hovertemplate": "%{y}: %{x:+.4g}<extra></extra>"}, len(titles))
        caption += (
            f" {'Right: the' if drawn else 'The'} contribution of each hyperparameter (with its conditional "
            f"hyperparameters) to the gain in {subject.metric_label} of the {subject.called} over the default "
            "configuration. A contribution above 0 is an improvement. Contributions are Shapley values (HyperSHAP, "
            "Wever et al. 2025) of predictions by randomised trees. Each contribution is estimated twenty times, from "
            "samples of the trials. A bar shows the mean of the twenty estimates, and its error bar shows their middle "
            "95 %."
        )
    if has_several and drawn:
        caption += f" Each metric has its own panel; the importance for {subject.metric} sets the order of the bars."
        caption += " Limits are ignored."
        caption += "".join(
            f" {name}: {each['missing'] if is_missing(each) else nothing}."
            for name, each in by_metric.items()
            if name not in drawn
        )
    caption += subject.few_trials_note
    names = [key for key in known.shares if key in gains or any(key in each.visible for each in drawn.values())]
    styled(figure, 110 + 30 * len(names), margin={"t": 40, "r": 40, "b": 40, "l": 20}, bargap=0.35, showlegend=False)
    order = [escape_markup(key) for key in reversed(names)]
    figure.update_yaxes(automargin=True, ticksuffix="  ", categoryorder="array", categoryarray=order)
    return Drawn(figure, f"{caption} The figure says nothing about values that were not tried.")


def _chance_text(known: Importances) -> str:
    """Return the sentence of the caption that says which bars are significant."""
    significant = "permutation test: with shuffled scores, the importance is this high in at most 5 % of cases"
    if known.num_trials < ENOUGH:
        return f" With so few trials only significant shares are shown ({significant})."
    return f" Filled bars are significant ({significant}). Hyperparameters with hollow bars may still have an effect."


def _add(figure: Any, values: Mapping[str, float], look: dict[str, Any], column: int) -> None:
    figure.add_bar(orientation="h", y=[*map(escape_markup, values)], x=list(values.values()), row=1, col=column, **look)
