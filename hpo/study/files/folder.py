"""The study's folder `runs/<study>/`: its paths, its frozen configuration, and the driver's lock."""

import datetime
import hashlib
import json
import os
import re
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
# The ledger of evaluations of test parts: of a study in its folder, and of all studies beside them.
TEST_LOG = "test_evaluations.jsonl"
# What `hpo import` writes about the source of the trials that it has taken over.
IMPORT = "import.json"
_TRAINING_NAME = re.compile(r"train-.+-\d{8}-\d{6}-\d{6}")


class StudyFolder:
    """Absolute paths inside one study's folder, none of which leads out of it: a stranger may have made the folder."""

    def __init__(self, path: Path) -> None:
        # An objective that runs in this process may change the working directory.
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
        """How a command names it: by the name under `runs/`, or by the folder where it is elsewhere."""
        path = short_path(self.path)
        return path.name if path.parent == RUNS else str(path)

    @property
    def exists(self) -> bool:
        """Whether a study was created here."""
        return os.path.exists(self.config_path)  # noqa: PTH110 -- `Path.exists` raises for a name that is too long

    @property
    def is_outside(self) -> bool:
        """Whether its trials are asked and told; False also where its configuration cannot be read."""
        with suppress(HpoError, OSError):
            return read_yaml(self.config_path).get("objective") == OUTSIDE
        return False

    @property
    def go_on(self) -> str:
        """The command that goes on with it."""
        return f"hpo {'ask' if self.is_outside else 'resume'} {self.reference}"

    def freeze(self, config: StudyConfig) -> None:
        """Write the resolved configuration, which is read to resume or reproduce the study."""
        write_atomically(self.config_path, yaml_text(config.to_dict()))

    def pickled_function(self, config: StudyConfig) -> "PickledFunction | None":
        """Return the objective that was given from Python, not run; None where it is imported, or is not here."""
        # Here, since lists need no function.
        from hpo.workers.objective.pickled_function import PickledFunction

        is_here = ObjectivePath.of(config.objective).is_kept and self.function_path.exists()
        return PickledFunction.read(self.function_path) if is_here else None

    def write_function(self, function: "PickledFunction | None") -> None:
        """Write an objective that was given from Python, where it is one."""
        if function is not None:
            write_atomically(self.function_path, function.to_bytes())

    def write_rows(self, function: "PickledFunction | None") -> None:
        """Write the rows that were given with such an objective, where there are some and they are not here yet."""
        rows = None if function is None else function.rows
        if rows is None or not rows.has_rows or self.given_data_dir.exists():
            return
        aside = self.given_data_dir.with_name(f".{self.given_data_dir.name}-{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        rows.write(aside)
        aside.rename(self.given_data_dir)

    def remove_unfinished(self) -> None:
        """Delete the files of a driver that was killed while it created the study."""
        # SQLite would read a left-over log into the new database.
        for suffix in ("", "-wal", "-shm"):
            self.database_path.with_name(self.database_path.name + suffix).unlink(missing_ok=True)
        for folder in (self.data_dir, self.given_data_dir):
            shutil.rmtree(folder, ignore_errors=True)

    def config(self) -> StudyConfig:
        """Return the frozen configuration; StudyError where there is no study, or it cannot be read."""
        if not self.exists:
            raise StudyError(f"study: there is none at {self}; see `ls {RUNS}`, or start one with `hpo search`")
        self.refuse_links()
        self.refuse_other_format()
        return config_from_dict(read_yaml(short_path(self.config_path)))

    def refuse_other_format(self) -> None:
        """Raise StudyError where the files are not of today's form; nothing is changed."""
        path = short_path(self.environment_path)
        if not path.exists():
            raise StudyError(f"{path}: is missing; restore the file")
        upgraded("study", read_json(path), str(path))

    def refuse_links(self) -> None:
        """Raise StudyError where a link inside the folder leads out of it."""
        root = os.path.realpath(self.path)
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = Path(folder, name)
                if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                    raise StudyError(
                        f"{short_path(path)}: is a link that leads out of the study's folder; replace it by the file"
                    )

    def inside(self, name: str) -> Path:
        """Return the path of a file that a record or report names; StudyError where it is outside of the folder."""
        path = self.path / name
        is_inside = False
        # ValueError: it contains a NUL, or half of a character. Not by `resolve`, which raises for a link to itself.
        with suppress(ValueError):
            is_inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path))
        if not is_inside:
            raise StudyError(f"{self}: names {name!r}, which is outside of the folder; restore the original")
        return path

    def changed_files(self, below: str) -> list[str]:
        """Return the files below this name that differ from those in the report; empty without a readable report."""
        files: Mapping[str, str] = {}
        with suppress(DocumentError):
            files = inner(self.report(), "files")
        return [name for name in files if name.startswith(f"{below}/") and not self.is_file(name, files[name])]

    def is_file(self, name: str, digest: str) -> bool:
        """Return whether a file that a record or report names is here, with this SHA-256."""
        path = self.inside(name)
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest

    def storage_url(self, config: StudyConfig) -> str:
        """Return the address of the Optuna storage that holds the study's record."""
        # Here, so that a refusal does not wait for SQLAlchemy.
        from hpo.trials.record.storage import sqlite_url

        values = values_of(config.study.storage, config.secrets, "study.storage")
        return reveal_secrets(config.study.storage, values) or sqlite_url(self.database_path)

    def make(self) -> None:
        """Create the folder, readable for this user only; StudyError where it cannot be, or a link leads out of it."""
        refuse_link(self.path)
        self.refuse_links()
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StudyError(f"{self}: cannot be created: {error.strerror}; make room for it, or move it") from error
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o700)

    def write_json(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write a JSON file."""
        write_atomically(path, json.dumps(values, indent=2) + "\n")

    def test_result(self) -> dict[str, Any] | None:
        """Return the result of `hpo test`; None while the test part is closed."""
        return self.read_json("test.json") or None

    def report(self) -> dict[str, Any]:
        """Return what report.json holds; empty without one. StudyError where it is of another format."""
        report = self.read_json("report.json")
        return upgraded("report", report, str(short_path(self.path / "report.json"))) if report else {}

    def read_json(self, name: str) -> dict[str, Any]:
        """Return what a JSON file of the folder holds; empty without one."""
        path = self.path / name
        return read_json(short_path(path)) if path.exists() else {}

    def files_of(self, trial: int, task: str | None = None) -> list[Path]:
        """Return the own files of a trial's trainings, or of one of several."""
        folder = self.files_dir / f"trial_{trial:04d}"
        return sorted(path for path in (folder / task if task else folder).rglob("*") if path.is_file())

    def log_path(self, trial: int, task: str) -> Path:
        """Return where a task's log is, such as trial_0003_fold_0.log."""
        return self.logs_dir / f"trial_{trial:04d}_{task}.log"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the study until the end of the block, or of the process; StudyError names who holds it otherwise."""
        self._is_first = not self.path.parent.exists()
        self.make()
        with self._lock.taken() as holder:
            if holder is not None:
                raise self._is_held_by(holder)
            try:
                yield
            finally:
                self.remove_uncreated()

    def remove_uncreated(self) -> None:
        """Remove a folder that `lock` has made, where the study was not created."""
        if self.path.is_dir() and [*self.path.iterdir()] == [self._lock.path]:
            self._lock.path.unlink()
            self.path.rmdir()
            if self._is_first and not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()

    @property
    def is_import(self) -> bool:
        """Whether it holds trials that were taken over from another program, and no study."""
        return not self.exists and os.path.isfile(self.path / IMPORT)  # noqa: PTH113 -- as above

    @property
    def is_starting(self) -> bool:
        """Whether a process is about to create the study: its workers start."""
        is_comparison = os.path.exists(self.path / "comparison.yaml")  # noqa: PTH110 -- as above
        return not self.exists and not is_comparison and self.holder() is not None

    def refuse_running(self) -> None:
        """Raise StudyError, as `lock` does, where a process runs the study; nothing is changed."""
        if (holder := self.holder()) is not None:
            raise self._is_held_by(holder)

    def _is_held_by(self, holder: Holder) -> StudyError:
        name = self.reference
        if self.is_outside:
            return StudyError(
                f"study: {self} is open in {holder}, which asks and tells its trials; close it there "
                f"(`session.close()`), or end that process"
            )
        if not self.exists:
            # A comparison, or a study that is being made.
            return StudyError(f"study: {self} is being run by {holder}; wait for it, or end it there (Ctrl-C)")
        return StudyError(
            f"study: {self} is being run by {holder}; wait for it (`hpo watch {name}`), or stop it with "
            f"`hpo stop {name}`"
        )

    def holder(self) -> Holder | None:
        """Return which process runs the study, None where none does; it waits for nobody and changes nothing."""
        return self._lock.holder()


def find_study(name: str) -> StudyFolder:
    """Return the folder of a study, given by its name under `runs/` or by a path; StudyError where there is none."""
    if "://" in name:
        raise StudyError(
            f"study: {name} is a URL, which `hpo show`, `hpo watch` and `hpo resume` take alone; give the study's name "
            f"or folder, where that is"
        )
    for path in (RUNS / name, Path(name)):
        folder = StudyFolder(path)
        if folder.exists:
            if path.parent == RUNS:
                refuse_link(folder.path)
            return folder
        if folder.is_import:
            raise StudyError(
                f"study: {short_path(path)} has trials that `hpo import` took over, and is no study; learn from them "
                f"in a new one: hpo search study.imports={path.name}"
            )
        # It is being made.
        folder.refuse_running()
    known = [path.name for path in studies_in(RUNS)]
    there_are = f"there are {', '.join(known)}" if known else "there is none yet: start one with `hpo search`"
    raise StudyError(f"study: there is no '{name}' under {RUNS}/; {there_are}")


def studies_in(runs: Path) -> list[Path]:
    """Return the folders in which studies are, in the order of names; what is hidden is being copied or removed."""
    return sorted(path.parent for path in runs.glob("[!.]*/config.yaml") if not is_training(path.parent))


def listed_in(folder: Path) -> Iterator[Path]:
    """Yield the folders of studies and imports, those that are being made, and those that cannot be entered.

    StudyError where the folder itself cannot be read; that there is no runs/ is no fault.
    """
    try:
        # What is hidden is being copied or removed.
        paths = sorted(path for path in folder.iterdir() if not (path.name.startswith(".") or is_training(path)))
    except FileNotFoundError as error:
        if folder == RUNS:
            return
        raise StudyError(f"in: there is no folder {folder}; give the folder in which studies are") from error
    except OSError as error:
        raise StudyError(
            f"in: {folder} cannot be read: {error.strerror}; give the folder in which studies are"
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
    """Return the folder of a training without a search, which begins now."""
    return StudyFolder(RUNS / f"train-{study}-{datetime.datetime.now():%Y%m%d-%H%M%S-%f}")


def is_training(path: Path) -> bool:
    """Return whether a folder is that of a training without a search, by its name."""
    return _TRAINING_NAME.fullmatch(path.name) is not None


def inner(report: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return an inner mapping; empty where it is missing, since a report may come from a stranger."""
    for key in keys:
        value = report.get(key)
        report = value if isinstance(value, Mapping) else {}
    return report


def short_path(path: Path) -> Path:
    """Return a path for people: relative to the working directory where it is below that."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        # It was deleted.
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path


def refuse_link(path: Path) -> None:
    """Raise StudyError where a study's folder under `runs/` is a link."""
    if path.is_symlink():
        raise StudyError(f"{short_path(path)}: is a link; put the folder itself there, or name the link's target")
