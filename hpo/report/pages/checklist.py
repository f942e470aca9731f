"""Fills in two reproducibility checklists from a report, for the appendix of a paper.

The questions are quoted verbatim from the sources. A question that is in both checklists is listed once.

Source: "Reproducibility Criteria" of ACL 2021, after Dodge et al. 2019 (arXiv 1909.03004); "The Machine Learning
Reproducibility Checklist" v2.0, Pineau et al. 2021 (JMLR 22(164)).
"""

from collections.abc import Callable, Mapping

from hpo.formatting import format_count, format_duration
from hpo.objectives.outside import OUTSIDE
from hpo.report.formatting import point_text, times_text
from hpo.report.part import UnknownValueError, is_missing, missing, require
from hpo.report.sections.cost import runtime_text, versions_text
from hpo.report.sections.data import SplitPart, folds_text, kind_text
from hpo.report.sections.goal import front_of
from hpo.report.sections.report import ReportJson
from hpo.report.sections.scales import scales_text
from hpo.report.sections.search import end_text
from hpo.report.sections.space import describe_range
from hpo.report.sections.study import heading, reproduction_text
from hpo.report.sections.winner import score_text, spread_note, winner_view
from hpo.study.files.imports import imported_text
from hpo.study.winner.estimates import ScoresOnTest


def render_checklist(report: ReportJson) -> str:
    """Return the filled checklist as Markdown; missing values, and answers that only the authors know, are bold."""
    title, name = heading(report["study"])
    lines = [f"# Reproducibility checklist: {title if name else title.lower()}", "", *([name, ""] if name else [])]
    for section, questions in _QUESTIONS.items():
        lines += [f"## {section}", ""]
        for question, answer in questions:
            try:
                text = answer(report)
            except UnknownValueError as error:
                text = _text_of(missing(str(error)))
            lines += [f"- *{question}*", f"  {text}"]
        lines.append("")
    return "\n".join(lines)


def _code(report: ReportJson) -> str:
    environment = report["environment"]
    commit = _text_of(environment["commit"], "commit ")
    dirty = ", with uncommitted changes" if environment["is_dirty"] is True else ""
    return f"{commit}{dirty}. {_for_authors('a link to the source code')}"


def _dependencies(report: ReportJson) -> str:
    environment = report["environment"]
    return f"Python {environment['python']}; {versions_text(environment)}; CUDA {environment['cuda']}."


def _infrastructure(report: ReportJson) -> str:
    environment, cost = report["environment"], require(report["cost"])
    gpus = environment["gpus"] if isinstance(environment["gpus"], str) else ", ".join(environment["gpus"])
    return (
        f"{environment['processor']}, {environment['cpus']} CPUs, {environment['memory_bytes'] / 2**30:.0f} GiB; "
        f"GPUs: {gpus}; {environment['platform']}; {cost['workers_seen']} worker process(es)."
    )


def _runtime(report: ReportJson) -> str:
    cost = require(report["cost"])
    if cost["wall_seconds"] is None:
        return "There was no training."
    planned = ""
    if cost["lanes"] is not None:
        planned = f"; planned for {cost['lanes']} parallel trainings"
        if cost["order"] == "free":
            planned = "; free order: each proposal used the trainings that had ended by then"
    return (
        f"{runtime_text(cost, 'a trial on average')}; {cost['device_hours']:.3g} device hours "
        f"({cost['device']}) in total, {format_duration(cost['wall_seconds'])} from the first task to the "
        f"last, excluding pauses{planned}."
    )


def _parameters(report: ReportJson) -> str:
    sizes, winner, test = require(report["num_parameters"]), report["winner"], report["test"]
    best = ""
    if not is_missing(winner) and winner["num_parameters"] is not None:
        best = f"winner {winner['num_parameters']:,} (in its largest training); "
    if not is_missing(test) and (tested := test["metrics"].get("parameters")) is not None:
        best = f"tested model {tested:,.0f}; {best}"
    return (
        f"{best}smallest model {sizes['smallest']:,}, largest model {sizes['largest']:,} "
        f"(trials.csv has the number of parameters for each trial)."
    )


def _validation(report: ReportJson) -> str:
    view, test, line = winner_view(report), report["test"], ""
    if not is_missing(test) and test["trial"] == view.trial:
        score, text = ScoresOnTest.of(test).metrics[report["metric"]["name"]], score_text(report)
        line = f"; test {score.text(text, note=False)}, evaluated {times_text(test['evaluations_of_these_data'])}"
    return f"{view.values if view.expected else f'{view.values} on validation'}{view.amount_text}{line}."


def _metric(report: ReportJson) -> str:
    metric = report["metric"]
    definition = _text_of(metric["definition"])
    text = f"{metric['name']} ({metric['direction']}): {definition}. {metric['aggregation'].capitalize()}."
    front = front_of(report)
    if front is None:
        return text
    others = {name: aim for name, aim in front["metrics"].items() if name != metric["name"]}
    also = [f"{name} ({aim['direction']}): {_text_of(aim['definition'])}." for name, aim in others.items()]
    limits = [f"Limits: {', '.join(limit['text'] for limit in front['limits'])}."] if front["limits"] else []
    return " ".join([text, *also, *limits])


def _runs(report: ReportJson) -> str:
    counts, known = require(report["counts"]), ""
    if "imports" in report:
        known = f" Known from the start: {imported_text(report['imports'], require(report['imported']))}."
    configurations, trials = (
        counts.get("configurations", counts["proposed"] - counts.get("retries", 0)),
        counts["proposed"],
    )
    inside = (
        f" in {trials} trials, some of which train a configuration further or again" if configurations != trials else ""
    )
    return (
        f"{format_count(configurations, 'configuration*')}{inside}, "
        f"{format_count(counts['tasks_per_trial'], 'training*')} each: "
        f"{counts['complete']} complete, {counts['failed']} failed, {counts['stopped']} stopped early, "
        f"budget {counts['budget']}{end_text(counts.get('ended_by'))}.{known}{scales_text(report)}"
    )


def _bounds(report: ReportJson) -> str:
    return "; ".join(" ".join(describe_range(dimension)) for dimension in require(report["space"])) + "."


def _best(report: ReportJson) -> str:
    winner = require(report["winner"])
    return f"{point_text(winner['point'])}; all other values: {winner['config']}."


def _choice(report: ReportJson) -> str:
    strategy = {key: value for key, value in report["strategy"].items() if key != "name"}
    settings = ", ".join(f"{key} {value}" for key, value in strategy.items() if value is not None)
    search = f"{report['strategy']['name']} search ({settings})"
    if (extension := report["study"].get("extends")) is not None:
        search = f"among {len(extension['trials'])} trials that were chosen from study {extension['study']}"
    return f"{search}, seed {report['study']['seed']}; the winner is {report['chosen_by']}."


def _statistics(report: ReportJson) -> str:
    view, expected = winner_view(report), require(report["winner"]).get("expected")
    values = f"{view.values_with_spread}{spread_note(view)}"
    if expected is None or is_missing(expected):
        return f"{values}. {'' if expected is None else _text_of(expected)}"
    return f"{values}; a parametric bootstrap corrects the expected score for selection bias."


def _data(report: ReportJson) -> str:
    data = require(report["data"])
    size = "" if data["size"] is None else f", {data['size']:,} examples"
    labels = _text_of(data["split"]) if is_missing(data["split"]) else _labels(data["split"])
    return f"{_text_of(data['name'])}{size}; {labels}."


def _labels(split: SplitPart) -> str:
    labels = {name: part["labels"] or {} for name, part in split["parts"].items()}
    if not all(labels.values()):
        return "the examples have no classes"
    listed = (f"{name}: {', '.join(f'{label} ({n:,})' for label, n in of.items())}" for name, of in labels.items())
    return f"labels: {'; '.join(listed)}"


def _splits(report: ReportJson) -> str:
    split = require(require(report["data"])["split"])
    parts = ", ".join(f"{name} {part['size']:,} ({part['fraction']:.1%})" for name, part in split["parts"].items())
    folds = f"{format_count(len(split['folds']), 'fold*')}, training / validation examples: {folds_text(split)}"
    return f"{kind_text(split)}: {parts}; {folds}."


def _exclusions(report: ReportJson) -> str:
    exclusions, method = _text_of(require(report["data"])["exclusions"]), report["method"]
    preprocessing, vocabulary = _text_of(method["preprocessing"]), _text_of(method["vocabulary"])
    return f"Excluded: {exclusions}. Preprocessing: {preprocessing}; vocabulary: {vocabulary}."


def _source(report: ReportJson) -> str:
    data = require(report["data"])
    source, version, licence = map(_text_of, (data["source"], data["version"], data["licence"]))
    return f"{source}; version: {version}; licence: {licence}. SHA-256 of every file: report.json, `data.files`."


def _rerun(report: ReportJson) -> str:
    study = report["study"]
    winner_only = "" if study["objective"] == OUTSIDE else f"; the winner only: `hpo reproduce {study['name']}`"
    return f"`{study['rerun']}`{winner_only}. Reproduction: {reproduction_text(report)}."


def _text_of(value: object, prefix: str = "") -> str:
    return f"**Missing: {value['missing']}**" if is_missing(value) else f"{prefix}{value}"


def _for_authors(what: str) -> str:
    return f"**For the authors: {what}**"


_QUESTIONS: Mapping[str, tuple[tuple[str, Callable[[ReportJson], str]], ...]] = {
    "All reported experimental results": (
        (
            "A clear description of the mathematical setting, algorithm, and/or model",
            lambda _: _for_authors("the paper's section"),
        ),
        ("A link to the source code, with specification of all dependencies", _code),
        ("Specification of dependencies", _dependencies),
        ("A description of the computing infrastructure used", _infrastructure),
        ("The average runtime for each model or algorithm, or estimated energy cost", _runtime),
        ("The number of parameters in each model", _parameters),
        ("Corresponding validation performance for each reported test result", _validation),
        ("A clear definition of the specific evaluation measure or statistics used to report results", _metric),
        ("The precise command to run to produce the results", _rerun),
    ),
    "All results involving hyperparameter search": (
        ("The exact number of training and evaluation runs", _runs),
        ("The bounds for each hyperparameter", _bounds),
        ("The hyperparameter configurations for best-performing models", _best),
        ("The method of choosing hyperparameter values and the criterion used to select among them", _choice),
        ("Summary statistics of the results (e.g. mean, variance, error bars)", _statistics),
    ),
    "All datasets used": (
        ("Relevant statistics, such as number of examples and label distributions", _data),
        ("Details of train/validation/test splits", _splits),
        ("An explanation of any data that were excluded, and all pre-processing steps", _exclusions),
        ("A link to a downloadable version of the dataset", _source),
        (
            "For new data collected: a complete description of the data collection process",
            lambda _: _for_authors("if the data is new"),
        ),
    ),
}
