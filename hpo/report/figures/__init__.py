"""The figures of a report. Each function in `FIGURE_TABLE` draws a figure, or returns why the figure is missing."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from hpo.report.figures.attainment import draw_hypervolume
from hpo.report.figures.best_so_far import draw_best_so_far, draw_expected_performance
from hpo.report.figures.front import draw_front
from hpo.report.figures.importance import draw_importance
from hpo.report.figures.learning_curves import draw_fold_spread, draw_learning_curves
from hpo.report.figures.parallel_coordinates import draw_parallel_coordinates
from hpo.report.figures.scales import draw_loss_over_cost, draw_transfer
from hpo.report.figures.score_over_values import draw_contours, draw_slices
from hpo.report.figures.style import Drawn
from hpo.report.figures.timeline import draw_planned_timeline, draw_timeline
from hpo.report.part import Missing, missing, value_or_missing
from hpo.report.subject import Subject
from hpo.trials.goal import Goal

__all__ = ["FIGURES", "Drawing", "Drawn", "draw_figures", "left_out", "missing_figures"]


@dataclass(frozen=True)
class Drawing:
    """A figure in a section of the report, or the reason why the figure is missing.

    On the page, `name` is the anchor of the figure.
    """

    name: str
    section: str
    title: str  # empty if the section's title is enough
    content: Drawn | Missing


FIGURE_TABLE: tuple[tuple[str, str, str, Callable[[Subject], Drawn | Missing]], ...] = (
    ("front", "Front and limits", "", draw_front),
    ("hypervolume", "Front and limits", "Hypervolume", draw_hypervolume),
    ("transfer", "Scales", "Each hyperparameter at every scale", draw_transfer),
    ("loss-over-cost", "Scales", "Loss over cost", draw_loss_over_cost),
    ("best-so-far", "Best so far", "", draw_best_so_far),
    ("expected-performance", "Best so far", "Expected validation performance", draw_expected_performance),
    ("importance", "What mattered", "", draw_importance),
    ("slices", "Where the good values lie", "One hyperparameter at a time", draw_slices),
    ("contours", "Where the good values lie", "Two at a time", draw_contours),
    ("parallel-coordinates", "Where the good values lie", "All at once", draw_parallel_coordinates),
    ("learning-curves", "Learning curves", "", draw_learning_curves),
    ("fold-spread", "Learning curves", "Scores by fold", draw_fold_spread),
    ("timeline", "Timeline", "Workers", draw_timeline),
    ("planned-timeline", "Timeline", "Lanes on the study's clock", draw_planned_timeline),
)

FIGURES = tuple(name for name, *_ in FIGURE_TABLE)
# The page shows a text of the report next to each of these figures.
_BESIDE_TEXT = ("front", "transfer")


def draw_figures(subject: Subject, names: Collection[str] | None = None) -> tuple[Drawing, ...]:
    """Return the figures of a study in the order of the report; equal studies give equal figures.

    With `names`, return only these figures. Without `names`, return all figures that apply to the study. The
    hypervolume needs several metrics, the front needs several metrics or a limit, and figures of scales need scales.
    """
    if names is None:
        names = [name for name in FIGURES if _applies(name, subject.goal)]
    return tuple(
        Drawing(name, section, title, value_or_missing(partial(draw, subject)))
        for name, section, title, draw in FIGURE_TABLE
        if name in names
    )


def missing_figures(goal: Goal, reason: str) -> tuple[Drawing, ...]:
    """Return a placeholder for each figure that applies to `goal`; each placeholder shows the text `reason`."""
    return tuple(
        Drawing(name, section, title, missing(reason))
        for name, section, title, _ in FIGURE_TABLE
        if _applies(name, goal)
    )


def left_out(goal: Goal, reason: str) -> tuple[Drawing, ...]:
    """Return placeholders for a page without figures; each placeholder says why figures are missing.

    Each figure next to a text (see `_BESIDE_TEXT`) has its own placeholder. All other figures share one.
    """
    beside_text = [drawing for drawing in missing_figures(goal, reason) if drawing.name in _BESIDE_TEXT]
    return (*beside_text, Drawing("figures", "Figures", "", missing(reason)))


def _applies(name: str, goal: Goal) -> bool:
    has_scales = goal.target > 0
    applies = {"front": not goal.is_single, "hypervolume": len(goal.metrics) > 1}
    return (applies | {"transfer": has_scales, "loss-over-cost": has_scales}).get(name, True)
