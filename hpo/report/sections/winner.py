"""The winner, its scores, and what it and its strategy are compared with: fields 13 to 15 and 23."""

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.config.keys import flatten
from hpo.engine.space.first_points import default_point
from hpo.engine.space.space import point_key
from hpo.engine.trials.digits import score_format
from hpo.engine.trials.trial import State, Trial, loss_of
from hpo.errors import SpaceError
from hpo.report.blocks import Block, Paragraph, Table
from hpo.report.part import EXACT, Count, Missing, Point, Positive, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.report.subject import score_of
from hpo.report.words import code_rows, sentence
from hpo.study.files.folder import short_path
from hpo.study.study import PreparedStudy, how_far, training_command
from hpo.study.winner.verdict import Verdict


@with_config(EXACT)
class Winner(TypedDict):
    """Fields 14 and 15."""

    number: Count
    round: Count
    point: Point
    amount: Annotated[int | None, Field(description="how far it was trained; null = all of its training")]
    score: Annotated[float, Field(description="mean of `values`")]
    values: Annotated[dict[str, float], Field(description="score of each fold and seed, by its column in trials.csv")]
    n: Positive
    standard_deviation: Annotated[float | None, Field(description="of `values`, with n - 1; null for one value")]
    interval: Annotated[list[float] | Missing, Field(description="95 % interval of the mean by Student's t")]
    num_parameters: int | None
    config: str
    model: dict[str, Any] | None
    run: Annotated[dict[str, Any], Field(description="how its run is found in the tracker")]


@with_config(EXACT)
class Short(TypedDict):
    """One trial of the best."""

    number: Count
    score: float
    point: Point
    amount: NotRequired[Annotated[int, Field(description="how far it was trained, where amounts differ")]]


class DefaultTrial(TypedDict):
    """The default configuration's trial."""

    number: int
    score: float | None
    state: State
    amount: NotRequired[Annotated[int | None, Field(description="how far it was trained")]]
    values: NotRequired[Annotated[dict[str, float], Field(description="score of each fold and seed")]]


@with_config(EXACT)
class Baselines(TypedDict):
    """Field 13."""

    default: DefaultTrial | Missing
    random: dict[str, Any] | Missing


NO_WINNER = "no trial is complete, so there is no winner"
_UNFINISHED = {"failed": "failed", "stopped": "was stopped"}


def describe_winner(study: PreparedStudy, verdict: Verdict) -> Winner | Missing:
    """Return the winner's point, its score on each task, and the paths of its configuration and model."""
    winner = verdict.winner
    if winner is None:
        return missing(NO_WINNER)
    values = winner.values(study.config.study.metric)
    tasks = [study.layout.name(index) for index in sorted(winner.outcomes)]
    return {
        "number": winner.number,
        "round": winner.round,
        "point": dict(winner.point),
        "amount": winner.amount,
        "score": score_of(winner),
        "values": dict(zip(tasks, values, strict=True)),
        "n": len(values),
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "interval": interval(values),
        "num_parameters": winner.num_parameters,
        "config": str(short_path(study.folder.best_path)),
        "model": vars(verdict.model) if verdict.model else None,
        "run": {"study": study.config.study.name, "trial": winner.number, "tag": f"hpo.trial={winner.number}"},
    }


def describe_short(trial: Trial) -> Short:
    """Return one of the best trials in short."""
    short: Short = {"number": trial.number, "score": score_of(trial), "point": dict(trial.point)}
    if trial.amount is not None:
        short["amount"] = trial.amount
    return short


def describe_baselines(
    study: PreparedStudy, trials: Sequence[Trial], comparison: dict[str, Any] | Missing
) -> Baselines:
    """Return the default configuration's trial, and random search at equal budget, if they exist."""
    random: dict[str, Any] | Missing = {"this_study": True}
    if study.config.strategy["name"] != "random":
        standings = [] if is_missing(comparison) else comparison["standings"]
        scores = [s for s in standings if s["label"] == "random" and s["unit"] == "trials"]
        random = missing(f"no random search stands beside it: {comparison_command(study)}")
        if scores:
            random = {"this_study": False, "trials": scores[-1]["budget"], "mean_score": scores[-1]["mean_score"]}
    return {"default": _default(study, trials), "random": random}


def _default(study: PreparedStudy, trials: Sequence[Trial]) -> DefaultTrial | Missing:
    try:
        point = default_point(study.space, flatten(study.config.objective_config))
    except SpaceError as error:
        return missing(f"the default configuration lies outside of the space: {str(error).partition(': ')[2]}")
    those = [trial for trial in trials if trial.key == point_key(point)]
    if not those:
        return missing("the default configuration is not among the trials: write `first: [default]` into the space")
    # With halving, the one that was trained furthest.
    default = min(those, key=lambda trial: (-(trial.amount or 0), trial.number))
    metric, layout = study.config.study.metric, study.layout
    values = {layout.name(index): outcome.metrics.get(metric) for index, outcome in sorted(default.outcomes.items())}
    return {
        "number": default.number,
        "score": default.score,
        "state": default.state,
        "amount": default.amount,
        "values": {name: value for name, value in values.items() if value is not None},
    }


def describe_comparison(study: PreparedStudy) -> dict[str, Any] | Missing:
    """Return the pairs and standings of `runs/compare-<study>`, or why there are none."""
    config = study.config.study
    path = study.folder.path.parent / f"compare-{config.name}" / "comparison.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"kind": None}
    wanted = {"kind": "strategies", "metric": config.metric, "direction": config.direction}
    if any(result.get(key) != value for key, value in wanted.items()):
        return missing(f"one search does not tell which strategy is better; repeat it: {comparison_command(study)}")
    return {key: result[key] for key in ("name", "repeats", "standings", "pairs", "method")}


def comparison_command(study: PreparedStudy) -> str:
    """Return the command that repeats this search and random search at equal budget."""
    name = study.config.strategy["name"]
    others = "random" if name != "random" else "shifting_window"
    return f"hpo compare --strategies {others},{name} --config {short_path(study.folder.config_path)}"


def read_winner(report: ReportJson) -> Iterator[Block]:
    """Say which trial won, how good it is, and how it is trained."""
    winner, metric = report["winner"], report["metric"]["name"]
    if is_missing(winner):
        yield Paragraph(sentence(winner["missing"]))
        return
    text, spread = score_text(report), ""
    if winner["standard_deviation"] is not None:
        low, high = require(winner["interval"])
        spread = f" ± {text(winner['standard_deviation'])} (standard deviation, n = {winner['n']}; 95 % interval "
        spread += f"{text(low)} to {text(high)})"
    score = f"{metric} **{text(winner['score'])}**{spread}{how_far(winner['amount'], require(report['strategy']))}"
    yield Paragraph(f"Trial {winner['number']}: {score}, chosen by {report['chosen_by']}.\n{against_default(report)}")
    yield Table(("hyperparameter", "value"), code_rows(winner["point"]))
    yield Paragraph(
        f"Folds: {', '.join(map(text, winner['values'].values()))}.\n"
        f"Train it: `{training_command(report['study']['objective'], winner['config'])}`."
    )


def against_default(summary: ReportJson) -> str:
    """Return the difference in the units of the metric, with its interval over folds and seeds, as a sentence."""
    winner, baselines = summary["winner"], summary["baselines"]
    if is_missing(winner) or is_missing(baselines) or is_missing(baselines["default"]):
        return "There is no default configuration to compare with: it was not tried, or does not lie in the space."
    text = score_text(summary)
    default, direction = baselines["default"], summary["metric"]["direction"]
    score, number = default["score"], default["number"]
    if number == winner["number"]:
        return "It is the default configuration: nothing better was found."
    if score is None or default["state"] in _UNFINISHED:
        return f"The default configuration (trial {number}) {_UNFINISHED.get(default['state'], 'has not ended')}."
    if default.get("amount") != winner["amount"]:
        trained = f"was trained to {default.get('amount')} only (trial {number}), where it had {text(score)}"
        return f"The default configuration {trained}: the two cannot be compared."
    theirs = f"the default configuration, which has {text(score)} (trial {number})"
    gain = loss_of(score - winner["score"], direction)
    if gain == 0:
        return f"As good as {theirs}."
    before, now = default.get("values", {}), winner["values"]
    pairs = [(before[name], now[name]) for name in before if name in now]
    spread = interval([loss_of(one - other, direction) for one, other in pairs])
    within = ""
    if not is_missing(spread):
        low, high = spread
        chance = ", which may be chance" if low <= 0 <= high else ""
        within = f" (95 % interval over {len(pairs)} folds and seeds: {text(low)} to {text(high)}{chance})"
    return f"{'Better' if gain > 0 else 'Worse'} by {text(abs(gain))}{within} than {theirs}."


def score_text(summary: ReportJson) -> Callable[[float], str]:
    """Return what writes the scores of a report: with the digits that tell the best five and the default apart."""
    default = require(summary["baselines"]).get("default")
    others = [] if default is None or is_missing(default) else [default["score"]]
    return score_format([*(trial["score"] for trial in summary["top"]), *others])


_LEVEL = 0.95


def interval(values: Sequence[float]) -> list[float] | Missing:
    """Return the 95 % interval of the mean by Student's t over folds and seeds, lower end first.

    Folds share training examples, so the interval is too narrow (Bengio & Grandvalet 2004, JMLR 5, "No unbiased
    estimator of the variance of k-fold cross-validation"); the report says over what it was computed.
    """
    if len(values) < 2:
        return missing("one value has no spread: give split.folds or study.repeats of 2 or more")
    from scipy import stats  # here: it takes a while to load

    if min(values) == max(values):
        return [values[0], values[0]]
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(_LEVEL)
    return [float(interval.low), float(interval.high)]
