"""The status and the running tasks of a study; the driver writes both to files, so readers need not open the record."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hpo.config.documents import parse_json
from hpo.config.goals import Direction
from hpo.config.study_config import StudyConfig, explain
from hpo.errors import DocumentError, HpoError, first_line
from hpo.files import write_atomically
from hpo.machine import Host
from hpo.study.files.folder import StudyFolder, inner, short_path
from hpo.study.files.lock import Holder
from hpo.study.upgrade import FORMAT, upgraded
from hpo.trials.estimate import ExpectedScore

State = Literal["running", "interrupted", "open", "ended", "failed", "imported", "unreadable"]
Phase = Literal["starting", "search", "after the search", "ask-and-tell"]
STATES = ("complete", "failed", "stopped", "running")
"""The states of a trial."""
_ENDS = {
    "minutes": " by study.minutes",
    "stop_without_gain": " by study.stop_without_gain",
    "target": " by study.target",
    "callback": " by a callback",
    "space": ", with nothing left to propose",
}
_ADVICE = "remove the file; the status is then read from the study's other files"
NOT_OURS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that reading a malformed file may raise."""


class Status(BaseModel):
    """The status of a study; readers get it from a file, without opening the record.

    `StudyView` describes the fields that both classes have. `TrialView` describes the fields of the trial `best`, such
    as `scores`.

    Attributes:
        format: the format number; see `hpo.study.upgrade`.
        holder: the process that runs the study, or None.
        best: the number of the winner, or of the best trial so far.
        lags: whether the record may have more trials than the status, for example because the driver was killed.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    format: int = FORMAT
    name: str
    state: State
    phase: Phase | None = None
    holder: Holder | None = None
    study_id: str = ""
    user: str = ""
    updated: float | None = None
    following: str | None = None
    begun: float | None = None
    strategy: str = ""
    data: str = ""
    metrics: dict[str, Direction] = {}
    best: int | None = None
    scores: dict[str, float] = {}
    search_scores: dict[str, float] = {}
    expected: ExpectedScore | None = None
    expected_texts: dict[str, str] = {}
    texts: dict[str, str] = {}
    search_texts: dict[str, str] = {}
    on_front: int | None = None
    done: int = 0
    budget: int = 0
    counts: str = "trials"
    trials: dict[str, int] = {}
    minutes: float | None = None
    ended_by: str | None = None
    error: str | None = None
    test: dict[str, float] = {}
    lags: bool = Field(default=False, exclude=True)

    @property
    def score(self) -> float | None:
        """The leading metric's value in the trial `best`; None if `scores` has no value of this metric."""
        return self.scores.get(next(iter(self.metrics), ""))

    @property
    def goes_on(self) -> bool:
        """Whether new trials may come at any moment: a process runs the study, or another program trains the trials."""
        return self.state in ("running", "open")

    @property
    def words(self) -> str:
        """The state as text, such as `running since 11:47 by process 30085 on ada`."""
        if self.holder is not None:
            following = f", {self.following}" if self.following else ""
            state = "starting" if self.phase == "starting" else "running"
            return f"{state} since {_clock(self.holder.since)} by {self.holder}{following}"
        if self.state == "ended":
            return f"ended{_ENDS.get(self.ended_by or '', '')}"
        return f"{self.state}{f': {self.error}' if self.error else ''}"


def write_status(folder: StudyFolder, status: Status) -> None:
    """Write a study's status in one step, so that readers see either the old or the new status."""
    text = status.model_dump_json(exclude={"holder", "test"}, exclude_none=True)
    write_atomically(folder.status_path, text + "\n")


def read_status(folder: StudyFolder) -> Status:
    """Return a study's status without changing anything; an unreadable study has the state `unreadable`.

    If the returned status `lags`, it may be out of date; `latest_status` tries to update it from the record.
    """
    # Read the lock before the file: a search that ends in between has written its last status.
    holder = folder.holder()
    if holder is not None and not folder.exists:
        return Status(name=folder.path.name, state="running", phase="starting", holder=holder)
    try:
        status = _read_file(folder) or _derive_status(folder)
        if test := inner(folder.read_json("test.json"), "metrics"):
            status = Status.model_validate({**vars(status), "test": test})
    except OSError as error:
        why = f"{folder}: cannot be read: {error.strerror}; check its permissions"
        status = Status(name=folder.path.name, state="unreadable", error=why)
    except HpoError as error:
        status = Status(name=folder.path.name, state="unreadable", error=first_line(error))
    except NOT_OURS:
        why = f"{folder}: its files are not valid files of a study; restore them, or move the folder away"
        status = Status(name=folder.path.name, state="unreadable", error=why)
    if holder is not None:
        phase = status.phase if status.state == "running" else None
        following = status.following if phase else None
        return status.model_copy(update={"state": "running", "phase": phase, "following": following, "holder": holder})
    if status.state != "running":
        return status
    state = "open" if status.phase == "ask-and-tell" else "interrupted"
    return status.model_copy(update={"state": state, "phase": None, "following": None, "lags": True})


def parse_status(text: str, where: str) -> Status:
    """Return the status from the text of a status file; raise HpoError if a field or the format number is not valid."""
    return _validate_status(parse_json(text, where), where)


def _validate_status(values: Any, where: str) -> Status:
    try:
        return Status.model_validate(upgraded("status", values, where) if isinstance(values, Mapping) else values)
    except ValidationError as error:
        raise DocumentError(f"{where}: {explain(error)}; {_ADVICE}") from error


def _read_file(folder: StudyFolder) -> Status | None:
    path = folder.status_path
    if not path.exists():
        return None
    try:
        values = folder.read_json(path.name)
    except DocumentError as error:
        # Replace the advice to restore the file: a status can be derived.
        raise DocumentError(f"{str(error).rpartition('; ')[0]}; {_ADVICE}") from error
    return _validate_status(values, str(short_path(path)))


def _derive_status(folder: StudyFolder) -> Status:
    """Return the status of a study that has no status file, computed from its configuration, report and record."""
    config, report = folder.config(), folder.report()
    section, winner, counts = config.study, inner(report, "winner"), inner(report, "counts")
    trials = {state: counts.get(state, 0) for state in STATES} if counts else _count_recorded(folder, config)
    trials["running"] += counts.get("interrupted", 0)
    ended_by, ended = counts.get("ended_by"), inner(report, "study").get("ended")
    deciding = inner(winner, "fresh") or winner
    counts_configurations = counts.get("budget_counts") == "configurations"
    goal = section.metrics or {section.metric: section.direction}
    seconds = inner(report, "cost").get("wall_seconds")
    num_ended = sum(trials.values()) - trials["running"] - counts.get("retries", 0)
    is_over = counts and not trials["running"] and (winner or not trials["complete"])
    return Status(
        name=section.name,
        state="ended" if is_over else "open" if folder.is_outside else "interrupted",
        study_id=str(inner(report, "study").get("id", "")),
        updated=_seconds(ended),
        begun=_seconds(inner(report, "study").get("started")),
        strategy=config.strategy["name"],
        data=name if isinstance(name := inner(report, "data").get("name"), str) else "",
        metrics=goal,
        best=winner.get("number"),
        scores=_scores(deciding, section.metric),
        search_scores={} if deciding is winner else _scores(winner, section.metric),
        expected=ExpectedScore.of(report),
        done=counts["configurations"] if counts_configurations else num_ended,
        budget=section.trials,
        counts=counts.get("budget_counts", "trials"),
        trials=trials,
        minutes=seconds / 60 if isinstance(seconds, int | float) else None,
        ended_by=ended_by,
        lags=not counts,
    )


def _count_recorded(folder: StudyFolder, config: StudyConfig) -> dict[str, int]:
    """Count the trials of each state in the folder's record; all counts are 0 if the record is not in the folder."""
    if config.study.storage is not None or not folder.database_path.exists():
        return dict.fromkeys(STATES, 0)
    # Import late: nearly every study has a status file.
    from hpo.trials.record.read_only import count_states

    return count_states(folder.database_path, folder.holder() is not None)


def _clock(seconds: float) -> str:
    """Return a time as text in the local time zone; leave out today's date."""
    time = datetime.fromtimestamp(seconds)
    return time.strftime("%H:%M" if time.date() == datetime.now().date() else "%Y-%m-%d %H:%M")


def _scores(reported: Mapping[str, Any], metric: str) -> Mapping[str, float]:
    """Return each metric's mean from the winner's section of a report; a score without a name belongs to `metric`."""
    several, score = inner(reported, "scores"), reported.get("score")
    alone = {metric: score} if isinstance(score, int | float) else {}
    return {name: several[name]["mean"] for name in several} or alone


def _seconds(time: Any) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return None


class RunningTask(BaseModel):
    """A running training; `TaskView` describes the other fields.

    Attributes:
        task: the task's index within the trial; see `TaskLayout`.
        curve: the learning curve as pairs of step and leading metric, thinned out to about 200 pairs.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    trial: int
    task: int
    worker: int
    host: str | None = None
    process: int | None = None
    gpus: list[str] = []
    started: float
    reported: float | None = None
    point: dict[str, int | float] = {}
    curve: list[tuple[float, float]] = []

    @property
    def where(self) -> str:
        """The machine, process and GPUs of the training, as text; empty if the machine or the process is unknown."""
        return "" if self.host is None or self.process is None else str(Host(self.host, self.process, self.gpus))


_TASKS = TypeAdapter(list[RunningTask])


def write_running(folder: StudyFolder, tasks: list[RunningTask]) -> None:
    """Write the running tasks to running.json."""
    write_atomically(folder.running_path, _TASKS.dump_json(tasks).decode() + "\n")


def read_running(folder: StudyFolder) -> list[RunningTask]:
    """Return the running tasks, ordered by trial and task.

    Return [] if no process runs the study, or if running.json is missing or not valid.
    """
    path = folder.running_path
    if folder.holder() is None or not path.exists():
        return []
    return parse_running(path.read_text(encoding="utf-8", errors="replace"), str(short_path(path)))


def parse_running(text: str, where: str) -> list[RunningTask]:
    """Return the running tasks from the text of a running.json; [] if the text is not valid."""
    try:
        return _TASKS.validate_python(parse_json(text, where))
    except (HpoError, ValidationError):
        return []
