"""A study's status, and its running tasks: written beside its record by its driver, and read without opening that."""

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
Phase = Literal["starting", "search", "after the search", "asked and told"]
STATES = ("complete", "failed", "stopped", "running")
"""Of a trial."""
_ENDS = {
    "minutes": " by study.minutes",
    "stop_without_gain": " by study.stop_without_gain",
    "target": " by study.target",
    "callback": " by a callback",
    "space": ", with nothing left to propose",
}
_HELPS = "remove it: the status is then read from the study's other files"
NOT_OURS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a file of another program, or of a stranger, may lead to where it is read."""


class Status(BaseModel):
    """What is known of a study without reading its record, as of `updated`, in seconds since the epoch.

    Attributes:
        format: the number of its form; see `hpo.study.upgrade`.
        state: `running` while a process has it; `interrupted` where that has ended before the search, so that it can be
            resumed; `open` where it is trained elsewhere, and goes on when somebody asks; `ended` by a budget; `failed`
            by an error; `imported` from another program; `unreadable` where nothing can be said.
        phase: of one that runs: starting its first workers, before it is created; in its search; training and writing
            what follows; or asked and told in a session.
        holder: the process that has it; None where none has.
        user: who started it; empty where that is not known.
        begun: when its first training began; None before that.
        following: while that is trained, what of it and how much of it has ended.
        best, scores: the winner's number, or the best so far, and what it has of the metrics and of what has a limit.
        search_scores: what it has in the search, where it was chosen on fresh seeds, which `scores` are then of.
        expected: of a winner, what it is expected to score anew; `expected_texts` the same as text.
        texts, search_texts: both as text, with as many digits as tell them apart from those of other trials.
        on_front: with several metrics the number of trials on the front; else None.
        done, budget, counts: how much of the budget is used, and what that counts.
        trials: how many trials are complete, failed, stopped and running, by state.
        minutes: how long the search has taken, interruptions left out.
        ended_by: which budget ended it.
        error: why it failed, or cannot be read.
        test: what was found on the test part; empty while that is closed.
        lags: whether the record may hold more trials than this counts, since the process that wrote it was killed.
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
        """What the best has of the (leading) metric."""
        return self.scores.get(next(iter(self.metrics), ""))

    @property
    def goes_on(self) -> bool:
        """Whether more may come at any moment: a process has it, or whoever trains it elsewhere asks and tells."""
        return self.state in ("running", "open")

    @property
    def words(self) -> str:
        """The state as people read it: `running since 11:47 by process 30085 on ada`."""
        if self.holder is not None:
            doing = f", {self.following}" if self.following else ""
            state = "starting" if self.phase == "starting" else "running"
            return f"{state} since {_clock(self.holder.since)} by {self.holder}{doing}"
        if self.state == "ended":
            return f"ended{_ENDS.get(self.ended_by or '', '')}"
        return f"{self.state}{f': {self.error}' if self.error else ''}"


def write_status(folder: StudyFolder, status: Status) -> None:
    """Write it; who looks gets the one before or this one."""
    text = status.model_dump_json(exclude={"holder", "test"}, exclude_none=True)
    write_atomically(folder.status_path, text + "\n")


def read_status(folder: StudyFolder) -> Status:
    """Return a study's status; nothing is created or changed, and what cannot be read says so instead of raising.

    Where it `lags`, `latest_status` has what the record holds.
    """
    # Before the file: a search that ends meanwhile has written it.
    holder = folder.holder()
    if holder is not None and not folder.exists:
        return Status(name=folder.path.name, state="running", phase="starting", holder=holder)
    try:
        status = _written(folder) or _derived(folder)
        if test := inner(folder.read_json("test.json"), "metrics"):
            status = Status.model_validate({**vars(status), "test": test})
    except (HpoError, OSError) as error:
        status = Status(name=folder.path.name, state="unreadable", error=first_line(error))
    except NOT_OURS:
        why = f"{folder}: its files are not those of a study; restore them, or move it away"
        status = Status(name=folder.path.name, state="unreadable", error=why)
    if holder is not None:
        phase = status.phase if status.state == "running" else None
        following = status.following if phase else None
        return status.model_copy(update={"state": "running", "phase": phase, "following": following, "holder": holder})
    if status.state != "running":
        return status
    state = "open" if status.phase == "asked and told" else "interrupted"
    return status.model_copy(update={"state": state, "phase": None, "following": None, "lags": True})


def parse_status(text: str, where: str) -> Status:
    """Return what such a file holds; DocumentError for anything else."""
    return _status(parse_json(text, where), where)


def _status(values: Any, where: str) -> Status:
    try:
        return Status.model_validate(upgraded("status", values, where) if isinstance(values, Mapping) else values)
    except ValidationError as error:
        raise DocumentError(f"{where}: {explain(error)}; {_HELPS}") from error


def _written(folder: StudyFolder) -> Status | None:
    path = folder.status_path
    if not path.exists():
        return None
    try:
        values = folder.read_json(path.name)
    except DocumentError as error:
        # What helps other files, such as to restore it, is needless here.
        raise DocumentError(f"{str(error).rpartition('; ')[0]}; {_HELPS}") from error
    return _status(values, str(short_path(path)))


def _derived(folder: StudyFolder) -> Status:
    """Return the status of a published study, or of one whose file was removed, from its other files."""
    config, report = folder.config(), folder.report()
    section, winner, counts = config.study, inner(report, "winner"), inner(report, "counts")
    trials = {state: counts.get(state, 0) for state in STATES} if counts else _recorded(folder, config)
    trials["running"] += counts.get("interrupted", 0)
    ended_by, ended = counts.get("ended_by"), inner(report, "study").get("ended")
    by, is_by_points = inner(winner, "fresh") or winner, counts.get("budget_counts") == "configurations"
    goal = section.metrics or {section.metric: section.direction}
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
        scores=_scores(by, section.metric),
        search_scores={} if by is winner else _scores(winner, section.metric),
        expected=ExpectedScore.of(report),
        done=counts["configurations"] if is_by_points else num_ended,
        budget=section.trials,
        counts=counts.get("budget_counts", "trials"),
        trials=trials,
        minutes=_minutes(inner(report, "cost").get("wall_seconds")),
        ended_by=ended_by,
        lags=not counts,
    )


def _recorded(folder: StudyFolder, config: StudyConfig) -> dict[str, int]:
    """Return how many trials a record in a file of its own holds by state, without reading them."""
    if config.study.storage is not None or not folder.database_path.exists():
        return dict.fromkeys(STATES, 0)
    # Here, since nearly every study has a status.
    from hpo.trials.record.read_only import count_states

    return count_states(folder.database_path, folder.holder() is not None)


def _clock(seconds: float) -> str:
    """Return a time of this machine, with the day where that is not today."""
    time = datetime.fromtimestamp(seconds)
    return time.strftime("%H:%M" if time.date() == datetime.now().date() else "%Y-%m-%d %H:%M")


def _scores(reported: Mapping[str, Any], metric: str) -> Mapping[str, float]:
    """Return what a report has of the winner's metrics."""
    several, score = inner(reported, "scores"), reported.get("score")
    alone = {metric: score} if isinstance(score, int | float) else {}
    return {name: several[name]["mean"] for name in several} or alone


def _seconds(time: Any) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return None


def _minutes(seconds: Any) -> float | None:
    return seconds / 60 if isinstance(seconds, int | float) else None


class RunningTask(BaseModel):
    """A training under way; times are in seconds since the epoch.

    Attributes:
        task: its index within the trial; see `TaskLayout`.
        worker: the slot that it has, from 0.
        host, process, gpus: where it is trained, see `Host`; None and empty before the worker has told it.
        reported: when it last reported; None before it did.
        point: the last point of its learning curve; empty before the first.
        curve: step and value of the leading metric of its points so far, thinned out to some 200.
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
        """Where it is trained, as people read it; empty where that is not known."""
        return "" if self.host is None or self.process is None else str(Host(self.host, self.process, self.gpus))


_TASKS = TypeAdapter(list[RunningTask])


def write_running(folder: StudyFolder, tasks: list[RunningTask]) -> None:
    """Write the tasks under way."""
    write_atomically(folder.running_path, _TASKS.dump_json(tasks).decode() + "\n")


def read_running(folder: StudyFolder) -> list[RunningTask]:
    """Return the tasks under way, in the order of trials and tasks; none where no process has the study."""
    path = folder.running_path
    if folder.holder() is None or not path.exists():
        return []
    return parse_running(path.read_text(encoding="utf-8", errors="replace"), str(short_path(path)))


def parse_running(text: str, where: str) -> list[RunningTask]:
    """Return what such a file holds; none where it is no such file."""
    try:
        return _TASKS.validate_python(parse_json(text, where))
    except (HpoError, ValidationError):
        return []
