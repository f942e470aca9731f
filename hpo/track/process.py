"""The process that writes to MLflow: it reads calls of `MlflowSink` as JSON lines from its standard input.

It is a separate process, because MLflow takes 10 to 20 ms of CPU per run, and may hang if its server hangs. The process
ends when its input ends, so it also ends when the driver dies.
"""

import fcntl
import json
import logging
import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.config.secrets import hide_secrets
from hpo.errors import first_line
from hpo.track.store import mlflow_environment

if TYPE_CHECKING:
    from hpo.track.sink import Call, MlflowSink

# Calls within this time share a batch; it is the largest delay of curves in the UI.
_GATHER_SECONDS = 0.5
_BATCH = 200
# Time to wait for an absent server after the end of the input; `hpo sync` sends the rest later.
_LAST_CALL_SECONDS = 10.0
# After the driver's death, time without progress after which this process ends.
_ORPHAN_SECONDS = 8.0


def main() -> int:
    """Send the calls from standard input to MLflow; return 0 if all were sent, otherwise 1.

    The first call is not sent: its arguments are the fields of `_Sender`. They are not command-line arguments, because
    the store's address may contain a password.
    """
    os.environ.update(mlflow_environment())
    warnings.simplefilter("ignore")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    calls = _read_calls()
    begin = next(calls, None)
    if begin is None:
        return 0
    sender = _Sender(**begin[1])
    if sender.uri.startswith("sqlite"):
        _enable_write_ahead()
    threading.Thread(target=sender.receive, args=(calls,), daemon=True).start()
    return sender.send_all()


@dataclass
class _Sender:
    """Sends calls to MLflow, and stores each call until MLflow has received it.

    The sender locks the file `lock_path`, so that only one process at a time sends the calls of a study.
    """

    uri: str
    experiment: str
    artifact_root: str  # of a new experiment, if MLflow's store is on this machine
    lock_path: str
    retry_seconds: float
    _lock: int | None = None
    _sink: "MlflowSink | None" = None
    _arrived: "queue.SimpleQueue[Call | None]" = field(default_factory=queue.SimpleQueue)
    _unsent: "list[Call]" = field(default_factory=list)
    _batch: int = _BATCH
    _has_imported: threading.Event = field(default_factory=threading.Event)
    _is_closed: bool = False
    _has_warned: bool = False
    _last_progress: float = field(default_factory=time.monotonic)
    _last_call: float = _LAST_CALL_SECONDS

    def receive(self, calls: "Iterable[Call]") -> None:
        """Queue the calls. After the last one, end this process if sending makes no progress, even if a request hangs.

        The last call, `end`, says after how many seconds without progress this process ends. If there is no call `end`,
        the driver has died, and this process ends after `_ORPHAN_SECONDS` without progress.
        """
        patience = _ORPHAN_SECONDS
        for method, arguments in calls:
            if method == "end":
                patience = arguments["patience_seconds"]
                break
            self._arrived.put((method, arguments))
        self._last_call = min(self._last_call, patience)
        self._last_progress = time.monotonic()
        self._arrived.put(None)
        # Do not count the import, which takes seconds on a busy machine and cannot hang.
        self._has_imported.wait()
        while time.monotonic() < self._last_progress + patience:
            time.sleep(0.2)
        self._warn(TimeoutError("no answer in time"))
        # A hanging call cannot be cancelled; the next `hpo sync` sends it again.
        os._exit(1)

    def send_all(self) -> int:
        """Send calls until the input has ended and all calls are sent; return 0.

        Return 1 if sending still fails more than `_last_call` seconds after the end of the input.
        """
        is_open, pause, deadline = True, _GATHER_SECONDS, float("inf")
        while is_open or self._unsent:
            if is_open:
                is_open = self._gather(pause)
                deadline = deadline if is_open else time.monotonic() + self._last_call
            else:
                time.sleep(min(pause, 1.0))
            failure_pause = self._try_to_send()
            if failure_pause and time.monotonic() > deadline:
                return 1
            pause = failure_pause or _GATHER_SECONDS
        return 0

    def _gather(self, seconds: float) -> bool:
        """Store the calls that arrive within the next `seconds`; return False if the input has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                call = self._arrived.get(timeout=left)
            except queue.Empty:
                return True
            if call is None:
                if not self._is_closed:
                    self._unsent.append(("abandon_study", {}))
                return False
            self._is_closed |= call[0] == "close_study"
            self._unsent.append(call)
        return True

    def _try_to_send(self) -> float:
        """Send all calls, and return 0. If a call fails or the study is locked, return the seconds to the next try."""
        try:
            if not self._has_lock():
                return _GATHER_SECONDS
            if self._sink is None:
                from hpo.track.sink import MlflowSink  # lazy, because it imports mlflow, which takes seconds

                self._last_progress = time.monotonic()
                self._has_imported.set()
                self._sink = MlflowSink(self.uri, self.experiment, Path(self.artifact_root))
                self._last_progress = time.monotonic()
            # After a failure the failed batch and all later calls remain.
            while self._unsent:
                batch = self._unsent[: self._batch]
                self._sink.apply(batch)
                del self._unsent[: len(batch)]
                self._batch = min(_BATCH, 2 * self._batch)
                self._last_progress = time.monotonic()
        except Exception as error:  # noqa: BLE001  # Errors of MLflow, SQLAlchemy or requests; for all of them, try later.
            # Smaller batches repeat less work after each failure of an unstable server.
            self._batch = max(1, self._batch // 2)
            self._warn(error)
            return self.retry_seconds
        return 0.0

    def _has_lock(self) -> bool:
        """Take the study's lock, so that no run is created twice; return False while another process has it."""
        if self._lock is None:
            file = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            self._lock = file
        return True

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            reason, cause = first_line(error), error.__cause__ or error.__context__
            # The texts of MLflow and requests contain the whole chain; the system's reason is the innermost.
            while cause is not None:
                reason = getattr(cause, "strerror", None) or reason
                cause = cause.__cause__ or cause.__context__
            text = f"warning: MLflow at {self.uri} cannot be written ({reason}); the study keeps all results\n"
            sys.stderr.write(hide_secrets(text, {}))
            self._has_warned = True


def _read_calls() -> "Iterator[Call]":
    for line in sys.stdin:
        # The driver may have died in the middle of a line.
        if line.endswith("\n"):
            yield json.loads(line)


def _enable_write_ahead() -> None:
    """Use write-ahead logging in every SQLite connection, to write runs twice as fast, without blocking the UI."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")


if __name__ == "__main__":
    sys.exit(main())
