"""What is not as it was when a report was written: environment, data, code."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from hpo.engine.objective.objective import DataFile
from hpo.study.basis.source_code import CodeHashes, is_same


def changed_environment(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per difference between two descriptions of an environment, and per uncommitted change."""
    for key in ("python", "platform", "processor", "commit"):
        if before.get(key) != now.get(key):
            yield f"{key}: was {before.get(key)}, is {now.get(key)}"
    old, new = inner(before, "packages"), inner(now, "packages")
    for name in sorted({**old, **new}):
        if old.get(name) != new.get(name):
            yield f"packages: {name} was {old.get(name)}, is {new.get(name)}"
    for when, environment in (("then", before), ("now", now)):
        if environment.get("is_dirty"):
            yield f"code: had uncommitted changes {when}"


def changed_since(
    report: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]], files: Sequence[DataFile]
) -> Iterator[str]:
    """Yield one line per part of the data that is not as in a report; without a split, per file of the objective.

    Files are compared in order, since they may have moved.
    """
    before = inner(report, "data", "split", "parts")
    for part in {**before, **parts} if before else ():
        old, new = inner(before, part).get("fingerprint"), parts.get(part, {}).get("fingerprint")
        if old != new:
            yield f"data: part {part} was {str(old)[:12]}, is {str(new)[:12]}"
    if before:
        return
    given = inner(report, "data").get("files")
    known = [file for file in given if isinstance(file, Mapping)] if isinstance(given, list) else []
    nothing: Mapping[str, Any] = {}
    # Of a file that an earlier version did not note nothing can be said.
    for was, file in zip_longest(known, list(map(vars, files))[: len(known)], fillvalue=nothing):
        if was.get("sha256") != file.get("sha256"):
            name = was.get("path") or file.get("path")
            yield f"data: {name} was {str(was.get('sha256'))[:12]}, is {str(file.get('sha256'))[:12]}"


def changed_code(report: Mapping[str, Any], now: CodeHashes) -> Iterator[str]:
    """Yield one line per piece of the code, and per library, that is not as in a report.

    A piece that only one side has is not compared: versions of the toolkit name them in other ways. Of libraries those
    are left out that `changed_environment` compares.
    """
    compared = {"python", *inner(report, "environment", "packages")}
    pieces, versions = now.pieces or {}, {name: v for name, v in now.versions.items() if name not in compared}
    for what, kind, there in (("pieces", "code", pieces), ("versions", "packages", versions)):
        for name, old in inner(report, "study", "code", what).items():
            if name in there and not is_same(old, there[name]):
                yield f"{kind}: {name} was {old} and is now {there[name]}"


def inner(report: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return an inner mapping; empty where it is missing, since a report may come from a stranger."""
    for key in keys:
        value = report.get(key)
        report = value if isinstance(value, Mapping) else {}
    return report
