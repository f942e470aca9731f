"""The best trials, trained again on fresh seeds: field 22."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from hpo.engine.trials.digits import score_format
from hpo.report.blocks import Block, Table
from hpo.report.missing import is_missing
from hpo.study.winner.finalists import Finalist

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson


class FinalistPart(TypedDict):
    """A trial that was trained again on fresh seeds."""

    number: int
    search_score: float | None
    fresh_score: float | None
    fresh_standard_deviation: float | None
    fresh_values: list[float]
    error: str | None


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


def read_finalists(report: "ReportJson") -> Iterator[Block]:
    """Set the finalists' scores in the search beside those on fresh seeds."""
    finalists = report["finalists"]
    if is_missing(finalists):
        return
    text = score_format(score for each in finalists for score in (each["search_score"], each["fresh_score"]))
    yield Table(("trained again", "in the search", "on fresh seeds"), [_cells(each, text) for each in finalists])


def _cells(finalist: FinalistPart, text: Callable[[float], str]) -> tuple[str, str, str]:
    assert finalist["search_score"] is not None, "only complete trials are finalists"
    fresh, spread = finalist["fresh_score"], finalist["fresh_standard_deviation"]
    score = f"failed: {finalist['error']}" if fresh is None else text(fresh)
    score += "" if spread is None else f" ± {text(spread)} (n = {len(finalist['fresh_values'])})"
    return str(finalist["number"]), text(finalist["search_score"]), score
