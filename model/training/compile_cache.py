"""The folder in which torch keeps what it compiles."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

NAME = "TORCHINDUCTOR_CACHE_DIR"


def use_own_compile_cache() -> None:
    """Give torch.compile a folder of this process alone, below the one that TORCHINDUCTOR_CACHE_DIR names.

    torch 2.13 lets the linker write a library where it is looked for, and takes one that is there for complete. After a
    killed compilation each later training that shares the folder fails ("file too short"), or dies of SIGBUS.
    The folder is removed when the process ends by itself. Headers are not compiled before: torch shares them in another
    folder, where a killed compiler leaves a part of one, too.
    """
    from torch._inductor import config  # here: it loads slowly, and only torch.compile needs it

    os.environ[NAME] = _own_folder(os.getpid())
    config.cpp_cache_precompile_headers = False


@cache
def _own_folder(process: int) -> str:
    """Return the folder of this process; one that was forked from it has another."""
    shared = os.environ.get(NAME)
    if shared is not None:
        Path(shared).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"torchinductor_{process}_", dir=shared)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
