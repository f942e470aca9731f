"""The timeline of each worker's tasks."""

from collections.abc import Mapping, Sequence

from hpo.engine.trials.trial import Outcome
from hpo.report.analysis.stretches import worker_spans
from hpo.report.figures.canvas.bars import Bar, draw_bars, kind_of, rows_of
from hpo.report.figures.canvas.clock import Clock
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.figures.canvas.look import time_unit
from hpo.report.part import Absent
from hpo.report.sections.cost import describe_cost
from hpo.report.subject import Subject
from hpo.report.words import count_text


def draw_timeline(subject: Subject) -> Drawn | Absent:
    """Draw one lane per worker with one bar per task."""
    outcomes = [outcome for _, _, outcome in subject.outcomes]
    if not outcomes:
        return Absent("no task was run by a worker")
    clock = Clock.of(outcomes, subject.stretches)
    lanes = _lanes(outcomes)
    bars = [
        Bar(
            lanes[outcome.worker],
            kind_of(subject, trial, outcome),
            clock.at(outcome.started),
            clock.at(outcome.started) + outcome.seconds,
            f"trial {trial.number}, {subject.layout.name(index)}",
        )
        for trial, index, outcome in subject.outcomes
    ]
    unit, name = time_unit(max(bar.end for bar in bars))
    figure, close = draw_bars(bars, "worker", f"{name} since the start", unit)
    clock.mark(figure, unit)
    replaced = " Workers that never ran at the same time share a lane." if len(lanes) > 1 + max(lanes.values()) else ""
    return Drawn(figure, f"{count_text(len(bars), 'task*')}. {_idle_text(subject)}{close}{replaced}{clock.note}")


def _idle_text(subject: Subject) -> str:
    # The same number as in report.json; it does not depend on GPUs.
    cost = describe_cost(subject.as_they_ran, subject.workers, 0.0, stretches=subject.stretches)
    share, seen = cost["idle_share"], cost["workers_seen"]
    asked = max((stretch.workers for stretch in subject.stretches), default=subject.workers)
    number = f"{asked} asked for, {seen} seen" if asked else f"{seen} seen"
    when = "first start to last end without pauses"
    return "" if share is None else f"Idle share of the workers ({number}), {when}: {share:.1%}."


def _lanes(outcomes: Sequence[Outcome]) -> Mapping[int, int]:
    """Return the lane of each worker: one that is free from its first task to its last.

    A resumed study has new processes, which would make a staircase if workers did not share lanes.
    """
    ordered = sorted(worker_spans(outcomes).items(), key=lambda item: (item[1], item[0]))
    rows = rows_of([span for _, span in ordered])
    return {worker: row for (worker, _), row in zip(ordered, rows, strict=True)}
