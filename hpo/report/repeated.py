"""What a report repeats of its configuration and its study, and the refusal of one that says something else there."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from hpo.config.study_config import TOO_LARGE, StudyConfig
from hpo.engine.trials.reported import number
from hpo.engine.trials.table import point_of
from hpo.errors import StudyError
from hpo.report.part import is_missing
from hpo.report.sections.data import describe_data
from hpo.report.sections.fields import FIELDS
from hpo.report.sections.report import FORMAT
from hpo.report.sections.space import describe_space
from hpo.report.sections.study import describe_budget
from hpo.study.basis.since_report import inner
from hpo.study.reproduce.recorded import Recorded

# Where a report tells of trials, and under which key it names them.
_PLACES = {
    **{"winner": "number", "top": "number", "baselines.default": "number", "finalists": "number", "test": "trial"},
    **{"best_so_far.trials": "trial", "best_so_far.seconds": "trial"},
}


def refuse_contradictions(report: Mapping[str, Any], config: StudyConfig) -> None:
    """Raise StudyError for a report of a later version, with what is no number, or of another configuration."""
    version = report.get("format", FORMAT)
    if not isinstance(version, int) or not abs(version) <= FORMAT:
        raise StudyError(
            f"report.json: format is {version!r}, and this version of hpo knows those up to {FORMAT}; use a later one"
        )
    for key, value in leaves(report):
        if is_number(value) and not (abs(value) < TOO_LARGE and math.isfinite(value)):
            raise StudyError(f"report.json: {key} is {value!s:.40}, which is no score; no version of hpo writes that")
    winner = inner(report, "winner")
    for key, value in {"score": winner.get("score"), **inner(winner, "values")}.items():
        name = key if key == "score" else f"values.{key}"
        if (value is not None or key != "score") and not (is_number(value) and number(value) is not None):
            raise StudyError(
                f"report.json: winner.{name} is {value!r:.40}, which is no score; no version of hpo writes that"
            )
    _refuse_others(report, repeated(config), "the configuration of the study")


def refuse_other_study(recorded: Recorded) -> None:
    """Raise StudyError where the report's winner is no trial of the study, or it repeats the study in another way."""
    _refuse_other_winner(recorded)
    rows = {row["number"]: row for row in recorded.rows}
    for trial in rows:
        for where, entry in entries(recorded.report, trial):
            point, own = entry.get("point"), point_of(rows[trial], recorded.study.space)
            if isinstance(point, Mapping) and own is not None and dict(point) != own:
                raise StudyError(f"report.json: {where}.point is not the point of trial {trial}")
    _refuse_others(recorded.report, repeated_of_study(recorded), "the study")


def repeated(config: StudyConfig) -> dict[str, Any]:
    """Return what a report has from its configuration, and the numbers of its 25 fields, by key."""
    study = config.study
    tree: dict[str, Any] = {
        "study": {"name": study.name, "seed": study.seed, "objective": config.objective},
        "metric": {"name": study.metric, "direction": study.direction},
        "data": {"split": {"seed": config.split.seed}},
        "strategy": config.strategy,
        "fixed": config.fixed,
        "config": config.to_dict(),
        "counts": {"budget": study.trials},
        "winner": {"run": {"study": study.name}},
        "fields": [{"number": each.number} for each in FIELDS],
    }
    tree["study"] |= {"budget": describe_budget(study), "intent": config.report.intent}
    return dict(leaves(tree))


def repeated_of_study(recorded: Recorded) -> dict[str, Any]:
    """Return the numbers that a report has from its winner's row, and from space and data where these are the same."""
    study = recorded.study
    tree: dict[str, Any] = {}
    if recorded.winner is not None:
        tree["winner"] = {"run": {"trial": int(recorded.winner["number"])}}
    if recorded.is_same_study:
        # Of files only the hashes are compared, and with a split only the examples'.
        data = {key: value for key, value in describe_data(study).items() if key in ("size", "split")}
        tree |= {**describe_space(study), "counts": {"tasks_per_trial": study.layout.size}, "data": data}
    return {key: value for key, value in leaves(tree) if is_number(value)}


def entries(report: Mapping[str, Any], trial: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each part of a report that tells of a trial, and where it stands."""
    for place, name in _PLACES.items():
        *before, last = place.split(".")
        part = inner(report, *before).get(last)
        listed = {f"{place}.{at}": each for at, each in enumerate(part)} if isinstance(part, list) else {place: part}
        for where, entry in listed.items():
            if isinstance(entry, Mapping) and str(entry.get(name)) == trial:
                yield where, entry


def leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key of every value in a tree of JSON, and the value."""
    # Not by recursion: a stranger's report may be nested deeply.
    stack = [(key, tree)]
    while stack:
        key, branch = stack.pop()
        if isinstance(branch, Mapping | list | tuple):
            inside = branch.items() if isinstance(branch, Mapping) else enumerate(branch)
            stack += [(f"{key}.{name}" if key else str(name), value) for name, value in inside][::-1]
        else:
            yield key, branch


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse_others(report: Mapping[str, Any], given: Mapping[str, Any], what: str) -> None:
    for key, said in leaves(report):
        if key in given and said != given[key]:
            raise StudyError(f"report.json: {key} is {said!r}, and {what} gives {given[key]!r}")


def _refuse_other_winner(recorded: Recorded) -> None:
    """Raise StudyError where the report's winner is no trial of the study, by its number or its tasks."""
    winner = recorded.report.get("winner")
    if not isinstance(winner, Mapping) or is_missing(winner):
        return
    row, study = recorded.winner, recorded.study
    if row is None or row["number"] != str(winner.get("number")):
        raise StudyError(f"report.json: winner.number is {winner.get('number')!r}, which is no complete trial of it")
    names = [study.layout.name(index) for index in range(study.layout.size)]
    values = winner.get("values")
    # Early versions wrote none.
    for name in {*names} ^ {*values} if isinstance(values, Mapping) else ():
        says = "is missing" if name in names else "is no task of the study"
        raise StudyError(f"report.json: winner.values.{name} {says}, which has {', '.join(names)}")
