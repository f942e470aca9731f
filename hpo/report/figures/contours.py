"""The score over pairs of the most important hyperparameters."""

from collections.abc import Sequence
from typing import Any

from hpo.engine.space.dimensions import Range
from hpo.engine.trials.trial import Trial
from hpo.report.analysis.importances import FEWEST, too_few
from hpo.report.analysis.optuna_study import Rank, optuna_study, quiet_optuna
from hpo.report.figures.axes import axis_of, clipped
from hpo.report.figures.look import OTHER, STAR, Drawn, add_trials, best_and_even, sampled, scale_of, styled
from hpo.report.part import Absent
from hpo.report.subject import Subject, score_of
from hpo.report.words import escape_markup

# Optuna keeps a cell per pair of values: without steps, 1,000 trials of ranges would make a million cells.
_MOST, _STEPS, _MOST_KEYS = 400, 20, 4
_ROOM = 80  # characters that fit under the figure
_DOTS = {"size": 4, "color": OTHER}


def draw_contours(subject: Subject) -> Drawn | Absent:
    """Draw one map per pair of up to four hyperparameters; a cell is the best score in it."""
    if len(subject.scored) < FEWEST:
        # With fewer, most of a map would be interpolated.
        return too_few(len(subject.scored))
    from optuna.visualization import plot_contour

    drawn = best_and_even(subject.scored, _MOST)
    study = optuna_study(subject.space, subject.direction, drawn, _STEPS)
    varied = _varied(study)
    keys = [key for key in subject.keys if escape_markup(key) in varied][:_MOST_KEYS]
    if len(keys) < 2:
        return Absent("fewer than two hyperparameters have more than one value among the complete trials")
    with quiet_optuna():
        figure = plot_contour(
            study, params=[escape_markup(key) for key in keys], target_name=escape_markup(subject.metric)
        )
    _share_colours(figure, escape_markup(subject.metric), scale_of(subject.direction))
    _draw_trials(figure, subject, study, sorted(keys, key=escape_markup), drawn)
    _label(figure, subject, sorted(keys, key=escape_markup))
    styled(figure, 480 if len(keys) == 2 else 230 * len(keys), margin={"t": 20, "r": 30, "b": 70, "l": 90})
    ranges = any(isinstance(subject.space[key], Range) for key in keys)
    snapped = f" Numbers of ranges are drawn at the nearest of {_STEPS + 1} places." if ranges else ""
    return Drawn(
        figure,
        f"The best {subject.metric} at each pair of values ({subject.which}; a dot is a trial, the star the winner; "
        f"full blue is good), and between them what the neighbours suggest.{snapped}"
        + sampled(drawn, subject.scored)
        + clipped([score_of(trial) for trial in drawn], "score*"),
    )


def _share_colours(figure: Any, title: str, scale: Sequence[tuple[float, str]]) -> None:
    """Give all maps one colour scale; Optuna gives each its own and shows only the first."""
    for trace in figure.select_traces({"type": "contour"}):
        if trace.colorscale:
            figure.update_layout(coloraxis={"colorscale": scale, "colorbar": {"title": {"text": title}}})
    figure.update_traces(selector={"type": "contour"}, coloraxis="coloraxis", showscale=None)


def _draw_trials(figure: Any, subject: Subject, study: Any, keys: list[str], drawn: Sequence[Trial]) -> None:
    """Draw the trials on every map in place of Optuna's dots, as it was given their values, with their numbers."""
    figure.data = [trace for trace in figure.data if trace.type == "contour"]
    params = [given.params for given in study.get_trials(deepcopy=False)]
    maps = [(x, y) for x in range(len(keys)) for y in range(len(keys)) if x != y] if len(keys) > 2 else [(0, 1)]
    for x, y in maps:
        panel: dict[str, Any] = {"row": y + 1, "col": x + 1} if len(keys) > 2 else {}
        names = escape_markup(keys[x]), escape_markup(keys[y])
        for is_winner, look in ((False, _DOTS), (True, STAR)):
            there = [
                (trial, given)
                for trial, given in zip(drawn, params, strict=True)
                if subject.is_winner(trial) == is_winner and all(name in given for name in names)
            ]
            across, upwards = ([_number(given[name]) for _, given in there] for name in names)
            trials, hover = [trial for trial, _ in there], "trial %{customdata}<extra></extra>"
            add_trials(figure, trials, across, upwards, hover, marker=look, showlegend=False, **panel)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, Rank) else value


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
