"""What metrics are counted in, and the settings that change it: whether two scores may be compared."""

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
"""The keys that differ between trials, each with its values; None where they are not listed."""


@checked(frozen=True, config=ConfigDict(extra="forbid"))
class Unit:
    """What a metric is counted in.

    Attributes:
        unit: such as "tokens", to say it.
        depends_on: the settings that change it, by dotted key, with their values; the same metric under other values
            is another, and its scores do not compare.
        alike: by such a setting the values under which the metric is the same, if there are any.
    """

    unit: str
    depends_on: Mapping[str, Any] = field(default_factory=dict)
    alike: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def changed_by(self, varied: Varied) -> list[str]:
        """Return the settings that change it among those that vary, or inside or around one of them."""
        return [
            mine
            for mine in self.depends_on
            if any(
                (within(mine, key) or within(key, mine)) and not (mine == key and self.is_same(key, values))
                for key, values in varied.items()
            )
        ]

    def is_same(self, key: str, values: Sequence[Any] | None) -> bool:
        """Return whether the metric is the same under all these values of a setting; None = not known."""
        return values is not None and all(value in self.alike.get(key, ()) for value in values)


@dataclass(frozen=True)
class Units:
    """The units of all metrics of a configuration, as `describe_method` says them; others depend on nothing.

    Attributes:
        metrics: all that the objective says it has; may be empty.
        by_metric: of those that depend on settings; None where the objective does not say.
    """

    metrics: Collection[str]
    by_metric: Mapping[str, Unit] | None

    @classmethod
    def of(cls, method: Mapping[str, Any], objective: str) -> "Units":
        """Read what `describe_method` of this objective returned; DataError where that cannot be read."""
        try:
            units = TypeAdapter(dict[str, Unit] | None).validate_python(method.get("counted_in"))
        except ValidationError as error:
            raise DataError(
                f"objective: {ObjectivePath.of(objective).owner}.describe_method: {explain(error, 'counted_in.')}"
            ) from error
        return cls([*(method.get("metrics") or ())], units)

    @classmethod
    def at(cls, folder: StudyFolder, config: StudyConfig) -> "Units":
        """Return the units of a study that exists, with this frozen configuration.

        A published study does not have them: the toolkit's own objective is asked, no other.
        """
        described = Described.at(short_path(folder.described_path))
        if described is None and config.objective.startswith("model."):
            objective = resolve(config.objective, str(Path.cwd()), config.secrets)
            return cls.of(objective.method(config.objective_config), config.objective)
        return cls.of((described and described.method) or {}, config.objective)

    def __getitem__(self, metric: str) -> Unit:
        return (self.by_metric or {}).get(metric, Unit(metric))

    def unchanged_by(self, varied: Varied) -> list[str]:
        """Return the metrics that none of the settings that vary changes."""
        return [metric for metric in self.metrics if not self[metric].changed_by(varied)]

    def differences(self, metric: str, other: "Units") -> dict[str, tuple[Any, Any]]:
        """Return the settings that make the metric another one there, each with both values.

        None stands for a setting on which it does not depend. Empty where one of the objectives does not say.
        """
        if self.by_metric is None or other.by_metric is None:
            return {}
        ours, its = self[metric].depends_on, other[metric].depends_on
        values = {key: (ours.get(key), its.get(key)) for key in {**ours, **its}}
        return {key: both for key, both in values.items() if both[0] != both[1] and not self[metric].is_same(key, both)}

    def same_as(self, other: "Units") -> list[str]:
        """Return the metrics that are the same there."""
        return [metric for metric in self.metrics if not self.differences(metric, other)]


def varied_keys(config: StudyConfig) -> Varied:
    """Return what differs between trials in the trial's own tree: the searched, what refers to those, and what scales
    change.
    """
    searched = {".".join(path): _listed(dimension) for path, dimension in leaves(parted(config.space)[0])}
    scales = config.study.scales or ()
    scaled = {key: [changes.get(key) for changes in scales] for key in changed_keys(scales)}
    scaled = {key: values for key, values in scaled.items() if any(value != values[0] for value in values)}
    return {**searched, **dict.fromkeys(config.study.references or {}), **scaled}


def _listed(dimension: Any) -> Sequence[Any] | None:
    given = dimension.get("values", dimension.get("choices")) if isinstance(dimension, Mapping) else dimension
    return given if isinstance(given, list | tuple) else None
