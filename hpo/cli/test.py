"""`hpo test`: open the test part, once, with the winner, and write down that it was opened."""

from collections.abc import Sequence

from hpo.cli.arguments import add_study, make_parser


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("test", __doc__, "  hpo test digits")
    add_study(parser)
    parser.add_argument(
        "--again", action="store_true", help="open a test part that was opened before; the report says how often"
    )
    given = parser.parse_args(arguments)

    from hpo.final_test import open_test
    from hpo.report import write_report
    from hpo.study import load_study

    study = load_study(given.study)
    with study.folder.lock():
        record = study.read()
        result = open_test(study, record, given.again)
        report = write_report(study, record)
    times = result["openings_of_these_data"]
    print(f"test part of {result['size']} examples, opened {times} time(s) over all studies of these data")
    for name, value in result["metrics"].items():
        print(f"  {name} = {value:.4f}")
    print(f"validation {study.config.study.metric} was {result['validation_score']:.4f} (trial {result['trial']})")
    print(f"report: {report.paths[0]}")
    return 0
