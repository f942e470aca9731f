"""The figure of a coordinate check, with one panel per training step.

A panel plots the mean absolute output of each layer against the configuration key that makes the model larger.
"""

from hpo.report.figures.axes import log_ticks, short
from hpo.report.figures.style import GREY, LEGEND, PALETTE, Drawn, new_figure, styled
from hpo.report.formatting import escape_markup
from hpo.study.coordinate_check import BOUND, STEPS, CoordinateCheck

# One colour for each of the five steepest layers; all other layers outside of the bound share the last colour.
_COLOURS = [PALETTE[name] for name in ("orange", "blue", "green", "purple", "yellow", "black")]
_CHANGED = ", changed"  # suffix of a layer's name for the size of the change from its output before the first step
_LONGEST_NAME = 50


def draw_coordinate_check(check: CoordinateCheck) -> Drawn:
    """Draw one line per layer. The layers in `check.outside` have colours.

    The legend names at most five of these layers, those with the steepest slopes.
    """
    figure = new_figure(len(STEPS), [f"after {step} step{'s' * (step > 1)}" for step in STEPS])
    in_legend: set[str] = set()
    named = check.outside[: len(_COLOURS) - 1]
    # Draw layers with a name last, on top of the others.
    for layer in sorted(check.steepest, key=lambda layer: (layer in named, layer in check.outside)):
        name, colour = "known to change" if layer in check.expected else f"within {BOUND}", GREY
        if layer in check.outside:
            name = escape_markup(short(layer, _LONGEST_NAME)) if layer in named else "others"
            colour = _COLOURS[named.index(layer) if layer in named else -1]
        hover = f"%{{y:.3g}} at %{{x}}<extra>{escape_markup(layer)}</extra>"
        line = {"color": colour, "width": 2, "dash": "dash" if layer.endswith(_CHANGED) else "solid"}
        for column, step in enumerate(STEPS, start=1):
            figure.add_scatter(
                x=check.values,
                y=[size if size > 0 else None for size in check.sizes[step][layer]],
                mode="lines+markers",
                line=line,
                marker={"color": colour, "size": 5},
                name=name,
                legendgroup=name,
                showlegend=name not in in_legend,
                hovertemplate=hover,
                row=1,
                col=column,
            )
            in_legend.add(name)
    ticks = [float(value) for value in check.values]
    figure.update_xaxes(
        type="log", tickvals=ticks, ticktext=[f"{value:g}" for value in ticks], title_text=escape_markup(check.key)
    )
    sizes = [size for of in check.sizes.values() for each in of.values() for size in each if 0 < size < float("inf")]
    figure.update_yaxes(**log_ticks(sizes or [1.0]))
    figure.update_yaxes(title_text="mean absolute output", col=1)
    styled(figure, 480, legend=LEGEND | {"y": 1.1})
    return Drawn(
        figure,
        f"The mean absolute output of each layer (one line) against {check.key}, after different numbers of training "
        f"steps (one panel each). A dashed line is the mean absolute difference between a layer's output now and its "
        f"output before the first step. Lines should be level. A line is coloured if its slope is further than {BOUND} "
        f"from 0 in at least one panel. Layers whose outputs are known to change are grey.",
    )
