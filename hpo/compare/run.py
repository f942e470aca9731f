"""Runs the searches of a comparison at a terminal, and shows the result."""

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hpo.compare.comparison import ComparisonPlan
from hpo.compare.curves import FinishedSearch
from hpo.compare.files import write_comparison
from hpo.compare.progress import ComparingProgress
from hpo.compare.result import Budget, Measure, compare_strategies
from hpo.compare.searches import Searches, run_search
from hpo.compare.studies import read_studies
from hpo.compare.studies_result import compare_studies
from hpo.config.study_config import study_name
from hpo.engine.dispatch import Dispatcher, code_to_send, make_dispatcher
from hpo.errors import ConfigError, StudyError, printable
from hpo.report import blocks
from hpo.report.comparison import ComparisonJson
from hpo.report.pages.comparison import READING, answers, headline, standings, verdicts, winners
from hpo.session.stopping import SessionDispatcher, Stopping
from hpo.study.files.folder import RUNS, StudyFolder
from hpo.study.opening import code_of

_WIDTH_OF_A_FILE = 170
_NARROW = 130


def run_comparison(
    comparison: ComparisonPlan, at: Sequence[int], at_seconds: Sequence[float | str], optimum: float | None
) -> int:
    """Run the missing searches, write the files, print the result, and return 0, or 1 where every trial failed.

    They are compared at the full budget, at these numbers of trials, and seconds of training; at the length of the
    shortest search, too, where `shortest` is among those or trials are trained by different amounts. An optimum of None
    is looked up if possible.

    Raises:
        Stopped: by a signal; finished searches are saved.
    """
    budgets = _budgets(at, comparison.study.config.study.trials)
    with ExitStack() as stack:
        # A new one is created after its workers have started, so that a refusal leaves no trace.
        is_new = not comparison.path.exists()
        dispatcher = _started(comparison, stack) if is_new else None
        stack.enter_context(comparison.study.folder.lock())
        comparison.open()
        searches = Searches(comparison.path / "searches.csv", comparison.study.config.study.direction)
        total, missing = len(list(comparison.searches())), [s for s in comparison.searches() if s not in searches]
        if missing:
            dispatcher = dispatcher or _started(comparison, stack)
            stopping = Stopping()
            stopping.begin(lambda: _last_words(comparison, searches, total), dispatcher.runs_here)
            with stopping, ComparingProgress(comparison, total - len(missing)) as progress:
                stoppable = SessionDispatcher(dispatcher, stopping)
                coded = replace(comparison, study=replace(comparison.study, code=code_of(comparison.study)))
                for repeat, label in missing:
                    progress.search_started(repeat, label)
                    finished = run_search(coded, repeat, label, stoppable, progress)
                    searches.append(finished)
                    progress.search_finished(finished)
        by_label = searches.of(comparison)
        costs = _costs(at_seconds, by_label)
        # Equal cost comes first if numbers of trials do not measure it.
        ordered = [*costs, *budgets] if _has_partial(by_label) else [*budgets, *costs]
        study = comparison.study.config.study
        measure = Measure(study.metric, study.direction, comparison.optimum() if optimum is None else optimum)
        result = compare_strategies(study.name, by_label, measure, ordered, comparison.strategies)
        paths = write_comparison(comparison.path, result)
    show(result, (*paths, comparison.path / "searches.csv"))
    has_result = any(math.isfinite(loss) for of_label in by_label.values() for s in of_label for loss in s.losses)
    return 0 if has_result else 1


def run_studies(names: Sequence[str], at: Sequence[int], optimum: float | None, name: str | None) -> Path:
    """Compare studies that exist, write the files, print the result, and return the folder; arguments as above."""
    studies = read_studies(names)
    name = name or "compare-" + "-".join(study.label for study in studies)[:80]
    folder = StudyFolder(RUNS / study_name(name, "name"))
    if folder.exists or (folder.path / "comparison.yaml").exists():
        raise StudyError(f"name: {folder} holds something else; choose another name")
    # A mean over unequal budgets would favour the larger: all are compared at the smallest.
    budgets = _budgets(at, min(len(study.search.losses) for study in studies))
    result = compare_studies(name, studies, budgets, optimum)
    folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    show(result, write_comparison(folder.path, result))
    return folder.path


def _budgets(at: Sequence[int], full: int) -> list[Budget]:
    """Return the numbers of trials to compare at, the full budget first; ConfigError for one that is not within."""
    for amount in at:
        if not 1 <= amount <= full:
            raise ConfigError(f"at: must be 1 to {full}, the number of trials, given {amount}")
    return [Budget(amount, "trials") for amount in sorted({*at, full}, reverse=True)]


def show(result: ComparisonJson, paths: Sequence[Path]) -> None:
    """Print the tables, the notes and the paths of the files."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    console.print(f"\n{_printable(headline(result))}", highlight=False, markup=False)
    for told in answers(result):
        console.print(_printable(told), style="bold", highlight=False, markup=False, soft_wrap=True)
    _print_by_budget(console, standings(result))
    if result["pairs"]:
        _print_by_budget(console, _fitted(console, verdicts(result, result["pairs"])))
        console.print(READING, highlight=False, markup=False)
    if result.get("folds"):
        console.print()
        folds = winners(result)
        console.print(_table(folds.head, folds.rows))
    for note in result["notes"]:
        console.print(f"note: {_printable(note)}", highlight=False, markup=False, soft_wrap=True)
    print(f"files: {', '.join(str(path) for path in paths)}")


def _fitted(console: Console, cells: blocks.Table) -> blocks.Table:
    """Return the table of pairs; on a narrow terminal with both labels in one cell, so that the verdict fits."""
    if console.width >= _NARROW:
        return cells
    head, rows = [cells.head[0], "A\nB", *cells.head[3:]], cells.rows
    return blocks.Table(head, [[row[0], f"{row[1]}\n{row[2]}", *row[3:]] for row in rows])


def _print_by_budget(console: Console, cells: blocks.Table) -> None:
    """Print one table per budget, which is the first column of the rows."""
    for budget, of_budget in itertools.groupby(cells.rows, key=lambda row: row[0]):
        console.print(f"\nafter {budget}", highlight=False, markup=False)
        console.print(_table(cells.head[1:], [row[1:] for row in of_budget]))


def _started(comparison: ComparisonPlan, stack: ExitStack) -> Dispatcher:
    config = comparison.study.config
    code = code_to_send(config.dispatch, comparison.study.objective)
    if code is not None and code.files:
        print(code.in_words())
    dispatcher = make_dispatcher(config.dispatch, config.secrets, code)
    stack.callback(dispatcher.close)
    return dispatcher


def _costs(seconds: Sequence[float | str], by_label: Mapping[str, Sequence[FinishedSearch]]) -> list[Budget]:
    """Return the costs to compare at, the largest first; ConfigError where a search had ended before one of them."""
    searches = [search for of_label in by_label.values() for search in of_label]
    shortest = min(search.total_seconds for search in searches)
    amounts = {amount for amount in seconds if not isinstance(amount, str)}
    for amount in amounts:
        if not 0 < amount <= shortest:
            raise ConfigError(
                f"at seconds: must be above 0 and at most {shortest:.6g}, the length of the shortest search, given "
                f"{amount:g}"
            )
    if "shortest" in seconds or _has_partial(by_label):
        amounts.add(shortest)
    return [Budget(amount, "seconds") for amount in sorted(amounts, reverse=True)]


def _has_partial(by_label: Mapping[str, Sequence[FinishedSearch]]) -> bool:
    return any(search.is_partial for of_label in by_label.values() for search in of_label)


def _printable(text: str) -> str:
    """Return a text of several lines without other control characters; parts of it may come from a stranger."""
    return "\n".join(map(printable, text.split("\n")))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for place, name in enumerate(head):
        # On a narrow terminal cells wrap between words and are never cut.
        words = [word for cell in (name, *(row[place] for row in rows)) for word in cell.split()]
        table.add_column(name, min_width=max(len(word) for word in words))
    for row in rows:
        # Labels and numbers in brackets are not markup.
        table.add_row(*(_printable(cell).replace("[", r"\[") for cell in row))
    return table


def _last_words(comparison: ComparisonPlan, searches: Searches, total: int) -> str:
    done = sum(search in searches for search in comparison.searches())
    return f"\nstopped: {done} of {total} searches are saved in {comparison.path}\ncontinue with the same command\n"
