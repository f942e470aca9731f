"""The score that a random search of fewer trials would have reached."""

from hpo.report.figures.axes import leave_out_far, log_ticks
from hpo.report.figures.look import GOOD, LEGEND, OTHER, Drawn, add_band, new_figure, pale, styled
from hpo.report.part import Absent, is_missing
from hpo.report.sections.curves import describe_expected
from hpo.report.subject import Subject, score_of
from hpo.report.words import escape_markup

_LOOK = {
    "unbiased": ("unbiased (Tang et al. 2020)", GOOD, "solid"),
    "biased": ("biased (Dodge et al. 2019)", OTHER, "dash"),
}


def draw_expected_performance(subject: Subject) -> Drawn | Absent:
    """Draw the expected best score of both estimators against the budget, and its spread as a band."""
    scores = [score_of(trial) for trial in subject.scored]
    curves = describe_expected(subject.strategy, scores, subject.direction)
    if is_missing(curves):
        return Absent(curves["missing"])
    figure = new_figure()
    for curve in (curves["unbiased"], curves["biased"]):
        name = curve["estimator"]
        title, colour, dash = _LOOK[name]
        budgets, means, spreads = curve["budgets"], curve["means"], curve["spreads"]
        low, high = ([m + sign * spread for m, spread in zip(means, spreads, strict=True)] for sign in (-1, 1))
        add_band(figure, budgets, low, high, fillcolor=pale(colour, 0.12), line={"width": 0}, legendgroup=name)
        line = {"color": colour, "dash": dash, "width": 2.5}
        mode = "lines+markers" if len(budgets) < 3 else "lines"
        figure.add_scatter(x=budgets, y=means, mode=mode, line=line, name=title, legendgroup=name)
    styled(figure, hovermode="x unified", legend=LEGEND)
    figure.update_xaxes(title_text="trials (log)", **log_ticks(curves["unbiased"]["budgets"]))
    far = leave_out_far(figure, scores, [curves["unbiased"]["means"][-1]])
    figure.update_yaxes(title_text=f"expected best {escape_markup(subject.metric)}")
    return Drawn(
        figure,
        f"The best {subject.metric} that a random search of so many trials finds on average, by both estimators, ± the "
        f"standard deviation over searches. Up to half of the {len(scores):,} complete trials: beyond, both lean on "
        f"the one best.{far}",
    )
