"""`hpo report`: write report.md, report.json, trials.csv and best.yaml of a study, finished or not."""

from collections.abc import Sequence

from hpo.cli.arguments import add_study, make_parser

_EXAMPLES = """\
  hpo report digits
  hpo report digits --publish       the study as others can read, reproduce and replay it: studies/digits/"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("report", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--publish", action="store_true", help="copy what others need into studies/<name>/")
    given = parser.parse_args(arguments)

    from hpo.report import write_report
    from hpo.report.publish import publish
    from hpo.study import load_study

    study = load_study(given.study)
    report = write_report(study, study.read())
    for path in [*report.paths, *(publish(study) if given.publish else ())]:
        print(path)
    return 0
