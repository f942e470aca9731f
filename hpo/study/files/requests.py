"""Requests to the process that runs a study, from others of the same user: a file each, and a file with the answer."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
_SECONDS_BETWEEN_LOOKS = 0.1
# Who asked and lives has read the answer by then, also where a file system of the network shows it late.
_SECONDS_UNTIL_READ = 10.0
# What helps where a study is asked and told.
_WHILE_ASKED: Mapping[Verb, str] = {
    "add": "give it the point there (`session.add`), or try again when that has closed it",
    "retry": "add the failed trial's point there (`session.add`), or try again when that has closed it",
    "stop": "close it there (`session.close()`), or end that process",
    "raise": "try again when that has closed it (`session.close()`)",
}


class Request(BaseModel):
    """What is asked, and by which user; `given` depends on the verb."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    do: Verb
    by: str
    given: dict[str, Any] = {}


class Answer(BaseModel):
    """What became of it, in a line; `is_done`: whether it has taken effect."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    is_done: bool
    says: str


class PendingRequest(NamedTuple):
    """A request that waits for its answer."""

    path: Path
    request: Request

    def answer(self, says: str, is_done: bool = True) -> None:
        """Tell who asked, and forget the request."""
        write_atomically(_answer_path(self.path), Answer(is_done=is_done, says=says).model_dump_json())
        self.path.unlink(missing_ok=True)


def request(folder: StudyFolder, do: Verb, given: Mapping[str, Any]) -> str:
    """Ask the process that runs a study's search, wait for the answer, and return what it says.

    StudyError where it is refused, or the search ends before it is taken; then it is withdrawn.
    """
    if read_status(folder).phase == "asked and told":
        raise StudyError(
            f"study: {folder} is open in {folder.holder() or 'a process'}, which asks and tells its trials and takes "
            f"nothing from others; {_WHILE_ASKED[do]}"
        )
    folder.requests_dir.mkdir(mode=0o700, exist_ok=True)
    path = folder.requests_dir / f"{time.time_ns()}-{os.getpid()}.json"
    answered = _answer_path(path)
    try:
        write_atomically(path, Request(do=do, by=user_name(), given=dict(given)).model_dump_json())
        while not answered.exists():
            # A search that ends has answered before.
            if not is_searching(folder) and not answered.exists():
                raise _ended(folder, do, given)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        answer = Answer.model_validate(parse_json(answered.read_text(encoding="utf-8"), str(answered)))
    finally:
        for file in (path, answered):
            file.unlink(missing_ok=True)
    if not answer.is_done:
        raise StudyError(answer.says)
    return answer.says


def _ended(folder: StudyFolder, do: Verb, given: Mapping[str, Any]) -> StudyError:
    """Return the error of a request that the search no longer took, with what does it instead."""
    name, holder = folder.reference, folder.holder()
    values = " ".join(f"study.{key}={value:g}" for key, value in given.items()) if do == "raise" else ""
    helps = {
        "add": "the same command again has the point tried when the search goes on",
        "retry": "the same command again has them retried when the search goes on",
        "raise": f"`hpo resume {name} {values}` goes on to the larger budget",
        "stop": f"`hpo show {name}` says how",
    }
    later = "" if holder is None or do == "stop" else f", once {holder} has trained what follows (`hpo watch {name}`)"
    return StudyError(
        f"study: the search of {folder} has ended meanwhile, and took nothing of this; {helps[do]}{later}"
    )


def pending_requests(folder: StudyFolder) -> Iterator[PendingRequest]:
    """Yield what waits for an answer, the earliest first; what is no request is refused."""
    try:
        names = sorted(name for name in os.listdir(folder.requests_dir) if _is_name(name))  # noqa: PTH208 -- in microseconds
    except FileNotFoundError:
        return
    for name in names:
        path = folder.requests_dir / name
        # Who asked may have withdrawn it.
        with suppress(FileNotFoundError):
            text = path.read_text(encoding="utf-8", errors="replace")
            try:
                yield PendingRequest(path, Request.model_validate(parse_json(text, str(short_path(path)))))
            except (HpoError, ValidationError):
                PendingRequest(path, Request(do="add", by="")).answer("is no request of this version", is_done=False)


def refuse_earlier(folder: StudyFolder) -> None:
    """Refuse what was asked of a process that was killed before it took it: who asked has gone, too."""
    for pending in pending_requests(folder):
        pending.answer("was asked of an earlier run of the search; ask again", is_done=False)


def forget_unread(folder: StudyFolder) -> None:
    """Delete the answers to requests whose processes have died: nobody reads them."""
    for path in folder.requests_dir.glob(f"*{_ANSWER}"):
        # Who asked may read and delete it just now.
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _SECONDS_UNTIL_READ:
                path.unlink()


def is_searching(folder: StudyFolder) -> bool:
    """Return whether a process runs the study and its search is not over."""
    status = read_status(folder)
    return status.state == "running" and status.phase != "after the search"


def _answer_path(path: Path) -> Path:
    return path.with_suffix(_ANSWER)


def _is_name(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")
