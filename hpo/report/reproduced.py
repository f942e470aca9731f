"""A report set beside its configuration, its study, and trainings that were compared again.

What people read must be what is checked: a training that comes out the same says nothing of a score above it.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.keys import plain_own
from hpo.config.study_config import TOO_LARGE, StudyConfig
from hpo.errors import StudyError
from hpo.report.part import is_missing
from hpo.report.sections.data import describe_data
from hpo.report.sections.fields import FIELDS
from hpo.report.sections.scores import interval
from hpo.report.sections.space import describe_space
from hpo.report.sections.study import describe_budget
from hpo.study.files.folder import inner
from hpo.study.reproduce.again import Repetition
from hpo.study.reproduce.recorded import Recorded, amount_of
from hpo.trials.goal import Goal
from hpo.trials.reported_values import number
from hpo.trials.table import metric_columns, point_of

# A figure follows from recorded numbers; only libraries of other versions may round it in another way.
_ROUNDING = 1e-9
# A trial's score under other names.
_SAME = {"search_score": "score", "validation_score": "score"}
# Parts of a section that are named one by one.
_FEW = 4
# Where a report tells of trials, and under which key it names them.
_PLACES = {
    **{"winner": "number", "top": "number", "baselines.default": "number", "finalists": "number", "test": "trial"},
    **{"best_so_far.trials": "trial", "best_so_far.seconds": "trial"},
    **{"front.members": "number", "test.front": "trial"},
}


@dataclass(frozen=True)
class ReportedNumber:
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
        if not is_number(self.said):
            return False
        return math.isclose(self.said, self.recorded, rel_tol=_ROUNDING, abs_tol=_ROUNDING * abs(self.recorded))


def refuse_contradictions(report: Mapping[str, Any], config: StudyConfig) -> None:
    """Raise StudyError for a report with what is no number, or of another configuration."""
    winner = inner(report, "winner")
    scores = {"winner.score": winner.get("score")} if winner.get("score") is not None else {}
    scores |= {f"winner.values.{name}": value for name, value in inner(winner, "values").items()}
    numbers = ((key, value) for key, value in leaves(report) if is_number(value))
    wrong = {key: value for key, value in numbers if not (abs(value) < TOO_LARGE and math.isfinite(value))}
    wrong |= {key: value for key, value in scores.items() if not is_number(value) or number(value) is None}
    for key, value in wrong.items():
        text = str(value) if is_number(value) else repr(value)
        raise StudyError(f"report.json: {key} is {text:.40}, which is no score; no version of hpo writes that")
    _refuse_others(report, _repeated(config), "the configuration of the study")


def refuse_other_study(recorded: Recorded) -> None:
    """Raise StudyError where the report's winner is no trial of the study, or it repeats the study in another way."""
    _refuse_other_winner(recorded)
    for row in recorded.rows:
        own = point_of(row, recorded.study.space)
        for where, entry in _entries(recorded.files.report, row["number"]):
            point = entry.get("point")
            if isinstance(point, Mapping) and own is not None and dict(point) != own:
                raise StudyError(f"report.json: {where}.point is not the point of trial {row['number']}")
    _refuse_others(recorded.files.report, _repeated_of_study(recorded), "the study")


def reported_numbers(recorded: Recorded, repetitions: Sequence[Repetition]) -> list[ReportedNumber]:
    """Return the numbers of the report about the trials that were trained again; none without a report."""
    names, goal = _task_names(recorded), recorded.study.goal
    rows = {row["number"]: row for row in recorded.rows}
    figures: list[ReportedNumber] = []
    for trial in dict.fromkeys(repetition.trial for repetition in repetitions):
        row = rows[str(trial)]
        before = {name: float(row[name]) for name in names}
        again = [repetition for repetition in repetitions if repetition.trial == trial]
        now = {each.name: each.reproduced for each in again if each.reproduced is not None and not each.is_mean}
        further = {name: float(row[column]) for name, column in metric_columns(row, goal).items()}
        del further[goal.metric]
        # What was not trained, or is not compared, is as recorded.
        means = {each.name: each.reproduced for each in again if each.reproduced is not None and each.is_mean}
        # A mean of some trained and some recorded values would be of neither.
        old, new = (
            _given(values, amount_of(row)) | ({} if goal.is_single else _given_of_several(values, others, goal))
            for values, others in (
                (before, further),
                (now if len(now) == len(names) else before, {**further, **means}),
            )
        )
        for where, entry in _entries(recorded.files.report, str(trial)):
            told = ((key, _SAME.get(key, key), said) for key, said in leaves(entry))
            figures += [
                ReportedNumber(trial, f"{where}.{key}", said, old[name], new[name])
                for key, name, said in told
                if name in old
            ]
    return figures


def _task_names(recorded: Recorded) -> list[str]:
    layout = recorded.study.layout
    return [layout.name(index) for index in range(layout.size)]


def unchecked(recorded: Recorded, figures: Sequence[ReportedNumber]) -> list[str]:
    """Return the keys of the report below which numbers were not compared with anything, by section where possible.

    What is compared is listed, in `_repeated` and `_given`; whatever else a report holds is named by itself.
    """
    report, config = recorded.files.report, recorded.study.config
    # Of the configuration, what its trials depend on: a report alone repeats the other settings nowhere.
    own = plain_own(config.objective_config)
    decisive = tuple(f"config.{name}." for name in (*own, "space", "strategy", "split"))
    checked = {"format", "winner.number", *(figure.key for figure in figures), *_repeated_of_study(recorded)}
    checked |= {key for key in _repeated(config) if not key.startswith("config.") or key.startswith(decisive)}
    for trial in {figure.trial for figure in figures}:
        for where, entry in _entries(report, str(trial)):
            checked |= {f"{where}.number", f"{where}.trial"}
            checked |= {key for key, _ in leaves(entry.get("point"), f"{where}.point")}
    return [name for key, part in report.items() for name in _named(part, key, checked)]


def _named(part: Any, key: str, checked: Collection[str], is_inner: bool = False) -> list[str]:
    """Return the key of a section with unchecked numbers, or, where only a few parts of it have some, theirs."""
    numbers = [place for place, value in leaves(part, key) if is_number(value)]
    if not any(place not in checked for place in numbers):
        return []
    if is_inner or not isinstance(part, Mapping) or not any(place in checked for place in numbers):
        return [key]
    inside = [name for last, each in part.items() for name in _named(each, f"{key}.{last}", checked, is_inner=True)]
    return inside if len(inside) <= _FEW else [key]


def _given(values: Mapping[str, float], amount: int | None) -> dict[str, float | None]:
    """Return what follows from a trial's values, by the keys that a report has for it."""
    numbers = list(values.values())
    return {
        "score": math.fsum(numbers) / len(numbers),
        "n": len(numbers),
        "standard_deviation": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "amount": amount,
        **{f"values.{name}": value for name, value in values.items()},
    }


def _given_of_several(values: Mapping[str, float], further: Mapping[str, float], goal: Goal) -> dict[str, float | None]:
    """Return what follows from a trial's values of the leading metric, and the means of the further ones, by key."""
    numbers, name = [*values.values()], f"scores.{goal.metric}"
    means = {goal.metric: math.fsum(values.values()) / len(values), **further}
    low, high = interval(numbers) or (None, None)
    return {
        f"{name}.interval.0": low,
        f"{name}.interval.1": high,
        f"{name}.standard_error": statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else None,
        **{f"{key}.{name}": mean for name, mean in means.items() for key in ("scores", "validation_metrics")},
        **{f"scores.{name}.mean": mean for name, mean in means.items()},
        **({"excess": goal.excess(means)} if means.keys() == {*goal.names} else {}),
    }


def _repeated(config: StudyConfig) -> dict[str, Any]:
    """Return what a report has from its configuration, and the numbers of its 25 fields, by key."""
    study = config.study
    own = {"name": study.name, "seed": study.seed, "objective": config.objective, "intent": config.report.intent}
    tree = {
        "study": own | {"budget": describe_budget(study)},
        "metric": {"name": study.metric, "direction": study.direction},
        "data": {"split": {"seed": config.split.seed}},
        "strategy": config.strategy,
        "fixed": config.fixed,
        "config": config.to_dict(),
        "counts": {"budget": study.trials},
        "winner": {"run": {"study": study.name}},
        "fields": [{"number": number} for number in range(1, 1 + len(FIELDS))],
    }
    return dict(leaves(tree))


def _repeated_of_study(recorded: Recorded) -> dict[str, Any]:
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


def _entries(report: Mapping[str, Any], trial: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
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
    winner = recorded.files.report.get("winner")
    if not isinstance(winner, Mapping) or is_missing(winner):
        return
    row, names = recorded.winner, _task_names(recorded)
    if row is None or row["number"] != str(winner.get("number")):
        raise StudyError(f"report.json: winner.number is {winner.get('number')!r}, which is no complete trial of it")
    for name in {*names} ^ {*inner(winner, "values")}:
        says = "is missing" if name in names else "is no task of the study"
        raise StudyError(f"report.json: winner.values.{name} {says}, which has {', '.join(names)}")
