"""The arguments that the sub-commands share."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from hpo.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """Says what is wrong as every other fault is said: in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with argparse's own message."""
        raise ConfigError(f"command line: {message}; see `{self.prog} --help`")


def make_parser(command: str, description: str | None, examples: str) -> argparse.ArgumentParser:
    """Return a parser whose help says what the command does, as its module's first line has it, with examples."""
    parser = Parser(
        prog=f"hpo {command}",
        description=(description or "").partition(": ")[2],
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a fault")
    return parser


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the study that a command works on."""
    parser.add_argument("study", metavar="STUDY", help="its name under runs/, or its folder")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the trained model that a command works with."""
    parser.add_argument("model", metavar="MODEL", help="a study, for its winner; or a checkpoint folder")


def add_overrides(parser: argparse.ArgumentParser, what: str = "key=value, group=name, +key=value, ~key") -> None:
    """Add Hydra overrides, the last of the positional arguments."""
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help=what)


def read_config(parser: argparse.ArgumentParser, primary: str, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the composed configuration; None where it was only to be printed (`--cfg job`), which is done then.

    Args:
        parser: gets what chooses and shows a configuration.
        primary: the primary configuration, `search` or `train`.
        arguments: the command line.
    """
    add_overrides(parser)
    parser.add_argument("--cfg", choices=["job"], help="print the configuration and do nothing")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with configuration groups of your own")
    parser.add_argument("--config", metavar="FILE", help="start from this whole configuration; compose nothing")
    given = parser.parse_intermixed_args(arguments)

    # After the parsing, so that `--help` does not wait for Hydra.
    from hpo.cli.compose import compose_config

    tree = compose_config(primary, given.overrides, given.config_dir, given.config)
    if not given.cfg:
        return tree
    import yaml

    from hpo.sealing import seal

    print(yaml.safe_dump(seal(tree)[0], sort_keys=False, allow_unicode=True), end="")
    return None
