"""The tables of measured configurations on which searches are compared, and random search's expectation on them."""

import gzip
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared import places

DATA = places.DATA / "tables"
CURVES = DATA / "nmt_hpo_curves.jsonl.gz"
NMT_KEYS = ("bpe_symbols", "num_layers", "num_embed", "ff_num_hidden", "attention_heads", "initial_learning_rate")
NMT_TASKS = ("zh-en", "ru-en", "ja-en", "en-ja")
PROTEIN_SEEDS = ("seed0", "seed1", "seed2", "seed3")
TABLES = (*NMT_TASKS, "protein")

Ranks = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """A table of measured configurations.

    Attributes:
        name: of the table.
        values: for every hyperparameter its different values, numbers in ascending order.
        unordered: the hyperparameters whose values are texts.
        losses: by the ranks of its values, the loss of every row; lower is better, in the unit of the metric.
        seconds: by the same ranks, the seconds that the table has for the row; empty where it has none.
    """

    name: str
    values: Mapping[str, tuple[Any, ...]]
    unordered: frozenset[str]
    losses: Mapping[Ranks, float]
    seconds: Mapping[Ranks, float]

    @property
    def optimum(self) -> float:
        """The lowest loss."""
        return min(self.losses.values())

    @property
    def scale(self) -> float:
        """The regret of the table's median, which is 1 when normalised."""
        return float(np.median(list(self.losses.values()))) - self.optimum


def measured(
    name: str, rows: pd.DataFrame, keys: Sequence[str], loss: "pd.Series[float]", seconds: str | None = None
) -> Measured:
    """Return a table from its rows, the hyperparameters and seconds among its columns, and its losses."""
    values = {key: tuple(sorted(rows[key].unique().tolist())) for key in keys}
    ranks = list(zip(*([values[key].index(value) for value in rows[key].tolist()] for key in keys), strict=True))
    texts = frozenset(key for key in keys if isinstance(values[key][0], str))
    took = {} if seconds is None else dict(zip(ranks, rows[seconds].tolist(), strict=True))
    return Measured(name, values, texts, dict(zip(ranks, loss.tolist(), strict=True)), took)


@cache
def load(name: str) -> Measured:
    """Return one of the tables by its name."""
    if name == "protein":
        rows = pd.read_csv(DATA / "hpolib_protein_structure.csv.gz")
        keys = [key for key in rows.columns if key not in PROTEIN_SEEDS]
        return measured(name, rows, keys, rows[list(PROTEIN_SEEDS)].mean(axis=1))
    rows = pd.read_csv(DATA / "nmt_hpo.csv")
    rows = rows[rows["task"] == name]
    return measured(name, rows, NMT_KEYS, -rows["dev_bleu"], "dev_gpu_time_s")


def ranks_of(point: Mapping[str, Any], values: Mapping[str, tuple[Any, ...]]) -> Ranks:
    """Return the ranks of a point's values among the values of its table."""
    return tuple(of.index(point[key]) for key, of in values.items())


def learning_curves(pair: str) -> dict[int, list[float]]:
    """Return the learning curves of a language pair, by the number of their row."""
    with gzip.open(CURVES, "rt") as file:
        return {line["row"]: line["ppl_curve"] for line in map(json.loads, file) if line["task"] == pair}


@cache
def space_of(name: str) -> Any:
    """Return the space whose points are the rows of a table."""
    table = load(name)
    return space_of_rows(table.values, list(table.losses), table.unordered)


def space_of_rows(
    values: Mapping[str, tuple[Any, ...]], rows: Sequence[Ranks], unordered: Collection[str] = frozenset()
) -> Any:
    """Return the space whose points are these rows, each the ranks of its values."""
    from hpo.trials.space.dimensions import Choices, Values
    from hpo.trials.space.space import Space

    dimensions = tuple((Choices if key in unordered else Values)(key, of) for key, of in values.items())
    if len(rows) == math.prod(len(of) for of in values.values()):
        return Space(dimensions)
    points = tuple({d.key: d.values[rank] for d, rank in zip(dimensions, ranks, strict=True)} for ranks in rows)
    return Space(dimensions, members=points)


def expected_regret(table: Measured, trials: int) -> float:
    """Return the exact expectation of the regret of drawing rows at random without replacement.

    With n rows in ascending order of loss, the best of k is row i with probability C(n - i, k - 1) / C(n, k).
    """
    losses = np.sort(list(table.losses.values())) - table.optimum
    n, k = len(losses), min(trials, len(losses))
    # P(best is row i or worse) falls from 1 by the factor (n - i - k + 1) / (n - i + 1) from row to row.
    factors = np.clip((n - np.arange(1, n) - k + 1) / (n - np.arange(1, n) + 1), 0, 1)
    at_least = np.concatenate([[1.0], np.cumprod(factors), [0.0]])
    return float(((at_least[:-1] - at_least[1:]) * losses).sum())
