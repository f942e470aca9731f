"""The table of all learning curves, curves.csv."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpo.trials.trial import TaskLayout, Trial

if TYPE_CHECKING:
    import pandas as pd


def curves_table(trials: Iterable[Trial], layout: TaskLayout) -> "pd.DataFrame":
    """Return a table with one row per report, in the order of trials, tasks and reports; missing values are empty.

    Only tasks that have ended are in the table. The first columns are `trial`, `fold` and, if the study has repeats,
    `repeat`. The other columns hold the reported values by name, such as `epoch` and `val_loss`. If a reported value
    has the name of one of the first columns, the value's column gets the prefix `metric.`. The rows of a trial that
    continues an earlier trial hold only the trial's own reports.
    """
    rows: list[dict[str, Any]] = []
    for trial in trials:
        for index, outcome in sorted(trial.outcomes.items()):
            task = {"trial": trial.number, "fold": layout.fold(index)}
            if layout.repeats > 1:
                task["repeat"] = layout.repeat(index)
            for point in outcome.curve:
                reported = {f"metric.{name}" if name in task else name: value for name, value in point.items()}
                rows.append({**task, **reported})
    columns = [*dict.fromkeys(["trial", "fold", *(name for row in rows for name in row)])]
    import pandas as pd  # Half a second to load, and few callers need it.

    # From dicts, pandas would make NaN of a missing value, and not None.
    return pd.DataFrame([[row.get(name) for name in columns] for row in rows], columns=columns, dtype=object)
