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

# Okabe & Ito 2008, "Color Universal Design": told apart with any kind of colour vision. Their yellow is too pale for
# lines on white. A dash pattern tells curves apart in print, and beyond seven of them.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("solid", "dash", "dot", "dashdot")

# The others would send the figure elsewhere, or do nothing for lines.
_BUTTONS = {"displaylogo": False, "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]]}

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
    return _PAGE.replace("%TITLE%", html.escape(result["name"])).replace("%BODY%", "\n".join(parts), 1)


def _section(title: str, rows: Sequence[Sequence[str]], head: Sequence[str], items: Sequence[Any]) -> list[str]:
    if not rows:
        return []
    lines = [f"<h2>{title}</h2>", "<div class='wide'><table><thead><tr>"]
    lines += [f"<th>{html.escape(cell)}</th>" for cell in head]
    lines.append("</tr></thead><tbody>")
    for cells, item in zip(rows, items, strict=True):
        mark = " class='decided'" if item.get("better") else ""
        lines.append(f"<tr{mark}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>")
    return [*lines, "</tbody></table></div>"]


def _curve_sections(figures: Sequence[Any], result: Mapping[str, Any]) -> list[str]:
    from plotly import io  # Half a second to load: only where a page is written.

    band = "" if result["repeats"] < 2 else " Lines are means over the searches, bands their 95 % bootstrap intervals."
    lines = [f"<h2>Best so far</h2><p>{band.strip()} Click a name to hide it; double-click to see all of the axis.</p>"]
    for place, figure in enumerate(figures):
        # The library once, in the page itself, so that it opens without a network.
        lines.append(
            io.to_html(
                figure,
                full_html=False,
                include_plotlyjs=place == 0,
                config=_BUTTONS,
                div_id=f"curves-{place}",
            )
        )
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


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%TITLE%</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0.2rem; }
h2 { margin-top: 2.2rem; font-size: 1.2rem; }
.lead { margin-top: 0; color: #444; }
.note { background: #fff6e0; border-left: 4px solid #e69f00; padding: 0.5rem 0.8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.35rem 0.7rem; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { border-bottom: 2px solid #888; }
tr.decided td:last-child { font-weight: 600; }
dt { font-weight: 600; margin-top: 0.4rem; }
dd { margin: 0; color: #444; }
</style>
</head>
<body>
%BODY%
</body>
</html>
"""
