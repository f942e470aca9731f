"""Fields 16 and 22 of the report: scores on the test split, overtuning of the winner, and finalists on fresh seeds."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.report.formatting import sentence, times_text
from hpo.report.part import Block, Items, Missing, Paragraph, Table, is_missing, missing, reason_missing
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import front_of, names_of, value_format
from hpo.report.sections.winner import Winner, score_text
from hpo.study.results.after_search import Finalist
from hpo.study.study import PreparedStudy
from hpo.study.winner.estimates import ScoresOnTest
from hpo.trials.goal import Goal
from hpo.trials.score_format import score_format, with_spread
from hpo.trials.space.first_points import why_no_default
from hpo.trials.trial import Direction, loss_of


class EstimatePart(TypedDict):
    """A value on the test split, or the difference of two such values, with a 95 % interval."""

    value: float
    low: Annotated[float | None, Field(description="lower end of the 95 % interval of `value`; null = no interval")]
    high: Annotated[float | None, Field(description="upper end of the 95 % interval of `value`; null = no interval")]
    n: Annotated[int | None, Field(description="number of examples in the test split")]
    note: Annotated[str, Field(description="how the interval was computed, or why there is no interval")]


class TestedMember(TypedDict):
    """A trial of the Pareto front, with its scores on the test split, or with the reason why it has no such scores."""

    trial: int
    metrics: Annotated[NotRequired[dict[str, float]], Field(description="test values by name; absent without a score")]
    estimates: Annotated[
        NotRequired[dict[str, EstimatePart]], Field(description="test values with intervals, as in `test.estimates`")
    ]
    error: Annotated[NotRequired[str], Field(description="why the trial has no score; absent if it has one")]
    validation_score: float
    validation_metrics: Annotated[
        dict[str, float],
        Field(
            description="mean in the search, over folds and seeds, for each metric and for each other name in "
            "study.limits or study.measured"
        ),
    ]


class TestPart(TypedDict):
    """The result of `hpo test` (field 16 of the report)."""

    time: str
    study: str
    study_id: str
    trial: int
    fingerprint: Annotated[str, Field(description="SHA-256 of the examples in the test split")]
    metrics: dict[str, float]
    estimates: Annotated[
        NotRequired[dict[str, EstimatePart]],
        Field(
            description="the values in `metrics` with their 95 % intervals, by name; the study's metrics and the "
            "names in study.limits and study.measured are always present; any other name is present only if its value "
            "has an interval"
        ),
    ]
    difference: Annotated[
        NotRequired[dict[str, EstimatePart]],
        Field(description="the winner's value minus the default configuration's value, by name"),
    ]
    size: int
    validation_score: Annotated[
        float,
        Field(
            description="the winner's score: on fresh seeds if the winner was chosen on fresh seeds, otherwise in the "
            "search"
        ),
    ]
    search_score: Annotated[
        NotRequired[float],
        Field(description="the winner's score in the search; absent if `validation_score` is this score"),
    ]
    evaluations_of_these_data: int
    default: Annotated[
        dict[str, Any] | None,
        Field(description="the default configuration's `metrics` and `estimates`, or its `error`; null = not scored"),
    ]
    scored: Annotated[
        NotRequired[list[int]],
        Field(description="the scored trials, by trial number; absent without `hpo test --front`"),
    ]
    front: Annotated[
        NotRequired[list[TestedMember]],
        Field(description="the winner, then the other trials of the front; absent without `hpo test --front`"),
    ]
    scored_of_these_data: Annotated[
        NotRequired[int],
        Field(
            description="number of scored trials, summed over all evaluations of this test split; absent without "
            "`hpo test --front`"
        ),
    ]


class OnTest(TypedDict):
    """The test scores of the default configuration and of the winner.

    `gain` is the difference between the two scores. Above 0, the winner is better than the default configuration.
    """

    default: float
    winner: float
    gain: float


class Overtuning(TypedDict):
    """The winner's test score, compared with two other scores (field 22 of the report).

    `gap` compares the test score with the score that chose the winner. `default_on_test` compares the test score with
    the test score of the default configuration.
    """

    gap: Annotated[
        float | Missing,
        Field(description="how much worse the winner's test score is than its score before the test; above 0 = worse"),
    ]
    default_on_test: OnTest | Missing


class FinalistPart(TypedDict):
    """A trial that was also trained on fresh seeds."""

    number: int
    search_score: float | None
    fresh_score: float | None
    fresh_standard_deviation: float | None
    fresh_values: list[float]
    search_scores: Annotated[
        NotRequired[dict[str, float]],
        Field(
            description="mean in the search, over folds and seeds, for each metric and for each other name in "
            "study.limits or study.measured; absent if the score is the only such value"
        ),
    ]
    fresh_scores: Annotated[
        NotRequired[dict[str, float]],
        Field(
            description="mean over folds and fresh seeds, for each metric and for each other name in study.limits or "
            "study.measured; absent if the score is the only such value, or if `fresh_score` is null"
        ),
    ]
    error: Annotated[
        str | None,
        Field(
            description="why the trial failed on fresh seeds; null = `fresh_score` has a value, or the trainings are "
            "not finished"
        ),
    ]


def describe_test(study: PreparedStudy) -> TestPart | Missing:
    """Return the result of `hpo test`, or the reason why there is no such result."""
    result = study.folder.test_result()
    if result is not None:
        return cast("TestPart", result)
    if "test" not in study.described.parts:
        return missing("there is no test split")
    return missing(f"no model was scored on the test split; to score the winner: hpo test {study.reference}")


def describe_overtuning(study: PreparedStudy, winner: Winner | Missing, test: TestPart | Missing) -> Overtuning:
    """Return the comparison of winner and default on the test split, and the gap from validation to test.

    In place of an unknown value, the result has the reason why the value is unknown.

    Source: Schneider et al. 2025, "Overtuning in Hyperparameter Optimization" (arXiv 2506.19540).
    """
    if is_missing(winner) or is_missing(test):
        absent = missing(reason_missing(test) or reason_missing(winner) or "")
        return {"default_on_test": absent, "gap": absent}
    metric, direction = study.config.study.metric, study.config.study.direction
    none = why_no_default(study.space, study.config)
    against = (
        missing(none) if none else _compare_with_default(test["default"], test["metrics"][metric], metric, direction)
    )
    return {"gap": loss_of(test["metrics"][metric] - test["validation_score"], direction), "default_on_test": against}


def _compare_with_default(
    default: Mapping[str, Any] | None, winner: float, metric: str, direction: Direction
) -> OnTest | Missing:
    if default is None:
        return missing("`hpo test` did not score the default configuration")
    if "error" in default:
        return missing(f"the default configuration has no score: {default['error']}")
    score = default["metrics"][metric]
    return {"default": score, "winner": winner, "gain": loss_of(score - winner, direction)}


def describe_finalists(finalists: Sequence[Finalist], goal: Goal) -> list[FinalistPart] | Missing:
    """Return the scores of each finalist in the search and on fresh seeds, or the reason why there are no finalists."""
    if not finalists:
        return missing("no finalists were trained on fresh seeds: set study.finalists=3")
    return [_finalist(finalist, finalist.again.values(goal.metric), goal) for finalist in finalists]


def _finalist(finalist: Finalist, values: list[float], goal: Goal) -> FinalistPart:
    part: FinalistPart = {
        "number": finalist.trial.number,
        "search_score": finalist.trial.score,
        "fresh_score": finalist.again.score,
        "fresh_standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "fresh_values": values,
        "error": finalist.again.error if finalist.again.state != "running" else None,
    }
    if len(goal.names) > 1:
        part["search_scores"] = {name: finalist.trial.mean(name) for name in goal.names}
        if finalist.again.state == "complete":
            part["fresh_scores"] = {name: finalist.again.mean(name) for name in goal.names}
    return part


def is_unfinished(finalist: FinalistPart) -> bool:
    """Return whether a finalist's trainings on fresh seeds are not finished."""
    return finalist["fresh_score"] is None and finalist["error"] is None


def read_test(report: ReportJson) -> Iterator[Block]:
    """Yield the scores of the tested trial, and how often the test split was evaluated.

    Without a test result, yield the reason. If there is no winner either, yield nothing.
    """
    test = report["test"]
    if is_missing(test):
        # Without a winner there is nothing to test, so give no reason.
        yield from () if is_missing(report["winner"]) else (Paragraph(sentence(test["missing"])),)
        return
    metric, count, text = report["metric"]["name"], test["evaluations_of_these_data"], score_text(report)
    scores, times = ScoresOnTest.of(test), times_text(count)
    front = front_of(report)
    others = [] if front is None else [name for name in names_of(front)[1:] if name in test["metrics"]]
    also = "".join(f", {name} **{scores.metrics[name].text(value_format(report, name), False)}**" for name in others)
    score, blank, interval = scores.metrics[metric].text(text).partition(" ")
    comparison = ""
    if metric in scores.default:
        comparison += f" The default configuration in the same test: {scores.default[metric].text(text, note=False)}."
    if metric in scores.difference:
        comparison += f" The winner's score minus the default's score: {scores.difference[metric].text(text)}."
    yield Paragraph(
        f"Test {metric}: **{score}**{blank}{interval}{also} on {test['size']:,} examples, trial {test['trial']}, "
        f"evaluated {test['time']}. This "
        f"test split has been evaluated {times if count == 1 else f'**{times}**, by all studies of this data'}."
        + comparison
    )
    if "front" in test:
        yield from _read_tested_front(test["front"])


def _read_tested_front(members: Sequence[TestedMember]) -> Iterator[Block]:
    """Yield a table of the front's scores on the test split and in the search, and a reason for each missing score."""
    names = list(members[0]["validation_metrics"])
    columns = [[str(member["trial"]) for member in members]]
    for name in names:
        scores = [member.get("metrics", {}).get(name) for member in members]
        in_search = [member["validation_metrics"][name] for member in members]
        text = score_format([*scores, *in_search])
        columns += [["–" if score is None else text(score) for score in scores], list(map(text, in_search))]
    head = [words for name in names for words in (f"test {name}", "in the search")]
    yield Paragraph(
        f"The same test scored all {len(members)} trials of the front, the winner first. Choosing another trial by "
        f"these scores would be a choice on the test split."
    )
    yield Table(("trial", *head), list(zip(*columns, strict=True)))
    yield Items([f"trial {each['trial']} has no score: {each['error']}" for each in members if "error" in each])


def read_finalists(report: ReportJson) -> Iterator[Block]:
    """Yield the finalists' scores in the search and on fresh seeds; nothing without finalists."""
    finalists = report["finalists"]
    if is_missing(finalists):
        return
    text = score_format(score for each in finalists for score in (each["search_score"], each["fresh_score"]))
    front = front_of(report)
    names = [] if front is None else names_of(front)[1:]
    writes = {name: value_format(report, name) for name in names}
    rows = []
    for each in finalists:
        assert each["search_score"] is not None, "only complete trials are finalists"
        fresh, spread = each["fresh_score"], each["fresh_standard_deviation"]
        score = "not finished" if is_unfinished(each) else f"failed: {each['error']}"
        if fresh is not None:
            score, error = with_spread(text, fresh, spread)
            score += f" ± {error} (n = {len(each['fresh_values'])})" if error else ""
        again = each.get("fresh_scores", {})
        # Each further column has two values: in the search, and on fresh seeds.
        further = [
            f"{write(each['search_scores'][name])}, {write(again[name]) if again else '–'}"
            for name, write in writes.items()
        ]
        rows.append((str(each["number"]), text(each["search_score"]), score, *further))
    yield Table(("finalist", "in the search", "on fresh seeds", *names), rows)
