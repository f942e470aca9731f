"""Runs the searches of a comparison one after another, and writes each down when it is finished."""

import csv
import io
import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpo.compare.comparison import ComparisonPlan
from hpo.compare.curves import FinishedSearch
from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.loop import search
from hpo.engine.observers import Observer
from hpo.engine.record.record import memory_record
from hpo.engine.trials.trial import Direction, loss_sign
from hpo.errors import StudyError

_COLUMNS = ["strategy", "repeat", "seed", "best", "is_partial", "scores", "seconds"]


class Searches:
    """The file `searches.csv`: one row per finished search, in the order of finishing.

    `best` is a score, `scores` and `seconds` are JSON lists with one item per trial; no score where none completed. A
    half-written last line of a killed driver is cut off, and its search is run again.
    """

    def __init__(self, path: Path, direction: Direction) -> None:
        self._path = path
        self._sign = loss_sign(direction)
        self._finished = {(done.repeat, done.label): done for done in (self._read() if path.exists() else ())}

    def __contains__(self, search_of: tuple[int, str]) -> bool:
        return search_of in self._finished

    def of(self, comparison: ComparisonPlan) -> dict[str, list[FinishedSearch]]:
        """Return the searches of a comparison, all of them finished, by label and in the order of repeats."""
        repeats = range(comparison.repeats)
        return {label: [self._finished[repeat, label] for repeat in repeats] for label in comparison.strategies}

    def append(self, done: FinishedSearch) -> None:
        """Write a finished search to the disk."""
        scores = [self._sign * loss if math.isfinite(loss) else None for loss in done.losses]
        best = self._sign * min(done.losses, default=math.inf)
        best_score = best if math.isfinite(best) else None
        lists = json.dumps(scores), json.dumps(done.seconds)
        row = [done.label, done.repeat, done.seed, best_score, done.is_partial, *lists]
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([row] if file.tell() else [_COLUMNS, row])
            file.flush()
            os.fsync(file.fileno())
        self._finished[done.repeat, done.label] = done

    def _read(self) -> Iterator[FinishedSearch]:
        written = self._path.read_bytes()
        whole = written[: written.rfind(b"\n") + 1]
        if len(whole) < len(written):
            os.truncate(self._path, len(whole))
        reader = csv.DictReader(io.StringIO(whole.decode()))
        # csv's limit per field is too small for a long list of scores.
        csv.field_size_limit(max(csv.field_size_limit(), len(whole)))
        for line, row in enumerate(reader, start=2):
            try:
                scores = json.loads(row["scores"])
                yield FinishedSearch(
                    row["strategy"],
                    int(row["repeat"]),
                    int(row["seed"]),
                    tuple(math.inf if score is None else self._sign * score for score in scores),
                    tuple(map(float, json.loads(row["seconds"]))),
                    row["is_partial"] == "True",
                )
            except (KeyError, TypeError, ValueError) as error:
                raise StudyError(
                    f"{self._path}:{line}: cannot be read as a finished search; remove the line to run it again"
                ) from error


def run_search(
    comparison: ComparisonPlan, repeat: int, label: str, dispatcher: Dispatcher, observer: Observer
) -> FinishedSearch:
    """Run one search from start to budget; only its scores and seconds are kept."""
    study = comparison.study_of(repeat, label)
    config = study.config.study
    # Each search has its own training states: shared ones would let it resume trainings of another search.
    states = study.folder.states_dir / f"{label}_{repeat}"
    shutil.rmtree(states, ignore_errors=True)
    builder = replace(study.task_builder(), checkpoints_dir=None, states_dir=states.absolute(), continues=False)
    record = memory_record(study.goal, study.layout)
    try:
        # Strategies are compared at equal numbers of trials, as they are run.
        rules = replace(study.rules(study.imports), tasks_of=builder.tasks_of, counts="trials")
        history = search(rules, record, dispatcher, config.trials, [observer], config.minutes)
    finally:
        shutil.rmtree(states, ignore_errors=True)
    losses = tuple(trial.loss if trial.state == "complete" else math.inf for trial in history)
    is_partial = len({trial.amount for trial in history}) > 1
    return FinishedSearch(label, repeat, config.seed, losses, tuple(trial.seconds for trial in history), is_partial)
