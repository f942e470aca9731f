"""Fields 1 and 2: what the study is."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from hpo.config.documents import read_json
from hpo.config.keys import flatten
from hpo.config.sections import StudySection
from hpo.engine.trials.trial import Trial, loss_of
from hpo.errors import StudyError
from hpo.report.facts.schema.missing import missing
from hpo.report.facts.schema.report import Budget, EnvironmentPart, ExtendedPart, ExtensionPart, StudyPart
from hpo.report.facts.schema.results import ReproductionPart
from hpo.study.folder import short_path
from hpo.study.notes import Notes
from hpo.study.study import Study


def describe_study(study: Study, notes: Notes, trials: Sequence[Trial]) -> StudyPart:
    """Return name, question, dates, seed, objective, budget and the command that runs it again."""
    config = study.config
    started = min((trial.started for trial in trials if trial.started is not None), default=None)
    ended = max((trial.ended for trial in trials if trial.ended is not None), default=None)
    not_trained = missing("nothing has been trained")
    # A simulated cluster has its own clock, which began at 0.
    simulated = (
        missing("dispatch=simulated runs on a clock of its own") if config.dispatch.name == "simulated" else None
    )
    described: StudyPart = {
        "name": config.study.name,
        "id": notes.study_id,
        "title": config.report.title or missing(f'say what it asks: hpo report {study.reference} report.title="..."'),
        "started": simulated or (not_trained if started is None else _date(started)),
        "ended": simulated or (not_trained if ended is None else _date(ended)),
        "seed": config.study.seed,
        "objective": config.objective,
        "budget": describe_budget(config.study),
        "intent": config.report.intent,
        "allowed_changes": [vars(change) for change in notes.allowed_changes],
        "rerun": rerun_command(study),
    }
    code = notes.basis(config).code
    if code is not None and code.pieces is not None:
        described["code"] = {"pieces": dict(code.pieces), "versions": dict(code.versions)}
    if (reproduction := _reproduction(study)) is not None:
        described["reproduction"] = reproduction
    if (extension := _extension(study, trials)) is not None:
        described["extends"] = extension
    return described


def _reproduction(study: Study) -> ReproductionPart | None:
    """Return what the last `hpo reproduce` noted in the study's folder; None where none was tried.

    Raises:
        StudyError: the file holds something else.
    """
    path = study.folder.reproduction_path
    if not path.exists():
        return None
    try:
        return TypeAdapter(ReproductionPart).validate_python(read_json(short_path(path)))
    except ValidationError as error:
        raise StudyError(f"{short_path(path)}: is not what `hpo reproduce` wrote; remove it") from error


def _extension(study: Study, trials: Sequence[Trial]) -> ExtensionPart | None:
    """Return the trials that went on from another study's, with both scores; None where the study extends none."""
    section = study.config.study
    if section.extends is None:
        return None
    described: list[ExtendedPart] = []
    for trial, before in zip(trials, section.extends.trials, strict=False):
        gain = None if trial.score is None else loss_of(before.score - trial.score, section.direction)
        described.append(
            {
                "number": trial.number,
                "before": before.number,
                "score_before": before.score,
                "score": trial.score,
                "gain": gain,
                "continued": before.continues,
            }
        )
    now = flatten(study.config.objective_config)
    changes = {key: [value, now.get(key)] for key, value in section.extends.changes.items()}
    return {"study": section.extends.study, "changes": changes, "trials": described}


def describe_budget(section: StudySection) -> Budget:
    """Return what limits the search, as it was fixed before it."""
    hours = "not limited" if section.minutes is None else f"{section.minutes / 60:.3g}"
    budget: Budget = {"trials": section.trials, "repeats": section.repeats, "hours": hours}
    if section.trial_minutes is not None:
        budget["trial_minutes"] = section.trial_minutes
    if section.stop_without_gain is not None:
        budget["stop_without_gain"] = section.stop_without_gain
    return budget


def describe_environment(environment: Mapping[str, Any]) -> EnvironmentPart:
    """Return the machine and the code that the study was started on; words stand for what does not exist."""
    cuda = environment.get("cuda") or "none: torch was built for the CPU"
    gpus = environment.get("gpus") or "none"
    driver = environment.get("driver") or "none: no NVIDIA GPU"
    commit = environment.get("commit") or missing("the study was not started inside a git repository")
    # Without a repository there is no working tree with changes.
    is_dirty = bool(environment["is_dirty"]) if environment.get("commit") else commit
    described = {**environment, "cuda": cuda, "gpus": gpus, "driver": driver, "commit": commit, "is_dirty": is_dirty}
    return cast("EnvironmentPart", described)


def rerun_command(study: Study) -> str:
    """Return the command that runs the same search again."""
    if study.objective.kept is not None:
        return f"hpo search --replay {study.reference}"
    return f"hpo search --config {short_path(study.folder.config_path)} study.name={study.config.study.name}-again"


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")
