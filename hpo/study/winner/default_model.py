"""The default configuration, trained as the winner was, so that the test part scores both.

A search has overtuned if on unseen examples its result is not better than its start.

Source: Schneider et al. 2025, "Overtuning in Hyperparameter Optimization" (arXiv 2506.19540).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hpo.engine.dispatch.process.here import run_here
from hpo.engine.training.worker import outcome_of
from hpo.engine.trials.trial import Outcome, Trial
from hpo.errors import MachineError
from hpo.study.study import Study

# The configuration without any point of the space.
DEFAULT = Trial(number=-1, round=-1, point={})


@dataclass(frozen=True)
class DefaultModel:
    """The model's folder (None where the objective keeps no models, or the training failed), and its one-line error."""

    checkpoint_dir: str | None
    error: str | None


@contextmanager
def default_model(study: Study) -> Iterator[DefaultModel]:
    """Train the default configuration in this process, and keep its model until the end of the block.

    With a hold-out it is stopped early on that, as every trial was; with folds it is trained on all of them together
    for all epochs, since its best epoch is not known. An objective that keeps no models trains when it is scored.
    """
    if not study.keeps_models:
        yield DefaultModel(None, None)
        return
    with TemporaryDirectory(prefix="hpo-default-") as scratch:
        builder = replace(study.task_builder(), checkpoints_dir=Path(scratch))
        is_hold_out = study.num_folds == 1
        task = builder.tasks_of(DEFAULT)[0] if is_hold_out else builder.final_task(DEFAULT, amount=None)
        try:
            outcome = outcome_of(run_here(task.payload))
        except MachineError as error:
            outcome = Outcome(error=str(error))
        yield DefaultModel(None if outcome.error else task.payload.checkpoint_dir, outcome.error)
