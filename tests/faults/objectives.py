"""Objectives that break things. What they are to do stands in files of the working directory."""

import errno
import os
from pathlib import Path

from tests import toy

CONTINUES = False


def _is_due(task, name):
    """Return whether the flag is set, and this the trial that it is for."""
    flag = Path(name)
    return flag.exists() and int(flag.read_text()) == task["trial"]


def full_disk(task):
    if _is_due(task, "disk_is_full"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(Path("runs/toy/checkpoints").absolute()))
    return (yield from toy.score(task))


def many_files(task):
    """Open files until there are no descriptors left."""
    kept = []
    while _is_due(task, "files_run_out"):
        kept.append(os.open("files_run_out", os.O_RDONLY))
    return (yield from toy.score(task))
