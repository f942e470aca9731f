"""What the workers of a search have of the GPUs, in one line."""

from hpo.config.sections import DispatchSection
from hpo.engine.dispatch.dispatcher import Gpus


def gpus_in_words(gpus: Gpus, dispatch: DispatchSection) -> str | None:
    """Return the line; None where there are no GPUs."""
    there = f"{gpus.there:g} GPU{'' if gpus.there == 1 else 's'}"
    if not gpus.there:
        return None
    if not gpus.share:
        return f"{there}, and the workers see none: dispatch.gpus_per_worker=null gives each a share"
    if gpus.share < 1:
        return f"{there}: {gpus.share:g} of one for each worker"
    each = f"{there}: {gpus.share:g} for each worker"
    if dispatch.gpus_per_worker is not None:
        return each
    return f"{each}; dispatch.workers={2 * gpus.there:g} would train two on each, which small networks leave room for"
