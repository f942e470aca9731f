"""The figures of a report: each is drawn from a study and its trials, or gives the reason in one line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hpo.engine.trials.trial import Trial
from hpo.report.facts.subject import Subject
from hpo.report.figures.best_so_far import draw_best_so_far
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.contours import draw_contours
from hpo.report.figures.expected_performance import draw_expected_performance
from hpo.report.figures.fold_spread import draw_fold_spread
from hpo.report.figures.importance import draw_importance
from hpo.report.figures.learning_curves import draw_learning_curves
from hpo.report.figures.parallel_coordinates import draw_parallel_coordinates
from hpo.report.figures.planned_timeline import draw_planned_timeline
from hpo.report.figures.slices import draw_slices
from hpo.report.figures.timeline import draw_timeline
from hpo.report.part import Absent, part
from hpo.study.study import Study

__all__ = ["Drawing", "Drawn", "draw_figures"]


@dataclass(frozen=True)
class Drawing:
    """A figure with its place in the report.

    Attributes:
        name: its name in the page's addresses; never changes.
        field: the number of its field in the report.
        title: the title above it.
        content: the figure, or why there is none.
    """

    name: str
    field: int
    title: str
    content: Drawn | Absent


_FIGURES: tuple[tuple[str, int, str, Callable[[Subject], Drawn | Absent]], ...] = (
    ("fold-spread", 15, "Scores by fold", draw_fold_spread),
    ("best-so-far", 17, "Best so far", draw_best_so_far),
    ("expected-performance", 17, "Expected validation performance", draw_expected_performance),
    ("learning-curves", 19, "Learning curves", draw_learning_curves),
    ("importance", 20, "Importance of hyperparameters", draw_importance),
    ("parallel-coordinates", 20, "Parallel coordinates", draw_parallel_coordinates),
    ("slices", 20, "Slices", draw_slices),
    ("contours", 20, "Contours", draw_contours),
    ("timeline", 24, "Timeline of workers", draw_timeline),
    ("planned-timeline", 24, "The same on the study's clock", draw_planned_timeline),
)


def draw_figures(study: Study, trials: Sequence[Trial], winner: Trial | None) -> tuple[Drawing, ...]:
    """Return all figures of a study in the order of the report; equal studies give equal figures.

    Args:
        study: the study.
        trials: all trials, in the order of their numbers.
        winner: the study's; None if no trial is complete.
    """
    subject = Subject.of(study, trials, winner)
    return tuple(
        Drawing(name, field, title, part(partial(draw, subject), Absent)) for name, field, title, draw in _FIGURES
    )
