"""What a careful reviewer would ask about a study's result, worked out from its report: fields 21 and 25."""

from collections.abc import Iterator, Sequence

from hpo.report.part import Block, Items, Paragraph, is_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import front_of, trials_text
from hpo.report.subject import Subject
from hpo.study.view.cautions import boundary_cautions, curve_cautions, noise_cautions, search_cautions
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial
from hpo.workers.objective.path import MODULE, ObjectivePath


def cautions(
    subject: Subject, report: ReportJson, full_amount: int | None = None, changed: Sequence[str] = (), unit: str = ""
) -> list[str]:
    """Return one line per reason to doubt the result, the most important first.

    `report` has all other sections; `full_amount` is how far a full training goes, where trials are trained by amounts;
    `changed` are the searched settings that change the `unit` in which the metric is counted.
    """
    reasons = [*search_cautions(subject)]
    if changed:
        reasons.insert(
            0,
            f"{subject.metric} is counted in {unit}, and {', '.join(changed)}, which is searched, changes those: "
            f"scores of different trials do not compare, and the winner may only count in something else",
        )
    if (winner := subject.winner) is not None:
        reasons += [
            *_not_trained(winner, full_amount, report),
            *boundary_cautions(subject, winner),
            # Of several metrics the front says what lies within the noise.
            *(noise_cautions(subject, winner) if len(subject.goal.metrics) == 1 else _overlapping(report)),
            *curve_cautions(subject, winner),
        ]
    return [*reasons, *_about_the_rest(report)]


def _not_trained(winner: Trial, full_amount: int | None, report: ReportJson) -> Iterator[str]:
    if full_amount is not None and winner.amount is not None and winner.amount < full_amount:
        yield (
            f"the winner was trained to {winner.amount} of {full_amount} only; how good it is after a full training is "
            f"not known. To train it on: `hpo extend {report['study']['name']} --best 3`"
        )


def _overlapping(report: ReportJson) -> Iterator[str]:
    front = front_of(report)
    chosen = next((member for member in front["members"] if member["is_chosen"]), None) if front is not None else None
    if chosen is not None and chosen["overlaps"]:
        yield (
            f"the winner's 95 % intervals overlap in every metric with those of {trials_text(chosen['overlaps'])} of "
            f"the front: chance may have chosen between them"
        )


def _about_the_rest(summary: ReportJson) -> Iterator[str]:
    test, winner, finalists = summary["test"], summary["winner"], summary["finalists"]
    if not is_missing(finalists) and all(each["fresh_score"] is None for each in finalists):
        yield "all finalists failed on the fresh seeds, so that the score of the search chose the winner"
    overtuning, data, baselines = summary["overtuning"], summary["data"], summary["baselines"]
    if not is_missing(test):
        if is_missing(winner) or test["trial"] != winner["number"]:
            yield f"the test score is that of trial {test['trial']}, which was the winner when the test part was opened"
        if test["evaluations_of_these_data"] > 1:
            yield f"the test part of these data was opened {test['evaluations_of_these_data']} times"
    against = overtuning if is_missing(overtuning) else overtuning["default_on_test"]
    default = baselines if is_missing(baselines) else baselines["default"]
    # The trial that was scored on the test part may be the default configuration itself.
    is_default = not is_missing(test) and not is_missing(default) and default["number"] == test["trial"]
    if not is_missing(against) and against["gain"] <= 0 and not is_default:
        written = score_format([against["winner"], against["default"]])
        yield (
            f"overtuned: on the test part the winner ({written(against['winner'])}) is not better than the default "
            f"configuration ({written(against['default'])})"
        )
    split = data if is_missing(data) else data["split"]
    for pair, count in ({} if is_missing(split) else split["duplicates"]).items():
        if count:
            yield f"{count} examples are in two parts ({pair}): scores on them are too good"
    if not is_missing(split) and split["is_test_within_reach"]:
        yield (
            "the test part was within reach of every training, which reads the data itself: that none has read test "
            "examples, this report cannot say"
        )
    objective = ObjectivePath.of(summary["study"]["objective"])
    if objective.is_pickled:
        yield (
            f"the objective, '{objective.function}', was given from Python and lies in {MODULE} of the study's folder: "
            f"from the report alone nothing is reproduced; in a module of its own it would be"
        )
    for change in summary["study"]["allowed_changes"]:
        changes = "; ".join(change["changes"])
        yield f"the study was continued although something had changed ({change['time']}): {changes}"
    if summary["environment"]["is_dirty"] is True:
        yield "the code had uncommitted changes: the commit alone does not give these results again"


def read_cautions(report: ReportJson) -> Iterator[Block]:
    """Yield the reasons to doubt the result."""
    cautions = report["cautions"]
    yield Items(cautions) if cautions else Paragraph("None of the checks found a reason to doubt the result.")
