"""What a careful reviewer would ask about a study's result, worked out from its report: fields 21 and 25."""

from collections.abc import Iterator, Sequence

from typing_extensions import TypedDict

from hpo.config.goals import SCALE
from hpo.formatting import format_count, format_value
from hpo.report.part import Block, Items, Paragraph, is_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import front_of, trials_text
from hpo.report.subject import Subject
from hpo.study.winner.choosing import as_good_as, cheapest, standard_error
from hpo.trials.score_format import score_format
from hpo.trials.space.dimensions import Choices, Range
from hpo.trials.space.space import Space
from hpo.trials.trial import Trial, loss_of
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.objective.pickled_function import MODULE


class AtEnd(TypedDict):
    """Field 21: a best value at an end of its range."""

    key: str
    value: int | float | str | bool | None
    end: str


# Rules of thumb of the tuning playbook and the checklists.
_FEW_TRIALS_PER_DIMENSION = 5
_MANY_FAILURES = 0.10
_MANY_BEYOND = 0.50
# Share of a range, on its scale, that counts as its end.
_NEAR_END = 0.02


def cautions(
    subject: Subject, report: ReportJson, full_amount: int | None = None, changed: Sequence[str] = (), unit: str = ""
) -> list[str]:
    """Return one line per reason to doubt the result, the most important first.

    `report` has all other sections; `full_amount` is how far a full training goes, where trials are trained by amounts;
    `changed` are the searched settings that change the `unit` in which the metric is counted.
    """
    reasons = [*_about_the_search(subject)]
    if changed:
        reasons.insert(
            0,
            f"{subject.metric} is counted in {unit}, and {', '.join(changed)}, which is searched, changes those: "
            f"scores of different trials do not compare, and the winner may only count in something else",
        )
    if (winner := subject.winner) is not None:
        reasons += [
            *_not_trained(winner, full_amount, report),
            *_at_an_end(subject, winner),
            # Of several metrics the front says what lies within the noise.
            *(_within_noise(subject, winner) if len(subject.goal.metrics) == 1 else _overlapping(report)),
            *_still_improving(subject, winner),
        ]
    return [*reasons, *_about_the_rest(report)]


def cautions_so_far(subject: Subject) -> list[str]:
    """Return what can be said of them while the search runs, when that it has not ended is none."""
    reasons = [*_about_the_search(subject, has_ended=False)]
    if (winner := subject.winner) is not None:
        reasons += [*_at_an_end(subject, winner), *_still_improving(subject, winner)]
        reasons += _within_noise(subject, winner) if len(subject.goal.metrics) == 1 else ()
    return reasons


def _about_the_search(subject: Subject, has_ended: bool = True) -> Iterator[str]:
    trials, space = subject.trials, subject.space
    running, failed = (sum(trial.state == state for trial in trials) for state in ("running", "failed"))
    if running and has_ended:
        yield f"the search has not ended: {running} {'trial is' if running == 1 else 'trials are'} not finished"
    if trials and failed / len(trials) > _MANY_FAILURES:
        yield f"{failed} of {len(trials)} trials failed: part of the space cannot be trained, so it was hardly searched"
    repeated = [(t.number, o.differs) for t in trials for _, o in sorted(t.outcomes.items()) if o.differs]
    if repeated:
        number, differs = repeated[0]
        yield (
            f"trainings are not deterministic: that of trial {number}, repeated after an interruption, reported "
            f"something else ({differs}); what it reported first counts"
        )
    complete = [trial for trial in trials if trial.state == "complete"]
    beyond = sum(not trial.keeps_limits for trial in complete)
    limits = ", ".join(map(str, subject.goal.limits))
    if complete and beyond == len(complete):
        yield f"no complete trial keeps the limits ({limits})"
    elif complete and beyond / len(complete) > _MANY_BEYOND:
        yield f"{beyond} of {len(complete)} complete trials exceed a limit ({limits}): few were spent on what may win"
    dimensions = [dimension for dimension in space.dimensions if dimension.key != SCALE]
    wanted = _FEW_TRIALS_PER_DIMENSION * len(dimensions)
    # Halving trains a point in several trials.
    tried = sum(trial.continues is None for trial in trials)
    whole = space.size is not None and len({trial.key for trial in trials}) >= space.size
    if tried < wanted and not whole and has_ended:
        searched = format_count(len(dimensions), "hyperparameter*")
        yield f"few trials: {tried} for {searched}; {wanted} would be five for each"


def _not_trained(winner: Trial, full_amount: int | None, report: ReportJson) -> Iterator[str]:
    if full_amount is not None and winner.amount is not None and winner.amount < full_amount:
        yield (
            f"the winner was trained to {winner.amount} of {full_amount} only; how good it is after a full training is "
            f"not known. To train it on: `hpo extend {report['study']['name']} --best 3`"
        )


def at_the_end(space: Space, winner: Trial) -> list[AtEnd]:
    """Return every ordered hyperparameter whose best value lies at an end of its range.

    A lower end of 0 is left out, as of a dropout: mostly nothing lies beyond.
    """
    ends: list[AtEnd] = []
    for dimension in space.dimensions:
        # The last scale is what is sought.
        if isinstance(dimension, Choices) or dimension.key not in winner.point or dimension.key == SCALE:
            continue
        value = winner.point[dimension.key]
        if isinstance(dimension, Range):
            assert isinstance(value, int | float)
            place = dimension.to_unit(value)
            # A whole number is the middle of its part of the range. Of two values, each is an end.
            is_whole_end = dimension.high - dimension.low >= 2 and value in (dimension.low, dimension.high)
            is_end = place < _NEAR_END or place > 1 - _NEAR_END or (dimension.integer and is_whole_end)
            end = "lower" if place < 0.5 else "upper"
        else:
            assert not isinstance(value, list | dict)
            is_end = len(dimension.values) > 2 and value in (dimension.values[0], dimension.values[-1])
            end = "first" if value == dimension.values[0] else "last"
        if is_end and not (value == 0 and end in ("lower", "first")):
            ends.append({"key": dimension.key, "value": value, "end": end})
    return ends


def _at_an_end(subject: Subject, winner: Trial) -> Iterator[str]:
    for found in at_the_end(subject.space, winner):
        key, value, end = found["key"], format_value(found["value"]), found["end"]
        yield f"the best {key}, {value}, lies at the {end} end of its range: the best may lie beyond"


def _within_noise(subject: Subject, winner: Trial) -> Iterator[str]:
    """Compare by the standard error over the winner's folds and seeds; one standard error is within the noise."""
    trials, seeds = subject.finalists or subject.trials, " on fresh seeds" if subject.finalists else ""
    by = next(trial for trial in trials if trial.number == winner.number)
    near = as_good_as(by, trials, subject.metric)
    if near:
        numbers = ", ".join(str(t.number) for t in sorted(near, key=lambda t: t.loss)[:10])
        thing = "finalist*" if subject.finalists else "configuration*"
        which = f"{format_count(len(near), f'other {thing}')} {'is' if len(near) == 1 else 'are'}"
        what = "trial" if len(near) == 1 else "trials"
        numbered = {trial.number for trial in (by, *near)}
        chosen, is_best = (
            cheapest(t for t in subject.trials if t.number in numbered),
            all(t.loss >= by.loss for t in near),
        )
        takes = f"; study.winner=one_standard_error takes {chosen.number}"
        instead = "" if chosen.number == by.number or not is_best else takes
        error = f"one standard error ({standard_error(by, subject.metric):.2g})"
        yield f"{which} within {error} of the {subject.called}{seeds}: {what} {numbers}{instead}"


def _overlapping(report: ReportJson) -> Iterator[str]:
    front = front_of(report)
    chosen = next((member for member in front["members"] if member["is_chosen"]), None) if front is not None else None
    if chosen is not None and chosen["overlaps"]:
        yield (
            f"the winner's 95 % intervals overlap in every metric with those of {trials_text(chosen['overlaps'])} of "
            f"the front: chance may have chosen between them"
        )


def _still_improving(subject: Subject, winner: Trial) -> Iterator[str]:
    best_at_end = []
    for outcome in winner.outcomes.values():
        curve = [point[subject.metric] for point in outcome.curve if subject.metric in point]
        if len(curve) > 1:
            best = min(curve, key=lambda score: loss_of(score, subject.direction))
            best_at_end.append(curve[-1] == best and best not in curve[:-1])
    if best_at_end and all(best_at_end):
        whose = f"the learning curves of the {subject.called}"
        yield f"{whose} were best at their last evaluation: it may want longer training"


def _about_the_rest(summary: ReportJson) -> Iterator[str]:
    test, winner, finalists = summary["test"], summary["winner"], summary["finalists"]
    if not is_missing(finalists) and all(each["fresh_score"] is None for each in finalists):
        yield "all finalists failed on the fresh seeds, so that the score of the search chose the winner"
    overtuning, data, baselines = summary["overtuning"], summary["data"], summary["baselines"]
    if not is_missing(test):
        if is_missing(winner) or test["trial"] != winner["number"]:
            yield f"the test score is that of trial {test['trial']}, which was the winner when the test part was opened"
        if test["openings_of_these_data"] > 1:
            yield f"the test part of these data was opened {test['openings_of_these_data']} times"
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
    objective = ObjectivePath.of(summary["study"]["objective"])
    if objective.is_kept:
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
