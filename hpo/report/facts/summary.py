"""The figures of a report, as `report.json` holds them; `hpo.report.facts.schema.report` describes each."""

from hpo.engine.record.record import Record
from hpo.engine.trials.trial import Trial
from hpo.report.facts.schema.fields import FIELDS, missing_values
from hpo.report.facts.schema.missing import Missing, missing
from hpo.report.facts.schema.report import FORMAT, ReportJson
from hpo.report.facts.schema.results import Contributed, Cost, Importance, Short
from hpo.report.facts.sections.cautions import at_the_end, cautions
from hpo.report.facts.sections.comparison import describe_comparison
from hpo.report.facts.sections.cost import describe_cost
from hpo.report.facts.sections.course import best_so_far
from hpo.report.facts.sections.data import describe_data, describe_method, describe_metric, no_method
from hpo.report.facts.sections.expected_performance import describe_expected
from hpo.report.facts.sections.results import (
    NO_WINNER,
    describe_curves,
    describe_finalists,
    describe_overtuning,
    describe_test,
    describe_winner,
)
from hpo.report.facts.sections.search import describe_baselines, describe_search, no_search
from hpo.report.facts.sections.study import describe_environment, describe_study
from hpo.report.facts.subject import Subject, score_of
from hpo.report.part import Absent, part
from hpo.study.notes import Notes
from hpo.study.study import Study
from hpo.study.winner.verdict import Verdict


def summarise(study: Study, record: Record, verdict: Verdict, subject: Subject, files: dict[str, str]) -> ReportJson:
    """Return the JSON-able report of a study, which depends on its record only and not on the date.

    What cannot be computed is marked as missing, with the reason.

    Args:
        study: the study.
        record: its record, for the notes.
        verdict: the verdict of its search.
        subject: what its figures are drawn from.
        files: SHA-256 of the study's other files, by name.
    """
    config, notes = study.config, Notes(record)
    trials, winner = verdict.trials, verdict.winner
    method = part(lambda: describe_method(study), no_method)
    comparison = part(lambda: describe_comparison(study), missing)
    test = describe_test(study)
    described = part(lambda: describe_winner(study, winner, verdict.model) if winner else missing(NO_WINNER), missing)
    scores = [trial.score for trial in trials if trial.state == "complete" and trial.score is not None]
    summary: ReportJson = {
        "format": FORMAT,
        "study": describe_study(study, notes, trials),
        "environment": describe_environment(study.environment()),
        "data": part(lambda: describe_data(study), missing),
        "method": method,
        "metric": describe_metric(study, method),
        "config": config.to_dict(),
        **part(
            lambda: describe_search(
                study, trials, len(notes.imports), notes.ended_by, verdict.further_trained, record.given
            ),
            no_search,
        ),
        "baselines": part(lambda: describe_baselines(study, trials, comparison), missing),
        "winner": described,
        "top": [_short(trial) for trial in verdict.history.leaders(5)],
        "test": test,
        "best_so_far": part(
            lambda: best_so_far(trials, winner.amount if winner else None, [t.number for t in verdict.further]), missing
        ),
        "expected_performance": part(
            lambda: describe_expected(config.strategy["name"], scores, config.study.direction), missing
        ),
        "curves": part(lambda: describe_curves(study, winner), missing),
        "at_the_end": part(lambda: at_the_end(study.space, winner) if winner else missing(NO_WINNER), missing),
        "overtuning": part(lambda: describe_overtuning(study, described, test), missing),
        "finalists": part(lambda: describe_finalists(verdict.finalists, config.study.metric), missing)
        or missing("the best were not trained again on fresh seeds: study.finalists=3"),
        "comparison": comparison,
        "importance": part(lambda: _importance(subject), missing),
        "cost": part(lambda: _cost(study, subject, notes.gpu_share), missing),
        "cautions": [],
        "files": files,
        "fields": [],
    }
    summary["cautions"] = part(
        lambda: cautions(
            study.space, trials, winner, config.study.metric, config.study.direction, summary, study.full_amount
        ),
        lambda why: [f"the cautions {why}"],
    )
    summary["fields"] = [
        {"number": f.number, "title": f.title, "keys": list(f.keys), "missing": missing_values(summary, f)}
        for f in FIELDS
    ]
    return summary


def _importance(subject: Subject) -> Importance | Missing:
    shares, parts = subject.importances, subject.contributions
    if isinstance(shares, Absent):
        return missing(shares.reason)
    shapley: dict[str, Contributed] | Missing
    if isinstance(parts, Absent):
        shapley = missing(parts.reason)
    else:
        shapley = {key: {"gain": each.gain, "low": each.low, "high": each.high} for key, each in parts.items()}
    return {"evaluator": "PED-ANOVA", "values": shares, "shapley": shapley}


def _short(trial: Trial) -> Short:
    short: Short = {"number": trial.number, "score": score_of(trial), "point": dict(trial.point)}
    if trial.amount is not None:
        short["amount"] = trial.amount
    return short


def _cost(study: Study, subject: Subject, gpu_share: float | None) -> Cost:
    dispatch, section = study.config.dispatch, study.config.study
    order = section.order if study.has_clock else None
    lanes = section.lanes if study.waits or order == "free" else None
    gpus = (dispatch.gpus_per_worker or 0.0) if gpu_share is None else gpu_share
    return describe_cost(subject.as_they_ran, dispatch.workers, gpus, lanes, order, subject.stretches)
