"""The arguments that the sub-commands share."""

import argparse


def make_parser(command: str, description: str, examples: str, overrides: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--debug` and, where `overrides` describes them, Hydra overrides."""
    parser = argparse.ArgumentParser(
        prog=f"hpo {command}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a fault")
    if overrides is not None:
        parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help=overrides)
    return parser


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what chooses and shows a configuration."""
    parser.add_argument("--cfg", choices=["job"], help="print the configuration and do nothing")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with configuration groups of your own")
    parser.add_argument("--config", metavar="FILE", help="start from this whole configuration; compose nothing")
