"""The winner, its scores, and the best trials beside it: fields 14 and 15."""

import statistics
from collections.abc import Iterator
from typing import Annotated, Any, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.engine.trials.trial import Trial
from hpo.report.analysis.interval import interval
from hpo.report.blocks import Block, Paragraph, Table
from hpo.report.part import EXACT, Count, Missing, Point, Positive, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.report.sections.baselines import against_default, score_text
from hpo.report.subject import score_of
from hpo.report.words import code_rows, sentence
from hpo.study.files.folder import short_path
from hpo.study.study import Study, how_far, training_command
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


NO_WINNER = "no trial is complete, so there is no winner"


def describe_winner(study: Study, verdict: Verdict) -> Winner | Missing:
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
        "num_parameters": max((int(n) for n in winner.values("num_parameters")), default=None),
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
