"""`hpo resume`: continue a study from its frozen configuration; later edits of the configuration cannot leak in."""

from collections.abc import Sequence

from hpo.cli.arguments import add_overrides, add_study, make_parser

_EXAMPLES = """  hpo resume digits
  hpo resume digits study.trials=40 dispatch.workers=4
  hpo resume digits --allow-changes          although code, data or configuration changed; the report says what"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    what = "a larger budget or other workers: study.trials=..., dispatch.workers=..., track.uri=..."
    parser = make_parser("resume", __doc__, _EXAMPLES)
    add_study(parser)
    add_overrides(parser, what)
    parser.add_argument(
        "--allow-changes", action="store_true", help="go on although something has changed since; the report says what"
    )
    given = parser.parse_intermixed_args(arguments)

    from hpo.cli.compose import compose_config
    from hpo.cli.running import run_to_the_end
    from hpo.config import config_from_dict
    from hpo.folder import find_study
    from hpo.preparation import load_study

    folder = find_study(given.study)
    changed = config_from_dict(compose_config("search", given.overrides, config_file=str(folder.config_path)))
    return run_to_the_end(load_study(given.study, changed, given.allow_changes))
