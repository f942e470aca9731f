"""`hpo search --replay`: which search is run again, and whether its trials come out the same."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.cli.arguments import Parser

if TYPE_CHECKING:
    from hpo.folder import StudyFolder
    from hpo.trials_file import Row

# Differences that are printed, at most.
_SHOWN = 10


@dataclass(frozen=True)
class Replay:
    """A search that is run again.

    Attributes:
        folder: of the study, or of its publication.
        arguments: of `hpo search`, which run it from its frozen configuration under another name.
        trials: how many are compared: those before the first that was not finished.
        changes: what is not as it was when the study was started.
        is_same_machine: whether scores have to be the same to the last bit.
    """

    folder: "StudyFolder"
    arguments: Sequence[str]
    trials: int
    changes: Sequence[str]
    is_same_machine: bool


def replay_of(arguments: Sequence[str]) -> Replay | None:
    """Return what `--replay STUDY` among the arguments asks for; None where it is not there."""
    if not any(argument.partition("=")[0] == "--replay" for argument in arguments):
        return None
    only = Parser(prog="hpo search", add_help=False)
    only.add_argument("--replay", required=True)
    given, others = only.parse_known_args(arguments)

    from hpo.errors import StudyError
    from hpo.folder import find_study
    from hpo.reproduce import changes_since, refuse_tampered, refuse_two_parts
    from hpo.trials_file import read_rows

    folder = find_study(given.replay)
    refuse_tampered(folder)
    refuse_two_parts(folder)
    study = folder.config().study
    rows = read_rows(folder.trials_path, ("number", "state"))
    trials = next((place for place, row in enumerate(rows) if row["state"] == "running"), len(rows))
    if trials == 0:
        raise StudyError(f"--replay: {folder.trials_path} has no finished trial; there is nothing to compare with")
    changes = ["--config", str(folder.config_path), f"study.name={study.name}-replay", "study.storage=null"]
    # The first trials of a search are the same whatever its budget.
    changes += [f"study.trials={trials}"] if trials < study.trials else []
    if folder.imports_path.exists():
        # In quotes, for Hydra would take some signs for more than a text.
        changes.append(f"study.imports={json.dumps(str(folder.imports_path), ensure_ascii=False)}")
    return Replay(folder, [*changes, *others], trials, *changes_since(folder))


def compare(replay: Replay, replayed: Path) -> int:
    """Tell which trials differ; return 1 where one does.

    Points and states must be the same everywhere. Scores must be so to the last bit where nothing decisive has changed;
    elsewhere they may differ by the tolerance of `hpo reproduce`, and what changed is told first.
    """
    from hpo.reproduce import TOLERANCE
    from hpo.trials_file import Row, read_rows

    path = replay.folder.trials_path
    tolerance = 0.0 if replay.is_same_machine else TOLERANCE
    for change in replay.changes:
        print(f"what changed: {change}")
    print("demanded: " + ("the same to the last bit" if replay.is_same_machine else f"scores within {tolerance:.1%}"))
    before, now = read_rows(path, ["number"])[: replay.trials], read_rows(replayed, ["number"])
    nothing: Row = {}
    pairs = enumerate(zip_longest(before, now, fillvalue=nothing))
    differing = [(place, keys) for place, (old, new) in pairs if (keys := _differing(old, new, tolerance))]
    for place, keys in differing[:_SHOWN]:
        print(f"trial {place} differs in {', '.join(keys)}")
    if differing:
        print(f"not replayed: {len(differing)} of {max(len(before), len(now))} trials differ from {path}")
        return 1
    print(f"replayed: all {len(before)} trials are those of {path}")
    return 0


def _differing(old: "Row", new: "Row", tolerance: float) -> list[str]:
    from hpo.trials_file import TIMES

    return sorted(
        key for key in {**old, **new} if key not in TIMES and not _agree(key, old.get(key), new.get(key), tolerance)
    )


def _agree(key: str, old: str | None, new: str | None, tolerance: float) -> bool:
    is_score = key == "score" or key.startswith("fold_")
    if old == new or not is_score or not old or not new:
        return old == new
    return math.isclose(float(old), float(new), rel_tol=tolerance, abs_tol=0.0)
