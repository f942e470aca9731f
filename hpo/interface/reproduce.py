"""`hpo.reproduce` and `hpo.replay`: what others reported, again, from Python."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.interface.running import run_shown

if TYPE_CHECKING:
    import pandas as pd


def reproduce(
    study: str | Path,
    trial: int | str = "best",
    *,
    folds: Sequence[int] | None = None,
    tolerance: float | None = None,
    data: Mapping[str, str] | None = None,
    trust: bool = False,
    uri: str = "sqlite:///mlflow.db",
) -> "pd.DataFrame":
    """Train recorded trials again in this process, as `hpo reproduce` does.

    Args:
        study: its name under runs/, its folder, a report.json, or `runs:/ID` of MLflow.
        trial: `"best"`, `"all"`, or a trial's number.
        folds: only these; None = all.
        tolerance: the largest difference, as a share, that is none; None = 0 on the same machine, else 2 %.
        data: where the data lie now: `{"data.path": "there.csv"}`.
        trust: run a study that was not made here, after a look at it.
        uri: MLflow's address, for `runs:/ID`.

    Returns:
        One row per training: trial, name of the task, recorded and reproduced metric, error, and whether it holds.

    Raises:
        hpo.HpoError: there is no such study, or it was not made here and is not trusted.
    """
    import pandas as pd

    from hpo.cli.commands.reproduce import found, trusted
    from hpo.study.reproduce.again import reproduce as train_again

    with found(str(study), str(trial), uri) as (folder, which):
        recorded = trusted(folder, trust, data or {})
        allowed = recorded.tolerance if tolerance is None else tolerance
        repetitions = train_again(recorded, which, folds, lambda _: None)
    return pd.DataFrame([vars(one) | {"holds": one.holds(allowed)} for one in repetitions])


def replay(study: str | Path, *overrides: str, trust: bool = False, progress: bool = True) -> "pd.DataFrame":
    """Run a study's whole search again, as `hpo search --replay` does, and compare the trials.

    Args:
        study: its name under runs/, or its folder.
        overrides: where it runs and is shown, as on the command line: `"dispatch.workers=2"`, `"track=none"`.
        trust: run a study that was not made here, after a look at it.
        progress: whether it is shown.

    Returns:
        One row per trial that differs: its number, and in what. None differs: the search was replayed.
    """
    import pandas as pd

    from hpo.cli.replay import replay_of
    from hpo.config.study_config import config_from_dict
    from hpo.study.folder import shown
    from hpo.study.preparation import prepare_study
    from hpo.study.reproduce.replay import compared

    asked = replay_of(str(study), overrides, trust)
    config = config_from_dict(asked.tree)
    prepared = replace(prepare_study(config, asked.folder.kept_function(config)), script=asked.script)
    run_shown(prepared, progress)
    _, differing = compared(asked, shown(prepared.folder.trials_path))
    rows = [{"trial": place, "differs in": ", ".join(keys)} for place, keys in differing.items()]
    return pd.DataFrame(rows, columns=["trial", "differs in"])
