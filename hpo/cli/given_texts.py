"""The input of a trained model for `hpo predict` and `hpo attention`: a text, a file or a pipe."""

import argparse
import logging
import sys
from pathlib import Path

from hpo.errors import DataError

_log = logging.getLogger(__name__)


def add_texts(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--input` and `--text`; one of them is required."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--input", metavar="FILE", help=f"{what}; - is standard input")
    either.add_argument("--text", metavar="TEXT", help="the text itself")


def texts_of(given: argparse.Namespace) -> list[str]:
    """Return the given text, or the lines of the file; DataError where it cannot be read or is empty."""
    return [given.text] if given.text is not None else _lines(given.input)


def one_text_of(given: argparse.Namespace) -> str:
    """Return the given text, or the one line of the file.

    If there is no such file, `--input` is the text, as in earlier versions; a warning says so.
    """
    if given.text is None and given.input != "-" and not _is_there(given.input):
        _log.warning("--input: there is no such file, so it is taken for the text itself; give a text by --text")
        return str(given.input)
    texts = texts_of(given)
    if len(texts) > 1:
        raise DataError(f"--input: {_name(given.input)}: must hold one line, has {len(texts):,}; give one of them")
    return texts[0]


def _is_there(source: str) -> bool:
    try:
        return Path(source).exists() and not Path(source).is_dir()
    except OSError:
        # Longer than the name of a file can be.
        return False


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


def _lines(source: str) -> list[str]:
    name = _name(source)
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = content.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise DataError(f"--input: {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"--input: {name}: must be UTF-8, but byte {error.start} is not; convert the file") from error
    if not text:
        raise DataError(f"--input: {name}: is empty; must hold one input per line")
    return text.split("\n")
