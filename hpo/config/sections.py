"""The configuration's sections for the search, with the rules of each section."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from hpo.config.goals import (
    Bounds,
    Choice,
    Direction,
    Limits,
    Measured,
    Metrics,
    Name,
    Scales,
    TargetScores,
    leading,
    metrics_of,
    one_name,
)
from hpo.config.on_trial import OnTrial


def _check_study_name(name: str) -> str:
    # ASCII only, because file systems, databases and URLs encode other letters in several ways.
    if ".." in name or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise ValueError(
            "must have 1 to 100 characters (a-z, A-Z, digits, '.', '_', '-'), start with a letter or digit, and not "
            "contain '..'"
        )
    return name


def conflict(text: str, *keys: str) -> PydanticCustomError:
    """Return the error for values that break a rule: `keys` are the keys of these values, and `text` is the message.

    `explain` shows the error as `KEY1, KEY2: TEXT`.
    """
    return PydanticCustomError("cross_field", "{text}", {"text": text, "keys": list(keys)})


# The largest allowed count. A larger value is a mistake, and would fill the memory.
MOST = 100_000_000
# More than any machine has; numeric libraries crash at some higher number.
_MOST_THREADS = 4096
FAILURES = 4
"""The default of `study.stop_after_failures`, as in conf/study. A lower default could stop searches by chance."""
# Seeds of NumPy's RandomState and of scikit-learn have 32 bits, and the number of the repeat is added to a seed.
MOST_SEED = 2**31 - 1
FILES_BYTES, MOST_FILES_BYTES = 100_000_000, 10**15
"""Two values for `study.trial_files_bytes`: the first is the default, as in conf/study, and the second the maximum."""


def objective_text(text: str) -> str:
    """Return the text if it is the path of an objective; otherwise raise ValueError."""
    file, _, function = text.partition(":")
    if file.endswith(".py"):
        module = f"{file.removesuffix('.py').replace('/', '.')}:{function or 'FUNCTION'}"
        script = "" if function else f"; to run a script, give objective=command 'command.line=python {file} {{args}}'"
        raise ValueError(f"must name a module, such as {module}, not a file{script}")
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*(\((config(, trial)?|trial)\))?", text) is None:
        raise ValueError("must be package.module:function")
    return text


def _check_imports(given: Any) -> Any:
    names = given if isinstance(given, list) else [given]
    if given is not None and not (names and all(isinstance(name, str) for name in names)):
        raise ValueError("must be a study or a list of studies, each given as a name, a folder or a trials.csv")
    return given


def _check_imports_fill(given: Any) -> Any:
    if given is not None and not (isinstance(given, dict) and given):
        raise ValueError("must have values by key, such as {drop: 0.1}, or be null")
    return given


StudyName = Annotated[str, AfterValidator(_check_study_name)]
ObjectiveText = Annotated[str, AfterValidator(objective_text)]


class Section(BaseModel):
    """The base class of all sections: frozen, with strict types and no unknown keys. Most defaults are in conf/."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ExtendedTrial(Section):
    """A trial of another study; this study trains the trial further.

    Attributes:
        number: the trial's number in the other study.
        score: the trial's score in the other study.
        amount: how far the other study trained the trial; None = the trial was fully trained.
        continues: whether the training continues from the trial's state; otherwise, the training starts from the
            beginning.
    """

    number: int
    score: float
    amount: int | None
    continues: bool


class Extension(Section):
    """How `hpo extend` made this study from another study.

    Attributes:
        study: the name or the folder of the other study.
        changes: for each key that this study changes, the old value from the other study.
        trials: the other study's trials that this study trains further, in this order, before any new trials.
    """

    study: str
    changes: dict[str, Any]
    trials: list[ExtendedTrial]


class StudySection(Section):
    """The goal of a search, and its budget. See conf/study."""

    name: StudyName
    seed: int = Field(ge=0, le=MOST_SEED)
    trials: int = Field(ge=1, le=MOST)
    metric: Annotated[Name, BeforeValidator(one_name)]
    direction: Direction
    repeats: int = Field(ge=1, le=MOST)
    finalists: int = Field(ge=0, le=MOST)
    finalist_repeats: int = Field(ge=1, le=MOST)
    imports: Annotated[str | list[str] | None, BeforeValidator(_check_imports)]
    checkpoints: int = Field(ge=1, le=MOST)
    storage: str | None
    lanes: int = Field(ge=1, le=MOST)
    order: Literal["clock", "free"]
    minutes: float | None = Field(gt=0, le=MOST)
    trial_minutes: float | None = Field(gt=0, le=MOST)
    stop_without_gain: int | None = Field(ge=1, le=MOST)
    # These keys change no trial, so a configuration may leave them out.
    on_trial: OnTrial | None = None
    trial_files_bytes: int = Field(default=FILES_BYTES, ge=0, le=MOST_FILES_BYTES)
    target: TargetScores | None = None
    stop_after_failures: int | None = Field(default=FAILURES, ge=1, le=MOST)
    stop_rule: Literal["none", "median"]
    stop_rule_after: int = Field(ge=1, le=MOST)
    winner: Literal["best", "one_standard_error"]
    extends: Extension | None
    mirror: str | None
    artifacts: str | None
    score: Literal["best", "last"]
    metrics: Metrics | None
    limits: Limits | None
    choose: Choice
    scales: Scales | None
    # Older studies do not have these keys, so a configuration may leave them out.
    measured: Measured | None = None
    imports_fill: Annotated[dict[str, Any] | None, BeforeValidator(_check_imports_fill)] = None
    # Written by `hpo resume`: limits given after the search ({} = no limits). None = the limits of the search hold.
    limits_after: Bounds | None = None
    # Written by the toolkit: references from the objective's own keys to searched keys, as texts by key.
    references: dict[str, str] | None = None

    @property
    def imported(self) -> list[str]:
        """The studies from which this study imports trials, in the order of the configuration."""
        return self.imports if isinstance(self.imports, list) else [self.imports] if self.imports else []

    @model_validator(mode="before")
    @classmethod
    def _set_leading_metric(cls, given: Any) -> Any:
        """Copy the first of `metrics` into `metric` and `direction`; then drop `metrics` if there is only one."""
        metrics = given.get("metrics") if isinstance(given, Mapping) else None
        if not isinstance(metrics, Mapping):
            return given
        first = leading(metrics)
        if not first:
            # Set valid values, so that validation reports only the error of `metrics`.
            return {**given, "metric": "score", "direction": "maximize"}
        return {**given, **first, "metrics": dict(metrics) if len(metrics) > 1 else None}

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        metrics = self.metrics or {self.metric: self.direction}
        for name in metrics_of(self.choose):
            if name not in metrics:
                raise conflict(f"must name metrics of the study ({', '.join(metrics)}), given {name}", "study.choose")
        if self.metrics is not None and self.winner != "best":
            text = f"must be 'best' with study.metrics, given {self.winner}; use study.choose to choose the winner"
            raise conflict(text, "study.winner")
        for name in self.measured or ():
            if name in metrics:
                text = f"must not name metrics of the study, given {name}; leave this name out"
                raise conflict(text, "study.measured")
        given = [self.metric] if isinstance(self.target, float) else self.target
        if given is not None and sorted(given) != sorted(metrics):
            example = "{" + ", ".join(f"{name}: ..." for name in metrics) + "}" if self.metrics else "a number"
            raise conflict(f"must have a score for each metric, {example}, given {self.target}", "study.target")
        if self.metrics is not None and self.stop_rule != "none":
            text = (
                f"must be none, given {self.stop_rule}; with study.metrics, a training with a poor {self.metric} may "
                f"be good in another metric, so use split.race_after, which compares all metrics"
            )
            raise conflict(text, "study.stop_rule")
        if self.imports_fill is not None and self.imports is None:
            raise conflict("has no effect without study.imports; leave out study.imports_fill", "study.imports_fill")
        if self.mirror is not None and self.storage is not None:
            text = (
                "has no effect with study.storage, because the record is then outside of the study's folder; leave "
                "out study.mirror or study.storage"
            )
            raise conflict(text, "study.mirror")
        return self


class SplitSection(Section):
    """The split of the data. See conf/split."""

    folds: int | None = Field(ge=1, le=MOST)
    seed: int = Field(ge=0, le=MOST_SEED)
    test_fraction: float = Field(gt=0, lt=1)
    validation_fraction: float = Field(gt=0, lt=1)
    stratify: bool
    race_after: int | None = Field(ge=2, le=MOST)
    race_level: float = Field(gt=0, lt=0.5)

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.race_after is not None and self.folds is not None and self.folds <= self.race_after:
            given = f"given {self.race_after} and {self.folds}; give more folds, or set split.race_after=null"
            raise conflict(
                f"race_after must be less than the number of folds, {given}", "split.race_after", "split.folds"
            )
        if (total := self.test_fraction + self.validation_fraction) >= 1:
            text = f"must add up to less than 1, given {total}; lower one of the two fractions"
            raise conflict(text, "split.test_fraction", "split.validation_fraction")
        return self


DispatcherName = Literal["local", "ray", "simulated"]


@dataclass(frozen=True, kw_only=True)
class DispatcherType:
    """The properties of a dispatcher. The class at `path` is imported only when a search uses the dispatcher.

    Attributes:
        path: `package.module:Class`.
        is_one_at_a_time: whether the dispatcher always runs a single task at a time, whatever `dispatch.workers` is.
        has_own_processes: whether tasks run in separate processes. These processes can be on any machine, and can use
            shares of GPUs.
        has_own_time: whether the dispatcher simulates the training time.
    """

    path: str
    is_one_at_a_time: bool = False
    has_own_processes: bool = False
    has_own_time: bool = False


DISPATCHERS: Mapping[DispatcherName, DispatcherType] = {
    "local": DispatcherType(path="hpo.workers.dispatch.local:LocalDispatcher", is_one_at_a_time=True),
    "ray": DispatcherType(path="hpo.workers.dispatch.ray.pool:RayDispatcher", has_own_processes=True),
    "simulated": DispatcherType(path="hpo.workers.dispatch.simulated:SimulatedDispatcher", has_own_time=True),
}

# The fields of a Ray runtime environment that a study may set. Fields for code are not among them, because the toolkit
# sends the code.
_OF_RUNTIME_ENVIRONMENTS = ("pip", "uv", "conda", "env_vars")


class DispatchSection(Section):
    """The dispatcher and its workers. See conf/dispatch."""

    name: DispatcherName
    workers: int | None = Field(ge=1, le=MOST)
    threads: int = Field(ge=1, le=_MOST_THREADS)
    cpus_per_worker: float = Field(gt=0)
    gpus_per_worker: float | None = Field(ge=0)
    gpus: int | None = Field(ge=0, le=MOST)
    retries: int = Field(ge=0, le=MOST)
    timeout_seconds: float | None = Field(gt=0)
    address: str | None
    allow_open_cluster: bool
    fresh_process: bool
    memory_per_worker: float | None = Field(gt=0, le=1)
    largest_message: int = Field(ge=1, le=MOST)
    environment: Mapping[str, Any]
    processes_per_task: int = Field(ge=1, le=_MOST_THREADS)
    gpus_per_process: int | None = Field(ge=0, le=_MOST_THREADS)
    process_placement: Literal["pack", "strict_spread"]

    @property
    def type(self) -> DispatcherType:
        """The class and the properties of the dispatcher that the setting `name` selects."""
        return DISPATCHERS[self.name]

    @property
    def is_on_this_machine(self) -> bool:
        """Whether trainings run on this machine, as opposed to a cluster or a simulation."""
        return self.address is None and not self.type.has_own_time

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        gpus, is_one = self.gpus_per_worker or 0, self.processes_per_task == 1
        must = f"must be 1, because dispatch={self.name}"
        if self.type.is_one_at_a_time and (self.workers or 1) > 1:
            text = f"{must} runs one task at a time, given {self.workers}; use dispatch=ray"
            raise conflict(text, "dispatch.workers")
        if gpus > 1 and gpus != math.floor(gpus):
            text = f"must be a whole number, or a share below 1 (given {gpus}); round the number"
            raise conflict(text, "dispatch.gpus_per_worker")
        if not is_one and not self.type.has_own_processes:
            text = f"{must} runs each task in one process, given {self.processes_per_task}; use dispatch=ray"
            raise conflict(text, "dispatch.processes_per_task")
        if is_one and self.gpus_per_process is not None:
            text = "has an effect only with dispatch.processes_per_task above 1; use dispatch.gpus_per_worker"
            raise conflict(text, "dispatch.gpus_per_process")
        if not is_one and self.gpus_per_worker is not None:
            text = "has no effect with dispatch.processes_per_task above 1; use dispatch.gpus_per_process"
            raise conflict(text, "dispatch.gpus_per_worker")
        if not is_one and self.memory_per_worker is not None:
            text = "has no effect with dispatch.processes_per_task above 1, because no GPU is shared; use null"
            raise conflict(text, "dispatch.memory_per_worker")
        if self.environment and self.address is None:
            text = "has an effect only with dispatch.address; leave out dispatch.environment"
            raise conflict(text, "dispatch.environment")
        if unknown := [name for name in self.environment if name not in _OF_RUNTIME_ENVIRONMENTS]:
            text = f"must have only {', '.join(_OF_RUNTIME_ENVIRONMENTS)}, given {unknown[0]}"
            raise conflict(text, "dispatch.environment")
        return self


class TrackSection(Section):
    """The tracker. See conf/track."""

    name: Literal["mlflow", "none"]
    uri: str = Field(min_length=1)
    # MLflow's limit is 500 characters.
    experiment: str = Field(min_length=1, max_length=500)
    patience: float = Field(60.0, gt=0, allow_inf_nan=False)
    own_lines: bool | None = None
    artifacts: bool = False

    @model_validator(mode="after")
    def _refuse_ineffective(self) -> Self:
        for name in ("own_lines", "artifacts"):
            if getattr(self, name) and self.name == "none":
                raise conflict("has an effect only with track=mlflow; remove the key", f"track.{name}")
        return self


class ReportSection(Section):
    """Facts that only a person knows, and settings of the report page. No trial depends on them. See conf/report."""

    title: str | None
    intent: Literal["exploratory", "confirmatory"]
    data_version: str | None
    data_source: str | None
    data_licence: str | None
    exclusions: str | None
    figures: bool = True
