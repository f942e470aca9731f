"""Heat maps of attention, as a PNG and as a self-contained page.

A map has `name`, `rows` (the attending tokens), `columns` (the attended tokens) and `heads`. Each head is a matrix of
weights; each row sums to 1. Higher weights are darker; all maps share one colour scale from 0 to 1.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.report.pages.html import render

Maps = Sequence[Mapping[str, Any]]

_INCHES_PER_TOKEN, _SMALLEST, _LARGEST = 0.2, 1.6, 6.0
_MOST_LABELS = 28  # more labels would overlap in the largest map
_MOST_PIXELS, _LONGEST_SIDE = 60e6, 60_000  # limits memory; matplotlib refuses sides of 65,536 pixels


def write_attention_png(path: Path, maps: Maps) -> None:
    """Write a PNG with one row per layer and one column per head."""
    from matplotlib.figure import Figure  # lazy, because it loads slowly

    across = max(len(one["heads"]) for one in maps)
    wide, heights = max(_inches(one["columns"]) for one in maps), [_inches(one["rows"]) for one in maps]
    width, height = across * (wide + 1), sum(heights) + len(maps)
    dots = min(110, math.sqrt(_MOST_PIXELS / (width * height)), _LONGEST_SIDE / max(width, height))
    figure = Figure(figsize=(width, height), dpi=dots, layout="constrained")
    axes = figure.subplots(len(maps), across, squeeze=False, height_ratios=heights)
    for line, one in zip(axes, maps, strict=True):
        for place, axis in enumerate(line):
            if place >= len(one["heads"]):
                axis.set_axis_off()
                continue
            axis.imshow(one["heads"][place], cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            axis.set_title(f"{one['name']}, head {place}", fontsize=8)
            # A token such as $ does not start a formula.
            style = {"fontsize": 7, "parse_math": False}
            axis.set_xticks(*_labels(one["columns"]), rotation=90, **style)
            axis.set_yticks(*_labels(one["rows"]), **style)
    with warnings.catch_warnings():
        # A box replaces each character that the font lacks, so the warnings add nothing.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure.savefig(path, format="png")


def attention_html(maps: Maps, text: str) -> str:
    """Return a page with every map; hovering over a cell shows its tokens and weight."""
    rounded = [
        {**one, "heads": [[[round(w, 4) for w in row] for row in head] for head in one["heads"]]} for one in maps
    ]
    return render("attention.html", maps=rounded, text=text)


def _inches(tokens: Sequence[str]) -> float:
    return min(max(_INCHES_PER_TOKEN * len(tokens), _SMALLEST), _LARGEST)


def _labels(tokens: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the indices and texts of at most 28 evenly spaced tokens, with visible characters for white space."""
    places = list(range(0, len(tokens), math.ceil(len(tokens) / _MOST_LABELS)))
    return places, [tokens[at].replace("\n", "\\n").replace("\t", "\\t").replace(" ", "␣") for at in places]
