"""What a training's error tells: its kind, the line of the user's code where it was raised, and its text."""

import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path

from hpo.config.sealing import told
from hpo.errors import text_of
from hpo.machine import figures, held

LONGEST_LINE = 500  # characters of an error that are kept
_OURS = Path(__file__).parents[2]
_OF_PYTHON = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
# Whoever reads the line looks for it in code of their own.
_OF_OTHERS = ("<", *(f"{folder}/" for folder in (_OURS, _OURS.with_name("model"), *_OF_PYTHON)))


def one_line(error: BaseException, values: Mapping[str, str]) -> str:
    """Return an error in one line: `ZeroDivisionError at bad.py:4: division by zero`, secrets hidden.

    Args:
        error: as it was caught.
        values: the secrets that the code knows, by name.
    """
    text = text_of(error).strip()
    if isinstance(error, MemoryError) and "were free" not in text:
        # Usually its own text is empty; an objective may have given a better one.
        text = f"{text or 'out of memory'}; {figures(held())}"
    name = f"{type(error).__name__}{_place(error)}"
    return told(f"{name}: {text}" if text else name, values, LONGEST_LINE)


def _place(error: BaseException) -> str:
    """Return ` at file:line`, the last line of the user's own code that the error passed; empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OF_OTHERS)]
    if not frames:
        return ""
    file, line = frames[-1].filename, frames[-1].lineno
    # A cell of a notebook is in a file whose name is a number.
    return f" at line {line} of a cell" if "ipykernel_" in file else f" at {Path(file).name}:{line}"
