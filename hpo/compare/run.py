"""Runs the searches of a comparison, shows the progress, and writes the files of the result."""

import hashlib
import math
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hpo.compare.comparison import ComparisonPlan
from hpo.compare.curves import FinishedSearch, all_searches
from hpo.compare.output import write_comparison
from hpo.compare.result import Budget, Measure, compare_strategies
from hpo.compare.searches import Searches, run_search
from hpo.compare.studies import compare_studies, read_studies
from hpo.config.study_config import study_name
from hpo.engine.observers import Observer
from hpo.errors import ConfigError, StudyError, printable
from hpo.report.comparison import ComparisonJson
from hpo.session.session import start_dispatcher
from hpo.session.stopping import SessionDispatcher, Stopping
from hpo.show.display import Display, How, refuse_unknown_progress
from hpo.show.json_lines import print_event
from hpo.show.terminal import Terminal
from hpo.study.files.folder import RUNS, StudyFolder
from hpo.study.opening import code_of
from hpo.study.study import PreparedStudy
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial, loss_sign
from hpo.workers.dispatch.dispatcher import Dispatcher

# The folder, the files and the result of a comparison, and whether any trial has a score.
Compared = tuple[Path, Sequence[Path], ComparisonJson, bool]


def run_comparison(
    comparison: ComparisonPlan,
    at: Sequence[int],
    at_seconds: Sequence[float | str],
    optimum: float | None,
    progress: How = "auto",
) -> Compared:
    """Run the searches that are not finished yet, compare all searches, and write the files.

    The full number of trials is always a budget. `at` adds budgets in trials, and `at_seconds` adds budgets in seconds.
    In `at_seconds`, the text `shortest` means the training time of the shortest search. If trials have different
    amounts, `shortest` is always a budget, and the result lists budgets in seconds before budgets in trials.

    Raises:
        ConfigError: a budget is not positive, or a search does not reach it; or `optimum` is given with several
            metrics. Whether all searches reach the budgets in seconds is checked only after all searches.
        Stopped: there was a signal; the finished searches are saved.
    """
    refuse_unknown_progress(progress)
    study, goal = comparison.study.config.study, comparison.study.goal
    budgets = _budgets(at, study.trials)
    _refuse_optimum(optimum, goal)
    seconds = {amount for amount in at_seconds if not isinstance(amount, str)}
    if (least := min(seconds, default=1.0)) <= 0:
        raise ConfigError(f"at_seconds: must be above 0, given {least:g}; give seconds of training")
    with ExitStack() as stack:
        # Start the workers before the folder is created, so that no folder remains if they cannot start.
        dispatcher = None if comparison.path.exists() else _start_dispatcher(comparison, progress, stack)
        stack.enter_context(comparison.study.folder.lock())
        comparison.open()
        searches = Searches(comparison.path / "searches.csv", goal)
        total, missing = len(comparison.searches), [s for s in comparison.searches if s not in searches]
        if missing:
            dispatcher = dispatcher or _start_dispatcher(comparison, progress, stack)
            stopping = Stopping()
            stopping.begin(lambda: _last_words(comparison, searches), dispatcher.runs_here)
            bars = ComparingProgress(comparison.study, total, total - len(missing), progress)
            with stopping, bars.bars:
                stoppable = SessionDispatcher(dispatcher, stopping)
                plan = replace(comparison, study=replace(comparison.study, code=code_of(comparison.study)))
                for repeat, label in missing:
                    bars.search_started(repeat, label)
                    finished = run_search(plan, repeat, label, stoppable, bars)
                    searches.append(finished)
                    bars.search_finished(finished)
        by_label = searches.of(comparison)
        every = all_searches(by_label)
        is_partial = any(search.is_partial for search in every)
        costs = _costs(seconds, min(search.total_seconds for search in every), is_partial or "shortest" in at_seconds)
        # If equal numbers of trials are not equal budgets, the budgets in seconds come first.
        ordered = [*costs, *budgets] if is_partial else [*budgets, *costs]
        measure = Measure.of(goal, every, comparison.table() if optimum is None else None, optimum)
        result = compare_strategies(study.name, by_label, measure, ordered, comparison.strategies)
        paths = [*write_comparison(comparison.path, result), comparison.path / "searches.csv"]
    return comparison.path, paths, result, _has_result(every)


def _has_result(searches: Iterable[FinishedSearch]) -> bool:
    """Return whether any trial of these searches has a score."""
    return any(math.isfinite(loss) for search in searches for loss in search.losses)


def run_studies(names: Sequence[str], at: Sequence[int], optimum: float | None, name: str | None) -> Compared:
    """Compare existing studies, and write the files; raise HpoError if the studies cannot be compared.

    The first budget is the number of trials in the study with the fewest trials. If any study has scales, the first
    budget is a time in seconds: the total training time of the study that trained least. `at` adds budgets in trials.
    """
    studies = read_studies(names)
    _refuse_optimum(optimum, studies[0].goal)
    labels = "-".join(study.label for study in studies)
    if len(labels) > 80:
        # The hash distinguishes long names that begin with the same characters.
        labels = f"{labels[:71]}-{hashlib.sha256(labels.encode()).hexdigest()[:8]}"
    name = name or f"compare-{labels}"
    folder = StudyFolder(RUNS / study_name(name, "name"))
    if folder.exists or (folder.path / "comparison.yaml").exists():
        raise StudyError(f"name: {folder} is a study or a comparison of strategies; choose another name")
    # Compare at the budget of the smallest study, because a study with more trials would have an advantage.
    budgets = _budgets(at, min(len(study.search.losses) for study in studies))
    if any(study.search.is_partial for study in studies):
        shortest = min(study.search.total_seconds for study in studies)
        budgets = [Budget(shortest, "seconds"), *(budget for budget in budgets if budget.amount in at)]
    result = compare_studies(name, studies, budgets, optimum)
    folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = write_comparison(folder.path, result)
    return folder.path, paths, result, _has_result(study.search for study in studies)


def _refuse_optimum(optimum: float | None, goal: Goal) -> None:
    """Raise ConfigError if an optimum is given for several metrics."""
    if optimum is not None and len(goal.metrics) > 1:
        raise ConfigError(
            f"optimum: must be left out with several metrics ({', '.join(goal.metrics)}), given {optimum:g}; the "
            f"regret of several metrics is relative to the best Pareto front"
        )


def _budgets(at: Sequence[int], full: int) -> list[Budget]:
    """Return the budgets in trials, the full budget first. Raise ConfigError for a budget below 1 or above `full`."""
    for amount in at:
        if not 1 <= amount <= full:
            raise ConfigError(f"at: must be 1 to {full}, given {amount}; give a number of trials that every search has")
    return [Budget(amount, "trials") for amount in sorted({*at, full}, reverse=True)]


def _start_dispatcher(comparison: ComparisonPlan, progress: How, stack: ExitStack) -> Dispatcher:
    for note in comparison.study.described.notes:
        print(printable(note))
    return start_dispatcher(comparison.study, Terminal() if progress else Display(), stack)


def _costs(seconds: Collection[float], shortest: float, has_shortest: bool) -> list[Budget]:
    """Return the budgets in seconds, the largest first. Raise ConfigError for a budget above `shortest`.

    `shortest` is the training time of the shortest search in seconds. If `has_shortest` is true, `shortest` is also a
    budget.
    """
    if (longest := max(seconds, default=0.0)) > shortest:
        raise ConfigError(
            f"at_seconds: must be at most {shortest:.6g}, the length of the shortest search, given {longest:g}; all "
            f"searches are saved, so run the command again with fewer seconds"
        )
    amounts = {*seconds, shortest} if has_shortest else seconds
    return [Budget(amount, "seconds") for amount in sorted(amounts, reverse=True)]


def _last_words(comparison: ComparisonPlan, searches: Searches) -> str:
    done, total = sum(search in searches for search in comparison.searches), len(comparison.searches)
    return f"\nstopped: {done} of {total} searches are saved in {comparison.path}\ncontinue with the same command\n"


class ComparingProgress(Observer):
    """Shows two progress bars: one counts the searches of a comparison, the other the trials of the running search.

    Without a terminal, it prints a line per search instead. With progress `json`, it prints an event per search; with
    `none` or false, it prints nothing. At the start, `num_done` of `total` searches are already finished.
    """

    def __init__(self, study: PreparedStudy, total: int, num_done: int, progress: How) -> None:
        self._progress: How = "auto" if progress is True else progress
        self._study, self._total, self._num_done = study.config.study, total, num_done
        self._console = Console(file=sys.stdout)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        is_off = not self._console.is_terminal or self._progress != "auto"
        self.bars = Progress(*columns, console=self._console, transient=True, disable=is_off)
        self._searches = self.bars.add_task("searches", total=total, completed=num_done)
        self._trials = self.bars.add_task("trials", total=self._study.trials)

    def search_started(self, repeat: int, label: str) -> None:
        """Reset the progress bar that counts trials, because a new search starts."""
        self.bars.reset(self._trials, description=f"repeat {repeat}  {label}")

    def search_finished(self, search: FinishedSearch) -> None:
        """Advance the progress bar that counts searches.

        If the setting `progress` is `json`, print an event instead. If it is `auto` and there is no terminal, print a
        line about the search instead.
        """
        self._num_done += 1
        self.bars.update(self._searches, completed=self._num_done)
        score = loss_sign(self._study.direction) * min(search.within_limits.losses, default=math.inf)
        if self._progress == "json":
            fields = {"repeat": search.repeat, "label": search.label, "score": score, "trials": len(search.losses)}
            print_event("search", **fields, seconds=math.fsum(search.seconds), done=self._num_done, total=self._total)
        if self._console.is_terminal or self._progress != "auto":
            return
        missing = f"no complete trial{' within the limits' if self._study.limits else ''}"
        result = f"{self._study.metric} {score:.6g}" if math.isfinite(score) else missing
        head = f"{self._num_done:>{len(str(self._total))}}/{self._total}  repeat {search.repeat}  {search.label}"
        line = f"{head}  {result} after {len(search.losses)} trials, {math.fsum(search.seconds):.1f} s of training"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def trial_finished(self, trial: Trial) -> None:  # noqa: ARG002 -- the same call as its siblings
        """Advance the progress bar of the trials by one."""
        self.bars.advance(self._trials)
