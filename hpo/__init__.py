"""The search toolkit: strategies, splits, dispatch, record, tracking and reports. Knows nothing of torch.

From Python: `hpo.search` runs a search and returns an `hpo.Study`; `hpo.load` returns one that exists; `hpo.open` lets
trials be asked for and told that are trained elsewhere.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpo.errors import HpoError as HpoError
    from hpo.errors import NoTrialError as NoTrialError
    from hpo.interface.asking.opening import open as open  # noqa: A004 -- it is called hpo.open
    from hpo.interface.asking.session import AskedTrial as AskedTrial
    from hpo.interface.asking.session import Session as Session
    from hpo.interface.comparison import compare_strategies as compare_strategies
    from hpo.interface.comparison import compare_studies as compare_studies
    from hpo.interface.exchange import import_trials as import_trials
    from hpo.interface.looking.studies import studies as studies
    from hpo.interface.replay import replay as replay
    from hpo.interface.reproduce import reproduce as reproduce
    from hpo.interface.scale import coordinate_check as coordinate_check
    from hpo.interface.scale import scale_table as scale_table
    from hpo.interface.search import compose as compose
    from hpo.interface.search import load as load
    from hpo.interface.search import search as search
    from hpo.interface.server import open_ui as open_ui
    from hpo.interface.starter import new as new
    from hpo.interface.study.archive import unarchive as unarchive
    from hpo.interface.study.study import Study as Study
    from hpo.interface.train import train as train
    from hpo.trials.space.written import choices as choices
    from hpo.trials.space.written import log as log
    from hpo.workers.objective.examples import Examples as Examples
    from hpo.workers.objective.objective import objective as objective
    from hpo.workers.objective.plain_function import RunningTrial as RunningTrial
    from hpo.workers.objective.plain_function import TrainingStopped as TrainingStopped

__version__ = "0.1.0"

# Where each name lies: loaded when it is first asked for, so that `import hpo` is quick.
_PLACES = {
    "AskedTrial": "hpo.interface.asking.session",
    "Examples": "hpo.workers.objective.examples",
    "HpoError": "hpo.errors",
    "NoTrialError": "hpo.errors",
    "RunningTrial": "hpo.workers.objective.plain_function",
    "Session": "hpo.interface.asking.session",
    "Study": "hpo.interface.study.study",
    "TrainingStopped": "hpo.workers.objective.plain_function",
    "choices": "hpo.trials.space.written",
    "compare_strategies": "hpo.interface.comparison",
    "compare_studies": "hpo.interface.comparison",
    "compose": "hpo.interface.search",
    "coordinate_check": "hpo.interface.scale",
    "import_trials": "hpo.interface.exchange",
    "load": "hpo.interface.search",
    "log": "hpo.trials.space.written",
    "new": "hpo.interface.starter",
    "objective": "hpo.workers.objective.objective",
    "open": "hpo.interface.asking.opening",
    "open_ui": "hpo.interface.server",
    "replay": "hpo.interface.replay",
    "reproduce": "hpo.interface.reproduce",
    "scale_table": "hpo.interface.scale",
    "search": "hpo.interface.search",
    "studies": "hpo.interface.looking.studies",
    "train": "hpo.interface.train",
    "unarchive": "hpo.interface.study.archive",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'hpo' has no attribute '{name}'")
    from hpo.session.program import interrupted_in_one_line

    with interrupted_in_one_line():
        return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
