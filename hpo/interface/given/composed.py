"""The configuration of a search from what somebody has written: overrides, groups, or a whole configuration."""

from collections.abc import Sequence
from typing import Any


def composed(overrides: Sequence[str], config_dir: str | None = None, config_file: str | None = None) -> dict[str, Any]:
    """Return what `compose_config` does for `search`, its space in the explicit form.

    That of a whole configuration, which may be a frozen one, keeps its meaning.
    """
    # Here, so that `--help` does not wait for Hydra.
    from hpo.config.composing.compose import compose_config
    from hpo.engine.space.written import as_meant

    tree = compose_config("search", overrides, config_dir, config_file)
    return tree if config_file else tree | {"space": as_meant(tree["space"])}
