"""The dispatchers by name, and how one is made from a configuration."""

from pathlib import Path

from hpo.config_sections import DispatchSection
from hpo.dispatch.local import LocalDispatcher
from hpo.dispatch.protocol import Dispatcher, Report
from hpo.dispatch.simulated import SimulatedDispatcher
from hpo.sealing import opened, values_of

__all__ = ["Dispatcher", "Report", "make_dispatcher"]


def make_dispatcher(settings: DispatchSection) -> Dispatcher:
    """Return the dispatcher that `settings.name` names, its workers started.

    A user's objective is imported from the working directory besides the installed packages.

    Raises:
        DispatchError: when the workers cannot be had as asked.
    """
    import_from = str(Path.cwd())
    if settings.name == "local":
        return LocalDispatcher(import_from)
    if settings.name == "simulated":
        return SimulatedDispatcher(settings.workers or 1, import_from)
    if settings.address is not None:
        address = opened(settings.address, values_of(settings.address, {}, "dispatch.address"))
        settings = settings.model_copy(update={"address": address})
    from hpo.dispatch.ray_pool import RayDispatcher  # Ray is imported only where it is used.

    return RayDispatcher(settings, import_from)
