"""A comparison as one page that needs nothing beside itself: verdicts, standings, and curves to point at."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.compare.cells import (
    FOLD_HEAD,
    PAIR_HEAD,
    READING,
    fold_rows,
    headline,
    pair_rows,
    standing_head,
    standing_rows,
)
from hpo.report.pages.html import figure_place, page, table

# Okabe & Ito 2008, "Color Universal Design": told apart with any kind of colour vision. Their yellow is too pale for
# lines on white. A dash pattern tells curves apart in print, and beyond seven of them.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("solid", "dash", "dot", "dashdot")

_TITLES = {"a_beats_b_interval": "P(A beats B)", "p_holm": "p (Holm)", "folds": "fold by fold"}
_AXES = {"trials": "trials", "seconds": "seconds of training, all workers together"}


def render_page(result: Mapping[str, Any]) -> str:
    """Return the page of the content of comparison.json."""
    pairs = result["pairs"]
    first = [pair for pair in pairs if (pair["budget"], pair["unit"]) == (pairs[0]["budget"], pairs[0]["unit"])]
    others = pairs[len(first) :]
    figures = [figure for unit in _AXES if (figure := _figure(result, unit)) is not None]
    parts = [
        f"<h1>{html.escape(result['name'])}</h1>",
        f"<p class='lead'>{html.escape(headline(result))}</p>",
        *(f"<p class='note'>{html.escape(note)}</p>" for note in result["notes"]),
        *_section("Verdicts", pair_rows(first), PAIR_HEAD, first),
        *_section("Winners, fold by fold", fold_rows(result), FOLD_HEAD, result.get("folds", ())),
        *([f"<p>{READING}</p>"] if first or result.get("folds") else []),
        *_curve_sections(figures, result),
        *_section("Verdicts at other budgets", pair_rows(others), PAIR_HEAD, others),
        *_section("Standings", standing_rows(result), standing_head(result), result["standings"]),
        _method(result),
    ]
    return page(result["name"], parts, bool(figures), _STYLE)


def _section(title: str, rows: Sequence[Sequence[str]], head: Sequence[str], items: Sequence[Any]) -> list[str]:
    if not rows:
        return []
    marks = ("decided" if item.get("better") else "" for item in items)
    return [f"<h2>{title}</h2>", table(head, rows, marks)]


def _curve_sections(figures: Sequence[Any], result: Mapping[str, Any]) -> list[str]:
    band = "" if result["repeats"] < 2 else " Lines are means over the searches, bands their 95 % bootstrap intervals."
    lines = [f"<h2>Best so far</h2><p>{band.strip()} Click a name to hide it; double-click to see all of the axis.</p>"]
    lines += [figure_place(f"curves-{place}", figure) for place, figure in enumerate(figures)]
    return lines if figures else []


def _figure(result: Mapping[str, Any], unit: str) -> Any:
    """Return the curves against trials or cost; None where there are none, as where nothing is known of cost."""
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for place, (label, curves) in enumerate(result["curves"].items()):
        curve = curves[unit]
        if not curve[unit]:
            continue
        colour, dash = _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]
        mean, low, high = (_heights(curve[name], result) for name in ("mean", "low", "high"))
        # The second end of a band is filled down to the first. The best so far is a step function.
        for end, fill in ((high, None), (low, "tonexty")) if low else ():
            figure.add_scatter(
                x=curve[unit],
                y=end,
                fill=fill,
                fillcolor=_pale(colour),
                line={"width": 0, "shape": "hv"},
                mode="lines",
                hoverinfo="skip",
                legendgroup=label,
                showlegend=False,
            )
        figure.add_scatter(
            x=curve[unit],
            y=mean,
            mode="lines",
            line={"color": colour, "dash": dash, "width": 2.5, "shape": "hv"},
            name=html.escape(label),
            legendgroup=label,
        )
    if not figure.data:
        return None
    has_regret = result["optimum"] is not None
    figure.update_layout(
        template="plotly_white",
        height=460,
        margin={"t": 20, "r": 20, "b": 60, "l": 80},
        hovermode="x unified",
        font={"family": "system-ui, sans-serif", "size": 14, "color": "#222"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"title": {"text": _AXES[unit]}, "rangemode": "tozero"},
        yaxis={
            "title": {"text": f"regret ({result['metric']})" if has_regret else f"best {result['metric']}"},
            "range": _range(figure),
        },
    )
    return figure


def _range(figure: Any) -> tuple[float, float] | None:
    """Return the heights that curves and bands have after a tenth of the longest: the first trials dwarf the rest."""
    start = max(trace.x[-1] for trace in figure.data) / 10
    heights = [y for trace in figure.data for x, y in zip(trace.x, trace.y, strict=True) if x >= start]
    margin = 0.05 * (max(heights) - min(heights))
    return (min(heights) - margin, max(heights) + margin) if margin else None


def _heights(scores: Sequence[float], result: Mapping[str, Any]) -> list[float]:
    """Return the regrets of scores where the optimum is known, and else the scores."""
    if result["optimum"] is None:
        return list(scores)
    sign = -1 if result["direction"] == "maximize" else 1
    return [sign * (score - result["optimum"]) for score in scores]


def _pale(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.15)"


def _method(result: Mapping[str, Any]) -> str:
    items = "".join(
        f"<dt>{html.escape(_TITLES.get(name, name))}</dt><dd>{html.escape(text)}</dd>"
        for name, text in result["method"].items()
    )
    settings = "".join(
        f"<dt>{html.escape(label)}</dt><dd>{html.escape(', '.join(f'{k} = {v}' for k, v in values.items()))}</dd>"
        for label, values in result["strategies"].items()
    )
    return f"<h2>Method</h2><dl>{items}</dl><h2>Settings</h2><dl>{settings}</dl>"


_STYLE = "tr.decided td:last-child { font-weight: 600; }"
