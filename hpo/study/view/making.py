"""Makes the view of a study from its status, its configuration and its trials."""

import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hpo.config.goals import SCALE
from hpo.errors import HpoError
from hpo.study.additions import untried_points
from hpo.study.files.folder import StudyFolder, inner
from hpo.study.files.status import RunningTask, State, Status
from hpo.study.files.user_notes import read_notes
from hpo.study.results.choosing import why, why_none
from hpo.study.results.run import StudyRun
from hpo.study.study import full_amount_of
from hpo.study.view.cautions import SearchFacts, cautions_so_far
from hpo.study.view.from_status import view_of_status
from hpo.study.view.latest import status_of_record
from hpo.study.view.next_steps import next_steps
from hpo.study.view.view import FailureView, NoteView, StudyView, TaskView, TrialView
from hpo.trials.estimate import ExpectedScore
from hpo.trials.history import History
from hpo.trials.score_format import score_format, shown_value
from hpo.trials.space.first_points import default_of
from hpo.trials.trial import Trial
from hpo.workers.training.tasks import FINAL_FOLD

_MOST_FAILURES, _MOST_OF_FRONT, _MOST_LEADERS, _MOST_NOTES = 20, 100, 5, 20
_LONGEST_DETAILS = 4_000  # characters


def view_of(
    run: StudyRun,
    status: Status | State,
    tasks: Sequence[RunningTask] = (),
    *,
    reference: str | None = None,
    copied: str | None = None,
    fault: str | None = None,
) -> StudyView:
    """Return the full view of a study.

    Args:
        status: the study's status, or only its state. In the second case, the other fields of the status come from
            `status_of_record`.
        reference: the study's name, or its mirror's URL, for commands; None = the name or path of the study's folder.
        copied: when the mirror was written; None = the study is read from its folder.
        fault: why the mirror cannot be read now; None = it can be read, or there is no mirror.
    """
    if not isinstance(status, Status):
        status = status_of_record(run, status)
    folder, config, goal = run.folder, run.config, run.goal
    several = len(goal.metrics) > 1
    best, front = _best(run, status), run.history.front if several else []
    untried = untried_points(run.record)
    failed, complete = ([trial for trial in run.trials if trial.state == state] for state in ("failed", "complete"))
    report = _report(folder, status)
    maker = TrialViewMaker(run)
    view = replace(
        view_of_status(folder, status, reference=reference, copied=copied, fault=fault),
        user=run.notes.user or status.user or None,
        objective=config.objective,
        parts={name: part["size"] for name, part in run.parts.items()},
        seed=config.study.seed,
        test_texts=maker.texts(status.test),
        test_trial=folder.read_json("test.json").get("trial"),
        limits=[str(limit) for limit in goal.limits],
        hyperparameters=len(set(run.space.keys) - {SCALE}),
        points=run.space.size,
        scales=goal.target or None,
        folds=run.layout.folds,
        repeats=run.layout.repeats,
        best=None if best is None else maker.winner(best, report),
        why_none=why_none(run.history, goal) if best is None else None,
        why_chosen=why(config.study.choose) if several else None,
        on_front=len(front) if several else None,
        front=[maker.trial(trial) for trial in front[:_MOST_OF_FRONT]],
        leaders=[maker.trial(trial) for trial in _leaders(run.history, front)],
        within_limits=sum(trial.keeps_limits for trial in complete) if goal.limits else None,
        further_trained=[trial.number for trial in run.further],
        finalists={each.trial.number: each.again.score for each in run.finalists} if run.is_trained else {},
        running=[*_running(run, tasks)],
        untried=sum(each.retry_of is None for each in untried),
        retries=sum(each.retry_of is not None for each in untried),
        failures=[*_failures(folder, failed[: -_MOST_FAILURES - 1 : -1])],
        num_failed=len(failed),
        num_retried=_num_retried(run.trials),
        cautions=_cautions(run, status, best, report),
        notes=[*_notes(folder)],
        cost=_cost(report),
    )
    return replace(view, next=[*next_steps(view, run, folder)])


class TrialViewMaker:
    """Makes views of trials; the texts of scores have enough digits to distinguish all trials of the study."""

    def __init__(self, run: StudyRun) -> None:
        self._run = run
        default = default_of(run.space, run.config)
        self._default = None if default is None else dict(default)
        self._full_amount = full_amount_of(run.config)
        compared = [*run.history, *run.fresh.values()]
        self._formats = {
            name: score_format([shown_value(trial, name, run.goal) for trial in compared]) for name in run.goal.names
        }

    def trial(self, trial: Trial) -> TrialView:
        """Return the view of a trial."""
        names = self._run.goal.names if trial.state == "complete" else ()
        scores, search_scores = {name: trial.mean(name) for name in names}, dict[str, float]()
        values = trial.values(self._run.goal.metric) if names else []
        if (fresh := self._run.fresh.get(trial.number)) is not None:
            scores, search_scores = {name: fresh.mean(name) for name in names}, scores
            values = fresh.values(self._run.goal.metric)
        return TrialView(
            trial=trial.number,
            score=scores.get(self._run.goal.metric, trial.score),
            scores=scores,
            search_scores=search_scores,
            texts=self.texts(scores),
            search_texts=self.texts(search_scores),
            point=dict(trial.point),
            default=self._default,
            trainings=len(values) or None,
            standard_deviation=statistics.stdev(values) if len(values) > 1 else None,
            amount=trial.amount,
            reached=trial.reached,
            full_amount=self._full_amount,
        )

    def winner(self, trial: Trial, report: Mapping[str, Any] | None) -> TrialView:
        """Return the view of `trial`, the current winner; add the expected score if the report has the same winner."""
        view = self.trial(trial)
        expected = None if report is None else ExpectedScore.of(report)
        if expected is None or inner(report or {}, "winner").get("number") != trial.number:
            return view
        text_of = self._formats[self._run.goal.metric]
        return replace(view, expected=expected, expected_texts=expected.texts(text_of))

    def texts(self, scores: Mapping[str, float]) -> dict[str, str]:
        """Return the scores as text, by the name of the metric."""
        return {name: self._formats.get(name, score_format([score]))(score) for name, score in scores.items()}


def _best(run: StudyRun, status: Status) -> Trial | None:
    """Return the winner of an ended study; for any other study, return the best trial so far."""
    if status.state != "ended":
        return run.best
    return next((trial for trial in run.trials if trial.number == status.best), None)


def _leaders(history: History, front: Sequence[Trial]) -> list[Trial]:
    """Return the best trials within the limits; with several metrics, only trials of `front`, in its order."""
    leaders = [trial for trial in history.leaders(_MOST_LEADERS) if trial.keeps_limits]
    numbers = {trial.number for trial in leaders}
    return [trial for trial in front if trial.number in numbers] if front else leaders


def _running(run: StudyRun, tasks: Iterable[RunningTask]) -> Iterator[TaskView]:
    now = time.time()
    for task in sorted(tasks, key=lambda task: task.worker):
        yield TaskView(
            trial=task.trial,
            task="final" if task.task == FINAL_FOLD else run.layout.name(task.task),
            worker=task.worker,
            host=task.host,
            process=task.process,
            gpus=task.gpus,
            where=task.where,
            started=task.started,
            reported=task.reported,
            seconds=now - task.started,
            seconds_silent=now - (task.reported or task.started),
            point=task.point,
        )


def _num_retried(trials: Sequence[Trial]) -> int:
    """Return the number of failed trials whose retry is complete.

    Include a failed trial whose retry failed, if a retry of that retry is complete.
    """
    retry_of = {trial.number: trial.retry_of for trial in trials}
    retried = set[int]()
    for trial in (trial for trial in trials if trial.state == "complete"):
        number = trial.retry_of
        while number is not None:
            retried.add(number)
            number = retry_of[number]
    return len(retried)


def _failures(folder: StudyFolder, failed: Iterable[Trial]) -> Iterator[FailureView]:
    for trial in failed:
        details = "\n".join(each.details[-_LONGEST_DETAILS:] for each in trial.outcomes.values() if each.details)
        logs = sorted(folder.logs_dir.glob(folder.log_path(trial.number, "*").name))
        yield FailureView(trial.number, trial.error or "", details, logs)


def _cautions(run: StudyRun, status: Status, best: Trial | None, report: Mapping[str, Any] | None) -> list[str]:
    if report is not None:
        cautions = report.get("cautions")
        return [text for text in (cautions if isinstance(cautions, list) else ()) if isinstance(text, str)]
    called = "winner" if status.state == "ended" else "best trial so far"
    finalists = list(run.fresh.values())
    return cautions_so_far(SearchFacts(run.space, run.goal, run.trials, best, finalists, called))


def _report(folder: StudyFolder, status: Status) -> dict[str, Any] | None:
    """Return report.json if no process runs the study and no trial was added since the report; else None."""
    if status.holder is not None or status.state == "unreadable":
        return None
    try:
        report = folder.report()
    except HpoError:
        return None
    proposed = inner(report, "counts").get("proposed")
    return report if proposed == sum(status.trials.values()) else None


def _cost(report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    cost = inner(report or {}, "cost")
    return None if not cost or "missing" in cost else dict(cost)


def _notes(folder: StudyFolder) -> Iterator[NoteView]:
    with suppress(OSError):
        written = [note for note in read_notes(folder) if note.text]
        yield from (NoteView(note.time, note.user, note.text) for note in written[-_MOST_NOTES:])
