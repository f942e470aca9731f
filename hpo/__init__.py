"""A toolkit for hyperparameter search and for the management of experiments. The toolkit does not need torch.

From Python, `hpo.search` runs a search and returns an `hpo.Study`, and `hpo.load` returns an existing study. `hpo.open`
returns an ask-and-tell session, in which your code runs the trainings.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpo.commands.callbacks import EndedTrial as EndedTrial
    from hpo.commands.compare import compare_strategies as compare_strategies
    from hpo.commands.compare import compare_studies as compare_studies
    from hpo.commands.exchange import import_trials as import_trials
    from hpo.commands.new import new as new
    from hpo.commands.replay import replay as replay
    from hpo.commands.reproduce import reproduce as reproduce
    from hpo.commands.scale import coordinate_check as coordinate_check
    from hpo.commands.scale import scale_table as scale_table
    from hpo.commands.search import compose as compose
    from hpo.commands.search import load as load
    from hpo.commands.search import search as search
    from hpo.commands.search import unarchive as unarchive
    from hpo.commands.serve import open_ui as open_ui
    from hpo.commands.session import AskedTrial as AskedTrial
    from hpo.commands.session import Session as Session
    from hpo.commands.session import open as open  # noqa: A004 -- it is called hpo.open
    from hpo.commands.show import studies as studies
    from hpo.commands.study import Study as Study
    from hpo.commands.train import train as train
    from hpo.errors import HpoError as HpoError
    from hpo.errors import NoTrialError as NoTrialError
    from hpo.session.callbacks import Stop as Stop
    from hpo.trials.space.written import choices as choices
    from hpo.trials.space.written import log as log
    from hpo.workers.objective.examples import Examples as Examples
    from hpo.workers.objective.objective import objective as objective
    from hpo.workers.objective.plain_function import RunningTrial as RunningTrial
    from hpo.workers.objective.plain_function import TrainingStopped as TrainingStopped

__version__ = "0.1.0"

# The module of each public name. A module is imported on the first access to its name, so that `import hpo` is quick.
_PLACES = {
    "AskedTrial": "hpo.commands.session",
    "EndedTrial": "hpo.commands.callbacks",
    "Examples": "hpo.workers.objective.examples",
    "HpoError": "hpo.errors",
    "NoTrialError": "hpo.errors",
    "RunningTrial": "hpo.workers.objective.plain_function",
    "Session": "hpo.commands.session",
    "Stop": "hpo.session.callbacks",
    "Study": "hpo.commands.study",
    "TrainingStopped": "hpo.workers.objective.plain_function",
    "choices": "hpo.trials.space.written",
    "compare_strategies": "hpo.commands.compare",
    "compare_studies": "hpo.commands.compare",
    "compose": "hpo.commands.search",
    "coordinate_check": "hpo.commands.scale",
    "import_trials": "hpo.commands.exchange",
    "load": "hpo.commands.search",
    "log": "hpo.trials.space.written",
    "new": "hpo.commands.new",
    "objective": "hpo.workers.objective.objective",
    "open": "hpo.commands.session",
    "open_ui": "hpo.commands.serve",
    "replay": "hpo.commands.replay",
    "reproduce": "hpo.commands.reproduce",
    "scale_table": "hpo.commands.scale",
    "search": "hpo.commands.search",
    "studies": "hpo.commands.show",
    "train": "hpo.commands.train",
    "unarchive": "hpo.commands.search",
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
