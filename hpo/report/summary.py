"""The figures of a report, as `report.json` holds them; `hpo.report.schema` says what each of them is."""

from typing import Any

from hpo.finalists import choose_winner, describe_finalists
from hpo.record import Record
from hpo.report.cautions import at_the_end, cautions
from hpo.report.expected_performance import describe_expected
from hpo.report.fields import FIELDS, missing, missing_values
from hpo.report.figures import NotDrawn, Subject, importances
from hpo.report.sections.comparison import describe_comparison
from hpo.report.sections.cost import describe_cost
from hpo.report.sections.course import best_so_far
from hpo.report.sections.data import describe_data, describe_method, describe_metric
from hpo.report.sections.results import (
    NO_WINNER,
    describe_curves,
    describe_overtuning,
    describe_test,
    describe_winner,
)
from hpo.report.sections.search import describe_baselines, describe_search
from hpo.report.sections.study import describe_environment, describe_study
from hpo.study import Study
from hpo.trials import Trial

# Rises with every change of report.json that a reader would notice.
FORMAT = 2


def summarise(study: Study, record: Record) -> dict[str, Any]:
    """Return everything that is reported of a study, JSON-able; the same for the same record, on whatever day."""
    config = study.config
    trials = record.trials()
    winner = choose_winner(study, record)
    method = describe_method(study)
    comparison = describe_comparison(study)
    test = describe_test(study)
    described = describe_winner(study, record, winner) if winner else missing(NO_WINNER)
    scores = [trial.score for trial in trials if trial.state == "complete" and trial.score is not None]
    summary = {
        "format": FORMAT,
        "study": describe_study(study, record, trials),
        "environment": describe_environment(study.environment()),
        "data": describe_data(study),
        "method": method,
        "metric": describe_metric(study, method),
        "config": config.to_dict(),
        **describe_search(study, trials, len(study.imported(record))),
        "baselines": describe_baselines(study, trials, comparison),
        "winner": described,
        "top": [_short(trial) for trial in record.history().ranked(5) if trial.state == "complete"],
        "test": test,
        "best_so_far": best_so_far(trials, winner.amount if winner else None),
        "expected_performance": describe_expected(config.strategy["name"], scores, config.study.direction),
        "curves": describe_curves(study, winner),
        "at_the_end": at_the_end(study.space, winner) if winner else missing(NO_WINNER),
        "overtuning": describe_overtuning(study, described if winner else None, test),
        "finalists": describe_finalists(study, record)
        or missing("the best were not trained again on fresh seeds: study.finalists=3"),
        "comparison": comparison,
        "importance": _importance(Subject.of(study, trials, winner)),
        "cost": describe_cost(trials, config.dispatch.workers, config.dispatch.gpus_per_worker),
    }
    said = cautions(study.space, trials, winner, config.study.metric, config.study.direction, summary)
    return summary | {"cautions": said}


def describe_fields(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the 25 fields: where in report.json their values stand, and the reasons of those that are missing."""
    return [
        {"number": f.number, "title": f.title, "keys": list(f.keys), "missing": missing_values(summary, f)}
        for f in FIELDS
    ]


def _importance(subject: Subject) -> dict[str, Any]:
    found = importances(subject)
    return missing(found.reason) if isinstance(found, NotDrawn) else {"evaluator": "PED-ANOVA", "values": found}


def _short(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "score": trial.score, "point": dict(trial.point)}
