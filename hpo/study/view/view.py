"""The view of a study: its state at one moment, as fields. Every display of a study renders only these fields."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hpo.config.goals import Direction
from hpo.formatting import format_count, format_scores
from hpo.study.files.lock import Holder
from hpo.study.files.status import Phase, State
from hpo.trials.estimate import ExpectedScore
from hpo.trials.places import amount_text
from hpo.trials.score_format import with_spread


@dataclass(frozen=True)
class TrialView:
    """A trial: the winner, the best trial so far, a trial on the Pareto front, or another trial.

    Attributes:
        trial: the trial's number.
        score: the mean of the metric over folds and seeds; with several metrics, the mean of the leading one; `null` if
            the trial has no score. If the winner was chosen by scores on fresh seeds, a finalist's score is the mean
            over only the fresh seeds.
        scores: the mean of each metric and of each value with a limit, by name, over the same trainings as `score`;
            empty unless the trial is complete.
        search_scores: if the winner was chosen by scores on fresh seeds, a finalist's means as in `scores`, but over
            the trainings of the search; otherwise empty.
        texts: `scores` as text, with enough digits to distinguish the trials.
        search_texts: `search_scores` as text, with enough digits to distinguish the trials.
        point: the trial's hyperparameters; empty if the view was made from the status file alone.
        default: the default configuration's hyperparameters; `null` if the default is not in the space.
        trainings: the number of trainings over which `score` is the mean; `null` = none, or unknown.
        standard_deviation: the standard deviation (divisor n - 1) of the metric of `score` over these trainings; `null`
            for fewer than two.
        expected: the expected mean score of new trainings (`ExpectedScore`); `null` except for an ended study's winner.
        expected_texts: `value`, `low` and `high` of `expected` as text.
        amount: the planned amount of training; `null` = a full training.
        reached: the amount that all trainings of the trial have reported; `null` if a training has reported nothing.
        full_amount: the amount of a full training; `null` if every training is full.
    """

    trial: int
    score: float | None
    scores: Mapping[str, float]
    search_scores: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    search_texts: Mapping[str, str] = field(default_factory=dict)
    point: Mapping[str, Any] = field(default_factory=dict)
    default: Mapping[str, Any] | None = None
    trainings: int | None = None
    standard_deviation: float | None = None
    expected: ExpectedScore | None = None
    expected_texts: Mapping[str, str] = field(default_factory=dict)
    amount: int | None = None
    reached: float | None = None
    full_amount: int | None = None

    @property
    def values(self) -> str:
        """The metrics as text, such as `accuracy 0.91`.

        For a finalist, the scores in the search follow: `accuracy 0.91 on fresh seeds (0.93 in the search)`.

        If there is an expected score, the text has three parts: the expected score with its 95 % interval, the winner's
        measured scores, and the number of trials or finalists from which the winner was chosen. For example:
        `accuracy 0.90 expected (95 % 0.88 to 0.92); 0.91 on validation, the best of 16`.
        """
        return self._values_text(self.texts)

    @property
    def values_with_spread(self) -> str:
        """The text of `values` with the standard deviation of the leading metric, such as `accuracy 0.91 ± 0.02`."""
        return self._values_text(_with_spread(self.texts, self.score, self.standard_deviation))

    @property
    def headline(self) -> str:
        """The expected score as text, such as `accuracy 0.90 expected`.

        If there is no expected score, this is the same text as the attribute `values`.
        """
        name = next(iter(self.texts), "")
        return f"{name} {self.expected_texts['value']} expected" if self.expected else self.values

    @property
    def headline_note(self) -> str:
        """A note on the score in `headline`, such as `95 % 0.88 to 0.92; 0.91 on validation, the best of 16`.

        The note has the expected score's interval and the winner's measured scores. If there is no expected score, the
        note is `on validation`.
        """
        if self.expected is None:
            return "on validation"
        return f"{self._interval}; {self._validation_text(self.texts)}"

    def _values_text(self, texts: Mapping[str, str]) -> str:
        if self.expected is None:
            return values_text(texts, self.search_texts)
        return f"{self.headline} ({self._interval}); {self._validation_text(texts)}"

    @property
    def _interval(self) -> str:
        assert self.expected is not None
        noise = "; noise estimated from all complete trials" if self.expected.of_all else ""
        return f"95 % {self.expected_texts['low']} to {self.expected_texts['high']}{noise}"

    def _validation_text(self, texts: Mapping[str, str]) -> str:
        assert self.expected is not None
        name, *others = texts
        values = values_text(texts, self.search_texts)
        values = values if others else values.removeprefix(f"{name} ")
        source = "" if self.search_texts else " on validation"
        return f"{values}{source}, {'chosen from' if others else 'the best of'} {self.expected.best_of:,}"

    @property
    def amount_text(self) -> str:
        """The amount of training, as a text to append to `values`, such as `, trained to 3 of 9`.

        The text is empty if the trial has no amount.
        """
        return amount_text(self.amount, self.reached, self.full_amount)


@dataclass(frozen=True)
class TaskView:
    """A running training.

    Attributes:
        trial: the trial's number.
        task: the task's name, such as `fold_0`; `final` for the training of the winner's model.
        worker: the worker's index, from 0.
        host: the machine of the training; `null` while unknown.
        process: the id of the training's process; `null` while unknown.
        gpus: the GPUs of the training.
        where: machine, process and GPUs as text.
        started: when the training began, in seconds since the Unix epoch.
        reported: the time of the last report, in seconds since the Unix epoch; `null` before the first report.
        seconds: the seconds since the start.
        seconds_silent: the seconds since the last report; before the first report, the seconds since the start.
        point: the last report of the training: the metrics, and the epoch or step, by name.
    """

    trial: int
    task: str
    worker: int
    host: str | None
    process: int | None
    gpus: list[str]
    where: str
    started: float
    reported: float | None
    seconds: float
    seconds_silent: float
    point: Mapping[str, Any]


@dataclass(frozen=True)
class FailureView:
    """A failed trial.

    Attributes:
        trial: the trial's number.
        error: why the trial failed, in one line.
        details: the tracebacks of the trainings; empty if there are none.
        logs: the log files of the trainings.
    """

    trial: int
    error: str
    details: str
    logs: list[Path]


@dataclass(frozen=True)
class NoteView:
    """A user's note on the study (`hpo note`).

    Attributes:
        time: when the note was written, in UTC (ISO 8601).
        user: the author.
        text: the note's text.
    """

    time: str
    user: str
    text: str


@dataclass(frozen=True)
class NextStep:
    """A command that is useful now.

    Attributes:
        command: the command.
        does: the effect of the command.
    """

    command: str
    does: str


@dataclass(frozen=True)
class StudyView:
    """A study. Unknown values are `null` or empty; `begun` and `updated` are in seconds since the Unix epoch.

    Attributes:
        study: the study's name, which is the name of its folder.
        folder: the study's folder; `null` for a mirror.
        reference: the argument that names the study in commands. The argument is the study's name, the path of the
            study's folder, or the mirror's URL.
        copied: when the mirror was written, as text (`2026-11-27 16:40:53 UTC`); `null` without a mirror.
        study_id: the study's unique id; a copy of the study gets a new id.
        user: the user who started the study; `null` for a published or imported study.
        state: `running`, `interrupted` (no process runs the unfinished search), `open` (another program runs the
            trainings, by [ask-and-tell](../how_to/ask_and_tell.md)), `ended`, `failed`, `imported` (by `hpo import`) or
            `unreadable`.
        says: the state as text. The text names the process that runs the study, and the reason if the study failed.
        phase: the phase of a running study: `starting` (the first workers start, and nothing else is known), `search`,
            `after the search`, or `ask-and-tell`.
        following: the kind and progress of the trainings after the search, as text.
        process: the process that runs the study: its id (`process`), machine (`host`) and start (`since`), or `null`.
        begun: when the first training began.
        updated: when the status was last written.
        error: why the study failed; in the state `unreadable`, why its status cannot be read.
        fault: why the configuration, the record or the mirror cannot be read. If the configuration or the record cannot
            be read, the view is incomplete. If the mirror cannot be read, the view is old.
        objective: the path of the objective.
        data: the name of the data.
        parts: the number of examples in each split, by name: `train`, `validation` and `test`, or with folds
            `development` and `test`; empty if the objective reads its own data.
        strategy: the name of the strategy.
        seed: the study's seed.
        metrics: the direction of each metric by name, the leading one first.
        limits: the limits that the winner must keep, as text.
        hyperparameters: the number of searched hyperparameters.
        points: the number of points in the space; `null` = infinite, or too many to count.
        scales: the number of scales; `null` without scales.
        folds: the number of folds of each trial; 1 = a hold-out split.
        repeats: the number of seeds on each fold.
        done: how much of the budget is used.
        budget: the budget.
        counts: what `done` and `budget` count: `trials` or `configurations`.
        trials: the number of trials by state: `complete`, `failed`, `stopped`, `running` (unfinished).
        minutes: the duration of the search without interruptions.
        ended_by: what ended the search: `trials`, `minutes`, `stop_without_gain` or `target` (keys of `study`), `space`
            (nothing is left to propose), `callback`, or `user` (`hpo stop`); `null` while the search is not over.
        best: the winner, or the best trial so far; see [a trial](#a-trial-of-it).
        why_none: why there is no best trial.
        why_chosen: with several metrics, how the best trial is chosen.
        on_front: with several metrics, the number of trials on the Pareto front; otherwise `null`.
        front: with several metrics, the trials on the Pareto front, the best in the leading metric first; at most 100.
        leaders: the best trials within the limits, at most 5, the best first, by their scores in the search. With
            several metrics: the trials that contribute most to the Pareto front, in the order of `front`.
        within_limits: how many complete trials keep the limits; `null` without limits.
        further_trained: the trials that were fully trained after the search.
        finalists: the finalists' scores on fresh seeds, by trial; `null` for a failed finalist; empty before all
            finalists are trained.
        test: the metrics on the test split; empty before the test evaluation.
        test_texts: `test` as text.
        test_trial: the number of the trial in the test evaluation; this trial was the winner at that time.
        running: the [running trainings](#a-training-under-way).
        untried: the number of points that users added (`hpo add`) and that have no trial yet.
        retries: the number of failed trials that wait for a retry (`hpo retry`).
        failures: the latest [failed trials](#a-failure), at most 20.
        num_failed: the number of failed trials.
        num_retried: the number of failed trials whose retry is complete.
        cautions: the known reasons to doubt the result, the most serious first.
        notes: the latest 20 [notes](#a-note) (`hpo note`), the earliest first.
        tags: the tags (`hpo note --tag`), by name.
        next: the [commands](#a-next-step) that are useful now.
        cost: seconds and shares of time, as in [report.json](report.md); `null` before there is a report.
        files: the paths of the study's report and tables, by name.
        size: the total size of the study's files in bytes; `null` except in `hpo list`.
        metric: the metric; with several metrics, the leading one.
        direction: the direction of `metric`: `maximize` or `minimize`.
    """

    study: str
    reference: str
    state: State
    says: str = ""
    folder: Path | None = None
    copied: str | None = None
    study_id: str | None = None
    user: str | None = None
    phase: Phase | None = None
    following: str | None = None
    process: Holder | None = None
    begun: float | None = None
    updated: float | None = None
    error: str | None = None
    fault: str | None = None
    objective: str | None = None
    data: str | None = None
    parts: Mapping[str, int] = field(default_factory=dict)
    strategy: str | None = None
    seed: int | None = None
    metrics: Mapping[str, Direction] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)
    hyperparameters: int | None = None
    points: int | None = None
    scales: int | None = None
    folds: int | None = None
    repeats: int | None = None
    done: int = 0
    budget: int | None = None
    counts: str = "trials"
    trials: Mapping[str, int] = field(default_factory=dict)
    minutes: float | None = None
    ended_by: str | None = None
    best: TrialView | None = None
    why_none: str | None = None
    why_chosen: str | None = None
    on_front: int | None = None
    front: list[TrialView] = field(default_factory=list)
    leaders: list[TrialView] = field(default_factory=list)
    within_limits: int | None = None
    further_trained: list[int] = field(default_factory=list)
    finalists: Mapping[int, float | None] = field(default_factory=dict)
    test: Mapping[str, float] = field(default_factory=dict)
    test_texts: Mapping[str, str] = field(default_factory=dict)
    test_trial: int | None = None
    running: list[TaskView] = field(default_factory=list)
    untried: int = 0
    retries: int = 0
    failures: list[FailureView] = field(default_factory=list)
    num_failed: int = 0
    num_retried: int = 0
    cautions: list[str] = field(default_factory=list)
    notes: list[NoteView] = field(default_factory=list)
    tags: Mapping[str, str] = field(default_factory=dict)
    next: list[NextStep] = field(default_factory=list)
    cost: Mapping[str, Any] | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    size: int | None = None

    @property
    def metric(self) -> str | None:
        """The metric; with several metrics, the leading one."""
        return next(iter(self.metrics), None)

    @property
    def direction(self) -> Direction | None:
        """The direction of `metric`: `maximize` or `minimize`."""
        return self.metrics.get(self.metric or "")

    @property
    def untried_text(self) -> str:
        """The number of added points without a trial, and of failed trials that wait for a retry, as text.

        The text is empty if both numbers are 0. With 2 points and 1 retry: `2 added points and 1 failed trial again`.
        """
        again = "" if not self.retries else f"{format_count(self.retries, 'failed trial*')} again"
        added = "" if not self.untried else format_count(self.untried, "added point*")
        return " and ".join(filter(None, (added, again)))

    @property
    def goes_on(self) -> bool:
        """Whether a new trial may come at any moment, from a process that runs the study or from another program."""
        return self.state in ("running", "open")

    @property
    def is_mirror(self) -> bool:
        """Whether the view was read from a mirror."""
        return "://" in self.reference

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `--json`: the fields by name."""
        return {**asdict(self), "metric": self.metric, "direction": self.direction}


def values_text(texts: Mapping[str, str], in_search: Mapping[str, str]) -> str:
    """Return values as one line of text.

    `texts` has the values to show. If these values come from fresh seeds, `in_search` has the values from the search.
    Otherwise, `in_search` is empty.
    """
    return format_scores(_join_texts(texts), _join_texts(in_search))


def _with_spread(texts: Mapping[str, str], score: float | None, deviation: float | None) -> Mapping[str, str]:
    if score is None or deviation is None or not texts:
        return texts
    name, text = next(iter(texts.items()))
    return {**texts, name: " ± ".join(with_spread(lambda _: text, score, deviation))}


def _join_texts(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in texts.items())
