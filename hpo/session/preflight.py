"""What a study needs around it, and what can be said of that before anything begins."""

import shlex
import shutil

from hpo.config.secrets import reveal_secrets, values_of
from hpo.config.study_config import StudyConfig
from hpo.errors import ConfigError
from hpo.place import refuse_unknown
from hpo.track.make import refuse_bad_uri
from hpo.workers.dispatch.ray.address import refuse_unclear_address
from hpo.workers.dispatch.ray.shares import refuse_too_many


def run_preflight_checks(config: StudyConfig) -> None:
    """Raise HpoError for an address that cannot lead anywhere, a missing program, and more GPUs than are given.

    Nothing is created and nobody is asked: whether somebody answers is seen when the search begins.
    """
    refuse_bad_uri(config)
    if (command := config.study.on_trial) is not None and shutil.which(shlex.split(command)[0]) is None:
        raise ConfigError(
            f"study.on_trial: there is no program {shlex.split(command)[0]!r}; give one that is installed"
        )
    for url, key in ((config.study.artifacts, "study.artifacts"), (config.study.mirror, "study.mirror")):
        if url is not None:
            refuse_unknown(url, key)
    if config.study.storage is not None:
        # Here, since most studies have no such address and loading takes a third of a second.
        from hpo.trials.record.storage import refuse_unusable

        values = values_of(config.study.storage, config.secrets, "study.storage")
        refuse_unusable(reveal_secrets(config.study.storage, values), values)
    settings, address = config.dispatch, config.dispatch.address
    if not settings.type.has_own_processes:
        return
    if address is None and settings.gpus is not None:
        refuse_too_many("GPU", settings.workers or 1, settings.gpus_per_worker or 0, settings.gpus)
    if address is not None and not settings.allow_open_cluster:
        refuse_unclear_address(reveal_secrets(address, values_of(address, config.secrets, "dispatch.address")))
