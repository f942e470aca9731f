"""Fields 7 and 10 to 12 of the report: model sizes, the strategy, the trials, and how the winner is chosen."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.config.keys import within
from hpo.engine.schedule.rules import Counts as Counted
from hpo.formatting import format_count, format_value
from hpo.report.formatting import code_rows, join_names, point_text
from hpo.report.part import Block, Count, Items, Missing, Paragraph, Positive, Table, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.report.sections.expected_score import interval_text
from hpo.report.sections.goal import front_of, names_of, value_format
from hpo.report.sections.space import SpacePart, describe_space
from hpo.report.sections.user_actions import ActionsPart, describe_actions, read_actions
from hpo.report.sections.winner import over_text, score_text
from hpo.study.files.imports import imported_text
from hpo.study.results.choosing import why
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.trials.places import amount_text
from hpo.trials.record.record import EndedBy
from hpo.trials.space.space import point_key
from hpo.trials.trial import PARAMETERS, Trial


class Sizes(TypedDict):
    """Field 7 of the report: the smallest, the median and the largest number of parameters of the trials' models.

    The file trials.csv has the number for each trial; `column` names the column.
    """

    column: str
    smallest: Count
    median: Count
    largest: Count


class Counts(TypedDict):
    """The counts of trials by state and cause (field 11 of the report)."""

    budget: Count
    ended_by: Annotated[
        NotRequired[EndedBy],
        Field(description="what ended the search, such as the budget; absent before the end of the search"),
    ]
    budget_counts: Annotated[
        NotRequired[Counted],
        Field(description="what the budget counts; absent if the strategy gives no trial an amount of training"),
    ]
    configurations: Annotated[
        NotRequired[Count],
        Field(
            description="number of different proposed points; absent if the strategy gives no trial an amount of "
            "training, such as 10 epochs"
        ),
    ]
    retries: Annotated[
        NotRequired[Count],
        Field(description="number of retries of failed trials; the budget does not count retries; absent if none"),
    ]
    further_trained: Annotated[
        NotRequired[list[int]],
        Field(
            description="trial numbers of all trials that were fully trained after the search; absent if the "
            "strategy gives no trial an amount of training"
        ),
    ]
    tasks_per_trial: Annotated[
        Positive, Field(description="number of trainings of a complete trial: folds times repeats")
    ]
    proposed: Count
    complete: Count
    failed: Count
    stopped: Annotated[
        Count,
        Field(description="number of trials stopped by a race after their first folds, by the stop rule, or by a user"),
    ]
    tasks_saved: Count
    running: Annotated[
        Count, Field(description="number of unfinished trials; 0 if no process ran the search when the report was made")
    ]
    interrupted: Annotated[
        NotRequired[Positive], Field(description="number of unfinished trials that no process trains; absent if none")
    ]
    failures: Annotated[dict[str, int], Field(description="number of failed trials by reason")]


class Imported(TypedDict):
    """How many trials this study imports from the table of another study, and how many it skips."""

    source: Annotated[str, Field(description="path of the table")]
    finished: Annotated[Count, Field(description="number of finished trials in the table")]
    used: Annotated[Count, Field(description="number of imported trials")]
    outside: Annotated[Count, Field(description="number of skipped trials outside of the space of this study")]
    shorter: Annotated[
        Count,
        Field(
            description="number of trials that are skipped because their amount of training is below the largest "
            "amount in the table"
        ),
    ]
    filled: Annotated[Count, Field(description="number of imported trials that got a value from study.imports_fill")]
    ignored: Annotated[
        list[str], Field(description="hyperparameters that vary in the table, but that this study does not search")
    ]


class SearchPart(SpacePart, ActionsPart):
    """The space, the strategy, and the counts of trials (fields 7 and 9 to 12 of the report)."""

    num_parameters: Sizes | Missing
    fixed: dict[str, Any] | Missing
    strategy: Annotated[
        dict[str, Any],
        Field(description="field 10: the strategy's name and settings, and the number of rounds (`rounds_run`)"),
    ]
    counts: Counts | Missing
    imported: Annotated[
        Count | Missing, Field(description="number of different points in the trials imported from other studies")
    ]
    imports: Annotated[
        NotRequired[list[Imported]],
        Field(description="one entry for each table in study.imports; absent if the study imports no table"),
    ]
    chosen_by: Annotated[str | Missing, Field(description="field 12: the rule that chooses the winner")]


_ENDS: dict[EndedBy, str] = {
    "minutes": ", ended by study.minutes",
    "stop_without_gain": ", ended by study.stop_without_gain",
    "target": ", ended by study.target",
    "space": ", ended when nothing was left to propose",
    "callback": ", ended by a callback",
    "user": ", stopped by the user",
}


def no_search(reason: str) -> SearchPart:
    """Return a `SearchPart` in which every value is missing; `reason` says why."""
    return cast("SearchPart", dict.fromkeys(SearchPart.__annotations__, missing(reason)))


def describe_search(study: PreparedStudy, run: StudyRun) -> SearchPart:
    """Return the space, the strategy, the numbers of trials, the user actions, and the rule that chooses the winner."""
    config, trials = study.config, run.trials
    known = {trial.key for trial in run.notes.imports}
    searched = study.space.keys
    part = {
        "num_parameters": _num_parameters(trials),
        **describe_space(study),
        "first": [dict(point) for point in study.space.first if point_key(point) not in known],
        # Leave out searched keys and keys below them.
        "fixed": {k: v for k, v in config.fixed.items() if not any(within(k, key) for key in searched)},
        "strategy": dict(config.strategy) | {"rounds_run": 1 + max((t.round for t in trials), default=-1)},
        "counts": _counts(study, run),
        "imported": len(run.notes.imports),
        **({"imports": imported} if (imported := run.notes.imported) else {}),
        "chosen_by": _chosen_by(study, run),
        **describe_actions(run.record),
    }
    return cast("SearchPart", part)


def _chosen_by(study: PreparedStudy, run: StudyRun) -> str:
    section, goal, is_fresh = study.config.study, study.goal, run.fresh_winner is not None
    within = f", within {' and '.join(map(str, goal.limits))}" if goal.limits else ""
    if len(goal.metrics) == 1:
        among = "" if section.winner == "best" else "the lowest cost among the trials within one standard error of "
        within += ", which were set after the search" if within and section.limits_after is not None else ""
        if is_fresh:
            return f"{among}the best mean score on fresh seeds among the best trials of the search{within}"
        over = over_text(study.layout.name(index) for index in range(study.layout.size))
        return f"{among}the best mean score over the {over}{within}; the earlier trial on ties"
    # After a changed choice, `hpo resume` trains the new finalists.
    fresh = ", on fresh seeds, among the best trials of the search" if is_fresh else ""
    # The report's section on the front lists each change.
    decided = "changed after the start of the search" if run.notes.changed_choices else "set before the search"
    chosen = why(section.choose)
    on_front = " of " if chosen.endswith("the front") else ", on the front of "
    return f"{chosen}{on_front}{join_names(list(goal.metrics))}{within}{fresh}, a rule that was {decided}"


def _counts(study: PreparedStudy, run: StudyRun) -> Counts:
    trials, size = run.trials, study.layout.size
    states = Counter(trial.state for trial in trials)
    # Take the first error of each failed trial. It does not name the fold, so equal errors are counted together.
    errors = ([o.error for _, o in sorted(t.outcomes.items()) if o.error] for t in trials if t.state == "failed")
    reasons = Counter(first for first, *_ in errors)
    unfinished = states["running"]
    # Ignore this process as the holder: it may hold the study, for example, to test the best trial so far.
    runs = study.is_outside or ((holder := study.folder.holder()) is not None and not holder.is_this)
    counts: Counts = {
        "budget": study.config.study.trials,
        "tasks_per_trial": size,
        "proposed": len(trials),
        "complete": states["complete"],
        "failed": states["failed"],
        "stopped": states["stopped"],
        "tasks_saved": sum(size - len(t.outcomes) for t in trials if t.state == "stopped"),
        "running": unfinished if runs else 0,
        "failures": dict(reasons.most_common()),
    }
    if unfinished and not runs:
        counts["interrupted"] = unfinished
    if (ended := run.record.ended) is not None and ended.by is not None:
        counts["ended_by"] = ended.by
    if retries := sum(trial.retry_of is not None for trial in trials):
        counts["retries"] = retries
    if any(trial.amount is not None for trial in trials):
        counts["budget_counts"] = study.counts
        counts["configurations"] = len({trial.key for trial in trials})
        counts["further_trained"] = [trial.number for trial in run.further_trained]
    return counts


def _num_parameters(trials: Sequence[Trial]) -> Sizes | Missing:
    sizes = [trial.num_parameters for trial in trials if trial.num_parameters is not None]
    if not sizes:
        return missing(f"the objective returns no `{PARAMETERS}`, the number of parameters of its network")
    return {
        "column": "num_parameters of trials.csv",
        "smallest": min(sizes),
        "median": statistics.median_low(sizes),
        "largest": max(sizes),
    }


def end_text(by: EndedBy | None) -> str:
    """Return what ended the search, as the end of a sentence.

    Return an empty text if the budget of trials ended the search, or if the search has not ended.
    """
    return "" if by is None else _ENDS.get(by, "")


def read_strategy(report: ReportJson) -> Iterator[Block]:
    """Yield the strategy's settings."""
    yield Table(("setting", "value"), code_rows(report["strategy"]))


def _target_text(report: ReportJson) -> Iterator[str]:
    counts, winner, target = require(report["counts"]), report["winner"], report["study"]["budget"].get("target")
    if counts.get("ended_by") != "target" or is_missing(winner) or target is None:
        return
    expected = winner.get("expected")
    instead = ""
    if expected is not None and not is_missing(expected):
        instead = f": the winner's expected score is {interval_text(expected, '{:.4g}'.format)}"
    yield (
        f"a score has reached study.target={format_value(target)}; with noise, the first score that reaches a "
        f"target is too optimistic{instead}"
    )


def read_counts(report: ReportJson) -> Iterator[Block]:
    """Yield the counts of trials by outcome, the reasons of failures, and the user actions."""
    counts = require(report["counts"])
    end = end_text(counts.get("ended_by"))
    interrupted = f", interrupted {number}" if (number := counts.get("interrupted")) else ""
    stopped = f", stopped {counts['stopped']}" if counts["stopped"] else ""
    budget = f"{counts['budget']} {counts['budget_counts']}" if "budget_counts" in counts else str(counts["budget"])
    yield Paragraph(
        f"Budget {budget}{end}, proposed {counts['proposed']}, complete {counts['complete']}, "
        f"failed {counts['failed']}{stopped}, running {counts['running']}{interrupted}. All trials: `trials.csv`."
    )
    notes = [*_target_text(report)]
    if further := counts.get("further_trained"):
        notes.append(f"fully trained after the search: trials {', '.join(map(str, further))}")
    if retries := counts.get("retries"):
        notes.append(f"retries of failed trials: {retries} (the budget does not count retries)")
    if counts["stopped"]:
        saved = f", which saved {format_count(counts['tasks_saved'], 'training*')}" if counts["tasks_saved"] else ""
        notes.append(f"{format_count(counts['stopped'], 'trial*')} stopped early{saved}")
    if "imports" in report:
        notes.append(f"known from the start: {imported_text(report['imports'], require(report['imported']))}")
    yield Items(
        [*notes, *read_actions(report), *(f"{count} failed: {reason}" for reason, count in counts["failures"].items())]
    )


def read_top(report: ReportJson) -> Iterator[Block]:
    """Yield the table of the best trials."""
    strategy, text = require(report["strategy"]), score_text(report)
    front = front_of(report)
    names = [] if front is None else names_of(front)[1:]
    texts = {name: value_format(report, name) for name in names}
    rows = [
        (
            str(t["number"]),
            f"{text(t['score'])}{amount_text(t.get('amount'), t.get('reached'), strategy.get('max_amount'))}",
            *(texts[name](t["scores"][name]) for name in names),
            point_text(t["point"]),
        )
        for t in report["top"]
    ]
    yield Table(("best trials", report["metric"]["name"], *names, "point"), rows)
