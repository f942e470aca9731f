"""The figures of a report, as `report.json` holds them; `hpo.report.facts.schema` says what each of them is."""

from collections.abc import Callable
from typing import Any

from hpo.engine.record.record import Record
from hpo.engine.trials.trial import Trial
from hpo.report.facts.cautions import at_the_end, cautions
from hpo.report.facts.comparison import describe_comparison
from hpo.report.facts.cost import describe_cost
from hpo.report.facts.course import best_so_far
from hpo.report.facts.data import describe_data, describe_method, describe_metric, no_method
from hpo.report.facts.expected_performance import describe_expected
from hpo.report.facts.fields import FIELDS, missing, missing_values, reason_missing
from hpo.report.facts.results import (
    NO_WINNER,
    describe_curves,
    describe_overtuning,
    describe_test,
    describe_winner,
)
from hpo.report.facts.search import SEARCH_KEYS, describe_baselines, describe_search
from hpo.report.facts.study import describe_environment, describe_study
from hpo.report.facts.subject import Subject
from hpo.report.part import Missing, part
from hpo.study.notes import Notes
from hpo.study.study import Study
from hpo.study.winner.finalists import describe_finalists
from hpo.study.winner.verdict import Verdict

# Rises with every change of report.json that a reader would notice.
FORMAT = 2


def summarise(study: Study, record: Record, verdict: Verdict) -> dict[str, Any]:
    """Return everything that is reported of a study, JSON-able; the same for the same record, on whatever day.

    What cannot be worked out stands there as missing, with the reason.
    """
    config = study.config
    trials, winner = verdict.trials, verdict.winner
    method = part(lambda: describe_method(study), no_method)
    comparison = _part(lambda: describe_comparison(study))
    test = describe_test(study)
    described = _part(lambda: describe_winner(study, winner, verdict.model) if winner else missing(NO_WINNER))
    known_winner = described if reason_missing(described) is None else None
    scores = [trial.score for trial in trials if trial.state == "complete" and trial.score is not None]
    search = _part(lambda: describe_search(study, trials, len(Notes(record).imports)))
    summary = {
        "format": FORMAT,
        "study": describe_study(study, Notes(record), trials),
        "environment": describe_environment(study.environment()),
        "data": _part(lambda: describe_data(study)),
        "method": method,
        "metric": describe_metric(study, method),
        "config": config.to_dict(),
        **(search if reason_missing(search) is None else dict.fromkeys(SEARCH_KEYS, search)),
        "baselines": _part(lambda: describe_baselines(study, trials, comparison)),
        "winner": described,
        "top": [_short(trial) for trial in verdict.history.ranked(5) if trial.state == "complete"],
        "test": test,
        "best_so_far": _part(lambda: best_so_far(trials, winner.amount if winner else None)),
        "expected_performance": _part(
            lambda: describe_expected(config.strategy["name"], scores, config.study.direction)
        ),
        "curves": _part(lambda: describe_curves(study, winner)),
        "at_the_end": _part(lambda: at_the_end(study.space, winner) if winner else missing(NO_WINNER)),
        "overtuning": _part(lambda: describe_overtuning(study, known_winner, test)),
        "finalists": _part(lambda: describe_finalists(verdict.finalists, config.study.metric))
        or missing("the best were not trained again on fresh seeds: study.finalists=3"),
        "comparison": comparison,
        "importance": _part(lambda: _importance(Subject.of(study, trials, winner))),
        "cost": _part(lambda: describe_cost(trials, config.dispatch.workers, config.dispatch.gpus_per_worker)),
    }
    said = part(
        lambda: cautions(study.space, trials, winner, config.study.metric, config.study.direction, summary),
        lambda why: [f"the cautions {why}"],
    )
    return summary | {"cautions": said}


def _part(make: Callable[[], Any]) -> Any:
    return part(make, missing)


def describe_fields(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the 25 fields: where in report.json their values stand, and the reasons of those that are missing."""
    return [
        {"number": f.number, "title": f.title, "keys": list(f.keys), "missing": missing_values(summary, f)}
        for f in FIELDS
    ]


def _importance(subject: Subject) -> dict[str, Any]:
    found = subject.importances
    return missing(found.reason) if isinstance(found, Missing) else {"evaluator": "PED-ANOVA", "values": found}


def _short(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "score": trial.score, "point": dict(trial.point)}
