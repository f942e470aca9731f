"""The pages of MLflow that `hpo ui` opens: for all studies, one study, or several studies."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from hpo.errors import TrackError
from hpo.formatting import cut_text
from hpo.track.names import mlflow_name
from hpo.track.store import all_runs, experiment_ids, find_run, reading, unsent
from hpo.track.views import (
    EXPERIMENTS,
    LARGEST_VIEW,
    STUDIES,
    TrialsTable,
    charts_page,
    compared_view,
    run_page,
    studies_view,
    tag_of,
    view_page,
)
from hpo.trials.trial import Direction, loss_sign

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_SCORE = "score"
# Most characters of the studies' names in the name of a view, which has little room.
_LONGEST_TITLE = 1000


@dataclass(frozen=True)
class Page:
    """An address relative to a server, and the name of the page."""

    address: str
    what: str = ""


@dataclass(frozen=True)
class TrackedStudy:
    """A study in MLflow, and its leading metric."""

    name: str
    id: str
    metric: str
    direction: Direction


def pages_of_all(uri: str) -> list[Page]:
    """Return two pages with all studies in the latest study's MLflow experiment: as a table, and as charts.

    If the store has no studies or is unreadable, return the page with MLflow's table of experiments.
    """
    try:
        with reading(uri, f"uri: {uri} cannot be read: {{reason}}") as client:
            latest = client.search_runs(experiment_ids(client), "tags.`hpo.kind` = 'study'", max_results=1)
    except (TrackError, ImportError):
        # The server shows the reason; the database driver may be missing only in this process.
        return [Page(EXPERIMENTS)]
    if not latest:
        return [Page(EXPERIMENTS)]
    return _with_charts(view_page(latest[0].info.experiment_id, STUDIES))


def pages_of_study(uri: str, study: TrackedStudy) -> list[Page]:
    """Return the pages of a study: the table of its trials, the trials' charts, and the study's run.

    Raise TrackError if the study is not in MLflow, or if the store is unreadable.
    """
    with reading(uri, f"uri: {uri} cannot be read: {{reason}}") as client:
        run = _run_of(client, uri, study)
    experiment = run.info.experiment_id
    return [*_with_charts(view_page(experiment, study.id)), Page(run_page(experiment, run.info.run_id), "its run")]


def pages_of_several(uri: str, studies: Sequence[TrackedStudy]) -> list[Page]:
    """Save two views in MLflow: one view shows the studies, the other view shows the trials of all these studies.

    Return the pages with each view's table and charts.

    A saved view has room for about 700 trials. If there are more, the view has only the best trials of each study.

    Raises:
        TrackError: a study is not in MLflow, the studies are in different experiments, or the store is not writable.
    """
    key = f"hpo-{hashlib.sha256(' '.join(sorted(study.id for study in studies)).encode()).hexdigest()[:12]}"
    names = cut_text(", ".join(study.name for study in studies), _LONGEST_TITLE)
    with reading(uri, f"uri: {uri} cannot be written: {{reason}}") as client:
        runs = {study.id: _run_of(client, uri, study) for study in studies}
        experiment = runs[studies[0].id].info.experiment_id
        for study in studies:
            if runs[study.id].info.experiment_id != experiment:
                pair = f"'{studies[0].name}' and '{study.name}'"
                raise TrackError(
                    f"study: {pair} are in different experiments of MLflow; give studies of one experiment"
                )
        when = max(run.info.start_time for run in runs.values()) / 1000
        trials = {study.id: _best_first(client, experiment, runs[study.id], study) for study in studies}
        view, num_shown = _fitting(names, studies, trials, when)
        each = studies_view(f"{names}: studies", when, [run.info.run_id for run in runs.values()])
        client.set_experiment_tag(experiment, tag_of(key), view)
        client.set_experiment_tag(experiment, tag_of(f"{key}-studies"), each)
    total = sum(map(len, trials.values()))
    which = "" if num_shown == total else f"the best {num_shown:,} of {total:,} trials"
    table, of_studies = view_page(experiment, key), view_page(experiment, f"{key}-studies")
    return [
        Page(table, which),
        Page(charts_page(table), "charts"),
        Page(of_studies, "studies"),
        Page(charts_page(of_studies), "their charts"),
    ]


def _fitting(
    names: str, studies: Sequence[TrackedStudy], trials: "Mapping[str, Sequence[Run]]", when: float
) -> tuple[str, int]:
    """Return a saved view of the trials as JSON for an MLflow tag, and the number of trials in the view.

    If the tag has no room for all trials, the view has only the best trials of each study.
    """
    every = [run for runs in trials.values() for run in runs]
    metrics = {name for run in every for name in run.data.metrics}
    curves = dict.fromkeys(f"fold_0/{mlflow_name(study.metric)}" for study in studies)
    table: TrialsTable = {
        "metrics": [_SCORE],
        "direction": studies[0].direction,
        "flags": ["hpo.study"],
        "keys": [*dict.fromkeys(key for run in every for key in run.data.params)],
        "others": [name for name in ("amount", "cost") if name in metrics],
        "curves": [curve for curve in curves if curve in metrics],
    }
    # The best trials of all studies come first, then the second-best trials, and so on.
    run_ids = [run.info.run_id for rank in zip_longest(*trials.values()) for run in rank if run is not None]
    while len(view := compared_view(f"{names}: trials", when, table, run_ids)) > LARGEST_VIEW and run_ids:
        run_ids = run_ids[: len(run_ids) * 9 // 10]
    return view, len(run_ids)


def _best_first(client: "MlflowClient", experiment: str, parent: "Run", study: TrackedStudy) -> "list[Run]":
    runs = [*all_runs(client, experiment, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")]
    sign, last = loss_sign(study.direction), float("inf")
    return sorted(runs, key=lambda run: sign * run.data.metrics[_SCORE] if _SCORE in run.data.metrics else last)


def _run_of(client: "MlflowClient", uri: str, study: TrackedStudy) -> "Run":
    run = find_run(client, study.id)
    if run is None:
        raise unsent(uri, study.name)
    return run


def _with_charts(table: str) -> list[Page]:
    return [Page(table), Page(charts_page(table), "charts")]
