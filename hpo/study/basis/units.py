"""The units of metrics, and the settings that change the units; scores in different units cannot be compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from hpo.config.goals import changed_keys
from hpo.config.keys import within
from hpo.config.study_config import StudyConfig, explain
from hpo.errors import DataError
from hpo.study.basis.described import Described
from hpo.study.files.folder import StudyFolder, short_path
from hpo.trials.space.reader import leaves, parted
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.objective.resolution import resolve

Varied = Mapping[str, Sequence[Any] | None]
"""The keys that vary between trials, each with its values; None = the values are not listed."""


@checked(frozen=True, config=ConfigDict(extra="forbid"))
class Unit:
    """The unit of a metric.

    Attributes:
        unit: the unit's name, such as "tokens".
        depends_on: the settings that change the unit, by dotted key, each with its current value.
        alike: for some of these settings, by dotted key, a list of the setting's values that all give the same unit.
            If a setting has different values for two scores, the scores can be compared only if both values of the
            setting are in the list.
    """

    unit: str
    depends_on: Mapping[str, Any] = field(default_factory=dict)
    alike: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def changed_by(self, varied: Varied) -> list[str]:
        """Return the settings of `depends_on` whose variation may change the unit.

        A setting varies if `varied` contains its key, or a key above or below it. Skip a setting if all its values in
        `varied` give the same unit (see `is_same`).
        """
        return [
            setting
            for setting in self.depends_on
            if any(
                (within(setting, key) or within(key, setting)) and not (setting == key and self.is_same(key, values))
                for key, values in varied.items()
            )
        ]

    def is_same(self, key: str, values: Sequence[Any] | None) -> bool:
        """Return whether all these values of the setting `key` give the metric one and the same unit.

        Return False if `values` is None.
        """
        return values is not None and all(value in self.alike.get(key, ()) for value in values)


@dataclass(frozen=True)
class Units:
    """The units of a configuration's metrics, from the objective's function `describe_method`.

    Attributes:
        metrics: the names of the metrics that the objective lists; may be empty.
        by_metric: the units that `describe_method` returns in `counted_in`, by metric name; None without `counted_in`.
            If a metric is not in this mapping, its unit depends on no setting.
    """

    metrics: Collection[str]
    by_metric: Mapping[str, Unit] | None

    @classmethod
    def of(cls, method: Mapping[str, Any], objective: str) -> "Units":
        """Return the units in the result of an objective's `describe_method`.

        Raise DataError if `counted_in` in this result is malformed.
        """
        try:
            units = TypeAdapter(dict[str, Unit] | None).validate_python(method.get("counted_in"))
        except ValidationError as error:
            raise DataError(
                f"objective: {ObjectivePath.of(objective).owner}.describe_method: {explain(error, 'counted_in.')}"
            ) from error
        return cls([*(method.get("metrics") or ())], units)

    @classmethod
    def at(cls, folder: StudyFolder, config: StudyConfig) -> "Units":
        """Return the units of an existing study with this frozen configuration.

        A published study has no file with units. Its units come from the objective if the objective is the toolkit's
        own. Otherwise the units are unknown, because user code must not run.
        """
        described = Described.at(short_path(folder.described_path))
        if described is None and config.objective.startswith("model."):
            objective = resolve(config.objective, str(Path.cwd()), config.secrets)
            return cls.of(objective.method(config.objective_config), config.objective)
        return cls.of(described.method if described else {}, config.objective)

    def __getitem__(self, metric: str) -> Unit:
        return (self.by_metric or {}).get(metric, Unit(metric))

    def unchanged_by(self, varied: Varied) -> list[str]:
        """Return the metrics whose units are the same for all values of the varied keys."""
        return [metric for metric in self.metrics if not self[metric].changed_by(varied)]

    def differences(self, metric: str, other: "Units") -> dict[str, tuple[Any, Any]]:
        """Return the settings that give a metric different units in `self` and in `other`.

        Each setting maps to a pair: its value in `self` and its value in `other`. If the unit in `self` does not depend
        on the setting, the first value is None. If the unit in `other` does not depend on the setting, the second value
        is None. If `by_metric` is None in `self` or in `other`, return {}.
        """
        if self.by_metric is None or other.by_metric is None:
            return {}
        ours, theirs = self[metric].depends_on, other[metric].depends_on
        values = {key: (ours.get(key), theirs.get(key)) for key in {**ours, **theirs}}
        return {key: both for key, both in values.items() if both[0] != both[1] and not self[metric].is_same(key, both)}

    def same_as(self, other: "Units") -> list[str]:
        """Return the metrics whose unit is the same in this object and in `other`."""
        return [metric for metric in self.metrics if not self.differences(metric, other)]


def varied_keys(config: StudyConfig) -> Varied:
    """Return the keys that vary between trials: searched keys, keys that refer to them, and keys that scales change."""
    searched = {".".join(path): _listed_values(dimension) for path, dimension in leaves(parted(config.space)[0])}
    scales = config.study.scales or ()
    scaled = {key: [changes.get(key) for changes in scales] for key in changed_keys(scales)}
    scaled = {key: values for key, values in scaled.items() if any(value != values[0] for value in values)}
    return {**searched, **dict.fromkeys(config.study.references or {}), **scaled}


def _listed_values(dimension: Any) -> Sequence[Any] | None:
    given = dimension.get("values", dimension.get("choices")) if isinstance(dimension, Mapping) else dimension
    return given if isinstance(given, list | tuple) else None
