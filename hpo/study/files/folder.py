"""A study's folder, `runs/<study>/`: the frozen configuration, the lock, and the paths of all files in the folder."""

import datetime
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.config.documents import read_json, read_yaml, yaml_text
from hpo.config.secrets import reveal_secrets, values_of
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import DocumentError, HpoError, StudyError
from hpo.files import write_atomically
from hpo.objectives.outside import OUTSIDE
from hpo.study.files.lock import Holder, Lock
from hpo.study.upgrade import upgraded
from hpo.workers.objective.path import GIVEN_DATA, MODULE, ObjectivePath

if TYPE_CHECKING:
    from hpo.workers.objective.pickled_function import PickledFunction

RUNS = Path("runs")
# The test log; see `hpo.study.test_log`.
TEST_LOG = "test_evaluations.jsonl"
# The file in which `hpo import` describes the source of the imported trials.
IMPORT = "import.json"
_TRAINING_NAME = re.compile(r"train-.+-\d{8}-\d{6}-\d{6}")


class StudyFolder:
    """The folder of one study: the absolute paths of its files, and operations on these files.

    Another user may have made the folder, so `config`, `make` and `inside` refuse links that lead out of the folder.
    """

    def __init__(self, path: Path) -> None:
        # Absolute, because an objective that runs in this process may change the working directory.
        self.path = path = path.absolute()
        self.config_path = path / "config.yaml"
        self.database_path = path / "study.db"
        self.environment_path = path / "environment.json"
        self.described_path = path / "described.json"
        self.data_dir = path / "data"
        self.checkpoints_dir = path / "checkpoints"
        self.states_dir = path / "states"
        self.logs_dir = path / "logs"
        self.files_dir = path / "files"
        self.trials_path = path / "trials.csv"
        self.imports_path = path / "imports.csv"
        self.best_path = path / "best.yaml"
        self.test_path = path / "test.json"
        self.test_log_path = path / TEST_LOG
        self.reproduction_path = path / "reproduction.json"
        self.function_path = path / MODULE
        self.given_data_dir = path / GIVEN_DATA
        self.mirrored_path = path / "mirrored.txt"
        self.status_path = path / "status.json"
        self.running_path = path / "running.json"
        self.requests_dir = path / "requests"
        self._lock = Lock(path / "driver.lock")
        self._is_first = False

    def __str__(self) -> str:
        return str(short_path(self.path))

    @property
    def reference(self) -> str:
        """The study's name if its folder is in `runs/`, otherwise the folder's path; commands accept both."""
        path = short_path(self.path)
        return path.name if path.parent == RUNS else str(path)

    @property
    def exists(self) -> bool:
        """Whether the folder has a config.yaml, and so a study."""
        return os.path.exists(self.config_path)  # noqa: PTH110 -- `Path.exists` raises if the name is too long

    @property
    def is_outside(self) -> bool:
        """Whether another program trains the trials, by ask-and-tell; False if config.yaml cannot be read."""
        with suppress(HpoError, OSError):
            return read_yaml(self.config_path).get("objective") == OUTSIDE
        return False

    @property
    def go_on(self) -> str:
        """The command with which a user continues the study."""
        return f"hpo {'ask' if self.is_outside else 'resume'} {shlex.quote(self.reference)}"

    def freeze(self, config: StudyConfig) -> None:
        """Write the resolved configuration to config.yaml, from which commands resume or reproduce the study."""
        write_atomically(self.config_path, yaml_text(config.to_dict()))

    def pickled_function(self, config: StudyConfig) -> "PickledFunction | None":
        """Return the pickled objective without running its code; None if there is no such objective or file."""
        # Import late: most commands need no pickled function.
        from hpo.workers.objective.pickled_function import PickledFunction

        has_file = ObjectivePath.of(config.objective).is_pickled and self.function_path.exists()
        return PickledFunction.read(self.function_path) if has_file else None

    def write_function(self, function: "PickledFunction | None") -> None:
        """Write a pickled objective; do nothing for None."""
        if function is not None:
            write_atomically(self.function_path, function.to_bytes())

    def write_rows(self, function: "PickledFunction | None") -> None:
        """Write the rows of data in `function` to `given_data_dir`. A user gave these rows from Python.

        If `function` is None or has no rows, do nothing. If `given_data_dir` exists, do nothing.
        """
        rows = None if function is None else function.rows
        if rows is None or not rows.has_rows or self.given_data_dir.exists():
            return
        temporary_dir = self.given_data_dir.with_name(f".{self.given_data_dir.name}-{os.getpid()}")
        shutil.rmtree(temporary_dir, ignore_errors=True)
        rows.write(temporary_dir)
        temporary_dir.rename(self.given_data_dir)

    def remove_unfinished(self) -> None:
        """Delete the record and the data of a driver that died while it created the study."""
        # Delete the logs too: SQLite would apply a left-over log to the new database.
        for suffix in ("", "-wal", "-shm"):
            self.database_path.with_name(self.database_path.name + suffix).unlink(missing_ok=True)
        for folder in (self.data_dir, self.given_data_dir):
            shutil.rmtree(folder, ignore_errors=True)

    def config(self) -> StudyConfig:
        """Return the frozen configuration. Raise HpoError if there is no study, or if its files are not valid."""
        if not self.exists:
            raise StudyError(f"study: {self} does not exist; see `ls {RUNS}`, or start a study with `hpo search`")
        self.refuse_links()
        self.refuse_other_format()
        return config_from_dict(read_yaml(short_path(self.config_path)))

    def refuse_other_format(self) -> None:
        """Raise HpoError if environment.json is missing or unreadable, or its format number is missing or not valid."""
        path = short_path(self.environment_path)
        if not path.exists():
            raise StudyError(f"{path}: is missing; restore the file")
        upgraded("study", read_json(path), str(path))

    def refuse_links(self) -> None:
        """Raise StudyError if a link inside the folder leads out of it."""
        root = os.path.realpath(self.path)
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = Path(folder, name)
                if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                    raise StudyError(
                        f"{short_path(path)}: is a link that leads out of the study's folder; replace it with the "
                        f"file itself"
                    )

    def inside(self, name: str) -> Path:
        """Return the path of a file that a record or report names.

        Raise StudyError if the path leads out of the folder.
        """
        path = self.path / name
        is_inside = False
        # `realpath` raises ValueError if the name has a NUL or an unpaired surrogate. `Path.resolve` would also raise
        # for a link to itself.
        with suppress(ValueError):
            is_inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path))
        if not is_inside:
            raise StudyError(
                f"{self}: refers to {name!r}, which is outside of the folder; restore the original record or report"
            )
        return path

    def changed_files(self, below: str) -> list[str]:
        """Return the files in subfolder `below` that are missing or differ from their hashes in the report.

        Return [] if there is no report, or if it is not valid JSON.
        """
        files: Mapping[str, str] = {}
        with suppress(DocumentError):
            files = inner(self.report(), "files")
        return [name for name in files if name.startswith(f"{below}/") and not self.is_file(name, files[name])]

    def is_file(self, name: str, digest: str) -> bool:
        """Return whether the folder has a file with this name and this SHA-256.

        Raise StudyError if the name leads out of the folder.
        """
        path = self.inside(name)
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest

    def storage_url(self, config: StudyConfig) -> str:
        """Return the address of the Optuna storage that holds the study's record."""
        # Import late: SQLAlchemy is slow to load, and many commands do not need it.
        from hpo.trials.record.storage import sqlite_url

        values = values_of(config.study.storage, config.secrets, "study.storage")
        return reveal_secrets(config.study.storage, values) or sqlite_url(self.database_path)

    def make(self) -> None:
        """Create the folder, readable by this user only; an existing folder keeps its permissions.

        Raises:
            StudyError: the folder is a link, a link leads out of the folder, or the folder cannot be created.
        """
        refuse_link(self.path)
        self.refuse_links()
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StudyError(
                f"{self}: cannot be created: {error.strerror}; check this path and the folders above it"
            ) from error

    def write_json(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write a JSON file in one step, so that readers see either the old or the new content."""
        write_atomically(path, json.dumps(values, indent=2) + "\n")

    def test_result(self) -> dict[str, Any] | None:
        """Return the result of `hpo test`; None before the test evaluation."""
        return self.read_json("test.json") or None

    def report(self) -> dict[str, Any]:
        """Return the content of report.json; {} if the file is missing. Raise HpoError if the content is not valid."""
        report = self.read_json("report.json")
        return upgraded("report", report, str(short_path(self.path / "report.json"))) if report else {}

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file in the folder; {} if the file is missing."""
        path = self.path / name
        return read_json(short_path(path)) if path.exists() else {}

    def files_of(self, trial: int, task: str | None = None) -> list[Path]:
        """Return the files that a trial's trainings wrote to `trial.dir`; with `task`, only this task's files."""
        folder = self.files_dir / f"trial_{trial:04d}"
        return sorted(path for path in (folder / task if task else folder).rglob("*") if path.is_file())

    def log_path(self, trial: int, task: str) -> Path:
        """Return the path of a task's log, such as logs/trial_0003_fold_0.log."""
        return self.logs_dir / f"trial_{trial:04d}_{task}.log"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the study until the end of the `with` block or of the process.

        Raises:
            StudyError: another process holds the lock (the message names the other process), or the folder cannot be
                created.
        """
        self._is_first = not self.path.parent.exists()
        self.make()
        with self._lock.taken() as holder:
            if holder is not None:
                raise self._running_error(holder)
            try:
                yield
            finally:
                self.remove_uncreated()

    def remove_uncreated(self) -> None:
        """Remove the folder if it contains no study and no other file except the lock.

        Also remove the parent folder if `lock` created it, and if it is empty now.
        """
        if self.path.is_dir() and [*self.path.iterdir()] == [self._lock.path]:
            self._lock.path.unlink()
            self.path.rmdir()
            if self._is_first and not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()

    @property
    def is_import(self) -> bool:
        """Whether the folder has trials that `hpo import` wrote. Such a folder has no study."""
        return not self.exists and os.path.isfile(self.path / IMPORT)  # noqa: PTH113 -- see `exists`

    @property
    def is_starting(self) -> bool:
        """Whether a process is starting workers, and will then create the study."""
        is_comparison = os.path.exists(self.path / "comparison.yaml")  # noqa: PTH110 -- see `exists`
        return not self.exists and not is_comparison and self.holder() is not None

    def refuse_running(self) -> None:
        """Raise the same StudyError as `lock` if a process runs the study; do not lock."""
        if (holder := self.holder()) is not None:
            raise self._running_error(holder)

    def _running_error(self, holder: Holder) -> StudyError:
        name = self.reference
        if self.is_outside:
            return StudyError(
                f"study: {self} is open in {holder}, in an ask-and-tell session; in that process, close the session "
                f"(`session.close()`), or end that process"
            )
        if not self.exists:
            return StudyError(
                f"study: {self} has no study; {holder} runs a comparison there, or is still starting a study; try "
                f"again in some seconds, or end that process (Ctrl-C)"
            )
        return StudyError(
            f"study: {self} is being run by {holder}; wait for it (`hpo watch {name}`), or stop it with "
            f"`hpo stop {name}`"
        )

    def holder(self) -> Holder | None:
        """Return the process that runs the study, or None; do not wait or change anything."""
        return self._lock.holder()


def find_study(name: str) -> StudyFolder:
    """Return the folder of a study. `name` is the study's name under `runs/`, or the path of the study's folder.

    If there is no such study, raise StudyError.
    """
    if "://" in name:
        raise StudyError(
            f"study: must be a study's name or folder, given the URL {name}; only `hpo show`, `hpo watch` and "
            f"`hpo resume` accept URLs"
        )
    for path in (RUNS / name, Path(name)):
        folder = StudyFolder(path)
        if folder.exists:
            if path.parent == RUNS:
                refuse_link(folder.path)
            return folder
        if folder.is_import:
            raise StudyError(
                f"study: {short_path(path)} has imported trials but no study; start a study that learns from them: "
                f"hpo search study.imports={folder.reference}"
            )
        # A process may be creating the study.
        folder.refuse_running()
        if os.path.isdir(path) and not os.access(path, os.X_OK):  # noqa: PTH112 -- see `exists`
            raise StudyError(
                f"study: {short_path(path)} cannot be read: permission denied; its owner can share it (`chmod -R a+rX`)"
            )
    known = [path.name for path in studies_in(RUNS)]
    allowed = f"there are {', '.join(known)}" if known else "no study exists yet; start a study with `hpo search`"
    raise StudyError(f"study: there is no '{name}' under {RUNS}/; {allowed}")


def studies_in(runs: Path) -> list[Path]:
    """Return the folders of the studies in `runs`, sorted by name.

    Skip hidden folders, which are unfinished copies, and the folders of trainings without a search.
    """
    return sorted(path.parent for path in runs.glob("[!.]*/config.yaml") if not is_training(path.parent))


def listed_in(folder: Path) -> Iterator[Path]:
    """Yield the folders below `folder` that a list of studies shows.

    Such a folder has a study, has imported trials, is unreadable, or belongs to a study that a process is starting. If
    runs/ does not exist, yield nothing.

    Raises:
        StudyError: `folder` cannot be read, or a folder other than runs/ does not exist.
    """
    try:
        # Skip hidden folders, which are being copied or removed.
        paths = sorted(path for path in folder.iterdir() if not (path.name.startswith(".") or is_training(path)))
    except FileNotFoundError as error:
        if folder == RUNS:
            return
        raise StudyError(f"in: there is no folder {folder}; give a folder that contains studies") from error
    except OSError as error:
        raise StudyError(
            f"in: {folder} cannot be read: {error.strerror}; give a folder that contains studies"
        ) from error
    for path in paths:
        try:
            (path / "config.yaml").stat()
        except PermissionError:
            yield path
        except OSError:
            if StudyFolder(path).is_starting or StudyFolder(path).is_import:
                yield path
        else:
            yield path


def new_training(study: str) -> StudyFolder:
    """Return the folder `train-STUDY-TIME` for a new training without a search; do not create the folder."""
    return StudyFolder(RUNS / f"train-{study}-{datetime.datetime.now():%Y%m%d-%H%M%S-%f}")


def is_training(path: Path) -> bool:
    """Return whether a folder's name shows that the folder belongs to a training without a search."""
    return _TRAINING_NAME.fullmatch(path.name) is not None


def inner(report: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the mapping at these nested keys of a report; {} if a key is missing or its value is no mapping."""
    for key in keys:
        value = report.get(key)
        report = value if isinstance(value, Mapping) else {}
    return report


def short_path(path: Path) -> Path:
    """Return a path for messages: relative to the working directory for a path below it, otherwise unchanged."""
    try:
        working_dir = Path.cwd()
    except FileNotFoundError:
        # The working directory was deleted.
        return path
    return path.relative_to(working_dir) if path.is_relative_to(working_dir) else path


def refuse_link(path: Path) -> None:
    """Raise StudyError if a study's folder is a link."""
    if path.is_symlink():
        raise StudyError(f"{short_path(path)}: is a link; replace it with the folder itself, or give the link's target")
