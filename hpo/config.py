"""The configuration of a study: frozen sections with every rule, and errors that name the key."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from hpo.errors import ConfigError, nearest
from hpo.keys import replaced
from hpo.sealing import seal, sealed_keys
from hpo.space import Point

# What belongs to the search and is never sent to a worker; everything else is the trial's own tree.
SEARCH_SECTIONS = ("study", "objective", "space", "strategy", "split", "dispatch", "track", "report")

# Where the value of an environment variable may stand in these: addresses, which may hold passwords. The others decide
# the study, and are written down.
_ADDRESSES = ("study.storage", "track.uri", "dispatch.address")

# Keys that may change between a study and its resumption because no trial depends on them. The number of
# threads is not among them: it changes the order of additions and with it the last digits of a score.
FREE_KEYS = (
    "study.trials",
    "study.checkpoints",
    "study.finalists",
    "study.finalist_repeats",
    "dispatch.name",
    "dispatch.workers",
    "dispatch.cpus_per_worker",
    "dispatch.gpus_per_worker",
    "dispatch.gpus",
    "dispatch.retries",
    "dispatch.address",
    "dispatch.allow_open_cluster",
    "dispatch.timeout_seconds",
    "track.name",
    "track.uri",
    "track.experiment",
    "report.title",
    "report.intent",
    "report.data_version",
    "report.data_source",
    "report.data_licence",
    "report.exclusions",
)


def _safe_name(name: str) -> str:
    if ".." in name or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise ValueError(
            "must be 1 to 100 letters, digits, '.', '_' or '-', start with a letter or digit, without '..'"
        )
    return name


# Bounds of counts and seeds, beyond all use: what is larger is a slip, and would end in a full memory or in a number
# that a library refuses (seeds of NumPy's RandomState and of scikit-learn have 32 bits, and repeats add to them).
MOST = 100_000_000
MOST_SEED = 2**31 - 1

StudyName = Annotated[str, AfterValidator(_safe_name)]
ObjectivePath = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]


class Section(BaseModel):
    """Base of the sections: frozen, strictly typed, no unknown keys. Values and comments stand in conf/."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class StudySection(Section):
    """What is searched for, and how long. See conf/study."""

    name: StudyName
    seed: int = Field(ge=0, le=MOST_SEED)
    trials: int = Field(ge=1, le=MOST)
    metric: str = Field(min_length=1)
    direction: Literal["maximize", "minimize"]
    repeats: int = Field(ge=1, le=MOST)
    finalists: int = Field(ge=0, le=MOST)
    finalist_repeats: int = Field(ge=1, le=MOST)
    imports: str | None
    checkpoints: int = Field(ge=1, le=MOST)
    storage: str | None


class SplitSection(Section):
    """How the data is divided. See conf/split."""

    folds: int | None = Field(ge=1, le=MOST)
    seed: int = Field(ge=0, le=MOST_SEED)
    test_fraction: float = Field(gt=0, lt=1)
    validation_fraction: float = Field(gt=0, lt=1)
    stratify: bool
    race_after: int | None = Field(ge=2, le=MOST)
    race_level: float = Field(gt=0, lt=0.5)

    @model_validator(mode="after")
    def _has_folds_to_save(self) -> Self:
        if self.race_after is not None and self.folds is not None and self.folds <= self.race_after:
            raise PydanticCustomError(
                "cross_field",
                "must leave folds to save, given {after} of {folds} folds; give more folds, or race_after=null",
                {"after": self.race_after, "folds": self.folds, "keys": ["split.race_after", "split.folds"]},
            )
        return self

    @model_validator(mode="after")
    def _leaves_training(self) -> Self:
        if self.test_fraction + self.validation_fraction >= 1:
            raise PydanticCustomError(
                "cross_field",
                "must add up to less than 1, given {sum}; lower one of them",
                {
                    "sum": self.test_fraction + self.validation_fraction,
                    "keys": ["split.test_fraction", "split.validation_fraction"],
                },
            )
        return self


class DispatchSection(Section):
    """Where tasks run. See conf/dispatch."""

    name: Literal["local", "ray", "simulated"]
    workers: int | None = Field(ge=1, le=MOST)
    threads: int = Field(ge=1, le=MOST)
    cpus_per_worker: float = Field(gt=0)
    gpus_per_worker: float = Field(ge=0)
    gpus: int | None = Field(ge=0, le=MOST)
    retries: int = Field(ge=0, le=MOST)
    timeout_seconds: float | None = Field(gt=0)
    address: str | None
    # A default, unlike all others, so that what was frozen before the key existed can be read.
    allow_open_cluster: bool = False

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.name == "local" and (self.workers or 1) > 1:
            raise PydanticCustomError(
                "cross_field",
                "must be 1 with dispatch=local, which runs one task at a time, given {workers}; use dispatch=ray",
                {"workers": self.workers, "keys": ["dispatch.workers"]},
            )
        if self.gpus_per_worker > 1 and self.gpus_per_worker != math.floor(self.gpus_per_worker):
            raise PydanticCustomError(
                "cross_field",
                "must be a whole number above 1, given {gpus}; use 0.5, 1 or 2",
                {"gpus": self.gpus_per_worker, "keys": ["dispatch.gpus_per_worker"]},
            )
        return self


class TrackSection(Section):
    """Where runs are shown. See conf/track."""

    name: Literal["mlflow", "none"]
    uri: str = Field(min_length=1)
    # MLflow takes no longer name.
    experiment: str = Field(min_length=1, max_length=500)


class ReportSection(Section):
    """What only a person knows; the report shows it, and nothing depends on it. See conf/report.

    The defaults stand here too, so that studies from before there was this section can be read.
    """

    title: str | None = None
    intent: Literal["exploratory", "confirmatory"] = "exploratory"
    data_version: str | None = None
    data_source: str | None = None
    data_licence: str | None = None
    exclusions: str | None = None


class StudyConfig(Section):
    """The whole configuration of a study.

    Attributes:
        study, split, dispatch, track, report: the sections above.
        objective: dotted path `package.module:function` of what trains one task.
        space, strategy: read by `hpo.space_reader` and `hpo.strategies`.
        trial: everything else: the tree that the objective gets, with a trial's point written into it.
        secrets: the values, by name, that were written out in what this was read from; they stand nowhere else. See
            `hpo.sealing`.
    """

    study: StudySection
    objective: ObjectivePath
    space: dict[str, Any]
    strategy: dict[str, Any]
    split: SplitSection
    dispatch: DispatchSection
    track: TrackSection
    report: ReportSection = ReportSection()
    trial: dict[str, Any]
    secrets: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the plain tree that `config_from_dict` reads back, the trial's own keys at the top again."""
        tree = self.model_dump(mode="json")
        return {**tree.pop("trial"), **tree}

    def with_report(self, said: Mapping[str, str | None]) -> Self:
        """Return the configuration with these values of its section `report`.

        Raises:
            ConfigError: one line with the key at fault.
        """
        try:
            report = ReportSection.model_validate({**self.report.model_dump(), **said})
        except ValidationError as error:
            raise ConfigError(explain(error, "report.")) from error
        return self.model_copy(update={"report": report})

    def trial_config(self, point: Point) -> dict[str, Any]:
        """Return the objective's tree with the point's values written into it."""
        return replaced(self.trial, point)


def config_from_dict(tree: Mapping[str, Any]) -> StudyConfig:
    """Check a plain tree and return the study's configuration.

    Raises:
        ConfigError: one line with the full key, what was given and what is allowed.
    """
    tree, secrets = seal(tree)
    sections = {name: tree[name] for name in SEARCH_SECTIONS if name in tree}
    trial = {name: branch for name, branch in tree.items() if name not in SEARCH_SECTIONS}
    refuse_sealed(sections)
    with_explanation = sections | {"trial": trial, "secrets": secrets}
    try:
        return StudyConfig.model_validate(with_explanation)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error


def refuse_sealed(sections: Mapping[str, Any]) -> None:
    """Raise ConfigError where a section that decides the study takes a value from the environment."""
    for key in sealed_keys(sections):
        if key not in _ADDRESSES:
            raise ConfigError(
                f"{key}: decides the study and is written down, so it cannot be taken from the environment, as only "
                f"{', '.join(_ADDRESSES)} and the objective's own keys can; let the shell write it: {key}=$NAME"
            )


def explain(error: ValidationError, prefix: str = "") -> str:
    """Return one line for the first fault of a validation: the full key, what is allowed, what was given."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "cross_field":
        return f"{', '.join(first['ctx']['keys'])}: {first['msg']}"
    names = [str(part) for part in first["loc"] if not str(part).startswith(("function-", "constrained-"))]
    key = f"{prefix}{'.'.join(names)}" or "config"
    if first["type"] == "extra_forbidden":
        return f"{key}: there is no such key; take it out, or see --cfg job for those there are"
    if first["type"] == "missing":
        return f"{key}: is missing; give it a value"
    return f"{key}: {_rule(first)}, given {first['input']!r}{_hint(first)}"


def _rule(fault: ErrorDetails) -> str:
    text = fault["msg"].removeprefix("Value error, ")
    return text.replace("Input should", "must").replace("String should", "must")


def _hint(fault: ErrorDetails) -> str:
    if fault["type"] != "literal_error" or not isinstance(fault["input"], str):
        return ""
    return nearest(fault["input"], re.findall(r"'([^']+)'", fault["ctx"]["expected"]))


def keys_at_fault(error: BaseException) -> tuple[str, ...]:
    """Return the keys that a cross-field rule names; empty for every other error."""
    if not isinstance(error, ValidationError):
        return ()
    return tuple(key for fault in error.errors() for key in fault.get("ctx", {}).get("keys", ()))
