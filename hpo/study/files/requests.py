"""Requests of other processes to the process that runs a study; each request and each answer is a file."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from hpo.config.documents import parse_json
from hpo.errors import HpoError, StudyError
from hpo.files import write_atomically
from hpo.machine import user_name
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.status import read_status

Verb = Literal["add", "retry", "stop", "raise"]
_ANSWER = ".answer"
_SECONDS_BETWEEN_POLLS = 0.1
# The folder of the study whose search this thread runs. The thread would wait forever for its own answer.
_ANSWERED_HERE: ContextVar[Path | None] = ContextVar("answered_here", default=None)
# Advice while an ask-and-tell session has the study open.
_SESSION_ADVICE: Mapping[Verb, str] = {
    "add": "add the point in the session's process (`session.add`), or repeat the request after the session's end",
    "retry": "add the failed trial's point in the session's process (`session.add`), or repeat the request after the "
    "session's end",
    "stop": "call `session.close()` in the session's process, or end the session's process",
    "raise": "close the session (`session.close()`), and repeat the request",
}


class Request(BaseModel):
    """A request of a user to the process that runs a study.

    Attributes:
        do: what to do, such as `stop`.
        by: the user's name.
        given: the arguments; they depend on `do`.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    do: Verb
    by: str
    given: dict[str, Any] = {}


class Answer(BaseModel):
    """The answer to a request: whether the request took effect, and a line for the user."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    is_done: bool
    says: str


class PendingRequest(NamedTuple):
    """A request that waits for its answer."""

    path: Path
    request: Request

    def answer(self, says: str, is_done: bool = True) -> None:
        """Write the answer and delete the request."""
        write_atomically(_answer_path(self.path), Answer(is_done=is_done, says=says).model_dump_json())
        self.path.unlink(missing_ok=True)


def request(folder: StudyFolder, do: Verb, given: Mapping[str, Any]) -> str:
    """Send a request to the process that runs a study's search, and return the text of the answer.

    Raises:
        StudyError: the process refuses the request, the search ends before the process reads the request, an
            ask-and-tell session has the study open, or this thread runs the search.
    """
    if _ANSWERED_HERE.get() == folder.path:
        raise StudyError(
            f"study: this thread runs the search of {folder}, so it cannot wait for the search's answer; in a "
            f"callback f(study, trial), use `study.add`, `study.retry` or `study.stop`; raise the budget after the "
            f"search, or from another process"
        )
    if read_status(folder).phase == "ask-and-tell":
        raise StudyError(
            f"study: {folder} is open in an ask-and-tell session of {folder.holder() or 'a process'}; a session "
            f"accepts no requests from other processes, so {_SESSION_ADVICE[do]}"
        )
    folder.requests_dir.mkdir(mode=0o700, exist_ok=True)
    path = folder.requests_dir / f"{time.time_ns()}-{os.getpid()}.json"
    answered = _answer_path(path)
    try:
        write_atomically(path, Request(do=do, by=user_name(), given=dict(given)).model_dump_json())
        while not answered.exists():
            # Check the answer again: the search may have answered just before it ended.
            if not is_searching(folder) and not answered.exists():
                raise _ended_error(folder, do, given)
            time.sleep(_SECONDS_BETWEEN_POLLS)
        answer = Answer.model_validate(parse_json(answered.read_text(encoding="utf-8"), str(answered)))
    finally:
        for file in (path, answered):
            file.unlink(missing_ok=True)
    if not answer.is_done:
        raise StudyError(answer.says)
    return answer.says


def _ended_error(folder: StudyFolder, do: Verb, given: Mapping[str, Any]) -> StudyError:
    """Return the error for a request after the end of the search; the message names the command to use instead."""
    name, holder = folder.reference, folder.holder()
    values = " ".join(f"study.{key}={value:.15g}" for key, value in given.items()) if do == "raise" else ""
    advice = {
        "add": "repeat the request; the point is then tried when the search continues",
        "retry": "repeat the request; the trials are then retried when the search continues",
        "raise": f"run `hpo resume {name} {values}`",
        "stop": f"`hpo show {name}` says how the search ended",
    }
    first = "" if holder is None or do == "stop" else f"wait for {holder} (`hpo watch {name}`), then "
    return StudyError(f"study: the search of {folder} has ended, so the request had no effect; {first}{advice[do]}")


def pending_requests(folder: StudyFolder) -> Iterator[PendingRequest]:
    """Yield the valid requests that wait for an answer, the earliest first; refuse invalid requests."""
    try:
        listed = os.listdir(folder.requests_dir)  # noqa: PTH208 -- in microseconds
    except FileNotFoundError:
        return
    # Hidden files are requests that are being written.
    for name in sorted(name for name in listed if name.endswith(".json") and not name.startswith(".")):
        path = folder.requests_dir / name
        # The sender may have withdrawn the request.
        with suppress(FileNotFoundError):
            text = path.read_text(encoding="utf-8", errors="replace")
            try:
                yield PendingRequest(path, Request.model_validate(parse_json(text, str(short_path(path)))))
            except (HpoError, ValidationError):
                PendingRequest(path, Request(do="add", by="")).answer(
                    "the version of hpo that runs the search cannot read this request; send it with that version",
                    is_done=False,
                )


@contextmanager
def answering(folder: StudyFolder) -> Iterator[None]:
    """Mark this thread, within the `with` block, as the thread that answers requests to the study's search.

    In a marked thread, `request` raises StudyError, because the thread would wait for its own answer forever.
    """
    token = _ANSWERED_HERE.set(folder.path)
    try:
        yield
    finally:
        _ANSWERED_HERE.reset(token)


def refuse_left_over(folder: StudyFolder) -> None:
    """Refuse the requests to an earlier process that was killed before it answered them."""
    for pending in pending_requests(folder):
        pending.answer("the process that ran the search was killed; repeat the request", is_done=False)


def is_searching(folder: StudyFolder) -> bool:
    """Return whether a process runs the study's search; False during trainings after the search."""
    status = read_status(folder)
    return status.state == "running" and status.phase != "after the search"


def _answer_path(path: Path) -> Path:
    return path.with_suffix(_ANSWER)
