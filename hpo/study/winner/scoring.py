"""Opens the test part, once, with the winner and the default configuration, and records the opening.

A search has overtuned if on unseen examples its result is no better than its start, trained as the winner was.
Source: Schneider et al. 2025, "Overtuning in Hyperparameter Optimization" (arXiv 2506.19540).
"""

import datetime
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hpo.engine.dispatch.process.group import run_here
from hpo.engine.record.record import Record
from hpo.engine.training.splits import open_test_part
from hpo.engine.training.worker import outcome_of
from hpo.engine.trials.trial import Outcome, Trial
from hpo.errors import MachineError, StudyError
from hpo.study.ledger import all_openings, write_opening
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.verdict import Verdict, lacks_model

# The configuration without any point of the space.
_DEFAULT = Trial(number=-1, round=-1, point={})


def open_test(
    study: PreparedStudy, record: Record, verdict: Verdict, again: bool, with_default: bool = True
) -> dict[str, Any]:
    """Score the winner, and the default configuration, on the test part; return the content of test.json.

    StudyError where the search is not finished, nothing can be scored, or the part was opened before and not `again`.
    """
    winner = _winner(study, record, verdict)
    # The report needs it: a fault must be noticed before the part is open.
    study.environment()
    if study.examples is None or study.plan is None:
        raise StudyError(
            f"test: {study.config.objective.partition(':')[0]} has no describe_data, so there is no test part"
        )
    test = open_test_part(study.examples, study.config.split)
    fingerprint = study.examples.fingerprint(test)
    earlier = all_openings(study.folder, fingerprint)
    if earlier and not again:
        last = earlier[-1]
        raise StudyError(
            f"test: the test part of these data was opened before ({len(earlier)} time(s), last by study "
            f"'{last['study']}' at {last['time']}); a test part is for one opening: `--again` (from Python "
            f"`again=True`) opens it once more, which the report will always mention"
        )
    opening = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "study": study.config.study.name,
        "study_id": Notes(record).study_id,
        "trial": winner.number,
        "fingerprint": fingerprint,
    }
    with _default_model(study) if with_default else nullcontext() as default:
        # Before the part is read, so that a crash cannot hide it.
        write_opening(study.folder, opening)
        kept = str(study.folder.inside(verdict.model.checkpoint_dir)) if verdict.model else None
        metrics = _score(study.as_of(Notes(record).allowed_changes, winner), winner, kept, list(test))
        of_default = None if default is None else _score_default(study, *default, list(test))
    result = opening | {
        "metrics": dict(metrics),
        "default": of_default,
        "size": len(test),
        "validation_score": winner.score,
        "openings_of_these_data": len(earlier) + 1,
    }
    study.folder.write_json(study.folder.test_path, result)
    return result


def _winner(study: PreparedStudy, record: Record, verdict: Verdict) -> Trial:
    """Return the winner; raise StudyError where the search, finalists or final model are not finished."""
    first = f"run `hpo resume {study.reference}` first"
    for is_so, why in (
        (not study.is_over(record), f"the search is not finished ({study.done(verdict.history)}); {first}"),
        (not verdict.are_finalists_trained, f"the best are not trained to their end, or again; {first}"),
        (verdict.winner is None, "every trial failed, so there is no winner to score; see trials.csv for the reasons"),
        (lacks_model(study, verdict), f"the winner's model is missing or was replaced; {first}"),
    ):
        if is_so:
            raise StudyError(f"test: {why}")
    assert verdict.winner is not None
    return verdict.winner


@contextmanager
def _default_model(study: PreparedStudy) -> Iterator[tuple[str | None, str | None]]:
    """Train the default configuration in this process; yield the folder of its model, and the error of its training.

    With a hold-out it is stopped early on that, as every trial was; with folds it is trained on all of them together
    for all epochs, since its best epoch is not known. An objective that keeps no models trains when it is scored.
    """
    if not study.keeps_models:
        yield None, None
        return
    with TemporaryDirectory(prefix="hpo-default-") as scratch:
        builder = replace(study.task_builder(), checkpoints_dir=Path(scratch))
        is_hold_out = study.num_folds == 1
        task = builder.tasks_of(_DEFAULT)[0] if is_hold_out else builder.final_task(_DEFAULT, amount=None)
        try:
            outcome = outcome_of(run_here(task.payload))
        except MachineError as error:
            outcome = Outcome(error=str(error))
        yield None if outcome.error else task.payload.checkpoint_dir, outcome.error


def _score_default(
    study: PreparedStudy, checkpoint_dir: str | None, error: str | None, test: list[int]
) -> dict[str, Any]:
    """Return the metrics of the default configuration, or its error, which must not spoil the opening."""
    if error:
        return {"error": error}
    try:
        return {"metrics": dict(_score(study, _DEFAULT, checkpoint_dir, test))}
    except (StudyError, MachineError) as fault:
        return {"error": str(fault)}


def _score(study: PreparedStudy, trial: Trial, checkpoint_dir: str | None, test: list[int]) -> Mapping[str, float]:
    """Return the metrics of a trained model, or of one trained now where the objective keeps none."""
    task = study.task_builder().test_task(trial, test, checkpoint_dir)
    outcome = outcome_of(run_here(task.payload))
    if outcome.error:
        what = "the default configuration" if trial is _DEFAULT else f"trial {trial.number}"
        raise StudyError(f"test: scoring {what} on the test part failed: {outcome.error}")
    return outcome.metrics
