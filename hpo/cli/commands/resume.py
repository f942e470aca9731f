"""`hpo resume`: continue a study from its frozen configuration; later edits of the configuration cannot leak in."""

from collections.abc import Sequence

from hpo.cli.arguments import STUDY_OR_MIRROR, add_json, add_overrides, add_study, add_trust, make_parser
from hpo.cli.output import show_json
from hpo.cli.searching import add_progress, run_and_show

_EXAMPLES = """\
  hpo resume digits
  hpo resume digits study.trials=40 dispatch.workers=4
  hpo resume digits study.trials=60               also while it runs: it goes on to the larger budget
  hpo resume digits track=none dispatch=local     shown nowhere, and trained in this process
  hpo resume digits --as deeper study.trials=40   the same trials, and more, as a study of its own
  hpo resume reviews data.path=there.csv          the data lie elsewhere now
  hpo resume s3://bucket/digits                   from its copy (study.mirror), on any machine
  hpo resume s3://bucket/digits --trust           the same, unasked where it was not made on this machine
  hpo resume digits --allow-changes               although code, data or configuration changed; the report says what"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    what = "a larger budget or other workers: study.trials=..., dispatch.workers=..., track=none, dispatch=local"
    parser = make_parser("resume", __doc__, _EXAMPLES)
    add_study(parser, what=STUDY_OR_MIRROR)
    add_overrides(parser, what)
    changes = "continue although something has changed since; the report says what"
    parser.add_argument("--allow-changes", action="store_true", help=changes)
    parser.add_argument("--as", dest="name", metavar="NEW", help="continue with a copy that is a separate study")
    add_trust(parser, "with a URL")
    add_progress(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)

    is_url = "://" in given.study
    if given.trust and not is_url:
        parser.error("--trust has no effect without a URL: a study under runs/ is yours")
    if is_url:
        from hpo.study.keeping.mirror import restore

        folder = restore(given.study)
        print(f"copied to {folder}")
    else:
        from hpo.study.files.folder import find_study

        folder = find_study(given.study)

    # Imported after the study was found, so that a fault in its name is reported at once.
    from hpo.commands.resume import ask_for_copied, changed_config, prepare_to_resume
    from hpo.commands.steer import raise_budget

    config = changed_config(folder, given.overrides)
    if given.name is None and (says := raise_budget(folder, config)) is not None:
        print(f"study {config.study.name}, which runs: {says}")
        show_json({"study": config.study.name, "folder": folder.path, "says": says})
        return 0
    if is_url:
        ask_for_copied(folder, config, given.study, given.trust)
    if given.name is None and folder.path.name != config.study.name:
        print(
            f"{folder} holds study '{config.study.name}': as a copy it shares its name and its run in MLflow with the "
            f"original; `hpo resume {folder} --as NEW` makes it a study of its own"
        )
    return run_and_show(prepare_to_resume(folder, config, given.name, given.allow_changes), given)
