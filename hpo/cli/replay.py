"""`hpo search --replay`: which search is run again, and whether its trials come out the same."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpo.folder import StudyFolder
    from hpo.trials_file import Row

# Differences that are printed, at most.
_SHOWN = 10
# What a study says of these is of the machine and the people where it was made: where it ran, and where it was shown.
_OWN = ("dispatch", "track", "report")


@dataclass(frozen=True)
class Replay:
    """A search that is run again.

    Attributes:
        folder: of the study, or of its publication.
        tree: the configuration to run, under another name.
        trials: how many are compared: those before the first that was not finished.
        changes: what is not as it was when the study was started.
        is_same_machine: whether scores have to be the same to the last bit.
    """

    folder: "StudyFolder"
    tree: Mapping[str, Any]
    trials: int
    changes: Sequence[str]
    is_same_machine: bool


def replay_of(name: str, overrides: Sequence[str], is_trusted: bool) -> Replay:
    """Return the search of a study as it is to be run again.

    The study gives what decides its trials, and nothing else: where they run and where they are shown is for whoever
    runs it again, by the defaults of `hpo search` and the overrides.

    Args:
        name: of the study, or its folder.
        overrides: of the command line.
        is_trusted: whether a study of somebody else is run without a question.
    """
    from hpo.cli.compose import compose_config
    from hpo.cli.trust import ask_for_trust
    from hpo.errors import StudyError
    from hpo.folder import find_study, shown
    from hpo.reproduce import changes_since, refuse_tampered, refuse_two_parts
    from hpo.trials_file import read_rows

    folder = find_study(name)
    config = folder.config()
    refuse_tampered(folder)
    refuse_two_parts(folder)
    changes, is_same_machine = changes_since(folder)
    ask_for_trust(config, changes, is_trusted)
    study = config.study
    rows = read_rows(shown(folder.trials_path), ("number", "state"))
    trials = next((place for place, row in enumerate(rows) if row["state"] == "running"), len(rows))
    if trials == 0:
        raise StudyError(
            f"--replay: {shown(folder.trials_path)} has no finished trial; there is nothing to compare with"
        )
    decisive = [f"study.name={study.name}-replay", "study.storage=null"]
    # The first trials of a search are the same whatever its budget.
    decisive += [f"study.trials={trials}"] if trials < study.trials else []
    if folder.imports_path.exists():
        # In quotes, for Hydra would take some signs for more than a text.
        decisive.append(f"study.imports={json.dumps(str(folder.imports_path), ensure_ascii=False)}")
    own = [text for text in overrides if _is_own(text)]
    others = [text for text in overrides if not _is_own(text)]
    mine = compose_config("search", own)
    tree = compose_config("search", [*decisive, *others], config_file=str(folder.config_path))
    # The number of threads changes last digits.
    threads = {} if any("dispatch.threads" in text for text in own) else {"threads": tree["dispatch"]["threads"]}
    tree |= {section: mine[section] for section in _OWN} | {"dispatch": mine["dispatch"] | threads}
    return Replay(folder, tree, trials, changes, is_same_machine)


def _is_own(override: str) -> bool:
    return override.lstrip("+~").partition("=")[0].partition(".")[0] in _OWN


def compare(replay: Replay, replayed: Path) -> int:
    """Tell which trials differ; return 1 where one does.

    Points and states must be the same everywhere. Scores must be so to the last bit where nothing decisive has changed;
    elsewhere they may differ by the tolerance of `hpo reproduce`.
    """
    from hpo.folder import shown
    from hpo.reproduce import TOLERANCE
    from hpo.trials_file import Row, read_rows

    path = shown(replay.folder.trials_path)
    tolerance = 0.0 if replay.is_same_machine else TOLERANCE
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
