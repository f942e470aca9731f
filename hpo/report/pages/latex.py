"""Tables for a paper, in LaTeX with booktabs: the searched ranges, the results, and the Pareto front."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from hpo.formatting import format_count, format_value
from hpo.report.formatting import times_text
from hpo.report.part import Missing, is_missing, require
from hpo.report.sections.goal import FrontPart, aim_text, front_of, goal_text, names_of, value_format
from hpo.report.sections.report import ReportJson
from hpo.report.sections.scores import spread_text
from hpo.report.sections.space import describe_range
from hpo.report.sections.study import heading
from hpo.report.sections.winner import DefaultTrial, chosen_score, score_text
from hpo.trials.estimate import ExpectedScore
from hpo.trials.score_format import with_spread

_ESCAPES = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def render_latex(summary: ReportJson) -> str:
    """Return the tables for `\\input{tables}`; they need `\\usepackage{booktabs}`."""
    front = front_of(summary)
    of_front = [*_front_table(summary, front), ""] if front is not None and len(front["metrics"]) > 1 else []
    return "\n".join([*_ranges_table(summary), "", *_results_table(summary), "", *of_front])


def _ranges_table(summary: ReportJson) -> Iterable[str]:
    winner, study = summary["winner"], summary["study"]
    point = {} if is_missing(winner) else winner["point"]
    rows = []
    for dimension in require(summary["space"]):
        key, _, text = describe_range(dimension)
        rows.append(
            (f"\\texttt{{{escape_latex(key)}}}", escape_latex(text), escape_latex(format_value(point.get(key, "--"))))
        )
    strategy = summary["strategy"]["name"].replace("_", " ")
    counts = require(summary["counts"])
    configurations = counts.get("configurations", counts["proposed"] - counts.get("retries", 0))
    caption = (
        f"{_title_text(summary)}Hyperparameters searched by {strategy} search with {configurations} configurations "
        f"(seed {study['seed']}), and the best configuration."
    )
    # A label needs no escapes, unlike a caption. It must not contain braces or commands, and a study's name has none.
    yield from _table(("Hyperparameter", "Values", "Best"), rows, caption, f"tab:{study['name']}-ranges")


def _results_table(summary: ReportJson) -> Iterable[str]:
    metric = summary["metric"]["name"]
    test, winner, text = summary["test"], summary["winner"], score_text(summary)
    rows = []
    if not is_missing(winner):
        tested = "--" if is_missing(test) else text(test["metrics"][metric])
        best = f"Best (trial {winner['number']})"
        if (by := chosen_score(winner)) is not winner:
            # Show both scores: the search's is comparable with the default's, and the fresh one chose the winner.
            fresh = f", {format_count(len(by['values']), 'training*')} on fresh seeds"
            rows.append((f"{best}{fresh}", _spread_text(by["score"], by["standard_deviation"], text), "--"))
        rows.append((best, _spread_text(winner["score"], winner["standard_deviation"], text), tested))
    default, against = require(summary["baselines"])["default"], require(summary["overtuning"])["default_on_test"]
    if not is_missing(default) or all(each.get("default") is not None for each in require(summary["space"])):
        on_test = "--" if is_missing(against) else text(against["default"])
        rows.append(("Default configuration", _default_text(default, text), on_test))
    front = front_of(summary)
    leading = ", the leading metric" if front is not None and len(front["metrics"]) > 1 else ""
    evaluated = "" if is_missing(test) else f", evaluated {times_text(test['evaluations_of_these_data'])}"
    caption = (
        f"{_title_text(summary)}{escape_latex(metric)}{leading} ({summary['metric']['direction']}): "
        f"{escape_latex(summary['metric']['aggregation'])} $\\pm$ standard deviation on validation, and on the test "
        f"split{evaluated}.{_expected_text(summary, text)}"
    )
    yield from _table(("Configuration", "Validation", "Test"), rows, caption, f"tab:{summary['study']['name']}-results")


def _expected_text(summary: ReportJson, text: Callable[[float], str]) -> str:
    expected = ExpectedScore.of(summary)
    if expected is None:
        return ""
    value, low, high = (f"${text(number)}$" for number in (expected.value, expected.low, expected.high))
    return (
        f" Corrected for the choice among {format_count(expected.best_of, 'trial*')}, the winner's expected score "
        f"in a new training is {value} (95 \\% interval {low} to {high})."
    )


def _default_text(default: DefaultTrial | Missing, text: Callable[[float], str]) -> str:
    """Return the score of the default configuration's trial; without a score, return the trial's state."""
    if is_missing(default):
        return "not trained"
    if default["score"] is None:
        return default["state"]
    values = [*default["values"].values()]
    return _spread_text(default["score"], statistics.stdev(values) if len(values) > 1 else None, text)


def _front_table(summary: ReportJson, front: FrontPart) -> Iterable[str]:
    names = names_of(front)
    texts = {name: value_format(summary, name) for name in names}
    rows = [
        (
            f"{member['number']}" + r"$^\star$" * member["is_chosen"],
            # A hyphen is not a minus sign.
            *(spread_text(member["scores"][name], texts[name]).replace("-", "$-$") for name in names),
        )
        for member in front["members"]
    ]
    choice = f" The star is the winner: {escape_latex(front['choice']['text'])}." if "choice" in front else ""
    winner = summary["winner"]
    if not is_missing(winner) and chosen_score(winner) is not winner:
        choice += " All scores are from the search; scores on fresh seeds chose the winner."
    caption = (
        f"{_title_text(summary)}The Pareto front of {escape_latex(goal_text(front))}: "
        f"{escape_latex(summary['metric']['aggregation'])}, with 95 \\% intervals in brackets.{choice}"
    )
    head = ["Trial", *(escape_latex(aim_text(front, name)) for name in names)]
    yield from _table(head, rows, caption, f"tab:{summary['study']['name']}-front")


def _spread_text(mean: float, deviation: float | None, text: Callable[[float], str]) -> str:
    score, spread = with_spread(text, mean, deviation)
    return f"${score} \\pm {spread}$" if spread else f"${score}$"


def _title_text(summary: ReportJson) -> str:
    """Return the report's title as the start of a caption; empty without a title."""
    title, name = heading(summary["study"])
    return f"\\textbf{{{escape_latex(title)}}} " if name else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str, label: str) -> Iterable[str]:
    yield from ("\\begin{table}[t]", "\\centering", f"\\begin{{tabular}}{{{'l' * len(head)}}}", "\\toprule")
    yield from (f"{' & '.join(head)} \\\\", "\\midrule", *(f"{' & '.join(row)} \\\\" for row in rows))
    yield from ("\\bottomrule", "\\end{tabular}", f"\\caption{{{caption}}}", f"\\label{{{label}}}", "\\end{table}")


def escape_latex(text: str) -> str:
    """Return the text with all of LaTeX's special characters escaped."""
    return "".join(_ESCAPES.get(sign, sign) for sign in text)
