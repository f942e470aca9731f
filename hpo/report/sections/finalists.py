"""The best trials, trained again on fresh seeds: field 22."""

import statistics
from collections.abc import Sequence

from typing_extensions import TypedDict

from hpo.study.winner.finalists import Finalist


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
