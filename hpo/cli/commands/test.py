"""`hpo test`: open the test part, once, with the winner, and write down that it was opened."""

from collections.abc import Sequence

from hpo.cli.arguments import add_data, add_study, data_places, make_parser
from hpo.engine.trials.digits import score_format

_EXAMPLES = """\
  hpo test digits
  hpo test digits --no-default
  hpo test reviews data.path=there.csv      the data lie elsewhere now"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("test", __doc__, _EXAMPLES)
    add_study(parser)
    add_data(parser)
    add = parser.add_argument
    add("--again", action="store_true", help="open a test part that was opened before; the report says how often")
    what = "do not train and score the default configuration beside the winner"
    add("--no-default", action="store_true", help=what)
    given = parser.parse_intermixed_args(arguments)
    elsewhere = data_places(given.data)

    from hpo.interface.existing import score_on_test
    from hpo.study.files.folder import short_path

    study, result, report = score_on_test(given.study, given.again, not given.no_default, elsewhere)
    times = result["openings_of_these_data"]
    print(f"test part of {result['size']} examples, opened {times} time(s) over all studies of these data")
    metric, score, default = study.config.study.metric, result["validation_score"], result["default"] or {}
    text = score_format([result["metrics"][metric], score, default.get("metrics", {}).get(metric)])
    for name, value in result["metrics"].items():
        print(f"  {name} = {text(value) if name == metric else score_format([value])(value)}")
    if "error" in default:
        print(f"the default configuration has no score: {default['error']}")
    elif default:
        print(f"the default configuration, in the same opening: {metric} = {text(default['metrics'][metric])}")
    print(f"validation {metric} was {text(score)} (trial {result['trial']})")
    print(f"report: {short_path(report.paths[0])}")
