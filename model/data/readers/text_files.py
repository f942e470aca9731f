"""Reads tables of texts from CSV, TSV or JSON lines, plain or gzipped. A message about a row has the line number."""

import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from model.data.examples import File, read_bytes
from model.data.readers.header import column_of_a_header
from model.data.surrogates import refuse_surrogates
from model.errors import DataError

_SHOWN = 100  # the most characters of a first line that a message shows
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # of a CSV file
_COMPARED_ROWS = 20  # how many rows determine the delimiter of a CSV file
TEXT_NAMES = ("text", "sentence")  # column names that indicate texts
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class Columns:
    """The columns to read.

    A role is the use of a column, such as `text` and `label`, or `source` and `target`.

    Attributes:
        wanted: the configured column of each role: a name, a number counted from 0, or None (not configured). In a
            table without column names, None means that the columns have the order of the roles.
        known: the usual column names of each role, to find a column that is not configured.
    """

    wanted: dict[str, str | int | None]
    known: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Table:
    """The rows of a source.

    Attributes:
        file: the source file.
        rows: one dict per row. A dict maps each role (see `Columns`) to the text in the role's column. For tagging with
            data.format=hub, a dict maps each role to a list of texts.
        licence: the licence; None = unknown.
        names: the header of a CSV or TSV file; None = no header, or another format.
        columns: the columns that were read; None = not recorded.
        note: a line that tells the user how the file was read; None = nothing to tell.
    """

    file: File
    rows: list[dict[str, Any]]
    licence: str | None = None
    names: list[str] | None = None
    columns: Columns | None = None
    note: str | None = None


def read_text(path: str, key: str) -> tuple[str, File]:
    """Return two values: the text of a file, decompressed if the file's name ends in .gz, and the file's `File`.

    Raises:
        DataError: the file cannot be read, is empty, is not a complete gzip file, is not UTF-8, or holds a NUL
            character.
    """
    content = read_bytes(path, key)
    file = File.of(path, content)
    if path.endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{path}: is not a complete gzip file ({error}); unpack the file, and remove .gz from its name"
            ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = f"0x{content[error.start]:02x}"
        raise DataError(f"{path}:{line}: byte {byte} is not UTF-8; save the file as UTF-8 text") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DataError(f"{path}:{line}: holds a NUL character; must be UTF-8 text (save a UTF-16 file as UTF-8)")
    if not text.strip():
        raise DataError(f"{path}: the file is empty; {key} must name a file with at least one example")
    return text, file


def read_table(
    path: str, key: str, file_format: str, header: bool | None, columns: Columns, before: Table | None = None
) -> Table:
    """Return the columns of a file.

    Args:
        path: the file.
        key: the configuration key of the file.
        file_format: auto (by the file's name), csv, tsv or jsonl.
        header: whether the first row is a header; None = guess that it is a header in these cases:
            - A column is configured by name.
            - A field of the row is a usual name of the last role in `columns.known`. For example, the last role is
              `label`, and a field is "class".
            - In the first split, `column_of_a_header` finds a header.
            - In a later split, the row equals the first split's header.
        columns: the columns to read.
        before: the table of the first split; None = this is the first split.

    Raises:
        DataError: the file is not valid.
    """
    if file_format == "auto":
        file_format = guess_format(path)
    text, file = read_text(path, key)
    if file_format == "jsonl":
        table = Table(file, list(_json_rows(path, text, columns)))
    else:
        numbered = list(_split_rows(path, text, file_format, len(columns.wanted)))
        if not numbered:
            raise DataError(f"{path}: every field is empty; {key} must name a file with at least one example")
        _refuse_one_column(path, file_format, *numbered[0])
        names, columns, note = _names(numbered, key, header, columns, before)
        rows = _delimited_rows(path, numbered, names, columns)
        table = Table(file, list(rows), names=names, columns=columns, note=note)
    if not table.rows:
        raise DataError(f"{path}: has no example below the header; the file must have at least one example")
    return table


def guess_format(path: str) -> str:
    """Return the format of a file (csv, tsv or jsonl), according to the ending of its name.

    Raises:
        DataError: the ending is not in ENDINGS.
    """
    name = path.removesuffix(".gz")
    for ending, file_format in ENDINGS.items():
        if name.endswith(ending):
            return file_format
    raise DataError(
        f"{path}: the name has no ending of a known format ({', '.join(ENDINGS)}); set data.format to csv, tsv or "
        "jsonl, or save another kind of table, such as Excel or Parquet, as CSV"
    )


def _json_rows(path: str, text: str, columns: Columns) -> Iterator[dict[str, str]]:
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:100]
            raise DataError(f"{path}:{line}: is not JSON ({reason}); every line must be a JSON object") from error
        if not isinstance(row, dict):
            raise DataError(
                f'{path}:{line}: is a JSON {type(row).__name__}; must be an object such as {{"text": ..., "label": '
                f"...}}"
            )
        row = _flatten(row)
        where = f"{path}:{line}"
        chosen = {role: find_column(where, role, list(row), columns) for role in columns.wanted}
        yield {role: as_text(row[name], where, name, role) for role, name in chosen.items()}


def _flatten(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a JSON object; a column `inner` inside an object `outer` has the name `outer.inner`."""
    while any(isinstance(value, dict) for value in row.values()):
        flat: dict[str, Any] = {}
        for name, value in row.items():
            flat |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        row = flat
    return row


def find_column(where: str, role: str, names: list[str], columns: Columns) -> str:
    """Return the name of the column for `role`, in a table whose columns have names.

    Raises:
        DataError: the role's column is configured by number.
        DataError: the role's column is configured by name, and the table has no column with this name.
        DataError: the role's column is not configured, and no column has a name in `columns.known`.
    """
    wanted = columns.wanted[role]
    if isinstance(wanted, int):
        raise DataError(
            f"{where}: data.{role}_column must be a name, given {wanted}; the columns are {', '.join(names)}"
        )
    name = wanted if wanted is not None else _known_name(columns.known[role], names)
    if name is None or name not in names:
        raise DataError(_no_column(where, role, wanted, names))
    return name


def as_text(value: Any, where: str, name: str, role: str = "") -> str:
    """Return a JSON value as the text of an example; messages name the place `where` and the column `name`.

    Raises:
        DataError: the value is neither a text nor a whole number, is empty, or cannot be stored as UTF-8.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DataError(f"{where}: {name!r} is {json.dumps(value, default=str)[:40]}; must be a text or a whole number")
    text = str(value)
    refuse_surrogates(text, f"{where}: {name!r}")
    return _filled(text, where, name, role)


def _names(
    numbered: list[tuple[int, list[str]]], key: str, header: bool | None, columns: Columns, before: Table | None
) -> tuple[list[str] | None, Columns, str | None]:
    """Return the header (None = no header), the columns to read, and a note about a guessed header (None = no note)."""
    (_, first), *others = numbered
    if header or (header is None and _is_header(first, columns)):
        return first, columns, None
    if header is not None:
        return None, columns, None
    if before is not None:
        return (first, before.columns or columns, None) if first == before.names else (None, columns, None)
    has_label = "label" in columns.wanted
    place = column_of_a_header(first, [row for _, row in others], has_label)
    if place is None:
        return None, columns, None
    note = f"{key}: the first line ({','.join(first)[:_SHOWN]!r}) is read as a header"
    if has_label and place == 0 and len(first) == 2 and not any(each is not None for each in columns.wanted.values()):
        columns = replace(columns, wanted={"text": first[1], "label": first[0]})
        note += f", and the column {first[0]!r} as the labels"
    return first, columns, f"{note}; if this line is an example, set data.header=false"


def _delimited_rows(
    path: str, numbered: list[tuple[int, list[str]]], names: list[str] | None, columns: Columns
) -> Iterator[dict[str, str]]:
    first_line, first = numbered[0]
    for name in names or ():
        if first.count(name) > 1 and name.strip():
            raise DataError(
                f"{path}:{first_line}: two columns are called {name!r}; the columns are "
                f"{', '.join(repr(each) for each in first)}; give each its own name"
            )
    places = {role: _place(path, role, first, names, columns) for role in columns.wanted}
    for line, row in numbered if names is None else numbered[1:]:
        yield _pick(row, places, len(first), path, line)


def _split_rows(path: str, text: str, file_format: str, num_columns: int) -> Iterator[tuple[int, list[str]]]:
    """Yield a pair for each row that is not blank: the number of the row's first line, and the list of its fields.

    Commas, semicolons or tabs may separate the columns of a CSV file, because spreadsheet programs write all three.
    Choose the delimiter with the highest count of `_num_equal_rows`. If the counts are equal, prefer commas, then
    semicolons.
    """
    if file_format == "tsv":
        for line, content in enumerate(text.split("\n"), start=1):
            content = content.removesuffix("\r")
            if content.strip():
                yield line, content.split("\t")
        return
    csv.field_size_limit(2**31 - 1)
    delimiter = max(_DELIMITERS, key=lambda each: _num_equal_rows(text, each, num_columns))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}:{line}: is not valid CSV ({error}); put texts with quotes or commas in double quotes"
            ) from error
        if any(field.strip() for field in row):
            yield line, row
        line = reader.line_num + 1


def _num_equal_rows(text: str, delimiter: str, num_columns: int) -> int:
    """Count, among the first _COMPARED_ROWS rows of `text`, the rows with as many columns as the very first row.

    Skip blank rows, and stop at a row that is not valid CSV. If the very first row has fewer than `num_columns`
    columns, return 0.
    """
    lengths: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    rows = (row for row in reader if any(field.strip() for field in row))
    with contextlib.suppress(csv.Error):
        # On an error, `extend` keeps the rows before it.
        lengths.extend(len(row) for row in itertools.islice(rows, _COMPARED_ROWS))
    return lengths.count(lengths[0]) if lengths and lengths[0] >= num_columns else 0


def _refuse_one_column(path: str, file_format: str, line: int, first: list[str]) -> None:
    """Raise DataError if the first row has one field; say which delimiter is missing and which one was found."""
    if len(first) > 1:
        return
    found = " and ".join(name for delimiter, name in _DELIMITERS.items() if delimiter in first[0])
    if file_format == "tsv" and found:
        raise DataError(f"{path}:{line}: has no tab, but {found}; if {found} separate the columns, set data.format=csv")
    needed = "tabs" if file_format == "tsv" else "commas, semicolons or tabs"
    raise DataError(f"{path}:{line}: has 1 column, {first[0][:_SHOWN]!r}; separate the columns by {needed}")


def _is_header(first: list[str], columns: Columns) -> bool:
    if any(isinstance(wanted, str) for wanted in columns.wanted.values()):
        return True
    lowered = {field.strip().lower() for field in first}
    return any(name in lowered for name in list(columns.known.values())[-1])


def _place(path: str, role: str, first: list[str], names: list[str] | None, columns: Columns) -> int:
    """Return the column number of `role`, counted from 0."""
    wanted = columns.wanted[role]
    if isinstance(wanted, int):
        if wanted >= len(first):
            raise DataError(
                f"{path}:1: there is no column {wanted}; the columns have the numbers 0 to {len(first) - 1}; set "
                f"data.{role}_column"
            )
        return wanted
    if names is None:
        if wanted is not None:
            raise DataError(
                f"{path}: there is no column {wanted!r}, because the file has no header; set data.{role}_column to a "
                "column number (the first column is 0)"
            )
        if len(first) != len(columns.wanted):
            keys = " and ".join(f"data.{each}_column" for each in columns.wanted)
            raise DataError(
                f"{path}:1: has {len(first)} columns instead of {len(columns.wanted)}, and no header; "
                f"set {keys} to column numbers"
            )
        return list(columns.wanted).index(role)
    name = wanted if wanted is not None else _known_name(columns.known[role], names) or _only_name(role, names, columns)
    if name is None or name not in names:
        raise DataError(_no_column(f"{path}:1", role, wanted, names))
    return names.index(name)


def _only_name(role: str, names: list[str], columns: Columns) -> str | None:
    """Return the column of `role` by the order of the columns; the role must have no column with a usual name.

    Each column with a usual name (see `columns.known`) belongs to the role with this name. The other columns belong to
    the other roles, in order. For example, of the columns `German` and `src`, the role `target` gets `German`. If a
    column is configured, or if there are not as many columns as roles, return None.
    """
    if len(names) != len(columns.wanted) or any(each is not None for each in columns.wanted.values()):
        return None
    known = {each: _known_name(columns.known[each], names) for each in columns.wanted}
    left = [name for name in names if name not in known.values()]
    return dict(zip([each for each, name in known.items() if name is None], left, strict=True)).get(role)


def _known_name(known: tuple[str, ...], names: list[str]) -> str | None:
    return next((name for each in known for name in names if name.strip().lower() == each), None)


def _no_column(where: str, role: str, wanted: str | None, names: list[str]) -> str:
    what = f"there is no column {wanted!r}" if wanted is not None else f"no column has a known name for the {role}"
    return f"{where}: {what}; the columns are {', '.join(repr(name) for name in names)}; set data.{role}_column"


def _pick(row: list[str], places: dict[str, int], width: int, path: str, line: int) -> dict[str, str]:
    if len(row) != width:
        raise DataError(
            f"{path}:{line}: has {len(row)} field{'s' * (len(row) != 1)}; must have {width}, like the first row"
        )
    return {role: _filled(row[place], f"{path}:{line}", role, role) for role, place in places.items()}


def _filled(value: str, where: str, name: str, role: str) -> str:
    """Return the value; for the role `label`, without the white space around it. DataError if the value is blank."""
    if not value.strip():
        raise DataError(f"{where}: the {name} is empty; fill it in or delete the line")
    return value.strip() if role == "label" else value
