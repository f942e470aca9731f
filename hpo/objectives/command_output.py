"""What a program reports: JSON in its lines, or what patterns find in them, and a file that it writes at its end."""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Protocol

from hpo.errors import ConfigError, HpoError

LONGEST_LINE = 100_000  # characters
# The keys of a report that say where in the training it is.
PLACES = ("epoch", "step")
RESULTS = (".json", ".csv")
# As Python prints them in a dict; its parser of literals reads neither.
_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
_NOT_FINITE = re.compile(r"(?<=: )(-?(?:nan|inf))(?=[,}\]])")


class ProgramError(HpoError):
    """A program failed, or what it reports cannot be read; what it has written says why."""


class Reader(Protocol):
    """Reads the lines of one program, in their order.

    Attributes:
        points: what each line with values says, flat by name, also where it is no report of its own.
    """

    points: list[dict[str, Any]]

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """Yield the reports that are complete with this line, and warnings."""
        ...

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield the report that is not complete when the program ends."""
        ...


class _Curve:
    """Makes reports of lines: those of one place are one report, complete as soon as it has the study's metric.

    What a line says of a place that is reported already, or of none after reports with places, is no report: that is an
    evaluation, or a summary, after the training.
    """

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._held: dict[str, Any] = {}
        self._last: tuple[str, Any] | None = None

    def add(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the reports that are complete with these values."""
        held = _place_of(self._held)
        # A line that names no place belongs to the report that is not complete.
        place = _place_of(values) or held
        if held != place:
            yield from self.rest()
        if self._last is not None and place in (self._last, None):
            return
        self._held |= values
        if place is None or self._metric in values:
            yield from self.rest()

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield the values that are held, if any."""
        if self._held:
            report, self._held = self._held, {}
            self._last = _place_of(report)
            yield report


class JsonReader:
    """Reads lines that are JSON objects, and objects and dicts of Python within lines that have the study's metric."""

    def __init__(self, metric: str) -> None:
        self.points: list[dict[str, Any]] = []
        self._metric, self._curve = metric, _Curve(metric)

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """See `Reader`."""
        if len(line) >= LONGEST_LINE and line.startswith("{"):
            yield {"warning": f"a line of JSON of {LONGEST_LINE:,} characters or more is not read"}
            return
        values = self._read(line)
        if values is not None and set(values) == {"warning"}:
            yield values
        elif values is not None:
            self.points.append(values)
            yield from self._curve.add(values)

    def rest(self) -> Iterator[dict[str, Any]]:
        """See `Reader`."""
        return self._curve.rest()

    def _read(self, line: str) -> dict[str, Any] | None:
        """Return the values in a line; None for what is printed for people."""
        try:
            whole = json.loads(line)
        except (ValueError, RecursionError):
            whole = None
        if isinstance(whole, dict) and not isinstance((values := flat(whole)).get(self._metric), str):
            return values
        # Most lines have neither, and are not searched.
        if "{" not in line or self._metric.rpartition("/")[2] not in line:
            return None
        for found in (*_objects(line), *_dicts(line)):
            if self._metric in (values := flat(found)):
                return {name: _number(value) for name, value in values.items()}
        return None


class PatternReader:
    """Reads what patterns find in lines.

    The place that a line names is that of the lines that follow, too. Where there is a pattern of the place, what lines
    say before the first is no report.
    """

    def __init__(self, metric: str, patterns: Mapping[str, re.Pattern[str]]) -> None:
        self.points: list[dict[str, Any]] = []
        self._patterns, self._curve = patterns, _Curve(metric)
        self._place: dict[str, float] = {}

    def take(self, line: str) -> Iterator[dict[str, Any]]:
        """See `Reader`; ProgramError where what a pattern finds is no number."""
        matches = {name: match for name, pattern in self._patterns.items() if (match := pattern.search(line))}
        found = {name: self._found(name, match[1], line) for name, match in matches.items() if match[1] is not None}
        self._place |= {name: value for name, value in found.items() if name in PLACES}
        if found.keys() - {*PLACES}:
            values = {**found, **self._place}
            self.points.append(values)
            if self._place or not {*PLACES} & self._patterns.keys():
                yield from self._curve.add(values)

    def rest(self) -> Iterator[dict[str, Any]]:
        """See `Reader`."""
        return self._curve.rest()

    def _found(self, name: str, text: str, line: str) -> float:
        number = _number(text)
        if not isinstance(number, int | float):
            raise ProgramError(f"command.pattern.{name}: finds {text!r}, which is no number, in the line {line!r}")
        return number


def read_patterns(given: Any) -> dict[str, re.Pattern[str]]:
    """Return the expressions of `command.pattern` by the name of what they find; ConfigError for a bad one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not {*given} - {*PLACES}:
        raise ConfigError(
            f"command.pattern: must have a regular expression for a metric, besides those of {' and '.join(PLACES)}, "
            f"such as {{val_loss: 'val loss ([0-9.]+)', step: '^step ([0-9]+)'}}, given {given!r}"
        )
    patterns = {}
    for name, text in given.items():
        if not isinstance(text, str):
            raise ConfigError(f"command.pattern.{name}: must be a regular expression, given {text!r}")
        try:
            pattern = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(f"command.pattern.{name}: is no regular expression: {error}, given {text!r}") from error
        if pattern.groups != 1:
            raise ConfigError(
                f"command.pattern.{name}: must have one group, the number in parentheses, such as 'loss ([0-9.]+)', "
                f"given {pattern.groups} in {text!r}; (?:...) is no group"
            )
        patterns[name] = pattern
    return patterns


def read_name(name: Any) -> str | None:
    """Return the name of a file, `command.result`; ConfigError for none in JSON or CSV within a folder."""
    path = PurePath(name) if isinstance(name, str) else PurePath()
    if name is not None and (path.suffix.lower() not in RESULTS or path.is_absolute() or ".." in path.parts):
        raise ConfigError(
            f"command.result: must be the name of a file in {{task.folder}} that ends in {' or '.join(RESULTS)}, given "
            f"{name!r}"
        )
    return None if name is None else str(path)


def read_result(folder: Path, name: str) -> dict[str, Any]:
    """Return the values of the file that the program wrote: of an object in JSON, or of the last row of a CSV file.

    ProgramError where there is none, or none that can be read.
    """
    try:
        text = (folder / name).read_text(encoding="utf-8-sig")
        values = _last_row(text) if name.lower().endswith(".csv") else json.loads(text)
    except FileNotFoundError as error:
        raise ProgramError(f"command.result: the program wrote no {name} into {{task.folder}}") from error
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise ProgramError(f"command.result: {name} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ProgramError(f"command.result: {name} must be an object with a number by name, given {str(values)[:50]}")
    return {each: _number(value) for each, value in flat(values).items()}


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return groups of values by one name each, as metrics are named: `{"val": {"loss": 1}}` is `{"val/loss": 1}`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{before}{name}/") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found


def _place_of(values: Mapping[str, Any]) -> tuple[str, Any] | None:
    return next(((name, values[name]) for name in PLACES if name in values), None)


def _objects(line: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects within a line that are in no other."""
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
    """Yield the dict of Python that reaches from the first brace of a line to the last."""
    text = _SCALAR.sub(r"\1", line[line.find("{") : line.rfind("}") + 1])
    try:
        value = ast.literal_eval(_NOT_FINITE.sub(r"'\1'", text))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return
    if isinstance(value, dict):
        yield value


def _number(value: Any) -> Any:
    """Return the number that a text is; anything else as it is."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _last_row(text: str) -> dict[str, str]:
    """Return the last row of a CSV file by the names of its columns; ValueError for none."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline="")) if row]
    if len(rows) < 2 or len(rows[-1]) != len(rows[0]):
        raise ValueError("it needs a row of names, and a last row of as many cells")
    return {name: cell for name, cell in zip(rows[0], rows[-1], strict=True) if cell}
