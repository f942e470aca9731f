"""What a search needs outside of its study: addresses and GPUs, as far as its configuration tells without asking."""

from pathlib import Path

from hpo.config.sealing import Secrets, hidden, opened, values_of
from hpo.config.sections import DispatchSection
from hpo.config.study_config import StudyConfig
from hpo.engine.dispatch.ray.address import refuse_unclear_address
from hpo.engine.dispatch.ray.shares import refuse_too_many
from hpo.errors import StudyError, first_line
from hpo.place import refuse_unknown
from hpo.track import refuse_bad_uri


def refuse_bad_surroundings(config: StudyConfig) -> None:
    """Raise HpoError for an address that cannot lead anywhere, and for more GPUs than are given.

    Nothing is created and nobody is asked: whether somebody answers is seen when the search begins.
    """
    refuse_bad_uri(config)
    for url, key in ((config.study.artifacts, "study.artifacts"), (config.study.mirror, "study.mirror")):
        if url is not None:
            refuse_unknown(url, key)
    if config.study.storage is not None:
        _refuse_bad_storage(config.study.storage, config.secrets)
    if config.dispatch.name == "ray":
        _refuse_bad_cluster(config.dispatch, config.secrets)


def _refuse_bad_storage(address: str, secrets: Secrets) -> None:
    """Raise StudyError for an address that SQLAlchemy cannot use, and for a file where none can be."""
    # Here, since most studies have no such address and loading takes a third of a second.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    values = values_of(address, secrets, "study.storage")
    url = opened(address, values)
    told = hidden(url, values)
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except (ArgumentError, ImportError, ValueError) as error:
        raise StudyError(
            f"study.storage: {told} cannot be used: {hidden(first_line(error), values)}; it must be null, or an Optuna "
            f"storage such as sqlite:///file.db"
        ) from error
    if not parsed.drivername.startswith("sqlite"):
        return
    if not parsed.database or parsed.database.startswith((":memory:", "file:")):
        raise StudyError(f"study.storage: '{told}' does not name a file; give one, such as sqlite:///file.db, or null")
    if not (folder := Path(parsed.database).parent).is_dir():
        raise StudyError(f"study.storage: there is no folder {folder} for '{told}'; make it, or give another file")


def _refuse_bad_cluster(settings: DispatchSection, secrets: Secrets) -> None:
    if settings.address is None and settings.gpus is not None:
        refuse_too_many("GPU", settings.workers or 1, settings.gpus_per_worker or 0, settings.gpus)
    if settings.address is not None and not settings.allow_open_cluster:
        refuse_unclear_address(opened(settings.address, values_of(settings.address, secrets, "dispatch.address")))
