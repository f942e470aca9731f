"""What mattered: the importance of each hyperparameter, and its part of the gain over the default."""

from typing import Any

from hpo.report.figures.look import GOOD, OTHER, Drawn, new_figure, styled
from hpo.report.importance import best_share
from hpo.report.part import Absent
from hpo.report.subject import Subject
from hpo.report.words import escape_markup


def draw_importance(subject: Subject) -> Drawn | Absent:
    """Draw one bar per hyperparameter, the longest at the top; beside them its part of the winner's gain."""
    shares, parts = subject.importances, subject.contributions
    if isinstance(shares, Absent):
        return shares
    others = {name: each for name, each in subject.importances_by_metric.items() if name != subject.metric}
    drawn = {name: each for name, each in others.items() if not isinstance(each, Absent)}
    titles = ["share of importance (PED-ANOVA)"]
    if others:
        titles = [*map(escape_markup, (subject.metric, *drawn))]
    gain = f"gain in {escape_markup(subject.metric)}" if others else "gain over the default (Shapley)"
    titles += [] if isinstance(parts, Absent) else [gain]
    figure = new_figure(len(titles), titles)
    for column, each in enumerate((shares, *drawn.values()), start=1):
        _add(figure, each, {"marker": {"color": OTHER}, "hovertemplate": "%{y}: %{x:.3f}<extra></extra>"}, column)
        figure.update_xaxes(rangemode="tozero", row=1, col=column)
    caption = (
        f"Left: PED-ANOVA (Watanabe et al. 2023, Optuna's) on {subject.which}: how far the values among the best "
        f"{best_share(len(subject.scored)):.0%} differ from those among all, one hyperparameter at a time."
    )
    if isinstance(parts, Absent):
        caption = caption.removeprefix("Left: ") + f" No gain over the default: {parts.reason}."
    else:
        gains = {key: part.gain for key, part in parts.items()}
        above = [part.high - part.gain for part in parts.values()]
        below = [part.gain - part.low for part in parts.values()]
        error = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": OTHER}
        colours = [GOOD if gain > 0 else OTHER for gain in gains.values()]
        look = {"marker": {"color": colours}, "error_x": error}
        _add(figure, gains, {**look, "hovertemplate": "%{y}: %{x:+.4g}<extra></extra>"}, len(titles))
        caption += (
            f" Right: what each of the {subject.called}'s values adds to the default's {subject.named.rstrip(',')}, "
            "with those of hyperparameters that depend on it; above 0 is better. Shapley values (HyperSHAP, Wever "
            "et al. 2025) of what randomised trees predict, and the middle 95 % of twenty fits to samples of the "
            "trials."
        )
    if others:
        caption += f" Each metric has its own panel, in the order of {subject.metric}, limits aside."
        caption += "".join(f" {name}: {each.reason}." for name, each in others.items() if isinstance(each, Absent))
    caption += subject.few_text
    styled(figure, 110 + 30 * len(shares), margin={"t": 40, "r": 40, "b": 40, "l": 20}, bargap=0.35, showlegend=False)
    names = [escape_markup(key) for key in reversed(shares)]
    figure.update_yaxes(automargin=True, ticksuffix="  ", categoryorder="array", categoryarray=names)
    return Drawn(figure, f"{caption} Neither says anything of values that were not tried.")


def _add(figure: Any, values: dict[str, float], look: dict[str, Any], column: int) -> None:
    figure.add_bar(orientation="h", y=[*map(escape_markup, values)], x=list(values.values()), row=1, col=column, **look)
