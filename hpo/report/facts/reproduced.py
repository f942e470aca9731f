"""The numbers of a report that follow from trainings which were compared again: worked out, and set beside it.

What people read must be what is checked: a training that comes out the same says nothing of a score above it.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.engine.trials.table import Row, point_of
from hpo.errors import StudyError
from hpo.report.facts.schema.missing import is_missing
from hpo.report.facts.schema.report import FORMAT
from hpo.report.facts.sections.results import interval
from hpo.study.basis.since_report import inner
from hpo.study.reproduce.again import Repetition
from hpo.study.reproduce.recorded import Recorded, amount_of

# A figure follows from recorded numbers; only libraries of other versions may round it in another way.
_ROUNDING = 1e-9
# Where a number that is none would be read.
_READ = ("winner", "top", "best_so_far", "baselines")
# A trial's score under other names.
_SAME = {"search_score": "score", "validation_score": "score"}
# What other trainings, or other measurements than of scores, have led to.
_OTHERS = (
    *("winner.num_parameters", "test", "baselines", "num_parameters", "counts", "expected_performance", "curves"),
    *("importance", "overtuning", "finalists", "comparison", "cost"),
)


@dataclass(frozen=True)
class Figure:
    """A number of a report, and what was worked out for it.

    Attributes:
        trial: the number of the trial that it tells of.
        key: where it stands in report.json, such as `winner.score`.
        said: what the report says; of a stranger's, anything.
        recorded: what the recorded values give.
        given: what the trainings give, or the recorded values where not all were trained.
    """

    trial: int
    key: str
    said: Any
    recorded: float | None
    given: float | None

    @property
    def holds(self) -> bool:
        """Whether the report says what its recorded values give, each of which is compared with its training."""
        if self.recorded is None or self.said is None:
            return self.said is None and self.recorded is None
        if isinstance(self.said, bool) or not isinstance(self.said, int | float):
            return False
        return math.isclose(self.said, self.recorded, rel_tol=_ROUNDING, abs_tol=_ROUNDING * abs(self.recorded))


def figures_of(recorded: Recorded, repetitions: Sequence[Repetition]) -> list[Figure]:
    """Return the numbers of the report about the trials that were trained again; none without a report."""
    by_trial: dict[int, list[Repetition]] = {}
    for repetition in repetitions:
        by_trial.setdefault(repetition.trial, []).append(repetition)
    rows = {row["number"]: row for row in recorded.rows}
    return [
        figure for number, again in by_trial.items() for figure in _of_trial(recorded, rows[str(number)], number, again)
    ]


def unchecked(report: Mapping[str, Any], figures: Sequence[Figure]) -> list[str]:
    """Return the keys of the report whose numbers were not worked out again."""
    trials = {figure.trial for figure in figures}
    listed = {
        "winner": [report.get("winner")],
        "top": report.get("top"),
        "best_so_far": _at(report, "best_so_far.trials"),
    }
    others = []
    for key, entries in listed.items():
        told = [each for each in entries if isinstance(each, Mapping)] if isinstance(entries, list) else []
        if any(each.get("number", each.get("trial")) not in trials for each in told if not is_missing(each)):
            others.append(key)
    for key in _OTHERS:
        numbers = [value for _, value in _leaves(_at(report, key)) if isinstance(value, int | float)]
        if numbers and key.partition(".")[0] not in others:
            others.append(key)
    return others


def refuse_contradictions(report: Mapping[str, Any], config: StudyConfig) -> None:
    """Raise StudyError for a report of a later version, with what is no number, or of another configuration."""
    version = report.get("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise StudyError(
            f"report.json: format is {version!r}, and this version of hpo knows those up to {FORMAT}; use a later one"
        )
    for key, value in _leaves({part: report.get(part) for part in _READ}):
        if isinstance(value, float) and not math.isfinite(value):
            raise StudyError(f"report.json: {key} is {value}, which is no score; no version of hpo writes that")
    given = {
        "study.seed": config.study.seed,
        "metric.name": config.study.metric,
        "metric.direction": config.study.direction,
        "data.split.seed": config.split.seed,
    }
    for key, value in given.items():
        said = _at(report, key)
        if said is not None and said != value:
            raise StudyError(f"report.json: {key} is {said!r}, and the configuration of the study gives {value!r}")


def refuse_other_winner(recorded: Recorded) -> None:
    """Raise StudyError where the report's winner is no trial of the study: its number, its point or its tasks."""
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
    point = winner.get("point")
    if isinstance(point, Mapping) and dict(point) != point_of(row, study.space):
        raise StudyError(f"report.json: winner.point is not the point of trial {row['number']}, which is trained again")


def _of_trial(recorded: Recorded, row: Row, number: int, again: Sequence[Repetition]) -> Iterator[Figure]:
    study = recorded.study
    before = {name: float(row[name]) for name in map(study.layout.name, range(study.layout.size))}
    now = {each.name: each.reproduced for each in again if each.reproduced is not None}
    # A mean of some trained and some recorded values would be of neither.
    old, new = (_given(values, amount_of(row)) for values in (before, now if len(now) == len(before) else before))
    for where, entry in _entries(recorded.report, number):
        for key, said in _leaves(entry):
            name = _SAME.get(key, key)
            if name in old:
                yield Figure(number, f"{where}.{key}", said, old[name], new[name])


def _given(values: Mapping[str, float], amount: int | None) -> dict[str, float | None]:
    """Return what follows from a trial's values, by the keys that a report has for it."""
    numbers = list(values.values())
    within = interval(numbers)
    low, high = (None, None) if is_missing(within) else within
    return {
        "score": math.fsum(numbers) / len(numbers),
        "n": len(numbers),
        "standard_deviation": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "interval.0": low,
        "interval.1": high,
        "amount": amount,
        **{f"values.{name}": value for name, value in values.items()},
    }


def _entries(report: Mapping[str, Any], number: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each part of a report that tells of a trial, and where it stands."""
    places = {"winner": "number", "baselines.default": "number", "test": "trial"}
    places |= {"top": "number", "finalists": "number", "best_so_far.trials": "trial", "best_so_far.seconds": "trial"}
    for place, name in places.items():
        part = _at(report, place)
        listed = {f"{place}.{at}": each for at, each in enumerate(part)} if isinstance(part, list) else {place: part}
        for where, entry in listed.items():
            if isinstance(entry, Mapping) and entry.get(name) == number:
                yield where, entry


def _at(report: Mapping[str, Any], key: str) -> Any:
    *before, last = key.split(".")
    return inner(report, *before).get(last)


def _leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key of every value in a tree of JSON, and the value."""
    if isinstance(tree, Mapping | list):
        for name, branch in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from _leaves(branch, f"{key}.{name}" if key else str(name))
    else:
        yield key, tree
