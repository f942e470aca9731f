"""Reads tables from data sets of the Hugging Face hub, and from folders that the `datasets` library saved.

No code from a data set ever runs: the extra [hub] allows only versions of the library that refuse data sets with code.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from model.config.data import FilesConfig
from model.data.examples import File
from model.data.readers.parts import PARTS, WHOLE, given_places
from model.data.readers.text_files import Columns, Table, find_column
from model.errors import DataError

Check = Callable[[Any, str, str, str], Any]

# The names of splits that the hub recognizes (documentation of the hub's data sets, "File names and splits").
SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


def read_splits(config: FilesConfig, columns: Columns, check: Check) -> Iterator[tuple[str, Table]]:
    """Yield the name of each split and its rows, in the order train, validation, test.

    The configuration names a folder that `save_to_disk` wrote, or a data set on the hub. The suffix `:split` selects
    one split. Without a suffix, `data.path` selects every split whose name is in SPLIT_NAMES. One of these splits must
    be the training split. If `data.path` selects only one split, yield this split with the name WHOLE, because the
    search splits its rows. A column `inner` inside a column `outer` has the name `outer.inner`.

    `check(value, location, column, role)` returns the value to use, or raises DataError with the location.

    Raises:
        DataError: a library, data set, split or column is missing, or a row cannot be used.
        DataError: data.subset is given for a folder.
    """
    for part, place in given_places(config).items():
        key = f"data.{part}"
        name, wanted = _name_and_split(place)
        for found, (split, dataset) in _splits(_load(name, config.subset, key), name, wanted, part).items():
            yield found, _table(dataset, name if split is None else f"{name}:{split}", columns, check)


def _name_and_split(place: str) -> tuple[str, str | None]:
    """Return two values: the text before the last colon of `place`, and the text after it (a split's name).

    For a `place` without a split, such as `owner/name`, return `place` and None. Do the same for the path of an
    existing folder, because a folder's name may contain a colon.
    """
    name, _, split = place.rpartition(":")
    return (name, split) if name and split and not Path(place).is_dir() else (place, None)


def _load(name: str, subset: str | None, key: str) -> Any:
    """Load a data set; return a `datasets.Dataset`, or for several splits a `datasets.DatasetDict`."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
    try:
        import datasets  # imported here, because it is optional and loads slowly
    except ImportError as error:
        raise DataError(
            f"{key}: data.format=hub needs the library `datasets`, which is not installed; run python -m pip install "
            "'hpo-transformer[hub]'"
        ) from error
    if Path(name).is_dir():
        if subset is not None:
            raise DataError(
                f"data.subset: must be null for a folder, given {subset!r}; only data sets on the hub have subsets"
            )
        try:
            return datasets.load_from_disk(name)
        except (OSError, ValueError, LookupError) as error:
            raise DataError(
                f"{name}: is not a folder with rows that `save_to_disk` wrote ({_first_line(error)}); with "
                f"data.format=hub, {key} must name such a folder, or a data set on the hub"
            ) from error
    if not HUB_NAME.fullmatch(name) or Path(name).exists():
        raise DataError(
            f"{name}: is not a folder; with data.format=hub, {key} must name a folder that `save_to_disk` wrote, or a "
            "data set on the hub as owner/name"
        )
    import huggingface_hub

    datasets.disable_progress_bars()
    # Otherwise each retry of the library prints a warning.
    huggingface_hub.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # it has no types
    try:
        return datasets.load_dataset(name, subset)
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{key}: {name} is neither a folder on this machine, nor readable from the Hugging Face hub "
            f"({_first_line(error)}); check the name, data.subset and the network connection"
        ) from error


def _splits(loaded: Any, name: str, wanted: str | None, part: str) -> dict[str, tuple[str | None, Any]]:
    """Return the selected splits by train, validation, test or WHOLE. Each split is a pair of its name and its rows.

    The name is the split's name in the data set. If the data set has no splits, the name is None, and the rows are the
    whole data set.
    """
    if not isinstance(loaded, dict):  # a single Dataset has no splits
        if wanted is not None:
            raise DataError(f"{name}: has no splits; leave :{wanted} out of data.{part}")
        return {part: (None, loaded)}
    there_are = ", ".join(loaded)
    if wanted is not None:
        if wanted not in loaded:
            raise DataError(f"{name}: has no split {wanted!r}; the splits are {there_are}")
        return {part: (wanted, loaded[wanted])}
    if part != WHOLE and len(loaded) > 1:
        raise DataError(f"{name}: has several splits ({there_are}); choose one, as in data.{part}={name}:{part}")
    found = {each: split for each in PARTS for split in SPLIT_NAMES[each] if split in loaded}
    if "train" not in found:
        raise DataError(
            f"{name}: has no split 'train'; choose one of its splits ({there_are}), as in "
            f"data.{part}={name}:{next(iter(loaded))}"
        )
    if len(found) == 1:
        return {part: (found["train"], loaded[found["train"]])}
    return {each: (split, loaded[split]) for each, split in found.items()}


def _table(dataset: Any, place: str, columns: Columns, check: Check) -> Table:
    """Return the columns of a split; class numbers become class names."""
    flat = dataset.flatten()
    names = list(flat.column_names)
    chosen = {role: find_column(place, role, names, columns) for role in columns.wanted}
    values = {role: _named(flat, name, place) for role, name in chosen.items()}
    rows = [
        {
            role: check(value, f"{place}: row {number}", chosen[role], role)
            for role, value in zip(values, row, strict=True)
        }
        for number, row in enumerate(zip(*values.values(), strict=True))
    ]
    if not rows:
        raise DataError(f"{place}: has no row; must hold at least one example")
    # Hash the rows and not the files, because the files differ if the same data is saved again.
    content = json.dumps(rows, ensure_ascii=False).encode()
    return Table(File.of(place, content), rows, licence=dataset.info.license or None)


def _named(flat: Any, name: str, place: str) -> list[Any]:
    """Return the values of a column; class numbers, also in lists, become class names."""
    feature = flat.features[name]
    classes = getattr(getattr(feature, "feature", feature), "names", None)
    values = list(flat[name])
    if classes is None:
        return values

    def to_name(number: int | None, row: int) -> str:
        if number is None or number < 0:  # the hub's test splits have -1 for secret labels
            raise DataError(
                f"{place}: row {row}: {name!r} is {number}, which is not the number of a class; choose a split with "
                "labels"
            )
        return str(classes[number])

    return [
        [to_name(each, row) for each in value] if isinstance(value, list) else to_name(value, row)
        for row, value in enumerate(values)
    ]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
