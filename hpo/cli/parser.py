"""Makes the argument parser of a command from the signature and docstring of its function."""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from hpo.cli.described import Described, Parameter, describe
from hpo.commands.arguments import EVERYWHERE
from hpo.errors import ConfigError, nearest

# Settings that a user of another tool may look for among the options.
_SETTINGS = (
    *("study.trials", "study.minutes", "study.name", "study.seed", "study.metric", "study.direction", "strategy"),
    *("dispatch.workers", "training.epochs", "training.lr", "split.folds"),
)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises ConfigError, so that `hpo` prints the error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Without this private attribute, argparse takes -1e-3 for an option. There is no public way to change this.
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$", re.IGNORECASE)

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with argparse's own message."""
        raise ConfigError(f"command line: {message}; see `{self.prog} --help`")


def parse(name: str, function: Callable[..., Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments for a command's function, read from the words of a command line.

    Raises:
        ConfigError: the command line is wrong.
        SystemExit: `--help` was given; the help is printed.
    """
    command = describe(function)
    parser, words = parser_of(name, command), _joined(command, words)
    _refuse_unknown_options(parser, command, words)
    # Intermixed parsing allows options between the words of one parameter, but handles `--` less well.
    is_mixed = any(each.is_many and not each.is_option for each in command.parameters)
    values = (parser.parse_intermixed_args if is_mixed else parser.parse_args)(words)
    given: dict[str, Any] = {}
    for each in command.parameters:
        value = _value(each, getattr(values, each.name))
        given |= value if each.is_keywords else {each.name: value}
    return given


def parser_of(name: str, command: Described) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = Parser(
        prog=f"hpo {name}",
        description=command.description,
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for each in command.parameters:
        _add(parser, each)
    for option, description in EVERYWHERE.items():
        parser.add_argument(f"--{option}", action="store_true", help=description)
    return parser


def _add(parser: argparse.ArgumentParser, given: Parameter) -> None:
    # In argparse, % begins a placeholder.
    options: dict[str, Any] = {"help": given.description.replace("%", "%%")}
    if given.kind is bool:
        parser.add_argument(given.typed, dest=given.name, action=f"store_{not given.default}".lower(), **options)
        return
    options |= {"type": given.word.read or given.kind}
    options |= {"choices": given.choices} if given.choices else {"metavar": given.metavar}
    if given.is_option:
        options |= {"dest": given.name, "required": given.is_needed, "default": given.default}
        if given.is_many:
            options |= {"action": "append", "default": []}
    elif given.is_many:
        options["nargs"] = "+" if given.is_needed else "*"
    elif not given.is_needed:
        options |= {"nargs": "?", "default": given.default}
    parser.add_argument(given.typed if given.is_option else given.name, **options)


def _value(given: Parameter, value: Any) -> Any:
    if not given.is_many:
        return value
    # argparse gives an empty list for a missing argument; the parameter's own default may be different.
    if not value and not given.is_needed:
        return given.default
    return given.word.collect(value) if given.word.collect else value


def _refuse_unknown_options(parser: argparse.ArgumentParser, command: Described, words: Sequence[str]) -> None:
    """Refuse an unknown option before argparse reports missing arguments. Allow shortened options."""
    known = [
        *(each.typed for each in command.parameters if each.is_option),
        *(f"--{it}" for it in EVERYWHERE),
        "--help",
    ]
    settings = _SETTINGS if any(each.name == "overrides" for each in command.parameters) else ()
    for word in words[: words.index("--") if "--" in words else None]:
        name = word.partition("=")[0]
        if name.startswith("--") and not any(each.startswith(name) for each in known):
            parser.error(f"option {name} does not exist{nearest(name.removeprefix('--'), [*known, *settings])}")


def _joined(command: Described, words: Sequence[str]) -> list[str]:
    """Write an option and its value as one word, `OPTION=VALUE`, if the value may begin with a dash.

    For example, `--sort -score` becomes `--sort=-score`. Without `=`, argparse would read two options.
    """
    dashed = [each.typed for each in command.parameters if each.word.is_dashed]
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in dashed:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
