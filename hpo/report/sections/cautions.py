"""Field 25 of the report: the cautions about the study's result."""

from collections import Counter
from collections.abc import Iterator, Sequence

from hpo.formatting import format_count, format_value
from hpo.report.part import Block, Items, Paragraph, is_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import front_of, trials_text
from hpo.report.sections.tested import is_unfinished
from hpo.report.subject import Subject
from hpo.study.view.cautions import SearchFacts, boundary_cautions, curve_cautions, noise_cautions, search_cautions
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial, loss_of
from hpo.workers.objective.path import MODULE, ObjectivePath


def cautions(
    subject: Subject, report: ReportJson, full_amount: int | None = None, changed: Sequence[str] = (), unit: str = ""
) -> list[str]:
    """Return one line per reason to doubt the result, the most important first.

    Args:
        subject: the study's trials and winner.
        report: all other sections.
        full_amount: the amount of a full training; None if all trainings are full.
        changed: the searched settings that change the metric's unit.
        unit: the metric's unit.
    """
    search = SearchFacts(subject.space, subject.goal, subject.trials, subject.winner, subject.finalists, subject.called)
    reasons = [*search_cautions(search, is_extension=subject.is_extension)]
    if changed:
        reasons.insert(
            0,
            f"the unit of {subject.metric} ({unit}) depends on {', '.join(changed)}, which the search varies: "
            f"scores of different trials are not comparable, and the winner may lead only because its unit differs",
        )
    if (winner := subject.winner) is not None:
        reasons += [
            *_partial_training(winner, full_amount, report),
            *_tested_beyond_limits(subject, report),
            *boundary_cautions(search, winner),
            # With several metrics the front shows the trials within the noise.
            *(noise_cautions(search, winner) if len(subject.goal.metrics) == 1 else _overlaps(report)),
            *curve_cautions(search, winner),
        ]
    return [*reasons, *_other_cautions(report)]


def _partial_training(winner: Trial, full_amount: int | None, report: ReportJson) -> Iterator[str]:
    if full_amount is not None and winner.amount is not None and winner.amount < full_amount:
        yield (
            f"the winner was trained to only {winner.amount} of {full_amount}; its score after a full training is not "
            f"known. `hpo extend {report['study']['name']} --best 3` fully trains the 3 best trials"
        )


def _tested_beyond_limits(subject: Subject, report: ReportJson) -> Iterator[str]:
    """Yield a caution for each limit of the goal that the tested model exceeds.

    The tested model can exceed a limit that the winner keeps. For example, a larger vocabulary gives the tested model
    more parameters than the models of the search.
    """
    metrics = {} if is_missing(report["test"]) else report["test"]["metrics"]
    for limit in subject.goal.limits:
        if (value := metrics.get(limit.metric)) is not None and limit.excess(value) > 0:
            yield (
                f"{limit.metric} of the tested model is {format_value(value)}, beyond the limit {limit}; the mean over "
                f"the winner's trainings keeps this limit"
            )


def _overlaps(report: ReportJson) -> Iterator[str]:
    front = front_of(report)
    chosen = next((member for member in front["members"] if member["is_chosen"]), None) if front is not None else None
    if chosen is not None and chosen["overlaps"]:
        yield (
            f"the winner's 95 % intervals overlap in every metric with those of {trials_text(chosen['overlaps'])} on "
            f"the front: chance may have decided between them"
        )


def _other_cautions(summary: ReportJson) -> Iterator[str]:
    test, winner, finalists = summary["test"], summary["winner"], summary["finalists"]
    if not is_missing(finalists) and any(is_unfinished(each) for each in finalists):
        yield "not all finalists are trained on fresh seeds yet, so the search's scores chose the winner"
    elif not is_missing(finalists) and all(each["fresh_score"] is None for each in finalists):
        yield "all finalists failed on the fresh seeds, so the search's scores chose the winner"
    overtuning, data, baselines = summary["overtuning"], summary["data"], summary["baselines"]
    if not is_missing(test):
        if is_missing(winner) or test["trial"] != winner["number"]:
            yield f"the test score is that of trial {test['trial']}, which was the winner at the time of the test"
        if test["evaluations_of_these_data"] > 1:
            yield f"the test split of this data was evaluated {test['evaluations_of_these_data']} times"
    against = overtuning if is_missing(overtuning) else overtuning["default_on_test"]
    default = baselines if is_missing(baselines) else baselines["default"]
    # The tested trial may be the default configuration itself.
    is_default = not is_missing(test) and not is_missing(default) and default["number"] == test["trial"]
    is_of_winner = is_missing(test) or (not is_missing(winner) and test["trial"] == winner["number"])
    if not is_missing(against) and against["gain"] <= 0 and is_of_winner and not is_default:
        write = score_format([against["winner"], against["default"]])
        ours, theirs, front = write(against["winner"]), write(against["default"]), front_of(summary)
        if _is_better_on_validation(summary):
            yield (
                f"overtuned: on the test split the winner ({ours}) is not better than the default configuration "
                f"({theirs})"
            )
        elif front is not None and "choice" in front:
            yield (
                f"in {summary['metric']['name']} the winner ({ours}) is not better than the default configuration "
                f"({theirs}) on the test split, nor on validation: it was chosen as {front['choice']['text']}"
            )
    split = data if is_missing(data) else data["split"]
    yield from _no_better_than_one_label(report=summary)
    for pair, count in ({} if is_missing(split) else split["duplicates"]).items():
        if count:
            examples = f"{format_count(count, 'example*')} {'is' if count == 1 else 'are'}"
            yield f"{examples} in two splits ({pair}): scores on these examples are too good"
    if not is_missing(split) and split["is_test_within_reach"]:
        yield (
            "the objective reads the data in every training: this report cannot rule out that a training read test "
            "examples"
        )
    objective = ObjectivePath.of(summary["study"]["objective"])
    if objective.is_pickled:
        yield (
            f"the objective '{objective.function}' was given from Python and is stored in {MODULE} of the study's "
            f"folder, so the report alone cannot reproduce the winner; put the objective into a module"
        )
    for change in summary["study"]["allowed_changes"]:
        changes = "; ".join(change["changes"])
        yield f"the study was continued after changes ({change['time']}): {changes}"
    if summary["environment"]["is_dirty"] is True:
        yield "the code had uncommitted changes: the commit alone does not reproduce these results"


def _is_better_on_validation(report: ReportJson) -> bool:
    """Return whether the winner's validation score is better than the default configuration's.

    If the two scores are not comparable, return true.
    """
    winner, baselines = report["winner"], report["baselines"]
    default = baselines if is_missing(baselines) else baselines["default"]
    if is_missing(winner) or is_missing(default) or default["score"] is None or default["amount"] != winner["amount"]:
        return True
    return loss_of(default["score"] - winner["score"], report["metric"]["direction"]) > 0


def _no_better_than_one_label(report: ReportJson) -> Iterator[str]:
    """Yield a caution if the winner is not more accurate than a model that always predicts the most frequent label."""
    data, winner = report["data"], report["winner"]
    if is_missing(data) or is_missing(winner) or is_missing(data["split"]) or report["metric"]["name"] != "accuracy":
        return
    labels = Counter[str]()
    for name, part in data["split"]["parts"].items():
        labels.update((part["labels"] or {}) if name != "test" else {})
    if not labels:
        return
    (label, count), score = labels.most_common(1)[0], winner["score"]
    if (share := count / labels.total()) >= score:
        write = score_format([share, score])
        yield (
            f"the winner's accuracy ({write(score)}) is not above the share of the most frequent label {label!r} "
            f"({write(share)}): a model that always predicts this label is at least as accurate"
        )


def read_cautions(report: ReportJson) -> Iterator[Block]:
    """Yield the reasons to doubt the result."""
    cautions = report["cautions"]
    yield Items(cautions) if cautions else Paragraph("None of the checks found a reason for caution.")
