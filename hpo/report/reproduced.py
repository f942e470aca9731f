"""The numbers of a report that follow from trainings which were compared again: worked out, and set beside it.

What people read must be what is checked: a training that comes out the same says nothing of a score above it.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.own_keys import plain_own
from hpo.engine.trials.table import Row
from hpo.report.analysis.interval import interval
from hpo.report.part import is_missing
from hpo.report.repeated import entries, is_number, leaves, repeated, repeated_of_study
from hpo.study.reproduce.again import Repetition
from hpo.study.reproduce.recorded import Recorded, amount_of

# A figure follows from recorded numbers; only libraries of other versions may round it in another way.
_ROUNDING = 1e-9


# A trial's score under other names.
_SAME = {"search_score": "score", "validation_score": "score"}


# Parts of a section that are named one by one.
_FEW = 3


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


def reported_numbers(recorded: Recorded, repetitions: Sequence[Repetition]) -> list[ReportedNumber]:
    """Return the numbers of the report about the trials that were trained again; none without a report."""
    by_trial: dict[int, list[Repetition]] = {}
    for repetition in repetitions:
        by_trial.setdefault(repetition.trial, []).append(repetition)
    rows = {row["number"]: row for row in recorded.rows}
    return [
        figure for number, again in by_trial.items() for figure in _of_trial(recorded, rows[str(number)], number, again)
    ]


def unchecked(recorded: Recorded, figures: Sequence[ReportedNumber]) -> list[str]:
    """Return the keys of the report below which numbers were not compared with anything, by section where possible.

    What is compared is listed, in `repeated` and `figures_of`; whatever else a report holds is named by itself.
    """
    report, config = recorded.report, recorded.study.config
    checked = {"format", "winner.number", *(figure.key for figure in figures)}
    # Of the configuration, what its trials depend on: a report alone repeats the other settings nowhere.
    own = plain_own(config.objective_config)
    decisive = tuple(f"config.{name}." for name in (*own, "space", "strategy", "split"))
    checked |= {key for key in repeated(config) if not key.startswith("config.") or key.startswith(decisive)}
    checked |= {*repeated_of_study(recorded)}
    for trial in {figure.trial for figure in figures}:
        for where, entry in entries(report, str(trial)):
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


def _of_trial(recorded: Recorded, row: Row, number: int, again: Sequence[Repetition]) -> Iterator[ReportedNumber]:
    study = recorded.study
    before = {name: float(row[name]) for name in map(study.layout.name, range(study.layout.size))}
    now = {each.name: each.reproduced for each in again if each.reproduced is not None}
    # A mean of some trained and some recorded values would be of neither.
    old, new = (_given(values, amount_of(row)) for values in (before, now if len(now) == len(before) else before))
    for where, entry in entries(recorded.report, str(number)):
        for key, said in leaves(entry):
            name = _SAME.get(key, key)
            if name in old:
                yield ReportedNumber(number, f"{where}.{key}", said, old[name], new[name])


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
