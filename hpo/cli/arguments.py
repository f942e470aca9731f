"""The arguments that sub-commands share: a study, a configuration, places of data, texts for a model."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hpo.errors import ConfigError, DataError

STUDY = "its name under runs/, or its folder"
STUDY_OR_MIRROR = "its name under runs/, its folder, or the URL of its mirror"


class Parser(argparse.ArgumentParser):
    """Reports faults in one line, like all other parts of `hpo`."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with argparse's own message."""
        raise ConfigError(f"command line: {message}; see `{self.prog} --help`")


def make_parser(command: str, description: str | None, examples: str) -> argparse.ArgumentParser:
    """Return a parser whose help consists of the first line of the command's module and the examples."""
    parser = Parser(
        prog=f"hpo {command}",
        description=(description or "").partition(": ")[2],
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a fault")
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints for programs; see `hpo.cli.output`."""
    what = "print one JSON object instead of lines, which go to standard error"
    parser.add_argument("--json", action="store_true", help=what)


def add_study(parser: argparse.ArgumentParser, nargs: str | None = None, what: str = STUDY) -> None:
    """Add the study that a command works on, with `nargs` "+" or "*" the `studies`."""
    parser.add_argument("studies" if nargs in ("+", "*") else "study", metavar="STUDY", nargs=nargs, help=what)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the trained model that a command works with."""
    parser.add_argument("model", metavar="MODEL", help="a study, for its winner; or a checkpoint folder")


def add_overrides(parser: argparse.ArgumentParser, what: str = "key=value, group=name, +key=value, ~key") -> None:
    """Add Hydra overrides, the last of the positional arguments."""
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help=what)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the present places of a study's data, the last of the positional arguments; see `data_places`."""
    what = "where the data lie now, such as data.path=there.csv"
    parser.add_argument("data", nargs="*", metavar="KEY=PATH", help=what)


def data_places(texts: Sequence[str]) -> dict[str, str]:
    """Return the places of data by their keys; ConfigError for anything else."""
    from hpo.config.study_config import DATA_SOURCES

    paths = {}
    for text in texts:
        key, equals, path = text.partition("=")
        if key not in DATA_SOURCES or not equals or not path:
            raise ConfigError(f"KEY=PATH: must be one of {', '.join(DATA_SOURCES)} and a path, given {text!r}")
        paths[key] = path
    return paths


def add_trust(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add the option that lets another person's study run its objective."""
    what = "run the objective of a study that was not made here, and do not ask before"
    parser.add_argument("--trust", action="store_true", help=f"{where}: {what}" if where else what)


def add_texts(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--input` and `--text`; one of them is required."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--input", metavar="FILE", help=f"{what}; - is standard input")
    either.add_argument("--text", metavar="TEXT", help="the text itself")


def texts_of(given: argparse.Namespace) -> list[str]:
    """Return the given text, or the lines of the file; DataError where it cannot be read or is empty."""
    return [given.text] if given.text is not None else _lines(given.input)


def one_text_of(given: argparse.Namespace) -> str:
    """Return the given text, or the one line of the file; DataError as above, and for more lines."""
    texts = texts_of(given)
    if len(texts) > 1:
        raise DataError(f"--input: {_name(given.input)}: must hold one line, has {len(texts):,}; give one of them")
    return texts[0]


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


def _lines(source: str) -> list[str]:
    name = _name(source)
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = content.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise DataError(f"--input: {name}: {error.strerror}; give a file, or the text itself by --text") from error
    except UnicodeDecodeError as error:
        raise DataError(f"--input: {name}: must be UTF-8, but byte {error.start} is not; convert the file") from error
    if not text:
        raise DataError(f"--input: {name}: is empty; must hold one input per line")
    return text.split("\n")
