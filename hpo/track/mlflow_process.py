"""The process that talks to MLflow: reads messages as JSON lines from its standard input until that ends.

MLflow takes 10 to 20 ms of CPU a run and may hang with its server, so it lives here and not in the driver. When
the driver dies, the input ends, and so does this process.
"""

import itertools
import json
import logging
import os
import queue
import sys
import threading
import time
import warnings
from collections import deque
from pathlib import Path
from typing import Any

from hpo.track.messages import Message
from hpo.track.mlflow_quiet import MLFLOW_ENVIRONMENT

# Messages that are close in time share a batch; curves appear in the UI at most this much later.
_GATHER_SECONDS = 0.5
_RETRY_SECONDS = 5.0
_BATCH = 200
# Once the input has ended, how long an absent server is waited for; `hpo sync` sends what is missing later.
_LAST_CALL_SECONDS = 10.0


def main(uri: str, experiment: str, artifact_root: str) -> int:
    """Send everything that arrives; return 0 when all of it was sent, 1 when MLflow could not be reached."""
    os.environ.update(MLFLOW_ENVIRONMENT)
    warnings.simplefilter("ignore")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    arrived: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(arrived,), daemon=True).start()
    unsent: deque[Message] = deque()
    sink: Any = None
    is_open, deadline, warned = True, float("inf"), False
    while is_open or unsent:
        is_open = _gather(arrived, unsent) if is_open else False
        if not is_open and deadline == float("inf"):
            deadline = time.monotonic() + _LAST_CALL_SECONDS
        try:
            sink = sink or _open(uri, experiment, Path(artifact_root))
            _send(sink, unsent)
        # MLflow, SQLAlchemy and requests each raise their own kinds; all mean: not now.
        except Exception as error:  # noqa: BLE001
            if not warned:
                sys.stderr.write(
                    f"warning: MLflow at {uri} cannot be written ({_one_line(error)}); the study goes on\n"
                )
                warned = True
            if time.monotonic() > deadline:
                return 1
            time.sleep(_RETRY_SECONDS if is_open else 1.0)
    return 0


def _read_lines(arrived: "queue.SimpleQueue[Message | None]") -> None:
    for line in sys.stdin:
        arrived.put(json.loads(line))
    arrived.put(None)


def _gather(arrived: "queue.SimpleQueue[Message | None]", unsent: deque[Message]) -> bool:
    """Move what has arrived to `unsent`; wait a moment for the first. Return False once the input has ended."""
    try:
        message = arrived.get(timeout=_GATHER_SECONDS)
        while message is not None:
            unsent.append(message)
            message = arrived.get_nowait()
        return False
    except queue.Empty:
        return True


def _open(uri: str, experiment: str, artifact_root: Path) -> Any:
    from hpo.track.mlflow_sink import MlflowSink  # Imports mlflow: seconds, which the driver does not wait for.

    if uri.startswith("sqlite"):
        _write_ahead()
    return MlflowSink(uri, experiment, artifact_root)


def _write_ahead() -> None:
    """Let every SQLite connection of this process log writes ahead: half the time a run, and the UI can read on."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")


def _send(sink: Any, unsent: deque[Message]) -> None:
    """Apply the messages one after another, so that a failure keeps the one it failed at and all after it."""
    while unsent:
        # A batch ends with the last message at hand; a message that failed half-way is applied again whole.
        batch = list(itertools.islice(unsent, _BATCH))
        sink.apply(batch)
        for _ in batch:
            unsent.popleft()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
