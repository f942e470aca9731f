"""Fields 13 to 15 and 23 of the report: the winner with its scores, and the baselines for winner and strategy."""

import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.config.documents import read_json
from hpo.config.sections import FAILURES
from hpo.errors import DocumentError, SpaceError, StudyError
from hpo.objectives.outside import OUTSIDE
from hpo.report.formatting import code_rows, sentence
from hpo.report.part import (
    Block,
    Count,
    Missing,
    Paragraph,
    Point,
    Positive,
    Table,
    is_missing,
    missing,
    reason_missing,
    require,
)
from hpo.report.sections import ReportJson
from hpo.report.sections.expected_score import ExpectedPart, Interval, describe_expected_score, interval_text
from hpo.report.sections.goal import aim_text, front_of, value_format
from hpo.report.sections.scores import Spread, spreads
from hpo.report.subject import score_of
from hpo.study.files.folder import short_path
from hpo.study.results.choosing import why_none
from hpo.study.results.expected import Expected
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy, training_command
from hpo.study.upgrade import upgraded
from hpo.study.view.view import TrialView
from hpo.trials.estimate import ExpectedScore
from hpo.trials.goal import Goal
from hpo.trials.score_format import score_format
from hpo.trials.space.first_points import default_at_target, why_no_default
from hpo.trials.space.space import point_key
from hpo.trials.trial import PARAMETERS, State, Trial, loss_of
from hpo.workers.objective.path import ObjectivePath


class FreshScore(TypedDict):
    """The winner's scores on fresh seeds. To choose the winner, hpo compared the finalists' scores on fresh seeds."""

    score: Annotated[float, Field(description="mean of `values`")]
    values: Annotated[list[float], Field(description="score for each pair of fold and fresh seed")]
    n: Positive
    standard_deviation: Annotated[
        float | None, Field(description="standard deviation of `values` (divisor n - 1); null = only one value")
    ]
    scores: Annotated[
        NotRequired[dict[str, Spread]],
        Field(
            description="mean over folds and fresh seeds, for each metric and for each other name in study.limits or "
            "study.measured; absent if the score is the only such value"
        ),
    ]


class Winner(TypedDict):
    """The winner (fields 14 and 15 of the report).

    `score`, `values` and `scores` come from the search; `fresh` has the scores on fresh seeds.
    """

    number: Count
    round: Count
    point: Point
    amount: Annotated[int | None, Field(description="planned amount of training of the winner; null = a full training")]
    reached: Annotated[
        NotRequired[float | None],
        Field(
            description="how far the winner was trained at its last report, in the unit of `amount`; with several "
            "folds or seeds, the smallest value; null = a training without reports; absent if `amount` is null"
        ),
    ]
    score: Annotated[float, Field(description="mean of `values`")]
    values: Annotated[
        dict[str, float], Field(description="score for each pair of fold and seed, by column of trials.csv")
    ]
    n: Positive
    standard_deviation: Annotated[
        float | None, Field(description="standard deviation of `values` (divisor n - 1); null = only one value")
    ]
    expected: Annotated[
        NotRequired[ExpectedPart | Missing], Field(description="mean score to expect from new trainings of the winner")
    ]
    num_parameters: int | None
    returned: Annotated[
        NotRequired[dict[str, float]],
        Field(
            description="mean over folds and seeds of each returned number that is not in `score`, `scores` or "
            "`num_parameters`, by name; absent if none"
        ),
    ]
    notes: Annotated[NotRequired[dict[str, float | str]], Field(description="the objective's notes; absent if none")]
    fresh: Annotated[
        NotRequired[FreshScore],
        Field(
            description="the winner's scores on fresh seeds; absent if the winner was chosen without such scores, for "
            "example in a study without finalists"
        ),
    ]
    scores: Annotated[
        NotRequired[dict[str, Spread]],
        Field(
            description="mean in the search, over folds and seeds, for each metric and for each other name in "
            "study.limits or study.measured; absent if the score is the only such value and the report has no `front`"
        ),
    ]
    config: str
    model: dict[str, Any] | None
    run: Annotated[dict[str, Any], Field(description="how to find the winner's run in the tracker")]


class Short(TypedDict):
    """A summary of one of the best trials."""

    number: Count
    score: float
    point: Point
    amount: Annotated[
        NotRequired[int], Field(description="planned amount of training of the trial; absent for a full training")
    ]
    reached: Annotated[
        NotRequired[float | None],
        Field(
            description="how far the trial was trained at its last report, in the unit of `amount`; with several "
            "folds or seeds, the smallest value; null = a training without reports; absent if `amount` is absent"
        ),
    ]
    scores: Annotated[
        NotRequired[dict[str, float]],
        Field(
            description="mean over folds and seeds, for each metric and for each other name in study.limits or "
            "study.measured; absent if the score is the only such value"
        ),
    ]
    is_on_front: Annotated[NotRequired[bool], Field(description="absent if the study has one metric and no limit")]
    excess: Annotated[
        NotRequired[float],
        Field(
            ge=0,
            description="how far the trial is beyond each limit, divided by the limit's absolute value, summed over "
            "the limits; absent if the study has one metric and no limit",
        ),
    ]


class DefaultTrial(TypedDict):
    """The default configuration's trial."""

    number: int
    score: float | None
    state: State
    amount: Annotated[int | None, Field(description="planned amount of training of the trial; null = a full training")]
    values: Annotated[dict[str, float], Field(description="score for each pair of fold and seed")]
    scores: Annotated[
        NotRequired[dict[str, float]],
        Field(
            description="mean over folds and seeds, for each metric and for each other name in study.limits or "
            "study.measured; absent if the score is the only such value, or if the trial is not complete"
        ),
    ]
    gain: Annotated[
        NotRequired[Interval],
        Field(
            description="expected gain of the winner over the default configuration in the leading metric; "
            "above 0 = the winner is better; absent if not known"
        ),
    ]


class Baselines(TypedDict):
    """The baselines, which are field 13 of the report: the default configuration, and random search."""

    default: DefaultTrial | Missing
    random: dict[str, Any] | Missing


_UNFINISHED = {"failed": "failed", "stopped": "was stopped"}


def describe_winner(study: PreparedStudy, run: StudyRun, expected: Expected | Missing | None) -> Winner | Missing:
    """Return the winner's point, scores and expected score, and the paths of its configuration and model.

    If there is no winner, return the reason.
    """
    winner = run.winner
    if winner is None:
        return no_winner(run)
    values = winner.values(study.config.study.metric)
    tasks = [study.layout.name(index) for index in sorted(winner.outcomes)]
    described: Winner = {
        "number": winner.number,
        "round": winner.round,
        "point": dict(winner.point),
        "amount": winner.amount,
        "score": score_of(winner),
        "values": dict(zip(tasks, values, strict=True)),
        "n": len(values),
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "expected": describe_expected_score(expected, run),
        "num_parameters": winner.num_parameters,
        "config": str(short_path(study.folder.best_path)),
        "model": vars(run.model) if run.model else None,
        "run": {"study": study.config.study.name, "trial": winner.number, "tag": f"hpo.trial={winner.number}"},
    }
    known = (*study.goal.names, PARAMETERS)
    if returned := {name: value for name, value in winner.belonging("metrics").items() if name not in known}:
        described["returned"] = cast("dict[str, float]", returned)
    if notes := winner.belonging("notes"):
        described["notes"] = notes
    if winner.amount is not None:
        described["reached"] = winner.reached
    if run.has_front or len(study.goal.names) > 1:
        described["scores"] = spreads(winner, study.goal)
    if (fresh := run.fresh_winner) is not None:
        described["fresh"] = _fresh_score(fresh, study.goal)
    return described


def _fresh_score(again: Trial, goal: Goal) -> FreshScore:
    values = again.values(goal.metric)
    fresh: FreshScore = {
        "score": score_of(again),
        "values": values,
        "n": len(values),
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
    }
    return fresh if len(goal.names) == 1 else {**fresh, "scores": spreads(again, goal)}


def chosen_score(winner: Winner) -> FreshScore | Winner:
    """Return the scores that chose the winner: its scores on fresh seeds, or its scores in the search."""
    return winner.get("fresh", winner)


def winner_view(report: ReportJson) -> TrialView:
    """Return the winner as a `TrialView`, made from the report. Raise UnknownValueError if there is no winner."""
    winner, metric = require(report["winner"]), report["metric"]["name"]
    chosen, write = chosen_score(winner), score_text(report)

    def scores(of: FreshScore | Winner) -> dict[str, float]:
        return {metric: of["score"]} | {name: each["mean"] for name, each in of.get("scores", {}).items()}

    def texts(values: Mapping[str, float]) -> dict[str, str]:
        writes = {name: write if name == metric else value_format(report, name) for name in values}
        return {name: writes[name](value) for name, value in values.items()}

    in_search, expected = {} if chosen is winner else scores(winner), ExpectedScore.of(report)
    return TrialView(
        trial=winner["number"],
        score=chosen["score"],
        scores=scores(chosen),
        search_scores=in_search,
        texts=texts(scores(chosen)),
        search_texts=texts(in_search),
        point=winner["point"],
        trainings=chosen["n"],
        standard_deviation=chosen["standard_deviation"],
        expected=expected,
        expected_texts=expected.texts(write) if expected else {},
        amount=winner["amount"],
        reached=winner.get("reached"),
        full_amount=require(report["strategy"]).get("max_amount"),
    )


def spread_note(view: TrialView) -> str:
    """Return a note that explains a view's `standard_deviation` (±) and `expected`; empty if both are None."""
    notes = [] if view.standard_deviation is None else [f"± standard deviation, n = {view.trainings}"]
    if view.expected is not None:
        notes.append("expected: the mean score to expect from new trainings of the winner, with its 95 % interval")
    return f" ({'; '.join(notes)})" if notes else ""


def over_text(tasks: Iterable[str]) -> str:
    """Return what distinguishes a trial's tasks, given their names: `folds`, `seeds`, or `folds and seeds`.

    For a single task, return `folds`.
    """
    folds, repeats = zip(*(name.partition("_repeat_")[::2] for name in tasks), strict=True)
    has_seeds, has_folds = len(set(repeats)) > 1, len(set(folds)) > 1
    return "folds and seeds" if has_seeds and has_folds else "seeds" if has_seeds else "folds"


def no_winner(run: StudyRun) -> Missing:
    """Return the reason why there is no winner."""
    return missing(f"there is no winner: {why_none(run.history, run.goal)}")


def describe_short(trial: Trial, goal: Goal, front: Collection[int] = ()) -> Short:
    """Return the summary of one of the best trials; `front` contains the trial numbers of the Pareto front."""
    short: Short = {"number": trial.number, "score": score_of(trial), "point": dict(trial.point)}
    if trial.amount is not None:
        short["amount"], short["reached"] = trial.amount, trial.reached
    if len(goal.names) > 1:
        short["scores"] = {name: trial.mean(name) for name in goal.names}
    if not goal.is_single:
        short["is_on_front"] = trial.number in front
        short["excess"] = trial.excess
    return short


def describe_baselines(
    study: PreparedStudy,
    trials: Sequence[Trial],
    comparison: dict[str, Any] | Missing,
    expected: Expected | Missing | None,
) -> Baselines:
    """Return two baselines: the trial of the default configuration, and the result of random search.

    The result of random search comes from `comparison`, the report's section on `hpo compare`. If the study's own
    strategy is random search, the study itself is this baseline. If a baseline is missing, return the reason in its
    place.
    """
    random: dict[str, Any] | Missing = {"this_study": True}
    if study.config.study.extends is not None:
        random = missing(f"another study chose these trials: see the report of {study.config.study.extends.study}")
    elif study.config.strategy["name"] != "random":
        standings = [] if is_missing(comparison) else comparison["standings"]
        scores = [s for s in standings if s["label"] == "random" and s["unit"] == "trials"]
        random = missing(f"the study was not compared with random search; to compare them: {comparison_command(study)}")
        if scores:
            name = "mean_score" if len(study.goal.metrics) == 1 else "mean_hypervolume_regret"
            random = {"this_study": False, "trials": scores[0]["budget"], name: scores[0]["mean_score"]}
    return {"default": _default(study, trials, expected), "random": random}


def _default(
    study: PreparedStudy, trials: Sequence[Trial], expected: Expected | Missing | None
) -> DefaultTrial | Missing:
    if none := why_no_default(study.space, study.config):
        return missing(none)
    try:
        point = default_at_target(study.space, study.config)
    except SpaceError as error:
        return missing(f"the default configuration is outside of the space: {str(error).partition(': ')[2]}")
    found = [trial for trial in trials if trial.key == point_key(point)]
    if not found and study.goal.target:
        return missing("the default configuration was not trained at the target")
    if not found and study.config.study.extends is not None:
        return missing(
            f"the default configuration is not among the trials taken from study {study.config.study.extends.study}"
        )
    if not found:
        return missing("the default configuration is not among the trials: write `first: [default]` into the space")
    # With halving or retries, the default may have several trials; take a complete one with the most training.
    default = min(found, key=lambda trial: (-(trial.amount or 0), trial.state != "complete", trial.number))
    metric, layout = study.config.study.metric, study.layout
    values = {layout.name(index): outcome.metrics.get(metric) for index, outcome in sorted(default.outcomes.items())}
    described: DefaultTrial = {
        "number": default.number,
        "score": default.score,
        "state": default.state,
        "amount": default.amount,
        "values": {name: value for name, value in values.items() if value is not None},
    }
    if default.state == "complete" and len(study.goal.names) > 1:
        described["scores"] = {name: default.mean(name) for name in study.goal.names}
    gain = None if expected is None or is_missing(expected) else expected.gain_over(default)
    if gain is not None:
        described["gain"] = {"value": gain.value, "low": gain.low, "high": gain.high}
    return described


def describe_comparison(study: PreparedStudy) -> dict[str, Any] | Missing:
    """Return the fields `name`, `repeats`, `standings`, `pairs` and `method` of the study's comparison.

    The comparison is in `compare-<study>` next to the study's folder. If the comparison does not exist, or if its
    metrics or limits differ from the study's, return the reason.
    """
    config = study.config.study
    path = study.folder.path.parent / f"compare-{config.name}" / "comparison.json"
    result: dict[str, Any] = {"kind": None}
    try:
        if path.exists():
            result = upgraded("comparison", read_json(path), str(short_path(path)))
    except (StudyError, DocumentError) as error:
        return missing(str(error))
    goal, of_several = study.goal, result.get("fronts")
    metrics = of_several["metrics"] if of_several else {result.get("metric"): result.get("direction")}
    limits = [str(limit) for limit in goal.limits]
    if result["kind"] != "strategies" or metrics != goal.metrics or result.get("limits", []) != limits:
        return missing(f"one search does not show which strategy is better; repeat it: {comparison_command(study)}")
    return {key: result[key] for key in ("name", "repeats", "standings", "pairs", "method")}


def comparison_command(study: PreparedStudy) -> str:
    """Return the command that compares the study's strategy with random search.

    If the study's strategy is random search, the command compares random search with `shifting_window`. For a pickled
    objective, return the Python call. For a study with scales, return a text with two steps.
    """
    name = study.config.strategy["name"]
    others = "random" if name != "random" else "shifting_window"
    if study.objective.pickled is not None:
        function = ObjectivePath.of(study.config.objective).function
        return (
            f'hpo.compare_strategies({function}, space, strategies=["{others}", "{name}"], ...) with '
            f"the other arguments of hpo.search"
        )
    section = study.config.study
    if section.scales is not None:
        # `hpo compare --strategies` cannot repeat a search with several scales.
        return f"search again with another strategy, then run hpo compare {section.name} OTHER"
    # `hpo compare --strategies` refuses settings that have no effect on it, so reset them.
    neutral = {"finalists": 0, "storage": None, "stop_after_failures": FAILURES}
    changed = [(key, value) for key, value in neutral.items() if getattr(section, key) != value]
    left_out = "".join(f" study.{key}={'null' if value is None else value}" for key, value in changed)
    return f"hpo compare --strategies {others},{name} --config {short_path(study.folder.config_path)}{left_out}"


def read_winner(report: ReportJson) -> Iterator[Block]:
    """Yield the winner, its scores, and the command that trains it; without a winner, yield only the reason."""
    winner = report["winner"]
    if is_missing(winner):
        yield Paragraph(sentence(winner["missing"]))
        return
    view, text, against = winner_view(report), score_text(report), against_default(report)
    score = f"**{view.values_with_spread}**{spread_note(view)}{view.amount_text}"
    result = f"Trial {view.trial}: {score}, chosen by {report['chosen_by']}."
    if reason := reason_missing(winner.get("expected")):
        result = f"{result} It is not known how much of this score is chance: {reason}."
    if scores := [*_metrics_table(report)]:
        yield from (Paragraph(result), *scores, Paragraph(against))
    else:
        yield Paragraph(f"{result}\n{against}")
    yield Table(("hyperparameter", "value"), code_rows(winner["point"]))
    in_search = " in the search" if "fresh" in winner else ""
    if others := {**winner.get("returned", {}), **winner.get("notes", {})}:
        yield Table((f"other results and notes{in_search}", "value"), code_rows(others))
    yield Paragraph(
        f"{over_text(winner['values']).capitalize()}{in_search}: {', '.join(map(text, winner['values'].values()))}.\n"
        f"{_training_text(report['study']['objective'], winner['config'])}"
    )


def _metrics_table(report: ReportJson) -> Iterator[Block]:
    """If there is a front, yield a table of the winner's and the default's value for each name in `goal.names`."""
    winner, front = require(report["winner"]), front_of(report)
    if "scores" not in winner or front is None:
        return
    default = require(report["baselines"])["default"]
    theirs = {} if is_missing(default) else default.get("scores", {})
    expected = winner.get("expected")
    expectations = {} if expected is None or is_missing(expected) else expected.get("scores", {})
    rows = []
    for name, score in chosen_score(winner).get("scores", {}).items():
        text, one = value_format(report, name), expectations.get(name)
        expectation = "–" if one is None else interval_text(one, text)
        rows.append(
            (aim_text(front, name), expectation, text(score["mean"]), text(theirs[name]) if name in theirs else "–")
        )
    yield Table(("metric", "expected (95 % interval)", "on validation", "default configuration"), rows)


def against_default(summary: ReportJson) -> str:
    """Return a sentence that says by how much the winner is better or worse than the default configuration.

    The difference is in the unit of the leading metric. If the winner's expected score is known, the sentence uses
    the expected score, and gives an interval. Otherwise, the sentence uses the score in the search. The score in the
    search is too optimistic, because it is the best of many. If the winner and the default cannot be compared, the
    sentence says why.
    """
    winner, baselines = summary["winner"], summary["baselines"]
    default = baselines if is_missing(baselines) else baselines["default"]
    if is_missing(winner) or is_missing(default):
        return sentence(reason_missing(winner) or reason_missing(default) or "")
    text, front = score_text(summary), front_of(summary)
    several = front is not None and len(front["metrics"]) > 1
    leading = f", in {summary['metric']['name']}, the leading metric" if several else ""
    direction = summary["metric"]["direction"]
    score, number = default["score"], default["number"]
    if number == winner["number"]:
        return f"The winner is the default configuration{'' if leading else ', so the search brought no gain'}."
    if score is None or default["state"] in _UNFINISHED:
        return f"The default configuration (trial {number}) {_UNFINISHED.get(default['state'], 'has not ended')}."
    if default["amount"] != winner["amount"]:
        trained = f"(trial {number}) was trained to {default['amount']} only, and has {text(score)}"
        return f"The default configuration {trained}: its score is not comparable with the winner's."
    theirs = f"the default configuration, which has {text(score)} (trial {number}){leading}"
    if expected := default.get("gain"):
        gain, low, high = expected["value"], expected["low"], expected["high"]
        chance = ", which may be chance" if low <= 0 <= high else ""
        place, within = "The winner is expected to be", f" (95 % {text(low)} to {text(high)}{chance})"
    else:
        gain, place, within = loss_of(score - winner["score"], direction), "In the search, the winner is", ""
    if gain == 0:
        return f"{place} as good as {theirs}."
    return f"{place} {'better' if gain > 0 else 'worse'} by {text(abs(gain))}{within} than {theirs}."


def _training_text(objective: str, best: str) -> str:
    if objective == OUTSIDE:
        return f"The configuration of the winner: `{best}`."
    return f"Train the winner: `{training_command(objective, best)}`."


def score_text(summary: ReportJson) -> Callable[[float], str]:
    """Return the function that formats a report's scores.

    The digits are enough to distinguish the five best trials, the winner and the default configuration.
    """
    default = require(summary["baselines"])["default"]
    others = [] if is_missing(default) else [default["score"]]
    winner = summary["winner"]
    if not is_missing(winner):
        others.append(chosen_score(winner)["score"])
    return score_format([*(trial["score"] for trial in summary["top"]), *others])
