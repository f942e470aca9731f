"""Each trial as a line over its hyperparameters."""

from collections.abc import Sequence

from hpo.engine.trials.trial import loss_of
from hpo.report.facts.optuna_study import optuna_study, quiet_optuna
from hpo.report.facts.subject import Subject, score_of
from hpo.report.facts.words import shown
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import clipped, short, styled
from hpo.report.figures.canvas.sample import best_and_even, sampled
from hpo.report.part import Absent

_MOST, _MOST_AXES = 150, 10
_ROOM = 120  # characters that fit under the figure


def draw_parallel_coordinates(subject: Subject) -> Drawn | Absent:
    """Draw one line per trial, darker for better ones."""
    if not subject.scored:
        return Absent("no trial is complete")
    from optuna.visualization import plot_parallel_coordinate

    drawn = best_and_even(subject.scored, _MOST)
    keys = [key for key in subject.keys if any(key in trial.point for trial in drawn)][:_MOST_AXES]
    with quiet_optuna():
        figure = plot_parallel_coordinate(
            optuna_study(subject.space, subject.direction, drawn),
            params=[shown(key) for key in keys],
            target_name=shown(subject.metric),
        )
    # Good ones on top; Optuna draws them in the order of some hyperparameters.
    *lines, scale = figure.data
    figure.data = [*sorted(lines, key=lambda line: -loss_of(line.y[0], subject.direction)), scale]
    # Otherwise the lines would cross the values out.
    figure.update_annotations(bgcolor="rgba(255, 255, 255, 0.8)", borderpad=0)
    figure.update_xaxes(ticktext=_names([subject.metric, *sorted(keys, key=shown)]))
    styled(figure, 460, margin={"t": 30, "r": 30, "b": 40, "l": 60})
    return Drawn(
        figure,
        f"A line is a trial, dark is good: {subject.which}."
        + f" The {len(keys)} most important of {len(subject.keys)} hyperparameters." * (len(subject.keys) > len(keys))
        + sampled(len(drawn), len(subject.scored))
        + clipped([score_of(trial) for trial in drawn], "score*")
        + " None marks a hyperparameter that did not exist beside the trial's other values."
        * any(key not in trial.point for key in keys for trial in drawn),
    )


def _names(keys: Sequence[str]) -> list[str]:
    """Return the names of the axes, or their last parts if the full names would overlap."""
    room = _ROOM // len(keys)
    return [shown(key if len(key) <= room else short(key.rpartition(".")[2], room)) for key in keys]
