"""Data that is passed to a search from Python. It is hashed and written to files, from which trainings read rows."""

import hashlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from hpo.errors import ConfigError, StudyError, nearest, text_of
from hpo.workers.objective.examples import Examples

Kind = Literal["DataFrame", "array", "list", "tuple", "dict", "number"]

_ALLOWED = (
    "must be a DataFrame, an array with a row per example, a list, tuple or dict of such arrays with equal lengths, or "
    "the number of examples"
)
_FRAME, _ARRAYS = "rows.parquet", "rows.npz"


@dataclass(frozen=True)
class GivenData:
    """The data of `hpo.search(..., data=...)`.

    Attributes:
        kind: the type of the argument `data`. "number" = only the number of examples was passed, and the function reads
            the examples itself.
        size: number of examples.
        names: names of the arrays, if the data is a dict of arrays.
        stratify_by: the column of a DataFrame, or the array of a dict, that has the class of each row; None = splits
            ignore classes.
        digest: a hash of all rows in their order; empty if the data is a number.
        source: the data itself, or the folder with the file of the rows; not used if the data is a number.
    """

    kind: Kind
    size: int
    names: Sequence[str] = ()
    stratify_by: str | None = None
    digest: str = ""
    source: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, data: Any, stratify_by: str | None = None) -> "GivenData":
        """Check the data that was passed to a search, and compute its hash.

        Raises:
            ConfigError: the data has no rows, is not of an allowed type, or cannot be written to a file without loss.
                Also raised if `stratify_by` does not fit the data.
        """
        import pandas as pd

        if isinstance(data, int | np.integer) and not isinstance(data, bool):
            if data < 1:
                raise ConfigError(f"data: the number of examples must be at least 1, given {data}")
            if stratify_by is not None:
                raise ConfigError(
                    f"stratify_by: must be left out if data is a number of examples, given {stratify_by!r}"
                )
            return cls("number", int(data))
        if isinstance(data, pd.DataFrame):
            given = cls("DataFrame", len(data), (), stratify_by, source=data)
            _refuse_lossy(data)
        else:
            kind, arrays = _arrays_of(data)
            names = tuple(data) if isinstance(data, Mapping) else ()
            given = cls(kind, len(arrays[0]), names, stratify_by, source=data)
        if given.size == 0:
            raise ConfigError("data: must have at least one row, given none")
        given._labels()
        digest = hashlib.sha256("\n".join(given._digests).encode()).hexdigest()
        return cls(given.kind, given.size, given.names, stratify_by, digest, data)

    @classmethod
    def read_head(cls, head: Mapping[str, Any], folder: Path) -> "GivenData":
        """Create a `GivenData` from a dict that the method `head` returned, and from the folder with the rows.

        Raises:
            TypeError: a field is unknown or missing.
            KeyError: the field `names` is missing.
        """
        return cls(**{**head, "names": tuple(head["names"])}, source=folder)

    def head(self) -> dict[str, Any]:
        """Return a description of the data, without the rows, as a dict that can be written as JSON."""
        return {name: value for name, value in vars(self).items() if name in _HEAD}

    @property
    def has_rows(self) -> bool:
        """Whether trainings get rows of data.

        False if the user gave only the number of examples; the objective then reads the examples itself.
        """
        return self.kind != "number"

    def examples(self) -> Examples:
        """Return the examples to split. A DataFrame's index does not affect the hashes of its rows."""
        if not self.has_rows:
            note = "data: the function reads the examples itself, so trainings can also read the test split"
            return Examples(self.size, name="examples by number", notes=[note])
        return Examples(self.size, labels=self._labels(), digests=self._digests, name=f"rows of a {self.kind}")

    def parts(self) -> list[Any]:
        """Return the objects in memory that hold the rows: the data, and its arrays."""
        if not self.has_rows:
            return []
        return [self._data, *([] if self.kind == "DataFrame" else _arrays_of(self._data)[1])]

    def optional_functions(self) -> dict[str, Callable[..., Any]]:
        """Return the optional functions of an objective with this data, by name.

        These are `describe_data` and, if the data has rows, `prepare_data`.
        """

        def describe_data(_config: Mapping[str, Any]) -> Mapping[str, Any]:
            return vars(self.examples())

        def prepare_data(_config: Mapping[str, Any], indices: Sequence[int], data_dir: str) -> None:
            self.write(Path(data_dir), indices)

        return {"describe_data": describe_data} | ({"prepare_data": prepare_data} if self.has_rows else {})

    def write(self, folder: Path, indices: Sequence[int] | None = None) -> None:
        """Write the rows with these indices to a file in a new folder. If `indices` is None, write all rows."""
        folder.mkdir(parents=True)
        rows = slice(None) if indices is None else self.indices(indices)
        if self.kind == "DataFrame":
            _quiet(lambda: self._data.iloc[rows].to_parquet(folder / _FRAME))
        else:
            np.savez(folder / _ARRAYS, *(array[rows] for array in _arrays_of(self._data)[1]), allow_pickle=False)

    def read(self, folder: Path) -> Any:
        """Read the rows in a folder. Return them in the type of the original data. Raise StudyError if this fails."""
        path = folder / (_FRAME if self.kind == "DataFrame" else _ARRAYS)
        try:
            if self.kind == "DataFrame":
                import pandas as pd

                return pd.read_parquet(path)
            with np.load(path, allow_pickle=False) as file:
                arrays = [file[name] for name in file.files]
            if self.kind == "dict":
                return dict(zip(self.names, arrays, strict=True))
        except Exception as error:  # The libraries raise many kinds of exceptions for a damaged file.
            raise StudyError(
                f"{path}: cannot be read ({text_of(error):.200}); the file has rows that were passed from Python, "
                f"so restore the file"
            ) from error
        if self.kind == "array":
            return arrays[0]
        return tuple(arrays) if self.kind == "tuple" else arrays

    @staticmethod
    def indices(given: Sequence[int]) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Convert row numbers to an integer array, which can index arrays and `DataFrame.iloc`."""
        return np.asarray(given, dtype=np.intp)

    @cached_property
    def _data(self) -> Any:
        return self.read(self.source) if isinstance(self.source, Path) else self.source

    @cached_property
    def _digests(self) -> list[str]:
        """A hash of each row, computed from its values and from the names and types of the columns or arrays."""
        rows = _frame_rows(self._data) if self.kind == "DataFrame" else _array_rows(self._data)
        return [hashlib.sha256(row).hexdigest() for row in rows]

    def _labels(self) -> list[Any] | None:
        """Return the class of each row; None = no classes. Raise ConfigError if `stratify_by` does not fit the data."""
        name = self.stratify_by
        if name is None:
            return None
        if self.kind not in ("DataFrame", "dict"):
            raise ConfigError(
                f"stratify_by: must be left out, given {name!r}; only a dict of arrays or a DataFrame "
                f"can be stratified by name"
            )
        known = list(self._data)
        if name not in known:
            allowed = ", ".join(map(str, known))
            raise ConfigError(
                f"stratify_by: must be one of {allowed}, given {name!r}{nearest(str(name), map(str, known))}"
            )
        import pandas as pd

        labels = self._data[name]
        if np.ndim(labels) != 1:
            raise ConfigError(f"stratify_by: '{name}' must have one class per row, given the shape {labels.shape}")
        if pd.isna(labels).any():
            raise ConfigError(
                f"stratify_by: '{name}' has rows without a class; fill in the classes, or remove these rows"
            )
        return cast("list[Any]", labels.tolist())


_HEAD = ("kind", "size", "names", "stratify_by", "digest")


def _arrays_of(data: Any) -> tuple[Kind, list[np.ndarray[Any, Any]]]:
    """Return the kind and the arrays of the data. Raise ConfigError for data that is not allowed."""
    kinds: dict[type, Kind] = {list: "list", tuple: "tuple", dict: "dict"}
    kind: Kind = kinds.get(type(data), "array")
    parts = (
        {"": data} if kind == "array" else data if kind == "dict" else {f"[{n}]": each for n, each in enumerate(data)}
    )
    if not parts:
        raise ConfigError(f"data: {_ALLOWED}, given an empty {kind}")
    for name, part in parts.items():
        if not isinstance(name, str):
            raise ConfigError(f"data: the keys of a dict must be texts, given {name!r}")
        # Subclasses are refused: a masked array, for example, would lose its mask.
        if type(part) not in (np.ndarray, np.memmap):
            inside = f"a {kind} of {type(part).__name__}" if name else f"a {type(part).__name__}"
            hint = _conversion_hint(part) if name or hasattr(part, "dtype") else ""
            raise ConfigError(f"data: {_ALLOWED}, given {inside}{hint}")
        if part.ndim == 0:
            raise ConfigError(f"data: {_ALLOWED}, given an array without rows{f' ({name})' if name else ''}")
        if part.dtype.hasobject:
            raise ConfigError(
                f"data: an array of Python objects{f' ({name})' if name else ''} cannot be written to a file; give "
                f"numbers or texts, such as array.astype(str), or a DataFrame"
            )
    lengths = {name: len(part) for name, part in parts.items()}
    if len({*lengths.values()}) > 1:
        raise ConfigError(f"data: all arrays must have the same length, given {', '.join(map(str, lengths.values()))}")
    return kind, list(parts.values())


def _conversion_hint(part: Any) -> str:
    """Return a hint at how to convert a value to an array or a DataFrame; empty if no way is known."""
    if hasattr(part, "to_frame"):
        return "; series.to_frame() makes a DataFrame"
    if hasattr(part, "to_numpy"):
        return "; put all columns into one DataFrame, or call to_numpy() to convert a DataFrame to an array"
    if hasattr(part, "numpy"):
        return f"; call numpy() to convert a {type(part).__name__} to an array"
    is_convertible = isinstance(part, list | tuple | int | float | str)
    return "; call numpy.asarray(...) to convert a list or tuple to an array" if is_convertible else ""


def _array_rows(data: Any) -> Iterator[bytes]:
    arrays = [np.ascontiguousarray(array) for array in _arrays_of(data)[1]]
    names = list(data) if isinstance(data, Mapping) else []
    head = repr((names, [(array.dtype.descr, array.shape[1:]) for array in arrays])).encode()
    for row in range(len(arrays[0])):
        yield b"".join((head, *(array[row].tobytes() for array in arrays)))


def _frame_rows(frame: Any) -> Iterator[bytes]:
    head = repr([(name, repr(dtype)) for name, dtype in frame.dtypes.items()])
    for row in frame.itertuples(index=False, name=None):
        yield f"{head}{row!r}".encode()


def _refuse_lossy(frame: Any) -> None:
    """Raise ConfigError if writing the DataFrame to a Parquet file would change a value, a type or a name."""
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ConfigError(f"data: must have unique column names, given {twice!r} twice; rename one of these columns")
    if _survives_file(frame):
        return
    lost = [name for name in frame.columns if not _survives_file(frame[[name]])]
    if not lost:
        raise ConfigError(
            "data: storing the data as a Parquet file would lose the column names or the index; use texts as column "
            "names, and call reset_index() to convert the index to columns"
        )
    raise ConfigError(
        f"data: storing the data as a Parquet file would change column {lost[0]!r} ({frame[lost[0]].dtype}); convert "
        f"all values of this column to one type, such as numbers, texts, dates or categories; or give a dict of arrays"
    )


def _survives_file(frame: Any) -> bool:
    """Return whether a DataFrame is unchanged after it is written to a Parquet file and read back."""
    import pandas as pd

    for name in frame.columns:
        if frame[name].dtype == object and not frame[name].map(pd.api.types.is_scalar).all():
            return False
    file = io.BytesIO()
    try:
        _quiet(lambda: frame.to_parquet(file))
        file.seek(0)
        read = pd.read_parquet(file)
    except Exception:  # noqa: BLE001 -- Arrow raises many kinds of exceptions for types that it lacks
        return False
    return read.index.equals(frame.index) and all(map(bytes.__eq__, _frame_rows(read), _frame_rows(frame)))


def _quiet(write: Callable[[], object]) -> None:
    """Call `write` and hide its warnings, such as those about column names; `_refuse_lossy` checks these names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write()
