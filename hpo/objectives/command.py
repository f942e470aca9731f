"""Trains by running a command, a program in any language that gets the trial's values and prints the scores."""

import codecs
import io
import locale
import math
import os
import select
import signal
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

# The user must confirm the values of these keys before a study of another person runs; see `Objective.code_keys`.
CODE_KEYS = ("command.line", "command.config")
_LINES_IN_ERROR = 3
_SECONDS_TO_END = 10.0
_CONTINUES_HINT = (
    "a program that stops at {task.amount} and continues from {task.resume_dir}; write both placeholders into "
    "command.line, and set command.continues=true"
)
_MILLISECONDS_BETWEEN_CHECKS = 100
_MOST_IN_PIPE = 1 << 20  # the most bytes that a pipe can hold on this system
# Fields of a report that are not metrics, in addition to `PLACES`.
_NOT_METRICS = ("more", "units", "warning")

# It applies only with `command.continues=true`; see `describe_search`.
CONTINUES = True
# Increase this number when a change passes other values to the same command, or reads its output differently.
REVISION = 4


def check(config: Mapping[str, Any]) -> None:
    """Raise ConfigError if a setting of the command is not valid.

    If the command has a configuration file, also raise ConfigError for a value of the trial that neither this file nor
    the command line uses. Raise DocumentError if this file cannot be read.
    """
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
            f"command.config: has no effect, because command.line has no {{config}}; extend command.line, for example "
            f"by --config {{config}}; {{config}} becomes the path of the trial's copy of {command.file!r}"
        )
    command.refuse_unread(command.values)


def code_files(config: Mapping[str, Any]) -> list[str]:
    """Return the paths of the programs, Python modules and configuration files that the command uses."""
    return command_code.code_files(CommandLine(config))


def describe_search(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that may be searched, and other facts about the search; see `SearchDescription`.

    If the command has `{args}`, any key may be searched. Otherwise, the keys are the names of the command's
    placeholders, such as `{lr}`. If the command has a configuration file, the search starts with the file's default
    values.
    """
    command = CommandLine(config)
    space, given = ({}, ()) if command.file is None else ({"first": "default"}, COPY)
    names = [name for name in command.names if not name.startswith("task.") and name not in given]
    notes = command_code.notes_on_unseen(command)
    notes += [
        f"command.line: the value of {name} is stored with the study, and published with it; let the program read it "
        f"from an environment variable"
        for name in command.secrets
    ]
    placeholder = command.amount_without_full
    return {
        "space": space,
        "keys": None if command.takes_all() else names,
        "needs": names,
        "notes": notes,
        "amounts_need": None if command.continues and command.has("amount") else _CONTINUES_HINT,
        "needs_amounts": f"{placeholder} in command.line has no value; give a default, such as 30 in {{task.amount:30}}"
        if placeholder
        else None,
    }


def describe_defaults(config: Mapping[str, Any], searched: Sequence[str]) -> dict[str, Any]:
    """Return the default values in the command's configuration file, by key, for the keys in `searched`.

    `searched` has the keys that the study searches or that `study.scales` changes. The returned dict also has the key
    `command.searched`, with the list `searched` as its value. A flag without a default gets False. If the command has
    neither a configuration file nor `{args}`, return an empty dict.

    Raises:
        ConfigError: `{args}` is part of a longer word, `{config}` has no file, or the command does not use a key in
            `searched`.
        DocumentError: the configuration file cannot be read.
    """
    command = CommandLine(config)
    missing = {*command.names} - {*command.flat, *searched}
    if "args" in missing:
        raise ConfigError(
            "command.line: {args} must be a separate word, because it is replaced by separate words of the form "
            "--key=value, one word for each value"
        )
    if command.file is None and "config" in missing:
        raise ConfigError(
            "command.config: is missing, but command.line has {config}; give command.config=FILE, a file in YAML or "
            "JSON; {config} becomes the path of the trial's copy of this file"
        )
    command.refuse_unread(searched)
    if command.file is None and not command.takes_all(searched):
        return {}
    own = flatten(command.base)
    unset = [key for key in searched if at(command.flat, key, {}) == {}]
    values = {key: at(own, key) for key in unset if path_of(command.base, key)}
    # Flags are usually off by default.
    values |= {key: False for key in command.flags if key in unset and key not in values}
    return {**values, "command.searched": list(searched)}


def describe_method(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts that hold for every training, for the report."""
    command = CommandLine(config)
    method: dict[str, Any] = {"preprocessing": f"by the command: {config['command']['line']}"}
    if command.patterns and command.result is None:
        found = {name: pattern.pattern for name, pattern in command.patterns.items() if name not in PLACES}
        method["metrics"] = {name: f"the match of {text!r} in the command's output" for name, text in found.items()}
    return method


def run_fold(task: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, Any] | None]:
    """Run the command, yield the reports in its output, and return the final values.

    The final value of a metric comes from the first of these sources that has the metric:

    1. the program's result file;
    2. with `study.score=best`, the first report in the output with the best score;
    3. the last line of the output that has the metric.

    If the program can continue from a state, its output may lack the reports before the state. So sources 2 and 3 do
    not count for its score: if its result file does not have the score, return None. The caller then computes the score
    from all reports of the training, including the reports before the state.

    The command's stdout and stderr are copied at once to the same streams of this process.

    Raises:
        ConfigError: a name in the command line has no value.
        ProgramError: the command cannot be run, ends with an exit code other than 0, or gives no values.
    """
    with tempfile.TemporaryDirectory() as temporary:
        command = CommandLine(task["config"])
        files_dir = task.get("files_dir") if command.has("dir") else None
        values = {**task, **_folders(temporary, task["resume_dir"] if command.continues else None, files_dir)}
        is_new = not any(Path(values["resume_dir"]).iterdir())
        words = command.fill_words(values, command.write_copy(Path(temporary, "config")))
        reader: Reader = JsonReader(task["metric"])
        if command.patterns:
            reader = PatternReader(task["metric"], command.patterns)
        try:
            # The command stays in the worker's process group, so that it ends together with the worker.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise ProgramError(f"command '{words[0]}' cannot be run: {error.strerror}") from error
        streams = [_Stream(process.stdout, "stdout"), _Stream(process.stderr, "stderr")]
        with process:
            try:
                # Programs may write a log to either stream.
                for line in _lines(process, streams, streams if command.patterns else streams[:1]):
                    yield from reader.take(line)
                yield from reader.rest()
            except BaseException:
                # The search stops this training, and `with` waits for the end of the command.
                _end(process)
                raise
        if process.returncode:
            *before, last = streams[1].last or streams[0].last or ["it printed nothing"]
            after = f" (after {' | '.join(before)})" if before else ""
            raise ProgramError(f"the command ended with {_end_text(process.returncode)}: {last}{after}")
        try:
            final = read_result(Path(values["folder"]), command.result) if command.result else {}
            if not final and (is_new or not command.continues):
                _refuse_nothing_read(command, reader.points, task["metric"])
        except ProgramError as error:
            last = (streams[0].last or streams[1].last or [""])[-1]
            output = f"the last line of the output was {last!r}" if last else "the command printed nothing"
            raise ProgramError(f"{error}; {output}") from error
    if command.continues and task["metric"] not in final:
        return None
    results = {name: value for point in reader.points for name, value in point.items()}
    if task["score"] == "best":
        results |= _best(reader.reports, task["metric"], task["direction"] == "maximize")
    return {name: value for name, value in (results | final).items() if name not in (*PLACES, *_NOT_METRICS)}


def _folders(temporary: str, state: str | None, files: str | None) -> dict[str, str]:
    """Create a training's folders, and return their paths by name: `folder`, `resume_dir` and `dir`.

    `folder` is always in `temporary`. `state` is the path of `resume_dir`, and `files` is the path of `dir`. If `state`
    or `files` is None, its folder is in `temporary`, too. In the command line, `{task.folder}` stands for the path of
    `folder`, and so on.
    """
    given = {"folder": None, "resume_dir": state, "dir": files}
    folders = {name: Path(folder or Path(temporary, name)).absolute() for name, folder in given.items()}
    for folder in (*folders.values(), Path(temporary, "config")):
        folder.mkdir(parents=True, exist_ok=True)
    return {name: str(folder) for name, folder in folders.items()}


def _refuse_nothing_read(command: CommandLine, points: Sequence[Mapping[str, Any]], metric: str) -> None:
    """Raise ProgramError if no line of the output has values, or if the metric has a pattern that matches no line."""
    pattern = command.patterns.get(metric)
    if pattern is not None and not any(metric in point for point in points):
        raise ProgramError(f"no line of the command's output matches command.pattern.{metric}={pattern.pattern!r}")
    if not points:
        raise ProgramError(
            f'the command printed no line of JSON; print a line such as {{"{metric}": 0.25}}, or read {metric} from '
            f'other lines with a regular expression, for example by "command.pattern={{{metric}: '
            f"'{metric}[ :=]+([0-9.]+|nan)'}}\""
        )


def _end_text(code: int) -> str:
    """Return how a process ended: `exit code 1`, or `signal SIGKILL` for a code below 0."""
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def _best(points: Sequence[dict[str, Any]], metric: str, is_max: bool) -> dict[str, Any]:
    """Return the first dict in `points` with the best value of the metric; an empty dict if no value is finite."""
    numbers = [(point[metric], point) for point in points if isinstance(point.get(metric), int | float)]
    scored = [(value if is_max else -value, point) for value, point in numbers if -math.inf < value < math.inf]
    return max(scored, key=lambda each: each[0])[1] if scored else {}


def _lines(process: subprocess.Popen[bytes], streams: Sequence["_Stream"], read: Sequence["_Stream"]) -> Iterator[str]:
    """Copy all streams of the command to this process's streams, and yield the lines of the streams in `read`.

    Stop when the command ends. The streams may stay open longer, in processes that outlive the command.
    """
    poll, left = select.poll(), {stream.pipe: stream for stream in streams}
    for pipe in left:
        poll.register(pipe, select.POLLIN)
    has_ended = False
    while left and not has_ended:
        # Check before reading: once the command has ended, the pipes have all its output, so one more read is enough.
        has_ended = process.poll() is not None
        lines: list[str] = []
        for pipe, _ in poll.poll(0 if has_ended else _MILLISECONDS_BETWEEN_CHECKS):
            if chunk := os.read(pipe, _MOST_IN_PIPE):
                completed = left[pipe].take(chunk)
                lines += completed if left[pipe] in read else []
            else:
                poll.unregister(pipe)
                del left[pipe]
        # Yield only after the output of both streams is copied, because the caller may stop the command at any line.
        yield from lines
    rests = [(stream, stream.take(b"", is_last=True)) for stream in streams]
    yield from (line for stream, lines in rests if stream in read for line in lines)


class _Stream:
    """An output stream of a command. It is copied to this process's stream of the same name, and split into lines.

    Attributes:
        pipe: the descriptor to read from.
        last: the last few lines that are not empty, in order.
    """

    def __init__(self, pipe: IO[bytes] | None, name: str) -> None:
        assert pipe is not None
        self.pipe, self.last, self._name = pipe.fileno(), deque[str](maxlen=_LINES_IN_ERROR), name
        self._pending = self._rest = ""
        self._decoder = codecs.getincrementaldecoder(locale.getpreferredencoding(False))("replace")
        self._newlines = io.IncrementalNewlineDecoder(None, translate=True)

    def take(self, chunk: bytes, is_last: bool = False) -> list[str]:
        """Add bytes of the command's output; return the lines that are complete now.

        Also write complete lines to this process's stream of the same name. An incomplete line waits for its end, so
        that lines of the two streams do not mix in one log. If the text that is not written yet has more than
        `LONGEST_LINE` characters, write all of it at once. A returned line may be cut after `LONGEST_LINE` characters.
        If `is_last` is true, the last line counts as complete.
        """
        text = self._pending + self._decoder.decode(chunk, is_last)
        is_whole = is_last or len(text) > LONGEST_LINE
        end = len(text) if is_whole else max(text.rfind("\n"), text.rfind("\r")) + 1
        text, self._pending = text[:end], text[end:]
        # The search may redirect `sys.stdout` between steps, so look the stream up each time.
        own = getattr(sys, self._name)
        # End the last line, because other output of this process would otherwise continue it.
        own.write(f"{text}\n" if is_last and text and not text.endswith("\n") else text)
        own.flush()
        *lines, rest = (self._rest + self._newlines.decode(text, is_last)).split("\n")
        self._rest = rest[:LONGEST_LINE]
        lines += [self._rest] if is_last else []
        # Python marks the place of an error by a line of carets, which would take the room of the error itself.
        self.last.extend(line.strip() for line in lines if line.strip(" ~^\t\r"))
        return lines


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the command and its child processes; kill all of them if the command does not end in time."""
    children: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.terminate()
    process.terminate()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
