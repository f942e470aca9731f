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
from hpo.study.winner.estimates import ScoresOnTest
from hpo.trials.estimate import Estimate, ExpectedScore
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
    how, extension = f"searched by {strategy} search with", study.get("extends")
    if extension is not None:
        how = f"of the study {escape_latex(extension['study'])}, from which this study takes"
    caption = (
        f"{_title_text(summary)}Hyperparameters {how} {format_count(configurations, 'configuration*')} "
        f"(seed {study['seed']}), and the best configuration."
    )
    # A label needs no escapes, unlike a caption. It must not contain braces or commands, and a study's name has none.
    yield from _table(("Hyperparameter", "Values", "Best"), rows, caption, f"tab:{study['name']}-ranges")


def _results_table(summary: ReportJson) -> Iterable[str]:
    metric = summary["metric"]["name"]
    test, winner, text = summary["test"], summary["winner"], score_text(summary)
    on_test = None if is_missing(test) else ScoresOnTest.of(test)
    rows = []
    if not is_missing(winner):
        of_winner = None if is_missing(test) or test["trial"] != winner["number"] else on_test
        tested = "--" if of_winner is None else _estimate_text(of_winner.metrics[metric], text)
        best = f"Best (trial {winner['number']})"
        if (by := chosen_score(winner)) is not winner:
            # Show both scores: the search's is comparable with the default's, and the fresh one chose the winner.
            fresh = f", {format_count(len(by['values']), 'training*')} on fresh seeds"
            rows.append((f"{best}{fresh}", _spread_text(by["score"], by["standard_deviation"], text), "--"))
        rows.append((best, _spread_text(winner["score"], winner["standard_deviation"], text), tested))
    default, against = require(summary["baselines"])["default"], require(summary["overtuning"])["default_on_test"]
    if not is_missing(default) or all(each.get("default") is not None for each in require(summary["space"])):
        tested = "--" if on_test is None or is_missing(against) else _estimate_text(on_test.default[metric], text)
        rows.append(("Default configuration", _default_text(default, text), tested))
    front = front_of(summary)
    leading = ", the leading metric" if front is not None and len(front["metrics"]) > 1 else ""
    evaluated = "" if is_missing(test) else f", evaluated {times_text(test['evaluations_of_these_data'])}"
    deviation = " $\\pm$ standard deviation" if any(r"\pm" in cell for _, cell, _ in rows) else ""
    intervals = _intervals_note(tested for *_, tested in rows)
    caption = (
        f"{_title_text(summary)}{escape_latex(metric)}{leading} ({summary['metric']['direction']}): "
        f"{escape_latex(summary['metric']['aggregation'])}{deviation} on validation, and on the test "
        f"split{evaluated}{intervals}.{_expected_text(summary, text)}"
    )
    yield from _table(("Configuration", "Validation", "Test"), rows, caption, f"tab:{summary['study']['name']}-results")


def _expected_text(summary: ReportJson, text: Callable[[float], str]) -> str:
    expected = ExpectedScore.of(summary)
    if expected is None:
        return ""
    value, low, high = (f"${text(number)}$" for number in (expected.value, expected.low, expected.high))
    return (
        f" New trainings of the winner are expected to score {value} on average (95 \\% interval {low} to {high}). "
        f"This value is corrected for the choice of the best of {format_count(expected.best_of, 'trial*')}."
    )


def _intervals_note(cells: Iterable[str]) -> str:
    """Return the part of a caption that explains intervals in brackets; empty if no cell has an interval."""
    return ", with 95 \\% intervals in brackets" if any("(" in cell for cell in cells) else ""


def _estimate_text(estimate: Estimate, text: Callable[[float], str]) -> str:
    """Return a test score as text; if the score has an interval, the interval follows in brackets."""
    if estimate.low is None or estimate.high is None:
        return _minus(text(estimate.value))
    return _minus(f"{text(estimate.value)} ({text(estimate.low)} to {text(estimate.high)})")


def _minus(text: str) -> str:
    """Return the text with minus signs in place of hyphens."""
    return text.replace("-", "$-$")


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
            *(_minus(spread_text(member["scores"][name], texts[name])) for name in names),
        )
        for member in front["members"]
    ]
    choice = f" The star is the winner: {escape_latex(front['choice']['text'])}." if "choice" in front else ""
    winner = summary["winner"]
    if not is_missing(winner) and chosen_score(winner) is not winner:
        choice += " This table has the search's scores, but scores on fresh seeds chose the winner."
    intervals = _intervals_note(cell for row in rows for cell in row)
    caption = (
        f"{_title_text(summary)}The Pareto front of {escape_latex(goal_text(front))}: "
        f"{escape_latex(summary['metric']['aggregation'])}{intervals}.{choice}"
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
    """Return the text with all of LaTeX's special characters escaped; `<=` and `>=` become the symbols ≤ and ≥."""
    escaped = "".join(_ESCAPES.get(sign, sign) for sign in text)
    return escaped.replace(r"\textless{}=", r"$\leq$").replace(r"\textgreater{}=", r"$\geq$")
