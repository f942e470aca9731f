"""Begins the Ray of a search, and the workers in it."""

import sys
import uuid

from hpo.config.sections import DispatchSection
from hpo.engine.dispatch.away.code import Code, staged
from hpo.engine.dispatch.ray import worker as ray_worker
from hpo.engine.dispatch.ray.cluster import RayCluster
from hpo.engine.dispatch.ray.crew import Crew
from hpo.engine.dispatch.ray.shares import refuse_too_many, shares_on
from hpo.engine.objective.modules import is_root
from hpo.errors import DispatchError


def hire(
    settings: DispatchSection, import_from: str | None, code: Code, artifacts: str | None
) -> tuple[RayCluster, Crew]:
    """Return a connection to Ray, and its workers, one for each slot, which are starting; see `Setup`."""
    if settings.address is None and settings.gpus is not None:
        # Refuse before Ray is started what can be refused then.
        refuse_too_many("GPU", settings.workers or 1, settings.gpus_per_worker or 0, settings.gpus)
    with staged(code) as folder:
        # Workers of a joined cluster do not inherit this environment, so they are sent the number of threads.
        own = settings.environment
        environment = {**own, "env_vars": {"OMP_NUM_THREADS": str(settings.threads), **own.get("env_vars", {})}}
        if folder is not None:
            environment["working_dir"] = str(folder)
        cluster = RayCluster(
            settings.address, settings.gpus, settings.threads, settings.allow_open_cluster, environment
        )
    import ray

    ray.cloudpickle.register_pickle_by_value(ray_worker)  # type: ignore[no-untyped-call]  # Ray has no types there.
    try:
        shares = shares_on(cluster.nodes, settings)
        came_with_code = settings.address is not None and bool(code.files)
        equipment = ray_worker.Equipment(
            import_from=None if came_with_code else import_from,
            is_toolkits=not came_with_code and is_root(import_from or "."),
            package=code.package,
            driver=cluster.driver,
            sees_gpus=shares.gpus > 0,
            memory_share=shares.memory,
            fresh_process=settings.fresh_process,
            search=uuid.uuid4().hex,
            most_bytes=settings.largest_message * 2**20,
            artifacts=artifacts,
            arguments=tuple(sys.argv),
        )
        crew = Crew(ray_worker.RayWorker, equipment, settings, shares, environment if cluster.is_adopted else None)
        for node in cluster.on_others(ray_worker.look, equipment):
            crew.refuse_unlike(node)
    except DispatchError:
        cluster.close()
        raise
    for _ in range(shares.workers):
        crew.start()
    return cluster, crew
