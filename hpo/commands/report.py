"""`report`: writes the results of a study to files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import StudyRef, Word
from hpo.config.keys import refuse_unknown
from hpo.config.sections import ReportSection
from hpo.errors import ConfigError
from hpo.study.files.folder import short_path

if TYPE_CHECKING:
    from hpo.study.view.view import StudyView


@dataclass(frozen=True)
class Reported:
    """The files of a report, and the view of the study.

    Attributes:
        study: the view of the study.
        written: the paths of report.html, report.md, report.json, trials.csv, config.yaml, environment.json and, with
            a winner, best.yaml; then the paths of the files that `checklist`, `latex` and `publish` wrote.
    """

    study: "StudyView"
    written: Sequence[Path]

    @property
    def page(self) -> Path:
        """The path of report.html."""
        return next(path for path in self.written if path.suffix == ".html")

    def __str__(self) -> str:
        return "\n".join(str(short_path(path)) for path in self.written)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the study's view; the key `written` has the paths of the written files."""
        return {**self.study.to_dict(), "written": self.written}


@dataclass(frozen=True)
class ReportSchema:
    """The JSON Schema of report.json."""

    schema: Mapping[str, Any]

    def __str__(self) -> str:
        return json.dumps(self.schema, indent=2)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON Schema of report.json as a dict."""
        return {**self.schema}


_VALUES: Mapping[str, bool | None] = {"null": None, "true": True, "false": False}


def report_texts(words: Sequence[str]) -> dict[str, str | bool | None]:
    """Return a dict from key to text for the section `report`, read from arguments `report.KEY=TEXT`.

    A text is used as written, with two exceptions: `null` becomes None, which removes the key's text; the texts `true`
    and `false` of the key `figures` become a bool. Raise ConfigError if an argument has another form, or if the section
    has no such KEY.
    """
    texts: dict[str, str | bool | None] = {}
    for text in words:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("report."):
            raise ConfigError(f"report: must be report.KEY=TEXT, given {text!r}; see conf/report for the keys")
        is_word = value == "null" or key == "report.figures"
        texts[key.removeprefix("report.")] = _VALUES.get(value, value) if is_word else value
    refuse_unknown(texts, ReportSection.model_fields, "report")
    return texts


def report(
    study: StudyRef | None = None,
    *,
    publish: bool = False,
    checklist: bool = False,
    latex: bool = False,
    schema: Annotated[bool, Word(is_shell_only=True)] = False,
    **said: Annotated[str | bool | None, Word("report.KEY=TEXT", collect=report_texts)],
) -> Reported | ReportSchema:
    """Write report.html, report.md, report.json and trials.csv of a study, finished or not.

    Also write curves.csv, best.yaml if the study has a winner, and imports.csv if the study has imported trials.

    Args:
        publish: copy into studies/<name>/ the files that `hpo reproduce` and `hpo search --replay` need.
        checklist: write the reproducibility checklist, checklist.md.
        latex: write the tables of ranges and of results, tables.tex.
        schema: print the JSON Schema of report.json; this needs no study.
        said: values for keys of conf/report, such as `title` or `figures`. The study saves these values.

    Returns:
        The paths of the `written` files, and the `page`, report.html.

    Raises:
        hpo.HpoError: a key does not exist, a value is given while the study is running, or the study was published
            without its record.

    Examples:
        hpo report digits
        hpo report digits report.title="Does depth help?" report.exclusions=none     facts that only you know
        hpo report digits --publish       studies/digits/, for others to read, reproduce and replay
        hpo report digits --checklist --latex     for the appendix of a paper: checklist.md and tables.tex
        hpo report --schema               the JSON Schema of report.json
    """
    if schema:
        from hpo.report.sections.report import report_schema

        return ReportSchema(report_schema())
    if study is None:
        raise ConfigError("STUDY: is missing; give the study's name under runs/, or its folder")
    # Import them only here, because they load pandas and plotly.
    from hpo.report.write import publish as publish_study
    from hpo.report.write import write_checklist, write_latex, write_report
    from hpo.study.opening import opened_run
    from hpo.study.preparing.preparation import known_study
    from hpo.study.view.reader import StudyReader

    known = known_study(str(study))
    if said:
        with known.folder.lock():
            # Read the file again, because another process may have raised the budget before this one had the lock.
            known = replace(known, config=known.folder.config().with_report(said))
            known.folder.freeze(known.config)
    with opened_run(known) as run:
        report_of = write_report(known, run)
    written = [*report_of.paths]
    written += [write_checklist(known, report_of.summary)] if checklist else []
    written += [write_latex(known, report_of.summary)] if latex else []
    written += publish_study(known) if publish else ()
    return Reported(StudyReader(known.folder, known.reference).view(), written)
