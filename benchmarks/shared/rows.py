"""The file of finished searches: a row each, so that a stopped run continues where it stopped."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of the results; none where there is no file yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, fields: Sequence[str], row: Mapping[str, Any]) -> None:
    """Add a row to the file; make the file if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def run(
    path: Path,
    fields: Sequence[str],
    search: Callable[..., Mapping[str, Any]],
    missing: Iterable[Sequence[Any]],
    jobs: int,
) -> None:
    """Run a search for each of these arguments, in so many processes, and add its row to the file as it ends."""
    with ProcessPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(search, *arguments) for arguments in missing]):
            append(path, fields, done.result())
