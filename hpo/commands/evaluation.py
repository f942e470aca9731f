"""`test`: scores the winner, or the whole Pareto front, on the test split."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import DataPlaces, StudyRef, Word
from hpo.errors import HpoError, StudyError
from hpo.formatting import format_count, format_scores
from hpo.show.tables import table_text
from hpo.study.files.folder import short_path
from hpo.study.winner.estimates import ScoresOnTest
from hpo.trials.score_format import score_format

if TYPE_CHECKING:
    import pandas as pd

    from hpo.report.write import WrittenReport
    from hpo.study.results.run import StudyRun
    from hpo.study.study import PreparedStudy
    from hpo.study.view.view import StudyView


_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Mapping[str, float]):
    """The winner's metrics on the test split, as a mapping. For all scores of this test evaluation, see `result`.

    Attributes:
        study: the view of the study, including the metrics on the test split.
        result: the content of test.json.
        report: the path of the report's page.
        why_no_default: why the default configuration has no score; None = the default configuration has a score, or was
            left out.
    """

    study: "StudyView"
    result: Mapping[str, Any]
    report: Path
    why_no_default: str | None

    def __getitem__(self, name: str) -> float:
        score: float = self.result["metrics"][name]
        return score

    def __iter__(self) -> Iterator[str]:
        return iter(self.result["metrics"])

    def __len__(self) -> int:
        return len(self.result["metrics"])

    def __repr__(self) -> str:
        return repr(dict(self))

    @property
    def front(self) -> "pd.DataFrame":
        """One row per trial of the Pareto front, the chosen trial first.

        Columns: `trial`, `is_chosen`, the metrics on the test split, `error`, and the metrics of the search as
        `validation.NAME`. A metric with the name of another column gets the prefix `metric.`. StudyError if `test` was
        called without `front=True`.
        """
        from hpo.commands.best import front_on_test

        if "front" not in self.result:
            raise StudyError("front: only the winner was scored; to score the whole front, test with `front=True`")
        return front_on_test(self.result)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        result, metric = self.result, str(self.study.metric)
        has_front = "front" in result
        configurations = format_count(result.get("scored_of_these_data", 0), "configuration*")
        scored = f", with {configurations}" if has_front else ""
        examples, times = format_count(result["size"], "example*"), result["evaluations_of_these_data"]
        yield f"test split of {examples}, evaluated {format_count(times, 'time*')} by studies of this data{scored}"
        score, default = result["validation_score"], result["default"] or {}
        text = score_format([self[metric], score, default.get("metrics", {}).get(metric)])
        scores = ScoresOnTest.of(result)
        for name, each in scores.metrics.items():
            write = text if name == metric else score_format([each.value])
            yield f"  {name} = {each.text(write, note=name == metric)}"
        for name in (name for name in self.study.metrics if name in scores.default):
            write = text if name == metric else score_format([scores.default[name].value])
            yield f"the default configuration: {name} = {scores.default[name].text(write, note=False)}"
            yield f"difference (winner - default): {name} {scores.difference[name].text(write, note=name == metric)}"
        if metric not in scores.default and self.why_no_default:
            yield self.why_no_default
        chosen = format_scores(text(score), text(result["search_score"]) if "search_score" in result else "")
        best = self.study.best
        has_expected = best is not None and best.expected is not None and best.trial == result["trial"]
        expected = f", expected {best.expected_texts['value']}" if best and has_expected else ""
        yield f"validation {metric} was {chosen}{expected} (trial {result['trial']})"
        if has_front:
            yield from self._front_lines()
        yield f"report: {short_path(self.report)}"

    def _front_lines(self) -> Iterator[str]:
        """Yield a table of the front's metrics on the test split and in the search; then a line per failed trial."""
        front, chosen = self.result["front"], self.result["trial"]
        trials = (f"trial {each['trial']}{', chosen' if each['trial'] == chosen else ''}" for each in front)
        columns = {"the front": [*trials]}
        for name in front[0]["validation_metrics"]:
            on_test = [each.get("metrics", {}).get(name) for each in front]
            in_search = [each["validation_metrics"][name] for each in front]
            text = score_format([*on_test, *in_search])
            cells = ["failed" if "error" in each else "missing" for each in front]
            cells = [cell if value is None else text(value) for cell, value in zip(cells, on_test, strict=True)]
            columns |= {name: cells, f"{name} in the search": [*map(text, in_search)]}
        yield table_text([*columns], zip(*columns.values(), strict=True))
        yield from (f"trial {each['trial']} has no score: {each['error']}" for each in front if "error" in each)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the study, and the content of test.json as `evaluation`."""
        return {**self.study.to_dict(), "evaluation": dict(self.result)}


def evaluate(
    study: StudyRef,
    again: Annotated[bool, Word(option="--again")] = False,
    with_default: Annotated[bool, Word(option="--no-default")] = True,
    data: DataPlaces | None = None,
    *,
    front: bool = False,
) -> Evaluation:
    """Score the winner on the test split, once, and record this test evaluation.

    The study's run in MLflow gets the score, too. If new paths of moved data are given, the study saves these paths.

    Args:
        again: score on the test split once more; the report says how often the split was used.
        with_default: also train and score the default configuration; --no-default leaves it out.
        data: new paths of moved data, by key, such as data.path=there.csv.
        front: with several metrics, score every trial of the Pareto front in this evaluation. Trials without a
            saved model are trained again first.

    Returns:
        The winner's metrics by name; with `front`, also the table `front`.

    Raises:
        hpo.HpoError: the search is not finished, there is no test split, or the test split was used before and
            `again` is not given.

    Examples:
        hpo test digits
        hpo test digits --no-default
        hpo test digits --front                   several metrics: every trial of the Pareto front
        hpo test reviews data.path=there.csv      the data were moved
    """
    from hpo.report.write import write_report
    from hpo.session.mirroring import copy_test_evaluation
    from hpo.study.files.made_here import remember
    from hpo.study.notes import Notes
    from hpo.study.opening import freeze, read_study
    from hpo.study.preparing.preparation import at_places, load_study
    from hpo.study.results.run import StudyRun
    from hpo.study.test_log import evaluations
    from hpo.study.view.reader import StudyReader
    from hpo.study.winner.scoring import open_test
    from hpo.trials.space.first_points import why_no_default

    prepared = load_study(str(study), elsewhere=data)
    folder = prepared.folder
    with folder.lock():
        # Read the file again, because another process may have raised the budget before this one had the lock.
        prepared = replace(prepared, config=at_places(folder.config(), data or {}))
        record = read_study(prepared)
        if data:
            freeze(prepared)
            remember(prepared.config, prepared.objective.pickled)
        known = len(evaluations(folder.test_log_path))
        try:
            run = StudyRun.of(prepared, record)
            result = open_test(prepared, run, again, with_default, front)
            report = write_report(prepared, run)
            _send_score(prepared, run, report)
        finally:
            study_id = Notes(record).study_id or ""
            record.close()
            # A test evaluation counts even if the scoring failed.
            if len(evaluations(folder.test_log_path)) > known:
                copy_test_evaluation(prepared.config, folder, study_id)
    why = why_no_default(prepared.space, prepared.config) if with_default else None
    if result["default"] and "error" in result["default"]:
        why = f"the default configuration has no score: {result['default']['error']}"
    return Evaluation(StudyReader(folder, prepared.reference).view(), result, report.paths[0], why)


def _send_score(study: "PreparedStudy", run: "StudyRun", report: "WrittenReport") -> None:
    from hpo.track.make import tracking_uri
    from hpo.track.projection import send_study
    from hpo.track.store import is_missing

    why = ""
    try:
        if study.config.track.name != "mlflow" or is_missing(tracking_uri(study.config)):
            return
        is_sent = send_study(study, run, report)
    except HpoError as error:
        is_sent, why = False, f" ({error})"
    if not is_sent:
        _log.warning("MLflow does not have the test score%s: send it later with `hpo sync %s`", why, study.reference)
