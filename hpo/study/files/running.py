"""What runs now in a study: its tasks with their curves so far, written by who runs it, for those who look on."""

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from hpo.config.documents import parse_json
from hpo.errors import HpoError
from hpo.files import write_atomically
from hpo.study.files.folder import StudyFolder, short_path
from hpo.trials.record.host import Site


class RunningTask(BaseModel):
    """A training under way; times are in seconds since the epoch.

    Attributes:
        task: its index within the trial; see `TaskLayout`.
        worker: the slot that it has, from 0.
        host, process, gpus: where it is trained, see `Site`; None and empty before the worker has told it.
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
        return "" if self.host is None or self.process is None else str(Site(self.host, self.process, self.gpus))


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
