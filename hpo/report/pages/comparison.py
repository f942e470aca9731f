"""A comparison as Markdown and as a self-contained page: standings, verdicts, and interactive curves."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from hpo.formatting import format_value
from hpo.report.comparison import ComparisonJson, Pair, budget_text
from hpo.report.figures.attainment import draw_attainment
from hpo.report.figures.mean_curves import draw_mean_curves
from hpo.report.formatting import join_names
from hpo.report.pages.html import render
from hpo.report.part import Block, Items, Paragraph, Table, markdown_lines
from hpo.trials.score_format import score_format
from hpo.trials.trial import loss_of

_TITLES = {"a_beats_b_interval": "P(A beats B)", "p_holm": "p (Holm)", "folds": "fold by fold"}
READING = (
    "In the column 'B better by', a value below 0 means that A is better than B. In this column, Holm's correction "
    "widens the intervals in brackets, so an interval excludes 0 exactly if the difference is significant. In all "
    "other columns, intervals in brackets are 95 % intervals. "
    "The tests are corrected for the number of pairs, not for the number of budgets."
)


def render_comparison_markdown(result: ComparisonJson) -> str:
    """Return a comparison as Markdown: the answers first, then standings and verdicts."""
    return "\n".join([f"# {result['name']}", "", *markdown_lines(_blocks(result))])


def _blocks(result: ComparisonJson) -> Iterator[Block]:
    yield from (Paragraph(f"**{answer}**") for answer in answers(result))
    yield from (Paragraph(headline(result)), Items(result["notes"]))
    for title, table in tables(result).items():
        if table.rows:
            yield from (Paragraph(f"## {title}"), table)
    if result["pairs"]:
        yield Paragraph(READING)


def tables(result: ComparisonJson) -> dict[str, Table]:
    """Return all tables by title, including empty tables.

    `Verdicts` has one row for each pair of strategies at each budget. It is empty if existing studies are compared.
    """
    return {
        "Standings": _standings(result),
        "Verdicts": _verdicts(result, result["pairs"]),
        "Winners, fold by fold": _winners(result),
        "Chosen trials": _chosen(result),
    }


def render_comparison_page(result: ComparisonJson) -> str:
    """Return a comparison as an HTML page."""
    first = _first_pairs(result)
    verdicts = {"Verdicts": first, "Verdicts at other budgets": result["pairs"][len(first) :]}
    figures = [draw_mean_curves(result, unit) for unit in ("trials", "seconds")]
    figures = [figure for figure in figures if figure is not None]
    fronts = draw_attainment(result)
    return render(
        "comparison.html",
        result=result,
        answers=answers(result),
        headline=headline(result),
        tables=tables(result) | {name: _verdicts(result, pairs) for name, pairs in verdicts.items()},
        marks={name: ["decided" if pair["better"] else "" for pair in pairs] for name, pairs in verdicts.items()},
        reading=READING if first else "",
        figures=figures,
        fronts=fronts,
        has_figures=bool(figures) or fronts is not None,
        titles=_TITLES,
    )


def headline(result: ComparisonJson) -> str:
    """Return a sentence that says which searches are compared."""
    goal = _goal_text(result)
    if result["kind"] == "studies":
        return f"{len(result['strategies'])} studies, one search each; {goal}."
    budget = max((s["budget"] for s in result["standings"] if s["unit"] == "trials"), default=0)
    best = "" if result["optimum"] is None else f" The best possible score: {format_value(result['optimum'])}."
    return (
        f"{len(result['strategies'])} strategies with {result['repeats']} searches each (paired seeds), up to "
        f"{budget:g} trials a search; {goal}.{best}"
    )


def _goal_text(result: ComparisonJson) -> str:
    """Return the metrics with their directions, and the limits."""
    metrics = result["fronts"]["metrics"] if "fronts" in result else {result["metric"]: result["direction"]}
    named = join_names([f"{name} ({direction})" for name, direction in metrics.items()])
    within = f" within {join_names(result['limits'])}" if result.get("limits") else ""
    return f"{result['metric']}, 0 to 1, of {named}{within}" if "fronts" in result else f"{named}{within}"


def answers(result: ComparisonJson) -> list[str]:
    """Return the sentences that say which strategy or study is better.

    A comparison of strategies has a single sentence. A comparison of studies has one sentence per compared pair, and
    sentences about the studies that could not be compared.
    """
    return result["answers"] if result["kind"] == "studies" else [_answer(_first_pairs(result))]


def _answer(pairs: Sequence[Pair]) -> str:
    """Return a sentence about which strategy is better at one budget."""
    when = f"After {budget_text(pairs[0])}"
    labels = list(dict.fromkeys(label for pair in pairs for label in (pair["a"], pair["b"])))
    beaten: dict[str, list[str]] = {}
    for pair in pairs:
        if pair["better"] is not None:
            beaten.setdefault(pair["better"], []).append(pair["b"] if pair["better"] == pair["a"] else pair["a"])
    if all(pair["p"] is None for pair in pairs):
        return f"{when} {join_names(labels)} are {pairs[0]['verdict']}."
    if not beaten:
        which = "neither of the two" if len(labels) == 2 else f"none of the {len(labels)}"
        return f"{when} {which} is significantly better."
    best = next((label for label, others in beaten.items() if len(others) == len(labels) - 1), None)
    if best is not None:
        return f"{when} {best} is better than {'all others' if len(labels) > 2 else beaten[best][0]}."
    text = "; ".join(f"{label} is better than {join_names(others)}" for label, others in beaten.items())
    return f"{when} {text}; no other difference is significant."


def _first_pairs(result: ComparisonJson) -> list[Pair]:
    """Return the pairs of strategies at the first budget of the comparison."""
    pairs = result["pairs"]
    return [pair for pair in pairs if (pair["budget"], pair["unit"]) == (pairs[0]["budget"], pairs[0]["unit"])]


def _verdicts(result: ComparisonJson, pairs: Sequence[Pair]) -> Table:
    """Return a table with one row for each entry of `pairs`: the pair's labels A and B, and by how much B is better."""
    write = score_format(standing["mean_score"] for standing in result["standings"])
    rows = [
        [
            budget_text(pair),
            pair["a"],
            pair["b"],
            _number(pair["mean_difference"], pair["interval"], _signed(write)),
            _number(pair["a_beats_b"], pair["a_beats_b_interval"], "{:.2f}".format),
            "–" if (p := pair["p_holm"]) is None else "<0.001" if p < 0.001 else f"{p:.3f}",
            pair["verdict"],
        ]
        for pair in pairs
    ]
    return Table(("budget", "A", "B", "B better by", "P(A beats B)", "p (Holm)", "verdict"), rows)


def _winners(result: ComparisonJson) -> Table:
    """Return the table of score differences, fold by fold, between two studies' winners; empty with several metrics."""
    folds = (winner["folds"].values() for winner in result.get("winners", ()))
    write = _signed(score_format(statistics.fmean(scores) for scores in folds if scores))
    rows = [
        [
            pair["a"],
            pair["b"],
            ", ".join(map(write, pair["by_fold"].values())),
            _number(pair["mean_difference"], pair["interval"], write),
        ]
        for pair in result.get("folds", ())
        if "fronts" not in result
    ]
    has_interval = any(pair["interval"] for pair in result.get("folds", ()))
    mean = "expected [95 %]" if has_interval else "mean"
    return Table(("A", "B", "by how much B's winner is better than A's, on each fold", mean), rows)


def _chosen(result: ComparisonJson) -> Table:
    """Return the table of the studies' winners; the table is empty if the goal is a single metric without limits."""
    winners = {
        (winner["label"], winner["trial"]): winner["values"]
        for winner in result.get("winners", ())
        if "values" in winner
    }
    names = list(dict.fromkeys(name for values in winners.values() for name in values))
    rows = [
        [label, "–" if trial is None else str(trial)]
        + [format_value(values[name]) if name in values else "–" for name in names]
        for (label, trial), values in winners.items()
    ]
    return Table(("study", "chosen trial", *names), rows)


def _standings(result: ComparisonJson) -> Table:
    """Return the table of the standings; at each budget, the best strategy or study comes first."""
    has_regret, has_limits = result["optimum"] is not None, bool(result.get("limits"))
    best = result["metric"] if "fronts" in result else f"best {result['metric']}"
    write = score_format(standing["mean_score"] for standing in result["standings"])
    one = "strategy" if result["kind"] == "strategies" else "study"
    more = [*(["regret"] if has_regret else []), *(["over limits"] if has_limits else [])]
    head = ("budget", one, best, *more, "seconds spent")
    budgets = list(dict.fromkeys((s["budget"], s["unit"]) for s in result["standings"]))
    ordered = sorted(
        result["standings"],
        key=lambda s: (
            budgets.index((s["budget"], s["unit"])),
            math.inf if s["mean_score"] is None else loss_of(s["mean_score"], result["direction"]),
        ),
    )
    rows = [
        [
            budget_text(s),
            s["label"],
            _number(s["mean_score"], s["interval"], write),
            *([_number(s["mean_regret"], s["regret_interval"], "{:.3g}".format)] if has_regret else []),
            *([f"{s['share_over_limits']:.1%}".replace("%", " %")] if has_limits else []),
            f"{s['mean_seconds']:,.0f}" if s["mean_seconds"] >= 10 else f"{s['mean_seconds']:.2g}",
        ]
        for s in ordered
    ]
    return Table(head, rows)


def _number(value: float | None, interval: Sequence[float] | None, write: Callable[[float], str]) -> str:
    if value is None:
        return "–"
    # Adding 0.0 removes the sign of -0.0.
    ends = "" if interval is None else f" [{', '.join(write(end + 0.0) for end in interval)}]"
    return f"{write(value + 0.0)}{ends}"


def _signed(write: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: f"{'+' if value > 0 else ''}{write(value)}"
