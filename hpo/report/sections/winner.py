"""The winner, its scores, and what it and its strategy are compared with: fields 13 to 15 and 23."""

import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.config.documents import read_json
from hpo.config.sections import FAILURES
from hpo.errors import DocumentError, SpaceError, StudyError
from hpo.objectives.outside import OUTSIDE
from hpo.report.formatting import code_rows, sentence
from hpo.report.part import (
    EXACT,
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
from hpo.report.sections.expected_score import (
    ExpectedPart,
    Interval,
    describe_expected_score,
    interval_text,
)
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


@with_config(EXACT)
class FreshScore(TypedDict):
    """What a winner has on the fresh seeds that chose it among the finalists."""

    score: Annotated[float, Field(description="mean of `values`")]
    values: Annotated[list[float], Field(description="score of each fold and fresh seed")]
    n: Positive
    standard_deviation: Annotated[float | None, Field(description="of `values`, with n - 1; null for one value")]
    scores: NotRequired[
        Annotated[
            dict[str, Spread], Field(description="of each metric, and of what has a limit; absent with one score")
        ]
    ]


@with_config(EXACT)
class Winner(TypedDict):
    """Fields 14 and 15; scores are of the search."""

    number: Count
    round: Count
    point: Point
    amount: Annotated[int | None, Field(description="how far it was to be trained; null = all of its training")]
    reached: NotRequired[
        Annotated[
            float | None,
            Field(
                description="the amount at its last report, null = none; absent where the strategy trains completely"
            ),
        ]
    ]
    score: Annotated[float, Field(description="mean of `values`")]
    values: Annotated[dict[str, float], Field(description="score of each fold and seed, by its column in trials.csv")]
    n: Positive
    standard_deviation: Annotated[float | None, Field(description="of `values`, with n - 1; null for one value")]
    expected: NotRequired[Annotated[ExpectedPart | Missing, Field(description="what it is expected to score anew")]]
    num_parameters: int | None
    returned: NotRequired[
        Annotated[dict[str, float], Field(description="means of what else the objective returned; absent with none")]
    ]
    notes: NotRequired[
        Annotated[dict[str, float | str], Field(description="what the objective noted; absent with nothing")]
    ]
    fresh: NotRequired[
        Annotated[FreshScore, Field(description="the score by which it was chosen; absent where `score` is that")]
    ]
    scores: NotRequired[
        Annotated[
            dict[str, Spread], Field(description="of each metric, and of what has a limit; absent with one score")
        ]
    ]
    config: str
    model: dict[str, Any] | None
    run: Annotated[dict[str, Any], Field(description="how its run is found in the tracker")]


@with_config(EXACT)
class Short(TypedDict):
    """One trial of the best."""

    number: Count
    score: float
    point: Point
    amount: NotRequired[
        Annotated[int, Field(description="how far it was to be trained; absent where the strategy trains completely")]
    ]
    reached: NotRequired[
        Annotated[float | None, Field(description="the amount at its last report, null = none; absent likewise")]
    ]
    scores: NotRequired[
        Annotated[dict[str, float], Field(description="of each metric, and of what has a limit; absent with one score")]
    ]
    is_on_front: NotRequired[Annotated[bool, Field(description="absent likewise")]]
    excess: NotRequired[
        Annotated[float, Field(ge=0, description="how far it is beyond the limits, as a share; absent likewise")]
    ]


class DefaultTrial(TypedDict):
    """The default configuration's trial."""

    number: int
    score: float | None
    state: State
    amount: Annotated[int | None, Field(description="how far it was trained; null = all of its training")]
    values: Annotated[dict[str, float], Field(description="score of each fold and seed")]
    scores: NotRequired[
        Annotated[
            dict[str, float],
            Field(description="of each metric, and of what has a limit; absent with one score, or where it has none"),
        ]
    ]
    gain: NotRequired[
        Annotated[
            Interval,
            Field(
                description="by how much the winner is expected to be better in the (leading) metric; "
                "above 0 is better; absent where it is not known"
            ),
        ]
    ]


@with_config(EXACT)
class Baselines(TypedDict):
    """Field 13."""

    default: DefaultTrial | Missing
    random: dict[str, Any] | Missing


_UNFINISHED = {"failed": "failed", "stopped": "was stopped"}


def describe_winner(study: PreparedStudy, run: StudyRun, expected: Expected | Missing | None) -> Winner | Missing:
    """Return the winner's point, what it scored and is expected to, and the paths of its configuration and model."""
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
        "expected": describe_expected_score(expected, study.goal),
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
    if run.has_front:
        described["scores"] = spreads(winner, study.goal)
    if (fresh := run.fresh_winner) is not None:
        described["fresh"] = _fresh(fresh, study.goal)
    return described


def _fresh(again: Trial, goal: Goal) -> FreshScore:
    values = again.values(goal.metric)
    fresh: FreshScore = {
        "score": score_of(again),
        "values": values,
        "n": len(values),
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
    }
    return fresh if goal.is_single else {**fresh, "scores": spreads(again, goal)}


def chosen_score(winner: Winner) -> FreshScore | Winner:
    """Return the scores by which the winner was chosen: those on fresh seeds, where finalists had some."""
    return winner.get("fresh", winner)


def winner_view(report: ReportJson) -> TrialView:
    """Return the winner as it is shown anywhere; UnknownValueError where there is none."""
    winner, metric = require(report["winner"]), report["metric"]["name"]
    by, write = chosen_score(winner), score_text(report)

    def scores(of: FreshScore | Winner) -> dict[str, float]:
        return {metric: of["score"]} | {name: each["mean"] for name, each in of.get("scores", {}).items()}

    def texts(values: Mapping[str, float]) -> dict[str, str]:
        writes = {name: write if name == metric else value_format(report, name) for name in values}
        return {name: writes[name](value) for name, value in values.items()}

    in_search, expected = {} if by is winner else scores(winner), ExpectedScore.of(report)
    return TrialView(
        trial=winner["number"],
        score=by["score"],
        scores=scores(by),
        search_scores=in_search,
        texts=texts(scores(by)),
        search_texts=texts(in_search),
        point=winner["point"],
        trainings=by["n"],
        standard_deviation=by["standard_deviation"],
        expected=expected,
        expected_texts=expected.texts(write) if expected else {},
        amount=winner["amount"],
        reached=winner.get("reached"),
        full_amount=require(report["strategy"]).get("max_amount"),
    )


def spread_note(view: TrialView) -> str:
    """Return what follows the winner's values with their spread; empty of a single training."""
    return f" (± standard deviation, n = {view.trainings})" if view.standard_deviation is not None else ""


def no_winner(run: StudyRun) -> Missing:
    """Return why there is no winner."""
    return missing(f"there is no winner: {why_none(run.history, run.goal)}")


def describe_short(trial: Trial, goal: Goal, front: Collection[int] = ()) -> Short:
    """Return one of the best trials in short; `front` has the numbers of those that none dominates."""
    short: Short = {"number": trial.number, "score": score_of(trial), "point": dict(trial.point)}
    if trial.amount is not None:
        short["amount"], short["reached"] = trial.amount, trial.reached
    if not goal.is_single:
        short["scores"] = {name: trial.mean(name) for name in goal.names}
        short["is_on_front"] = trial.number in front
        short["excess"] = trial.excess
    return short


def describe_baselines(
    study: PreparedStudy,
    trials: Sequence[Trial],
    comparison: dict[str, Any] | Missing,
    expected: Expected | Missing | None,
) -> Baselines:
    """Return the default configuration's trial, and random search at equal budget, if they exist."""
    random: dict[str, Any] | Missing = {"this_study": True}
    if study.config.strategy["name"] != "random":
        standings = [] if is_missing(comparison) else comparison["standings"]
        scores = [s for s in standings if s["label"] == "random" and s["unit"] == "trials"]
        random = missing(f"no random search stands beside it: {comparison_command(study)}")
        if scores:
            what = "mean_score" if len(study.goal.metrics) == 1 else "mean_hypervolume_regret"
            random = {"this_study": False, "trials": scores[-1]["budget"], what: scores[-1]["mean_score"]}
    return {"default": _default(study, trials, expected), "random": random}


def _default(
    study: PreparedStudy, trials: Sequence[Trial], expected: Expected | Missing | None
) -> DefaultTrial | Missing:
    if none := why_no_default(study.space, study.config):
        return missing(none)
    try:
        point = default_at_target(study.space, study.config)
    except SpaceError as error:
        return missing(f"the default configuration lies outside of the space: {str(error).partition(': ')[2]}")
    those = [trial for trial in trials if trial.key == point_key(point)]
    if not those and study.goal.target:
        return missing("the default configuration was not trained at the target")
    if not those:
        return missing("the default configuration is not among the trials: write `first: [default]` into the space")
    # With halving, the one that was trained furthest.
    default = min(those, key=lambda trial: (-(trial.amount or 0), trial.number))
    metric, layout = study.config.study.metric, study.layout
    values = {layout.name(index): outcome.metrics.get(metric) for index, outcome in sorted(default.outcomes.items())}
    described: DefaultTrial = {
        "number": default.number,
        "score": default.score,
        "state": default.state,
        "amount": default.amount,
        "values": {name: value for name, value in values.items() if value is not None},
    }
    if default.state == "complete" and not study.goal.is_single:
        described["scores"] = {name: default.mean(name) for name in study.goal.names}
    gain = None if expected is None or is_missing(expected) else expected.gain_over(default)
    if gain is not None:
        described["gain"] = {"value": gain.value, "low": gain.low, "high": gain.high}
    return described


def describe_comparison(study: PreparedStudy) -> dict[str, Any] | Missing:
    """Return the pairs and standings of `runs/compare-<study>`, or why there are none."""
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
        return missing(f"one search does not tell which strategy is better; repeat it: {comparison_command(study)}")
    return {key: result[key] for key in ("name", "repeats", "standings", "pairs", "method")}


def comparison_command(study: PreparedStudy) -> str:
    """Return what repeats this search and random search at equal budget: a command, or for a function Python."""
    name = study.config.strategy["name"]
    others = "random" if name != "random" else "shifting_window"
    if study.objective.pickled is not None:
        function = ObjectivePath.of(study.config.objective).function
        return (
            f'hpo.compare_strategies({function}, space, strategies=["{others}", "{name}"], ...), the other arguments '
            f"as of hpo.search"
        )
    section = study.config.study
    if section.scales is not None:
        # Whole searches are compared at one scale.
        return f"search again by another strategy, then hpo compare {section.name} OTHER"
    # What has no effect in a comparison is refused there.
    neutral = {"finalists": 0, "storage": None, "stop_after_failures": FAILURES}
    changed = [(key, value) for key, value in neutral.items() if getattr(section, key) != value]
    left_out = "".join(f" study.{key}={'null' if value is None else value}" for key, value in changed)
    return f"hpo compare --strategies {others},{name} --config {short_path(study.folder.config_path)}{left_out}"


def read_winner(report: ReportJson) -> Iterator[Block]:
    """Say which trial won, how good it is, and how it is trained."""
    winner = report["winner"]
    if is_missing(winner):
        yield Paragraph(sentence(winner["missing"]))
        return
    view, text, against = winner_view(report), score_text(report), against_default(report)
    score = f"**{view.values_with_spread}**{spread_note(view)}{view.amount_text}"
    says = f"Trial {view.trial}: {score}, chosen by {report['chosen_by']}."
    if why := reason_missing(winner.get("expected")):
        says = f"{says} How much of that is chance is not known: {why}."
    if scores := [*_read_scores(report)]:
        yield from (Paragraph(says), *scores, Paragraph(against))
    else:
        yield Paragraph(f"{says}\n{against}")
    yield Table(("hyperparameter", "value"), code_rows(winner["point"]))
    if others := {**winner.get("returned", {}), **winner.get("notes", {})}:
        yield Table(("what else it returned or noted", "value"), code_rows(others))
    in_search = " in the search" if "fresh" in winner else ""
    yield Paragraph(
        f"Folds{in_search}: {', '.join(map(text, winner['values'].values()))}.\n"
        f"{_how_to_train(report['study']['objective'], winner['config'])}"
    )


def _read_scores(report: ReportJson) -> Iterator[Block]:
    """Set the winner's metrics, and what has a limit, beside those of the default configuration."""
    winner, front = require(report["winner"]), front_of(report)
    if "scores" not in winner or front is None:
        return
    default = require(report["baselines"])["default"]
    theirs = {} if is_missing(default) else default.get("scores", {})
    expected = winner.get("expected")
    of_each = {} if expected is None or is_missing(expected) else expected.get("scores", {})
    rows = []
    for name, score in chosen_score(winner).get("scores", {}).items():
        text, said = value_format(report, name), of_each.get(name)
        anew = "–" if said is None else interval_text(said, text)
        rows.append((aim_text(front, name), anew, text(score["mean"]), text(theirs[name]) if name in theirs else "–"))
    yield Table(("metric", "expected (95 % interval)", "on validation", "default configuration"), rows)


def against_default(summary: ReportJson) -> str:
    """Return the difference in the units of the metric as a sentence, with its interval where that is known.

    It is that of the winner's expected score, since its score is the best of many. Of several metrics it is that of the
    leading one, which the sentence then names.
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
        return f"It is the default configuration{'' if leading else ': nothing better was found'}."
    if score is None or default["state"] in _UNFINISHED:
        return f"The default configuration (trial {number}) {_UNFINISHED.get(default['state'], 'has not ended')}."
    if default["amount"] != winner["amount"]:
        trained = f"was trained to {default['amount']} only (trial {number}), where it had {text(score)}"
        return f"The default configuration {trained}: the two cannot be compared."
    theirs = f"the default configuration, which has {text(score)} (trial {number}){leading}"
    if expected := default.get("gain"):
        gain, low, high = expected["value"], expected["low"], expected["high"]
        chance = ", which may be chance" if low <= 0 <= high else ""
        place, within = "It is expected to be", f" (95 % {text(low)} to {text(high)}{chance})"
    else:
        gain, place, within = loss_of(score - winner["score"], direction), "In the search it is", ""
    if gain == 0:
        return f"{place} as good as {theirs}."
    return f"{place} {'better' if gain > 0 else 'worse'} by {text(abs(gain))}{within} than {theirs}."


def _how_to_train(objective: str, best: str) -> str:
    if objective == OUTSIDE:
        return f"Its configuration: `{best}`."
    return f"Train it: `{training_command(objective, best)}`."


def score_text(summary: ReportJson) -> Callable[[float], str]:
    """Return what writes the scores of a report: with the digits that tell the best five and the default apart."""
    default = require(summary["baselines"])["default"]
    others = [] if is_missing(default) else [default["score"]]
    winner = summary["winner"]
    if not is_missing(winner):
        others.append(chosen_score(winner)["score"])
    return score_format([*(trial["score"] for trial in summary["top"]), *others])
