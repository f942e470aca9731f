"""Fields 1, 2 and 25 of the report: the study's identity, budget and code."""

import datetime
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from hpo.config.documents import read_json
from hpo.config.keys import flatten
from hpo.config.sections import StudySection
from hpo.errors import StudyError
from hpo.formatting import format_count
from hpo.objectives.outside import OUTSIDE
from hpo.report.part import EXACT, Block, Count, Paragraph, Positive, Table, Text, is_missing, missing
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import front_of, goal_text, limits_text
from hpo.report.subject import Subject
from hpo.study.files.folder import inner, short_path
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial, loss_of


class Budget(TypedDict):
    """The budget of the search; a user may have raised the budget after the search began."""

    trials: Positive
    repeats: Annotated[Positive, Field(description="number of seeds per fold")]
    hours: str
    trial_minutes: Annotated[
        NotRequired[float],
        Field(
            description="limit on the minutes of one training; a training over this limit fails; absent without a limit"
        ),
    ]
    stop_without_gain: Annotated[
        NotRequired[Positive],
        Field(
            description="the search ends after this number of trials in a row without improvement; absent if not set"
        ),
    ]
    target: Annotated[
        NotRequired[float | dict[str, float]],
        Field(description="the search ends when a trial reaches this score, or these scores; absent if not set"),
    ]


class ExtendedPart(TypedDict):
    """A trial that `hpo extend` made from a trial of another study, with the scores of both trials."""

    number: int
    before: Annotated[int, Field(description="trial number in the other study")]
    score_before: float
    score: float | None
    gain: Annotated[float | None, Field(description="how much better `score` is than `score_before`; below 0 = worse")]
    continued: Annotated[
        bool,
        Field(description="true = the training continued from the other trial's state, false = from the beginning"),
    ]


class ExtensionPart(TypedDict):
    """The study that `hpo extend` extended, the changed settings, and the trials with their scores in both studies."""

    study: str
    changes: Annotated[
        dict[str, list[Any]], Field(description="old and new value of each changed setting, by the setting's key")
    ]
    trials: list[ExtendedPart]


class CodePart(TypedDict):
    """The code on which the trials depend; `hpo reproduce` compares this code with the current code."""

    revisions: Annotated[dict[str, int], Field(description="REVISION of the search, the strategy and the objective")]
    pieces: Annotated[dict[str, str], Field(description="hash of each part of the user's code, without comments")]
    toolkit: Annotated[
        dict[str, str | None], Field(description="the toolkit's commit, if known, and a hash of its files")
    ]
    versions: Annotated[
        dict[str, str], Field(description="versions of Python and of libraries that affect points and scores, by name")
    ]


@with_config(EXACT)
class ReproductionPart(TypedDict):
    """The result of the last `hpo reproduce` in the study's original folder."""

    time: str
    trials: Annotated[list[int], Field(min_length=1, description="the reproduced trials, by trial number")]
    folds: Annotated[list[int] | None, Field(description="the reproduced folds; null = all")]
    trainings: Positive
    differing: Annotated[
        Count, Field(description="number of trainings with results that differ from the recorded results")
    ]
    differing_numbers: Annotated[
        Count, Field(description="how many numbers in report.json differ from the numbers computed from the trainings")
    ]
    tolerance: Annotated[
        float, Field(ge=0, lt=1, description="largest relative difference at which two scores count as equal")
    ]
    changes: Annotated[
        list[str],
        Field(
            description="one line for each difference from the environment of the search, and one line for each change "
            "that the user allowed when resuming the study"
        ),
    ]


class StudyPart(TypedDict):
    """The study's identity, budget and code (fields 1, 2 and 25 of the report)."""

    name: str
    id: str
    title: Text
    started: Annotated[Text, Field(description="start of the first training, UTC")]
    ended: Annotated[Text, Field(description="end of the last training, UTC")]
    seed: Count
    objective: str
    budget: Budget
    intent: Literal["exploratory", "confirmatory"]
    allowed_changes: Annotated[list[dict[str, Any]], Field(description="changes that the user allowed when resuming")]
    rerun: Annotated[str, Field(description="the command that runs the search again")]
    code: CodePart
    reproduction: Annotated[NotRequired[ReproductionPart], Field(description="absent if `hpo reproduce` was not run")]
    extends: Annotated[
        NotRequired[ExtensionPart],
        Field(description="the extended study; absent if `hpo extend` did not make this study"),
    ]


def describe_study(study: PreparedStudy, notes: Notes, subject: Subject) -> StudyPart:
    """Return the identity, dates, budget and code of the study, and the command that runs the search again."""
    config, outcomes = study.config, [outcome for _, _, outcome in subject.outcomes]
    started = min((outcome.started for outcome in outcomes), default=None)
    ended = max((outcome.started + outcome.seconds for outcome in outcomes), default=None)
    not_trained = missing("there was no training")
    # A simulated cluster has its own clock, which starts at 0.
    has_own_time, name = config.dispatch.type.has_own_time, config.dispatch.name
    simulated = missing(f"dispatch={name} simulates time, so its trainings have no date") if has_own_time else None
    rerun = f"hpo search --config {short_path(study.folder.config_path)} study.name={config.study.name}-again"
    described: StudyPart = {
        "name": config.study.name,
        "id": notes.study_id or "",
        "title": config.report.title
        or missing(f'not given; set it with hpo report {study.reference} report.title="..."'),
        "started": simulated or (not_trained if started is None else _date(started)),
        "ended": simulated or (not_trained if ended is None else _date(ended)),
        "seed": config.study.seed,
        "objective": config.objective,
        "budget": describe_budget(config.study),
        "intent": config.report.intent,
        "allowed_changes": [vars(change) for change in notes.allowed_changes],
        "code": cast("CodePart", {name: dict(values) for name, values in vars(notes.code).items()}),
        "rerun": rerun if study.objective.pickled is None else f"hpo search --replay {study.reference}",
    }
    if (reproduction := _reproduction(study)) is not None:
        described["reproduction"] = reproduction
    if (extension := _extension(study, subject.trials)) is not None:
        described["extends"] = extension
    return described


def _reproduction(study: PreparedStudy) -> ReproductionPart | None:
    """Return the result of the last `hpo reproduce`; None before the first. Raise StudyError for an invalid file."""
    path = study.folder.reproduction_path
    if not path.exists():
        return None
    try:
        return TypeAdapter(ReproductionPart).validate_python(read_json(short_path(path)))
    except ValidationError as error:
        raise StudyError(f"{short_path(path)}: the file is not a result of `hpo reproduce`; remove the file") from error


def _extension(study: PreparedStudy, trials: Sequence[Trial]) -> ExtensionPart | None:
    """Return which study this study extends, with the changed settings, and with the trials of both studies in pairs.

    Return None if this study extends no study.
    """
    section = study.config.study
    if section.extends is None:
        return None
    extended: list[ExtendedPart] = [
        {
            "number": trial.number,
            "before": before.number,
            "score_before": before.score,
            "score": trial.score,
            "gain": None if trial.score is None else loss_of(before.score - trial.score, section.direction),
            "continued": before.continues,
        }
        for trial, before in zip(trials, section.extends.trials, strict=False)
    ]
    now = flatten(study.config.objective_config)
    changes = {key: [value, now.get(key)] for key, value in section.extends.changes.items()}
    return {"study": section.extends.study, "changes": changes, "trials": extended}


def describe_budget(section: StudySection) -> Budget:
    """Return the budget of the search."""
    hours = "not limited" if section.minutes is None else f"{section.minutes / 60:.3g}"
    budget = {"trials": section.trials, "repeats": section.repeats, "hours": hours}
    optional = {name: getattr(section, name) for name in ("trial_minutes", "stop_without_gain", "target")}
    return cast("Budget", budget | {key: value for key, value in optional.items() if value is not None})


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def heading(study: StudyPart) -> tuple[str, str]:
    """Return the report's heading and subtitle: the report's title and the study's name.

    Without a title, the heading is the study's name, and the subtitle is empty.
    """
    name = f"Study {study['name']}"
    title = "" if is_missing(study["title"]) else " ".join(study["title"].split())
    return (title, name) if title else (name, "")


def reproduction_text(summary: ReportJson) -> str:
    """Return the result of the last `hpo reproduce` as the end of a sentence, such as `tried on 2026-11-26: ...`."""
    result = summary["study"].get("reproduction")
    if summary["study"]["objective"] == OUTSIDE:
        return "impossible, because the trials were trained outside of the toolkit"
    if result is None:
        return f"not tried (`hpo reproduce {summary['study']['name']}`)"
    trials, trainings = result["trials"], result["trainings"]
    of = f"trial {trials[0]}" if len(trials) == 1 else format_count(len(trials), "trial*")
    folds = result["folds"] or []
    some = f" on fold{'' if len(folds) == 1 else 's'} {', '.join(map(str, folds))} alone" if folds else ""
    values = "the recorded values " + (
        f"within {100 * result['tolerance']:.3g} %" if result["tolerance"] else "bit for bit"
    )
    equal = f"all {trainings} trainings" if trainings > 1 else "the training"
    text = f"{equal} of {of}{some} returned {values}"
    if result["differing"]:
        number = f"{result['differing']} of {format_count(trainings, 'training*')}"
        text = f"in {of}{some}, {number} did not reproduce {values}"
    if result["differing_numbers"]:
        text += f"; {format_count(result['differing_numbers'], 'different number*')} in the report"
    if result["changes"]:
        text += f"; changed since: {'; '.join(result['changes'])}"
    return f"tried on {result['time'][:10]}: {text}"


def read_study(report: ReportJson) -> Iterator[Block]:
    """Yield a description of the search, the command that repeats the search, and the last reproduction's result.

    If MLflow tracks the study, also yield the command that shows the study in MLflow.
    """
    study, metric, front = report["study"], report["metric"], front_of(report)
    target = f"the configuration with the best {metric['name']} ({metric['direction']}, {metric['aggregation']})"
    if front is not None and len(front["metrics"]) > 1:
        target = f"the Pareto front of {goal_text(front)} ({metric['aggregation']})"
    elif front is not None:
        target += limits_text(front)
    search = f"{report['strategy']['name']} search for"
    if (extension := study.get("extends")) is not None:
        search = f"Trials of study {extension['study']}, trained further or again, to find"
    yield Paragraph(f"{search} {target}, objective `{study['objective']}`, seed {study['seed']}.")
    yield Paragraph(f"Run it again: `{study['rerun']}`")
    yield Paragraph(f"Reproduction: {reproduction_text(report)}.")
    if inner(report["config"], "track").get("name") == "mlflow":
        yield Paragraph(f"In MLflow: `hpo ui {study['name']}`; with other studies: `hpo ui {study['name']} STUDY ...`")


def read_extension(report: ReportJson) -> Iterator[Block]:
    """Yield a table with one row per pair: a trial of another study, and the trial that extends it."""
    extension = report["study"].get("extends")
    if extension is None:
        return
    changes = ", ".join(f"`{key}` from {before} to {now}" for key, (before, now) in extension["changes"].items())
    yield Paragraph(f"Trials of study {extension['study']}, {f'with {changes}' if changes else 'fully trained'}:")
    trials = extension["trials"]
    text = score_format(score for trial in trials for score in (trial["score_before"], trial["score"]))
    rows = [
        (
            str(trial["number"]),
            str(trial["before"]),
            text(trial["score_before"]),
            "no score" if trial["score"] is None else text(trial["score"]),
            "" if trial["gain"] is None else f"{'+' if trial['gain'] >= 0 else ''}{text(trial['gain'])}",
            "further" if trial["continued"] else "anew",
        )
        for trial in trials
    ]
    yield Table(("trial", "before", "score before", "score", "gain (above 0 is better)", "trained"), rows)
