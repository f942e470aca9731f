"""`hpo report`: write report.html, report.md, report.json, trials.csv and best.yaml of a study, finished or not."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hpo.cli.arguments import make_parser
from hpo.errors import ConfigError
from hpo.study.opening import read_study

_EXAMPLES = """\
  hpo report digits
  hpo report digits report.title="Does depth help?" report.exclusions=none     what only you know
  hpo report digits --publish       the study as others can read, reproduce and replay it: studies/digits/
  hpo report digits --checklist --latex     for the appendix of a paper: checklist.md and tables.tex
  hpo report --schema               what report.json holds, as JSON Schema"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("report", __doc__, _EXAMPLES)
    parser.add_argument("study", metavar="STUDY", nargs="?", help="its name under runs/, or its folder")
    parser.add_argument("said", metavar="report.KEY=TEXT", nargs="*", help="what only you know; kept with the study")
    parser.add_argument("--publish", action="store_true", help="copy what others need into studies/<name>/")
    parser.add_argument("--checklist", action="store_true", help="write the reproducibility checklist: checklist.md")
    parser.add_argument("--latex", action="store_true", help="write the tables of ranges and of results: tables.tex")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of report.json; no study needed")
    given = parser.parse_intermixed_args(arguments)
    if given.schema:
        from hpo.report.facts.schema.report import report_schema

        print(json.dumps(report_schema(), indent=2))
        return 0
    if given.study is None:
        parser.error("the following arguments are required: STUDY")
    return _write(given)


def _write(given: argparse.Namespace) -> int:
    from hpo.report.publish import publish
    from hpo.report.write import write_checklist, write_latex, write_report
    from hpo.study.folder import shown
    from hpo.study.preparation import load_study
    from hpo.study.winner.verdict import read_verdict

    study = load_study(given.study)
    if given.said:
        with study.folder.lock():
            study = replace(study, config=study.config.with_report(_said(given.said)))
            study.folder.freeze(study.config)
    record = read_study(study)
    report = write_report(study, record, read_verdict(study, record))
    paths: list[Path] = list(report.paths)
    paths += [write_checklist(study)] if given.checklist else []
    paths += [write_latex(study)] if given.latex else []
    for path in [*paths, *(publish(study) if given.publish else ())]:
        print(shown(path))
    return 0


def _said(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the given texts, by key without its section; texts are taken literally, and null removes one."""
    said: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("report."):
            raise ConfigError(f"report: must be report.KEY=TEXT, given {text!r}; see conf/report for the keys")
        said[key.removeprefix("report.")] = None if value == "null" else value
    return said
