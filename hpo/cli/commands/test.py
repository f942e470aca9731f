"""`hpo test`: open the test part, once, with the winner, and write down that it was opened."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpo.cli.arguments import add_data, add_study, data_places, make_parser

_EXAMPLES = """\
  hpo test digits
  hpo test digits --no-default
  hpo test reviews data.path=there.csv      the data lie elsewhere now"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("test", __doc__, _EXAMPLES)
    add_study(parser)
    add_data(parser)
    parser.add_argument(
        "--again", action="store_true", help="open a test part that was opened before; the report says how often"
    )
    parser.add_argument(
        "--no-default", action="store_true", help="do not train and score the default configuration beside the winner"
    )
    given = parser.parse_intermixed_args(arguments)
    elsewhere = data_places(given.data)

    from hpo.interface.results import score_on_test
    from hpo.study.folder import shown

    study, result, report = score_on_test(given.study, given.again, not given.no_default, elsewhere)
    times = result["openings_of_these_data"]
    print(f"test part of {result['size']} examples, opened {times} time(s) over all studies of these data")
    for name, value in result["metrics"].items():
        print(f"  {name} = {value:.4f}")
    _tell_default(study.config.study.metric, result["default"])
    print(f"validation {study.config.study.metric} was {result['validation_score']:.4f} (trial {result['trial']})")
    print(f"report: {shown(report.paths[0])}")
    return 0


def _tell_default(metric: str, default: Mapping[str, Any] | None) -> None:
    if default is None:
        return
    if "error" in default:
        print(f"the default configuration has no score: {default['error']}")
    else:
        print(f"the default configuration, in the same opening: {metric} = {default['metrics'][metric]:.4f}")
