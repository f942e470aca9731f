"""The content of report.json: its sections, its schema, and its computation.

Scores are in the metric's own unit. Durations are in seconds, unless a name says otherwise, such as `device_hours`.
A missing value is `{"missing": "the reason"}`.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, with_config

from hpo.report.part import EXACT, Block, Missing, Paragraph, part, value_or_missing
from hpo.report.sections.cautions import cautions, read_cautions
from hpo.report.sections.cost import (
    Cost,
    EnvironmentPart,
    describe_cost,
    describe_environment,
    read_cost,
    read_environment,
)
from hpo.report.sections.curves import (
    BestSoFar,
    Curves,
    ExpectedPart,
    best_so_far,
    describe_curves,
    describe_expected,
    read_best_so_far,
    read_expected,
)
from hpo.report.sections.data import (
    DataPart,
    MethodPart,
    MetricPart,
    describe_data,
    describe_method,
    describe_metric,
    no_method,
    read_data,
)
from hpo.report.sections.fields import FieldStatus, describe_fields, read_gaps
from hpo.report.sections.front import FrontSection, describe_front, read_front
from hpo.report.sections.scales import ScalesSection, describe_scales, read_scales
from hpo.report.sections.search import SearchPart, describe_search, no_search, read_counts, read_strategy, read_top
from hpo.report.sections.space import Importance, describe_importance, read_space
from hpo.report.sections.study import StudyPart, describe_study, read_extension, read_study
from hpo.report.sections.tested import (
    FinalistPart,
    Overtuning,
    TestPart,
    describe_finalists,
    describe_overtuning,
    describe_test,
    read_finalists,
    read_test,
)
from hpo.report.sections.user_actions import NotesSection, describe_notes, read_user_notes
from hpo.report.sections.winner import (
    Baselines,
    Short,
    Winner,
    describe_baselines,
    describe_comparison,
    describe_short,
    describe_winner,
    no_winner,
    read_winner,
)
from hpo.report.subject import Subject
from hpo.report.transfer import expected_point
from hpo.study.basis.units import Units, varied_keys
from hpo.study.results.expected import expected_of
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.upgrade import FORMAT
from hpo.study.view.cautions import AtEnd, at_the_end


@with_config(EXACT)
class ReportJson(SearchPart, FrontSection, ScalesSection, NotesSection):
    """The content of report.json."""

    format: Annotated[
        int, Field(ge=FORMAT, le=FORMAT, description="the format number; a release that changes the format raises it")
    ]
    study: StudyPart
    environment: EnvironmentPart
    data: DataPart | Missing
    method: MethodPart
    metric: MetricPart
    config: Annotated[
        dict[str, Any], Field(description="the frozen configuration; `hpo reproduce` needs no other file")
    ]
    baselines: Baselines | Missing
    winner: Winner | Missing
    top: list[Short]
    test: TestPart | Missing
    best_so_far: BestSoFar | Missing
    expected_performance: ExpectedPart | Missing
    curves: Curves | Missing
    importance: Importance | Missing
    at_the_end: list[AtEnd] | Missing
    overtuning: Overtuning | Missing
    finalists: list[FinalistPart] | Missing
    comparison: Annotated[
        dict[str, Any] | Missing,
        Field(
            description="field 23 of the report: the keys name, repeats, standings, pairs and method, copied from the "
            "result of `hpo compare`"
        ),
    ]
    cost: Cost | Missing
    cautions: Annotated[
        list[str], Field(description="one line for every reason to doubt the result, the most important first")
    ]
    files: Annotated[
        dict[str, str], Field(description="field 18: SHA-256 of trials.csv, config.yaml and the other files, by name")
    ]
    fields: Annotated[list[FieldStatus], Field(min_length=25, max_length=25)]


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of report.json."""
    return TypeAdapter(ReportJson).json_schema()


def summarise(study: PreparedStudy, run: StudyRun, subject: Subject, files: dict[str, str]) -> ReportJson:
    """Return the report of a study as JSON data; the report of an ended study depends only on stored files.

    If the computation of a value fails with an HpoError, the error is raised, because the user can fix its cause. If
    the computation fails with another error, the report has the reason in place of the value. But the following parts
    raise every error: the study, the environment, the metric, the notes, the test result and the best trials.

    `files` has the SHA-256 of each file next to the report, by the file's name.
    """
    config, trials, winner = study.config, run.trials, run.winner
    method = part(lambda: describe_method(study), no_method)
    comparison = value_or_missing(lambda: describe_comparison(study))
    test = describe_test(study)
    expected = value_or_missing(lambda: expected_of(run))
    described = value_or_missing(lambda: describe_winner(study, run, expected))
    on_front = {trial.number for trial in subject.front}
    front: FrontSection = {}
    if run.has_front:
        definitions = method["metrics"]
        front = {"front": value_or_missing(lambda: describe_front(study, run, subject, definitions))}
    scales: ScalesSection = {}
    if (scale_results := subject.scale_results) is not None:
        point = part(lambda: expected_point(config.strategy, config.study.seed, scale_results), lambda _: None)
        scales = {"scales": value_or_missing(lambda: describe_scales(scale_results, study.goal.metric, point))}
    summary: ReportJson = {
        "format": FORMAT,
        "study": describe_study(study, run.notes, subject),
        "environment": describe_environment(study.environment()),
        "data": value_or_missing(lambda: describe_data(study)),
        "method": method,
        "metric": describe_metric(study, method),
        "config": config.to_dict(),
        **part(lambda: describe_search(study, run), no_search),
        "baselines": value_or_missing(lambda: describe_baselines(study, trials, comparison, expected)),
        "winner": described,
        **front,
        **scales,
        **describe_notes(study),
        "top": [describe_short(trial, study.goal, on_front) for trial in run.history.leaders(5)],
        "test": test,
        "best_so_far": value_or_missing(lambda: best_so_far(run)),
        "expected_performance": value_or_missing(
            lambda: describe_expected(subject.strategy, subject.drawn_scores, subject.direction, subject.is_extension)
        ),
        "curves": value_or_missing(lambda: describe_curves(study, run)),
        "at_the_end": value_or_missing(lambda: at_the_end(study.space, winner) if winner else no_winner(run)),
        "overtuning": value_or_missing(lambda: describe_overtuning(study, described, test)),
        "finalists": value_or_missing(lambda: describe_finalists(run.finalists, study.goal)),
        "comparison": comparison,
        "importance": value_or_missing(lambda: describe_importance(subject)),
        "cost": value_or_missing(lambda: describe_cost(subject)),
        "cautions": [],
        "files": files,
        "fields": [],
    }
    summary["cautions"] = part(lambda: _cautions(study, subject, summary), lambda reason: [f"the cautions {reason}"])
    summary["fields"] = describe_fields(summary)
    return summary


def _cautions(study: PreparedStudy, subject: Subject, summary: ReportJson) -> list[str]:
    # A new search is refused if a searched setting changes the metric's unit, but an older study may have such a unit.
    unit = Units.at(study.folder, study.config)[subject.metric]
    return cautions(subject, summary, study.full_amount, unit.changed_by(varied_keys(study.config)), unit.unit)


class Section(NamedTuple):
    """A section of a report as text.

    Attributes:
        title: the heading; empty = the section continues the one before it.
        read: the function that returns the section's blocks; it needs only the content of report.json.
        page: the name of the section's place on report.html; empty = not on the page. Several sections
            may share a place.
    """

    title: str
    read: Callable[[ReportJson], Iterable[Block]]
    page: str = ""


SECTIONS = (
    Section("", read_study, "study"),
    Section("Winner", read_winner, "winner"),
    Section("", read_test, "winner"),
    Section("Front and limits", read_front, "front"),
    Section("Scales", read_scales, "scales"),
    Section("Cautions", read_cautions, "cautions"),
    Section("Notes", read_user_notes, "notes"),
    Section("Data", read_data),
    Section("Space", read_space),
    Section("Strategy", read_strategy),
    Section("Trials", read_counts, "counts"),
    Section("", read_top),
    Section("", read_finalists, "counts"),
    Section("", read_extension, "extension"),
    Section("Expected validation performance", read_expected),
    Section("Cost", read_cost),
    Section("", read_best_so_far),
    Section("Environment", read_environment),
    Section("Missing values of the checklist", read_gaps),
)
"""The sections of a report in their order."""


def read_section(section: Section, report: ReportJson) -> list[Block]:
    """Return the blocks of a section.

    If `section.read` raises an HpoError, raise the same error. If `section.read` raises another error, return the
    blocks before the error, and a paragraph with the reason.
    """
    blocks: list[Block] = []
    part(lambda: blocks.extend(section.read(report)), lambda reason: blocks.append(Paragraph(f"This part {reason}.")))
    return blocks
