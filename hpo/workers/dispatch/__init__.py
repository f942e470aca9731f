"""How a dispatcher is made from a configuration; their names stand in `hpo.config.sections`."""

import importlib
from pathlib import Path

from hpo.config.sealing import Secrets, open_sealed, values_of
from hpo.config.sections import DispatchSection
from hpo.workers.dispatch.code import Code, code_of
from hpo.workers.dispatch.dispatcher import Dispatcher, Setup, TaskReport
from hpo.workers.objective.objective import Objective

__all__ = ["Code", "Dispatcher", "TaskReport", "code_to_send", "make_dispatcher"]


def make_dispatcher(
    settings: DispatchSection, secrets: Secrets | None = None, code: Code | None = None, artifacts: str | None = None
) -> Dispatcher:
    """Return the dispatcher that `settings.name` names, its workers started; DispatchError where they cannot be.

    `secrets` are values for the address, besides the environment; for the others see `Setup`.
    """
    if settings.address is not None:
        address = open_sealed(settings.address, values_of(settings.address, secrets or {}, "dispatch.address"))
        settings = settings.model_copy(update={"address": address})
    setup = Setup(settings=settings, import_from=str(Path.cwd()), code=code, artifacts=artifacts)
    module, _, name = settings.type.path.partition(":")
    made: Dispatcher = getattr(importlib.import_module(module), name).of(setup)
    return made


def code_to_send(settings: DispatchSection, objective: Objective) -> Code | None:
    """Return what of an objective's code the nodes of a cluster need; None where no cluster is joined."""
    return None if settings.address is None else code_of(objective, str(Path.cwd()))
