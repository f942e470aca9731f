"""The hypervolume of the front as the search went on, and what a random search would have had."""

from hpo.report.figures.look import GOOD, LEGEND, OTHER, Drawn, add_band, add_trials, new_figure, pale, styled
from hpo.report.part import Absent
from hpo.report.subject import Subject
from hpo.report.words import join_names
from hpo.trials.fronts import REFERENCE


def draw_hypervolume(subject: Subject) -> Drawn | Absent:
    """Draw the hypervolume of the front over the trials, and what a random search would have had."""
    goal = subject.goal
    if len(goal.metrics) == 1:
        return Absent("one metric alone decides")
    grown, reason = subject.growth, subject.no_expectation
    if not grown.trials:
        return Absent("no trial keeps the limits" if goal.limits and subject.scored else "no trial is complete")
    figure = new_figure()
    if reason is None:
        mean = subject.expected_growth
        low, high = (
            [m + sign * spread for m, spread in zip(mean.means, mean.spreads, strict=True)] for sign in (-1, 1)
        )
        add_band(figure, mean.budgets, low, high, fillcolor=pale(OTHER, 0.25), line={"width": 0}, legendgroup="random")
        line = {"color": OTHER, "dash": "dash", "width": 2}
        name = "random search, on average"
        mode = "lines+markers" if len(mean.budgets) < 3 else "lines"
        figure.add_scatter(x=mean.budgets, y=mean.means, mode=mode, line=line, name=name, legendgroup="random")
    # The number of trials, as a random search counts them: from 1.
    places = [subject.places[trial.number] + 1 for trial in grown.trials]
    ends = [*grown.trials, grown.trials[-1]]
    x = [*places, max(len(subject.places), *places)]
    hover = "%{y:.4f} (trial %{customdata})<extra></extra>"
    line = {"color": GOOD, "width": 2.5, "shape": "hv"}
    y = [*grown.volumes, grown.volumes[-1]]
    add_trials(figure, ends, x, y, hover, mode="lines", line=line, name="this search")
    styled(figure, legend=LEGEND)
    figure.update_xaxes(title_text="trials", rangemode="tozero")
    figure.update_yaxes(title_text="hypervolume (maximize)", rangemode="tozero")
    caption = (
        f"What the front dominates of {join_names(list(goal.metrics))}, each scaled from the best (0) to the worst (1) "
        f"trial{' within the limits' * bool(goal.limits)}, up to {REFERENCE}: at most "
        f"{REFERENCE ** len(goal.metrics):.4g}."
    )
    if reason is None:
        caption += (
            " Dashed: a random search of so many trials, among these without replacement; the band is its standard "
            "deviation. Beyond half of them it would lean on the best ones."
        )
    else:
        caption += f" What a random search would have is not shown: {reason}."
    return Drawn(figure, caption)
