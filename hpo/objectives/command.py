"""A training that is a command line, in any language: values are written into it, and its lines of JSON are read."""

import codecs
import io
import json
import locale
import os
import select
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from hpo.config.keys import at, flatten, path_of
from hpo.errors import ConfigError
from hpo.objectives.command_line import COPY, CommandLine, fill, placeholders

# Of a stranger's study they are shown, and run only after a yes: see `Objective.code_keys`.
CODE_KEYS = ("command.line", "command.config")
# What a command reads and never writes; a file of another kind may be its result of last time.
_OF_CODE = (".py", ".sh", ".r", ".jl", ".pl", ".rb", ".js", ".lua", ".m", ".yaml", ".yml", ".toml", ".ini", ".cfg")
_SECONDS_TO_END = 10.0
_LONGEST_LINE = 100_000  # characters
_MILLISECONDS_BETWEEN_LOOKS = 100
_MOST_IN_PIPE = 1 << 20  # bytes that the system lets a pipe hold


# Rises where the same command would get other values, or other numbers would be read of what it prints.
REVISION = 1


def check(config: Mapping[str, Any]) -> None:
    """Refuse a command, or its file, that cannot be read, and values that neither has a place for: ConfigError."""
    command = CommandLine(config)
    names = command.names
    for key in command.flags:
        if not isinstance(value := at(command.flat, key, True), bool):
            raise ConfigError(f"{key}: must be true or false for {{flag:{key}}} in command.line, given {value!r}")
    if command.file is None:
        return
    if not {*names} & {*COPY}:
        raise ConfigError(
            f"command.config: has no effect, given {command.file!r}: command.line has no {{config}}, which becomes the "
            f"path of the trial's own copy; write it there, such as --config {{config}}"
        )
    command.refuse_unread(command.values)


def code_files(config: Mapping[str, Any]) -> list[str]:
    """Return the scripts, programs and configurations that the command names; no program from elsewhere."""
    command = CommandLine(config)
    words = [fill(word, {}) for word in command.words if not placeholders(word)]
    # An option may have its value behind a sign: `--config=small.yaml`.
    named = {part for word in words for part in (word, word.partition("=")[2]) if part}
    program = Path(command.words[0])
    if program.is_absolute() and not program.is_relative_to(Path.cwd()):
        named.discard(command.words[0])
    read = {command.file} if command.file and Path(command.file).is_file() else set()
    return sorted(read | {name for name in named if _is_script(Path(name))})


def describe_search(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return that the names in the command may be searched, with `{args}` any; what its file has is tried first."""
    command = CommandLine(config)
    space, given = ({}, ()) if command.file is None else ({"first": "default"}, COPY)
    names = [name for name in command.names if not name.startswith("task.") and name not in given]
    return {"space": space, "keys": None if command.takes_all() else names, "needs": names}


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
    return {"preprocessing": f"by the command: {config['command']['line']}"}


def run_fold(task: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any]]:
    """Run the command; yield each line of its output that is a JSON object, and return the last value of each name."""
    last: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as errors:
        command = CommandLine(task["config"])
        words = command.filled(task, command.write_copy(Path(folder)))
        try:
            # It stays in this worker's process group, which ends as a whole.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        except OSError as error:
            raise RuntimeError(f"command '{words[0]}' cannot be run: {error.strerror}") from error
        with process:
            try:
                for number, point in enumerate(_points(process), 1):
                    yield {"epoch": number, **point}
                    last |= point
            except BaseException:
                # The search ends it: `with` waits for it.
                _end(process)
                raise
        if process.returncode:
            raise RuntimeError(f"the command ended with exit code {process.returncode}: {_last_line(errors)}")
    if not last:
        raise RuntimeError('the command printed no line of JSON; print one such as {"loss": 0.25}')
    return {name: value for name, value in last.items() if name not in ("epoch", "more", "units", "warning")}


def _is_script(path: Path) -> bool:
    try:
        return path.is_file() and (path.suffix.lower() in _OF_CODE or os.access(path, os.X_OK))
    except (OSError, ValueError):
        # No file can have this name.
        return False


def _points(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    for line in _lines(process):
        if len(line) >= _LONGEST_LINE and line.startswith("{"):
            yield {"warning": f"a line of JSON of {_LONGEST_LINE:,} characters or more is not read"}
            continue
        try:
            point = json.loads(line)
        except (ValueError, RecursionError):
            continue  # What it prints for people.
        if isinstance(point, dict):
            yield point


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield what the command prints; of a line that is too long the beginning."""
    decoder = codecs.getincrementaldecoder(locale.getpreferredencoding(False))("replace")
    newlines, text = io.IncrementalNewlineDecoder(decoder, translate=True), ""
    for chunk in _chunks(process):
        *lines, text = (text + newlines.decode(chunk)).split("\n")
        yield from lines
        text = text[:_LONGEST_LINE]
    yield text + newlines.decode(b"", final=True)


def _chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield what is printed until the command has ended: what it leaves running may hold its output open."""
    assert process.stdout is not None
    pipe, poll = process.stdout.fileno(), select.poll()
    poll.register(pipe, select.POLLIN)
    has_ended = False
    while not has_ended:
        # First, so that all that it has printed is in the pipe, which one reading takes.
        has_ended = process.poll() is not None
        if poll.poll(0 if has_ended else _MILLISECONDS_BETWEEN_LOOKS):
            chunk = os.read(pipe, _MOST_IN_PIPE)
            if not chunk:
                return
            yield chunk


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


def _last_line(errors: IO[str]) -> str:
    errors.seek(0)
    lines: Sequence[str] = errors.read()[-_LONGEST_LINE:].splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing on stderr")
