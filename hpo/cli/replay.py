"""`hpo search --replay`: selects the search to run again, and reports whether its trials are the same."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.errors import StudyError

if TYPE_CHECKING:
    from hpo.study.reproduce.replay import Replay

# The largest number of differences that are printed.
_SHOWN = 10
# These sections belong to the place where the study was made: where it ran and where it was shown.
_OWN = ("dispatch", "track", "report")


def replay_of(name: str, overrides: Sequence[str], is_trusted: bool) -> "Replay":
    """Return the search of a study, prepared to be run again.

    The study gives only the settings that decide its trials. Where they run and are shown is set by the defaults of
    `hpo search` and the overrides.

    Args:
        name: the study's name or folder.
        overrides: those of the command line.
        is_trusted: whether another person's study is run without a question.
    """
    from hpo.cli.config.compose import compose_config
    from hpo.cli.trust import ask_for_trust
    from hpo.engine.trials.table import read_rows
    from hpo.study.folder import find_study, shown
    from hpo.study.preparation import refuse_past_search
    from hpo.study.reproduce.recorded import read_files, refuse_two_parts
    from hpo.study.reproduce.replay import Replay, script_of

    refuse_past_search(find_study(name))
    files = read_files(find_study(name))
    folder, study = files.folder, files.config.study
    refuse_two_parts(files)
    ask_for_trust(files.config, files.changes, is_trusted, folder.kept_function(files.config))
    rows = read_rows(shown(folder.trials_path), ("number", "state"))
    trials = next((place for place, row in enumerate(rows) if row["state"] == "running"), len(rows))
    if trials == 0:
        raise StudyError(
            f"--replay: {shown(folder.trials_path)} has no finished trial; there is nothing to compare with"
        )
    decisive = [f"study.name={study.name}-replay", "study.storage=null"]
    decisive += ["study.minutes=null"] if study.minutes is not None else []
    # The first trials of a search do not depend on its budget.
    decisive += [f"study.trials={trials}"] if trials < study.trials else []
    if folder.imports_path.exists():
        # In quotes, because some characters have a meaning for Hydra.
        decisive.append(f"study.imports={json.dumps(str(folder.imports_path), ensure_ascii=False)}")
    own = [text for text in overrides if _is_own(text)]
    others = [text for text in overrides if not _is_own(text)]
    mine = compose_config("search", own)
    tree = compose_config("search", [*decisive, *others], config_file=str(folder.config_path))
    # Kept, because the number of threads changes last digits.
    threads = {} if any("dispatch.threads" in text for text in own) else {"threads": tree["dispatch"]["threads"]}
    tree |= {section: mine[section] for section in _OWN} | {"dispatch": mine["dispatch"] | threads}
    script = script_of(files.config, rows[:trials])
    return Replay(folder, tree, trials, files.changes, files.is_same_machine, script)


def _is_own(override: str) -> bool:
    return override.lstrip("+~").partition("=")[0].partition(".")[0] in _OWN


def show_comparison(replay: "Replay", replayed: Path) -> int:
    """Print which trials differ; return 1 if any does, else 0."""
    from hpo.study.folder import shown
    from hpo.study.reproduce.replay import compared

    path = shown(replay.folder.trials_path)
    tolerance = replay.tolerance
    print("demanded: " + (f"scores within {tolerance:.1%}" if tolerance else "the same to the last bit"))
    trials, differing = compared(replay, replayed)
    for place, keys in list(differing.items())[:_SHOWN]:
        print(f"trial {place} differs in {', '.join(keys)}")
    if differing:
        print(f"not replayed: {len(differing)} of {trials} trials differ from {path}")
        return 1
    print(f"replayed: all {trials} trials are those of {path}")
    return 0
