"""`hpo report`: write report.html, report.md, report.json, trials.csv and best.yaml of a study, finished or not."""

import json
from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import ConfigError

_EXAMPLES = """\
  hpo report digits
  hpo report digits report.title="Does depth help?" report.exclusions=none     what only you know
  hpo report digits --publish       the study as others can read, reproduce and replay it: studies/digits/
  hpo report digits --checklist --latex     for the appendix of a paper: checklist.md and tables.tex
  hpo report --schema               what report.json holds, as JSON Schema"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("report", __doc__, _EXAMPLES)
    add_study(parser, "?")
    parser.add_argument("said", metavar="report.KEY=TEXT", nargs="*", help="what only you know; kept with the study")
    parser.add_argument("--publish", action="store_true", help="copy what others need into studies/<name>/")
    parser.add_argument("--checklist", action="store_true", help="write the reproducibility checklist: checklist.md")
    parser.add_argument("--latex", action="store_true", help="write the tables of ranges and of results: tables.tex")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of report.json; no study needed")
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    if given.schema:
        from hpo.report.sections.report import report_schema

        if given.json:
            show_json(report_schema())
        else:
            print(json.dumps(report_schema(), indent=2))
        return
    if given.study is None:
        parser.error("the following arguments are required: STUDY")

    from hpo.commands.report import write_reports
    from hpo.study.files.folder import short_path
    from hpo.study.view.reader import StudyReader

    asked = {"publish": given.publish, "checklist": given.checklist, "latex": given.latex}
    study, _, paths = write_reports(given.study, _said(given.said), **asked)
    for path in paths:
        print(short_path(path))
    show_json({**StudyReader(study.folder, study.reference).view().to_dict(), "written": paths})


def _said(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the given texts, by key without its section; texts are taken literally, and null removes one."""
    said: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("report."):
            raise ConfigError(f"report: must be report.KEY=TEXT, given {text!r}; see conf/report for the keys")
        said[key.removeprefix("report.")] = None if value == "null" else value
    return said
