"""The reproducibility checklists of ACL and of machine learning, filled in from a report: for a paper's appendix.

Source: "Reproducibility Criteria" of ACL 2021, after Dodge et al. 2019 (arXiv 1909.03004); "The Machine Learning
Reproducibility Checklist" v2.0, Pineau et al. 2021 (JMLR 22(164)). The questions are theirs; a question of both is
listed once.
"""

from collections.abc import Callable, Mapping

from hpo.report.part import Missing, Value, is_missing, require
from hpo.report.sections.baselines import score_text
from hpo.report.sections.cost import Cost
from hpo.report.sections.data import SplitPart
from hpo.report.sections.report import ReportJson
from hpo.report.sections.search import Sizes, end_text
from hpo.report.sections.space import describe_range
from hpo.report.sections.study import heading, reproduction_text
from hpo.report.sections.winner import Winner
from hpo.report.words import count_text, times_text
from hpo.study.study import how_far


def render_checklist(summary: ReportJson) -> str:
    """Return the filled checklist as Markdown; answers that only the authors know are left open, in bold."""
    title, name = heading(summary["study"])
    lines = [f"# Reproducibility checklist: {title if name else title.lower()}", "", *([name, ""] if name else [])]
    for section, questions in _QUESTIONS.items():
        lines += [f"## {section}", ""]
        for question, answer in questions:
            lines += [f"- *{question}*", f"  {answer(summary)}"]
        lines.append("")
    return "\n".join(lines)


def _code(summary: ReportJson) -> str:
    environment = summary["environment"]
    commit = _or_missing(environment["commit"], lambda c: f"commit {c}")
    dirty = ", with uncommitted changes" if environment["is_dirty"] is True else ""
    return f"{commit}{dirty}. {_left('a link to it')}"


def _dependencies(summary: ReportJson) -> str:
    environment = summary["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    return f"Python {environment['python']}; {packages}; CUDA {environment['cuda']}."


def _infrastructure(summary: ReportJson) -> str:
    environment, cost = summary["environment"], require(summary["cost"])
    memory = environment["memory_bytes"] / 2**30
    gpus = environment["gpus"] if isinstance(environment["gpus"], str) else ", ".join(environment["gpus"])
    return (
        f"{environment['processor']}, {environment['cpus']} CPUs, {memory:.0f} GiB; GPUs: {gpus}; "
        f"{environment['platform']}; {cost['workers_seen']} worker process(es)."
    )


def _runtime(summary: ReportJson) -> str:
    cost = require(summary["cost"])
    if cost["wall_seconds"] is None:
        return "Nothing was trained."
    return (
        f"{cost['seconds_per_trial_mean']:.1f} s a configuration on average (median "
        f"{cost['seconds_per_trial_median']:.1f} s); {cost['device_hours']:.3g} device hours ({cost['device']}) in "
        f"all, {cost['wall_seconds']:.0f} s from first start to last end without pauses{_planned(cost)}."
    )


def _planned(cost: Cost) -> str:
    """Return in words how the search was planned; empty for one of before the clock."""
    order, lanes = cost.get("order"), cost.get("lanes")
    if order is None or lanes is None:
        return ""
    if order == "free":
        return "; free order: what each proposal knew depended on which training ended first"
    return f"; planned for {lanes} trainings at once"


def _parameters(summary: ReportJson) -> str:
    def told(sizes: Sizes) -> str:
        winner = summary["winner"]
        best = "" if is_missing(winner) else f"winner {winner['num_parameters']:,}; "
        return f"{best}all: {sizes['smallest']:,} to {sizes['largest']:,} (trials.csv has each)."

    return _or_missing(summary["num_parameters"], told)


def _validation(summary: ReportJson) -> str:
    winner, metric = summary["winner"], summary["metric"]["name"]
    if is_missing(winner):
        return _absent(winner["missing"])
    test, text = summary["test"], score_text(summary)
    line = f"{metric} {text(winner['score'])} on validation{how_far(winner['amount'], require(summary['strategy']))}"
    if not is_missing(test):
        line += f"; test {text(test['metrics'][metric])}, opened {times_text(test['openings_of_these_data'])}"
    return f"{line}."


def _metric(summary: ReportJson) -> str:
    metric = summary["metric"]
    definition = _or_missing(metric["definition"], str)
    return f"{metric['name']} ({metric['direction']}): {definition}. {metric['aggregation'].capitalize()}."


def _runs(summary: ReportJson) -> str:
    counts = require(summary["counts"])
    configurations, trials = counts.get("configurations", counts["proposed"]), counts["proposed"]
    inside = f" in {trials} trials, which train some further" if configurations != trials else ""
    return (
        f"{configurations} configurations{inside}, {counts['tasks_per_trial']} training(s) each: "
        f"{counts['complete']} complete, {counts['failed']} failed, {counts['stopped']} stopped early, "
        f"budget {counts['budget']}{end_text(counts.get('ended_by'))}."
    )


def _bounds(summary: ReportJson) -> str:
    return "; ".join(" ".join(describe_range(dimension)) for dimension in require(summary["space"])) + "."


def _best(summary: ReportJson) -> str:
    def told(winner: Winner) -> str:
        values = ", ".join(f"{key} = {value}" for key, value in winner["point"].items())
        return f"{values}; all others: {winner['config']}."

    return _or_missing(summary["winner"], told)


def _choice(summary: ReportJson) -> str:
    strategy = {key: value for key, value in summary["strategy"].items() if key != "name"}
    settings = ", ".join(f"{key} {value}" for key, value in strategy.items() if value is not None)
    return (
        f"{summary['strategy']['name']} search ({settings}), seed {summary['study']['seed']}; the winner is "
        f"{summary['chosen_by']}."
    )


def _statistics(summary: ReportJson) -> str:
    winner = summary["winner"]
    if is_missing(winner):
        return _absent(winner["missing"])
    interval, text = winner["interval"], score_text(summary)
    if is_missing(interval):
        return f"{text(winner['score'])}. {_absent(interval['missing'])}"
    low, high = interval
    return (
        f"{text(winner['score'])} ± {text(winner['standard_deviation'] or 0.0)} (standard deviation, "
        f"n = {winner['n']}), 95 % interval [{text(low)}, {text(high)}] by Student's t over folds and seeds."
    )


def _data(summary: ReportJson) -> str:
    data = require(summary["data"])
    name = _or_missing(data["name"], str)
    size = "" if data["size"] is None else f", {data['size']:,} examples"
    return f"{name}{size}; {_or_missing(data['split'], _labels)}."


def _labels(split: SplitPart) -> str:
    labels = {name: part.get("labels") or {} for name, part in split["parts"].items()}
    if not all(labels.values()):
        return "the examples have no classes"
    listed = (f"{name}: {', '.join(f'{label} ({n:,})' for label, n in of.items())}" for name, of in labels.items())
    return f"labels: {'; '.join(listed)}"


def _splits(summary: ReportJson) -> str:
    def told(split: SplitPart) -> str:
        parts = ", ".join(f"{name} {part['size']:,} ({part['fraction']:.1%})" for name, part in split["parts"].items())
        return f"{split['kind'].replace('_', ' ')}, seed {split['seed']}: {parts}; {_folds(split)}."

    return _or_missing(require(summary["data"])["split"], told)


def _folds(split: SplitPart) -> str:
    folds = split["folds"]
    sizes = ", ".join(f"{fold['train']:,} / {fold['validation']:,}" for fold in folds)
    return f"{count_text(len(folds), 'fold*')}, training / validation examples: {sizes}"


def _excluded(summary: ReportJson) -> str:
    exclusions = _or_missing(require(summary["data"])["exclusions"], str)
    method = summary["method"]
    steps = [_or_missing(step, str) for step in (method["preprocessing"], method["vocabulary"])]
    return f"Excluded: {exclusions}. Preprocessing: {'; vocabulary: '.join(steps)}."


def _source(summary: ReportJson) -> str:
    data = require(summary["data"])
    source, version, licence = (_or_missing(value, str) for value in (data["source"], data["version"], data["licence"]))
    return f"{source}; version: {version}; licence: {licence}. SHA-256 of every file: report.json, `data.files`."


def _rerun(summary: ReportJson) -> str:
    rerun = f"`{summary['study']['rerun']}`; the winner alone: `hpo reproduce {summary['study']['name']}`."
    return f"{rerun} Reproduction: {reproduction_text(summary)}."


def _or_missing(value: Value | Missing, tell: Callable[[Value], str]) -> str:
    return _absent(value["missing"]) if is_missing(value) else tell(value)


def _absent(reason: str) -> str:
    return f"**Missing: {reason}**"


def _left(what: str) -> str:
    return f"**For the authors: {what}**"


def _authors(what: str) -> Callable[[ReportJson], str]:
    return lambda _: _left(what)


_QUESTIONS: Mapping[str, tuple[tuple[str, Callable[[ReportJson], str]], ...]] = {
    "All reported experimental results": (
        ("A clear description of the mathematical setting, algorithm, and/or model", _authors("the paper's section")),
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
        ("An explanation of any data that were excluded, and all pre-processing steps", _excluded),
        ("A link to a downloadable version of the dataset", _source),
        ("For new data collected: a complete description of the data collection process", _authors("where it is new")),
    ),
}
