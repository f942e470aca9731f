"""All that can be known of a study at one moment, as fields: what is shown anywhere is made from these alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
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
    """A trial: the winner, the best so far, or one of the front.

    Attributes:
        trial: its number.
        score: its value of the (leading) metric: the mean over folds and seeds; on fresh seeds where these chose it.
        scores: the same of each metric, and of what has a limit, by name.
        search_scores: its values in the search, of a winner that fresh seeds chose; else empty.
        texts: `scores` as text, with as many digits as tell them apart from those of other trials.
        search_texts: the same of `search_scores`.
        point: its hyperparameters; empty where only the status file is read.
        default: the default configuration's; `null` where that is not in the space.
        trainings: how many trainings (folds and seeds) `score` is the mean of; `null` = it has none, or not known.
        standard_deviation: of the score over these; `null` of a single one.
        expected: of the winner of a study that has ended, what it is expected to score anew, as below; else `null`.
        expected_texts: its `value`, `low` and `high` as text.
        amount: how far it was to be trained; `null` = all of its training.
        reached: the amount at its last report, of its shortest training; `null` = it reported nothing.
        full_amount: how far a full training goes; `null` where every training is one.
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
        """Its metrics as people read them, what is expected of a winner first.

        `accuracy 0.91`; of finalists `accuracy 0.91 on fresh seeds (0.93 in the search)`; of a winner `accuracy 0.90
        expected (95 % 0.88 to 0.92); 0.91 on validation, the best of 16`.
        """
        return self._in_words(self.texts)

    @property
    def values_with_spread(self) -> str:
        """The same, with the standard deviation of the leading metric: `accuracy 0.91 ± 0.02`."""
        return self._in_words(_with_spread(self.texts, self.score, self.standard_deviation))

    @property
    def headline(self) -> str:
        """The number to look at first: `accuracy 0.90 expected`, or else its metrics."""
        name = next(iter(self.texts), "")
        return f"{name} {self.expected_texts['value']} expected" if self.expected else self.values

    @property
    def headline_note(self) -> str:
        """What follows that in small letters: the interval, and by which scores it was chosen."""
        if self.expected is None:
            return "on validation"
        return f"{self._interval}; {self._scored(self.texts)}"

    def _in_words(self, texts: Mapping[str, str]) -> str:
        if self.expected is None:
            return values_text(texts, self.search_texts)
        return f"{self.headline} ({self._interval}); {self._scored(texts)}"

    @property
    def _interval(self) -> str:
        assert self.expected is not None
        noise = "; the noise is that of all complete trials" if self.expected.of_all else ""
        return f"95 % {self.expected_texts['low']} to {self.expected_texts['high']}{noise}"

    def _scored(self, texts: Mapping[str, str]) -> str:
        assert self.expected is not None
        name, *others = texts
        said = values_text(texts, self.search_texts)
        said = said if others else said.removeprefix(f"{name} ")
        on = "" if self.search_texts else " on validation"
        return f"{said}{on}, {'chosen from' if others else 'the best of'} {self.expected.best_of:,}"

    @property
    def amount_text(self) -> str:
        """What follows these where trials are trained by amounts: ` trained to 3 of 9`; else nothing."""
        return amount_text(self.amount, self.reached, self.full_amount)


@dataclass(frozen=True)
class TaskView:
    """A training under way; times are in seconds since the epoch.

    Attributes:
        trial: its trial.
        task: which of its trainings: `fold_0`, or `final` for the winner's model.
        worker: the place that it has, from 0.
        host: the machine that trains it; `null` while that is not known, as are the next two.
        process: the process that does.
        gpus: its GPUs.
        where: the three as text.
        started: when it began.
        reported: when it last reported; `null` before it did.
        seconds: how long it has been trained.
        seconds_silent: how long ago it last reported, or began.
        point: the last point of its learning curve.
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
    """A trial that failed.

    Attributes:
        trial: its number.
        error: why, in a line.
        details: its tracebacks; empty where there are none.
        logs: the files with what its trainings printed.
    """

    trial: int
    error: str
    details: str
    logs: list[Path]


@dataclass(frozen=True)
class NoteView:
    """What somebody wrote beside the study (`hpo note`).

    Attributes:
        time: when, in UTC (ISO 8601).
        user: who.
        text: what.
    """

    time: str
    user: str
    text: str


@dataclass(frozen=True)
class NextStep:
    """A command that fits now.

    Attributes:
        command: what to type.
        does: what it does.
    """

    command: str
    does: str


@dataclass(frozen=True)
class StudyView:
    """A study. What is not known is `null`, or empty; times are in seconds since the epoch.

    Attributes:
        study: its name: that of its folder.
        folder: where it is; `null` of a mirror.
        reference: what commands call it: its name, its folder, or the URL of its mirror.
        copied: of a mirror, when that was written, as text (`2026-11-27 16:40:53 UTC`).
        study_id: unique; a copy has another.
        user: who started it; `null` of one that was published or imported.
        state: `running`, `interrupted`, `open` (it is [asked and told](../how_to/ask_and_tell.md)), `ended`, `failed`,
            `imported` (by `hpo import`) or `unreadable`.
        says: the same in words, with which process runs it or why it failed.
        phase: of a running one: `starting` (its first workers start, and nothing else is known), `search`, `after the
            search`, or `asked and told`.
        following: after the search, what is trained and how much of that has ended.
        process: the process that runs it: `process`, its number, `host`, its machine, and `since`; else `null`.
        begun: when its first training began.
        updated: when its status was written last.
        error: why it failed, or cannot be read.
        fault: why its configuration or its record cannot be read.
        objective: what is trained.
        data: the name of its data.
        parts: how many examples each part of its split has, by name; empty where the objective has its own data.
        strategy: what proposes the points.
        seed: of the study.
        metrics: the direction of each metric by its name, the leading one first.
        limits: what the winner must keep, as text.
        hyperparameters: how many are searched.
        points: how many points the space has; `null` = it is infinite, or too many to count.
        scales: how many scales it has.
        folds: how many folds each trial is trained on; 1 = a hold-out.
        repeats: with how many seeds on each.
        done: how much of the budget is used.
        budget: how much there is.
        counts: what both count: `trials` or `configurations`.
        trials: how many are `complete`, `failed`, `stopped`, and not finished (`running`).
        minutes: of search, without interruptions.
        ended_by: which budget ended the search.
        best: the winner, or the best so far: a trial, as below.
        why_none: why there is none.
        why_chosen: with several metrics, how the best is chosen.
        on_front: with several metrics, how many trials are on the front.
        front: those trials, the leading metric's best first; at most 100.
        leaders: the best trials within the limits by the search's scores, the best first, at most 5; with several
            metrics those of the front that add most to it, in its order.
        within_limits: how many complete trials keep the limits; `null` without limits.
        further_trained: the trials that were trained to their end after the search.
        finalists: the scores of the finalists on fresh seeds, by trial; `null` for one that failed there.
        test: metrics on the test part; empty while it is closed.
        test_texts: the same as text.
        test_trial: the trial that was scored there: the winner of then.
        running: trainings under way, as below.
        untried: how many of the points that were added (`hpo add`) were not tried so far.
        retries: how many failed trials are to be tried again (`hpo retry`) and were not so far.
        failures: the latest trials that failed, at most 20, as below.
        num_failed: how many trials failed.
        cautions: reasons to doubt the result, as far as they can be told now, the gravest first.
        notes: of `hpo note`, the latest 20, the earliest of these first, as below.
        tags: of `hpo note --tag`, by name.
        next: what can be done now, as below.
        cost: seconds and shares of time, as in [report.json](report.md); `null` before there is a report.
        files: its report and tables by their names.
        size: of all its files, in bytes.
        metric: the (leading) metric.
        direction: `maximize` or `minimize`.
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
    cautions: list[str] = field(default_factory=list)
    notes: list[NoteView] = field(default_factory=list)
    tags: Mapping[str, str] = field(default_factory=dict)
    next: list[NextStep] = field(default_factory=list)
    cost: Mapping[str, Any] | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    size: int | None = None

    @property
    def metric(self) -> str | None:
        """The (leading) metric."""
        return next(iter(self.metrics), None)

    @property
    def direction(self) -> Direction | None:
        """Which way it is better."""
        return self.metrics.get(self.metric or "")

    @property
    def untried_text(self) -> str:
        """What users have added and was not tried: `2 added points and 1 failed trial again`; empty for nothing."""
        again = "" if not self.retries else f"{format_count(self.retries, 'failed trial*')} again"
        added = "" if not self.untried else format_count(self.untried, "added point*")
        return " and ".join(filter(None, (added, again)))

    @property
    def goes_on(self) -> bool:
        """Whether more may come at any moment: a process has it, or whoever trains it elsewhere asks and tells."""
        return self.state in ("running", "open")

    @property
    def is_mirror(self) -> bool:
        """Whether it is seen at a URL."""
        return "://" in self.reference

    def to_dict(self) -> dict[str, Any]:
        """Return what `--json` prints: the fields by their names."""
        named = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return {**named, "metric": self.metric, "direction": self.direction}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def values_text(texts: Mapping[str, str], in_search: Mapping[str, str]) -> str:
    """Return values by name in a line; with those of the search, the first are of fresh seeds."""
    return format_scores(_named(texts), _named(in_search))


def _with_spread(texts: Mapping[str, str], score: float | None, deviation: float | None) -> Mapping[str, str]:
    if score is None or deviation is None or not texts:
        return texts
    name, text = next(iter(texts.items()))
    return {**texts, name: " ± ".join(with_spread(lambda _: text, score, deviation))}


def _named(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in texts.items())
