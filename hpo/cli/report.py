"""`hpo report`: write report.md, report.json, trials.csv and best.yaml of a study, finished or not."""

from collections.abc import Sequence

from hpo.cli.arguments import add_study, make_parser


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("report", __doc__, "  hpo report digits")
    add_study(parser)
    given = parser.parse_args(arguments)

    from hpo.report import write_report
    from hpo.study import load_study

    study = load_study(given.study)
    report = write_report(study, study.read())
    for path in report.paths:
        print(path)
    return 0
