"""The complete, frozen configuration of a study. An error message names the key of the invalid value."""

import math
import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from hpo.config.composing.references import with_point, with_values
from hpo.config.documents import refuse_optimized_python
from hpo.config.goals import at_scale
from hpo.config.keys import OWN, flatten, own_part, plain_own, within, without
from hpo.config.keys import SEARCH_SECTIONS as SEARCH_SECTIONS
from hpo.config.secrets import redact, redacted_keys
from hpo.config.sections import (
    DispatchSection,
    ObjectiveText,
    ReportSection,
    Section,
    SplitSection,
    StudyName,
    StudySection,
    TrackSection,
    conflict,
)
from hpo.errors import ConfigError, nearest

# Only these keys of the search may refer to an environment variable, because addresses can contain passwords. The
# others decide the study, so their values are written to files.
_ADDRESSES = ("study.storage", "track.uri", "dispatch.address")

# Integers of this size or larger are refused, because readers cannot parse them.
TOO_LARGE = 10**300
_NUM_CHARACTERS = 40  # the number of characters of a value that a message shows

# The keys whose values are paths of data files.
DATA_SOURCES = ("data.path", "data.train", "data.validation", "data.test", "data.curves")

# Keys that may change when a study is resumed, because no trial depends on them. The numbers of threads and processes
# may not change: they change the order of additions, and so the last digits of a score.
FREE_KEYS = (
    *("study.trials", "study.minutes", "study.stop_without_gain", "study.target", "study.stop_after_failures"),
    *("study.winner", "study.limits_after", "study.on_trial", "study.trial_files_bytes"),
    *("study.choose", "study.checkpoints", "study.finalists", "study.finalist_repeats"),
    *("study.mirror", "study.artifacts"),
    *(f"dispatch.{name}" for name in DispatchSection.model_fields if name not in ("threads", "processes_per_task")),
    *(f"track.{name}" for name in TrackSection.model_fields),
    *(f"report.{name}" for name in ReportSection.model_fields),
)


class StudyConfig(Section):
    """The complete configuration of a study.

    `objective_config` is the objective's own tree: all keys outside of the sections. A trial sets the values of its
    point in this tree. `secrets` holds the secret values of the configuration by name; no file stores these values
    (see `hpo.config.secrets`).
    """

    study: StudySection
    objective: ObjectiveText
    space: dict[str, Any]
    strategy: dict[str, Any]
    split: SplitSection
    dispatch: DispatchSection
    track: TrackSection
    report: ReportSection
    objective_config: dict[str, Any]
    secrets: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the plain tree that `config_from_dict` reads; for the objective's own keys, see `plain_own`."""
        tree = self.model_dump(mode="json")
        return {**plain_own(tree.pop(OWN)), **tree}

    def with_study(self, **values: Any) -> Self:
        """Return a copy of the configuration with `values` in the section `study`; the values are not checked."""
        return self.model_copy(update={"study": self.study.model_copy(update=values)})

    def with_report(self, texts: Mapping[str, str | bool | None]) -> Self:
        """Return a copy of the configuration with `texts` in the section `report`; ConfigError if one is invalid."""
        try:
            report = ReportSection.model_validate({**self.report.model_dump(), **texts})
        except ValidationError as error:
            raise ConfigError(explain(error, "report.")) from error
        return self.model_copy(update={"report": report})

    @model_validator(mode="after")
    def _has_workers_for_artifacts(self) -> Self:
        if self.study.artifacts is not None and not self.dispatch.type.has_own_processes:
            given = f"given dispatch={self.dispatch.name}"
            text = f"has an effect only with dispatch=ray, {given}; leave out study.artifacts"
            raise conflict(text, "study.artifacts")
        return self

    @property
    def artifacts(self) -> str | None:
        """The URL where the study's states and models are stored; None = in the study's folder."""
        return None if self.study.artifacts is None else f"{self.study.artifacts.rstrip('/')}/{self.study.name}"

    @property
    def has_own_strategy(self) -> bool:
        """Whether the strategy is a user's class (`module:Class`), not a strategy of the toolkit or of a package."""
        return ":" in str(self.strategy.get("name"))

    def trial_config(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the objective's configuration for a trial: set the point's values, and resolve references to them."""
        dumped = self.model_dump(mode="json", exclude={OWN}) if self.study.references else {}
        sections = {name: section for name, section in dumped.items() if name not in self.objective_config}
        values = at_scale(point, self.study.scales)
        whole = with_point({**sections, **self.objective_config}, values, self.study.references)
        return {name: branch for name, branch in whole.items() if name not in sections}

    @property
    def fixed(self) -> dict[str, Any]:
        """The objective's configuration by dotted key; references to searched keys stay text, such as `${lr}`."""
        return flatten(with_values(self.objective_config, self.study.references or {}))


def is_free(key: str) -> bool:
    """Return whether a key may change when a study is resumed: the key is one of `FREE_KEYS`, or below one of them."""
    return any(within(key, free) for free in FREE_KEYS)


def config_from_dict(tree: Mapping[str, Any]) -> StudyConfig:
    """Check a plain tree, and return the study's configuration; ConfigError names the full key of a wrong value."""
    refuse_optimized_python()
    refuse_unwritable(tree)
    section = tree.get("study")
    references = section.get("references") if isinstance(section, Mapping) else None
    # A reference such as `${keys.mine}` is no secret, even if its key looks like one; see `refuse_secrets`.
    tree, secrets = redact(tree if references is None else without(tree, "study.references"))
    sections = {name: tree[name] for name in SEARCH_SECTIONS if name in tree}
    refuse_redacted(sections)
    if references is not None:
        sections["study"] = {**sections["study"], "references": references}
    values = sections | {OWN: own_part(tree), "secrets": secrets}
    try:
        return StudyConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error


def refuse_unwritable(tree: Any, key: str = "") -> None:
    """Raise ConfigError for a value that cannot be written to a file and read back unchanged.

    JSON has no infinity, files cannot store a lone surrogate, and Python does not read numbers of thousands of digits.
    """
    if isinstance(tree, Mapping | list):
        for name, branch in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            refuse_unwritable(branch, f"{key}.{name}" if key else str(name))
    elif isinstance(tree, float) and not math.isfinite(tree):
        raise ConfigError(
            f"{key}: must be a finite number, given {tree}; JSON cannot represent {tree}, so give null, or a text "
            f"that the objective converts: {key}='\"{tree}\"'"
        )
    elif isinstance(tree, int) and abs(tree) >= TOO_LARGE:
        raise ConfigError(f"{key}: must have an absolute value below 1e300; give a number nearer to 0")
    elif isinstance(tree, str) and any("\ud800" <= sign <= "\udfff" for sign in tree):
        raise ConfigError(f"{key}: must be valid Unicode, given {tree[:_NUM_CHARACTERS]!a} with a lone surrogate")


def refuse_redacted(sections: Mapping[str, Any]) -> None:
    """Raise ConfigError if a value refers to an environment variable, unless its key is in `_ADDRESSES`."""
    for key in redacted_keys(sections):
        if key not in _ADDRESSES:
            raise ConfigError(
                f"{key}: must not refer to the environment; only {', '.join(_ADDRESSES)} and the objective's own keys "
                f"may refer to it; let the shell insert the value: {key}=$NAME"
            )


def study_name(given: str, option: str) -> str:
    """Return the name if it is valid for a study; otherwise raise ConfigError, whose message begins with `option`."""
    try:
        return str(TypeAdapter(StudyName).validate_python(given))
    except ValidationError as error:
        raise ConfigError(explain(error, option)) from error


def explain(error: ValidationError, prefix: str = "") -> str:
    """Describe, in one line, the first error of a validation: the full key, what is allowed, and what was given."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "cross_field":
        return f"{', '.join(first['ctx']['keys'])}: {first['msg']}"
    names = [str(part) for part in first["loc"] if not str(part).startswith(("function-", "constrained-", "literal["))]
    key = f"{prefix}{'.'.join(names)}" or "config"
    if first["type"] == "extra_forbidden":
        return f"{key}: there is no such key; remove it, or list the keys with `hpo search --cfg job`"
    if first["type"] == "missing":
        return f"{key}: is missing; give it a value"
    others = {fault["type"] for fault in error.errors(include_url=False) if fault["loc"][:-1] == first["loc"][:-1]}
    or_bool = ", or true or false" if first["type"] == "literal_error" and "bool_type" in others else ""
    rule = re.sub("^(Input|String) should", "must", first["msg"].removeprefix("Value error, "))
    hint = ""
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        hint = nearest(first["input"], re.findall(r"'([^']+)'", first["ctx"]["expected"]))
    return f"{key}: {rule}{or_bool}, given {first['input']!r}{hint}"


def keys_at_fault(error: BaseException) -> tuple[str, ...]:
    """Return the keys that an error of `conflict` names; for any other error, return no keys."""
    if not isinstance(error, ValidationError):
        return ()
    return tuple(key for fault in error.errors() for key in fault.get("ctx", {}).get("keys", ()))
