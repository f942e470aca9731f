"""The timeline of the search as it was planned: the tasks of each lane on the study's clock."""

from hpo.report.figures.canvas.bars import Bar, draw_bars, kind_of, rows_of
from hpo.report.figures.canvas.drawn import Drawn
from hpo.report.part import Absent
from hpo.report.sections.cost import predict_seconds
from hpo.report.subject import Subject
from hpo.report.words import count_text


def draw_planned_timeline(subject: Subject) -> Drawn | Absent:
    """Draw one row per lane with one bar per task, over units of cost."""
    if subject.lanes is None:
        return Absent("the search did not go by a clock")
    if not subject.clock:
        return Absent("no task has ended on the clock")
    trials = {trial.number: trial for trial in subject.trials}
    spans = sorted(subject.clock.items(), key=lambda item: (item[1][0], item[0]))
    rows = rows_of([span for _, span in spans])
    bars = [
        Bar(
            row,
            kind_of(subject, trials[key.trial], trials[key.trial].outcomes[key.task]),
            *span,
            f"trial {key.trial}, {subject.layout.name(key.task)}",
        )
        for (key, span), row in zip(spans, rows, strict=True)
    ]
    figure, close = draw_bars(bars, "lane", "cost since the start")
    fit = predict_seconds(subject.trials)
    says = ""
    if fit is not None:
        says = f" Seconds per trial follow from cost within a factor of {fit['factor']:.2f} for two trials in three"
        says += "." if fit["correlation"] is None else f" (correlation of the logarithms {fit['correlation']:.2f})."
    return Drawn(figure, f"{count_text(len(bars), 'task*')} on {count_text(subject.lanes, 'lane*')}.{says}{close}")
