"""The next steps: the commands that are useful for a study in its current state."""

from collections.abc import Iterator
from contextlib import suppress

from hpo.errors import HpoError
from hpo.formatting import format_count
from hpo.study.additions import failed_trials, resume_command
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.results.run import StudyRun
from hpo.study.test_log import test_command
from hpo.study.view.view import NextStep, StudyView
from hpo.trials.space.space import point_key


def next_steps(view: StudyView, run: StudyRun | None, folder: StudyFolder) -> Iterator[NextStep]:
    """Yield the useful commands for a study's state, the most useful first; `run` is None for an unreadable study."""
    name = view.reference
    if view.is_mirror:
        if view.state == "running":
            yield NextStep(f"hpo watch {name}", "follows the study")
        yield NextStep(f"hpo resume {name}", "copies the study into runs/, and continues it")
    elif view.state == "running":
        yield NextStep(f"hpo watch {name}", "follows the study")
        if view.phase == "after the search":
            yield NextStep(f"hpo stop {name} --now", "interrupts the trainings; `hpo resume` completes them")
        elif view.phase not in ("starting", "ask-and-tell"):
            yield NextStep(f"hpo stop {name}", "ends the search once its running trials have ended")
    elif run is not None and not folder.database_path.exists() and run.config.study.storage is None:
        yield NextStep(f"hpo reproduce {name}", "trains the published winner again")
    elif view.state == "unreadable":
        # The study's error says what to do.
        return
    elif view.fault is not None:
        # A study without a readable configuration cannot be resumed. Only a record in the study's folder has a backup.
        with suppress(HpoError):
            if folder.config().study.storage is None:
                yield NextStep(
                    f"hpo resume {name}", "restores a damaged record from its backup, if the backup is intact"
                )
    else:
        yield from _idle_steps(view, run, folder)


def _idle_steps(view: StudyView, run: StudyRun | None, folder: StudyFolder) -> Iterator[NextStep]:
    name = view.reference
    if view.state == "open":
        yield NextStep(f"hpo ask {name}", "asks for the next trial")
        yield NextStep(f"hpo ask {name} --open", "lists the trials without a result")
    if view.state in ("interrupted", "failed"):
        fault = ", once the fault is fixed" if view.state == "failed" else ""
        yield NextStep(folder.go_on, f"continues the study{fault}")
    if view.state == "ended" and run is not None:
        if waiting := view.untried_text:
            yield NextStep(
                resume_command(name, view.untried, view.done, run.config.study, view.ended_by), f"tries the {waiting}"
            )
        if failed := failed_trials(run.record):
            trials = format_count(len(failed), "failed trial*")
            yield NextStep(f"hpo retry {name}", f"lets `hpo resume` try the {trials} again, once the fault is fixed")
        if view.best is not None and not view.test and (step := test_command(folder, run.parts)) is not None:
            yield NextStep(*step)
        if run.config.track.name == "mlflow":
            yield NextStep("hpo ui", "shows the study in MLflow")
        if not _has_tried_all(view, run):
            section = run.config.study
            command = resume_command(name, section.trials, view.done, section, view.ended_by)
            change = "without its target" if view.ended_by == "target" else "with a larger budget"
            yield NextStep(command, f"goes on {change}")
    page = folder.path / "report.html"
    effect = f"writes {short_path(page)} again" if page.exists() else "writes a report on the trials so far"
    yield NextStep(f"hpo report {name}", effect)


def _has_tried_all(view: StudyView, run: StudyRun) -> bool:
    """Return whether all points of the space have trials. If so, a larger budget would add no trial."""
    if view.ended_by == "space" or run.space.size is None:
        return view.ended_by == "space"
    return len({point_key(trial.point) for trial in run.trials}) >= run.space.size
