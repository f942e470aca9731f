"""The arguments that the sub-commands share."""

import argparse


def make_parser(command: str, description: str | None, examples: str) -> argparse.ArgumentParser:
    """Return a parser whose help says what the command does, as its module's first line has it, with examples."""
    parser = argparse.ArgumentParser(
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


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what chooses and shows a configuration."""
    add_overrides(parser)
    parser.add_argument("--cfg", choices=["job"], help="print the configuration and do nothing")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with configuration groups of your own")
    parser.add_argument("--config", metavar="FILE", help="start from this whole configuration; compose nothing")
