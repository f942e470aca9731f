"""For Python: the winner of a study, and the Pareto front from which the winner was chosen."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.commands.given.objects import as_given
from hpo.config.keys import copy_plain
from hpo.errors import StudyError
from hpo.study.files.folder import inner
from hpo.study.results.choosing import standard_error, why_none
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.trials.estimate import ExpectedScore
from hpo.trials.table import column_of, metric_column
from hpo.trials.trial import Trial

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Best:
    """The winner of a study.

    Attributes:
        number: the number of the trial.
        score: the value of the metric on the validation splits; with several metrics, the value of the first metric.
            If scores on fresh seeds chose the winner (`study.finalists`), the value is from fresh seeds.
        point: the values of the searched hyperparameters, by dotted key.
        config: the complete configuration, with the names of environment variables instead of secrets. Tuples,
            and dicts with numbers as keys, are as given; all other Python objects are in their JSON form.
        amount: how far the strategy trained the trial; None = fully.
        scores: the value of each metric, by name: the mean over folds and repeats. Other returned numbers are included
            if they have a limit or are in `study.measured`.
        search_scores: if `scores` are from fresh seeds, the values of the same names in the search; else empty.
        model_dir: the folder with the files that the objective wrote into `trial.checkpoint_dir`. None = there is no
            model, or its files are missing or were changed. With several folds, only an objective with `run_test` has
            a model.
        expected: `value` is the expected mean score of new trainings; `low` and `high` are the ends of its 95 %
            interval. None = the noise of the scores is not known, or the study has no report on this winner yet.
    """

    number: int
    score: float
    point: Mapping[str, Any]
    config: Mapping[str, Any]
    amount: int | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    search_scores: Mapping[str, float] = field(default_factory=dict)
    model_dir: Path | None = None
    expected: ExpectedScore | None = None


def best_of(study: PreparedStudy, run: StudyRun) -> Best:
    """Return the winner with its scores and model; StudyError if there is no winner."""
    winner, fresh = winner_of(study, run), run.fresh_winner
    scored = fresh or winner
    assert scored.score is not None
    as_trained = study.as_of(run.notes.allowed_changes, winner).config
    point, config = copy_plain(winner.point), as_trained.trial_config(winner.point)
    if pickled := study.objective.pickled:
        function = pickled.load()
        point, config = as_given(function, point), as_given(function, config)
    scores, in_search = ({name: trial.mean(name) for name in study.goal.names} for trial in (scored, winner))
    report = run.folder.report()
    has_same_winner = inner(report, "winner").get("number") == winner.number
    expected = ExpectedScore.of(report) if has_same_winner else None
    in_search = in_search if fresh else {}
    model = run.folder.inside(run.model.checkpoint_dir) if run.model else None
    return Best(winner.number, scored.score, point, config, winner.amount, scores, in_search, model, expected)


def winner_of(study: PreparedStudy, run: StudyRun) -> Trial:
    """Return the winner. Raise StudyError if no complete trial keeps the limits."""
    if run.winner is None or run.winner.score is None:
        raise StudyError(f"study '{study.reference}': {why_none(run.history, study.goal)}")
    return run.winner


def front_table(study: PreparedStudy, run: StudyRun) -> "pd.DataFrame":
    """Return one row per trial of the Pareto front; with one metric, only the row of the winner. See `Study.front`."""
    goal, keys, winner = study.goal, study.space.keys, run.winner
    trials, fresh = run.front, run.fresh
    if len(goal.metrics) == 1:
        trials = [] if winner is None else [winner]
    elif winner is not None and winner not in trials:
        # The winner may be missing: fresh seeds may choose a trial that another trial dominates in the search.
        trials = [*trials, winner]
    columns: dict[str, list[Any]] = {
        "number": [trial.number for trial in trials],
        "is_chosen": [winner is not None and trial.number == winner.number for trial in trials],
    }
    taken = {column_of(key) for key in keys}
    # A metric `score` needs no prefix here, because no other column of this table has the name.
    names = {name: name if name == "score" else metric_column(name, taken) for name in goal.names}
    for name, column in names.items():
        columns[_free(column, "metric", columns)] = [trial.mean(name) for trial in trials]
    for name, column in names.items() if study.layout.size > 1 else ():
        errors = [standard_error(trial, name) for trial in trials]
        columns[_free(f"{column}_standard_error", "metric", columns)] = errors
    for name, column in names.items() if fresh else ():
        scored = [fresh.get(trial.number) for trial in trials]
        columns[_free(f"{column}_on_fresh_seeds", "metric", columns)] = [each and each.mean(name) for each in scored]
    for key in keys:
        columns[_free(column_of(key), "space", columns)] = [trial.point.get(key) for trial in trials]
    if any(trial.amount is not None for trial in trials):
        columns["amount"] = [trial.amount for trial in trials]
        columns["reached"] = [trial.reached for trial in trials]
    import pandas as pd  # Half a second to load.

    # dtype object: pandas would turn a column of integers with a gap into floats.
    return pd.DataFrame(columns, dtype=object).infer_objects()


def front_on_test(result: Mapping[str, Any]) -> "pd.DataFrame":
    """Return one row per trial of the Pareto front, with its scores on the test split; see `Evaluation.front`.

    `result` is the content of test.json.
    """
    rows = []
    for each in result["front"]:
        row = {"trial": each["trial"], "is_chosen": each["trial"] == result["trial"]}
        last = {"error": each.get("error")}
        last |= {f"validation.{name}": value for name, value in each["validation_metrics"].items()}
        for name, value in each.get("metrics", {}).items():
            row[_free(name, "metric", row | last)] = value
        rows.append(row | last)
    import pandas as pd  # Half a second to load.

    return pd.DataFrame(rows)


def _free(name: str, prefix: str, columns: Collection[str]) -> str:
    """Return a unique name for a new column: `name`, with `prefix.` put in front as often as necessary."""
    while name in columns:
        name = f"{prefix}.{name}"
    return name
