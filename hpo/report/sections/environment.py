"""The machine and the code that a study was started on: fields 1 and 24."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import with_config
from typing_extensions import TypedDict

from hpo.report.blocks import Block, Paragraph
from hpo.report.missing import OPEN, Missing, Text, missing, reason_missing

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson


@with_config(OPEN)
class EnvironmentPart(TypedDict):
    """Fields 1 and 24: versions, machine and code at the study's start. Earlier versions wrote fewer keys."""

    python: str
    platform: str
    processor: str
    cpus: int | None
    memory_bytes: int
    packages: dict[str, str]
    cuda: str
    driver: str
    gpus: list[str] | str
    commit: Text
    is_dirty: bool | Missing
    command: str


def describe_environment(environment: Mapping[str, Any]) -> EnvironmentPart:
    """Return the machine and the code that the study was started on; words stand for what does not exist."""
    cuda = environment.get("cuda") or "none: torch was built for the CPU"
    gpus = environment.get("gpus") or "none"
    driver = environment.get("driver") or "none: no NVIDIA GPU"
    commit = environment.get("commit") or missing("the study was not started inside a git repository")
    # Without a repository there is no working tree with changes.
    is_dirty = bool(environment["is_dirty"]) if environment.get("commit") else commit
    described = {**environment, "cuda": cuda, "gpus": gpus, "driver": driver, "commit": commit, "is_dirty": is_dirty}
    return cast("EnvironmentPart", described)


def read_environment(report: "ReportJson") -> Iterator[Block]:
    """Say on which machine, with which versions and with which code the study was started."""
    environment = report["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    dirty = " with uncommitted changes" if environment["is_dirty"] is True else ""
    unknown = reason_missing(environment["commit"])
    commit = f"Commit unknown: {unknown}." if unknown else f"Commit {environment['commit']}{dirty}."
    machine = f"{environment['platform']} ({environment['processor']})"
    yield Paragraph(f"Python {environment['python']} on {machine}: {versions}.\n{commit}")
