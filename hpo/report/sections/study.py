"""What the study is: fields 1, 2 and 25."""

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
from hpo.study.files.folder import inner, short_path
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial, loss_of


@with_config(EXACT)
class Budget(TypedDict):
    """What was fixed before the search."""

    trials: Positive
    repeats: Annotated[Positive, Field(description="seeds per fold")]
    hours: str
    trial_minutes: NotRequired[
        Annotated[float, Field(description="limit of one training; a longer one has failed; absent without a limit")]
    ]
    stop_without_gain: NotRequired[
        Annotated[Positive, Field(description="trials in a row that were not better; absent where these end nothing")]
    ]
    target: NotRequired[Annotated[float | dict[str, float], Field(description="scores that end it; absent with none")]]


@with_config(EXACT)
class ExtendedPart(TypedDict):
    """A trial that trained one of another study further, or anew."""

    number: int
    before: Annotated[int, Field(description="its number in the other study")]
    score_before: float
    score: float | None
    gain: Annotated[float | None, Field(description="of the score; above 0 is better, whatever the direction")]
    continued: Annotated[bool, Field(description="whether it went on from the state of the trial before")]


@with_config(EXACT)
class ExtensionPart(TypedDict):
    """The study whose best trials this one trained with other settings."""

    study: str
    changes: Annotated[dict[str, list[Any]], Field(description="the value before and now, by key")]
    trials: list[ExtendedPart]


@with_config(EXACT)
class CodePart(TypedDict):
    """The code that decided the trials: what `hpo reproduce` compares."""

    revisions: Annotated[dict[str, int], Field(description="REVISION of the search, the strategy and the objective")]
    pieces: Annotated[dict[str, str], Field(description="hash of each piece of the user's code, without comments")]
    toolkit: Annotated[dict[str, str | None], Field(description="its commit, where known, and a hash of its files")]
    versions: Annotated[dict[str, str], Field(description="of Python and the libraries that compute points and scores")]


@with_config(EXACT)
class ReproductionPart(TypedDict):
    """What the last `hpo reproduce` of the study where it was made found."""

    time: str
    trials: Annotated[list[int], Field(min_length=1, description="those that were trained again")]
    folds: Annotated[list[int] | None, Field(description="the only ones; null = all")]
    trainings: Positive
    differing: Annotated[Count, Field(description="of the trainings")]
    differing_numbers: Annotated[Count, Field(description="of report.json, which are not what the trainings give")]
    tolerance: Annotated[float, Field(ge=0, lt=1, description="the share of a score that was no difference")]
    changes: Annotated[list[str], Field(description="what had changed since the study's start")]


@with_config(EXACT)
class StudyPart(TypedDict):
    """Fields 1, 2 and 25: what the study is."""

    name: str
    id: str
    title: Text
    started: Annotated[Text, Field(description="first training, UTC")]
    ended: Annotated[Text, Field(description="last training, UTC")]
    seed: Count
    objective: str
    budget: Budget
    intent: Literal["exploratory", "confirmatory"]
    allowed_changes: Annotated[list[dict[str, Any]], Field(description="what had changed when it was resumed anyway")]
    rerun: Annotated[str, Field(description="the command that runs the search again")]
    code: CodePart
    reproduction: NotRequired[Annotated[ReproductionPart, Field(description="absent where none was tried")]]
    extends: NotRequired[
        Annotated[
            ExtensionPart, Field(description="the study that `hpo extend` made this one from; absent without one")
        ]
    ]


def describe_study(study: PreparedStudy, notes: Notes, trials: Sequence[Trial]) -> StudyPart:
    """Return name, question, dates, seed, objective, budget and the command that runs it again."""
    config = study.config
    started = min((trial.started for trial in trials if trial.started is not None), default=None)
    ended = max((trial.ended for trial in trials if trial.ended is not None), default=None)
    not_trained = missing("nothing has been trained")
    # A simulated cluster has its own clock, which began at 0.
    has_own_time, name = config.dispatch.type.has_own_time, config.dispatch.name
    simulated = missing(f"dispatch={name} runs on a clock of its own") if has_own_time else None
    rerun = f"hpo search --config {short_path(study.folder.config_path)} study.name={config.study.name}-again"
    described: StudyPart = {
        "name": config.study.name,
        "id": notes.study_id or "",
        "title": config.report.title or missing(f'say what it asks: hpo report {study.reference} report.title="..."'),
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
    if (extension := _extension(study, trials)) is not None:
        described["extends"] = extension
    return described


def _reproduction(study: PreparedStudy) -> ReproductionPart | None:
    """Return what the last `hpo reproduce` noted in the folder; StudyError where that is something else."""
    path = study.folder.reproduction_path
    if not path.exists():
        return None
    try:
        return TypeAdapter(ReproductionPart).validate_python(read_json(short_path(path)))
    except ValidationError as error:
        raise StudyError(f"{short_path(path)}: is not what `hpo reproduce` wrote; remove it") from error


def _extension(study: PreparedStudy, trials: Sequence[Trial]) -> ExtensionPart | None:
    """Return the trials that went on from another study's, with both scores; None where the study extends none."""
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
    """Return what limits the search, as it was fixed before it."""
    hours = "not limited" if section.minutes is None else f"{section.minutes / 60:.3g}"
    budget = {"trials": section.trials, "repeats": section.repeats, "hours": hours}
    optional = {name: getattr(section, name) for name in ("trial_minutes", "stop_without_gain", "target")}
    return cast("Budget", budget | {key: value for key, value in optional.items() if value is not None})


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def heading(study: StudyPart) -> tuple[str, str]:
    """Return the title of a report, in one line, and the study's name for below it; without a title the name alone."""
    name = f"Study {study['name']}"
    title = "" if is_missing(study["title"]) else " ".join(study["title"].split())
    return (title, name) if title else (name, "")


def reproduction_text(summary: ReportJson) -> str:
    """Return the finding of the last `hpo reproduce`, as a part of a sentence: `tried on 2026-11-26: ...`."""
    found = summary["study"].get("reproduction")
    if summary["study"]["objective"] == OUTSIDE:
        return "none here, where nothing was trained: trials were asked for and told"
    if found is None:
        return f"not tried (`hpo reproduce {summary['study']['name']}`)"
    trials, trainings = found["trials"], found["trainings"]
    of = f"trial {trials[0]}" if len(trials) == 1 else format_count(len(trials), "trial*")
    folds = found["folds"] or []
    some = f", on fold{'' if len(folds) == 1 else 's'} {', '.join(map(str, folds))} alone" if folds else ""
    within = f"within {found['tolerance']:.2g} of its score" if found["tolerance"] else "equal to the last bit"
    held = f"all {trainings} trainings" if trainings > 1 else "the training"
    says = f"{held} of {of}{some} {within}"
    if found["differing"]:
        says = f"{found['differing']} of {format_count(trainings, 'training*')} of {of}{some} not {within}"
    if found["differing_numbers"]:
        says += f"; {format_count(found['differing_numbers'], 'number*')} of the report not what they give"
    if found["changes"]:
        says += f"; changed since: {'; '.join(found['changes'])}"
    return f"tried on {found['time'][:10]}: {says}"


def read_study(report: ReportJson) -> Iterator[Block]:
    """Say what was asked, how the study is run again, and whether that was tried."""
    study, metric, front = report["study"], report["metric"], front_of(report)
    what = f"the configuration with the best {metric['name']} ({metric['direction']}, {metric['aggregation']})"
    if front is not None and len(front["metrics"]) > 1:
        what = f"the front of {goal_text(front)} ({metric['aggregation']})"
    elif front is not None:
        what += limits_text(front)
    yield Paragraph(
        f"{report['strategy']['name']} search for {what}, objective `{study['objective']}`, seed {study['seed']}."
    )
    yield Paragraph(f"Run it again: `{study['rerun']}`")
    yield Paragraph(f"Reproduction: {reproduction_text(report)}.")
    if inner(report["config"], "track").get("name") == "mlflow":
        yield Paragraph(
            f"In MLflow: `hpo ui {study['name']}`; beside other studies: `hpo ui {study['name']} STUDY ...`"
        )


def read_extension(report: ReportJson) -> Iterator[Block]:
    """Set each trial beside the one of another study that it goes on from."""
    extension = report["study"].get("extends")
    if extension is None:
        return
    changes = ", ".join(f"`{key}` from {before} to {now}" for key, (before, now) in extension["changes"].items())
    yield Paragraph(
        f"Trials of study {extension['study']}, {f'with {changes}' if changes else 'trained to their end'}:"
    )
    trials = extension["trials"]
    text = score_format(score for trial in trials for score in (trial["score_before"], trial["score"]))
    rows = [
        (
            str(trial["number"]),
            str(trial["before"]),
            text(trial["score_before"]),
            "failed" if trial["score"] is None else text(trial["score"]),
            "" if trial["gain"] is None else f"{'+' if trial['gain'] >= 0 else ''}{text(trial['gain'])}",
            "further" if trial["continued"] else "anew",
        )
        for trial in trials
    ]
    yield Table(("trial", "before", "score before", "score", "gain (above 0 is better)", "trained"), rows)
