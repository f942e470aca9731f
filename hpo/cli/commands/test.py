"""`hpo test`: open the test part, once, with the winner, and write down that it was opened."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpo.cli.arguments import add_data, add_json, add_study, data_places, make_parser
from hpo.cli.output import show_json
from hpo.formatting import format_scores
from hpo.trials.score_format import score_format

_EXAMPLES = """\
  hpo test digits
  hpo test digits --no-default
  hpo test digits --front                   several metrics: every trial of the front
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
    what = "with several metrics, score every trial of the front in this one opening; those whose models are not kept "
    add("--front", action="store_true", help=f"{what}are trained again before it")
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    elsewhere = data_places(given.data)

    from hpo.commands.evaluation import score_on_test
    from hpo.study.basis.default import why_no_default
    from hpo.study.files.folder import short_path
    from hpo.study.view.reader import StudyReader

    study, result, report = score_on_test(given.study, given.again, not given.no_default, elsewhere, given.front)
    times = result["openings_of_these_data"]
    scored = f", with {result['scored_of_these_data']} configuration(s)" if given.front else ""
    print(f"test part of {result['size']} examples, opened {times} time(s) over all studies of these data{scored}")
    metric, score, default = study.config.study.metric, result["validation_score"], result["default"] or {}
    text = score_format([result["metrics"][metric], score, default.get("metrics", {}).get(metric)])
    for name, value in result["metrics"].items():
        print(f"  {name} = {text(value) if name == metric else score_format([value])(value)}")
    if "error" in default:
        print(f"the default configuration has no score: {default['error']}")
    elif default:
        print(f"the default configuration, in the same opening: {metric} = {text(default['metrics'][metric])}")
    elif (none := why_no_default(study.space, study.config)) and not given.no_default:
        print(none)
    in_search = text(result["search_score"]) if "search_score" in result else ""
    chosen = format_scores(text(score), in_search)
    print(f"validation {metric} was {chosen} (trial {result['trial']})")
    if given.front:
        print("\n".join(_front(result, study.goal.names)))
    print(f"report: {short_path(report.paths[0])}")
    show_json(StudyReader(study.folder, study.reference).view().to_dict())


def _front(result: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table of the front: of each trial what it has on the test part, and had in the search."""
    front = result["front"]
    columns = [("the front", [f"trial {each['trial']}" for each in front])]
    for name in names:
        on_test = [each.get("metrics", {}).get(name) for each in front]
        before = [each["validation_metrics"][name] for each in front]
        text = score_format([*on_test, *before])
        cells = ["failed" if "error" in each else "missing" for each in front]
        cells = [cell if value is None else text(value) for cell, value in zip(cells, on_test, strict=True)]
        columns += [(name, cells), ("validation", list(map(text, before)))]
    widths = [max(map(len, [head, *cells])) for head, cells in columns]
    rows = [[head for head, _ in columns], *zip(*(cells for _, cells in columns), strict=True)]
    chosen = ["", *("  chosen" if each["trial"] == result["trial"] else "" for each in front)]
    for (first, *others), mark in zip(rows, chosen, strict=True):
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        yield "  " + "  ".join(cells) + mark
    yield from (f"trial {each['trial']} has no score: {each['error']}" for each in front if "error" in each)
