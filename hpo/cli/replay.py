"""`hpo search --replay`: reports whether the trials of a search that was run again are the same."""

from pathlib import Path
from typing import TYPE_CHECKING

from hpo.errors import printable

if TYPE_CHECKING:
    from hpo.study.reproduce.replay import Replay

# The largest number of differences that are printed.
_SHOWN = 10


def show_comparison(replay: "Replay", replayed: Path) -> int:
    """Print which trials differ; return 1 if any does, else 0."""
    from hpo.study.folder import short_path
    from hpo.study.reproduce.replay import compared

    path = short_path(replay.folder.trials_path)
    tolerance = replay.tolerance
    print("demanded: " + (f"scores within {tolerance:.1%}" if tolerance else "the same to the last bit"))
    trials, differing = compared(replay, replayed)
    for place, keys in list(differing.items())[:_SHOWN]:
        print(printable(f"trial {place} differs in {', '.join(keys)}"))
    if differing:
        print(f"not replayed: {len(differing)} of {trials} trials differ from {path}")
        return 1
    print(f"replayed: all {trials} trials are those of {path}")
    return 0
