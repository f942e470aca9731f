"""What a training's error tells: its kind, the line of the user's code where it was raised, and its text."""

import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path

from hpo.config.sealing import excerpt
from hpo.errors import text_of
from hpo.machine import figures, held

LONGEST_LINE = 500  # characters of an error that are kept
_OURS = Path(__file__).parents[2]
_OF_PYTHON = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
_SENT = "<dynamic-code>"  # the file of a function of a script or a cell, as cloudpickle 3.1.3 and later names it
# Whoever reads the line looks for it in code of their own.
_OF_OTHERS = ("<", *(f"{folder}/" for folder in (_OURS, _OURS.with_name("model"), *_OF_PYTHON)))


def one_line(error: BaseException, values: Mapping[str, str]) -> str:
    """Return an error in one line: `ZeroDivisionError at bad.py:4: division by zero`, secrets hidden."""
    text = _said_by_argparse(error) or text_of(error).strip()
    if isinstance(error, MemoryError) and "were free" not in text:
        # Usually its own text is empty; an objective may have given a better one.
        text = f"{text or 'out of memory'}; {figures(held())}"
    name = f"{type(error).__name__}{_place(error)}"
    return excerpt(f"{name}: {text}" if text else name, values, LONGEST_LINE)


def _said_by_argparse(error: BaseException) -> str | None:
    """Return what argparse printed before it ended the program, whose exception is the number 2."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__)) if isinstance(error, SystemExit) else ()
    for frame in frames:
        if frame.f_globals.get("__name__") == "argparse" and frame.f_code.co_name == "error":
            return str(frame.f_locals["message"])
    return None


def _place(error: BaseException) -> str:
    """Return ` at file:line` or ` at line 3 of train`, the last of the user's own code that the error passed."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == _SENT or not frame.filename.startswith(_OF_OTHERS)
    ]
    if not frames:
        return ""
    last = frames[-1]
    # A cell of a notebook is in a file whose name is a number.
    unnamed = last.filename == _SENT or "ipykernel_" in last.filename
    return f" at line {last.lineno} of {last.name}" if unnamed else f" at {Path(last.filename).name}:{last.lineno}"
