"""A training that is a command line, in any language: values are written into it, and what it prints is read."""

import codecs
import io
import locale
import math
import os
import select
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from hpo.config.keys import at, flatten, path_of
from hpo.errors import ConfigError
from hpo.objectives import command_code
from hpo.objectives.command_line import COPY, CommandLine
from hpo.objectives.command_output import (
    LONGEST_LINE,
    PLACES,
    JsonReader,
    PatternReader,
    ProgramError,
    Reader,
    read_result,
)

# Of a stranger's study they are shown, and run only after a yes: see `Objective.code_keys`.
CODE_KEYS = ("command.line", "command.config")
_LINES_IN_ERROR = 3
_SECONDS_TO_END = 10.0
_GOES_ON = (
    "a program that stops at {task.amount} and goes on from {task.resume_dir}: write both into command.line, and give "
    "command.continues=true"
)
_MILLISECONDS_BETWEEN_LOOKS = 100
_MOST_IN_PIPE = 1 << 20  # bytes that the system lets a pipe hold
# Of what a line says of its report; see also `PLACES`.
_NOT_METRICS = ("more", "units", "warning")

# Where `command.continues` says so; see `describe_search`.
CONTINUES = True
# Rises where the same command would get other values, or other numbers would be read of what it prints.
REVISION = 3


def check(config: Mapping[str, Any]) -> None:
    """Refuse a command, or its file, that cannot be read, and values that neither has a place for: ConfigError."""
    command = CommandLine(config)
    names = command.names
    for key in command.flags:
        if not isinstance(value := at(command.flat, key, True), bool):
            raise ConfigError(f"{key}: must be true or false for {{flag:{key}}} in command.line, given {value!r}")
    command.refuse_bad_output()
    if command.file is None:
        return
    if not {*names} & {*COPY}:
        raise ConfigError(
            f"command.config: has no effect, given {command.file!r}: command.line has no {{config}}, which becomes the "
            f"path of the trial's own copy; write it there, such as --config {{config}}"
        )
    command.refuse_unread(command.values)


def code_files(config: Mapping[str, Any]) -> list[str]:
    """Return the files that the command names as code, and the modules of Python that these run."""
    return command_code.code_files(CommandLine(config))


def describe_search(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return that the names in the command may be searched, with `{args}` any; what its file has is tried first."""
    command = CommandLine(config)
    space, given = ({}, ()) if command.file is None else ({"first": "default"}, COPY)
    names = [name for name in command.names if not name.startswith("task.") and name not in given]
    notes = command_code.notes_on_unseen(command)
    unsaid = command.amount_without_full
    return {
        "space": space,
        "keys": None if command.takes_all() else names,
        "needs": names,
        "notes": notes,
        "amounts_need": None if command.continues and command.has("amount") else _GOES_ON,
        "needs_amounts": f"{unsaid} in command.line; {{task.amount:30}} gives a full training, of 30"
        if unsaid
        else None,
    }


def describe_defaults(config: Mapping[str, Any], searched: Sequence[str]) -> dict[str, Any]:
    """Return what the command's file has for the keys that are searched, or scales change, and which keys those are."""
    command = CommandLine(config)
    missing = {*command.names} - {*command.flat, *searched}
    if "args" in missing:
        raise ConfigError("command.line: {args} must be a word of its own; it becomes --key=value for each value")
    if command.file is None and "config" in missing:
        raise ConfigError(
            "command.config: is missing: {config} in command.line becomes the path of each trial's own copy of a file "
            "in YAML or JSON; give command.config=FILE"
        )
    command.refuse_unread(searched)
    if command.file is None and not command.takes_all(searched):
        return {}
    own = flatten(command.base)
    unsaid = [key for key in searched if at(command.flat, key, {}) == {}]
    values = {key: at(own, key) for key in unsaid if path_of(command.base, key)}
    # A flag is usually off where it is not given.
    values |= {key: False for key in command.flags if key in unsaid and key not in values}
    return {**values, "command.searched": list(searched)}


def describe_method(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says of every training."""
    command = CommandLine(config)
    method: dict[str, Any] = {"preprocessing": f"by the command: {config['command']['line']}"}
    if command.patterns and command.result is None:
        found = {name: pattern.pattern for name, pattern in command.patterns.items() if name not in PLACES}
        method["metrics"] = {name: f"what {text!r} finds in the command's output" for name, text in found.items()}
    return method


def run_fold(task: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any] | None]:
    """Run the command; yield what its output reports, and return the values that count.

    These are those of its file, if it writes one, then the last value of each name, or with `study.score=best` those of
    the report that is best. A program that goes on from a state returns nothing without a score in its file: what it
    reported before counts, too. All that the command writes goes to this process's own streams as it comes.
    """
    with tempfile.TemporaryDirectory() as temporary:
        command = CommandLine(task["config"])
        kept = task.get("files_dir") if command.has("dir") else None
        told = {**task, **_folders(temporary, task["resume_dir"] if command.continues else None, kept)}
        is_new = not any(Path(told["resume_dir"]).iterdir())
        words = command.filled(told, command.write_copy(Path(temporary, "config")))
        reader: Reader = JsonReader(task["metric"])
        if command.patterns:
            reader = PatternReader(task["metric"], command.patterns)
        try:
            # It stays in this worker's process group, which ends as a whole.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise ProgramError(f"command '{words[0]}' cannot be run: {error.strerror}") from error
        streams = [_Stream(process.stdout, "stdout"), _Stream(process.stderr, "stderr")]
        with process:
            try:
                # A log for people may be in either.
                for line in _lines(process, streams, streams if command.patterns else streams[:1]):
                    yield from reader.take(line)
                yield from reader.rest()
            except BaseException:
                # The search ends it: `with` waits for it.
                _end(process)
                raise
        if process.returncode:
            *before, last = streams[1].last or streams[0].last or ["it said nothing"]
            after = f" (after {' | '.join(before)})" if before else ""
            raise ProgramError(f"the command ended with exit code {process.returncode}: {last}{after}")
        try:
            final = read_result(Path(told["folder"]), command.result) if command.result else {}
            if not final and (is_new or not command.continues):
                _refuse_nothing_read(command, reader.points, task["metric"])
        except ProgramError as error:
            last = (streams[0].last or streams[1].last or [""])[-1]
            said = f"the last line that it printed: {last!r}" if last else "it printed nothing"
            raise ProgramError(f"{error}; {said}") from error
    if command.continues and task["metric"] not in final:
        return None
    values = {name: value for point in reader.points for name, value in point.items()}
    if task["score"] == "best":
        values |= _best(reader.points, task["metric"], task["direction"] == "maximize")
    return {name: value for name, value in (values | final).items() if name not in (*PLACES, *_NOT_METRICS)}


def _folders(temporary: str, state: str | None, kept: str | None) -> dict[str, str]:
    """Make and return the folders of a training by their names in the line; those that are not given are temporary."""
    given = {"folder": None, "resume_dir": state, "dir": kept}
    folders = {name: Path(folder or Path(temporary, name)).absolute() for name, folder in given.items()}
    for folder in (*folders.values(), Path(temporary, "config")):
        folder.mkdir(parents=True, exist_ok=True)
    return {name: str(folder) for name, folder in folders.items()}


def _refuse_nothing_read(command: CommandLine, points: Sequence[Mapping[str, Any]], metric: str) -> None:
    """Raise ProgramError where no line was read, or none by the pattern of the study's metric."""
    pattern = command.patterns.get(metric)
    if pattern is not None and not any(metric in point for point in points):
        raise ProgramError(f"no line of the command matches command.pattern.{metric}, {pattern.pattern!r}")
    if not points:
        raise ProgramError(
            f'the command printed no line of JSON; print one such as {{"{metric}": 0.25}}, or give command.pattern, '
            f"which finds numbers in any line"
        )


def _best(points: Sequence[dict[str, Any]], metric: str, is_max: bool) -> dict[str, Any]:
    """Return the point in which the metric is best, of equals the first; empty where none has it as a number."""
    numbers = [(point[metric], point) for point in points if isinstance(point.get(metric), int | float)]
    scored = [(value if is_max else -value, point) for value, point in numbers if -math.inf < value < math.inf]
    return max(scored, key=lambda each: each[0])[1] if scored else {}


def _lines(process: subprocess.Popen[bytes], streams: Sequence["_Stream"], read: Sequence["_Stream"]) -> Iterator[str]:
    """Yield the lines of the streams to read, and pass all on, until the command has ended.

    What it leaves running may hold its output open.
    """
    poll, left = select.poll(), {stream.pipe: stream for stream in streams}
    for pipe in left:
        poll.register(pipe, select.POLLIN)
    has_ended = False
    while left and not has_ended:
        # First, so that all that it has written is in the pipes, which one reading takes.
        has_ended = process.poll() is not None
        lines: list[str] = []
        for pipe, _ in poll.poll(0 if has_ended else _MILLISECONDS_BETWEEN_LOOKS):
            if chunk := os.read(pipe, _MOST_IN_PIPE):
                completed = left[pipe].take(chunk)
                lines += completed if left[pipe] in read else []
            else:
                poll.unregister(pipe)
                del left[pipe]
        # After both were passed on: whoever reads a line may end the command there.
        yield from lines
    rests = [(stream, stream.take(b"", is_last=True)) for stream in streams]
    yield from (line for stream, lines in rests if stream in read for line in lines)


class _Stream:
    """One stream of a command: what is written to it goes on to this process's own of that name, and is divided.

    Attributes:
        pipe: the descriptor to read it from.
        last: the last lines that are not empty, the latest last.
    """

    def __init__(self, pipe: IO[bytes] | None, name: str) -> None:
        assert pipe is not None
        self.pipe, self.last, self._name = pipe.fileno(), deque[str](maxlen=_LINES_IN_ERROR), name
        self._held = self._rest = ""
        self._decoder = codecs.getincrementaldecoder(locale.getpreferredencoding(False))("replace")
        self._newlines = io.IncrementalNewlineDecoder(None, translate=True)

    def take(self, chunk: bytes, is_last: bool = False) -> list[str]:
        """Pass whole lines on, since two streams become one log; return them, of one that is too long the beginning."""
        text = self._held + self._decoder.decode(chunk, is_last)
        is_whole = is_last or len(text) > LONGEST_LINE
        end = len(text) if is_whole else max(text.rfind("\n"), text.rfind("\r")) + 1
        text, self._held = text[:end], text[end:]
        # Looked up each time: what the search shows and keeps is redirected from step to step.
        ours = getattr(sys, self._name)
        # A last line without an end would run into what this process prints next.
        ours.write(f"{text}\n" if is_last and text and not text.endswith("\n") else text)
        ours.flush()
        *lines, rest = (self._rest + self._newlines.decode(text, is_last)).split("\n")
        self._rest = rest[:LONGEST_LINE]
        lines += [self._rest] if is_last else []
        self.last.extend(line.strip() for line in lines if line.strip())
        return lines


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command, and what it has started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.terminate()
    process.terminate()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
