"""Reads a program's reports: JSON in its output, text that matches patterns, and a file that it writes at the end."""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from hpo.errors import ConfigError, HpoError

LONGEST_LINE = 100_000  # characters
# The keys with which a report says its position in the training.
PLACES = ("epoch", "step")
RESULTS = (".json", ".csv")
# Values in printed Python dicts that `ast.literal_eval` cannot read.
_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
_EXPONENT = re.compile(r"(?<=[0-9.])[eE][+-]?\d+")
_NOT_FINITE = re.compile(r"(?<=: )(-?(?:nan|inf))(?=[,}\]])")


class ProgramError(HpoError):
    """A program failed, or its reports cannot be read. The message may contain output of the program."""


class Reader:
    """Reads the lines of one program's output, in order, and combines their values into reports.

    Lines with the same epoch or step belong to one report. A report is complete as soon as it has the study's metric,
    or when a line with another epoch or step follows. A line is ignored if its epoch or step is that of the last
    complete report.

    A line with neither an epoch nor a step belongs to the incomplete report. If there is no incomplete report, the last
    complete report decides what happens to such a line:

    - If the last complete report has an epoch or step, the line is ignored, because it is an evaluation or a summary
      after the training.
    - Otherwise, and also before the first complete report, the line begins a report.

    A report must have an epoch, a step or the metric. Other values make no report, because they may be settings that
    the program prints.

    Attributes:
        points: for each line that has values, a flat dict of these values, even if the line is not part of a report.
        reports: the reports so far.
    """

    def __init__(self, metric: str) -> None:
        self.points: list[dict[str, Any]] = []
        self.reports: list[dict[str, Any]] = []
        self._metric = metric
        self._has_warned = False
        self._partial: dict[str, Any] = {}
        self._last: tuple[str, Any] | None = None

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """Read a line. Yield warnings, and the reports that this line completes."""
        raise NotImplementedError

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield the report that is still incomplete when the program ends, if there is one."""
        if self._partial:
            report, self._partial = self._partial, {}
            place = _place_of(report)
            if place is None and self._metric not in report:
                return
            self._last = place
            self.reports.append(report)
            yield report

    def _add(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Add the values of a line. Yield the reports that are now complete, and a warning if a score is ignored."""
        current = _place_of(self._partial)
        # A line without epoch and step belongs to the incomplete report.
        place = _place_of(values) or current
        if current != place:
            yield from self.rest()
        if self._last is not None and place in (self._last, None):
            # Many programs print the last evaluation again at their end.
            is_other = values.get(self._metric) != self.reports[-1].get(self._metric)
            if place is not None and self._metric in values and is_other and not self._has_warned:
                self._has_warned = True
                yield {
                    "warning": f"{place[0]} {place[1]} has several values of '{self._metric}', and only the first "
                    f"counts; print a different epoch (such as 1.5) with each value, or only the step"
                }
            return
        self._partial |= values
        if self._metric in values:
            yield from self.rest()


class JsonReader(Reader):
    """Reads lines that are JSON objects.

    In any other line, reads the first JSON object or Python dict that contains the study's metric.
    """

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """Read a line. Yield warnings, and the reports that this line completes."""
        if len(line) >= LONGEST_LINE and line.startswith("{"):
            yield {"warning": f"a line of JSON with {LONGEST_LINE:,} characters or more is ignored"}
            return
        values = self._read(line)
        if values is not None and set(values) == {"warning"}:
            yield values
        elif values is not None:
            self.points.append(values)
            yield from self._add(values)

    def _read(self, line: str) -> dict[str, Any] | None:
        """Return the values in a line; None if the line has no values."""
        try:
            whole = json.loads(line)
        except (ValueError, RecursionError):
            whole = None
        if isinstance(whole, dict) and not isinstance((values := flat(whole)).get(self._metric), str):
            return values
        # Most lines cannot contain the metric, so do not search them.
        if "{" not in line or self._metric.rpartition("/")[2] not in line:
            return None
        for found in (*_objects(line), *_dicts(line)):
            if self._metric in (values := flat(found)):
                return {name: _number(value) for name, value in values.items()}
        return None


class PatternReader(Reader):
    """Reads values by regular expressions.

    An epoch or step that a pattern finds in a line also applies to the following lines. If there is a pattern for the
    epoch or the step, lines before the first epoch or step give no reports.
    """

    def __init__(self, metric: str, patterns: Mapping[str, re.Pattern[str]]) -> None:
        super().__init__(metric)
        self._patterns = patterns
        self._place: dict[str, float] = {}

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """Read a line. Yield the reports that this line completes.

        Raises:
            ProgramError: the text that a pattern finds in the line is not a number.
        """
        matches = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(line))}
        found = {name: self._read(name, match, line) for name, match in matches.items() if match[1] is not None}
        self._place |= {name: value for name, value in found.items() if name in PLACES}
        if found.keys() - {*PLACES}:
            values = {**found, **self._place}
            self.points.append(values)
            if self._place or not {*PLACES} & self._patterns.keys():
                yield from self._add(values)

    def _read(self, name: str, match: re.Match[str], line: str) -> float:
        """Return the number that a match finds; include an exponent that follows: `9.8` in `9.8e-05` gives 9.8e-05."""
        exponent = _EXPONENT.match(line, match.end(1))
        text = match[1] + (exponent[0] if exponent else "")
        number = _number(text)
        if not isinstance(number, int | float):
            raise ProgramError(f"command.pattern.{name}: must match a number, given {text!r} in the line {line!r}")
        return number


def read_patterns(given: Any) -> dict[str, re.Pattern[str]]:
    """Compile the regular expressions of `command.pattern`, by name. Raise ConfigError if one is not valid."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not {*given} - {*PLACES}:
        raise ConfigError(
            f"command.pattern: must have a regular expression for a metric, given {given!r}; {' and '.join(PLACES)} "
            f"are not metrics; write for example {{val_loss: 'val loss ([0-9.]+|nan)', step: '^step ([0-9]+)'}}"
        )
    patterns = {}
    for name, text in given.items():
        if not isinstance(text, str):
            raise ConfigError(f"command.pattern.{name}: must be a regular expression, given {text!r}")
        try:
            pattern = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(
                f"command.pattern.{name}: is not a valid regular expression: {error}, given {text!r}"
            ) from error
        if pattern.groups != 1:
            raise ConfigError(
                f"command.pattern.{name}: must have one group, which matches the number, such as 'loss ([0-9.]+|nan)', "
                f"given {pattern.groups} groups in {text!r}; write other parentheses as (?:...)"
            )
        patterns[name] = pattern
    return patterns


def read_name(name: Any) -> str | None:
    """Return the file name in `command.result`. Raise ConfigError if it is no relative path of a JSON or CSV file."""
    path = PurePath(name) if isinstance(name, str) else PurePath()
    if name is not None and (path.suffix.lower() not in RESULTS or path.is_absolute() or ".." in path.parts):
        raise ConfigError(
            f"command.result: must be the name of a file in {{task.folder}}, with the suffix {' or '.join(RESULTS)}, "
            f"given {name!r}"
        )
    return None if name is None else str(path)


def read_result(folder: Path, name: str) -> dict[str, Any]:
    """Return the values in the program's result file: its JSON object, or its last row if it is a CSV file.

    Raises:
        ProgramError: the file is missing or cannot be read.
    """
    try:
        text = (folder / name).read_text(encoding="utf-8-sig")
        values = _last_row(text) if name.lower().endswith(".csv") else json.loads(text)
    except FileNotFoundError as error:
        raise ProgramError(f"command.result: the program wrote no {name} into {{task.folder}}") from error
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise ProgramError(f"command.result: {name} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ProgramError(
            f"command.result: {name} must be a JSON object with numbers by name, given {str(values)[:50]}"
        )
    return {each: _number(value) for each, value in flat(values).items()}


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested values into metrics with slashes in their names: `{"val": {"loss": 1}}` to `{"val/loss": 1}`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{before}{name}/") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found


def _place_of(values: Mapping[str, Any]) -> tuple[str, Any] | None:
    return next(((name, values[name]) for name in PLACES if name in values), None)


def _objects(line: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects within a line, but no object that is inside another object."""
    decoder, start = json.JSONDecoder(), line.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(line, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield value
        start = line.find("{", end)


def _dicts(line: str) -> Iterator[dict[Any, Any]]:
    """Yield the Python dict that spans from the first to the last brace of a line, if there is one."""
    text = _SCALAR.sub(r"\1", line[line.find("{") : line.rfind("}") + 1])
    try:
        value = ast.literal_eval(_NOT_FINITE.sub(r"'\1'", text))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return
    if isinstance(value, dict):
        yield value


def _number(value: Any) -> Any:
    """Convert a text to a number if possible; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _last_row(text: str) -> dict[str, str]:
    """Return the non-empty cells of a CSV file's last row, by column name. Raise ValueError if there is no such row."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline="")) if row]
    if len(rows) < 2 or len(rows[-1]) != len(rows[0]):
        raise ValueError("the file must have a row of column names, and a last row with the same number of cells")
    return {name: cell for name, cell in zip(rows[0], rows[-1], strict=True) if cell}
