"""Compares a report with its configuration, its study, and its reproduced trainings.

A reproduction must also check the numbers that people read: even if all trainings are reproduced exactly, the
report may state a wrong score.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpo.config.keys import is_number, plain_own, without
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
from hpo.trials.table import Row, metric_columns, point_of

# A reported number is computed from recorded numbers; only other library versions may round it differently.
_ROUNDING = 1e-9
# If more parts of a section have unchecked numbers, `unchecked` names only the section.
_MOST_NAMED = 4
# The parts of a report that describe trials, each with the key that holds the trial's number.
_PARTS_OF_TRIALS = {
    **{"winner": "number", "top": "number", "baselines.default": "number", "finalists": "number", "test": "trial"},
    **{"best_so_far.trials": "trial", "best_so_far.seconds": "trial"},
    **{"front.members": "number", "test.front": "trial"},
}

# A trial's score and the other numbers that a report computes from its trainings, by their keys in the report.
_Numbers = dict[str, float | None]


@dataclass(frozen=True)
class ReportedNumber:
    """A number of a report, and the values computed for it.

    Attributes:
        trial: the number of the trial that the reported number describes.
        key: the key of the number in report.json, such as `winner.score`.
        said: the value in the report; any type, because reports may come from strangers.
        recorded: the number computed from the recorded values.
        given: the number computed from the reproduced trainings. It is computed from the recorded values instead if not
            all trainings were reproduced.
    """

    trial: int
    key: str
    said: Any
    recorded: float | None
    given: float | None

    @property
    def holds(self) -> bool:
        """Whether the reported number equals `recorded`."""
        if self.recorded is None or self.said is None:
            return self.said is None and self.recorded is None
        if not is_number(self.said):
            return False
        return math.isclose(self.said, self.recorded, rel_tol=_ROUNDING, abs_tol=_ROUNDING * abs(self.recorded))


def refuse_contradictions(report: Mapping[str, Any], config: StudyConfig) -> None:
    """Raise StudyError if the report has invalid numbers or contradicts the study's configuration."""
    winner = inner(report, "winner")
    scores = {"winner.score": winner.get("score")} if winner.get("score") is not None else {}
    scores |= {f"winner.values.{name}": value for name, value in inner(winner, "values").items()}
    numbers = ((key, value) for key, value in leaves(report) if is_number(value))
    wrong = {key: value for key, value in numbers if not (abs(value) < TOO_LARGE and math.isfinite(value))}
    wrong |= {key: value for key, value in scores.items() if not is_number(value) or number(value) is None}
    for key, value in wrong.items():
        text = str(value) if is_number(value) else repr(value)
        raise StudyError(
            f"report.json: {key} must be a finite number below 1e300, given {text:.40}; hpo never writes such a value, "
            f"so restore the original report"
        )
    _refuse_differences(report, _config_values(config), "the configuration of the study")


def refuse_other_study(recorded: Recorded) -> None:
    """Raise StudyError if the report's winner is no complete trial, or if the report contradicts the study."""
    _refuse_other_winner(recorded)
    for row in recorded.rows:
        if row["number"].isdigit():
            recorded.fresh_scores(int(row["number"]))
        own = point_of(row, recorded.study.space)
        for where, entry in _entries(recorded.files.report, row["number"]):
            point = entry.get("point")
            if isinstance(point, Mapping) and own is not None and dict(point) != own:
                raise StudyError(
                    f"report.json: {where}.point is not the point of trial {row['number']} in the study; restore the "
                    f"original report"
                )
    _refuse_differences(recorded.files.report, _study_numbers(recorded), "the study")


def reported_numbers(recorded: Recorded, repetitions: Sequence[Repetition]) -> list[ReportedNumber]:
    """Return the report's numbers about the reproduced trials; an empty list without a report."""
    rows = {row["number"]: row for row in recorded.rows}
    reported: list[ReportedNumber] = []
    for trial in dict.fromkeys(repetition.trial for repetition in repetitions):
        own = [repetition for repetition in repetitions if repetition.trial == trial]
        old, new = _numbers_of_search(recorded, rows[str(trial)], [each for each in own if not each.is_fresh])
        if fresh := [each for each in own if each.is_fresh]:
            old_fresh, new_fresh = _numbers_of_fresh_seeds(recorded, fresh)
            old |= {f"fresh.{name}": value for name, value in old_fresh.items()}
            new |= {f"fresh.{name}": value for name, value in new_fresh.items()}
        for where, entry in _entries(recorded.files.report, str(trial)):
            named = ((key, _common_key(key, entry), value) for key, value in leaves(entry))
            reported += [
                ReportedNumber(trial, f"{where}.{key}", value, old[name], new[name])
                for key, name, value in named
                if name in old
            ]
    return reported


def _common_key(key: str, entry: Mapping[str, Any]) -> str:
    """Convert a report's key to the key in `_Numbers`, such as `fresh_score` to `fresh.score`."""
    if key == "validation_score":
        return "fresh.score" if "search_score" in entry else "score"
    return key.replace("fresh_", "fresh.", 1) if key.startswith("fresh_") else key.removeprefix("search_")


def _numbers_of_search(recorded: Recorded, row: Row, repetitions: Sequence[Repetition]) -> tuple[_Numbers, _Numbers]:
    """Compute a trial's reported numbers twice: from trials.csv, and from the reproduced trainings."""
    goal = recorded.study.goal
    values = {name: float(row[name]) for name in _task_names(recorded)}
    means = {name: float(row[column]) for name, column in metric_columns(row, goal).items()}
    amount: _Numbers = {"amount": amount_of(row)}
    old, new = _recorded_and_reproduced(values, means, repetitions, goal)
    return old | amount, new | amount


def _numbers_of_fresh_seeds(recorded: Recorded, repetitions: Sequence[Repetition]) -> tuple[_Numbers, _Numbers]:
    """Compute a finalist's reported numbers on fresh seeds twice: from recorded scores, and from reproduced scores."""
    # The report lists the values without names.
    trainings = [each for each in repetitions if not each.is_mean]
    numbered = [replace(each, name=str(at)) for at, each in enumerate(trainings)]
    means = [each for each in repetitions if each.is_mean]
    recorded_values, recorded_means = ({each.name: each.recorded for each in part} for part in (numbered, means))
    return _recorded_and_reproduced(recorded_values, recorded_means, [*numbered, *means], recorded.study.goal)


def _recorded_and_reproduced(
    values: Mapping[str, float], means: Mapping[str, float], repetitions: Sequence[Repetition], goal: Goal
) -> tuple[_Numbers, _Numbers]:
    """Compute a trial's reported numbers twice: from the recorded values, and from the reproduced trainings.

    `values` has the recorded value of the leading metric for each training. `means` has the recorded means by name in
    `goal.names`.

    If every training was reproduced, the second result uses the reproduced values. Otherwise, it uses all of `values`,
    because no mean may mix reproduced and recorded values. A mean that was not reproduced keeps its recorded value.
    """
    done = [(each, each.reproduced) for each in repetitions if each.reproduced is not None]
    reproduced = {each.name: value for each, value in done if not each.is_mean}
    # Do not mix reproduced and recorded values in one mean.
    now = reproduced if len(reproduced) == len(values) else values
    # Metrics that were not reproduced, or are not compared, keep their recorded mean.
    means_now = {**means, **{each.name: value for each, value in done if each.is_mean}}
    old, new = _trial_numbers(values), _trial_numbers(now)
    if len(goal.names) == 1:
        return old, new
    return old | _numbers_of_several(values, means, goal), new | _numbers_of_several(now, means_now, goal)


def _task_names(recorded: Recorded) -> list[str]:
    layout = recorded.study.layout
    return [layout.name(index) for index in range(layout.size)]


def unchecked(recorded: Recorded, reported: Sequence[ReportedNumber]) -> list[str]:
    """Return the report's keys whose numbers are unchecked. A key may stand for a whole section; see `_unchecked_keys`.

    The checked keys are: `format`, `winner.number`, the keys of `reported` and `_study_numbers`, most keys of
    `_config_values`, and the numbers and points of the reported trials. All other keys count as unchecked.
    """
    report, config = recorded.files.report, recorded.study.config
    # Of the settings in `config`, only those that decide trials count as checked, because the report repeats the others
    # nowhere.
    own = plain_own(config.objective_config)
    decisive = tuple(f"config.{name}." for name in (*own, "space", "strategy", "split"))
    checked = {"format", "winner.number", *(each_number.key for each_number in reported), *_study_numbers(recorded)}
    checked |= {key for key in _config_values(config) if not key.startswith("config.") or key.startswith(decisive)}
    for trial in {each_number.trial for each_number in reported}:
        for where, entry in _entries(report, str(trial)):
            checked |= {f"{where}.number", f"{where}.trial"}
            checked |= {key for key, _ in leaves(entry.get("point"), f"{where}.point")}
    return [name for key, part in report.items() for name in _unchecked_keys(part, key, checked)]


def _unchecked_keys(part: Any, key: str, checked: Collection[str], is_inner: bool = False) -> list[str]:
    """Return the names of those parts of a section that have unchecked numbers.

    If no number of the section is checked, or if too many parts have unchecked numbers, name only the section.
    """
    numbers = [place for place, value in leaves(part, key) if is_number(value)]
    if not any(place not in checked for place in numbers):
        return []
    if not any(place in checked for place in numbers):
        return [key]
    rest = [f"other numbers of {key}"]
    if is_inner or not isinstance(part, Mapping):
        return rest
    inside = [
        name for last, each in part.items() for name in _unchecked_keys(each, f"{key}.{last}", checked, is_inner=True)
    ]
    return inside if len(inside) <= _MOST_NAMED else rest


def _trial_numbers(values: Mapping[str, float]) -> _Numbers:
    """Return a trial's score, and statistics of `values`, as a dict with the keys of a report.

    `values` has the value of the leading metric for each training. The score is the mean of `values`.
    """
    numbers = list(values.values())
    return {
        "score": math.fsum(numbers) / len(numbers),
        "n": len(numbers),
        "standard_deviation": statistics.stdev(numbers) if len(numbers) > 1 else None,
        **{f"values.{name}": value for name, value in values.items()},
    }


def _numbers_of_several(values: Mapping[str, float], means: Mapping[str, float], goal: Goal) -> _Numbers:
    """Return a trial's interval, standard error, means and excess over the limits, by their keys in a report.

    Call this function only if `goal` has several names. If `goal` has one name, a report does not have these keys.

    `values` has the value of the leading metric for each training. `means` has, for each other name in `goal.names`,
    the mean over the trainings.
    """
    numbers, name = [*values.values()], f"scores.{goal.metric}"
    means = {**means, goal.metric: math.fsum(values.values()) / len(values)}
    low, high = interval(numbers) or (None, None)
    return {
        f"{name}.interval.0": low,
        f"{name}.interval.1": high,
        f"{name}.standard_error": statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else None,
        **{f"{key}.{name}": mean for name, mean in means.items() for key in ("scores", "validation_metrics")},
        **{f"scores.{name}.mean": mean for name, mean in means.items()},
        **({"excess": goal.excess(means)} if means.keys() == {*goal.names} else {}),
    }


def _config_values(config: StudyConfig) -> dict[str, Any]:
    """Return the values that the report must have according to the configuration, by dotted key."""
    study = config.study
    own = {"name": study.name, "seed": study.seed, "objective": config.objective, "intent": config.report.intent}
    tree = {
        "study": own | {"budget": describe_budget(study)},
        "metric": {"name": study.metric, "direction": study.direction},
        "data": {"split": {"seed": config.split.seed}},
        "strategy": config.strategy,
        "fixed": config.fixed,
        # `hpo sync` may send a report to another store than the configuration's.
        "config": without(config.to_dict(), "track"),
        "counts": {"budget": study.trials},
        "winner": {"run": {"study": study.name}},
        "fields": [{"number": number} for number in range(1, 1 + len(FIELDS))],
    }
    return dict(leaves(tree))


def _study_numbers(recorded: Recorded) -> dict[str, Any]:
    """Return the numbers that the report must have according to the study, by dotted key."""
    study = recorded.study
    tree: dict[str, Any] = {}
    if recorded.winner is not None:
        tree["winner"] = {"run": {"trial": int(recorded.winner["number"])}}
    if recorded.is_same_study:
        # Only size and split are compared, because another comparison covers the hashes of files.
        data = {key: value for key, value in describe_data(study).items() if key in ("size", "split")}
        tree |= {**describe_space(study), "counts": {"tasks_per_trial": study.layout.size}, "data": data}
    return {key: value for key, value in leaves(tree) if is_number(value)}


def _entries(report: Mapping[str, Any], trial: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the dotted key and the content of each part that a report has about one trial.

    `trial` is the trial's number as text.
    """
    for place, name in _PARTS_OF_TRIALS.items():
        *before, last = place.split(".")
        part = inner(report, *before).get(last)
        listed = {f"{place}.{at}": each for at, each in enumerate(part)} if isinstance(part, list) else {place: part}
        for where, entry in listed.items():
            if isinstance(entry, Mapping) and str(entry.get(name)) == trial:
                yield where, entry


def leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every leaf of a JSON tree."""
    # A loop instead of recursion, because a stranger's report may be deeply nested.
    stack = [(key, tree)]
    while stack:
        key, branch = stack.pop()
        if isinstance(branch, Mapping | list | tuple):
            inside = branch.items() if isinstance(branch, Mapping) else enumerate(branch)
            stack += [(f"{key}.{name}" if key else str(name), value) for name, value in inside][::-1]
        else:
            yield key, branch


def _refuse_differences(report: Mapping[str, Any], expected: Mapping[str, Any], source: str) -> None:
    for key, value in leaves(report):
        if key in expected and value != expected[key]:
            raise StudyError(
                f"report.json: {key} is {value!r}, but {source} has {expected[key]!r}; restore the original files"
            )


def _refuse_other_winner(recorded: Recorded) -> None:
    """Raise StudyError if the report's winner is no complete trial, or if its tasks are not the study's tasks."""
    winner = recorded.files.report.get("winner")
    if not isinstance(winner, Mapping) or is_missing(winner):
        return
    row, names = recorded.winner, _task_names(recorded)
    if row is None or row["number"] != str(winner.get("number")):
        number = winner.get("number")
        raise StudyError(
            f"report.json: winner.number is {number!r}, but no complete trial has this number; restore the original "
            f"report"
        )
    for name in {*names} ^ {*inner(winner, "values")}:
        problem = "is missing" if name in names else "is no task of the study"
        raise StudyError(
            f"report.json: winner.values.{name} {problem} (the study's tasks: {', '.join(names)}); restore the "
            f"original report"
        )
