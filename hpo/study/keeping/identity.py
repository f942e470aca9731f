"""Which study a folder holds, also where its record is damaged."""

from contextlib import suppress

from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError
from hpo.study.files.folder import StudyFolder
from hpo.trials.record.own_file import read_mark


def study_id_of(folder: StudyFolder, config: StudyConfig | None) -> str | None:
    """Return the id of the study in a folder; None where neither its mark nor its record says it."""
    mark = read_mark(folder.database_path)
    if mark is not None or config is None:
        return mark.study_id if mark else None
    # Here, since it takes a third of a second: only a study that came from elsewhere has no mark yet.
    from hpo.trials.record.record import LAST
    from hpo.trials.record.storage import look_up

    found = None
    with suppress(HpoError):
        found = look_up(folder.storage_url(config), config.study.name)[1].get(LAST)
    return found if isinstance(found, str) else None
