"""The score over pairs of the most important hyperparameters."""

from collections.abc import Sequence
from typing import Any

from hpo.engine.space.dimensions import Range
from hpo.engine.trials.trial import Trial
from hpo.report.facts.importances import FEWEST, too_few
from hpo.report.facts.optuna_study import Rank, optuna_study, quiet_optuna
from hpo.report.facts.subject import Subject, score_of
from hpo.report.facts.words import shown
from hpo.report.figures.canvas.axes import axis_of
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import OTHER, STAR, clipped, scale_of, styled
from hpo.report.figures.canvas.sample import best_and_even, sampled
from hpo.report.part import Absent

# Optuna keeps a cell per pair of values: without steps, 1,000 trials of ranges would make a million cells.
_MOST, _STEPS, _MOST_KEYS = 400, 20, 4
_ROOM = 80  # characters that fit under the figure


def draw_contours(subject: Subject) -> Drawn | Absent:
    """Draw one map per pair of up to four hyperparameters; a cell is the best score in it."""
    if len(subject.scored) < FEWEST:
        # With fewer, most of a map would be interpolated.
        return too_few(len(subject.scored))
    from optuna.visualization import plot_contour

    drawn = best_and_even(subject.scored, _MOST)
    study = optuna_study(subject.space, subject.direction, drawn, _STEPS)
    varied = _varied(study)
    keys = [key for key in subject.keys if shown(key) in varied][:_MOST_KEYS]
    if len(keys) < 2:
        return Absent("fewer than two hyperparameters have more than one value among the complete trials")
    with quiet_optuna():
        figure = plot_contour(study, params=[shown(key) for key in keys], target_name=shown(subject.metric))
    figure.update_traces(marker={"size": 3, "line": {"width": 0}, "color": OTHER}, selector={"type": "scatter"})
    _share_colours(figure, shown(subject.metric), scale_of(subject.direction))
    _mark_winner(figure, subject, study, sorted(keys, key=shown), drawn)
    _label(figure, subject, sorted(keys, key=shown))
    styled(figure, 480 if len(keys) == 2 else 230 * len(keys), margin={"t": 20, "r": 30, "b": 70, "l": 90})
    ranges = any(isinstance(subject.space[key], Range) for key in keys)
    snapped = f" Numbers of ranges are drawn at the nearest of {_STEPS + 1} places." if ranges else ""
    return Drawn(
        figure,
        f"The best {subject.metric} at each pair of values ({subject.which}; a dot is a trial, the star the winner; "
        f"full blue is good), and between them what the neighbours suggest.{snapped}"
        + sampled(len(drawn), len(subject.scored))
        + clipped([score_of(trial) for trial in drawn], "score*"),
    )


def _share_colours(figure: Any, title: str, scale: Sequence[tuple[float, str]]) -> None:
    """Give all maps one colour scale; Optuna gives each its own and shows only the first."""
    for trace in figure.select_traces({"type": "contour"}):
        if trace.colorscale:
            figure.update_layout(coloraxis={"colorscale": scale, "colorbar": {"title": {"text": title}}})
    figure.update_traces(selector={"type": "contour"}, coloraxis="coloraxis", showscale=None)


def _mark_winner(figure: Any, subject: Subject, study: Any, keys: list[str], drawn: Sequence[Trial]) -> None:
    """Draw the winner's place on every map, as Optuna was given its values."""
    place = next((number for number, trial in enumerate(drawn) if subject.is_winner(trial)), None)
    if place is None:
        return
    params = study.get_trials(deepcopy=False)[place].params
    at = [int(value) if isinstance(value, Rank) else value for value in (params.get(shown(key)) for key in keys)]
    maps = [(x, y) for x in range(len(keys)) for y in range(len(keys)) if x != y] if len(keys) > 2 else [(0, 1)]
    for x, y in maps:
        if at[x] is not None and at[y] is not None:
            panel = {"row": y + 1, "col": x + 1} if len(keys) > 2 else {}
            figure.add_scatter(
                x=[at[x]], y=[at[y]], mode="markers", marker=STAR, showlegend=False, hoverinfo="skip", **panel
            )


def _varied(study: Any) -> set[str]:
    """Return the names of the parameters that have more than one value."""
    values: dict[str, set[float]] = {}
    for trial in study.get_trials(deepcopy=False):
        for name, value in trial.params.items():
            values.setdefault(name, set()).add(value)
    return {name for name, different in values.items() if len(different) > 1}


def _label(figure: Any, subject: Subject, keys: list[str]) -> None:
    """Replace the ranks that Optuna was given by values, and write names only at the edges."""
    axes = [(axis_of(subject.space[key], _ROOM // len(keys)), axis_of(subject.space[key], _ROOM)) for key in keys]
    if len(keys) == 2:
        figure.update_xaxes(axes[0][0])
        figure.update_yaxes(axes[1][1])
        return
    for place, (across, upwards) in enumerate(axes, start=1):
        figure.update_xaxes(across | {"title_text": None}, col=place)
        figure.update_yaxes(upwards | {"title_text": None}, row=place)
        figure.update_xaxes(title_text=across["title_text"], row=len(keys), col=place)
        figure.update_yaxes(title_text=upwards["title_text"], row=place, col=1)
