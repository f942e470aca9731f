"""What the workers of a search have of the GPUs, in one line."""

from hpo.config.sections import DispatchSection
from hpo.engine.dispatch.dispatcher import Gpus
from hpo.machine import GIB
from hpo.study.basis.environment import gpu_driver


def gpus_in_words(gpus: Gpus, dispatch: DispatchSection) -> str | None:
    """Return the line; None where there are no GPUs."""
    kinds = ", ".join((*gpus.kinds, *([f"driver {driver}"] if (driver := gpu_driver()) else [])))
    there = f"{gpus.there:g} GPU{'' if gpus.there == 1 else 's'}{f' ({kinds})' if kinds else ''}"
    if not gpus.there:
        return None
    if not gpus.share:
        return f"{there}, and the workers see none: dispatch.gpus_per_worker=null gives each a share"
    if gpus.share < 1:
        part = gpus.share if dispatch.memory_per_worker is None else dispatch.memory_per_worker
        return f"{there}: {gpus.share:g} of one for each worker, which may hold {part:.0%} of its memory"
    each = f"{there}: {gpus.share:g} for each worker"
    if dispatch.gpus_per_worker is not None:
        return each
    return f"{each}; dispatch.workers={2 * gpus.there:g} would train two on each, which small networks leave room for"


def peak_in_words(peak: int, total: int) -> str:
    """Return what a training held of its GPU, in bytes, and how many of its kind would fit on one."""
    return (
        f"the first training held {peak / GIB:.2g} of {total / GIB:.3g} GiB of its GPU: about {total // max(peak, 1)} "
        f"like it fit on one (dispatch.workers)"
    )
