"""Runs the searches of a comparison one after another, and saves each finished search."""

import csv
import io
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from hpo.compare.comparison import ComparisonPlan
from hpo.compare.curves import FinishedSearch
from hpo.engine.loop import search
from hpo.engine.observers import Observer
from hpo.errors import StudyError
from hpo.trials.goal import Goal
from hpo.trials.record.record import memory_record
from hpo.trials.trial import loss_sign
from hpo.workers.dispatch.dispatcher import Dispatcher

_COLUMNS = ["strategy", "repeat", "seed", "best", "is_partial", "scores", "seconds"]
_MORE_COLUMNS = ["other_scores", "excess"]  # these columns exist with several metrics, or with limits


class Searches:
    """The file `searches.csv`: one row per finished search, in the order of finishing.

    `best` is the best score. `scores` and `seconds` are JSON lists with one item per trial; the score of an incomplete
    trial is null. With several metrics, or with limits, all these scores are of the leading metric, and `best` is the
    best score within the limits. In this case, `other_scores` has a list of scores for each other metric, and `excess`
    has a list that says how far each trial is beyond the limits.

    A killed driver may leave an incomplete last line. This line is removed, and its search runs again.
    """

    def __init__(self, path: Path, goal: Goal) -> None:
        self._path = path
        self._goal = goal
        self._columns = _COLUMNS if goal.is_single else [*_COLUMNS, *_MORE_COLUMNS]
        self.finished = {(done.repeat, done.label): done for done in (self._read() if path.exists() else ())}

    def __contains__(self, search_of: tuple[int, str]) -> bool:
        return search_of in self.finished

    def of(self, comparison: ComparisonPlan) -> dict[str, list[FinishedSearch]]:
        """Return the finished searches of a comparison by label, sorted by repeat."""
        repeats = range(comparison.repeats)
        return {label: [self.finished[repeat, label] for repeat in repeats] for label in comparison.strategies}

    def append(self, done: FinishedSearch) -> None:
        """Append a finished search to the file."""
        metric, *others = self._goal.metrics
        (best_score,) = self._scores(metric, [min(done.within_limits.losses, default=math.inf)])
        lists = json.dumps(self._scores(metric, done.losses)), json.dumps(done.seconds)
        row = [done.label, done.repeat, done.seed, best_score, done.is_partial, *lists]
        if not self._goal.is_single:
            columns = ([losses[place] for losses in done.other_losses] for place in range(len(others)))
            by_name = {name: self._scores(name, column) for name, column in zip(others, columns, strict=True)}
            row += [json.dumps(by_name), json.dumps(done.excess)]
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([row] if file.tell() else [self._columns, row])
            file.flush()
            os.fsync(file.fileno())
        self.finished[done.repeat, done.label] = done

    def _read(self) -> Iterator[FinishedSearch]:
        written = self._path.read_bytes()
        whole = written[: written.rfind(b"\n") + 1]
        if len(whole) < len(written):
            os.truncate(self._path, len(whole))
        reader = csv.DictReader(io.StringIO(whole.decode()))
        # The csv module's default limit per field is too small for a long list of scores.
        csv.field_size_limit(max(csv.field_size_limit(), len(whole)))
        for line, row in enumerate(reader, start=2):
            try:
                yield self._finished_search(row)
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise StudyError(
                    f"{self._path}:{line}: must describe a finished search; remove the line to run the search again"
                ) from error

    def _finished_search(self, row: Mapping[str, str]) -> FinishedSearch:
        metric, *others = self._goal.metrics
        more = {name: json.loads(row[name]) for name in self._columns if name in _MORE_COLUMNS}
        columns = [self._losses(name, more["other_scores"][name]) for name in others]
        return FinishedSearch(
            row["strategy"],
            int(row["repeat"]),
            int(row["seed"]),
            self._losses(metric, json.loads(row["scores"])),
            tuple(map(float, json.loads(row["seconds"]))),
            row["is_partial"] == "True",
            tuple(zip(*columns, strict=True)),
            tuple(map(float, more.get("excess", ()))),
        )

    def _scores(self, metric: str, losses: Iterable[float]) -> list[float | None]:
        sign = loss_sign(self._goal.metrics[metric])
        return [sign * loss if math.isfinite(loss) else None for loss in losses]

    def _losses(self, metric: str, scores: Iterable[float | None]) -> tuple[float, ...]:
        sign = loss_sign(self._goal.metrics[metric])
        return tuple(math.inf if score is None else sign * score for score in scores)


def run_search(
    comparison: ComparisonPlan, repeat: int, label: str, dispatcher: Dispatcher, observer: Observer
) -> FinishedSearch:
    """Run one search until it ends. Return the finished search, and delete its training states."""
    study = comparison.study_of(repeat, label)
    config = study.config.study
    # Give each search its own training states, so that it does not resume trainings of another search.
    states = study.folder.states_dir / f"{label}_{repeat}"
    shutil.rmtree(states, ignore_errors=True)
    builder = replace(study.task_builder(), checkpoints_dir=None, files_dir=None)
    builder = replace(builder, states_dir=states.absolute(), continues=False)
    record = memory_record(study.goal, study.layout)
    try:
        # The budget counts trials, so that strategies are compared at equal numbers of trials.
        rules = replace(study.rules(study.imports.trials), tasks_of=builder.tasks_of, counts="trials")
        history = search(rules, record, dispatcher, config.trials, [observer], config.minutes)
    finally:
        shutil.rmtree(states, ignore_errors=True)
    is_partial = len({trial.amount for trial in history}) > 1
    return FinishedSearch.of(label, repeat, config.seed, [*history], study.goal, is_partial)
