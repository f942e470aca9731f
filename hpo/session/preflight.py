"""Preflight checks before a study is created or continued: addresses, programs and GPUs."""

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
    """Raise HpoError for an invalid address, a missing program, or too few GPUs.

    Create nothing and contact no server: the search finds out whether a server answers.
    """
    refuse_bad_uri(config)
    if (command := config.study.on_trial) is not None and shutil.which(shlex.split(command)[0]) is None:
        raise ConfigError(
            f"study.on_trial: must begin with an installed program, given {shlex.split(command)[0]!r}; install it, or "
            f"give another command"
        )
    for url, key in ((config.study.artifacts, "study.artifacts"), (config.study.mirror, "study.mirror")):
        if url is not None:
            refuse_unknown(url, key)
    if config.study.storage is not None:
        # Import late: loading takes a third of a second, and most studies have no such address.
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
