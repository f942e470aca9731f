"""Each trial as a line over its hyperparameters."""

from collections.abc import Sequence

from hpo.engine.space.dimensions import Range
from hpo.engine.trials.trial import Trial
from hpo.report.analysis.optuna_study import optuna_study, quiet_optuna, ranks_of
from hpo.report.figures.axes import clipped, short
from hpo.report.figures.look import GREY, WINNER, Drawn, best_and_even, sampled, scale_of, shade, styled
from hpo.report.part import Absent
from hpo.report.subject import Subject, score_of
from hpo.report.words import escape_markup

_MOST, _MOST_AXES = 150, 10
_ROOM = 120  # characters that fit under the figure


def draw_parallel_coordinates(subject: Subject) -> Drawn | Absent:
    """Draw one line per trial, in fuller colour for better ones."""
    if not subject.scored:
        return Absent("no trial is complete")
    from optuna.visualization import plot_parallel_coordinate

    drawn = best_and_even(subject.scored, _MOST)
    keys = [key for key in subject.keys if any(key in trial.point for trial in drawn)][:_MOST_AXES]
    with quiet_optuna():
        figure = plot_parallel_coordinate(
            optuna_study(subject.space, subject.direction, drawn),
            params=[escape_markup(key) for key in keys],
            target_name=escape_markup(subject.metric),
        )
    *lines, scale = figure.data
    worst, best = sorted((scale.marker.cmin, scale.marker.cmax), reverse=subject.direction == "minimize")
    pairs = list(zip(_as_optuna_draws(subject, drawn, keys), lines, strict=True))
    for trial, line in pairs:
        share = (min(max(score_of(trial), scale.marker.cmin), scale.marker.cmax) - worst) / ((best - worst) or 1.0)
        look = {"color": WINNER, "width": 3} if subject.is_winner(trial) else {"color": shade(share)}
        line.update(line=look, opacity=1.0, meta=trial.number)
    # Good ones on top, and the winner on all of them.
    pairs.sort(key=lambda pair: (subject.is_winner(pair[0]), -pair[0].loss, -pair[0].number))
    scale.marker.update(colorscale=scale_of(subject.direction), reversescale=False)
    figure.data = [*(line for _, line in pairs), scale]
    # Otherwise the lines would cross the values out; the page has its own white.
    figure.update_annotations(bgcolor="white", font={"color": GREY})
    figure.update_xaxes(ticktext=_names([subject.metric, *sorted(keys, key=escape_markup)]))
    styled(figure, 460, margin={"t": 30, "r": 30, "b": 40, "l": 60})
    return Drawn(
        figure,
        f"A line is a trial, full blue is good, orange the winner: {subject.which}."
        + f" The {len(keys)} most important of {len(subject.keys)} hyperparameters." * (len(subject.keys) > len(keys))
        + sampled(drawn, subject.scored)
        + clipped([score_of(trial) for trial in drawn], "score*")
        + " None marks a hyperparameter that did not exist beside the trial's other values."
        * any(key not in trial.point for key in keys for trial in drawn),
    )


def _as_optuna_draws(subject: Subject, trials: Sequence[Trial], keys: Sequence[str]) -> list[Trial]:
    """Return the trials in the order of Optuna's lines: by the ranks of what is finite, names first."""
    finite = [
        subject.space[key] for key in sorted(keys, key=escape_markup) if not isinstance(subject.space[key], Range)
    ]
    ranks = {dimension.key: ranks_of(dimension) for dimension in finite}

    def places(trial: Trial) -> list[int]:
        values = [(key, trial.point.get(key)) for key in ranks]
        return [ranks[key][isinstance(v, bool), v] if key in trial.point else -1 for key, v in values]

    return sorted(trials, key=places)


def _names(keys: Sequence[str]) -> list[str]:
    """Return the names of the axes, or their last parts if the full names would overlap."""
    room = _ROOM // len(keys)
    return [escape_markup(key if len(key) <= room else short(key.rpartition(".")[2], room)) for key in keys]
