"""Fields 14 to 16 and 19 to 22: the winner, its scores, its learning curves, and evidence against it."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, cast

from hpo.engine.trials.trial import Direction, Trial, loss_of
from hpo.report.facts.schema.missing import Missing, is_missing, missing
from hpo.report.facts.schema.results import (
    Curves,
    FinalistPart,
    OnTest,
    Overtuning,
    TestPart,
    Winner,
)
from hpo.report.facts.subject import score_of
from hpo.study.folder import short_path
from hpo.study.notes import FinalModel
from hpo.study.study import Study
from hpo.study.winner.finalists import Finalist

# Confidence level of the interval of a mean.
_LEVEL = 0.95
NO_WINNER = "no trial is complete, so there is no winner"


def describe_winner(study: Study, winner: Trial, model: FinalModel | None) -> Winner:
    """Return the winner's point, its score on each task, and the paths of its configuration and model."""
    metric = study.config.study.metric
    values = winner.values(metric)
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
        "model": vars(model) if model else None,
        "run": {"study": study.config.study.name, "trial": winner.number, "tag": f"hpo.trial={winner.number}"},
    }


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


def describe_test(study: Study) -> TestPart | Missing:
    """Return what `hpo test` recorded, or why there is nothing."""
    result = study.folder.test_result()
    if result is not None:
        return cast("TestPart", result)
    if "test" not in study.described.parts:
        return missing("there is no test part")
    return missing(f"the test part has not been opened: hpo test {study.reference}")


def describe_curves(study: Study, winner: Trial | None) -> Curves | Missing:
    """Return the winner's learning curve of each task; all others are in the record and in report.html."""
    if winner is None:
        return missing(NO_WINNER)
    curves = {study.layout.name(k): [dict(p) for p in o.curve] for k, o in sorted(winner.outcomes.items()) if o.curve}
    return {"trial": winner.number, "tasks": curves} if curves else missing("the objective yields no learning curve")


def describe_overtuning(study: Study, winner: Winner | Missing, test: TestPart | Missing) -> Overtuning:
    """Return the winner against the default on the test part, and the gap from validation to test.

    `gap` is the validation score minus the test score, with the sign turned so that above 0 validation was too good.

    Source: Schneider et al. 2025, "Overtuning in Hyperparameter Optimization" (arXiv 2506.19540).
    """
    if is_missing(winner) or is_missing(test):
        absent = test if is_missing(test) else missing(NO_WINNER)
        return {"default_on_test": absent, "gap": absent}
    metric, direction = study.config.study.metric, study.config.study.direction
    default = test.get("default")
    return {
        "gap": loss_of(test["metrics"][metric] - test["validation_score"], direction),
        "default_on_test": _against(default, test["metrics"][metric], metric, direction),
    }


def _against(default: Mapping[str, Any] | None, winner: float, metric: str, direction: Direction) -> OnTest | Missing:
    if not default:
        return missing("the default configuration was not scored in the same opening")
    if "error" in default:
        return missing(f"the default configuration has no score: {default['error']}")
    score = default["metrics"][metric]
    return {"default": score, "winner": winner, "gain": loss_of(score - winner, direction)}


def describe_finalists(finalists: Sequence[Finalist], metric: str) -> list[FinalistPart]:
    """Return one JSON-able dict per finalist: its scores in the search and on fresh seeds, with their spread."""
    described: list[FinalistPart] = []
    for finalist in finalists:
        values = finalist.again.values(metric)
        described.append(
            {
                "number": finalist.trial.number,
                "search_score": finalist.trial.score,
                "fresh_score": finalist.again.score,
                "fresh_standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
                "fresh_values": values,
                "error": finalist.again.error,
            }
        )
    return described
