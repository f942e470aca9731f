"""The report as a Markdown page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpo.engine.trials.digits import score_format
from hpo.report.missing import is_missing, reason_missing, require
from hpo.report.pages.tables import markdown_table
from hpo.report.part import part
from hpo.report.sections.baselines import against_default, score_text
from hpo.report.sections.finalists import FinalistPart
from hpo.report.sections.report import ReportJson
from hpo.report.sections.search import end_text
from hpo.report.sections.space import describe_range
from hpo.report.sections.study import ExtendedPart, ExtensionPart, heading, reproduction_text
from hpo.report.sections.tested import default_on_test
from hpo.report.words import value_text
from hpo.study.study import how_far, training_command

EXTENDED = ("trial", "before", "score before", "score", "gain (above 0 is better)", "trained")


def render_report_markdown(summary: ReportJson) -> str:
    """Return the page for a summary made by `hpo.report.sections.report.summarise`."""
    sections = (_head, _winner, _cautions, _data, _space, _strategy, _trials, _expected, _cost, _environment, _missing)
    return "\n".join(line for section in sections for line in [*_lines(section, summary), ""])


def _lines(section: Callable[[ReportJson], Iterable[str]], summary: ReportJson) -> list[str]:
    """Return the lines of a section; if it fails, the lines before that and the reason."""
    lines: list[str] = []
    part(lambda: lines.extend(section(summary)), lambda why: lines.append(f"This part {why}."))
    return lines


def _head(summary: ReportJson) -> Iterable[str]:
    study, metric = summary["study"], summary["metric"]
    title, name = heading(study)
    yield from (f"# {title}", "")
    if name:
        yield from (name, "")
    yield (
        f"{summary['strategy']['name']} search for the configuration with the best {metric['name']} "
        f"({metric['direction']}, {metric['aggregation']}), objective `{study['objective']}`, seed {study['seed']}."
    )
    yield ""
    yield f"Run it again: `{study['rerun']}`"
    yield ""
    yield f"Reproduction: {reproduction_text(summary)}."


def _winner(summary: ReportJson) -> Iterable[str]:
    winner, metric = summary["winner"], summary["metric"]["name"]
    yield "## Winner"
    yield ""
    if is_missing(winner):
        yield "No trial finished: every one failed. The reasons are listed below."
        return
    text, spread = score_text(summary), ""
    if winner["standard_deviation"] is not None:
        low, high = require(winner["interval"])
        spread = f" ± {text(winner['standard_deviation'])} (standard deviation, n = {winner['n']}; 95 % interval "
        spread += f"{text(low)} to {text(high)})"
    score = f"{metric} **{text(winner['score'])}**{spread}{how_far(winner['amount'], require(summary['strategy']))}"
    yield f"Trial {winner['number']}: {score}, chosen by {summary['chosen_by']}."
    yield against_default(summary)
    yield ""
    values = [(f"`{key}`", value_text(value)) for key, value in winner["point"].items()]
    yield from markdown_table(("hyperparameter", "value"), values)
    yield ""
    yield f"Folds: {', '.join(map(text, winner['values'].values()))}."
    yield f"Train it: `{training_command(summary['study']['objective'], winner['config'])}`."
    yield ""
    yield _test_line(summary)


def _test_line(summary: ReportJson) -> str:
    test = summary["test"]
    if is_missing(test):
        return f"{test['missing'][0].upper()}{test['missing'][1:]}."
    metric = summary["metric"]["name"]
    times = test["openings_of_these_data"]
    counted = "once" if times == 1 else f"**{times} times**, over all studies of these data"
    score = score_text(summary)(test["metrics"][metric])
    return (
        f"Test {metric}: **{score}** on {test['size']} examples, trial {test['trial']}, opened "
        f"{test['time']}. This test part has been opened {counted}. {default_on_test(summary)}"
    ).rstrip()


def _cautions(summary: ReportJson) -> Iterable[str]:
    yield "## Cautions"
    yield ""
    for caution in summary["cautions"]:
        yield f"- {caution}"
    if not summary["cautions"]:
        yield "None of the checks found a reason to doubt the result."


def _data(summary: ReportJson) -> Iterable[str]:
    data = require(summary["data"])
    yield "## Data"
    yield ""
    split = data["split"]
    if is_missing(split):
        yield f"Nothing was split here: {split['missing']}."
        return
    source = "" if is_missing(data["source"]) else f" {data['source']}"
    yield f"{data['name']}: {data['size']:,} examples.{source}"
    yield ""
    rows = [
        (name, f"{part['size']:,}", f"{part['fraction']:.1%}", part["fingerprint"][:12])
        for name, part in split["parts"].items()
    ]
    yield from markdown_table(("part", "examples", "share", "fingerprint"), rows)
    yield ""
    folds = ", ".join(f"{fold['train']:,} / {fold['validation']:,}" for fold in split["folds"])
    yield f"Validation: {split['kind'].replace('_', ' ')}, seed {split['seed']}; train / validation: {folds}."
    twice = {pair: count for pair, count in split["duplicates"].items() if count}
    if twice:
        yield f"Examples that are in two parts: {', '.join(f'{n} of {pair}' for pair, n in twice.items())}."


def _space(summary: ReportJson) -> Iterable[str]:
    yield "## Space"
    yield ""
    yield from markdown_table(("hyperparameter", "kind", "range"), _ranges(summary))
    yield ""
    yield f"Points: {summary['space_size']:,}." if summary["space_size"] else "Points: infinitely many."
    yield ""
    for rule in require(summary["space_rules"]):
        yield f"- rule: `{rule}`"
    for point in require(summary["first"]):
        yield f"- tried first: {_point(point)}"
    for given in require(summary.get("given", [])):
        yield f"- given by a hand, after {given['after']} trials: {_point(given['point'])}"
    if fixed := ", ".join(f"`{key}={value_text(value)}`" for key, value in require(summary["fixed"]).items()):
        yield f"Fixed: {fixed}."


def _ranges(summary: ReportJson) -> Iterable[tuple[str, str, str]]:
    for key, kind, text in map(describe_range, require(summary["space"])):
        yield f"`{key}`", kind, text


def _strategy(summary: ReportJson) -> Iterable[str]:
    yield "## Strategy"
    yield ""
    yield from markdown_table(("setting", "value"), [(f"`{k}`", value_text(v)) for k, v in summary["strategy"].items()])


def _trials(summary: ReportJson) -> Iterable[str]:
    counts = require(summary["counts"])
    yield "## Trials"
    yield ""
    end = end_text(counts.get("ended_by"))
    budget = f"{counts['budget']} {counts['budget_counts']}" if "budget_counts" in counts else str(counts["budget"])
    yield (
        f"Budget {budget}{end}, proposed {counts['proposed']}, complete {counts['complete']}, "
        f"failed {counts['failed']}, running {counts['running']}. All of them: `trials.csv`."
    )
    if further := counts.get("further_trained"):
        yield f"- trained to the end after the search: trials {', '.join(map(str, further))}"
    if counts["stopped"]:
        yield (
            f"- {counts['stopped']} stopped early, behind the trials before them: {counts['tasks_saved']} trainings "
            f"not begun"
        )
    if summary["imported"]:
        yield f"- {summary['imported']} trials of another study were known from the start"
    for reason, count in counts["failures"].items():
        yield f"- {count} failed: {reason}"
    yield ""
    strategy = require(summary["strategy"])
    text = score_text(summary)
    scores = [f"{text(t['score'])}{how_far(t.get('amount'), strategy)}" for t in summary["top"]]
    rows = [(str(t["number"]), score, _point(t["point"])) for t, score in zip(summary["top"], scores, strict=True)]
    yield from markdown_table(("best trials", summary["metric"]["name"], "point"), rows)
    finalists = summary["finalists"]
    if not is_missing(finalists):
        yield ""
        head = ("trained again", "in the search", "on fresh seeds")
        yield from markdown_table(head, _finalists(finalists))
    if "extends" in summary["study"]:
        yield from _extension(summary["study"]["extends"])


def _extension(extension: ExtensionPart) -> Iterable[str]:
    changes = ", ".join(f"`{key}` from {before} to {now}" for key, (before, now) in extension["changes"].items())
    yield ""
    yield f"Trials of study {extension['study']}, {f'with {changes}' if changes else 'trained to their end'}:"
    yield ""
    yield from markdown_table(EXTENDED, extended_rows(extension))


def extended_rows(extension: ExtensionPart) -> list[tuple[str, ...]]:
    """Return the cells of each trial beside the one it goes on from, under the head `EXTENDED`."""
    trials = extension["trials"]
    text = score_format(score for trial in trials for score in (trial["score_before"], trial["score"]))

    def cells(trial: ExtendedPart) -> tuple[str, ...]:
        score = "failed" if trial["score"] is None else text(trial["score"])
        gain = "" if trial["gain"] is None else f"{'+' if trial['gain'] >= 0 else ''}{text(trial['gain'])}"
        how = "further" if trial["continued"] else "anew"
        return str(trial["number"]), str(trial["before"]), text(trial["score_before"]), score, gain, how

    return list(map(cells, trials))


def _finalists(finalists: Sequence[FinalistPart]) -> Iterable[tuple[str, str, str]]:
    text = score_format(score for each in finalists for score in (each["search_score"], each["fresh_score"]))
    for finalist in finalists:
        assert finalist["search_score"] is not None, "only complete trials are finalists"
        fresh, spread = finalist["fresh_score"], finalist["fresh_standard_deviation"]
        score = f"failed: {finalist['error']}" if fresh is None else text(fresh)
        score += "" if spread is None else f" ± {text(spread)} (n = {len(finalist['fresh_values'])})"
        yield str(finalist["number"]), text(finalist["search_score"]), score


def _expected(summary: ReportJson) -> Iterable[str]:
    expected = summary["expected_performance"]
    yield "## Expected validation performance"
    yield ""
    if is_missing(expected):
        yield f"Not shown: {expected['missing']}."
        return
    yield "The best score that a random search of n trials finds on average, ± its standard deviation over searches."
    yield ""
    biased, unbiased = expected["biased"], expected["unbiased"]
    text = score_format([*unbiased["means"], *biased["means"]])
    rows = [
        (str(n), f"{text(a)} ± {text(b)}", f"{text(c)} ± {text(d)}")
        for n, a, b, c, d in zip(
            biased["budgets"], unbiased["means"], unbiased["spreads"], biased["means"], biased["spreads"], strict=True
        )
    ]
    yield from markdown_table(("trials", "unbiased (Tang et al. 2020)", "biased (Dodge et al. 2019)"), rows)


def _cost(summary: ReportJson) -> Iterable[str]:
    cost = require(summary["cost"])
    yield "## Cost"
    yield ""
    if cost["wall_seconds"] is None:
        yield "Nothing was trained."
        return
    yield (
        f"{cost['training_seconds']:.0f} s of training on {cost['workers_seen']} worker(s), first start to last end "
        f"{cost['wall_seconds']:.0f} s without pauses; {cost['seconds_per_trial_mean']:.1f} s a trial (median "
        f"{cost['seconds_per_trial_median']:.1f} s). Idle share of the workers: {cost['idle_share']:.0%}."
    )
    yield ""
    steps = require(summary["best_so_far"])["seconds"]
    text = score_format(step["score"] for step in steps)
    rows = [(f"{step['seconds']:.0f}", str(step["trial"]), text(step["score"])) for step in steps]
    yield from markdown_table(("seconds", "trial", "best so far"), rows)


def _environment(summary: ReportJson) -> Iterable[str]:
    environment = summary["environment"]
    yield "## Environment"
    yield ""
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    yield f"Python {environment['python']} on {environment['platform']} ({environment['processor']}): {versions}."
    dirty = " with uncommitted changes" if environment["is_dirty"] is True else ""
    unknown = reason_missing(environment["commit"])
    yield f"Commit unknown: {unknown}." if unknown else f"Commit {environment['commit']}{dirty}."


def _missing(summary: ReportJson) -> Iterable[str]:
    yield "## What the checklist asks for and is missing"
    yield ""
    lines = [
        f"- **{field['number']} {field['title']}**: `{key}`: {reason}"
        for field in summary["fields"]
        for key, reason in field["missing"].items()
    ]
    yield from lines or ["Nothing: all 25 fields are filled."]


def _point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value_text(value)}" for key, value in point.items())
